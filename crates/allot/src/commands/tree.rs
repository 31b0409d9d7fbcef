//! `allot tree`: Clusters, who has room on them, and who has access, as one tree.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::reasons::{ConditionType, RequestReadyReason, Verdict};
use allotment_api::requests::{AccessPolicy, AccessRequest, Cluster, ClusterRequest, Tenant};
use anyhow::anyhow;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::reading::{self, Listed, Unread};
use crate::cli::{Format, Target, Tree};
use crate::client::Platform;
use crate::exit::Outcome;
use crate::output;

/// Prints the tree: what may be seen of it, and what may not.
pub(crate) async fn run(target: &Target, arguments: Tree) -> Outcome {
    let platform = Platform::connect(target).await?;
    let only = arguments.namespace.as_deref();
    let mut look = Look { platform: &platform, only, unseen: Vec::new() };
    let requests = look.at::<ClusterRequest>().await?;
    let there = There {
        // After the requests: what one of them is bound to is there, if it is at all.
        clusters: look.clusters().await?,
        requests,
        access: look.at::<AccessRequest>().await?.unwrap_or_default(),
        policies: look.at::<AccessPolicy>().await?.unwrap_or_default(),
    };
    let there = look.latecomers(there).await?;
    let hint = if only.is_none() { "; name a namespace of yours with -n" } else { "" };
    if look.unseen.len() == KINDS {
        return Err(anyhow!("{}{hint}", look.unseen.swap_remove(0)).into());
    }
    look.unseen.iter().for_each(|why| output::note(&format!("not shown: {why}{hint}")));
    let tree = Builder::new(&there, only).build();
    match arguments.output {
        Some(Format::Json | Format::Yaml) => output::object(&tree, arguments.output, "", String::new),
        Some(Format::Name) => output::data(&resource_names(&tree, only).join("\n")),
        Some(Format::Wide) | None => {
            let nothing = if look.unseen.is_empty() { "nothing" } else { "nothing that may be seen" };
            output::data(&render(&tree, only, nothing))
        }
    }
}

/// How many kinds the tree is made of.
const KINDS: usize = 4;

/// Reads one kind after another, and keeps what may not be seen.
struct Look<'a> {
    platform: &'a Platform,
    only: Option<&'a str>,
    unseen: Vec<String>,
}

impl Look<'_> {
    /// All of a kind in one namespace, or everywhere; nothing where they may not be listed.
    async fn at<K>(&mut self) -> anyhow::Result<Option<Vec<K>>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
        K::Scope: Listed<K>,
    {
        match reading::all::<K>(self.platform, self.only).await {
            Ok(all) => Ok(Some(all)),
            Err(Unread::Failed(error)) => Err(error),
            Err(Unread::Forbidden(why)) => {
                self.unseen.push(why);
                Ok(None)
            }
        }
    }

    /// The Clusters: with a namespace named, those that lie elsewhere are shown as far as they may be seen.
    async fn clusters(&mut self) -> anyhow::Result<Clusters> {
        if self.only.is_some() {
            match reading::all::<Cluster>(self.platform, None).await {
                Ok(all) => return Ok(Clusters { seen: all, everywhere: true }),
                Err(Unread::Failed(error)) => return Err(error),
                Err(Unread::Forbidden(_)) => {}
            }
        }
        let seen = self.at::<Cluster>().await?;
        Ok(Clusters { everywhere: self.only.is_none() && seen.is_some(), seen: seen.unwrap_or_default() })
    }

    /// With the requests of tenants that came after the requests were read.
    async fn latecomers(&self, mut there: There) -> anyhow::Result<There> {
        let missing = there.missing(self.only);
        if let (false, Some(requests)) = (missing.is_empty(), &mut there.requests) {
            match reading::all::<ClusterRequest>(self.platform, self.only).await {
                Ok(all) => requests.extend(all.into_iter().filter(|request| missing.contains(&key(request)))),
                Err(Unread::Failed(error)) => return Err(error),
                Err(Unread::Forbidden(_)) => {}
            }
        }
        Ok(there)
    }
}

/// What is in the tree, as kubectl takes it, with the group: there are other kinds of such names. kubectl takes a
/// namespace apart from names: with one named only what is in it is listed, else each with its own.
fn resource_names(tree: &Value, only: Option<&str>) -> Vec<String> {
    fn visit(nodes: &Value, only: Option<&str>, names: &mut Vec<String>) {
        for node in nodes.as_array().into_iter().flatten() {
            let place = node["name"].as_str().and_then(|name| name.split_once('/'));
            let kind = node["kind"].as_str().unwrap_or_default().to_lowercase();
            let is_there = node["there"] != false && kind != "releasedtenant";
            if let Some((namespace, name)) = place.filter(|_| is_there) {
                let named = format!("{kind}.{}/{name}", names::GROUP);
                match only {
                    None => names.push(format!("{named} -n {namespace}")),
                    Some(only) if only == namespace => names.push(named),
                    Some(_) => {}
                }
            }
            visit(&node["children"], only, names);
        }
    }
    let mut names = Vec::new();
    visit(tree, only, &mut names);
    let mut said = BTreeSet::new();
    // A policy stands below all that it opens.
    names.retain(|name| said.insert(name.clone()));
    names
}

/// What a request says of its Cluster where that is not ready: `ClusterLost` where it is gone.
fn not_ready(request: &ClusterRequest) -> Option<&str> {
    let status = request.status.as_ref().filter(|status| status.status == Some(Verdict::Granted))?;
    let ready = status.conditions.iter().find(|said| said.type_ == ConditionType::Ready.as_str())?;
    (ready.status != "True").then_some(ready.reason.as_str())
}

/// Whether the Cluster of a request is gone, as far as the request says.
fn is_lost(request: &ClusterRequest) -> bool {
    not_ready(request) == Some(RequestReadyReason::ClusterLost.as_str())
}

/// What is shown.
struct There {
    clusters: Clusters,
    /// Nothing where they may not be listed.
    requests: Option<Vec<ClusterRequest>>,
    access: Vec<AccessRequest>,
    policies: Vec<AccessPolicy>,
}

impl There {
    /// The requests that Clusters have tenants of, and that were not read.
    fn missing(&self, only: Option<&str>) -> BTreeSet<String> {
        let known: BTreeSet<String> = self.requests.iter().flatten().map(key).collect();
        let tenants = self.clusters.seen.iter().flat_map(|cluster| &cluster.spec.tenants);
        let tenants = tenants.filter(|tenant| !tenant.released && only.is_none_or(|only| only == tenant.namespace));
        tenants.map(of_tenant).filter(|name| !known.contains(name)).collect()
    }
}

/// The Clusters that may be seen.
struct Clusters {
    seen: Vec<Cluster>,
    /// Whether these are all that there are.
    everywhere: bool,
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
    /// By Cluster: the requests that say that they are on it and are no tenants of any, or not yet.
    joining: BTreeMap<String, Vec<String>>,
    /// By namespace: every node asks for those of its own.
    policies: BTreeMap<&'a str, Vec<&'a AccessPolicy>>,
}

impl<'a> Builder<'a> {
    fn new(there: &'a There, only: Option<&'a str>) -> Self {
        let requests: BTreeMap<String, &ClusterRequest> =
            there.requests.iter().flatten().map(|request| (key(request), request)).collect();
        let tenants = there.clusters.seen.iter().flat_map(|cluster| &cluster.spec.tenants);
        let tenants: BTreeSet<String> = tenants.filter(|tenant| !tenant.released).map(of_tenant).collect();
        let mut joining: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, request) in requests.iter().filter(|(name, _)| !tenants.contains(*name)) {
            if let Some(place) = place_of(request) {
                joining.entry(place).or_default().push(name.clone());
            }
        }
        let mut policies: BTreeMap<&str, Vec<&AccessPolicy>> = BTreeMap::new();
        for policy in &there.policies {
            policies.entry(policy.metadata.namespace.as_deref().unwrap_or_default()).or_default().push(policy);
        }
        Builder { there, only, requests, access: BTreeMap::new(), bound: BTreeSet::new(), joining, policies }
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
        for cluster in &self.there.clusters.seen {
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
        let request = self.requests.get(name).copied();
        let status = request.and_then(|request| request.status.clone()).unwrap_or_default();
        let mut children = self.access.remove(&(false, name.to_owned())).unwrap_or_default();
        children.extend(self.policies(name));
        self.bound.insert(name.to_owned());
        json!({
            "kind": "ClusterRequest", "name": name, "prefix": prefix, "state": status.status, "reason": status.reason,
            "notReady": request.and_then(not_ready), "there": request.is_some(),
            "unseen": self.there.requests.is_none(), "children": children,
        })
    }

    fn cluster(&mut self, cluster: &Cluster) -> Option<Value> {
        let name = key(cluster);
        let mut children = Vec::new();
        for tenant in &cluster.spec.tenants {
            if !self.is_within(&tenant.namespace) {
                continue;
            }
            let request = of_tenant(tenant);
            children.push(match tenant.released {
                false => self.request(&request, &tenant.prefix),
                true => json!({"kind": "ReleasedTenant", "name": request, "prefix": tenant.prefix}),
            });
        }
        // It joined after the Cluster was read, or left it before. One that says that its Cluster is lost means another one.
        let mut joining = self.joining.get(&name).cloned().unwrap_or_default();
        joining.retain(|name| !self.requests.get(name).is_some_and(|request| is_lost(request)));
        children.extend(joining.iter().map(|request| self.request(request, "")));
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
        let mut on = std::mem::take(&mut self.joining);
        on.values_mut().for_each(|requests| requests.retain(|name| !self.bound.contains(name)));
        on.retain(|_, requests| !requests.is_empty());
        let node = |(place, requests): (String, Vec<String>)| {
            let lost = requests.iter().any(|name| self.requests.get(name).is_some_and(|request| is_lost(request)));
            let mut children: Vec<Value> = requests.iter().map(|name| self.request(name, "")).collect();
            children.extend(self.access.remove(&(true, place.clone())).unwrap_or_default());
            let gone = lost || self.there.clusters.everywhere;
            let state = match (lost, gone) {
                (true, _) => Some("Lost"),
                (false, true) => Some("NotFound"),
                (false, false) => None,
            };
            json!({"kind": "Cluster", "name": place, "state": state, "there": false, "unseen": !gone,
                "children": children})
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

/// The Cluster that a request says it is on.
fn place_of(request: &ClusterRequest) -> Option<String> {
    let cluster = request.status.as_ref()?.cluster_ref.as_ref()?;
    Some(format!("{}/{}", cluster.namespace.as_ref()?, cluster.name))
}

/// The request that a tenant is there for.
fn of_tenant(tenant: &Tenant) -> String {
    format!("{}/{}", tenant.namespace, tenant.name)
}

fn key(object: &impl ResourceExt) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

fn render(tree: &Value, namespace: Option<&str>, nothing: &str) -> String {
    let mut lines = Vec::new();
    for node in tree.as_array().into_iter().flatten() {
        lines.push(label(node));
        branches(node, "", &mut lines);
    }
    if lines.is_empty() {
        let place = namespace.map(|name| format!(" in namespace {name}")).unwrap_or_default();
        lines.push(format!("{nothing}{place} yet; ask for a cluster with `allot request`"));
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
    if !text("notReady").is_empty() {
        words.push(format!("NotReady ({})", text("notReady")));
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
            unseen: false,
        });
        let there = There {
            clusters: Clusters { seen: vec![cluster, spare], everywhere: true },
            requests: Some(vec![bound, alone]),
            access: vec![access, lost],
            policies: vec![policy],
        };
        assert_eq!(
            render(&Builder::new(&there, None).build(), None, "nothing"),
            "Cluster n/c [mcp] p/q NotReady\n├─ ClusterRequest t/r x-\n│  ├─ AccessRequest t/a\n\
             │  └─ AccessPolicy t/p opens it to u, selected namespaces\n\
             └─ released by ClusterRequest u/gone: y- is in quarantine\n\
             Cluster n/s [mcp] p/q NotReady (spare)\nClusterRequest t/alone\nAccessRequest t/lost"
        );
        assert_eq!(
            render(&Builder::new(&there, Some("u")).build(), Some("u"), "nothing"),
            "Cluster n/c [mcp] p/q NotReady\n└─ released by ClusterRequest u/gone: y- is in quarantine"
        );
        let names = |there: &There, only| resource_names(&Builder::new(there, only).build(), only);
        let expect = [
            "cluster.cluster.openmcp.cloud/c -n n",
            "clusterrequest.cluster.openmcp.cloud/r -n t",
            "accessrequest.cluster.openmcp.cloud/a -n t",
            "accesspolicy.cluster.openmcp.cloud/p -n t",
            "cluster.cluster.openmcp.cloud/s -n n",
            "clusterrequest.cluster.openmcp.cloud/alone -n t",
            "accessrequest.cluster.openmcp.cloud/lost -n t",
        ];
        assert_eq!(names(&there, None), expect);
        let within = expect.iter().filter_map(|name| name.strip_suffix(" -n t"));
        assert_eq!(names(&there, Some("t")), within.collect::<Vec<_>>());
    }

    #[test]
    fn who_came_between_two_lists_hangs_where_it_belongs() {
        let cluster = |tenants: Value| -> Cluster {
            serde_json::from_value(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
                "metadata": {"name": "c", "namespace": "n"}, "spec": {"clusterProviderRef": {"name": "p", "profile": "q"},
                "purposes": ["mcp"], "tenants": tenants}}))
            .unwrap()
        };
        let request = |name: &str, reason: &str| -> ClusterRequest {
            serde_json::from_value(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
                "metadata": {"name": name, "namespace": "t"}, "spec": {"purposes": ["mcp"]}, "status": {
                "status": "Granted", "reason": "Success", "clusterRef": {"name": "c", "namespace": "n"},
                "conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "",
                    "lastTransitionTime": "2027-01-15T08:00:00Z"}]}}))
            .unwrap()
        };
        let tenant = |name: &str| json!({"requestUID": name, "namespace": "t", "name": name, "prefix": "x-"});
        let there = |tenants: Value, requests: Vec<ClusterRequest>| There {
            clusters: Clusters { seen: vec![cluster(tenants)], everywhere: true },
            requests: Some(requests),
            access: Vec::new(),
            policies: Vec::new(),
        };
        let check = |there: &There, expect: &str| {
            assert_eq!(render(&Builder::new(there, None).build(), None, "nothing"), expect);
        };
        let joined =
            there(json!([tenant("first")]), vec![request("first", "ClusterCreating"), request("r", "ClusterCreating")]);
        let said = "Granted NotReady (ClusterCreating)";
        check(
            &joined,
            &format!(
                "Cluster n/c [mcp] p/q NotReady\n├─ ClusterRequest t/first x- {said}\n└─ ClusterRequest t/r {said}"
            ),
        );
        // Only the one that is called so now is there; what was lost was another one.
        check(
            &there(json!([]), vec![request("r", "ClusterLost")]),
            "Cluster n/c [mcp] p/q NotReady\nCluster n/c Lost\n└─ ClusterRequest t/r Granted NotReady (ClusterLost)",
        );
        let late = there(json!([tenant("first"), tenant("late")]), vec![request("first", "ClusterCreating")]);
        assert_eq!(late.missing(None), BTreeSet::from(["t/late".to_owned()]));
        assert_eq!((late.missing(Some("t")).len(), late.missing(Some("u")).len()), (1, 0));
    }

    #[test]
    fn what_may_not_be_seen_is_told_from_what_is_gone() {
        let read = |status: Value| -> ClusterRequest {
            serde_json::from_value(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
                "metadata": {"name": "r", "namespace": "t"}, "spec": {"purposes": ["mcp"]}, "status": status}))
            .unwrap()
        };
        let bound = |reason: &str| {
            read(json!({"status": "Granted", "reason": "Success", "clusterRef": {"name": "c", "namespace": "n"},
                "conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "",
                    "lastTransitionTime": "2027-01-15T08:00:00Z"}]}))
        };
        let check = |request: ClusterRequest, everywhere: bool, expect: &str| {
            let clusters = Clusters { seen: Vec::new(), everywhere };
            let there = There { clusters, requests: Some(vec![request]), access: Vec::new(), policies: Vec::new() };
            let tree = Builder::new(&there, Some("t")).build();
            assert_eq!(render(&tree, Some("t"), "nothing"), expect);
            assert_eq!(resource_names(&tree, Some("t")), ["clusterrequest.cluster.openmcp.cloud/r"]);
        };
        let creating = "└─ ClusterRequest t/r Granted NotReady (ClusterCreating)";
        check(bound("ClusterCreating"), false, &format!("Cluster n/c (may not be seen)\n{creating}"));
        check(bound("ClusterCreating"), true, &format!("Cluster n/c NotFound\n{creating}"));
        let lost = "Cluster n/c Lost\n└─ ClusterRequest t/r Granted NotReady (ClusterLost)";
        check(bound("ClusterLost"), false, lost);
        check(bound("ClusterLost"), true, lost);

        let cluster: Cluster = serde_json::from_value(json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1",
            "kind": "Cluster", "metadata": {"name": "c", "namespace": "n"}, "spec": {
            "clusterProviderRef": {"name": "p", "profile": "q"}, "purposes": ["mcp"],
            "tenants": [{"requestUID": "u", "namespace": "t", "name": "r", "prefix": "x-"}]}}))
        .unwrap();
        let clusters = Clusters { seen: vec![cluster], everywhere: true };
        let there = There { clusters, requests: None, access: Vec::new(), policies: Vec::new() };
        let tree = Builder::new(&there, None).build();
        let expect = "Cluster n/c [mcp] p/q NotReady\n└─ ClusterRequest t/r x- (may not be seen)";
        assert_eq!(render(&tree, None, "nothing"), expect);
        assert_eq!(resource_names(&tree, None), ["cluster.cluster.openmcp.cloud/c -n n"]);
        let there = There { clusters: Clusters { seen: Vec::new(), everywhere: false }, ..there };
        let tree = Builder::new(&there, Some("t")).build();
        assert!(
            render(&tree, Some("t"), "nothing that may be seen").starts_with("nothing that may be seen in namespace t")
        );
    }
}
