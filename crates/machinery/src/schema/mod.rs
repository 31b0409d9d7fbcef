//! Schemas of objects: one type for kinds that definitions make and for built-in ones.
//!
//! A [`Schema`] says which fields there are and of which type, which of them lists merge by, what is
//! filled in where nothing is given, and which values are right. What is done with one is pure:
//! [`prune`] drops what no schema knows, [`apply_defaults`] fills in, [`validate`] finds what is wrong
//! with a custom resource, [`decode_check`] finds what a typed decoder would refuse or not know in a
//! built-in one. [`parse_structural`] makes a schema from the `openAPIV3Schema` of a definition and
//! refuses what is not structural (KEP-1693, `k8s.io/apiextensions-apiserver/pkg/apiserver/schema`).
//!
//! Invariants: walks recurse no deeper than the value they walk, whose depth the JSON parser bounds;
//! patterns run in linear time. Rules in CEL are refused, never ignored.

mod decode;
mod default;
mod format;
mod intern;
mod lists;
mod metadata;
mod node;
mod numbers;
mod parse;
mod pattern;
mod prune;
mod structural;
mod validate;

pub use decode::{TypeMismatch, decode_check};
pub use default::apply_defaults;
pub use intern::Interner;
pub use node::{Additional, Junctors, ListType, MapType, NamedSchema, Patch, Schema, SchemaRef, Shape, ValueRules};
pub use numbers::normalise_numbers;
pub use parse::parse_structural;
pub use pattern::Pattern;
pub use prune::{Pruned, prune};
pub use validate::{validate, validate_update};
