//! Frames of HTTP/2 (RFC 9113) by hand, since no library sends what hostile clients send.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{PATIENCE, TOKEN};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// RST_STREAM's code for streams beyond the bound.
pub(super) const REFUSED_STREAM: u32 = 7;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("fits").to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

fn literal(out: &mut Vec<u8>, name: &[u8], value: &str) {
    out.extend(name);
    out.push(u8::try_from(value.len()).ok().filter(|len| *len < 127).expect("a short value"));
    out.extend(value.as_bytes());
}

/// A block of headers (RFC 7541) that leaves nothing in the table.
pub(super) fn block(method: &str, path: &str) -> Vec<u8> {
    let mut out = vec![0x86];
    literal(&mut out, &[0x02], method);
    literal(&mut out, &[0x04], path);
    literal(&mut out, &[0x01], "x");
    literal(&mut out, &[0x0f, 0x08], &format!("Bearer {TOKEN}"));
    out
}

/// A request without a body, as one frame.
pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block("GET", path))
}

pub(super) fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

/// A client's side of a connection.
pub(super) struct Connection(pub(super) TcpStream);

/// What came.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The code of a RST_STREAM.
    pub(super) fn code(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("four bytes"))
    }
}

impl Connection {
    pub(super) async fn open(stream: TcpStream) -> Connection {
        let mut connection = Connection(stream);
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        connection.send(&frame(SETTINGS, 0, 0, &[])).await;
        connection
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("writes");
    }

    /// The next frame that is no housekeeping; `None` when the connection has ended.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.any().await?;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => {
                    self.0.write_all(&super::http2::frame(SETTINGS, ACK, 0, &[])).await.ok()?
                }
                PING if frame.flags & ACK == 0 => {
                    self.0.write_all(&super::http2::frame(PING, ACK, 0, &frame.payload)).await.ok()?;
                }
                DATA | HEADERS | RST_STREAM | GOAWAY | PING => return Some(frame),
                _ => {}
            }
        }
    }

    async fn any(&mut self) -> Option<Frame> {
        let reading = async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            Some(Frame { kind: head[3], flags: head[4], stream, payload })
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("a frame or the end, in time")
    }

    /// Waits until the server has seen all that was sent.
    pub(super) async fn round_trip(&mut self) {
        self.send(&frame(PING, 0, 0, b"are you?")).await;
        while self.next().await.expect("the connection goes on").kind != PING {}
    }

    /// Reads to the end; whether the client was told why.
    pub(super) async fn ends_with_goaway(&mut self) -> bool {
        let mut told = false;
        while let Some(frame) = self.next().await {
            told |= frame.kind == GOAWAY;
        }
        told
    }
}
