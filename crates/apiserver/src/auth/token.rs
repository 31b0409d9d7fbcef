//! Tokens of service accounts: TokenRequest, and the way for this process itself.

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_pki::{BoundObject, Claims, KubernetesClaims, SECRET_TOKEN_ISSUER, SecretTokenClaims, Zeroizing};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::ServiceAccountIssuer;
use super::authenticate::{Refusal, Standing, look_up};
use super::user::service_account_user;
use crate::registry::Connect;
use crate::server::{ApiServer, Context, TenantState};
use crate::status::{About, ApiError};

const DEFAULT_LIFETIME_SECS: i64 = 3600;
const MIN_LIFETIME_SECS: i64 = 600;
const MAX_LIFETIME_SECS: i64 = 1 << 32;

/// Answers a create of `serviceaccounts/token`. Parts of this process may ask for tokens shorter than the
/// ten minutes that others have to take at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenRequest;

#[async_trait]
impl Connect for TokenRequest {
    async fn create(&self, cx: &Context, object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        let (namespace, name) = (cx.info.namespace.as_str(), cx.info.name.as_str());
        check_metadata(&object, namespace, name)?;
        let account = service_account(&cx.server, &cx.tenant, namespace, name).await?;
        check_uid(&object, name, &account)?;
        let issuer = issuer(&cx.tenant)?;
        let spec = object.get("spec");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let asked = spec.and_then(|spec| spec.get("audiences")).and_then(Value::as_array).unwrap_or_default();
        let mut audiences: Vec<String> = asked.iter().filter_map(text).collect();
        if audiences.is_empty() {
            audiences = issuer.api_audiences();
        }
        let lifetime = spec.and_then(|spec| spec.get("expirationSeconds")).and_then(Value::as_i64);
        let lifetime = lifetime.unwrap_or(DEFAULT_LIFETIME_SECS);
        check_lifetime(lifetime, if cx.user.is_in_process() { 1 } else { MIN_LIFETIME_SECS })?;
        let reference = spec.and_then(|spec| spec.get("boundObjectRef")).filter(|reference| !reference.is_null());
        let mut bound = KubernetesClaims {
            namespace: namespace.to_owned(),
            node: None,
            pod: None,
            secret: None,
            serviceaccount: BoundObject { name: name.to_owned(), uid: account.uid.clone() },
        };
        if let Some(reference) = reference {
            bind(cx, reference, &mut bound).await?;
        }
        let minted = mint(&cx.server, &issuer, bound, audiences.clone(), lifetime)?;
        let audiences: Vec<Value> = audiences.into_iter().map(Value::from).collect();
        let expires = format_time(minted.expires);
        Ok(json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name, "namespace": namespace, "uid": (account.uid.as_str()),
                "creationTimestamp": (format_time(cx.server.clock().now()))
            },
            "spec": {
                "audiences": audiences, "expirationSeconds": lifetime,
                "boundObjectRef": (reference.cloned().unwrap_or_default())
            },
            "status": {"token": (minted.token.as_str()), "expirationTimestamp": expires}
        }))
    }
}

/// A token to be minted.
#[derive(Clone, Copy, Debug)]
pub struct TokenSpec<'a> {
    /// The account's namespace.
    pub namespace: &'a str,
    /// The account.
    pub name: &'a str,
    /// Whom the token is for; the tenant's API where empty.
    pub audiences: &'a [String],
    /// How long it holds, in seconds, from now on; any positive number.
    pub lifetime_secs: i64,
}

/// A minted token.
#[derive(Clone)]
pub struct MintedToken {
    /// The token.
    pub token: Zeroizing<String>,
    /// Its `iat`.
    pub issued: Timestamp,
    /// Its `exp`.
    pub expires: Timestamp,
}

impl std::fmt::Debug for MintedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MintedToken").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Mints a token for an account of a tenant. For parts of this process only: nothing is authorized.
///
/// # Errors
/// The account does not exist (404), the tenant issues no tokens, or the lifetime is out of range (422).
pub async fn mint_service_account_token(
    server: &ApiServer,
    tenant: &TenantState,
    spec: &TokenSpec<'_>,
) -> Result<MintedToken, ApiError> {
    let account = service_account(server, tenant, spec.namespace, spec.name).await?;
    check_lifetime(spec.lifetime_secs, 1)?;
    let issuer = issuer(tenant)?;
    let audiences = if spec.audiences.is_empty() { issuer.api_audiences() } else { spec.audiences.to_vec() };
    let bound = KubernetesClaims {
        namespace: spec.namespace.to_owned(),
        node: None,
        pod: None,
        secret: None,
        serviceaccount: BoundObject { name: spec.name.to_owned(), uid: account.uid },
    };
    mint(server, &issuer, bound, audiences, spec.lifetime_secs)
}

/// The token for a Secret of an account; `None` where the tenant issues no tokens.
pub(crate) fn mint_secret_token(
    tenant: &TenantState,
    namespace: &str,
    account: BoundObject,
    secret: &str,
) -> Result<Option<Zeroizing<String>>, ApiError> {
    let Some(issuer) = tenant.access.service_account_issuer() else { return Ok(None) };
    let claims = SecretTokenClaims {
        iss: SECRET_TOKEN_ISSUER.to_owned(),
        namespace: namespace.to_owned(),
        secret: secret.to_owned(),
        sub: service_account_user(namespace, &account.name),
        account: account.name,
        account_uid: account.uid,
    };
    issuer.keys.sign(&claims).map(Some).map_err(|error| ApiError::internal(error.to_string()))
}

fn mint(
    server: &ApiServer,
    issuer: &ServiceAccountIssuer,
    bound: KubernetesClaims,
    audiences: Vec<String>,
    lifetime_secs: i64,
) -> Result<MintedToken, ApiError> {
    let now = server.clock().now();
    let out_of_range = |_| ApiError::internal("the lifetime of a token is out of range");
    let issued = Timestamp::from_second(now.as_second()).map_err(out_of_range)?;
    let expires = issued.checked_add(SignedDuration::from_secs(lifetime_secs)).map_err(out_of_range)?;
    let claims = Claims {
        aud: audiences,
        exp: expires.as_second(),
        iat: issued.as_second(),
        iss: issuer.issuer.clone(),
        jti: server.entropy().uid(),
        nbf: issued.as_second(),
        sub: service_account_user(&bound.namespace, &bound.serviceaccount.name),
        kubernetes: bound,
    };
    let token = issuer.keys.sign(&claims).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(MintedToken { token, issued, expires })
}

fn issuer(tenant: &TenantState) -> Result<std::sync::Arc<ServiceAccountIssuer>, ApiError> {
    let issuer = tenant.access.service_account_issuer();
    issuer.ok_or_else(|| ApiError::internal("no keys for tokens of service accounts are set up"))
}

async fn service_account(
    server: &ApiServer,
    tenant: &TenantState,
    namespace: &str,
    name: &str,
) -> Result<Standing, ApiError> {
    existing(server, tenant, "serviceaccounts", namespace, name).await
}

async fn existing(
    server: &ApiServer,
    tenant: &TenantState,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<Standing, ApiError> {
    match look_up(server, tenant, resource, namespace, name).await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(ApiError::not_found(About { group: "", resource, name })),
        Err(Refusal::Failed(error)) => Err(error),
        Err(other) => Err(ApiError::internal(other.to_review_error())),
    }
}

fn check_metadata(object: &Value, namespace: &str, name: &str) -> Result<(), ApiError> {
    let given = |field: &str| object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default();
    for (field, wanted) in [("name", name), ("namespace", namespace)] {
        let have = given(field);
        if !have.is_empty() && have != wanted {
            let detail = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(&Path::new("metadata").child(field), have, detail);
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", name, &[error]));
        }
    }
    Ok(())
}

fn check_uid(object: &Value, name: &str, account: &Standing) -> Result<(), ApiError> {
    let uid = object.at(&["metadata", "uid"]).and_then(Value::as_str).unwrap_or_default();
    if uid.is_empty() || uid == account.uid {
        return Ok(());
    }
    let why =
        format!("the UID in the token request ({uid}) does not match the UID of the service account ({})", account.uid);
    let about = About { group: "authentication.k8s.io", resource: "TokenRequest", name };
    Err(ApiError::conflict(about, &why))
}

fn check_lifetime(seconds: i64, least: i64) -> Result<(), ApiError> {
    let path = Path::new("spec").child("expirationSeconds");
    let detail = match seconds {
        _ if seconds < least => "may not specify a duration less than 10 minutes",
        _ if seconds > MAX_LIFETIME_SECS => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let error = FieldError::invalid(&path, seconds, detail);
    Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]))
}

/// Binds the token to the object that the request names: it holds only as long as that is there.
async fn bind(cx: &Context, reference: &Value, bound: &mut KubernetesClaims) -> Result<(), ApiError> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let namespace = cx.info.namespace.as_str();
    if group.is_empty() && matches!(kind, "Pod" | "Secret" | "Node") && name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let found = match (group, kind) {
        ("", "Pod") => existing(&cx.server, &cx.tenant, "pods", namespace, name).await?,
        ("", "Secret") => existing(&cx.server, &cx.tenant, "secrets", namespace, name).await?,
        ("", "Node") => existing(&cx.server, &cx.tenant, "nodes", "", name).await?,
        _ => {
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        }
    };
    if kind == "Pod" {
        let account = found.object.at(&["spec", "serviceAccountName"]).and_then(Value::as_str).unwrap_or_default();
        if account != cx.info.name {
            let message = format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                cx.info.name
            );
            return Err(ApiError::bad_request(message));
        }
        bound.node = node_of(cx, &found.object).await?;
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != found.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        );
        return Err(ApiError::conflict(About { group, resource: kind, name }, &why));
    }
    let object = Some(BoundObject { name: name.to_owned(), uid: found.uid });
    match kind {
        "Pod" => bound.pod = object,
        "Secret" => bound.secret = object,
        _ => bound.node = object,
    }
    Ok(())
}

/// The node that a pod runs on; its name alone where there is no such object.
async fn node_of(cx: &Context, pod: &Value) -> Result<Option<BoundObject>, ApiError> {
    let name = pod.at(&["spec", "nodeName"]).and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    match existing(&cx.server, &cx.tenant, "nodes", "", name).await {
        Ok(node) => Ok(Some(BoundObject { name: name.to_owned(), uid: node.uid })),
        Err(error) if error.code == 404 => Ok(Some(BoundObject { name: name.to_owned(), uid: String::new() })),
        Err(error) => Err(error),
    }
}

pub(super) fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
