//! Clients of the API server in this process.

use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::server::{ApiServer, WeakApiServer};
use allotment_apiserver::service::ApiService;
use allotment_store::Tenant;
use http::Request;
use http::uri::{PathAndQuery, Uri};
use kube::Client;
use tower::{ServiceExt as _, service_fn};

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

/// Why the server does not answer any more.
#[derive(Debug, thiserror::Error)]
#[error("the API server has stopped")]
struct Stopped;

/// A client of the platform's own API, for `user`, that does not keep the server: for what the server itself holds.
pub(crate) fn weak_client_of(server: WeakApiServer, user: UserInfo) -> Client {
    let service = service_fn(move |mut request: Request<kube::client::Body>| {
        request.extensions_mut().insert(user.clone());
        let server = server.upgrade();
        async move {
            match server {
                Some(server) => match ApiService::new(server).oneshot(request).await {
                    Ok(response) => Ok(response),
                    Err(never) => match never {},
                },
                None => Err(Stopped),
            }
        }
    });
    Client::new(service, "default")
}
