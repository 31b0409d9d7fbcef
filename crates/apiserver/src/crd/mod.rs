//! Definitions of custom resources: whether one is right, what its status says, and the row of the
//! registry that it makes. Pure; writing definitions and keeping the registry is left to the server.

mod definition;
mod kind;
mod status;

pub use definition::DefinitionStrategy;
pub use kind::{CustomStrategy, kind_from_definition};
pub use status::{CLEANUP_FINALIZER, NamesInUse, establish, terminate};
