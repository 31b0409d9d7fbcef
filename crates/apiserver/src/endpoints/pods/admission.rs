//! What is set in new pods that depends on other objects: the account that they run as, with its token, and their
//! priority (`k8s.io/kubernetes/plugin/pkg/admission/serviceaccount`, `priority`).

use std::collections::BTreeSet;
use std::time::Duration;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_store::{ListQuery, Resource, Scope};
use jiff::Timestamp;

use super::super::store;
use super::{about_pod, key, row};
use crate::builtin::{self, MIRROR_POD};
use crate::registry::Row;
use crate::server::Context;
use crate::status::ApiError;

const DEFAULT_ACCOUNT: &str = "default";
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
/// How often the account that every namespace has is looked for while it may be on its way, and how old a namespace is
/// at most, in seconds, where it may.
const ACCOUNT_ATTEMPTS: usize = 10;
const YOUNG_SECS: i64 = 10;
const ACCOUNT_PERIOD: Duration = Duration::from_millis(100);
const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long a pod's token holds, in seconds: an hour, and what it may be overdue.
const TOKEN_LIFETIME_SECS: i64 = 3607;
/// How many characters make a volume's name unlike others.
const SUFFIX_LENGTH: usize = 5;
const PREEMPTS: &str = "PreemptLowerPriority";

/// Completes a new pod, or refuses it. Other kinds are left alone.
pub(in crate::endpoints) async fn before_create(cx: &Context, row: &Row, pod: &mut Map) -> Result<(), ApiError> {
    if !row.kind.group.is_empty() || row.kind.plural != "pods" {
        return Ok(());
    }
    let text = |name: &str| metadata_str(pod, name).filter(|text| !text.is_empty()).map(str::to_owned);
    let name = text("name").or_else(|| text("generateName")).unwrap_or_else(|| "Unknown".to_owned());
    let refuse = |why: String| ApiError::forbidden(about_pod(&name), &why);
    let mirrors = pod.get("metadata").and_then(|metadata| metadata.at(&["annotations", MIRROR_POD])).is_some();
    if mirrors {
        check_mirror(pod).map_err(refuse)?;
    } else {
        use_account(cx, pod, &refuse).await?;
    }
    set_priority(cx, pod, &refuse).await?;
    use_runtime(cx, pod, &refuse).await
}

/// Refuses a pod that would be taken but says itself what its runtime takes, which only a class says.
pub(in crate::endpoints) async fn check_overhead(cx: &Context, row: &Row, pod: &Map) -> Result<(), ApiError> {
    let is_pod = row.kind.group.is_empty() && row.kind.plural == "pods";
    let given = || pod.get("spec").and_then(|spec| spec.get("overhead")).is_some_and(|overhead| !overhead.is_null());
    if !is_pod || !given() {
        return Ok(());
    }
    let class = runtime_class(cx, &spec_text(pod, "runtimeClassName")).await?;
    if class.as_ref().and_then(overhead_of).is_some() {
        return Ok(());
    }
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    Err(ApiError::forbidden(about_pod(metadata_str(pod, "name").unwrap_or_default()), why))
}

async fn runtime_class(cx: &Context, name: &str) -> Result<Option<Map>, ApiError> {
    let row = row(cx, "node.k8s.io", "runtimeclasses")?;
    let key = key(cx, row.kind.resource(), "", name);
    store::find(cx, &key).await?.map(|entry| store::object_of(&row, &entry.body())).transpose()
}

fn overhead_of(class: &Map) -> Option<Map> {
    let fixed = class.get("overhead").and_then(|overhead| overhead.get("podFixed"))?;
    fixed.as_object().cloned()
}

/// Gives a pod what its runtime takes, and keeps it to the nodes that have the runtime
/// (`k8s.io/kubernetes/plugin/pkg/admission/runtimeclass`).
async fn use_runtime(cx: &Context, pod: &mut Map, refuse: &impl Fn(String) -> ApiError) -> Result<(), ApiError> {
    let Some(spec) = pod.object_mut("spec") else { return Ok(()) };
    let Some(name) = spec.get("runtimeClassName").and_then(Value::as_str).map(str::to_owned) else { return Ok(()) };
    let Some(class) = runtime_class(cx, &name).await? else {
        return Err(refuse(format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    if let Some(overhead) = overhead_of(&class) {
        let given = spec.get("overhead").and_then(Value::as_object).filter(|given| !given.is_empty());
        if given.is_some_and(|given| *given != overhead) {
            return Err(refuse(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned(),
            ));
        }
        spec.insert("overhead", overhead);
    }
    let Some(scheduling) = class.get("scheduling").and_then(Value::as_object) else { return Ok(()) };
    for (key, value) in scheduling.get("nodeSelector").and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        let Some(own) = spec.object_mut("nodeSelector") else { break };
        if let Some(given) = own.get(key).filter(|given| *given != value) {
            let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (asked, given) = (shown(value), shown(given));
            return Err(refuse(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {asked}; pod.spec.nodeSelector[{key}] = {given}"
            )));
        }
        own.insert(key, value.clone());
    }
    let borne = scheduling.get("tolerations").and_then(Value::as_array).unwrap_or_default();
    if !borne.is_empty()
        && let Some(own) = spec.get_or_insert_with("tolerations", || Value::Array(Vec::new())).as_array_mut()
    {
        let had: BTreeSet<String> = own.iter().map(ToString::to_string).collect();
        own.extend(borne.iter().filter(|toleration| !had.contains(&toleration.to_string())).cloned());
    }
    Ok(())
}

fn spec_text(pod: &Map, name: &str) -> String {
    pod.get("spec").and_then(|spec| spec.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Pods that show what a node runs of its own have no part in the cluster's secrets.
fn check_mirror(pod: &Map) -> Result<(), String> {
    if !spec_text(pod, "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    if !builtin::secrets_of_pod(pod).is_empty() {
        return Err("a mirror pod may not reference secrets".to_owned());
    }
    let volumes = pod.get("spec").and_then(|spec| spec.get("volumes")).and_then(Value::as_array).unwrap_or_default();
    let sources = volumes.iter().filter_map(|volume| volume.at(&["projected", "sources"]).and_then(Value::as_array));
    if sources.flatten().any(|source| source.get("serviceAccountToken").is_some_and(|token| !token.is_null())) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned());
    }
    Ok(())
}

/// Gives a pod its account: the one that it names or that of the namespace, which has to be there.
async fn use_account(cx: &Context, pod: &mut Map, refuse: &impl Fn(String) -> ApiError) -> Result<(), ApiError> {
    let named = spec_text(pod, "serviceAccountName");
    let name = if named.is_empty() { DEFAULT_ACCOUNT.to_owned() } else { named };
    let namespace = cx.info.namespace.as_str();
    let Some(account) = account(cx, namespace, &name).await? else {
        return Err(refuse(format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        )));
    };
    let Some(spec) = pod.object_mut("spec") else { return Ok(()) };
    spec.insert("serviceAccountName", name.as_str());
    spec.insert("serviceAccount", name.as_str());
    let automount = |owner: &Map| owner.get("automountServiceAccountToken").and_then(Value::as_bool);
    if automount(spec).or_else(|| automount(&account)).unwrap_or(true) {
        mount_token(cx, spec);
    }
    let pulls = |owner: &Map| owner.get("imagePullSecrets").and_then(Value::as_array).unwrap_or_default().to_vec();
    if pulls(spec).is_empty() && !pulls(&account).is_empty() {
        spec.insert("imagePullSecrets", pulls(&account));
    }
    let enforced = account.get("metadata").and_then(|metadata| metadata.at(&["annotations", ENFORCE_SECRETS]));
    let enforced = enforced.and_then(Value::as_str).unwrap_or_default();
    if matches!(enforced, "1" | "t" | "T" | "true" | "TRUE" | "True") {
        builtin::check_mountable_secrets(&account, pod).map_err(refuse)?;
    }
    Ok(())
}

async fn account(cx: &Context, namespace: &str, name: &str) -> Result<Option<Map>, ApiError> {
    let row = row(cx, "", "serviceaccounts")?;
    let key = key(cx, Resource::new("serviceaccounts", ""), namespace, name);
    store::find(cx, &key).await?.map(|entry| store::object_of(&row, &entry.body())).transpose()
}

/// Waits for the account that a young namespace is about to have, where a pod is to be made in it. This comes before
/// the request takes its share of the server: what waits for others must not keep them from being served.
pub(crate) async fn await_account(cx: &Context, row: &Row) -> Result<(), ApiError> {
    let info = &cx.info;
    let makes_pod = info.verb == "create" && info.subresource.is_empty() && row.kind.plural == "pods";
    if !makes_pod || !row.kind.group.is_empty() {
        return Ok(());
    }
    let account = key(cx, Resource::new("serviceaccounts", ""), &info.namespace, DEFAULT_ACCOUNT);
    for attempt in 0..ACCOUNT_ATTEMPTS {
        if store::find(cx, &account).await?.is_some() || attempt == 0 && !is_young(cx, &info.namespace).await? {
            break;
        }
        tokio::time::sleep(ACCOUNT_PERIOD).await;
    }
    Ok(())
}

async fn is_young(cx: &Context, namespace: &str) -> Result<bool, ApiError> {
    let row = row(cx, "", "namespaces")?;
    let Some(entry) = store::find(cx, &key(cx, row.kind.resource(), "", namespace)).await? else { return Ok(false) };
    let object = store::object_of(&row, &entry.body())?;
    let created = metadata_str(&object, "creationTimestamp").and_then(|text| text.parse::<Timestamp>().ok());
    Ok(created.is_some_and(|created| cx.server.clock().now().as_second() - created.as_second() < YOUNG_SECS))
}

/// Every container sees the account's token, unless something else lies in its place.
fn mount_token(cx: &Context, spec: &mut Map) {
    let volumes = spec.get("volumes").and_then(Value::as_array).unwrap_or_default();
    let names = volumes.iter().filter_map(|volume| volume.get("name").and_then(Value::as_str));
    let known = names.into_iter().find(|name| name.starts_with(TOKEN_VOLUME)).map(str::to_owned);
    let name = known.clone().unwrap_or_else(|| format!("{TOKEN_VOLUME}{}", cx.server.entropy().suffix(SUFFIX_LENGTH)));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let mounts = container.get_or_insert_with("volumeMounts", || Value::Array(Vec::new()));
            if mounts.is_null() {
                *mounts = Value::Array(Vec::new());
            }
            let Some(mounts) = mounts.as_array_mut() else { continue };
            let taken = |mount: &Value| mount.get("mountPath").and_then(Value::as_str) == Some(TOKEN_PLACE);
            if !mounts.iter().any(taken) {
                mounts.push(json!({"name": (name.as_str()), "readOnly": true, "mountPath": TOKEN_PLACE}));
                needed = true;
            }
        }
    }
    if known.is_some() || !needed {
        return;
    }
    let volumes = spec.get_or_insert_with("volumes", || Value::Array(Vec::new()));
    if volumes.is_null() {
        *volumes = Value::Array(Vec::new());
    }
    if let Some(volumes) = volumes.as_array_mut() {
        let sources = json!([
            {"serviceAccountToken": {"expirationSeconds": TOKEN_LIFETIME_SECS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
            ]}}
        ]);
        volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": sources}}));
    }
}

/// A class as far as pods go.
struct Priority {
    class: String,
    value: i64,
    preemption: String,
}

/// Gives a pod the number of its class, or of the class that is the default.
async fn set_priority(cx: &Context, pod: &mut Map, refuse: &impl Fn(String) -> ApiError) -> Result<(), ApiError> {
    let named = spec_text(pod, "priorityClassName");
    let found = if named.is_empty() { Some(default_class(cx).await?) } else { class(cx, &named).await? };
    let Some(priority) = found else {
        return Err(refuse(format!("no PriorityClass with name {named} was found")));
    };
    let Some(spec) = pod.object_mut("spec") else { return Ok(()) };
    if let Some(given) = spec.get("priority").and_then(Value::as_i64).filter(|given| *given != priority.value) {
        return Err(refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {} from the given PriorityClass name",
            priority.value
        )));
    }
    if !priority.class.is_empty() {
        spec.insert("priorityClassName", priority.class);
    }
    spec.insert("priority", priority.value);
    let given = spec.get("preemptionPolicy").and_then(Value::as_str).unwrap_or(&priority.preemption);
    if given != priority.preemption {
        return Err(refuse(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {} from the given PriorityClass name",
            priority.preemption
        )));
    }
    spec.insert("preemptionPolicy", priority.preemption);
    Ok(())
}

fn priority_of(class: &Map) -> Priority {
    let text = |name: &str| class.get(name).and_then(Value::as_str).unwrap_or(PREEMPTS).to_owned();
    Priority {
        class: metadata_str(class, "name").unwrap_or_default().to_owned(),
        value: class.get("value").and_then(Value::as_i64).unwrap_or_default(),
        preemption: text("preemptionPolicy"),
    }
}

async fn class(cx: &Context, name: &str) -> Result<Option<Priority>, ApiError> {
    let row = row(cx, "scheduling.k8s.io", "priorityclasses")?;
    let key = key(cx, row.kind.resource(), "", name);
    let Some(entry) = store::find(cx, &key).await? else {
        // Every cluster begins with the system's classes; one without them is served all the same.
        return Ok(builtin::system_priority(name).map(|value| Priority {
            class: name.to_owned(),
            value,
            preemption: PREEMPTS.to_owned(),
        }));
    };
    Ok(Some(priority_of(&store::object_of(&row, &entry.body())?)))
}

/// Whether a stored class may say that it is the default. Each pod without a class asks, and hardly any class is:
/// those that are not need not be read.
fn may_be_default(body: &[u8]) -> bool {
    const SAYS_SO: &[u8] = br#""globalDefault":true"#;
    body.windows(SAYS_SO.len()).any(|window| window == SAYS_SO)
}

/// The lowest of those that say they are the default; without any it is 0.
async fn default_class(cx: &Context) -> Result<Priority, ApiError> {
    let row = row(cx, "scheduling.k8s.io", "priorityclasses")?;
    let scope = Scope { tenant: cx.tenant.tenant.clone(), resource: row.kind.resource(), namespace: None };
    let query = ListQuery { scope, at: None, after: None, limit: 0 };
    let page = cx.server.store().list(query).await.map_err(|error| store::api_error(&error))?;
    let mut found: Option<Priority> = None;
    for entry in page.entries.iter().filter(|entry| may_be_default(&entry.body())) {
        let class = store::object_of(&row, &entry.body())?;
        if class.get("globalDefault").and_then(Value::as_bool) == Some(true) {
            let priority = priority_of(&class);
            if found.as_ref().is_none_or(|found| found.value > priority.value) {
                found = Some(priority);
            }
        }
    }
    Ok(found.unwrap_or_else(|| Priority { class: String::new(), value: 0, preemption: PREEMPTS.to_owned() }))
}
