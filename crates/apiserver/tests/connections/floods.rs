//! Clients that send much.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use allotment_apiserver::listener::Limits;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::AsyncWriteExt as _;

use super::http2::{
    CONTINUATION, Connection, DATA, END_HEADERS, END_STREAM, HEADERS, REFUSED_STREAM, RST_STREAM, block, frame, get,
    reset,
};
use super::memory::{MUCH, Memory};
use super::{House, TOKEN, pour, request, rest};

#[tokio::test]
async fn streams_that_are_opened_and_reset_at_once_end_the_connection_and_leave_nothing_running() {
    let house = House::new(Limits::default()).await;
    let memory = Memory::now();
    let mut connection = Connection::open(house.connect().await).await;
    let mut most = 0;
    let flood: Vec<u8> =
        (0..500u32).flat_map(|n| [get(2 * n + 1, "/api/v1/pods"), reset(2 * n + 1)].concat()).collect();
    let sent = connection.0.write_all(&flood).await;
    for _ in 0..50 {
        most = most.max(house.alive());
        tokio::task::yield_now().await;
    }
    house.serves().await;
    if sent.is_ok() {
        // Its client is told why, unless what it sent beyond that makes the kernel forget it.
        connection.ends_with_goaway().await;
    }
    assert!(most <= house.tasks + 2 * Limits::default().streams as usize + 8, "{most} tasks at once");
    assert!(memory.taken() < MUCH, "{} bytes", memory.taken());
    house.at_rest().await;
}

#[tokio::test]
async fn requests_that_run_on_after_a_reset_count_until_they_are_done() {
    const STREAMS: u32 = 4;
    let house = House::new(Limits { streams: STREAMS, ..Limits::default() }).await;
    let mut connection = Connection::open(house.connect().await).await;
    let waiting = || house.gate.waiting.load(Ordering::SeqCst);
    let body = |n: u32| format!(r#"{{"metadata":{{"name":"n{n}"}}}}"#);
    let post = |n: u32| {
        let head = frame(HEADERS, END_HEADERS, n, &block("POST", "/api/v1/namespaces/kube-public/configmaps"));
        [head, frame(DATA, END_STREAM, n, body(n).as_bytes())].concat()
    };
    for n in 0..STREAMS {
        connection.send(&post(2 * n + 1)).await;
    }
    house.until(async || waiting() == STREAMS as usize, "all requests to run").await;
    for n in 0..STREAMS {
        connection.send(&reset(2 * n + 1)).await;
    }
    for n in STREAMS..2 * STREAMS {
        connection.send(&post(2 * n + 1)).await;
    }
    connection.round_trip().await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
        assert_eq!(waiting(), STREAMS as usize, "no request more than the bound runs");
    }
    house.serves().await;
    house
        .until(
            async || {
                house.gate.open.notify_waiters();
                waiting() == 0
                    && house.get("/api/v1/namespaces/kube-public/configmaps/n15").await.starts_with("HTTP/1.1 200")
            },
            "the requests that were held back",
        )
        .await;
    drop(connection);
    house.at_rest().await;
}

#[tokio::test]
async fn streams_beyond_the_bound_are_refused_and_those_within_it_are_served() {
    const STREAMS: u32 = 10;
    let house = House::new(Limits { streams: STREAMS, ..Limits::default() }).await;
    let mut connection = Connection::open(house.connect().await).await;
    for n in 0..STREAMS {
        connection.send(&get(2 * n + 1, "/api/v1/configmaps?watch=1")).await;
    }
    for _ in 0..STREAMS {
        let answer = connection.next().await.expect("goes on");
        assert_eq!((answer.kind, answer.flags & END_STREAM), (HEADERS, 0), "a watch begins: {answer:?}");
    }
    connection.send(&get(2 * STREAMS + 1, "/version")).await;
    loop {
        let answer = connection.next().await.expect("goes on");
        if answer.kind == RST_STREAM {
            assert_eq!((answer.stream, answer.code()), (2 * STREAMS + 1, REFUSED_STREAM));
            break;
        }
        assert_eq!(answer.kind, DATA, "{answer:?}");
    }
    house.serves().await;
    drop(connection);
    house.at_rest().await;
}

#[tokio::test]
async fn a_head_that_goes_on_for_ever_ends_the_connection() {
    let house = House::new(Limits::default()).await;
    let memory = Memory::now();
    let mut connection = Connection::open(house.connect().await).await;
    connection.send(&frame(HEADERS, END_STREAM, 1, &block("GET", "/version"))).await;
    // A header after the other: x: yyyy…
    let header = [&[0x00, 1, b'x', 100][..], &[b'y'; 100]].concat();
    let part = frame(CONTINUATION, 0, 1, &header.repeat(150));
    let taken = pour(&mut connection.0, &part, 1 << 30).await;
    assert!(taken < 64 * 1024 * 1024, "{taken} bytes of one head were taken");
    house.serves().await;
    assert!(memory.taken() < MUCH, "{} bytes", memory.taken());
    // Empty parts of a head cost nothing to send.
    let mut connection = Connection::open(house.connect().await).await;
    connection.send(&frame(HEADERS, END_STREAM, 1, &block("GET", "/version"))).await;
    let taken = pour(&mut connection.0, &frame(CONTINUATION, 0, 1, &[]).repeat(1_000), 1 << 30).await;
    assert!(taken < 64 * 1024 * 1024, "{taken} bytes of empty frames were taken");
    house.serves().await;
    house.at_rest().await;
}

#[tokio::test]
async fn a_head_of_http_1_is_bounded_in_bytes_and_headers() {
    let house = House::new(Limits::default()).await;
    for head in ["x: y\r\n".repeat(200), format!("x: {}\r\n", "y".repeat(80 * 1024))] {
        let mut stream = house.connect().await;
        let _ = stream.write_all(request("GET", "/version", &head).as_bytes()).await;
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    house.serves().await;
    house.at_rest().await;
}

#[tokio::test]
async fn a_body_that_unpacks_to_a_gigabyte_is_not_unpacked() {
    let house = House::new(Limits::default()).await;
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..1_024 {
        packer.write_all(&vec![b' '; 1024 * 1024]).expect("packs");
    }
    let bomb = packer.finish().expect("packs");
    assert!(bomb.len() > 1024 * 1024, "packed {}", bomb.len());
    let memory = Memory::now();
    for media in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
        // Beyond the bound of bodies there would be nothing to see.
        let part = &bomb[..bomb.len().min(3 * 1024 * 1024)];
        let head = format!(
            "content-type: {media}\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n",
            part.len()
        );
        let mut stream = house.connect().await;
        stream
            .write_all(request("POST", "/api/v1/namespaces/default/configmaps", &head).as_bytes())
            .await
            .expect("writes");
        stream.write_all(part).await.expect("writes");
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{media}: {answer}");
    }
    assert!(memory.taken() < MUCH, "{} bytes", memory.taken());
    house.serves().await;
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_refused_and_not_kept() {
    let house = House::new(Limits::default()).await;
    let memory = Memory::now();
    let mut stream = house.connect().await;
    let head = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    stream.write_all(request("POST", "/api/v1/namespaces/default/configmaps", head).as_bytes()).await.expect("writes");
    let chunk = [&b"100000\r\n"[..], &vec![b' '; 0x10_0000], b"\r\n"].concat();
    let taken = pour(&mut stream, &chunk, 1 << 30).await;
    assert!(taken < 256 * 1024 * 1024, "{taken} bytes of one body were taken");
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 413"));
    assert!(memory.taken() < MUCH, "{} bytes", memory.taken());
    house.serves().await;
    house.at_rest().await;
}

#[tokio::test]
async fn who_has_no_credentials_gets_no_body_read() {
    let house = House::new(Limits::default()).await;
    let mut stream = house.connect().await;
    let head = request("POST", "/api/v1/namespaces/default/configmaps", "content-length: 3000000\r\n");
    stream.write_all(head.replace(TOKEN, "wrong").as_bytes()).await.expect("writes");
    assert!(super::read_until(&mut stream, "\r\n").await.starts_with("HTTP/1.1 401"), "before any of the body came");
    house.serves().await;
}
