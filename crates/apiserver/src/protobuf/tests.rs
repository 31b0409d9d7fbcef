//! What is known of the decoder: Go's own bodies, every kind of the table, and bytes that mean harm.

use allotment_machinery::json::{Map, parse};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;
use crate::builtin::{Type, message, message_of_kind};

/// A small source of choices that a property test seeds.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Some object of a message, in the form that the decoder answers.
fn some_object(message: &'static Message, choices: &mut Choices, depth: usize) -> Map {
    let mut map = Map::new();
    for field in &message.fields {
        if let (".", Type::Message(name)) = (field.name, &field.ty) {
            map.extend_from(some_object(crate::builtin::message(name).expect(name), choices, depth + 1));
        } else if field.number != 0 && choices.below(if depth > 4 { 20 } else { 2 }) == 0 {
            map.insert(field.name, some_value(&field.ty, choices, depth));
        }
    }
    builtin::decode_whole(message, &mut map).expect("it is of that type");
    map
}

fn some_value(ty: &'static Type, choices: &mut Choices, depth: usize) -> Value {
    let object =
        |name: &str, choices: &mut Choices| Value::Object(some_object(message(name).expect(name), choices, depth + 1));
    let text = |choices: &mut Choices| Value::from(["", "a", "ü/x", "b.c"][choices.below(4) as usize]);
    match ty {
        Type::String => text(choices),
        Type::Quantity => Value::from(["0", "1", "500m", "1536Mi", "12e6"][choices.below(5) as usize]),
        Type::Duration => Value::from("1m0s"),
        Type::Bool => Value::from(choices.below(2) == 0),
        Type::Int32 => Value::from([0, 1, -1, i64::from(i32::MAX), i64::from(i32::MIN)][choices.below(5) as usize]),
        Type::Int64 => Value::from([0, 1, -1, i64::MAX, i64::MIN][choices.below(5) as usize]),
        Type::Double => Value::from(choices.below(9) as i64),
        Type::Bytes => Value::from(STANDARD.encode(vec![7; choices.below(5) as usize])),
        // An empty list is not on the wire at all.
        Type::List(of) => Value::Array((0..=choices.below(2)).map(|_| some_value(of, choices, depth + 1)).collect()),
        // Nor is an empty map.
        Type::Map(of) => {
            let entries = (0..=choices.below(2)).map(|index| (format!("k{index}"), some_value(of, choices, depth + 1)));
            Value::Object(entries.collect())
        }
        Type::Message(name) => object(name, choices),
        Type::Time => Value::from("2024-02-29T12:30:45Z"),
        Type::MicroTime => Value::from("1969-12-31T23:59:59.123456Z"),
        Type::IntOrString => [Value::from(80), Value::from("25%")][choices.below(2) as usize].clone(),
        Type::RawExtension | Type::FieldsV1 | Type::Json => parse(br#"{"a":[1.0,null]}"#).expect("parses"),
        Type::Items => Value::Array((0..choices.below(3)).map(|_| text(choices)).collect()),
        Type::SchemaOrBool if choices.below(2) == 0 => Value::from(true),
        Type::SchemaOrArray if choices.below(2) == 0 => Value::Array(vec![object(builtin::SCHEMA_PROPS, choices)]),
        Type::SchemaOrStrings if choices.below(2) == 0 => Value::Array(vec![Value::from("a")]),
        Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => object(builtin::SCHEMA_PROPS, choices),
    }
}

trait ExtendFrom {
    fn extend_from(&mut self, other: Map);
}

impl ExtendFrom for Map {
    fn extend_from(&mut self, other: Map) {
        for (key, value) in other {
            self.insert(key, value);
        }
    }
}

fn vectors() -> Vec<(Vec<u8>, Value)> {
    let lines = include_str!("vectors.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (body, expect) = line.split_once(' ').expect("two parts");
            (STANDARD.decode(body).expect("base64"), parse(expect.as_bytes()).expect("JSON"))
        })
        .collect()
}

#[test]
fn bodies_that_go_wrote_give_the_json_that_go_writes() {
    let vectors = vectors();
    assert!(vectors.len() >= 17, "{}", vectors.len());
    for (body, expect) in vectors {
        let read = decode(&body, "", "").expect("reads");
        assert_eq!(read.to_string(), expect.to_string());
    }
}

/// The kinds that requests have in their bodies.
const KINDS: &[(&str, &str)] = &[
    ("v1", "Namespace"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("v1", "Event"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("events.k8s.io/v1", "Event"),
    ("coordination.k8s.io/v1", "Lease"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("authentication.k8s.io/v1", "TokenRequest"),
    ("authentication.k8s.io/v1", "TokenReview"),
    ("authorization.k8s.io/v1", "SubjectAccessReview"),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"),
    ("apps/v1", "Deployment"),
    ("v1", "DeleteOptions"),
];

proptest! {
    #[test]
    fn what_was_written_is_read(seed: u64, index in 0..KINDS.len()) {
        let (api_version, kind) = KINDS[index];
        let message = message_of_kind(api_version, kind).expect(kind);
        let mut object = some_object(message, &mut Choices(seed), 0);
        let body = encode::body(api_version, kind, message, &object);
        object.insert("apiVersion", api_version);
        object.insert("kind", kind);
        prop_assert_eq!(decode(&body, "", ""), Ok(Value::Object(object)));
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..400), index in 0..KINDS.len()) {
        let (api_version, kind) = KINDS[index];
        let _ = decode(&bytes, api_version, kind);
        let mut body = MAGIC.to_vec();
        encode::bytes(2, &bytes, &mut body);
        let _ = decode(&body, api_version, kind);
    }

    #[test]
    fn damaged_bodies_are_answered(seed: u64, index in 0..KINDS.len(), damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut: prop::sample::Index) {
        let (api_version, kind) = KINDS[index];
        let message = message_of_kind(api_version, kind).expect(kind);
        let mut body = encode::body(api_version, kind, message, &some_object(message, &mut Choices(seed), 0));
        for (place, byte) in damage {
            let place = place.index(body.len());
            body[place] = byte;
        }
        let _ = decode(&body, api_version, kind);
        let _ = decode(&body[..cut.index(body.len())], api_version, kind);
    }
}

fn in_body(raw: &[u8]) -> Vec<u8> {
    let mut body = MAGIC.to_vec();
    encode::bytes(2, raw, &mut body);
    body
}

#[test]
fn deep_messages_are_refused_on_a_small_stack() {
    let mut schema = Vec::new();
    for _ in 0..5_000 {
        let mut outer = Vec::new();
        encode::bytes(28, &schema, &mut outer);
        schema = outer;
    }
    for field in [1, 4, 7, 2] {
        let mut outer = Vec::new();
        encode::bytes(field, &schema, &mut outer);
        schema = outer;
    }
    let body = in_body(&schema);
    let answer = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || decode(&body, "apiextensions.k8s.io/v1", "CustomResourceDefinition"))
        .expect("a thread")
        .join()
        .expect("does not overflow its stack");
    assert_eq!(answer, Err(ProtobufError::TooDeep));
}

#[test]
fn a_body_of_nothing_but_empty_elements_is_refused() {
    let mut role = Vec::new();
    for _ in 0..1_000_000 {
        encode::bytes(2, b"", &mut role);
    }
    assert_eq!(decode(&in_body(&role), "rbac.authorization.k8s.io/v1", "Role"), Err(ProtobufError::TooMany));
}

#[test]
fn messages_in_parts_are_merged_and_packed_numbers_are_read() {
    let mut lease = Vec::new();
    let part = |number: u32, text: &str| {
        let mut spec = Vec::new();
        encode::bytes(number, text.as_bytes(), &mut spec);
        spec
    };
    encode::bytes(2, &part(1, "a"), &mut lease);
    encode::bytes(2, &part(6, "s"), &mut lease);
    let read = decode(&in_body(&lease), "coordination.k8s.io/v1", "Lease").expect("reads");
    assert_eq!(read.get("spec").map(Value::to_string).as_deref(), Some(r#"{"holderIdentity":"a","strategy":"s"}"#));

    let (mut context, mut spec, mut pod) = (Vec::new(), Vec::new(), Vec::new());
    encode::bytes(4, &[1, 0x96, 0x01], &mut context);
    encode::bytes(14, &context, &mut spec);
    encode::bytes(2, &spec, &mut pod);
    let read = decode(&in_body(&pod), "v1", "Pod").expect("reads");
    let groups = read.at(&["spec", "securityContext", "supplementalGroups"]).map(Value::to_string);
    assert_eq!(groups.as_deref(), Some("[1,150]"));
}

#[test]
fn what_is_no_body_says_so() {
    let with_type = |api_version: &str, kind: &str| {
        let (mut meta, mut body) = (Vec::new(), MAGIC.to_vec());
        encode::bytes(1, api_version.as_bytes(), &mut meta);
        encode::bytes(2, kind.as_bytes(), &mut meta);
        encode::bytes(1, &meta, &mut body);
        body
    };
    assert_eq!(decode(b"{}", "v1", "ConfigMap"), Err(ProtobufError::Magic));
    assert_eq!(decode(b"", "v1", "ConfigMap"), Err(ProtobufError::Magic));
    assert!(matches!(decode(&with_type("e.com/v1", "X"), "", ""), Err(ProtobufError::UnknownKind { .. })));
    let other = decode(&with_type("v1", "Secret"), "v1", "ConfigMap").expect("the body says what it is");
    assert_eq!(other.get("kind"), Some(&Value::from("Secret")));
    let mut packed = with_type("v1", "Secret");
    encode::bytes(3, b"gzip", &mut packed);
    assert!(matches!(decode(&packed, "", ""), Err(ProtobufError::Encoding { .. })));
    let mut wrong = Vec::new();
    encode::tag(2, 0, &mut wrong);
    encode::varint(1, &mut wrong);
    let error = decode(&in_body(&wrong), "v1", "ConfigMap").expect_err("data is no number");
    assert_eq!(error.to_string(), "proto: wrong wireType = 0 for field ConfigMap.data");
}
