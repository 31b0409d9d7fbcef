//! The names of a Cluster's own objects, as far as they begin with prefixes of tenants, new or former.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use kube::api::{ListParams, PartialObjectMeta};
use kube::core::DynamicObject;
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt};

/// Names of one call: few calls, bounded replies.
const PAGE: u32 = 500;

/// An object of the whole cluster whose name begins with the prefix: its kind and name.
pub(crate) async fn bearer(cluster: &Client, prefix: &str) -> Result<Option<String>, kube::Error> {
    let mut found = None;
    each(cluster, |kind, name| {
        if name.starts_with(prefix) {
            found = Some(format!("{kind} {name}"));
        }
        found.is_none()
    })
    .await?;
    Ok(found)
}

/// Which of `prefixes` no name of an object of the whole cluster begins with. An error says that this is
/// not known of any.
pub(super) async fn free(cluster: &Client, prefixes: BTreeSet<String>) -> Result<BTreeSet<String>, kube::Error> {
    let mut free = prefixes;
    each(cluster, |_, name| {
        free.retain(|prefix| !name.starts_with(prefix.as_str()));
        !free.is_empty()
    })
    .await?;
    Ok(free)
}

/// Shows kind and name of every object of the whole cluster, until `look` has seen enough.
async fn each(cluster: &Client, mut look: impl FnMut(&str, &str) -> bool) -> Result<(), kube::Error> {
    let discovery = Discovery::new(cluster.clone()).run_aggregated().await?;
    // Every kind once, whichever of its versions are served: a group may have kinds that its newest lacks.
    let resources = discovery.groups().flat_map(|group| group.resources_by_stability());
    for (resource, capabilities) in resources {
        if capabilities.scope != Scope::Cluster || !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let objects = Api::<DynamicObject>::all_with(cluster.clone(), &resource);
        let mut pages = std::pin::pin!(pages(&objects));
        while let Some(page) = pages.try_next().await? {
            if !page.iter().all(|name| look(&resource.kind, name)) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The names of all objects, page by page.
fn pages(objects: &Api<DynamicObject>) -> impl futures::Stream<Item = Result<Vec<String>, kube::Error>> + '_ {
    futures::stream::try_unfold(Some(String::new()), move |token| async move {
        let Some(token) = token else { return Ok(None) };
        let mut params = ListParams::default().limit(PAGE);
        if !token.is_empty() {
            params = params.continue_token(&token);
        }
        let page = objects.list_metadata(&params).await?;
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        let names = page.items.iter().map(PartialObjectMeta::<DynamicObject>::name_any).collect();
        Ok(Some((names, next)))
    })
}
