//! What large objects that say the same again and again cost: objects like cloud profiles with 500 machine types and
//! 400 versions of images, made once and then all replaced, every write durable:
//! `cargo run --release -p allotment-store --example large [FOLDER [OBJECTS]]`. Figures depend on the disk of the
//! folder, which is the temporary one unless named.
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allotment_machinery::object::Encoded;
use allotment_store::{
    Embedded, Expect, Key, ListQuery, Options, Resource, Scope, Store, StoreError, Template, Tenant, Watch, WatchScope,
    Write,
};
use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Writers at once.
const WRITERS: usize = 16;

/// Tells a child of this program that it is to open a folder and say what that takes.
const OPEN: &str = "--open";

/// What all profiles say in a round.
fn status(round: usize) -> String {
    let machine = |number: usize| {
        let (cpu, family) = (2 << (number % 6), ["general", "compute", "memory", "storage", "accelerated"][number % 5]);
        format!(
            r#"{{"cpu":"{cpu}","gpu":"{}","memory":"{}Gi","name":"{family}-{}.x{cpu}.{number}","storage":{{"class":"standard","size":"{}Gi","type":"default"}},"usable":true}}"#,
            number % 5 / 4,
            cpu * [4, 2, 8][number % 3],
            number / 30 + 1,
            20 + number % 7 * 10,
        )
    };
    let version = |image: usize, number: usize| {
        let (month, day) = (1 + (number + round) % 12, 1 + (number * 7 + image) % 28);
        format!(
            r#"{{"architectures":["amd64","arm64"],"expirationDate":"2027-{month:02}-{day:02}T23:59:59Z","version":"{}.{}.{image}"}}"#,
            1 + number / 10,
            number % 10,
        )
    };
    let image = |image: usize| {
        let versions: Vec<_> = (0..40).map(|number| version(image, number)).collect();
        format!(r#"{{"name":"image-{image}","updateStrategy":"minor","versions":[{}]}}"#, versions.join(","))
    };
    let machines: Vec<_> = (0..500).map(machine).collect();
    let images: Vec<_> = (0..10).map(image).collect();
    format!(
        r#"{{"cloudProfileSpec":{{"machineImages":[{}],"machineTypes":[{}]}},"observedGeneration":{round}}}"#,
        images.join(","),
        machines.join(",")
    )
}

/// The profile `number`, which says `status`.
fn profile(number: usize, status: &str) -> Encoded {
    let metadata = format!(r#"{{"metadata":{{"name":"profile-{number:05}","namespace":"team-{}","#, number % 500);
    let rest = format!(
        r#""uid":"8f14e45f-ceea-467f-a830-{number:012}"}},"spec":{{"parent":"everybodys"}},"status":{status}}}"#
    );
    Encoded { splice: metadata.len(), bytes: [metadata, rest].concat().into() }
}

fn key(number: usize) -> Key {
    let (namespace, name) = (format!("team-{}", number % 500), format!("profile-{number:05}"));
    Key { tenant: Tenant::platform(), resource: profiles(), namespace: namespace.into(), name: name.into() }
}

fn profiles() -> Resource {
    Resource::new("privatecloudprofiles", "example.org")
}

/// A figure of this process in bytes, as Linux tells it.
fn memory(figure: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).context("no such figure")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// What the files of a folder have together.
fn size(folder: &Path) -> Result<u64> {
    folder.read_dir()?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

fn tell(what: &str, took: Duration, folder: &Path) -> Result<()> {
    let mega = |bytes: u64| bytes / 1_000_000;
    println!(
        "{what:<28} {:>7} ms, {:>5} MB resident, {:>5} MB at most, {:>5} MB on disk",
        took.as_millis(),
        mega(memory("VmRSS:")?),
        mega(memory("VmHWM:")?),
        mega(size(folder)?),
    );
    Ok(())
}

/// Writes all profiles as they are in `round`, after what they were.
async fn write_all(store: &Embedded, objects: usize, round: usize) -> Result<()> {
    let status: Arc<str> = status(round).into();
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, status) = (store.clone(), status.clone());
        tasks.spawn(async move {
            for number in (writer..objects).step_by(WRITERS) {
                let key = key(number);
                let current = store.get(&key).await?;
                let expect = current.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
                store.commit(Write::Put { key, expect, body: profile(number, &status) }).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn all() -> Scope {
    Scope { tenant: Tenant::platform(), resource: profiles(), namespace: None }
}

/// Reads every profile whole.
async fn read_all(store: &Embedded, objects: usize) -> Result<()> {
    let begun = Instant::now();
    let page = store.list(ListQuery { scope: all(), at: None, after: None, limit: 0 }).await?;
    ensure!(page.entries.len() == objects, "{} of {objects} are there", page.entries.len());
    let bytes: usize = page.entries.iter().map(|entry| entry.body().len()).sum();
    println!("{:<28} {:>7} ms, {} MB", "every form read", begun.elapsed().as_millis(), bytes / 1_000_000);
    Ok(())
}

/// Reads the form of so many events whole, as a client's watch does.
async fn follow(mut watch: Box<dyn Watch>, events: usize) -> Result<usize, StoreError> {
    let mut bytes = 0;
    for _ in 0..events {
        bytes += watch.next().await?.entry.body().len();
    }
    Ok(bytes)
}

async fn open(folder: &Path) -> Result<()> {
    let begun = Instant::now();
    let store = Embedded::open(folder, Options::default()).await?;
    tell(&format!("open with {} objects", store.report().objects), begun.elapsed(), folder)?;
    store.close().await;
    Ok(())
}

async fn measure(folder: &Path, objects: usize) -> Result<()> {
    let store = Embedded::open(folder, Options::default()).await?;
    let template = Arc::new(Template { id: "nothing".into(), entries: Vec::new() });
    store.commit(Write::Instantiate { tenant: Tenant::platform(), template }).await?;
    let len = profile(0, &status(0)).bytes.len();
    println!("{objects} objects of {len} bytes, {} MB together", objects * len / 1_000_000);
    for (round, what) in ["made", "all replaced", "all replaced again"].into_iter().enumerate() {
        let watch = store.watch(WatchScope::Scope(all()), store.revision().await?).await?;
        let mut watcher = JoinSet::new();
        watcher.spawn(follow(watch, objects));
        let begun = Instant::now();
        write_all(&store, objects, round).await?;
        tell(what, begun.elapsed(), folder)?;
        match watcher.join_next().await.context("there is a watcher")?? {
            Ok(bytes) => {
                println!("{:<28} {:>7} ms, {} MB", "    and watched", begun.elapsed().as_millis(), bytes / 1_000_000)
            }
            Err(error) => println!("    and watched: {error}"),
        }
    }
    read_all(&store, objects).await?;
    let begun = Instant::now();
    store.close().await;
    tell("close", begun.elapsed(), folder)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref().is_some_and(|first| first == OPEN) {
        return open(Path::new(&arguments.next().context("no folder")?)).await;
    }
    let objects = arguments.next().and_then(|objects| objects.into_string().ok());
    let objects = objects.map_or(Ok(5_000), |objects| objects.parse()).context("OBJECTS is no number")?;
    let named = first.map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = named.join(format!("allotment-large-{}", std::process::id()));
    measure(&folder, objects).await?;
    // In a process of its own, so that it is known what that alone takes.
    let opened = std::process::Command::new(std::env::current_exe()?).arg(OPEN).arg(&folder).status()?;
    std::fs::remove_dir_all(&folder)?;
    ensure!(opened.success(), "the folder was not opened again");
    Ok(())
}
