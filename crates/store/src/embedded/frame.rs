//! The unit of the log and of snapshots: a checksummed frame.
//!
//! One frame is one group commit: it is there whole or not at all. Since a frame is only written once the
//! one before it is synced, nothing valid can follow a torn one: a valid frame behind a broken one is
//! damage, not a power cut.
//!
//! A frame without records begins a file. Another one is the seal of a log that has come to rest: it says
//! that what is before it was synced, and the next frame replaces it. Behind the last frame there may be
//! zeros, which are room for more.
//!
//! Layout, little-endian: magic 4 · CRC-32C of all that follows 4 · payload length 4 · records 4 ·
//! first revision 8 · payload. The magic has bytes that UTF-8 never has, so no object can contain one.

use std::io;

use super::files::Files;

const MAGIC: [u8; 4] = [0xff, b'A', 0xfe, b'L'];

/// Bytes before the payload.
pub(super) const HEADER: usize = 24;

/// Read at once: large enough that the calls do not count, small beside the memory of the objects.
const READ: usize = 1 << 20;

/// A buffer with room for a header.
pub(super) fn begin() -> Vec<u8> {
    vec![0; HEADER]
}

/// Fills in the header of a frame begun with [`begin`].
pub(super) fn seal(frame: &mut [u8], first: u64, records: u32) {
    let length = (frame.len() - HEADER) as u32;
    frame[..4].copy_from_slice(&MAGIC);
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    frame[12..16].copy_from_slice(&records.to_le_bytes());
    frame[16..24].copy_from_slice(&first.to_le_bytes());
    let crc = crc32c::crc32c(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// A header as it was read; not yet known to be right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    crc: u32,
    length: usize,
    /// How many records the payload has.
    pub(super) records: u32,
    /// The revision of the first of them.
    pub(super) first: u64,
}

impl Header {
    /// How long the frame is.
    fn whole(&self) -> u64 {
        (HEADER + self.length) as u64
    }

    /// The revision of the last of its records.
    pub(super) fn last(&self) -> u64 {
        self.first + u64::from(self.records.saturating_sub(1))
    }

    fn parse(bytes: &[u8]) -> Option<Header> {
        let (magic, rest) = bytes.get(..HEADER)?.split_first_chunk::<4>()?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (records, rest) = rest.split_first_chunk::<4>()?;
        let first = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        let length = u32::from_le_bytes(*length) as usize;
        (*magic == MAGIC).then_some(Header {
            crc: u32::from_le_bytes(*crc),
            length,
            records: u32::from_le_bytes(*records),
            first,
        })
    }
}

/// Whether a whole, right frame begins `bytes`.
fn is_frame(bytes: &[u8]) -> bool {
    Header::parse(bytes)
        .and_then(|header| Some((header, bytes.get(8..HEADER + header.length)?)))
        .is_some_and(|(header, covered)| crc32c::crc32c(covered) == header.crc)
}

/// The headers of all right frames anywhere in `bytes`.
pub(super) fn frames_in(bytes: &[u8]) -> Vec<Header> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match Header::parse(rest).filter(|_| is_frame(rest)) {
            Some(header) => {
                at += HEADER + header.length;
                found.push(header);
            }
            None => at += 1,
        }
    }
    found
}

/// Reads the frames of one file in order.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    files: &'a dyn Files,
    name: &'a str,
    /// Where in the file `buffer` ends.
    read: u64,
    buffer: Vec<u8>,
    /// Where in `buffer` the next frame begins.
    start: usize,
}

impl<'a> Frames<'a> {
    pub(super) fn new(files: &'a dyn Files, name: &'a str) -> Self {
        Frames { files, name, read: 0, buffer: Vec::new(), start: 0 }
    }

    /// Where in the file the next frame begins.
    pub(super) fn offset(&self) -> u64 {
        self.read - (self.buffer.len() - self.start) as u64
    }

    /// Reads on until `len` bytes from `start` are there; `false` if the file ends before.
    async fn fill(&mut self, len: usize) -> io::Result<bool> {
        while self.buffer.len() - self.start < len {
            self.buffer.drain(..self.start);
            self.start = 0;
            let more = self.files.read(self.name, self.read, (len - self.buffer.len()).max(READ)).await?;
            if more.is_empty() {
                return Ok(false);
            }
            self.read += more.len() as u64;
            self.buffer.extend_from_slice(&more);
        }
        Ok(true)
    }

    /// The next frame; `None` at the end or at something that is no frame, which [`Frames::offset`] tells
    /// from the length of the file.
    pub(super) async fn next(&mut self) -> io::Result<Option<(Header, &[u8])>> {
        let Some(header) = self.look().await? else { return Ok(None) };
        let payload = self.start + HEADER..self.start + HEADER + header.length;
        self.start = payload.end;
        Ok(Some((header, &self.buffer[payload])))
    }

    /// The header of the frame that begins here, if that is right.
    async fn look(&mut self) -> io::Result<Option<Header>> {
        if !self.fill(HEADER).await? {
            return Ok(None);
        }
        let Some(header) = self.header() else { return Ok(None) };
        // A wrong length must not make us read what is not there.
        let left = self.files.len(self.name).await?.saturating_sub(self.offset());
        let whole = header.whole() <= left && self.fill(HEADER + header.length).await?;
        Ok(Some(header).filter(|_| whole && is_frame(&self.buffer[self.start..])))
    }

    /// What stands where a header should be, right or not, as far as it was read.
    fn header(&self) -> Option<Header> {
        Header::parse(&self.buffer[self.start..])
    }

    /// Goes on from something that is no frame to the next one, or to the end; how many bytes were passed over.
    pub(super) async fn resync(&mut self) -> io::Result<u64> {
        let from = self.offset();
        if !self.fill(1).await? {
            return Ok(0);
        }
        self.start += 1;
        loop {
            let magic = self.buffer[self.start..].iter().position(|byte| *byte == MAGIC[0]);
            self.start = magic.map_or(self.buffer.len(), |at| self.start + at);
            if !self.fill(HEADER).await? {
                self.start = self.buffer.len();
                return Ok(self.offset() - from);
            }
            if self.buffer[self.start] == MAGIC[0] {
                if self.look().await?.is_some() {
                    return Ok(self.offset() - from);
                }
                self.start += 1;
            }
        }
    }

    /// What lies behind `offset`, to the end of the file.
    pub(super) async fn tail(&mut self, offset: u64) -> io::Result<Tail> {
        let left = self.files.len(self.name).await?.saturating_sub(offset);
        let rest = self.files.read(self.name, offset, left as usize).await?;
        let used = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let has_frame = (1..used).any(|at| rest[at] == MAGIC[0] && is_frame(&rest[at..]));
        Ok(Tail { used: used as u64, has_frame })
    }
}

/// What lies behind the last right frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// Bytes up to the last that is not zero.
    pub(super) used: u64,
    /// Whether there is a right frame anywhere in it.
    pub(super) has_frame: bool,
}
