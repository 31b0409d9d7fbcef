//! Bodies of replies: bytes at hand, many pieces that are sent in sensible portions, or a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use allotment_store::Entry;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http_body::{Body, Frame, SizeHint};

/// Pieces are gathered into portions of about this size: large enough that a list of small objects costs
/// few writes, small enough that a big list is not copied whole.
pub(crate) const PORTION: usize = 64 * 1024;

type FrameStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of a reply.
pub struct ResponseBody(Inner);

/// A part of a body.
pub(crate) enum Piece {
    Bytes(Bytes),
    /// The stored form of an object from this byte on. What is held packed is unpacked when its turn comes, so that a
    /// long list of large objects is never there whole.
    Stored(Arc<Entry>, usize),
}

impl Piece {
    /// The stored form of an object, from the byte `from` on.
    pub(crate) fn of(entry: &Arc<Entry>, from: usize) -> Self {
        match entry.plain_body() {
            Some(body) => Piece::Bytes(body.slice(from..)),
            None => Piece::Stored(Arc::clone(entry), from),
        }
    }

    fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Stored(entry, from) => entry.body_len() - from,
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::Stored(entry, from) => entry.body().slice(from..),
        }
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Piece::Bytes(bytes)
    }
}

enum Inner {
    /// Pieces and how many bytes are left.
    Pieces(VecDeque<Piece>, usize),
    /// The same, compressed on the way.
    Gzip(VecDeque<Piece>, Option<GzEncoder<Vec<u8>>>),
    /// Frames as they come.
    Stream(FrameStream),
}

impl ResponseBody {
    /// No body.
    pub fn empty() -> Self {
        ResponseBody::pieces([Bytes::new()])
    }

    /// Bytes at hand.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        ResponseBody::pieces([bytes.into()])
    }

    /// Many pieces, one after the other.
    pub(crate) fn pieces(pieces: impl IntoIterator<Item = impl Into<Piece>>) -> Self {
        let pieces: VecDeque<Piece> = pieces.into_iter().map(Into::into).filter(|piece| piece.len() > 0).collect();
        let left = pieces.iter().map(Piece::len).sum();
        ResponseBody(Inner::Pieces(pieces, left))
    }

    /// Frames as they come.
    pub(crate) fn stream(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        ResponseBody(Inner::Stream(Box::pin(frames)))
    }

    /// The number of bytes, where it is known.
    pub(crate) fn len(&self) -> Option<usize> {
        match &self.0 {
            Inner::Pieces(_, left) => Some(*left),
            Inner::Gzip(..) | Inner::Stream(_) => None,
        }
    }

    /// The same body, compressed (RFC 1952) while it is sent. Streams are left as they are.
    #[must_use]
    pub(crate) fn gzip(self) -> Self {
        match self.0 {
            // The fastest level, as kube-apiserver takes for lists.
            Inner::Pieces(pieces, _) => {
                ResponseBody(Inner::Gzip(pieces, Some(GzEncoder::new(Vec::new(), Compression::fast()))))
            }
            other => ResponseBody(other),
        }
    }
}

impl fmt::Debug for ResponseBody {
    /// Bodies may hold secrets; they are never shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        ResponseBody::empty()
    }
}

/// Takes about one portion off the front.
fn take_portion(pieces: &mut VecDeque<Piece>) -> Option<Bytes> {
    let first = pieces.pop_front()?.into_bytes();
    let next = pieces.front().map_or(0, Piece::len);
    if next == 0 || first.len() + next > PORTION {
        return Some(first);
    }
    let mut len = first.len();
    let fits = |piece: &&Piece| {
        len += piece.len();
        len <= PORTION
    };
    let count = pieces.iter().take_while(fits).count();
    let portion: usize = pieces.iter().take(count).map(Piece::len).sum();
    let mut portion = Vec::with_capacity(first.len() + portion);
    portion.extend_from_slice(&first);
    pieces.drain(..count).for_each(|piece| portion.extend_from_slice(&piece.into_bytes()));
    Some(Bytes::from(portion))
}

/// Compresses portions until there is something to send; `None` when everything has been sent.
fn take_compressed(pieces: &mut VecDeque<Piece>, encoder: &mut Option<GzEncoder<Vec<u8>>>) -> Option<Bytes> {
    loop {
        let Some(portion) = take_portion(pieces) else {
            // Writing into memory cannot fail.
            return encoder.take().and_then(|encoder| encoder.finish().ok()).map(Bytes::from);
        };
        // A piece is as large as it was stored; what is compressed at once is not.
        let rest = portion.len().saturating_sub(PORTION);
        if rest > 0 {
            pieces.push_front(portion.slice(PORTION..).into());
        }
        let writer = encoder.as_mut()?;
        writer.write_all(portion.get(..portion.len() - rest)?).ok()?;
        if !writer.get_ref().is_empty() {
            return Some(Bytes::from(std::mem::take(writer.get_mut())));
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match &mut self.get_mut().0 {
            Inner::Pieces(pieces, left) => {
                let portion = take_portion(pieces);
                *left -= portion.as_ref().map_or(0, Bytes::len);
                portion
            }
            Inner::Gzip(pieces, encoder) => take_compressed(pieces, encoder),
            Inner::Stream(frames) => match frames.as_mut().poll_next(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Pieces(pieces, _) => pieces.is_empty(),
            Inner::Gzip(_, encoder) => encoder.is_none(),
            Inner::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::default, |len| SizeHint::with_exact(len as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use allotment_store::Revision;
    use allotment_store::conformance::{self, key};
    use http_body_util::BodyExt;

    use super::*;

    async fn collect(body: ResponseBody) -> Vec<u8> {
        body.collect().await.expect("infallible").to_bytes().to_vec()
    }

    #[tokio::test]
    async fn pieces_arrive_whole_and_in_order_whatever_their_sizes() {
        let pieces: Vec<Bytes> =
            [1, 70_000, 3, 64 * 1024, 0, 5].iter().enumerate().map(|(n, len)| vec![n as u8; *len].into()).collect();
        let expect = pieces.concat();
        let body = ResponseBody::pieces(pieces.clone());
        assert_eq!(body.size_hint().exact(), Some(expect.len() as u64));
        assert_eq!(collect(body).await, expect);

        assert_eq!(unpacked(ResponseBody::pieces(pieces)).await, expect);
    }

    async fn unpacked(body: ResponseBody) -> Vec<u8> {
        let packed = collect(body.gzip()).await;
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut plain).expect("is gzip");
        plain
    }

    #[tokio::test]
    async fn objects_that_are_held_packed_arrive_whole() {
        let pieces = || {
            let lengths = [0, 20_000, 300_000, 100, 70_000];
            let entries = lengths.map(|len| {
                let key = key("t", "n", &len.to_string());
                Arc::new(Entry::of(key, Revision(1234), conformance::body(&"x".repeat(len))))
            });
            assert!(entries.iter().any(|entry| entry.plain_body().is_none()), "something is packed");
            entries
                .into_iter()
                .enumerate()
                .map(|(index, entry)| (Piece::of(&entry, index % 2), entry))
                .collect::<Vec<_>>()
        };
        let expect: Vec<u8> =
            pieces().iter().enumerate().flat_map(|(index, (_, entry))| entry.body()[index % 2..].to_vec()).collect();
        let body = || ResponseBody::pieces(pieces().into_iter().map(|(piece, _)| piece));
        assert_eq!(body().size_hint().exact(), Some(expect.len() as u64));
        assert_eq!(collect(body()).await, expect);
        assert_eq!(unpacked(body()).await, expect);
    }
}
