//! In what two profiles differ, by entry: what is added, taken out or changed, each by the key of its entry. Meant for a
//! CloudProfile and what a private one renders to over it, which share most of their entries: those are not looked into.

use std::cell::LazyCell;

use allotment_api::catalog::{
    CloudProfileSpec, ImageVersion, Kubernetes, KubernetesVersion, Limits, MachineImage, MachineType, Other, Region,
    Shared, VolumeType, Zone,
};
use serde::Serialize;
use serde_json::Value;

use super::keyed::Keyed;
use super::versions::kubernetes_versions;

/// What became of a field or an entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub enum Change {
    /// It is new.
    Added {
        /// What it is.
        value: Value,
    },
    /// It is not there any more.
    Removed {
        /// What it was.
        value: Value,
    },
    /// It has another value.
    Changed {
        /// What it was.
        before: Value,
        /// What it is.
        after: Value,
    },
}

/// One thing in which two profiles differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Which field or entry, by keys: `spec.machineTypes[m5.xlarge]`.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub change: Change,
}

/// In what `after` differs from `before`, in the order of a profile's fields and of their entries. Where an entry stands in
/// its list says nothing; quantities and dates are compared by value.
pub fn diff(before: &CloudProfileSpec, after: &CloudProfileSpec) -> Vec<Difference> {
    let mut found = Found::default();
    found.field("spec", "type", some(&before.type_), some(&after.type_));
    found.kubernetes(before.kubernetes.as_ref(), after.kubernetes.as_ref());
    let lists = (before.machine_images.as_slice(), after.machine_images.as_slice());
    found.entries("spec.machineImages", lists, |entry| &entry.name, Found::image);
    let lists = (before.machine_types.as_slice(), after.machine_types.as_slice());
    found.entries("spec.machineTypes", lists, |entry| &entry.name, Found::machine_type);
    let lists = (before.volume_types.as_slice(), after.volume_types.as_slice());
    found.entries("spec.volumeTypes", lists, |entry| &entry.name, Found::volume_type);
    let lists = (before.regions.as_slice(), after.regions.as_slice());
    found.entries("spec.regions", lists, |entry| &entry.name, Found::region);
    found.field("spec", "caBundle", before.ca_bundle.as_ref(), after.ca_bundle.as_ref());
    found.field("spec", "seedSelector", before.seed_selector.as_ref(), after.seed_selector.as_ref());
    found.field("spec", "providerConfig", before.provider_config.as_ref(), after.provider_config.as_ref());
    found.field("spec", "bastion", before.bastion.as_ref(), after.bastion.as_ref());
    found.limits(before.limits.as_ref(), after.limits.as_ref());
    found.other("spec", &before.other, &after.other);
    found.differences
}

/// A text that is there.
fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A list that is there.
fn list<T>(list: &[T]) -> Option<&[T]> {
    Some(list).filter(|list| !list.is_empty())
}

fn value(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// What was found so far.
#[derive(Default)]
struct Found {
    differences: Vec<Difference>,
}

impl Found {
    fn differs(&mut self, path: String, before: Option<Value>, after: Option<Value>) {
        let change = match (before, after) {
            (None, None) => return,
            (None, Some(value)) => Change::Added { value },
            (Some(value), None) => Change::Removed { value },
            (Some(before), Some(after)) => Change::Changed { before, after },
        };
        self.differences.push(Difference { path, change });
    }

    fn field<T: PartialEq + Serialize>(&mut self, path: &str, name: &str, before: Option<T>, after: Option<T>) {
        if before != after {
            self.differs(format!("{path}.{name}"), before.map(value), after.map(value));
        }
    }

    fn other(&mut self, path: &str, before: &Other, after: &Other) {
        for (name, own) in before {
            self.field(path, name, Some(own), after.get(name));
        }
        for (name, own) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
            self.field(path, name, None, Some(own));
        }
    }

    /// Two lists by key; `inside` looks into what both have.
    fn entries<T: Serialize>(
        &mut self,
        path: &str,
        (before, after): (&[T], &[T]),
        key: fn(&T) -> &str,
        inside: fn(&mut Self, &str, &T, &T),
    ) {
        let (were, are) = (LazyCell::new(|| Keyed::new(before, key)), LazyCell::new(|| Keyed::new(after, key)));
        // Most stand where they stood.
        let stands = |list: &[T], at: usize, wanted: &str| list.get(at).is_some_and(|entry| key(entry) == wanted);
        for (at, own) in before.iter().enumerate() {
            let wanted = key(own);
            let counterpart = if stands(after, at, wanted) { Some(at) } else { are.find(after, key, wanted) };
            match counterpart.and_then(|at| after.get(at)) {
                Some(new) => inside(self, &format!("{path}[{wanted}]"), own, new),
                None => self.differs(format!("{path}[{wanted}]"), Some(value(own)), None),
            }
        }
        for (at, new) in after.iter().enumerate() {
            let wanted = key(new);
            if !stands(before, at, wanted) && were.find(before, key, wanted).is_none() {
                self.differs(format!("{path}[{wanted}]"), None, Some(value(new)));
            }
        }
    }

    fn kubernetes(&mut self, before: Option<&Shared<Kubernetes>>, after: Option<&Shared<Kubernetes>>) {
        if let (Some(before), Some(after)) = (before, after)
            && before.is_same(after)
        {
            return;
        }
        let lists = (kubernetes_versions(before), kubernetes_versions(after));
        self.entries("spec.kubernetes.versions", lists, |entry| &entry.version, Found::kubernetes_version);
        let none = Other::new();
        let (before, after) = (before.map_or(&none, |own| &own.other), after.map_or(&none, |new| &new.other));
        self.other("spec.kubernetes", before, after);
    }

    fn kubernetes_version(
        &mut self,
        path: &str,
        before: &Shared<KubernetesVersion>,
        after: &Shared<KubernetesVersion>,
    ) {
        if before.is_same(after) {
            return;
        }
        self.field(path, "expirationDate", before.expiration_date.as_ref(), after.expiration_date.as_ref());
        self.field(path, "classification", before.classification.as_ref(), after.classification.as_ref());
        self.other(path, &before.other, &after.other);
    }

    fn image(&mut self, path: &str, before: &Shared<MachineImage>, after: &Shared<MachineImage>) {
        if before.is_same(after) {
            return;
        }
        self.field(path, "updateStrategy", before.update_strategy.as_ref(), after.update_strategy.as_ref());
        let lists = (before.versions.as_slice(), after.versions.as_slice());
        self.entries(&format!("{path}.versions"), lists, |entry| &entry.version, Found::image_version);
        self.other(path, &before.other, &after.other);
    }

    fn image_version(&mut self, path: &str, before: &Shared<ImageVersion>, after: &Shared<ImageVersion>) {
        if before.is_same(after) {
            return;
        }
        self.field(path, "expirationDate", before.expiration_date.as_ref(), after.expiration_date.as_ref());
        self.field(path, "classification", before.classification.as_ref(), after.classification.as_ref());
        self.field(path, "cri", list(&before.cri), list(&after.cri));
        self.field(path, "architectures", list(&before.architectures), list(&after.architectures));
        let constraint = |entry: &Shared<ImageVersion>| entry.kubelet_version_constraint.clone();
        self.field(path, "kubeletVersionConstraint", constraint(before), constraint(after));
        self.other(path, &before.other, &after.other);
    }

    fn machine_type(&mut self, path: &str, before: &Shared<MachineType>, after: &Shared<MachineType>) {
        if before.is_same(after) {
            return;
        }
        self.field(path, "cpu", before.cpu.as_ref(), after.cpu.as_ref());
        self.field(path, "gpu", before.gpu.as_ref(), after.gpu.as_ref());
        self.field(path, "memory", before.memory.as_ref(), after.memory.as_ref());
        self.field(path, "usable", before.usable, after.usable);
        self.field(path, "architecture", before.architecture.as_ref(), after.architecture.as_ref());
        self.field(path, "storage", before.storage.as_ref(), after.storage.as_ref());
        self.other(path, &before.other, &after.other);
    }

    fn volume_type(&mut self, path: &str, before: &Shared<VolumeType>, after: &Shared<VolumeType>) {
        if before.is_same(after) {
            return;
        }
        self.field(path, "class", some(&before.class), some(&after.class));
        self.field(path, "usable", before.usable, after.usable);
        self.field(path, "minSize", before.min_size.as_ref(), after.min_size.as_ref());
        self.other(path, &before.other, &after.other);
    }

    fn region(&mut self, path: &str, before: &Shared<Region>, after: &Shared<Region>) {
        if before.is_same(after) {
            return;
        }
        let lists = (before.zones.as_slice(), after.zones.as_slice());
        self.entries(&format!("{path}.zones"), lists, |zone| &zone.name, Found::zone);
        self.field(path, "labels", before.labels.as_ref(), after.labels.as_ref());
        let restrictions = |region: &Shared<Region>| region.access_restrictions.clone();
        self.field(path, "accessRestrictions", restrictions(before), restrictions(after));
        self.other(path, &before.other, &after.other);
    }

    fn zone(&mut self, path: &str, before: &Zone, after: &Zone) {
        let (own, new) = (&before.unavailable_machine_types, &after.unavailable_machine_types);
        self.field(path, "unavailableMachineTypes", list(own), list(new));
        let (own, new) = (&before.unavailable_volume_types, &after.unavailable_volume_types);
        self.field(path, "unavailableVolumeTypes", list(own), list(new));
        self.other(path, &before.other, &after.other);
    }

    fn limits(&mut self, before: Option<&Limits>, after: Option<&Limits>) {
        let most = |limits: Option<&Limits>| limits.and_then(|limits| limits.max_nodes_total);
        self.field("spec.limits", "maxNodesTotal", most(before), most(after));
        let none = Other::new();
        let (before, after) = (before.map_or(&none, |own| &own.other), after.map_or(&none, |new| &new.other));
        self.other("spec.limits", before, after);
    }
}
