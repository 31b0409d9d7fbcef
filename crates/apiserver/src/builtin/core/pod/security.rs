//! With which rights pods and containers run: security contexts and their profiles, kernel parameters, options of
//! Windows (`k8s.io/kubernetes/pkg/apis/core/validation`).

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::json::{Map, Value};

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{in_range, one_of};
use crate::builtin::rules::look::{flag, int, is_given, items, list, object, text, texts};

use super::containers::Around;
use super::mounts::descending;
use super::windows;

/// The context of a pod.
pub(crate) fn of_pod(spec: &Map, path: &Path, errors: &mut Errors) {
    let shares = spec.get("shareProcessNamespace").and_then(Value::as_bool) == Some(true);
    if shares && flag(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&path.child("shareProcessNamespace"), ShownValue::raw("true"), detail));
    }
    let Some(context) = object(spec, "securityContext") else { return };
    users(context, &["fsGroup", "runAsUser", "runAsGroup"], path, errors);
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        let path = path.child("supplementalGroups").index(index);
        in_range(group.as_i64().unwrap_or_default(), 0, i64::from(i32::MAX), &path, errors);
    }
    sysctls(spec, context, &path.child("sysctls"), errors);
    one_of(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], path, errors);
    profiles(context, path, errors);
    one_of(context, "supplementalGroupsPolicy", &["Merge", "Strict"], path, errors);
    one_of(context, "seLinuxChangePolicy", &["MountOption", "Recursive"], path, errors);
}

/// The context of a container.
pub(crate) fn of_container(context: &Map, around: &Around<'_>, path: &Path, errors: &mut Errors) {
    users(context, &["runAsUser", "runAsGroup"], path, errors);
    one_of(context, "procMount", &["Default", "Unmasked"], path, errors);
    if text(context, "procMount") == "Unmasked" && around.host_users {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        errors.push(FieldError::invalid(&path.child("procMount"), "Unmasked", detail));
    }
    let escalates = context.get("allowPrivilegeEscalation").and_then(Value::as_bool);
    if escalates == Some(false) {
        if flag(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(path, shown(context), detail));
        }
        let added = object(context, "capabilities").into_iter().flat_map(|capabilities| texts(capabilities, "add"));
        for _ in added.filter(|capability| *capability == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(path, shown(context), detail));
        }
    }
    profiles(context, path, errors);
}

fn users(context: &Map, names: &[&str], path: &Path, errors: &mut Errors) {
    for name in names {
        if let Some(id) = int(context, name) {
            in_range(id, 0, i64::from(i32::MAX), &path.child(name), errors);
        }
    }
}

/// What both contexts have alike.
fn profiles(context: &Map, path: &Path, errors: &mut Errors) {
    if let Some(profile) = object(context, "seccompProfile") {
        seccomp(profile, &path.child("seccompProfile"), errors);
    }
    if let Some(options) = object(context, "windowsOptions") {
        windows::options(options, &path.child("windowsOptions"), errors);
    }
    if let Some(profile) = object(context, "appArmorProfile") {
        app_armor(profile, &path.child("appArmorProfile"), errors);
    }
}

fn seccomp(profile: &Map, path: &Path, errors: &mut Errors) {
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    let (kind, file) = (text(profile, "type"), path.child("localhostProfile"));
    if kind.is_empty() {
        let detail = "type is required when seccompProfile is set";
        errors.push(FieldError::required(&path.child("type"), detail));
    } else if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &kinds));
    }
    match (kind, is_given(profile, "localhostProfile")) {
        ("Localhost", false) => {
            errors.push(FieldError::required(&file, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", true) => descending(text(profile, "localhostProfile"), &file, errors),
        (_, true) => {
            let shown = format!(
                "{{\"Type\":{},\"LocalhostProfile\":{}}}",
                Value::from(kind),
                profile.get("localhostProfile").unwrap_or(&Value::Null)
            );
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid(&file, ShownValue::raw(shown), detail));
        }
        (_, false) => {}
    }
}

/// A profile of AppArmor.
pub(crate) fn app_armor(profile: &Map, path: &Path, errors: &mut Errors) {
    const LONGEST_FILE: usize = 4095;
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    let (given, name) = (is_given(profile, "localhostProfile"), text(profile, "localhostProfile"));
    let file = path.child("localhostProfile");
    match text(profile, "type") {
        "Localhost" => {
            if given && name.trim() != name {
                errors.push(FieldError::invalid(&file, name, "must not be padded with whitespace"));
            } else if name.is_empty() {
                errors.push(FieldError::required(&file, "must be set when AppArmor type is Localhost"));
            }
            if name.len() > LONGEST_FILE {
                errors.push(FieldError::too_long(&file, LONGEST_FILE));
            }
        }
        "RuntimeDefault" | "Unconfined" if given => {
            errors.push(FieldError::invalid(&file, name, "can only be set when AppArmor type is Localhost"));
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => {
            let detail = "type is required when appArmorProfile is set";
            errors.push(FieldError::required(&path.child("type"), detail));
        }
        other => errors.push(FieldError::not_supported(&path.child("type"), other, &kinds)),
    }
}

/// Parameters of the kernel, each once, and none of what the pod shares with its node.
fn sysctls(spec: &Map, context: &Map, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in items(context, "sysctls") {
        let path = path.index(index).child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !is_sysctl(name) {
            let detail = "must have at most 253 characters and match regex \
                ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(FieldError::invalid(&path, name, detail));
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        let shared = match Space::of(name) {
            Some(Space::Net) if flag(spec, "hostNetwork") => Some("hostNetwork"),
            Some(Space::Ipc) if flag(spec, "hostIPC") => Some("hostIPC"),
            _ => None,
        };
        if let Some(host) = shared {
            errors.push(FieldError::invalid(&path, name, format!("may not be specified when '{host}' is true")));
        }
        seen.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    const LONGEST: usize = 253;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let ends = part.bytes().next().is_some_and(plain) && part.bytes().next_back().is_some_and(plain);
        ends && part.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= LONGEST && name.split(['.', '/']).all(part)
}

/// What of the kernel a parameter belongs to.
enum Space {
    Ipc,
    Net,
}

impl Space {
    fn of(sysctl: &str) -> Option<Space> {
        const IPC: [&str; 10] = [
            "kernel.sem",
            "kernel.shmall",
            "kernel.shmmax",
            "kernel.shmmni",
            "kernel.shm_rmid_forced",
            "kernel.shm",
            "kernel.msgmax",
            "kernel.msgmnb",
            "kernel.msgmni",
            "kernel.msg",
        ];
        // A name may be written with slashes; then its dots are slashes.
        let first = sysctl.find(['.', '/']).and_then(|at| sysctl.get(at..=at));
        let name = match first {
            Some("/") => sysctl
                .chars()
                .map(|c| {
                    if c == '/' {
                        '.'
                    } else if c == '.' {
                        '/'
                    } else {
                        c
                    }
                })
                .collect(),
            _ => sysctl.to_owned(),
        };
        match name.as_str() {
            name if IPC.contains(&name) || name.starts_with("fs.mqueue.") => Some(Space::Ipc),
            name if name.starts_with("net.") => Some(Space::Net),
            _ => None,
        }
    }
}

/// A context as messages of Kubernetes show it: the members of its internal type. What is in them is shown as
/// it was given.
fn shown(context: &Map) -> ShownValue {
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
    let capabilities = || match object(context, "capabilities") {
        None => "null".to_owned(),
        Some(own) => {
            let [add, drop] = ["add", "drop"].map(|name| own.get(name).unwrap_or(&Value::Null));
            format!("{{\"Add\":{add},\"Drop\":{drop}}}")
        }
    };
    let member = |name: &str| {
        let own = match name {
            "seLinuxOptions" => "SELinuxOptions".to_owned(),
            other => format!("{}{}", other[..1].to_uppercase(), &other[1..]),
        };
        let value = match name {
            "capabilities" => capabilities(),
            name => context.get(name).unwrap_or(&Value::Null).to_string(),
        };
        format!("{}:{value}", Value::from(own))
    };
    ShownValue::raw(format!("{{{}}}", MEMBERS.map(member).join(",")))
}
