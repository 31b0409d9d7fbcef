//! What lies in a Cluster for AccessRequests that do not live there any more: identities that could not
//! be removed in time, listed in the Cluster's `status.leftovers` or, after that was wiped, known by
//! their label alone. What a provider made is its own to remove.

use std::collections::BTreeSet;

use allotment_api::names::{self, provider_access_finalizer};
use allotment_api::requests::{AccessBy, AccessRequest, Cluster, Leftover};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::inside;
use super::plan::{Change, InsideState};
use crate::requests::{Snapshot, has_finalizer, to_value};
use crate::write::{Body, Kind, ObjectKey, Write, merge_diff, preconditions};

/// The UIDs of AccessRequests that objects inside a Cluster are labelled with.
pub fn labelled(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().filter_map(owner).map(str::to_owned).collect()
}

/// Those of `labelled` that live in the Cluster of that UID, among these AccessRequests. Whoever says so
/// does it before anything of it is made, and takes it back after the last of it is gone.
pub fn living<'a>(
    labelled: &BTreeSet<String>,
    cluster_uid: &str,
    requests: impl Iterator<Item = &'a AccessRequest>,
) -> BTreeSet<String> {
    let lives = |request: &&AccessRequest| {
        let annotations = request.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(names::LIVE_IN)).is_some_and(|uid| uid == cluster_uid)
    };
    requests
        .filter(lives)
        .filter_map(|request| request.metadata.uid.clone())
        .filter(|uid| labelled.contains(uid))
        .collect()
}

/// What takes away all that belongs to nobody who lives there, identities first.
pub fn removal_of_leftovers(objects: Vec<Value>, living: &BTreeSet<String>) -> Vec<Change> {
    let objects = objects.into_iter().filter(|object| owner(object).is_some_and(|uid| !living.contains(uid)));
    inside::removal(&InsideState { objects: objects.collect(), ..InsideState::default() })
}

/// The write that strikes the leftovers that are gone off the Cluster's status: all but those of whom
/// lives there still. `None` where none is.
pub fn strike_leftovers(cluster: &Cluster, living: &BTreeSet<String>) -> Option<Write> {
    let old = cluster.status.clone()?;
    let mut new = old.clone();
    new.leftovers.retain(|leftover| living.contains(&leftover.uid));
    let change = merge_diff(&to_value(&old), &to_value(&new))?;
    Some(Write::PatchStatus {
        kind: Kind::Cluster,
        key: ObjectKey::of(&cluster.metadata),
        patch: Body::of(&json!({ "metadata": preconditions(&cluster.metadata), "status": change })),
    })
}

/// Of what a Cluster lists as left over there by its provider: what still stands, by UID of the AccessRequest, and when
/// the next of it ends by itself. `None` where the platform takes leftovers away. A provider tells that it did by
/// letting the AccessRequest go, or strikes the entry itself where that is gone.
pub(crate) fn standing_by_provider(
    snapshot: &Snapshot,
    cluster: &Cluster,
    now: Timestamp,
) -> Option<(BTreeSet<String>, Option<Timestamp>)> {
    let profile = &snapshot.profile_of(cluster)?.profile;
    if profile.access_by != Some(AccessBy::Provider) {
        return None;
    }
    let finalizer = provider_access_finalizer(&cluster.spec.cluster_provider_ref.name);
    let is_let_go = |leftover: &Leftover| {
        let access = ObjectKey::parse(&leftover.access_request).and_then(|key| snapshot.access.get(&key));
        access.is_some_and(|access| {
            // Of one that is being deleted the platform takes the finalizer off itself, in the provider's place.
            access.metadata.uid.as_deref() == Some(&leftover.uid)
                && access.metadata.deletion_timestamp.is_none()
                && !has_finalizer(&access.metadata, &finalizer)
        })
    };
    let end = |leftover: &Leftover| leftover.not_after.as_ref().map(|end| end.0);
    let listed = cluster.status.iter().flat_map(|status| &status.leftovers);
    let standing: Vec<&Leftover> =
        listed.filter(|leftover| end(leftover).is_none_or(|end| now < end) && !is_let_go(leftover)).collect();
    let next = standing.iter().filter_map(|leftover| end(leftover)).min();
    Some((standing.into_iter().map(|leftover| leftover.uid.clone()).collect(), next))
}

fn owner(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][names::ACCESS_REQUEST].as_str()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn object(kind: &str, uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": format!("access-{uid}"), "uid": format!("{kind}-{uid}"),
            "labels": {names::ACCESS_REQUEST: uid}}})
    }

    fn request(uid: &str, lives_in: Option<&str>) -> AccessRequest {
        let annotations = lives_in.map_or(json!({}), |cluster| json!({names::LIVE_IN: cluster}));
        serde_json::from_value(json!({"apiVersion": names::API_VERSION, "kind": "AccessRequest",
            "metadata": {"name": uid, "namespace": "n", "uid": uid, "annotations": annotations},
            "spec": {"permissions": []}}))
        .expect("an AccessRequest")
    }

    #[test]
    fn what_belongs_to_nobody_who_lives_there_goes_identities_first() {
        let objects = vec![
            object("Role", "gone"),
            object("ServiceAccount", "gone"),
            object("RoleBinding", "gone"),
            object("Role", "moved"),
            object("Role", "lives"),
            json!({"apiVersion": "v1", "kind": "Role", "metadata": {"name": "theirs", "uid": "u"}}),
        ];
        let requests = [request("moved", Some("other")), request("lives", Some("here")), request("idle", None)];
        let living = living(&labelled(&objects), "here", requests.iter());
        assert_eq!(living, BTreeSet::from(["lives".to_owned()]));
        let kinds: Vec<_> = removal_of_leftovers(objects, &living)
            .into_iter()
            .map(|change| match change {
                Change::Delete { kind, uid, .. } => format!("{kind} {uid}"),
                other => panic!("{other:?} takes nothing away"),
            })
            .collect();
        assert_eq!(
            kinds,
            ["ServiceAccount ServiceAccount-gone", "RoleBinding RoleBinding-gone", "Role Role-gone", "Role Role-moved"]
        );
    }

    #[test]
    fn what_a_provider_left_stands_until_it_ends_or_the_provider_lets_the_request_go() {
        let end: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a time");
        let before = Timestamp::from_second(end.as_second() - 1).expect("a time");
        for (by, held, deleting, now, expect) in [
            ("Platform", true, false, before, None),
            ("Provider", true, false, before, Some(true)),
            ("Provider", false, false, before, Some(false)),
            ("Provider", false, true, before, Some(true)),
            ("Provider", true, false, end, Some(false)),
        ] {
            let cluster: Cluster = serde_json::from_value(json!({"apiVersion": names::API_VERSION, "kind": "Cluster",
                "metadata": {"name": "c", "namespace": "n", "uid": "here"},
                "spec": {"clusterProviderRef": {"name": "p", "profile": "q"}, "kubernetes": {}, "purposes": []},
                "status": {"leftovers": [{"accessRequest": "n/a", "uid": "a", "notAfter": end}]}}))
            .expect("a Cluster");
            let mut access = request("a", None);
            access.metadata.name = Some("a".to_owned());
            access.metadata.finalizers = held.then(|| vec![provider_access_finalizer("p")]);
            let going = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(end);
            access.metadata.deletion_timestamp = deleting.then_some(going);
            let mut snapshot = Snapshot::new();
            let provider = json!({"apiVersion": names::API_VERSION, "kind": "ClusterProvider", "metadata": {"name": "p"},
                "spec": {"package": "x"}, "status": {"ready": true, "profiles": [{"name": "q", "accessBy": by}]}});
            let provider = serde_json::from_value(provider).expect("a ClusterProvider");
            snapshot.apply(crate::requests::Object::Provider(Arc::new(provider)));
            snapshot.apply(crate::requests::Object::Access(Arc::new(access)));
            let standing = standing_by_provider(&snapshot, &cluster, now).map(|(uids, _)| uids.contains("a"));
            assert_eq!(standing, expect, "{by} held {held} deleting {deleting} at {now}");
        }
    }

    #[test]
    fn leftovers_that_are_gone_are_struck_off_and_those_of_the_living_stay() {
        let with = |uids: &[&str]| -> Cluster {
            let leftovers: Vec<Value> = uids.iter().map(|uid| json!({"accessRequest": "n/a", "uid": uid})).collect();
            serde_json::from_value(json!({"apiVersion": names::API_VERSION, "kind": "Cluster",
                "metadata": {"name": "c", "namespace": "n", "uid": "here", "resourceVersion": "7"},
                "spec": {"clusterProviderRef": {"name": "p", "profile": "p"}, "kubernetes": {}, "purposes": []},
                "status": {"leftovers": leftovers}}))
            .expect("a Cluster")
        };
        let living = BTreeSet::from(["lives".to_owned()]);
        assert_eq!(strike_leftovers(&with(&["lives"]), &living), None);
        assert_eq!(strike_leftovers(&with(&[]), &living), None);
        let Some(Write::PatchStatus { patch, .. }) = strike_leftovers(&with(&["gone", "lives"]), &living) else {
            panic!("something is to be struck off");
        };
        let patch = patch.to_value();
        assert_eq!(patch["metadata"]["resourceVersion"], "7", "a compare-and-swap");
        assert_eq!(patch["status"]["leftovers"], json!([{"accessRequest": "n/a", "uid": "lives"}]));
        let Some(Write::PatchStatus { patch, .. }) = strike_leftovers(&with(&["gone"]), &living) else {
            panic!("something is to be struck off");
        };
        let patch = patch.to_value();
        assert_eq!(patch["status"]["leftovers"], Value::Null);
    }
}
