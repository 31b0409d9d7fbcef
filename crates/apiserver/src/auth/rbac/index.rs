//! A tenant's [`Policy`], kept current.
//!
//! # Flow
//! Nothing is kept until somebody asks. Then roles and bindings are read once, and from then on followed,
//! event by event. Writers are answered only after their event has been followed, so whoever changed a
//! role sees the change in his next request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use allotment_machinery::json;
use allotment_store::{Entry, Event, EventKind, ListQuery, Resource, Revision, Scope, Store, StoreError, Tenant};

use super::RBAC_GROUP;
use super::binding::Binding;
use super::policy::Policy;

/// The collections that decide about access.
const COLLECTIONS: [&str; 4] = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];

fn collection(resource: &Resource) -> Option<usize> {
    let plural = resource.as_str().strip_suffix(RBAC_GROUP)?.strip_suffix('.')?;
    COLLECTIONS.iter().position(|name| *name == plural)
}

#[derive(Debug, Default)]
enum State {
    /// Nobody has asked yet.
    #[default]
    Idle,
    /// Being read; what changes meanwhile is put on top afterwards.
    Loading(Vec<Change>),
    Loaded(Box<Policy>),
}

#[derive(Debug)]
struct Change {
    collection: usize,
    revision: Revision,
    entry: Arc<Entry>,
    deleted: bool,
}

/// Roles and bindings of one tenant, current.
#[derive(Debug, Default)]
pub(crate) struct RbacIndex {
    state: RwLock<State>,
    loading: tokio::sync::Mutex<()>,
    fresh: AtomicBool,
}

impl RbacIndex {
    /// Answers a question from what is current, reading it first if this is the first question.
    pub(crate) async fn ask<T>(
        &self,
        store: &Arc<dyn Store>,
        tenant: &Tenant,
        question: impl FnOnce(&Policy) -> T + Send,
    ) -> Result<T, StoreError> {
        if !self.is_loaded() {
            self.load(store, tenant).await?;
        }
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Loaded(policy) => Ok(question(policy)),
            // Once loaded it stays so; without rules nothing is allowed.
            State::Idle | State::Loading(_) => Ok(question(&Policy::default())),
        }
    }

    /// Follows an event of the tenant. They come in order.
    pub(crate) fn apply(&self, event: &Event) {
        let Some(collection) = collection(&event.entry.resource) else { return };
        let change = || Change {
            collection,
            revision: event.revision,
            entry: Arc::clone(&event.entry),
            deleted: event.kind == EventKind::Deleted,
        };
        match &mut *self.state.write().unwrap_or_else(PoisonError::into_inner) {
            State::Idle => {}
            State::Loading(changes) => changes.push(change()),
            State::Loaded(policy) => observe(policy, change()),
        }
    }

    fn is_loaded(&self) -> bool {
        matches!(&*self.state.read().unwrap_or_else(PoisonError::into_inner), State::Loaded(_))
    }

    /// Forgets everything, since events were missed; the next question reads it again.
    pub(crate) fn reset(&self) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Idle;
    }

    /// Whether everything has been read (again) since this was last asked.
    pub(crate) fn take_fresh(&self) -> bool {
        self.fresh.swap(false, Ordering::Relaxed)
    }

    async fn load(&self, store: &Arc<dyn Store>, tenant: &Tenant) -> Result<(), StoreError> {
        let _one_at_a_time = self.loading.lock().await;
        while !self.is_loaded() {
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Loading(Vec::new());
            let mut policy = read(store, tenant).await?;
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            // What was read while events were missed may lack them, and is read again.
            let State::Loading(changes) = &mut *state else { continue };
            for change in std::mem::take(changes) {
                observe(&mut policy, change);
            }
            *state = State::Loaded(policy);
            self.fresh.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

async fn read(store: &Arc<dyn Store>, tenant: &Tenant) -> Result<Box<Policy>, StoreError> {
    let mut policy = Box::<Policy>::default();
    for (collection, plural) in COLLECTIONS.into_iter().enumerate() {
        let scope = Scope { tenant: tenant.clone(), resource: Resource::new(plural, RBAC_GROUP), namespace: None };
        let page = store.list(ListQuery { scope, at: None, after: None, limit: 0 }).await?;
        policy.read_at[collection] = page.revision;
        for entry in page.entries {
            put(&mut policy, collection, entry, false);
        }
    }
    Ok(policy)
}

/// An event that the collection was read after tells nothing new, and must not bring back what has been
/// deleted since.
fn observe(policy: &mut Policy, change: Change) {
    if change.revision > policy.read_at[change.collection] {
        put(policy, change.collection, change.entry, change.deleted);
    }
}

fn put(policy: &mut Policy, collection: usize, entry: Arc<Entry>, deleted: bool) {
    let name = (Arc::clone(&entry.namespace), Arc::clone(&entry.name));
    let is_role = matches!(COLLECTIONS[collection], "roles" | "clusterroles");
    match (is_role, deleted) {
        (true, false) => policy.put_role(name, entry),
        (true, true) => policy.remove_role(&name),
        (false, false) => {
            let object = json::parse(&entry.body()).unwrap_or_default();
            let binding = Binding::of(&object, &name.0);
            policy.put_binding(name, binding);
        }
        (false, true) => policy.remove_binding(&name),
    }
}
