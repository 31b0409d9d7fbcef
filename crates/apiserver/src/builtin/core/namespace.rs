//! Namespaces: their finalizers, phase and label. Emptying a namespace that is being deleted is left to
//! [`crate::loops`].

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::{metadata_mut, metadata_str};
use allotment_machinery::{json, names};
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::rules::Errors;
use crate::registry::{MetadataChecks, NameRule, Operation, Strategy};

/// The label that carries a namespace's name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer that every namespace begins with; it goes when the namespace is empty.
pub(crate) const FINALIZER: &str = "kubernetes";

/// Namespaces that a cluster cannot be without.
const PROTECTED: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Namespaces.
#[derive(Debug)]
pub(crate) struct Namespace;

fn finalizers(object: &Map) -> &[Value] {
    object.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array).unwrap_or_default()
}

fn keep(object: &mut Map, old: &Map, field: &str) {
    match old.get(field) {
        Some(value) => object.insert(field, value.clone()),
        None => object.remove(field),
    };
}

impl Strategy for Namespace {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 1, core: true }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn default(&self, object: &mut Map) {
        self.canonicalise(object);
        if let Some(status) = object.object_mut("status") {
            status.get_or_insert_with("phase", || Value::from("Active"));
        }
    }

    fn prepare(&self, operation: Operation<'_>, object: &mut Map) {
        match operation {
            Operation::Create => {
                object.insert("status", json!({"phase": "Active"}));
                if !finalizers(object).iter().any(|name| name.as_str() == Some(FINALIZER))
                    && let Some(spec) = object.object_mut("spec")
                {
                    let list = spec.get_or_insert_with("finalizers", || Value::Array(Vec::new()));
                    if let Some(list) = list.as_array_mut() {
                        list.push(Value::from(FINALIZER));
                    }
                }
            }
            Operation::Update { old, subresource: "finalize" } => keep(object, old, "status"),
            Operation::Update { old, subresource: "status" } => keep(object, old, "spec"),
            Operation::Update { old, .. } => {
                keep(object, old, "spec");
                keep(object, old, "status");
            }
        }
        self.canonicalise(object);
    }

    fn reset_fields(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "finalize").then_some(&["status"])
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let mut errors = Errors::default();
        match operation {
            Operation::Create | Operation::Update { subresource: "finalize", .. } => {
                let path = Path::new("spec").child("finalizers");
                for (index, name) in finalizers(object).iter().enumerate() {
                    // A namespace that is created is checked without saying which of the list it is.
                    let path = if matches!(operation, Operation::Create) { path.clone() } else { path.index(index) };
                    check_finalizer(name.as_str().unwrap_or_default(), &path, &mut errors);
                }
            }
            Operation::Update { subresource: "status", .. } => check_phase(object, &mut errors),
            Operation::Update { .. } => {}
        }
        errors.into_vec()
    }

    fn canonicalise(&self, object: &mut Map) {
        let Some(name) = metadata_str(object, "name").filter(|name| !name.is_empty()).map(str::to_owned) else {
            return;
        };
        if let Some(labels) = metadata_mut(object).and_then(|metadata| metadata.object_mut("labels")) {
            labels.insert(NAME_LABEL, name);
        }
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        let phase = Value::from(cells::text(object, &["status", "phase"]));
        Some(vec![cells::name(object), phase, cells::age(object, now)])
    }

    fn delete_answers_object(&self) -> bool {
        true
    }

    /// The first deletion marks a namespace, even one that is empty.
    fn ends_gracefully(&self) -> bool {
        true
    }

    fn begin_deletion(&self, object: &mut Map) {
        if let Some(status) = object.object_mut("status") {
            status.insert("phase", "Terminating");
        }
        if let Some(metadata) = metadata_mut(object) {
            metadata.remove("deletionGracePeriodSeconds");
            // What is deleted in two steps has its deletion not counted, as by kube-apiserver.
            let counted = metadata.get("generation").and_then(Value::as_i64).filter(|count| *count > 1);
            if let Some(generation) = counted {
                metadata.insert("generation", generation - 1);
            }
        }
    }

    fn holds_deletion(&self, object: &Map) -> bool {
        !finalizers(object).is_empty()
    }

    fn refuses_deletion(&self, object: &Map) -> Option<String> {
        let protected = metadata_str(object, "name").is_some_and(|name| PROTECTED.contains(&name));
        protected.then(|| "this namespace may not be deleted".to_owned())
    }
}

fn check_finalizer(name: &str, path: &Path, errors: &mut Errors) {
    let faults = names::qualified_name(name);
    errors.extend(faults.iter().map(|fault| FieldError::invalid(path, name, *fault)));
    if !name.contains('/') && ![FINALIZER, "orphan", "foregroundDeletion"].contains(&name) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn check_phase(object: &Map, errors: &mut Errors) {
    let phase = cells::text(object, &["status", "phase"]);
    let (only, detail) = match metadata_str(object, "deletionTimestamp") {
        None => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        Some(_) => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    if phase != only {
        errors.push(FieldError::invalid(&Path::new("status").child("Phase"), phase, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: &Value) -> Map {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_new_namespace_is_active_and_held_by_its_finalizer() {
        let mut namespace = object(&json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "wrong"}},
            "spec": {"finalizers": ["example.com/f"]}, "status": {"phase": "Terminating"}
        }));
        Namespace.prepare(Operation::Create, &mut namespace);
        assert_eq!(
            Value::Object(namespace.clone()),
            json!({
                "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}},
                "spec": {"finalizers": ["example.com/f", "kubernetes"]}, "status": {"phase": "Active"}
            })
        );
        assert_eq!(Namespace.validate(Operation::Create, &namespace), []);
        assert!(Namespace.holds_deletion(&namespace));
    }

    #[test]
    fn each_subresource_changes_its_own_part() {
        let old = object(
            &json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
        );
        let sent = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["a"]}, "status": {"phase": "X"}});
        for (subresource, finalizer, phase) in
            [("", "kubernetes", "Active"), ("status", "kubernetes", "X"), ("finalize", "a", "Active")]
        {
            let mut new = object(&sent);
            Namespace.prepare(Operation::Update { old: &old, subresource }, &mut new);
            assert_eq!(new.get("spec"), Some(&json!({"finalizers": [finalizer]})), "{subresource}");
            assert_eq!(new.get("status"), Some(&json!({"phase": phase})), "{subresource}");
        }
    }

    #[test]
    fn finalizers_are_standard_or_have_a_domain() {
        let old = object(&json!({}));
        let new = object(&json!({"spec": {"finalizers": ["kubernetes", "a", "b c", "example.com/x"]}}));
        let errors = Namespace.validate(Operation::Update { old: &old, subresource: "finalize" }, &new);
        let paths: Vec<String> = errors.iter().map(|error| error.path.to_string()).collect();
        // What is no name at all is no standard one either.
        assert_eq!(paths, ["spec.finalizers[1]", "spec.finalizers[2]", "spec.finalizers[2]"]);
    }
}
