//! Who keeps to which prefix on a shared Cluster, as far as there is room for it.
//!
//! # Guarantees
//! - Every tenant is in it, whatever else is: what lies in namespaces with its prefix is kept to it.
//! - An identity without an entry may write nothing outside namespaces, so a table that has no room for all is safe for
//!   those that it leaves out, and for everybody else what it was.
//! - No tenant takes the room of others: it has at most [`MOST_OF_TENANT`] identities, and who was granted access keeps it.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::requests::{AccessRequest, Cluster};
use k8s_openapi::jiff::Timestamp;

use super::decide::is_granted;
use super::guard::{MOST_BYTES, entry, maps};
use super::inside::object_name;
use super::names::{NamesAllowed, binds, of_access_request};
use crate::requests::Snapshot;
use crate::write::ObjectKey;

/// Most identities of AccessRequests that one tenant is given on one shared Cluster; by `clusterRef`, one namespace. A table has
/// room for some ten thousand of all.
pub const MOST_OF_TENANT: usize = 256;
/// What those may give who are bound to no prefix.
pub(super) const ANY: &str = "any";
/// Bytes of a table that are no entry's own: what begins and ends each of its expressions.
const FRAMES: usize = 256;

/// Who is to be kept apart on a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// Nobody: it is dedicated.
    None,
    /// No Cluster of that name and UID is known: nothing may be given there.
    Unknown,
    /// Those.
    By(Table),
}

impl Neighbours {
    /// The table, where there is one.
    pub fn table(self) -> Option<Table> {
        match self {
            Neighbours::By(table) => Some(table),
            Neighbours::None | Neighbours::Unknown => None,
        }
    }
}

/// Who keeps to which prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The ClusterRequest of each prefix, as `namespace/name`.
    pub(super) tenants: BTreeMap<String, String>,
    /// By name of the account of an AccessRequest: its prefix, or [`ANY`].
    pub(super) accounts: BTreeMap<String, String>,
    /// Accounts of AccessRequests that found no room.
    left_out: BTreeMap<String, NoRoom>,
}

/// Why the identity of an AccessRequest has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// Its tenant has as many as one may.
    #[error(
        "the tenant has {MOST_OF_TENANT} AccessRequests there, as many as one may have on a shared Cluster: delete some of them"
    )]
    OfTenant,
    /// There are too many of all tenants.
    #[error(
        "its table of prefixes is full, at the {MOST_BYTES} bytes that one policy holds: AccessRequests to it have to go, and \
         maxTenants of its Purposes be lowered"
    )]
    OfAll,
}

impl Table {
    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty() && self.accounts.is_empty()
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.tenants.len() + self.accounts.len()
    }

    /// Bytes of it as expressions. Beyond [`MOST_BYTES`] identities are left out.
    pub fn bytes(&self) -> usize {
        [&self.tenants, &self.accounts].into_iter().flat_map(maps).map(|map| map.len()).sum()
    }

    /// Whether a server that judges by one judges by the other: who is left out stands in neither.
    pub fn judges_as(&self, other: &Table) -> bool {
        self.tenants == other.tenants && self.accounts == other.accounts
    }

    /// Whether the identity of the AccessRequest with that UID may be given rights once the table is in force.
    ///
    /// # Errors
    /// It has no entry, for want of room.
    pub fn room_for(&self, access_uid: &str) -> Result<(), NoRoom> {
        self.left_out.get(&object_name(access_uid)).map_or(Ok(()), |why| Err(*why))
    }

    /// Takes in as many as there is room for: first those that were granted access, then the older ones.
    fn take_in(&mut self, mut identities: Vec<Identity<'_>>) {
        identities.sort_by(|one, other| one.rank().cmp(&other.rank()));
        let mut room = MOST_BYTES.saturating_sub(self.bytes() + FRAMES);
        let mut of_tenant: BTreeMap<&str, usize> = BTreeMap::new();
        for identity in &identities {
            let count = of_tenant.entry(identity.of).or_default();
            let bytes = entry(&identity.account, &identity.keeps_to).len() + 1;
            let why = match () {
                () if !identity.granted && *count >= MOST_OF_TENANT => NoRoom::OfTenant,
                () if bytes > room => NoRoom::OfAll,
                () => {
                    *count += 1;
                    room -= bytes;
                    self.accounts.insert(identity.account.clone(), identity.keeps_to.clone());
                    continue;
                }
            };
            self.left_out.insert(identity.account.clone(), why);
        }
    }
}

/// The account of an AccessRequest that lives in the Cluster.
struct Identity<'a> {
    account: String,
    keeps_to: String,
    /// Whose it counts as.
    of: &'a str,
    granted: bool,
    since: Option<Timestamp>,
}

impl Identity<'_> {
    fn rank(&self) -> (bool, Option<Timestamp>, &str) {
        (!self.granted, self.since, &self.account)
    }
}

/// Who keeps to which prefix on the Cluster of that key and UID.
pub fn table(snapshot: &Snapshot, key: &ObjectKey, cluster_uid: &str) -> Neighbours {
    let there = snapshot.cluster(key).filter(|cluster| cluster.metadata.uid.as_deref() == Some(cluster_uid));
    let Some(cluster) = there else { return Neighbours::Unknown };
    match cluster.spec.dedicated {
        Some(false) => Neighbours::By(of_shared(snapshot, cluster, cluster_uid)),
        _ => Neighbours::None,
    }
}

fn of_shared(snapshot: &Snapshot, cluster: &Cluster, cluster_uid: &str) -> Table {
    let tenants = cluster.spec.tenants.iter().filter(|tenant| binds(tenant));
    let tenants = tenants.map(|tenant| (tenant.prefix.clone(), format!("{}/{}", tenant.namespace, tenant.name)));
    let mut table = Table { tenants: tenants.collect(), ..Table::default() };
    let living: BTreeSet<_> = snapshot.live_access.get(cluster_uid).into_iter().flatten().collect();
    let living = living.into_iter().filter_map(|key| snapshot.access.get(key));
    let identities = living.filter_map(|access| identity(snapshot, cluster, access));
    table.take_in(identities.collect());
    table
}

fn identity<'a>(snapshot: &Snapshot, cluster: &'a Cluster, access: &'a AccessRequest) -> Option<Identity<'a>> {
    let metadata = &access.metadata;
    let account = object_name(metadata.uid.as_deref()?);
    let (keeps_to, of) = match of_access_request(snapshot, cluster, access) {
        NamesAllowed::Any => (ANY.to_owned(), metadata.namespace.as_deref().unwrap_or_default()),
        NamesAllowed::Prefix { prefix, .. } => {
            let tenant = cluster.spec.tenants.iter().find(|tenant| tenant.prefix == prefix)?;
            (prefix, tenant.prefix.as_str())
        }
        NamesAllowed::Unknown => return None,
    };
    let since = metadata.creation_timestamp.as_ref().map(|created| created.0);
    Some(Identity { account, keeps_to, of, granted: is_granted(access), since })
}

#[cfg(test)]
impl Table {
    /// A table of so many tenants with that name, with three identities for each.
    pub(super) fn large(tenants: usize, name: &str) -> Table {
        let prefix = |index: usize| format!("p{index}-");
        Table {
            tenants: (0..tenants).map(|index| (prefix(index), format!("{name}/{name}{index}"))).collect(),
            accounts: (0..3 * tenants).map(|index| (object_name(&format!("{index:036}")), prefix(index / 3))).collect(),
            left_out: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many of one tenant, the first of which are granted; older ones have smaller numbers.
    fn identities(of: &'static str, granted: usize, count: usize) -> Vec<Identity<'static>> {
        let one = |index: usize| Identity {
            account: format!("access-{of}{index:030}"),
            keeps_to: of.to_owned(),
            of,
            granted: index < granted,
            since: Timestamp::from_second(i64::try_from(index).expect("a small number")).ok(),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_tenant_takes_no_room_from_others() {
        let mut table = Table::default();
        let mut all = identities("one-", 0, 20_000);
        all.extend(identities("two-", 0, 3));
        table.take_in(all);
        assert_eq!(table.accounts.len(), MOST_OF_TENANT + 3);
        assert_eq!(table.accounts.values().filter(|prefix| *prefix == "two-").count(), 3);
        assert_eq!(table.left_out.len(), 20_000 - MOST_OF_TENANT);
        let left = table.left_out.first_key_value().expect("somebody is left out");
        assert_eq!(*left.1, NoRoom::OfTenant);
        assert!(*left.0 > format!("access-one-{:030}", MOST_OF_TENANT - 1), "the younger ones are left out");
    }

    #[test]
    fn what_was_granted_keeps_its_entry_before_all_that_waits() {
        let mut table = Table::default();
        let mut all = identities("one-", 0, 300);
        // They are the youngest, and more than a tenant is given by now.
        for late in all.iter_mut().skip(10) {
            late.granted = true;
        }
        table.take_in(all);
        assert_eq!((table.accounts.len(), table.left_out.len()), (290, 10));
        assert_eq!(table.left_out.values().next(), Some(&NoRoom::OfTenant));
    }

    #[test]
    fn what_fits_is_taken_in_and_all_tenants_are_whatever_does_not_fit() {
        let names = ["a-", "b-", "c-", "d-"];
        let tenants: BTreeMap<_, _> = (0..1_000).map(|index| (format!("p{index}-"), "team/name".to_owned())).collect();
        let mut table = Table { tenants: tenants.clone(), ..Table::default() };
        let all: Vec<_> = names.into_iter().flat_map(|of| identities(of, 10_000, 10_000)).collect();
        table.take_in(all);
        assert_eq!(table.tenants, tenants);
        assert_eq!(table.len() + table.left_out.len(), 41_000);
        assert!(table.left_out.values().all(|why| *why == NoRoom::OfAll));
        let bytes = table.bytes();
        assert!(bytes <= MOST_BYTES && bytes > MOST_BYTES - 1024, "{bytes}");
    }
}
