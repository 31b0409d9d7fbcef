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
pub(crate) use self::core::pod::secrets_of as secrets_of_pod;
pub(crate) use self::core::pod::{MIRROR as MIRROR_POD, check_mountable as check_mountable_secrets};
pub(crate) use self::core::service::addresses::{Claim, Refusal, Stock, allocate, claims};
pub(crate) use policy::system_priority;
pub(crate) use print::cells::since;
pub use rows::kinds;
pub(crate) use rules::Errors;
pub(crate) use rules::checks::domain_prefixed;
pub(crate) use types::describe::{describe, descriptions};
pub(crate) use types::shape::decode_whole;
pub(crate) use types::{Field, List, Message, SCHEMA_PROPS, Type, message, message_of_kind, table};

/// The type of scales, which kinds of every group show.
pub(crate) fn scale_schema() -> allotment_machinery::schema::NamedSchema {
    types::expand::schema("autoscaling/v1.Scale")
}

/// Whether an address is one that a pod alone may have: none that leads to the server itself or to many.
pub(crate) fn is_reachable(address: &str) -> bool {
    match address.parse() {
        Ok(std::net::IpAddr::V4(v4)) => {
            !(v4.is_unspecified() || v4.is_loopback() || v4.is_multicast() || v4.is_link_local() || v4.is_broadcast())
        }
        Ok(std::net::IpAddr::V6(v6)) => {
            !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || v6.segments()[0] & 0xffc0 == 0xfe80)
        }
        Err(_) => false,
    }
}

/// A time as JSON shows it, to the second or to the microsecond; `None` for years that JSON has no text for.
pub(crate) fn time_text(time: jiff::Timestamp, micros: bool) -> Option<String> {
    let year = jiff::tz::Offset::UTC.to_datetime(time).year();
    let format = if micros { allotment_machinery::time::format_micro } else { allotment_machinery::time::format };
    (0..=9999).contains(&year).then(|| format(time))
}
