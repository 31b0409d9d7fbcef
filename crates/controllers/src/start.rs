//! Starts all controllers on one API: watches into the world, a loop per controller.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use allotment_api::names::{ACCESS_REQUEST, HEARTBEAT, SYSTEM_NAMESPACE};
use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ExistingConfig,
    KindConfig, ProviderConfig, Purpose, TraitEquivalence,
};
use allotment_core::catalog::{Catalog, ProfileKey};
use allotment_core::requests::Snapshot;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::access::{AccessRequests, AccessSecret};
use crate::catalog::{
    self, CatalogWorld, Profiles, UnreadShoots, follow_private, follow_profiles, follow_shoots, keep_dates,
};
use crate::clusters::{Guards, Insides, Lifecycle, Planes};
use crate::frame::{AT_ONCE, ObjectKey, Queue, Reconcile, Seams, Synced, Tasks, follow, work};
use crate::providers::{Configs, Directory, Outside, Providers};
use crate::requests::{Choosing, Scheduler, Spares};
use crate::world::{Mirrored, World};

/// Kinds that are followed.
const KINDS: usize = 14;
/// How soon is heard of users again where the mirror lags by more than can be asked for.
const HEAR_AGAIN: Duration = Duration::from_millis(50);

/// What the controllers are told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long tokens of AccessRequests are asked for.
    pub access_token_lifetime: Duration,
    /// How long a new Cluster may take before requests look for another one.
    pub provisioning_deadline: Duration,
    /// Whether CloudProfiles, PrivateCloudProfiles and Shoots are left alone.
    pub without_catalog: bool,
}

/// Running controllers.
#[derive(Debug)]
pub struct Controllers {
    synced: Synced,
    world: Arc<World>,
    catalog: Option<Followed>,
}

/// The catalog, which is listed apart from all else: it takes longer, and nothing else waits for it.
#[derive(Clone, Debug)]
struct Followed {
    synced: Synced,
    world: Arc<CatalogWorld>,
}

impl Controllers {
    /// Waits until every kind has been listed once.
    pub async fn synced(&self) {
        self.synced.wait(KINDS).await;
        if let Some(catalog) = &self.catalog {
            catalog.synced.wait(catalog::KINDS).await;
        }
    }

    /// Whether every kind has been listed once.
    pub fn is_synced(&self) -> bool {
        self.synced.reached(KINDS) && self.catalog.as_ref().is_none_or(|catalog| catalog.synced.reached(catalog::KINDS))
    }

    /// Looks at the catalog, as of now. Absent without one, and until all of it has been listed once: who is on half of it
    /// would be told that the other half is not there.
    pub fn with_catalog<T>(&self, look: impl FnOnce(&Catalog) -> T) -> Option<T> {
        let catalog = self.catalog.as_ref().filter(|catalog| catalog.synced.reached(catalog::KINDS))?;
        Some(catalog.world.with(look))
    }

    /// Brings what [`Controllers::with_catalog`] shows of a profile's users up to what the API says now, as far as that can be
    /// had in that time: beside another API server much may be listed for it. Of private profiles those are asked for of which
    /// that is `doubted`.
    pub async fn hear_of_users(
        &self,
        client: &Client,
        profile: &ProfileKey,
        doubted: impl Fn(&Catalog) -> BTreeSet<ObjectKey>,
        limit: Duration,
    ) {
        if let Some(catalog) = self.catalog.as_ref().filter(|catalog| catalog.synced.reached(catalog::KINDS)) {
            let hears = async {
                while !catalog::hear_of_users(client, &catalog.world, profile, &catalog.world.with(&doubted)).await? {
                    sleep(HEAR_AGAIN).await;
                }
                Ok::<_, kube::Error>(())
            };
            match timeout(limit, hears).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!("a write is judged by the mirror alone: {error}"),
                Err(_) => {
                    warn!("a write is judged by a mirror that lags: not all users were heard of within {limit:?}")
                }
            }
        }
    }

    /// Whether no provider waits to say what it offers, and no Cluster for its provider's turn. One whose turn failed, and
    /// that waits for its next try, is not among them.
    pub fn first_turns_are_done(&self) -> bool {
        let queues = &self.world.queues;
        queues.providers.is_empty() && queues.planes.is_empty()
    }

    /// Looks at what decisions read, as of now.
    pub fn with_snapshot<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.world.read().snapshot)
    }

    /// The same; nothing where a change of it broke off half-way.
    pub fn with_whole_snapshot<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> Option<T> {
        self.world.whole().map(|state| look(&state.snapshot))
    }

    /// Whether no controller has anything to do now. Deadlines may still lie ahead.
    pub fn is_idle(&self) -> bool {
        self.world.queues.requests.is_empty() && self.queues().all(|queue| queue.is_empty())
    }

    /// How often work on an object panicked.
    pub fn panics(&self) -> u64 {
        self.world.queues.requests.panics() + self.queues().map(|queue| queue.panics()).sum::<u64>()
    }

    /// All queues but that of the requests.
    fn queues(&self) -> impl Iterator<Item = &Arc<Queue<ObjectKey>>> {
        let queues = &self.world.queues;
        let reading = [&queues.clusters, &queues.access, &queues.purposes];
        let doing = [&queues.planes, &queues.insides, &queues.providers, &queues.configs];
        let catalog = self.catalog.iter().flat_map(|catalog| [&catalog.world.queue, &catalog.world.unread_shoots]);
        reading.into_iter().chain(doing).chain(catalog)
    }
}

/// Follows every kind in `tasks`, and acts on nothing: for those who have to know what decisions would be.
pub fn observe(tasks: &Tasks, client: &Client, settings: &Settings) -> Controllers {
    let world = Arc::new(World::ringing(settings.provisioning_deadline, tasks.alarm().clone()));
    let synced = Synced::default();
    watch::<ClusterProvider>(tasks, client, &synced, &world);
    watch::<ProviderConfig>(tasks, client, &synced, &world);
    watch::<ExistingConfig>(tasks, client, &synced, &world);
    watch::<KindConfig>(tasks, client, &synced, &world);
    watch::<Purpose>(tasks, client, &synced, &world);
    watch::<TraitEquivalence>(tasks, client, &synced, &world);
    watch::<Namespace>(tasks, client, &synced, &world);
    watch::<Cluster>(tasks, client, &synced, &world);
    watch::<ClusterRequest>(tasks, client, &synced, &world);
    watch::<ClusterRequestGrant>(tasks, client, &synced, &world);
    watch::<AccessPolicy>(tasks, client, &synced, &world);
    watch::<AccessRequest>(tasks, client, &synced, &world);
    watch_secrets(tasks, client, &synced, &world);
    watch_heartbeats(tasks, client, &synced, &world);
    let catalog = (!settings.without_catalog)
        .then(|| Followed { synced: Synced::default(), world: Arc::new(CatalogWorld::ringing(tasks.alarm().clone())) });
    if let Some(Followed { synced, world }) = &catalog {
        follow_profiles(tasks, client, synced, world);
        follow_private(tasks, client, synced, world);
        follow_shoots(tasks, client, synced, world);
    }
    Controllers { synced, world, catalog }
}

/// Starts all controllers in `tasks`. They end with it. Instances beside it, in this process or another,
/// do no harm.
pub fn start(tasks: &Tasks, client: &Client, directory: Directory, seams: &Seams, settings: &Settings) -> Controllers {
    let Controllers { synced, world, catalog } = observe(tasks, client, settings);
    let outside = Outside::new(tasks, client.clone(), world.clone(), seams.clone(), directory.runner());
    let directory = Arc::new(directory.with_outside(outside));

    let lifetime_secs = i64::try_from(settings.access_token_lifetime.as_secs()).unwrap_or(i64::MAX);
    type Controller<'a> = (Arc<dyn Reconcile>, &'a Arc<Queue<ObjectKey>>);
    let choosing = Choosing::default();
    let scheduler = Scheduler::new(client.clone(), world.clone(), seams.clone(), choosing.clone());
    run(tasks, &synced, Arc::new(scheduler), &world.queues.requests);
    let guards = Arc::new(Guards::new(tasks.clone(), client.clone(), world.clone(), seams.clone()));
    let controllers: [Controller<'_>; 7] = [
        (Arc::new(Configs::new(world.clone(), directory.clone())), &world.queues.configs),
        (
            Arc::new(Providers::new(client.clone(), world.clone(), directory.clone(), seams.clone())),
            &world.queues.providers,
        ),
        (Arc::new(Spares::new(client.clone(), world.clone(), seams.clone(), choosing)), &world.queues.purposes),
        (Arc::new(Lifecycle::new(client.clone(), world.clone(), seams.clone())), &world.queues.clusters),
        (Arc::new(Planes::new(client.clone(), world.clone(), directory.clone(), seams.clone())), &world.queues.planes),
        (
            Arc::new(Insides::new(client.clone(), world.clone(), directory.clone(), guards.clone(), seams.clone())),
            &world.queues.insides,
        ),
        (
            Arc::new(AccessRequests::new(
                client.clone(),
                world.clone(),
                directory.clone(),
                guards,
                seams.clone(),
                lifetime_secs,
            )),
            &world.queues.access,
        ),
    ];
    for (controller, queue) in controllers {
        run(tasks, &synced, controller, queue);
    }
    if let Some(Followed { synced, world }) = &catalog {
        tasks.spawn(keep_dates(world.clone(), seams.clone()));
        let profiles = Profiles::new(client.clone(), world.clone(), seams.clone());
        run_after(tasks, synced, catalog::KINDS, Arc::new(profiles), &world.queue);
        let unread = UnreadShoots::new(client.clone(), world.clone(), seams.clone());
        run_after(tasks, synced, catalog::KINDS, Arc::new(unread), &world.unread_shoots);
    }
    Controllers { synced, world, catalog }
}

fn run<R>(tasks: &Tasks, synced: &Synced, controller: Arc<dyn Reconcile>, queue: &Arc<Queue<ObjectKey, R>>)
where
    R: Clone + Debug + Default + Ord + Send + 'static,
{
    run_after(tasks, synced, KINDS, controller, queue);
}

fn run_after<R>(
    tasks: &Tasks,
    synced: &Synced,
    kinds: usize,
    controller: Arc<dyn Reconcile>,
    queue: &Arc<Queue<ObjectKey, R>>,
) where
    R: Clone + Debug + Default + Ord + Send + 'static,
{
    let (queue, synced) = (queue.clone(), synced.clone());
    tasks.spawn(async move {
        // Decisions on half of what there is would deny what the other half allows.
        synced.wait(kinds).await;
        work(controller, queue, AT_ONCE).await;
    });
}

fn watch<K>(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<World>)
where
    K: Mirrored + kube::Resource<DynamicType = ()> + Debug + DeserializeOwned,
{
    let (api, synced, world) = (Api::<K>::all(client.clone()), synced.clone(), world.clone());
    tasks.spawn(follow(api, "", synced, move |event| world.watched(event)));
}

fn watch_heartbeats(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<World>) {
    let api = Api::<Lease>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let (synced, world) = (synced.clone(), world.clone());
    tasks.spawn(async move { follow(api, HEARTBEAT, synced, move |event| world.watched(event)).await });
}

fn watch_secrets(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<World>) {
    let (api, synced, world) = (Api::<Secret>::all(client.clone()), synced.clone(), world.clone());
    tasks.spawn(async move {
        follow(api, ACCESS_REQUEST, synced, move |event| {
            world.watched(match event {
                Event::Apply(secret) => Event::Apply(AccessSecret::read(&secret)),
                Event::Delete(secret) => Event::Delete(AccessSecret::read(&secret)),
                Event::InitApply(secret) => Event::InitApply(AccessSecret::read(&secret)),
                Event::Init => Event::Init,
                Event::InitDone => Event::InitDone,
            });
        })
        .await;
    });
}
