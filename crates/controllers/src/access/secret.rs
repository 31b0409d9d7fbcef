//! The Secret that answers an AccessRequest: how it is written, and what is remembered of it. Tokens are
//! read, never kept.

use std::borrow::Cow;
use std::collections::BTreeMap;

use allotment_api::names::{ACCESS_REQUEST, ENDPOINT, LIVE_IN, OIDC_SCOPES, access_secret};
use allotment_api::requests::{AccessRequest, AccessType, OidcIssuer};
use allotment_core::access::{SecretFacts, TargetCluster};
use allotment_pki::{Claims, Kubeconfig, KubeconfigUser, sha256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::given::kubeconfig_fault;
use crate::frame::ObjectKey;
use crate::providers::Endpoint;

/// Type of a Secret whose content means nothing to the server.
const OPAQUE: &str = "Opaque";

/// What is known of the Secret of an AccessRequest.
#[derive(Clone, Debug)]
pub struct AccessSecret {
    metadata: ObjectMeta,
    request: ObjectKey,
    request_uid: String,
    opaque: bool,
    holds: Option<AccessType>,
    fault: Option<String>,
    issuer: Option<(String, String)>,
    claims: Option<TokenFacts>,
}

#[derive(Clone, Debug)]
struct TokenFacts {
    service_account_uid: String,
    issued_at: Timestamp,
    expires_at: Timestamp,
}

impl AccessSecret {
    /// What there is to know of `secret`.
    pub fn read(secret: &Secret) -> Self {
        let owner = secret.owner_references().iter().find(|owner| owner.kind == "AccessRequest");
        let text = |key: &str| {
            let bytes = secret.data.as_ref()?.get(key)?;
            std::str::from_utf8(&bytes.0).ok().filter(|text| !text.is_empty())
        };
        let token = text(access_secret::TOKEN);
        let issuer = text(access_secret::ISSUER).zip(text(access_secret::CLIENT_ID));
        let holds = text(access_secret::KUBECONFIG).and(match (token, issuer) {
            (Some(_), None) => Some(AccessType::Token),
            (None, Some(_)) => Some(AccessType::Oidc),
            (Some(_), Some(_)) | (None, None) => None,
        });
        let mut metadata = secret.metadata.clone();
        metadata.managed_fields = None;
        AccessSecret {
            metadata,
            request: ObjectKey::new(
                secret.namespace().unwrap_or_default(),
                owner.map(|owner| owner.name.clone()).unwrap_or_default(),
            ),
            request_uid: owner.map(|owner| owner.uid.clone()).unwrap_or_default(),
            opaque: is_opaque(secret),
            holds,
            fault: kubeconfig_fault(secret),
            issuer: issuer.map(|(issuer, client_id)| (issuer.to_owned(), client_id.to_owned())),
            claims: token.and_then(read_claims),
        }
    }

    /// The AccessRequest that it says it answers.
    pub fn request(&self) -> ObjectKey {
        self.request.clone()
    }

    /// The same as decisions read it, for the AccessRequest of that UID. A token that cannot be read is
    /// as good as one that has ended.
    pub fn facts(&self, request_uid: &str) -> SecretFacts {
        let claims = self.claims.clone().unwrap_or_else(|| TokenFacts {
            service_account_uid: String::new(),
            issued_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
        });
        SecretFacts {
            name: self.name_any(),
            uid: self.uid().unwrap_or_default(),
            owned: self.request_uid == request_uid,
            opaque: self.opaque,
            cluster_uid: self.annotations().get(LIVE_IN).cloned().unwrap_or_default(),
            holds: self.holds,
            endpoint: self.annotations().get(ENDPOINT).cloned().unwrap_or_default(),
            fault: self.fault.clone(),
            issuer: self.issuer.clone(),
            extra_scopes: self
                .annotations()
                .get(OIDC_SCOPES)
                .map(|scopes| scopes.split(' '))
                .into_iter()
                .flatten()
                .filter(|scope| !scope.is_empty())
                .map(str::to_owned)
                .collect(),
            service_account_uid: claims.service_account_uid,
            issued_at: claims.issued_at,
            expires_at: claims.expires_at,
        }
    }
}

fn read_claims(token: &str) -> Option<TokenFacts> {
    let payload = token.split('.').nth(1)?;
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    Some(TokenFacts {
        service_account_uid: claims.kubernetes.serviceaccount.uid,
        issued_at: Timestamp::from_second(claims.iat).ok()?,
        expires_at: Timestamp::from_second(claims.exp).ok()?,
    })
}

impl Resource for AccessSecret {
    type DynamicType = ();
    type Scope = <Secret as Resource>::Scope;

    fn kind(dt: &()) -> Cow<'_, str> {
        <Secret as Resource>::kind(dt)
    }

    fn group(dt: &()) -> Cow<'_, str> {
        <Secret as Resource>::group(dt)
    }

    fn version(dt: &()) -> Cow<'_, str> {
        <Secret as Resource>::version(dt)
    }

    fn plural(dt: &()) -> Cow<'_, str> {
        <Secret as Resource>::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A digest of where a Cluster is reached, and by what it is checked.
pub(super) fn digest(endpoint: &Endpoint) -> String {
    let Endpoint { server, certificate_authority, tls_server_name } = endpoint;
    let parts = [server.as_str(), certificate_authority, tls_server_name.as_deref().unwrap_or_default()];
    // No part has a NUL in it, so that none passes for the end of another.
    URL_SAFE_NO_PAD.encode(sha256(parts.join("\0").as_bytes()))
}

/// Whether only who has rights on a Secret writes into it.
pub(super) fn is_opaque(secret: &Secret) -> bool {
    secret.type_.as_deref().is_none_or(|type_| type_ == OPAQUE)
}

/// What an AccessRequest is answered with.
pub(super) enum Answer<'a> {
    /// A token, and when it ends.
    Token(&'a str, Timestamp),
    /// The issuer at which its user logs in.
    Issuer(&'a OidcIssuer),
}

/// A Secret of `request` that holds nothing yet.
pub(super) fn empty(request: &AccessRequest, name: &str, cluster: &TargetCluster) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: request.namespace(),
            labels: Some(BTreeMap::from([(ACCESS_REQUEST.to_owned(), request.uid().unwrap_or_default())])),
            annotations: Some(BTreeMap::from([(LIVE_IN.to_owned(), cluster.uid.clone())])),
            owner_references: request.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(OPAQUE.to_owned()),
        ..Secret::default()
    }
}

/// The Secret that answers `request`.
pub(super) fn render(
    request: &AccessRequest,
    name: &str,
    cluster: &TargetCluster,
    endpoint: &Endpoint,
    answer: &Answer<'_>,
) -> Secret {
    let kubeconfig = Kubeconfig {
        name: format!("{}-{}", request.namespace().unwrap_or_default(), request.name_any()),
        server: endpoint.server.clone(),
        ca_pem: Some(endpoint.certificate_authority.clone()),
        tls_server_name: endpoint.tls_server_name.clone(),
        namespace: sole_namespace(request),
        user: match answer {
            Answer::Token(token, _) => KubeconfigUser::Token((*token).to_owned().into()),
            Answer::Issuer(issuer) => KubeconfigUser::oidc(&issuer.issuer, &issuer.client_id, &issuer.extra_scopes),
        },
    };
    let kubeconfig = kubeconfig.to_yaml();
    let mut entries: Vec<(&str, &str)> = vec![
        (access_secret::KUBECONFIG, &kubeconfig),
        (access_secret::HOST, &endpoint.server),
        (access_secret::CA_CRT, &endpoint.certificate_authority),
    ];
    let ends;
    match answer {
        Answer::Token(token, expires) => {
            ends = expires.to_string();
            entries.extend([(access_secret::TOKEN, *token), (access_secret::EXPIRATION, &ends)]);
        }
        Answer::Issuer(issuer) => {
            let OidcIssuer { issuer, client_id, .. } = issuer;
            entries.extend([(access_secret::ISSUER, issuer.as_str()), (access_secret::CLIENT_ID, client_id)]);
        }
    }
    let data = entries.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    let mut secret = Secret { data: Some(data.collect()), ..empty(request, name, cluster) };
    secret.annotations_mut().insert(ENDPOINT.to_owned(), digest(endpoint));
    if let Answer::Issuer(issuer) = answer {
        // Though there are none: what was noted before is replaced.
        secret.annotations_mut().insert(OIDC_SCOPES.to_owned(), issuer.extra_scopes.join(" "));
    }
    secret
}

/// Where all permissions are in one namespace, it is that of the kubeconfig's context.
fn sole_namespace(request: &AccessRequest) -> Option<String> {
    let (first, rest) = request.spec.permissions.split_first()?;
    let same = rest.iter().all(|permission| permission.namespace == first.namespace);
    first.namespace.clone().filter(|_| same)
}
