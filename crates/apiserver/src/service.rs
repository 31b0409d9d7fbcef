//! The way of a request: tenant, authentication, impersonation, authorization, body, handler, reply.
//!
//! # Guarantees
//! - Every answer is a well-formed reply; errors are a `Status`, unknown paths plain text.
//! - Whoever drops the future of a write does not cancel it half-way: what is left of it goes on. Reads end with
//!   whoever asks.
//! - A panic ends its request with 500, not the server.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use allotment_store::Tenant;
use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::auth::{self, Attributes, Decision, UserInfo};
use crate::body::ResponseBody;
use crate::endpoints::render::{Rendered, encoded};
use crate::endpoints::{self, Call};
use crate::listener::Visit;
use crate::negotiation::{self, Accept, Asked, Media};
use crate::nonresource;
use crate::query::Query;
use crate::registry::Warnings;
use crate::request::RequestInfo;
use crate::server::{ApiServer, Context, Share, TenantState};
use crate::status::ApiError;

/// The largest body of a request, in bytes, as in Kubernetes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// How much of a body that is too large is read and thrown away before the connection is given up.
const DRAIN_LIMIT: usize = 128 * 1024 * 1024;
/// How long a body may take that comes by no connection of a listener.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Replies that are longer are compressed for clients that accept it, as in Kubernetes.
pub(crate) const GZIP_THRESHOLD: usize = 128 * 1024;
/// The prefix of the paths of a tenant.
const TENANT_PREFIX: &str = "/clusters/";

/// The tenant that a connection is bound to, in the extensions of its requests: it needs no path prefix,
/// and no prefix leads out of it.
#[derive(Clone, Debug)]
pub struct ConnectionTenant(pub Tenant);

/// The API as a tower service. Callers within the process put a [`UserInfo`] into the extensions of a
/// request and are believed; no header is.
#[derive(Clone, Debug)]
pub struct ApiService {
    server: ApiServer,
}

impl ApiService {
    /// The API of a server.
    pub fn new(server: ApiServer) -> Self {
        ApiService { server }
    }

    /// Answers a request where it is awaited. For callers that await nothing else meanwhile, as a connection
    /// does: what is begun and left alone may hold up others.
    pub(crate) fn answer<B>(&self, request: Request<B>) -> Answering
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let server = self.server.clone();
        let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
        let work = async move { serve(&server, request).await };
        // What a panic leaves behind is locked data, and all locks here say what they make of that.
        let work: Work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        Answering { server: self.server.clone(), work: Some(work), writes, _running: self.server.tasks().token() }
    }
}

/// The error is a panic.
type Work = Pin<Box<dyn Future<Output = std::thread::Result<Response<ResponseBody>>> + Send>>;

/// A request on its way. It runs where it is awaited, since a task of its own would cost it another wake-up; a
/// write that is dropped before its end goes on as a task of the server.
pub(crate) struct Answering {
    server: ApiServer,
    /// Gone once it has answered, or goes on elsewhere.
    work: Option<Work>,
    writes: bool,
    /// Lets the server wait for it before it stops.
    _running: TaskTrackerToken,
}

impl Future for Answering {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        // A future that is polled after its end may wait for ever.
        let Some(work) = &mut self.work else { return Poll::Pending };
        let answer = std::task::ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(Ok(answer.unwrap_or_else(|_| panicked(&self.server))))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // Without a runtime the process ends, and nothing can go on.
        if let Some(work) = self.work.take().filter(|_| self.writes)
            && let Ok(runtime) = Handle::try_current()
        {
            self.server.tasks().spawn_on(work, &runtime);
        }
    }
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

impl<B> tower::Service<Request<B>> for ApiService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _cx: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    /// Answers a request; a write in a task of its own, whatever its caller does meanwhile.
    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let answering = self.answer(request);
        if !answering.writes {
            return Box::pin(answering);
        }
        let running = self.server.tasks().spawn(answering);
        // It catches its own panics, so that an error is the end of the process.
        Box::pin(async move { running.await.unwrap_or_else(|_| Ok(unhandled())) })
    }
}

/// What is answered in place of an answer that panicked.
fn panicked(server: &ApiServer) -> Response<ResponseBody> {
    server.metrics().panicked();
    tracing::error!("a request panicked; it was answered with 500");
    unhandled()
}

fn unhandled() -> Response<ResponseBody> {
    status_response(&ApiError::internal("the request could not be handled"), Accept::default())
}

/// Answers one request.
async fn serve<B>(server: &ApiServer, request: Request<B>) -> Response<ResponseBody>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let _running = server.metrics().begin();
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let Some((tenant, path)) = tenant_of(&parts) else { return finish(server, &parts, plain_not_found()) };
    let info = RequestInfo::parse(&parts.method, path, &query);
    let verb = info.verb;
    let response = match server.tenant(&tenant) {
        None => plain_not_found(),
        Some(state) => {
            let answer = within(server, Arc::clone(&state), &parts, info, &query, body);
            state.within(answer).await.unwrap_or_else(plain_not_found)
        }
    };
    server.metrics().answered(verb, response.status().as_u16());
    finish(server, &parts, response)
}

/// The tenant that a request is for, and its path there; `None` where the path leads out of the tenant
/// that the connection is bound to.
fn tenant_of(parts: &Parts) -> Option<(Tenant, &str)> {
    let path = parts.uri.path();
    let bound = parts.extensions.get::<ConnectionTenant>();
    let Some(rest) = path.strip_prefix(TENANT_PREFIX) else {
        return Some((bound.map_or_else(Tenant::platform, |bound| bound.0.clone()), path));
    };
    let (id, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    let tenant = Tenant::logical(id);
    // The platform's own key space has no id, so that none leads there.
    if tenant.is_platform() || bound.is_some_and(|bound| bound.0 != tenant) {
        return None;
    }
    Some((tenant, path))
}

async fn within<B>(
    server: &ApiServer,
    tenant: Arc<TenantState>,
    parts: &Parts,
    info: RequestInfo,
    query: &Query,
    body: B,
) -> Response<ResponseBody>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let user = match identify(server, &tenant, parts, &info).await {
        Ok(user) => user,
        Err(error) => return status_response(&error, errors_accept(parts)),
    };
    let mut cx = Context::new(server.clone(), tenant, user, info);
    let user_agent = text(&parts.headers, &header::USER_AGENT).unwrap_or_default();
    cx.manager = endpoints::manager_name(query.text("fieldManager"), user_agent);
    let mut response = if cx.info.is_resource {
        match resource(&cx, parts, query, body).await {
            Ok(response) => response,
            Err(Failed::Plain) => plain_not_found(),
            Err(Failed::Status(error)) => status_response(&error, errors_accept(parts)),
        }
    } else {
        Box::pin(other(&cx, parts, query)).await
    };
    add_warnings(response.headers_mut(), cx.take_warnings());
    response
}

/// Who asks, and that they may.
async fn identify(
    server: &ApiServer,
    tenant: &TenantState,
    parts: &Parts,
    info: &RequestInfo,
) -> Result<Arc<UserInfo>, ApiError> {
    let known = match parts.extensions.get::<UserInfo>() {
        Some(user) => Arc::new(user.clone()),
        None => auth::authenticate(server, tenant, parts).await?.ok_or_else(ApiError::unauthorized)?,
    };
    // Whoever may not do what it asks for is known all the same; whoever asks as nobody is not, though it may.
    if known.name != auth::USER_ANONYMOUS
        && let Some(visit) = parts.extensions.get::<Arc<Visit>>()
    {
        visit.known();
    }
    let user = auth::impersonate(server, tenant, known, parts, info).await?;
    let attributes = Attributes { user: &user, request: info, verb: info.verb };
    match auth::authorize(server, tenant, &attributes).await {
        Decision::Allow { .. } => Ok(user),
        Decision::NoOpinion { reason } => Err(auth::forbidden(&attributes, &reason)),
    }
}

/// Why a request to a resource has no ordinary answer.
enum Failed {
    /// There is nothing at all at that path.
    Plain,
    /// Anything else.
    Status(ApiError),
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Failed::Status(error)
    }
}

async fn resource<B>(cx: &Context, parts: &Parts, query: &Query, body: B) -> Result<Response<ResponseBody>, Failed>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let registry = cx.tenant.registry();
    let info = &cx.info;
    let Some(row) = registry.find(&info.group, &info.version, &info.resource) else {
        let known = registry.has_builtin_group(&info.group);
        return Err(if known { ApiError::unknown_resource().into() } else { Failed::Plain });
    };
    let misplaced = match (row.kind.namespaced, info.namespace.is_empty()) {
        (true, true) => !matches!(info.verb, "list" | "watch"),
        (namespaced, no_namespace) => !namespaced && !no_namespace,
    };
    if row.kind.custom && misplaced {
        return Err(Failed::Plain);
    }
    let accept = endpoints::negotiate(cx, &row, parts)?;
    let accept = Accept { pretty: accept.pretty || query.flag("pretty"), ..accept };
    let patience = parts.extensions.get::<Arc<Visit>>().map_or(BODY_TIMEOUT, |visit| visit.body_timeout());
    let body = read_body(body, patience).await?;
    let content_type = text(&parts.headers, &header::CONTENT_TYPE);
    let call = Call { cx, row: &row, query, accept, content_type, body };
    endpoints::await_account(cx, &row).await?;
    let _share = share(cx).await?;
    let Rendered { code, content_type, body } = endpoints::answer(&call).await?;
    Ok(response(code, content_type, body))
}

/// What is not about objects waits for its turn all the same; whether the server is well is asked out of turn.
async fn other(cx: &Context, parts: &Parts, query: &Query) -> Response<ResponseBody> {
    let share = if nonresource::is_urgent(&cx.info.path) { Ok(None) } else { share(cx).await };
    match share {
        Ok(_share) => nonresource::answer(cx, parts, query).await,
        Err(error) => status_response(&error, errors_accept(parts)),
    }
}

/// Waits for the request's share of the server. Parts of this process need none.
async fn share(cx: &Context) -> Result<Option<Share>, ApiError> {
    if cx.user.is_in_process() {
        return Ok(None);
    }
    cx.server.shares().take(&cx.tenant.tenant, &cx.user.name).await.map(Some)
}

/// Reads a body, within bounds of size and time.
async fn read_body<B>(body: B, patience: Duration) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match tokio::time::timeout(patience, collect(body)).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::new(408, "Timeout", "the body of the request took too long")),
    }
}

/// A body up to the limit. What is beyond is read and thrown away, so that a client that sends first and
/// listens afterwards gets to hear why it is refused.
async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
{
    let mut body = std::pin::pin!(body);
    // Most bodies come in one piece, which is not copied.
    let mut first = Bytes::new();
    let mut taken = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body of the request ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length == data.len() {
            first = data;
        } else if length <= BODY_LIMIT {
            if taken.is_empty() {
                taken.extend_from_slice(&first);
            }
            taken.extend_from_slice(&data);
        } else if length > DRAIN_LIMIT {
            break;
        }
    }
    if length > BODY_LIMIT {
        return Err(ApiError::too_large(format_args!("limit is {BODY_LIMIT}")));
    }
    Ok(if taken.is_empty() { first } else { Bytes::from(taken) })
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Errors come as YAML to those who asked for YAML, else as JSON.
pub(crate) fn errors_accept(parts: &Parts) -> Accept {
    let accept = negotiation::accept(text(&parts.headers, &header::ACCEPT), Asked::Document);
    let media = accept.map_or(Media::Json, |accept| accept.media);
    Accept { media, ..Accept::default() }
}

/// A reply with a body, or without one where there is no type of it.
pub(crate) fn response(code: u16, content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !content_type.is_empty() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}

/// An error as a reply.
pub(crate) fn status_response(error: &ApiError, accept: Accept) -> Response<ResponseBody> {
    let mut response = response(error.code, accept.media.content_type(), encoded(&error.to_value(), accept));
    let retry = error.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry));
    }
    if error.code == 401 {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// What is answered where there is nothing.
pub(crate) fn plain_not_found() -> Response<ResponseBody> {
    response(404, "text/plain; charset=utf-8", ResponseBody::full("404 page not found\n"))
}

/// `Warning: 299 - "…"` (RFC 7234, section 5.5), as many as fit.
fn add_warnings(headers: &mut HeaderMap, warnings: Warnings) {
    let mut left = crate::registry::MAX_WARNING_BYTES;
    for warning in warnings {
        let mut quoted = String::from("299 - \"");
        for character in warning.chars().filter(|character| !character.is_control()) {
            if matches!(character, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(character);
        }
        quoted.push('"');
        let Some(rest) = left.checked_sub(quoted.len()) else { return };
        left = rest;
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

/// Whether the client takes compressed bodies.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    text(headers, &header::ACCEPT_ENCODING).is_some_and(|accepted| {
        accepted.split(',').any(|one| one.split(';').next().unwrap_or_default().trim() == "gzip")
    })
}

/// What every reply has; compression where it is wanted.
fn finish(server: &ApiServer, parts: &Parts, response: Response<ResponseBody>) -> Response<ResponseBody> {
    let (mut head, mut body) = response.into_parts();
    let headers = &mut head.headers;
    if let Ok(mut id) = HeaderValue::from_str(&server.entropy().uid()) {
        // It is no secret, but nor does it ever come again: in HPACK's table (RFC 7541) it would push out what does.
        id.set_sensitive(true);
        headers.insert(HeaderName::from_static("audit-id"), id);
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let packed = headers.contains_key(header::CONTENT_ENCODING);
    if !packed && accepts_gzip(&parts.headers) && body.len().is_some_and(|len| len > GZIP_THRESHOLD) {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        body = body.gzip();
    }
    if parts.method == Method::HEAD {
        if let Some(length) = body.len() {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        body = ResponseBody::empty();
    }
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests;
