//! What the judge knows: the platform's objects and what lies inside the Clusters, as the writes told.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest, ClusterRequestGrant, Permission, Purpose};
use allotment_core::write::ObjectKey;
use allotment_store::{Event, EventKind};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalog::Shelf;

/// How an object was and how it is.
pub(crate) struct Change<T> {
    pub(crate) key: ObjectKey,
    pub(crate) before: Option<T>,
    pub(crate) after: Option<T>,
}

/// An object inside a Cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inside {
    pub(crate) tenant: String,
    pub(crate) resource: String,
    pub(crate) key: ObjectKey,
}

/// Everything that invariants are about.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) clusters: BTreeMap<ObjectKey, Cluster>,
    pub(crate) requests: BTreeMap<ObjectKey, ClusterRequest>,
    pub(crate) grants: BTreeMap<ObjectKey, ClusterRequestGrant>,
    pub(crate) access: BTreeMap<ObjectKey, AccessRequest>,
    pub(crate) namespaces: BTreeMap<ObjectKey, Namespace>,
    /// The platform's Secrets: those of AccessRequests and the records of control planes.
    pub(crate) secrets: BTreeMap<ObjectKey, Secret>,
    pub(crate) purposes: BTreeMap<ObjectKey, Purpose>,
    /// What each Purpose allowed, since when.
    pub(crate) limits: BTreeMap<String, Vec<(Timestamp, Option<i32>)>>,
    /// Who ever was a tenant of what: UIDs of Cluster and ClusterRequest.
    pub(crate) tenancies: BTreeSet<(String, String)>,
    /// What each AccessRequest, by UID, ever asked for.
    pub(crate) asked: BTreeMap<String, Vec<Permission>>,
    /// Since when each AccessRequest, by UID, has been Granted in which Cluster, by UID.
    pub(crate) granted_since: BTreeMap<String, (String, Timestamp)>,
    /// What the platform's access control made inside Clusters, with its content.
    pub(crate) inside: BTreeMap<Inside, Value>,
    /// Every object of a whole Cluster: key space, resource, name.
    pub(crate) wide: BTreeSet<(String, String, String)>,
    /// Profiles and Shoots.
    pub(crate) shelf: Shelf,
    /// UIDs of Grants that were forged.
    pub(crate) forged: BTreeSet<String>,
}

/// The object that an event tells of, in its place. Objects that cannot be read are a violation.
pub(crate) fn change<T: DeserializeOwned + Clone>(
    objects: &mut BTreeMap<ObjectKey, T>,
    event: &Event,
) -> Result<Change<T>, String> {
    let key = ObjectKey::new(&*event.entry.namespace, &*event.entry.name);
    let before = objects.get(&key).cloned();
    if event.kind == EventKind::Deleted {
        objects.remove(&key);
        return Ok(Change { key, before, after: None });
    }
    let after: T = serde_json::from_slice(&event.entry.body())
        .map_err(|error| format!("{} {key} cannot be read: {error}", event.entry.resource.as_str()))?;
    objects.insert(key.clone(), after.clone());
    Ok(Change { key, before, after: Some(after) })
}

impl Known {
    /// Takes in an object of a Cluster, if it is of the platform's making.
    pub(crate) fn learn_inside(&mut self, event: &Event) -> Option<Value> {
        if event.entry.namespace.is_empty() {
            let (tenant, resource) = (event.tenant.as_str().to_owned(), event.entry.resource.as_str().to_owned());
            let name = (tenant, resource, event.entry.name.to_string());
            match event.kind {
                EventKind::Deleted => self.wide.remove(&name),
                EventKind::Added | EventKind::Modified => self.wide.insert(name),
            };
        }
        let ours = event.entry.name.starts_with("access-");
        if !ours {
            return None;
        }
        let place = Inside {
            tenant: event.tenant.as_str().to_owned(),
            resource: event.entry.resource.as_str().to_owned(),
            key: ObjectKey::new(&*event.entry.namespace, &*event.entry.name),
        };
        if event.kind == EventKind::Deleted {
            self.inside.remove(&place);
            return None;
        }
        let object: Value = serde_json::from_slice(&event.entry.body()).ok()?;
        self.inside.insert(place, object.clone());
        Some(object)
    }

    /// Forgets a Cluster's inside.
    pub(crate) fn dropped(&mut self, tenant: &str) {
        self.inside.retain(|place, _| place.tenant != tenant);
        self.wide.retain(|(of, ..)| of != tenant);
    }

    /// The Cluster of that UID.
    pub(crate) fn cluster(&self, uid: &str) -> Option<(&ObjectKey, &Cluster)> {
        self.clusters.iter().find(|(_, cluster)| cluster.metadata.uid.as_deref() == Some(uid))
    }

    /// Clusters in which that request has room.
    pub(crate) fn homes<'a>(&'a self, request_uid: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Cluster)> {
        self.clusters.iter().filter(move |(_, cluster)| {
            cluster.spec.tenants.iter().any(|tenant| tenant.request_uid == request_uid && !tenant.released)
        })
    }

    /// The key space that serves a Cluster, by the record of its control plane.
    pub(crate) fn plane(&self, cluster_uid: &str) -> Option<String> {
        self.planes().find(|(uid, _)| uid == cluster_uid).map(|(_, tenant)| tenant)
    }

    /// Whether the name of an object of that whole Cluster begins with the prefix.
    pub(crate) fn begins_with(&self, cluster_uid: &str, prefix: &str) -> bool {
        let plane = self.plane(cluster_uid);
        self.wide.iter().any(|(tenant, _, name)| Some(tenant) == plane.as_ref() && name.starts_with(prefix))
    }

    /// Every recorded control plane: the Cluster's UID and the key space.
    pub(crate) fn planes(&self) -> impl Iterator<Item = (String, String)> {
        let records = self.secrets.iter().filter(|(key, _)| key.namespace == names::PLANES_NAMESPACE);
        records.filter_map(|(_, secret)| {
            let uid = secret.metadata.labels.as_ref()?.get("cluster.openmcp.cloud/cluster-uid")?.clone();
            let tenant = secret.data.as_ref()?.get("tenant")?;
            Some((uid, String::from_utf8(tenant.0.clone()).ok()?))
        })
    }
}
