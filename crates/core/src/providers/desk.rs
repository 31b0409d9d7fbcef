//! When a provider of another process is asked for admin access to one of its Clusters, and when its answer is used.
//!
//! # Flow
//! [`decide_desk`] looks at what is known of one Cluster: nothing yet, asked, answered, not answered. An answer serves
//! for less than it was asked for; who does not answer in time is asked again, later and later.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::requests::whole_seconds;

/// How long an answer is asked for: 15 minutes, less what clocks may differ by.
const ASKED_FOR: SignedDuration = SignedDuration::from_secs(15 * 60 - 30);
/// How long before the end of what was asked for an answer is used no longer: time to do one thing inside a Cluster.
const SPARE: SignedDuration = SignedDuration::from_secs(60);
/// How long a provider may take to answer.
pub const ANSWER_LIMIT: SignedDuration = SignedDuration::from_secs(30);
/// How many Clusters of one provider it may be asked about at once: each answer takes some KiB of one Secret.
pub const MOST_ASKED: usize = 64;
/// The first and the longest wait before a provider is asked again that did not answer.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(5);
const LONGEST_RETRY: SignedDuration = SignedDuration::from_secs(300);

/// What is known of admin access to one Cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sitting {
    /// Nothing was asked.
    #[default]
    Nothing,
    /// It was asked for and not answered.
    Asked {
        /// When.
        at: Timestamp,
        /// Questions before this one that were not answered.
        failures: u32,
    },
    /// The answer is there.
    Answered {
        /// Until when it was asked for.
        until: Timestamp,
    },
    /// It was not answered in time.
    Silent {
        /// When it was given up.
        since: Timestamp,
        /// Questions that were not answered, one after another.
        failures: u32,
    },
}

/// What to do for who wants admin access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeskStep {
    /// Use the answer.
    Use,
    /// Ask until that time.
    Ask {
        /// When the access is to end.
        until: Timestamp,
        /// Questions before this one that were not answered.
        failures: u32,
    },
    /// Wait for the answer, this long at most.
    Wait(Duration),
    /// Take the question back: the time is over.
    GiveUp {
        /// Questions that were not answered by now.
        failures: u32,
    },
    /// Ask later.
    Later(Duration),
    /// Too many questions are open; ask when others are answered.
    Full,
    /// Do not ask: the provider does not live.
    Dead,
}

/// What to do for who wants admin access to a Cluster, `open` questions to its provider having no answer yet.
pub fn decide_desk(sitting: Sitting, open: usize, alive: bool, now: Timestamp) -> DeskStep {
    let after = |time: Timestamp, wait: SignedDuration| time.saturating_add(wait).unwrap_or(Timestamp::MAX);
    let left = |end: Timestamp| Duration::try_from(end.duration_since(now)).unwrap_or_default();
    let ask = |failures| match (alive, open < MOST_ASKED) {
        (false, _) => DeskStep::Dead,
        (true, false) => DeskStep::Full,
        (true, true) => DeskStep::Ask { until: whole_seconds(after(now, ASKED_FOR)), failures },
    };
    match sitting {
        Sitting::Nothing => ask(0),
        Sitting::Answered { until } if after(now, SPARE) < until => DeskStep::Use,
        Sitting::Answered { .. } => ask(0),
        Sitting::Asked { at, failures } => {
            let end = after(at, ANSWER_LIMIT);
            // A clock that was set back must not make anybody wait for ever.
            let sound = at <= now;
            if sound && now < end {
                DeskStep::Wait(left(end))
            } else {
                DeskStep::GiveUp { failures: failures.saturating_add(1) }
            }
        }
        Sitting::Silent { since, failures } => {
            let again = after(since, retry(failures));
            if since <= now && now < again { DeskStep::Later(left(again)) } else { ask(failures) }
        }
    }
}

fn retry(failures: u32) -> SignedDuration {
    let doubled = 1_i32 << failures.saturating_sub(1).min(10);
    FIRST_RETRY.saturating_mul(doubled).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    #[test]
    fn an_answer_is_waited_for_used_and_asked_anew() {
        let asked = |second, failures| Sitting::Asked { at: at(second), failures };
        let silent = |second, failures| Sitting::Silent { since: at(second), failures };
        let until = Sitting::Answered { until: at(870) };
        for (sitting, open, alive, now, expect) in [
            (Sitting::Nothing, 0, true, 0, DeskStep::Ask { until: at(870), failures: 0 }),
            (Sitting::Nothing, 64, true, 0, DeskStep::Full),
            (Sitting::Nothing, 0, false, 0, DeskStep::Dead),
            (asked(0, 0), 1, true, 10, DeskStep::Wait(Duration::from_secs(20))),
            (asked(0, 0), 1, false, 10, DeskStep::Wait(Duration::from_secs(20))),
            (asked(0, 0), 1, true, 30, DeskStep::GiveUp { failures: 1 }),
            (asked(50, 2), 1, true, 0, DeskStep::GiveUp { failures: 3 }),
            (silent(0, 1), 0, true, 1, DeskStep::Later(Duration::from_secs(4))),
            (silent(0, 1), 0, true, 5, DeskStep::Ask { until: at(875), failures: 1 }),
            (silent(0, 3), 0, true, 5, DeskStep::Later(Duration::from_secs(15))),
            (silent(0, 99), 0, true, 299, DeskStep::Later(Duration::from_secs(1))),
            (until, 0, true, 809, DeskStep::Use),
            (until, 0, false, 809, DeskStep::Use),
            (until, 0, true, 810, DeskStep::Ask { until: at(1680), failures: 0 }),
        ] {
            assert_eq!(decide_desk(sitting, open, alive, at(now)), expect, "{sitting:?} at {now}");
        }
    }

    proptest! {
        #[test]
        fn no_question_is_for_more_than_fifteen_minutes_nor_one_too_many(
            now in 0_i64..10_000, then in 0_i64..10_000, failures in 0_u32..80, open in 0_usize..70, which in 0..4,
        ) {
            let sitting = match which {
                0 => Sitting::Nothing,
                1 => Sitting::Asked { at: at(then), failures },
                2 => Sitting::Answered { until: at(then) },
                _ => Sitting::Silent { since: at(then), failures },
            };
            match decide_desk(sitting, open, true, at(now)) {
                DeskStep::Ask { until, .. } => {
                    prop_assert!(until <= at(now + 15 * 60) && open < MOST_ASKED);
                }
                DeskStep::Wait(wait) => prop_assert!(wait <= Duration::from_secs(30)),
                DeskStep::Later(wait) => prop_assert!(wait <= Duration::from_secs(300)),
                DeskStep::Use => prop_assert!(at(now) < at(then)),
                DeskStep::GiveUp { .. } | DeskStep::Full | DeskStep::Dead => {}
            }
        }
    }
}
