//! Whether the defaults in a schema are values that the schema accepts.

use super::embedded;
use super::node::Schema;
use super::prune::{Unknown, prune_value};
use super::trail::Trail;
use super::validate::validate_value;
use crate::field::{FieldError, Path};
use crate::json::{Map, Value};

/// Everything that is wrong with defaults in the schema of a whole object at `path`.
pub(super) fn check(schema: &Schema, path: &Path) -> Vec<FieldError> {
    // A default of the whole object has to be one, as that of a resource within it.
    let schema = Schema { embedded: true, ..schema.clone() };
    let mut errors = Vec::new();
    node(&schema, &Place { resource: &schema, in_metadata: false, steps: Vec::new() }, path, &mut errors);
    errors
}

/// Where a node stands.
struct Place<'a> {
    /// The schema of the innermost resource around it.
    resource: &'a Schema,
    /// Whether it is what the resource has of every resource: its metadata and what it calls itself.
    in_metadata: bool,
    /// From the resource to the node; `None` stands for the elements of a list.
    steps: Vec<Option<&'a str>>,
}

impl<'a> Place<'a> {
    fn within(&self, step: Option<&'a str>, in_metadata: bool) -> Place<'a> {
        let steps = self.steps.iter().copied().chain([step]).collect();
        Place { resource: self.resource, in_metadata, steps }
    }

    /// A resource that has `value` at this place and is sound in all else.
    fn resource_with(&self, value: &Value) -> Map {
        let around = self.steps.iter().rev().fold(value.clone(), |value, step| match step {
            Some(name) => Value::Object(Map::from_iter([((*name).to_owned(), value)])),
            None => Value::Array(vec![value]),
        });
        let mut resource = match around {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        resource.get_or_insert_with("apiVersion", || Value::from("validation/v1"));
        resource.get_or_insert_with("kind", || Value::from("Validation"));
        resource
    }
}

fn node<'a>(schema: &'a Schema, place: &Place<'a>, path: &Path, errors: &mut Vec<FieldError>) {
    if schema.embedded {
        let own = Place { resource: schema, in_metadata: false, steps: Vec::new() };
        return members(schema, &own, path, errors);
    }
    members(schema, place, path, errors);
}

fn members<'a>(schema: &'a Schema, place: &Place<'a>, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let path = path.child("default");
        let before = errors.len();
        if place.in_metadata {
            errors.extend(metadata_fault(&place.resource_with(default), default, &path));
        } else {
            let mut pruned = (**default).clone();
            let mut unknown = Unknown::default();
            prune_value(schema, &mut pruned, Trail::Start, &mut unknown);
            if !unknown.members.is_empty() || !unknown.metadata.is_empty() {
                errors.push(FieldError::invalid(&path, &**default, "must not have unknown fields"));
            }
        }
        let resources = embedded::check_value(schema, default, &path);
        if !resources.is_empty() {
            errors.extend(resources);
        } else if errors.len() == before || !place.in_metadata {
            errors.extend(validate_value(schema, default, &path));
        }
    }
    if let Some(items) = &schema.items {
        node(items.get(), &place.within(None, place.in_metadata), &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        let of_every_resource = schema.embedded && matches!(&**name, "apiVersion" | "kind" | "metadata");
        let inner = place.within(Some(name), place.in_metadata || of_every_resource);
        node(property.get(), &inner, &properties.key(name), errors);
    }
}

/// What is wrong with a resource that has a default within its metadata.
fn metadata_fault(resource: &Map, default: &Value, path: &Path) -> Option<FieldError> {
    let faults = match embedded::wrong_metadata(resource, &Path::root()) {
        Some(fault) => vec![fault],
        None => {
            let mut faults = Vec::new();
            embedded::check_resource(resource, &Path::root(), &mut faults);
            faults
        }
    };
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let texts = match texts.as_slice() {
        [] => return None,
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Some(FieldError::invalid(path, default, format!("must result in valid metadata: {texts}")))
}
