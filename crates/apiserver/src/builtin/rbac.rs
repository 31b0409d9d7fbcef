//! Roles and bindings: what they have to look like. What they grant, and who may grant it, is left to
//! [`crate::auth`].

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::{json, names, selector};
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::rules::Errors;
use crate::registry::{MetadataChecks, NameRule, Operation, Strategy};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles and ClusterRoles.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) namespaced: bool,
}

/// RoleBindings and ClusterRoleBindings.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) namespaced: bool,
}

fn list<'a>(object: &'a Map, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).unwrap_or_default()
}

impl Strategy for Role {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 1, core: true }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn validate(&self, _operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let mut errors = Errors::default();
        for (index, rule) in list(object, "rules").iter().enumerate() {
            check_rule(rule, self.namespaced, &Path::new("rules").index(index), &mut errors);
        }
        if let Some(Value::Object(rule)) = object.get("aggregationRule") {
            check_aggregation(rule, &mut errors);
        }
        errors.into_vec()
    }
}

fn check_rule(rule: &Value, namespaced: bool, path: &Path, errors: &mut Errors) {
    let has = |field: &str| rule.get(field).and_then(Value::as_array).is_some_and(|items| !items.is_empty());
    if !has("verbs") {
        errors.push(FieldError::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if let Some(urls) = rule.get("nonResourceURLs").filter(|_| has("nonResourceURLs")) {
        let mut refuse = |detail: &str| errors.push(FieldError::invalid(&path.child("nonResourceURLs"), urls, detail));
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if !has("apiGroups") {
        errors
            .push(FieldError::required(&path.child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if !has("resources") {
        errors.push(FieldError::required(&path.child("resources"), "resource rules must supply at least one resource"));
    }
}

fn check_aggregation(rule: &Map, errors: &mut Errors) {
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = list(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(&path, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        errors.extend(selector.as_object().map(|map| selector::validate_object(map, &path)).unwrap_or_default());
        if selector::LabelSelector::from_object(Some(selector)).is_err() {
            errors.push(FieldError::invalid(&path, ShownValue::raw("null"), "invalid label selector."));
        }
    }
}

impl Binding {
    fn role_kinds(&self) -> &'static [&'static str] {
        if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] }
    }
}

impl Strategy for Binding {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 1, core: true }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Map) {
        if let Some(role) = object.object_mut("roleRef")
            && cells::text(role, &["apiGroup"]).is_empty()
        {
            role.insert("apiGroup", GROUP);
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(subject) = subject.as_object_mut() else { continue };
            if cells::text(subject, &["apiGroup"]).is_empty()
                && matches!(cells::text(subject, &["kind"]), "User" | "Group")
            {
                subject.insert("apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let path = Path::new("roleRef");
        let role = |field: &str| cells::text(object, &["roleRef", field]);
        if role("apiGroup") != GROUP {
            errors.push(FieldError::not_supported(&path.child("apiGroup"), role("apiGroup"), &[GROUP]));
        }
        if !self.role_kinds().contains(&role("kind")) {
            errors.push(FieldError::not_supported(&path.child("kind"), role("kind"), self.role_kinds()));
        }
        if role("name").is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else {
            let faults = names::path_segment(role("name"));
            errors.extend(faults.iter().map(|fault| FieldError::invalid(&path.child("name"), role("name"), *fault)));
        }
        for (index, subject) in list(object, "subjects").iter().enumerate() {
            if let Some(subject) = subject.as_object() {
                check_subject(subject, self.namespaced, &Path::new("subjects").index(index), &mut errors);
            }
        }
        if let Operation::Update { old, .. } = operation
            && old.get("roleRef") != object.get("roleRef")
        {
            let shown = json!({"APIGroup": (role("apiGroup")), "Kind": (role("kind")), "Name": (role("name"))});
            errors.push(FieldError::invalid(&path, &shown, "cannot change roleRef"));
        }
        errors.into_vec()
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        let role = ["kind", "name"].map(|field| cells::text(object, &["roleRef", field])).join("/");
        let mut cells = vec![cells::name(object), Value::from(role), cells::age(object, now)];
        for kind in ["User", "Group", "ServiceAccount"] {
            let subjects = list(object, "subjects").iter().filter_map(Value::as_object);
            let names = subjects.filter(|subject| cells::text(subject, &["kind"]) == kind).map(|subject| {
                let name = cells::text(subject, &["name"]);
                match (kind, cells::text(subject, &["namespace"])) {
                    ("ServiceAccount", namespace) => format!("{namespace}/{name}"),
                    _ => name.to_owned(),
                }
            });
            cells.push(Value::from(names.collect::<Vec<_>>().join(", ")));
        }
        Some(cells)
    }
}

fn check_subject(subject: &Map, namespaced: bool, path: &Path, errors: &mut Errors) {
    let text = |field: &str| cells::text(subject, &[field]);
    if text("name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match text("kind") {
        "ServiceAccount" => {
            if !text("name").is_empty() {
                let faults = names::dns1123_subdomain(text("name"));
                errors
                    .extend(faults.iter().map(|fault| FieldError::invalid(&path.child("name"), text("name"), *fault)));
            }
            if !text("apiGroup").is_empty() {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), text("apiGroup"), &[""]));
            }
            if !namespaced && text("namespace").is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if text("apiGroup") != GROUP {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), text("apiGroup"), &[GROUP]));
            }
        }
        other => {
            errors.push(FieldError::not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::judged::check;

    #[test]
    fn rules_are_on_resources_or_on_paths() {
        check(
            &Role { namespaced: true },
            None,
            json!({"rules": [{"apiGroups": [""], "resources": ["x"]}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[1].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
            ],
        );
        check(
            &Role { namespaced: false },
            None,
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}, {"verbs": ["get"]}], "aggregationRule": {}}),
            &[
                "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[1].resources: Required value: resource rules must supply at least one resource",
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ],
        );
    }

    #[test]
    fn bindings_keep_their_role_and_default_their_groups() {
        let binding = |name: &str| json!({"roleRef": {"kind": "Role", "name": name}, "subjects": [{"kind": "User", "name": "u"}]});
        check(&Binding { namespaced: true }, None, binding("a"), &[]);
        check(
            &Binding { namespaced: true },
            Some(json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}})),
            binding("b"),
            &[
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot change roleRef",
            ],
        );
        check(
            &Binding { namespaced: false },
            None,
            json!({"roleRef": {"kind": "ClusterRole", "name": "a/b"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
            &["roleRef.name: Invalid value: \"a/b\": may not contain '/'", "subjects[0].namespace: Required value"],
        );
    }
}
