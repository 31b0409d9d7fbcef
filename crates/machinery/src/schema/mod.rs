//! Schemas: what objects look like, of kinds that definitions make and of built-in ones.
//!
//! A [`Schema`] says which fields there are and of which type, what tells the elements of a list apart,
//! what is filled in where nothing is given, and which values are right; for built-in kinds, how a
//! strategic merge patch treats a field. What is done with the one of a custom resource is pure:
//! [`prune()`] drops what no schema knows, [`apply_defaults`] fills in, [`validate()`] finds what is wrong.
//! [`parse_structural`] makes a schema from the `openAPIV3Schema` of a definition and refuses what is not
//! structural (KEP-1693, `k8s.io/apiextensions-apiserver/pkg/apiserver/schema`). The metadata of the
//! object itself is left to [`crate::metadata`], that of resources within resources is checked here.
//!
//! Invariants: walks recurse no deeper than the value they walk, whose depth the JSON parser bounds;
//! patterns run in linear time. Rules in CEL are refused, never ignored.

mod default;
mod defaults_check;
mod embedded;
mod format;
mod intern;
mod keywords;
mod lists;
mod node;
mod numbers;
mod parse;
mod pattern;
mod prune;
mod raw;
mod structural;
mod trail;
mod validate;

#[cfg(test)]
mod tests;

pub use default::{apply_defaults, fill_defaults};
pub use embedded::check_embedded_metadata;
pub use intern::Interner;
pub use node::{Additional, Junctors, ListType, MapType, NamedSchema, Patch, Schema, SchemaRef, Shape, ValueRules};
pub use numbers::{canonical_number, normalise_but_floats, normalise_numbers, settle_floats};
pub use parse::{parse_structural, read_structural, unrecognized_formats};
pub use pattern::Pattern;
pub use prune::prune;
pub use validate::{validate, validate_parts, validate_status, validate_update};
