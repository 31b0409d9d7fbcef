//! One ClusterProvider: whether it can be used, what it offers, and when it may go.

use crate::requests::{Said, add_finalizer, named, put, remove_finalizer, to_value, whole_seconds};
use crate::write::{Kind, ObjectKey, Write, write_status};
use allotment_api::names;
use allotment_api::reasons::{ConditionType, ProviderReason};
use allotment_api::requests::{ClusterProvider, ClusterProviderStatus, Profile};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// What stands behind `spec.package`.
#[derive(Clone, Debug, PartialEq)]
pub enum Package {
    /// A provider of this process, and what it offers.
    BuiltIn {
        /// Its profiles, from its ProviderConfigs.
        profiles: Vec<Profile>,
    },
    /// Nothing that runs here.
    Unknown,
}

/// What is known when a ClusterProvider is decided.
#[derive(Clone, Debug)]
pub struct ProviderObserved<'a> {
    /// The ClusterProvider as it is stored.
    pub provider: &'a ClusterProvider,
    /// What stands behind its package.
    pub package: Package,
    /// Its Clusters, those being deleted included.
    pub clusters: &'a [ObjectKey],
    /// The time now.
    pub now: Timestamp,
}

/// The next write for a ClusterProvider.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderPlan {
    /// Nothing, until something changes.
    Done,
    /// Take it under the platform's finalizer: its Clusters go before it.
    AddFinalizer(Write),
    /// Let it go: it has no Clusters.
    RemoveFinalizer(Write),
    /// Say in the status whether it can be used and what it offers.
    WriteStatus(Write),
}

impl ProviderPlan {
    /// The write, if there is one.
    pub fn write(&self) -> Option<&Write> {
        match self {
            ProviderPlan::Done => None,
            ProviderPlan::AddFinalizer(write)
            | ProviderPlan::RemoveFinalizer(write)
            | ProviderPlan::WriteStatus(write) => Some(write),
        }
    }
}

/// The next write for a ClusterProvider.
pub fn decide_provider(observed: &ProviderObserved<'_>) -> ProviderPlan {
    let metadata = &observed.provider.metadata;
    if metadata.deletion_timestamp.is_some() {
        let free = observed.clusters.is_empty();
        if let Some(write) =
            remove_finalizer(Kind::ClusterProvider, metadata, names::PROVIDER_FINALIZER).filter(|_| free)
        {
            return ProviderPlan::RemoveFinalizer(write);
        }
    } else if let Some(write) = add_finalizer(Kind::ClusterProvider, metadata, names::PROVIDER_FINALIZER) {
        return ProviderPlan::AddFinalizer(write);
    }
    let old = observed.provider.status.clone().unwrap_or_default();
    let new = desired_status(observed, &old);
    if new == old {
        return ProviderPlan::Done;
    }
    let new = ClusterProviderStatus { last_reconcile_time: Some(Time(whole_seconds(observed.now))), ..new };
    // Against what is stored: where there is no status, `ready: false` is written and not left out.
    let (old, new) = (to_value(&observed.provider.status), to_value(&new));
    match write_status(Kind::ClusterProvider, metadata, &old, &new, new.clone()) {
        Some(write) => ProviderPlan::WriteStatus(write),
        None => ProviderPlan::Done,
    }
}

fn desired_status(observed: &ProviderObserved<'_>, old: &ClusterProviderStatus) -> ClusterProviderStatus {
    let provider = observed.provider;
    let (reason, message, profiles) = match &observed.package {
        Package::BuiltIn { profiles } if provider.metadata.deletion_timestamp.is_some() => {
            let clusters = named(observed.clusters.iter().map(|key| format!("Cluster {key}")));
            // Its profiles stay: its Clusters are not withdrawn, they wait for their users.
            (ProviderReason::Deleting, format!("being deleted, waits for {clusters}"), profiles.clone())
        }
        Package::BuiltIn { profiles } => {
            (ProviderReason::AllGood, "The provider is ready.".to_owned(), profiles.clone())
        }
        Package::Unknown => {
            let (reason, message) = unusable(&provider.spec.package);
            (reason, message, Vec::new())
        }
    };
    let ready = reason == ProviderReason::AllGood;
    let generation = provider.metadata.generation;
    let said = Said::new(ConditionType::ProviderReady, ready, reason.as_str(), message.clone());
    let mut new = old.clone();
    put(&mut new.conditions, said.written(&old.conditions, generation, observed.now));
    ClusterProviderStatus {
        ready,
        reason: reason.as_str().to_owned(),
        message,
        profiles,
        observed_generation: generation,
        ..new
    }
}

/// Why a package that is not built in cannot run here, and what to do.
fn unusable(package: &str) -> (ProviderReason, String) {
    let looks_like_image = !package.starts_with(['/', '.']) && package.contains('/');
    if package.starts_with("builtin:") {
        let message = format!("spec.package: there is no built-in provider \"{package}\"; there is builtin:local");
        return (ProviderReason::PackageNotAllowed, message);
    }
    if looks_like_image {
        let message = format!(
            "spec.package: \"{package}\" is an image, which needs a platform on Kubernetes; use builtin:local here"
        );
        return (ProviderReason::PackageNeedsKubernetes, message);
    }
    let message = format!("spec.package: \"{package}\" may not run here; use builtin:local");
    (ProviderReason::PackageNotAllowed, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn provider(package: &str, finalizers: &[&str], going: bool) -> ClusterProvider {
        let mut object = json!({"apiVersion": names::API_VERSION, "kind": "ClusterProvider",
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "7", "generation": 2, "finalizers": finalizers},
            "spec": {"package": package}});
        if going {
            object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        }
        serde_json::from_value(object).expect("a ClusterProvider")
    }

    fn built_in() -> Package {
        Package::BuiltIn { profiles: vec![Profile { name: "local".into(), ..Profile::default() }] }
    }

    fn decide(provider: &ClusterProvider, package: Package, clusters: &[ObjectKey]) -> ProviderPlan {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        decide_provider(&ProviderObserved { provider, package, clusters, now })
    }

    #[test]
    fn a_provider_is_held_while_it_has_clusters() {
        let held = &[names::PROVIDER_FINALIZER][..];
        let cluster = [ObjectKey::new("n", "c")];
        for (finalizers, going, clusters, expect) in [
            (&[][..], false, &[][..], "hold"),
            (held, false, &[], "status"),
            (held, true, &cluster, "status"),
            (held, true, &[], "let go"),
            (&[], true, &cluster, "status"),
        ] {
            let plan = decide(&provider("builtin:local", finalizers, going), built_in(), clusters);
            let word = match plan {
                ProviderPlan::Done => "done",
                ProviderPlan::AddFinalizer(_) => "hold",
                ProviderPlan::RemoveFinalizer(_) => "let go",
                ProviderPlan::WriteStatus(_) => "status",
            };
            assert_eq!(word, expect, "{finalizers:?} going {going} with {clusters:?}");
        }
    }

    #[test]
    fn the_status_says_whether_it_is_ready_and_why_not() {
        let cluster = [ObjectKey::new("n", "c")];
        for (package, kind, going, ready, reason, says, profiles) in [
            ("builtin:local", built_in(), false, true, "AllGood", "The provider is ready.", 1),
            ("builtin:local", built_in(), true, false, "Deleting", "waits for Cluster n/c", 1),
            ("builtin:moon", Package::Unknown, false, false, "PackageNotAllowed", "no built-in provider", 0),
            ("registry.example/p:v1", Package::Unknown, false, false, "PackageNeedsKubernetes", "is an image", 0),
            ("/bin/sh", Package::Unknown, false, false, "PackageNotAllowed", "may not run here", 0),
            ("./p", Package::Unknown, false, false, "PackageNotAllowed", "may not run here", 0),
        ] {
            let mut before = provider(package, &[names::PROVIDER_FINALIZER], going);
            let ProviderPlan::WriteStatus(Write::ApplyStatus { object, .. }) = decide(&before, kind.clone(), &cluster)
            else {
                panic!("{package} is told of");
            };
            let told = object["status"].clone();
            assert_eq!((&told["ready"], &told["reason"]), (&json!(ready), &json!(reason)), "{package}");
            assert!(told["message"].as_str().is_some_and(|message| message.contains(says)), "{package}: {told}");
            assert_eq!(told["profiles"].as_array().map_or(0, Vec::len), profiles, "{package}");
            assert_eq!(told["conditions"][0]["status"], if ready { "True" } else { "False" });
            before.status = serde_json::from_value(told).expect("a status");
            assert_eq!(decide(&before, kind, &cluster), ProviderPlan::Done, "told again, it changes nothing");
        }
    }
}
