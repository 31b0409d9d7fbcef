//! The requests that wait for a Cluster, each with all others of which the same would be said: they ask the same from the
//! same namespace, and have the same answer, or none yet. Whatever changes, those that stand first in such a group stand for all:
//! where nothing is to be done for them, nothing is for the others, and where one leaves, the next moves up and is
//! looked at. So a change costs a few looks for each group, however many wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allotment_api::names;
use allotment_api::requests::{ClusterRequest, KubernetesVersion};
use allotment_api::traits::TraitEntry;
use serde::Serialize;

use super::annotation;
use crate::requests::queue::QueueOrder;
use crate::write::ObjectKey;

/// Requests that have no Cluster.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// How many of a group stand for all.
    first: usize,
    places: BTreeMap<ObjectKey, Place>,
    groups: BTreeMap<Arc<str>, Group>,
    /// The groups that ask for a purpose.
    asking: BTreeMap<String, BTreeSet<Arc<str>>>,
}

#[derive(Clone, Debug)]
struct Place {
    group: Arc<str>,
    order: QueueOrder,
}

#[derive(Clone, Debug, Default)]
struct Group {
    purposes: Vec<String>,
    members: BTreeSet<QueueOrder>,
}

impl Waiting {
    /// Nobody waits; of a group so many stand for all, one at least.
    pub(super) fn new(first: usize) -> Self {
        let first = first.max(1);
        Waiting { first, places: BTreeMap::new(), groups: BTreeMap::new(), asking: BTreeMap::new() }
    }

    /// The request waits from now on, as it is. Gives who moved up in the group that it was in before.
    pub(super) fn enter(&mut self, key: &ObjectKey, request: &ClusterRequest, alone: bool) -> Option<ObjectKey> {
        let mut place = Place { group: group_of(key, request, alone), order: QueueOrder::of(request) };
        if let Some(before) = self.places.get(key)
            && before.group == place.group
            && before.order == place.order
        {
            return None;
        }
        let next = self.leave(key);
        match self.groups.get_key_value(&place.group) {
            // The text is kept once.
            Some((name, _)) => place.group = Arc::clone(name),
            None => {
                for purpose in &request.spec.purposes {
                    self.asking.entry(purpose.clone()).or_default().insert(place.group.clone());
                }
                let group = Group { purposes: request.spec.purposes.clone(), members: BTreeSet::new() };
                self.groups.insert(place.group.clone(), group);
            }
        }
        if let Some(group) = self.groups.get_mut(&place.group) {
            group.members.insert(place.order.clone());
        }
        self.places.insert(key.clone(), place);
        next
    }

    /// The request waits no longer. Gives who moved up in its place.
    pub(super) fn leave(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        let Place { group: name, order } = self.places.remove(key)?;
        let group = self.groups.get_mut(&name)?;
        let stood_first = group.members.iter().nth(self.first - 1).is_none_or(|last| order <= *last);
        group.members.remove(&order);
        let next = group.members.iter().nth(self.first - 1).filter(|_| stood_first).map(|next| next.key().clone());
        if group.members.is_empty()
            && let Some(group) = self.groups.remove(&name)
        {
            for purpose in group.purposes {
                super::set_member(&mut self.asking, purpose, &name, false);
            }
        }
        next
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// All of them, by namespace and name.
    pub(super) fn all(&self) -> impl Iterator<Item = &ObjectKey> {
        self.places.keys()
    }

    /// Those in a namespace.
    pub(super) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a ObjectKey> {
        let from = self.places.range(ObjectKey::new(namespace, "")..);
        from.map(|(key, _)| key).take_while(move |key| key.namespace == namespace)
    }

    /// Those that stand for all.
    pub(super) fn first(&self) -> impl Iterator<Item = &ObjectKey> {
        self.groups.values().flat_map(|group| group.first(self.first))
    }

    /// Those that stand for all that ask for a purpose.
    pub(super) fn first_for(&self, purpose: &str) -> impl Iterator<Item = &ObjectKey> {
        let groups = self.asking.get(purpose).into_iter().flatten();
        groups.filter_map(|name| self.groups.get(name)).flat_map(|group| group.first(self.first))
    }
}

impl Group {
    fn first(&self, count: usize) -> impl Iterator<Item = &ObjectKey> {
        self.members.iter().take(count).map(QueueOrder::key)
    }
}

/// All that the next decision about a request that is bound to nothing depends on, but for the clock and for what others
/// have; as text, which is compared and never read. Findings are left out: they are not as old as each other, and
/// are told anew by the clock.
fn group_of(key: &ObjectKey, request: &ClusterRequest, alone: bool) -> Arc<str> {
    #[derive(Serialize)]
    struct Told<'a> {
        namespace: &'a str,
        /// Of which no other is the same.
        name: Option<&'a str>,
        kubernetes: &'a Option<KubernetesVersion>,
        dedicated: Option<bool>,
        purposes: &'a [String],
        traits: &'a [TraitEntry],
        observed: bool,
        reason: &'a str,
        message: &'a str,
        conditions: Vec<[&'a str; 4]>,
    }
    let (spec, none) = (&request.spec, Default::default());
    let status = request.status.as_ref().unwrap_or(&none);
    let conditions = status.conditions.iter();
    let told = Told {
        namespace: &key.namespace,
        name: alone.then_some(&key.name),
        kubernetes: &spec.kubernetes,
        dedicated: spec.dedicated,
        purposes: &spec.purposes,
        traits: &spec.traits,
        observed: status.observed_generation == request.metadata.generation,
        reason: &status.reason,
        message: &status.message,
        conditions: conditions.map(|told| [&*told.type_, &*told.status, &*told.reason, &*told.message]).collect(),
    };
    // Of these types none fails to be written; a group of its own would be right as well.
    serde_json::to_string(&told).unwrap_or_else(|_| key.to_string()).into()
}

/// Whether what is decided for a request depends on more than what it asks and its answer.
pub(super) fn is_special(request: &ClusterRequest) -> bool {
    request.metadata.deletion_timestamp.is_some() || annotation(&request.metadata, names::LOST_CLUSTER).is_some()
}
