//! The API server's kinds, its clients in this process, and its listener.

use std::sync::Arc;

use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::builtin::kinds;
use allotment_apiserver::listener;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::ApiServer;
use allotment_apiserver::service::ApiService;
use allotment_controllers::frame::Tasks;
use allotment_store::Tenant;
use http::Request;
use http::uri::{PathAndQuery, Uri};
use kube::Client;
use tokio::net::TcpListener;
use tower::ServiceExt as _;
use tracing::error;

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
    let (service, stop) = (ApiService::new(server.clone()), tasks.stopping());
    tasks.spawn_draining(async move {
        if let Err(error) = listener::serve(listener, Some(config), service, stop).await {
            error!(%error, "the API is served no longer");
        }
    });
}
