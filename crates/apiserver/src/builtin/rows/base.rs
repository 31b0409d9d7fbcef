//! The rows of the core group that every controller leans on.

use std::sync::Arc;

use super::{Row, row};
use crate::auth::TokenRequest;
use crate::builtin::core::account::ServiceAccount;
use crate::builtin::core::config::{ConfigMap, Secret};
use crate::builtin::core::event::CoreEvent;
use crate::builtin::core::namespace::Namespace;
use crate::registry::{Subresource, Subresources};

/// Namespaces are not deleted by the collection.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

pub(super) fn rows() -> Vec<Row> {
    let finalize =
        Subresource { name: "finalize", group_version: None, kind: "Namespace", verbs: &["update"], connect: None };
    let token = Subresource {
        name: "token",
        group_version: Some(("authentication.k8s.io", "v1")),
        kind: "TokenRequest",
        verbs: &["create"],
        connect: Some(Arc::new(TokenRequest)),
    };
    vec![
        Row {
            namespaced: false,
            short_names: &["ns"],
            verbs: NAMESPACE_VERBS,
            subresources: Subresources { status: true, scale: None, others: vec![finalize] },
            selectable: &["status.phase"],
            ..row("", "core/v1.Namespace", "namespaces", Namespace)
        },
        Row { short_names: &["cm"], ..row("", "core/v1.ConfigMap", "configmaps", ConfigMap) },
        Row { selectable: &["type"], ..row("", "core/v1.Secret", "secrets", Secret) },
        Row {
            short_names: &["sa"],
            subresources: Subresources { others: vec![token], ..Subresources::default() },
            ..row("", "core/v1.ServiceAccount", "serviceaccounts", ServiceAccount)
        },
        Row { short_names: &["ev"], selectable: CORE_EVENT_FIELDS, ..row("", "core/v1.Event", "events", CoreEvent) },
    ]
}

const CORE_EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
