//! Which kinds there are. A kind is a row; built-in ones and those that definitions make take the same
//! path. Never a handler per kind.

mod kind;
mod strategy;

pub use kind::{Column, Kind, Scale, Subresources, Version};
pub use strategy::{NameRule, Operation, Strategy};
