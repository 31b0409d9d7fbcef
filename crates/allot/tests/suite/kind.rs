//! Provider `kind`, with a program in its place that speaks the same command line and writes down what it was asked.
//! The cluster that it hands out is a logical one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use allotment_api::requests::{AccessRequest, Cluster, ClusterProvider, ClusterRequest, KindConfig, Purpose};
use allotment_machinery::yaml;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Event, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::access::is_granted;
use crate::harness::{Folder, LIMIT, Up, client, client_of, code, create, make_namespace, until, until_gone};
use crate::requests::is_ready;

/// What the documents say to apply.
const EXAMPLE: &str = include_str!("../../../../examples/kind.yaml");

/// Keeps clusters as files; a file `fail-WORD` makes the command of that word fail, `hang` makes creation last and `hang-get`
/// the list of clusters.
const FAKE: &str = r#"#!/bin/sh
state="STATE"
name=""
previous=""
for word in "$@"; do
  [ "$previous" = --name ] && name="$word"
  previous="$word"
done
if [ -e "$state/fail-$1" ]; then
  echo "Preparing ..." >&2
  echo "ERROR: failed to $1: $(cat "$state/fail-$1")" >&2
  exit 1
fi
case "$1 $2" in
"get clusters")
  while [ -e "$state/hang-get" ]; do touch "$state/asked-to-list"; sleep 0.05; done
  found=$(ls "$state/clusters")
  if [ -z "$found" ]; then echo "No kind clusters found." >&2; else echo "$found"; fi ;;
"create cluster")
  [ -e "$state/clusters/$name" ] && { echo "ERROR: node(s) already exist for a cluster with the name" >&2; exit 1; }
  echo "$* < $(cat)" >> "$state/asked"
  echo $$ > "$state/creating"
  touch "$state/clusters/$name" kubeconfig
  while [ -e "$state/hang" ]; do sleep 0.05; done ;;
"get kubeconfig")
  [ -e "$state/clusters/$name" ] || { echo "ERROR: could not locate any control plane nodes" >&2; exit 1; }
  cat "$state/kubeconfig" ;;
"delete cluster")
  echo "$*" >> "$state/asked"
  rm -f "$state/clusters/$name" ;;
*) echo "ERROR: unknown command: $*" >&2; exit 1 ;;
esac
"#;

/// The program in kind's place.
struct Fake(PathBuf);

impl Fake {
    /// Not yet where it is found.
    fn new(folder: &Folder) -> Fake {
        let state = folder.0.join("kind-state");
        std::fs::create_dir_all(state.join("clusters")).expect("a folder");
        std::fs::create_dir_all(folder.0.join("bin")).expect("a folder");
        Fake(state)
    }

    fn install(&self, folder: &Folder) {
        let (aside, path) = (self.0.join("kind"), folder.0.join("bin/kind"));
        std::fs::write(&aside, FAKE.replace("STATE", &self.0.display().to_string())).expect("a script");
        std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        std::fs::rename(aside, path).expect("it is put there whole");
    }

    fn set(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("it can be written");
    }

    fn unset(&self, name: &str) {
        std::fs::remove_file(self.0.join(name)).expect("it is there");
    }

    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join("asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn clusters(&self) -> Vec<String> {
        let found = std::fs::read_dir(self.0.join("clusters")).expect("a folder");
        found.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect()
    }

    async fn until(&self, what: &str, met: impl Fn(&Fake) -> bool) {
        let begin = tokio::time::Instant::now();
        while !met(self) {
            assert!(begin.elapsed() < LIMIT, "{what}: {:?} {:?}", self.asked(), self.clusters());
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

async fn apply_example(admin: &Client) {
    for document in yaml::parse_stream(EXAMPLE).expect("YAML") {
        let object: Value = serde_json::from_slice(&document.value.to_vec()).expect("JSON");
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        match kind.as_str() {
            "ClusterProvider" => drop(create(&Api::<ClusterProvider>::all(admin.clone()), object).await),
            "ProviderConfig" => drop(create(&Api::<KindConfig>::all(admin.clone()), object).await),
            "Purpose" => drop(create(&Api::<Purpose>::all(admin.clone()), object).await),
            other => panic!("the example has a {other}, which nobody tests"),
        }
    }
}

/// All rights in what a request of namespace `team` was given; the text of the kubeconfig.
async fn enter(admin: &Client, name: &str, request: &str) -> String {
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    let all = json!([{"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}]);
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": name}, "spec": {"requestRef": {"name": request}, "permissions": all}});
    create(&access, object).await;
    let granted = until(&access, name, is_granted).await;
    let secret = granted.status.and_then(|status| status.access).expect("access").secret_ref.name;
    let secret = Api::<Secret>::namespaced(admin.clone(), "team").get(&secret).await.expect("the Secret");
    String::from_utf8(secret.data.expect("data")["kubeconfig"].0.clone()).expect("text")
}

/// The same with an identity that is nobody's AccessRequest: one of those is taken away by the Cluster that it is not of.
async fn outside(kubeconfig: &str) -> String {
    let inside = client_of(kubeconfig).await;
    let accounts = Api::<ServiceAccount>::namespaced(inside.clone(), "kube-system");
    create(&accounts, json!({"metadata": {"name": "kind"}})).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "kind"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "kind", "namespace": "kube-system"}]});
    create(&Api::<ClusterRoleBinding>::all(inside), binding).await;
    let token = accounts.create_token_request("kind", &PostParams::default(), &TokenRequest::default()).await;
    let token = token.expect("a token").status.and_then(|status| status.token).expect("a token");
    let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    kubeconfig.auth_infos[0].auth_info =
        Some(kube::config::AuthInfo { token: Some(token.into()), ..kube::config::AuthInfo::default() });
    serde_json::to_string(&kubeconfig).expect("JSON")
}

async fn ask(admin: &Client, name: &str, purpose: &str) {
    let object = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": name}, "spec": {"purposes": [purpose], "kubernetes": {"version": "1.34"}}});
    create(&Api::<ClusterRequest>::namespaced(admin.clone(), "team"), object).await;
}

/// The key of the Cluster that a request was given.
async fn home(admin: &Client, request: &str) -> (Api<Cluster>, String) {
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let noted = until(&requests, request, |found: &ClusterRequest| {
        found.annotations().contains_key("cluster.openmcp.cloud/cluster-name")
    })
    .await;
    let noted = noted.annotations()["cluster.openmcp.cloud/cluster-name"].clone();
    let (namespace, name) = noted.split_once('/').expect("a namespace and a name");
    (Api::namespaced(admin.clone(), namespace), name.to_owned())
}

fn health(cluster: &Cluster) -> Option<(String, String)> {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.into_iter().filter(|condition| condition.type_ == "ClusterHealthy");
    conditions.next().map(|condition| (condition.reason.clone(), condition.message.clone()))
}

fn provider_says(provider: &ClusterProvider, reason: &str) -> bool {
    provider.status.as_ref().is_some_and(|status| status.reason == reason)
}

async fn records(admin: &Client) -> Vec<Secret> {
    let all = Api::<Secret>::namespaced(admin.clone(), "allot-planes").list(&ListParams::default()).await;
    all.expect("a list").items.into_iter().filter(|secret| secret.name_any().starts_with("kind-")).collect()
}

#[tokio::test]
async fn clusters_are_made_and_deleted_by_the_kind_command_whatever_happens_in_between() {
    let folder = Folder::new();
    let fake = Fake::new(&folder);
    let up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    create(
        &Api::<ClusterRequest>::namespaced(admin.clone(), "team"),
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
            "metadata": {"name": "logical"}, "spec": {"purposes": ["mcp"]}}),
    )
    .await;
    fake.set("kubeconfig", &outside(&enter(&admin, "logical", "logical").await).await);

    // Without the command, and without what it needs, it is told what to install.
    apply_example(&admin).await;
    let providers = Api::<ClusterProvider>::all(admin.clone());
    let missing =
        until(&providers, "kind", |found| provider_says(found, "ToolNotUsable")).await.status.expect("a status");
    assert!(!missing.ready && missing.message.contains("install kind"), "{missing:?}");
    ask(&admin, "r", "pods").await;
    fake.set("fail-get", "docker is not there");
    fake.install(&folder);
    until(&providers, "kind", |found| {
        found.status.as_ref().is_some_and(|status| status.message.contains("docker is not there"))
    })
    .await;
    fake.unset("fail-get");
    fake.set("fail-create", "no space left on device");

    // A failure is told and tried again.
    let (clusters, name) = home(&admin, "r").await;
    let failed = until(&clusters, &name, |found| health(found).is_some_and(|(reason, _)| reason == "Failed")).await;
    let (_, message) = health(&failed).expect("told");
    assert!(message.contains("no space left on device") && !message.contains("Preparing"), "{message}");
    fake.set("hang", "");
    fake.unset("fail-create");
    fake.until("it is made again", |fake| !fake.clusters().is_empty()).await;
    let asked = fake.asked();
    let [made] = fake.clusters().try_into().expect("one cluster");
    let [creation] = asked.try_into().expect("one creation");
    let (words, definition) = creation.split_once(" < ").expect("a definition");
    assert_eq!(
        words,
        format!(
            "create cluster --name {made} --image kindest/node:v1.34.0 --kubeconfig kubeconfig --wait 5m --config -"
        )
    );
    let definition: Value = serde_json::from_str(definition).expect("JSON");
    assert_eq!(definition["nodes"], json!([{"role": "control-plane"}, {"role": "worker"}]));

    // Killed in between: what is there by half is deleted, and made anew.
    up.kill();
    fake.unset("hang");
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    until(&requests, "r", is_ready).await;
    assert_eq!(fake.clusters(), std::slice::from_ref(&made));
    assert_eq!(fake.asked()[1], format!("delete cluster --name {made} --kubeconfig kubeconfig"));
    let record = records(&admin).await.remove(0);
    assert!(record.data.expect("data").contains_key("kubeconfig"), "its kubeconfig is kept");
    let inside = client_of(&enter(&admin, "a", "r").await).await;
    make_namespace(&inside, "anything").await;
    assert_eq!(code(Api::<Namespace>::all(inside).get("anything").await), 200);

    // Deletion that fails is told and tried again.
    fake.set("fail-delete", "docker does not answer");
    let access = Api::<AccessRequest>::namespaced(admin.clone(), "team");
    access.delete("a", &DeleteParams::default()).await.expect("it can be deleted");
    requests.delete("r", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "r").await;
    let (clusters, params) = (Api::<Cluster>::namespaced(admin.clone(), "team"), DeleteParams::default());
    clusters.delete(&name, &params).await.expect("it can be deleted");
    until(&clusters, &name, |found| {
        health(found).is_some_and(|(_, message)| message.contains("docker does not answer"))
    })
    .await;
    fake.unset("fail-delete");
    until_gone(&clusters, &name).await;
    assert!(fake.clusters().is_empty(), "{:?}", fake.clusters());
    assert!(records(&admin).await.is_empty(), "its record is left");

    // By force it goes all the same, and it is told what is left.
    ask(&admin, "again", "pods").await;
    until(&requests, "again", is_ready).await;
    let (clusters, name) = home(&admin, "again").await;
    fake.set("fail-delete", "docker does not answer");
    requests.delete("again", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "again").await;
    clusters.delete(&name, &DeleteParams::default()).await.expect("it can be deleted");
    let force = Patch::Merge(json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}}));
    clusters.patch(&name, &PatchParams::default(), &force).await.expect("it can be changed");
    until_gone(&clusters, &name).await;
    let [left] = fake.clusters().try_into().expect("one is left");
    let events = Api::<Event>::namespaced(admin.clone(), "team").list(&ListParams::default()).await.expect("a list");
    let told = events.items.iter().any(|event| {
        event.reason.as_deref() == Some("LeftBehind") && event.message.as_ref().is_some_and(|text| text.contains(&left))
    });
    assert!(told, "{events:?}");
    assert!(!folder.0.join(".kube").exists(), "the user's own kubeconfig is nobody's business");
}

#[tokio::test]
async fn by_force_a_cluster_goes_while_kind_still_makes_it() {
    let folder = Folder::new();
    let fake = Fake::new(&folder);
    fake.install(&folder);
    fake.set("hang", "");
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    apply_example(&admin).await;
    ask(&admin, "r", "pods").await;
    fake.until("it is being made", |fake| !fake.clusters().is_empty()).await;
    let (clusters, name) = home(&admin, "r").await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    requests.delete("r", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "r").await;
    let _ = clusters.delete(&name, &DeleteParams::default()).await;
    let force = Patch::Merge(json!({"metadata": {"annotations": {"cluster.openmcp.cloud/force-delete": "true"}}}));
    clusters.patch(&name, &PatchParams::default(), &force).await.expect("it can be changed");
    until_gone(&clusters, &name).await;
    assert!(fake.clusters().is_empty(), "what was made by half is deleted: {:?}", fake.clusters());
    assert!(records(&admin).await.is_empty(), "its record is left");
    let creating = std::fs::read_to_string(fake.0.join("creating")).expect("it began");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", creating.trim()));
    assert!(!stat.is_ok_and(|stat| !stat.contains(") Z ")), "kind goes on making it");
}

#[tokio::test]
async fn a_kind_command_that_hangs_holds_up_no_other_provider() {
    let folder = Folder::new();
    let fake = Fake::new(&folder);
    fake.install(&folder);
    fake.set("hang-get", "");
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let providers = Api::<ClusterProvider>::all(admin.clone());
    let provider = |name: &str, package: &str| json!({"metadata": {"name": name}, "spec": {"package": package}});
    for index in 0..24 {
        create(&providers, provider(&format!("kind-{index}"), "builtin:kind")).await;
    }
    fake.until("kind is asked", |fake| fake.0.join("asked-to-list").exists()).await;
    let begin = tokio::time::Instant::now();
    create(&providers, provider("moon", "builtin:moon")).await;
    until(&providers, "moon", |found| provider_says(found, "PackageNotAllowed")).await;
    // It is given up after half a minute.
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
}
