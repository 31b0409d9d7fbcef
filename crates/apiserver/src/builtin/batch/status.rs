//! The status of a job: what goes together, and what may not be taken back
//! (`k8s.io/kubernetes/pkg/apis/batch/validation`).

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::time;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::not_negative;
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, text};

use super::policies::{first_of_both, read_indexes};

/// A job as its status has it.
struct Seen<'a> {
    spec: &'a Map,
    status: &'a Map,
}

impl<'a> Seen<'a> {
    fn of(job: &'a Map, empty: &'a Map) -> Self {
        Seen { spec: object(job, "spec").unwrap_or(empty), status: object(job, "status").unwrap_or(empty) }
    }

    fn is(&self, kind: &str, state: &str) -> bool {
        items(self.status, "conditions")
            .any(|(_, condition)| text(condition, "type") == kind && text(condition, "status") == state)
    }

    fn has(&self, kind: &str) -> bool {
        self.is(kind, "True")
    }

    fn is_finished(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }

    fn count(&self, name: &str) -> i64 {
        int(self.status, name).unwrap_or_default()
    }

    fn is_indexed(&self) -> bool {
        text(self.spec, "completionMode") == "Indexed"
    }
}

/// The status of `new`, a job that was `old`. Most rules hold only of what has changed, so that a status that broke
/// them before can still be written.
pub(super) fn validate(old: &Map, new: &Map, errors: &mut Errors) {
    let empty = Map::new();
    let (old, new) = (Seen::of(old, &empty), Seen::of(new, &empty));
    let path = Path::new("status");
    not_negative(new.status, &["active", "succeeded", "failed", "ready", "terminating"], &path, errors);
    uncounted(&new, &path.child("uncountedTerminatedPods"), errors);
    ends(&old, &new, &path, errors);
    times(&old, &new, &path, errors);
    finished(&old, &new, &path, errors);
    indexes(&old, &new, &path, errors);
    let ready_or_active = ["ready", "active"].iter().any(|name| old.status.get(name) != new.status.get(name));
    if ready_or_active && is_given(new.status, "ready") && new.count("ready") > new.count("active") {
        let detail = "cannot set more ready pods than active";
        errors.push(FieldError::invalid(&path.child("ready"), new.count("ready"), detail));
    }
    kept(&old, &new, &path, errors);
}

/// Pods that are yet to be counted, each once.
fn uncounted(new: &Seen<'_>, path: &Path, errors: &mut Errors) {
    let Some(uncounted) = object(new.status, "uncountedTerminatedPods") else { return };
    let mut seen = BTreeSet::new();
    for name in ["succeeded", "failed"] {
        for (index, uid) in list(uncounted, name).iter().enumerate() {
            let (path, uid) = (path.child(name).index(index), uid.as_str().unwrap_or_default());
            if uid.is_empty() {
                errors.push(FieldError::invalid(&path, uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(&path, uid));
            }
        }
    }
}

/// Conditions that do not go together, and those that need others.
fn ends(old: &Seen<'_>, new: &Seen<'_>, path: &Path, errors: &mut Errors) {
    let path = path.child("conditions");
    let changed = |kind: &str| old.has(kind) != new.has(kind);
    let mut refuse = |detail: &str| errors.push(FieldError::invalid_omitted(&path, detail));
    let failed_indexes = old.status.get("failedIndexes") != new.status.get("failedIndexes");
    let (complete, failed) = (new.has("Complete"), new.has("Failed"));
    let (target, met) = (new.has("FailureTarget"), new.has("SuccessCriteriaMet"));
    if (changed("Complete") || changed("Failed")) && complete && failed {
        refuse("cannot set Complete=True and Failed=true conditions");
    }
    if (changed("Complete") || changed("FailureTarget")) && complete && target {
        refuse("cannot set Complete=True and FailureTarget=true conditions");
    }
    if (changed("Failed") || failed_indexes) && failed && !target {
        refuse("cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if (changed("Complete") || changed("SuccessCriteriaMet")) && complete && !met {
        refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
    if met && failed {
        refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && target {
        refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if is_given(new.spec, "successPolicy") && !met && complete {
        refuse("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
    }
}

fn times(old: &Seen<'_>, new: &Seen<'_>, path: &Path, errors: &mut Errors) {
    let at = path.child("completionTime");
    let changed =
        |name: &str| old.status.get(name).filter(|v| !v.is_null()) != new.status.get(name).filter(|v| !v.is_null());
    let (ended, complete) = (is_given(new.status, "completionTime"), new.has("Complete"));
    let shown = new.status.get("completionTime").unwrap_or(&Value::Null);
    if old.has("Complete") != complete || changed("completionTime") {
        if ended && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.push(FieldError::invalid(&at, shown, detail));
        }
        if !ended && complete {
            errors.push(FieldError::required(&at, "completionTime is required for Complete jobs"));
        }
    }
    let moment = |name: &str| time::parse(text(new.status, name)).ok();
    if (changed("startTime") || changed("completionTime"))
        && let (Some(start), Some(end)) = (moment("startTime"), moment("completionTime"))
        && end < start
    {
        errors.push(FieldError::invalid(&at, shown, "must be equal to or after `startTime`"));
    }
}

/// What a job that has ended has not, and has.
fn finished(old: &Seen<'_>, new: &Seen<'_>, path: &Path, errors: &mut Errors) {
    if !new.is_finished() {
        return;
    }
    let ends = !old.is_finished();
    let changed = |name: &str| ends || old.status.get(name) != new.status.get(name);
    if changed("active") && new.count("active") > 0 {
        errors.push(FieldError::invalid(
            &path.child("active"),
            new.count("active"),
            "active>0 is invalid for finished job",
        ));
    }
    let never_began = flag(new.spec, "suspend") && int(new.spec, "completions") == Some(0);
    if changed("startTime") && !never_began && !is_given(new.status, "startTime") {
        errors.push(FieldError::required(&path.child("startTime"), "startTime is required for finished job"));
    }
    if changed("uncountedTerminatedPods")
        && let Some(uncounted) = object(new.status, "uncountedTerminatedPods")
        && !(list(uncounted, "failed").is_empty() && list(uncounted, "succeeded").is_empty())
    {
        let member = |name: &str| uncounted.get(name).unwrap_or(&Value::Null).to_string();
        let shown = format!("{{\"Succeeded\":{},\"Failed\":{}}}", member("succeeded"), member("failed"));
        let shown = allotment_machinery::field::ShownValue::raw(shown);
        let at = path.child("uncountedTerminatedPods");
        errors.push(FieldError::invalid(&at, shown, "must be empty for finished job"));
    }
    if changed("terminating") && new.count("terminating") > 0 {
        let (at, count) = (path.child("terminating"), new.count("terminating"));
        errors.push(FieldError::invalid(&at, count, "terminating>0 is invalid for finished job"));
    }
}

fn indexes(old: &Seen<'_>, new: &Seen<'_>, path: &Path, errors: &mut Errors) {
    let changed = |name: &str| {
        text(old.status, name) != text(new.status, name) || is_given(old.status, name) != is_given(new.status, name)
    };
    let (completed, failed) = (text(new.status, "completedIndexes"), text(new.status, "failedIndexes"));
    let (has_failed, per_index) = (is_given(new.status, "failedIndexes"), is_given(new.spec, "backoffLimitPerIndex"));
    let completions = int(new.spec, "completions");
    let (completed_at, failed_at) = (path.child("completedIndexes"), path.child("failedIndexes"));
    if changed("completedIndexes") {
        if let Some(Err(fault)) = completions.map(|completions| read_indexes(completed, completions)) {
            let detail = format!("error parsing completedIndexes: {fault}");
            errors.push(FieldError::invalid(&completed_at, completed, detail));
        }
        if !completed.is_empty() && !new.is_indexed() {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(FieldError::invalid(&completed_at, completed, detail));
        }
    }
    if changed("failedIndexes") && has_failed {
        if per_index && let Some(Err(fault)) = completions.map(|completions| read_indexes(failed, completions)) {
            let detail = format!("error parsing failedIndexes: {fault}");
            errors.push(FieldError::invalid(&failed_at, failed, detail));
        }
        if !per_index {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(FieldError::invalid(&failed_at, failed, detail));
        }
    }
    if (changed("failedIndexes") || changed("completedIndexes"))
        && has_failed
        && let Some(index) = completions.and_then(|completions| first_of_both(completed, failed, completions))
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(FieldError::invalid(&failed_at, failed, detail));
    }
}

/// What is not taken back.
fn kept(old: &Seen<'_>, new: &Seen<'_>, path: &Path, errors: &mut Errors) {
    let conditions = path.child("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if old.has(kind) && !new.has(kind) {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            errors.push(FieldError::invalid_omitted(&conditions, detail));
        }
    }
    let elastic = new.is_indexed() && int(new.spec, "completions") == int(new.spec, "parallelism");
    for name in ["failed", "succeeded"] {
        if new.count(name) < old.count(name) && !(name == "succeeded" && elastic) {
            let detail = format!("cannot decrease the {name} counter");
            errors.push(FieldError::invalid(&path.child(name), new.count(name), detail));
        }
    }
    let [was, is] = [old.status, new.status];
    let moved = |name: &str| is_given(was, name) && was.get(name) != is.get(name);
    if moved("completionTime") && is_given(is, "completionTime") {
        let shown = is.get("completionTime").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(&path.child("completionTime"), shown, "field is immutable"));
    }
    let resumes = old.has("Suspended") && new.is("Suspended", "False");
    if moved("startTime") && !flag(new.spec, "suspend") && !resumes {
        let shown = is.get("startTime").unwrap_or(&Value::Null);
        let detail = "field is immutable for unsuspended job once set";
        errors.push(FieldError::invalid(&path.child("startTime"), shown, detail));
    }
    let met = "SuccessCriteriaMet";
    if old.has(met) && !new.has(met) {
        errors.push(FieldError::invalid_omitted(&conditions, "cannot disable the SuccessCriteriaMet=True condition"));
    }
    if old.has("Complete") && !old.has(met) && new.has(met) {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.push(FieldError::invalid_omitted(&conditions, detail));
    }
}
