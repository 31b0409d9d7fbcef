//! A landscape in this process, and those who write to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use allotment_apiserver::auth::{GROUP_AUTHENTICATED, GROUP_MASTERS, UserInfo};
use allotment_controllers::frame::{Seams, Tasks};
use allotment_controllers::providers::kind::NoPrograms;
use allotment_controllers::{Controllers, Settings};
use allotment_landscape::{Config, Landscape, client_of};
use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_pki::{CertificateAuthority, KeySource as _, RandomKeys};
use allotment_store::{HistoryLimits, Memory, Tenant};
use jiff::Timestamp;
use kube::Client;

pub(crate) const PROFILES: &str = "/apis/core.gardener.cloud/v1beta1/cloudprofiles";
pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// 2026-01-01, and as many seconds later as a test says.
#[derive(Debug, Default)]
pub(crate) struct Moved(AtomicI64);

impl Moved {
    /// So many seconds pass.
    pub(crate) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + self.0.load(Ordering::SeqCst)).expect("a time")
    }
}

/// Draws nothing that a test looks at.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicI64);

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::SeqCst).to_le_bytes();
        buffer.iter_mut().zip(next.iter().cycle()).for_each(|(byte, next)| *byte = *next);
    }
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: String,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Value> {
        self.body.at(path)
    }

    #[track_caller]
    pub(crate) fn accepted(self) -> Self {
        assert!(self.code < 300, "{}: {}", self.code, self.text);
        self
    }

    #[track_caller]
    pub(crate) fn refused(self, code: u16, expect: &[&str]) -> Self {
        assert_eq!(self.code, code, "{}", self.text);
        let message = self.at(&["message"]).and_then(Value::as_str).unwrap_or_default();
        for part in expect {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
        self
    }
}

pub(crate) struct World {
    pub(crate) landscape: Landscape,
    pub(crate) clock: Arc<Moved>,
    pub(crate) tasks: Tasks,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
        self.landscape.server().stopping().cancel();
    }
}

impl World {
    pub(crate) async fn new() -> Self {
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
        let world = World { landscape, clock, tasks: Tasks::default() };
        for name in ["team", "other"] {
            world.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.accepted();
        }
        world
    }

    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Client {
        let groups = groups.iter().chain(&[GROUP_AUTHENTICATED]).map(|group| (*group).to_owned()).collect();
        let user = UserInfo { name: user.to_owned(), groups, ..UserInfo::default() };
        client_of(self.landscape.server(), &Tenant::platform(), user)
    }

    pub(crate) async fn ask(&self, user: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.send(user, method, path, media, body).await
    }

    pub(crate) async fn send(&self, user: &str, method: &str, path: &str, media: &str, body: &[u8]) -> Answer {
        let groups: &[&str] = if user == "admin" { &[GROUP_MASTERS] } else { &[] };
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

    pub(crate) async fn by(&self, user: &str, method: &str, path: &str, body: Value) -> Answer {
        self.ask(user, method, path, &body.to_vec()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.by("admin", "POST", path, body).await
    }

    /// Gives a user that ClusterRole in namespace `team`.
    pub(crate) async fn bind(&self, user: &str, role: &str) {
        let binding = json!({"metadata": {"name": (format!("{user}-{role}"))},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        self.post("/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings", binding).await.accepted();
    }

    /// Somebody who may write private profiles and Shoots in `team`, and holds none of the verbs.
    pub(crate) async fn member(&self) {
        let rule = json!({"apiGroups": ["core.gardener.cloud"], "resources": ["privatecloudprofiles", "shoots"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]});
        self.post(ROLES, json!({"metadata": {"name": "member"}, "rules": [rule]})).await.accepted();
        self.bind("alice", "member").await;
    }

    pub(crate) fn controllers(&self) -> Arc<Controllers> {
        let settings = Settings {
            access_token_lifetime: Duration::from_secs(3600),
            provisioning_deadline: Duration::from_secs(3600),
            without_catalog: false,
        };
        self.landscape.start_controllers(&self.tasks, self.landscape.client(), &settings)
    }

    pub(crate) async fn parent(&self) {
        self.post(PROFILES, profile("central", parent_spec())).await.accepted();
    }
}

pub(crate) fn of(namespace: &str, plural: &str) -> String {
    format!("/apis/core.gardener.cloud/v1beta1/namespaces/{namespace}/{plural}")
}

pub(crate) fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn profile(name: &str, spec: Value) -> Value {
    object("CloudProfile", name, spec)
}

pub(crate) fn private(name: &str, spec: Value) -> Value {
    object("PrivateCloudProfile", name, spec)
}

pub(crate) fn parent_spec() -> Value {
    json!({"type": "local",
        "kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": "2026-06-01T00:00:00Z"}, {"version": "1.31.0"}]},
        "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}],
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "8Gi"}],
        "volumeTypes": [{"name": "ssd", "class": "premium"}],
        "regions": [{"name": "here", "zones": [{"name": "here-1"}]}]})
}

pub(crate) fn shoot_spec(profile: Value) -> Value {
    let mut spec = json!({"region": "here", "kubernetes": {"version": "1.30.1"}, "provider": {"type": "local", "workers": [
        {"name": "w", "machine": {"type": "large", "image": {"name": "linux", "version": "1.0.0"}}}]}});
    spec.as_object_mut().expect("an object").insert("cloudProfile", profile);
    spec
}

pub(crate) fn large() -> Value {
    json!([{"name": "large", "cpu": "16", "gpu": "0", "memory": "64Gi"}])
}
