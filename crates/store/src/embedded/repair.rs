//! Repairing a folder that is damaged, or that was restored from a backup: what is right is kept, what is not is
//! put aside, and the revision jumps, so that nobody takes what comes for what was lost.
//!
//! Of a damaged log all before the damage is kept; of a damaged snapshot all frames that are right, and what the
//! log behind it says. Both together become a new snapshot.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::files::Files;
use super::frame::{self, Header};
use super::record::{JUMP, put_number};
use super::recover::{self, Damage, Losses, Recovered};
use super::snapshot::Image;
use super::writer::{no_records, write_format};
use super::{FORMAT, LOG_TMP, OpenError, SNAPSHOT_TMP, lock, log_name, snapshot_name};
use crate::history::HistoryLimits;

/// How far the revision jumps beyond everything that can have been seen: a folder loses fewer writes than that,
/// and a revision has room for billions of such jumps.
const JUMP_BY: u64 = 1_000_000_000;

/// What files put aside begin with. Nothing reads them any more.
const ASIDE: &str = "damaged-";

/// Copied at once.
const COPY: usize = 1 << 20;

/// What a repair does, or would do.
#[derive(Clone, Debug, Default)]
pub struct Repair {
    /// Where the folder is damaged: file, offset and what is wrong; absent if it is not.
    pub damage: Option<String>,
    /// What is lost of the snapshot, if it is that which is damaged.
    pub snapshot: Option<Losses>,
    /// The newest revision that is kept.
    pub revision: u64,
    /// How many objects are kept, of all tenants.
    pub objects: u64,
    /// Writes behind the damage of the log that can still be read. They are lost; there may be more.
    pub lost_writes: u64,
    /// Bytes of the log behind its damage. They are lost.
    pub lost_bytes: u64,
    /// The files that keep what is lost.
    pub aside: Vec<String>,
    /// The revision from which the store goes on, if it jumps.
    pub jumps_to: Option<u64>,
}

/// Looks at a folder and says what a repair of it would do.
pub(super) async fn plan(files: &Arc<dyn Files>, restored: bool) -> Result<Repair, OpenError> {
    Ok(survey(&**files, restored).await?.0)
}

/// Repairs a folder. Done again after a crash, it goes on.
pub(super) async fn apply(files: &Arc<dyn Files>, restored: bool) -> Result<Repair, OpenError> {
    lock(&**files).await?;
    let (repair, recovered, damage) = survey(&**files, restored).await?;
    let Some(target) = repair.jumps_to else { return Ok(repair) };
    let done = put_aside_and_jump(&**files, &recovered, damage.as_ref(), target).await;
    done.map_err(|source| OpenError::Io { action: "repair", path: files.path(""), source })?;
    Ok(repair)
}

async fn survey(files: &dyn Files, restored: bool) -> Result<(Repair, Recovered, Option<Damage>), OpenError> {
    if recover::recognise(files).await?.is_none() {
        return Err(OpenError::Format { path: files.path(FORMAT) });
    }
    let (recovered, damage) = recover::load_what_is_right(files, HistoryLimits::default()).await?;
    let report = &recovered.report;
    let mut repair = Repair { revision: report.revision, objects: report.objects, ..Repair::default() };
    let mut newest = report.revision;
    if let Some(damage) = &damage {
        repair.damage = Some(damage.what.clone());
        if let Some((name, losses)) = &damage.snapshot {
            repair.snapshot = Some(losses.clone());
            repair.aside.push(files.path(&format!("{ASIDE}{name}")));
        }
        for (name, offset) in &damage.lost {
            let read = async {
                let len = files.len(name).await?;
                files.read(name, *offset, len.saturating_sub(*offset) as usize).await
            };
            let bytes =
                read.await.map_err(|source| OpenError::Io { action: "read", path: files.path(name), source })?;
            let found = frame::frames_in(&bytes);
            repair.lost_bytes += bytes.len() as u64;
            repair.lost_writes += found.iter().map(|header| u64::from(header.records)).sum::<u64>();
            newest = found.iter().map(Header::last).fold(newest, u64::max);
            repair.aside.push(files.path(&format!("{ASIDE}{name}")));
        }
    }
    repair.jumps_to = (restored || damage.is_some()).then(|| newest + JUMP_BY);
    Ok((repair, recovered, damage))
}

/// First the lost is copied, then it is cut off, from the end on: a crash in between leaves a damage that is
/// repaired in the same way.
async fn put_aside_and_jump(
    files: &dyn Files,
    recovered: &Recovered,
    damage: Option<&Damage>,
    target: u64,
) -> io::Result<()> {
    // What is written from here on is of the present format.
    write_format(files).await?;
    let lost = damage.map_or(&[][..], |damage| &damage.lost);
    let snapshot = damage.and_then(|damage| damage.snapshot.as_ref()).map(|(name, _)| name);
    for name in lost.iter().map(|(name, _)| name).chain(snapshot) {
        copy(files, name, &format!("{ASIDE}{name}")).await?;
    }
    files.sync_folder().await?;
    if snapshot.is_some() {
        // It takes the place of the damaged one, or is newer than that, in one step. What the log says is in it,
        // so that the segments so far are not read any more.
        let image = Image::of(&recovered.state);
        image.write(files, SNAPSHOT_TMP, &AtomicBool::new(false)).await?;
        files.rename(SNAPSHOT_TMP, &snapshot_name(image.revision)).await?;
        files.sync_folder().await?;
    }
    for (name, offset) in lost.iter().rev() {
        if *name != recovered.log || *offset == 0 {
            files.remove(name).await?;
        }
    }
    files.sync_folder().await?;
    let first = recovered.report.revision + 1;
    let mut jump = frame::begin();
    jump.push(JUMP);
    put_number(&mut jump, target);
    frame::seal(&mut jump, first, 1);
    // The segment that goes on may be lost as a whole.
    if snapshot.is_none() && files.names().await?.contains(&recovered.log) {
        let mut log = files.append(&recovered.log, recovered.log_len).await?;
        log.truncate(recovered.log_len).await?;
        log.write(&jump).await?;
        return log.sync().await;
    }
    // It appears with its jump: without it, the folder would pass for one that is right.
    let mut log = files.create(LOG_TMP).await?;
    log.write(&no_records(first)).await?;
    log.write(&jump).await?;
    log.sync().await?;
    files.rename(LOG_TMP, &log_name(first)).await?;
    files.sync_folder().await
}

async fn copy(files: &dyn Files, from: &str, to: &str) -> io::Result<()> {
    let mut copy = files.create(to).await?;
    let mut offset = 0;
    loop {
        let bytes = files.read(from, offset, COPY).await?;
        if bytes.is_empty() {
            return copy.sync().await;
        }
        copy.write(&bytes).await?;
        offset += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{begin, body, key, noise, template};
    use crate::embedded::simulated::{Disk, DiskFaults};
    use crate::{Embedded, Expect, Options, Revision, Store, StoreError, Tenant, WatchScope, Write};

    async fn open(disk: &Disk) -> Result<Embedded, OpenError> {
        Embedded::open_on(Arc::new(disk.clone()), Options::default()).await
    }

    /// A disk with a snapshot and a segment of several writes; the segment, and where its frames begin.
    async fn worn() -> (Disk, String, Vec<usize>) {
        let disk = Disk::default();
        let small = Options { snapshot_after_bytes: 400, ..Options::default() };
        let store = Embedded::open_on(Arc::new(disk.clone()), small).await.expect("opens");
        begin(&store, "t").await;
        for name in 0..5 {
            put(&store, &format!("{name:02}")).await;
        }
        store.close().await;
        let store = open(&disk).await.expect("opens");
        for name in 5..12 {
            put(&store, &format!("{name:02}")).await;
        }
        store.close().await;
        let segment = store_segment(&disk).await;
        let bytes = disk.bytes(&segment).expect("is there");
        let begins = begins(&bytes);
        (disk, segment, begins)
    }

    /// Where the frames of a whole file begin.
    fn begins(bytes: &[u8]) -> Vec<usize> {
        let mut begins = vec![0];
        while begins[begins.len() - 1] < bytes.len() {
            let at = begins[begins.len() - 1];
            let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four bytes"));
            begins.push(at + frame::HEADER + length as usize);
        }
        begins.pop();
        begins
    }

    async fn store_segment(disk: &Disk) -> String {
        let names = disk.names().await.expect("lists");
        names.into_iter().filter(|name| name.starts_with("log-")).max().expect("a log")
    }

    async fn put(store: &Embedded, name: &str) -> Revision {
        let write = Write::Put { key: key("t", "a", name), expect: Expect::Absent, body: body(name) };
        store.commit(write).await.expect("creates").revision
    }

    fn files(disk: &Disk) -> Arc<dyn Files> {
        Arc::new(disk.clone())
    }

    fn broken(disk: &Disk, segment: &str, at: usize) -> (Disk, Vec<u8>) {
        let broken = disk.after_exit();
        let mut bytes = disk.bytes(segment).expect("is there");
        bytes[at + 20] ^= 0x55;
        broken.set_bytes(segment, bytes.clone());
        (broken, bytes)
    }

    #[tokio::test]
    async fn what_is_right_is_kept_the_rest_put_aside_and_the_revision_jumps() {
        let (disk, segment, begins) = worn().await;
        let whole = open(&disk.after_exit()).await.expect("opens").report().clone();
        assert!(begins.len() > 4 && whole.snapshot.is_some(), "there is something to break: {begins:?}");
        for (index, at) in begins[..begins.len() - 1].iter().enumerate() {
            let (broken, bytes) = broken(&disk, &segment, *at);
            assert!(matches!(open(&broken).await, Err(OpenError::Damaged { .. })));
            let planned = plan(&files(&broken), false).await.expect("can be repaired");
            assert_eq!(broken.bytes(&segment).expect("is there"), bytes, "a plan changes nothing");
            let repair = apply(&files(&broken), false).await.expect("repairs");
            assert_eq!(format!("{repair:?}"), format!("{planned:?}"), "it does what it said");
            // The frame that is broken holds a write nobody can count; that of the segment's head holds none.
            let kept = repair.objects as usize;
            assert_eq!(repair.lost_writes as usize + kept + usize::from(index > 0), 12, "frame {index}");
            assert_eq!(repair.lost_bytes as usize, bytes.len() - at);
            assert_eq!(broken.bytes(&format!("damaged-{segment}")).expect("is put aside"), bytes);

            let store = open(&broken).await.expect("opens");
            assert_eq!(store.report().objects, repair.objects);
            let target = Revision(repair.jumps_to.expect("something is lost"));
            assert!(target.0 > whole.revision + JUMP_BY / 2);
            assert_eq!(store.revision().await.expect("answers"), target);
            let stale = store.watch(WatchScope::All, Revision(whole.revision)).await;
            assert!(matches!(stale, Err(StoreError::Compacted { .. })), "{stale:?}");
            assert_eq!(put(&store, "after").await, Revision(target.0 + 1));
            store.close().await;
            assert_eq!(open(&broken).await.expect("opens").report().objects, repair.objects + 1);
            let again = apply(&files(&broken), false).await.expect("has nothing to do");
            assert_eq!((again.damage, again.jumps_to), (None, None));
        }
    }

    #[tokio::test]
    async fn a_power_cut_in_a_repair_leaves_what_can_be_repaired() {
        let (disk, segment, begins) = worn().await;
        let (broken, bytes) = broken(&disk, &segment, begins[2]);
        let whole = broken.after_exit();
        apply(&files(&whole), false).await.expect("repairs");
        for cut in 1..=whole.operations() {
            for seed in 0..4 {
                let disk = broken.after_exit();
                disk.set_faults(DiskFaults { cut_at: Some(cut), ..DiskFaults::default() });
                drop(apply(&files(&disk), false).await);
                let found = disk.after_power_cut(cut * 7 + seed);
                let repair = apply(&files(&found), false).await.expect("goes on");
                let store = open(&found).await.expect("opens");
                assert_eq!(store.report().objects, repair.objects, "cut at {cut}");
                let kept = found.bytes(&format!("damaged-{segment}")).expect("is put aside");
                assert_eq!(kept, bytes, "cut at {cut}");
            }
        }
    }

    #[tokio::test]
    async fn a_missing_segment_is_begun_anew_and_a_restored_folder_only_jumps() {
        let (disk, segment, _) = worn().await;
        let gone = disk.after_exit();
        Files::remove(&gone, &segment).await.expect("removes");
        let repair = apply(&files(&gone), false).await.expect("repairs");
        assert!(repair.damage.is_some_and(|damage| damage.ends_with("the file is missing")));
        assert_eq!(open(&gone).await.expect("opens").report().objects, repair.objects);

        let restored = disk.after_exit();
        let repair = apply(&files(&restored), true).await.expect("jumps");
        assert_eq!((repair.damage, repair.aside.len(), repair.objects), (None, 0, 12));
        let store = open(&restored).await.expect("opens");
        assert_eq!(store.revision().await.expect("answers").0, repair.jumps_to.expect("jumps"));
        assert_eq!(store.report().objects, 12);
        let foreign = plan(&files(&Disk::default()), false).await;
        assert!(matches!(foreign, Err(OpenError::Format { .. })), "{foreign:?}");
    }

    /// How many objects the folders below have in their snapshot, and how many more in the log.
    const OLD: usize = 12;
    const NEW: usize = 3;

    /// By turns one that is held as it is and one that is packed to half.
    fn text(name: usize) -> String {
        let noise = noise(60_000, name as u64);
        format!("{name:02}-{}", noise.repeat(1 + name % 2))
    }

    fn name(name: usize) -> String {
        format!("{name:02}")
    }

    /// A disk with a snapshot of several frames, behind which the log has new objects, one that was changed and
    /// one that was deleted; the snapshot's name, and where its frames begin. `remembers`: so many of the writes
    /// are in the snapshot's history too.
    async fn large(remembers: usize) -> (Disk, String, Vec<usize>) {
        let disk = Disk::default();
        let history = HistoryLimits { events: remembers, ..HistoryLimits::default() };
        let whole = Options { history, snapshot_after_bytes: 1, ..Options::default() };
        let store = Embedded::open_on(Arc::new(disk.clone()), Options { history, ..Options::default() }).await;
        let store = store.expect("opens");
        begin(&store, "t").await;
        for number in 0..OLD {
            put_text(&store, number, &text(number), Expect::Absent).await;
        }
        store.close().await;
        let store = Embedded::open_on(Arc::new(disk.clone()), whole).await.expect("opens");
        // What is written asks for the snapshot.
        begin(&store, "second").await;
        while !disk.names().await.expect("lists").iter().any(|name| name.starts_with("snapshot-")) {
            tokio::task::yield_now().await;
        }
        store.close().await;
        let store = open(&disk).await.expect("opens");
        for number in OLD..OLD + NEW {
            put_text(&store, number, &text(number), Expect::Absent).await;
        }
        let first = store.get(&key("t", "a", &name(0))).await.expect("answers").expect("is there");
        put_text(&store, 0, "changed", Expect::Revision(first.revision)).await;
        let second = store.get(&key("t", "a", &name(1))).await.expect("answers").expect("is there");
        let delete = Write::Delete { key: key("t", "a", &name(1)), expect: second.revision, last: None };
        store.commit(delete).await.expect("deletes");
        store.close().await;
        let names = disk.names().await.expect("lists");
        let snapshot = names.into_iter().find(|name| name.starts_with("snapshot-")).expect("a snapshot");
        let bytes = disk.bytes(&snapshot).expect("is there");
        let begins = begins(&bytes);
        (disk, snapshot, begins)
    }

    async fn put_text(store: &Embedded, number: usize, text: &str, expect: Expect) {
        let write = Write::Put { key: key("t", "a", &name(number)), expect, body: body(text) };
        store.commit(write).await.expect("writes");
    }

    /// The numbers of the objects that are there; each has to be as it was last written.
    async fn kept(store: &Embedded) -> Vec<usize> {
        let mut kept = Vec::new();
        for number in 0..OLD + NEW {
            if let Some(entry) = store.get(&key("t", "a", &name(number))).await.expect("answers") {
                let wanted = if number == 0 { "changed".to_owned() } else { text(number) };
                let body = String::from_utf8_lossy(&entry.body()).into_owned();
                assert!(body.contains(&format!("\"{wanted}\"")), "{number} is another one");
                kept.push(number);
            }
        }
        kept
    }

    #[tokio::test]
    async fn of_a_damaged_snapshot_all_frames_but_the_broken_one_are_kept() {
        for remembers in [1, 6, 1000] {
            let (disk, snapshot, begins) = large(remembers).await;
            assert!(begins.len() > 2, "there are frames to lose: {begins:?}");
            let whole = open(&disk.after_exit()).await.expect("opens").report().clone();
            let mut most = 0;
            for at in &begins {
                let (broken, bytes) = broken(&disk, &snapshot, *at + 4);
                assert!(matches!(open(&broken).await, Err(OpenError::Damaged { .. })));
                let planned = plan(&files(&broken), false).await.expect("can be repaired");
                assert_eq!(broken.bytes(&snapshot).expect("is there"), bytes, "a plan changes nothing");
                let repair = apply(&files(&broken), false).await.expect("repairs");
                assert_eq!(format!("{repair:?}"), format!("{planned:?}"), "it does what it said");
                assert_eq!(broken.bytes(&format!("damaged-{snapshot}")).expect("is put aside"), bytes);

                let store = open(&broken).await.expect("opens");
                let kept = kept(&store).await;
                assert_eq!(kept.len() as u64, repair.objects);
                assert!([0, OLD, OLD + NEW - 1].iter().all(|number| kept.contains(number)), "the log counts: {kept:?}");
                assert!(!kept.contains(&1), "it was deleted later");
                let losses = repair.snapshot.expect("it is the snapshot");
                // The first and the second are changed and deleted later, so they may be lost without a trace.
                let missing = OLD + NEW - 1 - kept.len();
                if let Some(lost) = losses.objects {
                    let lost = lost as usize;
                    assert!((missing..=missing + 2).contains(&lost), "{lost} lost, {missing} missing");
                    assert_eq!(lost > 0, !losses.gaps.is_empty(), "{losses:?}");
                }
                most = most.max(kept.len());
                let target = repair.jumps_to.expect("something may be lost");
                assert!(target > whole.revision + JUMP_BY / 2);
                assert_eq!(store.revision().await.expect("answers").0, target);
                put(&store, "after").await;
                store.close().await;
                assert_eq!(open(&broken).await.expect("opens").report().objects, repair.objects + 1);
                let again = apply(&files(&broken), false).await.expect("has nothing to do");
                assert_eq!((again.damage, again.jumps_to), (None, None));
            }
            assert!(most >= (OLD + NEW) / 2, "at most {most} were kept, of {remembers} remembered");
        }
    }

    /// The number of bytes that `number` takes as records have it, and how it is written.
    fn written(number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, number);
        out
    }

    #[tokio::test]
    async fn a_packed_object_that_is_not_what_it_says_is_damage_although_the_checksum_is_right() {
        let disk = Disk::default();
        let store = open(&disk).await.expect("opens");
        begin(&store, "t").await;
        put(&store, "before").await;
        let text = "x".repeat(200_000);
        put_text(&store, 0, &text, Expect::Absent).await;
        store.close().await;
        let log = store_segment(&disk).await;
        let bytes = disk.bytes(&log).expect("is there");
        let begins = begins(&bytes);
        // The last one is the seal.
        let frame = begins[begins.len() - 2];
        let packed = &bytes[frame..begins[begins.len() - 1]];
        assert!(packed.len() < 2_000, "it is packed: {}", packed.len());
        let len = written(body(&text).bytes.len() as u64);
        let at = packed.windows(len.len()).position(|bytes| bytes == len).expect("says how long it is");
        for wrong in [written(200_001), written(0x1f_ffff), written(1 << 20), vec![0x80, 0x80, 0], vec![0xff, 0x80, 0]]
        {
            assert_eq!(wrong.len(), len.len(), "nothing else moves");
            let mut frame_bytes = packed.to_vec();
            frame_bytes[at..at + len.len()].copy_from_slice(&wrong);
            let first = u64::from_le_bytes(packed[16..24].try_into().expect("eight bytes"));
            frame::seal(&mut frame_bytes, first, 1);
            let broken = disk.after_exit();
            broken.set_bytes(&log, [&bytes[..frame], &frame_bytes, &bytes[frame + packed.len()..]].concat());
            let error = open(&broken).await.expect_err("is damaged").to_string();
            assert!(error.contains(&format!("damaged at byte {frame}: its records make no sense")), "{error}");
            let repair = apply(&files(&broken), false).await.expect("repairs");
            assert_eq!((repair.objects, repair.lost_writes), (1, 1));
            let store = open(&broken).await.expect("opens");
            assert!(store.get(&key("t", "a", "before")).await.expect("answers").is_some());
        }
    }

    #[tokio::test]
    async fn whatever_byte_of_a_packed_object_rots_it_is_damage_or_a_torn_end_and_never_another_object() {
        let (disk, segment, begins) = worn().await;
        let store = open(&disk).await.expect("opens");
        put_text(&store, 40, &"x".repeat(100_000), Expect::Absent).await;
        put(&store, "after").await;
        store.close().await;
        let segment = store_segment(&disk).await.max(segment);
        let bytes = disk.bytes(&segment).expect("is there");
        let frame = begins[begins.len() - 1];
        let length = u32::from_le_bytes(bytes[frame + 8..frame + 12].try_into().expect("four bytes")) as usize;
        for at in frame..frame + frame::HEADER + length {
            let broken = disk.after_exit();
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            broken.set_bytes(&segment, bytes);
            assert!(matches!(open(&broken).await, Err(OpenError::Damaged { .. })), "byte {at}");
        }
    }

    async fn instantiate(store: &Embedded, tenant: &str) {
        let write = Write::Instantiate { tenant: Tenant::logical(tenant), template: template() };
        store.commit(write).await.expect("begins");
    }

    /// A disk whose snapshot, of one frame, has a template that the log behind it begins more tenants with, one of
    /// which goes again; the snapshot's name.
    async fn templated() -> (Disk, String) {
        let disk = Disk::default();
        let store = open(&disk).await.expect("opens");
        instantiate(&store, "first").await;
        store.close().await;
        let at_once = Options { snapshot_after_bytes: 1, ..Options::default() };
        let store = Embedded::open_on(Arc::new(disk.clone()), at_once).await.expect("opens");
        begin(&store, "bare").await;
        while !disk.names().await.expect("lists").iter().any(|name| name.starts_with("snapshot-")) {
            tokio::task::yield_now().await;
        }
        store.close().await;
        let store = open(&disk).await.expect("opens");
        for tenant in ["second", "third", "gone"] {
            instantiate(&store, tenant).await;
        }
        let write = Write::Put { key: key("second", "a", "own"), expect: Expect::Absent, body: body("own") };
        store.commit(write).await.expect("creates");
        store.commit(Write::DropTenant { tenant: Tenant::logical("gone") }).await.expect("drops");
        store.close().await;
        let names = disk.names().await.expect("lists");
        (disk, names.into_iter().find(|name| name.starts_with("snapshot-")).expect("a snapshot"))
    }

    #[tokio::test]
    async fn a_tenant_whose_template_is_lost_keeps_its_key_space_and_what_it_misses_is_told() {
        let (disk, snapshot) = templated().await;
        let (broken, _) = broken(&disk, &snapshot, 4);
        let repair = apply(&files(&broken), false).await.expect("repairs");
        let gaps = repair.snapshot.expect("it is the snapshot").gaps;
        let told: Vec<_> = gaps.iter().filter(|gap| gap.starts_with("all that")).map(String::as_str).collect();
        let wanted = ["all that template three gave tenant second", "all that template three gave tenant third"];
        assert_eq!(told, wanted, "{gaps:?}");

        let store = open(&broken).await.expect("opens");
        let tenants = store.tenants().await.expect("answers");
        assert_eq!(tenants, ["second", "third"].map(Tenant::logical), "one is gone, and the snapshot's are lost");
        assert!(store.get(&key("second", "a", "own")).await.expect("answers").is_some());
        let write = Write::Put { key: key("third", "a", "own"), expect: Expect::Absent, body: body("own") };
        store.commit(write).await.expect("the key space takes writes");
        // The template is not known any more, so that it is written down again with the next tenant.
        instantiate(&store, "fourth").await;
        store.close().await;
        assert_eq!(open(&broken).await.expect("opens").report().objects, 2 + 3);
    }

    #[tokio::test]
    async fn a_power_cut_while_a_snapshot_is_rescued_leaves_what_can_be_repaired() {
        let (disk, snapshot, begins) = large(6).await;
        let (broken, bytes) = broken(&disk, &snapshot, begins[1] + 4);
        let whole = broken.after_exit();
        let expected = apply(&files(&whole), false).await.expect("repairs").objects;
        for cut in 1..=whole.operations() {
            let disk = broken.after_exit();
            disk.set_faults(DiskFaults { cut_at: Some(cut), ..DiskFaults::default() });
            drop(apply(&files(&disk), false).await);
            let found = disk.after_power_cut(cut * 7);
            let repair = apply(&files(&found), false).await.expect("goes on");
            let store = open(&found).await.expect("opens");
            assert_eq!((repair.objects, store.report().objects), (expected, expected), "cut at {cut}");
            assert!(store.revision().await.expect("answers").0 > JUMP_BY, "cut at {cut}: it jumped");
            let aside = found.bytes(&format!("damaged-{snapshot}")).expect("is put aside");
            assert_eq!(aside, bytes, "cut at {cut}");
        }
    }
}
