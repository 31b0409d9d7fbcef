//! How rules look into objects that have been decoded: members are there with their type, or not at all.

use allotment_machinery::json::{Map, Value};

/// The text `name`; empty where there is none.
pub(crate) fn text<'a>(object: &'a Map, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The number `name`.
pub(crate) fn int(object: &Map, name: &str) -> Option<i64> {
    object.get(name).and_then(Value::as_i64)
}

/// The truth value `name`; false where there is none.
pub(crate) fn flag(object: &Map, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether there is a value `name` other than null.
pub(crate) fn is_given(object: &Map, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null())
}

/// The object `name`.
pub(crate) fn object<'a>(object: &'a Map, name: &str) -> Option<&'a Map> {
    object.get(name).and_then(Value::as_object)
}

/// The object under a path.
pub(crate) fn object_at<'a>(object: &'a Map, path: &[&str]) -> Option<&'a Map> {
    path.iter().try_fold(object, |map, name| map.get(name).and_then(Value::as_object))
}

/// The list `name`; empty where there is none.
pub(crate) fn list<'a>(object: &'a Map, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).unwrap_or_default()
}

/// The objects of the list `name`, with their places.
pub(crate) fn items<'a>(object: &'a Map, name: &str) -> impl Iterator<Item = (usize, &'a Map)> + Clone + use<'a> {
    list(object, name).iter().enumerate().filter_map(|(index, value)| Some((index, value.as_object()?)))
}

/// The texts of the list `name`.
pub(crate) fn texts<'a>(object: &'a Map, name: &str) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
    list(object, name).iter().filter_map(Value::as_str)
}

/// The objects of the list `name`, to change.
pub(crate) fn items_mut<'a>(object: &'a mut Map, name: &str) -> impl Iterator<Item = &'a mut Map> + use<'a> {
    let items = object.get_mut(name).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
    items.iter_mut().filter_map(Value::as_object_mut)
}
