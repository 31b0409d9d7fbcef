//! Jobs and CronJobs (`k8s.io/kubernetes/pkg/apis/batch/validation`). Nothing acts on them here.

mod cron;
mod policies;
mod status;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::object::metadata_str;
use allotment_machinery::selector::LabelSelector;
use allotment_machinery::time;
use jiff::Timestamp;

use crate::builtin::core::pod::{drop_closed, name_warning, template_warnings, validate_template};
use crate::builtin::print::cells;
use crate::builtin::print::{self, number, ratio};
use crate::builtin::rules::checks::{
    domain_prefixed, immutable, not_negative, one_of, one_of_required, selector_shown,
};
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, object_at, text};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::builtin::types::depends::{labels_of_template, take_labels};
use crate::registry::{Operation, Warnings};

/// The names of time zones, one a line: what is taken does not depend on the machine.
const ZONES: &str = include_str!("zones.txt");

/// The labels by which a job's pods are told; the legacy names are those of old controllers.
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const LEGACY_UID_LABEL: &str = "controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";
const LEGACY_NAME_LABEL: &str = "job-name";

/// The longest name of a CronJob, in bytes: its Jobs put eleven characters to it.
const CRON_NAME_LENGTH: usize = 52;
/// How many pods of an indexed job may run at once.
const INDEXED_PARALLELISM: i64 = 100_000;
/// How many pods may run, and indexes fail, of a job of very many whose indexes fail one by one.
const MOST_WITH_LIMITS: i64 = 10_000;
/// The longest name of who manages a job, in bytes.
const MANAGER_LENGTH: usize = 63;

/// Jobs.
pub(crate) const JOB: Rules = Rules {
    orphans_unasked: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
         set propagationPolicy=Orphan to suppress this warning",
    ),
    metadata: WHOLE_TOO,
    counts: true,
    prepare: prepare_job,
    validate: validate_job,
    validate_new: |job, errors| indexed_names(job, errors),
    validate_change: |old, new, errors| {
        indexed_names(new, errors);
        job_change(old, new, errors);
    },
    validate_status: status::validate,
    warn: |operation, job| warnings(operation, job, &["spec"]),
    cells: Some(job_cells),
    select: |job, field| (field == "status.successful").then(|| number(job, &["status", "succeeded"]).to_string()),
    unselectable: |field| format!("field label {field:?} not supported for Job"),
    ..Rules::of("batch/v1.Job")
};

/// CronJobs.
pub(crate) const CRON_JOB: Rules = Rules {
    counts: true,
    prepare: |_, job| {
        if let Some(Value::Object(template)) = member_mut(job, &["spec", "jobTemplate", "spec", "template"]) {
            drop_closed(template);
        }
    },
    validate: validate_cron_job,
    validate_new: |job, errors| {
        let name = metadata_str(job, "name").unwrap_or_default();
        if name.len() > CRON_NAME_LENGTH {
            let detail = "must be no more than 52 characters";
            errors.push(FieldError::invalid(&Path::new("metadata").child("name"), name, detail));
        }
        let Some(spec) = object(job, "spec") else { return };
        zone_in_schedule(spec, false, errors);
        time_zone(spec, &Path::new("spec").child("timeZone"), errors);
    },
    validate_change: |old, new, errors| {
        let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
        zone_in_schedule(is, text(was, "schedule").contains("TZ"), errors);
        if was.get("timeZone") != is.get("timeZone") {
            time_zone(is, &Path::new("spec").child("timeZone"), errors);
        }
    },
    warn: |operation, job| {
        let mut warnings = warnings(operation, job, &["spec", "jobTemplate", "spec"]);
        let zoned = object(job, "spec").is_some_and(|spec| text(spec, "schedule").contains("TZ"));
        if zoned && matches!(operation, Operation::Update { .. }) {
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    },
    cells: Some(cron_cells),
    ..Rules::of("batch/v1.CronJob")
};

/// What is said of a job whose spec is at `path`.
fn warnings(operation: Operation<'_>, job: &Map, path: &[&str]) -> Warnings {
    const MANY_COMPLETIONS: i64 = 100_000;
    const MANY_AT_ONCE: i64 = 10_000;
    let mut warnings: Warnings = name_warning(operation, job).into_iter().collect();
    let of_template = template_warnings(operation, job, &[path, &["template"]].concat());
    let empty = Map::new();
    let spec = object_at(job, path).unwrap_or(&empty);
    let count = |name: &str| int(spec, name).unwrap_or_default();
    let many = count("completions") > MANY_COMPLETIONS && count("parallelism") > MANY_AT_ONCE;
    if many && text(spec, "completionMode") == "Indexed" {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            path.join(".")
        ));
    }
    warnings.extend(of_template);
    warnings
}

fn member_mut<'a>(object: &'a mut Map, path: &[&str]) -> Option<&'a mut Value> {
    let (last, above) = path.split_last()?;
    let above = above.iter().try_fold(object, |map, name| map.get_mut(name).and_then(Value::as_object_mut))?;
    above.get_mut(last)
}

/// A job without labels has those of its template, and of a new one those too that are generated, unless its name is
/// generated as well: then Kubernetes makes a copy in between. A template without labels has but the generated ones, which
/// Kubernetes finds when it reads what it has stored.
fn prepare_job(operation: Operation<'_>, job: &mut Map) {
    if let Some(Value::Object(template)) = member_mut(job, &["spec", "template"]) {
        drop_closed(template);
    }
    let before = labels_of_template(job);
    if !matches!(operation, Operation::Create) {
        if !matches!(operation, Operation::Update { subresource: "status", .. }) {
            take_labels(job, before);
        }
        return;
    }
    let named = metadata_str(job, "generateName").unwrap_or_default().is_empty();
    let without = object_at(job, &["metadata", "labels"]).is_none_or(Map::is_empty);
    generate_selector(job);
    if !without {
        return;
    }
    if let Some(before) = &before {
        own_labels(job, before);
    }
    let labels = if named { labels_of_template(job) } else { before.or_else(|| labels_of_template(job)) };
    take_labels(job, labels);
}

/// Whoever creates a job without labels owns those that it takes from its template.
fn own_labels(job: &mut Map, labels: &Value) {
    let Some(Value::Array(entries)) = member_mut(job, &["metadata", "managedFields"]) else { return };
    let created =
        entries.iter_mut().filter_map(Value::as_object_mut).find(|entry| text(entry, "operation") == "Update");
    let Some(Value::Object(fields)) = created.and_then(|entry| entry.get_mut("fieldsV1")) else { return };
    let Some(own) = fields.object_mut("f:metadata").and_then(|metadata| metadata.object_mut("f:labels")) else {
        return;
    };
    own.insert(".", Map::new());
    for (key, _) in labels.as_object().into_iter().flat_map(Map::iter) {
        own.insert(format!("f:{key}"), Map::new());
    }
}

/// A job's pods carry its name and UID, by which it selects them.
fn generate_selector(job: &mut Map) {
    let name = metadata_str(job, "name").unwrap_or_default().to_owned();
    let uid = metadata_str(job, "uid").unwrap_or_default().to_owned();
    let Some(spec) = job.object_mut("spec").filter(|spec| !flag(spec, "manualSelector")) else { return };
    let labels = spec.object_mut("template").and_then(|template| template.object_mut("metadata"));
    if let Some(labels) = labels.and_then(|metadata| metadata.object_mut("labels")) {
        for (label, value) in
            [(LEGACY_NAME_LABEL, &name), (NAME_LABEL, &name), (LEGACY_UID_LABEL, &uid), (UID_LABEL, &uid)]
        {
            labels.get_or_insert_with(label, || Value::from(value.as_str()));
        }
    }
    if spec.get("selector").is_none_or(Value::is_null) {
        spec.insert("selector", Map::new());
    }
    let selector = spec.object_mut("selector").and_then(|selector| selector.object_mut("matchLabels"));
    if let Some(labels) = selector {
        labels.get_or_insert_with(UID_LABEL, || Value::from(uid));
    }
}

fn validate_job(job: &Map, errors: &mut Errors) {
    let Some(spec) = object(job, "spec") else { return };
    let path = Path::new("spec");
    generated_selector(job, spec, &path, errors);
    job_spec(spec, &path, errors);
    if !is_given(spec, "selector") {
        errors.push(FieldError::required(&path.child("selector"), ""));
    } else {
        crate::builtin::rules::checks::label_selector(spec, "selector", &path, errors);
    }
    let labels = object_at(spec, &["template", "metadata", "labels"]);
    if LabelSelector::from_object(spec.get("selector")).is_ok_and(|selector| !selector.matches(labels)) {
        let path = path.child("template").child("metadata").child("labels");
        let shown = labels.map_or(Value::Null, |labels| Value::Object(labels.clone()));
        errors.push(FieldError::invalid(&path, &shown, "`selector` does not match template `labels`"));
    }
}

/// What was generated was not overwritten.
fn generated_selector(job: &Map, spec: &Map, path: &Path, errors: &mut Errors) {
    if flag(spec, "manualSelector") || !is_given(spec, "selector") {
        return;
    }
    let (name, uid) = (metadata_str(job, "name").unwrap_or_default(), metadata_str(job, "uid").unwrap_or_default());
    let empty = Map::new();
    let labels = object_at(spec, &["template", "metadata", "labels"]).unwrap_or(&empty);
    for (label, expected) in [(LEGACY_UID_LABEL, uid), (UID_LABEL, uid), (LEGACY_NAME_LABEL, name), (NAME_LABEL, name)]
    {
        let path = path.child("template").child("metadata").child("labels");
        match labels.get(label).and_then(Value::as_str) {
            None => {
                let detail = format!("must be '{expected}'");
                errors.push(FieldError::required(&path.key(label), detail));
            }
            Some(have) if have != expected => {
                let detail = format!("must be '{expected}'");
                errors.push(FieldError::invalid(&path, &Value::Object(labels.clone()), detail));
            }
            Some(_) => {}
        }
    }
    let expected = Map::from_iter(
        [(LEGACY_UID_LABEL, uid), (UID_LABEL, uid), (LEGACY_NAME_LABEL, name), (NAME_LABEL, name)]
            .map(|(label, value)| (label.to_owned(), Value::from(value))),
    );
    if LabelSelector::from_object(spec.get("selector")).is_ok_and(|selector| !selector.matches(Some(&expected))) {
        let shown = object(spec, "selector").map_or_else(|| ShownValue::raw("null"), selector_shown);
        errors.push(FieldError::invalid(&path.child("selector"), shown, "`selector` not auto-generated"));
    }
}

/// The names of the pods of an indexed job end in their indexes, and have to be labels.
fn indexed_names(job: &Map, errors: &mut Errors) {
    let Some(spec) = object(job, "spec").filter(|spec| text(spec, "completionMode") == "Indexed") else { return };
    let Some(completions) = int(spec, "completions").filter(|completions| *completions > 0) else { return };
    let name = metadata_str(job, "name").unwrap_or_default();
    let longest = format!("{name}-{}", completions - 1);
    if !names::dns1123_label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.push(FieldError::invalid(&Path::new("metadata").child("name"), name, detail));
    }
}

/// What jobs and templates of jobs have to be.
fn job_spec(spec: &Map, path: &Path, errors: &mut Errors) {
    const NUMBERS: &[&str] = &[
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    not_negative(spec, NUMBERS, path, errors);
    if is_given(spec, "maxFailedIndexes") && !is_given(spec, "backoffLimitPerIndex") {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), detail));
    }
    if is_given(spec, "managedBy") {
        let manager = text(spec, "managedBy");
        domain_prefixed(manager, &path.child("managedBy"), errors);
        if manager.len() > MANAGER_LENGTH {
            errors.push(FieldError::too_long(&path.child("managedBy"), MANAGER_LENGTH));
        }
    }
    one_of(spec, "completionMode", &["NonIndexed", "Indexed"], path, errors);
    if text(spec, "completionMode") == "Indexed" {
        indexed(spec, path, errors);
    } else if matches!(text(spec, "completionMode"), "" | "NonIndexed") {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = int(spec, name) {
                errors.push(FieldError::invalid(&path.child(name), value, "requires indexed completion mode"));
            }
        }
    }
    policies::validate_failure(spec, path, errors);
    policies::validate_success(spec, path, errors);
    let replaced: &[&str] =
        if is_given(spec, "podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    let replacement = text(spec, "podReplacementPolicy");
    if is_given(spec, "podReplacementPolicy") && !replaced.contains(&replacement) {
        errors.push(FieldError::not_supported(&path.child("podReplacementPolicy"), replacement, replaced));
    }
    if let Some(template) = object(spec, "template") {
        validate_template(template, &path.child("template"), errors);
    }
    restart_policy(spec, path, errors);
}

fn indexed(spec: &Map, path: &Path, errors: &mut Errors) {
    let completions = int(spec, "completions");
    if completions.is_none() {
        errors.push(FieldError::required(&path.child("completions"), "when completion mode is Indexed"));
    }
    if let Some(value) = int(spec, "parallelism").filter(|value| *value > INDEXED_PARALLELISM) {
        let detail = format!("must be less than or equal to {INDEXED_PARALLELISM} when completion mode is Indexed");
        errors.push(FieldError::invalid(&path.child("parallelism"), value, detail));
    }
    let (failed, at) = (int(spec, "maxFailedIndexes"), path.child("maxFailedIndexes"));
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        errors.push(FieldError::invalid(&at, failed, "must be less than or equal to completions"));
    }
    if let Some(failed) = failed.filter(|failed| *failed > INDEXED_PARALLELISM) {
        let detail = format!("must be less than or equal to {INDEXED_PARALLELISM}");
        errors.push(FieldError::invalid(&at, failed, detail));
    }
    let many = completions.is_some_and(|completions| completions > INDEXED_PARALLELISM);
    if !many || !is_given(spec, "backoffLimitPerIndex") {
        return;
    }
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {INDEXED_PARALLELISM}");
        errors.push(FieldError::required(&at, detail));
    }
    for name in ["parallelism", "maxFailedIndexes"] {
        if let Some(value) = int(spec, name).filter(|value| *value > MOST_WITH_LIMITS) {
            let detail = format!(
                "must be less than or equal to {MOST_WITH_LIMITS} when completions are above {INDEXED_PARALLELISM} and \
                 used with backoff limit per index"
            );
            errors.push(FieldError::invalid(&path.child(name), value, detail));
        }
    }
}

/// A job's pods end.
fn restart_policy(spec: &Map, path: &Path, errors: &mut Errors) {
    let path = path.child("template").child("spec").child("restartPolicy");
    match object_at(spec, &["template", "spec"]).map_or("", |pod| text(pod, "restartPolicy")) {
        "" | "Always" => errors.push(FieldError::required(&path, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if is_given(spec, "podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(&path, "OnFailure", detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(&path, other, &["OnFailure", "Never"])),
    }
}

/// What of a job may change: how many run, and until it starts what its pods need and where they run.
fn job_change(old: &Map, new: &Map, errors: &mut Errors) {
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    let path = Path::new("spec");
    let fields =
        ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];
    immutable(was, is, &fields, &path, errors);
    let (before, now) = (int(was, "completions"), int(is, "completions"));
    if text(is, "completionMode") != "Indexed" {
        immutable(was, is, &["completions"], &path, errors);
    } else if let Some(now) = now.filter(|now| before != Some(*now) && int(is, "parallelism") != Some(*now)) {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid(&path.child("completions"), now, detail));
    }
    let suspended = flag(was, "suspend");
    let empty = Map::new();
    let status = object(old, "status").unwrap_or(&empty);
    let waits = items(status, "conditions")
        .any(|(_, condition)| text(condition, "type") == "Suspended" && text(condition, "status") == "True");
    let rests = (!is_given(status, "startTime") || waits) && int(status, "active").unwrap_or_default() == 0;
    let free = suspended && rests;
    if fixed_template(was, free) != fixed_template(is, free) {
        let template = object(is, "template");
        // What may be sized anew is compared by its spec alone.
        let (at, shown) = match template.filter(|_| free) {
            Some(template) => (path.child("template.spec"), template.get("spec")),
            None => (path.child("template"), is.get("template")),
        };
        let shown = shown.unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(&at, shown, crate::builtin::rules::checks::IMMUTABLE));
    }
}

/// The template without what a job that rests may change: where its pods run and what they need.
fn fixed_template(spec: &Map, free: bool) -> Option<Map> {
    let mut template = object(spec, "template")?.clone();
    if !free {
        return Some(template);
    }
    template.remove("metadata");
    if let Some(pod) = template.object_mut("spec") {
        for name in ["nodeSelector", "tolerations", "schedulingGates"] {
            pod.remove(name);
        }
        if let Some(Value::Object(affinity)) = pod.get_mut("affinity") {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                pod.remove("affinity");
            }
        }
        for list in ["containers", "initContainers"] {
            crate::builtin::rules::look::items_mut(pod, list).for_each(|container| {
                container.remove("resources");
            });
        }
    }
    Some(template)
}

fn validate_cron_job(job: &Map, errors: &mut Errors) {
    let Some(spec) = object(job, "spec") else { return };
    let path = Path::new("spec");
    schedule(spec, &path, errors);
    let numbers = ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    not_negative(spec, &numbers, &path, errors);
    one_of_required(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &path, errors);
    let Some(template) = object_at(spec, &["jobTemplate", "spec"]) else { return };
    let path = path.child("jobTemplate").child("spec");
    job_spec(template, &path, errors);
    if let Some(selector) = template.get("selector").filter(|selector| !selector.is_null()) {
        errors.push(FieldError::invalid(&path.child("selector"), selector, "`selector` will be auto-generated"));
    }
    if flag(template, "manualSelector") {
        let shown = allotment_machinery::field::ShownValue::raw("true");
        errors.push(FieldError::not_supported(&path.child("manualSelector"), shown, &["nil", "false"]));
    }
}

fn schedule(spec: &Map, path: &Path, errors: &mut Errors) {
    let path = path.child("schedule");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        return errors.push(FieldError::required(&path, ""));
    }
    if let Some(fault) = cron::fault(schedule) {
        errors.push(FieldError::invalid(&path, schedule, fault));
    }
}

/// Zones stand beside schedules; where one stood in it before, it may go on.
fn zone_in_schedule(spec: &Map, stood_there: bool, errors: &mut Errors) {
    let schedule = text(spec, "schedule");
    let detail = match (stood_there, is_given(spec, "timeZone")) {
        _ if !schedule.contains("TZ") => return,
        (false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        (true, true) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        (true, false) => return,
    };
    errors.push(FieldError::invalid(&Path::new("spec").child("schedule"), schedule, detail));
}

fn time_zone(spec: &Map, path: &Path, errors: &mut Errors) {
    if !is_given(spec, "timeZone") {
        return;
    }
    let zone = text(spec, "timeZone");
    let unknown = || format!("unknown time zone {zone}");
    let word = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte));
    let odd = |part: &str| matches!(part, "" | "." | "..") || part.starts_with('-') || part.len() > 64 || !word(part);
    let fault = match zone {
        "" => Some("timeZone must be nil or non-empty string".to_owned()),
        zone if zone.split('/').any(odd) => Some(unknown()),
        zone if zone.eq_ignore_ascii_case("local") => {
            Some("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned())
        }
        zone => ZONES.lines().all(|name| name != zone).then(unknown),
    };
    errors.extend(fault.map(|fault| FieldError::invalid(path, zone, fault)));
}

fn job_cells(job: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let (spec, status) = (object(job, "spec").unwrap_or(&empty), object(job, "status").unwrap_or(&empty));
    let succeeded = int(status, "succeeded").unwrap_or_default();
    let completions = match (int(spec, "completions"), int(spec, "parallelism").unwrap_or_default()) {
        (Some(completions), _) => ratio(succeeded, completions),
        (None, parallelism) if parallelism > 1 => Value::from(format!("{succeeded}/1 of {parallelism}")),
        (None, _) => ratio(succeeded, 1),
    };
    let at = |name: &str| time::parse(text(status, name)).ok();
    let duration = at("startTime").map(|start| cells::human_duration(start, at("completionTime").unwrap_or(now)));
    let has = |kind: &str| {
        items(status, "conditions")
            .any(|(_, condition)| text(condition, "type") == kind && text(condition, "status") == "True")
    };
    let deleting = metadata_str(job, "deletionTimestamp").is_some();
    let state = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if deleting => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let [names, images] = print::containers(object_at(spec, &["template", "spec"]));
    vec![
        cells::name(job),
        Value::from(state),
        completions,
        Value::from(duration.unwrap_or_default()),
        cells::age(job, now),
        names,
        images,
        print::selector(spec, "selector"),
    ]
}

fn cron_cells(job: &Map, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let (spec, status) = (object(job, "spec").unwrap_or(&empty), object(job, "status").unwrap_or(&empty));
    let template = object_at(spec, &["jobTemplate", "spec"]).unwrap_or(&empty);
    let [names, images] = print::containers(object_at(template, &["template", "spec"]));
    vec![
        cells::name(job),
        Value::from(text(spec, "schedule")),
        print::or_none(text(spec, "timeZone")),
        Value::from(if flag(spec, "suspend") { "True" } else { "False" }),
        Value::from(i64::try_from(list(status, "active").len()).unwrap_or(i64::MAX)),
        cells::since(status.get("lastScheduleTime"), now).map_or_else(|| print::or_none(""), Value::from),
        cells::age(job, now),
        names,
        images,
        print::selector(template, "selector"),
    ]
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;
    use crate::builtin::rules::judged;

    /// The labels of a new job, sorted, after those of its template and its own.
    fn labels(metadata: Value, of_template: Value) -> Vec<String> {
        let mut job = judged::object(json!({
            "metadata": metadata,
            "spec": {"template": {"metadata": {"labels": of_template}, "spec": {}}},
        }));
        prepare_job(Operation::Create, &mut job);
        let labels = object_at(&job, &["metadata", "labels"]);
        labels.into_iter().flat_map(Map::iter).map(|(key, _)| key.to_owned()).collect()
    }

    #[test]
    fn a_new_job_without_labels_has_those_of_its_template_and_its_pods() {
        const GENERATED: [&str; 4] = [UID_LABEL, NAME_LABEL, LEGACY_UID_LABEL, LEGACY_NAME_LABEL];
        let check = |metadata, of_template, expect: &[&str]| {
            let mut found = labels(metadata, of_template);
            found.sort();
            let mut expect: Vec<&str> = expect.to_vec();
            expect.sort_unstable();
            assert_eq!(found, expect);
        };
        let named = json!({"name": "a", "uid": "u"});
        let generated = json!({"name": "a-x", "generateName": "a-", "uid": "u"});
        check(named.clone(), json!({}), &GENERATED);
        check(generated.clone(), json!({}), &GENERATED);
        check(named, json!({"own": "x"}), &[&["own"], GENERATED.as_slice()].concat());
        check(generated, json!({"own": "x"}), &["own"]);
        check(json!({"name": "a", "uid": "u", "labels": {"b": "c"}}), json!({"own": "x"}), &["b"]);
    }
}
