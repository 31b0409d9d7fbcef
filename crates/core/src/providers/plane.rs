//! The provider's part of one Cluster: its finalizer, what it is asked to do, and what the status says of
//! its answer.

use std::time::Duration;

use allotment_api::names;
use allotment_api::reasons::{ClusterConditionReason, ConditionType};
use allotment_api::requests::{Cluster, ClusterPhase, ClusterStatus, KubernetesVersion};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::requests::{
    Said, add_finalizer, find_condition, has_finalizer, put, remove_finalizer, to_value, whole_seconds,
};
use crate::write::{Kind, Write, without_nulls, write_status};

/// When to ask again for a cluster that is being made or removed by something that does not tell.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// When to ask again for a cluster elsewhere that is unwell: as long as it has been so, within these bounds.
const UNWELL_AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// How a cluster does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Healthy {
        /// The Kubernetes version that it runs.
        version: String,
    },
    /// It is being made.
    Progressing {
        /// What it waits for.
        message: String,
    },
    /// It does not answer.
    Unhealthy {
        /// Why, for machines.
        reason: ClusterConditionReason,
        /// For people.
        message: String,
    },
}

/// How far the removal of a cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nothing is left of it.
    Gone,
    /// Something is left; ask again.
    Going,
    /// It cannot go as things are; ask again.
    Waiting {
        /// Why, for machines.
        reason: ClusterConditionReason,
        /// For people: what it waits for and what to do.
        message: String,
    },
}

/// What the provider said in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was not asked.
    None,
    /// It brought the cluster nearer to what is ordered.
    Served(Health),
    /// It was asked to take the cluster away.
    Removed(Removal),
}

/// What is known when a provider's part of a Cluster is decided.
#[derive(Clone, Debug)]
pub struct PlaneObserved<'a> {
    /// The Cluster as it is stored.
    pub cluster: &'a Cluster,
    /// The provider's finalizer.
    pub finalizer: &'a str,
    /// Whether its profile is published: nothing is begun for one of a profile that is not.
    pub published: bool,
    /// Whether the cluster is elsewhere, where not all that makes it well again can be seen from here.
    pub remote: bool,
    /// What the provider said in this pass.
    pub answer: &'a Answer,
    /// The time now.
    pub now: Timestamp,
}

/// The next step for a provider's part of a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanePlan {
    /// Nothing, until something changes or, where given, after that time.
    Done {
        /// When to ask the provider again.
        again: Option<Duration>,
    },
    /// Take the Cluster under the provider's finalizer, before anything is made for it.
    AddFinalizer(Write),
    /// Ask the provider to bring the cluster nearer to what is ordered, and decide again with its answer.
    Serve,
    /// Ask the provider to take the cluster away, and decide again with its answer.
    Remove,
    /// Say in the status how the cluster does.
    WriteStatus(Write),
    /// Let the Cluster go: nothing is left of it.
    RemoveFinalizer(Write),
}

/// The next step for a provider's part of a Cluster.
pub fn decide_plane(observed: &PlaneObserved<'_>) -> PlanePlan {
    let metadata = &observed.cluster.metadata;
    let going = metadata.deletion_timestamp.is_some();
    let held = has_finalizer(metadata, observed.finalizer);
    if !held && (going || !observed.published) {
        return PlanePlan::Done { again: None };
    }
    if going && !has_finalizer(metadata, names::CLUSTER_FINALIZER) {
        return match observed.answer {
            Answer::Removed(Removal::Gone) => match remove_finalizer(Kind::Cluster, metadata, observed.finalizer) {
                Some(write) => PlanePlan::RemoveFinalizer(write),
                None => PlanePlan::Done { again: None },
            },
            Answer::Removed(Removal::Going) => PlanePlan::Done { again: Some(ASK_AGAIN) },
            Answer::Removed(Removal::Waiting { reason, message }) => {
                let health = Health::Unhealthy { reason: *reason, message: message.clone() };
                match report(observed, &health, going) {
                    PlanePlan::Done { .. } => PlanePlan::Done { again: Some(ASK_AGAIN) },
                    told => told,
                }
            }
            Answer::None | Answer::Served(_) => PlanePlan::Remove,
        };
    }
    if let Some(write) = add_finalizer(Kind::Cluster, metadata, observed.finalizer).filter(|_| !going) {
        return PlanePlan::AddFinalizer(write);
    }
    // One that is being deleted and still in use goes on for whoever uses it.
    match observed.answer {
        Answer::Served(health) => report(observed, health, going),
        Answer::None | Answer::Removed(_) => PlanePlan::Serve,
    }
}

fn report(observed: &PlaneObserved<'_>, health: &Health, going: bool) -> PlanePlan {
    let cluster = observed.cluster;
    let old = cluster.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let (truth, reason, message, phase) = match health {
        Health::Healthy { version } => {
            new.kubernetes = Some(KubernetesVersion { version: Some(version.clone()) });
            (true, ClusterConditionReason::AllGood, "the control plane answers", ClusterPhase::Succeeded)
        }
        Health::Progressing { message } => {
            (false, ClusterConditionReason::NotReported, message.as_str(), ClusterPhase::Progressing)
        }
        Health::Unhealthy { reason, message } => (false, *reason, message.as_str(), ClusterPhase::Failed),
    };
    let said = Said::new(ConditionType::ClusterHealthy, truth, reason.as_str(), message);
    put(&mut new.conditions, said.written(&old.conditions, cluster.metadata.generation, observed.now));
    new.phase = Some(if going { ClusterPhase::Deleting } else { phase });
    if new == old {
        let again = match health {
            Health::Progressing { .. } => (!going).then_some(ASK_AGAIN),
            Health::Unhealthy { .. } => observed.remote.then(|| unwell_again(&old, observed.now)),
            Health::Healthy { .. } => None,
        };
        return PlanePlan::Done { again };
    }
    let new = ClusterStatus { last_reconcile_time: Some(Time(whole_seconds(observed.now))), ..new };
    let own = json!({
        "phase": new.phase, "kubernetes": new.kubernetes, "lastReconcileTime": new.last_reconcile_time,
        "conditions": [(find_condition(&new.conditions, ConditionType::ClusterHealthy))],
    });
    match write_status(Kind::Cluster, &cluster.metadata, &to_value(&old), &to_value(&new), without_nulls(own)) {
        Some(write) => PlanePlan::WriteStatus(write),
        None => PlanePlan::Done { again: None },
    }
}

fn unwell_again(status: &ClusterStatus, now: Timestamp) -> Duration {
    let since = find_condition(&status.conditions, ConditionType::ClusterHealthy)
        .and_then(|said| Duration::try_from(now.duration_since(said.last_transition_time.0)).ok());
    let (least, most) = UNWELL_AGAIN;
    since.unwrap_or(least).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const OURS: &str = "local.cluster.openmcp.cloud/plane";
    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 5);

    fn cluster(finalizers: &[&str], going: bool, status: Value) -> Cluster {
        let mut object = json!({"apiVersion": names::API_VERSION, "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
                "finalizers": finalizers},
            "spec": {"clusterProviderRef": {"name": "local", "profile": "local"}, "kubernetes": {}, "purposes": []},
            "status": status});
        if going {
            object["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        }
        serde_json::from_value(object).expect("a Cluster")
    }

    fn decide(cluster: &Cluster, answer: &Answer) -> PlanePlan {
        decide_plane(&PlaneObserved { cluster, finalizer: OURS, published: true, remote: false, answer, now: NOW })
    }

    fn waiting() -> Removal {
        Removal::Waiting { reason: ClusterConditionReason::Unreachable, message: "no answer".into() }
    }

    fn word(plan: &PlanePlan) -> &'static str {
        match plan {
            PlanePlan::Done { again: None } => "done",
            PlanePlan::Done { again: Some(_) } => "again",
            PlanePlan::AddFinalizer(_) => "hold",
            PlanePlan::Serve => "serve",
            PlanePlan::Remove => "remove",
            PlanePlan::WriteStatus(_) => "report",
            PlanePlan::RemoveFinalizer(_) => "let go",
        }
    }

    #[test]
    fn of_a_profile_that_is_not_published_nothing_is_made_and_what_is_there_goes_on() {
        let plan = |finalizers: &[&str]| {
            let cluster = cluster(finalizers, false, Value::Null);
            let answer = &Answer::None;
            word(&decide_plane(&PlaneObserved {
                cluster: &cluster,
                finalizer: OURS,
                published: false,
                remote: false,
                answer,
                now: NOW,
            }))
        };
        assert_eq!(plan(&[names::CLUSTER_FINALIZER]), "done");
        assert_eq!(plan(&[names::CLUSTER_FINALIZER, OURS]), "serve");
    }

    #[test]
    fn a_cluster_is_held_before_it_is_made_and_let_go_after_it_is_gone() {
        let healthy = Answer::Served(Health::Healthy { version: "1.36.3".into() });
        let platform = names::CLUSTER_FINALIZER;
        for (finalizers, going, answer, expect) in [
            (&[][..], false, Answer::None, "hold"),
            (&[platform], false, Answer::None, "hold"),
            (&[OURS], false, Answer::None, "serve"),
            (&[OURS], false, healthy.clone(), "report"),
            (&[OURS, platform], true, Answer::None, "serve"),
            (&[OURS, platform], true, healthy.clone(), "report"),
            (&[OURS], true, Answer::None, "remove"),
            (&[OURS], true, healthy, "remove"),
            (&[OURS], true, Answer::Removed(Removal::Going), "again"),
            (&[OURS], true, Answer::Removed(waiting()), "report"),
            (&[OURS], true, Answer::Removed(Removal::Gone), "let go"),
            (&[platform], true, Answer::None, "done"),
            (&[], true, Answer::None, "done"),
        ] {
            let plan = decide(&cluster(finalizers, going, Value::Null), &answer);
            assert_eq!(word(&plan), expect, "{finalizers:?} going {going} {answer:?}");
        }
    }

    #[test]
    fn a_cluster_elsewhere_that_is_unwell_is_asked_for_again_ever_more_rarely() {
        let taken = Health::Unhealthy { reason: ClusterConditionReason::Unreachable, message: "no answer".into() };
        let answer = Answer::Served(taken);
        let mut before = cluster(&[OURS], false, Value::Null);
        let PlanePlan::WriteStatus(Write::ApplyStatus { object, .. }) = decide(&before, &answer) else {
            panic!("it is told");
        };
        let object = object.to_value();
        before.status = serde_json::from_value(object["status"].clone()).expect("a status");
        for (later, remote, expect) in
            [(0, true, Some(5)), (12, true, Some(12)), (3600, true, Some(30)), (12, false, None)]
        {
            let now = Timestamp::from_second(NOW.as_second() + later).expect("a time");
            let observed =
                PlaneObserved { cluster: &before, finalizer: OURS, published: true, remote, answer: &answer, now };
            let again = expect.map(Duration::from_secs);
            assert_eq!(decide_plane(&observed), PlanePlan::Done { again }, "{later} s later, remote {remote}");
        }
    }

    #[test]
    fn a_cluster_that_cannot_be_removed_says_why_once_and_is_asked_for_again() {
        let mut before = cluster(&[OURS], true, Value::Null);
        let answer = Answer::Removed(waiting());
        let PlanePlan::WriteStatus(Write::ApplyStatus { object, .. }) = decide(&before, &answer) else {
            panic!("it is told");
        };
        let object = object.to_value();
        assert_eq!(object["status"]["phase"], "Deleting");
        assert_eq!(object["status"]["conditions"][0]["reason"], "Unreachable");
        before.status = serde_json::from_value(object["status"].clone()).expect("a status");
        assert_eq!(word(&decide(&before, &answer)), "again");
    }

    #[test]
    fn the_status_says_what_the_provider_said_once_and_keeps_what_others_said() {
        let others = json!({"type": "Withdrawn", "status": "False", "reason": "Published", "message": "",
            "lastTransitionTime": "2027-01-01T00:00:00Z"});
        let unhealthy = |reason| Health::Unhealthy { reason, message: "no answer".into() };
        for (health, going, phase, status, reason, again) in [
            (Health::Healthy { version: "1.36.3".into() }, false, "Succeeded", "True", "AllGood", "done"),
            (Health::Healthy { version: "1.36.3".into() }, true, "Deleting", "True", "AllGood", "done"),
            (Health::Progressing { message: "soon".into() }, false, "Progressing", "False", "NotReported", "again"),
            (Health::Progressing { message: "never".into() }, true, "Deleting", "False", "NotReported", "done"),
            (unhealthy(ClusterConditionReason::NotServed), false, "Failed", "False", "NotServed", "done"),
        ] {
            let mut before = cluster(&[OURS, names::CLUSTER_FINALIZER], going, json!({"conditions": [others]}));
            let answer = Answer::Served(health);
            let PlanePlan::WriteStatus(Write::ApplyStatus { object, .. }) = decide(&before, &answer) else {
                panic!("{answer:?} is told");
            };
            let object = object.to_value();
            assert_eq!(object["metadata"]["resourceVersion"], "7");
            let mut told = object["status"].clone();
            assert_eq!(told["phase"], phase, "{answer:?}");
            let said = told["conditions"][0].clone();
            assert_eq!(told["conditions"].as_array().map(Vec::len), Some(1), "what others say is theirs");
            told["conditions"] = json!([others, said]);
            assert_eq!(
                (&said["type"], &said["status"], &said["reason"]),
                (&json!("ClusterHealthy"), &json!(status), &json!(reason))
            );
            assert_eq!(said["lastTransitionTime"], "2027-01-15T08:00:00Z", "whole seconds");
            before.status = serde_json::from_value(told).expect("a status");
            assert_eq!(word(&decide(&before, &answer)), again, "told again, it changes nothing: {answer:?}");
        }
    }
}
