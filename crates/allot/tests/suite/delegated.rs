//! Access that a provider of another process makes itself: the test is that provider, with the identity and the rights
//! that the platform gives it, on either backend.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use allotment_api::reasons::{ConditionType, Verdict};
use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider};
use allotment_pki::{Kubeconfig, KubeconfigUser};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::{
    Folder, LIMIT, Up, client, client_of, code, create, is_beside, make_namespace, run, until, until_gone,
};

const FINALIZER: &str = "access.cluster.openmcp.cloud/far";
/// Where its cluster is said to be.
const SERVER: &str = "https://far.example.com";
/// A provider that runs and does nothing: what there is to do the test does.
const IDLE: &str = "#!/bin/sh\ncase \"$1\" in init) exit 0;; esac\nexec sleep 600\n";

/// The provider, as the platform's API knows it.
struct Far {
    own: Client,
    admin: Client,
}

impl Far {
    /// A platform with Cluster `n/c` of the provider, which is healthy.
    async fn start(folder: &Folder) -> (Up, Far) {
        let up = if is_beside() {
            Up::start(folder).await
        } else {
            let dir = folder.0.join("providers");
            fs::create_dir_all(&dir).expect("a folder");
            fs::write(dir.join("far.sh"), IDLE).expect("a file");
            for path in [dir.clone(), dir.join("far.sh")] {
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
            }
            Up::start_with(folder, &["--provider-dir", dir.to_str().expect("text")]).await
        };
        let admin = client(&folder.kubeconfig()).await;
        let package = if is_beside() { "registry.example.com/far-cluster-provider:v1" } else { "far.sh" };
        let providers = Api::<ClusterProvider>::all(admin.clone());
        create(
            &providers,
            json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterProvider",
            "metadata": {"name": "far"}, "spec": {"package": package}}),
        )
        .await;
        let far = Far { own: own_client(folder, &admin).await, admin };
        far.beat(3600).await;
        let profile = json!({"name": "own", "supportedVersions": [{"version": "1.36.3"}],
            "accessTypes": ["Token", "OIDC"], "accessBy": "Provider"});
        let status = json!({"status": {"profiles": [profile]}});
        let own = Api::<ClusterProvider>::all(far.own.clone());
        until(&providers, "far", |found| found.status.as_ref().is_some_and(|status| status.ready)).await;
        own.patch_status("far", &PatchParams::default(), &Patch::Merge(&status)).await.expect("its own part");
        make_namespace(&far.admin, "n").await;
        let clusters = Api::<Cluster>::namespaced(far.admin.clone(), "n");
        create(
            &clusters,
            json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"clusterProviderRef": {"name": "far", "profile": "own"}, "kubernetes": {}, "purposes": ["mcp"]}}),
        )
        .await;
        let healthy = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster", "metadata": {"name": "c"},
            "status": {"phase": "Succeeded", "conditions": [{"type": "ClusterHealthy", "status": "True", "reason": "AllGood",
                "message": "", "lastTransitionTime": now(0)}]}});
        let own = Api::<Cluster>::namespaced(far.own.clone(), "n");
        own.patch_status("c", &PatchParams::apply("far"), &Patch::Apply(&healthy)).await.expect("its own part");
        (up, far)
    }

    /// A beat that counts for so many seconds; none where that is over already.
    async fn beat(&self, seconds: i64) {
        let leases = Api::<Lease>::namespaced(self.own.clone(), "allot-system");
        let (renewed, lasts) = if seconds > 0 { (0, seconds) } else { (seconds - 1, 1) };
        let renewed = Timestamp::now() + SignedDuration::from_secs(renewed);
        let spec = json!({"spec": {"holderIdentity": "far", "leaseDurationSeconds": lasts,
            "renewTime": format!("{renewed:.6}")}});
        let begin = tokio::time::Instant::now();
        loop {
            match leases.patch("provider-far", &PatchParams::default(), &Patch::Merge(&spec)).await {
                Ok(_) => return,
                // Kubernetes takes a moment to see rights that were just made.
                Err(kube::Error::Api(status)) if status.code == 403 && begin.elapsed() < LIMIT => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("its Lease: {error}"),
            }
        }
    }

    fn access(&self) -> Api<AccessRequest> {
        Api::namespaced(self.admin.clone(), "n")
    }

    async fn ask(&self, name: &str, type_: &str) {
        create(
            &self.access(),
            json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest", "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "c"}, "type": type_, "permissions": [
                {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]}}),
        )
        .await;
    }

    /// Puts its finalizer on, fills the Secret, and says what it gave.
    async fn provide(&self, name: &str, type_: &str) {
        let request = until(&self.access(), name, is_approved).await;
        let own = Api::<AccessRequest>::namespaced(self.own.clone(), "n");
        let mut finalizers = request.finalizers().to_vec();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            let held = json!({"metadata": {"finalizers": finalizers}});
            own.patch(name, &PatchParams::default(), &Patch::Merge(&held)).await.expect("its own finalizer");
        }
        let mut data = json!({"kubeconfig": kubeconfig(type_), "host": SERVER, "ca.crt": "ca"});
        // In base64; what the other type consists of goes.
        let part = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
        data.as_object_mut().expect("an object").values_mut().for_each(|value| {
            *value = part(value.as_str().expect("text"));
        });
        match type_ {
            "OIDC" => {
                data["issuer"] = part("https://issuer.example.com");
                data["clientID"] = part("far");
                data["token"] = Value::Null;
            }
            _ => data["token"] = part("a.b.c"),
        }
        let secret_name = request.annotations()["cluster.openmcp.cloud/access-secret"].clone();
        let secrets = Api::<Secret>::namespaced(self.own.clone(), "n");
        let filled = Patch::Merge(json!({ "data": data }));
        let begin = tokio::time::Instant::now();
        // Kubernetes takes a moment to see rights that were just made.
        while let Err(error) = secrets.patch(&secret_name, &PatchParams::default(), &filled).await {
            let early = matches!(&error, kube::Error::Api(status) if status.code == 403) && begin.elapsed() < LIMIT;
            assert!(early, "its Secret: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.say(
            &request,
            "True",
            &json!({"type": type_, "secretRef": {"name": secret_name},
            "clusterUID": cluster_uid(&self.admin).await, "notAfter": now(3600)}),
        )
        .await;
    }

    async fn say(&self, request: &AccessRequest, status: &str, access: &Value) {
        let name = request.name_any();
        let told = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest", "metadata": {"name": name},
            "status": {"access": access, "conditions": [{"type": "Provided", "status": status, "reason": "Made", "message": "",
                "observedGeneration": request.metadata.generation, "lastTransitionTime": now(0)}]}});
        let own = Api::<AccessRequest>::namespaced(self.own.clone(), "n");
        own.patch_status(&name, &PatchParams::apply("far").force(), &Patch::Apply(&told)).await.expect("its own part");
    }

    /// Takes its finalizer off.
    async fn take_back(&self, name: &str) {
        let own = Api::<AccessRequest>::namespaced(self.own.clone(), "n");
        let request = own.get(name).await.expect("it is there");
        let rest: Vec<&String> = request.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        let let_go = json!({"metadata": {"finalizers": rest}});
        own.patch(name, &PatchParams::default(), &Patch::Merge(&let_go)).await.expect("its own finalizer");
    }
}

/// What its users are given.
fn kubeconfig(type_: &str) -> String {
    let user = match type_ {
        "OIDC" => KubeconfigUser::oidc("https://issuer.example.com", "far", &[]),
        _ => KubeconfigUser::Token("a.b.c".to_owned().into()),
    };
    let (name, ca_pem) = ("far".to_owned(), Some("ca".to_owned()));
    let kubeconfig =
        Kubeconfig { name, server: SERVER.to_owned(), ca_pem, tls_server_name: None, namespace: None, user };
    kubeconfig.to_yaml().to_string()
}

/// A client with the token of the provider's ServiceAccount.
async fn own_client(folder: &Folder, admin: &Client) -> Client {
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "allot-system");
    until(&accounts, "provider-far", |_| true).await;
    // Its rights come after it; this is the last of them.
    let bindings = Api::<RoleBinding>::namespaced(admin.clone(), "allot-planes");
    until(&bindings, "access-far", |_| true).await;
    let spec = Some(TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() });
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request("provider-far", &PostParams::default(), &request).await;
    let token = answer.expect("a token").status.and_then(|status| status.token).expect("a token");
    let text = fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let mut own = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    for user in &mut own.auth_infos {
        user.auth_info = Some(kube::config::AuthInfo { token: Some(token.clone().into()), ..Default::default() });
    }
    client_of(&serde_json::to_string(&own).expect("JSON")).await
}

/// So many seconds from now, as the API writes it.
fn now(seconds: i64) -> String {
    let at = Timestamp::now().as_second() + seconds;
    Timestamp::from_second(at).expect("a time").to_string()
}

async fn cluster_uid(admin: &Client) -> String {
    let cluster = Api::<Cluster>::namespaced(admin.clone(), "n").get("c").await.expect("it is there");
    cluster.uid().expect("a UID")
}

fn is_approved(request: &AccessRequest) -> bool {
    let approved = request.status.iter().flat_map(|status| &status.conditions);
    approved.into_iter().any(|condition| {
        condition.type_ == ConditionType::Approved.as_str()
            && condition.status == "True"
            && condition.observed_generation == request.metadata.generation
    })
}

fn says(request: &AccessRequest, verdict: Verdict, reason: &str) -> bool {
    request.status.as_ref().is_some_and(|status| {
        status.status == Some(verdict)
            && status.reason == reason
            && status.observed_generation == request.metadata.generation
    })
}

fn granted(request: &AccessRequest) -> bool {
    says(request, Verdict::Granted, "Success")
}

#[tokio::test]
async fn the_platform_decides_and_the_provider_makes_access_with_no_more_rights_than_that_takes() {
    let folder = Folder::new();
    let (_up, far) = Far::start(&folder).await;
    far.ask("a", "Token").await;
    let pending = until(&far.access(), "a", |request| says(request, Verdict::Pending, "NotProvided")).await;
    assert_eq!(pending.labels().get("cluster.openmcp.cloud/access-by").map(String::as_str), Some("far"));
    let own = Api::<AccessRequest>::namespaced(far.own.clone(), "n");
    until(&far.access(), "a", is_approved).await;
    for forged in [
        json!({"status": {"status": "Granted"}}),
        json!({"status": {"conditions": []}}),
        json!({"status": {"observedGeneration": 7}}),
    ] {
        let answer = own.patch_status("a", &PatchParams::default(), &Patch::Merge(&forged)).await;
        assert_eq!(code(answer), 403, "{forged}");
    }
    for foreign in [json!({"spec": {"permissions": []}}), json!({"metadata": {"labels": {"a": "b"}}})] {
        assert_eq!(code(own.patch("a", &PatchParams::default(), &Patch::Merge(&foreign)).await), 403, "{foreign}");
    }
    create(&Api::<Secret>::namespaced(far.admin.clone(), "n"), json!({"metadata": {"name": "theirs"}})).await;
    let secrets = Api::<Secret>::namespaced(far.own.clone(), "n");
    assert_eq!(code(secrets.get("theirs").await), 403, "a provider reads the Secret that was made for it only");
    assert_eq!(code(secrets.list(&ListParams::default()).await), 403);
    // One that the server would fill with the token of another ServiceAccount of the namespace.
    let token: Secret = serde_json::from_value(json!({"type": "kubernetes.io/service-account-token", "metadata": {
        "name": "stolen", "annotations": {"kubernetes.io/service-account.name": "default"}}}))
    .expect("a Secret");
    assert_eq!(code(secrets.create(&PostParams::default(), &token).await), 403, "a provider makes no Secret");

    far.provide("a", "Token").await;
    until(&far.access(), "a", granted).await;
    let printed = run(&folder, &["access", "a", "-n", "n", "--static"]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));

    // A kubeconfig that would run a program where it is used is neither granted nor printed.
    let told =
        until(&far.access(), "a", granted).await.status.and_then(|status| status.access).expect("what was given");
    let exec = kubeconfig("Token").replace("token: a.b.c", "exec: {command: touch, args: [was-run]}");
    let changed = json!({"data": {"kubeconfig": ByteString(exec.into_bytes())}});
    secrets
        .patch(&told.secret_ref.name, &PatchParams::default(), &Patch::Merge(&changed))
        .await
        .expect("its own Secret");
    let refused = until(&far.access(), "a", |request| says(request, Verdict::Pending, "NotProvided")).await;
    let message = refused.status.expect("a status").message;
    assert!(message.contains("users[0].user.exec"), "{message}");
    let printed = run(&folder, &["access", "a", "-n", "n", "--static"]);
    assert!(!printed.status.success() && printed.stdout.is_empty());
    far.provide("a", "Token").await;
    until(&far.access(), "a", granted).await;

    // A changed request is approved and provided anew.
    let narrower = json!({"spec": {"permissions": []}});
    far.access().patch("a", &PatchParams::default(), &Patch::Merge(&narrower)).await.expect("it can be changed");
    until(&far.access(), "a", |request| says(request, Verdict::Pending, "NotProvided")).await;
    far.provide("a", "Token").await;
    until(&far.access(), "a", granted).await;

    far.access().delete("a", &DeleteParams::default()).await.expect("it can be deleted");
    until(&far.access(), "a", |request| request.metadata.deletion_timestamp.is_some()).await;
    far.take_back("a").await;
    until_gone(&far.access(), "a").await;
    assert_eq!(code(secrets.get("a-kubeconfig").await), 403, "what it was let to went with the AccessRequest");
}

#[tokio::test]
async fn another_type_than_was_asked_for_is_no_answer_and_users_of_an_issuer_are_printed_how_to_log_in() {
    let folder = Folder::new();
    let (_up, far) = Far::start(&folder).await;
    far.ask("b", "OIDC").await;
    far.provide("b", "Token").await;
    let told = until(&far.access(), "b", |request| {
        request.status.as_ref().is_some_and(|status| status.message.contains("OIDC was asked for"))
    })
    .await;
    assert!(says(&told, Verdict::Pending, "NotProvided"));
    far.provide("b", "OIDC").await;
    until(&far.access(), "b", granted).await;
    let printed = run(&folder, &["access", "b", "-n", "n"]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let refused = run(&folder, &["credential", "b", "-n", "n"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("OIDC"), "{why}");
}

#[tokio::test]
async fn a_provider_that_is_silent_holds_up_no_deletion_and_what_it_leaves_is_listed() {
    let folder = Folder::new();
    let (_up, far) = Far::start(&folder).await;
    far.ask("a", "Token").await;
    far.provide("a", "Token").await;
    until(&far.access(), "a", granted).await;
    far.beat(0).await;
    let providers = Api::<ClusterProvider>::all(far.admin.clone());
    until(&providers, "far", |found| found.status.as_ref().is_some_and(|status| status.reason == "HeartbeatMissed"))
        .await;
    let still = far.access().get("a").await.expect("it is there");
    assert!(granted(&still), "a spell of silence revokes nothing");
    far.access().delete("a", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&far.access(), "a").await;
    let secrets = Api::<Secret>::namespaced(far.admin.clone(), "n");
    until_gone(&secrets, "a-kubeconfig").await;
    let clusters = Api::<Cluster>::namespaced(far.admin.clone(), "n");
    until(&clusters, "c", |cluster| {
        let leftovers = cluster.status.iter().flat_map(|status| &status.leftovers);
        leftovers.into_iter().any(|leftover| leftover.access_request == "n/a" && leftover.not_after.is_some())
    })
    .await;
    let events = Api::<Event>::namespaced(far.admin.clone(), "n").list(&ListParams::default()).await.expect("events");
    let told = events.items.iter().find(|event| event.reason.as_deref() == Some("LeftBehind")).expect("an Event");
    assert!(told.message.as_deref().is_some_and(|text| text.contains("\"far\"")), "{told:?}");
}
