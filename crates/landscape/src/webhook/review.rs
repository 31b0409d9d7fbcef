//! `AdmissionReview` (admission.k8s.io/v1) in and out, around the same rules as in-process.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::server::{AdmissionOperation, AdmissionRequest, InProcessAdmission as _};
use allotment_apiserver::status::ApiError;
use allotment_machinery::json::{self, Map, Value};
use allotment_store::Tenant;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::admission::OurKinds;

const API_VERSION: &str = "admission.k8s.io/v1";

/// When the API server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before it looks at the fields; the object may be changed.
    Mutate,
    /// Once the object is final.
    Validate,
}

/// Answers reviews.
#[derive(Clone, Debug)]
pub struct Webhook {
    kinds: Arc<OurKinds>,
}

impl Webhook {
    pub(crate) fn new(kinds: Arc<OurKinds>) -> Self {
        Webhook { kinds }
    }

    /// Answers one `AdmissionReview`, as JSON.
    ///
    /// # Errors
    /// The text is no `AdmissionReview` that can be answered: 400, and why.
    pub async fn answer(&self, stage: Stage, body: &[u8]) -> Result<Vec<u8>, ApiError> {
        let unreadable = |why: String| ApiError::bad_request(format!("not an AdmissionReview: {why}"));
        let mut review = json::parse(body).map_err(|error| unreadable(error.to_string()))?;
        if review.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION) {
            return Err(unreadable(format!("apiVersion is not {API_VERSION}")));
        }
        let asked = review.as_object_mut().and_then(|review| review.remove("request"));
        let asked = asked.ok_or_else(|| unreadable("it has no request".to_owned()))?;
        let uid =
            asked.get("uid").and_then(Value::as_str).ok_or_else(|| unreadable("request.uid is missing".into()))?;
        let mut response = Map::default();
        response.insert("uid", uid);
        match self.judge(stage, &asked).await {
            Ok(Verdict { warnings, patch }) => {
                response.insert("allowed", true);
                if !patch.is_empty() {
                    response.insert("patchType", "JSONPatch");
                    response.insert("patch", STANDARD.encode(Value::Array(patch).to_vec()));
                }
                if !warnings.is_empty() {
                    response.insert("warnings", warnings.into_iter().map(Value::from).collect::<Vec<_>>());
                }
            }
            Err(error) => {
                response.insert("allowed", false);
                response.insert("status", error.to_value());
            }
        }
        let mut answer = Map::default();
        answer.insert("apiVersion", API_VERSION);
        answer.insert("kind", "AdmissionReview");
        answer.insert("response", Value::Object(response));
        Ok(Value::Object(answer).to_vec())
    }

    async fn judge(&self, stage: Stage, asked: &Value) -> Result<Verdict, ApiError> {
        let text = |path: &[&str]| asked.at(path).and_then(Value::as_str).unwrap_or_default();
        let operation = match text(&["operation"]) {
            "CREATE" => AdmissionOperation::Create,
            "UPDATE" => AdmissionOperation::Update,
            "DELETE" => AdmissionOperation::Delete,
            "CONNECT" => AdmissionOperation::Connect,
            other => return Err(ApiError::bad_request(format!("operation {other:?} is unknown"))),
        };
        let group = text(&["kind", "group"]);
        if !self.kinds.covers(group, text(&["resource", "resource"]), text(&["namespace"])) {
            return Ok(Verdict::default());
        }
        let groups = asked.at(&["userInfo", "groups"]).and_then(Value::as_array).unwrap_or_default();
        let user = UserInfo {
            name: text(&["userInfo", "username"]).to_owned(),
            uid: text(&["userInfo", "uid"]).to_owned(),
            groups: texts(groups),
            extra: extra(asked),
        };
        let part = |name: &str| asked.get(name).cloned().unwrap_or(Value::Null);
        let (sent, old) = (part("object"), part("oldObject"));
        let mut object = sent.clone();
        let mut request = AdmissionRequest {
            // Everything that is asked about is of the platform's own API.
            tenant: &Tenant::platform(),
            user: &user,
            operation,
            group,
            version: text(&["kind", "version"]),
            kind: text(&["kind", "kind"]),
            resource: text(&["resource", "resource"]),
            subresource: text(&["subResource"]),
            namespace: text(&["namespace"]),
            name: text(&["name"]),
            dry_run: asked.get("dryRun").and_then(Value::as_bool).unwrap_or(false),
            object: &mut object,
            old: &old,
        };
        match stage {
            Stage::Mutate => {
                let warnings = self.kinds.mutate(&mut request).await?;
                let mut patch = Vec::new();
                difference("", &sent, &object, &mut patch);
                Ok(Verdict { warnings, patch })
            }
            Stage::Validate => Ok(Verdict { warnings: self.kinds.validate(&request).await?, patch: Vec::new() }),
        }
    }
}

fn texts(items: &[Value]) -> Vec<String> {
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What else the server's authenticator said of the caller.
fn extra(asked: &Value) -> BTreeMap<String, Vec<String>> {
    let members = asked.at(&["userInfo", "extra"]).and_then(Value::as_object);
    let said = members.into_iter().flat_map(Map::iter);
    said.map(|(name, values)| (name.to_owned(), texts(values.as_array().unwrap_or_default()))).collect()
}

/// A write that may go on.
#[derive(Debug, Default)]
struct Verdict {
    warnings: Vec<String>,
    /// Operations of a JSON patch (RFC 6902).
    patch: Vec<Value>,
}

/// What has to be done to `before` to make `after` of it: members of objects one by one, all else as a whole.
fn difference(path: &str, before: &Value, after: &Value, patch: &mut Vec<Value>) {
    if before == after {
        return;
    }
    let (Some(had), Some(have)) = (before.as_object(), after.as_object()) else {
        patch.push(operation("replace", path, Some(after)));
        return;
    };
    for key in had.keys().filter(|key| !have.contains_key(key)) {
        patch.push(operation("remove", &member(path, key), None));
    }
    for (key, value) in have.iter() {
        match had.get(key) {
            Some(before) => difference(&member(path, key), before, value, patch),
            None => patch.push(operation("add", &member(path, key), Some(value))),
        }
    }
}

/// A step of a JSON pointer (RFC 6901).
fn member(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn operation(name: &str, path: &str, value: Option<&Value>) -> Value {
    let mut operation = Map::default();
    operation.insert("op", name);
    operation.insert("path", path);
    if let Some(value) = value {
        operation.insert("value", value.clone());
    }
    Value::Object(operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotment_machinery::json;
    use allotment_machinery::seams::Clock;
    use jiff::Timestamp;

    const PLATFORM: &str = "system:serviceaccount:allot-system:allot-controllers";

    #[derive(Debug)]
    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
    }

    async fn ask(stage: Stage, request: Value) -> Value {
        let mut review = Map::default();
        review.insert("apiVersion", API_VERSION);
        review.insert("kind", "AdmissionReview");
        review.insert("request", request);
        let webhook = Webhook::new(Arc::new(OurKinds::new(PLATFORM, Arc::new(Noon))));
        let answer = webhook.answer(stage, &Value::Object(review).to_vec()).await;
        json::parse(&answer.expect("an answer")).expect("JSON").get("response").expect("a response").clone()
    }

    fn access(user: &str, object: Value) -> Value {
        json!({"uid": "u-1", "operation": "CREATE", "namespace": "n", "name": "a",
            "kind": {"group": "cluster.openmcp.cloud", "version": "v1", "kind": "AccessRequest"},
            "resource": {"group": "cluster.openmcp.cloud", "version": "v1", "resource": "accessrequests"},
            "userInfo": {"username": (user), "uid": "7", "groups": ["team"]}, "object": (object)})
    }

    fn rules() -> Value {
        json!([{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}])
    }

    #[tokio::test]
    async fn who_asks_is_stamped_by_a_patch_and_an_object_without_the_stamp_does_not_pass() {
        let unstamped = json!({"metadata": {"name": "a"},
            "spec": {"requestRef": {"name": "r"}, "permissions": (rules())}});
        let answer = ask(Stage::Mutate, access("alice", unstamped.clone())).await;
        assert_eq!(answer.at(&["allowed"]).and_then(Value::as_bool), Some(true));
        let patch = STANDARD.decode(answer.get("patch").and_then(Value::as_str).expect("a patch")).expect("base64");
        let expect = json!([{"op": "add", "path": "/spec/requestedBy",
            "value": {"username": "alice", "uid": "7", "groups": ["team"]}}]);
        assert_eq!(json::parse(&patch).expect("JSON"), expect);

        let refused = ask(Stage::Validate, access("alice", unstamped)).await;
        assert_eq!(refused.at(&["allowed"]).and_then(Value::as_bool), Some(false));
        assert_eq!(refused.at(&["status", "code"]).and_then(Value::as_i64), Some(403));
        let forged = json!({"metadata": {"name": "a"}, "spec": {"requestRef": {"name": "r"},
            "permissions": (rules()), "requestedBy": {"username": "bob"}}});
        let refused = ask(Stage::Validate, access("alice", forged)).await;
        assert_eq!(refused.at(&["allowed"]).and_then(Value::as_bool), Some(false));
    }

    #[tokio::test]
    async fn a_refusal_names_its_fields_as_the_embedded_server_does() {
        let request = json!({"uid": "u-2", "operation": "CREATE", "name": "p",
            "kind": {"group": "cluster.openmcp.cloud", "version": "v1alpha1", "kind": "Purpose"},
            "resource": {"group": "cluster.openmcp.cloud", "version": "v1alpha1", "resource": "purposes"},
            "userInfo": {"username": "alice"}, "object": {"metadata": {"name": "p"}, "spec": {"idleGrace": "soon"}}});
        let answer = ask(Stage::Validate, request).await;
        assert_eq!(answer.at(&["uid"]).and_then(Value::as_str), Some("u-2"));
        assert_eq!(answer.at(&["status", "code"]).and_then(Value::as_i64), Some(422));
        let causes = answer.at(&["status", "details", "causes"]).and_then(Value::as_array).expect("causes");
        assert_eq!(causes[0].get("field").and_then(Value::as_str), Some("spec.idleGrace"));
    }

    #[tokio::test]
    async fn what_is_no_review_is_refused_with_its_reason() {
        let webhook = Webhook::new(Arc::new(OurKinds::new(PLATFORM, Arc::new(Noon))));
        for (body, expect) in [
            ("{", "not an AdmissionReview"),
            ("{}", "apiVersion is not"),
            (r#"{"apiVersion":"admission.k8s.io/v1"}"#, "it has no request"),
            (r#"{"apiVersion":"admission.k8s.io/v1","request":{}}"#, "request.uid is missing"),
        ] {
            let error = webhook.answer(Stage::Validate, body.as_bytes()).await;
            let message = error.expect_err("refused").message;
            assert!(message.contains(expect), "{body}: {message}");
        }
    }

    #[test]
    fn a_patch_says_no_more_than_what_changed() {
        let check = |before: Value, after: Value, expect: Value| {
            let mut patch = Vec::new();
            difference("", &before, &after, &mut patch);
            assert_eq!(Value::Array(patch), expect);
        };
        check(json!({"a": 1}), json!({"a": 1}), json!([]));
        check(
            json!({"a": {"b/c": 1}}),
            json!({"a": {"b/c": 2, "~": 3}}),
            json!([
            {"op": "replace", "path": "/a/b~1c", "value": 2}, {"op": "add", "path": "/a/~0", "value": 3}]),
        );
        check(
            json!({"a": [1], "b": 2}),
            json!({"a": [1, 2]}),
            json!([
            {"op": "remove", "path": "/b"}, {"op": "replace", "path": "/a", "value": [1, 2]}]),
        );
    }
}
