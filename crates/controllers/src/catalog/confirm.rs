//! Whether what the mirrors say of users is what the API itself says: before something goes that a user would miss.

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
            let shoots = kind::<KeptShoot>(client, world, Api::namespaced(client.clone(), &key.namespace)).await?;
            Ok(shoots.is_some() && parent(client, world, key).await?)
        }
        ProfileKey::Cloud(_) => {
            let shoots = kind::<KeptShoot>(client, world, Api::all(client.clone())).await?;
            Ok(shoots.is_some() && kind::<KeptProfile>(client, world, Api::all(client.clone())).await?.is_some())
        }
    }
}

/// Brings what is known of the Shoots that use a profile up to what the API says, for one who judges a change of it now and has no
/// time for lists of private profiles, of which each may have a hundred kilobytes. Of these come those that a Shoot uses that
/// was not known. False: there was more than could be asked for.
pub(crate) async fn hear_of_shoots(
    client: &Client,
    world: &CatalogWorld,
    profile: &ProfileKey,
) -> Result<bool, kube::Error> {
    let shoots = match profile {
        ProfileKey::Private(key) => Api::namespaced(client.clone(), &key.namespace),
        ProfileKey::Cloud(_) => Api::all(client.clone()),
    };
    let Some(heard_of) = kind::<KeptShoot>(client, world, shoots).await? else { return Ok(false) };
    let unknown = |catalog: &Catalog, shoot: &ObjectKey| match catalog.shoot(shoot)?.profile.clone()? {
        ProfileKey::Private(key) if catalog.private(&key).is_none() => Some(key),
        _ => None,
    };
    for key in heard_of.iter().filter_map(|shoot| world.with(|catalog| unknown(catalog, shoot))) {
        let api = Api::<Stored<KeptProfile>>::namespaced(client.clone(), &key.namespace);
        if let Some(private) = api.get_opt(&key.name).await? {
            world.seen(Followed::<KeptProfile>::of(private));
        }
    }
    Ok(true)
}

/// The same of the CloudProfile that a private profile is made from: which date holds hangs on it, and what it has no more the
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

/// Asks for what was not known of a kind; what that was. `None`: more than can be asked for.
async fn kind<T>(
    client: &Client,
    world: &CatalogWorld,
    listed: Api<Stored<T::Kind>>,
) -> Result<Option<Vec<ObjectKey>>, kube::Error>
where
    T: ReadFrom<Kind: Resource<Scope = k8s_openapi::NamespaceResourceScope> + Clone + std::fmt::Debug>,
    Followed<T>: Mirrored,
{
    let mut unknown = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let there = listed.list_metadata(&page).await?;
        let metadata = there.items.into_iter().map(|object| object.metadata);
        unknown.extend(
            metadata.filter(|metadata| !world.knows::<Followed<T>>(metadata)).map(|metadata| ObjectKey::of(&metadata)),
        );
        if unknown.len() > MOST_ASKED {
            return Ok(None);
        }
        match there.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    for key in &unknown {
        let api = Api::<Stored<T::Kind>>::namespaced(client.clone(), &key.namespace);
        let Some(object) = api.get_opt(&key.name).await? else { continue };
        let metadata = object.meta().clone();
        world.seen(Followed::<T>::of(object));
        // What the mirror does not take is not known, whatever the reason.
        if !world.knows::<Followed<T>>(&metadata) {
            return Ok(None);
        }
    }
    Ok(Some(unknown))
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
}
