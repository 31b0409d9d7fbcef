//! What is left when the power goes: at every operation of the disk, in several ways each time. The same
//! check has to find something when syncs do nothing, or it could not fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::suite::restless;
use crate::body::PACK_FROM;
use crate::conformance::{begin, body, key, nothing, template};
use crate::embedded::simulated::{Disk, DiskFaults};
use crate::{
    Embedded, Event, EventKind, Expect, HistoryLimits, Key, ListQuery, OpenError, Revision, Scope, Store, StoreError,
    Tenant, WatchScope, Write,
};

/// Name to data of the ConfigMaps of a tenant.
type Contents = BTreeMap<String, String>;

/// What one writer knows of its tenant.
#[derive(Clone, Debug, Default)]
struct Ledger {
    tenant: String,
    /// What was acknowledged.
    sure: Contents,
    /// What there would be if the write that failed was done after all, if that may be.
    doubtful: Option<Contents>,
    newest: Revision,
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn name_data(entry: &crate::Entry) -> (String, String) {
    let text = String::from_utf8_lossy(&entry.body()).into_owned();
    let data = text.rsplit('"').nth(1).unwrap_or_default().to_owned();
    (entry.name.to_string(), data)
}

fn scope(tenant: &str) -> Scope {
    Scope { tenant: Tenant::logical(tenant), ..scope_of(&key(tenant, "", "")) }
}

fn scope_of(key: &Key) -> Scope {
    Scope { tenant: key.tenant.clone(), resource: key.resource.clone(), namespace: None }
}

/// Random writes to one tenant until one fails.
async fn write(store: Embedded, tenant: String, seed: u64, writes: u64) -> Ledger {
    let mut dice = Dice(seed);
    let mut ledger = Ledger { tenant: tenant.clone(), ..Ledger::default() };
    for count in 0..writes {
        let (write, after) = next_write(&store, &ledger, &mut dice, &format!("{seed}-{count}")).await;
        match store.commit(write).await {
            Ok(outcome) => {
                ledger.sure = after;
                ledger.newest = outcome.revision;
            }
            Err(StoreError::Unknown { .. }) => {
                ledger.doubtful = Some(after);
                break;
            }
            Err(StoreError::ReadOnly { .. } | StoreError::Unavailable { .. }) => break,
            Err(error) => panic!("a lone writer of {tenant} met {error}"),
        }
    }
    ledger
}

async fn next_write(store: &Embedded, ledger: &Ledger, dice: &mut Dice, data: &str) -> (Write, Contents) {
    let mut after = ledger.sure.clone();
    let tenant = Tenant::logical(&ledger.tenant);
    match dice.roll(12) {
        0 => (Write::DropTenant { tenant }, Contents::new()),
        choice if !store.tenants().await.expect("reads go on").contains(&tenant) => {
            let filled = choice < 6;
            after.extend([("one".into(), "one".into()), ("two".into(), "two".into())].into_iter().filter(|_| filled));
            (Write::Instantiate { tenant, template: if filled { template() } else { nothing() } }, after)
        }
        choice => {
            let key = key(&ledger.tenant, "a", ["one", "x", "y", "z"][dice.roll(4) as usize]);
            let current = store.get(&key).await.expect("reads go on");
            let name = key.name.to_string();
            match current {
                Some(current) if choice < 4 => {
                    after.remove(&name);
                    (Write::Delete { key, expect: current.revision, last: None }, after)
                }
                current => {
                    let expect = current.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
                    // One in four is so large that it is packed.
                    let size = dice.roll(300) as usize + if dice.roll(4) == 0 { PACK_FROM } else { 0 };
                    let data = format!("{data}-{}", "x".repeat(size));
                    after.insert(name, data.clone());
                    (Write::Put { key, expect, body: body(&data) }, after)
                }
            }
        }
    }
}

/// Four writers at once on `disk`.
async fn work(disk: &Disk, seed: u64) -> Vec<Ledger> {
    let Ok(store) = Embedded::open_on(Arc::new(disk.clone()), restless(HistoryLimits::default())).await else {
        return Vec::new();
    };
    let mut tasks = JoinSet::new();
    for tenant in 0..4 {
        tasks.spawn(write(store.clone(), format!("t{tenant}"), seed + tenant, 12));
    }
    tasks.join_all().await
}

async fn contents(store: &Embedded, tenant: &str, at: Option<Revision>) -> Result<Contents, StoreError> {
    let query = ListQuery { scope: scope(tenant), at, after: None, limit: 0 };
    Ok(store.list(query).await?.entries.iter().map(|entry| name_data(entry)).collect())
}

/// What is wrong with what is found on `disk`.
async fn violations(disk: &Disk, ledgers: &[Ledger]) -> Vec<String> {
    let opened = Embedded::open_on(Arc::new(disk.clone()), restless(HistoryLimits::default())).await;
    let store = match opened {
        Ok(store) => store,
        Err(error) => return vec![format!("does not open: {error}")],
    };
    let mut wrong = Vec::new();
    let newest = store.revision().await.expect("answers");
    for ledger in ledgers {
        if newest < ledger.newest {
            wrong.push(format!("revision {newest} is before {}, which was acknowledged", ledger.newest));
        }
        let found = contents(&store, &ledger.tenant, None).await.expect("lists");
        if found != ledger.sure && Some(&found) != ledger.doubtful.as_ref() {
            wrong.push(format!("{}: found {found:?}, expected {:?}", ledger.tenant, ledger.sure));
        }
        wrong.extend(check_history(&store, &ledger.tenant, &found, newest).await);
    }
    let probe = key("probe", "a", "x");
    let make = Write::Instantiate { tenant: probe.tenant.clone(), template: nothing() };
    let write = Write::Put { key: probe.clone(), expect: Expect::Absent, body: body("x") };
    for write in [make, write] {
        if let Err(error) = store.commit(write).await {
            wrong.push(format!("takes no writes: {error}"));
        }
    }
    store.close().await;
    match Embedded::open_on(Arc::new(disk.clone()), restless(HistoryLimits::default())).await {
        Ok(store) if store.get(&probe).await.is_ok_and(|found| found.is_some()) => (),
        other => wrong.push(format!("a later write is not there: {other:?}")),
    }
    wrong
}

/// The history that came back leads to what is there now.
async fn check_history(store: &Embedded, tenant: &str, found: &Contents, newest: Revision) -> Option<String> {
    let from = Revision(store.report().history_after);
    let mut state = contents(store, tenant, Some(from)).await.ok()?;
    let mut watch = store.watch(WatchScope::Scope(scope(tenant)), from).await.ok()?;
    while watch.progress() < newest {
        let event: Arc<Event> = watch.next().await.ok()?;
        let (name, data) = name_data(&event.entry);
        let before = match event.kind {
            EventKind::Deleted => state.remove(&name),
            EventKind::Added | EventKind::Modified => state.insert(name, data),
        };
        if before != event.previous.as_ref().map(|entry| name_data(entry).1) {
            return Some(format!("{tenant}: the event {event:?} follows {before:?}"));
        }
    }
    (state != *found).then(|| format!("{tenant}: the history leads to {state:?}, found is {found:?}"))
}

/// Cuts the power at every operation of a run; returns what was found to be wrong, and how many cuts
/// there were.
async fn cut_everywhere(seed: u64, sync_lies: bool) -> (Vec<String>, u64) {
    let whole = Disk::new(DiskFaults { sync_lies, ..DiskFaults::default() });
    let ledgers = work(&whole, seed).await;
    assert!(ledgers.iter().all(|ledger| ledger.doubtful.is_none() && ledger.newest.0 > 0));
    let operations = whole.operations();
    let mut wrong = Vec::new();
    for cut in 1..=operations {
        let disk = Disk::new(DiskFaults { cut_at: Some(cut), sync_lies, ..DiskFaults::default() });
        let ledgers = work(&disk, seed).await;
        for variant in 0..3 {
            let found = disk.after_power_cut(cut * 31 + variant);
            if variant == 0 {
                // The power goes again while the first cut is mended.
                found.set_faults(DiskFaults { cut_at: Some(1 + cut % 4), ..DiskFaults::default() });
                // Most of these cannot finish, which is the point.
                drop(Embedded::open_on(Arc::new(found.clone()), restless(HistoryLimits::default())).await);
                let found = found.after_power_cut(cut);
                wrong.extend(violations(&found, &ledgers).await.iter().map(|wrong| format!("{cut}, twice: {wrong}")));
            }
            let found = disk.after_power_cut(cut * 31 + variant);
            wrong.extend(violations(&found, &ledgers).await.iter().map(|wrong| format!("{cut}.{variant}: {wrong}")));
        }
        // Only the process ends there; the power goes while or after it is opened again.
        let found = disk.after_exit();
        found.set_faults(DiskFaults { cut_at: Some(1 + cut % 9), sync_lies, ..DiskFaults::default() });
        violations(&found, &[]).await;
        let found = violations(&found.after_power_cut(cut), &ledgers).await;
        let found = found.iter().filter(|wrong| !wrong.contains("takes no writes"));
        wrong.extend(found.map(|wrong| format!("{cut}, after an exit: {wrong}")));
    }
    (wrong, operations)
}

#[tokio::test]
async fn a_power_cut_at_any_operation_loses_nothing_that_was_acknowledged() {
    for seed in [1, 100] {
        let (wrong, cuts) = cut_everywhere(seed, false).await;
        assert!(
            wrong.is_empty(),
            "seed {seed}: {} violations, the first: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
        assert!(cuts > 50, "{cuts} cuts are too few to say anything");
    }
}

#[tokio::test]
async fn the_check_finds_a_missing_sync() {
    let (wrong, _) = cut_everywhere(1, true).await;
    assert!(wrong.iter().any(|wrong| wrong.contains("which was acknowledged")), "nothing was found: {wrong:?}");
    assert!(wrong.iter().any(|wrong| wrong.contains("expected")), "no lost object was found");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_keeps_the_rest() {
    let whole = Disk::default();
    work(&whole, 7).await;
    for room in (100..6000).step_by(397) {
        let disk = Disk::new(DiskFaults { room: Some(room), ..DiskFaults::default() });
        let ledgers = work(&disk, 7).await;
        assert!(ledgers.iter().all(|ledger| ledger.doubtful.is_none()), "what was not written is known not to be");
        let wrong = violations(&disk.after_exit(), &ledgers).await;
        assert!(wrong.is_empty(), "room for {room}: {wrong:#?}");
    }
}

#[tokio::test]
async fn after_a_failed_sync_writes_are_refused_and_reads_go_on() {
    let whole = Disk::default();
    work(&whole, 7).await;
    for sync in 3..whole.syncs() {
        let disk = Disk::new(DiskFaults { fail_sync_at: Some(sync), ..DiskFaults::default() });
        let ledgers = work(&disk, 7).await;
        let mended = disk.after_exit();
        let wrong = violations(&mended, &ledgers).await;
        assert!(wrong.is_empty(), "sync {sync} failed: {wrong:#?}");
        let wrong = violations(&mended.after_power_cut(sync), &ledgers).await;
        let wrong: Vec<_> = wrong.into_iter().filter(|wrong| !wrong.contains("takes no writes")).collect();
        assert!(wrong.is_empty(), "sync {sync} failed, then the power: {wrong:#?}");
    }
}

#[tokio::test]
async fn a_write_that_breaks_off_is_known_not_to_have_happened() {
    let whole = Disk::default();
    work(&whole, 7).await;
    for write in 3..whole.writes() {
        let disk = Disk::new(DiskFaults { break_write_at: Some(write), ..DiskFaults::default() });
        let ledgers = work(&disk, 7).await;
        assert!(ledgers.iter().all(|ledger| ledger.doubtful.is_none()), "write {write}");
        for found in [disk.after_exit(), disk.after_power_cut(write)] {
            let wrong = violations(&found, &ledgers).await;
            assert!(wrong.is_empty(), "write {write} broke off: {wrong:#?}");
        }
    }
}

#[tokio::test]
async fn a_file_system_that_goes_read_only_refuses_writes_and_keeps_the_rest() {
    let disk = Disk::default();
    let store = Embedded::open_on(Arc::new(disk.clone()), restless(HistoryLimits::default())).await.expect("opens");
    let put = |name: &str| Write::Put { key: key("t", "a", name), expect: Expect::Absent, body: body(name) };
    begin(&store, "t").await;
    store.commit(put("one")).await.expect("creates");
    store.writable().await.expect("is writable");
    disk.set_faults(DiskFaults { read_only: true, ..DiskFaults::default() });
    for name in ["two", "three"] {
        let refused = store.commit(put(name)).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "nothing was written: {refused:?}");
    }
    assert!(matches!(store.writable().await, Err(StoreError::ReadOnly { .. })));
    assert!(store.get(&key("t", "a", "one")).await.expect("reads go on").is_some());
    store.close().await;
    let again = Embedded::open_on(Arc::new(disk.clone()), restless(HistoryLimits::default())).await;
    assert!(matches!(again, Err(OpenError::Io { .. })), "{again:?}");
    disk.set_faults(DiskFaults::default());
    let store = Embedded::open_on(Arc::new(disk), restless(HistoryLimits::default())).await.expect("opens");
    assert_eq!(store.report().objects, 1);
    store.commit(put("two")).await.expect("writes again");
}

#[tokio::test]
async fn a_store_whose_disk_failed_says_so_until_it_is_opened_again() {
    let disk = Disk::default();
    let store = Embedded::open_on(Arc::new(disk.clone()), restless(HistoryLimits::default())).await.expect("opens");
    let put = |name: &str| Write::Put { key: key("t", "a", name), expect: Expect::Absent, body: body(name) };
    begin(&store, "t").await;
    store.commit(put("one")).await.expect("creates");
    disk.set_faults(DiskFaults { fail_sync_at: Some(disk.syncs() + 1), ..DiskFaults::default() });
    let refused = store.commit(put("two")).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "it is known not to be written: {refused:?}");
    let refused = store.commit(put("three")).await.expect_err("refuses").to_string();
    assert_eq!(refused, "the store is read-only: the disk failed", "it names no file");
    assert!(store.read_only().is_some());
    assert!(store.get(&key("t", "a", "one")).await.expect("reads go on").is_some());
    assert!(store.get(&key("t", "a", "two")).await.expect("reads go on").is_none());
    store.close().await;
    let store = Embedded::open_on(Arc::new(disk), restless(HistoryLimits::default())).await.expect("opens");
    assert_eq!(store.report().objects, 1);
    store.commit(put("two")).await.expect("writes again");
}

#[tokio::test]
async fn where_no_file_can_be_made_the_log_grows_on_and_takes_writes() {
    let disk = Disk::default();
    let options = crate::Options { snapshot_after_bytes: 1, ..crate::Options::default() };
    let store = Embedded::open_on(Arc::new(disk.clone()), options).await.expect("opens");
    disk.set_faults(DiskFaults { fail_creates: true, ..DiskFaults::default() });
    begin(&store, "t").await;
    for name in ["one", "two"] {
        let write = Write::Put { key: key("t", "a", name), expect: Expect::Absent, body: body(name) };
        store.commit(write).await.expect("creates");
    }
    store.close().await;
    disk.set_faults(DiskFaults::default());
    let store = Embedded::open_on(Arc::new(disk), options).await.expect("opens");
    assert_eq!((store.report().objects, store.report().segments.len()), (2, 1));
}

/// The frame of the drop of a tenant without a name ends with a zero, which is there before.
#[tokio::test]
async fn a_write_that_breaks_off_and_cannot_be_cut_is_unknown_only_if_its_end_is_no_proof() {
    for (tenant, known) in [("t", true), ("", false)] {
        let disk = Disk::default();
        // Without rest, what is written next is the frame.
        let options = crate::Options { rest_after: Duration::from_secs(3600), ..crate::Options::default() };
        let store = Embedded::open_on(Arc::new(disk.clone()), options).await.expect("opens");
        begin(&store, tenant).await;
        let faults = DiskFaults { break_write_at: Some(disk.writes() + 1), ..DiskFaults::default() };
        disk.set_faults(DiskFaults { fail_syncs: true, ..faults });
        let answer = store.commit(Write::DropTenant { tenant: Tenant::logical(tenant) }).await;
        match answer {
            Err(StoreError::ReadOnly { .. }) if known => {}
            Err(StoreError::Unknown { .. }) if !known => {}
            other => panic!("tenant {tenant:?}: {other:?}"),
        }
    }
}

const LOG: &str = "log-00000000000000000001";

/// A disk with a log of six frames, the first of which begins a tenant, and a seal; and where each of them
/// begins.
async fn six_frames() -> (Disk, Vec<usize>) {
    let disk = Disk::default();
    let store = Embedded::open_on(Arc::new(disk.clone()), crate::Options::default()).await.expect("opens");
    begin(&store, "t").await;
    for name in ["1", "2", "3", "4", "5"] {
        let write = Write::Put { key: key("t", "a", name), expect: Expect::Absent, body: body(name) };
        store.commit(write).await.expect("creates");
    }
    store.close().await;
    let bytes = disk.bytes(LOG).expect("is there");
    let mut begins = vec![0];
    while let Some(header) = bytes.get(begins[begins.len() - 1]..).filter(|rest| !rest.is_empty()) {
        let length = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        begins.push(begins[begins.len() - 1] + 24 + length as usize);
    }
    assert_eq!(begins.pop(), Some(bytes.len()));
    assert_eq!(begins.remove(0), 0);
    assert_eq!(begins.len(), 7);
    (disk, begins)
}

/// Opens `disk` with another log.
async fn open_with(disk: &Disk, log: Vec<u8>) -> (Disk, Result<Embedded, OpenError>) {
    let disk = disk.after_exit();
    disk.set_bytes(LOG, log);
    let opened = Embedded::open_on(Arc::new(disk.clone()), crate::Options::default()).await;
    (disk, opened)
}

#[tokio::test]
async fn damage_in_a_log_that_was_closed_stops_the_start_wherever_it_is() {
    let (disk, begins) = six_frames().await;
    let whole = disk.bytes(LOG).expect("is there");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let (broken, result) = open_with(&disk, bytes.clone()).await;
        let frame = begins.iter().rposition(|begin| *begin <= at);
        match (result, frame) {
            // The seal alone may be broken: nothing hangs on it.
            (Ok(store), Some(6)) => {
                assert_eq!(store.report().objects, 5);
                assert!(store.report().segments[0].torn > 0);
            }
            (Err(OpenError::Damaged { file, offset, .. }), frame) if frame != Some(6) => {
                let begin = frame.map_or(0, |frame| begins[frame] as u64);
                assert_eq!((file.as_str(), offset), ("disk/log-00000000000000000001", begin));
                assert_eq!(broken.bytes(LOG).expect("is there"), bytes, "nothing was touched");
            }
            (other, _) => panic!("byte {at}: {other:?}"),
        }
    }
    for len in 0..whole.len() {
        let store = open_with(&disk, whole[..len].to_vec()).await.1.expect("opens");
        let frames = begins.iter().filter(|begin| **begin <= len).count().saturating_sub(2);
        assert_eq!(store.report().objects, frames as u64, "{len} bytes");
    }
}

/// A log that was not closed: of its last frame nobody can say whether it was acknowledged.
#[tokio::test]
async fn damage_in_the_last_frame_of_a_log_without_a_seal_is_cut_and_told() {
    let (disk, begins) = six_frames().await;
    let whole = disk.bytes(LOG).expect("is there");
    for room in [0, 1, 1000] {
        for at in begins[5]..begins[6] {
            let mut bytes = whole[..begins[6]].to_vec();
            bytes[at] ^= 0x55;
            bytes.resize(bytes.len() + room, 0);
            let (broken, result) = open_with(&disk, bytes).await;
            let store = result.expect("opens");
            assert_eq!(store.report().objects, 4);
            let segment = &store.report().segments[0];
            assert_eq!((segment.bytes, segment.torn > 0), (begins[5] as u64, true), "byte {at}");
            store.close().await;
            let left = broken.bytes(LOG).expect("is there");
            assert_eq!(left[..begins[5]], whole[..begins[5]], "the end is cut");
            assert_eq!(left.len(), begins[5] + 24, "and sealed");
        }
        let mut bytes = whole[..begins[6]].to_vec();
        bytes.resize(bytes.len() + room, 0);
        let store = open_with(&disk, bytes).await.1.expect("opens");
        assert_eq!((store.report().objects, store.report().segments[0].torn), (5, 0), "zeros are room, not damage");
    }
}

#[tokio::test]
async fn damage_in_a_snapshot_or_a_missing_segment_stops_the_start() {
    let disk = Disk::default();
    work(&disk, 3).await;
    let store = Embedded::open_on(Arc::new(disk.clone()), restless(HistoryLimits::default())).await.expect("opens");
    let report = store.report().clone();
    store.close().await;
    let (snapshot, len) = report.snapshot.expect("there was enough for one");
    for at in (0..len as usize).step_by(7) {
        let broken = disk.after_exit();
        let mut bytes = broken.bytes(&snapshot).expect("is there");
        bytes[at] ^= 0x55;
        broken.set_bytes(&snapshot, bytes);
        let result = Embedded::open_on(Arc::new(broken), restless(HistoryLimits::default())).await;
        assert!(matches!(result, Err(OpenError::Damaged { .. })), "byte {at}: {result:?}");
        let broken = disk.after_exit();
        let bytes = broken.bytes(&snapshot).expect("is there");
        broken.set_bytes(&snapshot, bytes[..at].to_vec());
        let result = Embedded::open_on(Arc::new(broken), restless(HistoryLimits::default())).await;
        assert!(matches!(result, Err(OpenError::Damaged { .. })), "{at} bytes: {result:?}");
    }
    let broken = disk.after_exit();
    for segment in &report.segments {
        crate::Files::remove(&broken, &segment.name).await.expect("removes");
    }
    let result = Embedded::open_on(Arc::new(broken), restless(HistoryLimits::default())).await;
    assert!(matches!(result, Err(OpenError::Damaged { .. })), "{result:?}");
}

#[tokio::test]
async fn a_writer_that_panics_is_told_and_nothing_that_was_acknowledged_is_lost() {
    let disk = Disk::new(DiskFaults::default());
    let options = restless(HistoryLimits::default());
    let store = Embedded::open_on(Arc::new(disk.clone()), options).await.expect("opens");
    begin(&store, "t").await;
    let put = |name: &str| Write::Put { key: key("t", "n", name), expect: Expect::Absent, body: body("x") };
    store.commit(put("before")).await.expect("is written");
    assert!(tokio::time::timeout(Duration::from_millis(10), store.ended()).await.is_err(), "it goes on");
    disk.set_faults(DiskFaults { panics: true, ..DiskFaults::default() });
    let lost = store.commit(put("lost")).await;
    assert!(matches!(lost, Err(StoreError::Unknown { .. })), "{lost:?}");
    store.ended().await;
    assert!(store.writable().await.is_err());
    let again = Embedded::open_on(Arc::new(disk.after_exit()), options).await.expect("opens");
    assert!(again.get(&key("t", "n", "before")).await.expect("answers").is_some());
}
