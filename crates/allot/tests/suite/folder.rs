//! The data folder: found again, and left alone when it is not ours to use.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use allotment_api::requests::ClusterRequestGrant;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::harness::{Folder, Up, allot, client, client_of, make_namespace, run};

/// Every file below a folder with its content.
fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.display().to_string(), std::fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

fn up(folder: &Folder, data: &Path, listen: &str) -> (Option<i32>, String) {
    let output = allot(folder).args(["up", "--listen", listen, "--data-dir"]).arg(data).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn after_kill_9_everything_is_found_again_at_the_same_address() {
    let folder = Folder::new();
    let first = Up::start(&folder).await;
    let kubeconfig = std::fs::read_to_string(folder.kubeconfig()).expect("a kubeconfig");
    let mode = std::fs::metadata(folder.kubeconfig()).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    make_namespace(&client(&folder.kubeconfig()).await, "n").await;
    assert!(run(&folder, &["request", "r", "-n", "n", "--purpose", "mcp", "--wait"]).status.success());
    first.kill();

    let second = Up::start(&folder).await;
    let admin = client_of(&kubeconfig).await;
    let grants = Api::<ClusterRequestGrant>::namespaced(admin.clone(), "n");
    let grant = grants.get("r").await.expect("the grant survived");
    assert!(run(&folder, &["request", "r", "-n", "n", "--purpose", "mcp", "--wait"]).status.success());
    assert_eq!(grants.get("r").await.expect("it stays").uid(), grant.uid());
    let namespaces =
        Api::<Namespace>::all(admin).list(&ListParams::default()).await.expect("the first kubeconfig works");
    assert!(namespaces.items.iter().any(|namespace| namespace.name_any() == "n"));
    let status = second.interrupt().await;
    assert!(status.success(), "Ctrl-C ended it with {status}");
}

#[tokio::test]
async fn a_folder_in_use_is_refused() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let (code, says) = up(&folder, &folder.data(), "127.0.0.1:0");
    assert_eq!(code, Some(10), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
    assert!(says.contains("in use"), "{says}");
}

#[tokio::test]
async fn a_foreign_folder_is_left_as_it_was() {
    let folder = Folder::new();
    let foreign = folder.0.join("photos");
    std::fs::create_dir(&foreign).expect("a folder");
    std::fs::write(foreign.join("cat.jpg"), "meow").expect("a file");
    let before = content(&foreign);
    let (code, says) = up(&folder, &foreign, "127.0.0.1:0");
    assert_eq!(code, Some(11), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
    assert!(says.contains("cat.jpg"), "{says}");
    assert_eq!(content(&foreign), before);
}

#[tokio::test]
async fn a_taken_address_leaves_a_new_folder_unmade() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, says) = up(&folder, &folder.data(), &address);
    assert_eq!(code, Some(13), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
    assert!(says.contains(&address), "{says}");
    assert!(!folder.data().exists(), "the folder was made");
}

#[tokio::test]
async fn a_folder_of_a_newer_version_is_left_as_it_was() {
    let folder = Folder::new();
    Up::start(&folder).await.interrupt().await;
    let format = folder.data().join("store").join("FORMAT");
    let text = std::fs::read_to_string(&format).expect("the store says its format");
    let newer = text.replace('2', "999");
    assert_ne!(text, newer, "the format is not 2 any more; write what a newer one would");
    std::fs::write(&format, newer).expect("it can be written");
    let before = content(&folder.data());
    let (code, says) = up(&folder, &folder.data(), "127.0.0.1:0");
    assert_eq!(code, Some(12), "{says}");
    assert_eq!(says.lines().count(), 1, "{says}");
    assert_eq!(content(&folder.data()), before);
}

#[tokio::test]
async fn a_folder_that_only_looks_like_ours_is_left_as_it_was() {
    let folder = Folder::new();
    for (name, file) in [("a", "store/song.mp3"), ("b", "store")] {
        let foreign = folder.0.join(name);
        std::fs::create_dir_all(foreign.join(file).parent().expect("below it")).expect("a folder");
        std::fs::write(foreign.join(file), "la").expect("a file");
        let before = content(&foreign);
        let (code, says) = up(&folder, &foreign, "127.0.0.1:0");
        assert_eq!(code, Some(11), "{file}: {says}");
        assert_eq!(says.lines().count(), 1, "{says}");
        assert_eq!(content(&foreign), before);
    }
}

#[tokio::test]
async fn what_cannot_be_put_where_it_is_wanted_is_told_before_anything_is_made() {
    let folder = Folder::new();
    let theirs = folder.0.join("config");
    std::fs::write(&theirs, "clusters: [{name: prod, cluster: {server: https://prod}}]\n").expect("a file");
    let before = content(&folder.0);
    let absent = folder.0.join("absent").join("file");
    for (flag, path, says) in [
        ("--kubeconfig", &theirs, "prod"),
        ("--kubeconfig", &absent, "absent"),
        ("--kubeconfig", &folder.0, "is a folder"),
        ("--pid-file", &absent, "absent"),
    ] {
        let mut command = allot(&folder);
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.data()).arg(flag).arg(path);
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(says) && text.contains(flag), "{text}");
        assert_eq!(content(&folder.0), before, "{flag}: something was made or changed");
    }
}

#[tokio::test]
async fn what_kubeconfigs_depend_on_is_not_made_anew_in_silence() {
    let folder = Folder::new();
    Up::start(&folder).await.interrupt().await;
    let data = folder.data();
    for (file, text) in [("pki/ca.crt", None), ("pki/ca.key", Some("")), ("address", Some("nowhere\n"))] {
        let path = data.join(file);
        let kept = std::fs::read(&path).expect("the file is there");
        match text {
            Some(text) => std::fs::write(&path, text).expect("it can be written"),
            None => std::fs::remove_file(&path).expect("it can be removed"),
        }
        let before = content(&data);
        let (code, says) = up(&folder, &data, "127.0.0.1:0");
        assert_eq!(code, Some(14), "{file}: {says}");
        assert!(says.lines().count() == 1 && says.contains(file), "{says}");
        assert_eq!(content(&data), before, "{file}");
        std::fs::write(&path, kept).expect("it can be put back");
    }
}

/// Damage in the middle of the log stops the start, says where, and can be repaired with what is before it kept.
#[tokio::test]
async fn a_damaged_store_is_refused_with_the_place_and_repaired_on_demand() {
    let folder = Folder::new();
    let first = Up::start(&folder).await;
    make_namespace(&client(&folder.kubeconfig()).await, "early").await;
    let log = folder.data().join("store").join("log-00000000000000000001");
    let early = folder.data().join("early");
    std::fs::copy(&log, &early).expect("a copy");
    make_namespace(&client(&folder.kubeconfig()).await, "late").await;
    let data = folder.data().display().to_string();
    let store = |what: &[&str]| {
        let output = run(&folder, &[&["store"], what, &["--data-dir", &data]].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(store(&["check"]).0, Some(10), "it is in use");
    first.interrupt().await;
    let (code, says, _) = store(&["check"]);
    assert_eq!(code, Some(0));
    assert!(says.starts_with("the store is right: revision "), "{says}");
    assert_eq!(store(&["repair", "--yes"]).1, "the store is right; there is nothing to repair\n");

    // The frame behind what was there before the second namespace.
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    let at = used(&std::fs::read(&early).expect("reads")) + 40;
    std::fs::remove_file(early).expect("goes");
    let mut bytes = std::fs::read(&log).expect("reads");
    assert!(at + 100 < bytes.len(), "something was written behind it");
    bytes[at] ^= 0xff;
    std::fs::write(&log, &bytes).expect("writes");
    let before = content(&folder.data());
    let (code, says) = up(&folder, &folder.data(), "127.0.0.1:0");
    assert_eq!((code, says.lines().count()), (Some(14), 1), "{says}");
    assert!(says.contains("log-00000000000000000001 is damaged at byte "), "{says}");
    let (code, _, says) = store(&["check"]);
    assert_eq!(code, Some(14), "{says}");
    let (code, plan, says) = store(&["repair"]);
    assert_eq!(code, Some(1), "{says}");
    assert!(plan.contains("to lose:") && plan.contains("to keep:") && plan.contains("damaged-log-"), "{plan}");
    assert_eq!(content(&folder.data()), before, "nothing was touched");
    let (code, done, says) = store(&["repair", "--yes"]);
    assert_eq!(code, Some(0), "{says}");
    assert!(done.contains("kept:"), "{done}");
    assert_eq!(std::fs::read(log.with_file_name("damaged-log-00000000000000000001")).expect("is aside"), bytes);
    let _second = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let namespaces = Api::<Namespace>::all(admin).list(&ListParams::default()).await.expect("it serves again");
    assert!(namespaces.items.iter().any(|namespace| namespace.name_any() == "early"), "what was before is there");
    let version = namespaces.metadata.resource_version.and_then(|version| version.parse::<u64>().ok());
    assert!(version.is_some_and(|version| version > 1_000_000_000), "{version:?}");
}
