//! The embedded engine on a real folder: what it refuses, and that it comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::conformance::{begin, body, key};
use crate::{Embedded, Expect, OpenError, Options, Revision, Store, Write};

/// A folder that goes when the test ends.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("allotment-store-{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir(&path).expect("makes a folder");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).expect("sets its mode");
        Scratch(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in the temporary folder of a test harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn open(path: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(path, Options::default()).await
}

async fn create(store: &Embedded, name: &str) -> Revision {
    begin(store, "t").await;
    let write = Write::Put { key: key("t", "a", name), expect: Expect::Absent, body: body(name) };
    store.commit(write).await.expect("creates").revision
}

fn listing(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = path
        .read_dir()
        .expect("lists")
        .map(|entry| entry.expect("lists"))
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap_or_default())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn what_was_written_is_there_again() {
    let scratch = Scratch::new("again");
    let path = scratch.path().join("store");
    let store = open(&path).await.expect("opens");
    create(&store, "one").await;
    store.close().await;
    assert!(create_refused(&store).await, "a closed store takes no writes");
    let store = open(&path).await.expect("opens again at once");
    assert!(store.get(&key("t", "a", "one")).await.expect("answers").is_some());
    assert_eq!(store.report().objects, 1);
    for file in [&path, &path.join("FORMAT"), &path.join("lock"), &path.join("log-00000000000000000001")] {
        let mode = file.metadata().expect("is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is for its owner alone", file.display());
    }
}

async fn create_refused(store: &Embedded) -> bool {
    let write = Write::Put { key: key("t", "a", "late"), expect: Expect::Absent, body: body("late") };
    store.commit(write).await.is_err()
}

#[tokio::test]
async fn a_second_one_is_told_that_the_folder_is_in_use() {
    let scratch = Scratch::new("locked");
    let store = open(scratch.path()).await.expect("opens");
    assert!(matches!(open(scratch.path()).await, Err(OpenError::Locked { .. })));
    assert!(matches!(crate::check(scratch.path()).await, Err(OpenError::Locked { .. })));
    create(&store, "goes-on").await;
}

#[tokio::test]
async fn folders_of_others_are_refused_and_not_touched() {
    for (name, content) in [("notes.txt", "mine"), ("FORMAT", "allotment-store 3\n"), ("FORMAT", "x"), ("FORMAT", "")] {
        let scratch = Scratch::new("foreign");
        std::fs::write(scratch.path().join(name), content).expect("writes");
        std::fs::set_permissions(scratch.path().join(name), PermissionsExt::from_mode(0o600)).expect("sets its mode");
        let before = listing(scratch.path());
        let error = open(scratch.path()).await.expect_err("refuses");
        match (name, content) {
            ("notes.txt", _) => assert!(matches!(error, OpenError::Foreign { .. }), "{error}"),
            (_, "allotment-store 3\n") => assert!(matches!(error, OpenError::Newer { found: 3, .. }), "{error}"),
            _ => assert!(matches!(error, OpenError::Format { .. }), "{error}"),
        }
        assert_eq!(listing(scratch.path()), before, "nothing was touched");
    }
}

#[tokio::test]
async fn what_others_can_read_is_refused_with_the_cure() {
    let scratch = Scratch::new("wide");
    open(scratch.path()).await.expect("opens").close().await;
    std::fs::set_permissions(scratch.path().join("FORMAT"), PermissionsExt::from_mode(0o640)).expect("sets its mode");
    let error = open(scratch.path()).await.expect_err("refuses").to_string();
    assert!(error.ends_with(&format!("chmod 0600 {}", scratch.path().join("FORMAT").display())), "{error}");
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).expect("sets its mode");
    let error = open(scratch.path()).await.expect_err("refuses").to_string();
    assert!(error.ends_with(&format!("chmod 0700 {}", scratch.path().display())), "{error}");
}

#[tokio::test]
async fn a_check_tells_what_is_there() {
    let scratch = Scratch::new("check");
    let store = open(scratch.path()).await.expect("opens");
    for name in ["one", "two", "three"] {
        create(&store, name).await;
    }
    store.close().await;
    let log = scratch.path().join("log-00000000000000000001");
    let mut bytes = std::fs::read(&log).expect("reads");
    let whole = bytes.len() as u64;
    bytes.extend_from_slice(b"half a frame");
    std::fs::write(&log, bytes).expect("writes");
    let before = listing(scratch.path());
    let report = crate::check(scratch.path()).await.expect("checks");
    assert_eq!((report.revision, report.objects, report.tenants), (4, 3, 1));
    assert_eq!((report.segments[0].records, report.segments[0].bytes, report.segments[0].torn), (4, whole - 24, 36));
    assert_eq!(listing(scratch.path()), before, "a check changes nothing");
}

/// Set for the child of the test below: the folder to write into.
const CHILD: &str = "ALLOTMENT_STORE_TEST_CHILD";

/// Decides when processes are killed; set to repeat a run.
const SEED: &str = "ALLOTMENT_STORE_TEST_SEED";

/// What a child acknowledges before it is killed, at most.
const LINES: u64 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_under_load_has_lost_nothing_that_it_acknowledged() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return write_until_killed(Path::new(&folder)).await;
    }
    kill(seed(), 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; part of the soak"]
async fn a_process_that_is_killed_a_thousand_times_has_lost_nothing_that_it_acknowledged() {
    for folder in 0..100 {
        kill(seed() + folder, 10).await;
    }
}

fn seed() -> u64 {
    std::env::var(SEED).map_or(1, |seed| seed.parse().expect("a seed is a number"))
}

/// What the children have acknowledged.
#[derive(Debug, Default)]
struct Acknowledged {
    made: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// The last value of each counter.
    counters: BTreeMap<String, u64>,
}

impl Acknowledged {
    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match (words.next()?, words.next()?.to_owned(), words.next()) {
            ("made", name, None) => drop(self.made.insert(name)),
            ("gone", name, None) => drop(self.gone.insert(name)),
            ("counted", name, Some(value)) => drop(self.counters.insert(name, value.parse().ok()?)),
            _ => return None,
        }
        Some(())
    }

    async fn check(&self, store: &Embedded, about: &str) {
        let find = async |name: &str| store.get(&key("t", "a", name)).await.expect("answers");
        for name in &self.made {
            // Those with a short life may have gone without anybody having been told.
            let there = find(name).await.is_some();
            assert!(there || name.ends_with("-short"), "{about}: {name} is lost");
        }
        for name in &self.gone {
            assert!(find(name).await.is_none(), "{about}: {name} is there again");
        }
        for (name, value) in &self.counters {
            let found = value_of(&find(name).await.unwrap_or_else(|| panic!("{about}: {name} is lost")));
            assert!(found >= *value, "{about}: {name} went back from {value} to {found}");
        }
    }
}

/// Kills the process that writes into a folder, again and again, each time at another moment.
async fn kill(seed: u64, rounds: u64) {
    let scratch = Scratch::new("killed");
    let mut acknowledged = Acknowledged::default();
    let mut state = seed;
    for round in 0..rounds {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lines = 1 + (state >> 33) % LINES;
        let about = format!("{SEED}={seed}, kill {round} after {lines} lines");
        let mut child = std::process::Command::new(std::env::current_exe().expect("knows itself"))
            .args(["--exact", "--nocapture"])
            .arg("tests::folder::a_process_that_is_killed_under_load_has_lost_nothing_that_it_acknowledged")
            .env(CHILD, scratch.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        let output = std::io::BufReader::new(child.stdout.take().expect("is piped"));
        let told = std::io::BufRead::lines(output).map_while(Result::ok);
        let taken = told.filter_map(|line| acknowledged.take(&line)).take(lines as usize).count();
        child.kill().expect("is killed");
        child.wait().expect("ends");
        assert_eq!(taken as u64, lines, "{about}: the child ended by itself");
        let store = open(scratch.path()).await.unwrap_or_else(|error| panic!("{about}: {error}"));
        acknowledged.check(&store, &about).await;
        store.close().await;
    }
}

fn value_of(entry: &crate::Entry) -> u64 {
    let text = String::from_utf8_lossy(&entry.body()).into_owned();
    text.rsplit('"').nth(1).and_then(|value| value.parse().ok()).expect("a number")
}

/// Makes, counts and deletes, and says so of each only once that is acknowledged.
async fn write_until_killed(folder: &Path) {
    let options = Options { snapshot_after_bytes: 20_000, ..Options::default() };
    let store = Embedded::open(folder, options).await.expect("opens");
    let begin = store.report().revision;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..4 {
        let store = store.clone();
        tasks.spawn(async move {
            for count in 0..u64::MAX {
                let name = format!("{begin}-{task}-{count}");
                create(&store, &name).await;
                tell(&format!("made {name}")).await;
                if count % 3 == 0 {
                    let value = count_on(&store, &format!("counter-{task}")).await;
                    tell(&format!("counted counter-{task} {value}")).await;
                }
                if count % 4 == 0 {
                    let name = format!("{name}-short");
                    let expect = create(&store, &name).await;
                    tell(&format!("made {name}")).await;
                    let delete = Write::Delete { key: key("t", "a", &name), expect, last: None };
                    store.commit(delete).await.expect("deletes");
                    tell(&format!("gone {name}")).await;
                }
            }
        });
    }
    tasks.join_all().await;
}

/// One more than the counter had.
async fn count_on(store: &Embedded, name: &str) -> u64 {
    let key = key("t", "a", name);
    let before = store.get(&key).await.expect("answers");
    let value = before.as_deref().map_or(0, value_of) + 1;
    let expect = before.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
    store.commit(Write::Put { key, expect, body: body(&value.to_string()) }).await.expect("writes");
    value
}

async fn tell(line: &str) {
    // The pipe ends when the parent has read enough; then the kill is near.
    if std::io::Write::write_all(&mut std::io::stdout(), format!("\n{line}\n").as_bytes()).is_err() {
        std::future::pending::<()>().await;
    }
}
