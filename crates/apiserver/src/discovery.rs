//! Which groups, versions and kinds there are, told both ways: aggregated (KEP-3352) and one document
//! for each group and version.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_pki::token_digest;
use base64::Engine;
use bytes::Bytes;

use crate::negotiation::{self, Asked, Clause};
use crate::recent::Recent;
use crate::registry::{Kind, Registry, Version};

/// The media type of the aggregated form.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether the client wants the aggregated form. Old clients ask for the beta form with a plain one behind
/// it; alone, it is not to be had.
pub(crate) fn wants_aggregated(accept: Option<&str>) -> bool {
    let Some(header) = accept else { return false };
    let of_ours = |clause: &Clause<'_>| {
        clause.media == "application/json"
            && clause.param("as") == Some("APIGroupDiscoveryList")
            && clause.param("g") == Some("apidiscovery.k8s.io")
            && clause.param("v") == Some("v2")
    };
    for clause in &negotiation::clauses(header) {
        if of_ours(clause) {
            return true;
        }
        if clause.param("as").is_none() && negotiation::accept(Some(clause.media), Asked::Document).is_ok() {
            return false;
        }
    }
    false
}

/// The versions of a group in order of preference, and the kinds of each.
type Versions<'a> = Vec<(&'a str, Vec<(&'a Kind, &'a Version)>)>;

/// The groups in the order in which they are told of.
type Groups<'a> = Vec<(&'a str, Versions<'a>)>;

/// The order in which Kubernetes tells of its groups (`pkg/controlplane/apiserver`, group priorities):
/// where two groups have a kind of one name, clients take the one that comes first. Groups that are not
/// here come behind, by name.
const ORDER: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

fn groups(registry: &Registry) -> Groups<'_> {
    let mut groups: BTreeMap<&str, Versions<'_>> = BTreeMap::new();
    for kind in registry.kinds() {
        for version in kind.versions.iter().filter(|version| version.served) {
            let versions = groups.entry(&kind.group).or_default();
            let place = versions.iter().position(|(name, _)| *name == version.name).unwrap_or_else(|| {
                versions.push((&version.name, Vec::new()));
                versions.len() - 1
            });
            versions[place].1.push((kind, version));
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|(name, _)| std::cmp::Reverse(priority(name)));
        for (_, kinds) in versions {
            kinds.sort_by(|left, right| left.0.plural.cmp(&right.0.plural));
        }
    }
    let mut groups: Groups<'_> = groups.into_iter().collect();
    groups.sort_by_key(|(group, _)| ORDER.iter().position(|known| known == group).unwrap_or(ORDER.len()));
    groups
}

/// The versions of one group.
fn versions_of<'a>(groups: &'a Groups<'_>, group: &str) -> Option<&'a Versions<'a>> {
    groups.iter().find(|(name, _)| *name == group).map(|(_, versions)| versions)
}

/// How much a version is preferred: stable before beta before alpha, later before earlier.
fn priority(version: &str) -> (u8, u64, u64) {
    let number = |text: &str| text.parse::<u64>().ok();
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (stage, rank) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(stage) {
            return match (number(major), number(minor)) {
                (Some(major), Some(minor)) => (rank, major, minor),
                _ => (0, 0, 0),
            };
        }
    }
    number(rest).map_or((0, 0, 0), |major| (3, major, 0))
}

/// The most bytes of documents that are kept: those of built-in kinds and of some ten tenants with
/// definitions of their own, which clients ask for in bursts.
const CAPACITY: usize = 1024 * 1024;

/// A document as it is sent.
#[derive(Debug)]
pub(crate) struct Written {
    /// JSON.
    pub(crate) body: Bytes,
    /// Names its content.
    pub(crate) etag: String,
    /// Of the body; equal documents have one.
    digest: [u8; 32],
}

impl Written {
    fn of(document: &Value) -> Self {
        Written::of_bytes(document.to_vec())
    }

    fn of_bytes(body: Vec<u8>) -> Self {
        Written { etag: format!("\"{:016X}\"", fnv1a(&body)), digest: token_digest(&body), body: Bytes::from(body) }
    }
}

/// The documents that were written of one table of kinds, while they are kept.
#[derive(Debug, Default)]
pub(crate) struct TableDocuments {
    /// That of the core group, that of all others.
    aggregated: [Mutex<Weak<Written>>; 2],
    /// Those of groups and versions, by path.
    plain: Mutex<BTreeMap<String, Weak<Written>>>,
}

/// The documents of all tenants that were asked for lately. Equal ones are kept once.
#[derive(Debug)]
pub(crate) struct Documents(Mutex<Recent<[u8; 32], Arc<Written>>>);

impl Default for Documents {
    fn default() -> Self {
        Documents(Mutex::new(Recent::new(CAPACITY)))
    }
}

impl Documents {
    /// The aggregated document of the core group (`/api`) or of all others (`/apis`).
    pub(crate) fn aggregated(&self, registry: &Registry, core: bool) -> Arc<Written> {
        let written = &registry.documents().aggregated[usize::from(core)];
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        let document = written.upgrade().unwrap_or_else(|| Arc::new(Written::of(&aggregated(registry, core))));
        let document = self.used(document);
        *written = Arc::downgrade(&document);
        document
    }

    /// The document of a group or of a version of one, in JSON and on a line of its own: as it was written, or as
    /// `write` makes it, if there is such a group.
    pub(crate) fn plain(
        &self,
        registry: &Registry,
        path: &str,
        write: impl FnOnce() -> Option<Value>,
    ) -> Option<Arc<Written>> {
        let plain = || registry.documents().plain.lock().unwrap_or_else(PoisonError::into_inner);
        let known = plain().get(path).and_then(Weak::upgrade);
        let document = match known {
            Some(document) => document,
            None => {
                let mut body = write()?.to_vec();
                body.push(b'\n');
                Arc::new(Written::of_bytes(body))
            }
        };
        let document = self.used(document);
        plain().insert(path.to_owned(), Arc::downgrade(&document));
        Some(document)
    }

    /// The document of that content that is kept from now on, used now.
    fn used(&self, document: Arc<Written>) -> Arc<Written> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.find(&document.digest) {
            return kept;
        }
        kept.keep(document.digest, Arc::clone(&document), document.body.len());
        document
    }
}

fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = groups(registry);
    let items = groups.iter().filter(|(group, _)| group.is_empty() == core).map(|(group, versions)| {
        let versions = versions.iter().map(|(version, kinds)| {
            let resources: Vec<Value> =
                kinds.iter().map(|(kind, of_kind)| aggregated_resource(kind, of_kind, group, version)).collect();
            json!({"version": (*version), "resources": resources, "freshness": "Current"})
        });
        let metadata = if core { json!({}) } else { json!({"name": (*group)}) };
        json!({"metadata": metadata, "versions": (versions.collect::<Vec<_>>())})
    });
    let items: Vec<Value> = items.collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items
    })
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    texts.into_iter().map(Value::from).collect()
}

fn aggregated_resource(kind: &Kind, of_kind: &Version, group: &str, version: &str) -> Value {
    // Built-in kinds leave out what the document's place tells; custom ones repeat it, as in Kubernetes.
    let (own_group, own_version) = if kind.custom { (group, version) } else { ("", "") };
    let mut resource = Map::new();
    resource.insert("resource", kind.plural.as_str());
    resource.insert("responseKind", json!({"group": own_group, "version": own_version, "kind": (kind.kind.as_str())}));
    resource.insert("scope", if kind.namespaced { "Namespaced" } else { "Cluster" });
    resource.insert("singularResource", kind.singular.as_str());
    resource.insert("verbs", strings(of_kind.verbs.iter().copied()));
    insert_names(&mut resource, kind);
    let subresources: Vec<Value> = subresources(kind, of_kind)
        .into_iter()
        .map(|sub| {
            let (group, version) = sub.group_version.unwrap_or((own_group, own_version));
            json!({
                "subresource": (sub.name), "verbs": (strings(sub.verbs.iter().copied())),
                "responseKind": {"group": group, "version": version, "kind": (sub.kind)}
            })
        })
        .collect();
    if !subresources.is_empty() {
        resource.insert("subresources", subresources);
    }
    Value::Object(resource)
}

fn insert_names(resource: &mut Map, kind: &Kind) {
    if !kind.short_names.is_empty() {
        resource.insert("shortNames", strings(kind.short_names.iter().map(String::as_str)));
    }
    if !kind.categories.is_empty() {
        resource.insert("categories", strings(kind.categories.iter().map(String::as_str)));
    }
}

/// A subresource as discovery tells of it.
struct Subresource<'a> {
    name: &'a str,
    kind: &'a str,
    group_version: Option<(&'a str, &'a str)>,
    verbs: &'a [&'static str],
}

const OBJECT_VERBS: &[&str] = &["get", "patch", "update"];

fn subresources<'a>(kind: &'a Kind, version: &'a Version) -> Vec<Subresource<'a>> {
    let of_kind = |name| Subresource { name, kind: &kind.kind, group_version: None, verbs: OBJECT_VERBS };
    let status = version.subresources.status.then(|| of_kind("status"));
    let scale = version.subresources.scale.as_ref().map(|_| Subresource {
        name: "scale",
        kind: "Scale",
        group_version: Some(("autoscaling", "v1")),
        verbs: OBJECT_VERBS,
    });
    let others = version.subresources.others.iter().map(|other| Subresource {
        name: other.name,
        kind: other.kind,
        group_version: other.group_version,
        verbs: other.verbs,
    });
    let mut all: Vec<Subresource<'_>> = status.into_iter().chain(scale).chain(others).collect();
    if !kind.custom {
        all.sort_by(|left, right| left.name.cmp(right.name));
    }
    all
}

/// `/api`.
pub(crate) fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]
    })
}

/// `/apis`.
pub(crate) fn api_group_list(registry: &Registry) -> Value {
    let groups = groups(registry);
    let groups =
        groups.iter().filter(|(group, _)| !group.is_empty()).map(|(group, versions)| of_group(group, versions));
    let groups: Vec<Value> = groups.map(Value::Object).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn of_group(group: &str, versions: &[(&str, Vec<(&Kind, &Version)>)]) -> Map {
    let version = |name: &str| json!({"groupVersion": (format!("{group}/{name}")), "version": name});
    let mut map = Map::new();
    map.insert("name", group);
    map.insert("versions", versions.iter().map(|(name, _)| version(name)).collect::<Vec<_>>());
    if let Some((preferred, _)) = versions.first() {
        map.insert("preferredVersion", version(preferred));
    }
    map
}

/// `/apis/GROUP`, if there is such a group.
pub(crate) fn api_group(registry: &Registry, group: &str) -> Option<Value> {
    let groups = groups(registry);
    let mut map = of_group(group, versions_of(&groups, group).filter(|_| !group.is_empty())?);
    map.insert("kind", "APIGroup");
    map.insert("apiVersion", "v1");
    Some(Value::Object(map))
}

/// `/apis/GROUP/VERSION` or `/api/VERSION`, if there is such a version.
pub(crate) fn api_resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let groups = groups(registry);
    let (_, kinds) = versions_of(&groups, group)?.iter().find(|(name, _)| *name == version)?;
    let mut resources = Vec::new();
    for (kind, of_kind) in kinds {
        let mut resource = Map::new();
        resource.insert("name", kind.plural.as_str());
        resource.insert("singularName", kind.singular.as_str());
        resource.insert("namespaced", kind.namespaced);
        resource.insert("kind", kind.kind.as_str());
        resource.insert("verbs", strings(of_kind.verbs.iter().copied()));
        insert_names(&mut resource, kind);
        if kind.connect.is_none() {
            resource.insert("storageVersionHash", storage_version_hash(kind));
        }
        resources.push(Value::Object(resource));
        resources.extend(subresources(kind, of_kind).iter().map(|sub| legacy_subresource(kind, sub)));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = Map::new();
    list.insert("kind", "APIResourceList");
    if !group.is_empty() {
        list.insert("apiVersion", "v1");
    }
    list.insert("groupVersion", group_version);
    list.insert("resources", resources);
    Some(Value::Object(list))
}

fn legacy_subresource(kind: &Kind, sub: &Subresource<'_>) -> Value {
    let mut resource = Map::new();
    resource.insert("name", format!("{}/{}", kind.plural, sub.name));
    resource.insert("singularName", "");
    resource.insert("namespaced", kind.namespaced);
    if let Some((group, version)) = sub.group_version {
        resource.insert("group", group);
        resource.insert("version", version);
    }
    resource.insert("kind", sub.kind);
    resource.insert("verbs", strings(sub.verbs.iter().copied()));
    Value::Object(resource)
}

/// Kinds that Kubernetes stores as `v1beta1`.
const OLDER_STORED: [&str; 3] =
    ["CustomResourceDefinition", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];

/// Names the version that objects are stored in, so that clients see when it changes. The same digest as
/// Kubernetes', which some clients compare between servers (`k8s.io/apiserver/pkg/endpoints/discovery`).
fn storage_version_hash(kind: &Kind) -> String {
    // Kubernetes stores some kinds in an older version than the one that is served here.
    let older = !kind.custom && OLDER_STORED.contains(&kind.kind.as_str());
    let stored = match kind.versions.iter().find(|version| version.storage) {
        _ if older => "v1beta1",
        Some(version) => &version.name,
        None => "",
    };
    let digest = token_digest(format!("{}/{stored}/{}", kind.shown_group(), kind.kind).as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// FNV-1a with 64 bits: names content that nobody has an interest in forging.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_later_before_earlier() {
        let mut versions = ["v1alpha1", "v2", "v1beta2", "foo", "v1", "v10", "v1beta1"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }

    #[test]
    fn groups_come_in_the_order_of_kubernetes_and_those_of_definitions_last() {
        let registry = Registry::new(crate::builtin::kinds());
        let groups = groups(&registry);
        let found: Vec<&str> = groups.iter().map(|(group, _)| *group).collect();
        let place = |group: &str| found.iter().position(|have| *have == group);
        assert_eq!(place(""), Some(0));
        assert!(place("events.k8s.io") < place("rbac.authorization.k8s.io"), "{found:?}");
        assert!(place("rbac.authorization.k8s.io") < place("apiextensions.k8s.io"), "{found:?}");
        assert!(found.iter().all(|group| ORDER.contains(group)), "every built-in group has its place: {found:?}");
    }

    #[test]
    fn a_document_is_written_once_and_shared_by_content() {
        let documents = Documents::default();
        let registry = Registry::new(crate::builtin::kinds());
        let first = documents.aggregated(&registry, false);
        let same = |other: &Arc<Written>| Arc::ptr_eq(&first, other);
        assert!(same(&documents.aggregated(&registry.clone(), false)), "another tenant without definitions");
        assert!(same(&documents.aggregated(&Registry::new(crate::builtin::kinds()), false)), "an equal table");
        let fewer = registry.kinds().filter(|kind| kind.group != "apps").cloned();
        let other = documents.aggregated(&Registry::new(fewer), false);
        assert!(!same(&other) && other.etag != first.etag);
        assert!(!same(&documents.aggregated(&registry, true)));
    }

    #[test]
    fn a_document_of_a_version_is_written_once_for_a_table_of_kinds() {
        let documents = Documents::default();
        let registry = Registry::new(crate::builtin::kinds());
        let times = std::cell::Cell::new(0);
        let told = |registry: &Registry, path: &str, version: &str| {
            documents.plain(registry, path, || {
                times.set(times.get() + 1);
                api_resource_list(registry, "", version)
            })
        };
        let first = told(&registry, "api/v1", "v1").expect("it is there");
        let again = told(&registry.clone(), "api/v1", "v1").expect("it is there");
        assert!(Arc::ptr_eq(&first, &again) && first.body.ends_with(b"}\n"));
        assert_eq!(times.get(), 1);
        assert!(told(&registry, "api/v9", "v9").is_none() && told(&registry, "api/v9", "v9").is_none());
        assert_eq!(times.get(), 3, "what is not there is not remembered");
        let other = told(&registry.with_custom([]), "api/v1", "v1").expect("it is there");
        assert!(Arc::ptr_eq(&first, &other), "equal documents are one");
        assert_eq!(times.get(), 4, "another table has its own");
    }

    #[test]
    fn a_document_that_is_asked_for_all_the_time_is_not_the_first_to_go() {
        let documents = Documents::default();
        let registry = Registry::new(crate::builtin::kinds());
        let hot = Arc::downgrade(&documents.aggregated(&registry, false));
        let bytes = hot.upgrade().expect("it is kept").body.len();
        for n in 0..2 * CAPACITY / bytes {
            let other = Written { digest: token_digest(&n.to_be_bytes()), ..Written::of(&json!({})) };
            let body = Bytes::from(vec![b' '; bytes]);
            documents.used(Arc::new(Written { body, ..other }));
            drop(documents.aggregated(&registry, false));
            assert!(hot.upgrade().is_some(), "it is kept after {n} others");
        }
    }

    #[test]
    fn the_aggregated_form_is_given_to_those_who_ask_for_it() {
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let unknown = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList";
        let first = format!("{AGGREGATED},application/json");
        for (header, expect) in
            [(AGGREGATED, true), ("application/json", false), (beta, false), (unknown, false), (first.as_str(), true)]
        {
            assert_eq!(wants_aggregated(Some(header)), expect, "{header}");
        }
        let refused = negotiation::accept(Some(unknown), Asked::Document).expect_err("a version that is not served");
        assert_eq!(refused.code, 406);
    }
}
