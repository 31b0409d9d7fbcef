//! Answers what comes to the webhooks' listener: reviews, and whether the process lives and is ready.
//!
//! Nobody says who asks, so what all of them together may hold is bounded: the beginnings of bodies by the
//! connections and their streams, the rest of large ones by [`LARGE`], what is being judged by [`JUDGED`].
//! A connection counts as known once it has sent a review.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use allotment_apiserver::ResponseBody;
use allotment_apiserver::listener::{Answer, Limits, Visit};
use allotment_landscape::webhook::{MUTATE_PATH, Stage, VALIDATE_PATH, Webhook};
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::platform::duty::Duty;

/// The largest review: an object and its former state, each as large as the API server takes them, and their frame.
const BODY_LIMIT: usize = 8 * 1024 * 1024;
/// As much of each body is taken without asking: nearly all reviews are smaller, and wait for nobody's large ones.
const SMALL: usize = 64 * 1024;
/// What lies in memory of all bodies together beyond that, in bytes.
const LARGE: usize = 128 * 1024 * 1024;
/// Reviews that are judged at once: each takes several times the size of its body.
const JUDGED: usize = 4;
/// How long a handshake, a request's head or its body may take; the API server gives up after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the webhooks' listener lets clients have: an API server keeps few connections, and sends over each what
/// comes to it at once.
pub(super) fn limits() -> Limits {
    Limits {
        connections: 128,
        streams: 16,
        handshake: PATIENCE,
        first_request: PATIENCE,
        body: PATIENCE,
        stalled: PATIENCE,
        unread: PATIENCE,
        ..Limits::default()
    }
}

/// Answers reviews.
#[derive(Clone)]
pub(super) struct Reviews {
    webhook: Webhook,
    /// Cancelled when the process is about to end.
    leaving: CancellationToken,
    large: Arc<Semaphore>,
    judged: Arc<Semaphore>,
    duty: Duty,
}

impl Reviews {
    pub(super) fn new(webhook: Webhook, leaving: CancellationToken, duty: Duty) -> Self {
        let (large, judged) = (Arc::new(Semaphore::new(LARGE)), Arc::new(Semaphore::new(JUDGED)));
        Reviews { webhook, leaving, large, judged, duty }
    }

    async fn review(&self, stage: Stage, request: Request<Incoming>) -> Response<ResponseBody> {
        let visit = request.extensions().get::<Arc<Visit>>().cloned();
        let taken = tokio::time::timeout(PATIENCE, take(request.into_body(), &self.large)).await;
        let (body, _room) = match taken {
            Ok(Ok(taken)) => taken,
            Ok(Err(refused)) => return plain(refused.status(), refused.to_string()),
            Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "it took too long"),
        };
        let Ok(_turn) = self.judged.acquire().await else { return plain(StatusCode::SERVICE_UNAVAILABLE, "stopping") };
        let answer = match judged(&self.duty, self.webhook.answer(stage, &body)).await {
            Ok(answer) => answer,
            Err(instead) => return instead,
        };
        self.duty.reviewed(answer.is_ok());
        match answer {
            Ok(answer) => {
                if let Some(visit) = visit {
                    visit.known();
                }
                reply(StatusCode::OK, "application/json", answer)
            }
            Err(error) => plain(StatusCode::BAD_REQUEST, error.to_string()),
        }
    }
}

impl Answer for Reviews {
    async fn answer(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/readyz") if self.leaving.is_cancelled() => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "it is about to end")
            }
            // For balancers: of several replicas one serves clusters.
            (&Method::GET, "/readyz/clusters") if !self.duty.serves() => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "it serves no clusters at the moment")
            }
            (&Method::GET, "/readyz/clusters") => reply(StatusCode::OK, "text/plain", "ok"),
            (&Method::GET, "/metrics") => reply(StatusCode::OK, "text/plain; version=0.0.4", self.duty.metrics()),
            (&Method::GET, "/livez" | "/readyz" | "/healthz") => reply(StatusCode::OK, "text/plain", "ok"),
            (&Method::POST, MUTATE_PATH) => self.review(Stage::Mutate, request).await,
            (&Method::POST, VALIDATE_PATH) => self.review(Stage::Validate, request).await,
            _ => plain(StatusCode::NOT_FOUND, "404 page not found"),
        }
    }
}

/// Why a body is not taken.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("a review is at most {BODY_LIMIT} bytes")]
    TooLarge,
    #[error("cannot read it: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Refused::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Refused::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// What judging comes to, or the answer where it panicked: others come by the same connection, and do not end with it.
async fn judged<T>(duty: &Duty, judging: impl Future<Output = T>) -> Result<T, Response<ResponseBody>> {
    AssertUnwindSafe(judging).catch_unwind().await.map_err(|_| {
        duty.panicked();
        error!("a review panicked; it was answered with 500");
        plain(StatusCode::INTERNAL_SERVER_ERROR, "the review could not be handled")
    })
}

/// Takes a body, and the room for what of it is beyond [`SMALL`] as that comes: what is only announced holds nothing.
async fn take<B>(body: B, large: &Arc<Semaphore>) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refused>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.size_hint().lower() > BODY_LIMIT as u64 {
        return Err(Refused::TooLarge);
    }
    let mut body = std::pin::pin!(body);
    let (mut all, mut room) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| Refused::Broken(error.into()))?.into_data() else { continue };
        let before = all.len();
        let after = before + data.len();
        if after > BODY_LIMIT {
            return Err(Refused::TooLarge);
        }
        let more = u32::try_from(after.saturating_sub(SMALL) - before.saturating_sub(SMALL));
        let more = more.map_err(|_| Refused::TooLarge)?;
        if more > 0 {
            let more = large.clone().acquire_many_owned(more).await.map_err(|error| Refused::Broken(error.into()))?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
        }
        all.extend_from_slice(&data);
    }
    Ok((all.freeze(), room))
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response<ResponseBody> {
    reply(status, "text/plain", text.into() + "\n")
}

fn reply(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut reply = Response::new(ResponseBody::full(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media));
    reply
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    /// A body of so many bytes, of which the last part never comes if it is `open`.
    fn body(bytes: usize, open: bool) -> impl Body<Data = Bytes, Error = std::io::Error> + Send {
        let parts = vec![Ok(Frame::data(Bytes::from(vec![b' '; bytes])))];
        let rest =
            if open { futures::stream::pending().left_stream() } else { futures::stream::empty().right_stream() };
        StreamBody::new(futures::stream::iter(parts).chain(rest))
    }

    #[tokio::test(start_paused = true)]
    async fn small_reviews_wait_for_no_large_ones_and_large_ones_are_bounded_together() {
        let large = Arc::new(Semaphore::new(100 * 1024));
        let slow = tokio::spawn({
            let large = large.clone();
            async move { take(body(SMALL + 90 * 1024, true), &large).await.map(drop) }
        });
        while large.available_permits() > 10 * 1024 {
            tokio::task::yield_now().await;
        }
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, take(body(SMALL + 20 * 1024, false), &large)).await.is_err(), "it waits");
        let (small, room) = take(body(SMALL, false), &large).await.expect("it is taken");
        assert!(small.len() == SMALL && room.is_none());
        slow.abort();
        let _ = slow.await;
        let (taken, room) = take(body(SMALL + 20 * 1024, false), &large).await.expect("there is room again");
        assert!(taken.len() == SMALL + 20 * 1024 && large.available_permits() == 80 * 1024);
        drop(room);
        assert_eq!(large.available_permits(), 100 * 1024);
    }

    #[tokio::test]
    async fn a_review_that_panics_is_answered_and_counted() {
        let duty = Duty::default();
        assert_eq!(judged(&duty, async { 1 }).await.ok(), Some(1));
        let panicked = judged::<u8>(&duty, async { panic!("planted") }).await.expect_err("no answer");
        assert_eq!(panicked.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(duty.metrics().contains("allot_review_panics_total 1"));
    }

    #[tokio::test]
    async fn a_body_beyond_the_limit_is_refused_and_holds_nothing() {
        let large = Arc::new(Semaphore::new(LARGE));
        let check = |refused: Result<(Bytes, Option<OwnedSemaphorePermit>), Refused>| {
            assert!(matches!(refused, Err(Refused::TooLarge)));
            assert_eq!(large.available_permits(), LARGE);
        };
        check(take(body(BODY_LIMIT + 1, false), &large).await);
        check(take(http_body_util::Full::new(Bytes::from(vec![0; BODY_LIMIT + 1])), &large).await);
        assert!(take(body(BODY_LIMIT, false), &large).await.is_ok());
    }
}
