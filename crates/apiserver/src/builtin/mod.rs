//! The built-in kinds: their types from a generated table, their rows and what is particular about each.
//!
//! Everything here is pure. What controllers do about these kinds is left to [`crate::loops`].

mod admissionregistration;
mod apps;
mod autoscaling;
mod batch;
mod core;
mod networking;
mod policy;
mod print;
mod rbac;
mod rows;
mod rules;
mod storage;
mod types;

pub(crate) use self::core::namespace::FINALIZER as NAMESPACE_FINALIZER;
pub(crate) use self::core::service::addresses::{Claim, Refusal, Stock, allocate, claims};
pub(crate) use print::cells::since;
pub use rows::kinds;
pub(crate) use rules::checks::domain_prefixed;
pub(crate) use types::describe::{describe, descriptions};
pub(crate) use types::shape::decode_whole;
pub(crate) use types::{Field, List, Message, SCHEMA_PROPS, Type, message, message_of_kind, table};

/// The type of scales, which kinds of every group show.
pub(crate) fn scale_schema() -> allotment_machinery::schema::NamedSchema {
    types::expand::schema("autoscaling/v1.Scale")
}

/// A time as JSON shows it, to the second or to the microsecond; `None` for years that JSON has no text for.
pub(crate) fn time_text(time: jiff::Timestamp, micros: bool) -> Option<String> {
    let year = jiff::tz::Offset::UTC.to_datetime(time).year();
    let format = if micros { allotment_machinery::time::format_micro } else { allotment_machinery::time::format };
    (0..=9999).contains(&year).then(|| format(time))
}
