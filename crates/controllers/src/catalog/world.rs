//! What is known of the catalog: its index, mirrors that guard it against going back in time, and the queue of profiles that
//! have to be looked at. Synchronous; nothing here waits or calls.

use std::sync::{Arc, RwLockReadGuard};
use std::time::Duration;

use allotment_api::catalog::KeptProfile;
use allotment_core::catalog::{Catalog, KeptShoot, Offer, ProfileKey};
use kube::Resource;
use kube::runtime::watcher::Event;

use super::followed::Followed;
use crate::frame::{Alarm, Change, Mirror, ObjectKey, Queue, Shared};

/// How long a profile that counts or names its users waits for further ones to come or go. A thousand may at once, and
/// each status is a hundred kilobytes; whoever waits is not made to wait longer by those who come.
const GATHER: Duration = Duration::from_secs(1);

/// All that is known of the catalog.
#[derive(Debug, Default)]
pub(crate) struct State {
    catalog: Catalog,
    profiles: Mirror<Followed<Offer>>,
    private: Mirror<KeptProfile>,
    shoots: Mirror<Followed<KeptShoot>>,
}

/// The catalog, shared by watches and controllers.
#[derive(Debug, Default)]
pub(crate) struct CatalogWorld {
    state: Shared<State>,
    /// Profiles of both kinds; CloudProfiles are those without a namespace.
    pub(crate) queue: Arc<Queue<ObjectKey>>,
}

/// A kind that the catalog mirrors.
pub(crate) trait Mirrored: Resource + Clone + Sized + Send + Sync + 'static {
    /// Where its objects are kept.
    fn mirror(state: &mut State) -> &mut Mirror<Self>;
    /// The same to read.
    fn mirrored(state: &State) -> &Mirror<Self>;
    /// Brings the index up to date.
    fn index(catalog: &mut Catalog, change: &Change<Self>);
    /// The profile that has to be looked at when it changes: itself, if it is one.
    fn itself(change: &Change<Self>) -> Option<ObjectKey>;
    /// Has others looked at whom the change concerns; `catalog` is as it is afterwards.
    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>);
}

impl CatalogWorld {
    /// Nothing yet. The alarm is rung when a change of it panicked half-way.
    pub(crate) fn ringing(alarm: Alarm) -> Self {
        CatalogWorld { state: Shared::new(State::default(), alarm), queue: Arc::default() }
    }

    /// Looks at all that is known. Never across an await.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        look(&self.read().catalog)
    }

    /// Takes in what a watch says.
    pub(crate) fn watched<K: Mirrored>(&self, event: Event<K>) {
        self.change(true, |state| K::mirror(state).watched(event));
    }

    /// Takes in what a write or a read of ours was answered with.
    pub(crate) fn seen<K: Mirrored>(&self, object: K) {
        self.change(true, |state| K::mirror(state).written(object).into_iter().collect());
    }

    /// Takes in a profile that was just given the status that it should have: it need not be looked at for that.
    pub(crate) fn settled<K: Mirrored>(&self, object: K) {
        self.change(false, |state| K::mirror(state).written(object).into_iter().collect());
    }

    /// Whether an object is known in that state or a later one.
    pub(crate) fn knows<K: Mirrored>(&self, metadata: &kube::api::ObjectMeta) -> bool {
        let state = self.read();
        let Some(known) = K::mirrored(&state).get(&ObjectKey::of(metadata)) else { return false };
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<u64>().ok());
        let (have, listed) = (&known.meta().resource_version, &metadata.resource_version);
        match (number(have), number(listed)) {
            (Some(have), Some(listed)) => have >= listed,
            _ => have == listed,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn change<K: Mirrored>(&self, wakes_itself: bool, change: impl FnOnce(&mut State) -> Vec<Change<K>>) {
        let mut state = self.state.write();
        for change in change(&mut state) {
            K::index(&mut state.catalog, &change);
            if let Some(key) = K::itself(&change).filter(|_| wakes_itself) {
                self.queue.add(key);
            }
            K::wake(&state.catalog, &self.queue, &change);
        }
    }
}

/// The queue's key of a profile.
fn key_of(profile: &ProfileKey) -> ObjectKey {
    match profile {
        ProfileKey::Cloud(name) => ObjectKey::cluster_wide(name.clone()),
        ProfileKey::Private(key) => key.clone(),
    }
}

/// The profile that a key of the queue means.
pub(super) fn profile_of(key: &ObjectKey) -> ProfileKey {
    match key.namespace.as_str() {
        "" => ProfileKey::Cloud(key.name.clone()),
        _ => ProfileKey::Private(key.clone()),
    }
}

/// A profile is used by more, fewer or others: looked at soon, or at once where its end waits for that.
fn users_changed(catalog: &Catalog, queue: &Queue<ObjectKey>, profile: &ProfileKey) {
    let is_going = match profile {
        ProfileKey::Cloud(name) => catalog.profile(name).is_some_and(|offer| offer.is_going()),
        ProfileKey::Private(key) => {
            catalog.private(key).is_some_and(|profile| profile.metadata.deletion_timestamp.is_some())
        }
    };
    queue.add_after(key_of(profile), if is_going { Duration::ZERO } else { GATHER });
}

impl Mirrored for Followed<Offer> {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.profiles
    }

    fn mirrored(state: &State) -> &Mirror<Self> {
        &state.profiles
    }

    fn index(catalog: &mut Catalog, change: &Change<Self>) {
        catalog.set_profile(&change.key.name, change.after.as_ref().map(|offer| offer.0.clone()));
    }

    fn itself(change: &Change<Self>) -> Option<ObjectKey> {
        Some(change.key.clone())
    }

    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>) {
        let as_children_see_it = |side: &Option<Arc<Self>>| {
            let offer = &side.as_ref()?.0;
            Some((offer.metadata.uid.clone(), offer.metadata.generation, offer.is_going()))
        };
        let same_spec = || {
            let spec = |side: &Option<Arc<Self>>| side.as_ref().map(|offer| offer.0.parent.spec().clone());
            spec(&change.before) == spec(&change.after)
        };
        if as_children_see_it(&change.before) == as_children_see_it(&change.after) && same_spec() {
            return;
        }
        for (child, _) in catalog.children(&change.key.name) {
            queue.add(child.clone());
        }
    }
}

impl Mirrored for KeptProfile {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.private
    }

    fn mirrored(state: &State) -> &Mirror<Self> {
        &state.private
    }

    fn index(catalog: &mut Catalog, change: &Change<Self>) {
        catalog.set_private(&change.key, change.after.clone());
    }

    fn itself(change: &Change<Self>) -> Option<ObjectKey> {
        Some(change.key.clone())
    }

    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>) {
        let sides = change.before.as_ref().zip(change.after.as_ref());
        let same_for_parent = sides.is_some_and(|(before, after)| {
            before.spec == after.spec && before.status.conditions == after.status.conditions
        });
        if same_for_parent {
            return;
        }
        for side in [&change.before, &change.after].into_iter().flatten() {
            users_changed(catalog, queue, &ProfileKey::Cloud(side.spec.parent.name.clone()));
        }
    }
}

impl Mirrored for Followed<KeptShoot> {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.shoots
    }

    fn mirrored(state: &State) -> &Mirror<Self> {
        &state.shoots
    }

    fn index(catalog: &mut Catalog, change: &Change<Self>) {
        catalog.set_shoot(&change.key, change.after.as_ref().map(|shoot| shoot.0.clone()));
    }

    fn itself(_change: &Change<Self>) -> Option<ObjectKey> {
        None
    }

    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>) {
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && before.0.uses_the_same(&after.0)
        {
            return;
        }
        for side in [&change.before, &change.after].into_iter().flatten() {
            let Some(profile) = &side.0.profile else { continue };
            users_changed(catalog, queue, profile);
            if let ProfileKey::Private(key) = profile
                && let Some(private) = catalog.private(key)
            {
                users_changed(catalog, queue, &ProfileKey::Cloud(private.spec.parent.name.clone()));
            }
        }
    }
}
