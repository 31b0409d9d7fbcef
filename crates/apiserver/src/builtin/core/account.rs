//! ServiceAccounts and Leases.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::rules::Errors;
use crate::registry::{MetadataChecks, Operation, Strategy};

/// ServiceAccounts.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

/// Leases.
#[derive(Debug)]
pub(crate) struct Lease;

impl Strategy for ServiceAccount {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 1, core: true }
    }

    fn prepare(&self, _operation: Operation<'_>, object: &mut Map) {
        // Of what a reference could say only the name means something here.
        for secret in object.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(secret) = secret.as_object_mut() {
                secret.retain(|key, _| key == "name");
            }
        }
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![cells::name(object), cells::age(object, now)])
    }

    fn delete_answers_object(&self) -> bool {
        true
    }
}

impl Strategy for Lease {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn prepare(&self, operation: Operation<'_>, object: &mut Map) {
        // Coordinated leader election is a gate that Kubernetes leaves closed; so it is here.
        let old = match operation {
            Operation::Create => None,
            Operation::Update { old, .. } => old.get("spec"),
        };
        if let Some(Value::Object(spec)) = object.get_mut("spec") {
            for field in ["strategy", "preferredHolder"] {
                if old.and_then(|spec| spec.get(field)).is_none() {
                    spec.remove(field);
                }
            }
        }
    }

    fn validate(&self, _operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let path = Path::new("spec");
        let number = |field: &str| object.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_i64);
        if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            errors.push(FieldError::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
        }
        if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&path.child("leaseTransitions"), count, detail));
        }
        let strategy = cells::text(object, &["spec", "strategy"]);
        if !strategy.is_empty() {
            let path = path.child("strategy").child("strategy");
            if !strategy.contains('/') {
                if strategy != "OldestEmulationVersion" {
                    errors.push(FieldError::not_supported(&path, strategy, &["OldestEmulationVersion"]));
                }
            } else {
                let faults = names::qualified_name(strategy);
                errors.extend(faults.into_iter().map(|fault| FieldError::invalid(&path, strategy, fault)));
            }
        } else if !cells::text(object, &["spec", "preferredHolder"]).is_empty() {
            let detail = "may only be specified if `strategy` is defined";
            errors.push(FieldError::forbidden(&path.child("preferredHolder"), detail));
        }
        errors.into_vec()
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        let holder = Value::from(cells::text(object, &["spec", "holderIdentity"]));
        Some(vec![cells::name(object), holder, cells::age(object, now)])
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    #[test]
    fn leases_last_for_some_time_and_count_up() {
        let lease = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": (-1), "preferredHolder": "a"}});
        let lease = lease.as_object().expect("an object");
        let errors: Vec<String> = Lease.validate(Operation::Create, lease).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
                "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined",
            ]
        );
        let mut lease = lease.clone();
        Lease.prepare(Operation::Create, &mut lease);
        assert!(lease.get("spec").is_none_or(|spec| spec.get("preferredHolder").is_none()), "the gate is closed");
    }
}
