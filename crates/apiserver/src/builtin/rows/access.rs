//! The rows of leases, access rules, definitions, admission and the second form of events.

use allotment_store::Resource;

use super::{Row, row, ruled, status};
use crate::builtin::admissionregistration::{self as admission, GROUP};
use crate::builtin::core::account::Lease;
use crate::builtin::core::event::NewEvent;
use crate::builtin::rbac::{Binding, Role};
use crate::crd::DefinitionStrategy;
use crate::registry::Subresources;

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
    own().into_iter().chain(admission()).collect()
}

fn admission() -> Vec<Row> {
    let row = |plural: &'static str, rules, subresources| Row {
        namespaced: false,
        categories: &["api-extensions"],
        subresources,
        ..ruled(GROUP, plural, rules)
    };
    let none = Subresources::default;
    vec![
        row("mutatingadmissionpolicies", admission::MUTATING_POLICY, none()),
        row("mutatingadmissionpolicybindings", admission::MUTATING_BINDING, none()),
        row("mutatingwebhookconfigurations", admission::MUTATING_WEBHOOKS, none()),
        row("validatingadmissionpolicies", admission::VALIDATING_POLICY, status()),
        row("validatingadmissionpolicybindings", admission::VALIDATING_BINDING, none()),
        row("validatingwebhookconfigurations", admission::VALIDATING_WEBHOOKS, none()),
    ]
}

fn own() -> Vec<Row> {
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
