//! When a job fails or succeeds before all of its pods have: its two policies, and the lists of indexes that they and
//! its status name (`k8s.io/kubernetes/pkg/apis/batch/validation`).

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{faults, not_negative};
use crate::builtin::rules::look::{int, is_given, items, list, object, text};

/// How many rules a policy may have, and how many conditions a rule.
const MOST_RULES: usize = 20;
/// How many exit codes a rule may name.
const MOST_CODES: usize = 255;
/// The longest list of indexes, in bytes.
const LONGEST_INDEXES: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// What is wrong where one of `supported` has to stand.
fn one(value: &str, supported: &[&str], path: &Path, errors: &mut Errors) {
    if value.is_empty() {
        let listed: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        errors.push(FieldError::required(path, format!("valid values: [{}]", listed.join(" "))));
    } else if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, value, supported));
    }
}

/// `podFailurePolicy` of a job's spec.
pub(super) fn validate_failure(spec: &Map, path: &Path, errors: &mut Errors) {
    let Some(policy) = object(spec, "podFailurePolicy") else { return };
    let path = path.child("podFailurePolicy").child("rules");
    let rules = list(policy, "rules");
    if rules.len() > MOST_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MOST_RULES));
    }
    let pod = object(spec, "template").and_then(|template| object(template, "spec"));
    let containers: BTreeSet<&str> = pod
        .into_iter()
        .flat_map(|pod| ["containers", "initContainers"].into_iter().flat_map(|name| items(pod, name)))
        .map(|(_, container)| text(container, "name"))
        .collect();
    for (index, rule) in items(policy, "rules") {
        failure_rule(spec, rule, &containers, &path.index(index), errors);
    }
}

fn failure_rule(spec: &Map, rule: &Map, containers: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    let (action, at) = (text(rule, "action"), path.child("action"));
    if action != "FailIndex" {
        one(action, &ACTIONS, &at, errors);
    } else if !is_given(spec, "backoffLimitPerIndex") {
        errors.push(FieldError::invalid(&at, action, "requires the backoffLimitPerIndex to be set"));
    }
    let codes = object(rule, "onExitCodes");
    if let Some(codes) = codes {
        exit_codes(codes, containers, &path.child("onExitCodes"), errors);
    }
    let conditions = list(rule, "onPodConditions");
    let at = path.child("onPodConditions");
    if conditions.len() > MOST_RULES {
        errors.push(FieldError::too_many(&at, conditions.len(), MOST_RULES));
    }
    for (index, condition) in items(rule, "onPodConditions") {
        let (at, kind) = (at.index(index), text(condition, "type"));
        faults(&at.child("type"), kind, names::qualified_name(kind), errors);
        one(text(condition, "status"), &["False", "True", "Unknown"], &at.child("status"), errors);
    }
    let detail = match (codes.is_some(), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(FieldError::invalid_omitted(path, detail));
}

fn exit_codes(codes: &Map, containers: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    let operator = text(codes, "operator");
    one(operator, &["In", "NotIn"], &path.child("operator"), errors);
    let name = text(codes, "containerName");
    if is_given(codes, "containerName") && !containers.contains(name) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(&path.child("containerName"), name, detail));
    }
    let (values, path) = (list(codes, "values"), path.child("values"));
    let shown = || Value::Array(values.to_vec());
    if values.is_empty() {
        errors.push(FieldError::invalid(&path, &shown(), "at least one value is required"));
    } else if values.len() > MOST_CODES {
        errors.push(FieldError::too_many(&path, values.len(), MOST_CODES));
    }
    let codes: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    let mut seen = BTreeSet::new();
    for (index, code) in codes.iter().enumerate() {
        if operator == "In" && *code == 0 {
            errors.push(FieldError::invalid(&path.index(index), *code, "must not be 0 for the In operator"));
        }
        if !seen.insert(*code) {
            errors.push(FieldError::duplicate(&path.index(index), *code));
        }
    }
    if !codes.is_sorted() {
        errors.push(FieldError::invalid(&path, &shown(), "must be ordered"));
    }
}

/// `successPolicy` of a job's spec.
pub(super) fn validate_success(spec: &Map, path: &Path, errors: &mut Errors) {
    let Some(policy) = object(spec, "successPolicy") else { return };
    let path = path.child("successPolicy");
    if text(spec, "completionMode") != "Indexed" {
        let rules = policy.get("rules").map_or_else(|| "null".to_owned(), rules_shown);
        let shown = allotment_machinery::field::ShownValue::raw(format!("{{\"Rules\":{rules}}}"));
        return errors.push(FieldError::invalid(&path, shown, "requires indexed completion mode"));
    }
    let path = path.child("rules");
    let rules = list(policy, "rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&path, detail));
    }
    if rules.len() > MOST_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MOST_RULES));
    }
    // Without a number of completions, of which is told elsewhere, there is nothing to compare with.
    let completions = int(spec, "completions").unwrap_or_default();
    for (index, rule) in items(policy, "rules") {
        success_rule(rule, completions, &path.index(index), errors);
    }
}

fn rules_shown(rules: &Value) -> String {
    let rule = |rule: &Value| {
        let member = |name: &str| rule.get(name).unwrap_or(&Value::Null).to_string();
        format!(
            "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
            member("succeededIndexes"),
            member("succeededCount")
        )
    };
    rules.as_array().map_or_else(
        // An empty list is not kept.
        || "[]".to_owned(),
        |rules| format!("[{}]", rules.iter().map(rule).collect::<Vec<_>>().join(",")),
    )
}

fn success_rule(rule: &Map, completions: i64, path: &Path, errors: &mut Errors) {
    let (has_indexes, count) = (is_given(rule, "succeededIndexes"), int(rule, "succeededCount"));
    if !has_indexes && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let mut total = 0;
    if has_indexes {
        let (indexes, at) = (text(rule, "succeededIndexes"), path.child("succeededIndexes"));
        if indexes.len() > LONGEST_INDEXES {
            errors.push(FieldError::too_long(&at, LONGEST_INDEXES));
        }
        match read_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(fault) => {
                errors.push(FieldError::invalid(&at, indexes, format!("error parsing succeededIndexes: {fault}")));
            }
        }
    }
    let Some(count) = count else { return };
    let at = path.child("succeededCount");
    not_negative(rule, &["succeededCount"], path, errors);
    if count > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(&at, count, detail));
    }
    if has_indexes && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(&at, count, detail));
    }
}

/// How many indexes a list such as `0,2-4` names, all of them below `completions`.
pub(super) fn read_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for part in text.split(',') {
        let (first, end) = read_span(part, completions)?;
        if let Some(previous) = last.filter(|previous| *previous >= first) {
            return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that stands in both lists; parts that cannot be read are passed over.
pub(super) fn first_of_both(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let spans = |text: &'_ str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| read_span(part, completions).ok()).collect()
    };
    let (completed, failed) = (spans(completed), spans(failed));
    let both = completed.iter().flat_map(|left| failed.iter().map(move |right| (left, right)));
    both.filter(|(left, right)| left.0 <= right.1 && right.0 <= left.1).map(|(left, right)| left.0.max(right.0)).min()
}

fn read_span(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let read = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    let mut ends = part.split('-');
    let (first, last) = (ends.next().unwrap_or_default(), ends.next());
    if ends.next().is_some() {
        return Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts \
             separated by '-'"
        ));
    }
    let first = read(first)?;
    match last.map(read).transpose()? {
        Some(last) if first >= last => Err(format!("non-increasing order, previous: {first}, current: {last}")),
        Some(last) => Ok((first, last)),
        None => Ok((first, first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_in_order() {
        for (text, expect) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("0,2-4", Ok(4)),
            ("5", Err("too large index: \"5\"")),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            ("2,1", Err("non-increasing order, previous: 2, current: 1")),
            ("3-3", Err("non-increasing order, previous: 3, current: 3")),
        ] {
            assert_eq!(read_indexes(text, 5), expect.map_err(str::to_owned), "{text}");
        }
        assert_eq!(first_of_both("0-2,4", "2-3", 5), Some(2));
        assert_eq!(first_of_both("0-1", "2", 5), None);
    }
}
