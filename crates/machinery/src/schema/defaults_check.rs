//! Whether the defaults in a schema are values that the schema accepts.

use super::embedded;
use super::node::Schema;
use super::prune::{Unknown, prune_value};
use super::trail::Trail;
use super::validate::validate_value;
use crate::field::{FieldError, Path};

/// Everything that is wrong with defaults in the schema of a whole object at `path`.
pub(super) fn check(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(schema, true, false, path, &mut errors);
    errors
}

fn node(schema: &Schema, root: bool, in_metadata: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let in_metadata = in_metadata && !schema.embedded;
    if let Some(default) = &schema.default {
        let path = path.child("default");
        let mut pruned = (**default).clone();
        let mut unknown = Unknown::default();
        prune_value(schema, &mut pruned, Trail::Start, &mut unknown);
        let is_pruned = unknown.members.is_empty() && unknown.metadata.is_empty();
        if !in_metadata && !is_pruned {
            errors.push(FieldError::invalid(&path, &**default, "must not have unknown fields"));
        }
        let resources = embedded::check_value(schema, default, &path);
        if resources.is_empty() {
            errors.extend(validate_value(schema, default, &path));
        } else {
            errors.extend(resources);
        }
    }
    if let Some(items) = &schema.items {
        node(items.get(), false, in_metadata, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        let resource_member = (root || schema.embedded) && matches!(&**name, "apiVersion" | "kind" | "metadata");
        node(property.get(), false, in_metadata || resource_member, &properties.key(name), errors);
    }
}
