//! What may stand in an object, as its definition says: what an API server refuses before anybody is asked for admission.

use allotment_api::catalog_crds;
use allotment_machinery::field::{FieldError, FieldErrorKind, Path};
use allotment_machinery::json;
use allotment_machinery::schema::{Schema, apply_defaults, normalise_numbers, parse_structural, prune, validate};
use anyhow::anyhow;

use crate::commands::manifests::{Document, Kind};

/// The definitions of profiles.
pub(super) struct Bounds {
    public: Schema,
    private: Schema,
}

impl Bounds {
    /// Those of this program.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Bounds { public: schema("CloudProfile")?, private: schema("PrivateCloudProfile")? })
    }

    /// In what a profile is not as they say, taken as kubectl sends it and an API server takes it: `5.0` is `5`, unknown
    /// fields and the status are left out. A kind of another system is held to how much may stand in it alone.
    pub(super) fn faults(&self, document: &Document) -> Vec<FieldError> {
        let schema = match document.kind {
            Kind::Public => &self.public,
            Kind::Private | Kind::Namespaced => &self.private,
            Kind::Shoot => return Vec::new(),
        };
        let Some(mut object) = document.value.as_object().cloned() else { return Vec::new() };
        object.remove("status");
        normalise_numbers(&mut object);
        prune(schema, &mut object);
        apply_defaults(schema, &mut object);
        let is_bound = |error: &FieldError| matches!(error.kind, FieldErrorKind::TooLong | FieldErrorKind::TooMany(_));
        let is_told = |error: &FieldError| document.kind != Kind::Namespaced || is_bound(error);
        validate(schema, &object).into_iter().filter(is_told).collect()
    }
}

fn schema(kind: &str) -> anyhow::Result<Schema> {
    let crds = catalog_crds();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == kind);
    let version = crd.and_then(|crd| crd.spec.versions.first()).and_then(|version| version.schema.as_ref());
    let written = json::parse(&serde_json::to_vec(&version.and_then(|schema| schema.open_api_v3_schema.as_ref()))?)?;
    parse_structural(&written, &Path::new("schema")).map_err(|errors| {
        anyhow!(
            "the definition of {kind} cannot be read: {}",
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        )
    })
}
