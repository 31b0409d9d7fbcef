//! What Kubernetes objects are, pure: values, field paths and errors, names, selectors, quantities,
//! versions, patches, server-side apply, structural schemas, the algebra of RBAC rules. No I/O, no clock, no kinds of ours.

pub mod apply;
pub mod duration;
pub mod field;
pub mod gotext;
pub mod json;
pub mod jsonpath;
pub mod metadata;
pub mod names;
pub mod object;
pub mod patch;
pub mod quantity;
pub mod rbac;
pub mod schema;
pub mod seams;
pub mod selector;
pub mod time;
pub mod version;
pub mod yaml;
