//! What lies inside Clusters and should not: identities that outlived their AccessRequests, and names
//! that keep the prefixes of former tenants in quarantine; and whether what should lie there does: the rule of prefixes. What is to be done about them `core` decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_api::names::CLUSTER_FINALIZER;
use allotment_api::requests::{AccessRequest, Cluster};
use allotment_core::access::{is_accessed_by_provider, labelled, living, removal_of_leftovers, strike_leftovers};
use allotment_core::requests::{end_quarantine, is_provisioned, quarantined};
use allotment_core::write::Write;
use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use tracing::debug;

use super::guard::{Due, Guards, LOOK_EVERY};
use super::names;
use crate::access::inside;
use crate::frame::{Lane, Next, ObjectKey, Reconcile, ReconcileError, Seams, chain, execute};
use crate::providers::{AdminAccess, Directory};
use crate::world::World;

const MANAGER: &str = "allot-insides";
/// How long a Cluster may take to be read and swept.
const PATIENCE: Duration = Duration::from_secs(10);
/// When to look again at a Cluster that did not answer, or where somebody still lives whose leftovers
/// are listed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How often it is looked whether the names of former tenants are gone: nothing tells of it, and a look
/// lists all that is not in a namespace.
const LOOK_FOR_NAMES: Duration = Duration::from_secs(60);

/// The controller of the insides of Clusters.
pub(crate) struct Insides {
    client: Client,
    world: Arc<World>,
    directory: Arc<Directory>,
    guards: Arc<Guards>,
    seams: Seams,
    /// Clusters that are older than this may hold what no status tells of any more.
    started: Timestamp,
    looks: Mutex<Looks>,
}

/// What was looked at, by UID of the Cluster.
#[derive(Default)]
struct Looks {
    swept: BTreeSet<String>,
    /// For which prefixes, and when.
    names: BTreeMap<String, (BTreeSet<String>, Timestamp)>,
}

/// What there is to do inside a Cluster.
struct Work {
    sweep: bool,
    /// Prefixes in quarantine that are to be looked for now.
    prefixes: BTreeSet<String>,
    /// When to look for names again, if not now.
    later: Option<Duration>,
}

impl Insides {
    /// A controller for the Clusters of that directory's providers.
    pub(crate) fn new(
        client: Client,
        world: Arc<World>,
        directory: Arc<Directory>,
        guards: Arc<Guards>,
        seams: Seams,
    ) -> Self {
        let started = seams.now();
        Insides { client, world, directory, guards, seams, started, looks: Mutex::default() }
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, uid: &str) {
        let mut looks = self.looks();
        looks.swept.remove(uid);
        looks.names.remove(uid);
        drop(looks);
        self.guards.forget(uid);
    }

    fn work(&self, cluster: &Cluster, uid: &str) -> Work {
        let listed = cluster.status.as_ref().is_some_and(|status| !status.leftovers.is_empty());
        let older = cluster.meta().creation_timestamp.as_ref().is_some_and(|created| created.0 < self.started);
        let suspect = self.world.take_suspect(uid);
        let looks = self.looks();
        // An identity that outlived its tenant might still make names: it goes first.
        let mut prefixes = if listed { BTreeSet::new() } else { quarantined(cluster) };
        let looked = looks.names.get(uid).filter(|(seen, _)| prefixes.is_subset(seen));
        let due = looked.and_then(|(_, at)| at.saturating_add(LOOK_FOR_NAMES).ok());
        let later = due.filter(|due| !prefixes.is_empty() && self.seams.now() < *due);
        if later.is_some() {
            prefixes.clear();
        }
        let later = later.map(|due| self.seams.until(due));
        Work { sweep: listed || suspect || (older && !looks.swept.contains(uid)), prefixes, later }
    }

    async fn write(&self, write: &Write) -> Result<(), ReconcileError> {
        if let Some(written) = execute(&self.client, MANAGER, write).await? {
            self.world.took(written);
        }
        Ok(())
    }

    /// Takes away what belongs to no AccessRequest that lives there. Gives whether anything that is listed
    /// as left over belongs to one that does.
    async fn sweep(&self, cluster: &Cluster, uid: &str, admin: &AdminAccess) -> Result<bool, ReconcileError> {
        let objects = inside::read_all(&admin.client).await?;
        let mut owners = labelled(&objects);
        owners.extend(cluster.status.iter().flat_map(|status| &status.leftovers).map(|leftover| leftover.uid.clone()));
        let known = {
            let state = self.world.read();
            living(&owners, uid, state.access.iter().map(|(_, access)| access.as_ref()))
        };
        // Of whoever is not known to live there it is asked again, by a read that no cache answers.
        let living = if known.len() < owners.len() {
            let all = Api::<AccessRequest>::all(self.client.clone()).list(&ListParams::default()).await?;
            living(&owners, uid, all.items.iter())
        } else {
            known
        };
        inside::change(&admin.client, &removal_of_leftovers(objects, &living)).await?;
        if let Some(write) = strike_leftovers(cluster, &living) {
            self.write(&write).await?;
        }
        self.looks().swept.insert(uid.to_owned());
        Ok(cluster.status.iter().flat_map(|status| &status.leftovers).any(|leftover| living.contains(&leftover.uid)))
    }

    /// Ends the quarantine of prefixes that no name begins with any more.
    async fn look_for_names(
        &self,
        key: &ObjectKey,
        uid: &str,
        admin: &AdminAccess,
        prefixes: BTreeSet<String>,
    ) -> Result<(), ReconcileError> {
        let free = names::free(&admin.client, prefixes.clone()).await?;
        let current = self.world.read().clusters.get(key).cloned();
        let current = current.filter(|current| current.uid().as_deref() == Some(uid));
        if let Some(write) = current.and_then(|current| end_quarantine(&current, &free)) {
            self.write(&write).await?;
        }
        // Only now: a look whose write was refused is made again, soon.
        self.looks().names.insert(uid.to_owned(), (prefixes, self.seams.now()));
        Ok(())
    }
}

#[async_trait]
impl Reconcile for Insides {
    fn name(&self) -> &'static str {
        "insides"
    }

    fn lane(&self, key: &ObjectKey) -> Option<Lane> {
        self.directory.lane(&self.world, key)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let Some(cluster) = self.world.read().clusters.get(key).cloned() else { return Ok(Next::Change) };
        let uid = cluster.uid().unwrap_or_default();
        if !cluster.finalizers().iter().any(|finalizer| finalizer == CLUSTER_FINALIZER) {
            // It is going with all that lies in it, or was not taken over yet.
            self.forget(&uid);
            return Ok(Next::Change);
        }
        if !is_provisioned(&cluster) || is_accessed_by_provider(&self.world.read().snapshot, &cluster) {
            return Ok(Next::Change);
        }
        let guarded = match self.directory.keeps_prefixes(&self.world, &cluster) {
            true => Next::Change,
            false => self.guard(key, &cluster, &uid).await,
        };
        let swept = self.look(key, &cluster, &uid).await?;
        Ok(sooner(guarded, swept))
    }
}

/// Whichever comes first.
fn sooner(one: Next, other: Next) -> Next {
    match (one, other) {
        (Next::After(one), Next::After(other)) => Next::After(one.min(other)),
        (Next::Change, next) | (next, Next::Change) => next,
    }
}

impl Insides {
    /// Looks whether the Cluster still keeps its tenants to their prefixes. Where it cannot, no access is given, and that
    /// is told there.
    async fn guard(&self, key: &ObjectKey, cluster: &Cluster, uid: &str) -> Next {
        match self.guards.due(key, uid).await {
            Due::Never => return Next::Change,
            Due::After(time) => return Next::After(time),
            Due::Now => {}
        }
        let all = async {
            let admin = self.directory.admin_access(&self.world, cluster).await.map_err(|error| chain(&error))?;
            self.guards.ensure(key, uid, &admin.client).await.map_err(|error| chain(&error))
        };
        let done = tokio::time::timeout(PATIENCE, all).await;
        match done.unwrap_or_else(|_| Err("it does not answer".to_owned())) {
            Ok(_) => Next::After(LOOK_EVERY),
            Err(error) => {
                debug!(cluster = %key, %error, "the Cluster does not keep its tenants to their prefixes");
                Next::After(LOOK_AGAIN)
            }
        }
    }

    /// Sweeps, and looks for names, as far as it is time for that.
    async fn look(&self, key: &ObjectKey, cluster: &Cluster, uid: &str) -> Result<Next, ReconcileError> {
        let work = self.work(cluster, uid);
        if !work.sweep && work.prefixes.is_empty() {
            return Ok(work.later.map_or(Next::Change, Next::After));
        }
        let all = async {
            let admin = self.directory.admin_access(&self.world, cluster).await?;
            let lives = work.sweep && self.sweep(cluster, uid, &admin).await?;
            if !work.prefixes.is_empty() {
                self.look_for_names(key, uid, &admin, work.prefixes.clone()).await?;
            }
            Ok::<_, ReconcileError>(lives)
        };
        match tokio::time::timeout(PATIENCE, all).await {
            Ok(Ok(true)) => Ok(Next::After(LOOK_AGAIN)),
            Ok(Ok(false)) if work.prefixes.is_empty() => Ok(work.later.map_or(Next::Change, Next::After)),
            Ok(Ok(false)) => Ok(Next::After(LOOK_FOR_NAMES)),
            failed => {
                if let Ok(Err(error)) = failed {
                    debug!(cluster = %key, error = %chain(&error), "the Cluster cannot be swept");
                }
                if work.sweep {
                    self.world.still_suspect(key, uid);
                }
                Ok(Next::After(LOOK_AGAIN))
            }
        }
    }
}
