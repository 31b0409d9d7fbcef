//! What is read of profiles and Shoots from a server, and indexed. Private profiles without what they render to, which is a
//! hundred times what they say themselves: it is rendered here.

use std::fmt::Debug;
use std::sync::Arc;

use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot};
use allotment_core::catalog::{Catalog, KeptShoot, Offer, Parent, ProfileKey};
use allotment_core::write::ObjectKey;
use anyhow::anyhow;
use kube::Api;
use serde::de::DeserializeOwned;

use super::reading::{self, Unread};
use crate::client::{self, Platform};
use crate::output;

/// Private profiles of one page: each comes with its status, up to some hundred kilobytes.
const PRIVATE_PAGE: u32 = 100;
/// CloudProfiles of one page: they are large, and few.
const PROFILE_PAGE: u32 = 50;
/// How many kinds a catalog is made of.
const KINDS: usize = 3;

/// A private profile, and the CloudProfile that it adds to.
pub(super) async fn private_with_parent(
    platform: &Platform,
    namespace: &str,
    name: &str,
) -> anyhow::Result<(KeptProfile, Parent)> {
    let own = Api::<KeptProfile>::namespaced(platform.client.clone(), namespace);
    let private = get(&own, "PrivateCloudProfile", &format!("{namespace}/{name}"), name).await?;
    let parent = cloud_profile(platform, &private.spec.parent.name).await?;
    Ok((private, parent.parent))
}

/// A CloudProfile, prepared to be rendered over.
pub(super) async fn cloud_profile(platform: &Platform, name: &str) -> anyhow::Result<Offer> {
    let all = Api::<CloudProfile>::all(platform.client.clone());
    Ok(Offer::new(get(&all, "CloudProfile", name, name).await?))
}

/// One object; `place` is what it is called in what goes wrong.
pub(super) async fn get<K>(api: &Api<K>, kind: &str, place: &str, name: &str) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    api.get(name).await.map_err(|error| anyhow!("{kind} {place}: {}", client::explain(&error)))
}

/// Profiles and Shoots that may be seen.
#[derive(Default)]
pub(super) struct Landscape {
    /// By what uses what.
    pub(super) catalog: Catalog,
    /// The names of the CloudProfiles, in their order.
    pub(super) cloud_profiles: Vec<String>,
    /// What may not be listed, in words.
    pub(super) unseen: Vec<String>,
    private: Vec<ObjectKey>,
    shoots: Vec<(ObjectKey, Option<ProfileKey>)>,
    /// Whether all private profiles that there may be were seen.
    are_private_seen: bool,
}

impl Landscape {
    /// Reads what may be seen, private profiles and Shoots of one namespace or of all. What may not be is kept to be told;
    /// it is an error if that is everything.
    pub(super) async fn read(platform: &Platform, namespace: Option<&str>) -> anyhow::Result<Self> {
        let mut there = Landscape::default();
        // Who uses something comes after what it uses: what a Shoot names is there, if it is at all.
        let shoots = reading::each::<Shoot, Shoot, _>(platform, namespace, |shoot| KeptShoot::read(&shoot), |_| {});
        let shoots = there.seen(shoots.await)?;
        let kept = |private: KeptProfile| private;
        let private = reading::by_pages::<KeptProfile, KeptProfile, _>(platform, namespace, PRIVATE_PAGE, kept, |_| {});
        let private = there.seen(private.await)?;
        let profiles =
            reading::by_pages::<CloudProfile, CloudProfile, _>(platform, None, PROFILE_PAGE, Offer::new, |_| {});
        let profiles = there.seen(profiles.await)?;
        there.are_private_seen = private.is_some();
        profiles.into_iter().flatten().for_each(|offer| there.add_profile(offer));
        private.into_iter().flatten().for_each(|private| there.add_private(private));
        shoots.into_iter().flatten().for_each(|shoot| there.add_shoot(shoot));
        if there.unseen.len() == KINDS {
            return Err(anyhow!("{}{}", there.unseen.swap_remove(0), hint(namespace)));
        }
        Ok(there)
    }

    /// What was listed; nothing, with a word about it, where it may not be.
    fn seen<T>(&mut self, listed: Result<Vec<T>, Unread>) -> anyhow::Result<Option<Vec<T>>> {
        seen(listed, &mut self.unseen)
    }

    /// Adds a CloudProfile.
    pub(super) fn add_profile(&mut self, offer: Offer) {
        let name = offer.parent.name().to_owned();
        self.catalog.set_profile(&name, Some(Arc::new(offer)));
        self.cloud_profiles.push(name);
        self.cloud_profiles.sort_unstable();
        self.cloud_profiles.dedup();
    }

    /// Adds a private profile.
    pub(super) fn add_private(&mut self, private: KeptProfile) {
        let key = ObjectKey::of(&private.metadata);
        self.catalog.set_private(&key, Some(Arc::new(private)));
        self.private.push(key);
    }

    /// Adds a Shoot.
    pub(super) fn add_shoot(&mut self, shoot: KeptShoot) {
        let key = ObjectKey::of(&shoot.metadata);
        self.shoots.push((key.clone(), shoot.profile.clone()));
        self.catalog.set_shoot(&key, Some(Arc::new(shoot)));
    }

    /// That these are all private profiles that there are.
    pub(super) fn whole(mut self) -> Self {
        self.are_private_seen = true;
        self
    }

    /// Says on stderr what may not be seen, and what names something that is not there.
    pub(super) fn tell(&self, namespace: Option<&str>) {
        let hint = hint(namespace);
        self.unseen.iter().for_each(|why| output::note(&format!("not shown: {why}{hint}")));
        for key in &self.private {
            let parent = self.catalog.private(key).map(|private| private.spec.parent.name.as_str());
            if let Some(parent) = parent.filter(|parent| self.catalog.profile(parent).is_none()) {
                output::note(&format!("not shown: PrivateCloudProfile {key}: there is no CloudProfile {parent:?}"));
            }
        }
        for (shoot, profile) in &self.shoots {
            let why = match profile {
                None => "it names no profile".to_owned(),
                Some(ProfileKey::Cloud(name)) if self.catalog.profile(name).is_none() => {
                    format!("there is no CloudProfile {name:?}")
                }
                Some(ProfileKey::Private(key)) if self.are_private_seen && self.catalog.private(key).is_none() => {
                    format!("there is no PrivateCloudProfile {key}")
                }
                Some(_) => continue,
            };
            output::note(&format!("not shown: Shoot {shoot}: {why}"));
        }
    }
}

/// What was listed; nothing, with a word about it in `unseen`, where it may not be.
pub(super) fn seen<T>(listed: Result<Vec<T>, Unread>, unseen: &mut Vec<String>) -> anyhow::Result<Option<Vec<T>>> {
    match listed {
        Ok(all) => Ok(Some(all)),
        Err(Unread::Failed(error)) => Err(error),
        Err(Unread::Forbidden(why)) => {
            unseen.push(why);
            Ok(None)
        }
    }
}

/// What whoever may not list everywhere can do.
pub(super) fn hint(namespace: Option<&str>) -> &'static str {
    if namespace.is_none() { "; name a namespace of yours with -n" } else { "" }
}
