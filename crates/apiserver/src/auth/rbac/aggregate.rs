//! Aggregated ClusterRoles: their rules are those of all roles that their selectors match, kept so by the
//! server.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::{Encoded, metadata_mut};
use allotment_machinery::selector::LabelSelector;
use allotment_store::{Entry, Expect, Key, ListQuery, Resource, Scope, Store, StoreError, Tenant, Write};
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::RBAC_GROUP;
use crate::server::ApiServer;

/// Rounds of one pass. Roles may aggregate roles that aggregate others; the built-in ones are three deep.
const MAX_ROUNDS: usize = 8;

/// How long to wait before trying again when the store does not answer.
const RETRY: Duration = Duration::from_millis(500);

/// How long a tenant waits whose roles made a pass panic; others go on meanwhile.
const RETRY_PANICKED: Duration = Duration::from_secs(30);

/// Who a role's `managedFields` say its rules come from, as in kube-controller-manager. Rules written by
/// hand stay as long as nothing matches; aggregated ones go with the last role that they come from.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// The rules that `role` should have, in order of the names of the roles they come from and each once;
/// `None` where it aggregates nothing.
pub(super) fn aggregated_rules(role: &Value, roles: &[Value]) -> Option<Vec<Value>> {
    let selectors = role.at(&["aggregationRule", "clusterRoleSelectors"])?.as_array()?;
    let name = role.at(&["metadata", "name"])?.as_str()?;
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        let Ok(selector) = LabelSelector::from_object(Some(selector)) else { continue };
        let labels = |role: &Value| role.at(&["metadata", "labels"]).and_then(Value::as_object).cloned();
        let mut parts: Vec<&Value> = roles.iter().filter(|part| selector.matches(labels(part).as_ref())).collect();
        parts.retain(|part| name_of(part) != name);
        parts.sort_by(|left, right| name_of(left).cmp(name_of(right)));
        for rule in parts.into_iter().filter_map(|part| part.get("rules")?.as_array()).flatten() {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}

/// What an aggregated role's `managedFields` say of its rules.
pub(super) fn managed_fields(now: Timestamp) -> Value {
    json!([{
        "manager": MANAGER, "operation": "Apply", "apiVersion": "rbac.authorization.k8s.io/v1",
        "time": (now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        "fieldsType": "FieldsV1", "fieldsV1": {"f:rules": {}}
    }])
}

fn is_managed(role: &Value) -> bool {
    let entries = role.at(&["metadata", "managedFields"]).and_then(Value::as_array).unwrap_or_default();
    entries.iter().any(|entry| entry.get("manager").and_then(Value::as_str) == Some(MANAGER))
}

/// The role with its rules brought up to date; `None` where nothing has to change.
fn updated(role: &Value, roles: &[Value], now: Timestamp) -> Option<Map> {
    let rules = aggregated_rules(role, roles)?;
    let current = role.get("rules").and_then(Value::as_array).unwrap_or_default();
    if current == rules || (rules.is_empty() && !is_managed(role)) {
        return None;
    }
    let mut object = role.as_object()?.clone();
    object.insert("rules", if rules.is_empty() { Value::Null } else { Value::Array(rules) });
    if !is_managed(role) {
        let metadata = metadata_mut(&mut object)?;
        let mut entries = metadata.get("managedFields").and_then(Value::as_array).unwrap_or_default().to_vec();
        entries.extend(managed_fields(now).as_array().unwrap_or_default().iter().cloned());
        metadata.insert("managedFields", entries);
    }
    Some(object)
}

fn name_of(role: &Value) -> &str {
    role.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
}

/// The tenants whose aggregated roles may be out of date.
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    pending: Mutex<BTreeSet<Tenant>>,
    bell: Notify,
}

impl Aggregation {
    /// Says that a ClusterRole of the tenant has changed.
    pub(crate) fn mark(&self, tenant: &Tenant) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone());
        self.bell.notify_one();
    }

    fn take(&self) -> Option<Tenant> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }
}

/// Keeps aggregated roles up to date until the server stops.
pub(crate) async fn run_aggregation(server: ApiServer) {
    let stopping = server.stopping().clone();
    let mut panicked = BTreeMap::<Tenant, Instant>::new();
    loop {
        let due = panicked.values().min().copied();
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            () = server.aggregation().bell.notified() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
        let now = Instant::now();
        panicked.extract_if(.., |_, due| *due <= now).for_each(|(tenant, _)| server.aggregation().mark(&tenant));
        while let Some(tenant) = server.aggregation().take() {
            // A tenant that is not known was removed, or is marked again once it is.
            let Some(state) = server.known_tenant(&tenant) else { continue };
            let now = server.clock().now();
            let work = state.within(reconcile_aggregates(server.store(), &tenant, now));
            let error = match AssertUnwindSafe(work).catch_unwind().await {
                Ok(None | Some(Ok(_))) => continue,
                Ok(Some(Err(error))) => error,
                // Rules that were to go are granted until it is done.
                Err(_) => {
                    tracing::error!(tenant = tenant.as_str(), "aggregating roles panicked, trying again later");
                    panicked.insert(tenant, Instant::now() + RETRY_PANICKED);
                    continue;
                }
            };
            tracing::warn!(tenant = tenant.as_str(), %error, "aggregated roles could not be brought up to date");
            server.aggregation().mark(&tenant);
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = sleep(RETRY) => {}
            }
        }
    }
}

/// Brings the rules of all aggregated roles of a tenant up to date; how many had to be changed. A role
/// that somebody changes meanwhile is left to the next pass, which that change makes necessary anyway.
async fn reconcile_aggregates(store: &Arc<dyn Store>, tenant: &Tenant, now: Timestamp) -> Result<usize, StoreError> {
    let mut changed = 0;
    for _ in 0..MAX_ROUNDS {
        let round = reconcile_once(store, tenant, now).await?;
        changed += round;
        if round == 0 {
            break;
        }
    }
    Ok(changed)
}

async fn reconcile_once(store: &Arc<dyn Store>, tenant: &Tenant, now: Timestamp) -> Result<usize, StoreError> {
    let resource = Resource::new("clusterroles", RBAC_GROUP);
    let scope = Scope { tenant: tenant.clone(), resource: resource.clone(), namespace: None };
    let page = store.list(ListQuery { scope, at: None, after: None, limit: 0 }).await?;
    let read = |entry: &Arc<Entry>| json::parse(&entry.body()).ok().map(|role| (Arc::clone(entry), role));
    let roles: Vec<(Arc<Entry>, Value)> = page.entries.iter().filter_map(read).collect();
    let values: Vec<Value> = roles.iter().map(|(_, role)| role.clone()).collect();
    let mut changed = 0;
    for (entry, role) in roles {
        let Some(body) = updated(&role, &values, now).and_then(|object| Encoded::of(&object)) else { continue };
        let key = Key {
            tenant: tenant.clone(),
            resource: resource.clone(),
            namespace: Arc::from(""),
            name: Arc::clone(&entry.name),
        };
        match store.commit(Write::Put { key, expect: Expect::Revision(entry.revision), body }).await {
            Ok(_) => changed += 1,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(changed)
}
