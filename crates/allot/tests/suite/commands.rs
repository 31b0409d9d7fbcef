//! The commands of those who look after a landscape, or ask before they ask: `explain request --dry-run`, `simulate`,
//! `top`, `tree`. What they say to those with few rights, or none, stands in `rights`.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Output, Stdio};
use std::time::Duration;

use allotment_api::reasons::Verdict;
use allotment_api::requests::{Cluster, ClusterRequest, ClusterRequestGrant, Purpose};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::access::granted;
use crate::harness::{Folder, Up, allot, client, create, make_namespace, run, signal, until, until_gone};

/// Standard output of a command that has to succeed, as JSON.
#[track_caller]
pub(crate) fn answer(folder: &Folder, arguments: &[&str]) -> Value {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", said(&output)))
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
pub(crate) fn check(output: &Output, code: i32, says: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in says {
        assert!(text.contains(part), "it does not say {part:?}: {text}");
    }
}

/// What the API says of a dry run: the `Warning` headers of its answer.
async fn warnings(client: &Client, namespace: &str, request: &Value) -> Vec<String> {
    let path = format!("/apis/cluster.openmcp.cloud/v1alpha1/namespaces/{namespace}/clusterrequests?dryRun=All");
    let body = serde_json::to_vec(request).expect("JSON");
    let request = http::Request::post(path).header("content-type", "application/json").body(body.into());
    let answer = client.send(request.expect("a request")).await.expect("an answer");
    assert!(answer.status().is_success(), "{}", answer.status());
    let texts = answer.headers().get_all("warning").iter().map(|header| header.to_str().expect("text"));
    texts.map(|text| text.trim_start_matches("299 - ").trim_matches('"').replace("\\\"", "\"")).collect()
}

pub(crate) fn manifest(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "ClusterRequest", "metadata": {"name": name},
        "spec": spec})
}

#[tokio::test]
async fn what_is_asked_first_is_what_then_happens_by_the_api_and_by_the_command() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let purposes = Api::<Purpose>::all(admin.clone());
    for (name, spec) in [
        ("pair", json!({"maxTenants": 2})),
        ("few", json!({"dedicated": true, "maxClusters": 1})),
        ("others", json!({"allowedNamespaces": {"matchLabels": {"no": "body"}}})),
        ("nowhere", json!({"namespace": "not-there"})),
    ] {
        let purpose = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose",
            "metadata": {"name": name}, "spec": spec});
        create(&purposes, purpose).await;
    }
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let grants = Api::<ClusterRequestGrant>::namespaced(admin.clone(), "team");
    let clusters = Api::<Cluster>::all(admin.clone());
    let asked = [
        json!({"purposes": ["pair"], "prefix": "foo-"}),
        json!({"purposes": ["pair"], "prefix": "foo-"}),
        json!({"purposes": ["pair"]}),
        json!({"purposes": ["pair"], "kubernetes": {"version": "1.99"}}),
        json!({"purposes": ["few"]}),
        json!({"purposes": ["few"]}),
        json!({"purposes": ["others"]}),
        json!({"purposes": ["nowhere"]}),
        json!({"purposes": ["nope"]}),
        json!({"purposes": ["mcp"], "traits": [{"or": [{"trait": "a/b"}, {"trait": "c/d"}]}]}),
        json!({"purposes": ["workload", "pair"], "prefix": "x-"}),
    ];
    for (index, spec) in asked.iter().enumerate() {
        let name = format!("r{index}");
        let before: Vec<String> = clusters
            .list(&ListParams::default())
            .await
            .expect("an admin may list")
            .items
            .iter()
            .map(|cluster| cluster.metadata.uid.clone().expect("a UID"))
            .collect();
        let file = folder.0.join("shape.json");
        std::fs::write(&file, serde_json::to_string(&manifest(&name, spec)).expect("JSON")).expect("a file");
        let file = file.to_str().expect("text");
        let told = answer(&folder, &["explain", "request", "--dry-run", "-n", "team", "-f", file, "-o", "json"]);
        let warned = warnings(&admin, "team", &manifest(&name, spec)).await;
        let would = told["answer"].as_str().expect("an answer");
        assert!(warned.iter().any(|text| text == would), "{would}: {warned:?}");
        assert!(requests.get_opt(&name).await.expect("an admin may read").is_none(), "a dry run stored {name}");

        create(&requests, manifest(&name, spec)).await;
        let decided = until(&requests, &name, |request: &ClusterRequest| {
            request.status.as_ref().is_some_and(|status| status.status.is_some())
        });
        let status = decided.await.status.expect("decided");
        assert_eq!(told["status"], json!(status.status), "{spec}: {told}");
        if status.status == Some(Verdict::Granted) {
            let bound = grants.get(&name).await.expect("a Grant").spec.cluster_ref;
            let there = before.contains(&bound.uid);
            let expect = if there { json!(format!("{}/{}", bound.namespace, bound.name)) } else { Value::Null };
            assert_eq!(told["cluster"], expect, "{spec}");
            assert_eq!(told["profile"].is_string(), !there, "{spec}");
            let honored = status.conditions.iter().find(|condition| condition.type_ == "PrefixHonored");
            let missed = honored.filter(|condition| condition.status == "False").map(|condition| &condition.reason);
            assert_eq!(told["prefixNotHonored"], json!(missed), "{spec}");
        } else {
            assert_eq!(would, format!("would be {}: {}", status.status.expect("decided"), status.reason));
            assert_eq!(told["message"], json!(status.message), "{spec}");
            assert_eq!(told["findings"], json!(status.findings), "{spec}");
            assert_eq!(told["findingsOmitted"], json!(status.findings_omitted.unwrap_or(0)), "{spec}");
        }
    }
    // Of one that is there: a change is tried out, no change says how it stands.
    let explain = |name: &str, flags: &[&str]| {
        run(&folder, &[&["explain", "request", name, "-n", "team", "--dry-run"], flags].concat())
    };
    check(&explain("r8", &["-p", "mcp"]), 0, &["would create a Cluster from local/local"]);
    check(&explain("r8", &["-p", "nope"]), 0, &["Denied (UnknownPurpose)"]);
    check(&explain("r0", &["-p", "mcp"]), 0, &["would stay Granted on Cluster", "is granted already"]);
    check(&explain("new", &["-p", "pair", "--prefix", "No"]), 1, &["spec.prefix"]);
    std::fs::write(folder.0.join("odd.yaml"), "kind: Purpose\napiVersion: cluster.openmcp.cloud/v1alpha1\n")
        .expect("a file");
    let odd = folder.0.join("odd.yaml");
    check(&explain("new", &["-f", odd.to_str().expect("text")]), 1, &["holds a Purpose", "ClusterRequest"]);
    let misspelt = json!({"purposes": ["pair"], "prefx": "a-"});
    std::fs::write(&odd, serde_json::to_string(&manifest("x", &misspelt)).expect("JSON")).expect("a file");
    check(&explain("new", &["-f", odd.to_str().expect("text")]), 1, &["prefx"]);
}

#[tokio::test]
async fn a_simulation_tells_what_then_happens_and_writes_nothing() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    make_namespace(&admin, "team").await;
    let purposes = Api::<Purpose>::all(admin.clone());
    let trio = |most: u32| {
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose", "metadata": {"name": "trio"},
            "spec": {"maxTenants": 3, "maxClusters": most}})
    };
    create(&purposes, trio(3)).await;
    check(&run(&folder, &["request", "first", "-n", "team", "-p", "trio", "--wait"]), 0, &["Granted"]);
    let shape = ["simulate", "-n", "team", "-p", "trio", "--count", "10", "-o", "json"];
    let told = answer(&folder, &shape);
    let clusters = Api::<Cluster>::all(admin.clone());
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    let there = clusters.list(&ListParams::default()).await.expect("an admin may list").items;
    let known = requests.list(&ListParams::default()).await.expect("an admin may list").items;
    assert_eq!((there.len(), known.len()), (1, 1), "a simulation wrote something");
    assert_eq!(told["requests"]["granted"], 8, "{told}");
    assert_eq!(told["requests"]["pending"], 2, "{told}");
    assert_eq!(told["requests"]["reasons"][0]["reason"], "MaxClustersReached");
    assert_eq!(told["newClusters"][0]["clusters"], 2, "{told}");
    assert_eq!(told["existingClusters"][0]["requests"], 2, "{told}");
    assert_eq!(told, answer(&folder, &shape), "the same again");

    for index in 0..10 {
        create(&requests, manifest(&format!("r{index}"), &json!({"purposes": ["trio"]}))).await;
    }
    let mut granted = 0;
    for index in 0..10 {
        let name = format!("r{index}");
        let decided = until(&requests, &name, |request: &ClusterRequest| {
            request.status.as_ref().is_some_and(|status| status.status.is_some())
        });
        let status = decided.await.status.expect("decided");
        granted += usize::from(status.status == Some(Verdict::Granted));
    }
    assert_eq!(granted, 8);
    assert_eq!(clusters.list(&ListParams::default()).await.expect("an admin may list").items.len(), 3);

    // What would help those that wait.
    let file = folder.0.join("trio.yaml");
    std::fs::write(&file, serde_json::to_string(&trio(4)).expect("JSON")).expect("a file");
    let told = answer(&folder, &["simulate", "--purpose-file", file.to_str().expect("text"), "-o", "json"]);
    assert_eq!((&told["waitingBefore"]["count"], &told["waitingBefore"]["granted"]), (&json!(2), &json!(2)), "{told}");
    let text = run(&folder, &["simulate", "-n", "team", "-p", "trio", "--without-provider", "local"]);
    check(&text, 0, &["NoReadyProvider", "no new Cluster"]);
    let cluster = there[0].metadata.name.clone().expect("a name");
    let drained =
        run(&folder, &["simulate", "-n", "team", "-p", "workload", "--drain", &format!("allot-clusters/{cluster}")]);
    check(&drained, 0, &["granted   1"]);
    check(&run(&folder, &["simulate", "--drain", "no/where"]), 1, &["--drain", "no/where"]);
    check(&run(&folder, &["simulate", "--without-provider", "nobody"]), 1, &["--without-provider", "nobody"]);
    check(&run(&folder, &["simulate", "-p", "trio", "--prefix", "No"]), 1, &["spec.prefix"]);
    let typo = run(&folder, &["simulate", "-n", "typo", "-p", "trio"]);
    check(&typo, 1, &["namespaces \"typo\" not found", "name another namespace with -n"]);
    assert!(typo.stdout.is_empty(), "{}", said(&typo));
    // With nothing named: what waits, and why each.
    create(&requests, manifest("lone", &json!({"purposes": ["nope"]}))).await;
    let told = run(&folder, &["simulate"]);
    check(&told, 0, &["not granted as things are", "denied    1 for nope: UnknownPurpose", "2 for trio: MaxClusters"]);
}

#[tokio::test]
async fn a_purpose_has_as_many_clusters_as_its_status_says_whoever_wrote_them() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    for name in ["team", "strangers"] {
        make_namespace(&admin, name).await;
    }
    let namespaces = Api::<Namespace>::all(admin.clone());
    let label = json!({"metadata": {"labels": {"may": "ask"}}});
    namespaces.patch("team", &PatchParams::default(), &Patch::Merge(&label)).await.expect("an admin may");
    let purposes = Api::<Purpose>::all(admin.clone());
    let purpose = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose",
        "metadata": {"name": "own"}, "spec": {"maxClusters": 1, "allowedNamespaces": {"matchLabels": {"may": "ask"}}}});
    create(&purposes, purpose).await;
    let by_hand = async |namespace: &str| {
        let cluster = json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "hand"}, "spec": {"purposes": ["own"], "dedicated": false,
            "clusterProviderRef": {"name": "local", "profile": "local"}, "kubernetes": {"version": "1.36.3"}}});
        create(&Api::<Cluster>::namespaced(admin.clone(), namespace), cluster).await;
    };
    by_hand("strangers").await;
    let counted = async |count: i64, full: bool| {
        until(&purposes, "own", |purpose| purpose.status.as_ref().is_some_and(|status| status.clusters == Some(count)))
            .await;
        let told = answer(&folder, &["top", "purposes", "-o", "json"]);
        let items = told["purposes"]["items"].as_array().expect("items");
        let own = items.iter().find(|item| item["purpose"] == "own").expect("it is there");
        assert_eq!((&own["clusters"], &own["full"]), (&json!(count), &json!(full)), "{own}");
    };
    counted(0, false).await;
    by_hand("team").await;
    counted(1, true).await;
}

#[tokio::test]
async fn top_shows_what_waits_and_says_it_again_when_that_changes() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "team").await;
    let told = answer(&folder, &["top", "-o", "json"]);
    let cluster = &told["clusters"]["items"][0];
    assert_eq!((&cluster["health"], &cluster["tenants"], &cluster["room"]), (&json!("Ready"), &json!(1), &json!(1)));
    assert_eq!(cluster["access"], 1, "{told}");
    assert_eq!(told["requests"]["granted"], 1);
    assert_eq!(told["providers"]["items"][0]["ready"], true);
    let mcp = told["purposes"]["items"].as_array().and_then(|all| all.iter().find(|one| one["purpose"] == "mcp"));
    assert_eq!(mcp.expect("there")["clusters"], 1, "{told}");
    let elsewhere = answer(&folder, &["top", "-n", "default", "-o", "json"]);
    assert_eq!((&elsewhere["clusters"]["total"], &elsewhere["requests"]["granted"]), (&json!(0), &json!(0)));

    let mut watching = allot(&folder)
        .args(["top", "requests", "--watch=1s", "-o", "json"])
        .env("KUBECONFIG", folder.kubeconfig())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("it goes on").expect("a line");
        serde_json::from_str(&line).expect("a document a line")
    };
    assert_eq!(next()["requests"]["notGranted"], 0);
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "team");
    create(&requests, manifest("odd", &json!({"purposes": ["nope"]}))).await;
    let seen =
        std::iter::from_fn(|| Some(next())).find(|told| told["requests"]["items"][0]["reason"] == "UnknownPurpose");
    let odd = seen.expect("it is shown")["requests"]["items"][0].clone();
    assert_eq!((&odd["request"], &odd["status"]), (&json!("team/odd"), &json!("Denied")));
    requests.delete("odd", &DeleteParams::default()).await.expect("it can be deleted");
    until_gone(&requests, "odd").await;
    assert!(std::iter::from_fn(|| Some(next())).any(|told| told["requests"]["notGranted"] == 0));
    watching.kill().expect("it runs still");
    watching.wait().expect("it ends");
}

/// `allot top --watch`, and its lines.
fn watching(folder: &Folder, stderr: &std::path::Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut watching = allot(folder)
        .args(["top", "requests", "--watch=1s", "-o", "json"])
        .env("KUBECONFIG", folder.kubeconfig())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(stderr).expect("a file"))
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    (watching, lines)
}

/// Waits until a child ends by itself.
async fn ends(mut child: Child) -> Option<i32> {
    let begin = tokio::time::Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            return status.code();
        }
        if begin.elapsed() > Duration::from_secs(20) {
            child.kill().expect("it runs still");
            child.wait().expect("it ends");
            panic!("it does not end");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn watching_ends_with_its_reader_and_outlives_the_server() {
    let folder = Folder::new();
    let up = Up::start(&folder).await;
    let errors = folder.0.join("errors");
    // Nothing changes, so nothing is written to find out by.
    let (child, mut lines) = watching(&folder, &errors);
    lines.next().expect("it says something").expect("a line");
    drop(lines);
    assert_eq!(ends(child).await, Some(0));

    let (mut child, mut lines) = watching(&folder, &errors);
    let mut next = || serde_json::from_str::<Value>(&lines.next().expect("it goes on").expect("a line")).expect("JSON");
    assert_eq!(next()["requests"]["notGranted"], 0);
    up.interrupt().await;
    let begin = tokio::time::Instant::now();
    while !std::fs::read_to_string(&errors).expect("a file").contains("looking again") {
        assert!(begin.elapsed() < Duration::from_secs(20), "it says nothing of the server that is away");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    let requests = Api::<ClusterRequest>::namespaced(admin.clone(), "default");
    create(&requests, manifest("odd", &json!({"purposes": ["nope"]}))).await;
    assert!(std::iter::from_fn(|| Some(next())).any(|told| told["requests"]["notGranted"] == 1));
    child.kill().expect("it runs still");
    child.wait().expect("it ends");
}

/// A server that answers so many requests, with empty lists, and then none any more; gives its kubeconfig and what tells
/// that somebody waits for it.
async fn answering(folder: &Folder, most: usize) -> (String, tokio::task::JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let hangs = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.expect("somebody comes");
        let mut asked = Vec::new();
        for number in 0.. {
            while !asked.ends_with(b"\r\n\r\n") {
                let read = connection.read_buf(&mut asked).await.expect("a request");
                assert!(read > 0, "the connection stays open");
            }
            if number == most {
                break;
            }
            asked.clear();
            let body = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [], "major": "1",
                "minor": "36", "gitVersion": "", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": ""})
            .to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
            connection.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.expect("it is read");
        }
        connection
    });
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}], "users": [{"name": "c", "user": {}}]});
    let path = folder.0.join("hangs.kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).expect("a file");
    (path.to_str().expect("text").to_owned(), hangs)
}

#[tokio::test]
async fn watching_ends_by_a_signal_while_the_server_does_not_answer() {
    let folder = Folder::new();
    // The version and five lists; the second look begins, and waits.
    let (kubeconfig, hangs) = answering(&folder, 6).await;
    let mut command = allot(&folder);
    command.args(["top", "--watch=1s", "--kubeconfig", &kubeconfig]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let _kept = child.stdout.take();
    let hanging = tokio::time::timeout(Duration::from_secs(20), hangs).await.expect("it looks again");
    signal(child.id(), "INT");
    assert_eq!(ends(child).await, Some(0));
    drop(hanging);
}

#[tokio::test]
async fn the_tree_shows_spares_released_prefixes_and_who_may_come_in() {
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "team").await;
    let policies = Api::<allotment_api::requests::AccessPolicy>::namespaced(admin.clone(), "team");
    create(
        &policies,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessPolicy", "metadata": {"name": "open"},
        "spec": {"from": [{"namespace": "guests"}], "names": ["r"], "permissions": [
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]}}),
    )
    .await;
    let purposes = Api::<Purpose>::all(admin.clone());
    create(
        &purposes,
        json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "Purpose",
        "metadata": {"name": "fast"}, "spec": {"dedicated": true, "warm": 1}}),
    )
    .await;
    let spare_made = until(&purposes, "fast", |purpose| {
        purpose.metadata.annotations.as_ref().is_some_and(|notes| !notes.is_empty())
    });
    spare_made.await;
    let policy = "      └─ AccessPolicy team/open opens it to guests";
    let shown = std::iter::repeat_with(|| run(&folder, &["tree"]));
    // The spare is made right after its name was noted.
    let last = shown.take(100).find(|output| said(output).contains("(spare)")).expect("the spare is shown");
    check(&last, 0, &["AccessRequest team/a Granted", policy.trim(), "[fast]"]);
    check(&run(&folder, &["tree", "-n", "team", "-o", "name"]), 0, &["cluster.cluster.openmcp.cloud/mcp-"]);
}

#[test]
fn help_comes_by_flag_and_by_command_and_every_shell_completes() {
    let folder = Folder::new();
    check(&run(&folder, &["simulate", "--help"]), 0, &["Examples:", "allot simulate"]);
    check(&run(&folder, &["help", "explain", "request"]), 0, &["Examples:", "--dry-run"]);
    check(&run(&folder, &["help", "nothing"]), 64, &["allot help"]);
    for shell in ["bash", "zsh", "fish"] {
        check(&run(&folder, &["completion", shell]), 0, &["simulate", "dry-run", "leaf-lifetime"]);
    }
}
