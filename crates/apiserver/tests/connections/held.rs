//! Clients that hold on to what they have: connections, heads and bodies that never end, replies nobody reads.

use std::sync::Arc;

use allotment_apiserver::listener::Limits;
use allotment_apiserver::tls::{ServingCertificates, server_config};
use allotment_pki::{CertificateAuthority, KeySource as _, Leaf, LeafUsage, RandomKeys, SubjectName};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::http2::{Connection, HEADERS, block, frame, get};
use super::memory::{MUCH, Memory};
use super::{House, POOR_TOKEN, SOON, TOKEN, read_until, request, rest};

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1";

#[tokio::test]
async fn a_head_that_does_not_come_to_its_end_ends_the_connection() {
    let house = House::new(Limits { first_request: SOON, ..Limits::default() }).await;
    let beginnings: [&[u8]; 5] = [
        b"",
        b"P",
        b"GET /version HTTP/1.1\r\nhost: x\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..], &frame(HEADERS, 1, 1, &block("GET", "/"))]
            .concat(),
    ];
    for beginning in beginnings {
        let mut stream = house.connect().await;
        stream.write_all(beginning).await.expect("writes");
        rest(&mut stream).await;
    }
    house.serves().await;
    house.at_rest().await;
}

#[tokio::test]
async fn a_head_that_trickles_has_no_more_time_than_one_that_stops() {
    let house = House::new(Limits { first_request: SOON, ..Limits::default() }).await;
    let mut stream = house.connect().await;
    let trickling = async {
        stream.write_all(b"GET /version HTTP/1.1\r\n").await?;
        loop {
            stream.write_all(b"a: b\r\n").await?;
            tokio::time::sleep(SOON / 10).await;
        }
    };
    let ended: Result<std::io::Result<()>, _> = tokio::time::timeout(super::PATIENCE, trickling).await;
    assert!(matches!(ended, Ok(Err(_))), "the connection ends");
    house.serves().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_to_its_end_is_refused_in_time() {
    let house = House::new(Limits { body: SOON, ..Limits::default() }).await;
    let mut stream = house.connect().await;
    let head = request("POST", "/api/v1/namespaces/default/configmaps", "content-length: 1000\r\n");
    stream.write_all(head.as_bytes()).await.expect("writes");
    stream.write_all(b"{\"metadata\"").await.expect("writes");
    assert!(read_until(&mut stream, "\r\n").await.starts_with("HTTP/1.1 408"));
    house.serves().await;
    drop(stream);
    house.at_rest().await;
}

#[tokio::test]
async fn connections_without_a_request_end_in_time_and_those_of_a_watch_do_not() {
    let house = House::new(Limits { idle: SOON, ..Limits::default() }).await;
    let mut watch = house.connect().await;
    watch.write_all(request("GET", WATCH, "").as_bytes()).await.expect("writes");
    read_until(&mut watch, "ADDED").await;
    let mut idle = house.connect().await;
    idle.write_all(request("GET", "/version", "").as_bytes()).await.expect("writes");
    assert!(rest(&mut idle).await.starts_with("HTTP/1.1 200"), "it is answered, and ends");
    let mut idle = Connection::open(house.connect().await).await;
    idle.send(&get(1, "/version")).await;
    assert!(idle.ends_with_goaway().await, "its client is told, so that it loses nothing");
    // The watch has been there for longer than all of these.
    create(&house, "a", 1).await;
    read_until(&mut watch, "\"name\":\"a\"").await;
}

/// Makes a ConfigMap of so many bytes.
async fn create(house: &House, name: &str, bytes: usize) {
    let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"a":"{}"}}}}"#, "x".repeat(bytes));
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    let mut stream = house.connect().await;
    stream.write_all(request("POST", "/api/v1/namespaces/default/configmaps", &head).as_bytes()).await.expect("writes");
    stream.write_all(body.as_bytes()).await.expect("writes");
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[tokio::test]
async fn thousands_of_connections_of_nobody_keep_nobody_out() {
    const ROOM: usize = 200;
    let house = House::new(Limits { connections: ROOM, ..Limits::default() }).await;
    let mut held: Vec<TcpStream> = Vec::new();
    for round in 0..10 {
        for _ in 0..ROOM {
            let mut stream = house.connect().await;
            // Every other one says something, but not who it is.
            if held.len().is_multiple_of(2) {
                stream.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("writes");
            }
            held.push(stream);
        }
        house.serves().await;
        assert!(house.alive() <= house.tasks + 2 * ROOM + 8, "{} tasks in round {round}", house.alive());
    }
    drop(held);
    house.at_rest().await;
}

#[tokio::test]
async fn clients_that_are_known_and_idle_make_room_and_those_that_watch_stay() {
    const ROOM: usize = 20;
    let house = House::new(Limits { connections: ROOM, ..Limits::default() }).await;
    let mut watches = Vec::new();
    for _ in 0..ROOM - 1 {
        let mut stream = house.connect().await;
        stream.write_all(request("GET", WATCH, "").as_bytes()).await.expect("writes");
        read_until(&mut stream, "ADDED").await;
        watches.push(stream);
    }
    let mut idle = house.connect().await;
    idle.write_all(request("GET", "/version", "").as_bytes()).await.expect("writes");
    read_until(&mut idle, "gitVersion").await;
    house.serves().await;
    rest(&mut idle).await;
    // Now all are busy, and whoever comes waits until one of them is not.
    let mut last = house.connect().await;
    last.write_all(request("GET", WATCH, "").as_bytes()).await.expect("writes");
    read_until(&mut last, "ADDED").await;
    let newcomer = house.get("/api/v1/namespaces/default");
    let mut newcomer = std::pin::pin!(newcomer);
    assert!(tokio::time::timeout(SOON, newcomer.as_mut()).await.is_err(), "there is no room");
    drop(watches.pop());
    assert!(newcomer.await.starts_with("HTTP/1.1 200"));
    create(&house, "a", 1).await;
    for watch in &mut watches {
        read_until(watch, "\"name\":\"a\"").await;
    }
}

#[tokio::test]
async fn a_client_that_is_known_and_may_nothing_goes_after_strangers() {
    const END: &str = "\"Failure\"}";
    let house = House::new(Limits { connections: 2, ..Limits::default() }).await;
    let forbidden = request("GET", "/api/v1/pods", "").replace(TOKEN, POOR_TOKEN);
    let mut poor = house.connect().await;
    poor.write_all(forbidden.as_bytes()).await.expect("writes");
    assert!(read_until(&mut poor, END).await.starts_with("HTTP/1.1 403"));
    let mut stranger = house.connect().await;
    stranger.write_all(forbidden.replace(POOR_TOKEN, "wrong").as_bytes()).await.expect("writes");
    assert!(read_until(&mut stranger, END).await.starts_with("HTTP/1.1 401"));
    house.serves().await;
    rest(&mut stranger).await;
    poor.write_all(forbidden.as_bytes()).await.expect("the connection is there");
    assert!(read_until(&mut poor, END).await.contains("HTTP/1.1 403"));
}

#[tokio::test]
async fn a_client_that_half_closes_its_connection_is_answered_and_holds_nothing() {
    let house = House::new(Limits::default()).await;
    for path in [WATCH, "/version"] {
        let mut stream = house.connect().await;
        stream.write_all(request("GET", path, "").as_bytes()).await.expect("writes");
        read_until(&mut stream, "HTTP/1.1 200").await;
        stream.shutdown().await.expect("half closes");
        rest(&mut stream).await;
    }
    house.at_rest().await;
}

#[tokio::test]
async fn a_reply_that_nobody_reads_ends_its_connection_and_keeps_nothing() {
    const OBJECTS: usize = 12;
    let house = House::new(Limits { unread: SOON, stalled: SOON, ..Limits::default() }).await;
    let memory = Memory::now();
    let mut watches = Vec::new();
    for _ in 0..8 {
        let mut stream = house.connect().await;
        stream.write_all(request("GET", WATCH, "").as_bytes()).await.expect("writes");
        read_until(&mut stream, "ADDED").await;
        watches.push(stream);
        let mut connection = Connection::open(house.connect().await).await;
        connection.send(&get(1, WATCH)).await;
        connection.round_trip().await;
        watches.push(connection.0);
    }
    for n in 0..OBJECTS {
        create(&house, &format!("n{n}"), 900_000).await;
    }
    for _ in 0..4 {
        let mut stream = house.connect().await;
        stream.write_all(request("GET", "/api/v1/configmaps", "").as_bytes()).await.expect("writes");
        watches.push(stream);
    }
    house.serves().await;
    // What all of them together would have read are 200 MB.
    assert!(memory.taken() < MUCH, "{} bytes", memory.taken());
    // They are still held here, so whatever ends them is not that they have gone.
    house.at_rest().await;
    drop(watches);
}

#[tokio::test]
async fn handshakes_that_do_not_end_keep_nobody_from_theirs() {
    let keys = RandomKeys;
    let authority =
        CertificateAuthority::new("tests", keys.generate().expect("a key"), 1_782_864_000, 1 << 30).expect("a CA");
    let leaf = Leaf {
        common_name: "apiserver".to_owned(),
        organization: None,
        names: vec![SubjectName::Dns("localhost".to_owned())],
        usage: LeafUsage::Server,
        lifetime_secs: 1 << 29,
    };
    let pair = authority.issue(&leaf, keys.generate().expect("a key"), 1_782_864_000).expect("a certificate");
    let config = server_config(Arc::new(ServingCertificates::new(&pair).expect("fits"))).expect("fits");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.certificate().der().to_vec())).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("fits");
    let connector = TlsConnector::from(Arc::new(client.with_root_certificates(roots).with_no_client_auth()));
    let limits = Limits { handshake: SOON, first_request: SOON, connections: 50, ..Limits::default() };
    let house = House::tls(limits, config).await;

    let name = ServerName::try_from("localhost").expect("a name");
    let mut held = Vec::new();
    // The beginning of a ClientHello that promises 512 bytes.
    for n in 0..100 {
        let mut stream = house.connect().await;
        if n % 2 == 1 {
            stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]).await.expect("writes");
        }
        held.push(stream);
    }
    let mut good = connector.connect(name.clone(), house.connect().await).await.expect("a handshake");
    good.write_all(request("GET", "/version", "connection: close\r\n").as_bytes()).await.expect("writes");
    assert!(rest(&mut good).await.starts_with("HTTP/1.1 200"));
    for mut stream in held {
        rest(&mut stream).await;
    }
    // Nor may a client stop once its handshake is done.
    let mut silent = connector.connect(name, house.connect().await).await.expect("a handshake");
    rest(&mut silent).await;
    house.at_rest().await;
}
