//! The judge: sees every write as it happens and says which invariants it breaks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allotment_api::names;
use allotment_api::reasons::Verdict;
use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest, ClusterRequestGrant, Purpose};
use allotment_machinery::rbac::{PolicyRule, uncovered};
use allotment_machinery::seams::Clock;
use allotment_store::{Event, EventKind, Observer, Seen};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use serde_json::Value;

use crate::known::{Change, Known, change};
use crate::trace::Trace;

/// How old the picture may be that a decision was made on: watches are late, calls fail and are made
/// again. What no compare-and-swap guards counts as broken only after this.
pub(crate) const SETTLED: SignedDuration = SignedDuration::from_secs(30);
/// Writes of a run that is not over by then: good ones take some hundred.
const MOST_WRITES: u64 = 5_000;
/// Annotation of Grants that the workload forges.
pub(crate) const FORGED: &str = "simulation/forged";

/// What came out so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) known: Known,
    pub(crate) trace: Trace,
    pub(crate) violations: Vec<String>,
    /// Writes so far, and when the last one was.
    pub(crate) writes: u64,
    pub(crate) last_write: Option<Timestamp>,
}

/// Sees every write.
#[derive(Debug)]
pub(crate) struct Judge {
    clock: Arc<dyn Clock>,
    findings: Mutex<Findings>,
}

impl Judge {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Judge { clock, findings: Mutex::default() }
    }

    /// A look at what came out so far. Never held across an await.
    pub(crate) fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Judge {
    fn seen(&self, seen: Seen<'_>) {
        let now = self.clock.now();
        let mut findings = self.findings();
        findings.writes += 1;
        findings.last_write = Some(now);
        if findings.writes > MOST_WRITES {
            if findings.writes == MOST_WRITES + 1 {
                let last: Vec<_> = findings.trace.lines.iter().rev().take(8).cloned().collect();
                findings.violations.push(format!("more writes than any run needs, the last of them {last:#?}"));
            }
            return;
        }
        findings.trace.note(seen);
        match seen {
            Seen::Object(event) => {
                let mut broken = Vec::new();
                judge(&mut findings.known, event, now, &mut broken);
                findings
                    .violations
                    .extend(broken.into_iter().map(|text| format!("at revision {}: {text}", event.revision)));
            }
            Seen::Dropped { tenant, .. } => findings.known.dropped(tenant.as_str()),
            Seen::Instantiated { .. } => {}
        }
    }
}

fn judge(known: &mut Known, event: &Event, now: Timestamp, broken: &mut Vec<String>) {
    if !event.tenant.is_platform() {
        if let Some(object) = known.learn_inside(event) {
            check_inside(known, event, &object, broken);
        }
        return;
    }
    check_credentials(event, broken);
    let resource = event.entry.resource.as_str();
    let outcome =
        match resource {
            "clusters.cluster.openmcp.cloud" => {
                change::<Cluster>(&mut known.clusters, event).map(|change| judge_cluster(known, &change, now, broken))
            }
            "clusterrequests.cluster.openmcp.cloud" => {
                change::<ClusterRequest>(&mut known.requests, event).map(|change| judge_request(known, &change, broken))
            }
            "clusterrequestgrants.cluster.openmcp.cloud" => change::<ClusterRequestGrant>(&mut known.grants, event)
                .map(|change| judge_grant(known, &change, broken)),
            "accessrequests.cluster.openmcp.cloud" => change::<AccessRequest>(&mut known.access, event)
                .map(|change| judge_access(known, &change, now, broken)),
            "purposes.cluster.openmcp.cloud" => {
                change::<Purpose>(&mut known.purposes, event).map(|change| learn_purpose(known, &change, now))
            }
            "secrets" => change::<Secret>(&mut known.secrets, event).map(drop),
            "namespaces" => change::<Namespace>(&mut known.namespaces, event).map(drop),
            _ => known.shelf.learn(event, now, broken),
        };
    broken.extend(outcome.err());
}

fn learn_purpose(known: &mut Known, change: &Change<Purpose>, now: Timestamp) {
    let limit = change.after.as_ref().and_then(|purpose| purpose.spec.max_tenants);
    known.limits.entry(change.key.name.clone()).or_default().push((now, limit));
}

/// The most tenants that a Purpose allowed lately; `None` where it allowed any number.
fn most_tenants(known: &Known, purpose: &str, now: Timestamp) -> Option<i32> {
    let history = known.limits.get(purpose)?;
    let mut most = Some(0);
    for (at, (_, limit)) in history.iter().enumerate() {
        let ended = history.get(at + 1).is_some_and(|(next, _)| now.duration_since(*next) > SETTLED);
        if !ended {
            most = most.zip(*limit).map(|(most, limit)| most.max(limit));
        }
    }
    most
}

fn uid_of(metadata: &kube::api::ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

fn judge_cluster(known: &mut Known, change: &Change<Cluster>, now: Timestamp, broken: &mut Vec<String>) {
    let key = &change.key;
    let Some(after) = &change.after else {
        if let Some(before) = &change.before {
            judge_cluster_gone(known, change, before, now, broken);
        }
        return;
    };
    let uid = uid_of(&after.metadata).to_owned();
    let before = change.before.as_ref().map(|before| before.spec.tenants.as_slice()).unwrap_or_default();
    let spare = after.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(names::SPARE));
    if spare && !after.spec.tenants.is_empty() {
        broken.push(format!("Cluster {key} is called a spare, and has tenants"));
    }
    for old in before {
        // A request that lost its place may come back under another prefix: a record is both.
        let same = |tenant: &&allotment_api::requests::Tenant| {
            tenant.request_uid == old.request_uid && tenant.prefix == old.prefix
        };
        match after.spec.tenants.iter().find(same) {
            // A quarantine ends when nothing in a shared Cluster begins with the prefix any more.
            None if old.released && after.spec.dedicated == Some(false) && !known.begins_with(&uid, &old.prefix) => {}
            None => {
                let (namespace, name, prefix) = (&old.namespace, &old.name, &old.prefix);
                broken.push(format!("Cluster {key} lost the record of {namespace}/{name}, prefix {prefix:?}"));
            }
            Some(new) if old.released && !new.released => {
                broken.push(format!("Cluster {key}: the released room of {} came back", old.request_uid));
            }
            Some(new) if new.released && !old.released => check_release(known, change, old, broken),
            Some(_) => {}
        }
    }
    let mut newcomers = false;
    for tenant in &after.spec.tenants {
        newcomers |= before.iter().all(|old| old.request_uid != tenant.request_uid);
        known.tenancies.insert((uid.clone(), tenant.request_uid.clone()));
    }
    if after.spec.dedicated == Some(true) && known.tenancies.iter().filter(|(cluster, _)| *cluster == uid).count() > 1 {
        broken.push(format!("dedicated Cluster {key} had more than one tenant"));
    }
    if after.spec.dedicated == Some(false) {
        let mut prefixes: Vec<&str> = after.spec.tenants.iter().map(|tenant| tenant.prefix.as_str()).collect();
        prefixes.sort_unstable();
        let clash = |pair: &[&str]| pair[1].starts_with(pair[0]);
        if prefixes.windows(2).any(clash) || prefixes.contains(&"") {
            broken.push(format!("Cluster {key}: prefixes {prefixes:?} are not free of each other"));
        }
    }
    if newcomers {
        let live = after.spec.tenants.iter().filter(|tenant| !tenant.released).count();
        let limits = after.spec.purposes.iter().filter_map(|purpose| most_tenants(known, purpose, now));
        if let Some(most) = limits.min().filter(|most| live > *most as usize) {
            broken.push(format!("Cluster {key} has {live} tenants, and room for {most}"));
        }
        if after.metadata.deletion_timestamp.is_some() {
            broken.push(format!("Cluster {key} took a tenant while it was being deleted"));
        }
    }
}

/// Room is given back only by a request that goes, or that has its Grant elsewhere.
fn check_release(
    known: &Known,
    change: &Change<Cluster>,
    tenant: &allotment_api::requests::Tenant,
    broken: &mut Vec<String>,
) {
    let key = allotment_core::write::ObjectKey::new(&tenant.namespace, &tenant.name);
    let lives = known.requests.get(&key).is_some_and(|request| {
        uid_of(&request.metadata) == tenant.request_uid && request.metadata.deletion_timestamp.is_none()
    });
    let elsewhere = known.grants.get(&key).is_some_and(|grant| {
        let home = change.after.as_ref().map(|cluster| uid_of(&cluster.metadata));
        grant.spec.request_uid == tenant.request_uid && Some(grant.spec.cluster_ref.uid.as_str()) != home
    });
    if lives && !elsewhere {
        broken.push(format!("Cluster {} took the room of ClusterRequest {key} away, which lives", change.key));
    }
}

fn judge_cluster_gone(
    known: &Known,
    change: &Change<Cluster>,
    before: &Cluster,
    now: Timestamp,
    broken: &mut Vec<String>,
) {
    let key = &change.key;
    let forced = before.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(names::FORCE_DELETE));
    if forced {
        return;
    }
    if let Some(tenant) = before.spec.tenants.iter().find(|tenant| !tenant.released) {
        broken.push(format!("Cluster {key} is gone although {}/{} has room there", tenant.namespace, tenant.name));
    }
    let uid = uid_of(&before.metadata);
    for (access_uid, (cluster, since)) in &known.granted_since {
        if cluster == uid && now.duration_since(*since) > SETTLED {
            broken.push(format!("Cluster {key} is gone although the access of {access_uid} lives there"));
        }
    }
}

fn judge_request(known: &Known, change: &Change<ClusterRequest>, broken: &mut Vec<String>) {
    let (key, Some(after)) = (&change.key, &change.after) else { return };
    let Some(status) = &after.status else { return };
    let before = change.before.as_ref().and_then(|before| before.status.as_ref());
    check_reason("ClusterRequest", key, status.status, &status.reason, broken);
    let said =
        status.status == Some(Verdict::Granted) && before.is_none_or(|before| before.status != Some(Verdict::Granted));
    if !said {
        return;
    }
    let uid = uid_of(&after.metadata);
    match known.grants.get(key).filter(|grant| grant.spec.request_uid == uid) {
        None => broken.push(format!("ClusterRequest {key} is said to be Granted, and has no Grant")),
        Some(grant) => {
            let home = (grant.spec.cluster_ref.uid.clone(), uid.to_owned());
            if !known.tenancies.contains(&home) {
                broken.push(format!("ClusterRequest {key} is Granted by a Grant of a Cluster that it has no room on"));
            }
        }
    }
}

fn check_reason(
    kind: &str,
    key: &allotment_core::write::ObjectKey,
    verdict: Option<Verdict>,
    reason: &str,
    broken: &mut Vec<String>,
) {
    let machine = reason.starts_with(|first: char| first.is_ascii_uppercase())
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if verdict.is_some() && !machine {
        broken.push(format!("{kind} {key} is {verdict:?} for no reason that a machine reads: {reason:?}"));
    }
}

fn judge_grant(known: &mut Known, change: &Change<ClusterRequestGrant>, broken: &mut Vec<String>) {
    let Some(after) = &change.after else { return };
    if after.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(FORGED)) {
        known.forged.insert(uid_of(&after.metadata).to_owned());
    }
    if let Some(before) = &change.before
        && (before.spec != after.spec || before.metadata.uid != after.metadata.uid)
    {
        broken.push(format!("ClusterRequestGrant {} was replaced by another", change.key));
    }
}

fn judge_access(known: &mut Known, change: &Change<AccessRequest>, now: Timestamp, broken: &mut Vec<String>) {
    let key = &change.key;
    let Some(after) = &change.after else {
        if let Some(before) = &change.before {
            judge_access_gone(known, key, before, broken);
            known.granted_since.remove(uid_of(&before.metadata));
        }
        return;
    };
    let uid = uid_of(&after.metadata).to_owned();
    let asked = known.asked.entry(uid.clone()).or_default();
    for permission in &after.spec.permissions {
        if !asked.contains(permission) {
            asked.push(permission.clone());
        }
    }
    let Some(status) = &after.status else {
        known.granted_since.remove(&uid);
        return;
    };
    check_reason("AccessRequest", key, status.status, &status.reason, broken);
    let Some(info) = status.access.as_ref().filter(|_| status.status == Some(Verdict::Granted)) else {
        known.granted_since.remove(&uid);
        return;
    };
    if known.granted_since.get(&uid).is_some_and(|(cluster, _)| *cluster == info.cluster_uid) {
        return;
    }
    known.granted_since.insert(uid, (info.cluster_uid.clone(), now));
    let secret = allotment_core::write::ObjectKey::new(&key.namespace, &info.secret_ref.name);
    if !known.secrets.contains_key(&secret) {
        broken.push(format!("AccessRequest {key} is said to be Granted, and has no Secret"));
    }
    if let Some(reference) = &after.spec.request_ref {
        let namespace = reference.namespace.clone().unwrap_or_else(|| key.namespace.clone());
        let request = allotment_core::write::ObjectKey::new(namespace, &reference.name);
        let bound = |request: &ClusterRequest| {
            known.tenancies.contains(&(info.cluster_uid.clone(), uid_of(&request.metadata).to_owned()))
        };
        if known.requests.get(&request).is_some_and(|request| !bound(request)) {
            broken.push(format!("AccessRequest {key} is Granted on a Cluster that {request} never had room on"));
        }
    }
}

/// Who deletes an access has it taken away before it is gone, or finds in the Cluster's status what may remain.
fn judge_access_gone(
    known: &Known,
    key: &allotment_core::write::ObjectKey,
    before: &AccessRequest,
    broken: &mut Vec<String>,
) {
    let name = format!("access-{}", uid_of(&before.metadata));
    let remains = known.inside.keys().any(|place| place.resource == "serviceaccounts" && place.key.name == name);
    let listed = known.clusters.values().flat_map(|cluster| cluster.status.iter().flat_map(|status| &status.leftovers));
    let forced = before.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(names::FORCE_DELETE));
    if remains && !forced && !listed.into_iter().any(|left| left.uid == uid_of(&before.metadata)) {
        broken.push(format!("AccessRequest {key} is gone, and its identity inside the Cluster is not"));
    }
}

/// What is made inside a Cluster is no more than what was asked for.
fn check_inside(known: &Known, event: &Event, object: &Value, broken: &mut Vec<String>) {
    let Some(uid) = event.entry.name.strip_prefix("access-") else { return };
    let (resource, namespace) = (event.entry.resource.as_str(), &*event.entry.namespace);
    let place = format!("{resource} {namespace}/{} inside {}", event.entry.name, event.tenant.as_str());
    if resource.starts_with("roles.") || resource.starts_with("clusterroles.") {
        let asked = known.asked.get(uid).map(Vec::as_slice).unwrap_or_default();
        let here = asked.iter().filter(|permission| permission.namespace.as_deref().unwrap_or_default() == namespace);
        let held: Vec<PolicyRule> = here.flat_map(|permission| &permission.rules).map(rule).collect();
        let given: Vec<k8s_openapi::api::rbac::v1::PolicyRule> =
            serde_json::from_value(object["rules"].clone()).unwrap_or_default();
        let given: Vec<PolicyRule> = given.iter().map(rule).collect();
        if !uncovered(&held, &given).is_empty() {
            broken.push(format!("{place} gives more than was asked for"));
        }
    }
    if resource.contains("bindings.") && event.kind != EventKind::Deleted {
        let subjects = object["subjects"].as_array().cloned().unwrap_or_default();
        let own = |subject: &Value| {
            subject["kind"] == "ServiceAccount"
                && subject["name"] == *event.entry.name
                && subject["namespace"] == names::ACCESS_NAMESPACE
        };
        if !subjects.iter().all(own) || object["roleRef"]["name"] != *event.entry.name {
            broken.push(format!("{place} binds somebody else, or something else"));
        }
    }
}

fn rule(rule: &k8s_openapi::api::rbac::v1::PolicyRule) -> PolicyRule {
    PolicyRule {
        api_groups: rule.api_groups.clone().unwrap_or_default(),
        resources: rule.resources.clone().unwrap_or_default(),
        resource_names: rule.resource_names.clone().unwrap_or_default(),
        non_resource_urls: rule.non_resource_urls.clone().unwrap_or_default(),
        verbs: rule.verbs.clone(),
    }
}

/// What is or can mint admin lies in one namespace: nothing else holds a private key.
fn check_credentials(event: &Event, broken: &mut Vec<String>) {
    // "PRIVATE KEY" as it stands in PEM, and in base64 at each of its three alignments.
    const SIGNS: [&str; 6] =
        ["PRIVATE KEY", "UFJJVkFURSBLRV", "BSSVZBVEUgS0VZ", "QUklWQVRFIEtFW", "\"ca.key\"", "\"sa.key\""];
    let entry = &event.entry;
    if entry.resource.as_str() == "secrets" && &*entry.namespace == names::PLANES_NAMESPACE {
        return;
    }
    let body = entry.body();
    let text = std::str::from_utf8(&body).unwrap_or_default();
    if SIGNS.iter().any(|sign| text.contains(sign)) {
        let resource = entry.resource.as_str();
        broken.push(format!("{resource} {}/{} holds a private key", entry.namespace, entry.name));
    }
}
