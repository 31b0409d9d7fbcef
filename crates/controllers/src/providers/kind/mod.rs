//! Provider `kind`: a Cluster is a Kubernetes cluster in containers of this machine, which the kind command makes.
//!
//! # Flow
//! A cluster is recorded, then made by a command that runs beside everything else, then its kubeconfig is kept in the
//! record; from then on it is looked at as one that is there. Removal has the command delete it, looks whether it is gone,
//! and forgets the record.
//!
//! # Guarantees
//! What is recorded and has no kubeconfig is made from nothing: whatever a crash left of it is deleted first. The user's
//! own kubeconfig is never touched. Few commands run at once.
//!
//! # Caveats
//! Clusters are this machine's. A process that goes on elsewhere finds the records and not the clusters.

mod command;
mod jobs;
mod programs;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_api::names::PLANES_NAMESPACE;
use allotment_api::reasons::{ClusterConditionReason, EventReason, ProviderReason};
use allotment_api::requests::{Cluster, KindConfigSpec, KindVersion, SupportedVersion};
use allotment_core::providers::{
    Job, KindObserved, KindPlan, KindRemoval, Sight, decide_kind, decide_kind_removal, kind_image, kind_traits,
    kind_versions, most_kind_clusters,
};
use allotment_core::requests::{Offer, Version};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::reach::Reach;
use super::{
    AdminAccess, Config, ConfigSettings, Health, KIND, Looked, OfferedProfile, OfferedVersion, Offers, Order, Provider,
    ProviderError, Readiness, Removal,
};
use crate::frame::{Seams, chain, warn_of};
use command::{Command, CommandError};
use jobs::Jobs;
pub use programs::{MOST_OUTPUT, NoPrograms, ProgramError, Programs, Ran};
use record::{Record, Records, place};

/// Commands that make or delete clusters at once: each takes most of a machine.
const MOST_COMMANDS: usize = 2;
/// How long it is believed that the command works, and that it does not.
const READY_FOR: Duration = Duration::from_secs(30);
const NOT_READY_FOR: Duration = Duration::from_secs(5);
/// How often the clusters of a ProviderConfig are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Steps of one pass: a new cluster takes three.
const MOST_STEPS: usize = 6;
/// What a command does: it makes a cluster, or deletes one.
const MAKES: bool = true;
/// Shortest lifetime of a token that kube-apiserver takes.
const SHORTEST_TOKEN_SECS: i64 = 600;

/// The provider `builtin:kind`.
pub struct Kind {
    platform: Client,
    secrets: Api<Secret>,
    records: Records,
    seams: Seams,
    command: Command,
    turns: Arc<Semaphore>,
    jobs: Mutex<Jobs>,
    clusters: Mutex<BTreeMap<String, Known>>,
    tool: tokio::sync::Mutex<Tool>,
    /// What `kind get clusters` said last.
    listed: Mutex<Option<BTreeSet<String>>>,
}

/// A cluster that this process has to do with, by UID of its Cluster.
#[derive(Debug)]
struct Known {
    config: String,
    reach: Arc<Reach>,
    /// How it did when its ProviderConfig was looked at last.
    told: Option<(Sight, Job)>,
}

/// Whether the command works.
#[derive(Debug)]
struct Tool {
    readiness: Readiness,
    due: Option<Instant>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kind").field("command", &self.command).finish_non_exhaustive()
    }
}

impl Kind {
    /// A provider whose records lie behind `platform`, and that runs `programs`.
    pub fn new(platform: Client, seams: Seams, programs: Arc<dyn Programs>) -> Self {
        let secrets = Api::<Secret>::namespaced(platform.clone(), PLANES_NAMESPACE);
        let records = Records::new(secrets.clone());
        Kind {
            platform,
            secrets,
            records,
            seams,
            command: Command::new(programs),
            turns: Arc::new(Semaphore::new(MOST_COMMANDS)),
            jobs: Mutex::default(),
            clusters: Mutex::default(),
            tool: tokio::sync::Mutex::new(Tool { readiness: Readiness::Ready, due: None }),
            listed: Mutex::default(),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clusters(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, order: &Order) -> Arc<Reach> {
        let mut clusters = self.clusters();
        let known = clusters.entry(order.uid.clone()).or_insert_with(|| Known {
            config: order.profile.clone(),
            reach: Arc::default(),
            told: None,
        });
        known.reach.clone()
    }

    fn is_listed(&self, name: &str) -> Option<bool> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.as_ref().map(|names| names.contains(name))
    }

    /// Has the cluster made, once there is a turn.
    fn make(&self, order: &Order, record: &Record) {
        let (command, records, turns) = (self.command.clone(), self.records.clone(), self.turns.clone());
        let (order, record) = (order.clone(), record.clone());
        let uid = order.uid.clone();
        self.jobs().start(&uid, MAKES, async move {
            let Ok(_turn) = turns.acquire_owned().await else { return Err("the provider ends".to_owned()) };
            let kubeconfig = command.create(&record).await.map_err(|error| error.to_string())?;
            records.made(&order, &kubeconfig).await.map_err(|error| chain(&error))
        });
    }

    /// Has the cluster deleted, once there is a turn, and its record with it.
    fn unmake(&self, order: &Order, record: &Record) {
        let (command, records, turns) = (self.command.clone(), self.records.clone(), self.turns.clone());
        let (order, name) = (order.clone(), record.name.clone());
        let uid = order.uid.clone();
        self.jobs().start(&uid, !MAKES, async move {
            let Ok(_turn) = turns.acquire_owned().await else { return Err("the provider ends".to_owned()) };
            command.delete(&name).await.map_err(|error| error.to_string())?;
            records.delete(&order).await.map_err(|error| chain(&error))
        });
    }

    /// The Cluster, if it is there, by a read that no cache answers.
    async fn cluster(&self, order: &Order) -> Result<Option<Cluster>, ProviderError> {
        let there = Api::<Cluster>::namespaced(self.platform.clone(), &order.namespace).get_opt(&order.name).await?;
        Ok(there.filter(|cluster| cluster.uid().as_deref() == Some(&order.uid)))
    }

    async fn health(&self, order: &Order, may_act: bool) -> Result<Health, ProviderError> {
        let mut record = self.records.read(order).await?;
        let reach = self.reach(order);
        let wanted = wanted(order);
        for _ in 0..MOST_STEPS {
            // Without its ProviderConfig nobody else looks at it.
            let alone = order.config.is_none() || reach.sight() == Sight::NotLooked;
            if record.as_ref().is_some_and(|record| record.is_made) && alone {
                reach.look(&self.secrets, &place(&order.uid)).await?;
            }
            let (job, sight) = (self.jobs().of(&order.uid), reach.sight());
            let listed = record.as_ref().and_then(|record| self.is_listed(&record.name));
            let plan = decide_kind(&KindObserved {
                going: order.going,
                not_offered: wanted.as_ref().err().map(String::as_str),
                recorded: record.as_ref().map(|record| record.is_made),
                job: &job,
                sight: &sight,
                listed,
            });
            match (plan, &wanted, &record) {
                (KindPlan::Say(health), ..) => return Ok(health),
                _ if !may_act => break,
                (KindPlan::Record, Ok((offer, workers)), _) => {
                    let made = self.records.create(order, &kind_image(offer), *workers).await?;
                    // A view that lags may take a Cluster for one that is to be made although it is gone.
                    let there = self.cluster(order).await?;
                    if there.is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some()) {
                        self.records.delete(order).await?;
                        break;
                    }
                    record = Some(made);
                }
                (KindPlan::Make, _, Some(record)) => self.make(order, record),
                (KindPlan::Record | KindPlan::Make, ..) => break,
            }
        }
        Ok(Health::Progressing { message: "the cluster is not made yet".to_owned() })
    }

    /// Tells of a cluster that was left.
    async fn leave_behind(&self, order: &Order, name: &str, why: &str) -> Result<(), ProviderError> {
        if let Some(cluster) = self.cluster(order).await? {
            let message = format!(
                "deleted by force: cluster {name} of kind may be left on the machine (`kind delete cluster --name {name}`): {why}"
            );
            warn_of(&self.platform, &self.seams, &cluster, EventReason::LeftBehind, &message).await?;
        }
        Ok(())
    }
}

/// What a Cluster is made from: a version and its image, and how many workers; or why not.
fn wanted(order: &Order) -> Result<(KindVersion, i32), String> {
    let Some(ConfigSettings::Kind(spec)) = order.config.as_ref().map(|config| &config.settings) else {
        let (profile, provider) = (&order.profile, &order.provider);
        return Err(format!("there is no ProviderConfig {profile:?} of ClusterProvider {provider:?}; make it again"));
    };
    let (versions, _) = kind_versions(spec);
    let supported: Vec<_> = versions
        .iter()
        .map(|offer| SupportedVersion { version: offer.version.clone(), deprecated: offer.deprecated })
        .collect();
    let asked = (!order.version.is_empty()).then(|| Version::parse(&order.version));
    let not_offered = || {
        format!(
            "spec.kubernetes.version: {:?} is not offered, or deprecated and not asked for in full; the status of the \
             ClusterProvider lists what is",
            order.version
        )
    };
    let asked = match asked {
        Some(None) => return Err(not_offered()),
        Some(version) => version,
        None => None,
    };
    let chosen = Offer::of(&supported).choose(asked.as_ref()).map_err(|_| not_offered())?;
    let offer = versions.into_iter().find(|offer| offer.version == chosen.text).ok_or_else(not_offered)?;
    Ok((offer, workers(spec)))
}

fn workers(spec: &KindConfigSpec) -> i32 {
    spec.workers.unwrap_or(0)
}

#[async_trait]
impl Provider for Kind {
    fn package(&self) -> &'static str {
        KIND
    }

    fn finalizer(&self) -> &'static str {
        "kind.cluster.openmcp.cloud/cluster"
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn readiness(&self) -> (Readiness, Option<Duration>) {
        let mut tool = self.tool.lock().await;
        let left = tool.due.map(|due| due.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        if let Some(left) = left {
            return (tool.readiness.clone(), Some(left));
        }
        let answer = self.command.list().await;
        tool.readiness = judge(&answer);
        let holds = if tool.readiness == Readiness::Ready { READY_FOR } else { NOT_READY_FOR };
        tool.due = Some(Instant::now() + holds);
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = answer.ok();
        (tool.readiness.clone(), Some(holds))
    }

    fn offers(&self, configs: &[Config]) -> Offers {
        let mut offers = Offers::default();
        for config in configs {
            let ConfigSettings::Kind(spec) = &config.settings else { continue };
            let (versions, trouble) = kind_versions(spec);
            offers.unusable.extend(trouble.map(|trouble| format!("ProviderConfig {}: {trouble}", config.name)));
            let versions = versions
                .into_iter()
                .map(|KindVersion { version, deprecated, .. }| OfferedVersion { version, deprecated });
            offers.profiles.push(OfferedProfile {
                name: config.name.clone(),
                config: config.name.clone(),
                versions: versions.collect(),
                traits: kind_traits(spec),
                max_clusters: Some(most_kind_clusters(spec)),
                oidc: None,
            });
        }
        offers
    }

    async fn look(&self, config: &Config) -> Result<Looked, ProviderError> {
        let of_it: Vec<(String, Arc<Reach>)> = {
            let clusters = self.clusters();
            let of_it = clusters.iter().filter(|(_, known)| known.config == config.name);
            of_it.map(|(uid, known)| (uid.clone(), known.reach.clone())).collect()
        };
        let looks = of_it.iter().map(|(uid, reach)| async move {
            // One that is not made yet has no kubeconfig, and nobody looks at it.
            match reach.sight() {
                Sight::NotLooked => Ok(()),
                _ => reach.look(&self.secrets, &place(uid)).await.map(drop),
            }
        });
        futures::future::try_join_all(looks).await?;
        let mut changed = false;
        for (uid, reach) in of_it {
            let now = Some((reach.sight(), self.jobs().of(&uid)));
            if let Some(known) = self.clusters().get_mut(&uid)
                && known.told != now
            {
                known.told = now;
                changed = true;
            }
        }
        Ok(Looked { changed, again: Some(LOOK_EVERY) })
    }

    async fn ensure(&self, order: &Order) -> Result<Health, ProviderError> {
        self.health(order, true).await
    }

    async fn observe(&self, order: &Order) -> Result<Health, ProviderError> {
        self.health(order, false).await
    }

    async fn remove(&self, order: &Order) -> Result<Removal, ProviderError> {
        let Some(record) = self.records.read(order).await? else {
            self.clusters().remove(&order.uid);
            self.jobs().forget(&order.uid);
            return Ok(Removal::Gone);
        };
        let job = self.jobs().of(&order.uid);
        Ok(match decide_kind_removal(&job, order.forced) {
            KindRemoval::Wait => Removal::Going,
            KindRemoval::EndJob => {
                self.jobs().abort(&order.uid);
                Removal::Going
            }
            KindRemoval::Delete => {
                self.unmake(order, &record);
                Removal::Going
            }
            KindRemoval::LeaveBehind { why } => {
                self.jobs().abort(&order.uid);
                self.leave_behind(order, &record.name, &why).await?;
                self.records.delete(order).await?;
                Removal::Going
            }
            KindRemoval::Say { message } => Removal::Waiting { reason: ClusterConditionReason::Failed, message },
        })
    }

    async fn admin_access(&self, order: &Order) -> Result<AdminAccess, ProviderError> {
        let absent = || ProviderError::Absent { namespace: order.namespace.clone(), name: order.name.clone() };
        self.records.read(order).await?.filter(|record| record.is_made).ok_or_else(absent)?;
        let reach = self.reach(order);
        if reach.sight() == Sight::NotLooked {
            reach.look(&self.secrets, &place(&order.uid)).await?;
        }
        let (sight, client) = reach.view();
        if let Some((_, message)) = sight.trouble() {
            return Err(ProviderError::Unreachable(message.to_owned()));
        }
        let (client, endpoint) = client.ok_or_else(absent)?;
        Ok(AdminAccess { client, endpoint, shortest_token_secs: SHORTEST_TOKEN_SECS })
    }
}

/// Whether the command works, and what to install where it does not.
fn judge(answer: &Result<BTreeSet<String>, CommandError>) -> Readiness {
    let message = match answer {
        Ok(_) => return Readiness::Ready,
        Err(CommandError::Program(ProgramError::NotFound { .. })) => {
            "the kind command is not in the PATH of the server: install kind (https://kind.sigs.k8s.io) and Docker or \
             Podman on its machine"
                .to_owned()
        }
        Err(error) => format!(
            "the kind command does not work: {error}. It needs Docker or Podman on the machine of the server, running, and \
             usable by the server's user"
        ),
    };
    Readiness::NotReady { reason: ProviderReason::ToolNotUsable, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_what_to_install() {
        let missing = Err(CommandError::Program(ProgramError::NotFound { program: "kind".into() }));
        let broken = Err(CommandError::Failed { what: "get clusters".into(), complaint: "no docker".into() });
        let slow = Err(CommandError::Program(ProgramError::TooSlow { program: "kind".into(), limit_secs: 30 }));
        for (answer, says) in [
            (missing, &["install kind", "Docker", "PATH"][..]),
            (broken, &["no docker", "Docker or Podman"]),
            (slow, &["did not end within 30 s"]),
        ] {
            let Readiness::NotReady { reason, message } = judge(&answer) else { panic!("{answer:?} is not ready") };
            assert_eq!(reason, ProviderReason::ToolNotUsable);
            assert!(says.iter().all(|text| message.contains(text)), "{message}");
        }
        assert_eq!(judge(&Ok(BTreeSet::new())), Readiness::Ready);
    }
}
