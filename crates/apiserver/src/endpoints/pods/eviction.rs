//! `/eviction`: deletes a pod if its disruption budget lets it
//! (`k8s.io/kubernetes/pkg/registry/core/pod/storage`, `policy/v1`).

use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_machinery::selector::LabelSelector;
use allotment_store::{Entry, Expect, ListQuery, Resource, Scope};
use async_trait::async_trait;
use std::sync::Arc;

use super::super::delete::delete_evicted;
use super::super::metadata::format_time;
use super::super::options::DeleteOptions;
use super::super::store::{self, Refused};
use super::super::update::{ATTEMPTS, MODIFIED};
use super::{about_pod, check_name, done, pod, row, set_condition};
use crate::query::Query;
use crate::registry::{Connect, Row};
use crate::server::Context;
use crate::status::{About, ApiError, Cause, Details};

/// How many pods a budget may have let go of which nobody has seen yet that they are gone.
const MOST_DISRUPTED: usize = 2000;
/// When a client is to ask again while a budget is counted anew, in seconds.
const COUNTED_SOON_SECS: u32 = 10;
const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Answers a create of an Eviction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eviction;

#[async_trait]
impl Connect for Eviction {
    async fn create(&self, cx: &Context, object: Value, dry_run: bool) -> Result<Value, ApiError> {
        check_name(cx, &object, "Eviction")?;
        let given = object.get("deleteOptions").filter(|options| !options.is_null());
        let options = DeleteOptions::parse(&Query::default(), given)?;
        let options = DeleteOptions { dry_run: options.dry_run || dry_run, ..options };
        let row = row(cx, "", "pods")?;
        // A budget is charged once, however often the pod changes before it goes.
        let mut charged = false;
        for _ in 0..ATTEMPTS {
            let (entry, found) = pod(cx, &row).await?;
            let budget = if charged || is_free(&found) { None } else { budget_of(cx, &found).await? };
            if let Some((entry, budget)) = budget.filter(|(_, budget)| !is_spared(budget, &found)) {
                match take_from(cx, &entry, budget, &options).await {
                    Ok(()) => charged = true,
                    Err(Refused::Conflict(_)) => continue,
                    Err(Refused::Failed(error)) => return Err(error),
                }
            }
            match evict(cx, &row, entry, found, &options).await {
                Ok(()) => return Ok(done()),
                Err(Refused::Conflict(_)) => {}
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        Err(ApiError::conflict(about_pod(&cx.info.name), MODIFIED))
    }
}

fn status<'a>(object: &'a Map, name: &str) -> Option<&'a Value> {
    object.get("status").and_then(|status| status.get(name))
}

fn count(budget: &Map, name: &str) -> i64 {
    status(budget, name).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether no budget counts the pod: it has not begun, has ended, or is going anyway.
fn is_free(pod: &Map) -> bool {
    let phase = status(pod, "phase").and_then(Value::as_str).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || metadata_str(pod, "deletionTimestamp").is_some()
}

/// Whether the budget loses nothing with the pod, which is not healthy.
fn is_spared(budget: &Map, pod: &Map) -> bool {
    let conditions = status(pod, "conditions").and_then(Value::as_array).unwrap_or_default();
    let text = |condition: &Value, name: &str| condition.get(name).and_then(Value::as_str).map(str::to_owned);
    let ready = conditions.iter().any(|condition| {
        text(condition, "type").as_deref() == Some("Ready") && text(condition, "status").as_deref() == Some("True")
    });
    let policy = budget.get("spec").and_then(|spec| spec.get("unhealthyPodEvictionPolicy")).and_then(Value::as_str);
    let enough =
        count(budget, "desiredHealthy") > 0 && count(budget, "currentHealthy") >= count(budget, "desiredHealthy");
    !ready && (policy == Some("AlwaysAllow") || enough)
}

/// The budget that counts the pod.
async fn budget_of(cx: &Context, pod: &Map) -> Result<Option<(Arc<Entry>, Map)>, ApiError> {
    let row = row(cx, "policy", "poddisruptionbudgets")?;
    let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let scope = Scope {
        tenant: cx.tenant.tenant.clone(),
        resource: Resource::new("poddisruptionbudgets", "policy"),
        namespace: Some(Arc::from(cx.info.namespace.as_str())),
    };
    let query = ListQuery { scope, at: None, after: None, limit: 0 };
    let page = cx.server.store().list(query).await.map_err(|error| store::api_error(&error))?;
    let mut found = None;
    for entry in page.entries {
        let budget = store::object_of(&row, &entry.body())?;
        let selector = budget.get("spec").and_then(|spec| spec.get("selector")).filter(|selector| !selector.is_null());
        let Some(selector) = selector else { continue };
        if !LabelSelector::from_object(Some(selector)).is_ok_and(|selector| selector.matches(labels)) {
            continue;
        }
        if found.replace((entry, budget)).is_some() {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                support.";
            return Err(ApiError::new(500, "", message));
        }
    }
    Ok(found)
}

/// 429, with the reason why in a cause.
fn too_many(retry_after_seconds: u32, why: String) -> ApiError {
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message: why, ..Cause::default() };
    let details = Details { causes: vec![cause], retry_after_seconds, ..Details::default() };
    ApiError { details: Some(Box::new(details)), ..ApiError::new(429, "TooManyRequests", VIOLATED) }
}

/// Why a budget lets nothing go.
fn refusal(budget: &Map) -> Option<ApiError> {
    let name = metadata_str(budget, "name").unwrap_or_default();
    let generation = budget.get("metadata").and_then(|metadata| metadata.get("generation")).and_then(Value::as_i64);
    let about = About { group: "policy", resource: "poddisruptionbudget", name };
    if count(budget, "observedGeneration") < generation.unwrap_or_default() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Some(too_many(COUNTED_SOON_SECS, why));
    }
    let allowed = count(budget, "disruptionsAllowed");
    if allowed < 0 {
        return Some(ApiError::forbidden(about, "pdb disruptions allowed is negative"));
    }
    let disrupted = status(budget, "disruptedPods").and_then(Value::as_object).map_or(0, Map::len);
    if disrupted > MOST_DISRUPTED {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Some(ApiError::forbidden(about, why));
    }
    (allowed == 0).then(|| too_many(0, exhausted(budget, name)))
}

/// What is said of a budget that is used up.
fn exhausted(budget: &Map, name: &str) -> String {
    let conditions = status(budget, "conditions").and_then(Value::as_array).unwrap_or_default();
    let text =
        |condition: &Value, name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let condition = conditions.iter().find(|condition| text(condition, "type") == "DisruptionAllowed");
    let condition = condition.filter(|condition| text(condition, "status") == "False");
    let (reason, message) = condition
        .map(|condition| (text(condition, "reason"), text(condition, "message")))
        .filter(|(_, message)| !message.is_empty())
        .unwrap_or_default();
    let (desired, current) = (count(budget, "desiredHealthy"), count(budget, "currentHealthy"));
    match (reason.as_str(), message.as_str()) {
        ("SyncFailed", message) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        (_, "") => format!("The disruption budget {name} does not allow evicting pods currently"),
        (reason, message) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
    }
}

/// Takes one disruption from a budget.
async fn take_from(cx: &Context, entry: &Entry, mut budget: Map, options: &DeleteOptions) -> Result<(), Refused> {
    if let Some(error) = refusal(&budget) {
        return Err(Refused::Failed(error));
    }
    if options.dry_run {
        return Ok(());
    }
    let row = row(cx, "policy", "poddisruptionbudgets").map_err(Refused::Failed)?;
    let left = count(&budget, "disruptionsAllowed") - 1;
    let now = format_time(cx.server.clock().now());
    let observed = status(&budget, "observedGeneration").cloned();
    if let Some(status) = budget.object_mut("status") {
        status.insert("disruptionsAllowed", left);
        if let Some(disrupted) = status.object_mut("disruptedPods") {
            disrupted.insert(cx.info.name.as_str(), now.as_str());
        }
        if left == 0 {
            use_up(status, observed, &now);
        }
    }
    let encoded = store::encode(&row, &budget).map_err(Refused::Failed)?;
    let expect = Expect::Revision(entry.revision);
    store::put(cx, entry.key(&cx.tenant.tenant), expect, encoded).await.map(|_| ())
}

/// Says of a budget that nothing is left of it.
fn use_up(status: &mut Map, observed: Option<Value>, now: &str) {
    let mut condition = allotment_machinery::json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": now
    });
    if let (Some(condition), Some(observed)) = (condition.as_object_mut(), observed) {
        condition.insert("observedGeneration", observed);
    }
    let list = status.get_or_insert_with("conditions", || Value::Array(Vec::new()));
    let Some(conditions) = list.as_array_mut() else { return };
    match conditions.iter_mut().find(|have| have.get("type") == condition.get("type")) {
        Some(have) => {
            if have.get("status") == condition.get("status")
                && let (Some(since), Some(map)) = (have.get("lastTransitionTime").cloned(), condition.as_object_mut())
            {
                map.insert("lastTransitionTime", since);
            }
            *have = condition;
        }
        None => conditions.push(condition),
    }
}

/// Says why the pod goes, and deletes it.
async fn evict(
    cx: &Context,
    row: &Row,
    entry: Arc<Entry>,
    mut pod: Map,
    options: &DeleteOptions,
) -> Result<(), Refused> {
    super::super::delete::check_preconditions(row, &pod, &entry, options).map_err(Refused::Failed)?;
    if options.dry_run {
        return Ok(());
    }
    let target = allotment_machinery::json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting"
    });
    set_condition(cx, &mut pod, target.as_object().cloned().unwrap_or_default());
    let encoded = store::encode(row, &pod).map_err(Refused::Failed)?;
    let expect = Expect::Revision(entry.revision);
    let told = store::put(cx, entry.key(&cx.tenant.tenant), expect, encoded).await?;
    delete_evicted(cx, row, told, options).await.map_err(Refused::Failed)
}
