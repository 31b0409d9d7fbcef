//! The API server's kinds, its clients in this process, and its listener.

use std::sync::Arc;
use std::time::Duration;

use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::builtin::kinds;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::ApiServer;
use allotment_apiserver::service::{ApiService, ConnectionTenant};
use allotment_apiserver::tls::Peer;
use allotment_controllers::frame::Tasks;
use allotment_store::Tenant;
use http::Request;
use http::uri::{PathAndQuery, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kube::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use tracing::{debug, warn};

/// How long a client may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client may take to send the head of a request.
const REQUEST_HEAD: Duration = Duration::from_secs(30);
/// Connections at once. Each costs some 40 KiB; clients of the API hold a handful each.
const CONNECTIONS: usize = 4_096;
/// Streams of one HTTP/2 connection at once, as kube-apiserver allows.
const STREAMS: u32 = 250;
/// After an error of accept (no file descriptors left, say) it is tried again, not at once.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// The kinds that every tenant begins with.
pub(super) fn builtin() -> Registry {
    Registry::new(kinds())
}

/// A client of a tenant, for `user`, that calls the server directly: no socket, no TLS.
pub(super) fn client_of(server: &ApiServer, tenant: &Tenant, user: UserInfo) -> Client {
    let prefix = (!tenant.is_platform()).then(|| format!("/clusters/{}", tenant.as_str()));
    let service = ApiService::new(server.clone()).map_request(move |mut request: Request<kube::client::Body>| {
        if let Some(prefix) = &prefix {
            let rest = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
            // A path with a prefix of plain characters is a path.
            if let Ok(uri) = Uri::try_from(format!("{prefix}{rest}")) {
                *request.uri_mut() = uri;
            }
        }
        request.extensions_mut().insert(user.clone());
        request
    });
    Client::new(service, "default")
}

/// Serves the API on `listener` until `tasks` end.
pub(super) fn serve(tasks: &Tasks, listener: TcpListener, config: Arc<rustls::ServerConfig>, server: &ApiServer) {
    let acceptor = TlsAcceptor::from(config);
    let service = ApiService::new(server.clone());
    let (connections, room) = (tasks.clone(), Arc::new(Semaphore::new(CONNECTIONS)));
    tasks.spawn(async move {
        loop {
            // Never closed, so a permit always comes.
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (acceptor, service) = (acceptor.clone(), service.clone());
                    let stopping = connections.stopping();
                    connections.spawn_draining(async move {
                        connection(acceptor, stream, service, stopping).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    });
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    service: ApiService,
    stopping: tokio_util::sync::CancellationToken,
) {
    // Replies are small and many; waiting to fill packets only delays them.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(%error, "the TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let peer = Peer::of(stream.get_ref().1);
    let service = service.map_request(move |mut request: Request<hyper::body::Incoming>| {
        if let Some(certificates) = &peer.certificates {
            request.extensions_mut().insert(certificates.clone());
        }
        if let Some(tenant) = &peer.tenant {
            request.extensions_mut().insert(ConnectionTenant(Tenant::logical(tenant)));
        }
        request
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(REQUEST_HEAD);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS).keep_alive_interval(HANDSHAKE);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            // Watches end with the server; whoever still reads after this is cut off.
            tokio::time::timeout(Duration::from_secs(1), serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection broke");
    }
}
