//! All Clusters, grouped by everything that tells what a request misses in them. So why a request is refused is
//! found by looking at a few dozen groups, however many Clusters there are. What is missing is told by `select`.

use allotment_api::reasons::FindingReason;
use allotment_api::requests::Cluster;

use super::{Snapshot, is_provisioned, once_dedicated, running_version};
use crate::requests::select::home;
use crate::write::ObjectKey;

/// All that tells what a request misses in a Cluster, but for the age of one that was never healthy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alike {
    /// The provider and the profile, by which findings are sorted.
    pub(crate) provider: String,
    pub(crate) profile: String,
    purposes: Vec<String>,
    version: String,
    closed: Option<FindingReason>,
    own: bool,
    untouched: bool,
    room: bool,
    home: Option<String>,
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
        if let Some(was) = self.alike_of.remove(key)
            && let Some(members) = self.alike.get_mut(&was)
        {
            members.remove(&key.to_string());
            if members.is_empty() {
                self.alike.remove(&was);
            }
        }
        if let Some(alike) = alike {
            self.alike.entry(alike.clone()).or_default().insert(key.to_string(), key.clone());
            self.alike_of.insert(key.clone(), alike);
        }
        true
    }

    fn alike(&self, cluster: &Cluster) -> Alike {
        let spec = &cluster.spec;
        Alike {
            provider: spec.cluster_provider_ref.name.clone(),
            profile: spec.cluster_provider_ref.profile.clone(),
            purposes: spec.purposes.clone(),
            version: running_version(cluster).to_owned(),
            closed: self.closed(cluster),
            own: spec.dedicated == Some(true) || once_dedicated(cluster),
            untouched: spec.tenants.is_empty(),
            room: self.has_room(cluster),
            home: home(cluster),
            provisioned: is_provisioned(cluster),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use allotment_api::requests::{ClusterProvider, ClusterRequest, Purpose};
    use k8s_openapi::jiff::Timestamp;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::requests::findings::Findings;
    use crate::requests::select::{Placement, Search};
    use crate::requests::snapshot::Object;

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

    proptest! {
        #[test]
        fn what_is_missing_in_groups_is_what_is_missing_in_each(
            kinds in prop::collection::vec((0usize..1024, 0usize..3, 1usize..3), 0..120),
            gone in prop::collection::btree_set(0usize..120, 0..20),
        ) {
            let mut snapshot = Snapshot::new();
            snapshot.apply(Object::Provider(read::<ClusterProvider>(json!({"metadata": {"name": "p"}, "spec": {"package": "builtin:p"},
                "status": {"ready": true, "profiles": [{"name": "p", "providerConfigRef": {"name": "p"},
                    "supportedVersions": [{"version": "1.30.1"}, {"version": "1.31.1"}], "supportedTraits": []}]}}))));
            for name in ["x", "y"] {
                snapshot.apply(Object::Purpose(read::<Purpose>(json!({"metadata": {"name": name}, "spec": {"maxTenants": 1}}))));
            }
            for (number, kind) in kinds.iter().enumerate() {
                snapshot.apply(Object::Cluster(cluster(number, *kind)));
            }
            for (number, kind) in kinds.iter().enumerate().filter(|(number, _)| gone.contains(number)) {
                snapshot.delete(crate::requests::ObjectKind::Cluster, &ObjectKey::of(&cluster(number, *kind).metadata));
            }
            let request = read::<ClusterRequest>(json!({"metadata": {"name": "r", "namespace": "a", "uid": "r"},
                "spec": {"purposes": ["x"], "dedicated": false, "kubernetes": {"version": "1.32"}}}));
            let now: Timestamp = "2027-01-02T00:10:00Z".parse().expect("a time");
            let asked = snapshot.resolve(&request).expect("its Purpose is there");
            let Placement::None(refusal) = snapshot.place(&request, &asked, now) else { panic!("nothing offers 1.32") };

            let names: Vec<String> = snapshot.clusters.keys().map(ToString::to_string).collect();
            let mut one_by_one = Findings::default();
            one_by_one.add("p", "p", "", vec![(FindingReason::VersionNotOffered, "1.32".to_owned())]);
            for (name, cluster) in names.iter().zip(snapshot.clusters.values()) {
                let reference = &cluster.spec.cluster_provider_ref;
                let search = Search { purposes: &BTreeSet::from(["x".to_owned()]), asked: &asked, from: "a", now };
                let unmet = snapshot.unmet_by_cluster(cluster, &search);
                one_by_one.add(&reference.name, &reference.profile, name, unmet);
            }
            prop_assert_eq!((refusal.findings, refusal.findings_omitted), one_by_one.bounded());
        }
    }
}
