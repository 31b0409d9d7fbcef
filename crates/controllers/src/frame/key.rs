//! Names an object within its kind.

use std::fmt;

use kube::Resource;

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty where there is none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Self {
        ObjectKey { namespace: String::new(), name: name.into() }
    }

    /// The key of an object that the API answered with.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        ObjectKey { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            formatter.write_str(&self.name)
        } else {
            write!(formatter, "{}/{}", self.namespace, self.name)
        }
    }
}
