//! Writes a sequence as a scenario of `tests/golden`, which `replay.py --record` completes with what
//! kube-apiserver answers: that is how a difference becomes a test.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use crate::run::Parting;
use crate::sequence::{Body, Sequence, Step, StepKind, pattern};

/// What answers to steps are known by, and where it stands in them.
const LEARNED: &[(&str, &str)] = &[
    ("rv", "$.metadata.resourceVersion"),
    ("list", "$.metadata.resourceVersion"),
    ("uid", "$.metadata.uid"),
    ("name", "$.metadata.name"),
    ("continue", "$.metadata.continue"),
    ("token", "$.status.token"),
];

/// A scenario in YAML, without what is expected.
pub fn render(name: &str, sequence: &Sequence, parting: Option<&Parting>) -> String {
    let why = parting.map_or_else(String::new, describe);
    let mut out = format!("  - name: {name}\n    area: found\n    why: {}\n    steps:\n", Value::from(why));
    for step in &sequence.steps {
        out.push_str(&format!("      - do: {}\n", request(step)));
        if let StepKind::Until(status) = step.kind {
            out.push_str(&format!("        until: {{\"status\": {status}}}\n        setup: true\n"));
        }
        let captured: Vec<String> = LEARNED
            .iter()
            .map(|(what, path)| (format!("{what}{}", step.id), path))
            .filter(|(name, _)| sequence.steps.iter().any(|other| other.mentions(&format!("${{{name}}}"))))
            .map(|(name, path)| format!("{name}: {path}"))
            .collect();
        if !captured.is_empty() {
            out.push_str(&format!("        capture: {{{}}}\n", captured.join(", ")));
        }
    }
    for step in sequence.steps.iter().filter(|step| step.kind == StepKind::Watch) {
        out.push_str(&format!("      - do: {{\"collect\": {{\"id\": \"w{}\", \"settle\": 0.5}}}}\n", step.id));
    }
    out
}

/// All differences of a parting, a line each.
pub fn describe(parting: &Parting) -> String {
    let lines = parting.differences.iter().take(12);
    let lines = lines.map(|each| format!("  {}\n    theirs {}\n    ours   {}", each.path, each.theirs, each.ours));
    format!("step {} {}\n{}", parting.step, parting.request, lines.collect::<Vec<_>>().join("\n"))
}

fn request(step: &Step) -> Value {
    let mut request = json!({"method": (step.method.as_str()), "path": (pattern(step))});
    let Some(map) = request.as_object_mut() else { return request };
    if !step.headers.is_empty() {
        let headers = step.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        map.insert("headers", Value::Object(headers.collect()));
    }
    match &step.body {
        Body::None => {}
        Body::Json(value) => {
            map.insert("body", value.clone());
        }
        Body::Raw(text) => {
            map.insert("raw", text.as_str());
        }
    }
    if step.kind == StepKind::Watch {
        map.insert("watch", json!({"id": (format!("w{}", step.id))}));
    }
    request
}
