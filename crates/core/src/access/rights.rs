//! What a tenant of a shared Cluster may do about rights outside namespaces: it gives none to those who are not kept to its own
//! prefix. Else a right that is safe in its own hands, to delete Namespaces say, would have no bounds in those of a stranger.
//!
//! Once as a function, for logical clusters, and once in CEL, for other API servers; one table of cases is put to both.
//!
//! # Guarantees
//! - Subjects of the ClusterRoleBindings that it writes are ServiceAccounts in namespaces that begin with its prefix, and the
//!   groups of all ServiceAccounts of one such namespace.
//! - ClusterRoles that it writes add nothing to aggregated ClusterRoles of others.
//! - It approves no certificates: these are of users, who are kept to nothing.
//!
//! # Caveats
//! RoleBindings are not looked at: what strangers may do in a tenant's namespaces is the tenant's to say. Accounts in
//! `allot-access` are no subjects either: an AccessRequest alone says what its identity may do, else narrowing would not
//! take everything back.

use allotment_machinery::json::Value;

const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
/// Begins the group of all ServiceAccounts of a namespace.
const ACCOUNTS_OF: &str = "system:serviceaccounts:";
/// How the labels are named, after their domain, by which Kubernetes and others aggregate ClusterRoles. Which they really are,
/// each aggregated ClusterRole says for itself.
const AGGREGATE: &str = "aggregate-to-";

/// Something outside namespaces that is created or updated.
#[derive(Clone, Copy, Debug)]
pub struct Writing<'a> {
    /// API group.
    pub group: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// Subresource; empty where there is none.
    pub subresource: &'a str,
    /// The object as it is going to be.
    pub object: &'a Value,
}

impl Writing<'_> {
    /// Why somebody who is kept to that prefix may not write it, whatever its name.
    pub fn refusal(&self, prefix: &str) -> Option<String> {
        let refused = match (self.group, self.resource, self.subresource) {
            (RBAC, "clusterrolebindings", _) => self.list("subjects").iter().any(|subject| !is_own(prefix, subject)),
            (RBAC, "clusterroles", _) => self.labels().any(|label| adds_to_others(prefix, label)),
            (CERTIFICATES, "certificatesigningrequests", "approval") => true,
            _ => false,
        };
        refused.then(|| match self.resource {
            "clusterrolebindings" => format!("{SUBJECTS} \"{prefix}\"{OR_GROUPS}"),
            "clusterroles" => format!("{LABELS} \"{prefix}\""),
            _ => CERTIFIES.to_owned(),
        })
    }

    fn list(&self, member: &str) -> &[Value] {
        self.object.get(member).and_then(Value::as_array).map_or(&[], |list| list)
    }

    fn labels(&self) -> impl Iterator<Item = &str> {
        let labels = self.object.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
        labels.into_iter().flat_map(|labels| labels.keys())
    }
}

fn is_own(prefix: &str, subject: &Value) -> bool {
    let text = |member: &str| subject.get(member).and_then(Value::as_str).unwrap_or_default();
    match text("kind") {
        "ServiceAccount" => text("namespace").starts_with(prefix),
        "Group" => text("name").strip_prefix(ACCOUNTS_OF).is_some_and(|namespace| namespace.starts_with(prefix)),
        _ => false,
    }
}

fn adds_to_others(prefix: &str, label: &str) -> bool {
    let name = label.split_once('/').map_or(label, |(_, name)| name);
    name.strip_prefix(AGGREGATE).is_some_and(|role| !role.starts_with(prefix))
}

const SUBJECTS: &str =
    "this cluster is shared: subjects of a ClusterRoleBinding have to be ServiceAccounts in namespaces that begin with";
const OR_GROUPS: &str = ", or the group system:serviceaccounts:NAMESPACE of one such; in a namespace of your own, a RoleBinding may name others";
const LABELS: &str =
    "this cluster is shared: a ClusterRole may have labels aggregate-to-ROLE only where ROLE begins with";
const CERTIFIES: &str =
    "this cluster is shared: certificates are for its operators to approve, since users are kept to no prefix";

/// The same in CEL, as expression, message and expression of the message: what `variables.prefix` keeps to. Holds for everybody
/// for whom `exempt` does.
pub(super) fn expressions(exempt: &str) -> [(String, String, Option<String>); 3] {
    let written = |group: &str, resource: &str| {
        format!(
            "request.operation != 'DELETE' && request.resource.group == '{group}' && request.resource.resource == '{resource}'"
        )
    };
    let own = format!(
        "(s.kind == 'ServiceAccount' && has(s.namespace) && s.namespace.startsWith(variables.prefix)) \
         || (s.kind == 'Group' && s.name.startsWith('{ACCOUNTS_OF}' + variables.prefix))"
    );
    let label = format!(
        "!l.substring(l.indexOf('/') + 1).startsWith('{AGGREGATE}') \
         || l.substring(l.indexOf('/') + 1).startsWith('{AGGREGATE}' + variables.prefix)"
    );
    let unless = |written: String, rest: String| format!("{exempt} || !({written}) || {rest}");
    let with_prefix = |words: &str, after: &str| Some(format!("'{words} \"' + variables.prefix + '\"{after}'"));
    [
        (
            unless(
                written(RBAC, "clusterrolebindings"),
                format!("!has(object.subjects) || object.subjects.all(s, {own})"),
            ),
            format!("{SUBJECTS} the tenant's prefix{OR_GROUPS}"),
            with_prefix(SUBJECTS, OR_GROUPS),
        ),
        (
            unless(
                written(RBAC, "clusterroles"),
                format!("!has(object.metadata.labels) || object.metadata.labels.all(l, {label})"),
            ),
            format!("{LABELS} the tenant's prefix"),
            with_prefix(LABELS, ""),
        ),
        (
            unless(
                format!(
                    "{} && has(request.subResource) && request.subResource == 'approval'",
                    written(CERTIFICATES, "certificatesigningrequests")
                ),
                "false".to_owned(),
            ),
            CERTIFIES.to_owned(),
            None,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;

    #[test]
    fn rights_outside_namespaces_stay_within_the_prefix() {
        let account = r#"{"kind":"ServiceAccount","name":"x","namespace":"foo-app"}"#;
        let to = |subjects: &str| format!(r#"{{"subjects":[{subjects}]}}"#);
        let labelled = |label: &str| format!(r#"{{"metadata":{{"labels":{{"{label}":"true"}}}}}}"#);
        for (group, resource, subresource, object, expect) in [
            (RBAC, "clusterrolebindings", "", "{}".to_owned(), true),
            (RBAC, "clusterrolebindings", "", to(account), true),
            (RBAC, "clusterrolebindings", "", to(&format!(r#"{account},{{"kind":"User","name":"foo-x"}}"#)), false),
            (RBAC, "clusterrolebindings", "", to(r#"{"kind":"ServiceAccount","name":"foo-x"}"#), false),
            (RBAC, "clusterrolebindings", "", to(r#"{"kind":"Group","name":"system:serviceaccounts:foo-a"}"#), true),
            (RBAC, "clusterrolebindings", "", to(r#"{"kind":"Group","name":"system:serviceaccounts:"}"#), false),
            (RBAC, "clusterrolebindings", "", to("{}"), false),
            (RBAC, "clusterrolebindings", "", to("null"), false),
            ("example.com", "clusterrolebindings", "", to(r#"{"kind":"User","name":"x"}"#), true),
            (RBAC, "clusterroles", "", labelled("example.com/aggregate-to-foo-x"), true),
            (RBAC, "clusterroles", "", labelled("aggregate-to-foo-.example.com/aggregate-to-view"), false),
            ("", "namespaces", "", labelled("example.com/aggregate-to-view"), true),
            (CERTIFICATES, "certificatesigningrequests", "", "{}".to_owned(), true),
            (CERTIFICATES, "certificatesigningrequests", "approval", "{}".to_owned(), false),
        ] {
            let object = parse(object.as_bytes()).expect("JSON");
            let refusal = Writing { group, resource, subresource, object: &object }.refusal("foo-");
            assert_eq!(refusal.is_none(), expect, "{resource} {object:?}: {refusal:?}");
        }
    }
}
