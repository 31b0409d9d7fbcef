//! What a node does to a container that keeps running: probes and hooks, and the actions that they are
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{not_negative, port, required};
use crate::builtin::rules::look::{int, is_given, items, list, object, text};

use super::containers::Around;

/// What a probe may be.
const PROBES: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
/// What a hook may be.
const HOOKS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];

/// Probes and hooks of a container that keeps running.
pub(crate) fn validate(container: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    if let Some(lifecycle) = object(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = object(lifecycle, name) {
                action(handler, HOOKS, around, &path.child("lifecycle").child(name), errors);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = object(container, name) {
            validate_probe(name, probe, around, &path.child(name), errors);
        }
    }
}

fn validate_probe(name: &str, probe: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    const NUMBERS: [&str; 5] =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    action(probe, PROBES, around, path, errors);
    not_negative(probe, &NUMBERS, path, errors);
    let grace = int(probe, "terminationGracePeriodSeconds");
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        errors.push(FieldError::invalid(&grace_path, grace, "must be greater than 0"));
    }
    if name == "readinessProbe" {
        if let Some(grace) = grace {
            errors.push(FieldError::invalid(&grace_path, grace, "must not be set for readinessProbes"));
        }
    } else if let Some(count) = int(probe, "successThreshold").filter(|count| *count != 1) {
        errors.push(FieldError::invalid(&path.child("successThreshold"), count, "must be 1"));
    }
}

/// What a probe or a hook does: one thing.
fn action(handler: &Map, kinds: &[&str], around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let mut given = kinds.iter().filter(|name| is_given(handler, name));
    let Some(first) = given.next() else {
        return errors.push(FieldError::required(path, "must specify a handler type"));
    };
    for more in given {
        errors.push(FieldError::forbidden(&path.child(more), "may not specify more than 1 handler type"));
    }
    let (Some(action), path) = (object(handler, first), path.child(first)) else { return };
    let port_of = |action: &'_ Map| action.get("port").cloned().unwrap_or(Value::Null);
    match *first {
        "exec" if list(action, "command").is_empty() => errors.push(FieldError::required(&path.child("command"), "")),
        "httpGet" => {
            required(action, "path", &path, errors);
            port(&port_of(action), &path.child("port"), errors);
            let (scheme, schemes) = (text(action, "scheme"), ["HTTP", "HTTPS"]);
            if !schemes.contains(&scheme) {
                errors.push(FieldError::not_supported(&path.child("scheme"), scheme, &schemes));
            }
            headers(action, &path.child("httpHeaders"), errors);
        }
        "tcpSocket" | "grpc" => port(&port_of(action), &path.child("port"), errors),
        "sleep" => {
            let seconds = int(action, "seconds").unwrap_or_default();
            if seconds < 0 || seconds > around.grace {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({})", around.grace);
                errors.push(FieldError::invalid(&path, seconds, detail));
            }
        }
        _ => {}
    }
}

fn headers(action: &Map, path: &Path, errors: &mut Errors) {
    for (_, header) in items(action, "httpHeaders") {
        let name = text(header, "name");
        let fits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !fits {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
                regex used for validation is '[-A-Za-z0-9]+')";
            // Kubernetes names the list here, not the element.
            errors.push(FieldError::invalid(path, name, detail));
        }
    }
}
