//! Private profiles that were written lately: those of which a mirror may not know the last state.
//!
//! Whoever changes a CloudProfile is judged by its children, as the mirror shows them. It lags by milliseconds; to list them all
//! anew would take longer than a review may. So what this process let through is remembered until the mirror shows it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use allotment_core::catalog::{Catalog, ProfileKey};
use allotment_core::write::ObjectKey;
use kube::api::ObjectMeta;
use tokio::time::Instant;

/// After that time a mirror that does not show a write will not: it was refused after it was let through.
const LATELY: Duration = Duration::from_secs(30);

/// The writes of private profiles that were let through, the last one last.
#[derive(Debug, Default)]
pub(crate) struct Lately(Mutex<VecDeque<Written>>);

#[derive(Debug)]
struct Written {
    key: ObjectKey,
    /// The version of what was written over; nothing for what is new.
    over: Option<String>,
    at: Instant,
}

impl Lately {
    /// A write over that version of a private profile was let through.
    pub(crate) fn let_through(&self, key: ObjectKey, over: Option<String>) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.push_back(Written { key, over, at: Instant::now() });
    }

    /// Forgets the oldest that the catalog has, or never will have.
    pub(crate) fn forget(&self, shown: Option<&Catalog>) {
        let now = Instant::now();
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while written.front().is_some_and(|first| now - first.at > LATELY || shown.is_some_and(|all| first.is_in(all)))
        {
            written.pop_front();
        }
    }

    /// The private profiles of which that catalog may not have the last state.
    pub(crate) fn not_in(&self, shown: &Catalog) -> BTreeSet<ObjectKey> {
        let now = Instant::now();
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let doubted = written.iter().filter(|one| now - one.at <= LATELY && !one.is_in(shown));
        doubted.map(|one| one.key.clone()).collect()
    }
}

impl Written {
    /// Whether a catalog has what was written, or something later.
    fn is_in(&self, catalog: &Catalog) -> bool {
        // What was there is gone since, or was made a moment ago, which was let through as well.
        let Some(shown) = metadata(catalog, &self.key) else { return self.over.is_some() };
        let number = |text: &str| text.parse::<u64>().ok();
        match (&self.over, shown.resource_version.as_deref()) {
            // What went before it had that name.
            (None, _) => shown.deletion_timestamp.is_none(),
            (Some(over), Some(shown)) => match (number(over), number(shown)) {
                (Some(over), Some(shown)) => shown > over,
                _ => shown != over,
            },
            (Some(_), None) => false,
        }
    }
}

fn metadata<'a>(catalog: &'a Catalog, key: &ObjectKey) -> Option<&'a ObjectMeta> {
    let read = catalog.private(key).map(|profile| &profile.metadata);
    read.or_else(|| catalog.unread(&ProfileKey::Private(key.clone())).map(|profile| &profile.metadata))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new("team", "mine")
    }

    fn shown(metadata: Value) -> Catalog {
        let mut catalog = Catalog::default();
        let profile = json!({"metadata": metadata, "spec": {"parent": "central"}});
        catalog.set_private(&key(), Some(Arc::new(serde_json::from_value(profile).expect("a profile"))));
        catalog
    }

    #[track_caller]
    fn check(over: Option<&str>, shown: &Catalog, is_asked_for: bool) {
        let lately = Lately::default();
        lately.let_through(key(), over.map(str::to_owned));
        assert_eq!(lately.not_in(shown).contains(&key()), is_asked_for, "over {over:?}: {shown:?}");
        lately.forget(None);
        assert_eq!(lately.0.lock().expect("not poisoned").len(), 1);
        lately.forget(Some(shown));
        assert_eq!(lately.0.lock().expect("not poisoned").len(), usize::from(is_asked_for));
    }

    #[test]
    fn what_the_mirror_does_not_show_is_asked_for() {
        let version = |version: &str| shown(json!({"resourceVersion": version}));
        check(None, &Catalog::default(), true);
        check(Some("9"), &Catalog::default(), false);
        check(Some("9"), &version("9"), true);
        check(Some("9"), &version("8"), true);
        check(Some("9"), &version("10"), false);
        check(Some("b"), &version("b"), true);
        check(Some("b"), &version("a"), false);
        check(None, &version("10"), false);
        check(None, &shown(json!({"resourceVersion": "9", "deletionTimestamp": "2026-01-01T00:00:00Z"})), true);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_asked_for_for_ever() {
        let lately = Lately::default();
        lately.let_through(key(), None);
        tokio::time::advance(LATELY).await;
        assert_eq!(lately.not_in(&Catalog::default()).len(), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(lately.not_in(&Catalog::default()).len(), 0);
        lately.forget(None);
        assert_eq!(lately.0.lock().expect("not poisoned").len(), 0);
    }
}
