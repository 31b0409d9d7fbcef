//! Conditions: set by type, with the time of the last change of their status kept.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition as it should be; the times follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired<'a> {
    /// Its type.
    pub type_: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Machine-readable, CamelCase.
    pub reason: &'a str,
    /// For people.
    pub message: String,
}

/// Sets one condition and leaves all others as they are.
pub fn set(conditions: &mut Vec<Condition>, desired: Desired<'_>, generation: Option<i64>, now: Timestamp) {
    let existing = conditions.iter_mut().find(|condition| condition.type_ == desired.type_);
    match existing {
        Some(condition) => {
            if condition.status != desired.status {
                desired.status.clone_into(&mut condition.status);
                condition.last_transition_time = Time(now);
            }
            desired.reason.clone_into(&mut condition.reason);
            condition.message = desired.message;
            condition.observed_generation = generation;
        }
        None => conditions.push(Condition {
            type_: desired.type_.to_owned(),
            status: desired.status.to_owned(),
            reason: desired.reason.to_owned(),
            message: desired.message,
            observed_generation: generation,
            last_transition_time: Time(now),
        }),
    }
}

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let at = |seconds| Timestamp::from_second(seconds).expect("in range");
        let desired =
            |status, message: &str| Desired { type_: "Ready", status, reason: "R", message: message.to_owned() };
        let mut conditions = Vec::new();
        set(&mut conditions, desired("False", "a"), Some(1), at(1));
        set(&mut conditions, desired("False", "b"), Some(2), at(2));
        assert_eq!(conditions[0].last_transition_time.0, at(1));
        assert_eq!((conditions[0].message.as_str(), conditions[0].observed_generation), ("b", Some(2)));
        set(&mut conditions, desired("True", "c"), Some(2), at(3));
        assert_eq!(conditions[0].last_transition_time.0, at(3));
        assert!(is_true(&conditions, "Ready"));
        assert_eq!(conditions.len(), 1);
    }
}
