//! Volumes that lead to storage elsewhere: what each kind needs (`k8s.io/kubernetes/pkg/apis/core/validation`). Most
//! of them have no driver in Kubernetes any more; they are judged all the same.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::{faults, in_range, one_of, optional_name, required, required_name};
use crate::builtin::rules::look::{flag, int, is_given, list, object, text};

use super::mounts::descending;
use super::volumes::{driver_name, reference};

/// Members that have to be there, by kind of source.
const REQUIRED: &[(&str, &[&str])] = &[
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("gitRepo", &["repository"]),
    ("glusterfs", &["endpoints", "path"]),
    ("iscsi", &["targetPortal"]),
    ("nfs", &["server", "path"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("rbd", &["image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("vsphereVolume", &["volumePath"]),
    ("awsElasticBlockStore", &["volumeID"]),
];

/// Checks a source of the kind `kind`, which is that of `volume` at `path`.
pub(crate) fn validate(kind: &str, source: &Map, volume: &Map, path: &Path, errors: &mut Errors) {
    let at = path.child(kind);
    for (_, names) in REQUIRED.iter().filter(|(of, _)| *of == kind) {
        names.iter().for_each(|name| required(source, name, &at, errors));
    }
    match kind {
        "gitRepo" => descending(text(source, "directory"), &at.child("directory"), errors),
        "gcePersistentDisk" => {
            // Kubernetes has another name for it here.
            let at = path.child("persistentDisk");
            required(source, "pdName", &at, errors);
            partition(source, &at, errors);
        }
        "awsElasticBlockStore" => partition(source, &at, errors),
        "nfs" if !text(source, "path").starts_with('/') => {
            errors.push(FieldError::invalid(&at.child("path"), text(source, "path"), "must be an absolute path"));
        }
        "iscsi" => iscsi(source, volume, path, errors),
        "flocker" => flocker(source, &at, errors),
        "rbd" | "cephfs" if list(source, "monitors").is_empty() => {
            errors.push(FieldError::required(&at.child("monitors"), ""));
        }
        "cinder" => reference(source, "secretRef", &at, errors),
        "quobyte" => quobyte(source, &at, errors),
        "fc" => fibre_channel(source, &at, errors),
        "flexVolume" => flex(source, &at, errors),
        "azureDisk" => azure_disk(source, &at, errors),
        "storageos" => {
            required_name(source, "volumeName", names::dns1123_label, &at, errors);
            optional_name(source, "volumeNamespace", names::dns1123_label, &at, errors);
            reference(source, "secretRef", &at, errors);
        }
        "csi" => {
            driver_name(text(source, "driver"), &at.child("driver"), errors);
            if let Some(secret) = object(source, "nodePublishSecretRef") {
                match text(secret, "name") {
                    "" => errors.push(FieldError::required(&at.child("nodePublishSecretRef").child("name"), "")),
                    // Kubernetes names the source here.
                    name => faults(&at.child("name"), name, names::dns1123_subdomain(name), errors),
                }
            }
        }
        _ => {}
    }
}

fn partition(source: &Map, path: &Path, errors: &mut Errors) {
    // None is 0, of which the message does not speak.
    if let Some(number) = int(source, "partition").filter(|number| !(0..=255).contains(number)) {
        errors.push(FieldError::invalid(&path.child("partition"), number, "must be between 1 and 255, inclusive"));
    }
}

fn iscsi(source: &Map, volume: &Map, path: &Path, errors: &mut Errors) {
    const LONGEST: usize = 64;
    const FORM: &str = "must be valid format";
    let at = path.child("iscsi");
    let begins = |name: &str| ["iqn", "eui", "naa"].iter().any(|prefix| name.starts_with(prefix));
    let name = text(source, "iqn");
    if name.is_empty() {
        errors.push(FieldError::required(&at.child("iqn"), ""));
    } else if !begins(name) {
        let detail = "must be valid format starting with iqn, eui, or naa";
        errors.push(FieldError::invalid(&at.child("iqn"), name, detail));
    } else if !is_initiator(name) {
        errors.push(FieldError::invalid(&at.child("iqn"), name, FORM));
    }
    in_range(int(source, "lun").unwrap_or_default(), 0, 255, &at.child("lun"), errors);
    let asks = flag(source, "chapAuthDiscovery") || flag(source, "chapAuthSession");
    if asks && !is_given(source, "secretRef") {
        errors.push(FieldError::required(&at.child("secretRef"), ""));
    }
    if !is_given(source, "initiatorName") {
        return;
    }
    let initiator = text(source, "initiatorName");
    if !begins(initiator) {
        let detail = "must be valid format starting with iqn, eui, or naa";
        errors.push(FieldError::invalid(&at.child("initiatorname"), initiator, detail));
    } else if !is_initiator(initiator) {
        errors.push(FieldError::invalid(&at.child("initiatorname"), initiator, FORM));
    }
    let own = text(volume, "name");
    if own.len() + 1 + text(source, "targetPortal").len() > LONGEST {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
            iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(&path.child("name"), own, detail));
    }
}

/// `iqn.2001-04.com.example:storage`, `eui.0123456789abcdef`, `naa.0123456789abcdef` (RFC 3720, 3980).
fn is_initiator(name: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.split_once('.') {
        Some(("eui", rest)) => rest.len() == 16 && hex(rest),
        Some(("naa", rest)) => rest.len() == 32 && hex(rest),
        Some(("iqn", rest)) => {
            let Some((date, owner)) = rest.split_once('.') else { return false };
            let Some((year, month)) = date.split_once('-') else { return false };
            let digits = |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
            let (domain, own) = owner.split_once(':').map_or((owner, None), |(domain, own)| (domain, Some(own)));
            let ends = |text: &str| {
                let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
                edge(text.bytes().next()) && edge(text.bytes().next_back())
            };
            digits(year, 4)
                && digits(month, 2)
                && ends(domain)
                && domain.bytes().all(plain)
                && own.is_none_or(|own| !own.is_empty() && !own.contains(char::is_whitespace))
        }
        _ => false,
    }
}

fn flocker(source: &Map, path: &Path, errors: &mut Errors) {
    let (name, id) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && id.is_empty() {
        errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !id.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid(path, "resource", detail));
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
}

fn quobyte(source: &Map, path: &Path, errors: &mut Errors) {
    const LONGEST_TENANT: usize = 64;
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "registry");
    if registry.is_empty() {
        errors.push(FieldError::required(&path.child("registry"), PAIRS));
    } else if text(source, "tenant").len() > LONGEST_TENANT {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(&path.child("tenant"), detail));
    } else {
        let is_pair =
            |pair: &&str| pair.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
        for _ in registry.split(',').filter(|pair| !is_pair(pair)) {
            errors.push(FieldError::invalid(&path.child("registry"), registry, PAIRS));
        }
    }
    required(source, "volume", path, errors);
}

fn fibre_channel(source: &Map, path: &Path, errors: &mut Errors) {
    let (targets, ids) = (list(source, "targetWWNs"), list(source, "wwids"));
    let at = path.child("targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        errors.push(FieldError::required(&at, "must specify either targetWWNs or wwids, but not both"));
    }
    if !targets.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(&at, &Value::Array(targets.to_vec()), detail));
    }
    if !targets.is_empty() {
        match int(source, "lun") {
            None => errors.push(FieldError::required(&path.child("lun"), "lun is required if targetWWNs is specified")),
            Some(number) => in_range(number, 0, 255, &path.child("lun"), errors),
        }
    }
}

fn flex(source: &Map, path: &Path, errors: &mut Errors) {
    for (key, _) in object(source, "options").into_iter().flat_map(Map::iter) {
        let owner = key.split_once('/').map_or(key, |(owner, _)| owner).to_lowercase();
        let reserved = ["kubernetes.io", "k8s.io"];
        if reserved.iter().any(|name| owner == *name || owner.ends_with(&format!(".{name}"))) {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(&path.child("options").key(key), key, detail));
        }
    }
}

fn azure_disk(source: &Map, path: &Path, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    one_of(source, "cachingMode", &["None", "ReadOnly", "ReadWrite"], path, errors);
    one_of(source, "kind", &["Dedicated", "Managed", "Shared"], path, errors);
    let (place, at) = (text(source, "diskURI"), path.child("diskURI"));
    let managed = text(source, "kind") == "Managed";
    if managed && !place.starts_with("/subscriptions/") {
        errors.push(FieldError::not_supported(&at, place, &[MANAGED]));
    }
    if is_given(source, "kind") && !managed && !place.starts_with("https://") {
        errors.push(FieldError::not_supported(&at, place, &[BLOB]));
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    #[track_caller]
    fn check(kind: &str, source: Value, expect: &[&str]) {
        let volume = json!({"name": "v"});
        let mut errors = Errors::default();
        let source = source.as_object().expect("an object").clone();
        validate(kind, &source, volume.as_object().expect("an object"), &Path::new("v"), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{kind}");
    }

    #[test]
    fn each_kind_of_storage_needs_its_own() {
        check("nfs", json!({"server": "s", "path": "/p"}), &[]);
        check(
            "nfs",
            json!({"path": "p"}),
            &["v.nfs.server: Required value", "v.nfs.path: Invalid value: \"p\": must be an absolute path"],
        );
        check("iscsi", json!({"targetPortal": "p", "iqn": "iqn.2001-04.com.example:storage.disk1", "lun": 0}), &[]);
        check(
            "iscsi",
            json!({"targetPortal": "p", "iqn": "iqn.2001", "lun": 256}),
            &[
                "v.iscsi.iqn: Invalid value: \"iqn.2001\": must be valid format",
                "v.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            ],
        );
        check("fc", json!({"targetWWNs": ["a"], "lun": 1}), &[]);
        check(
            "fc",
            json!({"targetWWNs": ["a"]}),
            &["v.fc.lun: Required value: lun is required if targetWWNs is specified"],
        );
        check("csi", json!({"driver": "Example.com"}), &[]);
        check("gcePersistentDisk", json!({}), &["v.persistentDisk.pdName: Required value"]);
        check(
            "flexVolume",
            json!({"driver": "d", "options": {"a.k8s.io/x": "1"}}),
            &[
                "v.flexVolume.options[a.k8s.io/x]: Invalid value: \"a.k8s.io/x\": kubernetes.io and k8s.io namespaces are \
               reserved",
            ],
        );
    }
}
