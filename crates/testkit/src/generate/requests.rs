//! Requests about objects: every verb, its options, and what is wrong with some of them.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::Maker;
use super::kinds::{Kind, mostly};
use crate::sequence::{Body, Step, StepKind};

/// What is asked.
#[derive(Clone, Copy)]
enum Ask {
    Create,
    Get,
    List,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteCollection,
    Subresource,
    Watch,
    Story,
    Odd,
}

const WEIGHTS: &[(usize, Ask)] = &[
    (30, Ask::Create),
    (8, Ask::Get),
    (14, Ask::List),
    (12, Ask::Update),
    (20, Ask::Patch),
    (8, Ask::Apply),
    (9, Ask::Delete),
    (3, Ask::DeleteCollection),
    (6, Ask::Subresource),
    (5, Ask::Watch),
    (5, Ask::Story),
    (3, Ask::Odd),
];

pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub(super) const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

impl Maker {
    /// Appends one request about `kind`.
    pub(super) fn request(&mut self, kind: &Kind) {
        let name = self.name(kind);
        let item = format!("{}/{name}", kind.collection());
        match self.chance.weighted(WEIGHTS) {
            Ask::Create => self.create(kind, &name),
            Ask::Get => self.get(item),
            Ask::List => self.list(kind, StepKind::Request),
            Ask::Watch => self.list(kind, StepKind::Watch),
            Ask::Update => self.update(kind, &name, item),
            Ask::Patch => {
                let (content_type, body) = self.patch(kind, &name);
                self.push_patch(item, content_type, body);
            }
            Ask::Apply => self.apply_object(kind, &name, item),
            Ask::Delete => self.delete(item),
            Ask::DeleteCollection => self.delete_collection(kind),
            Ask::Subresource => self.subresource(kind, &name, &item),
            Ask::Story => self.story(kind),
            Ask::Odd => self.odd(kind, item),
        }
    }

    fn create(&mut self, kind: &Kind, name: &str) {
        let mut object = self.object(kind, name);
        if self.chance.strikes(5)
            && let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            // A prefix of its own, so that the order of names is not that of their random ends.
            let prefix = if kind.namespaced { "gen" } else { "${r}-gen" };
            meta.remove("name");
            meta.insert("generateName", format!("{prefix}{}-", self.steps.len() + 1));
        }
        if self.chance.strikes(2)
            && let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            let version = self.earlier("rv");
            meta.insert("resourceVersion", version);
        }
        let query = self.write_options();
        let body = self.maybe_raw(object);
        let headers = self.accept(3, &[TABLE, PARTIAL]);
        self.push(Step { method: "POST".to_owned(), path: kind.collection(), query, headers, body, ..Step::default() });
    }

    /// A body as JSON; seldom as text that is no good.
    fn maybe_raw(&mut self, object: Value) -> Body {
        if !self.chance.strikes(3) {
            return Body::Json(object);
        }
        let text = object.to_string();
        let raw = [
            String::new(),
            "null".to_owned(),
            "[]".to_owned(),
            "{".to_owned(),
            "\"x\"".to_owned(),
            text.replacen('{', r#"{"metadata":{},"#, 1),
            text.replacen('{', r#"{"unknown":1,"unknown":2,"#, 1),
        ];
        Body::Raw(self.chance.pick(&raw).clone())
    }

    pub(super) fn write_options(&mut self) -> Vec<(String, String)> {
        let mut query = Vec::new();
        let mut add = |name: &str, value: &str| query.push((name.to_owned(), value.to_owned()));
        if self.chance.strikes(8) {
            add("dryRun", &self.chance.text(&["All", "All", "All", "Some", ""]));
        }
        if self.chance.strikes(10) {
            add("fieldValidation", &self.chance.text(&["Strict", "Strict", "Warn", "Ignore", "Odd"]));
        }
        if self.chance.strikes(8) {
            add("fieldManager", &self.chance.text(&["one", "two", "bad\u{1}", &"m".repeat(129)]));
        }
        query
    }

    pub(super) fn accept(&mut self, percent: usize, forms: &[&str]) -> Vec<(String, String)> {
        if !self.chance.strikes(percent) {
            return Vec::new();
        }
        vec![("Accept".to_owned(), self.chance.text(forms))]
    }

    fn get(&mut self, path: String) {
        let mut query = Vec::new();
        if self.chance.strikes(15) {
            let version = self.earlier("rv");
            query.push(("resourceVersion".to_owned(), version));
        }
        let headers = self.accept(20, &[TABLE, PARTIAL, "application/yaml", "text/plain", "application/*"]);
        self.push(Step { method: "GET".to_owned(), path, query, headers, ..Step::default() });
    }

    pub(super) fn list(&mut self, kind: &Kind, step: StepKind) {
        let mut query = self.selectors(kind);
        let mut add = |name: &str, value: String| query.push((name.to_owned(), value));
        if step == StepKind::Watch {
            add("watch", self.chance.text(&["true", "1"]));
            match self.chance.below(4) {
                0 => {}
                1 => {
                    add("sendInitialEvents", "true".to_owned());
                    add("resourceVersionMatch", "NotOlderThan".to_owned());
                    if kind.plural != "events" {
                        // The end of those is told by etcd, some time later.
                        add("allowWatchBookmarks", "true".to_owned());
                    }
                }
                _ => {
                    let version = self.version_to_read();
                    add("resourceVersion", version);
                }
            }
            // A refused watch must not wait, one that is taken has to live as long as the sequence.
            add("timeoutSeconds", "30".to_owned());
        } else {
            if self.chance.strikes(35) {
                add("limit", self.chance.text(&["1", "1", "2", "3", "0", "-1", "x"]));
            }
            if self.chance.strikes(15) {
                let token = self.earlier("continue");
                add("continue", token);
            }
            if self.chance.strikes(10) {
                let version = self.version_to_read();
                add("resourceVersion", version);
                add("resourceVersionMatch", self.chance.text(&["Exact", "Exact", "Exact", "Odd", ""]));
            }
        }
        let headers = self.accept(20, &[TABLE, PARTIAL_LIST, PARTIAL, "application/yaml"]);
        self.push(Step {
            method: "GET".to_owned(),
            path: kind.collection(),
            query,
            headers,
            kind: step,
            ..Step::default()
        });
    }

    /// A version that an earlier object or list had.
    pub(super) fn version_to_read(&mut self) -> String {
        let of = if self.chance.strikes(30) { "list" } else { "rv" };
        self.earlier(of)
    }

    pub(super) fn selectors(&mut self, kind: &Kind) -> Vec<(String, String)> {
        const LABELS: &[&str] = &[
            "app=web",
            "app!=web",
            "app in (web,db)",
            "app notin (web),tier",
            "!app",
            "tier=1,app=db",
            "tier>1",
            "tier<3",
            "app==web",
            "",
            "app in",
            "a b",
            "bad key!=x",
            "app=bad value",
        ];
        const FIELDS: &[&str] = &[
            "metadata.name=a",
            "metadata.name!=a",
            "metadata.name==b,metadata.namespace=${ns}",
            "metadata.namespace=other",
            "spec.unknown=1",
            "metadata.name",
            "=x",
        ];
        let mut query = Vec::new();
        if !kind.namespaced {
            // Others write there too.
            query.push(("labelSelector".to_owned(), "run=${r}".to_owned()));
        } else if self.chance.strikes(30) {
            query.push(("labelSelector".to_owned(), self.chance.text(LABELS)));
        }
        if self.chance.strikes(20) {
            let fields: Vec<&str> = FIELDS.iter().chain(kind.selectable).copied().collect();
            query.push(("fieldSelector".to_owned(), self.chance.text(&fields)));
        }
        query
    }

    fn update(&mut self, kind: &Kind, name: &str, path: String) {
        let mut object = self.object(kind, name);
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            if self.chance.strikes(45) {
                let version = self.earlier("rv");
                meta.insert("resourceVersion", version);
            }
            if self.chance.strikes(8) {
                let uid = self.earlier("uid");
                meta.insert("uid", uid);
            }
            if self.chance.strikes(2) {
                meta.insert("name", "other");
            }
            if self.chance.strikes(2) {
                meta.remove("name");
            }
        }
        let query = self.write_options();
        let body = self.maybe_raw(object);
        self.push(Step { method: "PUT".to_owned(), path, query, body, ..Step::default() });
    }

    pub(super) fn push_patch(&mut self, path: String, content_type: &str, body: Value) {
        let query = self.write_options();
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        let body = Body::Json(body);
        self.push(Step { method: "PATCH".to_owned(), path, query, headers, body, ..Step::default() });
    }

    /// An apply, without what is put in at random: kube-apiserver tells of several type errors in any order.
    fn apply_object(&mut self, kind: &Kind, name: &str, path: String) {
        let object = self.sound_object(kind, name);
        let mut query = self.write_options();
        if !query.iter().any(|(name, _)| name == "fieldManager") {
            query.push(("fieldManager".to_owned(), self.chance.text(&["one", "two", "three"])));
        }
        if self.chance.strikes(50) {
            query.push(("force".to_owned(), "true".to_owned()));
        }
        let headers = vec![("Content-Type".to_owned(), "application/apply-patch+yaml".to_owned())];
        let body = Body::Json(object);
        self.push(Step { method: "PATCH".to_owned(), path, query, headers, body, ..Step::default() });
    }

    /// A `Scale` for those kinds that have one.
    fn scale_body(&mut self, name: &str) -> Value {
        let replicas =
            [json!(0), json!(1), json!(2), json!(2), json!(-1), Value::Null, json!("x"), json!(3_000_000_000_i64)];
        let replicas = mostly(&mut self.chance, 80, 4, &replicas);
        let mut meta = json!({"name": name});
        if let Some(meta) = meta.as_object_mut().filter(|_| self.chance.strikes(30)) {
            let version = self.earlier("rv");
            meta.insert("resourceVersion", version);
        }
        let scale =
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": {"replicas": replicas}});
        let odd = [
            json!({"metadata": {"name": name}, "spec": {}}),
            json!({"apiVersion": "autoscaling/v2", "kind": "Scale", "metadata": {"name": name}}),
            json!({"metadata": {"name": "other"}, "spec": {"replicas": 1}}),
            json!({}),
        ];
        if self.chance.strikes(92) { scale } else { self.chance.pick(&odd).clone() }
    }

    fn scale_of(&mut self, name: &str, path: String) {
        let body = self.scale_body(name);
        match self.chance.below(4) {
            0 => self.get(path),
            1 => {
                let query = self.write_options();
                self.push(Step { method: "PUT".to_owned(), path, query, body: Body::Json(body), ..Step::default() });
            }
            2 => {
                let spec = body.get("spec").cloned().unwrap_or_default();
                self.push_patch(path, "application/merge-patch+json", json!({"spec": spec}));
            }
            _ => {
                let query = vec![
                    ("fieldManager".to_owned(), self.chance.text(&["one", "two"])),
                    ("force".to_owned(), self.chance.text(&["true", "false"])),
                ];
                let headers = vec![("Content-Type".to_owned(), "application/apply-patch+yaml".to_owned())];
                let body = Body::Json(body);
                self.push(Step { method: "PATCH".to_owned(), path, query, headers, body, ..Step::default() });
            }
        }
    }

    pub(super) fn delete(&mut self, path: String) {
        let mut query = Vec::new();
        let mut add = |name: &str, value: &str| query.push((name.to_owned(), value.to_owned()));
        if self.chance.strikes(8) {
            add("dryRun", &self.chance.text(&["All", "Some"]));
        }
        if self.chance.strikes(10) {
            add("propagationPolicy", &self.chance.text(&["Background", "Background", "Odd"]));
        }
        if self.chance.strikes(6) {
            add("gracePeriodSeconds", &self.chance.text(&["0", "5", "-1", "x"]));
        }
        let body = self.delete_options();
        self.push(Step { method: "DELETE".to_owned(), path, query, body, ..Step::default() });
    }

    fn delete_options(&mut self) -> Body {
        if !self.chance.strikes(25) {
            return Body::None;
        }
        let (version, uid) = (self.earlier("rv"), self.earlier("uid"));
        let options = [
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": version}}),
            json!({"preconditions": {"uid": uid}}),
            json!({"preconditions": {"uid": "x"}}),
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}),
            json!({"dryRun": ["Odd"]}),
            json!({"gracePeriodSeconds": 0}),
            json!({"propagationPolicy": "Odd"}),
            json!({"propagationPolicy": "Background", "orphanDependents": true}),
            json!({"apiVersion": "v1", "kind": "Other"}),
            json!({"unknown": 1}),
            json!([]),
        ];
        Body::Json(self.chance.pick(&options).clone())
    }

    fn delete_collection(&mut self, kind: &Kind) {
        // Of the whole cluster's objects others' would be deleted too.
        if !kind.namespaced && kind.group != super::definition::GROUP {
            return;
        }
        let mut query = self.selectors(kind);
        if matches!(kind.plural, "configmaps" | "serviceaccounts") {
            // What every namespace has comes back when it is deleted, sooner or later. It has no labels.
            query.retain(|(name, _)| name != "labelSelector");
            query
                .push(("labelSelector".to_owned(), self.chance.text(&["app", "app=web", "app in (web,db)", "tier>1"])));
        }
        if self.chance.strikes(15) {
            query.push(("dryRun".to_owned(), "All".to_owned()));
        }
        if self.chance.strikes(10) {
            query.push(("limit".to_owned(), "1".to_owned()));
        }
        if self.chance.strikes(10) {
            query.push(("propagationPolicy".to_owned(), self.chance.text(&["Background", "Odd"])));
        }
        let path = kind.collection();
        let body = self.delete_options();
        self.push(Step { method: "DELETE".to_owned(), path, query, body, ..Step::default() });
    }

    fn subresource(&mut self, kind: &Kind, name: &str, item: &str) {
        let mut names: Vec<&str> = kind.subresources.to_vec();
        if names.is_empty() || self.chance.strikes(20) {
            names.extend(["status", "scale", "odd"]);
        }
        if kind.plural == "pods" && self.chance.strikes(60) {
            return self.part_of_pod(name, item);
        }
        let subresource = self.chance.text(&names);
        let path = format!("{item}/{subresource}");
        if subresource == "scale" && kind.subresources.contains(&"scale") && self.chance.strikes(90) {
            return self.scale_of(name, path);
        }
        match self.chance.below(6) {
            0 => self.get(path),
            1..3 => self.update(kind, name, path),
            3 => self.delete(path),
            _ => {
                let (content_type, body) = self.patch(kind, name);
                self.push_patch(path, content_type, body);
            }
        }
    }

    /// Requests that make no sense.
    fn odd(&mut self, kind: &Kind, item: String) {
        let collection = kind.collection();
        let body = Body::Json(self.object(kind, "a"));
        let (method, path) = match self.chance.below(7) {
            0 => ("POST", item),
            1 => ("PUT", collection),
            2 => ("PATCH", collection),
            3 => ("OPTIONS", item),
            4 => ("GET", format!("{collection}/a/b/c")),
            5 => ("GET", collection.replace(kind.plural, "nothings")),
            _ => ("GET", collection.replace(kind.version, "v9")),
        };
        self.push(Step { method: method.to_owned(), path, body, ..Step::default() });
    }
}
