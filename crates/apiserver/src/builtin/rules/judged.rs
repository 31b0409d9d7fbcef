//! For tests of the kinds: an object goes through a kind's preparation and judgement, as a write does.

use allotment_machinery::json::{Map, Value};

use crate::registry::{Operation, Strategy};

/// The map behind a value.
pub(crate) fn object(value: Value) -> Map {
    value.as_object().expect("an object").clone()
}

/// Defaults, prepares and validates `new` as a create, or as an update of `old`; the errors are those of `expect`.
#[track_caller]
pub(crate) fn check(strategy: &dyn Strategy, old: Option<Value>, new: Value, expect: &[&str]) {
    let (old, mut new) = (old.map(object), object(new));
    let operation = match &old {
        Some(old) => Operation::Update { old, subresource: "" },
        None => Operation::Create,
    };
    strategy.default(&mut new);
    strategy.prepare(operation, &mut new);
    let errors: Vec<String> = strategy.validate(operation, &new).iter().map(ToString::to_string).collect();
    assert_eq!(errors, expect);
}
