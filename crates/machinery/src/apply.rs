//! Server-side apply (KEP-555): who owns which field of an object, and what becomes of an object when
//! somebody applies a configuration to it. Follows `sigs.k8s.io/structured-merge-diff` and
//! `k8s.io/apimachinery/pkg/util/managedfields`; pure.
//!
//! - A [`FieldSet`] is a set of fields, read from and written as `FieldsV1`; [`PathElement`] is one step.
//! - A [`TypeRef`] says which parts of a value are owned one by one, read off a [`crate::schema::Schema`].
//! - [`Managers`] is `metadata.managedFields`: sets of fields by manager.
//! - [`Writer`] is a write: [`Writer::update`] for creates, updates and patches, [`Writer::apply`] for apply.
//!
//! Versions of a kind come in through [`Versions`]; requests, answers and storage are left to the server.
//!
//! Invariant: walks recurse no deeper than the values they walk, or than the sets, which were values once;
//! the JSON parser bounds both.

mod compare;
mod disown;
mod element;
mod fields;
mod found;
mod managers;
mod merge;
mod object_meta;
mod reconcile;
mod remove;
mod scalar;
mod scale;
mod set;
#[cfg(test)]
mod tests;
mod track;
mod types;
mod update;
mod validate;

pub use compare::Comparison;
pub use disown::disown_absent;
pub use element::{ElementError, PathElement, show_path};
pub use fields::FieldsError;
pub use found::fields_of;
pub use managers::{Managed, ManagerId, ManagerOperation, Managers, ManagersError};
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::remove;
pub use scale::{ReplicasPaths, SCALE_VERSION};
pub use set::FieldSet;
pub use track::{Applied, Writer, set_managers, show_kind};
pub use types::TypeRef;
pub use update::{Conflict, Conflicts, UpdateError, Versions};
pub use validate::{Duplicates, TypeErrors, validate};
