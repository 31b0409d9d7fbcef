//! What controllers of kube-controller-manager do for a cluster without nodes: namespaces are emptied,
//! dependents collected, defaults put in place, Secrets for tokens filled, definitions cleaned up after. Aggregating roles is left to
//! [`crate::auth`].
//!
//! One set of loops serves all tenants: one watch of the whole store feeds an index and a queue, a
//! bounded number of workers does the work. A new tenant costs no task.
//!
//! # Guarantees
//! - Every write is a compare-and-swap; what was read stale is done again.
//! - Work is named by what it is about, done once at a time, and done again after a failure, later each
//!   time. A crash between any two writes heals: after a start everything is looked at once.
//! - No event causes a scan of more than what it concerns.
//! - A piece of work that panics is one that failed. The index is changed by the task that follows the store alone, whose panic ends
//!   the process.

mod collector;
mod defaults;
mod definitions;
mod graph;
mod index;
mod namespaces;
mod objects;
mod published;
mod queue;
#[cfg(test)]
mod tests;
mod token_secrets;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_store::{ListQuery, Revision, Scope, StoreError, WatchScope};
use futures::FutureExt as _;
use tokio::task::JoinSet;

use index::Index;
use objects::{Failure, Objects};
use queue::{Item, Queue, Work};

use crate::server::ApiServer;

/// How many pieces of work are done at the same time. Most wait for the store.
const WORKERS: usize = 16;

/// How long to wait before the store is watched again after an error.
const RETRY: Duration = Duration::from_millis(200);

/// How often tenants that are gone are forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(10);

/// What the loops know: the watch changes it, the workers only look.
#[derive(Debug, Default)]
struct Known(Mutex<Index>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until the server stops.
pub(crate) async fn run(server: ApiServer) {
    let known = Arc::new(Known::default());
    let mut queue = Queue::default();
    let stopping = server.stopping().clone();
    while !stopping.is_cancelled() {
        if let Err(error) = follow(&server, &known, &mut queue).await {
            tracing::warn!(%error, "the loops look at everything again");
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }
}

/// Looks at everything once, then follows the store; until the server stops, or everything has to be looked at again.
async fn follow(server: &ApiServer, known: &Arc<Known>, queue: &mut Queue) -> Result<(), StoreError> {
    *known.lock() = Index::default();
    let mut from = scan(server, known, queue).await?;
    let mut source = server.store().watch(WatchScope::All, from).await?;
    let mut workers: JoinSet<(Item, Result<(), Failure>)> = JoinSet::new();
    let mut forget = tokio::time::interval(FORGET_INTERVAL);
    forget.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        while workers.len() < WORKERS
            && let Some(item) = queue.take(tokio::time::Instant::now())
        {
            workers.spawn(work(server.clone(), Arc::clone(known), item));
        }
        let next_due = queue.next_due();
        tokio::select! {
            biased;
            () = server.stopping().cancelled() => {
                workers.shutdown().await;
                return Ok(());
            }
            Some(done) = workers.join_next(), if !workers.is_empty() => {
                finish(queue, done);
            }
            event = source.next() => {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        drain(&mut workers, queue).await;
                        return Err(error);
                    }
                };
                from = from.max(event.revision);
                let tenant = event.tenant.clone();
                for work in known.lock().apply(&event) {
                    queue.add(Item { tenant: tenant.clone(), work });
                }
            }
            // While all are at work, what is due waits for them.
            () = sleep_until(next_due), if next_due.is_some() && workers.len() < WORKERS => {}
            _ = forget.tick() => forget_gone(server, known, queue).await,
        }
    }
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}

async fn drain(workers: &mut JoinSet<(Item, Result<(), Failure>)>, queue: &mut Queue) {
    while let Some(done) = workers.join_next().await {
        finish(queue, done);
    }
}

fn finish(queue: &mut Queue, done: Result<(Item, Result<(), Failure>), tokio::task::JoinError>) {
    match done {
        Ok((item, Ok(()))) => queue.succeeded(&item),
        Ok((item, Err(failure))) => {
            if failure.is_worth_telling() {
                tracing::warn!(tenant = item.tenant.as_str(), work = ?item.work, %failure, "will be tried again");
            }
            queue.failed(item, tokio::time::Instant::now());
        }
        // It was told to end, as all are then.
        Err(_) => {}
    }
}

/// Puts all objects into the index, as if each had just come. The revision that was seen.
async fn scan(server: &ApiServer, known: &Known, queue: &mut Queue) -> Result<Revision, StoreError> {
    let revision = server.store().revision().await?;
    let tenants: BTreeSet<_> = server.store().tenants().await?.into_iter().collect();
    // What is left of a watch that ended may be of tenants that went since.
    queue.retain(|item| tenants.contains(&item.tenant));
    for tenant in tenants {
        for (resource, _) in server.store().resources(&tenant).await? {
            let scope = Scope { tenant: tenant.clone(), resource, namespace: None };
            let page = server.store().list(ListQuery { scope, at: Some(revision), after: None, limit: 0 }).await?;
            let mut index = known.lock();
            for entry in &page.entries {
                for work in index.present(&tenant, entry) {
                    queue.add(Item { tenant: tenant.clone(), work });
                }
            }
        }
    }
    Ok(revision)
}

/// Drops what is known of tenants that the store no longer has.
async fn forget_gone(server: &ApiServer, known: &Known, queue: &mut Queue) {
    let Ok(tenants) = server.store().tenants().await else { return };
    let gone = known.lock().forget_others(&tenants.into_iter().collect());
    // Whatever is to be done came of what is known of its tenant. There may be very much of it, so it is looked
    // through for none but tenants that went.
    if !gone.is_empty() {
        queue.retain(|item| !gone.contains(&item.tenant));
    }
}

async fn work(server: ApiServer, known: Arc<Known>, item: Item) -> (Item, Result<(), Failure>) {
    let done = AssertUnwindSafe(do_work(&server, &known, &item)).catch_unwind().await;
    (item, done.unwrap_or(Err(Failure::Panicked)))
}

async fn do_work(server: &ApiServer, known: &Known, item: &Item) -> Result<(), Failure> {
    // Objects of a tenant can be there before the server serves it, after a restart.
    let Some(tenant) = server.tenant(&item.tenant) else { return Err(Failure::NotServed) };
    let objects = Objects::new(server.clone(), Arc::clone(&tenant));
    let work = async {
        match &item.work {
            Work::Defaults(namespace) => defaults::ensure(&objects, namespace).await,
            Work::Namespace(namespace) => namespaces::empty(&objects, namespace).await,
            Work::Definition(name) => definitions::clean_up(&objects, name).await,
            Work::Names(group) => definitions::give_names(&objects, group).await,
            Work::TokenSecret(place) => token_secrets::ensure(&objects, place).await,
            Work::Dependent(place) => collector::check_dependent(&objects, known, place).await,
            Work::Owner(place) => collector::release_owner(&objects, known, place).await,
        }
    };
    tenant.within(work).await.unwrap_or(Err(Failure::NotServed))
}
