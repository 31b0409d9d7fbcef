//! Clients and listeners of the API server.

use std::sync::Arc;

use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{ApiServer, InProcessAdmission};
use allotment_controllers::frame::Tasks;
use allotment_store::Tenant;
use kube::Client;
use tokio::net::TcpListener;

pub(super) fn builtin() -> Registry {
    todo!()
}
pub(super) fn admission() -> Vec<Arc<dyn InProcessAdmission>> {
    todo!()
}
pub(super) fn client_of(_server: &ApiServer, _tenant: &Tenant, _user: UserInfo) -> Client {
    todo!()
}
pub(super) fn serve(_tasks: &Tasks, _listener: TcpListener, _config: Arc<rustls::ServerConfig>, _server: &ApiServer) {
    todo!()
}
