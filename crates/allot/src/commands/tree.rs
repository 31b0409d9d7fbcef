//! `allot tree`: Clusters, who has room on them, and who has access, as one tree.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::reasons::{ConditionType, RequestReadyReason};
use allotment_api::requests::{AccessPolicy, AccessRequest, Cluster, ClusterRequest};
use anyhow::anyhow;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::reading::{self, Listed, Unread};
use crate::cli::{Format, Target, Tree};
use crate::client::Platform;
use crate::exit::Outcome;
use crate::output;

/// Prints the tree.
pub(crate) async fn run(target: &Target, arguments: Tree) -> Outcome {
    let platform = Platform::connect(target).await?;
    let only = arguments.namespace.as_deref();
    let there = There {
        clusters: clusters(&platform, only).await?,
        requests: within::<ClusterRequest>(&platform, only).await?,
        access: within::<AccessRequest>(&platform, only).await?,
        policies: within::<AccessPolicy>(&platform, only).await?,
    };
    let tree = Builder::new(&there, only).build();
    match arguments.output {
        Some(Format::Json | Format::Yaml) => output::object(&tree, arguments.output, "", String::new),
        Some(Format::Name) => output::data(&resource_names(&tree).join("\n")),
        Some(Format::Wide) | None => output::data(&render(&tree, only)),
    }
}

/// The Clusters as kubectl takes them, with the group: there are other kinds of that name.
fn resource_names(tree: &Value) -> Vec<String> {
    let roots = tree.as_array().into_iter().flatten().filter(|node| node["kind"] == "Cluster");
    let names = roots.filter_map(|node| node["name"].as_str()?.split_once('/'));
    names.map(|(_, name)| format!("cluster.{}/{name}", names::GROUP)).collect()
}

/// Whether the Cluster of a request is gone, as far as the request says.
fn is_lost(request: &ClusterRequest) -> bool {
    let conditions = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let lost = RequestReadyReason::ClusterLost.as_str();
    conditions.iter().any(|said| said.type_ == ConditionType::Ready.as_str() && said.reason == lost)
}

/// All of a kind in one namespace, or everywhere; who may not list everywhere is told what may help.
async fn within<K>(platform: &Platform, only: Option<&str>) -> anyhow::Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    K::Scope: Listed<K>,
{
    reading::all::<K>(platform, only).await.map_err(|unread| match unread {
        Unread::Forbidden(why) if only.is_none() => anyhow!("{why}; name a namespace of yours with -n"),
        Unread::Forbidden(why) => anyhow!(why),
        Unread::Failed(error) => error,
    })
}

/// The Clusters: with a namespace named, those that lie elsewhere are shown as far as they may be seen.
async fn clusters(platform: &Platform, only: Option<&str>) -> anyhow::Result<Vec<Cluster>> {
    let Some(namespace) = only else { return within(platform, None).await };
    match reading::all::<Cluster>(platform, None).await {
        Ok(all) => return Ok(all),
        Err(Unread::Failed(error)) => return Err(error),
        Err(Unread::Forbidden(_)) => {}
    }
    match reading::all::<Cluster>(platform, Some(namespace)).await {
        Ok(own) => Ok(own),
        Err(Unread::Failed(error)) => Err(error),
        Err(Unread::Forbidden(_)) => Ok(Vec::new()),
    }
}

/// What is shown.
struct There {
    clusters: Vec<Cluster>,
    requests: Vec<ClusterRequest>,
    access: Vec<AccessRequest>,
    policies: Vec<AccessPolicy>,
}

/// Puts what belongs together together: Clusters with requests below them and access below these; what is bound to
/// none comes last.
struct Builder<'a> {
    there: &'a There,
    only: Option<&'a str>,
    requests: BTreeMap<String, &'a ClusterRequest>,
    /// By whether it is a Cluster, and its name: who has access to it.
    access: BTreeMap<(bool, String), Vec<Value>>,
    bound: BTreeSet<String>,
    /// By namespace: every node asks for those of its own.
    policies: BTreeMap<&'a str, Vec<&'a AccessPolicy>>,
}

impl<'a> Builder<'a> {
    fn new(there: &'a There, only: Option<&'a str>) -> Self {
        let requests = there.requests.iter().map(|request| (key(request), request)).collect();
        let mut policies: BTreeMap<&str, Vec<&AccessPolicy>> = BTreeMap::new();
        for policy in &there.policies {
            policies.entry(policy.metadata.namespace.as_deref().unwrap_or_default()).or_default().push(policy);
        }
        Builder { there, only, requests, access: BTreeMap::new(), bound: BTreeSet::new(), policies }
    }

    fn is_within(&self, namespace: &str) -> bool {
        self.only.is_none_or(|only| only == namespace)
    }

    fn build(mut self) -> Value {
        for request in &self.there.access {
            let own = request.namespace().unwrap_or_default();
            let reference = request.spec.cluster_ref.as_ref().or(request.spec.request_ref.as_ref());
            let Some(reference) = reference.filter(|_| self.is_within(&own)) else { continue };
            let place = reference.namespace.clone().unwrap_or_else(|| own.clone());
            let status = request.status.clone().unwrap_or_default();
            let until = status.access.as_ref().and_then(|access| access.not_after.as_ref()).map(|time| time.0);
            let node = json!({
                "kind": "AccessRequest", "name": key(request), "state": status.status, "reason": status.reason,
                "notAfter": until,
            });
            let of = (request.spec.cluster_ref.is_some(), format!("{place}/{}", reference.name));
            self.access.entry(of).or_default().push(node);
        }
        let mut roots: Vec<Value> = Vec::new();
        for cluster in &self.there.clusters {
            roots.extend(self.cluster(cluster));
        }
        roots.extend(self.unseen_clusters());
        let unbound: Vec<String> = self
            .requests
            .keys()
            .filter(|name| !self.bound.contains(*name) && self.is_within(name.split('/').next().unwrap_or_default()))
            .cloned()
            .collect();
        for name in unbound {
            roots.push(self.request(&name, ""));
        }
        // What refers to nothing that is there, or that is not shown.
        roots.extend(std::mem::take(&mut self.access).into_values().flatten());
        Value::Array(roots)
    }

    fn request(&mut self, name: &str, prefix: &str) -> Value {
        let status = self.requests.get(name).and_then(|request| request.status.clone()).unwrap_or_default();
        let mut children = self.access.remove(&(false, name.to_owned())).unwrap_or_default();
        children.extend(self.policies(name));
        self.bound.insert(name.to_owned());
        json!({
            "kind": "ClusterRequest", "name": name, "prefix": prefix, "state": status.status, "reason": status.reason,
            "children": children,
        })
    }

    fn cluster(&mut self, cluster: &Cluster) -> Option<Value> {
        let name = key(cluster);
        let mut children = Vec::new();
        for tenant in &cluster.spec.tenants {
            if !self.is_within(&tenant.namespace) {
                continue;
            }
            let request = format!("{}/{}", tenant.namespace, tenant.name);
            children.push(match tenant.released {
                false => self.request(&request, &tenant.prefix),
                true => json!({"kind": "ReleasedTenant", "name": request, "prefix": tenant.prefix}),
            });
        }
        children.extend(self.access.remove(&(true, name.clone())).unwrap_or_default());
        if children.is_empty() && !self.is_within(&cluster.namespace().unwrap_or_default()) {
            return None;
        }
        children.extend(self.policies(&name));
        let status = cluster.status.clone().unwrap_or_default();
        let ready = ConditionType::Ready.is_true(&status.conditions);
        let annotations = cluster.annotations();
        Some(json!({
            "kind": "Cluster", "name": name, "purposes": cluster.spec.purposes,
            "provider": format!("{}/{}", cluster.spec.cluster_provider_ref.name, cluster.spec.cluster_provider_ref.profile),
            "version": status.kubernetes.and_then(|kubernetes| kubernetes.version),
            "state": if ready { "Ready" } else { "NotReady" }, "spare": annotations.contains_key(names::SPARE),
            "draining": annotations.contains_key(names::DRAINING),
            "deleting": cluster.metadata.deletion_timestamp.is_some(), "children": children,
        }))
    }

    /// Clusters that may not be listed, or are gone, as far as the requests on them tell.
    fn unseen_clusters(&mut self) -> Vec<Value> {
        let mut on: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, request) in self.requests.iter().filter(|(name, _)| !self.bound.contains(*name)) {
            let cluster = request.status.as_ref().and_then(|status| status.cluster_ref.as_ref());
            let place = cluster.and_then(|cluster| Some(format!("{}/{}", cluster.namespace.as_ref()?, cluster.name)));
            if let Some(place) = place {
                on.entry(place).or_default().push(name.clone());
            }
        }
        let node = |(place, requests): (String, Vec<String>)| {
            let lost = requests.iter().any(|name| self.requests.get(name).is_some_and(|request| is_lost(request)));
            let mut children: Vec<Value> = requests.iter().map(|name| self.request(name, "")).collect();
            children.extend(self.access.remove(&(true, place.clone())).unwrap_or_default());
            let state = lost.then_some("Lost");
            json!({"kind": "Cluster", "name": place, "state": state, "unseen": !lost, "children": children})
        };
        on.into_iter().map(node).collect()
    }

    /// The AccessPolicies that open what is called so in their namespace.
    fn policies(&self, name: &str) -> Vec<Value> {
        let (namespace, name) = name.split_once('/').unwrap_or_default();
        let opens = |policy: &&AccessPolicy| {
            policy.spec.names.as_ref().is_none_or(|names| names.iter().any(|opened| opened == name))
        };
        let node = |policy: &AccessPolicy| {
            let from = policy.spec.from.iter().map(|peer| match (&peer.namespace, &peer.namespace_selector) {
                (Some(namespace), _) => namespace.clone(),
                (None, Some(_)) => "selected namespaces".to_owned(),
                (None, None) => "nobody".to_owned(),
            });
            json!({"kind": "AccessPolicy", "name": key(policy), "from": from.collect::<Vec<_>>()})
        };
        self.policies.get(namespace).into_iter().flatten().copied().filter(opens).map(node).collect()
    }
}

fn key(object: &impl ResourceExt) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
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
    let list = |field: &str| {
        let names = node[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.collect::<Vec<_>>().join(", ")
    };
    if node["kind"] == "ReleasedTenant" {
        let prefix = text("prefix");
        return match prefix.as_str() {
            "" => format!("released by ClusterRequest {}", text("name")),
            prefix => format!("released by ClusterRequest {}: {prefix} is in quarantine", text("name")),
        };
    }
    let mut words = vec![text("kind"), text("name")];
    if node["purposes"].is_array() {
        words.push(format!("[{}]", list("purposes")));
    }
    if node["from"].is_array() {
        words.push(format!("opens it to {}", list("from")));
    }
    for field in ["provider", "version", "prefix", "state"] {
        words.push(text(field));
    }
    if text("reason") != "Success" && !text("reason").is_empty() {
        words.push(format!("({})", text("reason")));
    }
    let marks = [("spare", "(spare)"), ("deleting", "(being deleted)"), ("draining", "(draining)")];
    let unseen = [("unseen", "(may not be seen)")];
    words.extend(
        marks.iter().chain(&unseen).filter(|(field, _)| node[*field] == true).map(|(_, mark)| (*mark).to_owned()),
    );
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use allotment_api::requests::{ClusterRequestStatus, ObjectRef, Tenant};

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
        let policy: AccessPolicy = serde_json::from_value(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1",
            "kind": "AccessPolicy", "metadata": {"name": "p", "namespace": "t"},
            "spec": {"from": [{"namespace": "u"}, {"namespaceSelector": {}}], "names": ["r"], "permissions": []}}))
        .unwrap();
        let mut cluster = cluster;
        cluster.spec.tenants.push(Tenant {
            request_uid: "v".to_owned(),
            namespace: "u".to_owned(),
            name: "gone".to_owned(),
            prefix: "y-".to_owned(),
            released: true,
        });
        let mut there = There {
            clusters: vec![cluster, spare],
            requests: vec![bound, alone],
            access: vec![access, lost],
            policies: vec![policy],
        };
        assert_eq!(
            render(&Builder::new(&there, None).build(), None),
            "Cluster n/c [mcp] p/q NotReady\n├─ ClusterRequest t/r x-\n│  ├─ AccessRequest t/a\n\
             │  └─ AccessPolicy t/p opens it to u, selected namespaces\n\
             └─ released by ClusterRequest u/gone: y- is in quarantine\n\
             Cluster n/s [mcp] p/q NotReady (spare)\nClusterRequest t/alone\nAccessRequest t/lost"
        );
        assert_eq!(
            render(&Builder::new(&there, Some("u")).build(), Some("u")),
            "Cluster n/c [mcp] p/q NotReady\n└─ released by ClusterRequest u/gone: y- is in quarantine"
        );
        // Who may not list Clusters learns where a request is from the request.
        there.clusters.clear();
        there.policies.clear();
        there.access.clear();
        there.requests[0].status = Some(ClusterRequestStatus {
            cluster_ref: Some(ObjectRef { name: "c".to_owned(), namespace: Some("n".to_owned()) }),
            ..ClusterRequestStatus::default()
        });
        assert_eq!(
            render(&Builder::new(&there, Some("t")).build(), Some("t")),
            "Cluster n/c (may not be seen)\n└─ ClusterRequest t/r\nClusterRequest t/alone"
        );
        // And that it is gone.
        let lost = json!([{"type": "Ready", "status": "False", "reason": "ClusterLost", "message": "",
            "lastTransitionTime": "2027-01-15T08:00:00Z"}]);
        let status = there.requests[0].status.as_mut().expect("a status");
        status.conditions = serde_json::from_value(lost).expect("conditions");
        let tree = Builder::new(&there, None).build();
        assert_eq!(render(&tree, None), "Cluster n/c Lost\n└─ ClusterRequest t/r\nClusterRequest t/alone");
        assert_eq!(resource_names(&tree), ["cluster.cluster.openmcp.cloud/c"]);
    }
}
