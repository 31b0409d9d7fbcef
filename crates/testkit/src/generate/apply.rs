//! Server-side apply: a few managers that apply, update and patch one object, of a kind with every sort of
//! list and map, and of built-in kinds.
//!
//! A configuration is wrong in one place at most, since kube-apiserver tells of several in any order.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Number, Value};

use super::Maker;
use crate::chance::Chance;
use crate::sequence::{Body, Step, StepKind};

/// Who writes.
const MANAGERS: &[&str] = &["m1", "m2", "m3"];
/// The kind is the same for all sequences, since it takes kube-apiserver long to serve one.
const GROUP: &str = "owned.live.example.com";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// What is written to.
#[derive(Clone, Copy)]
struct Target {
    api_version: &'static str,
    kind: &'static str,
    collection: &'static str,
    custom: bool,
    /// The parts of a random object.
    members: fn(&mut Chance) -> Value,
}

const THING: Target = Target {
    api_version: "owned.live.example.com/v1",
    kind: "Thing",
    collection: "/apis/owned.live.example.com/v1/namespaces/${ns}/things",
    custom: true,
    members: thing,
};

const OTHER: Target = Target {
    api_version: "owned.live.example.com/v2",
    collection: "/apis/owned.live.example.com/v2/namespaces/${ns}/things",
    ..THING
};

const BUILTIN: &[Target] = &[
    Target {
        api_version: "v1",
        kind: "ConfigMap",
        collection: "/api/v1/namespaces/${ns}/configmaps",
        custom: false,
        members: config_map,
    },
    Target {
        api_version: "v1",
        kind: "Secret",
        collection: "/api/v1/namespaces/${ns}/secrets",
        custom: false,
        members: secret,
    },
    Target {
        api_version: "v1",
        kind: "ServiceAccount",
        collection: "/api/v1/namespaces/${ns}/serviceaccounts",
        custom: false,
        members: service_account,
    },
    Target {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "Role",
        collection: "/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/roles",
        custom: false,
        members: role,
    },
    Target {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        collection: "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases",
        custom: false,
        members: lease,
    },
    Target {
        api_version: "v1",
        kind: "Service",
        collection: "/api/v1/namespaces/${ns}/services",
        custom: false,
        members: service,
    },
    Target {
        api_version: "apps/v1",
        kind: "Deployment",
        collection: "/apis/apps/v1/namespaces/${ns}/deployments",
        custom: false,
        members: deployment,
    },
    Target {
        api_version: "apps/v1",
        kind: "Deployment",
        collection: "/apis/apps/v1/namespaces/${ns}/deployments",
        custom: false,
        members: deployment,
    },
];

impl Maker {
    /// Appends writes of several managers to one object.
    pub(super) fn own(&mut self, length: usize) {
        let custom = self.chance.strikes(70);
        let target = if custom { THING } else { *self.chance.pick(BUILTIN) };
        if custom {
            self.define_owned();
        }
        let first = self.steps.len();
        while self.steps.len() < first + length {
            let target = if custom && self.chance.strikes(10) { OTHER } else { target };
            self.write(target);
        }
    }

    /// The kind, unless an earlier sequence has made it.
    fn define_owned(&mut self) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
        let body = Body::Json(definition());
        // Made at the first try, there at the second.
        let kind = StepKind::Until(409);
        self.push(Step { method: "POST".to_owned(), path, body, kind, ..Step::default() });
        for target in [THING, OTHER] {
            let (method, path) = ("GET".to_owned(), target.collection.to_owned());
            self.push(Step { method, path, kind: StepKind::Until(200), ..Step::default() });
        }
    }

    fn write(&mut self, target: Target) {
        let manager = self.chance.text(MANAGERS);
        let item = format!("{}/a", target.collection);
        match self.chance.below(20) {
            0..=9 => self.apply(target, item, &manager),
            10 => self.create_owned(target, &manager),
            11 | 12 => self.replace(target, item, &manager),
            13..=15 => self.merge(target, item, &manager),
            16 => self.patch_by_operation(item, &manager),
            17 => self.reset(item, &manager),
            18 if target.custom || target.kind == "Deployment" => self.scale(item, &manager),
            18 => self.strategic(target, item, &manager),
            _ => self.push(Step { method: "GET".to_owned(), path: item, ..Step::default() }),
        }
    }

    /// An object whose members are random, and which of them may be wrong.
    fn configuration(&mut self, target: Target) -> Value {
        let mut object = json!({"apiVersion": (target.api_version), "kind": (target.kind), "metadata": {"name": "a"}});
        let members = (target.members)(&mut self.chance);
        if let (Some(object), Value::Object(members)) = (object.as_object_mut(), members) {
            for (name, value) in members {
                object.insert(name, value);
            }
            if let Some(metadata) = object.object_mut("metadata") {
                for (name, value) in metadata_members(&mut self.chance) {
                    // Custom resources are stored with what is empty there, which nobody sees but for a
                    // write that changes nothing and yet gives a new version.
                    let empty = value.as_object().is_some_and(Map::is_empty) || value.as_array() == Some(&[]);
                    if !(target.custom && empty) {
                        metadata.insert(name, value);
                    }
                }
            }
        }
        object
    }

    fn query(&mut self, manager: &str) -> Vec<(String, String)> {
        let mut query = vec![("fieldManager".to_owned(), manager.to_owned())];
        if self.chance.strikes(4) {
            query.push(("dryRun".to_owned(), "All".to_owned()));
        }
        query
    }

    fn push_write(
        &mut self,
        method: &str,
        path: String,
        content_type: &str,
        query: Vec<(String, String)>,
        body: Value,
    ) {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        let (method, body) = (method.to_owned(), Body::Json(body));
        self.push(Step { method, path, query, headers, body, ..Step::default() });
    }

    fn apply(&mut self, target: Target, item: String, manager: &str) {
        let mut object = self.configuration(target);
        let mut query = self.query(manager);
        if self.chance.strikes(30) {
            query.push(("force".to_owned(), "true".to_owned()));
        }
        if self.chance.strikes(6) {
            spoil(&mut self.chance, &mut object);
        }
        let path = if target.custom && self.chance.strikes(25) { format!("{item}/status") } else { item };
        self.push_write("PATCH", path, APPLY, query, object);
    }

    fn create_owned(&mut self, target: Target, manager: &str) {
        let (object, query) = (self.configuration(target), self.query(manager));
        self.push_write("POST", target.collection.to_owned(), "application/json", query, object);
    }

    fn replace(&mut self, target: Target, item: String, manager: &str) {
        let mut object = self.configuration(target);
        let revision = self.earlier("rv");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion", revision);
        }
        let query = self.query(manager);
        let path = if target.custom && self.chance.strikes(25) { format!("{item}/status") } else { item };
        self.push_write("PUT", path, "application/json", query, object);
    }

    /// Members of the object, some of them to go.
    fn merge(&mut self, target: Target, item: String, manager: &str) {
        let mut patch = (target.members)(&mut self.chance);
        let inner = if target.custom { "spec" } else { "data" };
        if let Some(members) = patch.get_mut(inner).and_then(Value::as_object_mut) {
            let names: Vec<String> = members.keys().map(str::to_owned).collect();
            for name in names.iter().filter(|_| self.chance.strikes(25)) {
                members.insert(name.as_str(), Value::Null);
            }
        }
        let query = self.query(manager);
        let path = if target.custom && self.chance.strikes(25) { format!("{item}/status") } else { item };
        self.push_write("PATCH", path, MERGE, query, patch);
    }

    fn strategic(&mut self, target: Target, item: String, manager: &str) {
        let (patch, query) = ((target.members)(&mut self.chance), self.query(manager));
        self.push_write("PATCH", item, STRATEGIC, query, patch);
    }

    fn patch_by_operation(&mut self, item: String, manager: &str) {
        let operation = match self.chance.below(4) {
            0 => json!({"op": "add", "path": "/metadata/labels", "value": {"l": "9"}}),
            1 => json!({"op": "remove", "path": "/spec"}),
            2 => json!({"op": "add", "path": "/spec/map/-", "value": {"k": "a", "v": "z"}}),
            _ => json!({"op": "remove", "path": "/metadata/labels/l"}),
        };
        let query = self.query(manager);
        self.push_write("PATCH", item, JSON, query, json!([operation]));
    }

    /// Owners forgotten, or invented.
    fn reset(&mut self, item: String, manager: &str) {
        let entry = |fields: Value| {
            json!([{"manager": "invented", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "time": "2026-01-01T00:00:00Z", "fieldsV1": (fields)}])
        };
        let entries = match self.chance.below(6) {
            0 => json!([]),
            1 | 2 => json!([{}]),
            3 => entry(json!({"f:data": {"f:k": {}}})),
            4 => entry(json!({"f:data": {"odd": {}}})),
            _ => json!([{"manager": "x", "operation": "Odd"}]),
        };
        let query = self.query(manager);
        self.push_write("PATCH", item, MERGE, query, json!({"metadata": {"managedFields": entries}}));
    }

    fn scale(&mut self, item: String, manager: &str) {
        let replicas = i64::try_from(self.chance.below(3)).unwrap_or_default();
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
            "spec": {"replicas": replicas}});
        let mut query = self.query(manager);
        let path = format!("{item}/scale");
        match self.chance.below(3) {
            0 => self.push_write("PATCH", path, MERGE, query, json!({"spec": {"replicas": replicas}})),
            1 => {
                if self.chance.strikes(50) {
                    query.push(("force".to_owned(), "true".to_owned()));
                }
                self.push_write("PATCH", path, APPLY, query, scale);
            }
            _ => self.push_write("PUT", path, "application/json", query, scale),
        }
    }
}

/// Makes one thing wrong.
fn spoil(chance: &mut Chance, object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    match chance.below(7) {
        0 => drop(object.insert("nope", 1)),
        1 => drop(object.insert("kind", "Odd")),
        2 => drop(object.insert("apiVersion", "v9")),
        3 => drop(object.remove("kind")),
        4 => drop(object.insert("spec", json!({"set": ["a", "a"]}))),
        5 => drop(object.insert("spec", "text")),
        _ => {
            if let Some(metadata) = object.object_mut("metadata") {
                let (name, value) = match chance.below(4) {
                    0 => ("name", json!("b")),
                    1 => ("uid", json!("11111111-2222-3333-4444-555555555555")),
                    2 => ("namespace", json!("other")),
                    _ => ("managedFields", json!([])),
                };
                metadata.insert(name, value);
            }
        }
    }
}

fn metadata_members(chance: &mut Chance) -> Map {
    let mut members = Map::new();
    if chance.strikes(20) {
        members.insert("labels", some(chance, &["l", "m"], &[json!("1"), json!("2")]));
    }
    if chance.strikes(10) {
        members.insert("annotations", some(chance, &["e.com/a", "b"], &[json!("1"), json!("")]));
    }
    if chance.strikes(10) {
        let lists = [json!(["e.com/a"]), json!(["e.com/b", "e.com/a"]), json!([])];
        members.insert("finalizers", chance.pick(&lists).clone());
    }
    members
}

/// An object with some of these members.
fn some(chance: &mut Chance, names: &[&str], values: &[Value]) -> Value {
    let mut object = Map::new();
    for name in names {
        if chance.strikes(50) {
            object.insert(*name, chance.pick(values).clone());
        }
    }
    Value::Object(object)
}

fn config_map(chance: &mut Chance) -> Value {
    let mut object = Map::new();
    if chance.strikes(85) {
        object.insert("data", some(chance, &["k", "l", "m", "n"], &[json!("1"), json!("2"), json!("")]));
    }
    if chance.strikes(15) {
        object.insert("binaryData", some(chance, &["x", "y"], &[json!("MQ=="), json!("")]));
    }
    Value::Object(object)
}

fn secret(chance: &mut Chance) -> Value {
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

fn service_account(chance: &mut Chance) -> Value {
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

fn role(chance: &mut Chance) -> Value {
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

fn lease(chance: &mut Chance) -> Value {
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

fn service(chance: &mut Chance) -> Value {
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

fn deployment(chance: &mut Chance) -> Value {
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
fn thing(chance: &mut Chance) -> Value {
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

fn definition() -> Value {
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
