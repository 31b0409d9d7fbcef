//! What names an object in the store.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The place of a write in the order of all writes; the `resourceVersion` of what it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whose key space: the platform's own, or that of a logical cluster, named by its UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The platform's own key space.
    pub fn platform() -> Self {
        Tenant(Arc::from("platform"))
    }

    /// The key space of the logical cluster `id`.
    pub fn logical(id: &str) -> Self {
        Tenant(Arc::from(id))
    }

    /// The name of the key space.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the platform's own.
    pub fn is_platform(&self) -> bool {
        &*self.0 == "platform"
    }
}

/// Which collection: the plural name and the group of a kind, whatever its version: `configmaps`,
/// `roles.rbac.authorization.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Arc<str>);

impl Resource {
    /// The collection `plural` of `group`, which is empty for the core group.
    pub fn new(plural: &str, group: &str) -> Self {
        if group.is_empty() { Resource(Arc::from(plural)) } else { Resource(Arc::from(format!("{plural}.{group}"))) }
    }

    /// The collection that [`Resource::as_str`] names.
    pub(crate) fn stored(name: &str) -> Self {
        Resource(Arc::from(name))
    }

    /// `plural` or `plural.group`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// Both compare as their text does, so maps can be asked by it.
impl Borrow<str> for Tenant {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Resource {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Names one object. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Whose it is.
    pub tenant: Tenant,
    /// Which collection it is in.
    pub resource: Resource,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// A collection, or the part of it in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// Whose it is.
    pub tenant: Tenant,
    /// Which collection.
    pub resource: Resource,
    /// Only this namespace; `None` for all of the collection.
    pub namespace: Option<Arc<str>>,
}
