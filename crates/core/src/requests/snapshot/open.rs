//! The Clusters that are open to requests, grouped by all that eligibility depends on. Which of them is
//! taken is left to `select`.

use std::collections::BTreeSet;

use allotment_api::requests::Cluster;

use super::{MAX_TENANT_RECORDS, Snapshot, live_tenants, once_dedicated, running_version, set_member};
use crate::requests::select::home;
use crate::requests::spares::is_spare;
use crate::write::ObjectKey;

/// All that tells whether a shared request may join a Cluster, but for room and age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) purposes: BTreeSet<String>,
    pub(crate) provider: String,
    pub(crate) profile: String,
    pub(crate) version: String,
    /// Whether nobody ever had room on it; such Clusters are joined last, or each request would have one.
    pub(crate) spare: bool,
    /// The namespace of one that was written by hand.
    pub(crate) home: Option<String>,
}

/// Where a Cluster stands in the indexes of open ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Shared { shape: Shape, tenants: usize },
    Spare { purposes: BTreeSet<String> },
}

impl Slot {
    /// Where the Cluster stands, whatever the number of its tenants: that changes who comes first, not who fits.
    fn place(self) -> Self {
        match self {
            Slot::Shared { shape, tenants: _ } => Slot::Shared { shape, tenants: 0 },
            Slot::Spare { purposes } => Slot::Spare { purposes },
        }
    }
}

impl Snapshot {
    /// Puts a Cluster where it is found now, or nowhere if it is gone. Gives whether requests that are not bound may be
    /// told something else because of it: not for one tenant more or less on one that has room before and after.
    pub(super) fn settle(&mut self, key: &ObjectKey) -> bool {
        let other = self.join_alike(key);
        let slot = self.clusters.get(key).and_then(|cluster| self.slot_of(cluster));
        if self.slots.get(key) == slot.as_ref() {
            return other;
        }
        let was = self.slots.remove(key);
        for (slot, enters) in [(&was, false), (&slot, true)] {
            match slot {
                Some(Slot::Shared { shape, tenants }) => {
                    set_member(&mut self.shared, shape.clone(), &(*tenants, key.clone()), enters);
                }
                Some(Slot::Spare { purposes }) => set_member(&mut self.spares, purposes.clone(), key, enters),
                None => {}
            }
        }
        if let Some(slot) = slot.clone() {
            self.slots.insert(key.clone(), slot);
        }
        other || was.map(Slot::place) != slot.map(Slot::place)
    }

    /// Where an open Cluster is found; whether a new one took too long is asked when it is chosen.
    pub(super) fn slot_of(&self, cluster: &Cluster) -> Option<Slot> {
        if self.closed(cluster).is_some() {
            return None;
        }
        let spec = &cluster.spec;
        let purposes: BTreeSet<String> = spec.purposes.iter().cloned().collect();
        match spec.dedicated {
            Some(true) => spec.tenants.is_empty().then_some(Slot::Spare { purposes }),
            Some(false) if once_dedicated(cluster) => None,
            Some(false) => {
                let tenants = live_tenants(cluster);
                self.has_room(cluster).then(|| Slot::Shared {
                    shape: Shape {
                        purposes,
                        provider: spec.cluster_provider_ref.name.clone(),
                        profile: spec.cluster_provider_ref.profile.clone(),
                        version: running_version(cluster).to_owned(),
                        spare: is_spare(cluster),
                        home: home(cluster),
                    },
                    tenants,
                })
            }
            None => None,
        }
    }

    /// Whether a shared Cluster has room for one more.
    pub(crate) fn has_room(&self, cluster: &Cluster) -> bool {
        let most = cluster
            .spec
            .purposes
            .iter()
            .filter_map(|name| usize::try_from(self.purpose(name)?.max_tenants?).ok())
            .min()
            .unwrap_or(MAX_TENANT_RECORDS);
        live_tenants(cluster) < most && cluster.spec.tenants.len() < MAX_TENANT_RECORDS
    }
}
