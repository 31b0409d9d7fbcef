//! When a single container is started again: its own policy and the rules of it
//! (`k8s.io/kubernetes/pkg/apis/core/validation`, KEP-5307).

use std::collections::{BTreeMap, BTreeSet};

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};

use crate::builtin::rules::Errors;
use crate::builtin::rules::look::{int, is_given, items, list, object, text};

/// How many rules a container may have.
const MOST_RULES: usize = 20;
/// How many exit codes a rule may name.
const MOST_CODES: usize = 255;

/// A container's own policy, and its rules.
pub(crate) fn validate(container: &Map, path: &Path, errors: &mut Errors) {
    let rules = list(container, "restartPolicyRules");
    let at = path.child("restartPolicy");
    if !is_given(container, "restartPolicy") {
        if rules.is_empty() {
            return;
        }
        errors.push(FieldError::required(&at, "must specify restartPolicy when restart rules are used"));
    } else {
        let (policy, supported) = (text(container, "restartPolicy"), ["Always", "Never", "OnFailure"]);
        if !supported.contains(&policy) {
            errors.push(FieldError::not_supported(&at, policy, &supported));
        }
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > MOST_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MOST_RULES));
    }
    for (index, rule) in items(container, "restartPolicyRules") {
        validate_rule(rule, &path.index(index), errors);
    }
}

fn validate_rule(rule: &Map, path: &Path, errors: &mut Errors) {
    let (action, actions) = (text(rule, "action"), ["Restart", "RestartAllContainers"]);
    if !actions.contains(&action) {
        errors.push(FieldError::not_supported(&path.child("action"), action, &actions));
    }
    let path = path.child("exitCodes");
    let Some(codes) = object(rule, "exitCodes") else {
        return errors.push(FieldError::required(&path, "must be specified"));
    };
    let (operator, operators) = (text(codes, "operator"), ["In", "NotIn"]);
    if !operators.contains(&operator) {
        errors.push(FieldError::not_supported(&path.child("operator"), operator, &operators));
    }
    let values = list(codes, "values").len();
    if values > MOST_CODES {
        errors.push(FieldError::too_many(&path.child("values"), values, MOST_CODES));
    }
}

/// What has ended stays so, unless it is to be started again. `of` is the list of the containers that `now` and
/// `before` tell of; empty for those that never are.
pub(crate) fn validate_states(spec: &Map, of: &str, before: &[Value], now: &[Value], path: &Path, errors: &mut Errors) {
    if !of.is_empty() && all_could_restart(spec) {
        return;
    }
    fn ended(status: &Value) -> Option<&Map> {
        status.at(&["state", "terminated"]).and_then(Value::as_object)
    }
    fn name(status: &Value) -> &str {
        status.get("name").and_then(Value::as_str).unwrap_or_default()
    }
    let alive: BTreeSet<&str> = now.iter().filter(|status| ended(status).is_none()).map(name).collect();
    let mut containers: BTreeMap<&str, &Map> = BTreeMap::new();
    for (_, container) in items(spec, of) {
        // Names are told apart; where they were not, the first counts.
        containers.entry(text(container, "name")).or_insert(container);
    }
    for (index, old) in before.iter().enumerate() {
        let Some(end) = ended(old) else { continue };
        let revived = alive.contains(name(old));
        let code = int(end, "exitCode").unwrap_or_default();
        if revived && !containers.get(name(old)).is_some_and(|container| should_restart(container, spec, code)) {
            let detail = "may not be transitioned to non-terminated state";
            errors.push(FieldError::forbidden(&path.index(index).child("state"), detail));
        }
    }
}

/// Whether a rule of any container starts all of them again.
fn all_could_restart(spec: &Map) -> bool {
    let rules = ["containers", "initContainers"].into_iter().flat_map(|name| items(spec, name));
    let mut actions = rules.flat_map(|(_, container)| items(container, "restartPolicyRules"));
    actions.any(|(_, rule)| text(rule, "action") == "RestartAllContainers")
}

/// Whether a container that ended with `code` is started again.
fn should_restart(container: &Map, spec: &Map, code: i64) -> bool {
    for (_, rule) in items(container, "restartPolicyRules") {
        let Some(codes) = object(rule, "exitCodes") else { continue };
        let named = list(codes, "values").iter().any(|value| value.as_i64() == Some(code));
        let matches = match text(codes, "operator") {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        };
        if matches {
            return true;
        }
    }
    let own = text(container, "restartPolicy");
    match if own.is_empty() { text(spec, "restartPolicy") } else { own } {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}
