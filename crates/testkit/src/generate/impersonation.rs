//! Rights to be taken for somebody else that are confined to some users and to what is done as them (KEP-5284).
//!
//! Who asks is an account of the sequence's own namespace: kube-apiserver remembers by name which kind of right
//! somebody used last, and answers accordingly.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::Maker;
use super::access::{AUTHENTICATION, RBAC, RBAC_GROUP};
use crate::sequence::{Body, Step, StepKind};

/// The group of the things that such rights are to.
const GROUP: &str = "authentication.k8s.io";

impl Maker {
    /// Appends requests of an account that may be others, to a degree.
    pub(super) fn ask_as_others(&mut self, length: usize) {
        let rights = self.rights();
        self.post(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "confined-${r}"}, "rules": rights}));
        let reference = json!({"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "confined-${r}"});
        let subject = json!({"kind": "ServiceAccount", "name": "default", "namespace": "${ns}"});
        self.post(
            &format!("{RBAC}/clusterrolebindings"),
            json!({"metadata": {"name": "confined-${r}"}, "roleRef": reference, "subjects": [subject]}),
        );
        let headers = vec![("Impersonate-User".to_owned(), "system:serviceaccount:${ns}:default".to_owned())];
        let (path, kind) = ("/api/v1/nodes".to_owned(), StepKind::Until(200));
        let query = vec![("limit".to_owned(), "1".to_owned()), ("labelSelector".to_owned(), "run=${r}".to_owned())];
        self.push(Step { method: "GET".to_owned(), path, query, headers, kind, ..Step::default() });
        let mut spec = json!({});
        if self.chance.strikes(35) {
            self.post(
                "/api/v1/namespaces/${ns}/pods",
                json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "automountServiceAccountToken": false,
                    "containers": [{"name": "c", "image": "i"}]}}),
            );
            spec = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}});
        }
        self.post("/api/v1/namespaces/${ns}/serviceaccounts/default/token", json!({"spec": spec}));
        let token = format!("Bearer ${{token{}}}", self.steps.len());
        let first = self.steps.len();
        while self.steps.len() < first + length {
            self.ask_as_another(&token);
        }
    }

    /// Rules of a role; always with the one that tells that the role is known.
    fn rights(&mut self) -> Value {
        let mut rules = vec![json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]})];
        let things = [
            ("users", "impersonate:user-info", "jane"),
            ("groups", "impersonate:user-info", "team"),
            ("uids", "impersonate:user-info", "u"),
            ("userextras/example.com/scopes", "impersonate:user-info", "view"),
            ("nodes", "impersonate:arbitrary-node", "n"),
            ("nodes", "impersonate:associated-node", "*"),
            ("serviceaccounts", "impersonate:serviceaccount", "default"),
        ];
        for (resource, verb, name) in things {
            if !self.chance.strikes(60) {
                continue;
            }
            let mut rule = json!({"apiGroups": [GROUP], "resources": [resource], "verbs": [verb]});
            if let Some(rule) = rule.as_object_mut().filter(|_| self.chance.strikes(50)) {
                rule.insert("resourceNames", json!([name]));
            }
            rules.push(rule);
        }
        for (group, resource, verb) in [("", "configmaps", "list"), (GROUP, "selfsubjectreviews", "create")] {
            for mode in ["user-info", "serviceaccount", "arbitrary-node", "associated-node"] {
                if self.chance.strikes(60) {
                    let verb = format!("impersonate-on:{mode}:{verb}");
                    rules.push(json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]}));
                }
            }
        }
        if self.chance.strikes(40) {
            rules.push(json!({"nonResourceURLs": ["/healthz"], "verbs": ["impersonate-on:user-info:get"]}));
        }
        if self.chance.strikes(30) {
            let resources = [json!(["users", "groups", "serviceaccounts"]), json!(["users"]), json!(["*"])];
            let groups = [json!([""]), json!(["", GROUP])];
            let resources = self.chance.pick(&resources).clone();
            let groups = self.chance.pick(&groups).clone();
            rules.push(json!({"apiGroups": groups, "resources": resources, "verbs": ["impersonate"]}));
        }
        Value::Array(rules)
    }

    fn ask_as_another(&mut self, token: &str) {
        let mut headers = vec![("Authorization".to_owned(), token.to_owned())];
        let users = [
            "jane",
            "jane",
            "bob",
            "system:node:n",
            "system:node:n",
            "system:node:m",
            "system:node:No",
            "system:serviceaccount:${ns}:default",
            "system:serviceaccount:${ns}:other",
            "system:anonymous",
        ];
        headers.push(("Impersonate-User".to_owned(), self.chance.text(&users)));
        while self.chance.strikes(25) {
            let groups = ["team", "team", "other", "system:masters", "", "system:unauthenticated"];
            headers.push(("Impersonate-Group".to_owned(), self.chance.text(&groups)));
        }
        if self.chance.strikes(15) {
            headers.push(("Impersonate-Uid".to_owned(), self.chance.text(&["u", "v"])));
        }
        // One at a time: kube-apiserver looks at several in any order.
        if self.chance.strikes(20) {
            let names = ["example.com%2Fscopes", "example.com%2fscopes", "scopes", "", "bad%zz"];
            let name = format!("Impersonate-Extra-{}", self.chance.text(&names));
            for _ in 0..=self.chance.below(5) {
                headers.push((name.clone(), self.chance.text(&["view", "view", "x", ""])));
            }
        }
        let (method, path, body) = match self.chance.below(5) {
            0..2 => ("POST", format!("{AUTHENTICATION}/selfsubjectreviews"), Body::Json(json!({}))),
            2..4 => ("GET", "/api/v1/namespaces/${ns}/configmaps".to_owned(), Body::None),
            _ => ("GET", "/healthz".to_owned(), Body::None),
        };
        self.push(Step { method: method.to_owned(), path, headers, body, ..Step::default() });
    }
}
