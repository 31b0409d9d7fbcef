//! What makes a schema structural.
