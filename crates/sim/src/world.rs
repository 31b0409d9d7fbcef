//! The platform of a simulation: one store, over it a process that can be killed and started again, in
//! it controllers in several instances, each of which can be killed alone.

use std::sync::Arc;
use std::time::Duration;

use allotment_apiserver::auth::{GROUP_MASTERS, UserInfo};
use allotment_controllers::frame::{Seams, Tasks};
use allotment_controllers::providers::kind::NoPrograms;
use allotment_controllers::{Controllers, Settings};
use allotment_landscape::{CONTROLLERS, Config, Landscape, client_of};
use allotment_machinery::seams::Clock as _;
use allotment_pki::{CertificateAuthority, KeySource as _, PrivateKey};
use allotment_store::{Faults, HistoryLimits, Memory, Tenant};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::attachment::{Attachment, Fuse};
use crate::bugs::{Bug, Planted};
use crate::chance::{Chance, SeededEntropy};
use crate::judge::Judge;
use crate::keys::FixedKeys;
use crate::network::{Losses, Network};
use crate::time::SimulatedClock;

/// Instances of the controllers that run side by side.
const INSTANCES: usize = 2;
/// How long tokens last: short, so that renewals happen within a run.
pub(crate) const TOKEN_LIFETIME: Duration = Duration::from_secs(20 * 60);
const PROVISIONING_DEADLINE: Duration = Duration::from_secs(30 * 60);
const CA_LIFETIME_SECS: i64 = 10 * 365 * 24 * 3600;
const URL: &str = "https://127.0.0.1:7443";
/// How long to wait before a start that failed is tried again.
const START_AGAIN: Duration = Duration::from_millis(100);
/// Where the streams of a seed go.
mod stream {
    pub(super) const STORE: u64 = 2;
    pub(super) const NAMES: u64 = 3;
    pub(super) const NETWORK: u64 = 4;
    pub(super) const BUG: u64 = 5;
}

/// What goes wrong while the workload runs.
const FAULTS: Faults = Faults {
    delay: Duration::from_millis(3),
    unavailable: 5,
    lost_requests: 5,
    lost_replies: 10,
    stale: Duration::from_millis(60),
    compactions: 5,
};
/// When nothing goes wrong calls still take time: what goes round in circles must not stop the clock.
const PEACE: Faults = Faults {
    delay: Duration::from_micros(500),
    unavailable: 0,
    lost_requests: 0,
    lost_replies: 0,
    stale: Duration::ZERO,
    compactions: 0,
};
const LOSSES: Losses = Losses { calls: 5, replies: 10, watches: 10 };

/// One instance of the controllers.
struct Instance {
    tasks: Tasks,
    controllers: Arc<Controllers>,
}

/// One run of the process.
struct Process {
    landscape: Landscape,
    dead: CancellationToken,
    instances: Vec<Instance>,
}

/// The platform.
pub(crate) struct World {
    memory: Memory,
    pub(crate) judge: Arc<Judge>,
    seams: Seams,
    keys: Arc<FixedKeys>,
    authority: CertificateAuthority,
    service_account_key: PrivateKey,
    created: jiff::Timestamp,
    fuse: Arc<Fuse>,
    network: Network,
    planted: Option<Arc<Planted>>,
    /// Whether controllers look after the catalog; their lists and watches are steps of the store that other runs lack.
    with_catalog: bool,
    process: Option<Process>,
}

impl World {
    /// A platform that has just been set up, with nothing going wrong.
    pub(crate) async fn start(seed: u64, bug: Option<Bug>, with_catalog: bool) -> World {
        let clock = Arc::new(SimulatedClock::new());
        let judge = Arc::new(Judge::new(clock.clone()));
        let mut store_seed = Chance::new(seed, stream::STORE);
        let memory = Memory::new(store_seed.bits(), HistoryLimits::default());
        memory.observe(judge.clone());
        memory.set_faults(PEACE);
        let keys = Arc::new(FixedKeys::default());
        let key = || keys.generate().expect("the set has keys");
        let created = clock.now();
        let authority = CertificateAuthority::new("allotment", key(), created.as_second(), CA_LIFETIME_SECS);
        let (authority, service_account_key) = (authority.expect("a key can sign"), key());
        let entropy = Arc::new(SeededEntropy::new(Chance::new(seed, stream::NAMES)));
        let mut world = World {
            memory,
            judge,
            seams: Seams { clock, entropy },
            keys,
            authority,
            service_account_key,
            created,
            fuse: Arc::default(),
            network: Network::new(Chance::new(seed, stream::NETWORK)),
            planted: None,
            with_catalog,
            process: None,
        };
        world.revive().await;
        // The bug acts from here on: a landscape that does not even start would be found by anything.
        world.planted = bug.map(|bug| Arc::new(Planted::new(bug, Chance::new(seed, stream::BUG))));
        if let Some(planted) = &world.planted {
            world.network.plant(planted.clone());
            world.kill();
            world.revive().await;
        }
        world
    }

    /// Lets things go wrong, or ends that.
    pub(crate) fn set_trouble(&self, trouble: bool) {
        self.memory.set_faults(if trouble { FAULTS } else { PEACE });
        self.network.set_losses(if trouble { LOSSES } else { Losses::default() });
        if !trouble {
            self.fuse.extinguish();
        }
    }

    /// Starts what is not running: the process, and each of its controllers.
    pub(crate) async fn revive(&mut self) {
        if self.process.as_ref().is_some_and(|process| process.dead.is_cancelled()) {
            self.kill();
        }
        while self.process.is_none() {
            match self.serve().await {
                Some(process) => self.process = Some(process),
                None => tokio::time::sleep(START_AGAIN).await,
            }
        }
        if let Some(process) = &mut self.process {
            process.instances.retain(|instance| !instance.tasks.stopping().is_cancelled());
            while process.instances.len() < INSTANCES {
                let tasks = Tasks::default();
                let user = UserInfo::in_process(CONTROLLERS, &[GROUP_MASTERS]);
                let direct = client_of(process.landscape.server(), &Tenant::platform(), user);
                let settings = Settings {
                    access_token_lifetime: TOKEN_LIFETIME,
                    provisioning_deadline: PROVISIONING_DEADLINE,
                    without_catalog: !self.with_catalog,
                };
                let client = self.network.between(direct);
                let controllers = process.landscape.start_controllers(&tasks, &client, &settings);
                process.instances.push(Instance { tasks, controllers });
            }
        }
    }

    /// Serves the API; nothing where the store does not let it.
    async fn serve(&self) -> Option<Process> {
        let dead = CancellationToken::new();
        let store = Attachment::new(self.memory.clone(), dead.clone(), self.fuse.clone(), self.planted.clone());
        let config = Config {
            store: Arc::new(store),
            seams: self.seams.clone(),
            keys: self.keys.clone(),
            authority: self.authority.clone(),
            service_account_key: self.service_account_key.clone(),
            created: self.created,
            url: URL.to_owned(),
            programs: Arc::new(NoPrograms),
        };
        let landscape = Landscape::serve(config).await.ok()?;
        if landscape.ensure().await.is_err() {
            landscape.server().stopping().cancel();
            dead.cancel();
            return None;
        }
        Some(Process { landscape, dead, instances: Vec::new() })
    }

    /// Kills the process where it stands.
    pub(crate) fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        process.dead.cancel();
        process.landscape.server().stopping().cancel();
        for instance in &process.instances {
            instance.tasks.stopping().cancel();
        }
    }

    /// Kills one of the controllers after so many steps of the store.
    pub(crate) fn kill_controllers_after(&self, steps: u64, which: usize) {
        if let Some(process) = &self.process
            && let Some(instance) = process.instances.get(which % INSTANCES)
        {
            self.fuse.light(steps, instance.tasks.stopping());
        }
    }

    /// Kills the process after so many steps of the store.
    pub(crate) fn kill_after(&self, steps: u64) {
        if let Some(process) = &self.process {
            self.fuse.light(steps, process.dead.clone());
        }
    }

    /// A client with all rights, for the platform's API.
    pub(crate) fn admin(&self) -> Client {
        let process = self.process.as_ref().expect("the process was started");
        let user = UserInfo::in_process("admin", &[GROUP_MASTERS]);
        client_of(process.landscape.server(), &Tenant::platform(), user)
    }

    /// Whether no controller has anything to do at the moment.
    ///
    /// # Panics
    /// One panicked before: whoever runs them would go on, a simulation has found a fault.
    pub(crate) fn is_idle(&self) -> bool {
        for Instance { tasks, controllers } in self.process.iter().flat_map(|process| &process.instances) {
            assert_eq!((tasks.alarm().why(), controllers.panics()), (None, 0), "the controllers panicked");
        }
        self.process.as_ref().is_some_and(|process| {
            process.instances.iter().all(|instance| instance.controllers.is_synced() && instance.controllers.is_idle())
        })
    }

    /// Key spaces that hold anything but the platform's own, read past everything that can go wrong.
    pub(crate) async fn key_spaces(&self) -> Vec<String> {
        use allotment_store::Store as _;
        let tenants = self.memory.tenants().await.unwrap_or_default();
        tenants.iter().filter(|tenant| !tenant.is_platform()).map(|tenant| tenant.as_str().to_owned()).collect()
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.seams.now()
    }
}
