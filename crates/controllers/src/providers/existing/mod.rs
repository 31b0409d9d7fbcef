//! Provider `existing`: a Cluster is one that is there, and a ProviderConfig says where. Creating takes it, deleting takes
//! our objects out and leaves it.
//!
//! # Flow
//! What a ProviderConfig stands for is looked at as long as that is there ([`Provider::look`]): its kubeconfig, then the
//! cluster. Everything else works with what was seen last, so that a cluster that does not answer holds nobody up.
//! A Cluster is recorded (which cluster it is), and then written into the cluster (whose it is), before anything else is
//! made there.
//!
//! # Guarantees
//! No admin rights are given on a cluster that is not the one that was recorded. Removal ends with the record, so that a
//! crash in between is taken up again.
//!
//! # Caveats
//! Of a Cluster without its ProviderConfig the cluster is looked at when the Cluster changes, not by the clock.

mod inside;

mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_api::names::PLANES_NAMESPACE;
use allotment_api::reasons::{ClusterConditionReason, EventReason};
use allotment_api::requests::Cluster;
use allotment_core::access::kept_prefixes;
use allotment_core::providers::{
    Claim, ExistingLeaving, ExistingObserved, ExistingPlan, ExistingRemoval, Sight, decide_existing,
    decide_existing_removal,
};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use tokio::time::timeout;

use super::place::Place;
use super::reach::Reach;
use super::{
    AdminAccess, Config, ConfigSettings, EXISTING, Health, Looked, OfferedProfile, OfferedVersion, Offers, Order,
    Provider, ProviderError, Removal,
};
use crate::frame::{Seams, chain, warn_of};
use inside::OfTenants;
use record::{Record, Records};

/// Steps of one pass: taking a cluster takes five.
const MOST_STEPS: usize = 8;
/// Shortest lifetime of a token that kube-apiserver takes (`ValidateTokenRequest` of
/// k8s.io/kubernetes/pkg/apis/authentication/validation).
const SHORTEST_TOKEN_SECS: i64 = 600;
/// How long it may take to take our objects out, before it is tried again.
const REMOVAL_LIMIT: Duration = Duration::from_secs(20);
/// Most names of either kind that an Event has room for: it takes 1024 bytes.
const MOST_NAMES: usize = 5;

/// The provider `builtin:existing`.
pub struct Existing {
    platform: Client,
    secrets: Api<Secret>,
    records: Records,
    seams: Seams,
    /// By name of the ProviderConfig.
    reaches: Mutex<BTreeMap<String, Arc<Reach>>>,
}

impl std::fmt::Debug for Existing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Existing").field("reaches", &self.reaches).finish_non_exhaustive()
    }
}

impl Existing {
    /// A provider whose kubeconfigs and records lie behind `platform`.
    pub fn new(platform: Client, seams: Seams) -> Self {
        let secrets = Api::<Secret>::namespaced(platform.clone(), PLANES_NAMESPACE);
        let records = Records::new(secrets.clone());
        Existing { platform, secrets, records, seams, reaches: Mutex::default() }
    }

    fn reach(&self, config: &str) -> Arc<Reach> {
        let mut reaches = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
        reaches.entry(config.to_owned()).or_default().clone()
    }

    /// The way to a Cluster's cluster, and where its kubeconfig lies. Where there is no ProviderConfig any more, nobody
    /// else looks at the cluster.
    async fn way(&self, order: &Order, record: Option<&Record>) -> Result<(Arc<Reach>, Option<Place>), ProviderError> {
        let reach = self.reach(&order.profile);
        match order.config.as_ref().map(|config| &config.settings) {
            Some(ConfigSettings::Existing(spec)) => {
                let place = Place::of(&spec.kubeconfig_ref).ok();
                // After a start: a Cluster that does well is not to be told otherwise for a moment.
                if let Some(place) = place.as_ref().filter(|_| reach.sight() == Sight::NotLooked) {
                    reach.look(&self.secrets, place).await?;
                }
                Ok((reach, place))
            }
            _ => {
                let place = record.map(|record| record.place.clone());
                match &place {
                    Some(place) => {
                        reach.look(&self.secrets, place).await?;
                    }
                    None => {
                        let message = format!(
                            "there is no ProviderConfig {:?} of ClusterProvider {:?}; make it again",
                            order.profile, order.provider
                        );
                        reach.not_usable(message);
                    }
                }
                Ok((reach, place))
            }
        }
    }

    /// Whether the Cluster is there and not being deleted, by a read that no cache answers.
    async fn is_wanted(&self, order: &Order) -> Result<bool, ProviderError> {
        let there = self.cluster(order).await?;
        Ok(there.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none()))
    }

    /// The Cluster, while it is there, by a read that no cache answers.
    async fn cluster(&self, order: &Order) -> Result<Option<Cluster>, ProviderError> {
        let there = Api::<Cluster>::namespaced(self.platform.clone(), &order.namespace).get_opt(&order.name).await?;
        Ok(there.filter(|cluster| cluster.uid().as_deref() == Some(&order.uid)))
    }

    /// Tells of what stays of tenants in a cluster that was left.
    async fn tell_of_tenants(&self, order: &Order, left: &OfTenants) -> Result<(), ProviderError> {
        let OfTenants { bindings, namespaces } = left;
        if bindings.is_empty() && namespaces.is_empty() {
            return Ok(());
        }
        if let Some(cluster) = self.cluster(order).await? {
            let message = format!(
                "the cluster was left: nothing keeps ServiceAccounts of its tenants to their prefixes any more, so ClusterRoleBindings \
                 with these were deleted ({}); namespaces stay, with what is in them ({}): delete those that nobody needs",
                some_of(bindings),
                some_of(namespaces)
            );
            warn_of(&self.platform, &self.seams, &cluster, EventReason::LeftBehind, &message).await?;
        }
        Ok(())
    }

    /// Tells of what was left in a cluster that could not be reached.
    async fn leave_behind(&self, order: &Order, why: &str) -> Result<(), ProviderError> {
        if let Some(cluster) = self.cluster(order).await? {
            let message = format!(
                "deleted by force: what the platform made in the cluster (namespace allot-access, objects labelled \
                 cluster.openmcp.cloud/access-request) is left there: {why}"
            );
            warn_of(&self.platform, &self.seams, &cluster, EventReason::LeftBehind, &message).await?;
        }
        Ok(())
    }
}

/// Some of the names, and how many there are beside these.
fn some_of(names: &BTreeSet<String>) -> String {
    let first = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "none".to_owned(),
        count if count > MOST_NAMES => format!("{first} and {} more", count - MOST_NAMES),
        _ => first,
    }
}

#[async_trait]
impl Provider for Existing {
    fn package(&self) -> &'static str {
        EXISTING
    }

    fn finalizer(&self) -> &'static str {
        "existing.cluster.openmcp.cloud/cluster"
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn offers(&self, configs: &[Config]) -> Offers {
        let mut offers = Offers::default();
        for config in configs {
            let ConfigSettings::Existing(spec) = &config.settings else { continue };
            let sight = self.reach(&config.name).sight();
            let versions = match &sight {
                Sight::NotLooked => {
                    offers.settled = false;
                    Vec::new()
                }
                Sight::Seen(seen) => vec![OfferedVersion { version: seen.version.clone(), deprecated: false }],
                // It is published all the same, for the Cluster that it may be; nothing new can be made of it.
                Sight::NotUsable { .. } | Sight::Unreachable { .. } | Sight::Refused { .. } => Vec::new(),
            };
            if let Some((_, message)) = sight.trouble() {
                offers.unusable.push(format!("ProviderConfig {}: {message}", config.name));
            }
            offers.profiles.push(OfferedProfile {
                name: config.name.clone(),
                config: config.name.clone(),
                versions,
                traits: sight.traits(&spec.traits),
                max_clusters: Some(1),
                oidc: spec.oidc.clone(),
            });
        }
        offers
    }

    async fn look(&self, config: &Config) -> Result<Looked, ProviderError> {
        let ConfigSettings::Existing(spec) = &config.settings else { return Ok(Looked::default()) };
        let reach = self.reach(&config.name);
        match Place::of(&spec.kubeconfig_ref) {
            // Whoever serves a Cluster may have looked before, and tells nobody.
            Ok(place) => {
                let looked = reach.look(&self.secrets, &place).await?;
                Ok(Looked { changed: reach.tell(), ..looked })
            }
            // That is mended in the ProviderConfig, which tells when it changes.
            Err(message) => {
                reach.not_usable(message);
                Ok(Looked { changed: reach.tell(), again: None })
            }
        }
    }

    fn forget(&self, config: &str) {
        self.reaches.lock().unwrap_or_else(PoisonError::into_inner).remove(config);
    }

    async fn ensure(&self, order: &Order) -> Result<Health, ProviderError> {
        let mut record = self.records.read(order).await?;
        let (reach, place) = self.way(order, record.as_ref()).await?;
        let (sight, client) = reach.view();
        let mut claim = Claim::NotRead;
        for _ in 0..MOST_STEPS {
            let taken = record.as_ref().map(|record| record.identity.as_str());
            let observed =
                ExistingObserved { asked: &order.version, going: order.going, sight: &sight, taken, claim: &claim };
            let plan = decide_existing(&observed);
            let (Some((client, _)), Some(place)) = (&client, &place) else {
                return Ok(match plan {
                    ExistingPlan::Say(health) => health,
                    _ => Health::Progressing { message: "the cluster is being looked at".to_owned() },
                });
            };
            match plan {
                ExistingPlan::Say(health) => {
                    let moved = record.as_ref().filter(|record| record.place != *place);
                    if let (Some(record), Health::Healthy { .. }) = (moved, &health) {
                        self.records.write(order, &Record { place: place.clone(), ..record.clone() }).await?;
                    }
                    return Ok(health);
                }
                ExistingPlan::ReadClaim => match inside::read_claim(client, order).await {
                    Ok(read) => claim = read,
                    Err(error) => return Ok(unreachable(&error)),
                },
                ExistingPlan::Take { identity } => {
                    let taken = Record { identity, place: place.clone() };
                    self.records.write(order, &taken).await?;
                    // A view that lags may take a Cluster for one that is to be made although it is gone. Once the
                    // record is there, whoever deletes the Cluster from now on finds it.
                    if !self.is_wanted(order).await? {
                        self.records.delete(order).await?;
                        let message = "the Cluster was deleted before its cluster was taken".to_owned();
                        return Ok(Health::Progressing { message });
                    }
                    record = Some(taken);
                }
                ExistingPlan::Claim => match inside::write_claim(client, order).await {
                    Ok(()) => claim = Claim::NotRead,
                    Err(error) => return Ok(unreachable(&error)),
                },
            }
        }
        Ok(Health::Progressing { message: "the cluster is being taken".to_owned() })
    }

    async fn observe(&self, order: &Order) -> Result<Health, ProviderError> {
        let record = self.records.read(order).await?;
        let (reach, _) = self.way(order, record.as_ref()).await?;
        let (sight, client) = reach.view();
        let taken = record.as_ref().map(|record| record.identity.as_str());
        let claim = match (&sight, client) {
            (Sight::Seen(_), Some((client, _))) => match inside::read_claim(&client, order).await {
                Ok(claim) => claim,
                Err(error) => return Ok(unreachable(&error)),
            },
            _ => Claim::NotRead,
        };
        let observed =
            ExistingObserved { asked: &order.version, going: order.going, sight: &sight, taken, claim: &claim };
        match decide_existing(&observed) {
            ExistingPlan::Say(health) => Ok(health),
            ExistingPlan::ReadClaim | ExistingPlan::Take { .. } | ExistingPlan::Claim => {
                Ok(Health::Progressing { message: "the cluster is not taken yet".to_owned() })
            }
        }
    }

    async fn remove(&self, order: &Order) -> Result<Removal, ProviderError> {
        let Some(record) = self.records.read(order).await? else { return Ok(Removal::Gone) };
        let (reach, _) = self.way(order, Some(&record)).await?;
        let (sight, client) = reach.view();
        let mut failed = None;
        loop {
            let leaving = ExistingLeaving {
                sight: &sight,
                taken: &record.identity,
                failed: failed.as_deref(),
                forced: order.forced,
            };
            match decide_existing_removal(&leaving) {
                ExistingRemoval::Wait => return Ok(Removal::Going),
                ExistingRemoval::TakeOut => {
                    let Some((client, _)) = &client else { return Ok(Removal::Going) };
                    let prefixes = self.cluster(order).await?.as_ref().map(kept_prefixes).unwrap_or_default();
                    match timeout(REMOVAL_LIMIT, inside::leave(client, order, &prefixes)).await {
                        Ok(Ok(of_tenants)) => {
                            self.tell_of_tenants(order, &of_tenants).await?;
                            self.records.delete(order).await?;
                            return Ok(Removal::Gone);
                        }
                        Ok(Err(error)) => failed = Some(chain(&error)),
                        // What there is much of takes more than one try.
                        Err(_) if !order.forced => return Ok(Removal::Going),
                        Err(_) => failed = Some(format!("it takes longer than {} s", REMOVAL_LIMIT.as_secs())),
                    }
                }
                ExistingRemoval::LeaveBehind { why } => {
                    self.leave_behind(order, &why).await?;
                    self.records.delete(order).await?;
                    return Ok(Removal::Gone);
                }
                ExistingRemoval::Say { reason, message } => return Ok(Removal::Waiting { reason, message }),
            }
        }
    }

    async fn admin_access(&self, order: &Order) -> Result<AdminAccess, ProviderError> {
        let absent = || ProviderError::Absent { namespace: order.namespace.clone(), name: order.name.clone() };
        let record = self.records.read(order).await?.ok_or_else(absent)?;
        let (reach, _) = self.way(order, Some(&record)).await?;
        let (sight, client) = reach.view();
        let Sight::Seen(seen) = &sight else {
            let (_, message) = sight.trouble().unwrap_or((ClusterConditionReason::NotHealthy, ""));
            return Err(ProviderError::Unreachable(message.to_owned()));
        };
        if seen.identity != record.identity {
            let message = "the ProviderConfig leads to another cluster than before".to_owned();
            return Err(ProviderError::Unreachable(message));
        }
        let (client, endpoint) = client.ok_or_else(absent)?;
        Ok(AdminAccess { client, endpoint, shortest_token_secs: SHORTEST_TOKEN_SECS })
    }
}

/// What is said of a cluster that was seen and does not answer now.
fn unreachable(error: &kube::Error) -> Health {
    Health::Unhealthy { reason: ClusterConditionReason::Unreachable, message: chain(error) }
}
