//! The kinds of the catalog as they are mirrored: CloudProfiles prepared for their private profiles, private profiles without
//! what they are rendered to, of Shoots what they use.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use allotment_api::catalog::{CloudProfile, KeptProfile, Parts, Shoot, Stored, Unread};
use allotment_core::catalog::{KeptShoot, Offer, UnreadProfile};
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};

use super::world::{CatalogWorld, Mirrored};
use crate::frame::{Synced, Tasks, follow_paged};

/// Private profiles of one list call: with what they are rendered to each may have a hundred kilobytes, and more.
const PRIVATE_PAGE: u32 = 100;
/// CloudProfiles, or Shoots, of one list call.
const PAGE: u32 = 500;

/// What is kept of an object, as the mirror takes it; of a profile that cannot be read what is known in spite of that.
#[derive(Clone, Debug)]
pub(crate) enum Followed<T> {
    /// It was read, or is a Shoot.
    Read(Arc<T>),
    /// It is a profile that cannot be read.
    Unread(Arc<UnreadProfile>),
}

/// What is kept of an object of another kind.
pub(crate) trait ReadFrom: Clone + Debug + Send + Sync + 'static {
    /// The kind that it is read from.
    type Kind: Resource<DynamicType = ()> + Parts;
    /// What is kept of it.
    fn read(object: Self::Kind) -> Self;
    /// What is kept of one that cannot be read.
    fn unread(object: Unread) -> Followed<Self> {
        Followed::Unread(Arc::new(UnreadProfile::read(object)))
    }
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Its metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    /// Why it is kept although it cannot be read, if so.
    fn why_unread(&self) -> Option<&str> {
        None
    }
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

impl ReadFrom for KeptProfile {
    type Kind = KeptProfile;

    fn read(profile: KeptProfile) -> Self {
        profile
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

    fn unread(shoot: Unread) -> Followed<Self> {
        Followed::Read(Arc::new(KeptShoot::unread(&shoot)))
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn why_unread(&self) -> Option<&str> {
        self.unclear.as_ref().map(|unclear| unclear.why.as_str())
    }
}

impl<T: ReadFrom> Followed<T> {
    /// What is kept of that object.
    pub(crate) fn of(object: Stored<T::Kind>) -> Self {
        match object {
            Stored::Read(object) => Followed::Read(Arc::new(T::read(object))),
            Stored::Unread(object) => T::unread(*object),
        }
    }

    /// Why it cannot be read, if so.
    pub(crate) fn why_unread(&self) -> Option<&str> {
        match self {
            Followed::Read(object) => object.why_unread(),
            Followed::Unread(object) => Some(&object.why),
        }
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
        match self {
            Followed::Read(object) => object.metadata(),
            Followed::Unread(object) => &object.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Followed::Read(object) => Arc::make_mut(object).metadata_mut(),
            Followed::Unread(object) => &mut Arc::make_mut(object).metadata,
        }
    }
}

/// Follows the CloudProfiles.
pub(crate) fn follow_profiles(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<CatalogWorld>) {
    follow_read::<Offer>(tasks, client, PAGE, synced, world);
}

/// Follows the Shoots.
pub(crate) fn follow_shoots(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<CatalogWorld>) {
    follow_read::<KeptShoot>(tasks, client, PAGE, synced, world);
}

/// Follows the private profiles.
pub(crate) fn follow_private(tasks: &Tasks, client: &Client, synced: &Synced, world: &Arc<CatalogWorld>) {
    follow_read::<KeptProfile>(tasks, client, PRIVATE_PAGE, synced, world);
}

fn follow_read<T>(tasks: &Tasks, client: &Client, page: u32, synced: &Synced, world: &Arc<CatalogWorld>)
where
    T: ReadFrom<Kind: Clone + Debug + Send>,
    Followed<T>: Mirrored,
{
    let (api, synced, world) = (Api::<Stored<T::Kind>>::all(client.clone()), synced.clone(), world.clone());
    tasks.spawn(async move {
        follow_paged(api, page, synced, move |event| {
            world.watched(match event {
                Event::Apply(object) => Event::Apply(Followed::<T>::of(object)),
                Event::Delete(object) => Event::Delete(Followed::<T>::of(object)),
                Event::InitApply(object) => Event::InitApply(Followed::<T>::of(object)),
                Event::Init => Event::Init,
                Event::InitDone => Event::InitDone,
            });
        })
        .await;
    });
}
