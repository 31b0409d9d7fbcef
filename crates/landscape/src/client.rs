//! Clients of the API server in this process.

use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::server::ApiServer;
use allotment_apiserver::service::ApiService;
use allotment_store::Tenant;
use http::Request;
use http::uri::{PathAndQuery, Uri};
use kube::Client;
use tower::ServiceExt as _;

/// A client of a tenant, for `user`, that calls the server directly: no socket, no TLS.
pub fn client_of(server: &ApiServer, tenant: &Tenant, user: UserInfo) -> Client {
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
