//! `allot access --merge`: kubectl's own kubeconfig, changed only by who agrees.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Output;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};

use crate::access::granted;
use crate::commands::{check, said};
use crate::harness::{Folder, Up, allot, client, code};

/// `allot access` of the platform, with what kubectl would read named by `KUBECONFIG` or lying in the home folder.
fn merge(folder: &Folder, list: Option<&str>, flags: &[&str]) -> Output {
    let mut command = allot(folder);
    if let Some(list) = list {
        command.env("KUBECONFIG", list);
    }
    command.args(["access", "a", "-n", "n", "--merge", "--kubeconfig"]).arg(folder.kubeconfig()).args(flags);
    command.output().expect("the command runs")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// A client by a context of a kubeconfig.
async fn by_context(path: &Path, context: &str) -> Client {
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    let kubeconfig = Kubeconfig::read_from(path).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("it can be used");
    Client::try_from(config).expect("a client")
}

#[tokio::test]
async fn a_context_is_merged_once_somebody_agrees_and_everything_else_stays() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "n").await;

    // Unasked, nothing is touched.
    let own = folder.0.join(".kube/config");
    check(&merge(&folder, None, &[]), 1, &["there is no terminal to ask at", "--yes"]);
    assert!(!own.exists(), "a file was made unasked");
    let done = merge(&folder, None, &["--yes"]);
    check(&done, 0, &["use it with: kubectl --context n/a"]);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "n/a\n");
    assert_eq!((mode(&own), mode(own.parent().expect("a folder"))), (0o600, 0o700));
    let inside = Api::<Namespace>::all(by_context(&own, "n/a").await);
    assert_eq!(code(inside.list(&ListParams::default()).await), 200);
    let first = fs::read_to_string(&own).expect("text");
    assert!(first.contains("current-context: n/a"), "{first}");
    check(&merge(&folder, None, &["--yes"]), 0, &["has it already, just so"]);
    assert_eq!(fs::read_to_string(&own).expect("text"), first);

    // What others have there stays, link and all; readable by everybody it stays no longer.
    let real = folder.0.join("real");
    let others = "apiVersion: v1\nkind: Config\ncurrent-context: work\nclusters:\n- name: work\n  cluster:\n    \
        server: https://work.example.com\n    unknown: kept\ncontexts:\n- name: work\n  context: {cluster: work, user: me}\n\
        users:\n- name: me\n  user: {token: secret}\n";
    fs::write(&real, others).expect("a file");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).expect("a mode");
    let link = folder.0.join("link");
    symlink(&real, &link).expect("a link");
    let list = format!("{}:{}", folder.0.join("absent").display(), link.display());
    check(&merge(&folder, Some(&list), &["--yes", "--static"]), 0, &["add to", "link"]);
    assert!(link.is_symlink() && !folder.0.join("absent").exists());
    assert_eq!(mode(&real), 0o600);
    let text = fs::read_to_string(&real).expect("text");
    for kept in ["current-context: work", "unknown: kept", "token: secret", "server: https://work.example.com"] {
        assert!(text.contains(kept), "{kept:?} is gone: {text}");
    }
    let inside = Api::<Namespace>::all(by_context(&link, "n/a").await);
    assert_eq!(code(inside.list(&ListParams::default()).await), 200);
    // From the token to the plugin: its own is brought up to date where it lies.
    check(&merge(&folder, Some(&list), &["--yes"]), 0, &["bring up to date"]);
    let text = fs::read_to_string(&real).expect("text");
    assert!(text.contains("credential") && text.contains("token: secret"), "{text}");

    // Somebody else's of that name is theirs.
    let theirs = "contexts: [{name: n/a, context: {cluster: x, user: y}}]\n";
    fs::write(&real, theirs).expect("a file");
    let refused = merge(&folder, Some(&list), &["--yes"]);
    check(&refused, 1, &["a context is called \"n/a\" and is not of this AccessRequest", "nothing was written"]);
    assert_eq!(fs::read_to_string(&real).expect("text"), theirs);
    // Nor while another command changes the file, nor into the platform's own.
    fs::write(&real, "").expect("a file");
    fs::write(folder.0.join("real.lock"), "").expect("a file");
    check(&merge(&folder, Some(&list), &["--yes"]), 1, &["is being changed by another command", "real.lock"]);
    let platform = folder.kubeconfig();
    let before = fs::read_to_string(&platform).expect("text");
    if !crate::harness::is_beside() {
        check(&merge(&folder, platform.to_str(), &["--yes"]), 1, &["`allot up` writes anew"]);
    }
    assert_eq!(fs::read_to_string(&platform).expect("text"), before);
    let flags = merge(&folder, None, &["--yes", "--wait", "--timeout", "1ms", "--context", "none"]);
    check(&flags, 1, &["it has no context \"none\""]);
    assert!(!said(&flags).contains("secret"));
}

#[tokio::test]
async fn at_a_terminal_it_asks_and_a_no_is_a_no() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "n").await;
    let own = folder.0.join(".kube/config");
    let ask = |answer: &str| {
        let mut command = std::process::Command::new("python3");
        let words = ["access", "a", "-n", "n", "--merge", "--kubeconfig"];
        command.args(["-c", TERMINAL, answer, env!("CARGO_BIN_EXE_allot")]).args(words).arg(folder.kubeconfig());
        command.env("HOME", &folder.0).env_remove("KUBECONFIG").output().expect("python3 runs")
    };
    check(&ask("n"), 1, &["make ", ".kube/config with context \"n/a\"", "Do it? [y/N]", "is as it was"]);
    assert!(!own.exists());
    check(&ask("y"), 0, &["use it with"]);
    assert!(own.exists());
    fs::write(&own, "users: [{name: n/a, user: {token: secret}}]\n").expect("a file");
    check(&ask("no"), 1, &["this replaces a user called \"n/a\" that is not of this AccessRequest"]);
    assert!(fs::read_to_string(&own).expect("text").contains("secret"));
    check(&ask("yes"), 0, &["this replaces a user"]);
    assert!(!fs::read_to_string(&own).expect("text").contains("secret"));
}

/// Runs a command at a terminal of its own, and types an answer once it asks.
const TERMINAL: &str = r#"
import os, pty, sys
answer, *command = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
said, typed = b"", False
while True:
    try:
        read = os.read(terminal, 4096)
    except OSError:
        break
    if not read:
        break
    said += read
    if b"[y/N]" in said and not typed:
        typed = True
        os.write(terminal, answer.encode() + b"\n")
sys.stdout.buffer.write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
