//! Keeps the rule of prefixes in force on shared Clusters whose API server is not of this process. What lies there for it
//! `core` says ([`allotment_core::access::guard`]).
//!
//! # Guarantees
//! - A process whose term ended puts no older table in force over a newer one: it reads the policy, asks the platform whether it
//!   may still write, and only then writes, on the state that it read; and who takes over writes each policy once, so that such
//!   a write is refused.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use allotment_api::names::ACCESS_NAMESPACE;
use allotment_api::reasons::AccessReason;
use allotment_core::access::guard::{GUARD, Neighbours, NoRoom, Policy, Table, in_force, probe, stamp_of, table};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::follow::{self, Versions};
use crate::frame::{Kept, ObjectKey, Seams, Tasks, Whole, caught, chain, is_conflict, is_gone, told};
use crate::world::World;

const MANAGER: &str = "allot-prefixes";
/// How often it is looked whether all of it is still there and as it should be: whoever changes it does not tell.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long a server may take to judge by a policy or a table that it stores. Policies are compiled once a second.
const IN_FORCE_LIMIT: Duration = Duration::from_secs(5);
const IN_FORCE_LOOK: Duration = Duration::from_millis(20);
/// How long a server has to judge by a policy that was not there before: another server behind the same address knows nobody
/// until it has it too, and judges nothing. They follow within milliseconds, and compile once a second.
const SETTLE: Duration = Duration::from_secs(2);
const SETTLE_LOOK: Duration = Duration::from_millis(100);
const STALE: &str = "it judges by an older table";
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
    /// All others are kept to theirs; who asks is not among them.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// It is not known who lives there.
    #[error("it is not the Cluster that it was: it was deleted, or made again under its name")]
    Unknown,
    /// It stores them, and does not judge by them.
    #[error(
        "its API server does not refuse by ValidatingAdmissionPolicy {GUARD} within {limit} s: {0}",
        limit = IN_FORCE_LIMIT.as_secs()
    )]
    NotInForce(&'static str),
    /// A call failed.
    #[error("what keeps its tenants to their prefixes cannot be put in force")]
    Api(#[from] kube::Error),
    /// The platform does not let this process write any more.
    #[error(
        "this process may not write at the moment, and leaves what keeps tenants to their prefixes to the one that may"
    )]
    NoTerm(#[source] kube::Error),
}

impl GuardError {
    /// What is wrong, for whoever waits for it: without what servers wrote, which may be about others.
    pub(crate) fn told(&self) -> String {
        match self {
            GuardError::Api(error) => format!("{self}: {}", told(error)),
            other => other.to_string(),
        }
    }

    /// What an AccessRequest that waits for it says.
    pub(crate) fn reason(&self) -> AccessReason {
        match self {
            GuardError::NoRoom(_) => AccessReason::PrefixTableFull,
            _ => AccessReason::PrefixNotEnforced,
        }
    }
}

/// What was put in force in one Cluster.
#[derive(Clone, Debug)]
struct Asserted {
    table: Table,
    stamp: String,
    versions: Versions,
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
    writer: Writer,
    tasks: Tasks,
    clusters: Mutex<BTreeMap<String, OfCluster>>,
    /// Clusters in which policy and binding are followed, by UID, and what ends that.
    followed: Arc<Mutex<BTreeMap<String, CancellationToken>>>,
}

/// Who writes into Clusters.
struct Writer {
    /// The platform's API, which is written to as long as the term holds.
    platform: Client,
    /// Another for each term of each process, once there is something to write.
    holder: OnceLock<String>,
}

impl Writer {
    /// Fails once the term is over. Asked after what is to be changed was read: whoever comes next reads it later.
    async fn holds(&self) -> Result<(), GuardError> {
        // Anybody may ask it, and it stores nothing.
        let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "namespaces", "name": GUARD}}});
        let review: SelfSubjectAccessReview = serde_json::from_value(review).map_err(kube::Error::SerdeError)?;
        let reviews = Api::<SelfSubjectAccessReview>::all(self.platform.clone());
        reviews.create(&PostParams::default(), &review).await.map_err(GuardError::NoTerm).map(drop)
    }

    /// Makes of what was read what it is to be.
    async fn keep(
        &self,
        api: &Api<DynamicObject>,
        object: &Value,
        there: Option<DynamicObject>,
    ) -> Result<Kept, GuardError> {
        let whole = Whole { object, members: &["spec"], manager: MANAGER };
        if whole.differs(there.as_ref())? {
            self.holds().await?;
        }
        Ok(whole.mend(api, there).await?)
    }
}

impl Guards {
    /// Guards that write as long as `platform` does, and follow what they wrote in `tasks`.
    pub(crate) fn new(tasks: Tasks, platform: Client, world: Arc<World>, seams: Seams) -> Self {
        let writer = Writer { platform, holder: OnceLock::new() };
        let (clusters, followed) = (Mutex::default(), Arc::default());
        Guards { world, seams, writer, tasks, clusters, followed }
    }

    /// Returns once the Cluster keeps all tenants that are known now to their prefixes, the AccessRequest of that UID among them.
    /// One after another for each Cluster, so that nobody puts an older table in force.
    pub(crate) async fn admit(
        &self,
        key: &ObjectKey,
        uid: &str,
        admin: &Client,
        access_uid: &str,
    ) -> Result<(), GuardError> {
        match self.ensure(key, uid, admin).await? {
            Some(table) => Ok(table.room_for(access_uid)?),
            None => Ok(()),
        }
    }

    /// Returns once the Cluster keeps all tenants that are known now to their prefixes, as far as there is room for them, with
    /// the table that is in force; none where there is nobody to keep apart.
    pub(super) async fn ensure(&self, key: &ObjectKey, uid: &str, admin: &Client) -> Result<Option<Table>, GuardError> {
        let own = self.of(uid);
        let mut asserted = own.lock().await;
        // Read only now: whoever was before put in force what it knew.
        let neighbours = table(&self.world.read().snapshot, key, uid);
        let wanted = match neighbours {
            Neighbours::By(wanted) => wanted,
            Neighbours::None => return Ok(None),
            Neighbours::Unknown => return Err(GuardError::Unknown),
        };
        let now = self.seams.now();
        if asserted.as_ref().is_some_and(|before| before.table.judges_as(&wanted) && !self.is_due(before.at)) {
            return Ok(Some(wanted));
        }
        let last = asserted.take();
        let (stamp, versions) = self.assert(admin, key, &wanted, last.as_ref()).await?;
        self.follow(key, uid, admin, versions.clone(), own.clone());
        *asserted = Some(Asserted { table: wanted.clone(), stamp, versions, at: now });
        Ok(Some(wanted))
    }

    /// When that Cluster is to be looked at.
    pub(super) async fn due(&self, key: &ObjectKey, uid: &str) -> Due {
        let own = self.of(uid);
        let asserted = own.lock().await;
        let wanted = table(&self.world.read().snapshot, key, uid).table();
        match (wanted, asserted.as_ref()) {
            (None, _) => Due::Never,
            // Nobody is there yet who could be kept to anything.
            (Some(wanted), None) if wanted.is_empty() => Due::Never,
            (Some(wanted), Some(before)) if before.table.judges_as(&wanted) && !self.is_due(before.at) => {
                Due::After(self.seams.until(due(before.at)))
            }
            (Some(_), _) => Due::Now,
        }
    }

    pub(super) fn forget(&self, uid: &str) {
        locked(&self.clusters).remove(uid);
        if let Some(end) = locked(&self.followed).remove(uid) {
            end.cancel();
        }
    }

    fn is_due(&self, at: Timestamp) -> bool {
        self.seams.now() >= due(at)
    }

    fn of(&self, uid: &str) -> OfCluster {
        let mut clusters = locked(&self.clusters);
        clusters.entry(uid.to_owned()).or_default().clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn due(at: Timestamp) -> Timestamp {
    at.saturating_add(LOOK_EVERY).unwrap_or(Timestamp::MAX)
}

impl Guards {
    /// Puts policy and binding there, or right, and waits until the server judges by them. Gives the stamp, and
    /// what was seen.
    async fn assert(
        &self,
        admin: &Client,
        key: &ObjectKey,
        table: &Table,
        last: Option<&Asserted>,
    ) -> Result<(String, Versions), GuardError> {
        if last.is_none() && !is_served(admin).await? {
            return Err(GuardError::NotServed);
        }
        make_namespace(admin).await?;
        let holder = self.writer.holder.get_or_init(|| self.seams.entropy.uid());
        let spec = |table: &Table, stamp: &str| {
            let [policy, _] = Policy { table, stamp, holder }.objects();
            policy["spec"].clone()
        };
        let policies = all::<ValidatingAdmissionPolicy>(admin);
        let there = policies.get_opt(GUARD).await?;
        let before = serde_json::to_value(&there).map_err(kube::Error::SerdeError)?;
        // The stamp that is there stays where all else does: then nothing is written.
        let same = stamp_of(&before).filter(|stamp| before["spec"] == spec(table, stamp)).map(str::to_owned);
        let stamp = same.unwrap_or_else(|| self.seams.entropy.uid());
        // That the table is another one now is what it is there for.
        let own = last.is_none_or(|last| before["spec"] == spec(&last.table, &last.stamp));

        let [policy, binding] = Policy { table, stamp: &stamp, holder }.objects();
        let kept = self.writer.keep(&policies, &policy, there).await?;
        say(key, &policy, &kept, last.is_some(), own);
        let mut made = matches!(kept, Kept::Made(_));
        let policy = kept.object().resource_version().unwrap_or_default();
        let bindings = all::<ValidatingAdmissionPolicyBinding>(admin);
        let there = bindings.get_opt(GUARD).await?;
        let kept = self.writer.keep(&bindings, &binding, there).await?;
        say(key, &binding, &kept, last.is_some(), false);
        made |= matches!(kept, Kept::Made(_));
        let binding = kept.object().resource_version().unwrap_or_default();
        wait_until_in_force(admin, &stamp, if made { SETTLE } else { Duration::ZERO }).await?;
        Ok((stamp, Versions { policy, binding }))
    }

    /// Has the Cluster looked at as soon as somebody changes policy or binding there. Where that cannot be followed, or not any
    /// more, the look that comes anyway finds it, and begins to follow again.
    fn follow(&self, key: &ObjectKey, uid: &str, admin: &Client, versions: Versions, own: OfCluster) {
        let end = CancellationToken::new();
        match locked(&self.followed).entry(uid.to_owned()) {
            Entry::Occupied(_) => return,
            Entry::Vacant(vacant) => vacant.insert(end.clone()),
        };
        let (admin, key, uid) = (admin.clone(), key.clone(), uid.to_owned());
        let (world, followed, ended) = (self.world.clone(), self.followed.clone(), end.clone());
        let follow = async move {
            let changes = match follow::changes(&admin, GUARD, &versions).await {
                Ok(changes) => changes,
                Err(error) => {
                    debug!(cluster = %key, error = %chain(&error), "what keeps tenants to their prefixes cannot be followed");
                    return;
                }
            };
            let mut changes = pin!(changes);
            while let Some((part, version)) = changes.next().await {
                // Who is about to write keeps it until the new versions are known.
                let mut asserted = own.lock().await;
                if let Some(asserted) = asserted.as_mut().filter(|last| last.versions.is_news(part, &version)) {
                    asserted.at = Timestamp::MIN;
                    world.queues.insides.add(key.clone());
                }
            }
        };
        let follow =
            caught("what keeps tenants to their prefixes in a Cluster", tokio::time::timeout(follow::LIMIT, follow));
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                _ = follow => drop(locked(&followed).remove(&uid)),
            }
        });
    }
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

fn all<K: Resource<DynamicType = ()>>(admin: &Client) -> Api<DynamicObject> {
    Api::all_with(admin.clone(), &ApiResource::erase::<K>(&()))
}

/// Tells of what somebody else changed.
fn say(key: &ObjectKey, object: &Value, kept: &Kept, known: bool, own: bool) {
    let kind = object["kind"].as_str().unwrap_or_default();
    match kept {
        Kept::Made(_) if known => {
            warn!(cluster = %key, kind, name = GUARD, "somebody deleted what keeps tenants to their prefixes; it is back");
        }
        Kept::Mended(mended) if !own && !mended.members.is_empty() => {
            warn!(cluster = %key, kind, name = GUARD, "what keeps tenants to their prefixes was another; it is right again");
        }
        Kept::Made(_) => info!(cluster = %key, kind, name = GUARD, "tenants are kept to their prefixes by it"),
        Kept::Mended(..) | Kept::Same(_) => {}
    }
}

/// Asks for what the policy refuses until it does so with that stamp, for so long on end.
async fn wait_until_in_force(admin: &Client, stamp: &str, settle: Duration) -> Result<(), GuardError> {
    let probe: Namespace = serde_json::from_value(probe()).map_err(kube::Error::SerdeError)?;
    let params = PostParams { dry_run: true, ..params() };
    let namespaces = Api::<Namespace>::all(admin.clone());
    let begin = tokio::time::Instant::now();
    let mut since = None;
    loop {
        let said = match namespaces.create(&params, &probe).await {
            Ok(_) => Some("it refuses nothing"),
            Err(kube::Error::Api(status)) => match in_force(&status.message) {
                Some(seen) if seen == stamp => None,
                Some(_) => Some(STALE),
                None => {
                    debug!(code = status.code, message = status.message, "the probe is refused by something else");
                    Some("something else refuses what the policy is asked with")
                }
            },
            Err(error) => return Err(error.into()),
        };
        let pause = match said {
            None if since.get_or_insert_with(tokio::time::Instant::now).elapsed() >= settle => return Ok(()),
            None => SETTLE_LOOK,
            Some(said) if begin.elapsed() >= IN_FORCE_LIMIT => return Err(GuardError::NotInForce(said)),
            Some(_) => {
                since = None;
                IN_FORCE_LOOK
            }
        };
        tokio::time::sleep(pause).await;
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// Takes policy and binding out of a Cluster that outlives its place on the platform.
///
/// # Errors
/// The server does not answer, or refuses.
pub async fn take_out(admin: &Client) -> Result<(), kube::Error> {
    // The binding first: then nobody is judged by a half of it.
    gone(Api::<ValidatingAdmissionPolicyBinding>::all(admin.clone()).delete(GUARD, &DeleteParams::default()).await)?;
    gone(Api::<ValidatingAdmissionPolicy>::all(admin.clone()).delete(GUARD, &DeleteParams::default()).await)
}

fn gone<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
