//! Tests of the engines: the conformance suite on each, a model, power cuts, a real folder.

mod durability;
mod folder;
mod model;
mod suite;
mod versions;
