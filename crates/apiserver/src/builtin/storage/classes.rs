//! StorageClasses and CSIDrivers (`k8s.io/kubernetes/pkg/apis/storage/validation`).

use std::collections::{BTreeMap, BTreeSet};

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use jiff::Timestamp;

use crate::builtin::core::node::old_label;
use crate::builtin::print::cells;
use crate::builtin::print::name_or_default;
use crate::builtin::rules::checks::{faults, immutable, one_of};
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, text, texts};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::registry::{Operation, Warnings};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// How many parameters a class has at most, and how large they are together, in bytes.
const MOST_PARAMETERS: usize = 512;
const PARAMETERS_SIZE: usize = 256 * 1024;
/// How long a token for a driver holds, in seconds.
const TOKEN_SECONDS: std::ops::RangeInclusive<i64> = 600..=1 << 32;
/// The shortest period in which a driver is asked how much it takes, in seconds.
const SHORTEST_PERIOD: i64 = 10;
const LOGGED_TOKENS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to \
                             prevent possible logging of tokens in volume attributes";
/// StorageClasses.
pub(crate) const STORAGE_CLASS: Rules = Rules {
    metadata: WHOLE_TOO,
    answers_object: true,
    validate: validate_class,
    validate_change: |old, new, errors| {
        let fields = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];
        immutable(old, new, &fields, &Path::root(), errors);
    },
    warn: |_, class| label_warnings(class),
    cells: Some(class_cells),
    ..Rules::of("storage/v1.StorageClass")
};

/// CSIDrivers.
pub(crate) const CSI_DRIVER: Rules = Rules {
    answers_object: true,
    unconditional: false,
    prepare: |operation, driver| {
        // It counts changes, and not the beginning.
        if let Operation::Update { old, .. } = operation
            && old.get("spec") != driver.get("spec")
        {
            let generation = object(old, "metadata").and_then(|metadata| int(metadata, "generation"));
            if let Some(metadata) = driver.object_mut("metadata") {
                metadata.insert("generation", generation.unwrap_or_default() + 1);
            }
        }
    },
    validate: validate_driver,
    validate_change: |old, new, errors| {
        let empty = Map::new();
        let (old, new) = (object(old, "spec").unwrap_or(&empty), object(new, "spec").unwrap_or(&empty));
        for (name, told) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
            let (was, is) = (old.get(name), new.get(name));
            if was != is {
                let detail = crate::builtin::rules::checks::IMMUTABLE;
                let path = Path::new("spec").child(told);
                errors.push(FieldError::invalid(&path, is.unwrap_or(&Value::Null), detail));
            }
        }
    },
    warn: driver_warnings,
    cells: Some(driver_cells),
    ..Rules::of("storage/v1.CSIDriver")
};

fn validate_class(class: &Map, errors: &mut Errors) {
    let path = Path::root();
    match text(class, "provisioner") {
        "" => errors.push(FieldError::required(&path.child("provisioner"), "")),
        name => faults(
            &path.child("provisioner"),
            &name.to_lowercase(),
            names::qualified_name(&name.to_lowercase()),
            errors,
        ),
    }
    parameters(class, &path.child("parameters"), errors);
    if !text(class, "reclaimPolicy").is_empty() {
        one_of(class, "reclaimPolicy", &["Delete", "Retain"], &path, errors);
    }
    one_of(class, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &path, errors);
    topologies(class, &path.child("allowedTopologies"), errors);
}

fn parameters(class: &Map, path: &Path, errors: &mut Errors) {
    let Some(parameters) = object(class, "parameters") else { return };
    if parameters.len() > MOST_PARAMETERS {
        return errors.push(FieldError::too_long(path, MOST_PARAMETERS));
    }
    if parameters.contains_key("") {
        errors.push(FieldError::invalid(path, "", "field can not be empty."));
    }
    let size = |(key, value): (&str, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if parameters.iter().map(size).sum::<usize>() > PARAMETERS_SIZE {
        errors.push(FieldError::too_long(path, PARAMETERS_SIZE));
    }
}

/// Where volumes may be. No two terms say the same; one that says nothing is told of as often as there are terms,
/// as in Kubernetes.
fn topologies(class: &Map, path: &Path, errors: &mut Errors) {
    let terms = list(class, "allowedTopologies").len();
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = vec![BTreeMap::new(); terms];
    for (index, term) in items(class, "allowedTopologies") {
        let path = path.index(index).child("matchLabelExpressions");
        let mut says = BTreeMap::new();
        for (index, requirement) in items(term, "matchLabelExpressions") {
            let path = path.index(index);
            let (key, values) = (text(requirement, "key"), topology_values(requirement, &path, errors));
            if says.insert(key, values).is_some() {
                errors.push(FieldError::duplicate(&path.child("key"), key));
            }
        }
        let again = seen.iter().filter(|other| **other == says).count();
        errors.extend((0..again).map(|_| FieldError::duplicate(&path, "")));
        seen.push(says);
    }
}

fn topology_values<'a>(requirement: &'a Map, path: &Path, errors: &mut Errors) -> BTreeSet<&'a str> {
    let at = path.child("values");
    if list(requirement, "values").is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    let mut values = BTreeSet::new();
    for (index, value) in texts(requirement, "values").enumerate() {
        if !values.insert(value) {
            errors.push(FieldError::duplicate(&at.index(index), value));
        }
    }
    let key = text(requirement, "key");
    faults(&path.child("key"), key, names::qualified_name(key), errors);
    values
}

fn label_warnings(class: &Map) -> Warnings {
    let mut warnings = Warnings::default();
    for (index, term) in items(class, "allowedTopologies") {
        for (at, requirement) in items(term, "matchLabelExpressions") {
            let old = old_label(text(requirement, "key"));
            warnings
                .extend(old.map(|why| format!("allowedTopologies[{index}].matchLabelExpressions[{at}].key: {why}")));
        }
    }
    warnings
}

fn validate_driver(driver: &Map, errors: &mut Errors) {
    let Some(spec) = object(driver, "spec") else { return };
    let path = Path::new("spec");
    one_of(spec, "fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], &path, errors);
    let mut audiences = BTreeSet::new();
    for (index, request) in items(spec, "tokenRequests") {
        let (path, audience) = (path.child("tokenRequests").index(index), text(request, "audience"));
        if !audiences.insert(audience) {
            errors.push(FieldError::duplicate(&path.child("audience"), audience));
            continue;
        }
        let Some(seconds) = int(request, "expirationSeconds") else { continue };
        let path = path.child("expirationSeconds");
        if seconds < *TOKEN_SECONDS.start() {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(FieldError::invalid(&path, seconds, detail));
        }
        if seconds > *TOKEN_SECONDS.end() {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(FieldError::invalid(&path, seconds, detail));
        }
    }
    let modes = ["Persistent", "Ephemeral"];
    for mode in texts(spec, "volumeLifecycleModes").filter(|mode| !modes.contains(mode)) {
        errors.push(FieldError::not_supported(&path.child("volumeLifecycleModes"), mode, &modes));
    }
    if let Some(period) = int(spec, "nodeAllocatableUpdatePeriodSeconds").filter(|period| *period < SHORTEST_PERIOD) {
        let path = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.push(FieldError::invalid(&path, period, "must be greater than or equal to 10 seconds"));
    }
    if let Some(given) = spec.get("serviceAccountTokenInSecrets").filter(|given| !given.is_null())
        && list(spec, "tokenRequests").is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), given, detail));
    }
}

fn driver_warnings(operation: Operation<'_>, driver: &Map) -> Warnings {
    let requests = |driver: &Map| object(driver, "spec").and_then(|spec| spec.get("tokenRequests").cloned());
    let changed = match operation {
        Operation::Create => true,
        Operation::Update { old, .. } => requests(old) != requests(driver),
    };
    let open = object(driver, "spec")
        .is_some_and(|spec| !list(spec, "tokenRequests").is_empty() && !is_given(spec, "serviceAccountTokenInSecrets"));
    (changed && open).then(|| LOGGED_TOKENS.to_owned()).into_iter().collect()
}

fn class_cells(class: &Map, now: Timestamp) -> Vec<Value> {
    vec![
        name_or_default(class, DEFAULT_CLASS),
        Value::from(text(class, "provisioner")),
        Value::from(text(class, "reclaimPolicy")),
        Value::from(text(class, "volumeBindingMode")),
        Value::from(flag(class, "allowVolumeExpansion")),
        cells::age(class, now),
    ]
}

fn driver_cells(driver: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let spec = object(driver, "spec").unwrap_or(&empty);
    let tokens =
        items(spec, "tokenRequests").map(|(_, request)| text(request, "audience")).collect::<Vec<_>>().join(",");
    let modes = texts(spec, "volumeLifecycleModes").collect::<Vec<_>>().join(",");
    vec![
        cells::name(driver),
        Value::from(flag(spec, "attachRequired")),
        Value::from(flag(spec, "podInfoOnMount")),
        Value::from(flag(spec, "storageCapacity")),
        Value::from(if is_given(spec, "tokenRequests") { tokens } else { "<unset>".to_owned() }),
        Value::from(flag(spec, "requiresRepublish")),
        crate::builtin::print::or_none(&modes),
        cells::age(driver, now),
    ]
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;
    use crate::builtin::rules::judged::check;

    #[test]
    fn no_two_topologies_of_a_class_say_the_same() {
        let class = |topologies: Value| {
            json!({"provisioner": "example.com/p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
                "allowedTopologies": topologies})
        };
        let term = |values: Value| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
        check(&STORAGE_CLASS, None, class(json!([(term(json!(["a", "b"]))), (term(json!(["a"])))])), &[]);
        check(
            &STORAGE_CLASS,
            None,
            class(json!([(term(json!(["a", "b"]))), (term(json!(["b", "a"])))])),
            &[r#"allowedTopologies[1].matchLabelExpressions: Duplicate value: """#],
        );
        check(
            &STORAGE_CLASS,
            None,
            class(json!([{}, {"matchLabelExpressions": [{"key": "a", "values": ["x", "x"]}, {"key": "a"}]}])),
            &[
                r#"allowedTopologies[0].matchLabelExpressions: Duplicate value: """#,
                r#"allowedTopologies[0].matchLabelExpressions: Duplicate value: """#,
                r#"allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: "x""#,
                "allowedTopologies[1].matchLabelExpressions[1].values: Required value",
                r#"allowedTopologies[1].matchLabelExpressions[1].key: Duplicate value: "a""#,
            ],
        );
    }

    #[test]
    fn a_driver_s_tokens_are_for_different_audiences_and_hold_for_a_while() {
        let driver = |spec: Value| json!({"spec": spec});
        check(
            &CSI_DRIVER,
            None,
            driver(json!({
                "attachRequired": true, "fsGroupPolicy": "Odd", "volumeLifecycleModes": ["Odd"],
                "nodeAllocatableUpdatePeriodSeconds": 9,
                "tokenRequests": [{"audience": "a", "expirationSeconds": 599}, {"audience": "a"}]
            })),
            &[
                r#"spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", "ReadWriteOnceWithFSType""#,
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                r#"spec.tokenRequests[1].audience: Duplicate value: "a""#,
                r#"spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", "Ephemeral""#,
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
            ],
        );
        check(
            &CSI_DRIVER,
            Some(driver(json!({"attachRequired": true}))),
            driver(json!({"attachRequired": false, "serviceAccountTokenInSecrets": true})),
            &[
                "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
                "spec.attachedRequired: Invalid value: false: field is immutable",
            ],
        );
    }
}
