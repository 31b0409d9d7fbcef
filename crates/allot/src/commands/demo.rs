//! `allot demo`: the main job before one's eyes, from nothing to an answer of a new cluster, in a
//! temporary folder that is gone afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;

use allotment_api::names::access_secret;
use allotment_api::reasons::{ConditionType, Verdict};
use allotment_api::requests::{AccessRequest, ClusterRequest};
use allotment_controllers::frame::Alarm;
use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use super::up::stop_signal;
use super::waiting::{self, Look};
use crate::cli::Demo;
use crate::exit::{Code, Failure, Outcome};
use crate::output::{data, note};
use crate::platform::{Options, Platform, within};

/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "team-a";

/// Does the main job and cleans up, whatever happens.
pub(crate) async fn run(arguments: Demo) -> Outcome {
    let folder = temporary_folder()?;
    let (stop, alarm) = (stop_signal()?, Alarm::default());
    let result = within(&alarm, perform(&folder, &arguments, &alarm, stop)).await;
    std::fs::remove_dir_all(&folder)
        .with_context(|| format!("cannot remove the temporary folder {}", folder.display()))?;
    if result.is_ok() {
        note(
            "\ncleaned up. To do it yourself:\n\n  allot up\n  allot request try -n default --purpose mcp --wait\n  allot tree",
        );
    }
    result
}

async fn perform(folder: &Path, arguments: &Demo, alarm: &Alarm, stop: impl Future<Output = ()>) -> Outcome {
    let mut stop = std::pin::pin!(stop);
    let platform = tokio::select! {
        biased;
        shown = show(folder, arguments, alarm) => shown?,
        () = &mut stop => return Err(Failure::new(Code::Interrupted, "stopped before it was done")),
    };
    if arguments.keep {
        note(&format!(
            "\nrunning until Ctrl-C; in another terminal:\n\n  export KUBECONFIG={}",
            platform.kubeconfig().display()
        ));
        tokio::select! {
            biased;
            _ = alarm.rung() => {}
            () = stop => {}
        }
    }
    platform.stop().await;
    Ok(())
}

/// A line for every step that is done, with the time it took.
struct Steps {
    last: Instant,
}

impl Steps {
    fn done(&mut self, text: &str) {
        let took = crate::duration::human(self.last.elapsed());
        note(&format!("{took:>9}  {text}"));
        self.last = Instant::now();
    }
}

async fn show(folder: &Path, arguments: &Demo, alarm: &Alarm) -> Result<Platform, Failure> {
    let begin = Instant::now();
    let mut steps = Steps { last: begin };
    let options = Options {
        data_dir: folder.join("data"),
        listen: Some(([127, 0, 0, 1], 0).into()),
        access_token_lifetime: Duration::from_secs(12 * 3600),
        provisioning_deadline: Duration::from_secs(30 * 60),
        leaf_lifetime: Duration::from_secs(24 * 3600),
        kubeconfig: None,
        provider_dir: None,
        environment: "demo".to_owned(),
    };
    let platform = Platform::start(options, alarm.clone()).await?;
    steps.done(&format!("platform ready at {}", platform.url()));
    let worked = main_job(&platform, &mut steps).await;
    if let Err(failure) = worked {
        platform.stop().await;
        return Err(failure);
    }
    note(&format!("{:>9}  in all", crate::duration::human(begin.elapsed())));
    if !arguments.keep {
        // What was made is taken back the way a user would, so that this is seen to work too.
        take_back(&platform, &mut steps).await?;
    }
    Ok(platform)
}

async fn main_job(platform: &Platform, steps: &mut Steps) -> Outcome {
    let text = std::fs::read_to_string(platform.kubeconfig())?;
    let client = client_of(&text).await?;
    make_namespace(&client).await?;

    let requests = Api::<ClusterRequest>::namespaced(client.clone(), NAMESPACE);
    let request: ClusterRequest = serde_json::from_value(json!({
        "apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest",
        "metadata": {"name": "build"}, "spec": {"purposes": ["mcp"]},
    }))?;
    requests.create(&PostParams::default(), &request).await?;
    steps.done("asked for a cluster: ClusterRequest team-a/build, purpose mcp");
    let granted = waiting::until(requests, "build", PATIENCE, |request| {
        let status = request.status.clone().unwrap_or_default();
        let ready = ConditionType::Ready.is_true(&status.conditions);
        match status.status {
            Some(Verdict::Granted) if ready => Look::Done,
            _ => Look::NotYet("            waiting for the ClusterRequest".to_owned()),
        }
    })
    .await?;
    let cluster = granted.status.and_then(|status| status.cluster_ref).map(|cluster| cluster.name).unwrap_or_default();
    steps.done(&format!("granted and ready: a cluster of its own, {cluster}"));

    let access = Api::<AccessRequest>::namespaced(client.clone(), NAMESPACE);
    let request: AccessRequest = serde_json::from_value(json!({
        "apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest", "metadata": {"name": "build"},
        "spec": {"requestRef": {"name": "build"}, "permissions": [
            {"rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]}]},
    }))?;
    access.create(&PostParams::default(), &request).await?;
    steps.done("asked for access: AccessRequest team-a/build, get and list namespaces, nothing else");
    let granted = waiting::until(access, "build", PATIENCE, |request| {
        let status = request.status.clone().unwrap_or_default();
        match status.status {
            Some(Verdict::Granted) => Look::Done,
            _ => Look::NotYet("            waiting for the AccessRequest".to_owned()),
        }
    })
    .await?;
    let secret = granted.status.and_then(|status| status.access).map(|access| access.secret_ref.name);
    let secret = secret.ok_or_else(|| anyhow!("AccessRequest team-a/build is Granted and names no Secret"))?;
    let secret = Api::<Secret>::namespaced(client, NAMESPACE).get(&secret).await?;
    steps.done("granted: a Secret with a kubeconfig that can do just that");

    let text = super::access::text(&secret, access_secret::KUBECONFIG)?;
    let inside = client_of(&text).await?;
    let namespaces = Api::<Namespace>::all(inside.clone()).list(&ListParams::default()).await?;
    steps.done("GET namespaces in the new cluster, with the issued kubeconfig:");
    for namespace in &namespaces.items {
        data(&format!("namespace/{}", namespace.metadata.name.clone().unwrap_or_default()))?;
    }
    match Api::<Secret>::all(inside).list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            steps.done("GET secrets there is forbidden, as it was not asked for");
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err(anyhow!("the kubeconfig can read Secrets, which nobody asked for; this is a defect").into()),
    }
}

async fn take_back(platform: &Platform, steps: &mut Steps) -> Outcome {
    let client = client_of(&std::fs::read_to_string(platform.kubeconfig())?).await?;
    let params = kube::api::DeleteParams::default();
    let access = Api::<AccessRequest>::namespaced(client.clone(), NAMESPACE);
    access.delete("build", &params).await?;
    gone(access, "build").await?;
    steps.done("deleted the AccessRequest: token and Secret are gone");
    let requests = Api::<ClusterRequest>::namespaced(client, NAMESPACE);
    requests.delete("build", &params).await?;
    gone(requests, "build").await?;
    steps.done("deleted the ClusterRequest: its room is free, the cluster goes after its grace");
    Ok(())
}

/// Waits until no object of that name is left.
async fn gone<K>(api: Api<K>, name: &str) -> Outcome
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let deleted = kube::runtime::wait::await_condition(api, name, |object: Option<&K>| object.is_none());
    tokio::time::timeout(PATIENCE, deleted)
        .await
        .map_err(|_| anyhow!("{} {name} is still there after {}", K::kind(&()), crate::duration::human(PATIENCE)))??;
    Ok(())
}

async fn make_namespace(client: &Client) -> Outcome {
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

async fn client_of(kubeconfig: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

/// A folder for this run only, readable by this user only.
fn temporary_folder() -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let seams = crate::platform::seams();
    let path = std::env::temp_dir().join(format!("allot-demo-{}", seams.entropy.suffix(10)));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .with_context(|| format!("cannot make the temporary folder {}", path.display()))?;
    Ok(path)
}
