//! What a value of a built-in type looks like in JSON once Go has read and written it: unknown members
//! dropped, nulls and empty values gone or back where the type always shows them, times and bytes in
//! their one form.
//!
//! Clients see that form in every answer, whatever they sent, so it is made once, when a body is decoded.
//! What values mean is left to the strategies.

use allotment_machinery::field::note;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::quantity::Quantity;
use allotment_machinery::time::{self, TimeError};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;

use crate::builtin::types::{self, Field, Message, SCHEMA_PROPS, Type};
use crate::registry::{DecodeError, Decoded};

/// Go's decoder takes bits that padding leaves over; so does this.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Brings an object of the kind `message` into form, in place. `metadata` is left alone.
///
/// # Errors
/// What Go's decoder would say of the first value that does not fit its type.
pub(crate) fn decode(message: &'static Message, object: &mut Map) -> Result<Decoded, DecodeError> {
    Decoder::new(message).whole(object, true)
}

/// The same for all of an object, metadata included, or for a message that is no kind.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_whole(message: &'static Message, object: &mut Map) -> Result<Decoded, DecodeError> {
    Decoder::new(message).whole(object, false)
}

/// Makes nulls of the empty lists and maps that a decoded object of the kind `message` still shows: kinds are
/// stored as protobuf, which does not tell an empty list or map from none. Definitions are stored as JSON.
pub(crate) fn drop_empty(message: &'static Message, object: &mut Map) {
    if message.name.starts_with("apiextensions/") {
        return;
    }
    for field in &message.fields {
        match (&field.ty, field.name) {
            (_, "metadata") if message.is_kind => {}
            (Type::Message(inner), ".") => {
                if let Some(inner) = types::message(inner) {
                    drop_empty(inner, object);
                }
            }
            (ty, name) => {
                if let Some(value) = object.get_mut(name) {
                    drop_empty_within(ty, value);
                    if !field.pointer && is_empty_collection(ty, value) {
                        *value = Value::Null;
                    }
                }
            }
        }
    }
}

fn is_empty_collection(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::List(_), Value::Array(items)) => items.is_empty(),
        (Type::Map(_), Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

fn drop_empty_within(ty: &'static Type, value: &mut Value) {
    match (ty, value) {
        (Type::Message(name), Value::Object(map)) => {
            if let Some(message) = types::message(name) {
                drop_empty(message, map);
            }
        }
        (Type::List(of), Value::Array(items)) => items.iter_mut().for_each(|item| drop_empty_within(of, item)),
        (Type::Map(of), Value::Object(map)) => map.iter_mut().for_each(|(_, value)| drop_empty_within(of, value)),
        _ => {}
    }
}

struct Decoder {
    unknown: Vec<String>,
    /// Steps from the root: member names and `[index]`.
    path: Vec<String>,
    /// The message whose field is being read, for error texts.
    owner: &'static Message,
    /// The first value of the wrong type.
    saved: Option<DecodeError>,
}

/// The field that `name` stands for, embedded messages included.
fn field(message: &'static Message, name: &str) -> Option<&'static Field> {
    message.fields.iter().find_map(|have| match (have.name, &have.ty) {
        (".", Type::Message(inner)) => field(types::message(inner)?, name),
        (own, _) => (own == name).then_some(have),
    })
}

/// `spec.list[0].name`
fn place(steps: &[String]) -> String {
    let mut text = String::new();
    for step in steps {
        if !text.is_empty() && !step.starts_with('[') {
            text.push('.');
        }
        text.push_str(step);
    }
    text
}

impl Decoder {
    fn new(message: &'static Message) -> Decoder {
        Decoder { unknown: Vec::new(), path: Vec::new(), owner: message, saved: None }
    }

    fn whole(mut self, object: &mut Map, root: bool) -> Result<Decoded, DecodeError> {
        *object = self.members(self.owner, std::mem::take(object), root)?;
        match self.saved {
            Some(error) => Err(error),
            None => Ok(Decoded { unknown: self.unknown }),
        }
    }

    fn members(&mut self, message: &'static Message, map: Map, root: bool) -> Result<Map, DecodeError> {
        let outer = std::mem::replace(&mut self.owner, message);
        let mut out = Vec::with_capacity(map.len());
        for (name, value) in map {
            let type_meta = message.is_kind && matches!(name.as_str(), "apiVersion" | "kind");
            if type_meta || root && name == "metadata" {
                out.push((name, value));
                continue;
            }
            self.path.push(name);
            match field(message, self.path.last().map_or("", String::as_str)) {
                None => note(&mut self.unknown, || place(&self.path)),
                Some(field) => {
                    if let Some(value) = self.field(field, value)? {
                        out.push((self.path.last().cloned().unwrap_or_default(), value));
                    }
                }
            }
            self.path.pop();
        }
        self.owner = outer;
        let mut out = Map::from_iter(out);
        fill(message, &mut out, root);
        Ok(out)
    }

    /// The value of a field that was given; `None` where Go leaves it out when it writes.
    fn field(&mut self, field: &'static Field, value: Value) -> Result<Option<Value>, DecodeError> {
        if value.is_null() {
            return Ok(None);
        }
        let value = self.value(&field.ty, value)?;
        if field.pointer {
            return Ok(Some(value));
        }
        let empty = match &value {
            Value::String(text) => text.is_empty() && field.ty != Type::IntOrString,
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_i64() == Some(0) && field.ty != Type::IntOrString,
            Value::Array(items) => items.is_empty() && field.ty != Type::RawExtension && !self.means_none(field),
            Value::Object(map) => map.is_empty() && matches!(field.ty, Type::Map(_)),
            Value::Null => true,
        };
        if empty && field.omit_empty || field.omit_zero && Some(&value) == zero(&field.ty).as_ref() {
            return Ok(None);
        }
        Ok(Some(value))
    }

    /// Whether an empty list of a field is no list that is not given, for which a default would stand.
    fn means_none(&self, field: &Field) -> bool {
        (self.owner.name, field.name) == ("autoscaling/v2.HPAScalingRules", "policies")
    }

    /// The value in form. One of the wrong type is noted and left out.
    fn value(&mut self, ty: &'static Type, value: Value) -> Result<Value, DecodeError> {
        match self.typed(ty, value) {
            Err(error) if !error.at_once => {
                self.saved.get_or_insert(error);
                Ok(element_zero(ty))
            }
            done => done,
        }
    }

    fn typed(&mut self, ty: &'static Type, value: Value) -> Result<Value, DecodeError> {
        match (ty, value) {
            (_, Value::Null) => Ok(element_zero(ty)),
            (Type::String | Type::Duration, value @ Value::String(_)) => Ok(value),
            (Type::Quantity, Value::String(text)) => quantity(&text),
            (Type::Quantity, Value::Number(number)) => quantity(number.as_str()),
            (Type::Quantity, other) => quantity(&other.to_string()),
            (Type::Bool, value @ Value::Bool(_)) => Ok(value),
            (Type::Double, value @ Value::Number(_)) => Ok(value),
            (Type::Int32 | Type::Int64 | Type::IntOrString, Value::Number(number)) => {
                let fits = |value: &i64| *ty == Type::Int64 || i32::try_from(*value).is_ok();
                match number.as_i64().filter(fits) {
                    Some(value) => Ok(Value::from(value)),
                    None => Err(self.mismatch(&format!("number {number}"), ty)),
                }
            }
            (Type::IntOrString, value @ Value::String(_)) => Ok(value),
            (Type::Bytes, Value::String(text)) => bytes(&text),
            (Type::Bytes, Value::Array(items)) => self.listed_bytes(&items),
            (Type::Time, Value::String(text)) => point(&text, time::parse, time::format),
            (Type::MicroTime, Value::String(text)) => point(&text, time::parse_micro, time::format_micro),
            (Type::Json, value) => Ok(value),
            (Type::FieldsV1, value @ Value::Object(_)) | (Type::RawExtension, value) => Ok(value),
            (Type::List(of), Value::Array(items)) => self.items(of, items),
            (Type::Items, Value::Array(items)) => self.items(&Type::String, items),
            (Type::Map(of), Value::Object(map)) => self.entries(of, map),
            (Type::Message(name), Value::Object(map)) => self.message(name, map),
            (Type::SchemaOrBool, value @ Value::Bool(_)) => Ok(value),
            (Type::SchemaOrArray, Value::Array(items)) => self.items(&Type::Message(SCHEMA_PROPS), items),
            (Type::SchemaOrStrings, Value::Array(items)) => self.items(&Type::String, items),
            (Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings, Value::Object(map)) => {
                self.message(SCHEMA_PROPS, map)
            }
            (ty, other) => Err(self.mismatch(other.go_kind(), ty)),
        }
    }

    /// Bytes may be written as a list of numbers too.
    fn listed_bytes(&self, items: &[Value]) -> Result<Value, DecodeError> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            let byte = match item {
                Value::Null => Some(0),
                item => item.as_i64().and_then(|number| u8::try_from(number).ok()),
            };
            let found = match item {
                Value::Number(number) => format!("number {number}"),
                other => other.go_kind().to_owned(),
            };
            out.push(byte.ok_or_else(|| self.mismatch_of(&found, "uint8"))?);
        }
        Ok(Value::from(BASE64.encode(out)))
    }

    fn message(&mut self, name: &str, map: Map) -> Result<Value, DecodeError> {
        match types::message(name) {
            Some(message) => Ok(Value::Object(self.members(message, map, false)?)),
            None => Ok(Value::Object(map)),
        }
    }

    fn items(&mut self, of: &'static Type, items: Vec<Value>) -> Result<Value, DecodeError> {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            self.path.push(format!("[{index}]"));
            out.push(self.value(of, item)?);
            self.path.pop();
        }
        Ok(Value::Array(out))
    }

    fn entries(&mut self, of: &'static Type, map: Map) -> Result<Value, DecodeError> {
        let mut out = Vec::with_capacity(map.len());
        for (key, value) in map {
            self.path.push(key);
            let value = self.value(of, value)?;
            out.push((self.path.pop().unwrap_or_default(), value));
        }
        Ok(Value::Object(Map::from_iter(out)))
    }

    /// Where the decoder is, as strict decoding names it.
    fn mismatch(&self, found: &str, ty: &Type) -> DecodeError {
        let at_once = matches!(ty, Type::IntOrString | Type::Time | Type::MicroTime | Type::Duration);
        DecodeError { at_once, ..self.mismatch_of(found, &go_type(ty)) }
    }

    fn mismatch_of(&self, found: &str, ty: &str) -> DecodeError {
        let steps: Vec<&str> = self.path.iter().map(String::as_str).filter(|step| !step.starts_with('[')).collect();
        let owner = self.owner.name.rsplit('.').next().unwrap_or_default();
        let place = steps.join(".");
        DecodeError {
            message: format!("json: cannot unmarshal {found} into Go struct field {owner}.{place} of type {ty}"),
            at_once: false,
        }
    }
}

/// Puts in what Go shows even where it was not given.
fn fill(message: &'static Message, out: &mut Map, root: bool) {
    for field in &message.fields {
        if let (".", Type::Message(name)) = (field.name, &field.ty) {
            if let Some(inner) = types::message(name) {
                fill(inner, out, false);
            }
            continue;
        }
        if root && field.name == "metadata" || out.contains_key(field.name) {
            continue;
        }
        if let Some(value) = absent(field) {
            out.insert(field.name, value);
        }
    }
}

/// What Go writes for a field that has its zero value; `None` for nothing. `omitempty` does not leave
/// out structs, `omitzero` does.
fn absent(field: &Field) -> Option<Value> {
    let is_struct = matches!(
        field.ty,
        Type::Message(_) | Type::Time | Type::MicroTime | Type::IntOrString | Type::Quantity | Type::RawExtension
    );
    if field.pointer {
        return (!field.omit_empty).then_some(Value::Null);
    }
    if field.omit_zero || field.omit_empty && !is_struct {
        return None;
    }
    zero(&field.ty)
}

/// What the member `name` of a message is where nothing is given.
pub(crate) fn empty(message: &Message, name: &str) -> Option<Value> {
    message.fields.iter().find(|field| field.name == name).and_then(absent)
}

/// The zero value of a type as Go writes it.
fn zero(ty: &Type) -> Option<Value> {
    Some(match ty {
        Type::String => Value::from(""),
        Type::Duration => Value::from("0s"),
        Type::Quantity => Value::from("0"),
        Type::Bool => Value::from(false),
        Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString => Value::from(0),
        Type::Message(name) => {
            let mut map = Map::new();
            fill(types::message(name)?, &mut map, false);
            Value::Object(map)
        }
        _ => Value::Null,
    })
}

/// What `null` in a list or map of this type becomes.
fn element_zero(ty: &Type) -> Value {
    match ty {
        Type::Bytes => Value::from(""),
        other => zero(other).unwrap_or_default(),
    }
}

fn bytes(text: &str) -> Result<Value, DecodeError> {
    let wrapped = text.contains(['\n', '\r']);
    let plain = if wrapped { text.replace(['\n', '\r'], "") } else { text.to_owned() };
    let decoded = BASE64.decode(&plain).map_err(|error| {
        let place = match error {
            base64::DecodeError::InvalidByte(place, _) | base64::DecodeError::InvalidLastSymbol(place, _) => place,
            base64::DecodeError::InvalidLength(length) => length / 4 * 4,
            base64::DecodeError::InvalidPadding => plain.len(),
        };
        DecodeError { message: format!("illegal base64 data at input byte {place}"), at_once: false }
    })?;
    Ok(Value::String(BASE64.encode(decoded)))
}

fn at_once(error: impl std::fmt::Display) -> DecodeError {
    DecodeError { message: error.to_string(), at_once: true }
}

/// An amount in its one form.
fn quantity(text: &str) -> Result<Value, DecodeError> {
    let quantity = text.trim().parse::<Quantity>().map_err(at_once)?;
    Ok(Value::from(quantity.to_string()))
}

/// A point in time in its one form.
fn point(
    text: &str,
    parse: fn(&str) -> Result<Timestamp, TimeError>,
    format: fn(Timestamp) -> String,
) -> Result<Value, DecodeError> {
    let time = parse(text).map_err(at_once)?;
    Ok(Value::String(format(time)))
}

/// What Go calls a type.
fn go_type(ty: &Type) -> String {
    match ty {
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Double => "float64".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::List(of) => format!("[]{}", go_type(of)),
        Type::Map(of) => format!("map[string]{}", go_type(of)),
        Type::Message(name) => {
            // `core/v1.Secret` is `v1.Secret` in Go.
            name.split_once('/').map_or(*name, |(_, rest)| rest).to_owned()
        }
        Type::Time => "v1.Time".to_owned(),
        Type::MicroTime => "v1.MicroTime".to_owned(),
        Type::Duration => "v1.Duration".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::RawExtension => "runtime.RawExtension".to_owned(),
        Type::FieldsV1 => "v1.FieldsV1".to_owned(),
        Type::Json => "v1.JSON".to_owned(),
        Type::Items => "[]string".to_owned(),
        Type::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
        Type::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
        Type::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(name: &str, input: &str, expect: &str) {
        let mut object = parse(input.as_bytes()).expect(input).as_object().expect("an object").clone();
        let message = types::message(name).expect(name);
        let decoded = decode(message, &mut object);
        drop_empty(message, &mut object);
        let shown = match decoded {
            Ok(decoded) if decoded.unknown.is_empty() => Value::Object(object).to_string(),
            Ok(decoded) => format!("{} unknown: {}", Value::Object(object), decoded.unknown.join(" ")),
            Err(error) => error.message,
        };
        assert_eq!(shown, expect, "{input}");
    }

    #[test]
    fn empty_values_are_left_out_where_go_leaves_them_out() {
        check("core/v1.ConfigMap", r#"{"data":{},"immutable":null,"binaryData":null}"#, "{}");
        check(
            "core/v1.ConfigMap",
            r#"{"immutable":false,"data":{"a":null}}"#,
            r#"{"data":{"a":""},"immutable":false}"#,
        );
        check("rbac/v1.Role", r#"{"rules":[]}"#, r#"{"rules":null}"#);
        check("rbac/v1.Role", "{}", r#"{"rules":null}"#);
        check(
            "rbac/v1.RoleBinding",
            r#"{"subjects":[null]}"#,
            r#"{"roleRef":{"apiGroup":"","kind":"","name":""},"subjects":[{"kind":"","name":""}]}"#,
        );
        check(
            "core/v1.Event",
            r#"{"source":null,"count":0}"#,
            r#"{"eventTime":null,"firstTimestamp":null,"involvedObject":{},"lastTimestamp":null,"reportingComponent":"","reportingInstance":"","source":{}}"#,
        );
        check(
            "apiextensions/v1.CustomResourceDefinition",
            r#"{"spec":{"versions":[]},"status":{"storedVersions":[]}}"#,
            r#"{"spec":{"group":"","names":{"kind":"","plural":""},"scope":"","versions":[]},"status":{"acceptedNames":{"kind":"","plural":""},"conditions":null,"storedVersions":[]}}"#,
        );
    }

    #[test]
    fn empty_lists_are_there_until_it_is_known_who_wrote_them() {
        for (name, input, expect) in [
            ("rbac/v1.Role", r#"{"rules":[]}"#, r#"{"rules":[]}"#),
            ("rbac/v1.Role", r#"{"rules":null}"#, r#"{"rules":null}"#),
            ("core/v1.ConfigMap", r#"{"data":{}}"#, "{}"),
        ] {
            let mut object = parse(input.as_bytes()).expect(input).as_object().expect("an object").clone();
            decode(types::message(name).expect(name), &mut object).expect(input);
            assert_eq!(Value::Object(object).to_string(), expect, "{input}");
        }
    }

    #[test]
    fn members_of_embedded_messages_stand_inline() {
        check(
            "core/v1.Pod",
            r#"{"spec":{"volumes":[{"name":"v","configMap":{"name":"c"},"no":1}],"containers":[]}}"#,
            r#"{"spec":{"containers":null,"volumes":[{"configMap":{"name":"c"},"name":"v"}]},"status":{}} unknown: spec.volumes[0].no"#,
        );
    }

    #[test]
    fn wrong_types_are_refused_in_the_words_of_go() {
        check(
            "core/v1.ConfigMap",
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string",
        );
        check(
            "apps/v1.Deployment",
            r#"{"spec":{"replicas":"1"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        );
        check(
            "apps/v1.Deployment",
            r#"{"spec":{"replicas":1.0}}"#,
            "json: cannot unmarshal number 1.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
        );
        check(
            "coordination/v1.Lease",
            r#"{"spec":{"renewTime":"2020-01-01T00:00:00Z"}}"#,
            r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        );
        check(
            "coordination/v1.Lease",
            r#"{"spec":{"renewTime":"2020-01-01T1:00:00.000001+01:00"}}"#,
            r#"{"spec":{"renewTime":"2020-01-01T00:00:00.000001Z"}}"#,
        );
        check("core/v1.Secret", r#"{"data":{"a":"!!"}}"#, "illegal base64 data at input byte 0");
        check("core/v1.Secret", r#"{"data":{"a":[104,105,null]}}"#, r#"{"data":{"a":"aGkA"}}"#);
        check(
            "core/v1.Secret",
            r#"{"data":{"a":[256]}}"#,
            "json: cannot unmarshal number 256 into Go struct field Secret.data.a of type uint8",
        );
        check("core/v1.Secret", r#"{"data":{"a":"M\nQ=="}}"#, r#"{"data":{"a":"MQ=="}}"#);
    }

    #[test]
    fn schemas_contain_themselves() {
        check(
            "apiextensions/v1.JSONSchemaProps",
            r#"{"properties":{"a":{"items":{"type":"object"},"additionalProperties":true,"enum":[null,1.0]}},"x":1}"#,
            r#"{"properties":{"a":{"additionalProperties":true,"enum":[null,1.0],"items":{"type":"object"}}}} unknown: x"#,
        );
    }

    #[test]
    fn metadata_of_the_object_itself_is_the_callers_and_that_of_parts_is_not() {
        check("core/v1.ConfigMap", r#"{"metadata":{"nope":1}}"#, r#"{"metadata":{"nope":1}}"#);
        check(
            "apps/v1.DaemonSet",
            r#"{"spec":{"template":{"metadata":{"nope":1,"creationTimestamp":null}}}}"#,
            r#"{"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"desiredNumberScheduled":0,"numberMisscheduled":0,"numberReady":0}} unknown: spec.template.metadata.nope"#,
        );
        let mut metadata = Map::from_iter([("name".to_owned(), Value::from(""))]);
        let message = types::message("meta/v1.ObjectMeta").expect("is there");
        assert_eq!(decode_whole(message, &mut metadata), Ok(Decoded::default()));
        assert!(metadata.is_empty());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-zA-Z0-9=:.-]{0,8}".prop_map(Value::from),
            Just(Value::from("2020-01-01T00:00:00Z")),
        ];
        let names = ["spec", "data", "type", "rules", "template", "metadata", "names", "versions", "schema", "items"];
        leaf.prop_recursive(6, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                proptest::collection::btree_map(proptest::sample::select(names.to_vec()), inner, 0..5).prop_map(
                    |map| { Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()) }
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn decoding_what_was_decoded_changes_nothing(value in any_json(), index in 0usize..500) {
            let names = types::names();
            let message = types::message(names[index % names.len()]).expect("is there");
            if let Value::Object(mut object) = value
                && decode(message, &mut object).is_ok()
            {
                let once = object.clone();
                prop_assert_eq!(decode(message, &mut object), Ok(Decoded::default()));
                prop_assert_eq!(object, once);
            }
        }
    }
}
