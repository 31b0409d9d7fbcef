//! A client of somebody else's server whose every call ends in time, and that is not asked again and again while it
//! does not answer.
//!
//! # Guarantees
//! - A call, with all of its answer, ends within [`CALL_LIMIT`]. Of a watch the beginning does: what it tells comes when it
//!   comes, so whoever watches bounds that.
//! - After one that did not, and while the gate is shut, calls fail at once: whoever works through many objects of a
//!   dead cluster is done with them soon. A watch that does not begin shuts nothing: a server may hold it back until there
//!   is something to tell.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Error};
use tokio::time::{Instant, timeout};
use tower::BoxError;

/// How long one call may take, with its answer: lists of some thousand objects take a second.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(5);
/// How long a server is left alone that did not answer one call in time.
const LEFT_ALONE: Duration = Duration::from_secs(3);

/// Whether calls go through.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Open,
    /// Shut until it is opened.
    Shut(String),
    /// Shut for a while.
    Held(Instant),
}

impl Gate {
    /// Calls go through.
    pub(crate) fn open(&self) {
        self.set(State::Open);
    }

    /// Calls fail, for that reason, until the gate is opened.
    pub(crate) fn shut(&self, why: &str) {
        self.set(State::Shut(why.to_owned()));
    }

    fn hold(&self) {
        let mut state = self.lock();
        if !matches!(*state, State::Shut(_)) {
            *state = State::Held(Instant::now() + LEFT_ALONE);
        }
    }

    fn pass(&self) -> Result<(), NoAnswer> {
        match &*self.lock() {
            State::Shut(why) => Err(NoAnswer(why.clone())),
            State::Held(until) if Instant::now() < *until => {
                Err(NoAnswer("it did not answer in time just now".to_owned()))
            }
            State::Open | State::Held(_) => Ok(()),
        }
    }

    fn set(&self, state: State) {
        *self.lock() = state;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was not made, or not answered in time.
#[derive(Debug, thiserror::Error)]
#[error("the cluster's API server does not answer: {0}")]
struct NoAnswer(String);

/// The same client, whose calls end in time and go through that gate.
pub(crate) fn guarded(client: Client, gate: Arc<Gate>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, gate) = (client.clone(), gate.clone());
        async move {
            gate.pass()?;
            let watches = is_watch(request.uri());
            match timeout(CALL_LIMIT, answer(&client, request, watches)).await {
                Ok(answer) => answer,
                Err(_) => {
                    if !watches {
                        gate.hold();
                    }
                    Err(BoxError::from(NoAnswer(format!("no answer within {} s", CALL_LIMIT.as_secs()))))
                }
            }
        }
    });
    Client::new(service, "default")
}

/// Whether the answer goes on for as long as there is something to tell.
fn is_watch(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1" | "watch"))
}

/// The answer with all of its body; of a watch that the server took, as it comes.
async fn answer(client: &Client, request: Request<Body>, watches: bool) -> Result<Response<Body>, BoxError> {
    let answer = client.send(request).await.map_err(innermost)?;
    if watches && answer.status().is_success() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// What a client failed with, without the words that another one puts around it again.
fn innermost(error: Error) -> BoxError {
    match error {
        Error::Service(inner) => inner,
        other => Box::new(other),
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http_body_util::{BodyStream, StreamBody};

    use super::*;

    /// A server that answers after that time.
    fn slow(delay: Duration) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            tokio::time::sleep(delay).await;
            Ok::<_, BoxError>(Response::new(Body::from("ok".as_bytes().to_vec())))
        });
        Client::new(service, "default")
    }

    async fn ask(client: &Client) -> Result<String, String> {
        let request = Request::get("/readyz").body(Vec::new()).expect("a request");
        client.request_text(request).await.map_err(|error| crate::frame::chain(&error))
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_in_time_and_the_next_ones_fail_at_once_for_a_while() {
        let gate = Arc::new(Gate::default());
        let client = guarded(slow(Duration::from_secs(60)), gate.clone());
        let begin = Instant::now();
        let error = ask(&client).await.expect_err("nobody answers");
        assert!(error.contains("no answer within 5 s"), "{error}");
        assert_eq!(begin.elapsed(), CALL_LIMIT);
        let error = ask(&client).await.expect_err("it is left alone");
        assert!(error.contains("just now"), "{error}");
        assert_eq!(begin.elapsed(), CALL_LIMIT);
        tokio::time::advance(LEFT_ALONE).await;
        ask(&client).await.expect_err("it is asked again");
        assert_eq!(begin.elapsed(), CALL_LIMIT * 2 + LEFT_ALONE);
    }

    /// A server whose answers have that status, and a body that goes on after its first bytes.
    fn endless(status: u16) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let first = BodyStream::new(Body::from(b"{}\n".to_vec()));
            let body = StreamBody::new(first.chain(futures::stream::pending()));
            Response::builder().status(status).body(body).map_err(BoxError::from)
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_watch_tells_is_handed_on_as_it_comes_and_its_silence_shuts_nothing() {
        let send = async |client: Client, path: &str| {
            let gate = Arc::new(Gate::default());
            let begin = Instant::now();
            let request = Request::get(path).body(Body::empty()).expect("a request");
            let answer = guarded(client, gate.clone()).send(request).await;
            let first = match answer {
                Ok(answer) => answer.into_body().frame().await.and_then(Result::ok),
                Err(_) => None,
            };
            let open = gate.pass().is_ok();
            (first.is_some(), begin.elapsed(), open)
        };
        for (client, path, expect) in [
            (endless(200), "/apis/g/v1/things?watch=true&timeoutSeconds=240", (true, Duration::ZERO, true)),
            (endless(200), "/apis/g/v1/things?limit=1&watch=1", (true, Duration::ZERO, true)),
            // What a server says of why it does not watch is not waited for without end.
            (endless(403), "/apis/g/v1/things?watch=true", (false, CALL_LIMIT, true)),
            (slow(CALL_LIMIT * 2), "/apis/g/v1/things?watch=true", (false, CALL_LIMIT, true)),
            // No other answer may go on.
            (endless(200), "/apis/g/v1/things?limit=1", (false, CALL_LIMIT, false)),
            (endless(200), "/apis/g/v1/watch=true", (false, CALL_LIMIT, false)),
        ] {
            assert_eq!(send(client, path).await, expect, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shut_gate_lets_nothing_through_until_it_is_opened() {
        let gate = Arc::new(Gate::default());
        let client = guarded(slow(Duration::ZERO), gate.clone());
        assert_eq!(ask(&client).await.as_deref(), Ok("ok"));
        gate.shut("it is not there");
        assert!(ask(&client).await.expect_err("it is shut").contains("it is not there"));
        tokio::time::advance(LEFT_ALONE * 10).await;
        assert!(ask(&client).await.is_err());
        gate.open();
        assert_eq!(ask(&client).await.as_deref(), Ok("ok"));
    }
}
