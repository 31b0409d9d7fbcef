//! The API on a socket: HTTP/1.1 and HTTP/2, over TLS or, for tests and behind proxies, plain.
//!
//! Everything that a client could make grow is bounded here: connections, streams, header sections, the
//! time for a handshake, for a request's head, for an idle connection.

mod patience;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use allotment_store::Tenant;

use patience::Patience;

use crate::service::{ApiService, ConnectionTenant};
use crate::tls::Peer;

/// Connections at once: each watch of an old client takes one of its own.
const MAX_CONNECTIONS: usize = 4096;
/// Requests at once on one HTTP/2 connection, as in kube-apiserver.
const MAX_STREAMS: u32 = 250;
/// Streams that a client may open and reset before they were looked at (CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 32;
/// Streams that we reset because of the client's errors before the connection ends.
const MAX_LOCAL_RESETS: usize = 256;
/// The largest header section, in bytes.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 128;
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an HTTP/1.1 client may take for the head of its next request, the idle time before it
/// included. Go's clients close idle connections after 90 s; this is longer, so that they come first.
const HEAD_TIMEOUT: Duration = Duration::from_secs(100);
/// How often an HTTP/2 peer that is silent is asked whether it is there, and how long it may take.
const PING_PERIOD: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a client may take nothing of what it is sent.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of a reply lies ready for a client that does not take it: two portions of a body.
const MAX_SEND_BUFFER: usize = 128 * 1024;
/// How long running requests may take to end when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait when the process has no file descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves the API on a listener until `stop` is cancelled, then lets running requests end.
///
/// # Errors
/// None but those of the listener itself; what is wrong with one connection ends that connection.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: ApiService,
    stop: CancellationToken,
) -> io::Result<()> {
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let acceptor = tls.map(TlsAcceptor::from);
    loop {
        let permit = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        let Ok(permit) = permit else { break };
        let (stream, from) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
        };
        let (acceptor, service, stop, tasks) = (acceptor.clone(), service.clone(), stop.clone(), connections.clone());
        connections.spawn(async move {
            connection(stream, from, acceptor, service, stop, tasks).await;
            drop(permit);
        });
    }
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!("requests were still running when the server stopped");
    }
    Ok(())
}

async fn connection(
    stream: TcpStream,
    from: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    service: ApiService,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    // Small replies must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let stream = Patience::new(stream, STALL_TIMEOUT);
    let Some(acceptor) = acceptor else {
        return http(stream, Peer::default(), service, stop, tasks).await;
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let peer = Peer::of(stream.get_ref().1);
            http(stream, peer, service, stop, tasks).await;
        }
        Ok(Err(error)) => tracing::debug!(%from, %error, "a TLS handshake failed"),
        Err(_) => tracing::debug!(%from, "a TLS handshake took too long"),
    }
}

/// Runs what hyper runs beside a connection in the listener's own task set.
#[derive(Clone)]
struct Tasks(TaskTracker);

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

async fn http<S>(stream: S, peer: Peer, service: ApiService, stop: CancellationToken, tasks: TaskTracker)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let tenant = peer.tenant.as_deref().map(|id| ConnectionTenant(Tenant::logical(id)));
    let handler = service_fn(move |mut request: Request<Incoming>| {
        let extensions = request.extensions_mut();
        if let Some(certificates) = &peer.certificates {
            extensions.insert(certificates.clone());
        }
        if let Some(tenant) = &tenant {
            extensions.insert(tenant.clone());
        }
        service.clone().call(request)
    });
    let mut builder = auto::Builder::new(Tasks(tasks));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_LOCAL_RESETS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .keep_alive_interval(PING_PERIOD)
        .keep_alive_timeout(PING_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(stream), handler);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
