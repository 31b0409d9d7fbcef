//! The way between the controllers and the API: calls and replies are lost, and watches break off.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;

use crate::bugs::Planted;
use crate::chance::Chance;

/// What goes wrong on the way, of 1,000.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Calls that do not arrive.
    pub(crate) calls: u64,
    /// Replies that do not arrive: the call was carried out.
    pub(crate) replies: u64,
    /// Events after which a watch breaks off.
    pub(crate) watches: u64,
}

/// A way with losses, shared by all calls that go over it.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    state: Arc<Mutex<(Chance, Losses)>>,
    planted: Option<Arc<Planted>>,
}

/// The body of a reply that arrives.
type Carried = UnsyncBoxBody<Bytes, <Body as http_body::Body>::Error>;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Lost(&'static str);

impl Network {
    pub(crate) fn new(chance: Chance) -> Self {
        Network { state: Arc::new(Mutex::new((chance, Losses::default()))), planted: None }
    }

    /// Lets a bug alter what is sent from now on.
    pub(crate) fn plant(&mut self, planted: Arc<Planted>) {
        self.planted = Some(planted);
    }

    /// Changes what goes wrong from now on.
    pub(crate) fn set_losses(&self, losses: Losses) {
        self.lock().1 = losses;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Chance, Losses)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strikes(&self, which: impl FnOnce(&Losses) -> u64) -> bool {
        let mut state = self.lock();
        let of_thousand = which(&state.1);
        of_thousand > 0 && state.0.strikes(of_thousand)
    }

    /// `client` as it is reached over this way.
    pub(crate) fn between(&self, client: Client) -> Client {
        let network = self.clone();
        Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let (client, network) = (client.clone(), network.clone());
                async move { network.carry(client, request).await }
            }),
            "default",
        )
    }

    async fn carry(&self, client: Client, request: Request<Body>) -> Result<Response<Carried>, kube::Error> {
        let lost = |what| kube::Error::Service(Box::new(Lost(what)));
        if self.strikes(|losses| losses.calls) {
            return Err(lost("the call was lost"));
        }
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if self.planted.as_ref().is_some_and(|planted| planted.hides(request.method(), request.uri().path())) {
            return Ok(not_found());
        }
        let reply = client.send(self.altered(request).await?).await?;
        if self.strikes(|losses| losses.replies) {
            return Err(lost("the reply was lost"));
        }
        Ok(if watches { reply.map(|body| self.breaking(body)) } else { reply.map(BodyExt::boxed_unsync) })
    }

    async fn altered(&self, request: Request<Body>) -> Result<Request<Body>, kube::Error> {
        let Some(planted) = &self.planted else { return Ok(request) };
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let body = planted.sent(head.uri.path(), body);
        Ok(Request::from_parts(head, Body::from(body)))
    }

    /// A stream that ends before its end.
    fn breaking(&self, body: Body) -> Carried {
        let network = self.clone();
        let frames = body.into_data_stream().take_while(move |_| {
            let whole = !network.strikes(|losses| losses.watches);
            std::future::ready(whole)
        });
        let frames = frames.map(|chunk| chunk.map(Frame::data));
        StreamBody::new(frames).boxed_unsync()
    }
}

/// What an API server answers of an object that is not there.
fn not_found() -> Response<Carried> {
    const STATUS: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
    let mut reply = Response::new(Body::from(STATUS.as_bytes().to_vec()).boxed_unsync());
    *reply.status_mut() = http::StatusCode::NOT_FOUND;
    reply
}
