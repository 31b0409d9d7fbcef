//! ConfigMaps and Secrets.

use std::collections::BTreeSet;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::builtin::print::cells;
use crate::builtin::rules::Errors;
use crate::builtin::types::gojson;
use crate::registry::{MetadataChecks, Operation, Strategy, Warnings};

/// The most that the values of one ConfigMap or Secret may hold together, in bytes, as in Kubernetes.
const MAX_DATA_BYTES: usize = 1024 * 1024;

const IMMUTABLE: &str = "field is immutable when `immutable` is set";
/// What messages show in place of a Secret's values.
const REDACTED: &str = "<secret contents redacted>";
const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// ConfigMaps.
#[derive(Debug)]
pub(crate) struct ConfigMap;

/// Secrets.
#[derive(Debug)]
pub(crate) struct Secret;

fn data<'a>(object: &'a Map, field: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    object.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// How long a value is that is kept as base64.
fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
}

fn check_keys<'a>(path: &Path, data: impl Iterator<Item = (&'a str, &'a Value)>, errors: &mut Errors) {
    for (key, _) in data {
        errors.extend(
            names::config_map_key(key).into_iter().map(|fault| FieldError::invalid(&path.key(key), key, fault)),
        );
    }
}

/// What may not change once `immutable` is set.
fn check_immutable(old: &Map, new: &Map, fields: &[&str], errors: &mut Errors) {
    let set = |object: &Map| object.get("immutable").and_then(Value::as_bool) == Some(true);
    if !set(old) {
        return;
    }
    if !set(new) {
        errors.push(FieldError::forbidden(&Path::new("immutable"), IMMUTABLE));
    }
    for field in fields {
        if old.get(field) != new.get(field) {
            errors.push(FieldError::forbidden(&Path::new(field), IMMUTABLE));
        }
    }
}

impl Strategy for ConfigMap {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 1, core: true }
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let mut errors = Errors::default();
        if let Operation::Update { old, .. } = operation {
            check_immutable(old, object, &["data", "binaryData"], &mut errors);
        }
        let path = Path::new("data");
        check_keys(&path, data(object, "data"), &mut errors);
        for (key, _) in data(object, "data") {
            if object.get("binaryData").is_some_and(|binary| binary.get(key).is_some()) {
                errors.push(FieldError::invalid(&path.key(key), key, "duplicate of key present in binaryData"));
            }
        }
        check_keys(&Path::new("binaryData"), data(object, "binaryData"), &mut errors);
        let text: usize = data(object, "data").filter_map(|(_, value)| value.as_str()).map(str::len).sum();
        let binary: usize = data(object, "binaryData").map(|(_, value)| decoded_length(value)).sum();
        if text + binary > MAX_DATA_BYTES {
            errors.push(FieldError::too_long(&Path::root().key(""), MAX_DATA_BYTES));
        }
        errors.into_vec()
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![cells::name(object), cells::count(object, &["data", "binaryData"]), cells::age(object, now)])
    }
}

impl Strategy for Secret {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks { change: 1, whole: 1, core: true }
    }

    fn default(&self, object: &mut Map) {
        if let Some(Value::Object(plain)) = object.remove("stringData")
            && let Some(data) = object.object_mut("data")
        {
            for (key, value) in plain {
                data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()));
            }
        }
        if cells::text(object, &["type"]).is_empty() {
            object.insert("type", "Opaque");
        }
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let mut errors = Errors::default();
        if let Operation::Update { old, .. } = operation {
            let (before, after) = (cells::text(old, &["type"]), cells::text(object, &["type"]));
            if before != after {
                errors.push(FieldError::invalid(&Path::new("type"), after, "field is immutable"));
            }
            check_immutable(old, object, &["data"], &mut errors);
        }
        let path = Path::new("data");
        check_keys(&path, data(object, "data"), &mut errors);
        if data(object, "data").map(|(_, value)| decoded_length(value)).sum::<usize>() > MAX_DATA_BYTES {
            errors.push(FieldError::too_long(&path, MAX_DATA_BYTES));
        }
        check_secret_type(object, &path, &mut errors);
        errors.into_vec()
    }

    fn warnings(&self, _operation: Operation<'_>, object: &Map) -> Warnings {
        if cells::text(object, &["type"]) != "kubernetes.io/tls" {
            return Warnings::default();
        }
        let pem = |key: &str| STANDARD.decode(cells::text(object, &["data", key])).unwrap_or_default();
        let (certificate, key) = (pem("tls.crt"), pem("tls.key"));
        certificate_warning(&certificate).or_else(|| key_warning(&key)).into_iter().collect()
    }

    fn cells(&self, object: &Map, now: Timestamp) -> Option<Vec<Value>> {
        let kind = Value::from(cells::text(object, &["type"]));
        Some(vec![cells::name(object), kind, cells::count(object, &["data"]), cells::age(object, now)])
    }
}

/// The keys that secrets of some types have to have.
fn check_secret_type(object: &Map, path: &Path, errors: &mut Errors) {
    let value = |key: &str| object.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
    let required = |key: &str| FieldError::required(&path.key(key), "");
    let mut json = |key: &str| match value(key) {
        None => errors.push(required(key)),
        Some(encoded) => {
            let text = STANDARD.decode(encoded).unwrap_or_default();
            if let Some(fault) = gojson::object_fault(&text) {
                errors.push(FieldError::invalid(&path.key(key), REDACTED, fault));
            }
        }
    };
    match cells::text(object, &["type"]) {
        SERVICE_ACCOUNT_TOKEN if cells::text(object, &["metadata", "annotations", SERVICE_ACCOUNT_NAME]).is_empty() => {
            let path = Path::new("metadata").child("annotations").key(SERVICE_ACCOUNT_NAME);
            errors.push(FieldError::required(&path, ""));
        }
        "kubernetes.io/dockercfg" => json(".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json(".dockerconfigjson"),
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            errors.extend([required("username"), required("password")]);
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").unwrap_or_default().is_empty() => {
            errors.push(required("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            errors.extend(["tls.crt", "tls.key"].into_iter().filter(|key| value(key).is_none()).map(required));
        }
        _ => {}
    }
}

/// The types of the PEM blocks in a text.
fn pem_blocks(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let labels = text.lines().filter_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    // What begins a thousand times is looked for once.
    let ends: BTreeSet<&str> =
        text.split("-----END ").skip(1).filter_map(|rest| rest.split_once("-----").map(|(label, _)| label)).collect();
    labels.filter(|label| ends.contains(label)).map(str::to_owned).collect()
}

/// What Go's `tls.X509KeyPair` says of a certificate that is none.
fn certificate_warning(text: &[u8]) -> Option<String> {
    let blocks = pem_blocks(text);
    if blocks.iter().any(|label| label == "CERTIFICATE") {
        return None;
    }
    Some(match blocks.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did \
            find a private key; PEM inputs may have been switched"
                .to_owned()
        }
        skipped => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following \
             types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// What it says of a key that is none.
fn key_warning(text: &[u8]) -> Option<String> {
    let blocks = pem_blocks(text);
    if blocks.iter().any(|label| label.ends_with("PRIVATE KEY")) {
        return None;
    }
    Some(match blocks.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            skipped.join(" ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;
    use crate::builtin::rules::judged::{check, object};

    #[test]
    fn string_data_is_merged_over_data_and_dropped() {
        let mut secret = object(json!({"stringData": {"a": "two"}, "data": {"a": "MQ==", "b": "MQ=="}}));
        Secret.default(&mut secret);
        assert_eq!(Value::Object(secret), json!({"data": {"a": "dHdv", "b": "MQ=="}, "type": "Opaque"}));
    }

    #[test]
    fn immutable_objects_keep_their_data_and_stay_immutable() {
        let old = || Some(json!({"immutable": true, "data": {"a": "MQ=="}, "type": "Opaque"}));
        check(
            &Secret,
            old(),
            json!({"immutable": true, "data": {"a": "MQ=="}, "metadata": {"labels": {"a": "b"}}}),
            &[],
        );
        check(
            &Secret,
            old(),
            json!({"stringData": {"a": "2"}}),
            &[
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ],
        );
        check(
            &ConfigMap,
            Some(json!({"immutable": true})),
            json!({"immutable": true, "binaryData": {"a": "MQ=="}}),
            &["binaryData: Forbidden: field is immutable when `immutable` is set"],
        );
    }

    #[test]
    fn secrets_have_the_keys_of_their_type() {
        let secret = |kind: &str, data: Value| json!({"type": kind, "data": data});
        check(
            &Secret,
            None,
            secret("kubernetes.io/basic-auth", json!({})),
            &["data[username]: Required value", "data[password]: Required value"],
        );
        check(&Secret, None, secret("kubernetes.io/basic-auth", json!({"password": ""})), &[]);
        check(
            &Secret,
            None,
            secret("kubernetes.io/dockercfg", json!({".dockercfg": "bm9wZQ=="})),
            &[
                "data[.dockercfg]: Invalid value: \"<secret contents redacted>\": invalid character 'o' in literal null (expecting 'u')",
            ],
        );
        check(&Secret, None, secret("kubernetes.io/dockercfg", json!({".dockercfg": "e30="})), &[]);
        check(
            &Secret,
            Some(secret("a", json!({}))),
            secret("b", json!({})),
            &["type: Invalid value: \"b\": field is immutable"],
        );
    }

    #[test]
    fn a_config_map_is_as_large_as_its_values() {
        let text = "x".repeat(MAX_DATA_BYTES);
        check(&ConfigMap, None, json!({"data": {"a": (text.as_str())}}), &[]);
        check(
            &ConfigMap,
            None,
            json!({"data": {"a": (text.as_str())}, "binaryData": {"b": "MQ=="}}),
            &["[]: Too long: may not be more than 1048576 bytes"],
        );
        for bytes in 0..20 {
            let encoded = Value::String(STANDARD.encode(vec![0; bytes]));
            assert_eq!(decoded_length(&encoded), bytes, "{encoded}");
        }
    }

    #[test]
    fn certificates_that_are_none_are_warned_of() {
        let warn = |certificate: &str, key: &str| {
            let data = json!({"tls.crt": (STANDARD.encode(certificate)), "tls.key": (STANDARD.encode(key))});
            let secret = object(json!({"type": "kubernetes.io/tls", "data": data}));
            Secret.warnings(Operation::Create, &secret).into_iter().collect::<Vec<_>>()
        };
        let block = |label: &str| format!("-----BEGIN {label}-----\nAA==\n-----END {label}-----\n");
        assert_eq!(warn("", ""), ["tls: failed to find any PEM data in certificate input"]);
        assert_eq!(warn(&block("CERTIFICATE"), "x"), ["tls: failed to find any PEM data in key input"]);
        assert_eq!(warn(&block("CERTIFICATE"), &block("EC PRIVATE KEY")), [""; 0]);
        assert_eq!(
            warn(&block("PRIVATE KEY"), &block("CERTIFICATE")),
            [
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
            ]
        );
    }
}
