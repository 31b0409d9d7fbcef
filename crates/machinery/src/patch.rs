//! The ways of changing an object by a patch: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and
//! strategic merge patch. All take the object as JSON and give it back; what the result has to obey,
//! which kinds allow which patch, and server-side apply are left to others.
//!
//! Bounds: values are at most [`crate::json::MAX_DEPTH`] deep before and after; the time is linear in the
//! sizes of object and patch, but for JSON patch, which has a budget.

pub mod json;
pub mod merge;
pub mod strategic;
#[cfg(test)]
mod testing;
