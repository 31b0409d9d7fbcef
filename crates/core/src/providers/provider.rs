//! One ClusterProvider: whether it can be used, what it offers, and when it may go.
//!
//! What a provider of this process offers the platform writes; one of another process writes its profiles itself, and the
//! platform says of it only whether it lives.

use std::time::Duration;

use super::heartbeat::Heartbeat;
use super::package::Refusal;
use crate::requests::{
    Said, add_finalizer, find_condition, is_forced, named, put, remove_finalizer, to_value, whole_seconds,
};
use crate::write::{Kind, ObjectKey, Write, write_status};
use allotment_api::names;
use allotment_api::reasons::{ConditionType, ProviderReason};
use allotment_api::requests::{ClusterProvider, ClusterProviderStatus, Profile};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// When to look again at a file that may not run.
const REFUSED_AGAIN: Duration = Duration::from_secs(5);
/// Most ProviderConfigs of which the status says what is wrong with them.
const MOST_UNUSABLE: usize = 8;

/// What stands behind `spec.package`.
#[derive(Clone, Debug, PartialEq)]
pub enum Package {
    /// A provider of this process, and what it offers.
    BuiltIn {
        /// Whether it can work at all.
        readiness: Readiness,
        /// Its profiles, from its ProviderConfigs.
        profiles: Vec<Profile>,
        /// What is wrong with its ProviderConfigs, in the order of their names.
        unusable: Vec<String>,
    },
    /// A provider of another process, which publishes its profiles itself.
    Outside {
        /// What its Lease says.
        heartbeat: Heartbeat,
        /// How its process does, as far as the platform runs it.
        run: Run,
    },
    /// Nothing that runs here, and why.
    Refused(Refusal),
}

/// How the process of a provider does. It explains why there is no heartbeat; whether there is one the Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Run {
    /// It runs, or is about to.
    #[default]
    Running,
    /// What runs it failed, and tries again.
    Failed {
        /// Whether `init` failed, so that it never began.
        in_init: bool,
        /// What went wrong and where to read more.
        message: String,
    },
}

/// Whether a provider of this process can work at all, whatever its ProviderConfigs say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// It cannot.
    NotReady {
        /// Why, for machines.
        reason: ProviderReason,
        /// For people: what is missing and what to do.
        message: String,
    },
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
    /// Nothing, until something changes or, where given, after that time.
    Done {
        /// When to look at the heartbeat again.
        again: Option<Duration>,
    },
    /// Take it under the platform's finalizer: its Clusters go before it.
    AddFinalizer(Write),
    /// Let it go: it has no Clusters, or it is deleted by force.
    RemoveFinalizer {
        /// The write.
        write: Write,
        /// What an Event says first: what may be left.
        told: Option<String>,
    },
    /// Say in the status whether it can be used and what it offers.
    WriteStatus(Write),
}

impl ProviderPlan {
    /// The write, if there is one.
    pub fn write(&self) -> Option<&Write> {
        match self {
            ProviderPlan::Done { .. } => None,
            ProviderPlan::AddFinalizer(write)
            | ProviderPlan::RemoveFinalizer { write, .. }
            | ProviderPlan::WriteStatus(write) => Some(write),
        }
    }
}

/// Whether it is the turn of what runs for a ClusterProvider outside the platform's process: not before it is held, so that
/// nothing outlives it, and not once it goes and has no Clusters any more, or by force.
pub fn is_served(provider: &ClusterProvider, has_clusters: bool) -> bool {
    let metadata = &provider.metadata;
    let held = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == names::PROVIDER_FINALIZER);
    let going = metadata.deletion_timestamp.is_some();
    (held || going) && (has_clusters || !going) && !is_forced(metadata)
}

/// The next write for a ClusterProvider.
pub fn decide_provider(observed: &ProviderObserved<'_>) -> ProviderPlan {
    let metadata = &observed.provider.metadata;
    if metadata.deletion_timestamp.is_some() {
        let goes = observed.clusters.is_empty() || is_forced(metadata);
        if let Some(write) =
            remove_finalizer(Kind::ClusterProvider, metadata, names::PROVIDER_FINALIZER).filter(|_| goes)
        {
            return ProviderPlan::RemoveFinalizer { write, told: left_by_force(observed.clusters) };
        }
    } else if let Some(write) = add_finalizer(Kind::ClusterProvider, metadata, names::PROVIDER_FINALIZER) {
        return ProviderPlan::AddFinalizer(write);
    }
    let done = ProviderPlan::Done { again: look_again(observed) };
    let old = observed.provider.status.clone().unwrap_or_default();
    let new = desired_status(observed, &old);
    if new == old && observed.provider.status.is_some() {
        return done;
    }
    let new = ClusterProviderStatus { last_reconcile_time: Some(Time(whole_seconds(observed.now))), ..new };
    // Against what is stored: where there is no status, `ready: false` is written and not left out.
    let (old, new) = (to_value(&observed.provider.status), to_value(&new));
    let mut own = new.clone();
    if let (true, Value::Object(members)) = (owns_profiles(&observed.package), &mut own) {
        // Its profiles are the provider's own to write.
        members.remove("profiles");
    }
    match write_status(Kind::ClusterProvider, metadata, &old, &new, own) {
        Some(write) => ProviderPlan::WriteStatus(write),
        None => done,
    }
}

/// What an Event says of a ClusterProvider that goes by force before its Clusters.
fn left_by_force(clusters: &[ObjectKey]) -> Option<String> {
    (!clusters.is_empty()).then(|| {
        format!(
            "deleted by force: nobody looks after {} any more. They and what was made for them may be left; delete each, \
             with annotation {}: \"true\" where it does not go, and remove by hand what is left of it",
            named(clusters.iter().map(|key| format!("Cluster {key}"))),
            names::FORCE_DELETE
        )
    })
}

/// Whether the provider publishes its profiles itself, though it may not run just now.
fn owns_profiles(package: &Package) -> bool {
    match package {
        Package::BuiltIn { .. } => false,
        Package::Outside { .. } => true,
        Package::Refused(refusal) => refusal.keeps(),
    }
}

fn look_again(observed: &ProviderObserved<'_>) -> Option<Duration> {
    match &observed.package {
        Package::Outside { heartbeat, .. } => heartbeat.look_again(observed.now),
        Package::Refused(refusal) => refusal.may_pass.then_some(REFUSED_AGAIN),
        Package::BuiltIn { .. } => None,
    }
}

fn desired_status(observed: &ProviderObserved<'_>, old: &ClusterProviderStatus) -> ClusterProviderStatus {
    let provider = observed.provider;
    let (reason, message) = judge(observed);
    let profiles = match &observed.package {
        // They stay while it is deleted or not ready: its Clusters are not withdrawn, they wait or go on.
        Package::BuiltIn { profiles, .. } => profiles.clone(),
        Package::Outside { .. } => old.profiles.clone(),
        // It is not ready, which keeps new Clusters away; those that are there are not withdrawn for a `chmod`.
        Package::Refused(refusal) if refusal.keeps() => old.profiles.clone(),
        Package::Refused(_) => Vec::new(),
    };
    let ready = reason == ProviderReason::AllGood;
    let generation = provider.metadata.generation;
    let said = Said::new(ConditionType::ProviderReady, ready, reason.as_str(), message.clone());
    let mut new = old.clone();
    put(&mut new.conditions, said.written(&old.conditions, generation, observed.now));
    if let Some(said) = configs_said(&observed.package, old) {
        put(&mut new.conditions, said.written(&old.conditions, generation, observed.now));
    }
    ClusterProviderStatus {
        ready,
        reason: reason.as_str().to_owned(),
        message,
        profiles,
        observed_generation: generation,
        ..new
    }
}

/// What is said of ProviderConfigs: that some cannot be used, or that all can again.
fn configs_said(package: &Package, old: &ClusterProviderStatus) -> Option<Said> {
    let unusable: &[String] = match package {
        Package::BuiltIn { unusable, .. } => unusable,
        // Of its ProviderConfigs a provider of another process says what there is to say.
        Package::Outside { .. } => return None,
        Package::Refused(_) => &[],
    };
    let was_told = find_condition(&old.conditions, ConditionType::ConfigsUsable).is_some();
    if unusable.is_empty() {
        let reason = ProviderReason::AllGood.as_str();
        let message = "each ProviderConfig can be used".to_owned();
        return was_told.then(|| Said::new(ConditionType::ConfigsUsable, true, reason, message));
    }
    let listed = unusable.iter().take(MOST_UNUSABLE).map(String::as_str).collect::<Vec<_>>().join("; ");
    let message = match unusable.len().saturating_sub(MOST_UNUSABLE) {
        0 => listed,
        more => format!("{listed}; and {more} more"),
    };
    let reason = ProviderReason::ConfigNotUsable.as_str();
    Some(Said::new(ConditionType::ConfigsUsable, false, reason, message))
}

/// Whether it takes new Clusters, and what to say of that.
fn judge(observed: &ProviderObserved<'_>) -> (ProviderReason, String) {
    if let Package::Refused(Refusal { reason, message, .. }) = &observed.package {
        return (*reason, message.clone());
    }
    if observed.provider.metadata.deletion_timestamp.is_some() {
        let clusters = named(observed.clusters.iter().map(|key| format!("Cluster {key}")));
        let message = format!("being deleted, waits for {clusters}");
        return match silence(observed) {
            // Its Clusters do not go without it: who waits has to know.
            Some((reason, why)) => (reason, format!("{message}; {why}")),
            None => (ProviderReason::Deleting, message),
        };
    }
    if let Package::BuiltIn { readiness: Readiness::NotReady { reason, message }, .. } = &observed.package {
        return (*reason, message.clone());
    }
    silence(observed).unwrap_or_else(|| (ProviderReason::AllGood, "The provider is ready.".to_owned()))
}

/// Why a provider of another process is not there to act; `None` where it is.
fn silence(observed: &ProviderObserved<'_>) -> Option<(ProviderReason, String)> {
    let Package::Outside { heartbeat, run } = &observed.package else { return None };
    let name = observed.provider.metadata.name.as_deref().unwrap_or_default();
    let lease = format!("{}/{}", names::SYSTEM_NAMESPACE, names::provider_object(name));
    Some(match (heartbeat, run) {
        (Heartbeat::Alive { .. }, _) => return None,
        (Heartbeat::Ahead { beat }, _) => {
            let message = format!(
                "the last heartbeat, renewTime of Lease {lease}, is of {beat}, which is yet to come: set the clocks right"
            );
            (ProviderReason::HeartbeatMissed, message)
        }
        (_, Run::Failed { in_init: true, message }) => (ProviderReason::InitFailed, message.clone()),
        (Heartbeat::Never, Run::Failed { message, .. }) => (ProviderReason::Starting, message.clone()),
        (Heartbeat::Never, Run::Running) => {
            (ProviderReason::Starting, format!("started, waits for its first heartbeat, renewTime of Lease {lease}"))
        }
        (Heartbeat::Missed { last }, run) => {
            let why = match run {
                Run::Failed { message, .. } => format!(": {message}"),
                Run::Running => String::new(),
            };
            let message = format!("no heartbeat since {last}, renewTime of Lease {lease}{why}");
            (ProviderReason::HeartbeatMissed, message)
        }
    })
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
        let profiles = vec![Profile { name: "local".into(), ..Profile::default() }];
        Package::BuiltIn { readiness: Readiness::Ready, profiles, unusable: Vec::new() }
    }

    fn refused(refusal: Refusal) -> Package {
        Package::Refused(refusal)
    }

    fn outside(heartbeat: Heartbeat, run: Run) -> Package {
        Package::Outside { heartbeat, run }
    }

    fn alive() -> Heartbeat {
        Heartbeat::Alive { until: Timestamp::from_second(1_800_000_010).expect("a time") }
    }

    fn missed() -> Heartbeat {
        Heartbeat::Missed { last: Timestamp::from_second(1_799_999_000).expect("a time") }
    }

    fn failed(in_init: bool) -> Run {
        Run::Failed { in_init, message: "it ended".to_owned() }
    }

    #[test]
    fn what_runs_outside_is_served_from_when_it_is_held_to_when_its_last_cluster_went() {
        let held: &[&str] = &[names::PROVIDER_FINALIZER];
        for (finalizers, going, has_clusters, expect) in [
            (&[][..], false, false, false),
            (held, false, false, true),
            (held, false, true, true),
            (held, true, true, true),
            (&[], true, true, true),
            (held, true, false, false),
            (&[], true, false, false),
        ] {
            let plain = provider("x", finalizers, going);
            assert_eq!(is_served(&plain, has_clusters), expect, "{finalizers:?} {going} {has_clusters}");
            let mut forced = plain;
            forced.metadata.annotations = Some([(names::FORCE_DELETE.to_owned(), "true".to_owned())].into());
            assert_eq!(is_served(&forced, has_clusters), expect && !going, "by force: {finalizers:?} {going}");
        }
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
                ProviderPlan::Done { .. } => "done",
                ProviderPlan::AddFinalizer(_) => "hold",
                ProviderPlan::RemoveFinalizer { told, .. } => {
                    assert_eq!(told.is_some(), !clusters.is_empty(), "what may be left is told: {told:?}");
                    "let go"
                }
                ProviderPlan::WriteStatus(_) => "status",
            };
            assert_eq!(word, expect, "{finalizers:?} going {going} with {clusters:?}");
        }
    }

    #[test]
    fn a_provider_that_is_deleted_by_force_does_not_wait_for_its_clusters_and_names_them() {
        let held = &[names::PROVIDER_FINALIZER, "example.com/theirs"][..];
        let cluster = [ObjectKey::new("n", "c")];
        for (going, value, goes) in [(true, "true", true), (true, "false", false), (false, "true", false)] {
            let mut forced = provider("p", held, going);
            forced.metadata.annotations = Some([(names::FORCE_DELETE.to_owned(), value.to_owned())].into());
            match decide(&forced, outside(missed(), Run::Running), &cluster) {
                ProviderPlan::RemoveFinalizer { write: Write::Patch { patch, .. }, told: Some(told) } => {
                    assert!(goes, "going {going}, {value}");
                    let patch = patch.to_value();
                    assert_eq!(patch["metadata"]["finalizers"], json!(["example.com/theirs"]), "others' stay");
                    assert!(told.contains("Cluster n/c") && told.contains("may be left"), "{told}");
                }
                plan => assert!(!goes, "{plan:?}"),
            }
        }
    }

    #[test]
    fn the_status_says_whether_it_is_ready_and_why_not() {
        let cluster = [ObjectKey::new("n", "c")];
        for (package, kind, going, ready, reason, says, profiles) in [
            ("builtin:local", built_in(), false, true, "AllGood", "The provider is ready.", 1),
            ("builtin:local", built_in(), true, false, "Deleting", "waits for Cluster n/c", 1),
            (
                "registry.example/p:v1",
                refused(Refusal::needs_kubernetes("i")),
                false,
                false,
                "PackageNeedsKubernetes",
                "is an image",
                0,
            ),
            ("/bin/sh", refused(Refusal::no_folder("/bin/sh")), false, false, "PackageNotAllowed", "--provider-dir", 0),
            ("/bin/sh", refused(Refusal::no_folder("/bin/sh")), true, false, "PackageNotAllowed", "--provider-dir", 0),
            ("p", outside(Heartbeat::Never, Run::Running), false, false, "Starting", "first heartbeat", 0),
            ("p", outside(Heartbeat::Never, failed(true)), false, false, "InitFailed", "it ended", 0),
            ("p", outside(alive(), Run::Running), false, true, "AllGood", "The provider is ready.", 0),
            ("p", outside(alive(), failed(false)), false, true, "AllGood", "The provider is ready.", 0),
            ("p", outside(alive(), Run::Running), true, false, "Deleting", "waits for Cluster n/c", 0),
            (
                "p",
                outside(missed(), Run::Running),
                true,
                false,
                "HeartbeatMissed",
                "waits for Cluster n/c; no heart",
                0,
            ),
            ("p", outside(missed(), Run::Running), false, false, "HeartbeatMissed", "allot-system/provider-p", 0),
            ("p", outside(missed(), failed(false)), false, false, "HeartbeatMissed", "it ended", 0),
        ] {
            let mut before = provider(package, &[names::PROVIDER_FINALIZER], going);
            let ProviderPlan::WriteStatus(Write::ApplyStatus { object, .. }) = decide(&before, kind.clone(), &cluster)
            else {
                panic!("{package} is told of");
            };
            let told = object.to_value()["status"].take();
            assert_eq!((&told["ready"], &told["reason"]), (&json!(ready), &json!(reason)), "{package}");
            assert!(told["message"].as_str().is_some_and(|message| message.contains(says)), "{package}: {told}");
            assert_eq!(told["profiles"].as_array().map_or(0, Vec::len), profiles, "{package}");
            assert_eq!(told["conditions"][0]["status"], if ready { "True" } else { "False" });
            before.status = serde_json::from_value(told).expect("a status");
            let again = decide(&before, kind, &cluster);
            assert!(matches!(again, ProviderPlan::Done { .. }), "told again, it changes nothing");
        }
    }

    #[test]
    fn profiles_that_a_provider_elsewhere_wrote_are_neither_dropped_nor_owned() {
        let mut before = provider("p", &[names::PROVIDER_FINALIZER], false);
        let own = json!({"ready": false, "profiles": [{"name": "a"}],
            "conditions": [{"type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}]});
        before.status = serde_json::from_value(own).expect("a status");
        let plan = decide(&before, outside(alive(), Run::Running), &[]);
        let ProviderPlan::WriteStatus(Write::ApplyStatus { object, .. }) = plan else { panic!("{plan:?}") };
        let object = object.to_value();
        assert!(object["status"].get("profiles").is_none() && object["status"]["ready"] == true, "{object}");
        let gone = decide(&before, refused(Refusal::needs_kubernetes("p")), &[]);
        let ProviderPlan::WriteStatus(Write::PatchStatus { patch, .. }) = gone else { panic!("{gone:?}") };
        let patch = patch.to_value();
        assert!(patch["status"]["profiles"].is_null(), "what cannot run offers nothing: {patch}");
    }

    #[test]
    fn a_file_that_may_not_run_for_a_moment_costs_no_profiles_and_is_looked_at_again() {
        let mut before = provider("p", &[names::PROVIDER_FINALIZER], false);
        before.status = serde_json::from_value(json!({"ready": true, "profiles": [{"name": "a"}]})).expect("a status");
        let refusal = refused(Refusal::not_as_it_lies("others may write it"));
        let plan = decide(&before, refusal.clone(), &[]);
        let ProviderPlan::WriteStatus(Write::ApplyStatus { object, .. }) = plan else { panic!("{plan:?}") };
        let object = object.to_value();
        let mut told = object["status"].clone();
        assert!(told.get("profiles").is_none() && told["reason"] == "PackageNotAllowed", "{told}");
        told["profiles"] = json!([{"name": "a"}]);
        before.status = serde_json::from_value(told).expect("a status");
        assert_eq!(decide(&before, refusal, &[]), ProviderPlan::Done { again: Some(REFUSED_AGAIN) });
        // What its text alone forbids is not allowed by waiting.
        let by_text = refused(Refusal { may_pass: false, ..Refusal::not_as_it_lies("others may write it") });
        assert_eq!(decide(&before, by_text, &[]), ProviderPlan::Done { again: None });
    }

    #[test]
    fn a_beating_provider_is_looked_at_when_its_beat_ends() {
        let mut before = provider("p", &[names::PROVIDER_FINALIZER], false);
        let ready = decide(&before, outside(alive(), Run::Running), &[]);
        let ProviderPlan::WriteStatus(Write::ApplyStatus { object, .. }) = ready else { panic!("{ready:?}") };
        let object = object.to_value();
        before.status = serde_json::from_value(object["status"].clone()).expect("a status");
        let plan = decide(&before, outside(alive(), Run::Running), &[]);
        let ProviderPlan::Done { again: Some(again) } = plan else { panic!("{plan:?}") };
        assert!(again > Duration::from_secs(9) && again < Duration::from_secs(11), "{again:?}");
    }
}
