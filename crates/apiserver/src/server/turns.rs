//! Whose turn it is: serving a tenant and removing it never happen at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use allotment_store::Tenant;

/// A lock for each tenant that is being begun or removed; none for those that are not.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<Tenant, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// The lock of a tenant, to be held while it is begun or removed.
    pub(super) fn of(&self, tenant: &Tenant) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(tenant).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(tenant.clone(), Arc::downgrade(&turn));
        turn
    }
}
