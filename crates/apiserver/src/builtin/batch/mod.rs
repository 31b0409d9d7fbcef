//! Jobs and CronJobs (`k8s.io/kubernetes/pkg/apis/batch/validation`). Nothing acts on them here.

mod cron;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::object::metadata_str;
use allotment_machinery::selector::LabelSelector;
use allotment_machinery::time;
use jiff::Timestamp;

use crate::builtin::core::pod::{template_warnings, validate_template};
use crate::builtin::print::cells;
use crate::builtin::print::{self, number, ratio};
use crate::builtin::rules::checks::{domain_prefixed, immutable, not_negative, one_of, one_of_required};
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, object_at, text};
use crate::builtin::rules::{Errors, Rules, WHOLE_TOO};
use crate::builtin::types::depends::{labels_of_template, take_labels};
use crate::registry::Operation;

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
    prepare: |operation, job| {
        if matches!(operation, Operation::Create) {
            generate_selector(job);
        }
        // After the labels of the template are complete: a job without labels has all of them.
        let labels = labels_of_template(job);
        take_labels(job, labels);
    },
    validate: validate_job,
    validate_change: job_change,
    warn: |_, job| warnings(job, &["spec", "template", "spec"]),
    cells: Some(job_cells),
    select: |job, field| (field == "status.successful").then(|| number(job, &["status", "succeeded"]).to_string()),
    ..Rules::of("batch/v1.Job")
};

/// CronJobs.
pub(crate) const CRON_JOB: Rules = Rules {
    counts: true,
    validate: validate_cron_job,
    warn: |_, job| warnings(job, &["spec", "jobTemplate", "spec", "template", "spec"]),
    cells: Some(cron_cells),
    ..Rules::of("batch/v1.CronJob")
};

fn warnings(job: &Map, path: &[&str]) -> Vec<String> {
    let name = metadata_str(job, "name").unwrap_or_default();
    let found = names::dns1123_label(name);
    let mut warnings = Vec::new();
    if !found.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label \
             is recommended: [{}]",
            found.join(" ")
        ));
    }
    warnings.extend(template_warnings(job, path));
    warnings
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
    if flag(spec, "manualSelector") {
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
    let selected = object_at(spec, &["selector", "matchLabels"]).map(|labels| text(labels, UID_LABEL));
    if selected.is_some_and(|selected| selected != uid) {
        let shown = spec.get("selector").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(&path.child("selector"), &shown, "`selector` not auto-generated"));
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
    } else {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = int(spec, name) {
                errors.push(FieldError::invalid(&path.child(name), value, "requires indexed completion mode"));
            }
        }
    }
    let replaced: &[&str] =
        if is_given(spec, "podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    one_of(spec, "podReplacementPolicy", replaced, path, errors);
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
    if let (Some(completions), Some(failed)) = (completions, int(spec, "maxFailedIndexes"))
        && failed > completions
    {
        let detail = "must be less than or equal to completions";
        errors.push(FieldError::invalid(&path.child("maxFailedIndexes"), failed, detail));
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
    let elastic = text(is, "completionMode") == "Indexed"
        && is_given(was, "completions")
        && is.get("completions") == is.get("parallelism");
    let fields =
        ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];
    immutable(was, is, &fields, &path, errors);
    if !elastic {
        immutable(was, is, &["completions"], &path, errors);
    }
    let suspended = flag(was, "suspend");
    let started = object(old, "status").is_some_and(|status| is_given(status, "startTime"));
    let fixed = |spec: &Map| fixed_template(spec, suspended && !started, suspended);
    let template = fixed(is);
    if fixed(was) != template {
        let shown = is.get("template").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(&path.child("template"), shown, crate::builtin::rules::checks::IMMUTABLE));
    }
}

/// The template without what a job that has not begun may change.
fn fixed_template(spec: &Map, placed_freely: bool, sized_freely: bool) -> Option<Map> {
    let mut template = object(spec, "template")?.clone();
    if placed_freely {
        if let Some(metadata) = template.object_mut("metadata") {
            metadata.remove("labels");
            metadata.remove("annotations");
        }
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
        }
    }
    if sized_freely && let Some(pod) = template.object_mut("spec") {
        for list in ["containers", "initContainers"] {
            crate::builtin::rules::look::items_mut(pod, list).for_each(|container| {
                container.remove("resources");
            });
        }
    }
    Some(template)
}

fn validate_cron_job(job: &Map, errors: &mut Errors) {
    let name = metadata_str(job, "name").unwrap_or_default();
    let is_new = metadata_str(job, "resourceVersion").is_none();
    if is_new && name.len() > CRON_NAME_LENGTH {
        let detail = "must be no more than 52 characters";
        errors.push(FieldError::invalid(&Path::new("metadata").child("name"), name, detail));
    }
    let Some(spec) = object(job, "spec") else { return };
    let path = Path::new("spec");
    schedule(spec, &path, errors);
    let numbers = ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    not_negative(spec, &numbers, &path, errors);
    time_zone(spec, &path.child("timeZone"), errors);
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
    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(&path, schedule, detail));
    }
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
