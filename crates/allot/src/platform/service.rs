//! The API server's listener.

use std::sync::Arc;

use allotment_apiserver::listener;
use allotment_apiserver::server::ApiServer;
use allotment_apiserver::service::ApiService;
use allotment_controllers::frame::Tasks;
use tokio::net::TcpListener;
use tracing::error;

/// Serves the API on `listener` until `tasks` end.
pub(super) fn serve(tasks: &Tasks, listener: TcpListener, config: Arc<rustls::ServerConfig>, server: &ApiServer) {
    let (service, stop) = (ApiService::new(server.clone()), tasks.stopping());
    tasks.spawn_draining(async move {
        if let Err(error) = listener::serve(listener, Some(config), service, stop).await {
            error!(%error, "the API is served no longer");
        }
    });
}
