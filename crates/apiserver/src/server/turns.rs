//! Whose turn it is: serving a tenant and removing it never happen at the same time, and what was removed
//! is not served again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use allotment_store::Tenant;

/// Removed tenants that are remembered. Whoever still wants to serve one decided so before it was removed,
/// which is moments ago, so the newest are enough; ids are UIDs and do not come back.
const REMEMBERED: usize = 4_096;

/// A lock for each tenant that is being begun or removed, none for those that are not; and which tenants
/// were removed lately.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    locks: BTreeMap<Tenant, Weak<tokio::sync::Mutex<()>>>,
    removed: VecDeque<Tenant>,
}

impl Turns {
    /// The lock of a tenant, to be held while it is begun or removed.
    pub(super) fn of(&self, tenant: &Tenant) -> Arc<tokio::sync::Mutex<()>> {
        let locks = &mut self.lock().locks;
        locks.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = locks.get(tenant).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        locks.insert(tenant.clone(), Arc::downgrade(&turn));
        turn
    }

    /// Notes that a tenant is being removed. Its turn is the caller's.
    pub(super) fn remove(&self, tenant: &Tenant) {
        let removed = &mut self.lock().removed;
        if removed.contains(tenant) {
            return;
        }
        if removed.len() == REMEMBERED {
            removed.pop_front();
        }
        removed.push_back(tenant.clone());
    }

    /// Whether a tenant was removed.
    pub(super) fn is_removed(&self, tenant: &Tenant) -> bool {
        self.lock().removed.contains(tenant)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_removed_tenants_are_remembered_and_no_more() {
        let turns = Turns::default();
        let tenant = |number: usize| Tenant::logical(&number.to_string());
        for number in 0..=REMEMBERED {
            turns.remove(&tenant(number));
            turns.remove(&tenant(number));
        }
        assert!(!turns.is_removed(&tenant(0)));
        assert!(turns.is_removed(&tenant(1)) && turns.is_removed(&tenant(REMEMBERED)));
    }
}
