//! How fast the embedded store is, and how much memory tenants take:
//! `cargo run --release -p allotment-store --example throughput [FOLDER [OBJECTS]]`. Figures depend on the disk
//! of the folder, which is the temporary one unless named. With a number of objects only that is measured: how
//! fast so many small ones are made and opened again, and what they take.
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allotment_machinery::json;
use allotment_machinery::object::Encoded;
use allotment_store::{
    Embedded, Expect, Key, ListQuery, Memory, Options, Resource, Revision, Scope, Store, Template, TemplateEntry,
    Tenant, WatchScope, Write,
};
use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Bytes of a small object.
const SMALL: usize = 300;

/// A body of about `len` bytes.
fn body(len: usize) -> Result<Encoded> {
    let object = json!({
        "metadata": {"uid": "8f14e45f-ceea-467f-a830-5c7a1e2f9c3d", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": {"text": ("x".repeat(len.saturating_sub(130)))}
    });
    object.as_object().and_then(Encoded::of).context("the body has a uid")
}

fn key(tenant: &str, name: String) -> Key {
    let resource = Resource::new("configmaps", "");
    Key { tenant: Tenant::logical(tenant), resource, namespace: "default".into(), name: name.into() }
}

fn rate(count: usize, begun: Instant) -> u64 {
    (count as f64 / begun.elapsed().as_secs_f64()) as u64
}

/// Resident memory in bytes, as Linux tells it.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

async fn create(store: &dyn Store, tenant: &str, name: String, body: Encoded) -> Result<Revision> {
    Ok(store.commit(Write::Put { key: key(tenant, name), expect: Expect::Absent, body }).await?.revision)
}

/// Begins the key space of a tenant, with nothing in it.
async fn begin(store: &dyn Store, tenant: &str) -> Result<()> {
    let template = Arc::new(Template { id: "nothing".into(), entries: Vec::new() });
    store.commit(Write::Instantiate { tenant: Tenant::logical(tenant), template }).await?;
    Ok(())
}

/// Each writer creates objects of 1 KiB, one after another.
async fn durable_creates(store: &Embedded, writers: usize, seconds: u64) -> Result<()> {
    begin(store, &format!("w{writers}")).await?;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (store, body) = (store.clone(), body(1024)?);
        tasks.spawn(async move {
            let mut count = 0;
            while begun.elapsed() < Duration::from_secs(seconds) {
                create(&store, &format!("w{writers}"), format!("{writer}-{count}"), body.clone()).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(done) = tasks.join_next().await {
        count += done??;
    }
    println!("durable creates, {writers:>2} writers   {:>9} /s", rate(count, begun));
    Ok(())
}

async fn fill(store: &Arc<dyn Store>, objects: usize, len: usize) -> Result<()> {
    begin(&**store, "big").await?;
    let mut tasks = JoinSet::new();
    for writer in 0..64 {
        let (store, body) = (store.clone(), body(len)?);
        tasks.spawn(async move {
            for count in (writer..objects).step_by(64) {
                create(&*store, "big", format!("{count:08}"), body.clone()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn lists(store: &dyn Store) -> Result<()> {
    let scope = Scope { namespace: None, ..scope("big") };
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(1) {
        count += store.list(ListQuery { scope: scope.clone(), at: None, after: None, limit: 0 }).await?.entries.len();
    }
    println!("list whole                   {:>9} objects/s", rate(count, begun));
    let (begun, mut count, mut query) = (Instant::now(), 0, ListQuery { scope, at: None, after: None, limit: 500 });
    while begun.elapsed() < Duration::from_secs(1) {
        let page = store.list(query.clone()).await?;
        count += page.entries.len();
        query.at = Some(page.revision);
        let last = page.entries.last().filter(|_| page.remaining > 0);
        query.after = last.map(|last| (last.namespace.clone(), last.name.clone()));
    }
    println!("list pages of 500            {:>9} objects/s", rate(count, begun));
    Ok(())
}

fn scope(tenant: &str) -> Scope {
    let key = key(tenant, String::new());
    Scope { tenant: key.tenant, resource: key.resource, namespace: None }
}

/// Fifty watchers of one collection, sixteen writers.
async fn watches(store: &Embedded) -> Result<()> {
    const EVENTS: usize = 20_000;
    begin(store, "watched").await?;
    let from = store.revision().await?;
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..50 {
        let mut watch = store.watch(WatchScope::Scope(scope("watched")), from).await?;
        tasks.spawn(async move {
            for _ in 0..EVENTS {
                watch.next().await?;
            }
            anyhow::Ok(())
        });
    }
    for writer in 0..16 {
        let (store, body) = (store.clone(), body(1024)?);
        tasks.spawn(async move {
            for count in (writer..EVENTS).step_by(16) {
                create(&store, "watched", count.to_string(), body.clone()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    println!("watch, 50 watchers           {:>9} events/s, from 16 durable writers", rate(EVENTS * 50, begun));
    Ok(())
}

/// A thousand tenants of a template as large as the bootstrap RBAC of a cluster.
async fn tenants(store: &dyn Store, name: &str) -> Result<()> {
    const TENANTS: u64 = 1000;
    let entries = (0..70).map(|index| {
        let resource = Resource::new(["clusterroles", "clusterrolebindings", "roles", "namespaces"][index % 4], "");
        let (namespace, name) = ("".into(), format!("bootstrap-{index:02}").into());
        Ok(TemplateEntry { resource, namespace, name, body: body(1400)? })
    });
    let template = Arc::new(Template { id: "bootstrap".into(), entries: entries.collect::<Result<_>>()? });
    let (before, begun) = (resident()?, Instant::now());
    for index in 0..TENANTS {
        let tenant = Tenant::logical(&format!("{index:08}-0000-4000-8000-000000000000"));
        store.commit(Write::Instantiate { tenant, template: template.clone() }).await?;
    }
    let (each, took) = ((resident()? - before) / TENANTS, begun.elapsed() / TENANTS as u32);
    println!("tenant of 70 objects, {name}  {each:>6} bytes each, made in {} µs", took.as_micros());
    for index in 0..TENANTS {
        let tenant = Tenant::logical(&format!("{index:08}-0000-4000-8000-000000000000"));
        store.commit(Write::DropTenant { tenant }).await?;
    }
    println!("    after dropping them      {:>9} bytes more than before", resident()?.saturating_sub(before));
    Ok(())
}

async fn opening(folder: &Path, objects: usize, len: usize) -> Result<()> {
    let (mut fresh, mut again) = (Vec::new(), Vec::new());
    for round in 0..21 {
        let path = folder.join(format!("empty-{round}"));
        for took in [&mut fresh, &mut again] {
            let begun = Instant::now();
            let store = Embedded::open(&path, Options::default()).await?;
            took.push(begun.elapsed());
            store.close().await;
        }
    }
    for (name, took) in [("new folder ", &mut fresh), ("empty store", &mut again)] {
        took.sort();
        println!("open, {name}            {:>9} µs (median of {})", took[took.len() / 2].as_micros(), took.len());
    }
    let path = folder.join("big");
    let store = Embedded::open(&path, Options::default()).await?;
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let begun = Instant::now();
    fill(&shared, objects, len).await?;
    println!("create {objects} of {len} bytes, 64 writers {:>9} /s", rate(objects, begun));
    println!("    {:>9} bytes resident", resident()?);
    lists(&store).await?;
    let begun = Instant::now();
    store.close().await;
    drop((store, shared));
    println!("close                        {:>9} ms", begun.elapsed().as_millis());
    let (before, begun) = (resident()?, Instant::now());
    let store = Embedded::open(&path, Options::default()).await?;
    let (took, count) = (begun.elapsed(), store.report().objects);
    println!("open, {count:>7} objects         {:>9} ms", took.as_millis());
    println!("    {:>9} bytes resident, {before} of them before", resident()?);
    store.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let named = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = named.join(format!("allotment-throughput-{}", std::process::id()));
    if let Some(objects) = std::env::args().nth(2) {
        opening(&folder, objects.parse().context("OBJECTS is no number")?, SMALL).await?;
        return Ok(std::fs::remove_dir_all(&folder)?);
    }
    tenants(&Memory::default(), "in memory").await?;
    let store = Embedded::open(&folder.join("tenants"), Options::default()).await?;
    tenants(&store, "embedded ").await?;
    store.close().await;
    let store = Embedded::open(&folder.join("writes"), Options::default()).await?;
    for writers in [1, 16, 64] {
        durable_creates(&store, writers, 3).await?;
    }
    watches(&store).await?;
    store.close().await;
    drop(store);
    opening(&folder, 100_000, 1024).await?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
