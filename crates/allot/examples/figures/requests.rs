//! Requests by the thousand: how many are granted in a second, how long one waits at a steady rate, and what a
//! landscape of 10,000 Clusters and 100,000 requests takes.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::{AT_ONCE, NAMESPACE, Server, api, http_get, object, prepared, report, tempdir};

/// Clusters that the requests of `grants` and `arrivals` find, and how many requests these are.
const CLUSTERS: usize = 100;
const GRANTS: usize = 20_000;
/// As many as one Cluster takes.
const ROOM: usize = 1000;
/// What `arrivals` sends in a second, and for how many seconds.
const RATE: usize = 200;
const SECONDS: usize = 60;
/// What `landscape` holds: requests, and how many share a Cluster.
const REQUESTS: usize = 100_000;
const SHARED: usize = 10;
const EXPLAINED: usize = 50;
const PURPOSE: &str = "shared";

/// How many requests are granted in a second: into many Clusters, then into one.
pub(super) async fn grants(binary: &Path) -> Result<()> {
    for (clusters, count) in [(CLUSTERS, GRANTS), (1, ROOM)] {
        let dir = tempdir()?;
        let (server, client) = shared(binary, &dir, clusters, ROOM).await?;
        let mut granted = Granted::watch(&client).await?;
        let before = server.processor_time()?;
        let started = Instant::now();
        let (_, ()) = tokio::try_join!(ask(&client, 0..count), granted.wait(count))?;
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{count} requests into {clusters} Clusters: {seconds:.2} s, {:.0} grants/s, {:.2} ms of processor time each",
            count as f64 / seconds,
            (server.processor_time()? - before) * 1e3 / count as f64
        );
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

/// How long a request waits for its grant when they come at a steady rate, whether or not earlier ones are answered.
pub(super) async fn arrivals(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let (_server, client) = shared(binary, &dir, CLUSTERS, ROOM).await?;
    let mut granted = Granted::watch(&client).await?;
    let requests = api(&client, "v1alpha1", "ClusterRequest");
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(RATE)?);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut sent = HashMap::new();
    let mut creating = tokio::task::JoinSet::new();
    let mut times = Vec::new();
    while times.len() < RATE * SECONDS {
        tokio::select! {
            biased;
            name = granted.next() => {
                let at: &Instant = sent.get(&name?).context("granted before it was sent")?;
                times.push(at.elapsed());
            }
            due = ticks.tick(), if sent.len() < RATE * SECONDS => {
                let name = format!("a{}", sent.len());
                let ask = object("v1alpha1", "ClusterRequest", &name, json!({"purposes": [PURPOSE]}))?;
                // From when it was due: a generator that is late itself hides nothing.
                sent.insert(name, due.into_std());
                let requests = requests.clone();
                creating.spawn(async move { requests.create(&PostParams::default(), &ask).await.map(drop) });
            }
        }
    }
    while let Some(created) = creating.join_next().await {
        created??;
    }
    report(&format!("request to grant at {RATE} requests/s"), &mut times);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// What a whole landscape takes in memory and at a restart, and how soon a request of it is explained.
pub(super) async fn landscape(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let (server, client) = shared(binary, &dir, 0, SHARED).await?;
    let mut granted = Granted::watch(&client).await?;
    let started = Instant::now();
    let grow = async {
        for tenth in 1..=10 {
            let before = started.elapsed().as_secs_f64();
            granted.wait(REQUESTS / 10).await?;
            println!(
                "{} granted after {:.0} s, {:.0}/s of late, resident {} MB",
                tenth * REQUESTS / 10,
                started.elapsed().as_secs_f64(),
                (REQUESTS / 10) as f64 / (started.elapsed().as_secs_f64() - before),
                megabytes(&server)?
            );
        }
        anyhow::Ok(())
    };
    tokio::try_join!(ask(&client, 0..REQUESTS), grow)?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{REQUESTS} requests, {SHARED} to a Cluster: granted in {seconds:.0} s, {:.0}/s",
        REQUESTS as f64 / seconds
    );
    super::wait_for_clusters(&client, "allot-clusters", REQUESTS / SHARED).await?;
    println!("all Clusters are up after {:.0} s, resident {} MB", started.elapsed().as_secs_f64(), megabytes(&server)?);
    explained(binary, &server, "grown")?;
    drop((granted, client, server));

    let started = Instant::now();
    let server = Server::start(binary, &dir).await?;
    let client = server.client().await?;
    while !client
        .request_text(http_get("/readyz?verbose")?)
        .await
        .is_ok_and(|text| text.contains("readyz check passed"))
    {
        ensure!(started.elapsed() < Duration::from_secs(120), "not ready after two minutes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ready = started.elapsed();
    let mut granted = Granted::watch(&client).await?;
    ask(&client, REQUESTS..REQUESTS + 1).await?;
    granted.wait(1).await?;
    println!(
        "started again: ready after {:.2} s, a new request granted after {:.2} s, resident {} MB",
        ready.as_secs_f64(),
        started.elapsed().as_secs_f64(),
        megabytes(&server)?
    );
    explained(binary, &server, "started again")?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    println!("60 s later: resident {} MB", megabytes(&server)?);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn megabytes(server: &Server) -> Result<u64> {
    Ok(server.resident()? / 1000)
}

/// Runs the command as a user would, its start included.
fn explained(binary: &Path, server: &Server, when: &str) -> Result<()> {
    let mut times = Vec::new();
    for number in 0..EXPLAINED {
        let name = format!("a{}", number * (REQUESTS / EXPLAINED));
        let started = Instant::now();
        let output = Command::new(binary)
            .args(["explain", "request", &name, "-n", NAMESPACE, "--kubeconfig"])
            .arg(&server.kubeconfig)
            .output()?;
        times.push(started.elapsed());
        if !output.status.success() {
            bail!("explain {name}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    report(&format!("explain request, {when}"), &mut times);
    Ok(())
}

/// A server with a shared Purpose of so much room, and so many Clusters for it that are up.
async fn shared(binary: &Path, dir: &Path, clusters: usize, room: usize) -> Result<(Server, Client)> {
    let (server, client) = prepared(binary, dir).await?;
    let resource = |kind| ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.openmcp.cloud", "v1alpha1", kind));
    let purposes: Api<DynamicObject> = Api::all_with(client.clone(), &resource("Purpose"));
    let purpose = object("v1alpha1", "Purpose", PURPOSE, json!({"dedicated": false, "maxTenants": room}))?;
    purposes.create(&PostParams::default(), &purpose).await?;
    let there: Api<DynamicObject> = Api::namespaced_with(client.clone(), "allot-clusters", &resource("Cluster"));
    for number in 0..clusters {
        let spec = json!({
            "clusterProviderRef": {"name": "local", "profile": "local"}, "purposes": [PURPOSE], "dedicated": false
        });
        there.create(&PostParams::default(), &object("v1alpha1", "Cluster", &format!("c{number}"), spec)?).await?;
    }
    super::wait_for_clusters(&client, "allot-clusters", clusters).await?;
    Ok((server, client))
}

/// Creates the requests of these numbers, many at once.
async fn ask(client: &Client, numbers: std::ops::Range<usize>) -> Result<()> {
    let requests = api(client, "v1alpha1", "ClusterRequest");
    let create = async |number: usize| {
        let ask = object("v1alpha1", "ClusterRequest", &format!("a{number}"), json!({"purposes": [PURPOSE]}))?;
        requests.create(&PostParams::default(), &ask).await?;
        Ok::<_, anyhow::Error>(())
    };
    futures::stream::iter(numbers).map(create).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// The requests that are granted, each once.
struct Granted {
    events: BoxStream<'static, watcher::Result<watcher::Event<DynamicObject>>>,
    seen: std::collections::HashSet<String>,
}

impl Granted {
    /// Begins with what is granted from now on.
    async fn watch(client: &Client) -> Result<Granted> {
        let requests = api(client, "v1alpha1", "ClusterRequest");
        let mut granted =
            Granted { events: watcher(requests, watcher::Config::default()).boxed(), seen: Default::default() };
        loop {
            match granted.events.try_next().await?.context("the watch ended")? {
                watcher::Event::InitDone => return Ok(granted),
                watcher::Event::InitApply(request) => _ = granted.seen.insert(request.name_any()),
                _ => {}
            }
        }
    }

    /// The name of the next one.
    async fn next(&mut self) -> Result<String> {
        loop {
            let watcher::Event::Apply(request) = self.events.try_next().await?.context("the watch ended")? else {
                continue;
            };
            let status = request.data["status"]["status"].as_str().unwrap_or_default();
            ensure!(status != "Denied", "{} is Denied: {}", request.name_any(), request.data["status"]);
            if status == "Granted" && self.seen.insert(request.name_any()) {
                return Ok(request.name_any());
            }
        }
    }

    async fn wait(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            self.next().await?;
        }
        Ok(())
    }
}
