//! What members of built-in types are when nothing is given: what the types declare, a table of the
//! others, and a function for each message whose defaults depend on its members
//! (`k8s.io/kubernetes/pkg/apis/*/v1`, SetDefaults_*).
//!
//! Parents come before their parts, as in Kubernetes. What a whole object needs beyond its messages is left
//! to the kinds' strategies.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::quantity::Quantity;

use crate::builtin::types::depends;
use crate::builtin::types::{self, Field, Message, Type};

const TABLE: &str = include_str!("defaults.txt");

type Members = Vec<(&'static str, Value)>;

/// The table, by message.
static DEFAULTS: LazyLock<BTreeMap<&'static str, Members>> = LazyLock::new(|| {
    let mut defaults: BTreeMap<&'static str, Members> = BTreeMap::new();
    let mut message = "";
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix('=') {
            Some(name) => message = name,
            None => defaults.entry(message).or_default().extend(parse_member(line)),
        }
    }
    defaults
});

fn parse_member(line: &'static str) -> Option<(&'static str, Value)> {
    let (name, value) = line.split_once(' ')?;
    Some((name, json::parse(value.as_bytes()).ok()?))
}

/// Fills in what is not given, in place, in an object that has been decoded.
pub(crate) fn apply(message: &'static Message, object: &mut Map) {
    if let Some(members) = DEFAULTS.get(message.name) {
        for (name, value) in members {
            let pointer = message.fields.iter().find(|field| field.name == *name).is_some_and(|field| field.pointer);
            set_absent(object, name, pointer, value);
        }
    }
    for field in message.fields.iter().filter(|field| field.name != ".") {
        if let Some(default) = &field.default {
            let shows_nothing = !field.pointer && is_zero(default);
            if !shows_nothing {
                set_absent(object, field.name, field.pointer, default);
            }
        }
    }
    depends::apply(message.name, object);
    for field in &message.fields {
        parts(field, object);
    }
}

/// A pointer that is not there, or a value that Go cannot tell from absence.
fn set_absent(object: &mut Map, name: &str, pointer: bool, default: &Value) {
    let given = object.get(name).is_some_and(|value| !value.is_null() && (pointer || !is_zero(value)));
    if !given {
        object.insert(name, default.clone());
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}

fn parts(field: &'static Field, object: &mut Map) {
    let Some(inner) = message_of(&field.ty) else {
        if field.ty == Type::Map(Box::new(Type::Quantity)) {
            round_quantities(object.get_mut(field.name));
        }
        return;
    };
    if field.name == "." {
        return apply(inner, object);
    }
    match object.get_mut(field.name) {
        Some(Value::Object(map)) if matches!(field.ty, Type::Message(_)) => apply(inner, map),
        Some(Value::Object(map)) => {
            map.iter_mut().filter_map(|(_, value)| value.as_object_mut()).for_each(|map| apply(inner, map));
        }
        Some(Value::Array(items)) => {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|map| apply(inner, map));
        }
        _ => {}
    }
}

/// The message that a value of this type is, or is made of. Metadata has no defaults, schemas have none.
fn message_of(ty: &'static Type) -> Option<&'static Message> {
    match ty {
        Type::Message("meta/v1.ObjectMeta" | types::SCHEMA_PROPS) => None,
        Type::Message(name) => types::message(name),
        Type::List(of) | Type::Map(of) => message_of(of),
        _ => None,
    }
}

/// Lists of resources know no smaller part than a thousandth.
fn round_quantities(list: Option<&mut Value>) {
    const MILLI: i128 = 1_000_000;
    let Some(Value::Object(list)) = list else { return };
    for (_, value) in list.iter_mut() {
        let quantity = value.as_str().and_then(|text| text.parse::<Quantity>().ok());
        if let Some(quantity) = quantity.filter(|quantity| quantity.nanos() % MILLI != 0) {
            *value = Value::from(quantity.rounded_up(MILLI).to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, input: &str, expect: &str) {
        let message = types::message(name).expect(name);
        let mut object = json::parse(input.as_bytes()).expect(input).as_object().expect("an object").clone();
        crate::builtin::types::shape::decode(message, &mut object).expect("fits its type");
        apply(message, &mut object);
        assert_eq!(Value::Object(object.clone()).to_string(), expect, "{input}");
        let once = object.clone();
        apply(message, &mut object);
        assert_eq!(object, once, "defaults filled in again change nothing");
    }

    #[test]
    fn every_line_of_the_table_names_a_member_of_its_message() {
        let mut lines = 0;
        for (name, members) in &*DEFAULTS {
            let message = types::message(name).unwrap_or_else(|| panic!("{name} is no message"));
            for (member, _) in members {
                assert!(message.fields.iter().any(|field| field.name == *member), "{name}.{member}");
                lines += 1;
            }
        }
        assert_eq!(lines, TABLE.lines().filter(|line| !line.starts_with(['#', '='])).count());
    }

    #[test]
    fn members_that_are_not_given_have_their_defaults() {
        check(
            "core/v1.Probe",
            r#"{"httpGet":{"port":80},"periodSeconds":5}"#,
            r#"{"failureThreshold":3,"httpGet":{"path":"/","port":80,"scheme":"HTTP"},"periodSeconds":5,"successThreshold":1,"timeoutSeconds":1}"#,
        );
        check(
            "core/v1.Probe",
            r#"{"grpc":{"port":1}}"#,
            r#"{"failureThreshold":3,"grpc":{"port":1,"service":""},"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1}"#,
        );
        check("core/v1.Volume", r#"{"name":"v"}"#, r#"{"emptyDir":{},"name":"v"}"#);
        check(
            "core/v1.Volume",
            r#"{"name":"v","secret":{"secretName":"s"}}"#,
            r#"{"name":"v","secret":{"defaultMode":420,"secretName":"s"}}"#,
        );
        check(
            "networking/v1.NetworkPolicySpec",
            r#"{"podSelector":{},"egress":[{}]}"#,
            r#"{"egress":[{}],"podSelector":{},"policyTypes":["Ingress","Egress"]}"#,
        );
    }

    #[test]
    fn images_without_a_tag_are_pulled_always() {
        for (image, expect) in [
            ("i", "Always"),
            ("i:latest", "Always"),
            ("i:1", "IfNotPresent"),
            ("registry:5000/i", "Always"),
            ("registry:5000/i:1", "IfNotPresent"),
            ("i@sha256:0123456789012345678901234567890123456789012345678901234567890123", "IfNotPresent"),
            ("i:latest@sha256:0123456789012345678901234567890123456789012345678901234567890123", "Always"),
        ] {
            let mut container = Map::from_iter([("image".to_owned(), Value::from(image))]);
            apply(types::message("core/v1.Container").expect("is there"), &mut container);
            assert_eq!(container.get("imagePullPolicy"), Some(&Value::from(expect)), "{image}");
        }
    }

    #[test]
    fn amounts_of_resources_are_rounded_up_to_thousandths() {
        check(
            "core/v1.ResourceRequirements",
            r#"{"limits":{"cpu":"1.0001","memory":"1024Mi"}}"#,
            r#"{"limits":{"cpu":"1001m","memory":"1Gi"}}"#,
        );
    }
}
