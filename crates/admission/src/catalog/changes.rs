//! How an object has to be changed before it is stored: by small edits, so that nothing else in it is written anew.

use std::collections::BTreeSet;

use allotment_api::catalog::{CloudProfileReference, FINALIZER, REMOVED_VERSIONS};
use allotment_core::catalog::VersionKey;
use allotment_machinery::apply::disown_absent;
use allotment_machinery::json::{Map, Value};

/// Where versions are.
const VERSIONS: [&[&str]; 2] = [&["spec", "kubernetes"], &["spec", "machineImages"]];

/// Edits of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Puts the finalizer on.
    pub(super) finalizer: bool,
    /// What the annotation of removed versions has to say, or that it has to go.
    pub(super) removed: Option<Option<String>>,
    /// Kubernetes versions that go.
    pub(super) kubernetes: BTreeSet<String>,
    /// Image versions that go.
    pub(super) images: BTreeSet<(String, String)>,
    /// How the reference to a profile is written.
    pub(super) reference: Option<(CloudProfileReference, Option<String>)>,
    /// What whoever wrote it should know of them.
    pub warnings: Vec<String>,
}

impl Changes {
    /// Whether nothing has to be changed.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    /// Takes these versions out.
    pub(super) fn take_out(&mut self, gone: &BTreeSet<VersionKey<'_>>) {
        for key in gone {
            match *key {
                VersionKey::Kubernetes(version) => _ = self.kubernetes.insert(version.to_owned()),
                VersionKey::Image(image, version) => _ = self.images.insert((image.to_owned(), version.to_owned())),
            }
        }
    }

    /// Makes the edits. What is not of the form that they need stays: its fields are refused by the schema.
    pub fn apply(&self, object: &mut Value) {
        let Some(object) = object.as_object_mut() else { return };
        if let Some(metadata) = object.object_mut("metadata") {
            self.edit_metadata(metadata);
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            self.drop_kubernetes(spec);
            self.drop_images(spec);
            self.refer(spec);
        }
        if !self.kubernetes.is_empty() || !self.images.is_empty() {
            // Whoever sent them would own them, and all others who apply them would be in conflict with it.
            disown_absent(object, &VERSIONS);
        }
    }

    fn edit_metadata(&self, metadata: &mut Map) {
        if self.finalizer {
            let finalizers = metadata.get_or_insert_with("finalizers", || Value::Array(Vec::new()));
            if finalizers.is_null() {
                *finalizers = Value::Array(Vec::new());
            }
            if let Value::Array(finalizers) = finalizers {
                finalizers.push(Value::from(FINALIZER));
            }
        }
        if let Some(removed) = &self.removed {
            if metadata.get("annotations").is_some_and(Value::is_null) {
                metadata.remove("annotations");
            }
            match removed {
                Some(text) => {
                    if let Some(annotations) = metadata.object_mut("annotations") {
                        annotations.insert(REMOVED_VERSIONS, text.as_str());
                    }
                }
                None => drop_annotation(metadata),
            }
        }
    }

    fn drop_kubernetes(&self, spec: &mut Map) {
        let goes = |entry: &Value| text(entry, "version").is_some_and(|version| self.kubernetes.contains(version));
        if self.kubernetes.is_empty() {
            return;
        }
        let Some(kubernetes) = spec.get_mut("kubernetes").and_then(Value::as_object_mut) else { return };
        if retain(kubernetes, "versions", |entry| !goes(entry)) {
            kubernetes.remove("versions");
        }
        if kubernetes.is_empty() {
            spec.remove("kubernetes");
        }
    }

    fn drop_images(&self, spec: &mut Map) {
        if self.images.is_empty() {
            return;
        }
        let mut emptied = BTreeSet::new();
        let images = spec.get_mut("machineImages").and_then(Value::as_array_mut);
        for (place, image) in images.into_iter().flatten().enumerate() {
            let Some(name) = text(image, "name").map(str::to_owned) else { continue };
            let stays = |entry: &Value| {
                !text(entry, "version").is_some_and(|version| self.images.contains(&(name.clone(), version.to_owned())))
            };
            if image.as_object_mut().is_some_and(|image| retain(image, "versions", stays)) {
                emptied.insert(place);
            }
        }
        let mut place = 0;
        let stays = |_: &Value| {
            place += 1;
            !emptied.contains(&(place - 1))
        };
        if retain(spec, "machineImages", stays) {
            spec.remove("machineImages");
        }
    }

    fn refer(&self, spec: &mut Map) {
        let Some((reference, legacy)) = &self.reference else { return };
        if spec.get("cloudProfile").is_some_and(Value::is_null) {
            spec.remove("cloudProfile");
        }
        if let Some(member) = spec.object_mut("cloudProfile") {
            member.insert("name", reference.name.as_str());
            if let Some(kind) = &reference.kind {
                member.insert("kind", kind.as_str());
            }
        }
        match legacy {
            Some(name) => _ = spec.insert("cloudProfileName", name.as_str()),
            None => _ = spec.remove("cloudProfileName"),
        }
    }
}

fn drop_annotation(metadata: &mut Map) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(REMOVED_VERSIONS);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn text<'a>(object: &'a Value, member: &str) -> Option<&'a str> {
    object.get(member).and_then(Value::as_str)
}

/// Keeps some items of a list; whether that left none of some.
fn retain(object: &mut Map, member: &str, stays: impl FnMut(&Value) -> bool) -> bool {
    let Some(items) = object.get_mut(member).and_then(Value::as_array_mut) else { return false };
    let before = items.len();
    items.retain(stays);
    before > 0 && items.is_empty()
}
