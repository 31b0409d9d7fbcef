//! A client that shows all of an answer: HTTP/1.1 over a connection that is kept, watches over
//! connections of their own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_machinery::json::{self, Value};
use allotment_machinery::yaml;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::target::Target;

/// How long an answer may take. Longer than any request of the sequences waits on purpose.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// What the requests call their sender; field managers are named after it.
const USER_AGENT: &str = "live/1.0";
/// How often a request that is told to come back does.
const MOST_TRIES: usize = 20;

/// One request, ready to be sent.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// `GET`, …
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Headers beside the usual ones.
    pub headers: Vec<(String, String)>,
    /// Body, as sent.
    pub body: Option<Vec<u8>>,
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Reply {
    /// The body as JSON, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        json::parse(&self.body).ok()
    }

    /// The body as a value, if it is JSON or YAML.
    pub fn value(&self) -> Option<Value> {
        if self.header("content-type").iter().any(|kind| kind.contains("yaml")) {
            let text = std::str::from_utf8(&self.body).ok()?;
            return yaml::parse_stream(text).ok()?.pop().map(|document| document.value);
        }
        self.json()
    }

    /// All values of a header.
    pub fn header(&self, name: &str) -> Vec<String> {
        self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }
}

/// A client of one server. One request at a time.
#[derive(Debug)]
pub struct Client {
    target: Target,
    connection: Option<SendRequest<Full<Bytes>>>,
    /// What moves bytes on the connections; ends with the client.
    tasks: JoinSet<()>,
}

impl Client {
    /// A client that connects when it is first used.
    pub fn new(target: Target) -> Client {
        Client { target, connection: None, tasks: JoinSet::new() }
    }

    /// The server.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Asks for `path`.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn get(&mut self, path: &str) -> Result<Reply> {
        self.send(&Call { method: "GET".to_owned(), path: path.to_owned(), ..Call::default() }).await
    }

    /// Sends a request and gives the answer, whatever it is. Comes back where it is told to (429 with
    /// `Retry-After`).
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(&mut self, call: &Call) -> Result<Reply> {
        for _ in 0..MOST_TRIES {
            let reply = match self.attempt(call).await {
                Ok(reply) => reply,
                // A kept connection may have been closed while it was idle.
                Err(_) if self.connection.take().is_some() => self.attempt(call).await?,
                Err(error) => return Err(error),
            };
            if reply.status != 429 || reply.header("retry-after").is_empty() {
                return Ok(reply);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        bail!("{} {}: still told to come back after {MOST_TRIES} tries", call.method, call.path)
    }

    async fn attempt(&mut self, call: &Call) -> Result<Reply> {
        let answer = async {
            let response = self.begin(call).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.context("the answer broke off")?.to_bytes();
            Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, body })
        };
        tokio::time::timeout(ANSWER_LIMIT, answer)
            .await
            .with_context(|| format!("{} {}: no answer within {ANSWER_LIMIT:?}", call.method, call.path))?
    }

    /// Opens a watch on a connection of its own.
    ///
    /// # Errors
    /// There is no answer. A refusal is an answer.
    pub async fn watch(&mut self, call: &Call) -> Result<Watch> {
        let mut sender = self.connect().await?;
        let response = tokio::time::timeout(ANSWER_LIMIT, sender.send_request(self.request(call)?)).await??;
        let (parts, body) = response.into_parts();
        let mut reply = Reply { status: parts.status.as_u16(), headers: parts.headers, body: Bytes::new() };
        let seen = Arc::new(Mutex::new(Seen::default()));
        if reply.status == 200 {
            let writes = Arc::clone(&seen);
            self.tasks.spawn(async move {
                read_events(body, &writes).await;
                drop(sender);
            });
        } else {
            reply.body = body.collect().await?.to_bytes();
        }
        Ok(Watch { reply, seen })
    }

    async fn begin(&mut self, call: &Call) -> Result<Response<Incoming>> {
        let request = self.request(call)?;
        let mut sender = match self.connection.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => self.connect().await?,
        };
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        self.connection = Some(sender);
        Ok(response)
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>> {
        let body = call.body.clone().map(Bytes::from);
        let mut request = Request::builder().method(call.method.as_str()).uri(call.path.as_str());
        let headers = request.headers_mut().context("the request's path cannot be sent")?;
        headers.insert("host", HeaderValue::from_str(&self.target.address.to_string())?);
        headers.insert("user-agent", HeaderValue::from_static(USER_AGENT));
        headers.insert("accept", HeaderValue::from_static("application/json"));
        headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {}", self.target.token))?);
        if body.is_some() {
            headers.insert("content-type", HeaderValue::from_static("application/json"));
        }
        for (name, _) in &call.headers {
            headers.remove(name.as_str());
        }
        for (name, value) in &call.headers {
            headers.append(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(value)?);
        }
        Ok(request.body(Full::new(body.unwrap_or_default()))?)
    }

    async fn connect(&mut self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.target.address)
            .await
            .with_context(|| format!("cannot connect to {} at {}", self.target.name, self.target.address))?;
        stream.set_nodelay(true)?;
        match self.target.tls.clone() {
            None => self.handshake(stream).await,
            Some(connector) => {
                let name = ServerName::from(self.target.address.ip());
                let stream = connector.connect(name, stream).await?;
                self.handshake(stream).await
            }
        }
    }

    async fn handshake<S>(&mut self, stream: S) -> Result<SendRequest<Full<Bytes>>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            // Whoever sends learns of a broken connection by the answer that does not come.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// A watch: its first answer, and the events that came so far.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Status and headers; the body too, if it was refused.
    pub reply: Reply,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<Value>,
    ended: bool,
}

impl Watch {
    /// How many events came, and whether no more will.
    pub fn count(&self) -> (usize, bool) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.events.len(), seen.ended || self.reply.status != 200)
    }

    /// The events that came so far. Bookmarks that may come at any time are left out.
    pub fn events(&self) -> Vec<Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).events.clone()
    }
}

async fn read_events(mut body: Incoming, seen: &Mutex<Seen>) {
    let mut pending = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let event = json::parse(&line).unwrap_or_else(|_| String::from_utf8_lossy(&line).into_owned().into());
            if !is_plain_bookmark(&event) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).events.push(event);
            }
        }
    }
    seen.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
}

/// A bookmark that comes by the clock, not the one that ends a list within a watch.
fn is_plain_bookmark(event: &Value) -> bool {
    let ends_list = event.at(&["object", "metadata", "annotations", "k8s.io/initial-events-end"]).is_some();
    event.get("type").and_then(Value::as_str) == Some("BOOKMARK") && !ends_list
}
