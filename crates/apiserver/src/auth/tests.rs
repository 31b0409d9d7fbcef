//! Requests with all kinds of credentials against a server in this process.

use std::sync::{Arc, Mutex};

use allotment_machinery::json;
use allotment_machinery::json::{Value, parse};
use allotment_machinery::seams::{Clock, Entropy};
use allotment_pki::{CertificateAuthority, KeySource as _, Leaf, LeafUsage, RandomKeys, ServiceAccountKeys};
use allotment_store::{HistoryLimits, Memory, Tenant};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use rustls_pki_types::CertificateDer;
use tower::ServiceExt as _;

use super::mint_service_account_token;
use super::{AccessConfig, GROUP_MASTERS, PeerCertificates, ServiceAccountIssuer, TokenSpec, UserInfo};
use crate::registry::Registry;
use crate::server::{ApiServer, ServerConfig, TenantConfig, bootstrap_template};
use crate::service::ApiService;

/// 2026-07-01T00:00:00Z
const START: i64 = 1_782_864_000;
const ISSUER: &str = "https://kubernetes.default.svc";

/// Stands still unless it is moved.
#[derive(Debug)]
struct Hands(Mutex<i64>);

impl Clock for Hands {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(*self.0.lock().expect("not poisoned")).expect("a time")
    }
}

#[derive(Debug, Default)]
struct Counter(Mutex<u64>);

impl Entropy for Counter {
    fn fill(&self, out: &mut [u8]) {
        let mut next = self.0.lock().expect("not poisoned");
        for part in out.chunks_mut(8) {
            *next += 1;
            part.copy_from_slice(&next.to_be_bytes()[8 - part.len()..]);
        }
    }
}

struct World {
    server: ApiServer,
    clock: Arc<Hands>,
    authorities: Vec<CertificateAuthority>,
}

/// The credentials of a request.
#[derive(Clone, Default)]
struct As {
    token: Option<String>,
    chain: Option<PeerCertificates>,
    user: Option<UserInfo>,
    headers: Vec<(&'static str, String)>,
}

fn admin() -> As {
    As { user: Some(UserInfo::in_process("system:test", &[GROUP_MASTERS])), ..As::default() }
}

fn bearer(token: &str) -> As {
    As { token: Some(token.to_owned()), ..As::default() }
}

impl World {
    /// Two tenants, `one` and `two`, each with its own CA, keys and static token.
    async fn new() -> Self {
        let clock = Arc::new(Hands(Mutex::new(START)));
        let server = ApiServer::start(ServerConfig {
            store: Arc::new(Memory::new(0, HistoryLimits::default())),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::<Counter>::default(),
            builtin: Registry::new(crate::builtin::kinds()),
            admission: Vec::new(),
            readiness: Vec::new(),
        });
        let key = || RandomKeys.generate().expect("a key");
        let mut authorities = Vec::new();
        for name in ["one", "two"] {
            let authority = CertificateAuthority::new("cluster-ca", key(), START, 365 * 86_400).expect("a CA");
            let user = UserInfo { name: format!("static-{name}"), ..UserInfo::default() };
            let config = TenantConfig {
                tenant: Tenant::logical(name),
                version: "1.36.0".to_owned(),
                server_url: format!("https://127.0.0.1:1/clusters/{name}"),
                root_ca_pem: authority.certificate().to_pem().into(),
                access: AccessConfig {
                    static_tokens: vec![(format!("secret-{name}"), user)],
                    client_authorities: authority.bundle(),
                    service_accounts: Some(ServiceAccountIssuer {
                        issuer: ISSUER.to_owned(),
                        keys: ServiceAccountKeys::new(key(), &[]).expect("keys"),
                        audiences: Vec::new(),
                    }),
                    anonymous: false,
                },
                template: Arc::new(bootstrap_template(clock.now())),
            };
            server.ensure_tenant(config).await.expect("a tenant");
            authorities.push(authority);
        }
        World { server, clock, authorities }
    }

    async fn send(&self, who: &As, method: &str, path: &str, body: Value) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        if let Some(token) = &who.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &who.headers {
            request = request.header(*name, value);
        }
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_vec()) };
        let mut request = request.body(Full::new(body)).expect("a request");
        if let Some(chain) = &who.chain {
            request.extensions_mut().insert(chain.clone());
        }
        if let Some(user) = &who.user {
            request.extensions_mut().insert(user.clone());
        }
        let response = ApiService::new(self.server.clone()).oneshot(request).await.expect("infallible");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("infallible").to_bytes();
        (code, parse(&bytes).unwrap_or_default())
    }

    /// Who the server takes somebody for, as `NAME GROUP,GROUP`; or the status.
    async fn who_am_i(&self, who: &As, tenant: &str) -> String {
        let path = format!("/clusters/{tenant}/apis/authentication.k8s.io/v1/selfsubjectreviews");
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let (code, reply) = self.send(who, "POST", &path, body).await;
        if code != 201 {
            return format!("{code} {}", text(&reply, &["message"]));
        }
        let groups = reply.at(&["status", "userInfo", "groups"]).and_then(Value::as_array).unwrap_or_default();
        let groups: Vec<&str> = groups.iter().filter_map(Value::as_str).collect();
        format!("{} {}", text(&reply, &["status", "userInfo", "username"]), groups.join(","))
    }

    async fn make(&self, path: &str, body: Value) -> Value {
        let (code, reply) = self.send(&admin(), "POST", path, body).await;
        assert_eq!(code, 201, "{path}: {reply}");
        reply
    }

    fn client(&self, tenant: usize, name: &str, lifetime_secs: i64) -> As {
        let leaf = Leaf {
            common_name: name.to_owned(),
            organization: Some("team".to_owned()),
            usage: LeafUsage::Client,
            names: Vec::new(),
            lifetime_secs,
        };
        let key = RandomKeys.generate().expect("a key");
        let pair = self.authorities[tenant].issue(&leaf, key, START).expect("a leaf");
        let chain: Vec<_> = pair.chain().iter().map(|one| CertificateDer::from(one.der().to_vec())).collect();
        As { chain: Some(PeerCertificates::new(&chain)), ..As::default() }
    }

    fn move_to(&self, second: i64) {
        *self.clock.0.lock().expect("not poisoned") = second;
    }

    async fn account(&self, tenant: &str) -> String {
        let path = format!("/clusters/{tenant}/api/v1/namespaces/default/serviceaccounts");
        self.make(&path, json!({"metadata": {"name": "robot"}})).await;
        self.token(tenant, 600).await
    }

    async fn token(&self, tenant: &str, lifetime_secs: i64) -> String {
        let state = self.server.tenant(&Tenant::logical(tenant)).expect("the tenant");
        let spec = TokenSpec { namespace: "default", name: "robot", audiences: &[], lifetime_secs };
        let minted = mint_service_account_token(&self.server, &state, &spec).await.expect("a token");
        minted.token.to_string()
    }
}

fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    value.at(path).and_then(Value::as_str).unwrap_or_default()
}

const REFUSED: &str = "401 Unauthorized";

#[tokio::test]
async fn a_certificate_counts_only_with_the_tenant_whose_ca_issued_it_and_while_it_holds() {
    let world = World::new().await;
    let alice = world.client(0, "alice", 3600);
    assert_eq!(world.who_am_i(&alice, "one").await, "alice team,system:authenticated");
    assert_eq!(world.who_am_i(&alice, "two").await, REFUSED);
    world.move_to(START + 3601);
    assert_eq!(world.who_am_i(&alice, "one").await, REFUSED, "though it was believed before");
    let nameless = world.client(0, "", 86_400);
    assert_eq!(world.who_am_i(&nameless, "one").await, REFUSED);
}

#[tokio::test]
async fn a_replaced_ca_ends_what_it_issued_at_once() {
    let world = World::new().await;
    let alice = world.client(0, "alice", 3600);
    assert_eq!(world.who_am_i(&alice, "one").await, "alice team,system:authenticated");
    let tenant = world.server.tenant(&Tenant::logical("one")).expect("the tenant");
    tenant.access.set_client_authorities(world.authorities[1].bundle());
    assert_eq!(world.who_am_i(&alice, "one").await, REFUSED);
}

#[tokio::test]
async fn requests_without_valid_credentials_are_refused() {
    let world = World::new().await;
    let basic = As { headers: vec![("authorization", "Basic YTpi".to_owned())], ..As::default() };
    let forged = bearer("eyJhbGciOiJub25lIn0.e30.");
    for who in [As::default(), bearer("nonsense"), bearer("secret-two"), bearer(""), basic, forged] {
        assert_eq!(world.who_am_i(&who, "one").await, REFUSED);
    }
    assert_eq!(world.who_am_i(&bearer("secret-one"), "one").await, "static-one system:authenticated");
}

#[tokio::test]
async fn a_service_account_token_holds_for_its_tenant_its_time_and_its_account() {
    let world = World::new().await;
    let robot = bearer(&world.account("one").await);
    world.account("two").await;
    let expect = "system:serviceaccount:default:robot system:serviceaccounts,system:serviceaccounts:default,\
                  system:authenticated";
    assert_eq!(world.who_am_i(&robot, "one").await, expect);
    assert_eq!(world.who_am_i(&robot, "two").await, REFUSED, "the account of the same name elsewhere is another");
    world.move_to(START + 600);
    assert_eq!(world.who_am_i(&robot, "one").await, REFUSED, "expired");
    let robot = bearer(&world.token("one", 60).await);
    assert_eq!(world.who_am_i(&robot, "one").await, expect);
    let path = "/clusters/one/api/v1/namespaces/default/serviceaccounts";
    world.send(&admin(), "DELETE", &format!("{path}/robot"), Value::Null).await;
    assert_eq!(world.who_am_i(&robot, "one").await, REFUSED, "deleted");
    world.make(path, json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(world.who_am_i(&robot, "one").await, REFUSED, "made again it is another");
}

const SECRETS: &str = "/clusters/one/api/v1/namespaces/default/secrets";

impl World {
    /// Asks for a Secret until it is as wanted; the last answer.
    async fn secret_until(&self, name: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        let path = format!("{SECRETS}/{name}");
        let settled = async {
            loop {
                let (code, reply) = self.send(&admin(), "GET", &path, Value::Null).await;
                if wanted(code, &reply) {
                    return reply;
                }
                tokio::task::yield_now().await;
            }
        };
        let settled = tokio::time::timeout(std::time::Duration::from_secs(10), settled).await;
        settled.unwrap_or_else(|_| panic!("the secret {name} did not come to be as wanted"))
    }

    /// Makes a Secret for a token of an account and waits until it is filled.
    async fn token_secret(&self, name: &str) -> String {
        let metadata = json!({"name": name, "annotations": {"kubernetes.io/service-account.name": "robot"}});
        self.make(SECRETS, json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"})).await;
        let filled = self.secret_until(name, |_, secret| !text(secret, &["data", "token"]).is_empty()).await;
        let decode = |field: &str| {
            let bytes = STANDARD.decode(text(&filled, &["data", field])).expect("base64");
            String::from_utf8(bytes).expect("a text")
        };
        assert_eq!(decode("namespace"), "default");
        let state = self.server.tenant(&Tenant::logical("one")).expect("the tenant");
        assert_eq!(decode("ca.crt"), *state.root_ca_pem);
        decode("token")
    }
}

#[tokio::test]
async fn a_token_in_a_secret_holds_as_long_as_it_lies_there_and_the_account_is_there() {
    let world = World::new().await;
    world.account("one").await;
    world.account("two").await;
    let (kept, taken) = (bearer(&world.token_secret("kept").await), bearer(&world.token_secret("taken").await));
    let expect = "system:serviceaccount:default:robot system:serviceaccounts,system:serviceaccounts:default,\
                  system:authenticated";
    world.move_to(START + 10 * 365 * 24 * 3600);
    assert_eq!(world.who_am_i(&kept, "one").await, expect, "it has no end");
    assert_eq!(world.who_am_i(&kept, "two").await, REFUSED);
    assert_eq!(world.who_am_i(&taken, "one").await, expect);
    world.send(&admin(), "DELETE", &format!("{SECRETS}/taken"), Value::Null).await;
    assert_eq!(world.who_am_i(&taken, "one").await, REFUSED, "the secret is gone");
    let again = bearer(&world.token_secret("taken").await);
    let (code, mut secret) = world.send(&admin(), "GET", &format!("{SECRETS}/taken"), Value::Null).await;
    assert_eq!(code, 200);
    let data = secret.as_object_mut().and_then(|secret| secret.object_mut("data")).expect("data");
    data.insert("token", "b3RoZXI=");
    world.send(&admin(), "PUT", &format!("{SECRETS}/taken"), secret).await;
    assert_eq!(world.who_am_i(&again, "one").await, REFUSED, "another token lies there");

    let path = "/clusters/one/api/v1/namespaces/default/serviceaccounts";
    world.send(&admin(), "DELETE", &format!("{path}/robot"), Value::Null).await;
    assert_eq!(world.who_am_i(&kept, "one").await, REFUSED, "the account is gone");
    world.secret_until("kept", |code, _| code == 404).await;
    world.secret_until("taken", |code, _| code == 404).await;
    let metadata = json!({"name": "early", "annotations": {"kubernetes.io/service-account.name": "robot"}});
    world.make(SECRETS, json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"})).await;
    world.secret_until("early", |code, _| code == 404).await;
}

#[tokio::test]
async fn a_tenant_is_not_shown_what_the_whole_server_does() {
    let world = World::new().await;
    let (code, _) = world.send(&admin(), "GET", "/clusters/one/metrics", Value::Null).await;
    assert_eq!(code, 404);
    let (_, root) = world.send(&admin(), "GET", "/clusters/one/", Value::Null).await;
    let paths = root.at(&["paths"]).and_then(Value::as_array).unwrap_or_default();
    assert!(paths.contains(&Value::from("/apis")) && !paths.contains(&Value::from("/metrics")), "{root}");
}

#[tokio::test]
async fn replaced_keys_end_tokens_unless_the_old_key_still_verifies() {
    let world = World::new().await;
    let robot = bearer(&world.account("one").await);
    let tenant = world.server.tenant(&Tenant::logical("one")).expect("the tenant");
    let old = tenant.access.service_account_issuer().expect("an issuer");
    assert!(world.who_am_i(&robot, "one").await.starts_with("system:serviceaccount:"));
    let new = RandomKeys.generate().expect("a key");
    let with = |also: &[allotment_pki::PublicKey]| {
        let keys = ServiceAccountKeys::new(new.clone(), also).expect("keys");
        Some(ServiceAccountIssuer { keys, ..(*old).clone() })
    };
    tenant.access.set_service_account_issuer(with(old.keys.verifying()));
    assert!(world.who_am_i(&robot, "one").await.starts_with("system:serviceaccount:"));
    tenant.access.set_service_account_issuer(with(&[]));
    assert_eq!(world.who_am_i(&robot, "one").await, REFUSED);
}

#[tokio::test]
async fn only_parts_of_this_process_get_tokens_of_less_than_ten_minutes() {
    let world = World::new().await;
    world.account("one").await;
    let path = "/clusters/one/api/v1/namespaces/default/serviceaccounts/robot/token";
    let ask = |seconds: i64| json!({"kind": "TokenRequest", "spec": {"expirationSeconds": seconds}});
    let outside =
        As { user: Some(UserInfo { groups: vec![GROUP_MASTERS.to_owned()], ..UserInfo::default() }), ..As::default() };
    for (who, seconds, expect) in [
        (&outside, 599, "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"),
        (&outside, 600, ""),
        (&outside, (1 << 32) + 1, "may not specify a duration larger than 2^32 seconds"),
        (&admin(), 60, ""),
        (&admin(), 0, "may not specify a duration less than 10 minutes"),
    ] {
        let (code, reply) = world.send(who, "POST", path, ask(seconds)).await;
        assert_eq!(code, if expect.is_empty() { 201 } else { 422 }, "{seconds}: {reply}");
        assert!(text(&reply, &["message"]).contains(expect), "{seconds}: {reply}");
    }
}

#[tokio::test]
async fn nobody_can_be_taken_for_a_part_of_this_process() {
    let world = World::new().await;
    let headers =
        vec![("impersonate-user", "x".to_owned()), ("impersonate-extra-allotment.dev%2fin-process", "true".to_owned())];
    let answered = world.who_am_i(&As { headers, ..admin() }, "one").await;
    assert!(answered.starts_with("400 "), "{answered}");
}

/// What the robot of tenant `one` is answered that asks to be taken for `wanted`: who it is then, or why not.
async fn robot_as(world: &World, token: &str, wanted: &[(&'static str, &str)]) -> String {
    let headers = wanted.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    world.who_am_i(&As { headers, ..bearer(token) }, "one").await
}

impl World {
    /// Gives the robot of tenant `one` rights in the whole cluster.
    async fn allow_robot(&self, name: &str, rules: Value) {
        let rbac = "/clusters/one/apis/rbac.authorization.k8s.io/v1";
        self.make(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules})).await;
        let bound = json!({
            "metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]
        });
        self.make(&format!("{rbac}/clusterrolebindings"), bound).await;
    }
}

#[tokio::test]
async fn who_may_be_taken_for_one_user_and_one_verb_may_not_more() {
    const GROUP: &str = "authentication.k8s.io";
    let world = World::new().await;
    let token = world.account("one").await;
    let jane = [("impersonate-user", "jane")];
    let robot = "User \"system:serviceaccount:default:robot\" cannot";
    let none = format!(
        "403 selfsubjectreviews.{GROUP} is forbidden: {robot} impersonate-on:user-info:create resource \
         \"selfsubjectreviews\" in API group \"{GROUP}\" at the cluster scope"
    );
    assert_eq!(robot_as(&world, &token, &jane).await, none);
    let verbs = json!(["impersonate-on:user-info:create", "impersonate-on:arbitrary-node:create"]);
    world.allow_robot("on", json!([{"apiGroups": [GROUP], "resources": ["selfsubjectreviews"], "verbs": verbs}])).await;
    let refused = robot_as(&world, &token, &jane).await;
    let expect = format!(
        "403 users.{GROUP} \"jane\" is forbidden: {robot} impersonate:user-info resource \"users\" in API group \
         \"{GROUP}\" at the cluster scope"
    );
    assert_eq!(refused, expect);
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["users"], "verbs": ["impersonate:user-info"], "resourceNames": ["jane"]},
        {"apiGroups": [GROUP], "resources": ["groups"], "verbs": ["impersonate:user-info"]},
        {"apiGroups": [GROUP], "resources": ["nodes"], "verbs": ["impersonate:arbitrary-node"]}
    ]);
    world.allow_robot("who", rules).await;
    assert_eq!(robot_as(&world, &token, &jane).await, "jane system:authenticated");
    assert!(robot_as(&world, &token, &[("impersonate-user", "bob")]).await.starts_with("403 users."));
    let masters = robot_as(&world, &token, &[jane[0], ("impersonate-group", "system:masters")]).await;
    assert!(masters.ends_with("impersonating the system:masters group is not allowed"), "{masters}");
    let node = robot_as(&world, &token, &[("impersonate-user", "system:node:n")]).await;
    assert_eq!(node, "system:node:n system:nodes,system:authenticated");
    let (code, reply) = world
        .send(
            &As { headers: vec![("impersonate-user", "jane".to_owned())], ..bearer(&token) },
            "GET",
            "/clusters/one/version",
            Value::Null,
        )
        .await;
    assert_eq!(code, 403, "{reply}");
    assert!(text(&reply, &["message"]).contains("cannot impersonate-on:user-info:get path \"/version\""), "{reply}");
}

#[tokio::test]
async fn the_right_to_impersonate_without_bounds_is_what_it_was() {
    let world = World::new().await;
    let token = world.account("one").await;
    let rules = json!([{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]);
    world.allow_robot("old", rules).await;
    let node = robot_as(&world, &token, &[("impersonate-user", "system:node:n")]).await;
    assert_eq!(node, "system:node:n system:authenticated");
    let masters = robot_as(&world, &token, &[("impersonate-user", "x"), ("impersonate-group", "system:masters")]).await;
    assert_eq!(masters, "x system:masters,system:authenticated");
    // What worked last is tried first, and its refusal is told.
    let refused = robot_as(&world, &token, &[("impersonate-user", "x"), ("impersonate-uid", "u")]).await;
    assert!(refused.contains("cannot impersonate resource \"uids\""), "{refused}");
}

#[tokio::test]
async fn a_right_is_there_in_the_next_request_after_it_was_given_and_gone_after_it_was_taken() {
    let world = World::new().await;
    let alice = world.client(0, "alice", 3600);
    let rbac = "/clusters/one/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let secrets = "/clusters/one/api/v1/namespaces/default/secrets";
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}]);
    world.make(&format!("{rbac}/roles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
    for _ in 0..5 {
        assert_eq!(world.send(&alice, "GET", secrets, Value::Null).await.0, 403);
        let bound = json!({
            "metadata": {"name": "b"}, "subjects": [{"kind": "Group", "name": "team"}],
            "roleRef": {"kind": "Role", "name": "r"}
        });
        world.make(&format!("{rbac}/rolebindings"), bound).await;
        assert_eq!(world.send(&alice, "GET", secrets, Value::Null).await.0, 200);
        let (code, _) = world.send(&admin(), "DELETE", &format!("{rbac}/rolebindings/b"), Value::Null).await;
        assert_eq!(code, 200);
    }
    let other = world.client(1, "alice", 3600);
    let theirs = secrets.replace("one", "two");
    assert_eq!(world.send(&other, "GET", &theirs, Value::Null).await.0, 403, "tenants share no rights");
}

#[tokio::test]
async fn aggregated_roles_follow_their_parts() {
    let world = World::new().await;
    let roles = "/clusters/one/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rule = json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]});
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    world
        .make(roles, json!({"metadata": {"name": "part", "labels": {label: "true"}}, "rules": [(rule.clone())]}))
        .await;
    let has_it = || async {
        let (_, role) = world.send(&admin(), "GET", &format!("{roles}/admin"), Value::Null).await;
        role.get("rules").and_then(Value::as_array).unwrap_or_default().contains(&rule)
    };
    let until = |wanted: bool| async move {
        let limit = tokio::time::timeout(std::time::Duration::from_secs(20), async {
            while has_it().await != wanted {
                tokio::task::yield_now().await;
            }
        });
        limit.await.unwrap_or_else(|_| {
            panic!("admin {} the rule of a role that is part of view", if wanted { "lacks" } else { "keeps" })
        });
    };
    until(true).await;
    world.send(&admin(), "DELETE", &format!("{roles}/part"), Value::Null).await;
    until(false).await;
}
