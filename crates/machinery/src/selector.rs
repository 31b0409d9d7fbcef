//! Which objects a request or a rule is about: label selectors (`k8s.io/apimachinery/pkg/labels`) and
//! field selectors (`pkg/fields`). Which fields a kind can be selected by is left to the registry.

mod field;
mod label;
mod parse;

pub use field::{FieldSelector, FieldSelectorError, FieldTerm, escape_value};
pub use label::{LabelSelector, Operator, Requirement, RequirementError, SelectorObjectError, validate_object};
pub use parse::SelectorParseError;

#[cfg(test)]
mod tests;
