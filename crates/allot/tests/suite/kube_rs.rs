//! What Rust operators are made of, against `allot up` over TLS: kube-rs' watcher with its store, a
//! Controller with owned objects and a finalizer, and waiting.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::reflector::store;
use kube::runtime::wait::conditions::is_crd_established;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::sync::oneshot;

use crate::harness::{Folder, LIMIT, Up, client, create, make_namespace, until, until_gone};

const FINALIZER: &str = "rust.example.com/copies";

fn labelled(name: &str, value: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "labels": {"copied": "yes"}}, "data": {"value": value}})
}

#[tokio::test]
async fn a_watcher_sees_what_there_is_and_what_comes_by_list_and_by_stream() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "n").await;
    let maps = Api::<ConfigMap>::namespaced(admin.clone(), "n");
    for number in 0..25 {
        create(&maps, labelled(&format!("m{number:02}"), "1")).await;
    }
    // Small pages, so that the first list takes several requests; then the list that comes in the stream.
    let selected = || watcher::Config::default().labels("copied=yes");
    for config in [selected().page_size(10), selected().streaming_lists()] {
        let (reader, writer) = store::<ConfigMap>();
        let stream = reflector(writer, watcher(maps.clone(), config)).applied_objects();
        let mut stream = std::pin::pin!(stream);
        let first = tokio::time::timeout(LIMIT, stream.by_ref().take(25).try_collect::<Vec<_>>()).await;
        assert_eq!(first.expect("in time").expect("the watch goes on").len(), 25);
        let patch = Patch::Merge(json!({"data": {"value": "2"}}));
        maps.patch("m07", &PatchParams::default(), &patch).await.expect("patched");
        let next = tokio::time::timeout(LIMIT, stream.try_next()).await.expect("in time").expect("the watch goes on");
        assert_eq!(next.expect("an object").name_any(), "m07");
        let kept = reader.find(|map| map.name_any() == "m07").expect("it is in the store");
        assert_eq!(kept.data.as_ref().expect("data")["value"], "2");
        let patch = Patch::Merge(json!({"data": {"value": "1"}}));
        maps.patch("m07", &PatchParams::default(), &patch).await.expect("patched back");
    }
}

/// Keeps a Secret beside each ConfigMap, made by a merge of what it should be, and takes its time to let go.
async fn copy(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, finalizer::Error<kube::Error>> {
    let maps = Api::<ConfigMap>::namespaced((*client).clone(), "n");
    let secrets = Api::<Secret>::namespaced((*client).clone(), "n");
    finalizer(&maps, FINALIZER, map, |event| async move {
        match event {
            finalizer::Event::Apply(map) => {
                let name = map.name_any();
                let owner = map.controller_owner_ref(&()).expect("it has a UID");
                let wanted: Secret = serde_json::from_value(json!({
                    "metadata": {"name": name, "ownerReferences": [owner]}, "stringData": map.data}))
                .expect("a Secret");
                match secrets.create(&PostParams::default(), &wanted).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&wanted)).await?;
                    }
                    other => drop(other?),
                }
            }
            finalizer::Event::Cleanup(map) => {
                drop(secrets.delete(&map.name_any(), &DeleteParams::default()).await?);
            }
        }
        Ok(Action::await_change())
    })
    .await
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns_and_cleans_up_before_its_object_goes() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "n").await;
    let maps = Api::<ConfigMap>::namespaced(admin.clone(), "n");
    let secrets = Api::<Secret>::namespaced(admin.clone(), "n");
    create(&maps, labelled("before", "1")).await;

    let (stop, stopped) = oneshot::channel::<()>();
    let controller = Controller::new(maps.clone(), watcher::Config::default().labels("copied=yes"))
        .owns(secrets.clone(), watcher::Config::default())
        .graceful_shutdown_on(async move { drop(stopped.await) })
        .run(copy, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(admin.clone()))
        .for_each(|_| std::future::ready(()));
    let steps = async {
        create(&maps, labelled("after", "1")).await;
        let says =
            |secret: &Secret, value: &str| secret.data.as_ref().is_some_and(|data| data["value"].0 == value.as_bytes());
        until(&secrets, "before", |secret| says(secret, "1")).await;
        until(&secrets, "after", |secret| says(secret, "1")).await;
        // What it owns comes back, with another UID.
        let first = secrets.get("after").await.expect("it is there").uid();
        secrets.delete("after", &DeleteParams::default()).await.expect("deleted");
        until(&secrets, "after", |secret| secret.uid() != first).await;
        let patch = Patch::Merge(json!({"data": {"value": "2"}}));
        maps.patch("after", &PatchParams::default(), &patch).await.expect("patched");
        until(&secrets, "after", |secret| says(secret, "2")).await;
        assert_eq!(maps.get("after").await.expect("it is there").finalizers(), [FINALIZER]);
        maps.delete("after", &DeleteParams::default()).await.expect("deleted");
        until_gone(&maps, "after").await;
        until_gone(&secrets, "after").await;
        stop.send(()).expect("the controller runs");
    };
    tokio::time::timeout(LIMIT * 2, futures::future::join(controller, steps))
        .await
        .expect("it ends when it is told to");
}

#[tokio::test]
async fn waiting_for_a_definition_ends_as_soon_as_it_is_served() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let definitions = Api::<CustomResourceDefinition>::all(admin.clone());
    create(
        &definitions,
        json!({"metadata": {"name": "toys.rust.example.com"}, "spec": {
            "group": "rust.example.com", "scope": "Cluster", "names": {"plural": "toys", "kind": "Toy"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
    )
    .await;
    let established =
        kube::runtime::wait::await_condition(definitions.clone(), "toys.rust.example.com", is_crd_established());
    tokio::time::timeout(LIMIT, established).await.expect("in time").expect("the watch goes on");
    let kind = kube::core::GroupVersionKind::gvk("rust.example.com", "v1", "Toy");
    let found = kube::discovery::pinned_kind(&admin, &kind);
    let (resource, _) = found.await.expect("discovery knows it");
    let toys = Api::<kube::core::DynamicObject>::all_with(admin, &resource);
    let toy = kube::core::DynamicObject::new("bear", &resource);
    toys.create(&PostParams::default(), &toy).await.expect("it is served");
}
