//! What a platform does with nothing to do: it writes nothing, and issues its certificates anew in time.

use std::sync::Arc;
use std::time::Duration;

use allotment_pki::Certificate;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::json;

use crate::access::granted;
use crate::harness::{Folder, LIMIT, Up, client, create, is_beside};

/// How long nothing may be written: longer than what is looked at every few seconds.
const SILENCE: Duration = Duration::from_secs(15);

/// The revision that the store has come to: every write of any tenant makes another one.
async fn revision(admin: &Client) -> String {
    let list = Api::<ConfigMap>::all(admin.clone()).list(&ListParams::default()).await.expect("an admin may list");
    list.metadata.resource_version.expect("a revision")
}

#[tokio::test]
async fn a_platform_at_rest_writes_nothing() {
    if is_beside() {
        // There the API server's own writes move the revision, and the Lease does.
        return;
    }
    let folder = Folder::new();
    let _up = Up::start(&folder).await;
    let admin = client(&folder.kubeconfig()).await;
    granted(&admin, "team").await;
    // Whatever is written where, the revision of this list tells of it.
    let before = revision(&admin).await;
    create(&Api::<Secret>::namespaced(admin.clone(), "default"), json!({"metadata": {"name": "s"}})).await;
    assert_ne!(revision(&admin).await, before);
    let begin = tokio::time::Instant::now();
    let (mut last, mut since) = (revision(&admin).await, tokio::time::Instant::now());
    while since.elapsed() < SILENCE {
        assert!(begin.elapsed() < LIMIT, "it goes on writing: {last}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = revision(&admin).await;
        if now != last {
            (last, since) = (now, tokio::time::Instant::now());
        }
    }
}

/// The certificate with which the platform of a kubeconfig is served, as whoever connects now sees it.
async fn served(kubeconfig: &Kubeconfig) -> Certificate {
    let cluster = kubeconfig.clusters[0].cluster.as_ref().expect("a cluster");
    let ca: k8s_openapi::ByteString =
        serde_json::from_value(json!(cluster.certificate_authority_data)).expect("base64");
    let ca = Certificate::from_pem(std::str::from_utf8(&ca.0).expect("PEM")).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.der().to_vec().into()).expect("an authority");
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let server = cluster.server.as_deref().and_then(|url| url.strip_prefix("https://")).expect("a server");
    let stream = tokio::net::TcpStream::connect(server).await.expect("it listens");
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").expect("a name");
    let connected =
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("it is trusted");
    let chain = connected.get_ref().1.peer_certificates().expect("certificates");
    Certificate::from_der(&chain[0]).expect("a certificate")
}

/// The certificate of a kubeconfig's admin.
fn admins(kubeconfig: &Kubeconfig) -> Certificate {
    let user = kubeconfig.auth_infos[0].auth_info.as_ref().expect("a user");
    let data: k8s_openapi::ByteString = serde_json::from_value(json!(user.client_certificate_data)).expect("base64");
    Certificate::from_pem(std::str::from_utf8(&data.0).expect("PEM")).expect("a certificate")
}

#[tokio::test]
async fn certificates_are_issued_anew_in_a_running_process_and_connections_stay() {
    if is_beside() {
        return;
    }
    let folder = Folder::new();
    let refused = crate::harness::run(&folder, &["up", "--leaf-lifetime", "59s"]);
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    let _up = Up::start_with(&folder, &["--leaf-lifetime", "60s"]).await;
    let read = || Kubeconfig::read_from(folder.kubeconfig()).expect("a kubeconfig");
    let first = read();
    let (served_first, admin_first) = (served(&first).await, admins(&first));
    for certificate in [&served_first, &admin_first] {
        let lifetime = certificate.not_after() - certificate.not_before() - allotment_pki::BACKDATE_SECS;
        assert!((60..=61).contains(&lifetime), "{lifetime}");
    }
    let admin = client(&folder.kubeconfig()).await;
    let maps = Api::<ConfigMap>::namespaced(admin, "default");
    // A watch that is begun before, over a connection that is made before.
    let mut watch = maps.watch(&WatchParams::default().timeout(290), "0").await.expect("a watch").boxed();

    let begin = tokio::time::Instant::now();
    while admins(&read()).fingerprint() == admin_first.fingerprint() {
        assert!(begin.elapsed() < LIMIT, "the kubeconfig is not written anew");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let second = read();
    assert!(admins(&second).not_after() > admin_first.not_after());
    let served_second = served(&second).await;
    assert_ne!(served_second.fingerprint(), served_first.fingerprint());
    let newer = Api::<ConfigMap>::namespaced(client(&folder.kubeconfig()).await, "default");
    create(&newer, json!({"metadata": {"name": "after"}})).await;
    let told = async {
        while let Some(event) = watch.try_next().await.expect("the watch goes on") {
            if matches!(&event, WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("after")) {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(LIMIT, told).await.expect("it is told"), "the watch ended");
    assert_eq!(crate::harness::code(maps.get("after").await), 200, "the first certificate holds to its end");
}
