//! Objects of the catalog that were stored while nobody judged them, and cannot be read: told, passed over, and no other is
//! harmed.

use allotment_api::catalog::{CloudProfile, KeptProfile, PrivateCloudProfile, Shoot, Stored};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use crate::harness::{
    Folder, Up, allot, client, create, impersonate, is_beside, make_namespace, once_let, until, until_gone,
};

/// A client whose writes of the catalog nobody judges: the platform's own, which may create here.
async fn unjudged(folder: &Folder, admin: &Client) -> Client {
    let (user, own) = match is_beside() {
        true => ("system:serviceaccount:allot-system:allot-controllers", client(&folder.own_kubeconfig()).await),
        false => {
            let kubeconfig = std::fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
            let user = "system:allotment:controllers";
            (user, impersonate(&kubeconfig, user).await)
        }
    };
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "unjudged"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
    create(&Api::<ClusterRoleBinding>::all(admin.clone()), binding).await;
    own
}

fn any<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<K>(&());
    match namespace {
        "" => Api::all_with(client.clone(), &kind),
        namespace => Api::namespaced_with(client.clone(), namespace, &kind),
    }
}

fn object<K: Resource<DynamicType = ()>>(name: &str, spec: Value) -> DynamicObject {
    let object =
        json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).expect("an object")
}

/// Has Shoots take anything as their spec.
async fn loosen(admin: &Client) {
    let kind = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let patch = serde_json::from_value(json!([{"op": "replace", "path": path, "value": anything}])).expect("a patch");
    let definitions: Api<DynamicObject> = Api::all_with(admin.clone(), &kind);
    let patched = Patch::<()>::Json(patch);
    definitions.patch("shoots.core.gardener.cloud", &PatchParams::default(), &patched).await.expect("it is accepted");
}

fn says(conditions: &[Condition], kind: &str, reason: &str, message: &str) -> bool {
    conditions.iter().any(|one| one.type_ == kind && one.reason == reason && one.message.contains(message))
}

fn conditions(profile: &Stored<KeptProfile>) -> &[Condition] {
    match profile {
        Stored::Read(profile) => &profile.status.conditions,
        Stored::Unread(profile) => &profile.status.conditions,
    }
}

/// Waits for an Event of reason `Unreadable` in a namespace about an object of that kind.
async fn until_told(admin: &Client, namespace: &str, kind: &str) -> String {
    let events = Api::<Event>::namespaced(admin.clone(), namespace);
    let found = async {
        loop {
            let params = ListParams::default().fields(&format!("reason=Unreadable,involvedObject.kind={kind}"));
            if let Some(event) = events.list(&params).await.expect("an admin may list").items.pop() {
                break event.message.unwrap_or_default();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::harness::LIMIT, found).await.expect("the event comes")
}

fn central() -> Value {
    json!({"type": "local", "kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": "2030-01-01T00:00:00Z"}]},
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "8Gi"}]})
}

fn run(folder: &Folder, words: &[&str]) -> (String, String) {
    let output = allot(folder).args(words).env("KUBECONFIG", folder.kubeconfig()).output().expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn one_object_that_cannot_be_read_harms_no_other() {
    let folder = Folder::new();
    let up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "one").await;
    make_namespace(&admin, "two").await;
    let profiles = any::<CloudProfile>(&admin, "");
    for name in ["central", "apart"] {
        profiles
            .create(&PostParams::default(), &object::<CloudProfile>(name, central()))
            .await
            .expect("it is accepted");
    }
    let own = unjudged(&folder, &admin).await;
    let odd = any::<PrivateCloudProfile>(&own, "one");
    let of_five = object::<PrivateCloudProfile>("odd", json!({"parent": 5}));
    // Rights come a moment after they are given.
    let plain = PostParams::default();
    once_let(|| odd.create(&plain, &of_five)).await;
    loosen(&admin).await;
    let spec = json!({"cloudProfile": {"kind": "CloudProfile", "name": "central"}, "region": 5});
    let stored = any::<Shoot>(&own, "two").create(&PostParams::default(), &object::<Shoot>("odd", spec)).await;
    stored.expect("nobody judges it");
    up.interrupt().await;

    let up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    // Others are rendered, expire, and are let go, be they of the same namespace.
    let private = Api::<PrivateCloudProfile>::namespaced(admin.clone(), "two");
    create(&private, json!({"metadata": {"name": "mine"}, "spec": {"parent": "apart"}})).await;
    until(&private, "mine", |profile| profile.status.as_ref().is_some_and(|status| status.cloud_profile.is_some()))
        .await;
    private.delete("mine", &DeleteParams::default()).await.expect("it is accepted");
    until_gone(&private, "mine").await;

    let stored = Api::<Stored<KeptProfile>>::namespaced(admin.clone(), "one");
    let why = "it cannot be read: spec.parent: invalid type: integer `5`";
    until(&stored, "odd", |profile| says(conditions(profile), "Rendered", "Unreadable", why)).await;
    assert!(until_told(&admin, "one", "PrivateCloudProfile").await.contains(why));
    let why = "it cannot be read: spec.region: invalid type: integer `5`, expected a string";
    assert!(until_told(&admin, "two", "Shoot").await.contains(why));
    let log = up.log();
    assert_eq!(log.matches("it cannot be read and is passed over").count(), 2, "once for each: {log}");

    // Whoever may use a profile keeps it.
    let of_all = Api::<CloudProfile>::all(admin.clone());
    of_all.delete("central", &DeleteParams::default()).await.expect("it is accepted");
    let waits = "1 private profiles, 1 Shoots; 2 of these cannot be read, and may use it; it goes once";
    until(&of_all, "central", |profile| {
        says(&profile.status.clone().unwrap_or_default().conditions, "InUse", "DeletionBlocked", waits)
    })
    .await;
    let (_, said) = run(&folder, &["catalog", "expiring", "--within", "5000d"]);
    for what in ["PrivateCloudProfile one/odd cannot be read", "Shoot two/odd cannot be read"] {
        assert!(said.contains(what), "{what:?} is not in {said}");
    }
    let (told, _) = run(&folder, &["explain", "cloudprofile", "central"]);
    for what in ["one/odd (cannot be read)", "two/odd (cannot be read)"] {
        assert!(told.contains(what), "{what:?} is not in {told}");
    }

    // Once they are put right, they count for what they are.
    let right = Patch::Merge(json!({"spec": {"parent": "apart"}}));
    any::<PrivateCloudProfile>(&admin, "one")
        .patch("odd", &PatchParams::default(), &right)
        .await
        .expect("it is accepted");
    until(&stored, "odd", |profile| says(conditions(profile), "Rendered", "AllGood", "")).await;
    let gone = any::<Shoot>(&admin, "two").delete("odd", &DeleteParams::default()).await;
    gone.expect("it is accepted");
    until_gone(&of_all, "central").await;
}
