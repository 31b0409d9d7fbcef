//! Which names a caller inside a Cluster may give to objects of the whole Cluster.
//!
//! On a shared Cluster the identities of a tenant keep to names that begin with its prefix: those of its
//! AccessRequests, and every ServiceAccount in namespaces that begin with it. Access by `clusterRef` is no
//! tenant's and has no prefix.

use std::collections::BTreeSet;

use allotment_api::names;
use allotment_api::requests::{AccessRequest, Cluster, Tenant};

use super::inside::object_name;
use crate::requests::{Snapshot, is_well_formed, owns};
use crate::write::ObjectKey;

/// The names that a caller may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamesAllowed {
    /// Any: the caller is no tenant's identity.
    Any,
    /// Those that begin with the prefix of a tenant.
    Prefix {
        /// The prefix.
        prefix: String,
        /// The ClusterRequest that it was given to.
        request: ObjectKey,
    },
    /// The caller may be a tenant's identity, and of which one is not known.
    Unknown,
}

/// Which names a user of the Cluster of that key and UID may give there.
pub fn names_allowed(snapshot: &Snapshot, key: &ObjectKey, cluster_uid: &str, username: &str) -> NamesAllowed {
    let Some(account) = service_account(username) else { return NamesAllowed::Any };
    let cluster = snapshot.cluster(key).filter(|cluster| cluster.metadata.uid.as_deref() == Some(cluster_uid));
    let Some(cluster) = cluster else { return NamesAllowed::Unknown };
    if cluster.spec.dedicated != Some(false) {
        return NamesAllowed::Any;
    }
    if account.namespace == names::ACCESS_NAMESPACE {
        return of_access(snapshot, cluster, cluster_uid, &account.name);
    }
    // Those that were released count too: their namespaces are still there.
    let begins = |tenant: &&Tenant| binds(tenant) && owns(&tenant.prefix, &account.namespace);
    cluster.spec.tenants.iter().find(begins).map_or(NamesAllowed::Any, prefix_of)
}

fn of_access(snapshot: &Snapshot, cluster: &Cluster, cluster_uid: &str, account: &str) -> NamesAllowed {
    let living = snapshot.live_access.get(cluster_uid).into_iter().flatten();
    let found = living
        .filter_map(|key| snapshot.access.get(key))
        .find(|access| access.metadata.uid.as_deref().is_some_and(|uid| object_name(uid) == account));
    found.map_or(NamesAllowed::Unknown, |access| of_access_request(snapshot, cluster, access))
}

/// Which names the identity of an AccessRequest that lives in the Cluster may give there.
pub(super) fn of_access_request(snapshot: &Snapshot, cluster: &Cluster, access: &AccessRequest) -> NamesAllowed {
    let Some(request) = request_of(access) else { return NamesAllowed::Any };
    let uid = snapshot.request(&request).and_then(|request| request.metadata.uid.as_deref());
    let tenant = uid.and_then(|uid| cluster.spec.tenants.iter().find(|tenant| tenant.request_uid == uid));
    tenant.filter(|tenant| binds(tenant)).map_or(NamesAllowed::Unknown, prefix_of)
}

/// The prefixes that accounts inside the Cluster are kept to, of released tenants too.
pub fn kept_prefixes(cluster: &Cluster) -> BTreeSet<String> {
    let tenants = cluster.spec.tenants.iter().filter(|tenant| cluster.spec.dedicated == Some(false) && binds(tenant));
    tenants.map(|tenant| tenant.prefix.clone()).collect()
}

/// Whether accounts are kept to that prefix. Where names begin with it that were there before the tenant, their own accounts
/// would be; so nobody is before that was looked for.
pub(super) fn binds(tenant: &Tenant) -> bool {
    is_well_formed(&tenant.prefix) && owns(&tenant.prefix, &tenant.prefix) && !tenant.unseen
}

fn request_of(access: &AccessRequest) -> Option<ObjectKey> {
    let reference = access.spec.request_ref.as_ref()?;
    let own = access.metadata.namespace.clone().unwrap_or_default();
    Some(ObjectKey::new(reference.namespace.clone().unwrap_or(own), reference.name.clone()))
}

fn prefix_of(tenant: &Tenant) -> NamesAllowed {
    NamesAllowed::Prefix {
        prefix: tenant.prefix.clone(),
        request: ObjectKey::new(tenant.namespace.clone(), tenant.name.clone()),
    }
}

fn service_account(username: &str) -> Option<ObjectKey> {
    let (namespace, name) = username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(ObjectKey::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::requests::Object;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(object: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(object).expect("an object of ours"))
    }

    fn snapshot(dedicated: Value) -> Snapshot {
        let mut snapshot = Snapshot::new();
        let tenant = |name: &str, prefix: &str, released: bool| json!({"requestUID": format!("u-{name}"), "namespace": "team", "name": name, "prefix": prefix, "released": released});
        snapshot.apply(Object::Cluster(read(json!({"apiVersion": names::API_VERSION, "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "n", "uid": "here"},
            "spec": {"clusterProviderRef": {"name": "p", "profile": "p"}, "kubernetes": {}, "purposes": [], "dedicated": dedicated,
                "tenants": [tenant("a", "foo-", false), tenant("b", "bar-", true),
                    {"requestUID": "u-c", "namespace": "team", "name": "c", "prefix": "cert-", "unseen": true}]}}))));
        snapshot.apply(Object::Request(read(json!({"apiVersion": names::API_VERSION, "kind": "ClusterRequest",
            "metadata": {"name": "a", "namespace": "team", "uid": "u-a"}, "spec": {"purposes": ["w"]}}))));
        for (name, reference, home) in [
            ("mine", json!({"requestRef": {"name": "a"}}), "here"),
            ("lost", json!({"requestRef": {"name": "gone"}}), "here"),
            ("direct", json!({"clusterRef": {"name": "c", "namespace": "n"}}), "here"),
            ("away", json!({"requestRef": {"name": "a"}}), "there"),
        ] {
            let mut spec = json!({"permissions": []});
            spec.as_object_mut().expect("an object").extend(reference.as_object().expect("an object").clone());
            snapshot.apply(Object::Access(read(json!({"apiVersion": names::API_VERSION, "kind": "AccessRequest",
                "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"),
                    "annotations": {names::LIVE_IN: home, names::LIVE_IN_NAME: "n/c"}},
                "spec": spec}))));
        }
        snapshot
    }

    #[test]
    fn identities_of_a_tenant_keep_to_its_prefix_on_shared_clusters() {
        let shared = snapshot(json!(false));
        for (user, expect) in [
            ("system:serviceaccount:allot-access:access-u-mine", "foo-"),
            ("system:serviceaccount:foo-app:default", "foo-"),
            ("system:serviceaccount:foo-:x", "foo-"),
            ("system:serviceaccount:bar-app:default", "bar-"),
            ("system:serviceaccount:allot-access:access-u-direct", "any"),
            ("system:serviceaccount:allot-access:access-u-lost", "unknown"),
            ("system:serviceaccount:allot-access:access-u-away", "unknown"),
            ("system:serviceaccount:allot-access:default", "unknown"),
            ("system:serviceaccount:foo:default", "any"),
            ("system:serviceaccount:cert-manager:default", "any"),
            ("system:serviceaccount:kube-system:x", "any"),
            ("system:admin", "any"),
            ("system:serviceaccount:", "any"),
        ] {
            let word = |allowed| match allowed {
                NamesAllowed::Any => "any".to_owned(),
                NamesAllowed::Prefix { prefix, .. } => prefix,
                NamesAllowed::Unknown => "unknown".to_owned(),
            };
            let key = ObjectKey::new("n", "c");
            assert_eq!(word(names_allowed(&shared, &key, "here", user)), expect, "{user}");
            for dedicated in [json!(true), Value::Null] {
                let own = snapshot(dedicated);
                assert_eq!(names_allowed(&own, &key, "here", user), NamesAllowed::Any, "{user} has no neighbours");
            }
            let account = service_account(user).is_some();
            let unknown = if account { NamesAllowed::Unknown } else { NamesAllowed::Any };
            assert_eq!(names_allowed(&shared, &key, "another", user), unknown, "{user} of a Cluster that is not known");
        }
    }
}
