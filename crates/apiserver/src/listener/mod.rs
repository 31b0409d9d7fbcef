//! The API on a socket: HTTP/1.1 and HTTP/2, over TLS or, for tests and behind proxies, plain.
//!
//! Everything that a client could make grow is bounded here: connections, streams, header sections, the
//! time for a handshake, for a request's head, for an idle connection, for a reply that nobody reads. When all
//! connections are taken, those whose client nobody knows go first ([`places`]).

mod limits;
mod patience;
mod places;
mod visit;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use allotment_store::Tenant;

use crate::auth::PeerCertificates;
use crate::body::ResponseBody;
use crate::service::{ApiService, ConnectionTenant};
use crate::tls::Peer;

pub use limits::Limits;
pub use visit::Visit;

use patience::Patience;
use places::{Places, Seat};
use visit::{Reply, Standing, Verdict};

/// Streams that a client may open and reset before they were looked at (CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 32;
/// Streams that we reset because of the client's errors before the connection ends.
const MAX_LOCAL_RESETS: usize = 256;
/// The largest header section, in bytes.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 128;
/// How often an HTTP/2 peer that is silent is asked whether it is there, and how long it may take.
const PING_PERIOD: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an idle connection may take to end once it is told to.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of a reply lies ready for a client that does not take it: two portions of a body.
const MAX_SEND_BUFFER: usize = 128 * 1024;
/// How long running requests may take to end when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait when the process has no file descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// What answers the requests of a listener. Each carries its connection's [`Visit`] in its extensions, as an `Arc`;
/// whoever is not noted as known there has less time and gives its place to others.
pub trait Answer: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<ResponseBody>> + Send;
}

impl Answer for ApiService {
    async fn answer(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let Ok(response) = ApiService::answer(self, request).await;
        response
    }
}

/// Serves the API, or what else answers, on a listener until `stop` is cancelled, then lets running requests end.
///
/// # Errors
/// None but those of the listener itself; what is wrong with one connection ends that connection.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: impl Answer,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let tasks = TaskTracker::new();
    let places = Places::new(&limits);
    let host = Host { acceptor: tls.map(TlsAcceptor::from), service, limits, stop, tasks };
    while let Some((stream, from)) = accept(&listener, &host.stop).await {
        let seat = tokio::select! {
            biased;
            () = host.stop.cancelled() => break,
            seat = places.take(&host.limits) => seat,
        };
        let guest = host.clone();
        host.tasks.spawn(async move { guest.receive(stream, from, seat).await });
    }
    host.tasks.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, host.tasks.wait()).await.is_err() {
        tracing::warn!("requests were still running when the server stopped");
    }
    Ok(())
}

/// The next connection; `None` when the server stops.
async fn accept(listener: &TcpListener, stop: &CancellationToken) -> Option<(TcpStream, SocketAddr)> {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
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

/// What all connections share.
#[derive(Clone)]
struct Host<A> {
    acceptor: Option<TlsAcceptor>,
    service: A,
    limits: Limits,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl<A: Answer> Host<A> {
    async fn receive(&self, stream: TcpStream, from: SocketAddr, seat: Seat) {
        // Small replies must not wait for more to come.
        let _ = stream.set_nodelay(true);
        let stream = Patience::new(stream, self.limits.stalled);
        let Some(acceptor) = &self.acceptor else { return self.http(stream, Peer::default(), &seat.visit).await };
        let handshake = tokio::time::timeout(self.limits.handshake, acceptor.accept(stream));
        let shaken = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            () = seat.visit.evicted.cancelled() => return,
            shaken = handshake => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let peer = Peer::of(stream.get_ref().1);
                self.http(stream, peer, &seat.visit).await;
            }
            Ok(Err(error)) => tracing::debug!(%from, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(%from, "a TLS handshake took too long"),
        }
    }

    async fn http<S>(&self, stream: S, peer: Peer, visit: &Arc<Visit>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handler = Handler {
            service: self.service.clone(),
            tenant: peer.tenant.as_deref().map(|id| ConnectionTenant(Tenant::logical(id))),
            certificates: peer.certificates,
            visit: Arc::clone(visit),
            streams: Arc::new(Semaphore::new(self.limits.streams as usize)),
        };
        let handler = service_fn(move |request| {
            let handler = handler.clone();
            async move { handler.answer(request).await }
        });
        let builder = self.builder();
        let connection = builder.serve_connection(TokioIo::new(stream), handler);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            farewell = overdue(visit) => {
                tracing::debug!(?farewell, "a connection is given up");
                if farewell == Farewell::Abrupt {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(FAREWELL_TIMEOUT, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended with an error");
        }
    }

    fn builder(&self) -> auto::Builder<Tasks> {
        let mut builder = auto::Builder::new(Tasks(self.tasks.clone()));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .max_local_error_reset_streams(MAX_LOCAL_RESETS)
            .max_header_list_size(MAX_HEADER_BYTES)
            .max_send_buf_size(MAX_SEND_BUFFER)
            .keep_alive_interval(PING_PERIOD)
            .keep_alive_timeout(PING_TIMEOUT);
        builder
    }
}

/// How a connection ends that has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    /// Its client is told, and may come back at once.
    Polite,
    /// Nobody listens, or nobody is known.
    Abrupt,
}

/// Waits until the connection has been of no use for too long, or its place is needed.
async fn overdue(visit: &Visit) -> Farewell {
    loop {
        let until = match visit.judge() {
            Verdict::Until(until) => until,
            Verdict::Idle => return Farewell::Polite,
            Verdict::Unread => return Farewell::Abrupt,
        };
        tokio::select! {
            biased;
            () = visit.evicted.cancelled() => {
                let known = matches!(visit.standing(), Some(Standing::Idle(_)));
                return if known { Farewell::Polite } else { Farewell::Abrupt };
            }
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

/// Answers the requests of one connection.
#[derive(Clone)]
struct Handler<A> {
    service: A,
    tenant: Option<ConnectionTenant>,
    certificates: Option<PeerCertificates>,
    visit: Arc<Visit>,
    /// Requests at once. A client that resets its streams is still busy with what it asked for.
    streams: Arc<Semaphore>,
}

impl<A: Answer> Handler<A> {
    async fn answer(self, mut request: Request<Incoming>) -> Result<Response<Reply>, Infallible> {
        let running = self.visit.begin();
        let extensions = request.extensions_mut();
        if let Ok(stream) = self.streams.acquire_owned().await {
            extensions.insert(Stream { _permit: Arc::new(stream) });
        }
        extensions.insert(self.visit);
        if let Some(certificates) = self.certificates {
            extensions.insert(certificates);
        }
        if let Some(tenant) = self.tenant {
            extensions.insert(tenant);
        }
        let response = self.service.answer(request).await;
        Ok(response.map(|body| Reply::new(body, running)))
    }
}

/// A request's place on its connection, given back when nothing of it runs any more.
#[derive(Clone)]
struct Stream {
    _permit: Arc<OwnedSemaphorePermit>,
}
