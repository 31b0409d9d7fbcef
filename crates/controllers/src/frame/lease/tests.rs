//! When a Lease is free, and the proportions of its times. What follows from them is tested in `landscape`.

use super::*;

fn sight(holder: Option<&str>, seconds: i32, since: Instant) -> Sight {
    let spec = LeaseSpec {
        holder_identity: holder.map(str::to_owned),
        lease_duration_seconds: Some(seconds),
        ..LeaseSpec::default()
    };
    Sight { spec: Some(spec), since }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_free_once_it_is_released_or_has_not_changed_for_its_time() {
    let since = Instant::now();
    let check = |sight: Sight, after: u64, expect: bool| {
        assert_eq!(sight.is_free("me", since + Duration::from_secs(after)), expect, "after {after} s");
    };
    check(sight(Some("a"), 15, since), 0, false);
    check(sight(Some("a"), 15, since), 14, false);
    check(sight(Some("a"), 15, since), 15, true);
    check(sight(Some(""), 15, since), 0, true);
    check(sight(Some("me"), 15, since), 0, true);
    check(sight(None, 15, since), 0, true);
    check(Sight { spec: None, since }, 0, true);
}

#[test]
fn a_holder_stops_before_others_may_begin() {
    for seconds in [3, 15, 60] {
        let pace = Pace::new(Duration::from_secs(seconds));
        assert!(pace.acting() + pace.look_every() < pace.duration, "{pace:?}");
    }
}
