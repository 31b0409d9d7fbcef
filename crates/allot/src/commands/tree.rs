//! `allot tree`: Clusters, who has room on them, and who has access, as one tree.

use std::collections::BTreeMap;

use allotment_api::names;
use allotment_api::reasons::ConditionType;
use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest};
use anyhow::anyhow;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::{Format, Target, Tree};
use crate::client::{self, Platform};
use crate::exit::Outcome;
use crate::output;

/// Items of one page of a list.
const PAGE: u32 = 500;

/// Prints the tree.
pub(crate) async fn run(target: &Target, arguments: Tree) -> Outcome {
    let platform = Platform::connect(target).await?;
    let (clusters, requests, access) = futures::future::try_join3(
        all::<Cluster>(&platform),
        all::<ClusterRequest>(&platform),
        all::<AccessRequest>(&platform),
    )
    .await?;
    let within = |namespace: &str| arguments.namespace.as_deref().is_none_or(|only| only == namespace);
    let tree = build(&clusters, &requests, &access, within);
    match arguments.output {
        Some(Format::Json | Format::Yaml) => output::object(&tree, arguments.output, "", String::new),
        Some(Format::Name) => {
            let names = clusters.iter().map(|cluster| format!("cluster/{}", cluster.name_any()));
            output::data(&names.collect::<Vec<_>>().join("\n"))
        }
        Some(Format::Wide) | None => output::data(&render(&tree, arguments.namespace.as_deref())),
    }
}

async fn all<K>(platform: &Platform) -> anyhow::Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api = Api::<K>::all(platform.client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut items = Vec::new();
    loop {
        let page = api.list(&params).await;
        let page = page.map_err(|error| anyhow!("cannot list {}: {}", K::plural(&()), client::explain(&error)))?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
}

/// Clusters with requests below them and access below these; what is bound to none comes last.
fn build(
    clusters: &[Cluster],
    requests: &[ClusterRequest],
    access: &[AccessRequest],
    within: impl Fn(&str) -> bool,
) -> Value {
    let mut access_of: BTreeMap<(bool, String), Vec<Value>> = BTreeMap::new();
    for request in access {
        let own = request.namespace().unwrap_or_default();
        let reference = request.spec.cluster_ref.as_ref().or(request.spec.request_ref.as_ref());
        let Some(reference) = reference.filter(|_| within(&own)) else { continue };
        let place = reference.namespace.clone().unwrap_or_else(|| own.clone());
        let status = request.status.clone().unwrap_or_default();
        let node = json!({
            "kind": "AccessRequest", "name": format!("{own}/{}", request.name_any()),
            "state": status.status, "reason": status.reason,
        });
        let key = (request.spec.cluster_ref.is_some(), format!("{place}/{}", reference.name));
        access_of.entry(key).or_default().push(node);
    }
    let states: BTreeMap<String, &ClusterRequest> = requests
        .iter()
        .map(|request| (format!("{}/{}", request.namespace().unwrap_or_default(), request.name_any()), request))
        .collect();
    let mut bound = std::collections::BTreeSet::new();
    let request_node = |name: &str, prefix: &str, access_of: &mut BTreeMap<(bool, String), Vec<Value>>| {
        let status = states.get(name).and_then(|request| request.status.clone()).unwrap_or_default();
        json!({
            "kind": "ClusterRequest", "name": name, "prefix": prefix, "state": status.status, "reason": status.reason,
            "children": access_of.remove(&(false, name.to_owned())).unwrap_or_default(),
        })
    };
    let mut roots = Vec::new();
    for cluster in clusters {
        let name = format!("{}/{}", cluster.namespace().unwrap_or_default(), cluster.name_any());
        let mut children = Vec::new();
        for tenant in cluster.spec.tenants.iter().filter(|tenant| !tenant.released && within(&tenant.namespace)) {
            let request = format!("{}/{}", tenant.namespace, tenant.name);
            children.push(request_node(&request, &tenant.prefix, &mut access_of));
            bound.insert(request);
        }
        children.extend(access_of.remove(&(true, name.clone())).unwrap_or_default());
        if children.is_empty() && !within(&cluster.namespace().unwrap_or_default()) {
            continue;
        }
        let status = cluster.status.clone().unwrap_or_default();
        let ready = ConditionType::Ready.is_true(&status.conditions);
        roots.push(json!({
            "kind": "Cluster", "name": name, "purposes": cluster.spec.purposes,
            "provider": format!("{}/{}", cluster.spec.cluster_provider_ref.name, cluster.spec.cluster_provider_ref.profile),
            "version": status.kubernetes.and_then(|kubernetes| kubernetes.version),
            "state": if ready { "Ready" } else { "NotReady" }, "spare": cluster.annotations().contains_key(names::SPARE),
            "children": children,
        }));
    }
    let unbound = states.keys().filter(|name| !bound.contains(*name));
    let unbound: Vec<String> =
        unbound.filter(|name| within(name.split('/').next().unwrap_or_default())).cloned().collect();
    for name in unbound {
        roots.push(request_node(&name, "", &mut access_of));
    }
    // What refers to nothing that is there, or that is not shown.
    roots.extend(access_of.into_values().flatten());
    Value::Array(roots)
}

fn render(tree: &Value, namespace: Option<&str>) -> String {
    let mut lines = Vec::new();
    for node in tree.as_array().into_iter().flatten() {
        lines.push(label(node));
        branches(node, "", &mut lines);
    }
    if lines.is_empty() {
        let place = namespace.map(|name| format!(" in namespace {name}")).unwrap_or_default();
        lines.push(format!("nothing{place} yet; ask for a cluster with `allot request`"));
    }
    lines.join("\n")
}

fn branches(node: &Value, indent: &str, lines: &mut Vec<String>) {
    let children = node["children"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, child) in children.iter().enumerate() {
        let last = index + 1 == children.len();
        lines.push(format!("{indent}{} {}", if last { "└─" } else { "├─" }, label(child)));
        branches(child, &format!("{indent}{}", if last { "   " } else { "│  " }), lines);
    }
}

fn label(node: &Value) -> String {
    let text = |field: &str| node[field].as_str().unwrap_or_default().to_owned();
    let mut words = vec![text("kind"), text("name")];
    if let Some(purposes) = node["purposes"].as_array() {
        let names: Vec<_> = purposes.iter().filter_map(Value::as_str).collect();
        words.push(format!("[{}]", names.join(", ")));
    }
    for field in ["provider", "version", "prefix", "state"] {
        words.push(text(field));
    }
    if text("reason") != "Success" && !text("reason").is_empty() {
        words.push(format!("({})", text("reason")));
    }
    if node["spare"] == true {
        words.push("(spare)".to_owned());
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_stands_together() {
        let read = |value: Value| serde_json::from_value(value);
        let cluster: Cluster = read(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "n"}, "spec": {"clusterProviderRef": {"name": "p", "profile": "q"},
            "purposes": ["mcp"], "tenants": [{"requestUID": "u", "namespace": "t", "name": "r", "prefix": "x-"}]}}))
        .unwrap();
        let bound: ClusterRequest = serde_json::from_value(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1",
            "kind": "ClusterRequest", "metadata": {"name": "r", "namespace": "t"}, "spec": {"purposes": ["mcp"]}}))
        .unwrap();
        let mut spare = cluster.clone();
        spare.metadata.name = Some("s".to_owned());
        spare.spec.tenants.clear();
        spare.metadata.annotations = Some([(names::SPARE.to_owned(), "true".to_owned())].into());
        let mut alone = bound.clone();
        alone.metadata.name = Some("alone".to_owned());
        let access: AccessRequest = serde_json::from_value(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1",
            "kind": "AccessRequest", "metadata": {"name": "a", "namespace": "t"}, "spec": {"requestRef": {"name": "r"}}}))
        .unwrap();
        let mut lost = access.clone();
        lost.metadata.name = Some("lost".to_owned());
        lost.spec.request_ref = None;
        lost.spec.cluster_ref = Some(allotment_api::requests::ObjectRef { name: "none".to_owned(), namespace: None });
        let tree = build(&[cluster, spare], &[bound, alone], &[access, lost], |_| true);
        assert_eq!(
            render(&tree, None),
            "Cluster n/c [mcp] p/q NotReady\n└─ ClusterRequest t/r x-\n   └─ AccessRequest t/a\n\
             Cluster n/s [mcp] p/q NotReady (spare)\nClusterRequest t/alone\nAccessRequest t/lost"
        );
    }
}
