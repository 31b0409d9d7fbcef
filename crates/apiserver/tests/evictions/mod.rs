//! Evictions that meet other writers of a pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_store::{
    Entry, HistoryLimits, Key, ListQuery, Memory, Outcome, Page, Resource, Revision, Store, StoreError, Tenant, Watch,
    WatchScope, Write,
};

use crate::world::World;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b";

/// A store that refuses one write of a pod, as if another one had come before.
#[derive(Clone, Debug)]
struct Contended {
    store: Memory,
    refuses: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Store for Contended {
    async fn commit(&self, write: Write) -> Result<Outcome, StoreError> {
        if let Write::Put { key, .. } = &write
            && key.resource == Resource::new("pods", "")
            && self.refuses.swap(false, Ordering::Relaxed)
        {
            return Err(StoreError::Conflict { current: self.store.get(key).await? });
        }
        self.store.commit(write).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        self.store.list(query).await
    }

    async fn watch(&self, scope: WatchScope, from: Revision) -> Result<Box<dyn Watch>, StoreError> {
        self.store.watch(scope, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        self.store.tenants().await
    }

    async fn resources(&self, tenant: &Tenant) -> Result<Vec<(Resource, usize)>, StoreError> {
        self.store.resources(tenant).await
    }
}

#[tokio::test]
async fn a_budget_is_charged_once_however_often_the_pod_changes_before_it_goes() {
    let store = Memory::new(0, HistoryLimits::default());
    let world = World::over(Contended { store, refuses: Arc::default() }).await;
    let pod = json!({
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false}
    });
    world.create(PODS, pod).await;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(world.patch(&format!("{PODS}/p/status"), &ready).await.code, 200);
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    world.create(BUDGET.trim_end_matches("/b"), budget).await;
    let counted = json!({"status": {
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1
    }});
    assert_eq!(world.patch(&format!("{BUDGET}/status"), &counted).await.code, 200);

    world.store.refuses.store(true, Ordering::Relaxed);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let reply = world.send("POST", &format!("{PODS}/p/eviction"), &eviction).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    assert!(!world.store.refuses.load(Ordering::Relaxed), "a write of the pod was refused");
    assert_eq!(world.get(&format!("{PODS}/p")).await.code, 404);
    let left = world.get(BUDGET).await.body;
    assert_eq!(left.at(&["status", "disruptionsAllowed"]), Some(&Value::from(0)), "{left}");
}
