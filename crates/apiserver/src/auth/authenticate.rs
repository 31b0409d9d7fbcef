//! Who sends a request: client certificates, static tokens, service-account tokens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use allotment_machinery::gotext::go_quote;
use allotment_machinery::json::{self, Value};
use allotment_pki::{Certificate, Claims, SECRET_TOKEN_ISSUER, TokenError, token_digest};
use allotment_store::{Key, Resource};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::request::Parts;

use super::user::GROUP_AUTHENTICATED;
use super::{PeerCertificates, ServiceAccountIssuer, UserInfo};
use crate::server::{ApiServer, TenantState};
use crate::status::ApiError;

const EXTRA_CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const EXTRA_POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const EXTRA_POD_UID: &str = "authentication.kubernetes.io/pod-uid";
pub(super) const EXTRA_NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const EXTRA_NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// How long a token outlives an object that it is bound to and whose deletion has begun, as in
/// Kubernetes: things on their way out finish with the identity that they have.
const DELETION_LEEWAY_SECS: i64 = 60;
/// Verified certificates and token signatures that are remembered per tenant: more than one busy tenant
/// has clients, at most some 100 KiB.
const MAX_VERIFIED: usize = 256;
/// The longest payload of a token that is read, in bytes: headers are bounded, and so is what is in them.
const MAX_PAYLOAD: usize = 64 * 1024;

/// Why a bearer token is not taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is none of those that are known here.
    Unknown,
    /// It is a service account's, but does not hold.
    Invalid(String),
    /// It could not be looked up.
    Failed(ApiError),
}

impl Refusal {
    /// As `TokenReview` words it.
    pub(super) fn to_review_error(&self) -> String {
        match self {
            Refusal::Unknown => "invalid bearer token".to_owned(),
            Refusal::Invalid(why) => format!("[invalid bearer token, {why}]"),
            Refusal::Failed(error) => error.message.clone(),
        }
    }
}

/// A token that holds.
#[derive(Debug)]
pub(super) struct Holder {
    /// Whose it is.
    pub(super) user: UserInfo,
    /// Which of the audiences asked for it is meant for.
    pub(super) audiences: Vec<String>,
}

/// Credentials whose cryptography has been checked, so that a connection's certificate and a client's
/// token cost that once. What can change in the meantime (time, accounts) is checked every time.
#[derive(Debug, Default)]
pub(super) struct Verified {
    certificates: Mutex<BTreeMap<[u8; 32], KnownCertificate>>,
    tokens: Mutex<BTreeMap<[u8; 32], Claims>>,
}

#[derive(Clone, Debug)]
struct KnownCertificate {
    user: Arc<UserInfo>,
    /// The first and the last second in which all certificates of the chain hold.
    holds: (i64, i64),
}

impl Verified {
    /// Forgets everything, since keys or authorities have changed.
    pub(super) fn forget(&self) {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn remember<V>(table: &Mutex<BTreeMap<[u8; 32], V>>, key: [u8; 32], value: V) {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    if table.len() >= MAX_VERIFIED {
        table.clear();
    }
    table.insert(key, value);
}

fn recall<V: Clone>(table: &Mutex<BTreeMap<[u8; 32], V>>, key: &[u8; 32]) -> Option<V> {
    table.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

/// Who sends this request; `None` where it carries no credentials. Bad credentials are an error (401).
/// In-process callers are known by the [`UserInfo`] in the request's extensions and do not come here.
pub(crate) async fn authenticate(
    server: &ApiServer,
    tenant: &TenantState,
    parts: &Parts,
) -> Result<Option<Arc<UserInfo>>, ApiError> {
    let certificates = parts.extensions.get::<PeerCertificates>();
    if let Some(user) = certificates.and_then(|chain| authenticate_certificate(server, tenant, chain)) {
        return Ok(Some(user));
    }
    if let Some(token) = bearer_token(parts) {
        let audiences = tenant.access.service_account_issuer().map(|issuer| issuer.api_audiences());
        return match authenticate_token(server, tenant, token, &audiences.unwrap_or_default()).await {
            Ok(holder) => Ok(Some(Arc::new(holder.user))),
            Err(Refusal::Failed(error)) => Err(error),
            Err(refusal) => {
                tracing::debug!(tenant = tenant.tenant.as_str(), ?refusal, "a bearer token was refused");
                Err(ApiError::unauthorized())
            }
        };
    }
    if certificates.is_some() || parts.headers.contains_key(http::header::AUTHORIZATION) {
        return Err(ApiError::unauthorized());
    }
    Ok(tenant.access.allows_anonymous().then(|| Arc::new(UserInfo::anonymous())))
}

fn bearer_token(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The user behind a certificate chain that one of the tenant's CAs issued: its common name, with its
/// organizations for groups.
fn authenticate_certificate(
    server: &ApiServer,
    tenant: &TenantState,
    chain: &PeerCertificates,
) -> Option<Arc<UserInfo>> {
    let now = server.clock().now().as_second();
    let verified = &tenant.access.verified.certificates;
    if let Some(known) = recall(verified, chain.digest()).filter(|known| (known.holds.0..=known.holds.1).contains(&now))
    {
        return Some(known.user);
    }
    let authorities = tenant.access.client_authorities();
    if let Err(error) = authorities.verify_client(chain.chain(), now) {
        tracing::debug!(tenant = tenant.tenant.as_str(), %error, "a client certificate was refused");
        return None;
    }
    let certificates: Vec<Certificate> =
        chain.chain().iter().map(|der| Certificate::from_der(der)).collect::<Result<_, _>>().ok()?;
    let leaf = certificates.first().filter(|leaf| !leaf.common_name().is_empty())?;
    let mut user = UserInfo {
        name: leaf.common_name().to_owned(),
        groups: leaf.organizations().to_vec(),
        extra: BTreeMap::from([(EXTRA_CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={}", leaf.fingerprint())])]),
        ..UserInfo::default()
    };
    user.add_group(GROUP_AUTHENTICATED);
    let all = certificates.iter().chain(authorities.authorities());
    let holds = all.fold((i64::MIN, i64::MAX), |(from, to), certificate| {
        (from.max(certificate.not_before()), to.min(certificate.not_after()))
    });
    let user = Arc::new(user);
    remember(verified, *chain.digest(), KnownCertificate { user: Arc::clone(&user), holds });
    Some(user)
}

/// Whose a bearer token is, if it is meant for one of `audiences`.
pub(super) async fn authenticate_token(
    server: &ApiServer,
    tenant: &TenantState,
    token: &str,
    audiences: &[String],
) -> Result<Holder, Refusal> {
    if let Some(user) = tenant.access.static_token(token) {
        return Ok(Holder { user: user.clone(), audiences: audiences.to_vec() });
    }
    let issuer = tenant.access.service_account_issuer().ok_or(Refusal::Unknown)?;
    let claims = verified_claims(tenant, &issuer, token)?;
    // A token without audience, as older ones are, is meant for the API itself.
    let meant_for = if claims.aud.is_empty() { issuer.api_audiences() } else { claims.aud.clone() };
    let matching: Vec<String> = audiences.iter().filter(|one| meant_for.contains(one)).cloned().collect();
    if matching.is_empty() {
        return Err(Refusal::Invalid(format!(
            "token audiences {} is invalid for the target audiences {}",
            quoted_list(&meant_for),
            quoted_list(audiences)
        )));
    }
    let now = server.clock().now().as_second();
    claims.check_time(now).map_err(|error| Refusal::Invalid(error.to_string()))?;
    check_bindings(server, tenant, &claims, token, now).await?;
    Ok(Holder { user: user_of(&claims), audiences: matching })
}

/// The claims of a token that a key of this tenant signed in the name of its issuer.
fn verified_claims(tenant: &TenantState, issuer: &ServiceAccountIssuer, token: &str) -> Result<Claims, Refusal> {
    let verified = &tenant.access.verified.tokens;
    let key = token_digest(token.as_bytes());
    if let Some(claims) = recall(verified, &key) {
        return Ok(claims);
    }
    // Whose token it says to be decides who looks at it; only then it is a bad one of ours.
    let named = named_issuer(token).ok_or(Refusal::Unknown)?;
    if named != issuer.issuer && named != SECRET_TOKEN_ISSUER {
        return Err(Refusal::Unknown);
    }
    let claims = issuer.keys.verify(token).map_err(|error| match error {
        TokenError::Malformed => Refusal::Unknown,
        other => Refusal::Invalid(other.to_string()),
    })?;
    if claims.iss != issuer.issuer && !claims.is_of_secret() {
        return Err(Refusal::Unknown);
    }
    let account = &claims.kubernetes;
    if claims.sub != super::user::service_account_user(&account.namespace, &account.serviceaccount.name) {
        return Err(Refusal::Invalid("the subject of the token is not its service account".to_owned()));
    }
    remember(verified, key, claims.clone());
    Ok(claims)
}

/// The issuer that a token names, which nobody has checked yet.
fn named_issuer(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1).filter(|payload| payload.len() <= MAX_PAYLOAD)?;
    let claims = json::parse(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    claims.get("iss").and_then(Value::as_str).map(str::to_owned)
}

/// A token holds as long as the account and the object it is bound to are there, the same ones.
async fn check_bindings(
    server: &ApiServer,
    tenant: &TenantState,
    claims: &Claims,
    token: &str,
    now: i64,
) -> Result<(), Refusal> {
    let bound = &claims.kubernetes;
    let namespace = bound.namespace.as_str();
    let invalidated = || Refusal::Invalid("service account token has been invalidated".to_owned());
    let account = &bound.serviceaccount;
    let found = look_up(server, tenant, "serviceaccounts", namespace, &account.name).await?;
    let found =
        found.ok_or_else(|| Refusal::Invalid(format!("serviceaccounts {} not found", go_quote(&account.name))))?;
    if found.uid != account.uid {
        let why = format!("service account UID ({}) does not match claim ({})", found.uid, account.uid);
        return Err(Refusal::Invalid(why));
    }
    if found.is_gone_at(now) {
        return Err(Refusal::Invalid(format!("service account {namespace}/{} has been deleted", account.name)));
    }
    let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
    let objects =
        [("secrets", namespace, bound.secret.as_ref()), ("pods", namespace, bound.pod.as_ref()), ("nodes", "", node)];
    for (resource, namespace, object) in objects {
        let Some(object) = object else { continue };
        let found = look_up(server, tenant, resource, namespace, &object.name).await?.ok_or_else(invalidated)?;
        let same = if claims.is_of_secret() { found.holds_token(token) } else { found.uid == object.uid };
        if !same || found.is_gone_at(now) {
            return Err(invalidated());
        }
    }
    Ok(())
}

fn user_of(claims: &Claims) -> UserInfo {
    let bound = &claims.kubernetes;
    let account = &bound.serviceaccount;
    let mut user = UserInfo::service_account(&bound.namespace, &account.name, &account.uid);
    let mut add = |key: &str, value: String| user.extra.insert(key.to_owned(), vec![value]);
    if !claims.jti.is_empty() {
        add(EXTRA_CREDENTIAL_ID, format!("JTI={}", claims.jti));
    }
    if let Some(pod) = &bound.pod {
        add(EXTRA_POD_NAME, pod.name.clone());
        add(EXTRA_POD_UID, pod.uid.clone());
    }
    if let Some(node) = &bound.node {
        add(EXTRA_NODE_NAME, node.name.clone());
        if !node.uid.is_empty() {
            add(EXTRA_NODE_UID, node.uid.clone());
        }
    }
    user
}

/// What tokens depend on, of an object.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) uid: String,
    pub(super) deleted_at: Option<i64>,
    pub(super) object: Value,
}

impl Standing {
    /// Whether it is a Secret in which this token lies.
    fn holds_token(&self, token: &str) -> bool {
        let held = self.object.at(&["data", "token"]).and_then(Value::as_str).unwrap_or_default();
        // Digests, so that the time tells nothing of the Secret.
        token_digest(held.as_bytes()) == token_digest(STANDARD.encode(token).as_bytes())
    }

    fn is_gone_at(&self, now: i64) -> bool {
        self.deleted_at.is_some_and(|at| at < now - DELETION_LEEWAY_SECS)
    }
}

/// The object as the store has it now.
pub(super) async fn look_up(
    server: &ApiServer,
    tenant: &TenantState,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Standing>, Refusal> {
    let key = Key {
        tenant: tenant.tenant.clone(),
        resource: Resource::new(resource, ""),
        namespace: namespace.into(),
        name: name.into(),
    };
    let entry = server.store().get(&key).await;
    let Some(entry) = entry.map_err(|error| Refusal::Failed(ApiError::internal(error.to_string())))? else {
        return Ok(None);
    };
    let object =
        json::parse(&entry.body()).map_err(|_| Refusal::Failed(ApiError::internal("a stored object is damaged")))?;
    let text = |field: &str| object.at(&["metadata", field]).and_then(Value::as_str);
    let uid = text("uid").unwrap_or_default().to_owned();
    let deleted_at = text("deletionTimestamp").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let deleted_at = deleted_at.map(jiff::Timestamp::as_second);
    Ok(Some(Standing { uid, deleted_at, object }))
}

/// `["a" "b"]`, as Go prints a list of strings with `%q`.
pub(super) fn quoted_list<'a>(items: impl IntoIterator<Item = &'a String>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| go_quote(item)).collect();
    format!("[{}]", items.join(" "))
}
