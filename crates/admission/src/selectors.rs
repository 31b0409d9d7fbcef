//! Label selectors of our kinds: what could never be meant is refused, so that no operator that does
//! not exist leaves a namespace out, or lets one in, in silence.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::review::Found;

const OPERATORS: [&str; 4] = ["DoesNotExist", "Exists", "In", "NotIn"];

/// Checks a selector as `ValidateLabelSelector` of Kubernetes does.
pub(crate) fn check(selector: &LabelSelector, path: &Path, found: &mut Found) {
    let labels = path.child("matchLabels");
    for (key, value) in selector.match_labels.iter().flatten() {
        check_key(key, &labels, found);
        check_value(value, &labels.key(key), found);
    }
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let at = path.child("matchExpressions").index(index);
        check_key(&requirement.key, &at.child("key"), found);
        let values = requirement.values.as_deref().unwrap_or_default();
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                found.errors.push(FieldError::required(&at.child("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                found.errors.push(FieldError::forbidden(&at.child("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => found.errors.push(FieldError::not_supported(&at.child("operator"), other, &OPERATORS)),
        }
        for (index, value) in values.iter().enumerate() {
            check_value(value, &at.child("values").index(index), found);
        }
    }
}

fn check_key(key: &str, path: &Path, found: &mut Found) {
    let faults = names::qualified_name(key);
    found.errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, key, fault.to_string())));
}

fn check_value(value: &str, path: &Path, found: &mut Found) {
    let faults = names::label_value(value);
    found.errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, value, fault.to_string())));
}
