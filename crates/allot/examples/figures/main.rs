//! Measures what `docs/benchmarks.md` reports of the platform as a whole: readiness, the way from a
//! request to a working token, and what things cost in memory. Starts `allot up` as a child on loopback
//! and is its only client.
//!
//! `cargo run --release -p allot --example figures -- FIGURE target/release/allot`, where FIGURE is
//! `ready`, `many`, `request`, `tenants`, `memory`, `definitions`, `grants`, `arrivals`, `landscape` or `catalog`.

#![expect(clippy::print_stdout, reason = "its output is the report")]

mod catalog;
mod requests;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::watcher;
use kube::{Client, Config};
use serde_json::json;

const STARTS: usize = 20;
const REQUESTS: usize = 300;
const SOME: usize = 20;
const TENANTS: usize = 1000;
const DEFINITIONS: usize = 1000;
const DEFINED: usize = 200;
const ROUNDS: usize = 3;
const OBJECTS: usize = 100;
const MANY: usize = 100_000;
const AT_ONCE: usize = 64;
const BYTES: usize = 600;
/// Ticks of a second in `/proc`.
const TICKS: f64 = 100.0;
const NAMESPACE: &str = "figures";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::main]
async fn main() -> Result<()> {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, binary] = words.as_slice() else {
        bail!("usage: figures FIGURE PATH-OF-ALLOT; the figures are listed at the top of its source")
    };
    let binary = Path::new(binary);
    match what.as_str() {
        "ready" => ready(binary).await,
        "many" => many(binary).await,
        "request" => request(binary).await,
        "tenants" => tenants(binary).await,
        "memory" => memory(binary).await,
        "definitions" => definitions(binary).await,
        "grants" => requests::grants(binary).await,
        "arrivals" => requests::arrivals(binary).await,
        "landscape" => requests::landscape(binary).await,
        "catalog" => catalog::catalog(binary).await,
        other => bail!("no figure is called {other}"),
    }
}

struct Server {
    child: Child,
    kubeconfig: PathBuf,
}

impl Server {
    async fn start(binary: &Path, dir: &Path) -> Result<Server> {
        let kubeconfig = dir.join("kubeconfig");
        let _ = std::fs::remove_file(&kubeconfig);
        let mut child = Command::new(binary)
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdout(Stdio::null())
            .spawn()?;
        while !kubeconfig.exists() {
            if let Some(status) = child.try_wait()? {
                bail!("allot up ended with {status}");
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        Ok(Server { child, kubeconfig })
    }

    async fn client(&self) -> Result<Client> {
        client(Kubeconfig::read_from(&self.kubeconfig)?).await
    }

    /// Resident memory in KiB.
    fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        line.split_whitespace().nth(1).context("no figure")?.parse().context("not a figure")
    }
}

impl Server {
    /// Processor time spent so far, user and system, in seconds.
    fn processor_time(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(')').context("no command")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        Ok(ticks.sum::<Result<u64, _>>()? as f64 / TICKS)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn api(client: &Client, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.openmcp.cloud", version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

fn object(version: &str, kind: &str, name: &str, spec: serde_json::Value) -> Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": format!("cluster.openmcp.cloud/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec
    }))?)
}

async fn ready(binary: &Path) -> Result<()> {
    let (mut fresh, mut again) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let dir = tempdir()?;
        fresh.push(start_to_accepted(binary, &dir, "first").await?);
        again.push(start_to_accepted(binary, &dir, "second").await?);
        std::fs::remove_dir_all(&dir)?;
    }
    report("ready on a new folder", &mut fresh);
    report("ready on the default landscape's folder", &mut again);
    Ok(())
}

/// Starts on a folder that holds many objects, whose process was killed each time before.
async fn many(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let server = Server::start(binary, &dir).await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(server.client().await?, "default");
    let create = async |number: usize| {
        let name = format!("object-{number}");
        let body = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(BYTES)}});
        config_maps.create(&PostParams::default(), &serde_json::from_value(body)?).await?;
        Ok::<_, anyhow::Error>(())
    };
    futures::stream::iter(0..MANY).map(create).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    drop(server);
    let mut times = Vec::new();
    for number in 0..SOME {
        times.push(start_to_accepted(binary, &dir, &format!("request-{number}")).await?);
    }
    std::fs::remove_dir_all(&dir)?;
    report("ready on a folder with 100,000 objects", &mut times);
    Ok(())
}

async fn start_to_accepted(binary: &Path, dir: &Path, name: &str) -> Result<Duration> {
    let started = Instant::now();
    let server = Server::start(binary, dir).await?;
    let client = server.client().await?;
    loop {
        let answer = client.request_text(http_get("/readyz?verbose")?).await;
        if answer.is_ok_and(|text| text.contains("readyz check passed")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.openmcp.cloud", "v1alpha1", "ClusterRequest"));
    let requests: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let body = object("v1alpha1", "ClusterRequest", name, json!({"purposes": ["workload"]}))?;
    requests.create(&PostParams::default(), &body).await?;
    Ok(started.elapsed())
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

async fn prepared(binary: &Path, dir: &Path) -> Result<(Server, Client)> {
    let server = Server::start(binary, dir).await?;
    let client = server.client().await?;
    while !client.request_text(http_get("/readyz")?).await.is_ok_and(|text| text == "ok") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.openmcp.cloud", "v1alpha1", "Purpose"));
    let purposes: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let purpose = object("v1alpha1", "Purpose", "figures", json!({"dedicated": true, "idleGrace": "0s"}))?;
    purposes.create(&PostParams::default(), &purpose).await?;
    Ok((server, client))
}

/// The Secrets of the namespace as they come.
type Secrets = BoxStream<'static, watcher::Result<watcher::Event<Secret>>>;

/// A watch that has seen all there is.
async fn watch_secrets(client: &Client) -> Result<Secrets> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let mut events = watcher(secrets, watcher::Config::default()).boxed();
    while !matches!(events.try_next().await?.context("the watch ended")?, watcher::Event::InitDone) {}
    Ok(events)
}

/// Asks for a cluster and access to it at once, and gives the time to the first 200 from that cluster, over
/// a connection of its own, and that.
async fn request_once(client: &Client, events: &mut Secrets, name: &str) -> Result<(Duration, Client)> {
    let ask = object("v1alpha1", "ClusterRequest", name, json!({"purposes": ["figures"]}))?;
    let access = object(
        "v1",
        "AccessRequest",
        name,
        json!({"requestRef": {"name": name}, "permissions": [{"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}]}),
    )?;
    let (requests, accesses) = (api(client, "v1alpha1", "ClusterRequest"), api(client, "v1", "AccessRequest"));
    let params = PostParams::default();
    let started = Instant::now();
    tokio::try_join!(requests.create(&params, &ask), accesses.create(&params, &access))?;
    let kubeconfig = loop {
        let watcher::Event::Apply(secret) = events.try_next().await?.context("the watch ended")? else { continue };
        let owner = secret.metadata.owner_references.iter().flatten().any(|owner| owner.name == name);
        if let (true, Some(bytes)) = (owner, secret.data.as_ref().and_then(|data| data.get("kubeconfig"))) {
            break Kubeconfig::from_yaml(std::str::from_utf8(&bytes.0)?)?;
        }
    };
    let granted = self::client(kubeconfig).await?;
    granted.request_text(http_get("/api/v1/namespaces")?).await?;
    Ok((started.elapsed(), granted))
}

async fn remove(client: &Client, name: &str) -> Result<()> {
    let params = DeleteParams::default();
    api(client, "v1", "AccessRequest").delete(name, &params).await.ok();
    api(client, "v1alpha1", "ClusterRequest").delete(name, &params).await.ok();
    Ok(())
}

async fn request(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let (_server, client) = prepared(binary, &dir).await?;
    let mut events = watch_secrets(&client).await?;
    let mut times = Vec::new();
    for index in 0..REQUESTS {
        let name = format!("r{index}");
        times.push(request_once(&client, &mut events, &name).await?.0);
        remove(&client, &name).await?;
    }
    report("request to 200 from the new cluster", &mut times);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Makes a few clusters one after the other, says how long each took, and gives them back.
async fn some(client: &Client, events: &mut Secrets, name: &str) -> Result<()> {
    let mut times = Vec::new();
    for index in 0..SOME {
        times.push(request_once(client, events, &format!("{name}{index}")).await?.0);
    }
    report(&format!("the {name} clusters"), &mut times);
    for index in 0..SOME {
        remove(client, &format!("{name}{index}")).await?;
    }
    Ok(())
}

async fn clusters(client: &Client, namespace: &str) -> Result<usize> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.openmcp.cloud", "v1alpha1", "Cluster"));
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let list = clusters.list(&ListParams::default()).await?;
    Ok(list.items.iter().filter(|cluster| cluster.data["status"]["phase"] == "Succeeded").count())
}

async fn tenants(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let (server, client) = prepared(binary, &dir).await?;
    let mut events = watch_secrets(&client).await?;
    some(&client, &mut events, "first").await?;
    wait_for_clusters(&client, NAMESPACE, 0).await?;
    let before = server.resident()?;
    for round in 1..=ROUNDS {
        let requests = api(&client, "v1alpha1", "ClusterRequest");
        let started = Instant::now();
        for index in 0..TENANTS {
            let ask = object("v1alpha1", "ClusterRequest", &format!("t{index}"), json!({"purposes": ["figures"]}))?;
            requests.create(&PostParams::default(), &ask).await?;
        }
        wait_for_clusters(&client, NAMESPACE, TENANTS).await?;
        let with = server.resident()?;
        println!(
            "round {round}: {TENANTS} clusters in {:.1?}, resident {before} -> {with} KiB, {} KiB each",
            started.elapsed(),
            with.saturating_sub(before) / TENANTS as u64
        );
        if round == 1 {
            some(&client, &mut events, "later").await?;
        }
        for index in 0..TENANTS {
            remove(&client, &format!("t{index}")).await?;
        }
        wait_for_clusters(&client, NAMESPACE, 0).await?;
        println!("round {round}: all deleted after {:.1?}, resident {} KiB", started.elapsed(), server.resident()?);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = server.resident()?;
    println!("60 s later: resident {after} KiB, {:+.1} % of before", (after as f64 / before as f64 - 1.0) * 100.0);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// What a platform takes after what a client begins with: discovery, `kubectl explain`, one definition, some
/// objects of it.
async fn memory(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let (server, client) = prepared(binary, &dir).await?;
    println!("at the start: {} KiB", server.resident()?);
    for path in ["/api", "/apis"] {
        let request = http::Request::get(path).header(http::header::ACCEPT, AGGREGATED);
        client.request_text(request.body(Vec::new())?).await?;
    }
    explain(&client, "api/v1").await?;
    client.request_text(http_get("/openapi/v2")?).await?;
    create_definition(&client, &small_definition(0)?).await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("figures.example", "v1", "Thing0"));
    let things: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
    for index in 0..OBJECTS {
        let thing = json!({
            "apiVersion": "figures.example/v1", "kind": "Thing0", "metadata": {"name": format!("t{index}")},
            "spec": {"size": index, "name": "x".repeat(60)}
        });
        things.create(&PostParams::default(), &serde_json::from_value(thing)?).await?;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    println!("60 s after the exercise: {} KiB", server.resident()?);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// What definitions take: small ones that all differ, the same one in many logical clusters, and one as large as
/// cert-manager's.
async fn definitions(binary: &Path) -> Result<()> {
    let dir = tempdir()?;
    let (server, client) = prepared(binary, &dir).await?;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let each = |what: &str, count: usize, before: u64, after: u64| {
        println!("{what}: {:.1} KiB each, n={count}", after.saturating_sub(before) as f64 / count as f64);
    };
    let before = server.resident()?;
    for index in 0..DEFINITIONS {
        create_definition(&client, &small_definition(index)?).await?;
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    each("small definitions", DEFINITIONS, before, server.resident()?);

    let mut events = watch_secrets(&client).await?;
    let mut inside = Vec::new();
    for index in 0..DEFINED {
        let (_, granted) = request_once(&client, &mut events, &format!("d{index}")).await?;
        inside.push(granted);
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    let before = server.resident()?;
    for granted in &inside {
        create_definition(granted, &small_definition(0)?).await?;
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    each("the same in as many logical clusters", DEFINED, before, server.resident()?);

    let large = large_definition()?;
    let bytes = serde_json::to_vec(&large)?.len();
    let before = server.resident()?;
    let started = Instant::now();
    create_definition(&client, &large).await?;
    let created = started.elapsed();
    let started = Instant::now();
    let document = explain(&client, "apis/large.example/v1").await?;
    println!(
        "a definition of {bytes} bytes: created in {created:.1?}, explained in {:.1?} by {document} bytes",
        started.elapsed()
    );
    tokio::time::sleep(Duration::from_secs(15)).await;
    println!("it takes {} KiB", server.resident()?.saturating_sub(before));
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Asks as `kubectl explain` does: for the index, then for one document by its digest; gives the bytes of that.
async fn explain(client: &Client, document: &str) -> Result<usize> {
    let index: serde_json::Value = serde_json::from_str(&client.request_text(http_get("/openapi/v3")?).await?)?;
    let url = index["paths"][document]["serverRelativeURL"].as_str().context("no such document")?;
    Ok(client.request_text(http_get(url)?).await?.len())
}

/// Creates a definition; gives the time until its objects are served.
async fn create_definition(client: &Client, definition: &CustomResourceDefinition) -> Result<()> {
    Api::all(client.clone()).create(&PostParams::default(), definition).await?;
    let (group, plural) = (&definition.spec.group, &definition.spec.names.plural);
    client.request_text(http_get(&format!("/apis/{group}/v1/{plural}"))?).await?;
    Ok(())
}

fn small_definition(index: usize) -> Result<CustomResourceDefinition> {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 0},
        "name": {"type": "string", "maxLength": 63},
        format!("own{index}"): {"type": "string"}
    }});
    definition("figures.example", &format!("Thing{index}"), spec)
}

/// As large as those of cert-manager: some 300 KB with thousands of described fields.
fn large_definition() -> Result<CustomResourceDefinition> {
    fn level(depth: usize, path: &str) -> serde_json::Value {
        let mut properties = serde_json::Map::new();
        for index in 0..7 {
            let name = format!("field{index}");
            let description = format!("What {path}.{name} is for, in a sentence as long as they are in practice.");
            let property = if depth == 0 {
                json!({"type": "string", "description": description})
            } else {
                level(depth - 1, &format!("{path}.{name}"))
            };
            properties.insert(name, property);
        }
        json!({"type": "object", "description": format!("All of {path}."), "properties": properties})
    }
    definition("large.example", "Large", level(3, "spec"))
}

fn definition(group: &str, kind: &str, spec: serde_json::Value) -> Result<CustomResourceDefinition> {
    let plural = format!("{}s", kind.to_lowercase());
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec}
            }}}]
        }
    }))?)
}

async fn wait_for_clusters(client: &Client, namespace: &str, wanted: usize) -> Result<()> {
    let limit = Instant::now() + Duration::from_secs(300);
    loop {
        let there = clusters(client, namespace).await?;
        if there == wanted {
            return Ok(());
        }
        if Instant::now() > limit {
            bail!("{there} clusters are there, not {wanted}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn tempdir() -> Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("allot-figures-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3;
    println!(
        "{what}: n={} p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        times.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}
