//! A row of the registry.

use std::sync::Arc;

use super::{Connect, Schema, Strategy};

/// One kind, in all its versions.
#[derive(Debug)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// `ConfigMap`
    pub kind: String,
    /// `ConfigMapList`
    pub list_kind: String,
    /// `configmaps`
    pub plural: String,
    /// `configmap`
    pub singular: String,
    /// `cm`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
    /// Whether objects lie in namespaces.
    pub namespaced: bool,
    /// Whether a definition made it. Items of its lists carry `apiVersion` and `kind`, strategic merge
    /// patch is refused (415), updates need a resource version.
    pub custom: bool,
    /// The versions, in the order in which discovery lists them.
    pub versions: Vec<Version>,
    /// What is particular about this kind.
    pub strategy: Arc<dyn Strategy>,
    /// Where objects lie, if elsewhere than in `plural` of `group`: `events` of `events.k8s.io` are the
    /// core group's.
    pub stored_as: Option<allotment_store::Resource>,
    /// What answers a create, for kinds that are not stored (reviews).
    pub connect: Option<Arc<dyn Connect>>,
}

/// One version of a kind.
#[derive(Debug)]
pub struct Version {
    /// `v1`
    pub name: String,
    /// Whether it is served.
    pub served: bool,
    /// Whether objects are written in it.
    pub storage: bool,
    /// A warning that each use is answered with, if it is deprecated.
    pub deprecation_warning: Option<String>,
    /// What `kubectl get` shows.
    pub columns: Vec<Column>,
    /// Which subresources there are.
    pub subresources: Subresources,
    /// Verbs of the resource, in the order in which discovery lists them.
    pub verbs: &'static [&'static str],
    /// The shape of its objects.
    pub schema: Arc<dyn Schema>,
    /// Fields that field selectors may name besides `metadata.name` and `metadata.namespace`, as dotted
    /// paths without a leading dot: `type`, `involvedObject.name`, `spec.color`.
    pub selectable_fields: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean`, `date`
    pub kind: String,
    /// `name`, `date`, …; may be empty.
    pub format: String,
    /// What it shows, for people.
    pub description: String,
    /// 0 is always shown, more only in wide output.
    pub priority: i64,
    /// JSONPath of the value, without braces: `.spec.version`. Unused where the strategy makes the cells.
    pub json_path: String,
}

/// The subresources of a version.
#[derive(Clone, Debug, Default)]
pub struct Subresources {
    /// `/status`
    pub status: bool,
    /// `/scale`
    pub scale: Option<Scale>,
    /// Others: `finalize`, `token`, `approval`.
    pub others: Vec<Subresource>,
}

/// Where `/scale` finds its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// JSONPath of the desired number.
    pub spec_replicas: String,
    /// JSONPath of the number there is.
    pub status_replicas: String,
    /// JSONPath of the selector's text.
    pub label_selector: Option<String>,
}

/// A subresource that is neither status nor scale.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// `finalize`
    pub name: &'static str,
    /// Its API group and version, where they are not the kind's own: `authentication.k8s.io`, `v1`.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Its kind: `Namespace`, `TokenRequest`.
    pub kind: &'static str,
    /// Its verbs, in the order in which discovery lists them.
    pub verbs: &'static [&'static str],
    /// What answers a create; absent where the subresource is the object itself, written through the
    /// strategy with `Operation::Update { subresource, .. }`.
    pub connect: Option<Arc<dyn Connect>>,
}

impl Subresource {
    /// Whether it is a way through to somewhere else, and no object.
    pub fn streams(&self) -> bool {
        self.connect.as_ref().is_some_and(|connect| connect.streams())
    }
}

impl Kind {
    /// The collection that objects of this kind lie in.
    pub fn resource(&self) -> allotment_store::Resource {
        self.stored_as.clone().unwrap_or_else(|| allotment_store::Resource::new(&self.plural, &self.group))
    }

    /// The group that errors name: that of the collection which objects lie in.
    pub fn shown_group(&self) -> &str {
        match &self.stored_as {
            Some(resource) => resource.as_str().split_once('.').map_or("", |(_, group)| group),
            None => &self.group,
        }
    }

    /// The served version `name`.
    pub fn served(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.served && version.name == name)
    }
}

impl Version {
    /// `apiVersion` of objects of a kind in `group`.
    pub fn api_version(&self, group: &str) -> String {
        if group.is_empty() { self.name.clone() } else { format!("{group}/{}", self.name) }
    }
}
