//! Schemas that the types alone do not say. Lists of versions are owned entry by entry in server-side apply: of an entry that the
//! platform takes out nobody is the owner then, and whoever applies the old manifest again has no conflict with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::{ImageVersion, Kubernetes, KubernetesVersion, MachineImage, Shared, bounds};

/// Of what of a version there are owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owned {
    /// Of each of its fields.
    Fields,
    /// Of the version as a whole: owners of each field of hundreds of them would cost more than they say.
    Whole,
}

/// `spec.kubernetes` of a PrivateCloudProfile.
pub(super) fn kubernetes(generator: &mut SchemaGenerator) -> Schema {
    kubernetes_of(generator, Owned::Fields)
}

/// `spec.machineImages` of a PrivateCloudProfile.
pub(super) fn machine_images(generator: &mut SchemaGenerator) -> Schema {
    machine_images_of(generator, Owned::Fields)
}

/// `spec.kubernetes` of a CloudProfile.
pub(super) fn whole_kubernetes(generator: &mut SchemaGenerator) -> Schema {
    kubernetes_of(generator, Owned::Whole)
}

/// `spec.machineImages` of a CloudProfile.
pub(super) fn whole_machine_images(generator: &mut SchemaGenerator) -> Schema {
    machine_images_of(generator, Owned::Whole)
}

fn kubernetes_of(generator: &mut SchemaGenerator, owned: Owned) -> Schema {
    let versions = by_key::<KubernetesVersion>(generator, "version", bounds::VERSIONS, owned);
    let mut schema = with_versions(Kubernetes::json_schema(generator), versions);
    schema.insert("nullable".into(), true.into());
    schema
}

fn machine_images_of(generator: &mut SchemaGenerator, owned: Owned) -> Schema {
    let versions = by_key::<ImageVersion>(generator, "version", bounds::VERSIONS, owned);
    let mut schema = by_key::<MachineImage>(generator, "name", bounds::IMAGES, Owned::Fields);
    if let Some(items) = schema.get("items").cloned().and_then(|items| Schema::try_from(items).ok()) {
        schema.insert("items".into(), with_versions(items, versions).into());
    }
    schema
}

/// A list whose entries are told apart by one of their fields.
fn by_key<T: JsonSchema>(generator: &mut SchemaGenerator, key: &str, most: u32, owned: Owned) -> Schema {
    let mut schema = Vec::<Shared<T>>::json_schema(generator);
    let mut items = T::json_schema(generator);
    items.insert("required".into(), json!([key]));
    if owned == Owned::Whole {
        items.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    schema.insert("items".into(), items.into());
    schema.insert("maxItems".into(), most.into());
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), json!([key]));
    schema
}

fn with_versions(mut schema: Schema, versions: Schema) -> Schema {
    let place = schema.get_mut("properties").and_then(|properties| properties.get_mut("versions"));
    if let Some(place) = place {
        let description = place.get("description").cloned().unwrap_or_default();
        *place = versions.into();
        place["description"] = description;
    }
    schema
}

/// Labels, or what of them is selected.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "maxProperties": bounds::FEW,
        "additionalProperties": {"type": "string", "maxLength": bounds::TEXT},
    })
}

/// Rules of a selector of labels.
pub(super) fn requirements(generator: &mut SchemaGenerator) -> Schema {
    let mut items = LabelSelectorRequirement::json_schema(generator);
    let mut bound = |path: &str, name: &str, most: u32| {
        if let Some(place) = items.pointer_mut(path).and_then(serde_json::Value::as_object_mut) {
            place.insert(name.to_owned(), most.into());
        }
    };
    bound("/properties/key", "maxLength", 2 * bounds::TEXT);
    bound("/properties/operator", "maxLength", bounds::TEXT);
    bound("/properties/values", "maxItems", bounds::FEW);
    bound("/properties/values/items", "maxLength", bounds::TEXT);
    json_schema!({"type": "array", "nullable": true, "maxItems": bounds::FEW, "items": items})
}
