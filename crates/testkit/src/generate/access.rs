//! Who may do what, and who is asking: impersonation, reviews, tokens.
//!
//! kube-apiserver learns of roles, bindings, accounts and secrets some time after they are written, so rights
//! are granted first, waited for, and not taken back within a sequence.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::Maker;
use super::kinds::{merge, some};
use crate::chance::Chance;
use crate::sequence::{Body, Step, StepKind};

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
pub(super) const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
pub(super) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub(super) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// Whom rights are granted to.
const GRANTED: &[&str] = &["jane", "system:serviceaccount:${ns}:default"];

impl Maker {
    /// Appends requests of others than the administrator, and questions about them.
    pub(super) fn ask_for_access(&mut self, length: usize) {
        let granted = self.chance.strikes(60);
        if granted {
            self.grant();
        }
        let with_token = self.chance.strikes(40);
        let token = with_token.then(|| self.account_token());
        let first = self.steps.len();
        while self.steps.len() < first + length {
            match self.chance.below(10) {
                0..4 => self.impersonate(token),
                4..8 => self.review(token),
                _ => self.read_as_account(token),
            }
        }
    }

    /// Appends requests for tokens and what becomes of them.
    pub(super) fn ask_for_tokens(&mut self, length: usize) {
        let first = self.steps.len();
        self.post("/api/v1/namespaces/${ns}/secrets", json!({"metadata": {"name": "s"}}));
        let mut tokens = Vec::new();
        while self.steps.len() < first + length {
            match self.chance.below(10) {
                0..6 => {
                    self.request_token();
                    tokens.push(self.steps.len());
                }
                6 if tokens.len() < 4 => tokens.push(self.account_token()),
                _ => {
                    let token = (!tokens.is_empty()).then(|| *self.chance.pick(&tokens));
                    self.review_token(token);
                }
            }
        }
    }

    pub(super) fn post(&mut self, path: &str, body: Value) {
        self.push(Step { method: "POST".to_owned(), path: path.to_owned(), body: Body::Json(body), ..Step::default() });
    }

    /// Gives some rights within the namespace, and waits until they are there.
    fn grant(&mut self) {
        let user = self.chance.text(GRANTED);
        let rules = json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]},
            {"apiGroups": ["", "authentication.k8s.io"], "resources": ["users", "groups", "serviceaccounts", "uids"],
                "verbs": ["impersonate"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["a"]}
        ]);
        self.post(
            &format!("{RBAC}/namespaces/${{ns}}/roles"),
            json!({"metadata": {"name": "granted"}, "rules": rules}),
        );
        let reference = json!({"apiGroup": RBAC_GROUP, "kind": "Role", "name": "granted"});
        let subject = match user.as_str() {
            "jane" => json!({"kind": "User", "name": "jane", "apiGroup": RBAC_GROUP}),
            _ => json!({"kind": "ServiceAccount", "name": "default", "namespace": "${ns}"}),
        };
        self.post(
            &format!("{RBAC}/namespaces/${{ns}}/rolebindings"),
            json!({"metadata": {"name": "granted"}, "roleRef": reference, "subjects": [subject]}),
        );
        let headers = vec![("Impersonate-User".to_owned(), user)];
        let path = "/api/v1/namespaces/${ns}/configmaps".to_owned();
        let kind = StepKind::Until(200);
        self.push(Step { method: "GET".to_owned(), path, headers, kind, ..Step::default() });
    }

    /// Asks for a good token of the default account; gives the step.
    fn account_token(&mut self) -> usize {
        self.post("/api/v1/namespaces/${ns}/serviceaccounts/default/token", json!({"spec": {}}));
        self.steps.len()
    }

    fn bearer(&mut self, token: Option<usize>) -> Vec<(String, String)> {
        match token {
            Some(step) if self.chance.strikes(40) => {
                vec![("Authorization".to_owned(), format!("Bearer ${{token{step}}}"))]
            }
            _ => Vec::new(),
        }
    }

    fn read_as_account(&mut self, token: Option<usize>) {
        let mut headers = self.bearer(token);
        if headers.is_empty() {
            let user = [
                "system:serviceaccount:${ns}:default",
                "system:serviceaccount:${ns}:other",
                "jane",
                "system:anonymous",
                "system:kube-scheduler",
            ];
            headers.push(("Impersonate-User".to_owned(), self.chance.text(&user)));
        }
        let paths = [
            "/api/v1/namespaces/${ns}/configmaps",
            "/api/v1/namespaces/${ns}/configmaps/a",
            "/api/v1/namespaces/${ns}/secrets/a",
            "/api/v1/namespaces/${ns}/secrets",
            "/apis/apps/v1/namespaces/${ns}/deployments/a/scale",
            "/apis/odd.example.com/v1/namespaces/${ns}/things",
            "/version",
            "/healthz",
            "/metrics",
            "/odd",
        ];
        let path = self.chance.text(&paths);
        let method = self.chance.text(&["GET", "GET", "GET", "GET", "DELETE"]);
        // What a DELETE of a collection takes with it others may need.
        let path = if method == "DELETE" { "/api/v1/namespaces/${ns}/configmaps/a".to_owned() } else { path };
        self.push(Step { method, path, headers, ..Step::default() });
    }

    /// Somebody asks who he is, or for something, as somebody else.
    fn impersonate(&mut self, token: Option<usize>) {
        let mut headers = self.bearer(token);
        headers.extend(impersonated(&mut self.chance));
        if self.chance.strikes(60) {
            let path = format!("{AUTHENTICATION}/selfsubjectreviews");
            let bodies = [json!({}), json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})];
            let body = Body::Json(self.chance.pick(&bodies).clone());
            self.push(Step { method: "POST".to_owned(), path, headers, body, ..Step::default() });
        } else {
            let paths = ["/api/v1/namespaces/${ns}/configmaps", "/version", "/apis/apps/v1", "/readyz"];
            let path = self.chance.text(&paths);
            self.push(Step { method: "GET".to_owned(), path, headers, ..Step::default() });
        }
    }

    fn review(&mut self, token: Option<usize>) {
        let mut headers = self.bearer(token);
        if headers.is_empty() && self.chance.strikes(30) {
            headers = impersonated(&mut self.chance);
        }
        let (path, kind) = match self.chance.below(6) {
            0..2 => (format!("{AUTHORIZATION}/subjectaccessreviews"), "SubjectAccessReview"),
            2..4 => (format!("{AUTHORIZATION}/selfsubjectaccessreviews"), "SelfSubjectAccessReview"),
            4 => (format!("{AUTHORIZATION}/namespaces/${{ns}}/localsubjectaccessreviews"), "LocalSubjectAccessReview"),
            _ => (format!("{AUTHORIZATION}/selfsubjectrulesreviews"), "SelfSubjectRulesReview"),
        };
        let mut body = if kind == "SelfSubjectRulesReview" {
            let specs =
                [json!({"namespace": "${ns}"}), json!({"namespace": "odd"}), json!({"namespace": ""}), json!({})];
            json!({"spec": (self.chance.pick(&specs).clone())})
        } else {
            json!({"spec": (access_spec(&mut self.chance, kind))})
        };
        let named = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind});
        if self.chance.strikes(70) {
            merge(&mut body, named);
        }
        if self.chance.strikes(5) {
            let odd = [
                json!({"metadata": {"name": "x"}}),
                json!({"metadata": {"namespace": "${ns}"}}),
                json!({"metadata": {"namespace": "other"}}),
                json!({"status": {"allowed": true}}),
                json!({"kind": "Odd"}),
                json!({"spec": "x"}),
                json!({"unknown": 1}),
            ];
            merge(&mut body, self.chance.pick(&odd).clone());
        }
        let mut query = Vec::new();
        if self.chance.strikes(5) {
            let odd = [("dryRun", "All"), ("dryRun", "Odd"), ("fieldValidation", "Strict"), ("pretty", "true")];
            let (name, value) = *self.chance.pick(&odd);
            query.push((name.to_owned(), value.to_owned()));
        }
        let method = if self.chance.strikes(96) { "POST" } else { "GET" };
        let body = Body::Json(body);
        self.push(Step { method: method.to_owned(), path, query, headers, body, ..Step::default() });
    }

    fn request_token(&mut self) {
        let uid = self.earlier("uid");
        let mut spec = some(
            &mut self.chance,
            35,
            &[
                ("audiences", &[json!(["a"]), json!(["a", "b"]), json!([]), json!([""]), json!("x")]),
                (
                    "expirationSeconds",
                    &[json!(600), json!(7200), json!(86400), json!(599), json!(0), json!(-1), json!(4294967297_i64)],
                ),
            ],
        );
        let bound = [
            json!({"kind": "Secret", "apiVersion": "v1", "name": "s"}),
            json!({"kind": "Secret", "apiVersion": "v1", "name": "s"}),
            json!({"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": uid}),
            json!({"kind": "Secret", "apiVersion": "v1", "name": "none"}),
            json!({"kind": "Secret", "apiVersion": "v1"}),
            json!({"kind": "Secret", "name": "s"}),
            json!({"kind": "Pod", "apiVersion": "v1", "name": "none"}),
            json!({"kind": "Node", "apiVersion": "v1", "name": "none"}),
            json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}),
            json!({"kind": "Deployment", "apiVersion": "apps/v1", "name": "a"}),
            json!({}),
        ];
        if self.chance.strikes(45) {
            merge(&mut spec, json!({"boundObjectRef": (self.chance.pick(&bound).clone())}));
        }
        let mut body = json!({"spec": spec});
        if self.chance.strikes(10) {
            let odd = [
                json!({"metadata": {"name": "default", "namespace": "${ns}"}}),
                json!({"metadata": {"name": "other"}}),
                json!({"metadata": {"namespace": "other"}}),
                json!({"metadata": {"uid": "x"}}),
                json!({"kind": "Odd"}),
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}),
                json!({"apiVersion": "v1", "kind": "TokenRequest"}),
                json!({"unknown": 1}),
                json!({"spec": "x"}),
            ];
            merge(&mut body, self.chance.pick(&odd).clone());
        }
        let account = if self.chance.strikes(92) { "default" } else { "none" };
        let path = format!("/api/v1/namespaces/${{ns}}/serviceaccounts/{account}/token");
        let mut query = Vec::new();
        if self.chance.strikes(5) {
            query.push(("dryRun".to_owned(), self.chance.text(&["All", "Odd"])));
        }
        let method = if self.chance.strikes(96) { "POST" } else { "GET" };
        let body = Body::Json(body);
        self.push(Step { method: method.to_owned(), path, query, body, ..Step::default() });
    }

    fn review_token(&mut self, token: Option<usize>) {
        let token = match token {
            Some(step) if self.chance.strikes(85) => format!("${{token{step}}}"),
            _ => self.chance.text(&["x", "a.b.c", "", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln"]),
        };
        let mut spec = json!({"token": token});
        if self.chance.strikes(40) {
            let audiences =
                [json!(["a"]), json!(["b", "a"]), json!(["c"]), json!([]), json!(["https://kubernetes.default.svc"])];
            merge(&mut spec, json!({"audiences": (self.chance.pick(&audiences).clone())}));
        }
        let mut body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        if self.chance.strikes(5) {
            let odd = [
                json!({"metadata": {"name": "x"}}),
                json!({"spec": {}}),
                json!({"kind": "Odd"}),
                json!({"status": {"authenticated": true}}),
            ];
            merge(&mut body, self.chance.pick(&odd).clone());
        }
        self.post(&format!("{AUTHENTICATION}/tokenreviews"), body);
    }
}

/// Headers that ask to be taken for somebody else. Not for a node: whose rights are not confined is taken for one in a
/// way that depends on what it did last, in all sequences.
fn impersonated(chance: &mut Chance) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
    if chance.strikes(92) {
        let users = [
            "jane",
            "jane",
            "system:serviceaccount:${ns}:default",
            "system:serviceaccount:${ns}:none",
            "system:serviceaccount:bad",
            "system:anonymous",
            "system:admin",
            "system:kube-controller-manager",
            "bob@example.com",
            "",
        ];
        add("Impersonate-User", chance.text(&users));
    }
    while chance.strikes(25) {
        let groups = ["team", "system:masters", "system:authenticated", "system:unauthenticated", "system:nodes", ""];
        add("Impersonate-Group", chance.text(&groups));
    }
    if chance.strikes(15) {
        add("Impersonate-Uid", chance.text(&["11111111-2222-3333-4444-555555555555", "x", ""]));
    }
    if chance.strikes(20) {
        let names = [
            "Impersonate-Extra-scopes",
            "Impersonate-Extra-Example.com%2fthing",
            "Impersonate-Extra-authentication.kubernetes.io%2Fpod-name",
            "Impersonate-Extra-bad%zz",
            "Impersonate-Extra-",
        ];
        let name = chance.text(&names);
        add(&name, chance.text(&["view", "x", ""]));
        if chance.strikes(30) {
            add(&name, "more".to_owned());
        }
    }
    headers
}

/// What a review of access asks.
fn access_spec(chance: &mut Chance, kind: &str) -> Value {
    let mut spec = Map::new();
    if chance.strikes(88) {
        spec.insert("resourceAttributes", resource_attributes(chance));
    }
    if chance.strikes(if spec.is_empty() { 70 } else { 4 }) {
        let paths = [
            json!({"path": "/healthz", "verb": "get"}),
            json!({"path": "/metrics", "verb": "get"}),
            json!({"path": "/api/v1", "verb": "get"}),
            json!({"path": "", "verb": "*"}),
            json!({}),
        ];
        spec.insert("nonResourceAttributes", chance.pick(&paths).clone());
    }
    if kind != "SelfSubjectAccessReview" {
        if chance.strikes(88) {
            let users = [
                "jane",
                "jane",
                "system:serviceaccount:${ns}:default",
                "system:kube-scheduler",
                "system:kube-controller-manager",
                "system:anonymous",
                "",
            ];
            spec.insert("user", chance.text(&users));
        }
        if chance.strikes(40) {
            let groups = [
                json!(["system:masters"]),
                json!(["system:authenticated"]),
                json!(["system:unauthenticated", "team"]),
                json!(["system:serviceaccounts", "system:serviceaccounts:${ns}"]),
                json!(["system:nodes"]),
                json!([]),
            ];
            spec.insert("groups", chance.pick(&groups).clone());
        }
        if chance.strikes(8) {
            spec.insert("extra", json!({"scopes": ["x"], "Upper": []}));
        }
        if chance.strikes(8) {
            spec.insert("uid", "u");
        }
    }
    Value::Object(spec)
}

fn resource_attributes(chance: &mut Chance) -> Value {
    let mut attributes = Map::new();
    let choices: [(&str, usize, &[&str]); 7] = [
        ("namespace", 75, &["${ns}", "${ns}", "${ns}", "kube-system", ""]),
        ("verb", 95, &["get", "list", "create", "impersonate", "*", "delete", "bind", ""]),
        ("group", 40, &["", "apps", "rbac.authorization.k8s.io", "*", "odd.example.com"]),
        ("resource", 95, &["configmaps", "secrets", "users", "pods", "*", "roles", "namespaces", "events"]),
        ("subresource", 15, &["status", "log", "*", ""]),
        ("name", 30, &["a", "${ns}", ""]),
        ("version", 15, &["v1", "*"]),
    ];
    for (name, percent, values) in choices {
        if chance.strikes(percent) {
            attributes.insert(name, chance.text(values));
        }
    }
    if chance.strikes(8) {
        let selectors = [
            json!({"rawSelector": "a=b"}),
            json!({"rawSelector": "a in ("}),
            json!({"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}),
            json!({"requirements": [{"key": "a", "operator": "In"}]}),
            json!({"requirements": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            json!({"requirements": [{"key": "bad key", "operator": "Odd"}]}),
            json!({"requirements": [{"key": "a", "operator": "Exists"}], "rawSelector": "x"}),
            json!({}),
        ];
        attributes.insert(
            if chance.strikes(50) { "fieldSelector" } else { "labelSelector" },
            chance.pick(&selectors).clone(),
        );
    }
    Value::Object(attributes)
}
