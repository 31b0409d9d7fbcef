//! A tenant's objects as the loops read and write them.

use std::sync::Arc;

use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::{Encoded, metadata_mut, metadata_str};
use allotment_machinery::time;
use allotment_store::{Entry, Expect, Key, ListQuery, Resource, Scope, StoreError, Write};

use super::graph::Place;
use crate::auth::{GROUP_MASTERS, UserInfo};
use crate::endpoints::{Propagation, delete_entry};
use crate::registry::{Kind, Row};
use crate::request::RequestInfo;
use crate::server::{ApiServer, Context, TenantState};
use crate::status::ApiError;

/// As whom the loops delete; admission sees it.
const USER: &str = "system:kube-controller-manager";

/// Why a piece of work was not finished.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Nobody serves the tenant: not yet, or no longer.
    #[error("the tenant is not served")]
    NotServed,
    /// Somebody else changed an object meanwhile.
    #[error("an object changed meanwhile")]
    Changed,
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(StoreError),
    /// The API refused.
    #[error("refused: {0}")]
    Refused(ApiError),
    /// The work itself panicked.
    #[error("the program itself failed; what it was is above")]
    Panicked,
}

impl Failure {
    /// Whether an operator should see it.
    pub(super) fn is_worth_telling(&self) -> bool {
        matches!(self, Failure::Store(_) | Failure::Refused(_) | Failure::Panicked)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { .. } => Failure::Changed,
            StoreError::NoTenant { .. } => Failure::NotServed,
            other => Failure::Store(other),
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        if error.code == 409 { Failure::Changed } else { Failure::Refused(error) }
    }
}

/// An object with the state of it that was read.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) entry: Arc<Entry>,
    pub(super) content: Map,
}

impl Object {
    pub(super) fn read(entry: Arc<Entry>) -> Option<Self> {
        match json::parse(&entry.body()) {
            Ok(Value::Object(content)) => Some(Object { entry, content }),
            _ => None,
        }
    }

    pub(super) fn metadata(&self) -> Option<&Map> {
        self.content.get("metadata").and_then(Value::as_object)
    }

    pub(super) fn uid(&self) -> &str {
        metadata_str(&self.content, "uid").unwrap_or_default()
    }

    pub(super) fn is_deleting(&self) -> bool {
        metadata_str(&self.content, "deletionTimestamp").is_some()
    }
}

/// The objects of one tenant.
#[derive(Debug)]
pub(super) struct Objects {
    cx: Context,
}

impl Objects {
    pub(super) fn new(server: ApiServer, tenant: Arc<TenantState>) -> Self {
        let user = Arc::new(UserInfo::in_process(USER, &[GROUP_MASTERS]));
        Objects { cx: Context::new(server, tenant, user, RequestInfo { verb: "delete", ..RequestInfo::default() }) }
    }

    pub(super) fn tenant(&self) -> &TenantState {
        &self.cx.tenant
    }

    /// The time now, as objects carry it.
    pub(super) fn now(&self) -> String {
        time::format(self.cx.server.clock().now())
    }

    fn key(&self, place: &Place) -> Key {
        Key {
            tenant: self.cx.tenant.tenant.clone(),
            resource: place.resource.clone(),
            namespace: Arc::clone(&place.namespace),
            name: Arc::clone(&place.name),
        }
    }

    /// The newest state of an object.
    pub(super) async fn get(&self, place: &Place) -> Result<Option<Object>, Failure> {
        Ok(self.entry(place).await?.and_then(Object::read))
    }

    /// The same as it is stored.
    pub(super) async fn entry(&self, place: &Place) -> Result<Option<Arc<Entry>>, Failure> {
        Ok(self.cx.server.store().get(&self.key(place)).await?)
    }

    /// Part of a collection, from the beginning; and how many objects come after it.
    pub(super) async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&Arc<str>>,
        limit: usize,
    ) -> Result<(Vec<Arc<Entry>>, usize), Failure> {
        let tenant = self.cx.tenant.tenant.clone();
        let scope = Scope { tenant, resource: resource.clone(), namespace: namespace.cloned() };
        let page = self.cx.server.store().list(ListQuery { scope, at: None, after: None, limit }).await?;
        Ok((page.entries, page.remaining))
    }

    /// The collections that have objects.
    pub(super) async fn resources(&self) -> Result<Vec<Resource>, Failure> {
        let resources = self.cx.server.store().resources(&self.cx.tenant.tenant).await?;
        Ok(resources.into_iter().map(|(resource, _)| resource).collect())
    }

    /// Creates an object; nothing if there is one of its name.
    pub(super) async fn create(&self, place: &Place, mut content: Map) -> Result<(), Failure> {
        let (uid, now) = (self.cx.server.entropy().uid(), self.now());
        if let Some(metadata) = metadata_mut(&mut content) {
            metadata.insert("uid", uid);
            metadata.insert("creationTimestamp", now);
            metadata.insert("name", &*place.name);
            metadata.insert("namespace", &*place.namespace);
        }
        let Some(body) = Encoded::of(&content) else { return Ok(()) };
        match self.cx.server.store().commit(Write::Put { key: self.key(place), expect: Expect::Absent, body }).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces an object; takes it away if it was being deleted and nothing holds it any more.
    pub(super) async fn update(&self, object: &Object, content: Map) -> Result<(), Failure> {
        let key = self.key(&Place::of(&object.entry));
        let revision = object.entry.revision;
        let finalizers =
            content.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
        let held = !finalizers.unwrap_or_default().is_empty()
            || self.kind(&object.entry.resource).is_some_and(|kind| kind.strategy.holds_deletion(&content));
        let write = if object.is_deleting() && !held {
            Write::Delete { key, expect: revision, last: None }
        } else {
            let Some(body) = Encoded::of(&content) else { return Ok(()) };
            Write::Put { key, expect: Expect::Revision(revision), body }
        };
        self.cx.server.store().commit(write).await?;
        Ok(())
    }

    /// Takes a finalizer off an object.
    pub(super) async fn release(&self, object: &Object, finalizer: &str) -> Result<(), Failure> {
        let mut content = object.content.clone();
        if let Some(metadata) = metadata_mut(&mut content) {
            retain(metadata, "finalizers", |value| value.as_str() != Some(finalizer));
        }
        self.update(object, content).await
    }

    /// Deletes an object as a client would. Objects of kinds that are no longer known just go.
    pub(super) async fn delete(&self, entry: &Arc<Entry>, propagation: Option<Propagation>) -> Result<(), Failure> {
        match self.row(&entry.resource) {
            Some(row) => match delete_entry(&self.cx, &row, Arc::clone(entry), propagation).await {
                Ok(()) => Ok(()),
                Err(error) if error.code == 404 => Ok(()),
                Err(error) => Err(error.into()),
            },
            None => {
                let write = Write::Delete { key: self.key(&Place::of(entry)), expect: entry.revision, last: None };
                self.cx.server.store().commit(write).await?;
                Ok(())
            }
        }
    }

    /// The kind whose objects lie in a collection.
    fn kind(&self, resource: &Resource) -> Option<Arc<Kind>> {
        let registry = self.cx.tenant.registry();
        registry.kinds().find(|kind| kind.stored_as.is_none() && kind.resource() == *resource).cloned()
    }

    fn row(&self, resource: &Resource) -> Option<Row> {
        let registry = self.cx.tenant.registry();
        let kind = self.kind(resource)?;
        let served = || kind.versions.iter().filter(|version| version.served);
        let version = served().find(|version| version.storage).or_else(|| served().next())?;
        registry.find(&kind.group, &version.name, &kind.plural)
    }
}

/// Keeps the elements of a list for which `keep` holds; an empty list goes.
pub(super) fn retain(object: &mut Map, field: &str, keep: impl Fn(&Value) -> bool) {
    if let Some(Value::Array(items)) = object.get_mut(field) {
        items.retain(keep);
        if items.is_empty() {
            object.remove(field);
        }
    }
}
