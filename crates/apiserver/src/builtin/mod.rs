//! The built-in kinds: their types from a generated table, their rows and what is particular about each.

mod gotime;
mod shape;
mod types;
