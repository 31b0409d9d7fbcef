//! Whether what the mirrors say of users is what the API itself says: before something goes that a user would miss.

use allotment_api::catalog::{KeptProfile, Stored};
use allotment_core::catalog::{KeptShoot, ProfileKey};
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
pub(crate) async fn catch_up(client: &Client, world: &CatalogWorld, profile: &ProfileKey) -> Result<bool, kube::Error> {
    match profile {
        ProfileKey::Private(key) => {
            kind::<KeptShoot>(client, world, Api::namespaced(client.clone(), &key.namespace)).await
        }
        ProfileKey::Cloud(_) => {
            let shoots = kind::<KeptShoot>(client, world, Api::all(client.clone())).await?;
            Ok(shoots && kind::<KeptProfile>(client, world, Api::all(client.clone())).await?)
        }
    }
}

async fn kind<T>(client: &Client, world: &CatalogWorld, listed: Api<Stored<T::Kind>>) -> Result<bool, kube::Error>
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
            return Ok(false);
        }
        match there.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    for key in unknown {
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
