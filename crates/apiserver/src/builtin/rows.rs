//! The rows of the built-in kinds.

use std::sync::Arc;

use allotment_store::Resource;

use super::account::{Lease, ServiceAccount};
use super::columns;
use super::config::{ConfigMap, Secret};
use super::event::{CoreEvent, NewEvent};
use super::namespace::Namespace;
use super::rbac::{Binding, Role};
use super::schema::TypeSchema;
use crate::auth::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectReview, SelfSubjectRulesReview, SubjectAccessReview,
    TokenRequest, TokenReview,
};
use crate::crd::DefinitionStrategy;
use crate::registry::{Column, Connect, Kind, Strategy, Subresource, Subresources, Version};

const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Namespaces are not deleted by the collection.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const UPDATE: &[&str] = &["update"];

/// The built-in kinds, to make a registry of.
pub fn kinds() -> Vec<Arc<Kind>> {
    let rows = core_rows().into_iter().chain(group_rows()).chain(review_rows());
    rows.map(|row| Arc::new(row.kind())).collect()
}

/// The parts of a row that differ.
struct Row {
    group: &'static str,
    message: &'static str,
    plural: &'static str,
    namespaced: bool,
    strategy: Arc<dyn Strategy>,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    columns: Vec<Column>,
    verbs: &'static [&'static str],
    subresources: Subresources,
    selectable: &'static [&'static str],
    stored_as: Option<Resource>,
    connect: Option<Arc<dyn Connect>>,
}

/// A row with all verbs, in a namespace, whose tables show name and age only.
fn row(group: &'static str, message: &'static str, plural: &'static str, strategy: impl Strategy) -> Row {
    Row {
        group,
        message,
        plural,
        namespaced: true,
        strategy: Arc::new(strategy),
        short_names: &[],
        categories: &[],
        columns: columns::plain(),
        verbs: ALL_VERBS,
        subresources: Subresources::default(),
        selectable: &[],
        stored_as: None,
        connect: None,
    }
}

impl Row {
    fn kind(self) -> Kind {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let kind = self.message.rsplit('.').next().unwrap_or_default();
        let version = Version {
            name: "v1".to_owned(),
            served: true,
            storage: true,
            deprecation_warning: None,
            columns: self.columns,
            subresources: self.subresources,
            verbs: self.verbs,
            schema: Arc::new(TypeSchema::new(self.message)),
            selectable_fields: owned(self.selectable),
        };
        Kind {
            group: self.group.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: self.plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: owned(self.short_names),
            categories: owned(self.categories),
            namespaced: self.namespaced,
            custom: false,
            versions: vec![version],
            strategy: self.strategy,
            stored_as: self.stored_as,
            connect: self.connect,
        }
    }
}

fn core_rows() -> Vec<Row> {
    let finalize =
        Subresource { name: "finalize", group_version: None, kind: "Namespace", verbs: UPDATE, connect: None };
    let token = Subresource {
        name: "token",
        group_version: Some(("authentication.k8s.io", "v1")),
        kind: "TokenRequest",
        verbs: CREATE,
        connect: Some(Arc::new(TokenRequest)),
    };
    vec![
        Row {
            namespaced: false,
            short_names: &["ns"],
            columns: columns::namespace(),
            verbs: NAMESPACE_VERBS,
            subresources: Subresources { status: true, scale: None, others: vec![finalize] },
            selectable: &["status.phase"],
            ..row("", "core/v1.Namespace", "namespaces", Namespace)
        },
        Row {
            short_names: &["cm"],
            columns: columns::config_map(),
            ..row("", "core/v1.ConfigMap", "configmaps", ConfigMap)
        },
        Row { columns: columns::secret(), selectable: &["type"], ..row("", "core/v1.Secret", "secrets", Secret) },
        Row {
            short_names: &["sa"],
            columns: columns::service_account(),
            subresources: Subresources { others: vec![token], ..Subresources::default() },
            ..row("", "core/v1.ServiceAccount", "serviceaccounts", ServiceAccount)
        },
        Row {
            short_names: &["ev"],
            columns: columns::event(),
            selectable: CORE_EVENT_FIELDS,
            ..row("", "core/v1.Event", "events", CoreEvent)
        },
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

fn group_rows() -> Vec<Row> {
    let rbac = "rbac.authorization.k8s.io";
    vec![
        Row {
            short_names: &["ev"],
            columns: columns::event(),
            selectable: NEW_EVENT_FIELDS,
            stored_as: Some(Resource::new("events", "")),
            ..row("events.k8s.io", "events/v1.Event", "events", NewEvent)
        },
        Row { columns: columns::lease(), ..row("coordination.k8s.io", "coordination/v1.Lease", "leases", Lease) },
        row(rbac, "rbac/v1.Role", "roles", Role { namespaced: true }),
        Row {
            columns: columns::binding("roleBinding"),
            ..row(rbac, "rbac/v1.RoleBinding", "rolebindings", Binding { namespaced: true })
        },
        Row { namespaced: false, ..row(rbac, "rbac/v1.ClusterRole", "clusterroles", Role { namespaced: false }) },
        Row {
            namespaced: false,
            columns: columns::binding("clusterRoleBinding"),
            ..row(rbac, "rbac/v1.ClusterRoleBinding", "clusterrolebindings", Binding { namespaced: false })
        },
        Row {
            namespaced: false,
            short_names: &["crd", "crds"],
            categories: &["api-extensions"],
            columns: columns::definition(),
            subresources: Subresources { status: true, ..Subresources::default() },
            ..row(
                "apiextensions.k8s.io",
                "apiextensions/v1.CustomResourceDefinition",
                "customresourcedefinitions",
                DefinitionStrategy,
            )
        },
    ]
}

fn review_rows() -> Vec<Row> {
    let (authentication, authorization) = ("authentication.k8s.io", "authorization.k8s.io");
    let review = |group, message, plural, connect: Arc<dyn Connect>| Row {
        namespaced: false,
        verbs: CREATE,
        connect: Some(connect),
        ..row(group, message, plural, Review)
    };
    vec![
        review(authentication, "authentication/v1.TokenReview", "tokenreviews", Arc::new(TokenReview)),
        review(
            authentication,
            "authentication/v1.SelfSubjectReview",
            "selfsubjectreviews",
            Arc::new(SelfSubjectReview),
        ),
        review(
            authorization,
            "authorization/v1.SubjectAccessReview",
            "subjectaccessreviews",
            Arc::new(SubjectAccessReview),
        ),
        review(
            authorization,
            "authorization/v1.SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            Arc::new(SelfSubjectAccessReview),
        ),
        Row {
            namespaced: true,
            ..review(
                authorization,
                "authorization/v1.LocalSubjectAccessReview",
                "localsubjectaccessreviews",
                Arc::new(LocalSubjectAccessReview),
            )
        },
        review(
            authorization,
            "authorization/v1.SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            Arc::new(SelfSubjectRulesReview),
        ),
    ]
}

/// Reviews are not stored; there is nothing to prepare or to keep.
#[derive(Debug)]
struct Review;

impl Strategy for Review {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::types;

    #[test]
    fn every_row_has_a_type_of_its_name_and_as_many_cells_as_columns() {
        for kind in kinds() {
            let version = &kind.versions[0];
            let message = types::message_of_kind(&version.api_version(&kind.group), &kind.kind);
            assert!(message.is_some(), "{} of {}", kind.kind, kind.group);
            let mut object = allotment_machinery::json::Map::new();
            version.schema.decode(&mut object).expect("an empty object is one of every kind");
            if let Some(cells) = kind.strategy.cells(&object, jiff::Timestamp::UNIX_EPOCH) {
                assert_eq!(cells.len(), version.columns.len(), "{}", kind.kind);
            }
        }
    }
}
