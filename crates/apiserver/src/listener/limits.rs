//! The bounds that a listener keeps to.

use std::time::Duration;

/// What one listener lets its clients have, at most. [`Limits::default`] is what a server keeps to; others are
/// for few file descriptors, and for tests that cannot wait.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once: each watch of an old client takes one of its own.
    pub connections: usize,
    /// Requests at once on one HTTP/2 connection, those included whose client has gone while they run. As in
    /// kube-apiserver.
    pub streams: u32,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a client may take for its first request once it is connected. kube-apiserver gives 32 s for
    /// the head of a request.
    pub first_request: Duration,
    /// How long a connection may be without a request. Go's clients close idle connections after 90 s; this is
    /// longer, so that they come first.
    pub idle: Duration,
    /// How long a client may take to send a body. kube-apiserver gives a whole request 60 s.
    pub body: Duration,
    /// How long a client may take nothing of what it is sent.
    pub stalled: Duration,
    /// How long a client may take from its connection and still leave one reply unread of which there is more, as
    /// HTTP/2 lets it. Who looks at one screenful for longer has to ask again.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            streams: 250,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(30),
            idle: Duration::from_secs(100),
            body: Duration::from_secs(60),
            stalled: Duration::from_secs(60),
            unread: Duration::from_secs(300),
        }
    }
}
