//! Server-side apply: a few managers that apply, update and patch one object, of a kind with every sort of
//! list and map, and of built-in kinds.
//!
//! A configuration is wrong in one place at most, since kube-apiserver tells of several in any order.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::{Maker, applied};
use crate::chance::Chance;
use crate::sequence::{Body, Step, StepKind};

/// Who writes.
const MANAGERS: &[&str] = &["m1", "m2", "m3"];
/// The kind is the same for all sequences, since it takes kube-apiserver long to serve one.
pub(super) const GROUP: &str = "owned.live.example.com";
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
    members: applied::thing,
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
        members: applied::config_map,
    },
    Target {
        api_version: "v1",
        kind: "Secret",
        collection: "/api/v1/namespaces/${ns}/secrets",
        custom: false,
        members: applied::secret,
    },
    Target {
        api_version: "v1",
        kind: "ServiceAccount",
        collection: "/api/v1/namespaces/${ns}/serviceaccounts",
        custom: false,
        members: applied::service_account,
    },
    Target {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "Role",
        collection: "/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/roles",
        custom: false,
        members: applied::role,
    },
    Target {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        collection: "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases",
        custom: false,
        members: applied::lease,
    },
    Target {
        api_version: "v1",
        kind: "Service",
        collection: "/api/v1/namespaces/${ns}/services",
        custom: false,
        members: applied::service,
    },
    Target {
        api_version: "apps/v1",
        kind: "Deployment",
        collection: "/apis/apps/v1/namespaces/${ns}/deployments",
        custom: false,
        members: applied::deployment,
    },
    Target {
        api_version: "apps/v1",
        kind: "Deployment",
        collection: "/apis/apps/v1/namespaces/${ns}/deployments",
        custom: false,
        members: applied::deployment,
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
        let body = Body::Json(applied::definition());
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
        members.insert("labels", applied::some(chance, &["l", "m"], &[json!("1"), json!("2")]));
    }
    if chance.strikes(10) {
        members.insert("annotations", applied::some(chance, &["e.com/a", "b"], &[json!("1"), json!("")]));
    }
    if chance.strikes(10) {
        let lists = [json!(["e.com/a"]), json!(["e.com/b", "e.com/a"]), json!([])];
        members.insert("finalizers", chance.pick(&lists).clone());
    }
    members
}
