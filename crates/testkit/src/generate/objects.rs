//! Bodies: objects, their metadata, patches, and what is wrong with some of them.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::kinds::{Kind, merge};
use super::{Maker, NAMES, networks};
use crate::chance::Chance;

/// How many of 100 bodies have something wrong put in at random.
const DAMAGED: usize = 8;

impl Maker {
    /// An object of `kind` called `name`.
    pub(super) fn object(&mut self, kind: &Kind, name: &str) -> Value {
        let mut object = self.sound_object(kind, name);
        if self.chance.strikes(3) {
            let odd = [
                ("kind", json!("Other")),
                ("apiVersion", json!("v9")),
                ("kind", Value::Null),
                ("apiVersion", json!("")),
                ("metadata", Value::Null),
            ];
            let (key, value) = self.chance.pick(&odd).clone();
            merge(&mut object, Value::Object(Map::from_iter([(key.to_owned(), value)])));
        }
        if self.chance.strikes(DAMAGED) {
            damage(&mut self.chance, &mut object);
        }
        object
    }

    /// An object of `kind` called `name`, in which only values of members are wrong.
    pub(super) fn sound_object(&mut self, kind: &Kind, name: &str) -> Value {
        let mut object = (kind.members)(&mut self.chance);
        let metadata = self.metadata(kind, name);
        merge(&mut object, json!({"apiVersion": (kind.api_version()), "kind": (kind.kind), "metadata": metadata}));
        object
    }

    fn metadata(&mut self, kind: &Kind, name: &str) -> Value {
        let mut meta = json!({"name": name});
        let mut set =
            |key: &str, value: Value| merge(&mut meta, Value::Object(Map::from_iter([(key.to_owned(), value)])));
        let labels = labels(&mut self.chance, kind);
        if !labels.as_object().is_some_and(Map::is_empty) || self.chance.strikes(5) {
            set("labels", labels);
        }
        if self.chance.strikes(15) {
            set("annotations", annotations(&mut self.chance));
        }
        if let Some(own) = networks::annotations(kind.kind, &mut self.chance) {
            set("annotations", own);
        }
        if self.chance.strikes(8) {
            let finalizers = [
                json!(["example.com/f"]),
                json!(["example.com/f", "example.com/g"]),
                json!([]),
                json!(["bad"]),
                json!(["example.com/f", "example.com/f"]),
                json!(["bad name/"]),
            ];
            set("finalizers", self.chance.pick(&finalizers).clone());
        }
        if self.chance.strikes(6) {
            set("namespace", self.chance.pick(&[json!("${ns}"), json!("other"), json!("")]).clone());
        }
        if self.chance.strikes(4) {
            let owners = [
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]),
                json!([{"apiVersion": "", "kind": "", "name": "", "uid": ""}]),
                json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "x"}]),
                json!([]),
            ];
            set("ownerReferences", self.chance.pick(&owners).clone());
        }
        if self.chance.strikes(4) {
            let odd = [
                ("generation", json!(7)),
                ("creationTimestamp", json!("2020-01-01T00:00:00Z")),
                ("creationTimestamp", Value::Null),
                ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
                ("deletionGracePeriodSeconds", json!(5)),
                ("selfLink", json!("/x")),
                ("generateName", json!("x-")),
                ("managedFields", json!([])),
            ];
            let (key, value) = self.chance.pick(&odd).clone();
            set(key, value);
        }
        meta
    }

    /// A name, mostly a good one.
    pub(super) fn name(&mut self, kind: &Kind) -> String {
        if self.chance.strikes(2) {
            let long = "l".repeat(254);
            let odd = *self.chance.pick(&["A_b", "x..y", "-a", "a.b", "a:b", "a%b", &long]);
            return if kind.namespaced { odd.to_owned() } else { format!("${{r}}{odd}") };
        }
        let name = *self.chance.pick(NAMES);
        if kind.namespaced { name.to_owned() } else { format!("${{r}}-{name}") }
    }

    /// A patch's content type and body.
    pub(super) fn patch(&mut self, kind: &Kind, name: &str) -> (&'static str, Value) {
        const MERGE: &str = "application/merge-patch+json";
        const JSON: &str = "application/json-patch+json";
        const STRATEGIC: &str = "application/strategic-merge-patch+json";
        match self.chance.below(10) {
            0..4 => (MERGE, self.merge_patch(kind, name)),
            4..7 => (JSON, self.json_patch(kind)),
            7..9 => (STRATEGIC, self.merge_patch(kind, name)),
            _ => {
                let types = ["application/json", "text/plain", "application/merge-patch+json; charset=utf-8", ""];
                (*self.chance.pick(&types), self.merge_patch(kind, name))
            }
        }
    }

    fn merge_patch(&mut self, kind: &Kind, name: &str) -> Value {
        let mut patch = match self.chance.below(4) {
            0 => json!({}),
            _ => (kind.change)(&mut self.chance),
        };
        if self.chance.strikes(50) {
            let version = self.earlier("rv");
            let uid = self.earlier("uid");
            let metadata = [
                json!({"labels": (labels(&mut self.chance, kind))}),
                json!({"labels": {"tier": (Value::Null)}}),
                json!({"annotations": (annotations(&mut self.chance))}),
                json!({"annotations": (Value::Null)}),
                json!({"finalizers": []}),
                json!({"finalizers": ["example.com/f"]}),
                json!({"finalizers": (Value::Null)}),
                json!({"resourceVersion": version}),
                json!({"uid": uid}),
                json!({"name": "other"}),
                json!({"name": name, "namespace": "other"}),
                json!({"generation": 9}),
                json!({"creationTimestamp": (Value::Null)}),
                json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}),
            ];
            let metadata = self.chance.pick(&metadata).clone();
            merge(&mut patch, json!({"metadata": metadata}));
        }
        match self.chance.below(40) {
            0 => Value::Null,
            1 => json!([]),
            2 => json!({"kind": "Other"}),
            3 => json!({"apiVersion": "v9"}),
            4 => json!({"unknown": 1}),
            5 => {
                damage(&mut self.chance, &mut patch);
                patch
            }
            _ => patch,
        }
    }

    fn json_patch(&mut self, kind: &Kind) -> Value {
        let mut operations = Vec::new();
        for _ in 0..=self.chance.below(3) {
            operations.push(self.operation(kind));
        }
        match self.chance.below(40) {
            0 => json!({}),
            1 => json!([]),
            2 => json!([1]),
            _ => Value::Array(operations),
        }
    }

    fn operation(&mut self, kind: &Kind) -> Value {
        let mut paths = vec![
            "/metadata/labels".to_owned(),
            "/metadata/labels/app".to_owned(),
            "/metadata/annotations".to_owned(),
            "/metadata/annotations/note".to_owned(),
            "/metadata/finalizers".to_owned(),
            "/metadata/finalizers/0".to_owned(),
            "/metadata/finalizers/-".to_owned(),
            "/metadata/name".to_owned(),
            "/metadata".to_owned(),
            "/unknown".to_owned(),
            "/data/k~1l".to_owned(),
            "".to_owned(),
            "no-slash".to_owned(),
        ];
        let example = (kind.members)(&mut self.chance);
        collect_paths(&example, "", &mut paths);
        let path = self.chance.pick(&paths).clone();
        let from = self.chance.pick(&paths).clone();
        let values = [json!("x"), json!({"app": "web"}), json!(["example.com/f"]), json!(1), Value::Null, example];
        let value = self.chance.pick(&values).clone();
        match self.chance.below(20) {
            0..7 => json!({"op": "add", "path": path, "value": value}),
            7..11 => json!({"op": "replace", "path": path, "value": value}),
            11..15 => json!({"op": "remove", "path": path}),
            15 => json!({"op": "copy", "from": from, "path": path}),
            16 => json!({"op": "move", "from": from, "path": path}),
            17..19 => json!({"op": "test", "path": path, "value": value}),
            _ => {
                let odd = [json!({"op": "odd", "path": path}), json!({"op": "add"}), json!({"path": "/x", "value": 1})];
                self.chance.pick(&odd).clone()
            }
        }
    }
}

/// Labels, of which selectors speak.
pub(super) fn labels(chance: &mut Chance, kind: &Kind) -> Value {
    let mut labels = Map::new();
    if !kind.namespaced {
        labels.insert("run", "${r}");
    }
    for (key, values) in [("app", ["web", "db", ""]), ("tier", ["1", "2", "3"])] {
        if chance.strikes(35) {
            labels.insert(key, *chance.pick(&values));
        }
    }
    if chance.strikes(4) {
        let odd = [("bad key", "x"), ("app", "bad value!"), ("", ""), ("a/b/c", "x"), ("example.com/x", "1")];
        let (key, value) = *chance.pick(&odd);
        labels.insert(key, value);
    }
    if chance.strikes(2) {
        labels.insert("app", 1);
    }
    Value::Object(labels)
}

fn annotations(chance: &mut Chance) -> Value {
    let annotations = [
        json!({"note": "one"}),
        json!({"note": "two", "example.com/x": ""}),
        json!({"bad key": "x"}),
        json!({}),
        json!({"note": 1}),
        Value::Null,
    ];
    chance.pick(&annotations).clone()
}

/// JSON pointers to all that is in `value`.
fn collect_paths(value: &Value, at: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, member) in map.iter() {
                let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                paths.push(path.clone());
                collect_paths(member, &path, paths);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{at}/{index}");
                paths.push(path.clone());
                collect_paths(item, &path, paths);
            }
        }
        _ => {}
    }
}

/// Puts something wrong somewhere into a body.
pub(super) fn damage(chance: &mut Chance, value: &mut Value) {
    let junk = [json!("x"), json!(1), json!(-1), json!(true), json!([]), json!({}), Value::Null, json!([{"x": 1}])];
    match value {
        Value::Object(map) if !map.is_empty() && chance.strikes(75) => {
            let keys: Vec<String> =
                map.keys().filter(|key| !matches!(*key, "name" | "kind" | "apiVersion")).map(str::to_owned).collect();
            if let Some(member) =
                (!keys.is_empty()).then(|| chance.pick(&keys).clone()).and_then(|key| map.get_mut(&key))
            {
                damage(chance, member);
            }
        }
        Value::Object(map) if chance.strikes(60) => {
            map.insert(*chance.pick(&["unknown", "Data", "spec", "x-y"]), chance.pick(&junk).clone());
        }
        Value::Array(items) if !items.is_empty() && chance.strikes(60) => {
            let index = chance.below(items.len());
            damage(chance, &mut items[index]);
        }
        other => *other = chance.pick(&junk).clone(),
    }
}
