//! How long an empty logical cluster takes to begin, and what it costs in memory, without anything that asks for
//! it: `cargo run --release -p allotment-apiserver --example tenants -- 1000`. Writes into a temporary folder, with
//! a sync for each.

#![expect(clippy::print_stdout, reason = "its output is the report")]
#![expect(clippy::disallowed_methods, reason = "it measures real time, with real randomness")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use allotment_apiserver::auth::AccessConfig;
use allotment_apiserver::builtin;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{ApiServer, ServerConfig, TenantConfig, bootstrap_template};
use allotment_machinery::seams::{Clock, Entropy};
use allotment_store::{Embedded, Options, Resource, Store, Tenant};

#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

#[derive(Debug)]
struct Random;

impl Entropy for Random {
    fn fill(&self, out: &mut [u8]) {
        for part in out.chunks_mut(8) {
            part.copy_from_slice(&uuid::Uuid::new_v4().as_bytes()[8..8 + part.len()]);
        }
    }
}

/// Resident memory in KiB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with("VmRSS:"))?.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(1000), |count| count.parse())?;
    let dir = std::env::temp_dir().join(format!("allot-tenants-{}", std::process::id()));
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&dir, Options::default()).await?);
    let server = ApiServer::start(ServerConfig {
        store: Arc::clone(&store),
        clock: Arc::new(WallClock),
        entropy: Arc::new(Random),
        builtin: Registry::new(builtin::kinds()),
        admission: Vec::new(),
        readiness: Vec::new(),
    });
    let template = Arc::new(bootstrap_template(WallClock.now()));
    let before = resident().unwrap_or_default();
    let mut times: Vec<Duration> = Vec::new();
    for number in 0..count {
        let config = TenantConfig {
            tenant: Tenant::logical(&format!("t{number}")),
            version: "1.36.0".to_owned(),
            server_url: format!("https://127.0.0.1:1/clusters/t{number}"),
            root_ca_pem: "-----BEGIN CERTIFICATE-----".into(),
            access: AccessConfig::default(),
            template: Arc::clone(&template),
        };
        let begun = Instant::now();
        server.ensure_tenant(config).await.map_err(|error| error.message)?;
        times.push(begun.elapsed());
    }
    // The loops give each its accounts and certificates.
    let last = Tenant::logical(&format!("t{}", count.saturating_sub(1)));
    let accounts = |counts: Vec<(Resource, usize)>| {
        counts.iter().any(|(resource, count)| resource.as_str() == "serviceaccounts" && *count == 4)
    };
    while !accounts(store.resources(&last).await?) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (what, part) in
        [("first", &mut times.clone()[..count.min(100)]), ("last", &mut times[count.saturating_sub(100)..])]
    {
        part.sort();
        println!("the {what} {}: p50 {:.2?}, max {:.2?}", part.len(), part[part.len() / 2], part[part.len() - 1]);
    }
    let each = resident().unwrap_or_default().saturating_sub(before) / count.max(1) as u64;
    println!("{each} KiB each, their history included");
    server.stop().await;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
