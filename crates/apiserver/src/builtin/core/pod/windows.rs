//! Pods of Windows, and pods that say which system they are for
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::faults;
use crate::builtin::rules::look::{flag, is_given, list, object, text};

use super::containers::visit;

const LONGEST_CREDENTIAL_KIB: usize = 64;
const LONGEST_DOMAIN: usize = 256;
const LONGEST_USER: usize = 104;

/// The options of a security context.
pub(crate) fn options(options: &Map, path: &Path, errors: &mut Errors) {
    if is_given(options, "gmsaCredentialSpecName") {
        let name = text(options, "gmsaCredentialSpecName");
        faults(&path.child("gmsaCredentialSpecName"), name, names::dns1123_subdomain(name), errors);
    }
    if is_given(options, "gmsaCredentialSpec") {
        let (at, credential) = (path.child("gmsaCredentialSpec"), text(options, "gmsaCredentialSpec"));
        if credential.is_empty() {
            errors.push(FieldError::invalid(&at, credential, "gmsaCredentialSpec cannot be an empty string"));
        } else if credential.len() > LONGEST_CREDENTIAL_KIB * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {LONGEST_CREDENTIAL_KIB} KiB");
            errors.push(FieldError::invalid(&at, credential, detail));
        }
    }
    if is_given(options, "runAsUserName") {
        let name = text(options, "runAsUserName");
        let at = path.child("runAsUserName");
        errors.extend(user_faults(name).into_iter().map(|fault| FieldError::invalid(&at, name, fault)));
    }
}

/// What is wrong with a name such as `DOMAIN\user`.
fn user_faults(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_owned()],
    };
    let mut faults = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= LONGEST_DOMAIN) {
        faults.push(format!("runAsUserName's Domain length must be under {LONGEST_DOMAIN} characters"));
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        faults.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        faults.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > LONGEST_USER {
        faults.push(format!("runAsUserName's User length must not be longer than {LONGEST_USER} characters"));
    }
    if !user.is_empty() && user.bytes().all(|byte| matches!(byte, b'.' | b' ')) {
        faults.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let detail = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        faults.push(detail.to_owned());
    }
    faults
}

fn is_net_bios(domain: &str) -> bool {
    const LONGEST: usize = 15;
    let fits = !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
    fits && !domain.starts_with('.') && (1..=LONGEST).contains(&domain.chars().count())
}

fn is_dns(domain: &str) -> bool {
    const LONGEST_LABEL: usize = 63;
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    domain.split('.').all(|label| {
        let ends = label.bytes().next().is_some_and(plain) && label.bytes().next_back().is_some_and(plain);
        ends && label.len() <= LONGEST_LABEL && label.bytes().all(|byte| plain(byte) || byte == b'-')
    })
}

/// Processes of the host are all of a pod's or none.
pub(crate) fn host_processes(spec: &Map, path: &Path, errors: &mut Errors) {
    let host_process = |owner: &Map| {
        let options = object(owner, "securityContext").and_then(|context| object(context, "windowsOptions"))?;
        options.get("hostProcess").and_then(Value::as_bool)
    };
    let of_pod = host_process(spec);
    let (mut all, mut hosts) = (0, 0);
    for (at, container) in visit(spec, path) {
        all += 1;
        let own = host_process(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let at = at.child("securityContext").child("windowsOptions").child("hostProcess");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.push(FieldError::invalid(&at, ShownValue::raw(own.to_string()), detail));
        }
        hosts += usize::from(own.or(of_pod) == Some(true));
    }
    if hosts == 0 {
        return;
    }
    if hosts != all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(path, "", detail));
    }
    if !flag(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(&path.child("hostNetwork"), ShownValue::raw("false"), detail));
    }
}

/// Which system a pod is for, and what that system does not have.
pub(crate) fn system(spec: &Map, path: &Path, errors: &mut Errors) {
    let Some(os) = object(spec, "os") else { return };
    match text(os, "name") {
        "" => errors.push(FieldError::required(&path.child("os").child("name"), "")),
        "linux" => not_on_linux(spec, path, errors),
        "windows" => not_on_windows(spec, path, errors),
        other => errors.push(FieldError::not_supported(&path.child("os"), other, &["linux", "windows"])),
    }
}

fn not_on_linux(spec: &Map, path: &Path, errors: &mut Errors) {
    let contexts = std::iter::once((path.clone(), spec)).chain(visit(spec, path));
    for (at, owner) in contexts {
        let context = object(owner, "securityContext");
        if context.is_some_and(|context| is_given(context, "windowsOptions")) {
            let at = at.child("securityContext").child("windowsOptions");
            errors.push(FieldError::forbidden(&at, "windows options cannot be set for a linux pod"));
        }
    }
}

fn not_on_windows(spec: &Map, path: &Path, errors: &mut Errors) {
    const OF_CONTEXT: [&str; 11] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const OF_CONTAINERS: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let detail = "cannot be set for a windows pod";
    let mut refuse = |path: Path| errors.push(FieldError::forbidden(&path, detail));
    for name in ["hostUsers", "shareProcessNamespace"].into_iter().filter(|name| is_given(spec, name)) {
        refuse(path.child(name));
    }
    for name in ["hostPID", "hostIPC"].into_iter().filter(|name| flag(spec, name)) {
        refuse(path.child(name));
    }
    if let Some(context) = object(spec, "securityContext") {
        let given = |name: &&str| is_given(context, name) && (*name != "sysctls" || !list(context, name).is_empty());
        for name in OF_CONTEXT.into_iter().filter(given) {
            refuse(path.child("securityContext").child(name));
        }
    }
    for (at, container) in visit(spec, path) {
        let Some(context) = object(container, "securityContext") else { continue };
        for name in OF_CONTAINERS.into_iter().filter(|name| is_given(context, name)) {
            refuse(at.child("securityContext").child(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_windows_have_a_domain_and_a_name() {
        for (name, faults) in [
            ("user", 0),
            ("DOMAIN\\user", 0),
            ("a.example\\user", 0),
            ("", 1),
            ("a\\b\\c", 1),
            ("a\u{1}", 1),
            ("..", 1),
            ("\\user", 1),
            ("a\\", 1),
            ("a*b", 1),
        ] {
            assert_eq!(user_faults(name).len(), faults, "{name}: {:?}", user_faults(name));
        }
    }
}
