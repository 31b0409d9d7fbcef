//! What is known of the catalog: its index, mirrors that guard it against going back in time, and the queue of profiles that
//! have to be looked at. Synchronous; nothing here waits or calls.

use std::collections::BTreeSet;
use std::sync::{Arc, RwLockReadGuard};
use std::time::Duration;

use allotment_api::catalog::KeptProfile;
use allotment_core::catalog::{Catalog, KeptShoot, Offer, ProfileKey};
use kube::Resource;
use kube::runtime::watcher::Event;
use tracing::{info, warn};

use super::dates::Dates;
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
    private: Mirror<Followed<KeptProfile>>,
    shoots: Mirror<Followed<KeptShoot>>,
}

/// The catalog, shared by watches and controllers.
#[derive(Debug, Default)]
pub(crate) struct CatalogWorld {
    state: Shared<State>,
    /// Profiles of both kinds; CloudProfiles are those without a namespace.
    pub(crate) queue: Arc<Queue<ObjectKey>>,
    /// When which of them has to be looked at although nothing changes.
    pub(super) dates: Dates,
    /// Shoots that cannot be read, of which that is still to be told.
    pub(crate) unread_shoots: Arc<Queue<ObjectKey>>,
}

/// A kind that the catalog mirrors.
pub(crate) trait Mirrored: Resource<DynamicType = ()> + Clone + Sized + Send + Sync + 'static {
    /// Where its objects are kept.
    fn mirror(state: &mut State) -> &mut Mirror<Self>;
    /// The same to read.
    fn mirrored(state: &State) -> &Mirror<Self>;
    /// Brings the index up to date.
    fn index(catalog: &mut Catalog, change: &Change<Self>);
    /// The profile that has to be looked at when it changes: itself, if it is one.
    fn itself(change: &Change<Self>) -> Option<ObjectKey>;
    /// Why it cannot be read, if so.
    fn why_unread(&self) -> Option<&str>;
    /// Has others looked at whom the change concerns; `catalog` is as it is afterwards.
    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>);
}

impl CatalogWorld {
    /// Nothing yet. The alarm is rung when a change of it panicked half-way.
    pub(crate) fn ringing(alarm: Alarm) -> Self {
        CatalogWorld { state: Shared::new(State::default(), alarm), ..CatalogWorld::default() }
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

    /// The API says that an object is not there any more.
    pub(super) fn gone<K: Mirrored>(&self, key: &ObjectKey, uid: &str) {
        self.change(true, |state| K::mirror(state).forget(key, uid).into_iter().collect());
    }

    /// Which object of that key is known.
    pub(super) fn uid_of<K: Mirrored>(&self, key: &ObjectKey) -> Option<String> {
        K::mirrored(&self.read()).get(key)?.meta().uid.clone()
    }

    /// What is known, in a namespace or in all, and missing in a list of that version; with UIDs. What is newer than the list
    /// may well be there.
    pub(super) fn not_among<K: Mirrored>(
        &self,
        namespace: Option<&str>,
        listed: &BTreeSet<ObjectKey>,
        at: Option<&str>,
    ) -> Vec<(ObjectKey, String)> {
        let Some(at) = number(at) else { return Vec::new() };
        let state = self.read();
        let is_old =
            |object: &K| number(object.meta().resource_version.as_deref()).is_some_and(|version| version <= at);
        let missing = |(key, object): (&ObjectKey, &Arc<K>)| {
            let is_missing = !listed.contains(key) && is_old(object);
            object.meta().uid.clone().filter(|_| is_missing).map(|uid| (key.clone(), uid))
        };
        let known = K::mirrored(&state);
        match namespace {
            Some(namespace) => known.in_namespace(namespace).filter_map(missing).collect(),
            None => known.iter().filter_map(missing).collect(),
        }
    }

    /// Whether an object is known in that state or a later one.
    pub(crate) fn knows<K: Mirrored>(&self, metadata: &kube::api::ObjectMeta) -> bool {
        let state = self.read();
        let Some(known) = K::mirrored(&state).get(&ObjectKey::of(metadata)) else { return false };
        let (have, listed) = (known.meta().resource_version.as_deref(), metadata.resource_version.as_deref());
        match (number(have), number(listed)) {
            (Some(have), Some(listed)) => have >= listed,
            _ => have == listed,
        }
    }

    /// Says once of an object that it cannot be read, and that it can be again.
    fn tell_unread<K: Mirrored>(&self, change: &Change<K>) {
        let why = |side: &Option<Arc<K>>| side.as_ref().and_then(|object| object.why_unread().map(str::to_owned));
        let (before, after) = (why(&change.before), why(&change.after));
        if before == after {
            return;
        }
        let (kind, key) = (K::kind(&()), &change.key);
        match after {
            Some(why) => {
                warn!(%kind, object = %key, %why, "it cannot be read and is passed over; put its spec right or delete it");
                if K::itself(change).is_none() {
                    self.unread_shoots.add(key.clone());
                }
            }
            None => info!(%kind, object = %key, "what could not be read is put right or gone"),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn change<K: Mirrored>(&self, wakes_itself: bool, change: impl FnOnce(&mut State) -> Vec<Change<K>>) {
        let mut state = self.state.write();
        for change in change(&mut state) {
            K::index(&mut state.catalog, &change);
            self.tell_unread(&change);
            if let Some(key) = K::itself(&change).filter(|_| wakes_itself) {
                self.queue.add(key);
            }
            K::wake(&state.catalog, &self.queue, &change);
        }
    }
}

/// A resource version as a number, as Kubernetes allows since 1.35.
fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// The queue's key of a profile.
pub(super) fn key_of(profile: &ProfileKey) -> ObjectKey {
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
    let is_going =
        is_going || catalog.unread(profile).is_some_and(|unread| unread.metadata.deletion_timestamp.is_some());
    queue.add_after(key_of(profile), if is_going { Duration::ZERO } else { GATHER });
}

/// CloudProfiles that may be the parent of a private profile which cannot be read are used by more, fewer or others.
fn parents_changed(catalog: &Catalog, queue: &Queue<ObjectKey>, parent: Option<&String>) {
    let tell = |name: &String| users_changed(catalog, queue, &ProfileKey::Cloud(name.clone()));
    match parent {
        Some(name) => tell(name),
        None => catalog.profile_names().for_each(tell),
    }
}

impl Mirrored for Followed<Offer> {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.profiles
    }

    fn mirrored(state: &State) -> &Mirror<Self> {
        &state.profiles
    }

    fn index(catalog: &mut Catalog, change: &Change<Self>) {
        let name = &change.key.name;
        match change.after.as_deref() {
            Some(Followed::Read(offer)) => catalog.set_profile(name, Some(offer.clone())),
            Some(Followed::Unread(profile)) => catalog.set_unread_profile(name, profile.clone()),
            None => catalog.set_profile(name, None),
        }
    }

    fn itself(change: &Change<Self>) -> Option<ObjectKey> {
        Some(change.key.clone())
    }

    fn why_unread(&self) -> Option<&str> {
        Followed::why_unread(self)
    }

    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>) {
        fn offer(side: &Option<Arc<Followed<Offer>>>) -> Option<&Arc<Offer>> {
            match side.as_deref()? {
                Followed::Read(offer) => Some(offer),
                Followed::Unread(_) => None,
            }
        }
        let as_children_see_it = |side: &Option<Arc<Self>>| {
            let whole = side.as_ref()?;
            let metadata = whole.meta();
            Some((
                metadata.uid.clone(),
                metadata.generation,
                metadata.deletion_timestamp.is_some(),
                offer(side).is_some(),
            ))
        };
        let same_spec = || {
            let spec = |side| offer(side).map(|offer| offer.parent.spec().clone());
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

impl Mirrored for Followed<KeptProfile> {
    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.private
    }

    fn mirrored(state: &State) -> &Mirror<Self> {
        &state.private
    }

    fn index(catalog: &mut Catalog, change: &Change<Self>) {
        match change.after.as_deref() {
            Some(Followed::Read(profile)) => catalog.set_private(&change.key, Some(profile.clone())),
            Some(Followed::Unread(profile)) => catalog.set_unread_private(&change.key, profile.clone()),
            None => catalog.set_private(&change.key, None),
        }
    }

    fn itself(change: &Change<Self>) -> Option<ObjectKey> {
        Some(change.key.clone())
    }

    fn why_unread(&self) -> Option<&str> {
        Followed::why_unread(self)
    }

    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>) {
        let same_for_parent = match (change.before.as_deref(), change.after.as_deref()) {
            (Some(Followed::Read(before)), Some(Followed::Read(after))) => {
                before.spec == after.spec && before.status.conditions == after.status.conditions
            }
            (Some(Followed::Unread(before)), Some(Followed::Unread(after))) => before.parent == after.parent,
            _ => false,
        };
        if same_for_parent {
            return;
        }
        for side in [&change.before, &change.after].into_iter().flatten() {
            parents_changed(
                catalog,
                queue,
                match side.as_ref() {
                    Followed::Read(profile) => Some(&profile.spec.parent.name),
                    Followed::Unread(profile) => profile.parent.as_ref(),
                },
            );
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
        catalog.set_shoot(&change.key, shoot(&change.after).cloned());
    }

    fn itself(_change: &Change<Self>) -> Option<ObjectKey> {
        None
    }

    fn why_unread(&self) -> Option<&str> {
        Followed::why_unread(self)
    }

    fn wake(catalog: &Catalog, queue: &Queue<ObjectKey>, change: &Change<Self>) {
        if let (Some(before), Some(after)) = (shoot(&change.before), shoot(&change.after))
            && before.uses_the_same(after)
        {
            return;
        }
        for side in [&change.before, &change.after].into_iter().filter_map(shoot) {
            if side.unclear.as_ref().is_some_and(|unclear| unclear.profile) {
                for profile in catalog.open_to(&change.key.namespace) {
                    users_changed(catalog, queue, &profile);
                }
            }
            let Some(profile) = &side.profile else { continue };
            users_changed(catalog, queue, profile);
            let ProfileKey::Private(key) = profile else { continue };
            if let Some(private) = catalog.private(key) {
                parents_changed(catalog, queue, Some(&private.spec.parent.name));
            } else if let Some(private) = catalog.unread(profile) {
                parents_changed(catalog, queue, private.parent.as_ref());
            }
        }
    }
}

fn shoot(side: &Option<Arc<Followed<KeptShoot>>>) -> Option<&Arc<KeptShoot>> {
    match side.as_deref()? {
        Followed::Read(shoot) => Some(shoot),
        // Shoots are kept as such, be they readable or not.
        Followed::Unread(_) => None,
    }
}
