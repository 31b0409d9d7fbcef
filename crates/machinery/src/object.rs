//! An object as the store keeps it and the wire shows it.
//!
//! Stored form: JSON without `apiVersion` and `kind` (they follow from where the object lies and in which
//! version it is asked for), `metadata` first, everything else sorted, and without
//! `metadata.resourceVersion`, which is known only once a write has its revision. It is spliced in right
//! before `metadata.uid`, so that the bytes are final then and are never written again: an item of a list
//! is these bytes, an object is them with `apiVersion` and `kind` put behind the brace.

use crate::json::{Map, Value, write_compact, write_string};

/// An object in stored form, but for its resource version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// JSON without `apiVersion`, `kind` and `metadata.resourceVersion`.
    pub bytes: Vec<u8>,
    /// Where `"resourceVersion":"…",` goes.
    pub splice: usize,
}

impl Encoded {
    /// Encodes an object that has `metadata.uid`; `None` where it has none. `apiVersion`, `kind` and
    /// `metadata.resourceVersion` are left out.
    pub fn of(object: &Map) -> Option<Encoded> {
        let metadata = object.get("metadata")?.as_object()?;
        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(b"{\"metadata\":{");
        let mut splice = None;
        let mut first = true;
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            if !std::mem::take(&mut first) {
                bytes.push(b',');
            }
            if key == "uid" {
                splice = Some(bytes.len());
            }
            write_string(key, &mut bytes);
            bytes.push(b':');
            write_compact(value, &mut bytes);
        }
        bytes.push(b'}');
        for (key, value) in object.iter().filter(|(key, _)| !matches!(*key, "apiVersion" | "kind" | "metadata")) {
            bytes.push(b',');
            write_string(key, &mut bytes);
            bytes.push(b':');
            write_compact(value, &mut bytes);
        }
        bytes.push(b'}');
        Some(Encoded { bytes, splice: splice? })
    }

    /// The final bytes of the object at `revision`.
    pub fn at_revision(&self, revision: u64) -> Vec<u8> {
        let member = format!("\"resourceVersion\":\"{revision}\",");
        let mut out = Vec::with_capacity(self.bytes.len() + member.len());
        out.extend_from_slice(&self.bytes[..self.splice]);
        out.extend_from_slice(member.as_bytes());
        out.extend_from_slice(&self.bytes[self.splice..]);
        out
    }
}

/// What goes behind the opening brace of a stored object to make it whole:
/// `{"apiVersion":"v1","kind":"ConfigMap",`.
pub fn type_prefix(api_version: &str, kind: &str) -> Vec<u8> {
    let mut out = b"{\"apiVersion\":".to_vec();
    write_string(api_version, &mut out);
    out.extend_from_slice(b",\"kind\":");
    write_string(kind, &mut out);
    out.push(b',');
    out
}

/// The text of the metadata of an object in stored form, which begins with them, so that what follows need not be read.
/// `None` where the text is another one.
pub fn stored_metadata(body: &[u8]) -> Option<&[u8]> {
    let rest = body.strip_prefix(b"{\"metadata\":")?;
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return rest.get(..=at);
                }
            }
            _ => {}
        }
    }
    None
}

/// `metadata.<field>` as text, if it is there.
pub fn metadata_str<'a>(object: &'a Map, field: &str) -> Option<&'a str> {
    object.get("metadata")?.get(field)?.as_str()
}

/// The metadata of an object, made where it is absent; `None` where it is not an object.
pub fn metadata_mut(object: &mut Map) -> Option<&mut Map> {
    match object.get_or_insert_with("metadata", || Value::Object(Map::new())) {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn stored_form_leaves_out_what_the_place_tells_and_takes_the_revision_last() {
        let object = parse(br#"{"kind":"K","apiVersion":"v1","data":{"b":"1"},"metadata":{"uid":"u","name":"n","resourceVersion":"7"}}"#)
            .expect("parses");
        let encoded = Encoded::of(object.as_object().expect("an object")).expect("has a uid");
        let bytes = encoded.at_revision(42);
        assert_eq!(
            String::from_utf8_lossy(&bytes),
            r#"{"metadata":{"name":"n","resourceVersion":"42","uid":"u"},"data":{"b":"1"}}"#
        );
        let whole = [type_prefix("v1", "K"), bytes[1..].to_vec()].concat();
        assert_eq!(parse(&whole).expect("parses").at(&["metadata", "resourceVersion"]), Some(&Value::from("42")));
    }

    #[test]
    fn metadata_are_found_without_reading_on() {
        let metadata = r#"{"annotations":{"a":"}\"{\\"},"finalizers":["x"],"uid":"u"}"#;
        let check = |body: &str, expect: Option<&str>| {
            let found = stored_metadata(body.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), expect, "{body}");
        };
        check(&format!(r#"{{"metadata":{metadata},"spec":{{"metadata":{{}}}}}}"#), Some(metadata));
        check(&format!(r#"{{"metadata":{metadata},"spec": this is never read"#), Some(metadata));
        check(r#"{"spec":{},"metadata":{"uid":"u"}}"#, None);
        check(r#"{"metadata":{"uid":"u}"#, None);
        check("", None);
        let object = parse(format!(r#"{{"metadata":{metadata},"z":1}}"#).as_bytes()).expect("parses");
        let stored = Encoded::of(object.as_object().expect("an object")).expect("has a uid").at_revision(7);
        let found = stored_metadata(&stored).and_then(|text| parse(text).ok());
        let whole = parse(&stored).expect("parses");
        assert_eq!(found.as_ref(), whole.as_object().and_then(|object| object.get("metadata")));
    }
}
