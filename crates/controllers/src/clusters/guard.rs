//! Keeps the rule of prefixes in force on shared Clusters whose API server is not of this process. What lies there for it
//! `core` says ([`allotment_core::access::guard`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_api::names::ACCESS_NAMESPACE;
use allotment_core::access::guard::{GUARD, MOST_ENTRIES, in_force, policy_objects, probe, table, table_object};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tracing::{info, warn};

use crate::frame::{Kept, ObjectKey, Seams, Whole, is_conflict, is_gone};
use crate::world::World;

const MANAGER: &str = "allot-prefixes";
/// How often it is looked whether all of it is still there and as it should be: whoever changes it does not tell.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long a server may take to judge by a policy or a table that it stores. Policies are compiled once a second.
const IN_FORCE_LIMIT: Duration = Duration::from_secs(5);
const IN_FORCE_LOOK: Duration = Duration::from_millis(20);
/// kube-apiserver ends its watch of a kind of parameters with the last policy that uses it, and begins none anew for kinds of
/// its own (`generic.policySource` of k8s.io/apiserver).
const STALE: &str = "it judges by an older table; where the policy was deleted before, it follows the new one only once it is restarted";
const GROUP_VERSION: &str = "admissionregistration.k8s.io/v1";

/// Why tenants are not kept to their prefixes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    /// The server is too old, or this was switched off.
    #[error(
        "its API server does not serve ValidatingAdmissionPolicies ({GROUP_VERSION}, Kubernetes 1.30 or newer), by which \
         tenants are kept to their prefixes; only dedicated Clusters can be given access to there"
    )]
    NotServed,
    /// There are too many identities.
    #[error("its table of prefixes would have {0} entries, at most {MOST_ENTRIES}: delete AccessRequests to it")]
    Full(usize),
    /// It stores them, and does not judge by them.
    #[error(
        "its API server does not refuse by ValidatingAdmissionPolicy {GUARD} within {limit} s: {0}",
        limit = IN_FORCE_LIMIT.as_secs()
    )]
    NotInForce(String),
    /// A call failed.
    #[error("what keeps tenants to their prefixes there cannot be put in force")]
    Api(#[from] kube::Error),
}

/// What was put in force in one Cluster.
#[derive(Clone, Debug)]
struct Asserted {
    table: BTreeMap<String, String>,
    at: Timestamp,
}

/// When to look at a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nobody is to be kept apart there.
    Never,
    /// At once.
    Now,
    /// After that time.
    After(Duration),
}

type OfCluster = Arc<tokio::sync::Mutex<Option<Asserted>>>;

/// What is in force in which Cluster.
pub(crate) struct Guards {
    world: Arc<World>,
    seams: Seams,
    clusters: Mutex<BTreeMap<String, OfCluster>>,
}

impl Guards {
    pub(crate) fn new(world: Arc<World>, seams: Seams) -> Self {
        Guards { world, seams, clusters: Mutex::default() }
    }

    /// Returns once the Cluster keeps all tenants that are known now to their prefixes. One after another for each Cluster,
    /// so that nobody puts an older table in force.
    pub(crate) async fn ensure(&self, key: &ObjectKey, uid: &str, admin: &Client) -> Result<(), GuardError> {
        let own = self.of(uid);
        let mut asserted = own.lock().await;
        // Read only now: whoever was before put in force what it knew.
        let wanted = table(&self.world.read().snapshot, key, uid);
        let Some(wanted) = wanted else { return Ok(()) };
        let now = self.seams.now();
        if asserted.as_ref().is_some_and(|before| before.table == wanted && !self.is_due(before.at)) {
            return Ok(());
        }
        let known = asserted.take().is_some();
        assert(admin, key, &wanted, known).await?;
        *asserted = Some(Asserted { table: wanted, at: now });
        Ok(())
    }

    /// When that Cluster is to be looked at.
    pub(super) async fn due(&self, key: &ObjectKey, uid: &str) -> Due {
        let own = self.of(uid);
        let asserted = own.lock().await;
        let wanted = table(&self.world.read().snapshot, key, uid);
        match (wanted, asserted.as_ref()) {
            (None, _) => Due::Never,
            // Nobody is there yet who could be kept to anything.
            (Some(wanted), None) if wanted.is_empty() => Due::Never,
            (Some(wanted), Some(before)) if before.table == wanted && !self.is_due(before.at) => {
                Due::After(self.seams.until(due(before.at)))
            }
            (Some(_), _) => Due::Now,
        }
    }

    pub(super) fn forget(&self, uid: &str) {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    fn is_due(&self, at: Timestamp) -> bool {
        self.seams.now() >= due(at)
    }

    fn of(&self, uid: &str) -> OfCluster {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.entry(uid.to_owned()).or_default().clone()
    }
}

fn due(at: Timestamp) -> Timestamp {
    at.saturating_add(LOOK_EVERY).unwrap_or(Timestamp::MAX)
}

/// Puts policy, binding and table there, or right, and waits until the server judges by them.
async fn assert(
    admin: &Client,
    key: &ObjectKey,
    table: &BTreeMap<String, String>,
    known: bool,
) -> Result<(), GuardError> {
    if table.len() > MOST_ENTRIES {
        return Err(GuardError::Full(table.len()));
    }
    if !known && !is_served(admin).await? {
        return Err(GuardError::NotServed);
    }
    make_namespace(admin).await?;
    // The table first: a policy without one binds nobody.
    let map = keep(admin, key, &table_object(table), "data", known).await?;
    for object in policy_objects() {
        keep(admin, key, &object, "spec", known).await?;
    }
    wait_until_in_force(admin, map.object()).await
}

async fn is_served(admin: &Client) -> Result<bool, kube::Error> {
    match admin.list_api_group_resources(GROUP_VERSION).await {
        Ok(resources) => {
            let served = |name: &str| resources.resources.iter().any(|resource| resource.name == name);
            Ok(served("validatingadmissionpolicies") && served("validatingadmissionpolicybindings"))
        }
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn make_namespace(admin: &Client) -> Result<(), kube::Error> {
    let namespaces = Api::<Namespace>::all(admin.clone());
    if namespaces.get_metadata_opt(ACCESS_NAMESPACE).await?.is_some() {
        return Ok(());
    }
    let namespace = Namespace {
        metadata: kube::core::ObjectMeta { name: Some(ACCESS_NAMESPACE.to_owned()), ..Default::default() },
        ..Namespace::default()
    };
    match namespaces.create(&params(), &namespace).await {
        Err(error) if !is_conflict(&error) => Err(error),
        _ => Ok(()),
    }
}

async fn keep(admin: &Client, key: &ObjectKey, object: &Value, member: &str, known: bool) -> Result<Kept, kube::Error> {
    let kept = Whole { object, members: &[member], manager: MANAGER }.keep(&api(admin, object)).await?;
    let kind = object["kind"].as_str().unwrap_or_default();
    match &kept {
        Kept::Made(_) if known => {
            warn!(cluster = %key, kind, name = GUARD, "somebody deleted what keeps tenants to their prefixes; it is back");
        }
        // Of the table this is what it is there for.
        Kept::Mended(..) if kind != "ConfigMap" => {
            warn!(cluster = %key, kind, name = GUARD, "what keeps tenants to their prefixes was another; it is right again");
        }
        Kept::Made(_) => info!(cluster = %key, kind, name = GUARD, "tenants are kept to their prefixes by it"),
        Kept::Mended(..) | Kept::Same(_) => {}
    }
    Ok(kept)
}

fn api(admin: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |member: &str| object[member].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let resource = match text("kind") {
        "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
        "ValidatingAdmissionPolicy" => ApiResource::erase::<ValidatingAdmissionPolicy>(&()),
        "ValidatingAdmissionPolicyBinding" => ApiResource::erase::<ValidatingAdmissionPolicyBinding>(&()),
        other => ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, other)),
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(admin.clone(), namespace, &resource),
        None => Api::all_with(admin.clone(), &resource),
    }
}

/// Asks for what the policy refuses until it does so by this table, or a later one.
async fn wait_until_in_force(admin: &Client, map: &DynamicObject) -> Result<(), GuardError> {
    let wanted = map.resource_version().unwrap_or_default();
    let probe: Namespace = serde_json::from_value(probe()).map_err(kube::Error::SerdeError)?;
    let params = PostParams { dry_run: true, ..params() };
    let namespaces = Api::<Namespace>::all(admin.clone());
    let begin = tokio::time::Instant::now();
    loop {
        let said = match namespaces.create(&params, &probe).await {
            Ok(_) => "it refuses nothing".to_owned(),
            Err(kube::Error::Api(status)) => match in_force(&status.message) {
                Some(seen) if reached(seen, &wanted) => return Ok(()),
                Some(_) => STALE.to_owned(),
                None => status.message,
            },
            Err(error) => return Err(error.into()),
        };
        if begin.elapsed() >= IN_FORCE_LIMIT {
            return Err(GuardError::NotInForce(said));
        }
        tokio::time::sleep(IN_FORCE_LOOK).await;
    }
}

/// Resource versions are numbers that grow (KEP-5504); where they are none, only the same one will do.
fn reached(seen: &str, wanted: &str) -> bool {
    match (seen.parse::<u64>(), wanted.parse::<u64>()) {
        (Ok(seen), Ok(wanted)) => seen >= wanted,
        _ => seen == wanted,
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// Takes policy, binding and table out of a Cluster that outlives its place on the platform.
///
/// # Errors
/// The server does not answer, or refuses.
pub async fn take_out(admin: &Client) -> Result<(), kube::Error> {
    let params = DeleteParams::default();
    let [policy, binding] = policy_objects();
    // The binding first: then nobody is judged by a half of it.
    for object in [binding, policy, table_object(&BTreeMap::new())] {
        match api(admin, &object).delete(GUARD, &params).await {
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
