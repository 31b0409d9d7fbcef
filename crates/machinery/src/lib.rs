//! What Kubernetes objects are, pure: values, field paths and errors, names, selectors, quantities,
//! versions, patches, structural schemas, the algebra of RBAC rules. No I/O, no clock, no kinds of ours.

pub mod field;
pub mod json;
pub mod object;
pub mod schema;
pub mod seams;
