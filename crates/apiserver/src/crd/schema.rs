//! The shape of a custom resource, as the generic handlers ask for it.

use std::sync::Arc;

use allotment_machinery::apply::TypeRef;
use allotment_machinery::field::FieldError;
use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::schema::{self, check_embedded_metadata, normalise_but_floats, prune, settle_floats};
use allotment_store::Entry;

use super::spec;
use crate::registry::{DecodeError, Decoded, Published, Schema};

/// The shape of one version of a kind that a definition makes.
#[derive(Debug)]
pub(super) struct CustomSchema {
    /// Of this version.
    pub(super) own: Arc<schema::Schema>,
    /// Of the version that objects are written in.
    pub(super) storage: Arc<schema::Schema>,
    /// Whether objects may have been written under another schema.
    pub(super) changed: bool,
    /// Where the schema stands as it was given.
    pub(super) source: Source,
}

/// The stored definition that a schema is from. What is published of it, descriptions above all, is read
/// there when it is asked for: the store holds it anyway.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// The definition; absent in tests of schemas alone.
    pub(super) definition: Option<Arc<Entry>>,
    /// The version.
    pub(super) version: Box<str>,
    /// Names the content of its schema.
    pub(super) name: Box<str>,
}

impl Schema for CustomSchema {
    fn decode(&self, object: &mut Map) -> Result<Decoded, DecodeError> {
        check_embedded_metadata(&self.own, object)
            .map_err(|error| DecodeError { message: error.to_string(), at_once: true })?;
        normalise_but_floats(object);
        Ok(Decoded { unknown: prune(&self.own, object) })
    }

    fn settle_numbers(&self, object: &mut Map) -> bool {
        let mut changed = false;
        for (name, value) in object.iter_mut() {
            changed |= settle_floats(value) && !matches!(name, "metadata" | "status");
        }
        changed
    }

    fn default(&self, object: &mut Map) {
        schema::apply_defaults(&self.own, object);
    }

    fn default_applied(&self, object: &mut Map) {
        prune(&self.own, object);
        schema::fill_defaults(&self.own, object);
    }

    fn type_ref(&self) -> Option<TypeRef<'_>> {
        Some(TypeRef::of_resource(&self.own))
    }

    /// Objects are read as the version that they are stored in, with the defaults of that, and only then
    /// become objects of this one: its own defaults are for writes.
    fn read_stored(&self, object: &mut Map) {
        prune(&self.storage, object);
        schema::apply_defaults(&self.storage, object);
        if !Arc::ptr_eq(&self.own, &self.storage) {
            prune(&self.own, object);
        }
    }

    fn reads_need_work(&self) -> bool {
        self.changed || !Arc::ptr_eq(&self.own, &self.storage)
    }

    fn validate(&self, old: Option<&Map>, object: &Map) -> Vec<FieldError> {
        match old {
            Some(old) => schema::validate_update(&self.own, object, old),
            None => schema::validate(&self.own, object),
        }
    }

    fn validate_status(&self, old: &Map, object: &Map) -> Vec<FieldError> {
        schema::validate_status(&self.own, object, old)
    }

    fn validate_parts(&self, old: Option<&Map>, object: &Map) -> Vec<FieldError> {
        schema::validate_parts(&self.own, object, old)
    }

    fn published(&self) -> Published {
        let stored = self.source.definition.as_ref().and_then(|entry| json::parse(&entry.body()).ok());
        let Some(Value::Object(definition)) = stored else { return Published::Nothing };
        let version = spec::versions(&definition).find(|version| version.name() == &*self.source.version);
        let schema = version.and_then(|version| version.schema().cloned());
        schema.map_or(Published::Nothing, Published::Structural)
    }

    fn published_name(&self) -> String {
        self.source.name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::field::Path;
    use allotment_machinery::json::{Value, parse};
    use allotment_machinery::schema::parse_structural;

    use super::*;

    fn object(text: &str) -> Map {
        match parse(text.as_bytes()).expect(text) {
            Value::Object(map) => map,
            other => panic!("no object: {other}"),
        }
    }

    fn schema(properties: &str) -> Arc<schema::Schema> {
        let root = object(&format!(r#"{{"type":"object","properties":{properties}}}"#));
        Arc::new(parse_structural(&Value::Object(root), &Path::new("s")).expect("structural"))
    }

    #[test]
    fn reads_take_the_defaults_of_the_version_that_is_stored() {
        let storage = schema(r#"{"a":{"type":"string"},"s":{"type":"string","default":"stored"}}"#);
        let own = schema(r#"{"a":{"type":"string"},"b":{"type":"string","default":"own"}}"#);
        let other = CustomSchema { own, storage: Arc::clone(&storage), changed: false, source: Source::default() };
        let mut read = object(r#"{"a":"1","gone":1}"#);
        assert!(other.reads_need_work());
        other.read_stored(&mut read);
        assert_eq!(read, object(r#"{"a":"1"}"#));
        let stored = CustomSchema { own: Arc::clone(&storage), storage, changed: true, source: Source::default() };
        let mut read = object(r#"{"a":"1","gone":1}"#);
        stored.read_stored(&mut read);
        assert_eq!(read, object(r#"{"a":"1","s":"stored"}"#));
    }
}
