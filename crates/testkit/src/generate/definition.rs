//! Definitions: kinds that a sequence makes for itself, objects of them, and what discovery says.

use std::borrow::Cow;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Number, Value};

use super::Maker;
use super::kinds::{Kind, merge};
use super::objects::damage;
use crate::chance::Chance;
use crate::sequence::{Body, Step, StepKind};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The group of a sequence's own kinds: a variable of the run.
pub(super) const GROUP: &str = "${g}";

/// A kind of a definition.
const THING: Kind = Kind {
    area: "definitions",
    group: GROUP,
    version: "v1",
    plural: "things",
    kind: "Thing",
    namespaced: true,
    subresources: Cow::Borrowed(&[]),
    members: thing,
    change: thing,
    selectable: &["spec.color=red", "spec.size=3"],
};

impl Maker {
    /// A definition, and a kind to go on with.
    pub(super) fn define(&mut self) {
        let mut kind = THING;
        let status = self.chance.strikes(60);
        let scale = self.chance.strikes(30);
        let selectable = self.chance.strikes(30);
        let two_versions = self.chance.strikes(25);
        let mut names = Vec::new();
        names.extend(status.then_some("status"));
        names.extend(scale.then_some("scale"));
        kind.subresources = names.into();
        let mut version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": (schema(&mut self.chance))}});
        let mut subresources = json!({});
        if status {
            merge(&mut subresources, json!({"status": {}}));
        }
        if scale {
            let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                "labelSelectorPath": ".status.selector"});
            merge(&mut subresources, json!({"scale": scale}));
        }
        merge(&mut version, json!({"subresources": subresources}));
        if selectable {
            merge(&mut version, json!({"selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]}));
        }
        if self.chance.strikes(30) {
            let columns = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
                {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
            merge(&mut version, json!({"additionalPrinterColumns": columns}));
        }
        let mut versions = vec![version.clone()];
        if two_versions {
            let mut second = version;
            merge(&mut second, json!({"name": "v1beta1", "storage": false, "deprecated": true}));
            if self.chance.strikes(50) {
                merge(&mut second, json!({"schema": {"openAPIV3Schema": (schema(&mut self.chance))}}));
            }
            versions.push(second);
        }
        let broken = self.chance.strikes(25);
        kind.namespaced = self.chance.strikes(85);
        let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
        let mut names = json!({"plural": "things", "kind": "Thing"});
        if self.chance.strikes(30) {
            let more =
                json!({"singular": "thing", "listKind": "Things", "shortNames": ["th", "ti"], "categories": ["all"]});
            merge(&mut names, more);
        }
        let mut definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.${g}"},
            "spec": {"group": "${g}", "scope": scope, "versions": (Value::Array(versions)), "names": names}});
        if broken && let Some(spec) = definition.get_mut("spec") {
            damage(&mut self.chance, spec);
        }
        let body = Body::Json(definition);
        let create = Step { method: "POST".to_owned(), path: DEFINITIONS.to_owned(), body, ..Step::default() };
        self.push(create);
        if broken {
            // Whether it is taken is the question; there is not always something to go on with.
            return;
        }
        let served = Step { method: "GET".to_owned(), path: kind.collection(), ..Step::default() };
        self.push(Step { kind: StepKind::Until(200), ..served });
        if self.chance.strikes(20) {
            let told = Step { method: "GET".to_owned(), path: "/apis/${g}/v1".to_owned(), ..Step::default() };
            self.push(Step { kind: StepKind::Until(200), ..told.clone() });
            self.push(told);
        }
        if two_versions {
            let other = Kind { version: "v1beta1", ..kind.clone() };
            let served = Step { method: "GET".to_owned(), path: other.collection(), ..Step::default() };
            self.push(Step { kind: StepKind::Until(200), ..served });
            self.kinds.push(other);
        }
        self.kinds.push(kind);
    }

    /// A change of a definition that is no good, the last step of a sequence: what is good changes what is served
    /// some time later.
    pub(super) fn redefine(&mut self) {
        const MERGE: &str = "application/merge-patch+json";
        const JSON: &str = "application/json-patch+json";
        let path = format!("{DEFINITIONS}/things.${{g}}");
        let merges = [
            json!({"spec": {"names": {"kind": "Other"}}}),
            json!({"spec": {"names": {"plural": "others"}}}),
            json!({"spec": {"names": {"shortNames": ["Bad_Name"]}}}),
            json!({"spec": {"scope": "Odd"}}),
            json!({"spec": {"group": "other.example.com"}}),
            json!({"spec": {"versions": []}}),
            json!({"spec": {"versions": (Value::Null)}}),
            json!({"spec": {"conversion": {"strategy": "Odd"}}}),
            json!({"spec": {"conversion": {"strategy": "Webhook"}}}),
            json!({"spec": {"conversion": {"webhook": {"conversionReviewVersions": ["v1"]}}}}),
            json!({"spec": {"preserveUnknownFields": true}}),
            json!({"spec": (Value::Null)}),
            json!({"metadata": {"name": "other"}}),
            json!({"metadata": {"finalizers": ["bad"]}}),
        ];
        let at = |op: &str, path: &str, value: Value| json!([{"op": op, "path": (format!("/spec/versions/0/{path}")), "value": value}]);
        let operations = [
            at("replace", "storage", json!(false)),
            at("replace", "name", json!("Bad")),
            at("replace", "name", json!("v2")),
            at("add", "schema", Value::Null),
            at("add", "schema/openAPIV3Schema", json!({"type": "array"})),
            at("add", "schema/openAPIV3Schema/default", json!({})),
            at("add", "schema/openAPIV3Schema/properties/spec/properties/bad", json!({})),
            at("add", "schema/openAPIV3Schema/properties/metadata", json!({"type": "object", "maxProperties": 1})),
            at("add", "deprecationWarning", json!("x")),
            at("add", "selectableFields", json!([{"jsonPath": ".spec.none"}])),
            at("add", "additionalPrinterColumns", json!([{"name": "", "type": "odd", "jsonPath": "x"}])),
            at("add", "subresources", json!({"scale": {"specReplicasPath": "spec"}})),
        ];
        if self.chance.strikes(50) {
            let patch = self.chance.pick(&merges).clone();
            self.push_patch(path, MERGE, patch);
        } else {
            let patch = self.chance.pick(&operations).clone();
            self.push_patch(path, JSON, patch);
        }
    }

    /// What discovery says of what is served everywhere.
    pub(super) fn discover(&mut self) {
        const PATHS: &[&str] = &[
            "/apis/rbac.authorization.k8s.io/v1",
            "/apis/rbac.authorization.k8s.io",
            "/apis/coordination.k8s.io",
            "/apis/apiextensions.k8s.io/v1",
            "/apis/events.k8s.io/v1",
            "/apis/nothing.example.com",
            "/apis/nothing.example.com/v1",
            "/apis/coordination.k8s.io/v9",
            "/api/v1/odd",
            "/api/v2",
            "/odd",
            "/version",
            "/readyz",
            "/livez",
            "/healthz",
        ];
        for _ in 0..=self.chance.below(4) {
            let path = (*self.chance.pick(PATHS)).to_owned();
            let method = (*self.chance.pick(&["GET", "GET", "GET", "GET", "HEAD"])).to_owned();
            let accept = ["application/json", "application/yaml", "text/plain", "text/html", "*/*"];
            let headers = vec![("Accept".to_owned(), (*self.chance.pick(&accept)).to_owned())];
            self.push(Step { method, path, headers, ..Step::default() });
        }
    }
}

/// A schema of fields that [`thing`] fills, each with some of the keywords that it may have.
fn schema(chance: &mut Chance) -> Value {
    let mut properties = Map::new();
    let fields: [(&str, [Value; 4]); 15] = [
        (
            "size",
            [
                json!({"type": "integer"}),
                json!({"type": "integer", "minimum": 1, "maximum": 5, "default": 2}),
                json!({"type": "integer", "format": "int32", "multipleOf": 2}),
                json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true, "nullable": true}),
            ],
        ),
        (
            "color",
            [
                json!({"type": "string"}),
                json!({"type": "string", "enum": ["red", "blue"], "default": "red"}),
                json!({"type": "string", "pattern": "^[a-z]+$", "maxLength": 4}),
                json!({"type": "string", "nullable": true, "minLength": 1}),
            ],
        ),
        (
            "tags",
            [
                json!({"type": "array", "items": {"type": "string"}}),
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
                json!({"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2, "minItems": 1}),
                json!({"type": "array", "uniqueItems": false, "items": {"type": "string"}, "default": ["x"]}),
            ],
        ),
        (
            "parts",
            [
                json!({"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 1}}, "required": ["name"]}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
                json!({"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "default": "d"}, "n": {"type": "integer"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
                json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
                json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}),
            ],
        ),
        (
            "map",
            [
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                json!({"type": "object", "additionalProperties": {"type": "integer", "maximum": 3}, "maxProperties": 2}),
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                json!({"type": "object", "additionalProperties": true}),
            ],
        ),
        (
            "port",
            [
                json!({"x-kubernetes-int-or-string": true}),
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[a-z]+$"}),
                json!({"x-kubernetes-int-or-string": true, "default": 80}),
                json!({"x-kubernetes-int-or-string": true, "maximum": 90}),
            ],
        ),
        (
            "at",
            [
                json!({"type": "string", "format": "date-time"}),
                json!({"type": "string", "format": "duration"}),
                json!({"type": "string", "format": "ipv4"}),
                json!({"type": "string", "format": "uuid"}),
            ],
        ),
        (
            "ratio",
            [
                json!({"type": "number"}),
                json!({"type": "number", "minimum": (number("0.5"))}),
                json!({"type": "number", "multipleOf": (number("0.1"))}),
                json!({"type": "number", "format": "double", "default": (number("1.5"))}),
            ],
        ),
        (
            "on",
            [
                json!({"type": "boolean"}),
                json!({"type": "boolean", "default": true}),
                json!({"type": "boolean", "nullable": true}),
                json!({"type": "boolean", "enum": [true]}),
            ],
        ),
        (
            "inner",
            [
                json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}, "default": {}}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "nullable": true, "default": (Value::Null)}),
                json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}}),
            ],
        ),
        (
            "object",
            [
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
                json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}),
                json!({"type": "object"}),
                json!({"type": "object", "minProperties": 1, "properties": {"kind": {"type": "string"}}}),
            ],
        ),
        (
            "either",
            [
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "not": {"required": ["a", "b"]}}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"a": {"maxLength": 1}}}, {"properties": {"a": {"minLength": 3}}}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "allOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 2}}}]}),
            ],
        ),
        (
            "ports",
            [
                json!({"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "x": {"type": "string"}}, "required": ["port"]}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]}),
                json!({"type": "array", "maxItems": 1, "items": {"type": "object", "properties": {"port": {"type": "integer"}}}, "default": [{"port": 80}]}),
                json!({"type": "array", "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}}, "x-kubernetes-list-type": "set"}),
                json!({"type": "array", "items": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}}}),
            ],
        ),
        (
            "matrix",
            [
                json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
                json!({"type": "array", "items": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}}),
                json!({"type": "array", "items": {"type": "array", "maxItems": 1, "items": {"type": "integer", "nullable": true}}}),
                json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}}),
            ],
        ),
        (
            "named",
            [
                json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}}}),
                json!({"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}),
                json!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}}),
                json!({"type": "object", "additionalProperties": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}),
            ],
        ),
    ];
    for (name, forms) in &fields {
        if chance.strikes(40) {
            properties.insert(*name, chance.pick(forms).clone());
        }
    }
    let mut spec = json!({"type": "object", "properties": (Value::Object(properties))});
    if chance.strikes(15) {
        merge(&mut spec, json!({"required": ["color"]}));
    }
    if chance.strikes(10) {
        merge(&mut spec, json!({"x-kubernetes-preserve-unknown-fields": true}));
    }
    if chance.strikes(10) {
        merge(&mut spec, json!({"default": {}}));
    }
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"type": "object", "properties": {"spec": spec, "status": status}})
}

/// The members of an object, whatever the definition thinks of them.
fn thing(chance: &mut Chance) -> Value {
    let fields: [(&str, Vec<Value>); 16] = [
        ("size", vec![json!(1), json!(3), json!(7), number("1.0"), number("1.5"), json!("1"), Value::Null]),
        ("color", vec![json!("red"), json!("blue"), json!("purple!"), json!(""), json!(1), Value::Null]),
        ("tags", vec![json!(["x"]), json!(["x", "y", "x"]), json!([]), json!(["long tag", 1]), json!({}), Value::Null]),
        (
            "parts",
            vec![
                json!([{"name": "a"}, {"name": "b", "n": 2}]),
                json!([{"name": "a"}, {"name": "a"}]),
                json!([{"n": 1}]),
                json!([{"name": "a", "more": 1}]),
                json!([(Value::Null)]),
            ],
        ),
        ("map", vec![json!({"a": "x"}), json!({"a": 1, "b": 2, "c": 5}), json!({}), json!({"a": (Value::Null)})]),
        ("port", vec![json!(80), json!("http"), json!("HTTP"), number("1.5"), json!(true), json!(99)]),
        (
            "at",
            vec![
                json!("2026-01-02T03:04:05Z"),
                json!("2026-01-02"),
                json!("1h30m"),
                json!("10.0.0.1"),
                json!("123e4567-e89b-12d3-a456-426614174000"),
                json!("odd"),
            ],
        ),
        ("ratio", vec![number("0.5"), json!(1), number("0.3"), number("-1.25"), json!("x")]),
        ("on", vec![json!(true), json!(false), json!("true"), Value::Null]),
        ("inner", vec![json!({"a": "y"}), json!({"b": 2, "c": 3}), json!({}), Value::Null, json!([])]),
        (
            "object",
            vec![
                json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "odd": 1}, "spec": {"a": 1}}),
                json!({"kind": "X"}),
                json!({}),
                json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "Bad Name", "labels": {"a": "b!"}}}),
            ],
        ),
        (
            "either",
            vec![json!({"a": "x"}), json!({"a": "xyz", "b": 1}), json!({"b": 2}), json!({"a": "xy"}), json!({})],
        ),
        (
            "ports",
            vec![
                json!([{"port": 80}, {"port": 80, "protocol": "UDP"}]),
                json!([{"port": 80}, {"port": 80, "protocol": "TCP", "x": "y"}]),
                json!([{"protocol": "TCP"}]),
                json!([{"port": "http"}]),
                json!([]),
            ],
        ),
        ("matrix", vec![json!([[1, 2], [1, 1]]), json!([[], [(Value::Null)]]), json!([{"a": 1}]), json!([[[1]]])]),
        (
            "named",
            vec![
                json!({"k": {}, "l": {"a": "y", "c": 1}}),
                json!({"k": ["x", "x"]}),
                json!({"k": (Value::Null), "l": "x"}),
                json!({"k": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "labels": {"a": 1}}}}),
            ],
        ),
        ("unknown", vec![json!(1), json!({"deep": [1]})]),
    ];
    let mut spec = Map::new();
    for (name, values) in &fields {
        if chance.strikes(25) {
            spec.insert(*name, chance.pick(values).clone());
        }
    }
    let mut object = match chance.below(12) {
        0 => json!({}),
        1 => json!({"spec": (Value::Null)}),
        2 => json!({"spec": []}),
        _ => json!({"spec": (Value::Object(spec))}),
    };
    if chance.strikes(20) {
        let status = [json!({"size": 2, "selector": "app=web"}), json!({}), json!(1), json!({"conditions": []})];
        merge(&mut object, json!({"status": (chance.pick(&status).clone())}));
    }
    if chance.strikes(5) {
        merge(&mut object, json!({"extra": {"x": 1}}));
    }
    object
}

/// A number with the text that it is to have.
fn number(text: &str) -> Value {
    Number::parse(text).map_or(Value::Null, Value::Number)
}
