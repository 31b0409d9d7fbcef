//! Reads all objects of a kind, page by page, and tells apart what may not be seen from what went wrong.

use std::fmt::Debug;

use anyhow::anyhow;
use kube::api::ListParams;
use kube::core::{ObjectList, PartialObjectMeta};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::client::{self, Platform};

/// Items of one page of a list. kubectl takes 500; of a large landscape that is two hundred turns, each with its wait.
/// These are a few megabytes, and some ten where every request has all its findings.
const PAGE: u32 = 2_000;
/// How often a list is begun anew since its pages are too old by now.
const MOST_STARTS: usize = 3;

/// Why a list could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// The caller may not list these.
    #[error("{0}")]
    Forbidden(String),
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// The server does not know who asks, or not any more.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unauthorized(String);

/// How objects of a scope are listed.
pub(super) trait Listed<K> {
    /// The API of these objects.
    fn api(platform: &Platform, namespace: Option<&str>) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>> Listed<K>
    for kube::core::NamespaceResourceScope
{
    fn api(platform: &Platform, namespace: Option<&str>) -> Api<K> {
        match namespace {
            Some(namespace) => Api::namespaced(platform.client.clone(), namespace),
            None => Api::all(platform.client.clone()),
        }
    }
}

impl<K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>> Listed<K>
    for kube::core::ClusterResourceScope
{
    fn api(platform: &Platform, _namespace: Option<&str>) -> Api<K> {
        Api::all(platform.client.clone())
    }
}

/// What of each object is read: all of it, or names, labels and annotations only, which is a part of the bytes.
pub(super) trait Part<K>: Clone {
    /// One page.
    async fn page(api: &Api<K>, params: &ListParams) -> kube::Result<ObjectList<Self>>;
}

impl<K: Clone + Debug + DeserializeOwned> Part<K> for K {
    async fn page(api: &Api<K>, params: &ListParams) -> kube::Result<ObjectList<Self>> {
        api.list(params).await
    }
}

impl<K: Clone + Debug + DeserializeOwned> Part<K> for PartialObjectMeta<K> {
    async fn page(api: &Api<K>, params: &ListParams) -> kube::Result<ObjectList<Self>> {
        api.list_metadata(params).await
    }
}

/// What `keep` makes of each object, in one namespace or everywhere, page by page: of what is not kept no more than a
/// page is in memory. `told` hears how many were read so far. Objects of the whole cluster are in no namespace.
pub(super) async fn each<K, T, R>(
    platform: &Platform,
    namespace: Option<&str>,
    keep: impl FnMut(T) -> R,
    told: impl FnMut(usize),
) -> Result<Vec<R>, Unread>
where
    K: Resource<DynamicType = ()>,
    K::Scope: Listed<K>,
    T: Part<K>,
{
    by_pages::<K, T, R>(platform, namespace, PAGE, keep, told).await
}

/// The same by pages of another length, for objects that are large.
pub(super) async fn by_pages<K, T, R>(
    platform: &Platform,
    namespace: Option<&str>,
    page: u32,
    mut keep: impl FnMut(T) -> R,
    mut told: impl FnMut(usize),
) -> Result<Vec<R>, Unread>
where
    K: Resource<DynamicType = ()>,
    K::Scope: Listed<K>,
    T: Part<K>,
{
    let api = K::Scope::api(platform, namespace);
    let mut kept = Vec::new();
    let mut starts = 1;
    let first = ListParams::default().limit(page);
    let mut params = first.clone();
    loop {
        match T::page(&api, &params).await {
            Ok(page) => {
                kept.extend(page.items.into_iter().map(&mut keep));
                told(kept.len());
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = first.clone().continue_token(&token),
                    None => return Ok(kept),
                }
            }
            // The pages are too old by now: all is read anew.
            Err(kube::Error::Api(status)) if status.code == 410 && starts < MOST_STARTS => {
                starts += 1;
                params = first.clone();
                kept.clear();
            }
            Err(error) => return Err(Unread::of(&error, &what::<K>(namespace))),
        }
    }
}

/// All objects of a kind, without what is only noise here: who owns which field.
pub(super) async fn all<K>(platform: &Platform, namespace: Option<&str>) -> Result<Vec<K>, Unread>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    K::Scope: Listed<K>,
{
    each::<K, K, K>(platform, namespace, quiet, |_| {}).await
}

/// An object without who owns which field.
pub(super) fn quiet<K: Resource<DynamicType = ()>>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

fn what<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> String {
    let plural = K::plural(&());
    namespace.map_or_else(|| plural.to_string(), |name| format!("{plural} in namespace {name}"))
}

impl Unread {
    fn of(error: &kube::Error, what: &str) -> Self {
        let why = format!("cannot list {what}: {}", client::explain(error));
        match error {
            kube::Error::Api(status) if status.code == 403 => Unread::Forbidden(why),
            kube::Error::Api(status) if status.code == 401 => Unread::Failed(Unauthorized(why).into()),
            _ => Unread::Failed(anyhow!(why)),
        }
    }
}
