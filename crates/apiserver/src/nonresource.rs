//! Paths that are not about objects: discovery, version, health, OpenAPI, metrics.

use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::Value;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Response};

use crate::auth;
use crate::body::ResponseBody;
use crate::discovery;
use crate::endpoints::render::encoded;
use crate::health;
use crate::negotiation::{self, Accept, Asked, Media};
use crate::openapi;
use crate::query::Query;
use crate::server::Context;
use crate::service::{errors_accept, plain_not_found, response, status_response, text};
use crate::status::ApiError;

const PLAIN: &str = "text/plain; charset=utf-8";

/// Whether a path tells how the server is, which has to be told above all when it has much to do.
pub(crate) fn is_urgent(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "healthz" | "livez" | "readyz" | "metrics")
}

/// Answers a request to a path that is not about objects.
pub(crate) async fn answer(cx: &Context, parts: &Parts, query: &Query) -> Response<ResponseBody> {
    let path = cx.info.path.trim_matches('/').to_owned();
    let segments: Vec<&str> = path.split('/').collect();
    let known = match segments.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Some(health::answer(cx, &segments, query).await),
        // They tell of all tenants, and so are the platform's alone.
        ["metrics"] if cx.tenant.tenant.is_platform() => Some(metrics(cx).await),
        [".well-known" | "openid", ..] => {
            auth::openid_document(&cx.tenant, &cx.info.path).map(|document| openid(parts, document))
        }
        ["openapi", rest @ ..] => openapi::answer(cx, parts, query, rest).await,
        _ => None,
    };
    if let Some(response) = known {
        return read_only(parts, response);
    }
    match document(cx, parts, &segments) {
        Ok(Some(response)) => response,
        Ok(None) => plain_not_found(),
        Err(error) => status_response(&error, errors_accept(parts)),
    }
}

/// A document for those who verify tokens. It comes in one form, and only to those who take that.
fn openid(parts: &Parts, document: auth::OpenIdDocument) -> Response<ResponseBody> {
    let media = document.content_type;
    if negotiation::accepts(text(&parts.headers, &header::ACCEPT), media) {
        return response(200, media, ResponseBody::full(document.body));
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {media}");
    status_response(&ApiError::new(406, "NotAcceptable", message), Accept::default())
}

/// These paths are only read.
fn read_only(parts: &Parts, response: Response<ResponseBody>) -> Response<ResponseBody> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        response
    } else {
        status_response(&ApiError::method_not_allowed(), Accept::default())
    }
}

/// A document of discovery, or the version.
fn document(cx: &Context, parts: &Parts, segments: &[&str]) -> Result<Option<Response<ResponseBody>>, ApiError> {
    let registry = cx.tenant.registry();
    let accept_header = text(&parts.headers, &header::ACCEPT);
    // A DELETE, say, of a document that is there is refused; kube-apiserver answers a PUT of some of
    // them like a GET, and so do we.
    let refused = !matches!(parts.method, Method::GET | Method::HEAD | Method::PUT);
    let not_put = parts.method == Method::PUT;
    let kept = |write: &dyn Fn() -> Option<Value>| {
        cx.server.discovered().plain(&registry, &segments.join("/"), write).map(Told::Written)
    };
    let told = match segments {
        ["api" | "apis"] if !refused && discovery::wants_aggregated(accept_header) => {
            let document = cx.server.discovered().aggregated(&registry, segments == ["api"]);
            return Ok(Some(with_etag(parts, &document)));
        }
        ["api"] => Some(Told::Value(discovery::api_versions(server_address(cx)))),
        ["apis"] => kept(&|| Some(discovery::api_group_list(&registry))),
        ["apis", group] => kept(&|| discovery::api_group(&registry, group)),
        ["api", version] => {
            let list = kept(&|| discovery::api_resource_list(&registry, "", version));
            Some(list.ok_or_else(ApiError::unknown_resource)?)
        }
        ["apis", group, version] => {
            let list = kept(&|| discovery::api_resource_list(&registry, group, version));
            if list.is_none() && registry.has_builtin_group(group) {
                return Err(ApiError::unknown_resource());
            }
            list
        }
        ["version"] if not_put => return Err(ApiError::method_not_allowed()),
        ["version"] => Some(Told::Value(version(&cx.tenant.version))),
        [""] => Some(Told::Value(paths(cx))),
        _ => None,
    };
    let Some(told) = told else { return Ok(None) };
    if refused {
        return Err(ApiError::method_not_allowed());
    }
    match segments {
        ["version"] => negotiation::check_produced(accept_header, &["application/json"])?,
        ["api"] | ["api", _] => negotiation::check_produced(accept_header, negotiation::ONE_BODY)?,
        ["apis", group, _] if registry.has_builtin_group(group) => {
            negotiation::check_produced(accept_header, negotiation::ONE_BODY)?;
        }
        _ => {}
    }
    let accept = negotiation::accept(accept_header, Asked::Document)?;
    Ok(Some(response(200, accept.media.content_type(), told.encoded(accept))))
}

/// What a path tells.
enum Told {
    /// This.
    Value(Value),
    /// What was written once, in JSON.
    Written(Arc<discovery::Written>),
}

impl Told {
    fn encoded(&self, accept: Accept) -> ResponseBody {
        match self {
            Told::Value(value) => encoded(value, accept),
            Told::Written(document) if accept.media == Media::Json && !accept.pretty => {
                ResponseBody::full(document.body.clone())
            }
            Told::Written(document) => encoded(&json::parse(&document.body).unwrap_or_default(), accept),
        }
    }
}

/// Host and port of the tenant's URL.
fn server_address(cx: &Context) -> &str {
    let url = cx.tenant.server_url.as_str();
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    host.split('/').next().unwrap_or_default()
}

/// The aggregated document; 304 without a body to those who have it already.
fn with_etag(parts: &Parts, document: &discovery::Written) -> Response<ResponseBody> {
    let etag = document.etag.as_str();
    let mut answer = response(200, discovery::AGGREGATED, ResponseBody::full(document.body.clone()));
    if openapi::has(parts, etag) {
        answer = response(304, discovery::AGGREGATED, ResponseBody::empty());
        answer.headers_mut().remove(header::CONTENT_TYPE);
    }
    let headers = answer.headers_mut();
    if let Ok(value) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, value);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    answer
}

/// `/version` (`k8s.io/apimachinery/pkg/version.Info`).
fn version(version: &str) -> Value {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let platform = format!("{}/{}", std::env::consts::OS, go_architecture());
    json!({
        "major": major, "minor": minor, "gitVersion": (format!("v{version}")), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": platform
    })
}

/// The architecture as Go calls it, which clients expect.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/`: the paths there are.
fn paths(cx: &Context) -> Value {
    let registry = cx.tenant.registry();
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.retain(|path| path != "/metrics" || cx.tenant.tenant.is_platform());
    for kind in registry.kinds().filter(|kind| !kind.group.is_empty()) {
        paths.push(format!("/apis/{}", kind.group));
        let served = kind.versions.iter().filter(|version| version.served);
        paths.extend(served.map(|version| format!("/apis/{}/{}", kind.group, version.name)));
    }
    paths.sort();
    paths.dedup();
    json!({ "paths": (paths.into_iter().map(Value::from).collect::<Vec<_>>()) })
}

async fn metrics(cx: &Context) -> Response<ResponseBody> {
    let revision = cx.server.store().revision().await.unwrap_or_default();
    let text = cx.server.metrics().text(cx.server.tenants().len(), revision.0);
    response(200, "text/plain; version=0.0.4; charset=utf-8", ResponseBody::full(text))
}

/// Plain text.
pub(crate) fn plain(code: u16, text: impl Into<String>) -> Response<ResponseBody> {
    response(code, PLAIN, ResponseBody::full(text.into()))
}
