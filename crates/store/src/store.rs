//! The trait that every engine fulfils, and what can go wrong.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Entry, Event, Key, ListQuery, Outcome, Page, Resource, Revision, Tenant, WatchScope, Write};

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The expectation of a write did not hold; nothing was written.
    #[error("the object is not as expected")]
    Conflict {
        /// What is there; absent if nothing is.
        current: Option<Arc<Entry>>,
    },
    /// There is no such key space; nothing was written.
    #[error("there is no key space of tenant {tenant:?}: it was dropped, or never begun")]
    NoTenant {
        /// Whose it would be.
        tenant: Tenant,
    },
    /// The history asked for is no longer there.
    #[error("revision {asked} is older than the history kept, which begins at {oldest}")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// The oldest revision that can be asked for.
        oldest: Revision,
    },
    /// The revision asked for has not happened yet.
    #[error("revision {asked} lies in the future, the newest is {current}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// The newest.
        current: Revision,
    },
    /// Writes are refused until a restart or a repair; reads go on.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// Why, in words that clients may see: they name no file of the server.
        reason: Arc<str>,
    },
    /// The write was sent, and whether it happened is not known.
    #[error("the reply was lost: {reason}")]
    Unknown {
        /// Why, in words that clients may see.
        reason: Arc<str>,
    },
    /// The store does not answer; nothing was written.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// Why.
        reason: Arc<str>,
    },
}

/// A revisioned object store.
///
/// # Guarantees
/// - A write that was acknowledged is durable and seen by every later read.
/// - Writes are totally ordered by revision; a read or a page shows all writes up to its revision.
/// - A watch delivers every event of its scope after its start, once, in order, or ends with
///   [`StoreError::Compacted`].
/// - A dropped future of [`Store::commit`] does not undo the write.
/// - A key space is there from [`Write::Instantiate`] to [`Write::DropTenant`], also while it has no objects.
///   Nothing is written outside: a write that comes after the drop of its tenant ends with
///   [`StoreError::NoTenant`].
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Does one write.
    async fn commit(&self, write: Write) -> Result<Outcome, StoreError>;

    /// The newest state of one object.
    async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, StoreError>;

    /// A range of objects.
    async fn list(&self, query: ListQuery) -> Result<Page, StoreError>;

    /// Events of `scope` after the revision `from`; a revision in the future waits for it.
    async fn watch(&self, scope: WatchScope, from: Revision) -> Result<Box<dyn Watch>, StoreError>;

    /// The newest revision.
    async fn revision(&self) -> Result<Revision, StoreError>;

    /// Whether it takes writes, as far as it knows without trying one: nothing, or why they are refused.
    async fn writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The tenants whose key space is there, in order.
    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError>;

    /// The collections of a tenant that have objects, and how many, in order.
    async fn resources(&self, tenant: &Tenant) -> Result<Vec<(Resource, usize)>, StoreError>;
}

/// A running watch. It holds no queue: it reads the store's bounded history, and one that falls behind
/// what is kept there ends with [`StoreError::Compacted`].
#[async_trait]
pub trait Watch: Debug + Send {
    /// The next event; waits for it. Cancel-safe.
    async fn next(&mut self) -> Result<Arc<Event>, StoreError>;

    /// The next event, if it is at hand. Never waits, and may answer nothing although something has happened:
    /// it is for taking at once what [`Watch::next`] began.
    fn ready(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        Ok(None)
    }

    /// All events of the scope up to this revision have been delivered.
    fn progress(&self) -> Revision;
}
