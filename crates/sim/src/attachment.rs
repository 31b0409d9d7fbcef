//! The store as one run of the process sees it: it can die between any two steps, and layers that were
//! planted alter what goes through.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use allotment_store::{
    Entry, Event, Key, ListQuery, Memory, Outcome, Page, Resource, Revision, Store, StoreError, Tenant, Watch,
    WatchScope, Write,
};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::bugs::{Planted, phantom};

/// Cancels a token after so many steps of the store.
#[derive(Debug, Default)]
pub(crate) struct Fuse(Mutex<Option<(u64, CancellationToken)>>);

impl Fuse {
    /// Lights the fuse; one that burns already is put out.
    pub(crate) fn light(&self, steps: u64, target: CancellationToken) {
        *self.lock() = Some((steps, target));
    }

    /// Puts it out.
    pub(crate) fn extinguish(&self) {
        *self.lock() = None;
    }

    fn burn(&self) {
        let mut state = self.lock();
        if let Some((left, target)) = state.as_mut() {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => {
                    target.cancel();
                    *state = None;
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(u64, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process's way to the store.
#[derive(Clone)]
pub(crate) struct Attachment {
    memory: Memory,
    /// Once cancelled, nothing that was asked is ever answered: the process is no more.
    dead: CancellationToken,
    fuse: Arc<Fuse>,
    planted: Option<Arc<Planted>>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Attachment").finish_non_exhaustive()
    }
}

impl Attachment {
    pub(crate) fn new(memory: Memory, dead: CancellationToken, fuse: Arc<Fuse>, planted: Option<Arc<Planted>>) -> Self {
        Attachment { memory, dead, fuse, planted }
    }

    /// A step, before and after which the process may die. Whether the dead's last step was done is open.
    async fn step<T>(&self, step: impl Future<Output = T>) -> T {
        self.fuse.burn();
        let done = alive(&self.dead, step).await;
        self.fuse.burn();
        alive(&self.dead, std::future::ready(done)).await
    }
}

/// What `work` gives; never, once `dead`.
async fn alive<T>(dead: &CancellationToken, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        () = dead.cancelled() => std::future::pending().await,
        done = work => done,
    }
}

#[async_trait]
impl Store for Attachment {
    async fn commit(&self, write: Write) -> Result<Outcome, StoreError> {
        let memory = &self.memory;
        match &self.planted {
            Some(planted) => self.step(planted.commit(memory, write)).await,
            None => self.step(memory.commit(write)).await,
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, StoreError> {
        let found = self.step(self.memory.get(key)).await?;
        let Some(planted) = &self.planted else { return Ok(found) };
        if let Some(held) = planted.held(key) {
            let revision = self.memory.revision().await?;
            return Ok(Some(Arc::new(phantom(key, revision, &held))));
        }
        Ok(found)
    }

    async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        let mut page = self.step(self.memory.list(query)).await?;
        if let Some(planted) = &self.planted {
            page.entries = page.entries.into_iter().map(|entry| planted.listed(entry)).collect();
        }
        Ok(page)
    }

    async fn watch(&self, scope: WatchScope, from: Revision) -> Result<Box<dyn Watch>, StoreError> {
        let watch = self.step(self.memory.watch(scope, from)).await?;
        Ok(Box::new(Attached { watch, dead: self.dead.clone(), planted: self.planted.clone() }))
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.step(self.memory.revision()).await
    }

    async fn writable(&self) -> Result<(), StoreError> {
        self.step(self.memory.writable()).await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        self.step(self.memory.tenants()).await
    }

    async fn resources(&self, tenant: &Tenant) -> Result<Vec<(Resource, usize)>, StoreError> {
        self.step(self.memory.resources(tenant)).await
    }
}

/// A watch of a process that can die.
struct Attached {
    watch: Box<dyn Watch>,
    dead: CancellationToken,
    planted: Option<Arc<Planted>>,
}

impl fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Attached").finish_non_exhaustive()
    }
}

#[async_trait]
impl Watch for Attached {
    async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        loop {
            let event = alive(&self.dead, self.watch.next()).await?;
            match &self.planted {
                None => return Ok(event),
                Some(planted) => match planted.watched(event) {
                    Some(event) => return Ok(event),
                    None => continue,
                },
            }
        }
    }

    fn progress(&self) -> Revision {
        self.watch.progress()
    }
}
