//! The table of rows and its lookups. Built-in rows are shared by all tenants; the rows of definitions
//! are a tenant's own and replaced whole when a definition changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Kind, Version};
use crate::discovery::TableDocuments;

/// By group and plural name. Several of one name are forms of the same objects, the stored one first.
type Rows = BTreeMap<String, BTreeMap<String, Vec<Arc<Kind>>>>;

/// All kinds of one tenant.
#[derive(Clone, Debug)]
pub struct Registry {
    builtin: Arc<Rows>,
    custom: Arc<Rows>,
    documents: Arc<TableDocuments>,
}

/// A kind in one of its versions.
#[derive(Clone, Debug)]
pub struct Row {
    /// The kind.
    pub kind: Arc<Kind>,
    index: usize,
}

impl Row {
    /// The version asked for.
    pub fn version(&self) -> &Version {
        &self.kind.versions[self.index]
    }

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        self.version().api_version(&self.kind.group)
    }
}

impl Registry {
    /// A table of built-in rows only.
    pub fn new(builtin: impl IntoIterator<Item = Arc<Kind>>) -> Self {
        Registry { builtin: Arc::new(rows(builtin)), custom: Arc::default(), documents: Arc::default() }
    }

    /// The same built-in rows with other rows of definitions. Built-in rows win where both name one
    /// collection.
    #[must_use]
    pub fn with_custom(&self, custom: impl IntoIterator<Item = Arc<Kind>>) -> Self {
        Registry { builtin: Arc::clone(&self.builtin), custom: Arc::new(rows(custom)), documents: Arc::default() }
    }

    /// What discovery has told of exactly these rows.
    pub(crate) fn documents(&self) -> &TableDocuments {
        &self.documents
    }

    /// The kinds whose objects `plural` of `group` are: one, or forms of the same objects.
    pub fn kinds_of(&self, group: &str, plural: &str) -> &[Arc<Kind>] {
        let of = [&self.builtin, &self.custom].into_iter().find_map(|rows| rows.get(group)?.get(plural));
        of.map_or(&[], Vec::as_slice)
    }

    /// The row of `plural` in `group/version`, if it is served.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Row> {
        self.kinds_of(group, plural).iter().find_map(|kind| {
            let index = kind.versions.iter().position(|have| have.served && have.name == version)?;
            Some(Row { kind: Arc::clone(kind), index })
        })
    }

    /// Every kind, ordered by group and plural name; built-in ones first within a group.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.builtin.values().chain(self.custom.values()).flat_map(BTreeMap::values).flatten()
    }

    /// The kinds of definitions.
    pub fn custom_kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.custom.values().flat_map(BTreeMap::values).flatten()
    }

    /// Whether `group` has built-in kinds.
    pub fn has_builtin_group(&self, group: &str) -> bool {
        self.builtin.contains_key(group)
    }

    /// Whether any kind of `group` is served.
    pub fn has_group(&self, group: &str) -> bool {
        self.kinds().any(|kind| kind.group == group && kind.versions.iter().any(|version| version.served))
    }

    /// Whether any kind is served in `group/version`.
    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.kinds().any(|kind| kind.group == group && kind.served(version).is_some())
    }
}

fn rows(kinds: impl IntoIterator<Item = Arc<Kind>>) -> Rows {
    let mut rows = Rows::new();
    for kind in kinds {
        rows.entry(kind.group.clone()).or_default().entry(kind.plural.clone()).or_default().push(kind);
    }
    rows
}
