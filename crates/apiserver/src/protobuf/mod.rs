//! Request bodies in `application/vnd.kubernetes.protobuf`, turned into the JSON that Go would write of
//! the same object.
//!
//! A body is the bytes `k8s\0` and a `runtime.Unknown`, in which the object lies
//! (`k8s.io/apimachinery/pkg/runtime/serializer/protobuf`). What messages look like comes from the type
//! table; nothing is written per kind. Input is hostile: depth, the number of values and every length
//! are bounded, and whatever the bytes are, the answer is a value or an error.

mod message;
mod wire;

use allotment_machinery::json::{MAX_DEPTH, Value};

use crate::builtin::{self, Message};
use wire::{Field, Reader};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It does not begin as it has to.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// A length or a number goes on behind the end.
    #[error("unexpected EOF")]
    Truncated,
    /// A number has more bits than 64.
    #[error("proto: integer overflow")]
    Overflow,
    /// A tag that no field has.
    #[error("proto: illegal tag {0}")]
    Tag(u64),
    /// A field of a known number has another wire type than its type.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WireType {
        /// `ConfigMap.data`
        field: String,
        /// As on the wire.
        wire_type: u8,
    },
    /// Messages are nested deeper than any kind nests them.
    #[error("the object is nested too deep")]
    TooDeep,
    /// More list elements, map entries and fields than a body of sensible use has.
    #[error("the object has too many values")]
    TooMany,
    /// Bytes in which JSON has to lie hold something else.
    #[error("{field}: {reason}")]
    Embedded {
        /// `CustomResourceDefinition.spec`…: the message and field.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// A time that no calendar date is.
    #[error("{field}: the time is out of range")]
    Time {
        /// The message and field.
        field: String,
    },
    /// The object is compressed or not protobuf at all.
    #[error("content encoding {encoding:?} and content type {content_type:?} of the object are not supported")]
    Encoding {
        /// As the envelope says.
        encoding: String,
        /// As the envelope says.
        content_type: String,
    },
    /// Nothing is known of this kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// As the envelope or the caller says.
        api_version: String,
        /// As the envelope or the caller says.
        kind: String,
    },
}

/// Reads a body. `api_version` and `kind` are what it holds if it does not say so itself; the object that
/// is answered names its kind, which may be another one than the caller expects.
///
/// # Errors
/// The body is none, or none of a built-in kind or of request options.
pub fn decode(content: &[u8], api_version: &str, kind: &str) -> Result<Value, ProtobufError> {
    let envelope = Envelope::read(content.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?)?;
    let or = |given: String, default: &str| if given.is_empty() { default.to_owned() } else { given };
    let (api_version, kind) = (or(envelope.api_version, api_version), or(envelope.kind, kind));
    if !envelope.encoding.is_empty() || !matches!(&*envelope.content_type, "" | "application/vnd.kubernetes.protobuf") {
        let (encoding, content_type) = (envelope.encoding, envelope.content_type);
        return Err(ProtobufError::Encoding { encoding, content_type });
    }
    let Some(message) = builtin::message_of_kind(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = read_message(message, envelope.raw)?;
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion", api_version);
        map.insert("kind", kind);
    }
    if deeper_than(&object, MAX_DEPTH) { Err(ProtobufError::TooDeep) } else { Ok(object) }
}

fn read_message(message: &'static Message, raw: &[u8]) -> Result<Value, ProtobufError> {
    let mut map = message::read(message, raw)?;
    // What was written for lack of a way to leave it out goes here.
    builtin::decode_whole(message, &mut map)
        .map_err(|error| ProtobufError::Embedded { field: message.name.to_owned(), reason: error.message })?;
    Ok(Value::Object(map))
}

fn deeper_than(value: &Value, most: usize) -> bool {
    let inner = |value: &Value| most == 0 || deeper_than(value, most - 1);
    match value {
        Value::Array(items) => most == 0 || items.iter().any(inner),
        Value::Object(map) => most == 0 || map.iter().any(|(_, value)| inner(value)),
        _ => false,
    }
}

/// `runtime.Unknown`
#[derive(Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
    encoding: String,
    content_type: String,
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut envelope = Envelope::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader.next()? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => envelope.read_type(bytes)?,
                (2, Field::Bytes(bytes)) => envelope.raw = bytes,
                (3, Field::Bytes(bytes)) => envelope.encoding = wire::text(bytes),
                (4, Field::Bytes(bytes)) => envelope.content_type = wire::text(bytes),
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), ProtobufError> {
        let mut reader = Reader::new(bytes);
        while let Some((number, field)) = reader.next()? {
            match (number, field) {
                (1, Field::Bytes(bytes)) => self.api_version = wire::text(bytes),
                (2, Field::Bytes(bytes)) => self.kind = wire::text(bytes),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod encode;
#[cfg(test)]
mod tests;
