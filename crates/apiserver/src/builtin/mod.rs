//! The built-in kinds: their types from a generated table, their rows and what is particular about each.
//!
//! Everything here is pure. What controllers do about these kinds is left to [`crate::loops`].

mod account;
mod addresses;
mod apps;
mod autoscaling;
mod batch;
mod cells;
mod checks;
mod columns;
mod config;
mod containers;
mod cron;
mod defaults;
mod depends;
mod describe;
mod endpoints;
mod event;
mod expand;
mod gojson;
#[cfg(test)]
mod judged;
mod look;
mod namespace;
mod network;
mod pod;
mod pod_cells;
mod pod_quality;
mod policy;
mod print;
mod quota;
mod rbac;
mod resources;
mod rows;
mod rules;
mod schema;
mod service;
mod service_addresses;
mod service_rules;
mod shape;
mod storage;
mod types;
mod volumes;

pub(crate) use cells::since;
pub(crate) use describe::{describe, descriptions};
pub(crate) use namespace::FINALIZER as NAMESPACE_FINALIZER;
pub use rows::kinds;
pub(crate) use service_addresses::{Claim, Refusal, Stock, allocate, claims};
pub(crate) use shape::decode_whole;
pub(crate) use types::{Field, List, Message, SCHEMA_PROPS, Type, message, message_of_kind, table};

/// The type of scales, which kinds of every group show.
pub(crate) fn scale_schema() -> allotment_machinery::schema::NamedSchema {
    expand::schema("autoscaling/v1.Scale")
}

/// A time as JSON shows it, to the second or to the microsecond; `None` for years that JSON has no text for.
pub(crate) fn time_text(time: jiff::Timestamp, micros: bool) -> Option<String> {
    let year = jiff::tz::Offset::UTC.to_datetime(time).year();
    let format = if micros { allotment_machinery::time::format_micro } else { allotment_machinery::time::format };
    (0..=9999).contains(&year).then(|| format(time))
}
