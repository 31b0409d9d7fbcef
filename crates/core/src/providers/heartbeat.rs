//! Whether a provider of another process is alive: by its Lease, and nothing else.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// How long a beat counts where the Lease does not say: what the platform writes there.
pub const BEAT_SECS: i32 = 15;
/// The longest that a beat counts, whatever the Lease says: who beats more seldom is not known to live.
const LONGEST_BEAT_SECS: i32 = 600;
/// How far ahead of ours a provider's clock may be; a beat from later is none, since it would count for ever.
const SKEW: SignedDuration = SignedDuration::from_secs(60);

/// What the Lease of a provider says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// It never beat.
    Never,
    /// It lives until then, unless it beats again.
    Alive {
        /// When the last beat ends to count.
        until: Timestamp,
    },
    /// Its last beat does not count any more.
    Missed {
        /// When it was.
        last: Timestamp,
    },
    /// Its last beat is said to have been in the future.
    Ahead {
        /// When it says it was.
        beat: Timestamp,
    },
}

impl Heartbeat {
    /// What that Lease says now; absent where there is none.
    pub fn read(lease: Option<&LeaseSpec>, now: Timestamp) -> Self {
        let Some((spec, last)) = lease.and_then(|spec| Some((spec, spec.renew_time.as_ref()?.0))) else {
            return Heartbeat::Never;
        };
        let seconds = spec.lease_duration_seconds.unwrap_or(BEAT_SECS).clamp(1, LONGEST_BEAT_SECS);
        if last > now.saturating_add(SKEW).unwrap_or(Timestamp::MAX) {
            return Heartbeat::Ahead { beat: last };
        }
        let until = last.saturating_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX);
        if until > now { Heartbeat::Alive { until } } else { Heartbeat::Missed { last } }
    }

    /// Whether it lives.
    pub const fn is_alive(self) -> bool {
        matches!(self, Heartbeat::Alive { .. })
    }

    /// When to look again if nothing is told of it before.
    pub fn look_again(self, now: Timestamp) -> Option<Duration> {
        match self {
            Heartbeat::Alive { until } => {
                // Later by a little: timers are coarser than timestamps.
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                Some(left + Duration::from_millis(1))
            }
            // Once it is not ahead of us any more it counts.
            Heartbeat::Ahead { .. } => Some(Duration::from_secs(1)),
            Heartbeat::Never | Heartbeat::Missed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn lease(renewed: Option<i64>, seconds: Option<i32>) -> LeaseSpec {
        let renew_time = renewed.map(|second| MicroTime(at(second)));
        LeaseSpec { renew_time, lease_duration_seconds: seconds, ..LeaseSpec::default() }
    }

    #[test]
    fn a_beat_counts_for_as_long_as_the_lease_says() {
        for (renewed, seconds, now, expect) in [
            (None, Some(10), 0, Heartbeat::Never),
            (Some(0), Some(10), 9, Heartbeat::Alive { until: at(10) }),
            (Some(0), Some(10), 10, Heartbeat::Missed { last: at(0) }),
            (Some(0), None, 14, Heartbeat::Alive { until: at(15) }),
            (Some(0), Some(0), 0, Heartbeat::Alive { until: at(1) }),
            (Some(0), Some(-5), 2, Heartbeat::Missed { last: at(0) }),
            (Some(0), Some(i32::MAX), 601, Heartbeat::Missed { last: at(0) }),
            (Some(30), Some(10), 0, Heartbeat::Alive { until: at(40) }),
            (Some(86_400), Some(10), 0, Heartbeat::Ahead { beat: at(86_400) }),
        ] {
            let lease = lease(renewed, seconds);
            assert_eq!(Heartbeat::read(Some(&lease), at(now)), expect, "{renewed:?} {seconds:?} at {now}");
        }
        assert_eq!(Heartbeat::read(None, at(0)), Heartbeat::Never);
    }

    proptest! {
        #[test]
        fn who_lives_is_looked_at_when_the_beat_ends_and_is_then_dead(
            renewed in -1000_i64..1000, seconds in any::<Option<i32>>(), now in -1000_i64..1000,
        ) {
            let lease = lease(Some(renewed), seconds);
            let heart = Heartbeat::read(Some(&lease), at(now));
            if let Heartbeat::Alive { until } = heart {
                let wait = heart.look_again(at(now)).expect("a deadline");
                let then = at(now).saturating_add(SignedDuration::try_from(wait).expect("short")).expect("a time");
                prop_assert!(then > until);
                prop_assert!(!Heartbeat::read(Some(&lease), then).is_alive());
                prop_assert!(wait <= Duration::from_secs(661));
            }
        }
    }
}
