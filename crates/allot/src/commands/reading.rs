//! Reads all objects of a kind, page by page, and tells apart what may not be seen from what went wrong.

use std::fmt::Debug;

use anyhow::anyhow;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::client::{self, Platform};

/// Items of one page of a list: a megabyte or so.
const PAGE: u32 = 500;
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

/// Where to list: in one namespace, or everywhere.
fn api<K>(platform: &Platform, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = ()>,
    K::Scope: Listed<K>,
{
    K::Scope::api(platform, namespace)
}

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

/// Hands every object to `take`; `begin` is called before the first one, and once more where the list has to be begun
/// anew. Objects of the whole cluster are in no namespace.
pub(super) async fn each<K>(
    platform: &Platform,
    namespace: Option<&str>,
    mut begin: impl FnMut(),
    mut take: impl FnMut(K),
) -> Result<(), Unread>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    K::Scope: Listed<K>,
{
    let api = api::<K>(platform, namespace);
    pages(
        async |params: ListParams| {
            let page = api.list(&params).await?;
            Ok((page.items, page.metadata.continue_))
        },
        &what::<K>(namespace),
        &mut begin,
        &mut take,
    )
    .await
}

/// The same for names, labels and annotations only, which is a part of the bytes.
pub(super) async fn each_metadata<K>(
    platform: &Platform,
    namespace: Option<&str>,
    mut begin: impl FnMut(),
    mut take: impl FnMut(PartialObjectMeta<K>),
) -> Result<(), Unread>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    K::Scope: Listed<K>,
{
    let api = api::<K>(platform, namespace);
    pages(
        async |params: ListParams| {
            let page = api.list_metadata(&params).await?;
            Ok((page.items, page.metadata.continue_))
        },
        &what::<K>(namespace),
        &mut begin,
        &mut take,
    )
    .await
}

fn what<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> String {
    let plural = K::plural(&());
    namespace.map_or_else(|| plural.to_string(), |name| format!("{plural} in namespace {name}"))
}

async fn pages<K>(
    list: impl AsyncFn(ListParams) -> kube::Result<(Vec<K>, Option<String>)>,
    what: &str,
    begin: &mut impl FnMut(),
    take: &mut impl FnMut(K),
) -> Result<(), Unread> {
    let first = || ListParams::default().limit(PAGE);
    let mut starts = 1;
    let mut params = first();
    begin();
    loop {
        match list(params.clone()).await {
            Ok((items, next)) => {
                items.into_iter().for_each(&mut *take);
                match next.filter(|token| !token.is_empty()) {
                    Some(token) => params = first().continue_token(&token),
                    None => return Ok(()),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 && starts < MOST_STARTS => {
                starts += 1;
                params = first();
                begin();
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Err(Unread::Forbidden(format!("cannot list {what}: {}", status.message)));
            }
            Err(error) => {
                let why = format!("cannot list {what}: {}", client::explain(&error));
                let is_unknown = matches!(&error, kube::Error::Api(status) if status.code == 401);
                return Err(Unread::Failed(if is_unknown { Unauthorized(why).into() } else { anyhow!(why) }));
            }
        }
    }
}

/// All objects, without what is only noise here: who owns which field.
pub(super) async fn all<K>(platform: &Platform, namespace: Option<&str>) -> Result<Vec<K>, Unread>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    K::Scope: Listed<K>,
{
    let items = std::cell::RefCell::new(Vec::new());
    each::<K>(
        platform,
        namespace,
        || items.borrow_mut().clear(),
        |mut item| {
            item.meta_mut().managed_fields = None;
            items.borrow_mut().push(item);
        },
    )
    .await?;
    Ok(items.into_inner())
}
