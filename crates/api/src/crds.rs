//! The CustomResourceDefinitions of our kinds, as they are installed and committed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::catalog::{CloudProfile, PrivateCloudProfile, Shoot};
use crate::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ExistingConfig,
    KindConfig, ProviderConfig, Purpose, TraitEquivalence,
};

/// Every definition, in the order in which they are installed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [request_crds(), catalog_crds()].concat()
}

/// The definitions of the catalog's kinds, which another system may have there before us.
pub fn catalog_crds() -> Vec<CustomResourceDefinition> {
    let mut crds = tidied(vec![CloudProfile::crd(), PrivateCloudProfile::crd(), Shoot::crd()]);
    schemas(&mut crds).for_each(without_defaults);
    crds
}

/// All other definitions.
pub fn request_crds() -> Vec<CustomResourceDefinition> {
    tidied(vec![
        ClusterProvider::crd(),
        ProviderConfig::crd(),
        ExistingConfig::crd(),
        KindConfig::crd(),
        Purpose::crd(),
        TraitEquivalence::crd(),
        Cluster::crd(),
        ClusterRequest::crd(),
        also_served_as_v1(ClusterRequestGrant::crd()),
        also_served_as_v1(AccessRequest::crd()),
        AccessPolicy::crd(),
    ])
}

fn tidied(mut crds: Vec<CustomResourceDefinition>) -> Vec<CustomResourceDefinition> {
    schemas(&mut crds).for_each(tidy);
    crds
}

fn schemas(crds: &mut [CustomResourceDefinition]) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let versions = crds.iter_mut().flat_map(|crd| &mut crd.spec.versions);
    versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// Serves the schema as v1 too, beside the stored v1alpha1. Objects convert without change.
fn also_served_as_v1(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut again = crd.spec.versions.clone();
    for version in &mut again {
        version.name = "v1".to_owned();
        version.storage = false;
    }
    crd.spec.versions.extend(again);
    crd
}

/// Takes Rust's names out of a schema and the line breaks of source code out of its descriptions.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.title = None;
    if let Some(description) = &mut schema.description {
        *description = description.replace('\n', " ");
    }
    below(schema).for_each(tidy);
}

/// What nobody wrote is not stored: a profile reads as it was written, and what lacks is told by admission.
fn without_defaults(schema: &mut JSONSchemaProps) {
    schema.default = None;
    below(schema).for_each(without_defaults);
}

fn below(schema: &mut JSONSchemaProps) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let items = match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(&mut **items),
        Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
    };
    let values = match &mut schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Some(&mut **values),
        Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
    };
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).chain(items).chain(values)
}

/// Each definition with the name of its file, as YAML.
pub fn crds_yaml() -> Vec<(String, String)> {
    crds()
        .iter()
        .map(|crd| {
            let name = crd.metadata.name.clone().unwrap_or_default();
            let value = serde_json::to_value(crd).unwrap_or_default();
            (format!("{name}.yaml"), crate::yaml::to_yaml(&value))
        })
        .collect()
}
