//! What many share and change together, and nobody trusts once a change of it broke off.

use std::panic::resume_unwind;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Alarm;

const TORN: &str = "a change of what is known of the objects panicked half-way";

/// Mirrors and indexes that have to agree. A panic in the middle of a change leaves them disagreeing, and nothing tells how: then
/// the alarm is rung, and whoever looks is unwound as well, so that nothing is decided on them.
#[derive(Debug, Default)]
pub(crate) struct Shared<T> {
    state: RwLock<T>,
    alarm: Alarm,
}

impl<T> Shared<T> {
    pub(crate) fn new(state: T, alarm: Alarm) -> Self {
        Shared { state: RwLock::new(state), alarm }
    }

    /// A look; nothing where a change broke off. For whoever has an answer without.
    pub(crate) fn whole(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.state.read().map_err(|_| self.alarm.ring(TORN)).ok()
    }

    /// A look. Never held across an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.state.read().unwrap_or_else(|_| self.torn())
    }

    /// A change, which comes to its end or makes all of it unusable.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.state.write().unwrap_or_else(|_| self.torn())
    }

    fn torn(&self) -> ! {
        self.alarm.ring(TORN);
        // No new panic, which would be told on standard error for each look.
        resume_unwind(Box::new(TORN))
    }
}

#[cfg(test)]
mod tests {
    use super::super::alarm::caught_at_once;
    use super::*;

    #[test]
    fn after_a_change_that_broke_off_nobody_sees_anything_and_the_alarm_is_rung() {
        let alarm = Alarm::default();
        let shared = Shared::new(0, alarm.clone());
        let fault = |work: &dyn Fn()| caught_at_once("planted", work);
        assert_eq!(fault(&|| panic!("{}", *shared.read())), None);
        assert_eq!((*shared.read(), alarm.why()), (0, None), "a look changes nothing");
        assert_eq!(shared.whole().map(|state| *state), Some(0));
        let half = || {
            *shared.write() = 1;
            let _state = shared.write();
            panic!("planted")
        };
        assert_eq!(fault(&half), None);
        assert!(shared.whole().is_none());
        assert_eq!(fault(&|| drop(shared.read())), None);
        assert!(alarm.why().is_some_and(|why| why.contains("half-way")));
        assert_eq!(fault(&|| drop(shared.write())), None);
    }
}
