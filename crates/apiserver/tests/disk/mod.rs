//! What clients see of a disk that fails under the server: which write is refused, in which words, and what
//! goes on.

use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_store::{Disk, DiskFaults, Embedded, Options};
use http_body_util::BodyExt as _;

use crate::world::{self, Reply, World};
use crate::{CONFIG_MAPS, config_map};

/// A server over a simulated disk.
async fn serve(disk: &Disk) -> World<Embedded> {
    // Without room made ahead, a full disk shows itself at once.
    let options = Options { log_reserve_bytes: 0, ..Options::default() };
    World::over(Embedded::open_on(Arc::new(disk.clone()), options).await.expect("opens")).await
}

/// Status and text of what is no resource.
async fn text(world: &World<Embedded>, path: &str) -> (u16, String) {
    let response = world.raw(world.request("GET", path, &Value::Null)).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("infallible").to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

#[track_caller]
fn check_refused(reply: &Reply, code: u16, words: &[&str]) {
    assert_eq!(reply.code, code, "{}", reply.body);
    assert_eq!(reply.body.at(&["code"]), Some(&Value::from(i64::from(code))), "{}", reply.body);
    assert_eq!((reply.text(&["kind"]).as_str(), reply.text(&["status"]).as_str()), ("Status", "Failure"));
    let message = reply.text(&["message"]);
    for word in words {
        assert!(message.contains(word), "{word:?} in {message}");
    }
    names_no_file(&message);
}

/// What clients are told is not where the server has its files, which the simulated disk calls `disk/…`.
#[track_caller]
fn names_no_file(told: &str) {
    for part in ["disk/", "log-", "snapshot-"] {
        assert!(!told.contains(part), "{part:?} in {told}");
    }
}

/// Lets a disk fail as `faults` say of one at rest, and looks at everything that clients may do then. `code` is
/// what the first write is answered with.
async fn check_failure(faults: impl FnOnce(&Disk) -> DiskFaults, code: u16, reason: &str) {
    const MENDS: [&str; 2] = ["until its disk is mended and the server started again", "nothing was written"];
    let disk = Disk::default();
    let world = serve(&disk).await;
    let path = format!("{CONFIG_MAPS}/kept");
    let kept = world.create(CONFIG_MAPS, config_map("kept", "as it was")).await;
    let revision = kept.text(&["metadata", "resourceVersion"]);
    // From then on the server writes nothing by itself, so that the fault meets what is asked for here.
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let last = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        world.until(&last, |reply| reply.code == 200).await;
    }

    disk.set_faults(faults(&disk));
    let first = world.send("POST", CONFIG_MAPS, &config_map("first", "lost")).await;
    let words = if code == 504 { ["is not known", "read the object again"] } else { MENDS };
    check_refused(&first, code, &words);
    check_refused(&first, code, &[reason]);
    // The disk is well again, but nobody knows what it still has.
    disk.set_faults(DiskFaults::default());
    check_refused(&world.send("POST", CONFIG_MAPS, &config_map("later", "")).await, 507, &MENDS);
    check_refused(&world.send("PUT", &path, &config_map("kept", "changed")).await, 507, &MENDS);
    check_refused(&world.patch(&path, &json!({"data": {"text": "changed"}})).await, 507, &MENDS);
    check_refused(&world.send("DELETE", &path, &Value::Null).await, 507, &MENDS);

    let read = world.get(&path).await;
    assert_eq!((read.code, read.text(&["data", "text"]).as_str()), (200, "as it was"));
    assert_eq!(world.get(CONFIG_MAPS).await.code, 200, "lists go on");
    let mut watch = world.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=0")).await;
    let frame = world::next(&mut watch).await.expect("watches go on");
    assert_eq!(frame.at(&["type"]), Some(&Value::from("ADDED")));
    for absent in ["first", "later"] {
        assert_eq!(world.get(&format!("{CONFIG_MAPS}/{absent}")).await.code, 404, "{absent} is not there");
    }

    let (ready, told) = text(&world, "/readyz").await;
    assert_eq!(ready, 500, "{told}");
    assert!(told.contains("[-]store failed: ") && told.contains(reason) && told.contains("[+]ping ok"), "{told}");
    names_no_file(&told);
    let (ready, told) = text(&world, "/readyz/store").await;
    assert!(ready == 500 && told.contains("start it again"), "{told}");
    names_no_file(&told);
    assert_eq!(text(&world, "/livez").await.0, 200, "to end the process heals no disk");

    world.server.stop().await;
    world.store.close().await;
    let world = serve(&disk).await;
    assert_eq!(text(&world, "/readyz").await, (200, "ok".to_owned()));
    assert_eq!(world.get(&path).await.text(&["metadata", "resourceVersion"]), revision, "nothing was changed");
    for absent in ["first", "later"] {
        assert_eq!(world.get(&format!("{CONFIG_MAPS}/{absent}")).await.code, 404, "{absent} does not appear later");
    }
    world.create(CONFIG_MAPS, config_map("after", "")).await;
}

#[tokio::test]
async fn a_sync_that_fails_refuses_the_write_and_all_later_ones() {
    let faults = |disk: &Disk| DiskFaults { fail_sync_at: Some(disk.syncs() + 1), ..DiskFaults::default() };
    check_failure(faults, 507, "the disk failed").await;
}

#[tokio::test]
async fn a_write_that_may_be_on_the_disk_is_answered_as_unknown() {
    let faults = |_: &Disk| DiskFaults { fail_syncs: true, ..DiskFaults::default() };
    check_failure(faults, 504, "the disk failed").await;
}

#[tokio::test]
async fn a_full_disk_refuses_writes() {
    let faults = |_: &Disk| DiskFaults { room: Some(40), ..DiskFaults::default() };
    check_failure(faults, 507, "the disk is full").await;
}

#[tokio::test]
async fn a_read_only_file_system_refuses_writes() {
    let faults = |_: &Disk| DiskFaults { read_only: true, ..DiskFaults::default() };
    check_failure(faults, 507, "the file system is read-only").await;
}

#[tokio::test]
async fn a_write_that_breaks_off_refuses_itself_and_all_later_ones() {
    let faults = |disk: &Disk| DiskFaults { break_write_at: Some(disk.writes() + 1), ..DiskFaults::default() };
    check_failure(faults, 507, "the disk failed").await;
}
