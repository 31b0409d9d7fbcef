//! Bugs that can be planted, to see that the simulation finds them. Each is a layer between the API server
//! and its store, or between the controllers and the API server, so that what is shipped knows nothing of
//! it: one that breaks a promise, or breaks it in the name of the part that would.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::Encoded;
use allotment_store::{
    Entry, Event, EventKind, Expect, Key, Memory, Outcome, Revision, Store, StoreError, Tenant, Write,
};

use bytes::Bytes;

use crate::chance::Chance;

const CLUSTERS: &str = "clusters.cluster.openmcp.cloud";
const GRANTS: &str = "clusterrequestgrants.cluster.openmcp.cloud";
const REQUESTS: &str = "clusterrequests.cluster.openmcp.cloud";
const ACCESS: &str = "accessrequests.cluster.openmcp.cloud";
const PRIVATE_PROFILES: &str = "privatecloudprofiles.core.gardener.cloud";
const PURPOSES: &str = "purposes.cluster.openmcp.cloud";
const BINDINGS: [&str; 2] = ["rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"];

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// Controllers write Clusters without saying which version they saw.
    LostUpdate,
    /// A second Grant of a name replaces the first.
    DoubleGrant,
    /// Bindings inside Clusters are forgotten rather than deleted.
    RevokeForgotten,
    /// A controller's read of a ClusterRequest answers as if it were not there yet.
    StaleRead,
    /// Now and then a watch leaves an event out.
    EventDropped,
    /// Now and then the write of a Cluster is acknowledged and not done.
    WriteForgotten,
    /// A Grant is kept only after its request's status said Granted.
    StatusBeforeGrant,
    /// An AccessRequest that is deleted goes at once, finalizer or not.
    FinalizerDropped,
    /// The newest tenant of a shared Cluster gets the prefix of the oldest.
    PrefixShared,
    /// Purposes are read as if they allowed one tenant more.
    RoomMiscounted,
    /// The Secret of a revoked access is forgotten rather than deleted.
    TokenKept,
    /// What takes away a tenant's room takes away the record of its prefix too.
    QuarantineForgotten,
    /// A private profile that is deleted goes at once, finalizer or not.
    ProfileFinalizerDropped,
    /// Now and then the write of a private profile is acknowledged and not done.
    RenderingForgotten,
}

impl Bug {
    /// Whether it is one of the catalog, which runs of its own are about.
    pub fn is_of_the_catalog(self) -> bool {
        matches!(self, Bug::ProfileFinalizerDropped | Bug::RenderingForgotten)
    }

    /// All of them.
    pub const ALL: [Bug; 14] = [
        Bug::LostUpdate,
        Bug::DoubleGrant,
        Bug::RevokeForgotten,
        Bug::StaleRead,
        Bug::EventDropped,
        Bug::WriteForgotten,
        Bug::StatusBeforeGrant,
        Bug::FinalizerDropped,
        Bug::PrefixShared,
        Bug::RoomMiscounted,
        Bug::TokenKept,
        Bug::QuarantineForgotten,
        Bug::ProfileFinalizerDropped,
        Bug::RenderingForgotten,
    ];
}

/// A bug at work.
#[derive(Debug)]
pub(crate) struct Planted {
    bug: Bug,
    chance: Mutex<Chance>,
    /// Writes that were acknowledged and wait to be done.
    held: Mutex<BTreeMap<Key, Encoded>>,
}

impl Planted {
    pub(crate) fn new(bug: Bug, chance: Chance) -> Self {
        Planted { bug, chance: Mutex::new(chance), held: Mutex::default() }
    }

    fn strikes(&self, of_thousand: u64) -> bool {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).strikes(of_thousand)
    }

    /// Does `write`, or what the bug makes of it.
    pub(crate) async fn commit(&self, memory: &Memory, write: Write) -> Result<Outcome, StoreError> {
        match (self.bug, write) {
            (Bug::DoubleGrant, Write::Put { key, expect: Expect::Absent, body }) if is(&key, GRANTS) => {
                replace(memory, key, Expect::Absent, body).await
            }
            (Bug::RevokeForgotten, Write::Delete { key, expect, .. })
                if BINDINGS.iter().any(|binding| is(&key, binding)) && key.name.starts_with("access-") =>
            {
                let Some(entry) = memory.get(&key).await? else { return Err(StoreError::Conflict { current: None }) };
                let unlabelled = altered(&entry.body(), |object| {
                    if let Some(metadata) = object.object_mut("metadata") {
                        metadata.remove("labels");
                    }
                });
                memory.commit(Write::Put { key, expect: Expect::Revision(expect), body: unlabelled }).await
            }
            (Bug::TokenKept, Write::Delete { key, .. }) if is(&key, "secrets") && key.name.ends_with("-kubeconfig") => {
                let entry = memory.get(&key).await?;
                Ok(Outcome { revision: memory.revision().await?, entry })
            }
            (Bug::WriteForgotten, Write::Put { key, body, .. }) if is(&key, CLUSTERS) && self.strikes(100) => {
                fabricated(memory, &key, &body).await
            }
            (Bug::StatusBeforeGrant, Write::Put { key, expect, body }) => self.hold(memory, key, expect, body).await,
            (Bug::RenderingForgotten, Write::Put { key, expect: Expect::Revision(_), body })
                if is(&key, PRIVATE_PROFILES) && self.strikes(100) =>
            {
                fabricated(memory, &key, &body).await
            }
            (Bug::ProfileFinalizerDropped, Write::Put { key, expect: Expect::Revision(expect), body })
                if is(&key, PRIVATE_PROFILES) && parsed(&body.bytes).at_deletion() =>
            {
                memory.commit(Write::Delete { key, expect, last: None }).await
            }
            (Bug::FinalizerDropped, Write::Put { key, expect: Expect::Revision(expect), body })
                if is(&key, ACCESS) && parsed(&body.bytes).at_deletion() =>
            {
                memory.commit(Write::Delete { key, expect, last: None }).await
            }
            (Bug::PrefixShared, Write::Put { key, expect, body }) if is(&key, CLUSTERS) => {
                let body = altered(&body.bytes, share_prefix);
                memory.commit(Write::Put { key, expect, body }).await
            }
            (Bug::QuarantineForgotten, Write::Put { key, expect, body }) if is(&key, CLUSTERS) => {
                let body = altered(&body.bytes, forget_released);
                memory.commit(Write::Put { key, expect, body }).await
            }
            (_, write) => memory.commit(write).await,
        }
    }

    /// Grants are acknowledged and held until a ClusterRequest has been written.
    async fn hold(&self, memory: &Memory, key: Key, expect: Expect, body: Encoded) -> Result<Outcome, StoreError> {
        if is(&key, GRANTS) && (expect == Expect::Absent || self.held(&key).is_some()) {
            let outcome = fabricated(memory, &key, &body).await;
            self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(key, body);
            return outcome;
        }
        let flush = is(&key, REQUESTS);
        let outcome = memory.commit(Write::Put { key, expect, body }).await;
        if flush {
            let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
            for (key, body) in held {
                // One that is there by now is as good.
                let _ = memory.commit(Write::Put { key, expect: Expect::Absent, body }).await;
            }
        }
        outcome
    }

    /// What is acknowledged under `key` and not done yet.
    pub(crate) fn held(&self, key: &Key) -> Option<Encoded> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Whether a controller's request is answered as if its object were not there.
    pub(crate) fn hides(&self, method: &http::Method, path: &str) -> bool {
        self.bug == Bug::StaleRead && method == http::Method::GET && path.contains("/clusterrequests/")
    }

    /// What a controller sends as the body of a request.
    pub(crate) fn sent(&self, path: &str, body: Bytes) -> Bytes {
        let of_cluster = path.contains("/clusters/") && !path.ends_with("/status");
        if self.bug != Bug::LostUpdate || !of_cluster {
            return body;
        }
        let Ok(mut object) = serde_json::from_slice::<serde_json::Value>(&body) else { return body };
        if let Some(metadata) = object.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        object.to_string().into()
    }

    /// What lists and watches say of an object.
    pub(crate) fn listed(&self, entry: Arc<Entry>) -> Arc<Entry> {
        if self.bug != Bug::RoomMiscounted || entry.resource.as_str() != PURPOSES {
            return entry;
        }
        let body = altered(&entry.body(), |object| {
            let spec = object.object_mut("spec");
            if let Some(spec) = spec
                && let Some(most) = spec.get("maxTenants").and_then(Value::as_i64)
            {
                spec.insert("maxTenants", most + 1);
            }
        });
        Arc::new(at(&entry, entry.revision, &body))
    }

    /// What a watch delivers of an event; nothing where it leaves it out.
    pub(crate) fn watched(&self, event: Arc<Event>) -> Option<Arc<Event>> {
        match self.bug {
            Bug::EventDropped if event.entry.resource.as_str().ends_with(".cluster.openmcp.cloud") => {
                (!self.strikes(30)).then_some(event)
            }
            Bug::RoomMiscounted if event.kind != EventKind::Deleted => Some(Arc::new(Event {
                tenant: event.tenant.clone(),
                revision: event.revision,
                kind: event.kind,
                entry: self.listed(event.entry.clone()),
                previous: event.previous.clone(),
            })),
            _ => Some(event),
        }
    }
}

fn is(key: &Key, resource: &str) -> bool {
    key.resource.as_str() == resource
}

/// Writes, and if something else is there, over it.
async fn replace(memory: &Memory, key: Key, expect: Expect, body: Encoded) -> Result<Outcome, StoreError> {
    match memory.commit(Write::Put { key: key.clone(), expect, body: body.clone() }).await {
        Err(StoreError::Conflict { current: Some(current) }) => {
            memory.commit(Write::Put { key, expect: Expect::Revision(current.revision), body }).await
        }
        answer => answer,
    }
}

/// The reply to a write that is not done.
async fn fabricated(memory: &Memory, key: &Key, body: &Encoded) -> Result<Outcome, StoreError> {
    let revision = Revision(memory.revision().await?.0 + 1);
    Ok(Outcome { revision, entry: Some(Arc::new(phantom(key, revision, body))) })
}

/// An object that is not there, as if it were.
pub(crate) fn phantom(key: &Key, revision: Revision, body: &Encoded) -> Entry {
    Entry::of(key.clone(), revision, body.clone())
}

fn at(entry: &Entry, revision: Revision, body: &Encoded) -> Entry {
    phantom(&entry.key(&Tenant::platform()), revision, body)
}

/// A stored object, changed.
fn altered(body: &[u8], change: impl FnOnce(&mut Map)) -> Encoded {
    let mut object = parsed(body).0;
    change(&mut object);
    Encoded::of(&object).expect("a stored object has a UID")
}

struct Parsed(Map);

fn parsed(body: &[u8]) -> Parsed {
    match json::parse(body) {
        Ok(Value::Object(object)) => Parsed(object),
        _ => panic!("a stored object is an object"),
    }
}

impl Parsed {
    fn at_deletion(&self) -> bool {
        self.0.get("metadata").is_some_and(|metadata| metadata.get("deletionTimestamp").is_some())
    }
}

fn tenants(object: &mut Map) -> Option<&mut Value> {
    object.object_mut("spec")?.get_mut("tenants")
}

fn share_prefix(object: &mut Map) {
    let Some(tenants) = tenants(object).and_then(Value::as_array_mut) else { return };
    let first = tenants.first().and_then(|tenant| tenant.get("prefix")).cloned();
    if let (true, Some(first), Some(last)) = (tenants.len() > 1, first, tenants.last_mut())
        && let Some(last) = last.as_object_mut()
    {
        last.insert("prefix", first);
    }
}

fn forget_released(object: &mut Map) {
    if let Some(Value::Array(tenants)) = tenants(object) {
        tenants.retain(|tenant| tenant.get("released").and_then(Value::as_bool) != Some(true));
    }
}
