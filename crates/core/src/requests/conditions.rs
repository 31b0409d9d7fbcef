//! Conditions: reading one, and setting one so that only a change is a change.

use allotment_api::reasons::ConditionType;
use allotment_api::requests::Cluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The condition of a type.
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

/// Puts a condition in the place of the one of its type; all others are somebody else's.
pub(crate) fn put(conditions: &mut Vec<Condition>, condition: Condition) {
    match conditions.iter_mut().find(|have| have.type_ == condition.type_) {
        Some(have) => *have = condition,
        None => conditions.push(condition),
    }
}

/// Whether a Cluster has a condition, with status True.
pub(crate) fn is_true(cluster: &Cluster, kind: ConditionType) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| &status.conditions);
    kind.is_true(conditions)
}

/// What a condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its type.
    pub kind: ConditionType,
    /// True, False or, for `None`, Unknown.
    pub status: Option<bool>,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

impl Said {
    /// A condition that is true or false.
    pub fn new(kind: ConditionType, status: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Said { kind, status: Some(status), reason, message: message.into() }
    }

    /// The condition, with the time of its last change taken from `old` where its status is the same.
    pub fn written(&self, old: &[Condition], generation: Option<i64>, now: Timestamp) -> Condition {
        let status = match self.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let since =
            find(old, self.kind).filter(|have| have.status == status).map(|have| have.last_transition_time.clone());
        Condition {
            type_: self.kind.as_str().to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message.clone(),
            observed_generation: generation,
            last_transition_time: since.unwrap_or_else(|| Time(whole_seconds(now))),
        }
    }
}

/// The time as the API stores it.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
