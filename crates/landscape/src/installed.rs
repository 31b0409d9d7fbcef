//! Tells when somebody changes what was installed on another API server: webhook configurations, definitions, the
//! webhooks' authority. What becomes of that the next look says.

use std::fmt::Debug;
use std::time::Duration;

use allotment_api::catalog::GROUP as CATALOG_GROUP;
use allotment_api::names::{GROUP, PLANES_NAMESPACE};
use allotment_controllers::frame::{Troubles, tell};
use futures::StreamExt;
use futures::stream::{self, BoxStream, SelectAll};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::webhook::{CONFIGURATIONS, WEBHOOK_AUTHORITY};

/// How long to wait after a watch broke: what it would have told is looked for now and then anyway.
const RETRY: Duration = Duration::from_secs(5);

/// An end of waiting for each change, or several that come together.
pub(crate) struct Changes(SelectAll<BoxStream<'static, ()>>);

impl Changes {
    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        // Watches are made anew for ever.
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Follows what was installed there.
pub(crate) fn changes(client: &Client) -> Changes {
    let troubles = Troubles::default();
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mutating = Api::<PartialObjectMeta<MutatingWebhookConfiguration>>::all(client.clone());
    let validating = Api::<PartialObjectMeta<ValidatingWebhookConfiguration>>::all(client.clone());
    let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), PLANES_NAMESPACE);
    let definitions = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
    Changes(stream::select_all([
        of(mutating, named(CONFIGURATIONS), &troubles),
        of(validating, named(CONFIGURATIONS), &troubles),
        of(secrets, named(WEBHOOK_AUTHORITY), &troubles),
        of(definitions, watcher::Config::default(), &troubles),
    ]))
}

/// Changes of one kind. What is there when it begins is none.
fn of<K>(api: Api<PartialObjectMeta<K>>, config: watcher::Config, troubles: &Troubles) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let troubles = troubles.clone();
    watcher(api, config)
        .filter_map(move |event| {
            let troubles = troubles.clone();
            async move {
                match event {
                    Ok(Event::Apply(object) | Event::Delete(object)) => is_ours(&object.name_any()).then_some(()),
                    // A watch that began anew may have missed something.
                    Ok(Event::InitDone) => Some(()),
                    Ok(Event::Init | Event::InitApply(_)) => None,
                    Err(error) => {
                        let what = format!("watch of {} broke, trying again", K::plural(&()));
                        tell(&troubles, &what, &error);
                        tokio::time::sleep(RETRY).await;
                        None
                    }
                }
            }
        })
        .boxed()
}

/// There may be many definitions of others.
fn is_ours(name: &str) -> bool {
    name == CONFIGURATIONS || name == WEBHOOK_AUTHORITY || name.ends_with(GROUP) || name.ends_with(CATALOG_GROUP)
}
