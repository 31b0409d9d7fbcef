//! Random values for the properties of patches: few keys, so that they meet.

use proptest::prelude::*;

use crate::json::{Map, Value};

/// Any value, small.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        "[a-c~/]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            members(inner).prop_map(Value::from),
        ]
    })
}

/// Any object, small.
pub(crate) fn object() -> impl Strategy<Value = Map> {
    members(value())
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map> {
    proptest::collection::btree_map("[ab01~/]{1,2}", value, 0..4).prop_map(Map::from_iter)
}
