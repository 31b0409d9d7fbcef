//! How much may stand in an object, as its definition says: what an API server refuses before anybody is asked for admission.

use allotment_api::catalog_crds;
use allotment_machinery::field::{FieldError, FieldErrorKind, Path};
use allotment_machinery::json;
use allotment_machinery::schema::{Schema, parse_structural, validate};
use anyhow::anyhow;

use super::files::{Document, Kind};

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

    /// In what a profile goes beyond them. Whatever else is wrong with it others tell, in words of their own.
    pub(super) fn exceeded(&self, document: &Document) -> Vec<FieldError> {
        let schema = match document.kind {
            Kind::Public => &self.public,
            Kind::Private | Kind::Namespaced => &self.private,
            Kind::Shoot => return Vec::new(),
        };
        let Some(object) = document.value.as_object() else { return Vec::new() };
        let errors = validate(schema, object).into_iter();
        errors.filter(|error| matches!(error.kind, FieldErrorKind::TooLong | FieldErrorKind::TooMany(_))).collect()
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
