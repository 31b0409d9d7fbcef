//! Containers of pods and templates: names, images, ports, environment, mounts, probes and resources
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use std::collections::{BTreeMap, BTreeSet};

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::core::resources;
use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{
    faults, in_range, not_negative, one_of, one_of_required, port, port_name, port_number, required, required_name,
};
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, text};

/// What a container may refer to in its pod.
pub(crate) struct Around<'a> {
    /// The names of the volumes that are valid.
    pub(crate) volumes: &'a BTreeSet<&'a str>,
    /// The seconds that a pod has to end.
    pub(crate) grace: i64,
    /// Whether its users are those of the node.
    pub(crate) host_users: bool,
}

/// The containers that run.
pub(crate) fn validate(spec: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let path = path.child("containers");
    if list(spec, "containers").is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    let mut seen = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for (index, container) in items(spec, "containers") {
        let path = path.index(index);
        shared(container, around, &path, errors);
        if !seen.insert(text(container, "name")) {
            errors.push(FieldError::duplicate(&path.child("name"), text(container, "name")));
        }
        running(container, around, &path, errors);
        host_ports(container, &mut ports, &path, errors);
    }
}

/// The containers that run before.
pub(crate) fn validate_init(spec: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    const ONLY_FOR_SIDECARS: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
    let path = path.child("initContainers");
    let mut seen: BTreeSet<&str> = items(spec, "containers").map(|(_, container)| text(container, "name")).collect();
    for (index, container) in items(spec, "initContainers") {
        let path = path.index(index);
        shared(container, around, &path, errors);
        let name = text(container, "name");
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        host_ports(container, &mut BTreeSet::new(), &path, errors);
        match text(container, "restartPolicy") {
            "Always" => running(container, around, &path, errors),
            "" | "Never" | "OnFailure" => {
                for field in ONLY_FOR_SIDECARS.into_iter().filter(|field| is_given(container, field)) {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.push(FieldError::forbidden(&path.child(field), detail));
                }
            }
            other => {
                let supported = ["Always", "Never", "OnFailure"];
                errors.push(FieldError::not_supported(&path.child("restartPolicy"), other, &supported));
            }
        }
    }
}

/// What holds of containers of every sort.
fn shared(container: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    required_name(container, "name", names::dns1123_label, path, errors);
    required(container, "image", path, errors);
    let policies = ["File", "FallbackToLogsOnError"];
    one_of_required(container, "terminationMessagePolicy", &policies, path, errors);
    one_of_required(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    ports(container, &path.child("ports"), errors);
    environment(container, path, errors);
    mounts(container, around, path, errors);
    if let Some(wanted) = object(container, "resources") {
        resources::validate_requirements(wanted, &path.child("resources"), errors);
    }
    if let Some(context) = object(container, "securityContext") {
        security(context, around, &path.child("securityContext"), errors);
    }
}

fn ports(container: &Map, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in items(container, "ports") {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let found = port_name(name);
            if found.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
            faults(&path.child("name"), name, found, errors);
        }
        match int(port, "containerPort").unwrap_or_default() {
            0 => errors.push(FieldError::required(&path.child("containerPort"), "")),
            number => port_number(number, &path.child("containerPort"), errors),
        }
        if let Some(number) = int(port, "hostPort").filter(|number| *number != 0) {
            port_number(number, &path.child("hostPort"), errors);
        }
        one_of_required(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
    }
}

/// A port of the host is taken once.
fn host_ports(container: &Map, taken: &mut BTreeSet<String>, path: &Path, errors: &mut Errors) {
    for (index, port) in items(container, "ports") {
        let number = int(port, "hostPort").unwrap_or_default();
        let place = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
        if number != 0 && !taken.insert(place.clone()) {
            errors.push(FieldError::duplicate(&path.child("ports").index(index).child("hostPort"), &place));
        }
    }
}

fn environment(container: &Map, path: &Path, errors: &mut Errors) {
    for (index, variable) in items(container, "env") {
        let path = path.child("env").index(index);
        match text(variable, "name") {
            "" => errors.push(FieldError::required(&path.child("name"), "")),
            name => faults(&path.child("name"), name, variable_name(name), errors),
        }
        if let Some(source) = object(variable, "valueFrom") {
            variable_source(variable, source, &path.child("valueFrom"), errors);
        }
    }
    let list_path = path.child("envFrom");
    for (index, source) in items(container, "envFrom") {
        let path = list_path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            faults(&path.child("prefix"), prefix, variable_name(prefix), errors);
        }
        let given = ["configMapRef", "secretRef"].into_iter().filter(|name| is_given(source, name));
        // Kubernetes names the list here, not the element.
        match given.clone().count() {
            0 => errors.push(FieldError::invalid(&list_path, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => {
                let detail = "may not have more than one field specified at a time";
                errors.push(FieldError::invalid(&list_path, "", detail));
            }
        }
        for name in given {
            if let Some(reference) = object(source, name) {
                required_name(reference, "name", names::dns1123_subdomain, &path.child(name), errors);
            }
        }
    }
}

/// Printable ASCII without `=` (`IsRelaxedEnvVarName`).
fn variable_name(name: &str) -> names::Faults {
    let fits = name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=');
    if fits {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '=' (e.g. \
         'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is '^[ -<>-~]+$')",
    ]
}

fn variable_source(variable: &Map, source: &Map, path: &Path, errors: &mut Errors) {
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = object(source, name) {
            let path = path.child(name);
            required(reference, "name", &path, errors);
            required_name(reference, "key", names::config_map_key, &path, errors);
        }
    }
    if let Some(reference) = object(source, "fieldRef") {
        required(reference, "apiVersion", &path.child("fieldRef"), errors);
        required(reference, "fieldPath", &path.child("fieldRef"), errors);
        field_path(text(reference, "fieldPath"), &path.child("fieldRef").child("fieldPath"), errors);
    }
    if let Some(reference) = object(source, "resourceFieldRef") {
        required(reference, "resource", &path.child("resourceFieldRef"), errors);
    }
    let detail = match sources.iter().filter(|name| is_given(source, name)).count() {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", detail));
}

/// A field of the pod that a variable may be made of. Those that a pod does not have at all are told of in other
/// words than those that no variable takes.
fn field_path(field: &str, path: &Path, errors: &mut Errors) {
    const TAKEN: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    const OTHERS: [&str; 7] = [
        "metadata.annotations",
        "metadata.labels",
        "spec.hostNetwork",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.nominatedNodeName",
        "status.phase",
    ];
    if field.is_empty() || TAKEN.contains(&field) {
        return;
    }
    if let Some((of, _)) = field.split_once("['").filter(|(_, rest)| rest.ends_with("']")) {
        if !matches!(of, "metadata.labels" | "metadata.annotations") {
            errors.push(FieldError::invalid(path, field, "does not support subscript"));
        }
        return;
    }
    if OTHERS.contains(&field) {
        errors.push(FieldError::not_supported(path, field, &TAKEN));
    } else {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        errors.push(FieldError::invalid(path, field, detail));
    }
}

fn mounts(container: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let mut places = BTreeSet::new();
    let list_path = path.child("volumeMounts");
    for (index, mount) in items(container, "volumeMounts") {
        let path = list_path.index(index);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        required(mount, "name", &path, errors);
        if !around.volumes.contains(name) {
            errors.push(FieldError::not_found(&path.child("name"), name));
        }
        required(mount, "mountPath", &path, errors);
        if !places.insert(place) {
            errors.push(FieldError::invalid(&path.child("mountPath"), place, "must be unique"));
        }
        let below = text(mount, "subPath");
        // Kubernetes names the list here, not the element.
        descending(below, &list_path.child("subPath"), errors);
        descending(text(mount, "subPathExpr"), &list_path.child("subPathExpr"), errors);
        if !below.is_empty() && !text(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(&path.child("subPathExpr"), text(mount, "subPathExpr"), detail));
        }
    }
    for (index, device) in items(container, "volumeDevices") {
        let path = path.child("volumeDevices").index(index);
        required(device, "name", &path, errors);
        required(device, "devicePath", &path, errors);
        if !around.volumes.contains(text(device, "name")) {
            errors.push(FieldError::not_found(&path.child("name"), text(device, "name")));
        }
    }
}

/// A path that stays below where it begins.
fn descending(value: &str, path: &Path, errors: &mut Errors) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    if value.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, value, "must not contain '..'"));
    }
}

/// Probes and hooks of containers that keep running.
fn running(container: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = object(container, name) else { continue };
        let path = path.child(name);
        action(probe, around, &path, errors);
        let numbers =
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
        not_negative(probe, &numbers, &path, errors);
        let grace = int(probe, "terminationGracePeriodSeconds");
        if name == "readinessProbe" {
            if let Some(grace) = grace {
                let detail = "must not be set for readinessProbes";
                errors.push(FieldError::invalid(&path.child("terminationGracePeriodSeconds"), grace, detail));
            }
            continue;
        }
        if let Some(grace) = grace.filter(|grace| *grace <= 0) {
            let path = path.child("terminationGracePeriodSeconds");
            errors.push(FieldError::invalid(&path, grace, "must be greater than 0"));
        }
        if let Some(count) = int(probe, "successThreshold").filter(|count| *count != 1) {
            errors.push(FieldError::invalid(&path.child("successThreshold"), count, "must be 1"));
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = object(lifecycle, name) {
                action(handler, around, &path.child("lifecycle").child(name), errors);
            }
        }
    }
}

/// What a probe or a hook does: one thing.
fn action(handler: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    let mut given =
        ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].into_iter().filter(|name| is_given(handler, name));
    let Some(first) = given.next() else {
        return errors.push(FieldError::required(path, "must specify a handler type"));
    };
    for more in given {
        errors.push(FieldError::forbidden(&path.child(more), "may not specify more than 1 handler type"));
    }
    let (Some(action), path) = (object(handler, first), path.child(first)) else { return };
    match first {
        "exec" if list(action, "command").is_empty() => errors.push(FieldError::required(&path.child("command"), "")),
        "httpGet" => {
            required(action, "path", &path, errors);
            port(action.get("port").unwrap_or(&Value::Null), &path.child("port"), errors);
            one_of(action, "scheme", &["HTTP", "HTTPS"], &path, errors);
        }
        "tcpSocket" | "grpc" => port(action.get("port").unwrap_or(&Value::Null), &path.child("port"), errors),
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

/// A context as messages of Kubernetes show it: the members of its internal type. What is in them is shown as
/// it was given.
fn security_shown(context: &Map) -> ShownValue {
    const MEMBERS: [&str; 12] = [
        "capabilities",
        "privileged",
        "seLinuxOptions",
        "windowsOptions",
        "runAsUser",
        "runAsGroup",
        "runAsNonRoot",
        "readOnlyRootFilesystem",
        "allowPrivilegeEscalation",
        "procMount",
        "seccompProfile",
        "appArmorProfile",
    ];
    let member = |name: &str| {
        let own = match name {
            "seLinuxOptions" => "SELinuxOptions".to_owned(),
            other => format!("{}{}", other[..1].to_uppercase(), &other[1..]),
        };
        format!("{}:{}", Value::from(own), context.get(name).unwrap_or(&Value::Null))
    };
    ShownValue::raw(format!("{{{}}}", MEMBERS.map(member).join(",")))
}

fn security(context: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    for name in ["runAsUser", "runAsGroup"] {
        if let Some(id) = int(context, name) {
            in_range(id, 0, i64::from(i32::MAX), &path.child(name), errors);
        }
    }
    if let Some(kind) = object(context, "seccompProfile") {
        let supported = ["Localhost", "RuntimeDefault", "Unconfined"];
        one_of_required(kind, "type", &supported, &path.child("seccompProfile"), errors);
    }
    one_of(context, "procMount", &["Default", "Unmasked"], path, errors);
    if text(context, "procMount") == "Unmasked" && around.host_users {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        errors.push(FieldError::invalid(&path.child("procMount"), "Unmasked", detail));
    }
    let privileged = flag(context, "privileged");
    let escalates = context.get("allowPrivilegeEscalation").and_then(Value::as_bool);
    if escalates == Some(false) && privileged {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(FieldError::invalid(path, security_shown(context), detail));
    }
}

/// What is said of containers that are taken: variables and ports that stand twice
/// (`k8s.io/kubernetes/pkg/api/pod`, warnings).
pub(crate) fn warnings(spec: &Map, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut ports: BTreeMap<(i64, &str), Vec<(Path, &Map)>> = BTreeMap::new();
    let mut port_names: BTreeMap<&str, Path> = BTreeMap::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in items(spec, list) {
            let path = path.child(list).index(index);
            hidden_variables(container, &path, &mut warnings);
            for (index, port) in items(container, "ports") {
                let at = path.child("ports").index(index);
                let place = (int(port, "containerPort").unwrap_or_default(), text(port, "protocol"));
                let same = |other: &Map| ["hostIP", "hostPort"].iter().all(|name| port.get(name) == other.get(name));
                let others = ports.entry(place).or_default();
                let twice = others.iter().filter(|(_, other)| same(other));
                warnings.extend(twice.map(|(other, _)| format!("{at}: duplicate port definition with {other}")));
                others.push((at.clone(), port));
                let name = text(port, "name");
                match port_names.get(name) {
                    _ if name.is_empty() => {}
                    Some(other) => warnings.push(format!(
                        "{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name \
                         will use {other}"
                    )),
                    None => {
                        port_names.insert(name, at);
                    }
                }
            }
        }
    }
    warnings
}

/// A variable that stands twice hides the first, unless it is made of it.
fn hidden_variables(container: &Map, path: &Path, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, variable) in items(container, "env") {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        let own = format!("$({name})");
        if !seen.insert(name) && (value == own || !value.contains(&own)) {
            let at = path.child("env").index(index);
            warnings
                .push(format!("{at}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
}
