//! All Clusters, grouped by everything that tells what a request misses in them. So why a request is refused is
//! found by looking at a few dozen groups, however many Clusters there are. What is missing is told by `select`.

use allotment_api::reasons::FindingReason;
use allotment_api::requests::Cluster;

use super::{Snapshot, is_provisioned, once_dedicated, running_version};
use crate::requests::select::home;
use crate::write::ObjectKey;

/// What Clusters are of, and run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) provider: String,
    pub(crate) profile: String,
    pub(crate) version: String,
}

/// All else that tells what a request misses in a Cluster, but for the age of one that was never healthy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alike {
    pub(crate) purposes: Vec<String>,
    pub(crate) closed: Option<FindingReason>,
    /// Whether it is, or once was, somebody's own.
    pub(crate) own: bool,
    /// Whether nobody ever had room on it.
    pub(crate) untouched: bool,
    pub(crate) room: bool,
    pub(crate) home: Option<String>,
    /// Whether age does not matter any more.
    pub(crate) provisioned: bool,
}

impl Snapshot {
    /// Puts a Cluster among those that are like it, or nowhere if it is gone. Gives whether these are others than before.
    pub(super) fn join_alike(&mut self, key: &ObjectKey) -> bool {
        let alike = self.clusters.get(key).map(|cluster| self.alike(cluster));
        if self.alike_of.get(key) == alike.as_ref() {
            return false;
        }
        if let Some((origin, was)) = self.alike_of.remove(key)
            && let Some(groups) = self.alike.get_mut(&origin)
            && let Some(members) = groups.get_mut(&was)
        {
            members.remove(key.to_string().as_str());
            if members.is_empty() {
                groups.remove(&was);
            }
            if groups.is_empty() {
                self.alike.remove(&origin);
            }
        }
        if let Some((origin, alike)) = alike {
            let groups = self.alike.entry(origin.clone()).or_default();
            groups.entry(alike.clone()).or_default().insert(key.to_string().into(), key.clone());
            self.alike_of.insert(key.clone(), (origin, alike));
        }
        true
    }

    fn alike(&self, cluster: &Cluster) -> (Origin, Alike) {
        let spec = &cluster.spec;
        let origin = Origin {
            provider: spec.cluster_provider_ref.name.clone(),
            profile: spec.cluster_provider_ref.profile.clone(),
            version: running_version(cluster).to_owned(),
        };
        let alike = Alike {
            purposes: spec.purposes.clone(),
            closed: self.closed(cluster),
            own: spec.dedicated == Some(true) || once_dedicated(cluster),
            untouched: spec.tenants.is_empty(),
            room: self.has_room(cluster),
            home: home(cluster),
            provisioned: is_provisioned(cluster),
        };
        (origin, alike)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use allotment_api::names;
    use allotment_api::requests::{ClusterProvider, ClusterRequest, Finding, Purpose};
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::requests::MAX_FINDINGS;
    use crate::requests::select::Placement;
    use crate::requests::snapshot::{Object, live_tenants};

    fn read<T: DeserializeOwned>(object: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(object).expect("a manifest"))
    }

    fn cluster(number: usize, (variant, tenants, purposes): (usize, usize, usize)) -> Arc<Cluster> {
        let bit = |bit: usize| variant >> bit & 1 == 1;
        let tenants: Vec<Value> = (0..tenants)
            .map(|index| json!({"requestUID": format!("u{index}"), "namespace": "t", "name": "t", "prefix": "abc-", "released": bit(index)}))
            .collect();
        let mut object = json!({
            // The names of findings are sorted as texts: `a-b/x` comes before `a/x`.
            "metadata": {"name": format!("c{number:03}"), "namespace": if bit(2) { "a" } else { "a-b" },
                "uid": format!("uid-{number}"), "creationTimestamp": if bit(3) { "2027-01-01T00:00:00Z" } else { "2027-01-02T00:00:00Z" }},
            "spec": {"clusterProviderRef": {"name": "p", "profile": if bit(4) { "p" } else { "gone" }},
                "kubernetes": {"version": if bit(5) { "1.30.1" } else { "1.31.1" }},
                "purposes": (["x", "y"][..purposes]), "tenants": tenants},
            "status": {"conditions": []}
        });
        if bit(9) {
            object["spec"]["deletionPolicy"] = json!("WhenIdle");
        }
        if bit(6) {
            object["spec"]["dedicated"] = json!(bit(7));
        }
        if bit(8) {
            object["status"]["conditions"] = json!([{"type": "ClusterHealthy", "status": "True", "reason": "AllGood",
                "message": "", "lastTransitionTime": "2027-01-01T00:00:00Z"}]);
        }
        read(object)
    }

    fn provider(ready: bool) -> Object {
        Object::Provider(read::<ClusterProvider>(json!({"metadata": {"name": "p"}, "spec": {"package": "builtin:p"},
            "status": {"ready": ready, "profiles": [{"name": "p", "providerConfigRef": {"name": "p"},
                "supportedVersions": [{"version": "1.30.1"}, {"version": "1.31.1"}], "supportedTraits": []}]}})))
    }

    fn purpose(name: &str, most: usize) -> Object {
        Object::Purpose(read::<Purpose>(json!({"metadata": {"name": name}, "spec": {"maxTenants": most}})))
    }

    type Lacks = Vec<(FindingReason, &'static str)>;

    /// What a shared request of namespace `a` for purpose `x` and version 1.32 lacks in a Cluster, from the Cluster itself.
    fn unmet(snapshot: &Snapshot, cluster: &Cluster, now: Timestamp) -> Lacks {
        let spec = &cluster.spec;
        let mut unmet = Vec::new();
        let within_reach = home(cluster).is_none_or(|home| home == "a" || home == names::CLUSTERS_NAMESPACE);
        match snapshot.closed(cluster) {
            Some(reason) => unmet.push((reason, "")),
            None if snapshot.is_overdue(cluster, now) => unmet.push((FindingReason::Unhealthy, "")),
            None if !within_reach => unmet.push((FindingReason::NotOpened, "")),
            None => {}
        }
        if !spec.purposes.iter().any(|purpose| purpose == "x") {
            unmet.push((FindingReason::PurposesNotCovered, "x"));
        }
        let limits = spec.purposes.iter().filter_map(|name| snapshot.purpose(name)?.max_tenants);
        if spec.dedicated == Some(true) || spec.tenants.iter().any(|tenant| tenant.prefix.is_empty()) {
            unmet.push((FindingReason::Dedicated, ""));
        } else if limits.min().is_some_and(|most| live_tenants(cluster) >= usize::try_from(most).unwrap_or(0)) {
            unmet.push((FindingReason::Full, ""));
        }
        unmet.push((FindingReason::VersionNotOffered, "1.32"));
        unmet
    }

    proptest! {
        #[test]
        fn what_is_missing_in_groups_is_what_is_missing_in_each(
            kinds in prop::collection::vec((0usize..1024, 0usize..3, 1usize..3), 0..120),
            gone in prop::collection::btree_set(0usize..120, 0..20),
            ready in any::<bool>(),
            most in 1usize..3,
            befores in prop::collection::vec(0usize..120, 120),
        ) {
            let mut snapshot = Snapshot::new();
            snapshot.apply(provider(!ready));
            snapshot.apply(purpose("x", 1));
            snapshot.apply(purpose("y", 1));
            for (number, kind) in kinds.iter().enumerate() {
                let before = kinds[befores[number] % kinds.len()];
                snapshot.apply(Object::Cluster(cluster(number, before)));
                snapshot.apply(Object::Cluster(cluster(number, *kind)));
            }
            for (number, kind) in kinds.iter().enumerate().filter(|(number, _)| gone.contains(number)) {
                snapshot.delete(crate::requests::ObjectKind::Cluster, &ObjectKey::of(&cluster(number, *kind).metadata));
            }
            // What they are alike in depends on these as well.
            snapshot.apply(provider(ready));
            snapshot.apply(purpose("x", most));
            let request = read::<ClusterRequest>(json!({"metadata": {"name": "r", "namespace": "a", "uid": "r"},
                "spec": {"purposes": ["x"], "dedicated": false, "kubernetes": {"version": "1.32"}}}));
            let now: Timestamp = "2027-01-02T00:10:00Z".parse().expect("a time");
            let asked = snapshot.resolve(&request).expect("its Purpose is there");
            let Placement::None(refusal) = snapshot.place(&request, &asked, now) else { panic!("nothing offers 1.32") };

            let mut one_by_one: Vec<Finding> = Vec::new();
            let mut candidates: Vec<(usize, &str, String, Lacks)> = Vec::new();
            let profile = match ready {
                true => vec![(FindingReason::VersionNotOffered, "1.32")],
                false => vec![(FindingReason::NoReadyProvider, ""), (FindingReason::VersionNotOffered, "1.32")],
            };
            candidates.push((profile.len(), "p", String::new(), profile));
            for key in snapshot.clusters.keys() {
                let cluster = snapshot.clusters.get(key).expect("it is there");
                prop_assert_eq!(snapshot.slots.get(key).cloned(), snapshot.slot_of(cluster));
                let mut unmet = unmet(&snapshot, cluster, now);
                unmet.sort_by_key(|(reason, detail)| (reason.as_str(), *detail));
                candidates.push((unmet.len(), &cluster.spec.cluster_provider_ref.profile, key.to_string(), unmet));
            }
            candidates.sort_by(|left, right| (left.0, left.1, &left.2).cmp(&(right.0, right.1, &right.2)));
            for (_, profile, cluster, unmet) in candidates {
                one_by_one.extend(unmet.into_iter().map(|(reason, detail)| Finding {
                    provider: "p".to_owned(), profile: profile.to_owned(), cluster: cluster.clone(),
                    reason: reason.as_str().to_owned(), detail: detail.to_owned(),
                }));
            }
            let omitted = one_by_one.len().saturating_sub(MAX_FINDINGS);
            one_by_one.truncate(MAX_FINDINGS);
            prop_assert_eq!((refusal.findings.listed(), refusal.findings.omitted()), (one_by_one, omitted));
        }
    }
}
