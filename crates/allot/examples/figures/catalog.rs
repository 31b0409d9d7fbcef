//! The figure `catalog`: private profiles by the thousand on one CloudProfile, which changes: how long until each status
//! shows it, and what that costs.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use allotment_api::catalog::{CloudProfile, KeptProfile, PrivateCloudProfile};
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{Server, tempdir};

const CHILDREN: usize = 5_000;
const NAMESPACES: usize = 100;
const TYPES: usize = 500;
const IMAGES: usize = 10;
const VERSIONS: usize = 40;
/// Writes of this client that are under way at once.
const AT_ONCE: usize = 16;
/// Objects of one list call.
const PAGE: u32 = 250;
/// How long the server is left alone before its memory is read as that of a server at rest.
const REST: Duration = Duration::from_secs(20);
/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(300);
const PARENT: &str = "central";

fn machine(number: usize) -> Value {
    json!({"name": format!("m5.{number}xlarge"), "cpu": format!("{}", number + 1), "gpu": "0",
        "memory": format!("{}Gi", 4 * (number + 1)), "usable": true, "architecture": "amd64"})
}

fn parent() -> Result<CloudProfile> {
    let date = |number: usize| format!("20{}-06-01T00:00:00Z", 30 + number % 10);
    let kubernetes = |number: usize| json!({"version": format!("1.{}.{}", 20 + number / 5, number % 5), "expirationDate": date(number)});
    let image = |index: usize| {
        let version = |number: usize| {
            json!({"version": format!("15.{number}.20260101"), "expirationDate": date(number),
                "architectures": ["amd64", "arm64"], "cri": [{"name": "containerd"}]})
        };
        json!({"name": format!("image-{index}"), "versions": (0..VERSIONS).map(version).collect::<Vec<_>>()})
    };
    let region = |number: usize| {
        let zone = |at: usize| json!({"name": format!("region-{number}-{at}")});
        json!({"name": format!("region-{number}"), "zones": (0..3).map(zone).collect::<Vec<_>>()})
    };
    Ok(serde_json::from_value(json!({"metadata": {"name": PARENT}, "spec": {"type": "aws",
        "kubernetes": {"versions": (0..VERSIONS).map(kubernetes).collect::<Vec<_>>()},
        "machineImages": (0..IMAGES).map(image).collect::<Vec<_>>(),
        "machineTypes": (0..TYPES).map(machine).collect::<Vec<_>>(),
        "regions": (0..20).map(region).collect::<Vec<_>>(),
        "volumeTypes": [{"name": "gp3", "class": "standard", "usable": true}]}}))?)
}

fn child(index: usize) -> Result<PrivateCloudProfile> {
    let own = json!({"name": format!("own-{index}"), "cpu": "8", "gpu": "0", "memory": "16Gi"});
    Ok(serde_json::from_value(json!({"metadata": {"name": format!("own-{index}")},
        "spec": {"parent": PARENT, "machineTypes": [own]}}))?)
}

/// Measures it.
pub(crate) async fn catalog(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let server = Server::start(binary, &dir).await?;
    let client = server.client().await?;
    let profiles = Api::<CloudProfile>::all(client.clone());
    let empty = megabytes(server.resident()?);
    profiles.create(&PostParams::default(), &parent()?).await?;
    let namespaces = Api::<Namespace>::all(client.clone());
    for number in 0..NAMESPACES {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": format!("n{number}")}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    let (begun, before) = (Instant::now(), server.processor_time()?);
    let create = async |index: usize| {
        let api = Api::<PrivateCloudProfile>::namespaced(client.clone(), &format!("n{}", index % NAMESPACES));
        let body = serde_json::to_vec(&child(index)?)?;
        let request = kube::core::Request::new(api.resource_url()).create(&PostParams::default(), body)?;
        // The reply is not looked at: it is as large as what is rendered.
        client.request_text(request).await?;
        Ok::<_, anyhow::Error>(())
    };
    futures::stream::iter(0..CHILDREN).map(create).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    until_all_show(&client, TYPES + 1).await?;
    println!(
        "{CHILDREN} private profiles made and rendered in {:.1} s, {:.1} s of processor time; resident {empty} MB before, {} MB now, folder {} MB",
        begun.elapsed().as_secs_f64(),
        server.processor_time()? - before,
        megabytes(server.resident()?),
        folder_megabytes(&dir)?
    );
    tokio::time::sleep(REST).await;
    println!("{} s later: resident {} MB", REST.as_secs(), megabytes(server.resident()?));

    let mut shown = Shown::watch(&client).await?;
    let mut machines: Vec<Value> = (0..TYPES).map(machine).collect();
    machines.push(machine(TYPES));
    let patch = json!({"spec": {"machineTypes": machines}});
    let (begun, before) = (Instant::now(), server.processor_time()?);
    profiles.patch(PARENT, &PatchParams::default(), &Patch::Merge(patch)).await?;
    println!("the parent's change was answered after {:.2} s", begun.elapsed().as_secs_f64());
    let peak = shown.wait(&server).await?;
    let (elapsed, spent) = (begun.elapsed(), server.processor_time()? - before);
    println!(
        "every status written anew after {:.1} s, {spent:.1} s of processor time ({:.2} ms each); resident {} MB at most, {} MB now, folder {} MB",
        elapsed.as_secs_f64(),
        spent * 1e3 / CHILDREN as f64,
        megabytes(peak),
        megabytes(server.resident()?),
        folder_megabytes(&dir)?
    );
    until_all_show(&client, TYPES + 2).await?;
    tokio::time::sleep(REST).await;
    println!(
        "{} s later: resident {} MB, folder {} MB",
        REST.as_secs(),
        megabytes(server.resident()?),
        folder_megabytes(&dir)?
    );
    drop(server);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn megabytes(kib: u64) -> u64 {
    kib * 1024 / 1_000_000
}

fn folder_megabytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                // Files of the log come and go.
                Err(_) => {}
            }
        }
    }
    Ok(bytes / 1_000_000)
}

/// Waits until each status has so many machine types, by lists of all of them.
async fn until_all_show(client: &Client, types: usize) -> Result<()> {
    let begun = Instant::now();
    while let Err(error) = all_show(client, types).await {
        ensure!(begun.elapsed() < LIMIT, "not after {LIMIT:?}: {error}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn all_show(client: &Client, types: usize) -> Result<()> {
    let api = Api::<KeptProfile>::all(client.clone());
    let (mut token, mut seen) = (None::<String>, 0);
    loop {
        let params = ListParams { limit: Some(PAGE), continue_token: token.take(), ..ListParams::default() };
        let request = kube::core::Request::new(api.resource_url()).list(&params)?;
        let text = client.request_text(request).await?;
        let page: Value = serde_json::from_str(&text)?;
        for item in page["items"].as_array().context("no items")? {
            let shown = item["status"]["cloudProfile"]["spec"]["machineTypes"].as_array().map_or(0, Vec::len);
            ensure!(shown == types, "{} shows {shown} machine types of {types}", item["metadata"]["name"]);
            seen += 1;
        }
        token = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            ensure!(seen == CHILDREN, "{seen} are there");
            return Ok(());
        }
    }
}

/// The private profiles that were written since, by a watch of their metadata.
struct Shown {
    events: futures::stream::BoxStream<
        'static,
        watcher::Result<watcher::Event<kube::core::PartialObjectMeta<KeptProfile>>>,
    >,
}

impl Shown {
    async fn watch(client: &Client) -> Result<Shown> {
        let api = Api::<kube::core::PartialObjectMeta<KeptProfile>>::all(client.clone());
        let mut events = watcher(api, watcher::Config::default()).boxed();
        while !matches!(events.try_next().await?.context("the watch ended")?, watcher::Event::InitDone) {}
        Ok(Shown { events })
    }

    /// Waits until each was written; gives the most memory that the server had meanwhile, in KiB.
    async fn wait(&mut self, server: &Server) -> Result<u64> {
        let (mut seen, mut peak) = (HashSet::new(), 0);
        while seen.len() < CHILDREN {
            if let watcher::Event::Apply(profile) = self.events.try_next().await?.context("the watch ended")? {
                seen.insert((profile.namespace(), profile.name_any()));
            }
            if seen.len() % 50 == 0 {
                peak = peak.max(server.resident()?);
            }
        }
        Ok(peak)
    }
}
