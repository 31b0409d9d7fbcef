//! Whether an AccessRequest is to be granted, on what Cluster, and if not, why.

use allotment_api::names;
use allotment_api::reasons::{AccessReason, ConditionType};
use allotment_api::requests::{
    AccessPolicy, AccessRequest, CeilingRule, CeilingScope, Cluster, ClusterCeiling, ObjectRef, Permission,
};
use allotment_machinery::duration::Duration;
use allotment_machinery::rbac::{PolicyRule, uncovered};
use k8s_openapi::api::rbac::v1::PolicyRule as ApiRule;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::means::{Means, means};
use super::plan::TargetCluster;
use crate::requests::{Snapshot, note_seen, owns, selects, tenant_of};
use crate::write::{ObjectKey, Write};

/// A request that may be granted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allowed {
    /// The Cluster.
    pub(crate) target: TargetCluster,
    /// Whether the Cluster is the requester's own: then any namespace may be made in it.
    pub(crate) dedicated: bool,
    /// The tenant's prefix: namespaces that begin with it may be made. Empty for none.
    pub(crate) prefix: String,
    /// Who makes the identity, and what it is.
    pub(crate) means: Means,
    /// What is to be done before anything is given by the prefix, if it was not done yet.
    pub(crate) unseen: Option<Unseen>,
}

/// A prefix of which nobody knows yet whether names in the Cluster begin with it that are not the tenant's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unseen {
    /// The prefix.
    pub(crate) prefix: String,
    /// UID of the ClusterRequest.
    pub(crate) tenant: String,
    /// Notes that none does.
    pub(crate) note: Write,
}

/// A request that may not, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: AccessReason,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(reason: AccessReason, message: impl Into<String>) -> Self {
        Refused { reason, message: message.into() }
    }
}

/// What an AccessRequest refers to.
enum Reference {
    Cluster(ObjectKey),
    Request(ObjectKey),
}

/// Judges an AccessRequest by everything but the inside of the Cluster.
pub(crate) fn judge(snapshot: &Snapshot, request: &AccessRequest, now: Timestamp) -> Result<Allowed, Refused> {
    if let Some(refused) = expired(request, now) {
        return Err(refused);
    }
    let reference = reference(request)?;
    allowed_from_elsewhere(snapshot, request, &reference)?;
    let (key, cluster, prefix) = match &reference {
        Reference::Cluster(key) => {
            let missing = || Refused::new(AccessReason::ClusterNotFound, format!("there is no Cluster {key}"));
            (key.clone(), snapshot.cluster(key).ok_or_else(missing)?, String::new())
        }
        Reference::Request(key) => bound(snapshot, key)?,
    };
    let uid = cluster.metadata.uid.clone().unwrap_or_default();
    check_ceilings(snapshot, request, cluster, &prefix)?;
    let lives_there = annotation(request, names::LIVE_IN) == Some(uid.as_str());
    let means = means(snapshot, request, cluster, &prefix, lives_there)?;
    if !lives_there {
        check_usable(&key, cluster)?;
    }
    let dedicated = cluster.spec.dedicated == Some(true);
    let tenant = match &reference {
        Reference::Request(request) => snapshot.request(request).and_then(|request| request.metadata.uid.as_deref()),
        Reference::Cluster(_) => None,
    };
    let unseen = tenant.and_then(|tenant| {
        let note = note_seen(cluster, tenant)?;
        Some(Unseen { prefix: prefix.clone(), tenant: tenant.to_owned(), note })
    });
    Ok(Allowed { target: TargetCluster { key, uid }, dedicated, prefix, means, unseen })
}

pub(crate) fn annotation<'a>(request: &'a AccessRequest, key: &str) -> Option<&'a str> {
    request.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// When the access ends for good, where it has a `ttl` and was granted.
pub(crate) fn ttl_end(request: &AccessRequest) -> Option<Timestamp> {
    let ttl: Duration = request.spec.ttl.as_deref()?.parse().ok()?;
    let granted: Timestamp = annotation(request, names::GRANTED_AT)?.parse().ok()?;
    Some(granted.saturating_add(SignedDuration::from_nanos(ttl.as_nanos())).unwrap_or(Timestamp::MAX))
}

fn expired(request: &AccessRequest, now: Timestamp) -> Option<Refused> {
    let generation = request.metadata.generation.map(|generation| generation.to_string());
    let noted = generation.is_some() && annotation(request, names::EXPIRED) == generation.as_deref();
    let over = ttl_end(request).is_some_and(|end| end <= now);
    let ttl = request.spec.ttl.as_deref().unwrap_or_default();
    let message = format!("spec.ttl of {ttl} ran out; change the spec to be granted anew");
    (noted || over).then(|| Refused::new(AccessReason::Expired, message))
}

fn reference(request: &AccessRequest) -> Result<Reference, Refused> {
    let own = request.metadata.namespace.clone().unwrap_or_default();
    let key = |reference: &ObjectRef| {
        ObjectKey::new(reference.namespace.clone().unwrap_or_else(|| own.clone()), reference.name.clone())
    };
    match (&request.spec.cluster_ref, &request.spec.request_ref) {
        (Some(cluster), None) => Ok(Reference::Cluster(key(cluster))),
        (None, Some(request)) => Ok(Reference::Request(key(request))),
        _ => Err(Refused::new(AccessReason::NotAllowed, "exactly one of clusterRef and requestRef has to be set")),
    }
}

/// From another namespace only what AccessPolicies beside the target cover, whether it exists or not.
fn allowed_from_elsewhere(snapshot: &Snapshot, request: &AccessRequest, reference: &Reference) -> Result<(), Refused> {
    let own = request.metadata.namespace.as_deref().unwrap_or_default();
    let target = match reference {
        Reference::Cluster(key) | Reference::Request(key) => key,
    };
    if target.namespace == own {
        return Ok(());
    }
    let policies: Vec<&AccessPolicy> = snapshot
        .policies
        .range(ObjectKey::new(target.namespace.clone(), "")..)
        .take_while(|(key, _)| key.namespace == target.namespace)
        .map(|(_, policy)| policy.as_ref())
        .filter(|policy| opens(snapshot, policy, own, &target.name))
        .collect();
    for permission in &request.spec.permissions {
        let here = |opened: &&Permission| opened.namespace.is_none() || opened.namespace == permission.namespace;
        let opened = policies.iter().flat_map(|policy| &policy.spec.permissions).filter(here);
        let held: Vec<PolicyRule> = opened.flat_map(|opened| opened.rules.iter().map(rule)).collect();
        if let Some(missing) = first_uncovered(&held, permission) {
            let message = format!("no AccessPolicy in namespace {:?} lets {own:?} have {missing}", target.namespace);
            return Err(Refused::new(AccessReason::NotAllowed, message));
        }
    }
    match policies.is_empty() {
        true => {
            let message = format!("no AccessPolicy in namespace {:?} lets {own:?} in", target.namespace);
            Err(Refused::new(AccessReason::NotAllowed, message))
        }
        false => Ok(()),
    }
}

fn opens(snapshot: &Snapshot, policy: &AccessPolicy, namespace: &str, name: &str) -> bool {
    let named = policy.spec.names.as_ref().is_none_or(|names| names.iter().any(|opened| opened == name));
    named
        && policy.spec.from.iter().any(|peer| match (&peer.namespace, &peer.namespace_selector) {
            (Some(one), None) => one == namespace,
            (None, Some(selector)) => {
                snapshot.namespaces.get(namespace).is_some_and(|labels| selects(selector, labels))
            }
            _ => false,
        })
}

/// The Cluster of a ClusterRequest, and the tenant's prefix. The Grant alone proves nothing: the
/// request's UID has to stand in the Cluster's `spec.tenants`.
fn bound<'a>(snapshot: &'a Snapshot, key: &ObjectKey) -> Result<(ObjectKey, &'a Cluster, String), Refused> {
    let request = snapshot.request(key).filter(|request| request.metadata.deletion_timestamp.is_none());
    let Some(request) = request else {
        return Err(Refused::new(AccessReason::RequestNotFound, format!("there is no ClusterRequest {key}")));
    };
    let not_granted = || Refused::new(AccessReason::RequestNotGranted, format!("ClusterRequest {key} is not granted"));
    let uid = request.metadata.uid.as_deref().unwrap_or_default();
    let grant = snapshot.grant(key).filter(|grant| grant.spec.request_uid == uid).ok_or_else(not_granted)?;
    let reference = &grant.spec.cluster_ref;
    let cluster_key = ObjectKey::new(reference.namespace.clone(), reference.name.clone());
    let there = snapshot.cluster(&cluster_key);
    let Some(cluster) = there.filter(|cluster| cluster.metadata.uid.as_deref() == Some(reference.uid.as_str())) else {
        let message = format!("Cluster {cluster_key} of ClusterRequest {key} is gone");
        return Err(Refused::new(AccessReason::ClusterLost, message));
    };
    let tenant = tenant_of(cluster, uid).ok_or_else(not_granted)?;
    Ok((cluster_key, cluster, tenant.prefix.clone()))
}

/// Every Purpose's ceiling covers every rule. Purposes that exist are asked themselves; the Cluster's
/// copy stands in for those that do not any more.
fn check_ceilings(
    snapshot: &Snapshot,
    request: &AccessRequest,
    cluster: &Cluster,
    prefix: &str,
) -> Result<(), Refused> {
    let dedicated = cluster.spec.dedicated == Some(true);
    for ClusterCeiling { purpose, rules } in ceilings_of(snapshot, cluster) {
        for permission in &request.spec.permissions {
            let prefixed = match &permission.namespace {
                _ if dedicated => true,
                Some(namespace) => owns(prefix, namespace),
                None => false,
            };
            let counts = |ceiling: &&CeilingRule| match ceiling.scope.unwrap_or_default() {
                CeilingScope::Any => true,
                CeilingScope::PrefixedNamespaces => prefixed,
            };
            let held: Vec<PolicyRule> = rules.iter().filter(counts).map(ceiling_rule).collect();
            if let Some(missing) = first_uncovered(&held, permission) {
                let place = match &permission.namespace {
                    Some(namespace) => format!("in namespace {namespace:?}"),
                    None => "in the whole cluster".to_owned(),
                };
                let message = format!("the ceiling of Purpose {purpose:?} does not include {missing} {place}");
                return Err(Refused::new(AccessReason::ExceedsCeiling, message));
            }
        }
    }
    Ok(())
}

pub(crate) fn ceilings_of(snapshot: &Snapshot, cluster: &Cluster) -> Vec<ClusterCeiling> {
    crate::requests::ceilings(snapshot, &cluster.spec.purposes, &cluster.spec.ceilings)
}

/// Whether a first access may begin; one that lives already is kept through bad health.
fn check_usable(key: &ObjectKey, cluster: &Cluster) -> Result<(), Refused> {
    let refused = |message: String| Err(Refused::new(AccessReason::ClusterNotReady, message));
    if cluster.metadata.deletion_timestamp.is_some() {
        return refused(format!("Cluster {key} is being deleted"));
    }
    let draining = cluster.metadata.annotations.iter().flatten().any(|(name, _)| name == names::DRAINING);
    if draining {
        return refused(format!("Cluster {key} is about to be deleted, since nobody used it"));
    }
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let healthy = crate::requests::find_condition(conditions, ConditionType::ClusterHealthy);
    match healthy.is_some_and(|condition| condition.status == "True") {
        true => Ok(()),
        false => refused(format!("Cluster {key} is not ready yet")),
    }
}

fn first_uncovered(held: &[PolicyRule], permission: &Permission) -> Option<PolicyRule> {
    let wanted: Vec<PolicyRule> = permission.rules.iter().map(rule).collect();
    uncovered(held, &wanted).into_iter().next()
}

/// A rule as the API has it, as the algebra takes it.
pub(crate) fn rule(rule: &ApiRule) -> PolicyRule {
    PolicyRule {
        verbs: rule.verbs.clone(),
        api_groups: rule.api_groups.clone().unwrap_or_default(),
        resources: rule.resources.clone().unwrap_or_default(),
        resource_names: rule.resource_names.clone().unwrap_or_default(),
        non_resource_urls: rule.non_resource_urls.clone().unwrap_or_default(),
    }
}

/// The same the other way.
pub(crate) fn as_written(rule: &PolicyRule) -> ApiRule {
    let list = |items: &[String]| (!items.is_empty()).then(|| items.to_vec());
    ApiRule {
        verbs: rule.verbs.clone(),
        api_groups: list(&rule.api_groups),
        resources: list(&rule.resources),
        resource_names: list(&rule.resource_names),
        non_resource_urls: list(&rule.non_resource_urls),
    }
}

fn ceiling_rule(rule: &CeilingRule) -> PolicyRule {
    PolicyRule {
        verbs: rule.verbs.clone(),
        api_groups: rule.api_groups.clone(),
        resources: rule.resources.clone(),
        resource_names: rule.resource_names.clone(),
        non_resource_urls: rule.non_resource_urls.clone(),
    }
}
