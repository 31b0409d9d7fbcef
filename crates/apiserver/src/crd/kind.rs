//! From a definition to a row of the registry.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::sync::Arc;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::gotext::go_quote;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::schema::{Interner, parse_structural};
use allotment_pki::token_digest;
use allotment_store::Entry;
use base64::Engine;

use super::scaled;
use super::schema::{CustomSchema, Source};
use super::spec::{self, VersionSpec};
use super::status::is_terminating;
use crate::registry::{Column, Kind, Operation, Scale, Strategy, Subresources, Version, Warnings};

/// The hooks of kinds that definitions make.
#[derive(Debug)]
pub struct CustomStrategy {
    /// `apiVersion` of the versions whose status is written through the subresource alone.
    with_status: Vec<String>,
    /// `apiVersion` of the versions that have `/scale`, and where its numbers lie.
    scales: Vec<(String, Scale)>,
    /// Whether the definition is being deleted. An object made now would outlive it.
    terminating: bool,
}

impl CustomStrategy {
    fn keeps_status(&self, object: &Map) -> bool {
        let api_version = spec::text(object, "apiVersion");
        self.with_status.iter().any(|have| have == api_version)
    }
}

impl Strategy for CustomStrategy {
    fn counts_generation(&self) -> bool {
        true
    }

    fn updates_unconditionally(&self) -> bool {
        false
    }

    fn takes_new(&self) -> bool {
        !self.terminating
    }

    /// Finalizers without a domain are taken, but not recommended.
    fn warnings(&self, operation: Operation<'_>, object: &Map) -> Warnings {
        let old = match operation {
            Operation::Create => None,
            Operation::Update { old, .. } => Some(spec::list(spec::map(old, "metadata"), "finalizers")),
        };
        let old: BTreeSet<&str> = old.unwrap_or_default().iter().filter_map(Value::as_str).collect();
        let added = spec::texts(spec::map(object, "metadata"), "finalizers")
            .filter(|name| !name.contains('/') && !old.contains(name));
        added
            .map(|name| {
                format!(
                    "metadata.finalizers: {}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                     with other finalizer writers",
                    go_quote(name)
                )
            })
            .collect()
    }

    fn validate(&self, operation: Operation<'_>, object: &Map) -> Vec<FieldError> {
        let api_version = spec::text(object, "apiVersion");
        let Some((_, scale)) = self.scales.iter().find(|(have, _)| have == api_version) else { return Vec::new() };
        scaled::check(scale, matches!(operation, Operation::Update { subresource: "status", .. }), object)
    }

    fn prepare(&self, operation: Operation<'_>, object: &mut Map) {
        if !self.keeps_status(object) {
            return;
        }
        let old = match operation {
            Operation::Create => None,
            Operation::Update { old, subresource: "" } => old.get("status"),
            Operation::Update { .. } => return,
        };
        match old {
            Some(status) => object.insert("status", status.clone()),
            None => object.remove("status"),
        };
    }
}

/// Verbs of custom resources, in the order in which discovery lists them.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The row that a definition makes, by the names that it got. Schemas are shared through `interner`;
/// `stored` is the definition as the store has it.
///
/// # Errors
/// What is wrong with its schemas; nothing if the definition was validated when it was written.
pub fn kind_from_definition(
    definition: &Map,
    stored: Option<&Arc<Entry>>,
    interner: &Interner,
) -> Result<Kind, Vec<FieldError>> {
    let mut versions = Vec::new();
    for (index, version) in spec::versions(definition).enumerate() {
        let path = Path::new("spec").child("versions").index(index).child("schema").child("openAPIV3Schema");
        let schema = match version.schema() {
            Some(schema) => parse_structural(schema, &path)?,
            None => return Err(vec![FieldError::required(&path, "")]),
        };
        versions.push((version, interner.intern(schema)));
    }
    let storage = versions.iter().find(|(version, _)| version.is_storage()).map(|(_, schema)| Arc::clone(schema));
    let Some(storage) = storage else {
        let path = Path::new("spec").child("versions");
        return Err(vec![FieldError::required(&path, "one version has to be the storage version")]);
    };
    // Objects may have been written under an older schema, or through another version, which fills in other defaults.
    let generation = spec::map(definition, "metadata").get("generation").and_then(Value::as_i64).unwrap_or(1);
    let changed = generation > 1 || versions.iter().any(|(_, own)| !Arc::ptr_eq(own, &storage));
    versions.sort_by(|(left, _), (right, _)| compare_versions(left.name(), right.name()));
    let names = accepted_names(definition);
    let list = |name: &str| spec::texts(names, name).map(str::to_owned).collect();
    let group = spec::group(definition);
    let with_status = versions.iter().filter(|(version, _)| version.has_status());
    let with_status = with_status.map(|(version, _)| format!("{group}/{}", version.name())).collect();
    let scales = versions.iter().filter_map(|(version, _)| Some((*version, scale_of(*version)?)));
    let scales = scales.map(|(version, scale)| (format!("{group}/{}", version.name()), scale)).collect();
    Ok(Kind {
        group: group.to_owned(),
        kind: spec::text(names, "kind").to_owned(),
        list_kind: spec::text(names, "listKind").to_owned(),
        plural: spec::text(names, "plural").to_owned(),
        singular: spec::text(names, "singular").to_owned(),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: spec::text(spec::of(definition), "scope") == "Namespaced",
        custom: true,
        versions: versions
            .into_iter()
            .map(|(version, own)| {
                let schema =
                    CustomSchema { own, storage: Arc::clone(&storage), changed, source: source(stored, version) };
                row(definition, version, schema)
            })
            .collect(),
        strategy: Arc::new(CustomStrategy { with_status, scales, terminating: is_terminating(definition) }),
        stored_as: None,
        connect: None,
    })
}

/// The names that a definition got, or asks for where it got none yet.
fn accepted_names(definition: &Map) -> &Map {
    let accepted = spec::map(spec::map(definition, "status"), "acceptedNames");
    if spec::text(accepted, "kind").is_empty() { spec::names(definition) } else { accepted }
}

fn scale_of(version: VersionSpec<'_>) -> Option<Scale> {
    version.subresource("scale").map(|scale| Scale {
        spec_replicas: spec::text(scale, "specReplicasPath").to_owned(),
        status_replicas: spec::text(scale, "statusReplicasPath").to_owned(),
        label_selector: Some(spec::text(scale, "labelSelectorPath")).filter(|path| !path.is_empty()).map(str::to_owned),
    })
}

fn row(definition: &Map, version: VersionSpec<'_>, schema: CustomSchema) -> Version {
    let scale = scale_of(version);
    let selectable = spec::list(version.0, "selectableFields").iter().filter_map(Value::as_object);
    Version {
        name: version.name().to_owned(),
        served: version.flag("served"),
        storage: version.is_storage(),
        deprecation_warning: deprecation_warning(definition, version),
        columns: columns(version),
        subresources: Subresources { status: version.has_status(), scale, others: Vec::new() },
        verbs: VERBS,
        schema: Arc::new(schema),
        selectable_fields: selectable
            .map(|field| spec::text(field, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
    }
}

fn source(stored: Option<&Arc<Entry>>, version: VersionSpec<'_>) -> Source {
    let digest = token_digest(&version.schema().map(Value::to_vec).unwrap_or_default());
    let name = base64::engine::general_purpose::STANDARD.encode(digest);
    Source { definition: stored.map(Arc::clone), version: version.name().into(), name: name.into() }
}

fn deprecation_warning(definition: &Map, version: VersionSpec<'_>) -> Option<String> {
    if !version.flag("deprecated") {
        return None;
    }
    let given = version.0.get("deprecationWarning").and_then(Value::as_str);
    Some(given.map_or_else(
        || {
            let (kind, group) = (spec::text(spec::names(definition), "kind"), spec::group(definition));
            let instead = |other: &VersionSpec<'_>| other.flag("served") && !other.flag("deprecated");
            let newest = spec::versions(definition)
                .filter(instead)
                .map(VersionSpec::name)
                .filter(|other| compare_versions(other, version.name()) == Ordering::Less)
                .min_by(|left, right| compare_versions(left, right));
            let instead = newest.map(|name| format!("; use {group}/{name} {kind}")).unwrap_or_default();
            format!("{group}/{} {kind} is deprecated{instead}", version.name())
        },
        str::to_owned,
    ))
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although \
    some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily \
    intended for creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was \
    created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this \
    value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More \
    info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The name, then the columns of the version, or the age where it has none.
fn columns(version: VersionSpec<'_>) -> Vec<Column> {
    let column = |name: &str, kind: &str, format: &str, description: String, priority: i64, json_path: &str| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        description,
        priority,
        json_path: json_path.to_owned(),
    };
    let mut columns = vec![column("Name", "string", "name", NAME_DESCRIPTION.to_owned(), 0, ".metadata.name")];
    for given in spec::list(version.0, "additionalPrinterColumns").iter().filter_map(Value::as_object) {
        let json_path = spec::text(given, "jsonPath");
        let description = match spec::text(given, "description") {
            "" => format!("Custom resource definition column (in JSONPath format): {json_path}"),
            text => text.to_owned(),
        };
        let priority = given.get("priority").and_then(Value::as_i64).unwrap_or(0);
        let (name, kind) = (spec::text(given, "name"), spec::text(given, "type"));
        columns.push(column(name, kind, spec::text(given, "format"), description, priority, json_path));
    }
    if columns.len() == 1 {
        columns.push(column("Age", "date", "", AGE_DESCRIPTION.to_owned(), 0, ".metadata.creationTimestamp"));
    }
    columns
}

/// How far along a version is: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`; others last, by name.
fn compare_versions(left: &str, right: &str) -> Ordering {
    match (stability(left), stability(right)) {
        (Some(left), Some(right)) => Reverse(left).cmp(&Reverse(right)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Stage (2 is final), major and minor number of a version named as Kubernetes names its own.
fn stability(name: &str) -> Option<(u8, u32, u32)> {
    let number =
        |text: &str| text.parse::<u32>().ok().filter(|_| text.starts_with(|first| ('1'..='9').contains(&first)));
    let rest = name.strip_prefix('v')?;
    for (word, stage) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stage, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}
