//! The rows of the built-in kinds: what a row is made of. Which there are stands in the files below.

mod access;
mod base;
mod reviews;
mod workloads;

use std::sync::Arc;

use allotment_store::Resource;

use crate::builtin::print::columns;
use crate::builtin::rules::Rules;
use crate::builtin::types::schema::TypeSchema;
use crate::registry::{Connect, Kind, Scale, Strategy, Subresources, Version};

const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The built-in kinds, to make a registry of.
pub fn kinds() -> Vec<Arc<Kind>> {
    let rows = base::rows().into_iter().chain(access::rows()).chain(workloads::rows()).chain(reviews::rows());
    rows.map(|row| Arc::new(row.kind())).collect()
}

/// The parts of a row that differ.
struct Row {
    group: &'static str,
    version: &'static str,
    deprecated: Option<&'static str>,
    message: &'static str,
    plural: &'static str,
    namespaced: bool,
    strategy: Arc<dyn Strategy>,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    verbs: &'static [&'static str],
    subresources: Subresources,
    selectable: &'static [&'static str],
    stored_as: Option<Resource>,
    connect: Option<Arc<dyn Connect>>,
}

/// A row with all verbs, in a namespace.
fn row(group: &'static str, message: &'static str, plural: &'static str, strategy: impl Strategy) -> Row {
    Row {
        group,
        version: "v1",
        deprecated: None,
        message,
        plural,
        namespaced: true,
        strategy: Arc::new(strategy),
        short_names: &[],
        categories: &[],
        verbs: ALL_VERBS,
        subresources: Subresources::default(),
        selectable: &[],
        stored_as: None,
        connect: None,
    }
}

/// A row whose particulars are data.
fn ruled(group: &'static str, plural: &'static str, rules: Rules) -> Row {
    row(group, rules.message, plural, rules)
}

/// A `/status` and nothing else.
fn status() -> Subresources {
    Subresources { status: true, ..Subresources::default() }
}

/// A `/status`, and a `/scale` over `spec.replicas`.
fn scaled() -> Subresources {
    let scale = Scale {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: Some(".spec.selector".to_owned()),
    };
    Subresources { status: true, scale: Some(scale), ..Subresources::default() }
}

impl Row {
    fn kind(self) -> Kind {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let kind = self.message.rsplit('.').next().unwrap_or_default();
        let version = Version {
            name: self.version.to_owned(),
            served: true,
            storage: true,
            deprecation_warning: self.deprecated.map(str::to_owned),
            columns: columns::of(self.plural, self.group),
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
