//! The rows of leases, access rules, definitions and the second form of events.

use allotment_store::Resource;

use super::{Row, row, status};
use crate::builtin::core::account::Lease;
use crate::builtin::core::event::NewEvent;
use crate::builtin::rbac::{Binding, Role};
use crate::crd::DefinitionStrategy;

const NEW_EVENT_FIELDS: &[&str] = &[
    "reason",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reportingController",
    "type",
];

pub(super) fn rows() -> Vec<Row> {
    let rbac = "rbac.authorization.k8s.io";
    vec![
        Row {
            short_names: &["ev"],
            selectable: NEW_EVENT_FIELDS,
            stored_as: Some(Resource::new("events", "")),
            ..row("events.k8s.io", "events/v1.Event", "events", NewEvent)
        },
        Row { ..row("coordination.k8s.io", "coordination/v1.Lease", "leases", Lease) },
        row(rbac, "rbac/v1.Role", "roles", Role { namespaced: true }),
        Row { ..row(rbac, "rbac/v1.RoleBinding", "rolebindings", Binding { namespaced: true }) },
        Row { namespaced: false, ..row(rbac, "rbac/v1.ClusterRole", "clusterroles", Role { namespaced: false }) },
        Row {
            namespaced: false,
            ..row(rbac, "rbac/v1.ClusterRoleBinding", "clusterrolebindings", Binding { namespaced: false })
        },
        Row {
            namespaced: false,
            short_names: &["crd", "crds"],
            categories: &["api-extensions"],
            subresources: status(),
            ..row(
                "apiextensions.k8s.io",
                "apiextensions/v1.CustomResourceDefinition",
                "customresourcedefinitions",
                DefinitionStrategy,
            )
        },
    ]
}
