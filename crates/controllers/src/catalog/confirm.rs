//! Whether what the mirrors say of users is what the API itself says: before something goes that a user would miss.

use std::collections::BTreeSet;

use allotment_api::catalog::{CloudProfile, KeptProfile, Stored};
use allotment_core::catalog::{Catalog, KeptShoot, Offer, ProfileKey};
use allotment_machinery::names::dns1123_subdomain;
use kube::api::ListParams;
use kube::{Api, Client, Resource};

use super::followed::{Followed, ReadFrom};
use super::world::{CatalogWorld, Mirrored};
use crate::frame::ObjectKey;

/// Most objects that are asked for one by one; if the mirrors lag by more, they are given time.
const MOST_ASKED: usize = 100;
/// Objects of one list call.
const PAGE: u32 = 500;

/// Brings what is known of a profile's users up to what the API says now, by lists of metadata that no cache answers.
/// False: too much is not known yet.
pub(super) async fn catch_up(client: &Client, world: &CatalogWorld, profile: &ProfileKey) -> Result<bool, kube::Error> {
    match profile {
        ProfileKey::Private(key) => {
            let shoots = kind::<KeptShoot>(client, world, Some(&key.namespace)).await?;
            Ok(shoots && parent(client, world, key).await?)
        }
        ProfileKey::Cloud(_) => {
            let shoots = kind::<KeptShoot>(client, world, None).await?;
            Ok(shoots && kind::<KeptProfile>(client, world, None).await?)
        }
    }
}

/// Brings what is known of a profile's users up to what the API says, for one who judges a change of it now and has no
/// time for lists of private profiles, of which each may have a hundred kilobytes. Of these come those that are `doubted`, and
/// those that a Shoot uses and nobody knows, however many. False: there were more new Shoots than could be asked for.
pub(crate) async fn hear_of_users(
    client: &Client,
    world: &CatalogWorld,
    profile: &ProfileKey,
    doubted: &BTreeSet<ObjectKey>,
) -> Result<bool, kube::Error> {
    if let ProfileKey::Private(key) = profile {
        return kind::<KeptShoot>(client, world, Some(&key.namespace)).await;
    }
    let heard = kind::<KeptShoot>(client, world, None).await?;
    // A Shoot may be known before the profile that was there before it.
    let unknown = world.with(Catalog::used_and_unknown);
    for key in doubted.union(&unknown) {
        hear_of_private(client, world, key).await?;
    }
    Ok(heard)
}

async fn hear_of_private(client: &Client, world: &CatalogWorld, key: &ObjectKey) -> Result<(), kube::Error> {
    if !dns1123_subdomain(&key.name).is_empty() {
        return Ok(());
    }
    let before = world.uid_of::<Followed<KeptProfile>>(key);
    let api = Api::<Stored<KeptProfile>>::namespaced(client.clone(), &key.namespace);
    match (api.get_opt(&key.name).await?, before) {
        (Some(private), _) => world.seen(Followed::<KeptProfile>::of(private)),
        (None, Some(uid)) => world.gone::<Followed<KeptProfile>>(key, &uid),
        (None, None) => {}
    }
    Ok(())
}

/// Brings up to date the CloudProfile that a private profile is made from: which date holds hangs on it, and what it has no more the
/// private profile may be the last to have.
async fn parent(client: &Client, world: &CatalogWorld, key: &ObjectKey) -> Result<bool, kube::Error> {
    let name = world.with(|catalog| Some(catalog.private(key)?.spec.parent.name.clone()));
    let Some(name) = name.filter(|name| dns1123_subdomain(name).is_empty()) else { return Ok(true) };
    let all = Api::<Stored<CloudProfile>>::all(client.clone());
    let Some(there) = all.get_metadata_opt(&name).await? else {
        return Ok(world.with(|catalog| catalog.profile(&name).is_none()));
    };
    if world.knows::<Followed<Offer>>(&there.metadata) {
        return Ok(true);
    }
    let Some(profile) = all.get_opt(&name).await? else { return Ok(false) };
    let metadata = profile.meta().clone();
    world.seen(Followed::<Offer>::of(profile));
    Ok(world.knows::<Followed<Offer>>(&metadata))
}

/// Asks for what was not known of a kind, in a namespace or in all, and forgets what is not there any more. False: that is
/// more than can be asked for.
async fn kind<T>(client: &Client, world: &CatalogWorld, namespace: Option<&str>) -> Result<bool, kube::Error>
where
    T: ReadFrom<Kind: Resource<Scope = k8s_openapi::NamespaceResourceScope> + Clone + std::fmt::Debug>,
    Followed<T>: Mirrored,
{
    let all: Api<Stored<T::Kind>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let (mut there, mut unknown, mut listed_at) = (BTreeSet::new(), Vec::new(), None);
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = all.list_metadata(&page).await?;
        listed_at = listed_at.or(listed.metadata.resource_version);
        for object in listed.items {
            let key = ObjectKey::of(&object.metadata);
            if !world.knows::<Followed<T>>(&object.metadata) {
                unknown.push(key.clone());
            }
            there.insert(key);
        }
        if unknown.len() > MOST_ASKED {
            return Ok(false);
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    for (key, uid) in world.not_among::<Followed<T>>(namespace, &there, listed_at.as_deref()) {
        world.gone::<Followed<T>>(&key, &uid);
    }
    for key in &unknown {
        let api = Api::<Stored<T::Kind>>::namespaced(client.clone(), &key.namespace);
        let Some(object) = api.get_opt(&key.name).await? else { continue };
        let metadata = object.meta().clone();
        world.seen(Followed::<T>::of(object));
        // What the mirror does not take is not known, whatever the reason.
        if !world.knows::<Followed<T>>(&metadata) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::client::Body;
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn profile(version: &str, images: &[&str]) -> Value {
        let versions: Vec<Value> = images.iter().map(|image| json!({"version": image})).collect();
        json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile",
            "metadata": {"name": "central", "uid": "c", "resourceVersion": version},
            "spec": {"type": "local", "machineImages": [{"name": "linux", "versions": versions}]}})
    }

    /// A server that has that CloudProfile, or none, and no Shoots.
    fn server(profile: Option<Value>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = match (request.uri().path().ends_with("/cloudprofiles/central"), &profile) {
                (false, _) => json!({"metadata": {"resourceVersion": "9"}, "items": []}),
                (true, Some(profile)) => profile.clone(),
                (true, None) => json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
            };
            let code = if answer["code"] == 404 { 404 } else { 200 };
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(response.expect("a response")) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_private_profile_is_looked_at_with_its_parent_as_it_is_now() {
        for (there, is_up_to_date, versions) in [
            (Some(profile("3", &["1.0.0"])), true, 1),
            // Its operator dropped the version since.
            (Some(profile("5", &[])), true, 0),
            // It is gone, and the mirror has not heard of that.
            (None, false, 1),
        ] {
            let world = CatalogWorld::default();
            let known: CloudProfile = serde_json::from_value(profile("3", &["1.0.0"])).expect("a profile");
            world.watched(Event::Apply(Followed::<Offer>::of(Stored::Read(known))));
            let private = json!({"metadata": {"name": "mine", "namespace": "team", "uid": "p", "resourceVersion": "4"},
                "spec": {"parent": "central"}});
            let private: KeptProfile = serde_json::from_value(private).expect("a profile");
            let key = ObjectKey::of(&private.metadata);
            world.watched(Event::Apply(Followed::<KeptProfile>::of(Stored::Read(private))));
            let caught_up = catch_up(&server(there.clone()), &world, &ProfileKey::Private(key)).await;
            assert_eq!(caught_up.expect("an answer"), is_up_to_date, "{there:?}");
            let offer: Option<Arc<Offer>> = world.with(|catalog| catalog.profile("central").cloned());
            let images = offer.expect("it is known").parent.spec().machine_images.clone();
            assert_eq!(images[0].versions.len(), versions, "{there:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_listed_any_more_is_forgotten_unless_it_is_newer_than_the_list() {
        // That server lists no Shoots, as of version 9.
        for (version, is_kept) in [("3", false), ("9", false), ("10", true), ("newest", true)] {
            let world = CatalogWorld::default();
            let shoot = json!({"metadata": {"name": "s", "namespace": "team", "uid": "s", "resourceVersion": version},
                "spec": {"cloudProfileName": "central"}});
            let shoot = serde_json::from_value(shoot).expect("a Shoot");
            world.watched(Event::Apply(Followed::<KeptShoot>::of(Stored::Read(shoot))));
            let profile = ProfileKey::Cloud("central".to_owned());
            let heard = hear_of_users(&server(None), &world, &profile, &BTreeSet::new()).await;
            assert!(heard.expect("an answer"));
            let count = world.with(|catalog| catalog.shoots_on(&profile).count());
            assert_eq!(count, usize::from(is_kept), "version {version}");
        }
    }
}
