//! Keeps what the server knows of definitions and access rules in step with the store.
//!
//! One task follows the store for all tenants. A write of a definition or of an access rule is answered
//! only once it has been followed, so that whoever wrote it finds it in force.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_machinery::json::{self, Value};
use allotment_store::{Entry, Event, EventKind, ListQuery, Resource, Revision, Scope, StoreError, WatchScope};
use tokio::sync::Notify;

use super::{ApiServer, TenantState};
use crate::crd;
use crate::status::ApiError;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
/// What access depends on.
const ACCESS: [&str; 4] = [
    CLUSTER_ROLES,
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];
/// How long a write waits to be followed before it is answered all the same.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait before trying again when the store does not answer.
const RETRY: Duration = Duration::from_millis(200);

/// How far the task has come; nothing before it has begun. Those who wait are woken in the order in which
/// they came: tokio's `watch` throws dice, and then a simulation is not repeatable.
#[derive(Debug, Default)]
pub(super) struct Followed {
    revision: Mutex<Option<Revision>>,
    moved: Notify,
}

impl Followed {
    fn revision(&self) -> Option<Revision> {
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self, revision: Revision) {
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner) = Some(revision);
        self.moved.notify_waiters();
    }

    /// Waits until the task has come to where `is_far_enough` says so.
    async fn wait_for(&self, is_far_enough: impl Fn(Option<Revision>) -> bool) {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            // From here on no move is missed.
            moved.as_mut().enable();
            if is_far_enough(self.revision()) {
                return;
            }
            moved.await;
        }
    }
}

fn is_followed(resource: &Resource) -> bool {
    resource.as_str() == DEFINITIONS || ACCESS.contains(&resource.as_str())
}

impl ApiServer {
    /// Waits until a write of `resource` at `revision` is in force here. At once for what nothing here
    /// depends on.
    pub(crate) async fn await_followed(&self, resource: &Resource, revision: Revision) {
        if !is_followed(resource) {
            return;
        }
        let followed = self.shared.followed.wait_for(|have| have >= Some(revision));
        // A server that is too slow answers late rather than never.
        let _ = tokio::time::timeout(FOLLOW_TIMEOUT, followed).await;
    }

    /// Follows the store until the server stops.
    pub(super) async fn follow(self) {
        let mut from = loop {
            match self.store().revision().await {
                Ok(revision) => break revision,
                Err(_) if self.stopping().is_cancelled() => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        };
        self.shared.followed.advance(from);
        while !self.stopping().is_cancelled() {
            if let Err(error) = self.follow_from(&mut from).await {
                tracing::warn!(%error, "following the store began anew");
                if matches!(error, StoreError::Compacted { .. }) {
                    from = self.reload_all(from).await;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    async fn follow_from(&self, from: &mut Revision) -> Result<(), StoreError> {
        let mut source = self.store().watch(WatchScope::All, *from).await?;
        loop {
            let event = tokio::select! {
                biased;
                () = self.stopping().cancelled() => return Ok(()),
                event = source.next() => event?,
            };
            if is_followed(&event.entry.resource)
                && let Some(tenant) = self.known_tenant(&event.tenant)
            {
                tenant.apply(&event).await;
                if event.entry.resource.as_str() == CLUSTER_ROLES {
                    self.aggregation().mark(&event.tenant);
                }
            }
            *from = event.revision;
            self.shared.followed.advance(event.revision);
        }
    }

    /// Loads everything again where the history has a gap.
    async fn reload_all(&self, from: Revision) -> Revision {
        let Ok(newest) = self.store().revision().await else { return from };
        for tenant in self.tenants() {
            tenant.access.reset();
            if let Err(error) = self.load(&tenant).await {
                tracing::error!(tenant = tenant.tenant.as_str(), %error, "access rules and definitions could not be loaded");
            }
        }
        newest
    }

    /// Loads the definitions that a tenant has. Access rules are loaded when they are first asked for.
    pub(super) async fn load(&self, tenant: &TenantState) -> Result<(), ApiError> {
        // What is written after this list has to reach the task that follows, so that has to have begun.
        let begun = tokio::select! {
            biased;
            () = self.stopping().cancelled() => false,
            () = self.shared.followed.wait_for(|have| have.is_some()) => true,
        };
        if !begun {
            return Err(ApiError::unavailable("the server is stopping"));
        }
        let mut loaded = tenant.loaded.lock().await;
        let resource = Resource::new("customresourcedefinitions", "apiextensions.k8s.io");
        let scope = Scope { tenant: tenant.tenant.clone(), resource, namespace: None };
        let query = ListQuery { scope, at: None, after: None, limit: 0 };
        let page = self.store().list(query).await.map_err(|error| crate::endpoints::api_error(&error))?;
        for entry in page.entries {
            tenant.apply_definition(&added(tenant, entry));
        }
        *loaded = page.revision;
        Ok(())
    }
}

/// What exists, told as if it had just come.
fn added(tenant: &TenantState, entry: Arc<Entry>) -> Event {
    Event { tenant: tenant.tenant.clone(), revision: entry.revision, kind: EventKind::Added, entry, previous: None }
}

impl TenantState {
    async fn apply(&self, event: &Event) {
        if event.entry.resource.as_str() != DEFINITIONS {
            self.access.apply(event);
        } else if event.revision > *self.loaded.lock().await {
            // Older events were seen by the first load, and could bring back what it left out.
            self.apply_definition(event);
        }
    }

    /// Puts the rows of a changed definition in place.
    fn apply_definition(&self, event: &Event) {
        let gone = event.kind == EventKind::Deleted;
        let kind = if gone { None } else { self.kind_of(&event.entry) };
        let registry = self.registry();
        // `PLURAL.GROUP`, which is also the name of the definition.
        let others =
            registry.custom_kinds().filter(|kind| format!("{}.{}", kind.plural, kind.group) != *event.entry.name);
        let kinds: Vec<_> = others.cloned().chain(kind).collect();
        self.set_registry(Arc::new(registry.with_custom(kinds)));
    }

    fn kind_of(&self, entry: &Arc<Entry>) -> Option<Arc<crate::registry::Kind>> {
        let Ok(Value::Object(definition)) = json::parse(&entry.body()) else { return None };
        if !crd::is_established(&definition) {
            return None;
        }
        match crd::kind_from_definition(&definition, Some(entry), &self.interner) {
            Ok(kind) => Some(Arc::new(kind)),
            Err(errors) => {
                // It was validated when it was written; only a newer server can have written it.
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                tracing::error!(definition = &*entry.name, errors = errors.join("; "), "a definition cannot be served");
                None
            }
        }
    }
}
