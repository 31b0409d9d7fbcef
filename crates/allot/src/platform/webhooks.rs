//! The webhooks' listener: reviews over HTTPS, and whether the process lives.
//!
//! Whoever reaches it may ask for reviews. They say what the scheduler would decide, and change nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use allotment_apiserver::tls::{ServingCertificates, server_config};
use allotment_controllers::frame::Tasks;
use allotment_landscape::Beside;
use allotment_landscape::webhook::{MUTATE_PATH, Stage, VALIDATE_PATH, Webhook};
use allotment_pki::{CertificatePair, RandomKeys, SubjectName};
use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::seams;

/// Connections at once. An API server keeps few and sends many requests over each.
const CONNECTIONS: usize = 256;
/// Requests at once on one connection.
const STREAMS: u32 = 100;
/// The largest review: an object and its former state, each as large as the API server takes them, and their frame.
const BODY_LIMIT: usize = 8 * 1024 * 1024;
/// How long a handshake, a request's head or its body may take; the API server gives up after this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked for the authority before there is one, and after.
const FIRST_LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// How long to wait when the process has no file descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves reviews in `tasks`, from the moment at which there is an authority to issue a certificate; `served` is
/// cancelled then.
pub(super) async fn run(
    tasks: Tasks,
    beside: Arc<Beside>,
    listener: TcpListener,
    names: Vec<SubjectName>,
    served: CancellationToken,
) {
    let mut own = Own { names, issuer: String::new(), pair: None };
    let certificates = loop {
        match own.renewed(&beside).await {
            Ok(Some(pair)) => match ServingCertificates::new(&pair) {
                Ok(certificates) => break Arc::new(certificates),
                Err(error) => warn!(error = %anyhow::Error::from(error), "the webhooks' certificate cannot be used"),
            },
            Ok(None) => {}
            Err(error) => {
                warn!(error = %format!("{error:#}"), "the webhooks' certificate cannot be issued, trying again")
            }
        }
        tokio::time::sleep(FIRST_LOOK_EVERY).await;
    };
    let config = match server_config(certificates.clone()) {
        Ok(config) => config,
        Err(error) => {
            warn!(error = %anyhow::Error::from(error), "webhooks cannot be served");
            return;
        }
    };
    tasks.spawn(accept(tasks.clone(), listener, TlsAcceptor::from(config), beside.webhook()));
    served.cancel();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match own.renewed(&beside).await {
            Ok(Some(pair)) => {
                if let Err(error) = certificates.set_platform(&pair) {
                    warn!(error = %anyhow::Error::from(error), "the webhooks' new certificate cannot be used");
                }
            }
            Ok(None) => {}
            Err(error) => warn!(error = %format!("{error:#}"), "the webhooks' certificate cannot be looked after"),
        }
    }
}

/// This replica's certificate.
struct Own {
    names: Vec<SubjectName>,
    /// Fingerprint of the authority that issued it.
    issuer: String,
    pair: Option<CertificatePair>,
}

impl Own {
    /// A new certificate, if there is an authority and it is time for one.
    async fn renewed(&mut self, beside: &Beside) -> anyhow::Result<Option<CertificatePair>> {
        let Some(authority) = beside.authority().await? else { return Ok(None) };
        let now = seams().now().as_second();
        let due = self.pair.as_ref().is_none_or(|pair| {
            let certificate = pair.certificate();
            now >= certificate.not_before() + (certificate.not_after() - certificate.not_before()) / 3 * 2
        });
        if !due && self.issuer == authority.fingerprint() {
            return Ok(None);
        }
        let pair = authority.issue(&self.names, &RandomKeys, now).context("no certificate can be issued")?;
        self.issuer = authority.fingerprint();
        self.pair = Some(pair.clone());
        Ok(Some(pair))
    }
}

async fn accept(tasks: Tasks, listener: TcpListener, acceptor: TlsAcceptor, webhook: Webhook) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => tasks.spawn(connection(stream, acceptor.clone(), webhook.clone(), place)),
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, webhook: Webhook, _place: OwnedSemaphorePermit) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
        Err(_) => return debug!("a TLS handshake took too long"),
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS).keep_alive_interval(PATIENCE);
    let service = service_fn(move |request| answer(webhook.clone(), request));
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        debug!(%error, "a connection ended with an error");
    }
}

type Reply = Response<Full<Bytes>>;

async fn answer(webhook: Webhook, request: Request<Incoming>) -> Result<Reply, Infallible> {
    let stage = match (request.method(), request.uri().path()) {
        (&Method::GET, "/livez" | "/readyz" | "/healthz") => return Ok(reply(StatusCode::OK, "text/plain", "ok")),
        (&Method::POST, MUTATE_PATH) => Stage::Mutate,
        (&Method::POST, VALIDATE_PATH) => Stage::Validate,
        _ => return Ok(reply(StatusCode::NOT_FOUND, "text/plain", "404 page not found\n")),
    };
    let body = Limited::new(request.into_body(), BODY_LIMIT).collect();
    let body = match tokio::time::timeout(PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => {
            return Ok(reply(StatusCode::BAD_REQUEST, "text/plain", format!("cannot read it: {error}\n")));
        }
        Err(_) => return Ok(reply(StatusCode::REQUEST_TIMEOUT, "text/plain", "it took too long\n")),
    };
    Ok(match webhook.answer(stage, &body).await {
        Ok(answer) => reply(StatusCode::OK, "application/json", answer),
        Err(error) => reply(StatusCode::BAD_REQUEST, "text/plain", format!("{error}\n")),
    })
}

fn reply(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media));
    reply
}
