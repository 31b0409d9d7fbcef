//! The wire format of protobuf: fields with numbers, and how to skip one.

use super::ProtobufError;

/// One field's value, as far as the wire tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2: text, bytes, messages, packed lists.
    Bytes(&'a [u8]),
    /// Wire type 5; no built-in type has it.
    Fixed32,
    /// Wire type 3: a group, skipped.
    Group,
}

impl Field<'_> {
    /// The number of the wire type.
    pub(super) fn wire_type(self) -> u8 {
        match self {
            Field::Varint(_) => 0,
            Field::Fixed64(_) => 1,
            Field::Bytes(_) => 2,
            Field::Group => 3,
            Field::Fixed32 => 5,
        }
    }
}

/// Reads the fields of one message, in order.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next field and its number; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let field = match wire_type {
            3 => {
                self.skip_group()?;
                Field::Group
            }
            // An end of a group that never began.
            4 => return Err(ProtobufError::Tag(u64::from(number) << 3 | 4)),
            other => self.scalar(other)?,
        };
        Ok(Some((number, field)))
    }

    /// The next of a list of packed numbers; `None` at the end.
    pub(super) fn packed(&mut self) -> Result<Option<u64>, ProtobufError> {
        if self.rest.is_empty() { Ok(None) } else { self.varint().map(Some) }
    }

    fn tag(&mut self) -> Result<(u32, u8), ProtobufError> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or(ProtobufError::Tag(tag))?;
        Ok((number, (tag & 7) as u8))
    }

    fn scalar(&mut self, wire_type: u8) -> Result<Field<'a>, ProtobufError> {
        Ok(match wire_type {
            0 => Field::Varint(self.varint()?),
            1 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(self.take(8)?);
                Field::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Field::Fixed32
            }
            other => return Err(ProtobufError::Tag(u64::from(other))),
        })
    }

    /// Skips up to the end of a group that has begun. Groups in it are counted, not followed, so that
    /// the stack does not grow.
    fn skip_group(&mut self) -> Result<(), ProtobufError> {
        let mut open = 1_usize;
        while open > 0 {
            match self.tag()? {
                (_, 3) => open += 1,
                (_, 4) => open -= 1,
                (_, other) => drop(self.scalar(other)?),
            }
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for (index, byte) in self.rest.iter().enumerate() {
            if index == 10 {
                return Err(ProtobufError::Overflow);
            }
            value |= u64::from(byte & 0x7f).wrapping_shl(7 * index as u32);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(ProtobufError::Truncated)
    }
}

/// Text as Go's JSON encoder writes it: what is not UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_groups_skipped() {
        let bytes = [0x08, 0x96, 0x01, 0x1b, 0x23, 0x08, 0x01, 0x24, 0x1c, 0x12, 0x01, b'a'];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.next(), Ok(Some((1, Field::Varint(150)))));
        assert_eq!(reader.next(), Ok(Some((3, Field::Group))));
        assert_eq!(reader.next(), Ok(Some((2, Field::Bytes(b"a")))));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn bad_bytes_are_errors() {
        for (bytes, expect) in [
            (&[0x08][..], ProtobufError::Truncated),
            (&[0x12, 0x05, b'a'], ProtobufError::Truncated),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], ProtobufError::Truncated),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], ProtobufError::Overflow),
            (&[0x00], ProtobufError::Tag(0)),
            (&[0x0c], ProtobufError::Tag(12)),
            (&[0x0e], ProtobufError::Tag(6)),
            (&[0x0b], ProtobufError::Truncated),
        ] {
            assert_eq!(Reader::new(bytes).next(), Err(expect), "{bytes:?}");
        }
    }
}
