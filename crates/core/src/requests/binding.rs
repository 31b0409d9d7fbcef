//! What a request is bound to, by its Grant, by the tenants of Clusters and by what the platform noted in it. What is
//! decided for one request, for several at once and in dry runs all begins here, so that they say the same.

use allotment_api::names;
use allotment_api::requests::{Cluster, ClusterRequest, ClusterRequestGrant};
use k8s_openapi::jiff::Timestamp;

use super::request::{bound_to, tenant_of};
use super::snapshot::{Snapshot, annotation};
use crate::write::ObjectKey;

/// How long the Cluster of a young Grant may be unseen before it counts as gone.
const UNSEEN_CLUSTER_SECS: i64 = 60;

/// What a request is bound to.
pub(crate) enum Binding<'a> {
    /// Nothing: a Cluster is chosen for it.
    None,
    /// It has room on this Cluster and no Grant yet.
    Room { cluster: &'a ObjectKey },
    /// It has a Grant of this Cluster, which has it among its tenants.
    Granted { grant: &'a ClusterRequestGrant, bound: ObjectKey, cluster: &'a Cluster },
    /// The Cluster of its young Grant was not seen yet; until then it may be.
    Unseen { bound: ObjectKey, until: i64 },
    /// The Cluster that it was on is gone, and its Grant tells of it.
    Lost { grant: &'a ClusterRequestGrant, bound: ObjectKey },
    /// No Cluster is chosen for it while this is in the way.
    Blocked {
        /// For people.
        message: String,
    },
}

impl<'a> Binding<'a> {
    /// What that request is bound to. One without a UID, or without a name, is not there yet.
    pub(crate) fn of(snapshot: &'a Snapshot, request: &ClusterRequest, now: Timestamp) -> Binding<'a> {
        let uid = request.metadata.uid.as_deref();
        let grant = request.metadata.name.as_ref().and_then(|_| snapshot.grants.get(&ObjectKey::of(&request.metadata)));
        if let Some(grant) = grant {
            return match uid.filter(|uid| grant.spec.request_uid == *uid) {
                Some(uid) => granted(snapshot, request, uid, grant, now),
                None => Binding::Blocked {
                    message: "a ClusterRequestGrant of this name belongs to another request and has to go first"
                        .to_owned(),
                },
            };
        }
        let tenancy = uid.and_then(|uid| snapshot.tenancies.get(uid)).and_then(|clusters| clusters.first());
        match tenancy {
            Some(cluster) => Binding::Room { cluster },
            None if annotation(&request.metadata, names::LOST_CLUSTER).is_some() => {
                let bound = bound_to(request).unwrap_or_default();
                let message = format!(
                    "Cluster {bound} is gone, and so is the Grant of it; delete and re-create the request to get another"
                );
                Binding::Blocked { message }
            }
            None => Binding::None,
        }
    }
}

fn granted<'a>(
    snapshot: &'a Snapshot,
    request: &ClusterRequest,
    uid: &str,
    grant: &'a ClusterRequestGrant,
    now: Timestamp,
) -> Binding<'a> {
    let reference = &grant.spec.cluster_ref;
    let bound = ObjectKey::new(reference.namespace.clone(), reference.name.clone());
    let there = snapshot.clusters.get(&bound);
    if let Some(cluster) = there.filter(|cluster| cluster.metadata.uid.as_deref() == Some(reference.uid.as_str())) {
        if tenant_of(cluster, uid).is_some() {
            return Binding::Granted { grant, bound, cluster };
        }
        let message = format!("the ClusterRequestGrant names Cluster {bound}, which has no record of this request");
        return Binding::Blocked { message };
    }
    // A Grant by itself proves nothing, and the record went with the Cluster: what the platform noted in the request
    // tells whether the request ever was there.
    if bound_to(request).as_ref() != Some(&bound) {
        let message = format!(
            "the ClusterRequestGrant names Cluster {bound}, which is gone and never had this request; delete the Grant"
        );
        return Binding::Blocked { message };
    }
    let young = grant.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second() + UNSEEN_CLUSTER_SECS);
    let unseen = !snapshot.is_gone(&reference.uid);
    match young.filter(|until| unseen && now.as_second() < *until) {
        Some(until) => Binding::Unseen { bound, until },
        None => Binding::Lost { grant, bound },
    }
}
