//! By what means an AccessRequest is fulfilled: who makes the identity, and what it is.
//!
//! The profile of the Cluster says so while it is published; after that, whoever has access keeps it by the same means.

use allotment_api::names;
use allotment_api::reasons::AccessReason;
use allotment_api::requests::{AccessBy, AccessRequest, AccessType, Cluster, OidcIssuer, Profile};

use super::judge::Refused;
use crate::requests::Snapshot;

/// Longest value of a label, which has to hold the name of the ClusterProvider.
const MOST_LABEL_BYTES: usize = 63;
/// Users of the API servers themselves; no issuer's user may be taken for one.
const SYSTEM_USERS: &str = "system:";

/// By what means an AccessRequest is fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// The platform makes a ServiceAccount and tokens.
    Token,
    /// The platform gives rights to a user of an issuer.
    Oidc(OidcUser),
    /// The user of an issuer keeps what the platform made, as far as it is asked for: the profile that names the issuer is not
    /// published.
    OidcAsItIs,
    /// The provider of this name makes everything.
    Provider(String),
}

/// A user of an issuer, as a cluster names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OidcUser {
    /// The user's name in the cluster.
    pub(crate) name: String,
    /// The issuer.
    pub(crate) issuer: OidcIssuer,
}

/// The ClusterProvider that the platform asked to fulfil an AccessRequest.
pub(crate) fn provider_asked(request: &AccessRequest) -> Option<&str> {
    request.metadata.labels.as_ref()?.get(names::ACCESS_BY).map(String::as_str)
}

/// Whether the provider of a Cluster makes the access to it, as far as its profile is published: the platform has no
/// admin access there.
pub fn is_accessed_by_provider(snapshot: &Snapshot, cluster: &Cluster) -> bool {
    snapshot.profile_of(cluster).is_some_and(|entry| entry.profile.access_by == Some(AccessBy::Provider))
}

/// By what means the type of access that is asked for can be had on that Cluster.
pub(crate) fn means(
    snapshot: &Snapshot,
    request: &AccessRequest,
    cluster: &Cluster,
    prefix: &str,
    lives_there: bool,
) -> Result<Means, Refused> {
    let wanted = request.spec.type_.unwrap_or_default();
    let Some(entry) = snapshot.profile_of(cluster) else {
        return match (provider_asked(request), wanted) {
            (Some(provider), _) if lives_there => Ok(Means::Provider(provider.to_owned())),
            (_, AccessType::Token) => Ok(Means::Token),
            (_, AccessType::Oidc) if lives_there => Ok(Means::OidcAsItIs),
            (_, AccessType::Oidc) => Err(unsupported(wanted, "the Cluster's profile is not published at the moment")),
        };
    };
    let profile = &entry.profile;
    if !supports(profile, wanted) {
        let types = supported(profile).map(AccessType::as_str).collect::<Vec<_>>().join(", ");
        let why = format!("profile {:?} of the Cluster supports {types}", profile.name);
        return Err(unsupported(wanted, &why));
    }
    match (profile.access_by.unwrap_or_default(), wanted) {
        (AccessBy::Provider, _) => by_provider(&cluster.spec.cluster_provider_ref.name),
        (AccessBy::Platform, AccessType::Token) => Ok(Means::Token),
        (AccessBy::Platform, AccessType::Oidc) => by_issuer(request, profile, prefix).map(Means::Oidc),
    }
}

/// `Token` alone where a profile says nothing.
fn supported(profile: &Profile) -> impl Iterator<Item = AccessType> + '_ {
    let unsaid = profile.access_types.is_empty().then_some(AccessType::Token);
    profile.access_types.iter().copied().chain(unsaid)
}

fn supports(profile: &Profile, wanted: AccessType) -> bool {
    supported(profile).any(|supported| supported == wanted)
}

fn by_provider(name: &str) -> Result<Means, Refused> {
    if name.len() > MOST_LABEL_BYTES {
        let message = format!(
            "ClusterProvider {name:?} makes identities itself and cannot be asked to: its name is longer than the \
             {MOST_LABEL_BYTES} characters of a label"
        );
        return Err(Refused::new(AccessReason::NoAdminAccess, message));
    }
    Ok(Means::Provider(name.to_owned()))
}

/// The issuer's user that an AccessRequest's creator is. Rights go to that one alone and to no group: whoever else
/// is in it asked for nothing.
fn by_issuer(request: &AccessRequest, profile: &Profile, prefix: &str) -> Result<OidcUser, Refused> {
    let refused = |why: &str| Err(unsupported(AccessType::Oidc, why));
    let Some(issuer) = &profile.oidc else {
        return refused(&format!("profile {:?} of the Cluster names no issuer", profile.name));
    };
    if !prefix.is_empty() {
        return refused(
            "on a shared Cluster only identities of its own keep a tenant to its prefix; ask for type Token",
        );
    }
    let username = request.spec.requested_by.as_ref().map_or("", |creator| creator.username.as_str());
    let Some(own) = username.strip_prefix(issuer.requester_prefix.as_str()).filter(|own| !own.is_empty()) else {
        return refused(&format!("{username:?}, who created the AccessRequest, is no user of {}", issuer.issuer));
    };
    let name = format!("{}{own}", issuer.username_prefix);
    if own.starts_with(SYSTEM_USERS) || name.starts_with(SYSTEM_USERS) {
        return refused(&format!(
            "{username:?}, who created the AccessRequest, is a user of the API server and none of {}; ask for type Token",
            issuer.issuer
        ));
    }
    Ok(OidcUser { name, issuer: issuer.clone() })
}

fn unsupported(wanted: AccessType, why: &str) -> Refused {
    let message = format!("access of type {} cannot be had: {why}", wanted.as_str());
    Refused::new(AccessReason::AccessTypeNotSupported, message)
}
