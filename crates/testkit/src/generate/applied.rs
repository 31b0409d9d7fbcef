//! What the managers of server-side apply write: objects of the kinds that they share, with some of their members.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Number, Value};

use super::apply::GROUP;
use crate::chance::Chance;

/// An object with some of these members.
pub(super) fn some(chance: &mut Chance, names: &[&str], values: &[Value]) -> Value {
    let mut object = Map::new();
    for name in names {
        if chance.strikes(50) {
            object.insert(*name, chance.pick(values).clone());
        }
    }
    Value::Object(object)
}

pub(super) fn config_map(chance: &mut Chance) -> Value {
    let mut object = Map::new();
    if chance.strikes(85) {
        object.insert("data", some(chance, &["k", "l", "m", "n"], &[json!("1"), json!("2"), json!("")]));
    }
    if chance.strikes(15) {
        object.insert("binaryData", some(chance, &["x", "y"], &[json!("MQ=="), json!("")]));
    }
    Value::Object(object)
}

pub(super) fn secret(chance: &mut Chance) -> Value {
    let mut object = Map::new();
    if chance.strikes(60) {
        object.insert("data", some(chance, &["k", "l"], &[json!("MQ=="), json!("Mg==")]));
    }
    if chance.strikes(40) {
        object.insert("stringData", some(chance, &["k", "m"], &[json!("1"), json!("2")]));
    }
    if chance.strikes(10) {
        object.insert("type", "Opaque");
    }
    Value::Object(object)
}

pub(super) fn service_account(chance: &mut Chance) -> Value {
    let lists = [
        json!([{"name": "a"}]),
        json!([{"name": "b"}, {"name": "a", "namespace": "x"}]),
        json!([{"name": "c"}, {"name": "b"}]),
        json!([]),
        json!([{"namespace": "x"}]),
    ];
    let mut object = Map::new();
    for name in ["secrets", "imagePullSecrets"] {
        if chance.strikes(60) {
            let usable = if name == "secrets" { &lists[..] } else { &lists[..1] };
            object.insert(name, chance.pick(usable).clone());
        }
    }
    if chance.strikes(20) {
        object.insert("automountServiceAccountToken", chance.strikes(50));
    }
    Value::Object(object)
}

pub(super) fn role(chance: &mut Chance) -> Value {
    let lists = [
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]),
        json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}]),
    ];
    let mut object = Map::new();
    if chance.strikes(80) {
        object.insert("rules", chance.pick(&lists).clone());
    }
    Value::Object(object)
}

pub(super) fn lease(chance: &mut Chance) -> Value {
    let mut spec = Map::new();
    if chance.strikes(50) {
        spec.insert("holderIdentity", chance.text(&["a", "b"]));
    }
    if chance.strikes(50) {
        spec.insert("leaseDurationSeconds", chance.pick(&[json!(10), json!(20)]).clone());
    }
    if chance.strikes(30) {
        let times = [json!("2026-01-02T03:04:05.000000Z"), json!("2026-01-02T03:04:05Z")];
        spec.insert("renewTime", chance.pick(&times).clone());
    }
    json!({"spec": (Value::Object(spec))})
}

pub(super) fn service(chance: &mut Chance) -> Value {
    let mut spec = Map::new();
    // Headless, so that no address is given out.
    spec.insert("clusterIP", "None");
    let ports = [
        json!([{"name": "a", "port": 80}]),
        json!([{"name": "a", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}]),
        json!([{"name": "b", "port": 443, "targetPort": "https"}, {"name": "a", "port": 80, "targetPort": 8080}]),
        json!([{"port": 80}]),
    ];
    if chance.strikes(85) {
        spec.insert("ports", chance.pick(&ports).clone());
    }
    if chance.strikes(40) {
        spec.insert("selector", some(chance, &["a", "b"], &[json!("1"), json!("2")]));
    }
    if chance.strikes(20) {
        spec.insert("sessionAffinity", "None");
    }
    json!({"spec": (Value::Object(spec))})
}

pub(super) fn deployment(chance: &mut Chance) -> Value {
    let mut spec = Map::new();
    if chance.strikes(50) {
        spec.insert("replicas", chance.pick(&[json!(0), json!(1), json!(2)]).clone());
    }
    if chance.strikes(30) {
        let strategies = [
            json!({"type": "Recreate"}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}),
            json!({"rollingUpdate": {"maxUnavailable": "20%"}}),
        ];
        spec.insert("strategy", chance.pick(&strategies).clone());
    }
    let mut pod = Map::new();
    pod.insert("containers", containers(chance));
    if chance.strikes(30) {
        let volumes = [
            json!([{"name": "v", "emptyDir": {}}]),
            json!([{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {"medium": "Memory"}}]),
        ];
        pod.insert("volumes", chance.pick(&volumes).clone());
    }
    if chance.strikes(20) {
        pod.insert("nodeSelector", some(chance, &["a", "b"], &[json!("1")]));
    }
    if chance.strikes(15) {
        pod.insert("tolerations", json!([{"key": "a", "operator": "Exists"}]));
    }
    if chance.strikes(15) {
        pod.insert("securityContext", some(chance, &["runAsUser", "fsGroup"], &[json!(1), json!(2)]));
    }
    if chance.strikes(10) {
        pod.insert("imagePullSecrets", json!([{"name": "p"}]));
    }
    spec.insert("selector", json!({"matchLabels": {"app": "a"}}));
    spec.insert("template", json!({"metadata": {"labels": {"app": "a"}}, "spec": (Value::Object(pod))}));
    json!({"spec": (Value::Object(spec))})
}

fn containers(chance: &mut Chance) -> Value {
    let mut names = vec!["c", "side"];
    let mut items = Vec::new();
    while !names.is_empty() && (items.is_empty() || chance.strikes(40)) {
        let name = names.remove(chance.below(names.len()));
        let mut container = json!({"name": name, "image": (chance.text(&["i", "j"]))});
        let Some(members) = container.as_object_mut() else { continue };
        if chance.strikes(40) {
            let variables = [
                json!([{"name": "A", "value": "1"}]),
                json!([{"name": "B", "value": "2"}, {"name": "A"}]),
                json!([{"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            ];
            members.insert("env", chance.pick(&variables).clone());
        }
        // One container alone has ports: kube-apiserver warns of those that stand twice.
        if name == "c" && chance.strikes(50) {
            let ports = [
                json!([{"containerPort": 80}]),
                json!([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "name": "web"}]),
                json!([{"containerPort": 443}, {"containerPort": 80}]),
            ];
            members.insert("ports", chance.pick(&ports).clone());
        }
        if chance.strikes(30) {
            let resources = [
                json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
                json!({"limits": {"cpu": 1}, "requests": {"cpu": "500m"}}),
            ];
            members.insert("resources", chance.pick(&resources).clone());
        }
        if chance.strikes(25) {
            members.insert("args", chance.pick(&[json!(["x"]), json!(["x", "y"])]).clone());
        }
        if chance.strikes(20) {
            members.insert("volumeMounts", json!([{"name": "v", "mountPath": "/v"}]));
        }
        if chance.strikes(20) {
            members.insert(
                "livenessProbe",
                json!({"httpGet": {"path": "/", "port": (chance.pick(&[json!(80), json!("web")]).clone())}}),
            );
        }
        items.push(container);
    }
    Value::Array(items)
}

/// An object of the kind with everything in it.
pub(super) fn thing(chance: &mut Chance) -> Value {
    let fields: [(&str, Vec<Value>); 18] = [
        ("a", vec![json!("x"), json!("y"), Value::Null]),
        ("n", vec![json!(1), json!(2), number("9007199254740993"), number("2.0")]),
        ("b", vec![json!(true), json!(false)]),
        ("ratio", vec![number("0.5"), json!(1), number("1e3")]),
        ("m", vec![json!({"x": "1"}), json!({"y": "1", "x": "2"}), json!({}), Value::Null]),
        ("mm", vec![json!({"p": {"x": "1"}}), json!({"p": {"y": "1"}, "q": {}}), json!({"q": {"x": "2"}})]),
        ("atomic", vec![json!({"x": "1"}), json!({"y": "1"}), json!({})]),
        (
            "inner",
            vec![json!({"x": "1"}), json!({"y": "1", "deep": {"z": ["a", "b"]}}), json!({"deep": {}}), json!({})],
        ),
        ("list", vec![json!(["a"]), json!(["a", "b", "a"]), json!([])]),
        (
            "set",
            vec![json!(["a"]), json!(["b", "a"]), json!(["c", "b", "a"]), json!(["a", "c"]), json!([]), Value::Null],
        ),
        ("nums", vec![json!([1]), json!([2, 1]), json!([10, 2]), json!([1, 3000000])]),
        ("map", keyed(chance)),
        (
            "two",
            vec![
                json!([{"p": 1}]),
                json!([{"p": 1, "q": "UDP", "v": "1"}, {"p": 1, "v": "2"}]),
                json!([{"p": 2, "q": "TCP", "v": "x"}, {"p": 1}]),
                json!([{"p": 80, "v": "y"}, {"p": 443, "v": "z"}]),
            ],
        ),
        ("port", vec![json!(80), json!("http"), json!(81)]),
        (
            "free",
            vec![
                json!({"o": {"x": 1}, "l": [1, 2]}),
                json!({"o": {"y": 2}, "l": [3]}),
                json!({"o": "text"}),
                json!({"o": []}),
                json!({}),
            ],
        ),
        (
            "object",
            vec![
                json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"a": 1}}),
                json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "finalizers": ["e.com/f"]}}),
            ],
        ),
        ("nullable", vec![json!("x"), Value::Null]),
        ("replicas", vec![json!(1), json!(2)]),
    ];
    let mut spec = Map::new();
    for (name, values) in &fields {
        if chance.strikes(18) {
            spec.insert(*name, chance.pick(values).clone());
        }
    }
    let mut object = Map::new();
    if chance.strikes(92) {
        object.insert("spec", spec);
    }
    if chance.strikes(30) {
        let status = [
            json!({"s": "1"}),
            json!({"s": "2", "conditions": [{"type": "A", "status": "True"}]}),
            json!({"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "False"}]}),
            json!({}),
            json!({"replicas": 1}),
        ];
        object.insert("status", chance.pick(&status).clone());
    }
    if chance.strikes(10) {
        object.insert("extra", some(chance, &["x", "y"], &[json!("1"), json!("2")]));
    }
    Value::Object(object)
}

/// Lists whose elements are told apart by one member, in every order.
fn keyed(chance: &mut Chance) -> Vec<Value> {
    let mut names = vec!["a", "b", "c", "d"];
    let mut items = Vec::new();
    while !names.is_empty() && (items.is_empty() || chance.strikes(60)) {
        let name = names.remove(chance.below(names.len()));
        let mut item = json!({"k": name});
        let Some(members) = item.as_object_mut() else { continue };
        for member in ["v", "w"] {
            if chance.strikes(40) {
                members.insert(member, chance.text(&["1", "2"]));
            }
        }
        if chance.strikes(30) {
            members.insert("sub", chance.pick(&[json!(["x"]), json!(["y", "x"])]).clone());
        }
        items.push(item);
    }
    vec![Value::Array(items)]
}

pub(super) fn definition() -> Value {
    let text = || json!({"type": "string"});
    let integer = || json!({"type": "integer"});
    let two = || json!({"type": "object", "properties": {"x": (text()), "y": (text())}});
    let texts = || json!({"type": "array", "items": (text())});
    let set = |of: Value| json!({"type": "array", "items": of, "x-kubernetes-list-type": "set"});
    let keyed = |keys: Value, properties: Value, required: Value| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "required": required, "properties": properties}})
    };
    let inner = json!({"type": "object", "properties": {"x": (text()), "y": (text()),
        "def": {"type": "string", "default": "d"}, "deep": {"type": "object", "properties": {"z": (set(text()))}}}});
    let atomic = json!({"type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {"x": (text()), "y": (text())}});
    let spec = json!({"type": "object", "properties": {
        "a": (text()),
        "n": (integer()),
        "b": {"type": "boolean"},
        "ratio": {"type": "number"},
        "m": {"type": "object", "additionalProperties": (text())},
        "mm": {"type": "object", "additionalProperties": (two())},
        "atomic": atomic,
        "inner": inner,
        "list": (texts()),
        "set": (set(text())),
        "nums": (set(integer())),
        "map": (keyed(json!(["k"]), json!({"k": (text()), "v": (text()), "w": (text()), "sub": (set(text()))}), json!(["k"]))),
        "two": (keyed(
            json!(["p", "q"]),
            json!({"p": (integer()), "q": {"type": "string", "default": "TCP"}, "v": (text())}),
            json!(["p"])
        )),
        "port": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "object": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
        "nullable": {"type": "string", "nullable": true},
        "replicas": (integer())
    }});
    let conditions = keyed(json!(["type"]), json!({"type": (text()), "status": (text())}), json!(["type"]));
    let status =
        json!({"type": "object", "properties": {"s": (text()), "replicas": (integer()), "conditions": conditions}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status, "extra": (two())}});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": (schema.clone())},
            "subresources": {"status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": (format!("things.{GROUP}"))},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [(version("v1", true)), (version("v2", false))]}})
}

/// A number with the text that it is to have.
fn number(text: &str) -> Value {
    Number::parse(text).map_or(Value::Null, Value::Number)
}
