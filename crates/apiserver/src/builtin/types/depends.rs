//! Defaults that depend on other members of their message (`k8s.io/kubernetes/pkg/apis/*/v1`,
//! SetDefaults_*), by message.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use crate::builtin::rules::look::{flag, is_given, items_mut, text};

type Fill = fn(&mut Map);

/// The functions, by message.
const FILLS: &[(&str, Fill)] = &[
    ("apps/v1.DaemonSetUpdateStrategy", rolling_update),
    ("apps/v1.DeploymentStrategy", rolling_update),
    ("apps/v1.StatefulSetSpec", claim_templates),
    ("apps/v1.StatefulSetUpdateStrategy", stateful_update),
    ("autoscaling/v2.HorizontalPodAutoscalerSpec", scaling),
    ("batch/v1.Job", job),
    ("core/v1.Container", pull_policy),
    ("core/v1.EphemeralContainerCommon", pull_policy),
    ("core/v1.ImageVolumeSource", image_volume),
    ("core/v1.LimitRangeItem", limits),
    ("core/v1.Pod", pod),
    ("core/v1.PodSpec", service_account),
    ("core/v1.ReplicationController", replication_controller),
    ("core/v1.Service", service),
    ("core/v1.Volume", volume),
    ("networking/v1.NetworkPolicySpec", policy_types),
];

/// Fills in what depends on other members of `object`, a message named `name`.
pub(crate) fn apply(name: &str, object: &mut Map) {
    if let Ok(index) = FILLS.binary_search_by(|(have, _)| (*have).cmp(name)) {
        FILLS[index].1(object);
    }
}

fn set(object: &mut Map, name: &str, value: impl Into<Value>) {
    if !is_given(object, name) {
        object.insert(name, value);
    }
}

/// A rolling update has its numbers; [`crate::builtin::types::defaults`] fills them in.
fn rolling_update(strategy: &mut Map) {
    if text(strategy, "type") == "RollingUpdate" {
        set(strategy, "rollingUpdate", Map::new());
    }
}

fn stateful_update(strategy: &mut Map) {
    if text(strategy, "type").is_empty() {
        strategy.insert("type", "RollingUpdate");
        set(strategy, "rollingUpdate", Map::new());
    }
}

/// Templates of claims say what they are.
fn claim_templates(spec: &mut Map) {
    for template in items_mut(spec, "volumeClaimTemplates") {
        set(template, "apiVersion", "v1");
        set(template, "kind", "PersistentVolumeClaim");
    }
}

fn scaling(spec: &mut Map) {
    set(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}
        }}]),
    );
    let Some(Value::Object(behavior)) = spec.get_mut("behavior") else { return };
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let up = behavior.get_or_insert_with("scaleUp", || Value::Object(Map::new()));
    if let Value::Object(up) = up {
        set(up, "stabilizationWindowSeconds", 0);
        set(up, "selectPolicy", "Max");
        set(up, "policies", Value::Array(vec![pods, percent.clone()]));
    }
    let down = behavior.get_or_insert_with("scaleDown", || Value::Object(Map::new()));
    if let Value::Object(down) = down {
        set(down, "selectPolicy", "Max");
        set(down, "policies", Value::Array(vec![percent]));
    }
}

fn job(job: &mut Map) {
    if let Some(spec) = job.object_mut("spec") {
        if !is_given(spec, "completions") && !is_given(spec, "parallelism") {
            spec.insert("completions", 1);
        }
        set(spec, "parallelism", 1);
        let limit = if is_given(spec, "backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
        set(spec, "backoffLimit", limit);
        set(spec, "completionMode", "NonIndexed");
        set(spec, "suspend", false);
        set(spec, "manualSelector", false);
        let replaced = if is_given(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        set(spec, "podReplacementPolicy", replaced);
    }
}

/// The labels of an object's pod template, where it has any.
pub(crate) fn labels_of_template(object: &Map) -> Option<Value> {
    let labels = object.get("spec")?.at(&["template", "metadata", "labels"])?;
    labels.as_object().is_some_and(|labels| !labels.is_empty()).then(|| labels.clone())
}

/// An object without labels takes those of its template.
pub(crate) fn take_labels(object: &mut Map, labels: Option<Value>) {
    let Some(labels) = labels else { return };
    if let Some(metadata) = object.object_mut("metadata")
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        metadata.insert("labels", labels);
    }
}

fn replication_controller(controller: &mut Map) {
    let labels = labels_of_template(controller);
    if let (Some(labels), Some(spec)) = (&labels, controller.object_mut("spec")) {
        set(spec, "selector", labels.clone());
    }
    take_labels(controller, labels);
}

fn pull_policy(container: &mut Map) {
    if text(container, "imagePullPolicy").is_empty() {
        let policy = policy_of(text(container, "image"));
        container.insert("imagePullPolicy", policy);
    }
}

fn image_volume(image: &mut Map) {
    if text(image, "pullPolicy").is_empty() {
        let policy = policy_of(text(image, "reference"));
        image.insert("pullPolicy", policy);
    }
}

/// The newest image is asked for each time, one with another tag or a digest is not. What is no image at
/// all is said to have no tag, and is not asked for either.
fn policy_of(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match (tag, digest) {
        _ if !is_image(image) => "IfNotPresent",
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

/// Whether a text can be read as a reference (`github.com/distribution/reference`), as far as that
/// decides how it is pulled: lower-case paths, tags of words.
fn is_image(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" || host != host.to_lowercase() => {
            (host, path)
        }
        _ => ("", name),
    };
    let (path, tag) = match path.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (path, None),
    };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let (first, last) = (part.bytes().next(), part.bytes().next_back());
        let ends = first.is_some_and(plain) && last.is_some_and(plain);
        ends && part.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
    };
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let tag_fits = |tag: &str| !tag.is_empty() && tag.len() <= 128 && tag.bytes().all(word);
    let host_fits =
        host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']'));
    host_fits && path.split('/').all(part) && tag.is_none_or(tag_fits)
}

fn limits(item: &mut Map) {
    if text(item, "type") != "Container" {
        return;
    }
    let fill = |item: &mut Map, from: &str, to: &str| {
        let Some(Value::Object(from)) = item.get(from).cloned() else { return };
        if let Some(to) = item.object_mut(to) {
            for (name, value) in from {
                to.get_or_insert_with(&name, || value);
            }
        }
    };
    fill(item, "max", "default");
    fill(item, "default", "defaultRequest");
    fill(item, "min", "defaultRequest");
}

fn pod(pod: &mut Map) {
    let Some(spec) = pod.object_mut("spec") else { return };
    for list in ["containers", "initContainers"] {
        items_mut(spec, list).for_each(requests_of_limits);
    }
    set(spec, "enableServiceLinks", true);
    if flag(spec, "hostNetwork") {
        for list in ["containers", "initContainers"] {
            items_mut(spec, list).for_each(host_ports);
        }
    }
}

/// The account goes by two names, of which the older one follows.
fn service_account(spec: &mut Map) {
    let (name, older) = (text(spec, "serviceAccountName").to_owned(), text(spec, "serviceAccount").to_owned());
    let account = if name.is_empty() { older } else { name };
    if !account.is_empty() {
        spec.insert("serviceAccount", account.as_str());
        spec.insert("serviceAccountName", account);
    }
}

/// Who is limited and asks for nothing asks for that much.
fn requests_of_limits(container: &mut Map) {
    let Some(resources) = container.object_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if let Some(requests) = resources.object_mut("requests") {
        for (name, value) in limits {
            requests.get_or_insert_with(&name, || value);
        }
    }
}

fn host_ports(container: &mut Map) {
    for port in items_mut(container, "ports") {
        let number = port.get("containerPort").cloned().unwrap_or_default();
        if port.get("hostPort").and_then(Value::as_i64).unwrap_or_default() == 0 {
            port.insert("hostPort", number);
        }
    }
}

fn service(service: &mut Map) {
    let Some(spec) = service.object_mut("spec") else { return };
    let affinity = match text(spec, "sessionAffinity") {
        "" => "None",
        given => given,
    };
    match affinity {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let given = spec.get("sessionAffinityConfig").and_then(|config| config.at(&["clientIP", "timeoutSeconds"]));
            if given.is_none_or(Value::is_null) {
                spec.insert("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10_800}}));
            }
        }
        _ => {}
    }
    for port in items_mut(spec, "ports") {
        set(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        let unset = port
            .get("targetPort")
            .is_none_or(|target| target.is_null() || target.as_i64() == Some(0) || target.as_str() == Some(""));
        if unset {
            port.insert("targetPort", number);
        }
    }
    let kind = match text(spec, "type") {
        "" => "ClusterIP".to_owned(),
        given => given.to_owned(),
    };
    let reachable_by_address = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let external = matches!(kind.as_str(), "LoadBalancer" | "NodePort") || kind == "ClusterIP" && reachable_by_address;
    if external && text(spec, "externalTrafficPolicy").is_empty() {
        spec.insert("externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
        balancer_modes(service);
    }
}

fn balancer_modes(service: &mut Map) {
    let Some(Value::Object(status)) = service.get_mut("status") else { return };
    let Some(Value::Object(balancer)) = status.get_mut("loadBalancer") else { return };
    for ingress in items_mut(balancer, "ingress") {
        if !text(ingress, "ip").is_empty() {
            set(ingress, "ipMode", "VIP");
        }
    }
}

/// A volume of nothing else is an empty directory.
fn volume(volume: &mut Map) {
    if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume.insert("emptyDir", Map::new());
    }
}

fn policy_types(spec: &mut Map) {
    let some = |spec: &Map, list: &str| spec.get(list).and_then(Value::as_array).is_some_and(|items| !items.is_empty());
    if !some(spec, "policyTypes") {
        let egress = some(spec, "egress").then_some("Egress");
        let types = std::iter::once("Ingress").chain(egress).map(Value::from);
        spec.insert("policyTypes", types.collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name() {
        assert!(FILLS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (name, _) in FILLS {
            assert!(crate::builtin::types::message(name).is_some(), "{name}");
        }
    }
}
