//! Writes of the catalog's kinds on a whole landscape in this process: who may write what, what is stored, and what is
//! answered to those who may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use allotment_apiserver::auth::{GROUP_AUTHENTICATED, GROUP_MASTERS, UserInfo};
use allotment_controllers::frame::Seams;
use allotment_controllers::providers::kind::NoPrograms;
use allotment_landscape::{Config, Landscape, client_of};
use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_pki::{CertificateAuthority, KeySource as _, RandomKeys};
use allotment_store::{HistoryLimits, Memory, Tenant};
use jiff::Timestamp;
use kube::Client;

const PROFILES: &str = "/apis/core.gardener.cloud/v1beta1/cloudprofiles";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// 2026-01-01, and as many seconds later as a test says.
#[derive(Debug, Default)]
struct Moved(AtomicI64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + self.0.load(Ordering::SeqCst)).expect("a time")
    }
}

/// Draws nothing that a test looks at.
#[derive(Debug, Default)]
struct Counter(AtomicI64);

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::SeqCst).to_le_bytes();
        buffer.iter_mut().zip(next.iter().cycle()).for_each(|(byte, next)| *byte = *next);
    }
}

struct Answer {
    code: u16,
    warnings: String,
    text: String,
    body: Value,
}

impl Answer {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        self.body.at(path)
    }

    #[track_caller]
    fn accepted(self) -> Self {
        assert!(self.code < 300, "{}: {}", self.code, self.text);
        self
    }

    #[track_caller]
    fn refused(self, code: u16, expect: &[&str]) -> Self {
        assert_eq!(self.code, code, "{}", self.text);
        let message = self.at(&["message"]).and_then(Value::as_str).unwrap_or_default();
        for part in expect {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
        self
    }
}

struct World {
    landscape: Landscape,
    clock: Arc<Moved>,
}

impl World {
    async fn new() -> Self {
        let clock = Arc::new(Moved::default());
        let seams = Seams { clock: clock.clone(), entropy: Arc::<Counter>::default() };
        let key = || RandomKeys.generate().expect("a key");
        let authority = CertificateAuthority::new("test", key(), 1_767_225_600, 10 * 365 * 24 * 3600);
        let config = Config {
            store: Arc::new(Memory::new(0, HistoryLimits::default())),
            seams: seams.clone(),
            keys: Arc::new(RandomKeys),
            authority: authority.expect("an authority"),
            service_account_key: key(),
            created: seams.now(),
            url: "https://127.0.0.1:1".to_owned(),
            programs: Arc::new(NoPrograms),
        };
        let landscape = Landscape::serve(config).await.expect("a landscape");
        landscape.ensure().await.expect("it begins");
        let world = World { landscape, clock };
        for name in ["team", "other"] {
            world.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.accepted();
        }
        world
    }

    fn client(&self, user: &str, groups: &[&str]) -> Client {
        let groups = groups.iter().chain(&[GROUP_AUTHENTICATED]).map(|group| (*group).to_owned()).collect();
        let user = UserInfo { name: user.to_owned(), groups, ..UserInfo::default() };
        client_of(self.landscape.server(), &Tenant::platform(), user)
    }

    async fn ask(&self, user: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        let groups: &[&str] = if user == "admin" { &[GROUP_MASTERS] } else { &[] };
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let request = request.body(kube::client::Body::from(body.to_vec())).expect("a request");
        let response = self.client(user, groups).send(request).await.expect("an answer");
        let headers = response.headers().get_all("warning").iter();
        let warnings =
            headers.map(|value| value.to_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().join("\n");
        let code = response.status().as_u16();
        let body = response.into_body().collect_bytes().await.expect("a body");
        let text = String::from_utf8_lossy(&body).into_owned();
        Answer { code, warnings, text, body: json::parse(&body).unwrap_or_default() }
    }

    async fn by(&self, user: &str, method: &str, path: &str, body: Value) -> Answer {
        self.ask(user, method, path, &body.to_vec()).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.by("admin", "POST", path, body).await
    }

    /// Gives a user that ClusterRole in namespace `team`.
    async fn bind(&self, user: &str, role: &str) {
        let binding = json!({"metadata": {"name": (format!("{user}-{role}"))},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        self.post("/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings", binding).await.accepted();
    }

    /// Somebody who may write private profiles and Shoots in `team`, and holds none of the verbs.
    async fn member(&self) {
        let rule = json!({"apiGroups": ["core.gardener.cloud"], "resources": ["privatecloudprofiles", "shoots"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]});
        self.post(ROLES, json!({"metadata": {"name": "member"}, "rules": [rule]})).await.accepted();
        self.bind("alice", "member").await;
    }

    async fn parent(&self) {
        self.post(PROFILES, profile("central", parent_spec())).await.accepted();
    }
}

fn of(namespace: &str, plural: &str) -> String {
    format!("/apis/core.gardener.cloud/v1beta1/namespaces/{namespace}/{plural}")
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn profile(name: &str, spec: Value) -> Value {
    object("CloudProfile", name, spec)
}

fn private(name: &str, spec: Value) -> Value {
    object("PrivateCloudProfile", name, spec)
}

fn parent_spec() -> Value {
    json!({"type": "local",
        "kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": "2026-06-01T00:00:00Z"}, {"version": "1.31.0"}]},
        "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}],
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "8Gi"}],
        "volumeTypes": [{"name": "ssd", "class": "premium"}],
        "regions": [{"name": "here", "zones": [{"name": "here-1"}]}]})
}

fn shoot_spec(profile: Value) -> Value {
    let mut spec = json!({"region": "here", "kubernetes": {"version": "1.30.1"}, "provider": {"type": "local", "workers": [
        {"name": "w", "machine": {"type": "large", "image": {"name": "linux", "version": "1.0.0"}}}]}});
    spec.as_object_mut().expect("an object").insert("cloudProfile", profile);
    spec
}

fn large() -> Value {
    json!([{"name": "large", "cpu": "16", "gpu": "0", "memory": "64Gi"}])
}

#[tokio::test]
async fn a_member_adds_machine_types_and_a_shoot_uses_them_at_once() {
    let world = World::new().await;
    world.parent().await;
    world.member().await;
    let spec = json!({"parent": "central", "machineTypes": (large())});
    let made = world.by("alice", "POST", &of("team", "privatecloudprofiles"), private("mine", spec)).await.accepted();
    assert_eq!(made.at(&["metadata", "finalizers"]), Some(&json!(["allotment.dev/catalog"])));
    // Its status is there by the same write.
    assert_eq!(made.at(&["status", "observedGeneration"]), Some(&json!(1)));
    let types = made.at(&["status", "cloudProfile", "spec", "machineTypes"]).and_then(Value::as_array).expect("types");
    assert_eq!(
        types.iter().map(|one| one.get("name").and_then(Value::as_str)).collect::<Vec<_>>(),
        [Some("small"), Some("large")]
    );
    let uses = shoot_spec(json!({"kind": "PrivateCloudProfile", "name": "mine"}));
    let shoot = world.by("alice", "POST", &of("team", "shoots"), object("Shoot", "s", uses)).await.accepted();
    assert_eq!(shoot.at(&["spec", "cloudProfileName"]), None);
}
