//! Folders of earlier versions open. `data/format-N` is one that the first version of format N wrote; it is never
//! written again.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::Scratch;
use crate::conformance::{begin, body, key, template};
use crate::embedded::FORMAT_VERSION;
use crate::embedded::simulated::{Disk, DiskFaults};
use crate::{Embedded, EventKind, Expect, Options, Revision, Store, Tenant, WatchScope, Write};

/// The formats that there are folders of.
const FORMATS: [u32; 2] = [1, 2];

fn data(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/tests/data/format-{format}"))
}

/// A copy of a folder, for its owner alone.
fn copy(from: &Path, to: &Path) {
    for entry in from.read_dir().expect("lists") {
        let entry = entry.expect("lists");
        let file = to.join(entry.file_name());
        std::fs::copy(entry.path(), &file).expect("copies");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("sets its mode");
    }
}

/// Since format 2 large bodies are packed: one in the snapshot, one in the log.
fn packed() -> [(&'static str, String); 2] {
    ["early", "late"].map(|name| (name, name.repeat(8_000)))
}

#[tokio::test]
async fn a_folder_of_every_format_opens_with_all_that_was_in_it() {
    for format in FORMATS {
        let scratch = Scratch::new("versions");
        copy(&data(format), scratch.path());
        let store = Embedded::open(scratch.path(), Options::default()).await.expect("opens");
        let report = store.report().clone();
        assert!(report.snapshot.is_some() && report.segments.iter().any(|segment| segment.records > 0), "{report:?}");
        let tenants: Vec<_> = store.tenants().await.expect("answers");
        assert_eq!(tenants, ["empty", "filled", "t"].map(Tenant::logical), "format {format}");
        let large = if format >= 2 { packed().len() as u64 } else { 0 };
        assert_eq!(report.objects, 3 + 9 + large, "format {format}");
        let format_now = std::fs::read_to_string(scratch.path().join("FORMAT")).expect("is there");
        assert_eq!(format_now, format!("allotment-store {FORMAT_VERSION}\n"), "older programs must not write on");
        if format >= 2 {
            for (name, data) in packed() {
                let entry = store.get(&key("t", "a", name)).await.expect("answers").expect("is there");
                assert!(entry.body().ends_with(format!("\"data\":\"{data}\"}}").as_bytes()), "{name} is another one");
            }
        }
        let changed = store.get(&key("t", "a", "3")).await.expect("answers").expect("is there");
        assert!(changed.body().ends_with(b"\"data\":\"changed\"}"));
        assert!(store.get(&key("t", "a", "4")).await.expect("answers").is_none());
        let from = Revision(report.history_after);
        let mut watch = store.watch(WatchScope::All, from).await.expect("the history is there");
        let mut kinds = Vec::new();
        while watch.progress() < Revision(report.revision) {
            kinds.push(watch.next().await.expect("goes on").kind);
        }
        assert!(kinds.contains(&EventKind::Modified) && kinds.contains(&EventKind::Deleted));
        begin(&store, "new").await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_power_cut_while_an_old_folder_becomes_one_of_the_present_format_leaves_either() {
    let old = Disk::default();
    for entry in data(1).read_dir().expect("lists") {
        let entry = entry.expect("lists");
        old.set_bytes(&entry.file_name().to_string_lossy(), std::fs::read(entry.path()).expect("reads"));
    }
    let old = old.after_exit();
    let open = async |disk: &Disk| Embedded::open_on(Arc::new(disk.clone()), Options::default()).await;
    let whole = old.after_exit();
    open(&whole).await.expect("opens").close().await;
    let mut formats = BTreeSet::new();
    for cut in 1..=whole.operations() {
        for seed in 0..8 {
            let disk = old.after_exit();
            disk.set_faults(DiskFaults { cut_at: Some(cut), ..DiskFaults::default() });
            drop(open(&disk).await);
            let found = disk.after_power_cut(cut * 7 + seed);
            formats.insert(String::from_utf8(found.bytes("FORMAT").expect("is there")).expect("is text"));
            let store = open(&found).await.unwrap_or_else(|error| panic!("cut at {cut}: {error:?}"));
            assert_eq!(store.report().objects, 3 + 9, "cut at {cut}");
        }
    }
    let wanted = ["allotment-store 1\n", "allotment-store 2\n"].map(str::to_owned);
    assert!(formats.iter().eq(&wanted), "either is found: {formats:?}");
}

#[test]
fn the_present_format_has_its_folder() {
    let newest = FORMATS[FORMATS.len() - 1];
    let text = std::fs::read_to_string(data(newest).join("FORMAT")).expect("is there");
    assert_eq!(text, format!("allotment-store {newest}\n"));
    assert_eq!(FORMAT_VERSION, newest, "write the folder of the new format, and keep the old ones");
}

#[tokio::test]
#[ignore = "writes the folder of a new format, once"]
async fn writes_the_folder_of_the_present_format() {
    let dir = data(FORMAT_VERSION);
    if dir.exists() {
        return;
    }
    let small = Options { snapshot_after_bytes: 600, ..Options::default() };
    let scratch = Scratch::new("present");
    let store = Embedded::open(scratch.path(), small).await.expect("opens");
    let filled = Write::Instantiate { tenant: Tenant::logical("filled"), template: template() };
    store.commit(filled).await.expect("instantiates");
    for tenant in ["empty", "t", "gone"] {
        begin(&store, tenant).await;
    }
    let put = async |store: &Embedded, name: String, expect, data: &str| {
        let write = Write::Put { key: key("t", "a", &name), expect, body: body(data) };
        store.commit(write).await.expect("writes").revision
    };
    let [early, late] = packed();
    put(&store, early.0.to_owned(), Expect::Absent, &early.1).await;
    let mut revisions = Vec::new();
    for name in 0..6 {
        revisions.push(put(&store, name.to_string(), Expect::Absent, "x").await);
    }
    store.commit(Write::DropTenant { tenant: Tenant::logical("gone") }).await.expect("drops");
    store.close().await;
    let store = Embedded::open(scratch.path(), Options::default()).await.expect("opens");
    put(&store, "3".to_owned(), Expect::Revision(revisions[3]), "changed").await;
    let delete = Write::Delete { key: key("t", "a", "4"), expect: revisions[4], last: None };
    store.commit(delete).await.expect("deletes");
    put(&store, late.0.to_owned(), Expect::Absent, &late.1).await;
    for name in 6..10 {
        put(&store, name.to_string(), Expect::Absent, "y").await;
    }
    store.close().await;
    std::fs::create_dir_all(&dir).expect("makes it");
    copy(scratch.path(), &dir);
    std::fs::remove_file(dir.join("lock")).expect("is not part of it");
}
