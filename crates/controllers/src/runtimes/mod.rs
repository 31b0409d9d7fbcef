//! Who runs control planes.

pub mod logical;
