//! Definitions of custom resources: whether one is right, what its status says, and the row of the
//! registry that it makes. All pure; writing definitions, deleting instances and keeping the registry are
//! left to the server.

mod definition;
mod kind;
mod scaled;
mod schema;
mod spec;
mod status;
#[cfg(test)]
mod tests;
mod validation;

pub use definition::DefinitionStrategy;
pub use kind::{CustomStrategy, kind_from_definition};
pub use status::{
    CLEANUP_FINALIZER, NamesInUse, begin_deletion, establish, finish_deletion, is_established, is_terminating,
    note_deletion,
};
pub(crate) use status::{forget_observed, wants_names};
