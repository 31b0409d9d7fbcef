//! Why a strategic merge patch cannot be applied, in the words of Kubernetes.

use crate::gotext::{go_plain, go_type};
use crate::json::{Map, Value};

/// Why a strategic merge patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// A `$patch` that there is not.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective {
        /// Its value.
        directive: String,
        /// The object that holds it.
        map: String,
    },
    /// `$retainKeys` that is no list, or leaves out what the patch sets.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// `$deleteFromPrimitiveList` without a field.
    #[error("invalid patch format of primitive list")]
    BadPrimitiveList,
    /// `$setElementOrder` without a field.
    #[error("invalid patch format of setElementOrder list")]
    BadElementOrder,
    /// The patch has elements that its `$setElementOrder` lacks or orders otherwise.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The elements of the patch.
        patch: String,
        /// The order.
        order: String,
    },
    /// An element lacks the member by which it is found.
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The element.
        map: String,
        /// The member.
        key: String,
    },
    /// A list of objects is to be merged, but by which member is not said.
    #[error("cannot merge lists without merge key")]
    UnknownMergeKey,
    /// A list of lists is to be merged.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// A list with elements of several types is to be merged.
    #[error("list element types are not identical: {0}")]
    MixedElements(String),
    /// `$patch: merge` in a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    /// Another type than one that merging needs.
    #[error("expected a {expected}, but received a {actual}")]
    Type {
        /// What is needed, as a type of Go.
        expected: &'static str,
        /// What is there, as a type of Go.
        actual: &'static str,
    },
}

impl StrategicError {
    /// The HTTP status that kube-apiserver answers with.
    pub fn status(&self) -> u16 {
        match self {
            StrategicError::BadRetainKeys | StrategicError::BadPrimitiveList | StrategicError::BadElementOrder => 400,
            StrategicError::ListOfLists => 422,
            StrategicError::UnknownDirective { .. }
            | StrategicError::OrderMismatch { .. }
            | StrategicError::NoMergeKey { .. }
            | StrategicError::UnknownMergeKey
            | StrategicError::MixedElements(_)
            | StrategicError::MergeDirective
            | StrategicError::Type { .. } => 500,
        }
    }

    pub(super) fn unknown_directive(map: &Map) -> Self {
        let directive = map.get(super::DIRECTIVE).map(go_plain).unwrap_or_default();
        StrategicError::UnknownDirective { directive, map: go_plain(&Value::Object(map.clone())) }
    }

    pub(super) fn no_merge_key(element: &Value, key: &str) -> Self {
        StrategicError::NoMergeKey { map: go_plain(element), key: key.to_owned() }
    }

    pub(super) fn expected_list(actual: &Value) -> Self {
        StrategicError::Type { expected: "[]interface {}", actual: go_type(actual) }
    }

    pub(super) fn expected_object(actual: &Value) -> Self {
        StrategicError::Type { expected: "map[string]interface {}", actual: go_type(actual) }
    }
}
