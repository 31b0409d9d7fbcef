//! PodDisruptionBudgets, PriorityClasses and RuntimeClasses (`k8s.io/kubernetes/pkg/apis/policy/validation`,
//! `pkg/apis/scheduling/validation`, `pkg/apis/node/validation`).

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::object::metadata_str;

use crate::builtin::print::cells;
use crate::builtin::rules::checks::{
    at_most_all, immutable, label_selector, not_negative, number_or_percent, one_of, required_name, selector_text,
};
use crate::builtin::rules::look::{flag, int, is_given, object, text};
use crate::builtin::rules::{Errors, Rules};
use crate::registry::{MetadataChecks, NameRule};

/// The highest priority that is not the system's.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
/// The classes that every cluster begins with.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The number of a class that every cluster begins with.
pub(crate) fn system_priority(name: &str) -> Option<i64> {
    SYSTEM_CLASSES.iter().find(|(class, _)| *class == name).map(|(_, value)| *value)
}

/// PodDisruptionBudgets.
pub(crate) const POD_DISRUPTION_BUDGET: Rules = Rules {
    metadata: MetadataChecks { change: 0, whole: 0, core: false },
    names: NameRule::PathSegment,
    judges_metadata: false,
    counts: true,
    unconditional: false,
    validate: validate_budget,
    validate_status: |_, new, errors| {
        let numbers = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        if let Some(status) = object(new, "status") {
            not_negative(status, &numbers, &Path::new("status"), errors);
        }
    },
    cells: Some(|budget, now| {
        let spec = object(budget, "spec");
        let shown = |name: &str| match spec.and_then(|spec| spec.get(name)) {
            Some(Value::String(text)) => Value::from(text.as_str()),
            Some(Value::Number(number)) => Value::from(number.as_str()),
            _ => Value::from("N/A"),
        };
        let allowed = crate::builtin::print::number(budget, &["status", "disruptionsAllowed"]);
        vec![
            cells::name(budget),
            shown("minAvailable"),
            shown("maxUnavailable"),
            Value::from(allowed),
            cells::age(budget, now),
        ]
    }),
    ..Rules::of("policy/v1.PodDisruptionBudget")
};

/// PriorityClasses.
pub(crate) const PRIORITY_CLASS: Rules = Rules {
    counts: true,
    validate: validate_priority,
    validate_change: |old, new, errors| {
        if int(old, "value") != int(new, "value") {
            errors.push(FieldError::forbidden(&Path::new("value"), "may not be changed in an update."));
        }
        immutable(old, new, &["preemptionPolicy"], &Path::root(), errors);
    },
    cells: Some(|class, now| {
        vec![
            cells::name(class),
            Value::from(int(class, "value").unwrap_or_default()),
            Value::from(flag(class, "globalDefault")),
            cells::age(class, now),
            Value::from(text(class, "preemptionPolicy")),
        ]
    }),
    ..Rules::of("scheduling/v1.PriorityClass")
};

/// RuntimeClasses.
pub(crate) const RUNTIME_CLASS: Rules = Rules {
    metadata: MetadataChecks { change: 1, whole: 1, core: false },
    creates_on_update: true,
    unconditional: false,
    validate: |class, errors| required_name(class, "handler", names::dns1123_label, &Path::root(), errors),
    validate_change: |old, new, errors| immutable(old, new, &["handler"], &Path::root(), errors),
    cells: Some(|class, now| vec![cells::name(class), Value::from(text(class, "handler")), cells::age(class, now)]),
    ..Rules::of("node/v1.RuntimeClass")
};

fn validate_budget(budget: &Map, errors: &mut Errors) {
    let Some(spec) = object(budget, "spec") else { return };
    let path = Path::new("spec");
    if is_given(spec, "minAvailable") && is_given(spec, "maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(&path, budget_shown(spec), detail));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.get(name).filter(|value| !value.is_null()) {
            number_or_percent(value, &path.child(name), errors);
            at_most_all(value, &path.child(name), errors);
        }
    }
    label_selector(spec, "selector", &path, errors);
    one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &path, errors);
}

/// A spec as messages of Kubernetes show it: the members of its internal type.
fn budget_shown(spec: &Map) -> ShownValue {
    let members = ["minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy"].map(|name| {
        let upper = name[..1].to_uppercase() + &name[1..];
        let selector = object(spec, name).filter(|_| name == "selector");
        match selector {
            Some(selector) => format!("\"{upper}\":{}", selector_text(selector)),
            None => format!("\"{upper}\":{}", spec.get(name).unwrap_or(&Value::Null)),
        }
    });
    ShownValue::raw(format!("{{{}}}", members.join(",")))
}

fn validate_priority(class: &Map, errors: &mut Errors) {
    let name = metadata_str(class, "name").unwrap_or_default();
    let value = int(class, "value").unwrap_or_default();
    if name.starts_with(SYSTEM_PREFIX) {
        let fault = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, expected)) if *expected != value => {
                Some(format!("value of {name} PriorityClass must be {expected}"))
            }
            Some(_) if flag(class, "globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(fault) = fault {
            let detail = format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {fault}"
            );
            errors.push(FieldError::forbidden(&Path::new("metadata").child("name"), detail));
        }
    } else if value > HIGHEST_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        errors.push(FieldError::forbidden(&Path::new("value"), detail));
    }
    one_of(class, "preemptionPolicy", &["PreemptLowerPriority", "Never"], &Path::root(), errors);
}
