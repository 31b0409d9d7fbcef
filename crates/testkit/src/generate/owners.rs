//! Owners, finalizers and what a delete leaves: as far as answers show it at once.
//!
//! Both servers have a garbage collector, which does its part some time later. So what it takes an interest in
//! is deleted last and not looked at again, and who is named as an owner is there.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::Maker;
use super::kinds::{merge, some};
use crate::sequence::{Body, Step};

/// Kinds that take a part: collection, apiVersion, kind, and the rest of an object.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("/api/v1/namespaces/${ns}/configmaps", "v1", "ConfigMap", r#"{"data": {"k": "1"}}"#),
    ("/api/v1/namespaces/${ns}/secrets", "v1", "Secret", r#"{"stringData": {"k": "1"}}"#),
    (
        "/apis/apps/v1/namespaces/${ns}/deployments",
        "apps/v1",
        "Deployment",
        r#"{"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#,
    ),
    (
        "/apis/batch/v1/namespaces/${ns}/jobs",
        "batch/v1",
        "Job",
        r#"{"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}"#,
    ),
    (
        "/api/v1/namespaces/${ns}/pods",
        "v1",
        "Pod",
        r#"{"spec": {"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 7,
            "containers": [{"name": "c", "image": "i"}]}}"#,
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/roles",
        "rbac.authorization.k8s.io/v1",
        "Role",
        r#"{"rules": []}"#,
    ),
];

impl Maker {
    /// Appends owners and what they own, and how they are deleted.
    pub(super) fn inherit(&mut self) {
        // An owner that stays.
        let body = json!({"metadata": {"name": "owner"}, "data": {}});
        self.send("POST", "/api/v1/namespaces/${ns}/configmaps", Vec::new(), body);
        let owner = self.steps.len();
        for number in 0..=self.chance.below(3) {
            self.owned(owner, &format!("o{number}"));
        }
    }

    fn send(&mut self, method: &str, path: &str, query: Vec<(String, String)>, body: Value) {
        let (method, path, body) = (method.to_owned(), path.to_owned(), Body::Json(body));
        self.push(Step { method, path, query, body, ..Step::default() });
    }

    /// The life of one object.
    fn owned(&mut self, owner: usize, name: &str) {
        let (collection, api_version, kind, rest) = *self.chance.pick(KINDS);
        let mut object = allotment_machinery::json::parse(rest.as_bytes()).unwrap_or_default();
        let mut meta = json!({"name": name});
        merge(&mut meta, self.ties(owner));
        merge(&mut object, json!({"apiVersion": api_version, "kind": kind, "metadata": meta}));
        self.send("POST", collection, Vec::new(), object);
        let item = format!("{collection}/{name}");
        for _ in 0..self.chance.below(3) {
            let ties = self.ties(owner);
            let headers = vec![("Content-Type".to_owned(), "application/merge-patch+json".to_owned())];
            let body = Body::Json(json!({"metadata": ties}));
            let (method, path) = ("PATCH".to_owned(), item.clone());
            self.push(Step { method, path, headers, body, ..Step::default() });
        }
        for _ in 0..self.chance.below(2) {
            let (mut query, mut body) = self.deletion();
            // Options in a body are all that count.
            match &mut body {
                Body::Json(options) => merge(options, json!({"dryRun": ["All"]})),
                Body::None | Body::Raw(_) => query.push(("dryRun".to_owned(), "All".to_owned())),
            }
            self.push(Step { method: "DELETE".to_owned(), path: item.clone(), query, body, ..Step::default() });
        }
        let (query, body) = self.deletion();
        self.push(Step { method: "DELETE".to_owned(), path: item, query, body, ..Step::default() });
    }

    /// Owners and finalizers.
    fn ties(&mut self, owner: usize) -> Value {
        let reference = |more: Value| {
            let mut reference =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": (format!("${{uid{owner}}}"))});
            merge(&mut reference, more);
            reference
        };
        let owners = [
            json!([(reference(json!({})))]),
            json!([(reference(json!({"controller": true})))]),
            json!([(reference(json!({"controller": true, "blockOwnerDeletion": true})))]),
            json!([(reference(json!({}))), (reference(json!({})))]),
            json!([(reference(json!({"controller": true}))), (reference(json!({"controller": true})))]),
            json!([(reference(json!({"uid": ""})))]),
            json!([(reference(json!({"apiVersion": "a/b/c"})))]),
            json!([(reference(json!({"kind": ""})))]),
            json!([(reference(json!({"unknown": 1})))]),
            json!([]),
            Value::Null,
        ];
        let finalizers = [
            json!(["example.com/f"]),
            json!(["example.com/f", "orphan"]),
            json!(["example.com/f", "foregroundDeletion"]),
            json!(["example.com/f", "foregroundDeletion", "orphan"]),
            json!(["orphan", "foregroundDeletion"]),
            json!(["odd"]),
            json!([]),
        ];
        some(&mut self.chance, 50, &[("ownerReferences", &owners), ("finalizers", &finalizers)])
    }

    /// How something is to be deleted.
    fn deletion(&mut self) -> (Vec<(String, String)>, Body) {
        const POLICIES: [&str; 4] = ["Orphan", "Foreground", "Background", "Odd"];
        let mut query = Vec::new();
        let mut options = json!({});
        if self.chance.strikes(50) {
            let policy =
                if self.chance.strikes(95) { self.chance.text(&POLICIES[..3]) } else { POLICIES[3].to_owned() };
            if self.chance.strikes(50) {
                query.push(("propagationPolicy".to_owned(), policy));
            } else {
                merge(&mut options, json!({"propagationPolicy": policy}));
            }
        }
        if self.chance.strikes(25) {
            let seconds = self.chance.text(&["0", "5", "60", "-1"]);
            if self.chance.strikes(50) {
                query.push(("gracePeriodSeconds".to_owned(), seconds));
            } else {
                merge(&mut options, json!({"gracePeriodSeconds": (seconds.parse::<i64>().unwrap_or_default())}));
            }
        }
        if self.chance.strikes(10) {
            let orphan = self.chance.strikes(50);
            if self.chance.strikes(50) {
                query.push(("orphanDependents".to_owned(), orphan.to_string()));
            } else {
                merge(&mut options, json!({"orphanDependents": orphan}));
            }
        }
        let bare = options.as_object().is_some_and(|options| options.is_empty());
        (query, if bare { Body::None } else { Body::Json(options) })
    }
}
