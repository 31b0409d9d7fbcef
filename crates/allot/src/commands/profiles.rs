//! What is read of profiles and Shoots from a server, and indexed. Private profiles without what they render to, which is a
//! hundred times what they say themselves: it is rendered here.

use std::fmt::Debug;
use std::sync::Arc;

use allotment_api::catalog::{CloudProfile, KeptProfile, Parts, Shoot, Stored, Unread as UnreadObject};
use allotment_core::catalog::{Catalog, KeptShoot, Offer, Parent, ProfileKey, UnreadProfile};
use allotment_core::write::ObjectKey;
use allotment_machinery::names::dns1123_subdomain;
use anyhow::anyhow;
use kube::Api;

use super::reading::{self, Unread};
use crate::client::{self, Platform};
use crate::output;

/// Private profiles of one page: each comes with its status, up to some hundred kilobytes.
const PRIVATE_PAGE: u32 = 100;
/// CloudProfiles of one page: they are large, and few.
const PROFILE_PAGE: u32 = 50;
/// Most objects whose profile is not there that are told one by one.
const MOST_TOLD: usize = 20;

/// A private profile, and the CloudProfile that it adds to.
pub(super) async fn private_with_parent(
    platform: &Platform,
    namespace: &str,
    name: &str,
) -> anyhow::Result<(KeptProfile, Parent)> {
    let own = Api::<Stored<KeptProfile>>::namespaced(platform.client.clone(), namespace);
    let private = get(&own, "PrivateCloudProfile", &format!("{namespace}/{name}"), name).await?;
    let parent = cloud_profile(platform, &private.spec.parent.name).await?;
    Ok((private, parent.parent))
}

/// A CloudProfile, prepared to be rendered over.
pub(super) async fn cloud_profile(platform: &Platform, name: &str) -> anyhow::Result<Offer> {
    let all = Api::<Stored<CloudProfile>>::all(platform.client.clone());
    Ok(Offer::new(get(&all, "CloudProfile", name, name).await?))
}

/// The same of what may be one; nothing where it is not there, and why where it cannot be read.
pub(super) async fn parent_if_there(platform: &Platform, name: &str) -> anyhow::Result<Option<Result<Parent, String>>> {
    let all = Api::<Stored<CloudProfile>>::all(platform.client.clone());
    let found = all.get_opt(name).await;
    let found = found.map_err(|error| anyhow!("CloudProfile {name}: {}", client::explain(&error)))?;
    Ok(found.map(|found| match found {
        Stored::Read(profile) => Ok(Offer::new(profile).parent),
        Stored::Unread(profile) => {
            Err(format!("of the server cannot be read: {}; put its spec right, or add its file", profile.why))
        }
    }))
}

/// One object; `place` is what it is called in what goes wrong.
pub(super) async fn get<K>(api: &Api<Stored<K>>, kind: &str, place: &str, name: &str) -> anyhow::Result<K>
where
    K: Parts + Clone + Debug,
{
    if let Some(fault) = dns1123_subdomain(name).first() {
        return Err(anyhow!("{kind} {place}: no object is called so: {fault}"));
    }
    match api.get(name).await {
        Ok(Stored::Read(object)) => Ok(object),
        Ok(Stored::Unread(object)) => Err(anyhow!(cannot_be_read(&format!("{kind} {place}"), &object.why))),
        Err(error) => Err(anyhow!("{kind} {place}: {}", client::explain(&error))),
    }
}

fn cannot_be_read(what: &str, why: &str) -> String {
    format!("{what} cannot be read: {why}; put its spec right, or delete it")
}

/// Profiles and Shoots that may be seen.
#[derive(Default)]
pub(super) struct Landscape {
    /// By what uses what.
    pub(super) catalog: Catalog,
    /// The names of the CloudProfiles, in their order.
    pub(super) cloud_profiles: Vec<String>,
    /// What may not be seen or is not there, in words.
    pub(super) unseen: Vec<String>,
    /// Which of that is not there.
    pub(super) absent: Vec<String>,
    /// What cannot be read, in words.
    pub(super) unread: Vec<String>,
    private: Vec<ObjectKey>,
    shoots: Vec<(ObjectKey, Option<ProfileKey>)>,
    /// Whether all private profiles that there may be were seen.
    pub(super) are_private_seen: bool,
    /// Whether all Shoots that there may be were seen.
    pub(super) are_shoots_seen: bool,
}

impl Landscape {
    /// Reads CloudProfiles, and of the private profiles and Shoots of one namespace or of all what may be seen. What may not be
    /// is kept to be told; CloudProfiles have to be seen, since dates, and what a private profile comes to, hang on them.
    pub(super) async fn read(platform: &Platform, namespace: Option<&str>) -> anyhow::Result<Self> {
        // Who uses something comes before what it uses: what a Shoot names is there, if it is at all.
        let mut there = Landscape::users(platform, namespace).await?;
        let kept = |profile: Stored<CloudProfile>| match profile {
            Stored::Read(profile) => Ok(Offer::new(profile)),
            Stored::Unread(profile) => Err(profile),
        };
        let profiles = reading::by_pages::<Stored<CloudProfile>, _, _>(platform, None, PROFILE_PAGE, kept, |_| {});
        let Some(profiles) = there.seen(profiles.await)? else {
            let why = there.unseen.pop().unwrap_or_default();
            return Err(anyhow!("{why}; without CloudProfiles it cannot be told what expires"));
        };
        for profile in profiles {
            match profile {
                Ok(offer) => there.add_profile(offer),
                Err(unread) => there.add_unread_profile(*unread),
            }
        }
        Ok(there)
    }

    /// The private profiles and Shoots of one namespace or of all that may be seen.
    pub(super) async fn users(platform: &Platform, namespace: Option<&str>) -> anyhow::Result<Self> {
        let mut there = Landscape::shoots(platform, namespace).await?;
        there.private_profiles(platform, namespace).await?;
        Ok(there)
    }

    /// The Shoots of one namespace or of all that may be seen.
    pub(super) async fn shoots(platform: &Platform, namespace: Option<&str>) -> anyhow::Result<Self> {
        let mut there = Landscape::default();
        let keep = |shoot: Stored<Shoot>| KeptShoot::from(shoot);
        let shoots = there.seen(reading::each::<Stored<Shoot>, _, _>(platform, namespace, keep, |_| {}).await)?;
        there.are_shoots_seen = shoots.is_some();
        shoots.into_iter().flatten().for_each(|shoot| there.add_shoot(shoot));
        Ok(there)
    }

    /// An object; where it may not be seen, cannot be read or is not there that is kept to be told, and is no error. None has
    /// a name that cannot be one: in a path it would mean something else.
    pub(super) async fn one<K>(&mut self, api: &Api<Stored<K>>, name: &str, place: &str) -> anyhow::Result<Option<K>>
    where
        K: Parts + Clone + Debug,
    {
        if let Some(fault) = dns1123_subdomain(name).first() {
            self.absent.push(place.to_owned());
            self.unseen.push(format!("{place}: no object is called so: {fault}"));
            return Ok(None);
        }
        match api.get(name).await {
            Ok(Stored::Read(found)) => Ok(Some(found)),
            Ok(Stored::Unread(found)) => {
                self.unseen.push(cannot_be_read(place, &found.why));
                Ok(None)
            }
            Err(error) => {
                let why = format!("{place}: {}", client::explain(&error));
                match error {
                    kube::Error::Api(status) if status.code == 404 => self.absent.push(place.to_owned()),
                    kube::Error::Api(status) if status.code == 403 => {}
                    _ => return Err(anyhow!(why)),
                }
                self.unseen.push(why);
                Ok(None)
            }
        }
    }

    /// Adds the private profiles of one namespace or of all that may be seen.
    pub(super) async fn private_profiles(
        &mut self,
        platform: &Platform,
        namespace: Option<&str>,
    ) -> anyhow::Result<()> {
        let kept = |private: Stored<KeptProfile>| private;
        let private = reading::by_pages::<Stored<KeptProfile>, _, _>(platform, namespace, PRIVATE_PAGE, kept, |_| {});
        let private = self.seen(private.await)?;
        self.are_private_seen = private.is_some();
        for private in private.into_iter().flatten() {
            match private {
                Stored::Read(private) => self.add_private(private),
                Stored::Unread(private) => self.add_unread_private(*private),
            }
        }
        Ok(())
    }

    /// What was listed; nothing, with a word about it, where it may not be.
    fn seen<T>(&mut self, listed: Result<Vec<T>, Unread>) -> anyhow::Result<Option<Vec<T>>> {
        match listed {
            Ok(all) => Ok(Some(all)),
            Err(Unread::Failed(error)) => Err(error),
            Err(Unread::Forbidden(why)) => {
                self.unseen.push(why);
                Ok(None)
            }
        }
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

    fn add_unread_profile(&mut self, profile: UnreadObject) {
        let name = profile.metadata.name.clone().unwrap_or_default();
        self.unread.push(cannot_be_read(&format!("CloudProfile {name}"), &profile.why));
        self.catalog.set_unread_profile(&name, Arc::new(UnreadProfile::read(profile)));
    }

    fn add_unread_private(&mut self, profile: UnreadObject) {
        let key = ObjectKey::of(&profile.metadata);
        self.unread.push(cannot_be_read(&format!("PrivateCloudProfile {key}"), &profile.why));
        self.catalog.set_unread_private(&key, Arc::new(UnreadProfile::read(profile)));
    }

    /// Adds a Shoot.
    pub(super) fn add_shoot(&mut self, shoot: KeptShoot) {
        let key = ObjectKey::of(&shoot.metadata);
        match &shoot.unclear {
            None => self.shoots.push((key.clone(), shoot.profile.clone())),
            Some(unclear) => self.unread.push(cannot_be_read(&format!("Shoot {key}"), &unclear.why)),
        }
        self.catalog.set_shoot(&key, Some(Arc::new(shoot)));
    }

    /// That these are all private profiles that there are.
    pub(super) fn whole(mut self) -> Self {
        self.are_private_seen = true;
        self
    }

    /// Says on stderr what may not be seen, or read.
    pub(super) fn tell_unseen(&self, namespace: Option<&str>) {
        let hint = hint(namespace);
        self.unseen.iter().for_each(|why| output::note(&format!("not shown: {why}{hint}")));
        self.unread.iter().take(MOST_TOLD).for_each(|why| output::note(&output::on_a_line(why)));
        match self.unread.len().saturating_sub(MOST_TOLD) {
            0 => {}
            more => output::note(&format!("{more} more cannot be read")),
        }
    }

    /// Says on stderr what may not be seen, and what names something that is not there: of many the first.
    pub(super) fn tell(&self, namespace: Option<&str>) {
        self.tell_unseen(namespace);
        let mut lost = self.lost();
        lost.by_ref().take(MOST_TOLD).for_each(|why| output::note(&output::on_a_line(&format!("not shown: {why}"))));
        match lost.count() {
            0 => {}
            more => output::note(&format!("not shown: {more} more of which the profile is not there")),
        }
    }

    /// What names a profile that is not there, and which.
    fn lost(&self) -> impl Iterator<Item = String> {
        let private = self.private.iter().filter_map(|key| {
            let parent = self.catalog.private(key)?.spec.parent.name.as_str();
            let named = ProfileKey::Cloud(parent.to_owned());
            let is_lost = self.catalog.profile(parent).is_none() && self.catalog.unread(&named).is_none();
            is_lost.then(|| format!("PrivateCloudProfile {key}: there is no CloudProfile {parent:?}"))
        });
        let shoots = self.shoots.iter().filter_map(|(shoot, profile)| {
            let is_unread = profile.as_ref().is_some_and(|profile| self.catalog.unread(profile).is_some());
            let why = match profile {
                _ if is_unread => return None,
                None => "it names no profile".to_owned(),
                Some(ProfileKey::Cloud(name)) if self.catalog.profile(name).is_none() => {
                    format!("there is no CloudProfile {name:?}")
                }
                Some(ProfileKey::Private(key)) if self.are_private_seen && self.catalog.private(key).is_none() => {
                    format!("there is no PrivateCloudProfile {key}")
                }
                Some(_) => return None,
            };
            Some(format!("Shoot {shoot}: {why}"))
        });
        private.chain(shoots)
    }
}

/// What whoever may not list everywhere can do.
fn hint(namespace: Option<&str>) -> &'static str {
    if namespace.is_none() { "; name a namespace of yours with -n" } else { "" }
}
