//! A row of the registry.

use std::sync::Arc;

use super::Strategy;

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
    /// JSONPath of the value, without braces: `.spec.version`.
    pub json_path: String,
}

/// The subresources of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subresources {
    /// `/status`
    pub status: bool,
    /// `/scale`
    pub scale: Option<Scale>,
    /// Others: `finalize`, `token`.
    pub others: Vec<&'static str>,
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
