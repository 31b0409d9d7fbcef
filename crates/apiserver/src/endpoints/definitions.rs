//! What writes of definitions need beyond other writes: status and finalizer are set in the same write,
//! so that a definition is served as soon as its create is answered.

use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;

use super::metadata::format_time;
use crate::crd;
use crate::registry::{Registry, Row};
use crate::server::Context;

fn is_definition(row: &Row) -> bool {
    row.kind.group == "apiextensions.k8s.io" && row.kind.plural == "customresourcedefinitions"
}

/// Sets accepted names, conditions and stored versions.
pub(super) fn before_write(cx: &Context, row: &Row, object: &mut Map) {
    if !is_definition(row) {
        return;
    }
    let group = object.get("spec").and_then(|spec| spec.get("group")).and_then(Value::as_str).unwrap_or_default();
    let own = metadata_str(object, "name").unwrap_or_default();
    let others = names_in_use(&cx.tenant.registry(), group, own);
    crd::establish(object, &others, &format_time(cx.server.clock().now()));
}

/// Names that other kinds of the group have.
fn names_in_use(registry: &Registry, group: &str, own: &str) -> crd::NamesInUse {
    let mut names = crd::NamesInUse::default();
    let others = registry.kinds().filter(|kind| kind.group == group && format!("{}.{group}", kind.plural) != own);
    for kind in others {
        names.resources.extend([kind.plural.clone(), kind.singular.clone()]);
        names.resources.extend(kind.short_names.iter().cloned());
        names.kinds.extend([kind.kind.clone(), kind.list_kind.clone()]);
    }
    names
}

/// Keeps a definition until its instances are gone.
pub(super) fn before_deletion(cx: &Context, row: &Row, object: &mut Map) {
    if !is_definition(row) {
        return;
    }
    if metadata_str(object, "deletionTimestamp").is_none() {
        crd::begin_deletion(object, &format_time(cx.server.clock().now()));
    }
}
