//! The kinds of the catalog as they are mirrored: CloudProfiles prepared for their private profiles, private profiles without
//! what they are rendered to, of Shoots what they use.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot};
use allotment_core::catalog::{KeptShoot, Offer};
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};

use super::world::{CatalogWorld, Mirrored};
use crate::frame::{Synced, Tasks, follow_paged};

/// Private profiles of one list call: with what they are rendered to each may have a hundred kilobytes, and more.
const PRIVATE_PAGE: u32 = 100;
/// CloudProfiles, or Shoots, of one list call.
const PAGE: u32 = 500;

/// What is kept of an object, as the mirror takes it.
#[derive(Clone, Debug)]
pub(crate) struct Followed<T>(pub(crate) Arc<T>);

/// What is kept of an object of another kind.
pub(crate) trait ReadFrom: Clone + Debug + Send + Sync + 'static {
    /// The kind that it is read from.
    type Kind: Resource<DynamicType = ()>;
    /// What is kept of it.
    fn read(object: Self::Kind) -> Self;
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Its metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
}

impl ReadFrom for Offer {
    type Kind = CloudProfile;

    fn read(profile: CloudProfile) -> Self {
        Offer::new(profile)
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl ReadFrom for KeptShoot {
    type Kind = Shoot;

    fn read(shoot: Shoot) -> Self {
        KeptShoot::read(&shoot)
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<T: ReadFrom> Followed<T> {
    /// What is kept of that object.
    pub(crate) fn read(object: T::Kind) -> Self {
        Followed(Arc::new(T::read(object)))
    }
}

impl<T: ReadFrom> Resource for Followed<T> {
    type DynamicType = ();
    type Scope = <T::Kind as Resource>::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        T::Kind::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        T::Kind::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        T::Kind::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        T::Kind::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        Arc::make_mut(&mut self.0).metadata_mut()
    }
}

/// Follows the CloudProfiles.
pub(crate) fn follow_profiles(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<CatalogWorld>) {
    follow_read::<CloudProfile, Offer>(tasks, client, synced, world);
}

/// Follows the Shoots.
pub(crate) fn follow_shoots(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<CatalogWorld>) {
    follow_read::<Shoot, KeptShoot>(tasks, client, synced, world);
}

/// Follows the private profiles.
pub(crate) fn follow_private(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<CatalogWorld>) {
    let (api, synced, world) = (Api::<KeptProfile>::all(client.clone()), synced.clone(), world.clone());
    tasks.spawn(follow_paged(api, PRIVATE_PAGE, synced, move |event| world.watched(event)));
}

fn follow_read<K, T>(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<CatalogWorld>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + serde::de::DeserializeOwned + Send + 'static,
    T: ReadFrom<Kind = K>,
    Followed<T>: Mirrored,
{
    let (api, synced, world) = (Api::<K>::all(client.clone()), synced.clone(), world.clone());
    tasks.spawn(async move {
        follow_paged(api, PAGE, synced, move |event| {
            world.watched(match event {
                Event::Apply(object) => Event::Apply(Followed::<T>::read(object)),
                Event::Delete(object) => Event::Delete(Followed::<T>::read(object)),
                Event::InitApply(object) => Event::InitApply(Followed::<T>::read(object)),
                Event::Init => Event::Init,
                Event::InitDone => Event::InitDone,
            });
        })
        .await;
    });
}
