//! Which kinds there are. A kind is a row; built-in ones and those that definitions make take the same
//! path. Never a handler per kind.

mod connect;
mod kind;
mod schema;
mod strategy;
mod table;
mod warnings;

pub use allotment_machinery::names::NameRule;
pub use connect::Connect;
pub use kind::{Column, Kind, Scale, Subresource, Subresources, Version};
pub use schema::{DecodeError, Decoded, PatchError, Published, Schema};
pub use strategy::{MetadataChecks, Operation, Strategy};
pub use table::{Registry, Row};
pub(crate) use warnings::MAX_WARNING_BYTES;
pub use warnings::Warnings;
