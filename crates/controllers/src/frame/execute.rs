//! Carries out the writes that decisions consist of.

use std::fmt::Debug;
use std::time::Duration;

use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, Purpose};
use allotment_core::write::{Kind, ObjectKey, Write};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// How long a write may take. A server that froze would hold its controller up until the connection is given up, for
/// which nobody sets a time; all writes say which state they were decided on, so that one more try does no harm.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// A write whose reply did not come in time; whether it was carried out is not known.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", WRITE_LIMIT.as_secs())]
struct NoAnswer;

/// The object that a write left behind.
#[derive(Clone, Debug)]
pub enum Written {
    /// A ClusterProvider.
    Provider(Box<ClusterProvider>),
    /// A Purpose.
    Purpose(Box<Purpose>),
    /// A Cluster.
    Cluster(Box<Cluster>),
    /// A ClusterRequest.
    Request(Box<ClusterRequest>),
    /// A ClusterRequestGrant.
    Grant(Box<ClusterRequestGrant>),
    /// An AccessRequest.
    Access(Box<AccessRequest>),
}

/// Carries out one write under the name of a field manager. Absent: the reply says nothing of the object,
/// as those to deletions do; the watch will.
///
/// # Errors
/// The server refuses it, or does not answer in time.
pub async fn execute(client: &Client, manager: &str, write: &Write) -> Result<Option<Written>, kube::Error> {
    match timeout(WRITE_LIMIT, carry_out(client, manager, write)).await {
        Ok(written) => written,
        Err(_) => Err(kube::Error::Service(Box::new(NoAnswer))),
    }
}

async fn carry_out(client: &Client, manager: &str, write: &Write) -> Result<Option<Written>, kube::Error> {
    let (kind, key) = match write {
        Write::Create { kind, key, .. }
        | Write::Apply { kind, key, .. }
        | Write::ApplyStatus { kind, key, .. }
        | Write::Patch { kind, key, .. }
        | Write::PatchStatus { kind, key, .. }
        | Write::Delete { kind, key, .. } => (*kind, key),
    };
    let namespace = key.namespace.as_str();
    let client = client.clone();
    Ok(match kind {
        Kind::ClusterProvider => {
            run(Api::all(client), manager, write, key).await?.map(|object| Written::Provider(Box::new(object)))
        }
        Kind::Purpose => {
            run(Api::all(client), manager, write, key).await?.map(|object| Written::Purpose(Box::new(object)))
        }
        Kind::Cluster => run(Api::namespaced(client, namespace), manager, write, key)
            .await?
            .map(|object| Written::Cluster(Box::new(object))),
        Kind::ClusterRequest => run(Api::namespaced(client, namespace), manager, write, key)
            .await?
            .map(|object| Written::Request(Box::new(object))),
        Kind::ClusterRequestGrant => run(Api::namespaced(client, namespace), manager, write, key)
            .await?
            .map(|object| Written::Grant(Box::new(object))),
        Kind::AccessRequest => run(Api::namespaced(client, namespace), manager, write, key)
            .await?
            .map(|object| Written::Access(Box::new(object))),
    })
}

async fn run<K>(api: Api<K>, manager: &str, write: &Write, key: &ObjectKey) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    // Force: what a controller applies is its own, whoever wrote it meanwhile.
    let applying = || PatchParams::apply(manager).force();
    let patching = || PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    match write {
        Write::Create { object, .. } => {
            let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
            send(api, "create", |to| to.create(&params, Vec::new()), object.as_str()).await
        }
        Write::Apply { object, .. } => {
            send(api, "patch", |to| to.patch(&key.name, &applying(), &Patch::Apply(())), object.as_str()).await
        }
        Write::ApplyStatus { object, .. } => {
            send(
                api,
                "patch_subresource",
                |to| to.patch_subresource("status", &key.name, &applying(), &Patch::Apply(())),
                object.as_str(),
            )
            .await
        }
        Write::Patch { patch, .. } => {
            send(api, "patch", |to| to.patch(&key.name, &patching(), &Patch::Merge(())), patch.as_str()).await
        }
        Write::PatchStatus { patch, .. } => {
            send(
                api,
                "patch_subresource",
                |to| to.patch_subresource("status", &key.name, &patching(), &Patch::Merge(())),
                patch.as_str(),
            )
            .await
        }
        Write::Delete { uid, resource_version, .. } => {
            let this_one = Preconditions { uid: Some(uid.clone()), resource_version: resource_version.clone() };
            let params = DeleteParams::default().preconditions(this_one);
            Ok(api.delete(&key.name, &params).await?.left())
        }
    }
}

/// Sends a request with this body, which is text already. Traces know it by that name, as they know those of [`Api`].
async fn send<K: Resource + Clone + Debug + DeserializeOwned>(
    api: Api<K>,
    name: &'static str,
    request: impl FnOnce(Request) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    body: &str,
) -> Result<Option<K>, kube::Error> {
    let request = request(Request::new(api.resource_url())).map_err(kube::Error::BuildRequest)?;
    let mut request = request.map(|_| body.as_bytes().to_vec());
    request.extensions_mut().insert(name);
    api.into_client().request(request).await.map(Some)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_answers_ends_in_time() {
        let mute = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, kube::Error>>()
        });
        let client = Client::new(mute, "default");
        let key = ObjectKey::new("team", "c");
        let write = Write::Delete { kind: Kind::Cluster, key, uid: "u".to_owned(), resource_version: None };
        let begin = Instant::now();
        let written = timeout(WRITE_LIMIT * 2, execute(&client, "test", &write)).await.expect("it ends");
        let error = crate::frame::chain(&written.expect_err("nobody answers"));
        assert!(error.contains("no answer within 30 s"), "{error}");
        assert_eq!(begin.elapsed(), WRITE_LIMIT);
    }

    #[tokio::test]
    async fn a_write_is_known_to_traces_by_the_name_of_its_call() {
        let echo = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let name = request.extensions().get::<&'static str>().copied().unwrap_or("HTTP");
            let object = serde_json::json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose",
                "metadata": {"name": name}, "spec": {}});
            Ok::<_, kube::Error>(http::Response::new(kube::client::Body::from(object.to_string().into_bytes())))
        });
        let api = Api::<Purpose>::all(Client::new(echo, "default"));
        let sent = send(api, "create", |to| to.create(&PostParams::default(), Vec::new()), "{}").await;
        assert_eq!(sent.expect("an answer").and_then(|made| made.metadata.name).as_deref(), Some("create"));
    }
}
