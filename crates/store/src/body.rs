//! How the stored form of an object is held in memory and written to the log: as it is, or packed where it is large.
//!
//! Packed is an LZ4 block of the form without its resource version, which is spliced in when it is unpacked. So it
//! can be made before the write has its revision, by the writer's caller, and a deletion shares the block of what it
//! takes away.

use std::borrow::Cow;

use allotment_machinery::object::Encoded;
use bytes::Bytes;

use crate::Revision;

/// Forms from this length on are packed: below, there is little to gain, and what is read and written all the time
/// is answered without a copy.
pub(crate) const PACK_FROM: usize = 16 << 10;

/// Longer forms are kept as they are, so that what a packed one says of its length can be bounded when it is read.
/// Far more than the API server takes.
pub(crate) const PACK_UP_TO: usize = 64 << 20;

/// A byte of an LZ4 block stands for so many at most.
const MOST_PER_BYTE: usize = 255;

/// The stored form of an object, as it is held.
#[derive(Clone)]
pub(crate) struct Body {
    /// All of the form; or, packed, all but its resource version.
    held: Bytes,
    /// Where the member `"resourceVersion":"…",` begins in the form.
    splice: u32,
    /// How long what is packed is; 0 where nothing is.
    packed: u32,
}

/// What a write brings: an object without its revision, packed if it will be held so.
#[derive(Clone)]
pub(crate) enum Content {
    Plain(Encoded),
    Packed(Body),
}

/// The length of [`member`] but for the digits.
const MEMBER: usize = "\"resourceVersion\":\"\",".len();

fn member(revision: Revision) -> String {
    format!("\"resourceVersion\":\"{revision}\",")
}

impl Content {
    /// Packs what is large and gets smaller by it.
    pub(crate) fn of(encoded: Encoded) -> Self {
        match pack(&encoded.bytes) {
            Some(block) => {
                let (splice, packed) = (encoded.splice as u32, encoded.bytes.len() as u32);
                Content::Packed(Body { held: block, splice, packed })
            }
            None => Content::Plain(encoded),
        }
    }

    /// The form at `revision`.
    pub(crate) fn at(self, revision: Revision) -> Body {
        match self {
            Content::Plain(encoded) => Body::plain(encoded.at_revision(revision.0).into(), encoded.splice as u32),
            Content::Packed(body) => body,
        }
    }
}

/// The LZ4 block of a form; nothing, where it is better held as it is.
fn pack(form: &[u8]) -> Option<Bytes> {
    if !(PACK_FROM..=PACK_UP_TO).contains(&form.len()) {
        return None;
    }
    // Unpacking has to be worth it, so a quarter has to be saved.
    let mut block = vec![0; lz4_flex::block::get_maximum_output_size(form.len())];
    let len = lz4_flex::block::compress_into(form, &mut block).ok()?;
    (len <= form.len() / 4 * 3).then(|| Bytes::copy_from_slice(&block[..len]))
}

impl Body {
    /// A form that is held as it is.
    pub(crate) fn plain(form: Bytes, splice: u32) -> Self {
        Body { held: form, splice, packed: 0 }
    }

    /// A form as it was read, of an entry of `revision`. Earlier versions packed nothing.
    pub(crate) fn read(form: &[u8], splice: u32, revision: Revision) -> Self {
        let as_it_is = || Body::plain(Bytes::copy_from_slice(form), splice);
        if form.len() < PACK_FROM {
            return as_it_is();
        }
        match unspliced(form, splice, revision).map(Content::of) {
            Some(Content::Packed(body)) => body,
            Some(Content::Plain(_)) | None => as_it_is(),
        }
    }

    /// A block as it was read, which stands for `len` bytes; `None` unless it does. From here on it can be relied on.
    pub(crate) fn read_packed(block: &[u8], len: u64, splice: u32) -> Option<Self> {
        let len = usize::try_from(len).ok().filter(|len| *len <= PACK_UP_TO.min(block.len() * MOST_PER_BYTE))?;
        if len == 0 || splice as usize >= len {
            return None;
        }
        let mut form = vec![0; len];
        let unpacked = lz4_flex::block::decompress_into(block, &mut form).ok()?;
        (unpacked == len).then(|| Body { held: Bytes::copy_from_slice(block), splice, packed: len as u32 })
    }

    /// The form at `revision`, which is that of its entry.
    pub(crate) fn form(&self, revision: Revision) -> Cow<'_, Bytes> {
        if self.packed == 0 { Cow::Borrowed(&self.held) } else { Cow::Owned(self.unpack(revision)) }
    }

    /// The form at another revision than that of its entry, which is `own`.
    pub(crate) fn form_at(&self, own: Revision, revision: Revision) -> Bytes {
        if self.packed > 0 {
            return self.unpack(revision);
        }
        match unspliced(&self.held, self.splice, own) {
            Some(encoded) => encoded.at_revision(revision.0).into(),
            None => self.held.clone(),
        }
    }

    fn unpack(&self, revision: Revision) -> Bytes {
        let (member, splice) = (member(revision), self.splice as usize);
        let mut form = vec![0; self.packed as usize + member.len()];
        let unpacked = lz4_flex::block::decompress_into(&self.held, &mut form[member.len()..]);
        // It was packed here, or unpacked once when it was read.
        assert_eq!(unpacked.ok(), Some(self.packed as usize), "a block of the store is right");
        form.copy_within(member.len()..member.len() + splice, 0);
        form[splice..splice + member.len()].copy_from_slice(member.as_bytes());
        form.into()
    }

    /// What a write of the same would bring.
    pub(crate) fn content(&self, revision: Revision) -> Content {
        if self.packed > 0 {
            return Content::Packed(self.clone());
        }
        let encoded = unspliced(&self.held, self.splice, revision);
        // Where the place of the revision is wrong, which nobody wrote, the object is left as it is.
        Content::Plain(encoded.unwrap_or_else(|| Encoded { bytes: self.held.to_vec(), splice: self.splice as usize }))
    }

    /// How long the form is at `revision`.
    pub(crate) fn len(&self, revision: Revision) -> usize {
        if self.packed == 0 {
            return self.held.len();
        }
        let digits = revision.0.checked_ilog10().unwrap_or_default() as usize + 1;
        self.packed as usize + MEMBER + digits
    }

    /// The bytes that are held.
    pub(crate) fn held(&self) -> &Bytes {
        &self.held
    }

    /// How long what is packed is; `None` where nothing is.
    pub(crate) fn packed(&self) -> Option<u32> {
        Some(self.packed).filter(|packed| *packed > 0)
    }

    /// Where the resource version begins in the form.
    pub(crate) fn splice(&self) -> u32 {
        self.splice
    }

    /// Whether both hold the very same bytes, which so are there once.
    pub(crate) fn shares(&self, other: &Body) -> bool {
        self.held.as_ptr() == other.held.as_ptr() && self.held.len() == other.held.len()
    }
}

/// A form without its resource version; `None` unless it has the one of `revision` at `splice`.
fn unspliced(form: &[u8], splice: u32, revision: Revision) -> Option<Encoded> {
    let (member, splice) = (member(revision), splice as usize);
    let (before, after) = form.split_at_checked(splice)?;
    let after = after.strip_prefix(member.as_bytes())?;
    Some(Encoded { bytes: [before, after].concat(), splice })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conformance::{body, noise};

    const REVISION: Revision = Revision(1234);

    fn held(data: &str) -> Body {
        Content::of(body(data)).at(REVISION)
    }

    #[test]
    fn what_is_large_is_packed_if_it_gets_smaller_by_it() {
        let around = PACK_FROM - body("").bytes.len();
        for (data, packed) in [
            ("x".repeat(around - 1), false),
            ("x".repeat(around), true),
            (noise(around, 1), false),
            (noise(1 << 20, 1), false),
            (noise(30_000, 1).repeat(2), true),
            ("x".repeat(PACK_UP_TO), false),
        ] {
            let body = held(&data);
            assert_eq!(body.packed().is_some(), packed, "{:.20}…, {} bytes", data, data.len());
            assert!(!packed || body.held().len() < data.len() / 4 * 3);
        }
    }

    #[test]
    fn a_deletion_holds_nothing_of_its_own_of_what_was_packed() {
        let packed = held(&noise(30_000, 1).repeat(2));
        let last = packed.content(REVISION).at(Revision(9_999_999));
        assert!(last.shares(&packed));
        assert_eq!(*last.form(Revision(9_999_999)), packed.form_at(REVISION, Revision(9_999_999)));
        let plain = held("x");
        let last = plain.content(REVISION).at(Revision(9_999_999));
        assert!(!last.shares(&plain));
        assert_eq!(*last.form(Revision(9_999_999)), plain.form_at(REVISION, Revision(9_999_999)));
    }

    #[test]
    fn what_earlier_versions_wrote_is_packed_when_it_is_read() {
        for data in ["x".to_owned(), "x".repeat(2 * PACK_FROM), noise(2 * PACK_FROM, 1)] {
            let encoded = body(&data);
            let form = encoded.at_revision(REVISION.0);
            let read = Body::read(&form, encoded.splice as u32, REVISION);
            assert_eq!(**read.form(REVISION), *form);
            assert_eq!(read.packed(), held(&data).packed());
            // Where the revision is not what it should be nothing is touched.
            let odd = Body::read(&form, encoded.splice as u32, Revision(7));
            assert_eq!((odd.packed(), &**odd.form(Revision(7))), (None, &*form));
        }
    }

    #[test]
    fn a_block_that_does_not_stand_for_what_it_says_is_not_believed() {
        let whole = held(&"x".repeat(2 * PACK_FROM));
        let (block, len) = (whole.held().clone(), u64::from(whole.packed().expect("is packed")));
        let read = |block: &[u8], len, splice| Body::read_packed(block, len, splice).is_some();
        assert!(read(&block, len, whole.splice()));
        for len in [0, 1, len - 1, len + 1, u64::from(u32::MAX), PACK_UP_TO as u64, u64::MAX] {
            assert!(!read(&block, len, 0), "a length of {len}");
        }
        assert!(!read(&block, len, len as u32), "a splice behind the end");
        assert!(!read(&block[..block.len() - 1], len, 0) && !read(&[], len, 0) && !read(&[], 0, 0));
    }

    proptest! {
        #[test]
        fn whatever_is_read_as_a_block_it_ends_well(
            mut block in proptest::collection::vec(any::<u8>(), 0..200),
            len in 0..100_000u64,
            right in any::<bool>(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            if right {
                let whole = held(&noise(300, 1).repeat(100));
                block = whole.held().to_vec();
                let at = at.index(block.len());
                block[at] = byte;
            }
            let len = if right { u64::from(held(&noise(300, 1).repeat(100)).packed().expect("is packed")) } else { len };
            if let Some(body) = Body::read_packed(&block, len, 0) {
                prop_assert_eq!(body.form(REVISION).len(), body.len(REVISION));
            }
        }
    }
}
