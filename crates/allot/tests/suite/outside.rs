//! Providers of other processes: which may run, what they may do, what becomes of them. The example of the documents is
//! the one that runs: below `allot up --provider-dir` as a child, and beside kube-apiserver, which runs no
//! Pods here, by the test itself, with the identity that the platform made for its image.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant};
use allotment_machinery::yaml;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::{
    Folder, LIMIT, Up, client, client_of, code, create, is_beside, make_namespace, once_let, until, until_gone,
};
use crate::requests::is_ready;

/// What the documents show.
const EXAMPLE: &str = include_str!("../../../../docs/providers/planes.py");
const MANIFESTS: &str = include_str!("../../../../docs/providers/planes.yaml");
/// The same where there is Kubernetes.
const IMAGE: &str = "registry.example.com/planes-cluster-provider:v1";

/// A platform with the example provider, which is ready and publishes profile `own`.
pub(crate) struct Planes {
    up: Option<Up>,
    /// An administrator of the platform.
    pub(crate) admin: Client,
    /// The provider, where the test runs it.
    by_hand: Option<Child>,
}

impl Planes {
    pub(crate) async fn start(folder: &Folder) -> Planes {
        let up = if is_beside() { Up::start(folder).await } else { start_with_providers(folder).await };
        let admin = client(&folder.kubeconfig()).await;
        let [mut provider, config] = manifests();
        if is_beside() {
            provider["spec"]["package"] = IMAGE.into();
        }
        create(&Api::<ClusterProvider>::all(admin.clone()), provider).await;
        let by_hand = if is_beside() { Some(run_by_hand(folder, &admin).await) } else { None };
        let providers = Api::<ClusterProvider>::all(admin.clone());
        until(&providers, "planes", is_good).await;
        let kind =
            ApiResource::from_gvk(&GroupVersionKind::gvk("planes.cluster.openmcp.cloud", "v1alpha1", "ProviderConfig"));
        let configs = Api::<DynamicObject>::all_with(admin.clone(), &kind);
        create(&configs, config).await;
        until(&providers, "planes", |provider| {
            provider.status.as_ref().is_some_and(|status| status.profiles.iter().any(|profile| profile.name == "own"))
        })
        .await;
        Planes { up: Some(up), admin, by_hand }
    }
}

/// What the documents say to apply: the ClusterProvider and its ProviderConfig.
fn manifests() -> [Value; 2] {
    let documents = yaml::parse_stream(MANIFESTS).expect("YAML").into_iter();
    let documents: Vec<Value> =
        documents.map(|document| serde_json::from_slice(&document.value.to_vec()).expect("JSON")).collect();
    documents.try_into().expect("two of them")
}

impl Drop for Planes {
    fn drop(&mut self) {
        if let Some(mut child) = self.by_hand.take() {
            // It ends its clusters, which a kill would leave behind.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
        if let Some(up) = self.up.take() {
            up.kill();
        }
    }
}

/// A folder of providers with that file in it.
pub(crate) fn provider_dir(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let dir = folder.0.join("providers");
    fs::create_dir_all(&dir).expect("a folder");
    let file = dir.join(name);
    fs::write(&file, text).expect("a file");
    for path in [&dir, &file] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    dir
}

async fn start_with_providers(folder: &Folder) -> Up {
    let dir = provider_dir(folder, "planes.py", EXAMPLE);
    Up::start_with(folder, &["--provider-dir", dir.to_str().expect("text")]).await
}

pub(crate) async fn make_provider(admin: &Client, name: &str, package: &str) {
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterProvider",
        "metadata": {"name": name}, "spec": {"package": package}});
    create(&Api::<ClusterProvider>::all(admin.clone()), object).await;
}

fn is_good(provider: &ClusterProvider) -> bool {
    provider.status.as_ref().is_some_and(|status| status.ready && status.reason == "AllGood")
}

/// Waits until a ClusterProvider says why it is not ready; gives the message.
async fn until_refused(admin: &Client, name: &str, reason: &str) -> String {
    let providers = Api::<ClusterProvider>::all(admin.clone());
    let reason = reason.to_owned();
    let said = until(&providers, name, move |provider| {
        provider.status.as_ref().is_some_and(|status| status.reason == reason && !status.ready)
    })
    .await;
    said.status.expect("a status").message
}

/// A token of the provider's own.
async fn token(admin: &Client, provider: &str) -> String {
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "allot-system");
    let account = format!("provider-{provider}");
    until(&accounts, &account, |_| true).await;
    let spec = Some(TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() });
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(&account, &PostParams::default(), &request).await;
    answer.expect("a token").status.and_then(|status| status.token).expect("a token")
}

/// The platform's own kubeconfig for somebody with that token, as JSON.
fn kubeconfig_of(folder: &Folder, user: &Value) -> String {
    let text = fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig is there");
    let known = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    let cluster = known.clusters[0].cluster.clone().expect("a cluster");
    let authority = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => data.clone(),
        (None, Some(path)) => STANDARD.encode(fs::read(path).expect("the authority")),
        (None, None) => panic!("a kubeconfig without authority"),
    };
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": cluster.server, "certificate-authority-data": authority}}],
        "users": [{"name": "c", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]})
    .to_string()
}

/// Runs the example as the Deployment would, with the identity that was made for it.
async fn run_by_hand(folder: &Folder, admin: &Client) -> Child {
    let deployments = Api::<Deployment>::namespaced(admin.clone(), "allot-system");
    let deployment = until(&deployments, "provider-planes", |_| true).await;
    let pod = deployment.spec.expect("a spec").template.spec.expect("a Pod");
    assert_eq!(pod.service_account_name.as_deref(), Some("provider-planes"));
    let dir = provider_dir(folder, "planes.py", EXAMPLE);
    fs::write(dir.join("token"), token(admin, "planes").await).expect("the token");
    let kubeconfig = dir.join("kubeconfig");
    fs::write(&kubeconfig, kubeconfig_of(folder, &json!({"tokenFile": dir.join("token")}))).expect("the kubeconfig");
    let start = |container: &k8s_openapi::api::core::v1::Container| {
        let mut command = Command::new(dir.join("planes.py"));
        let file = kubeconfig.to_str().expect("text").to_owned();
        let arguments = container.args.clone().unwrap_or_default().into_iter();
        let arguments = arguments.map(|argument| if argument.starts_with("/etc/") { file.clone() } else { argument });
        command.args(arguments).current_dir(&dir).stdin(Stdio::null()).env("ALLOT", env!("CARGO_BIN_EXE_allot"));
        command
    };
    let init = start(&pod.init_containers.expect("init")[0]).status().expect("python3 runs");
    assert!(init.success(), "init ended with {init}");
    start(&pod.containers[0]).spawn().expect("python3 runs")
}

#[tokio::test]
async fn what_may_not_run_is_refused_with_what_to_do() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let executable = if is_beside() { "embedded server (`allot up`) only" } else { "--provider-dir DIR" };
    for (name, package, reason, says) in [
        ("a", "builtin:moon", "PackageNotAllowed", "there is builtin:"),
        ("b", "planes.py", "PackageNotAllowed", executable),
        ("c", "/bin/sh", "PackageNotAllowed", executable),
        ("d", "registry.example.com/local-cluster-provider:v1", "PackageNotAllowed", "that of builtin:local"),
    ] {
        make_provider(&admin, name, package).await;
        let message = until_refused(&admin, name, reason).await;
        assert!(message.contains(says) && message.starts_with("spec.package: "), "{package}: {message}");
    }
    if !is_beside() {
        make_provider(&admin, "image", IMAGE).await;
        let message = until_refused(&admin, "image", "PackageNeedsKubernetes").await;
        assert!(message.contains("`allot controllers`"), "{message}");
    }
}

#[tokio::test]
async fn a_file_that_may_not_run_for_a_while_costs_its_provider_nothing_and_nothing_keeps_what_goes() {
    if is_beside() {
        return;
    }
    let folder = Folder::new();
    let planes = Planes::start(&folder).await;
    let admin = planes.admin.clone();
    let providers = Api::<ClusterProvider>::all(admin.clone());
    let offers =
        |provider: &ClusterProvider| provider.status.as_ref().is_some_and(|status| !status.profiles.is_empty());
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), "allot-system");
    let uid = until(&accounts, "provider-planes", |_| true).await.metadata.uid;
    let file = folder.0.join("providers/planes.py");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o775)).expect("its mode");
    let message = until_refused(&admin, "planes", "PackageNotAllowed").await;
    assert!(message.contains("chmod go-w"), "{message}");
    assert!(offers(&providers.get("planes").await.expect("it is there")), "its Clusters would be withdrawn");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode");
    until(&providers, "planes", is_good).await;
    assert_eq!(accounts.get("provider-planes").await.expect("it is there").metadata.uid, uid);

    // What the provider may write it may want to keep.
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    let (params, keep) = (PatchParams::default(), Patch::Merge(&keep));
    let desks = Api::<Secret>::namespaced(admin.clone(), "allot-planes");
    let leases = Api::<Lease>::namespaced(admin.clone(), "allot-system");
    desks.patch("access-planes", &params, &keep).await.expect("it may");
    leases.patch("provider-planes", &params, &keep).await.expect("it may");
    providers.delete("planes", &DeleteParams::default()).await.expect("it may go");
    until_gone(&providers, "planes").await;
    assert!(desks.get_opt("access-planes").await.expect("an answer").is_none());
    assert!(leases.get_opt("provider-planes").await.expect("an answer").is_none());
}

#[tokio::test]
async fn an_image_is_deployed_with_an_identity_and_taken_away_with_its_cluster_provider() {
    if !is_beside() {
        return;
    }
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterProvider",
        "metadata": {"name": "g"}, "spec": {"package": IMAGE, "packagePullSecret": [{"name": "pull"}]}});
    let providers = Api::<ClusterProvider>::all(admin.clone());
    create(&providers, object).await;
    let deployments = Api::<Deployment>::namespaced(admin.clone(), "allot-system");
    let deployment = until(&deployments, "provider-g", |_| true).await;
    let pod = deployment.spec.expect("a spec").template.spec.expect("a Pod");
    assert_eq!(pod.image_pull_secrets.expect("one")[0].name, "pull");
    let message = until_refused(&admin, "g", "Starting").await;
    assert!(message.contains("allot-system/provider-g"), "{message}");
    providers.delete("g", &DeleteParams::default()).await.expect("it may go");
    until_gone(&providers, "g").await;
    until_gone(&deployments, "provider-g").await;
    until_gone(&Api::<ServiceAccount>::namespaced(admin.clone(), "allot-system"), "provider-g").await;
    until_gone(&Api::<Lease>::namespaced(admin.clone(), "allot-system"), "provider-g").await;
    until_gone(&Api::<Secret>::namespaced(admin, "allot-planes"), "access-g").await;
}

#[tokio::test]
async fn a_provider_whose_init_fails_says_so_and_is_tried_again() {
    if is_beside() {
        return;
    }
    let folder = Folder::new();
    let dir = provider_dir(&folder, "broken.sh", "#!/bin/sh\necho \"$1 knows no $3\"\nexit 3\n");
    let up = Up::start_with(&folder, &["--provider-dir", dir.to_str().expect("text")]).await;
    let admin = client(&folder.kubeconfig()).await;
    make_provider(&admin, "broken", "broken.sh").await;
    let message = until_refused(&admin, "broken", "InitFailed").await;
    assert!(message.contains("init ended with code 3") && message.contains("server's log"), "{message}");
    up.until_says("init knows no broken").await;
    up.until_says("started again in 2 s").await;
    let providers = Api::<ClusterProvider>::all(admin.clone());
    providers.delete("broken", &DeleteParams::default()).await.expect("it may go");
    until_gone(&providers, "broken").await;
    assert!(!folder.data().join("providers/broken").exists(), "its folder goes with it");
}

/// Processes whose command line names that folder, the server's own aside.
fn running_in(folder: &Folder) -> Vec<String> {
    let text = folder.data().join("providers").display().to_string();
    let found = Command::new("pgrep").args(["-a", "-f", &text]).output().expect("pgrep runs");
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_provider_ends_with_its_server_however_that_ends_and_its_clusters_come_back() {
    if is_beside() {
        return;
    }
    let folder = Folder::new();
    let mut planes = Planes::start(&folder).await;
    make_namespace(&planes.admin, "team").await;
    let requests = Api::<ClusterRequest>::namespaced(planes.admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest", "metadata": {"name": "r"},
        "spec": {"purposes": ["mcp"], "traits": [{"trait": "infrastructure/vendor/planes"}]}});
    create(&requests, object).await;
    until(&requests, "r", is_ready).await;
    // The guard, the provider, and the cluster that it started.
    assert!(running_in(&folder).len() >= 3, "{:?}", running_in(&folder));
    planes.up.take().expect("it runs").kill();
    let begin = tokio::time::Instant::now();
    while !running_in(&folder).is_empty() {
        assert!(begin.elapsed() < LIMIT, "they outlived their server: {:?}", running_in(&folder));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    planes.up = Some(start_with_providers(&folder).await);
    let admin = client(&folder.kubeconfig()).await;
    let clusters = Api::<Cluster>::namespaced(admin.clone(), "team");
    let name = clusters.list(&ListParams::default()).await.expect("a list").items[0].name_any();
    let access = crate::access::is_granted;
    let requests = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest", "metadata": {"name": "a"},
        "spec": {"clusterRef": {"name": name}, "permissions": [
            {"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]}]}});
    create(&requests, object).await;
    until(&requests, "a", access).await;
    assert!(planes.up.take().expect("it runs").interrupt().await.success());
    assert_eq!(running_in(&folder), Vec::<String>::new(), "nothing outlives a server that was told to stop");
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_provider_without_a_heartbeat_takes_nothing_new_until_it_beats_again() {
    let folder = Folder::new();
    let planes = Planes::start(&folder).await;
    let leases = Api::<Lease>::namespaced(planes.admin.clone(), "allot-system");
    let lease = until(&leases, "provider-planes", |lease| {
        lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.is_some())
    })
    .await;
    let process = lease.spec.and_then(|spec| spec.holder_identity).expect("its process");
    let signal = |name: &str| assert!(Command::new("kill").args([name, &process]).status().expect("kill").success());
    signal("-STOP");
    let message = until_refused(&planes.admin, "planes", "HeartbeatMissed").await;
    assert!(message.contains("allot-system/provider-planes"), "{message}");
    let providers = Api::<ClusterProvider>::all(planes.admin.clone());
    let silent = providers.get("planes").await.expect("it is there").status.expect("a status");
    assert_eq!(silent.profiles.len(), 1, "what it offers stays");
    signal("-CONT");
    until(&providers, "planes", is_good).await;
}

#[tokio::test]
#[ignore = "needs python3"]
async fn a_provider_may_do_its_part_and_nothing_else() {
    let folder = Folder::new();
    let planes = Planes::start(&folder).await;
    let admin = &planes.admin;
    let own = client_of(&kubeconfig_of(&folder, &json!({"token": token(admin, "planes").await}))).await;

    make_namespace(admin, "team").await;
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest", "metadata": {"name": "r"},
        "spec": {"purposes": ["mcp"], "traits": [{"trait": "infrastructure/vendor/local"}]}});
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    create(&requests, object).await;
    until(&requests, "r", is_ready).await;
    let clusters = Api::<Cluster>::namespaced(own.clone(), "team");
    let name = clusters.list(&ListParams::default()).await.expect("it may read them").items[0].name_any();
    let (params, merge) = (PatchParams::default(), |patch: Value| Patch::Merge(patch));
    let phase = merge(json!({"status": {"phase": "Failed"}}));
    assert_eq!(code(clusters.patch_status(&name, &params, &phase).await), 403, "it is another provider's");
    let hold = merge(json!({"metadata": {"finalizers": ["provider.cluster.openmcp.cloud/planes"]}}));
    assert_eq!(code(clusters.patch(&name, &params, &hold).await), 403, "nor does it hold it");
    assert_eq!(code(clusters.delete(&name, &DeleteParams::default()).await), 403);

    let providers = Api::<ClusterProvider>::all(own.clone());
    let ready = merge(json!({"status": {"ready": false}}));
    assert_eq!(
        code(providers.patch_status("planes", &params, &ready).await),
        403,
        "whether it is ready the platform says"
    );
    let profiles = merge(json!({"status": {"profiles": []}}));
    assert_eq!(code(providers.patch_status("local", &params, &profiles).await), 403);
    assert_eq!(code(providers.get("local").await), 403);

    assert_eq!(code(Api::<Secret>::namespaced(own.clone(), "allot-planes").list(&ListParams::default()).await), 403);
    assert_eq!(code(Api::<Secret>::namespaced(own.clone(), "allot-planes").get("access-planes").await), 200);
    assert_eq!(code(Api::<Secret>::all(own.clone()).list(&ListParams::default()).await), 403);
    assert_eq!(code(Api::<Namespace>::all(own.clone()).list(&ListParams::default()).await), 403);
    let leases = Api::<Lease>::namespaced(own.clone(), "allot-system");
    assert_eq!(
        code(leases.patch("allot-controllers", &params, &merge(json!({"spec": {"holderIdentity": "x"}}))).await),
        403
    );

    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("planes.cluster.openmcp.cloud", "v1alpha1", "ProviderConfig"));
    let configs = Api::<DynamicObject>::all_with(own, &kind);
    let other = merge(json!({"spec": {"providerRef": "local"}}));
    assert_eq!(code(configs.patch("own", &params, &other).await), 403, "operators write them");
}

#[tokio::test]
async fn access_waits_for_a_provider_that_does_not_answer_and_trusts_no_answer_that_leads_elsewhere() {
    if is_beside() {
        return;
    }
    let folder = Folder::new();
    // It does nothing: what a provider does the test does with its identity.
    let dir = provider_dir(&folder, "idle.sh", "#!/bin/sh\n[ \"$1\" = init ] || exec sleep 600\n");
    let _up = Up::start_with(&folder, &["--provider-dir", dir.to_str().expect("text")]).await;
    let admin = client(&folder.kubeconfig()).await;
    make_provider(&admin, "idle", "idle.sh").await;
    let own = client_of(&kubeconfig_of(&folder, &json!({"token": token(&admin, "idle").await}))).await;
    let params = PatchParams::default();
    let now = jiff::Timestamp::now();
    let beat = Patch::Merge(json!({"spec": {"renewTime": format!("{now:.6}"), "leaseDurationSeconds": 600}}));
    let leases = Api::<Lease>::namespaced(own.clone(), "allot-system");
    once_let(|| leases.patch("provider-idle", &params, &beat)).await;
    let profile = json!({"name": "x", "supportedVersions": [{"version": "1.36.3"}],
        "supportedTraits": [{"trait": "infrastructure/vendor/idle"}]});
    let providers = Api::<ClusterProvider>::all(own.clone());
    let profiles = Patch::Merge(json!({"status": {"profiles": [profile]}}));
    once_let(|| providers.patch_status("idle", &params, &profiles)).await;

    make_namespace(&admin, "team").await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest", "metadata": {"name": "r"},
        "spec": {"purposes": ["mcp"], "traits": [{"trait": "infrastructure/vendor/idle"}]}});
    create(&requests, object).await;
    let grants = Api::<ClusterRequestGrant>::namespaced(admin.clone(), "team");
    let grant = until(&grants, "r", |_| true).await;
    let (name, uid) = (grant.spec.cluster_ref.name, grant.spec.cluster_ref.uid);
    let clusters = Api::<Cluster>::namespaced(own.clone(), "team");
    let healthy = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "status": {"phase": "Succeeded", "kubernetes": {"version": "1.36.3"}, "conditions": [{"type": "ClusterHealthy",
            "status": "True", "reason": "AllGood", "message": "", "lastTransitionTime": "2027-01-01T00:00:00Z"}]}});
    let apply = PatchParams::apply("idle").force();
    clusters.patch_status(&name, &apply, &Patch::Apply(healthy)).await.expect("its own part");
    until(&requests, "r", is_ready).await;

    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest", "metadata": {"name": "a"},
        "spec": {"requestRef": {"name": "r"}, "permissions": [
            {"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}]}]}});
    create(&access, object).await;
    let desk = Api::<Secret>::namespaced(own, "allot-planes");
    let question = format!("admin.cluster.openmcp.cloud/{uid}");
    let is_asked = |secret: &Secret| secret.annotations().contains_key(&question);
    let is_clear = |secret: &Secret| !is_asked(secret) && secret.data.as_ref().is_none_or(|data| data.is_empty());
    let asked = until_desk(&desk, &is_asked).await;
    let ends: jiff::Timestamp = asked.annotations()[&question].parse().expect("a time");
    assert!(ends > now && ends.duration_since(now) < jiff::SignedDuration::from_mins(16), "{ends}");
    until(&access, "a", |request| request.status.as_ref().is_some_and(|status| status.reason == "NoAdminAccess")).await;

    let answer = |text: &str| Patch::Merge(json!({"data": { (uid.clone()): STANDARD.encode(text) }}));
    let marker = folder.0.join("was-run");
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [marker]}});
    desk.patch("access-idle", &params, &answer(&kubeconfig_of(&folder, &exec))).await.expect("it may answer");
    until_desk(&desk, &is_clear).await;
    assert!(!marker.exists(), "a provider's program was run");
    // Who waits is told why, and so what to tell whom.
    let told = |request: &AccessRequest| {
        let status = request.status.clone().unwrap_or_default();
        let wrong = "ClusterProvider idle gave an answer that cannot be used";
        status.reason == "NoAdminAccess" && status.message.contains(wrong)
    };
    let waits = until(&access, "a", told).await.status.expect("a status").message;
    assert!(waits.contains("exec"), "{waits}");

    // Asked again, it answers with what is the platform's own administrator here, which stands in for a cluster's.
    until_desk(&desk, &is_asked).await;
    let whole = fs::read_to_string(folder.kubeconfig()).expect("the kubeconfig");
    desk.patch("access-idle", &params, &answer(&whole)).await.expect("it may answer");
    until(&access, "a", crate::access::is_granted).await;
    until_desk(&desk, &is_clear).await;
}

/// Waits until the provider sees that of its desk, which it may read by name only.
async fn until_desk(desk: &Api<Secret>, condition: &impl Fn(&Secret) -> bool) -> Secret {
    let begin = tokio::time::Instant::now();
    loop {
        let found = desk.get("access-idle").await.expect("its own desk");
        if condition(&found) {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "{:?} {:?}", found.metadata.annotations, found.data.map(|data| data.len()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A definition as a provider may bring it.
fn definition(group: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("providerconfigs.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": "providerconfigs", "kind": kind},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

#[tokio::test]
async fn a_provider_reads_secrets_that_are_labelled_for_it_and_defines_its_own_group_only() {
    let folder = Folder::new();
    let (up, package) = if is_beside() {
        (Up::start(&folder).await, "registry.example.com/idle-cluster-provider:v1")
    } else {
        let dir = provider_dir(&folder, "idle.sh", "#!/bin/sh\n[ \"$1\" = init ] || exec sleep 600\n");
        (Up::start_with(&folder, &["--provider-dir", dir.to_str().expect("text")]).await, "idle.sh")
    };
    let admin = client(&folder.kubeconfig()).await;
    make_provider(&admin, "idle", package).await;
    let own = client_of(&kubeconfig_of(&folder, &json!({"token": token(&admin, "idle").await}))).await;

    let group = "idle.cluster.openmcp.cloud";
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let definitions = Api::<DynamicObject>::all_with(own.clone(), &kind);
    let bring = async |group: &str, kind: &str| {
        let object = serde_json::from_value(definition(group, kind)).expect("an object");
        let answer = definitions.create(&PostParams::default(), &object).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    for (group, kind, says) in [
        ("gardener.cluster.openmcp.cloud", "ProviderConfig", "of its own group only"),
        ("existing.cluster.openmcp.cloud", "ProviderConfig", "of its own group"),
        (group, "Foo", "go together"),
    ] {
        let begin = tokio::time::Instant::now();
        loop {
            let why = bring(group, kind).await.expect_err("refused");
            if why.contains(says) {
                break;
            }
            // Rights that were just made are seen a moment later, and so is the ClusterProvider.
            assert!(begin.elapsed() < LIMIT, "{group} {kind}: {why}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    bring(group, "ProviderConfig").await.expect("its own");
    let deleted = definitions.delete(&format!("providerconfigs.{group}"), &DeleteParams::default()).await;
    assert_eq!(code(deleted.map(|_| ())), 403);
    let deleted = definitions.delete("providerconfigs.kind.cluster.openmcp.cloud", &DeleteParams::default()).await;
    assert_eq!(code(deleted.map(|_| ())), 403);

    let secrets = Api::<Secret>::namespaced(admin.clone(), "allot-system");
    let label = "secrets.cluster.openmcp.cloud/read-by";
    create(&secrets, json!({"metadata": {"name": "labelled", "labels": {label: "idle"}}})).await;
    create(&secrets, json!({"metadata": {"name": "plain"}})).await;
    create(&secrets, json!({"metadata": {"name": "unnamed", "labels": {label: "idle"}}})).await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", "ProviderConfig"));
    let configs = Api::<DynamicObject>::all_with(admin.clone(), &kind);
    let config = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ProviderConfig", "metadata": {"name": "c"},
        "spec": {"providerRef": "idle", "aSecretRef": {"name": "labelled"}, "bSecretRef": {"name": "plain"}}});
    let config: DynamicObject = serde_json::from_value(config).expect("an object");
    let begin = tokio::time::Instant::now();
    while let Err(error) = configs.create(&PostParams::default(), &config).await {
        assert!(begin.elapsed() < LIMIT, "its definition is not served: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let reads = Api::<Secret>::namespaced(own.clone(), "allot-system");
    let until_code = async |name: &str, expect: u16| {
        let begin = tokio::time::Instant::now();
        loop {
            let got = code(reads.get(name).await);
            if got == expect {
                return;
            }
            assert!(begin.elapsed() < LIMIT, "{name}: {got}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    until_code("labelled", 200).await;
    for name in ["plain", "unnamed"] {
        assert_eq!(code(reads.get(name).await), 403, "{name}");
    }
    let events = Api::<k8s_openapi::api::core::v1::Event>::all(admin.clone());
    let begin = tokio::time::Instant::now();
    let text = loop {
        let all = events.list(&ListParams::default()).await.expect("a list").items;
        let mut told = all.into_iter().filter(|event| event.reason.as_deref() == Some("SecretNotShared"));
        if let Some(event) = told.next() {
            break event.message.unwrap_or_default();
        }
        assert!(begin.elapsed() < LIMIT, "nobody is told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(text.contains("kubectl label secret plain -n allot-system") && !text.contains("labelled"), "{text}");
    let labels = Patch::Merge(json!({"metadata": {"labels": {label: "idle"}}}));
    secrets.patch("plain", &PatchParams::default(), &labels).await.expect("a label");
    until_code("plain", 200).await;
    let labels = Patch::Merge(json!({"metadata": {"labels": {label: "other"}}}));
    secrets.patch("labelled", &PatchParams::default(), &labels).await.expect("a label");
    until_code("labelled", 403).await;
    up.kill();
}
