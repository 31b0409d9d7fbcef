//! Whether two entries of the same key mean the same: quantities by value, what is unset by what it stands for, lists
//! without an order as sets. What differs is collected for whoever has to be told.

use std::collections::BTreeSet;

use allotment_api::catalog::{
    Amount, Conflict, ContainerRuntime, ImageVersion, KubernetesVersion, MachineImage, MachineType, Other, Region,
    VolumeType, Zone,
};
use serde::Serialize;
use serde_json::{Map, Value};

/// The architecture of what names none.
pub(super) const DEFAULT_ARCHITECTURE: &str = "amd64";
/// The container runtime of an image that names none.
const DEFAULT_RUNTIME: &str = "containerd";
/// The update strategy of an image that names none.
const DEFAULT_STRATEGY: &str = "major";

/// The longest value that a conflict shows, in bytes: fields that are not known may hold anything, and all conflicts stand in
/// one status.
const MOST_SHOWN: usize = 1024;

/// A value as conflicts show it: JSON, of a long one the beginning.
pub(super) fn shown(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > MOST_SHOWN {
        text.truncate(text.floor_char_boundary(MOST_SHOWN));
        text.push('…');
    }
    text
}

/// The fields in which two entries differ.
#[derive(Debug, Default)]
pub(super) struct Differences {
    parent: Map<String, Value>,
    private: Map<String, Value>,
}

impl Differences {
    fn field(&mut self, name: &str, same: bool, parent: impl Serialize, private: impl Serialize) {
        if !same {
            let value = |value: Result<Value, _>| value.unwrap_or_default();
            self.parent.insert(name.to_owned(), value(serde_json::to_value(parent)));
            self.private.insert(name.to_owned(), value(serde_json::to_value(private)));
        }
    }

    /// Fields that are not known: those that the private one has, and, where it has to say everything, all.
    fn other(&mut self, parent: &Other, private: &Other, everything: bool) {
        for (name, value) in private {
            self.field(name, parent.get(name) == Some(value), parent.get(name), value);
        }
        for (name, value) in parent.iter().filter(|(name, _)| everything && !private.contains_key(*name)) {
            self.field(name, false, value, Value::Null);
        }
    }

    /// The conflict at `path`; `None` where nothing differs.
    pub(super) fn conflict(self, path: impl FnOnce() -> String) -> Option<Conflict> {
        if self.private.is_empty() {
            return None;
        }
        let names: Vec<&str> = self.private.keys().map(String::as_str).collect();
        let (fields, differ) = match names.as_slice() {
            [one] => ((*one).to_owned(), "differs"),
            [all @ .., last] => (format!("{} and {last}", all.join(", ")), "differ"),
            [] => (String::new(), "differ"),
        };
        Some(Conflict {
            path: path(),
            reason: format!("{fields} {differ} from what the parent says, which holds"),
            parent_value: shown(&Value::Object(self.parent)),
            child_value: shown(&Value::Object(self.private)),
        })
    }
}

fn set<'a>(texts: &'a [String], default: &'a str) -> BTreeSet<&'a str> {
    if texts.is_empty() { BTreeSet::from([default]) } else { texts.iter().map(String::as_str).collect() }
}

/// Amounts of which none is nothing.
fn same_or_zero(left: Option<&Amount>, right: Option<&Amount>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => left == right,
        (Some(one), None) | (None, Some(one)) => one.is_zero(),
        (None, None) => true,
    }
}

pub(super) fn machine_types(parent: &MachineType, private: &MachineType) -> Differences {
    let mut found = Differences::default();
    found.field("cpu", parent.cpu == private.cpu, &parent.cpu, &private.cpu);
    found.field("gpu", same_or_zero(parent.gpu.as_ref(), private.gpu.as_ref()), &parent.gpu, &private.gpu);
    found.field("memory", parent.memory == private.memory, &parent.memory, &private.memory);
    usable(&mut found, parent.usable, private.usable);
    fn architecture(machine: &MachineType) -> &str {
        machine.architecture.as_deref().unwrap_or(DEFAULT_ARCHITECTURE)
    }
    let (own, other) = (architecture(parent), architecture(private));
    found.field("architecture", own == other, own, other);
    found.field("storage", parent.storage == private.storage, &parent.storage, &private.storage);
    found.other(&parent.other, &private.other, true);
    found
}

pub(super) fn volume_types(parent: &VolumeType, private: &VolumeType) -> Differences {
    let mut found = Differences::default();
    found.field("class", parent.class == private.class, &parent.class, &private.class);
    usable(&mut found, parent.usable, private.usable);
    let same = same_or_zero(parent.min_size.as_ref(), private.min_size.as_ref());
    found.field("minSize", same, &parent.min_size, &private.min_size);
    found.other(&parent.other, &private.other, true);
    found
}

fn usable(found: &mut Differences, parent: Option<bool>, private: Option<bool>) {
    let (own, other) = (parent.unwrap_or(true), private.unwrap_or(true));
    found.field("usable", own == other, own, other);
}

/// A private profile names a version to extend its date; what else it leaves out it takes over.
pub(super) fn kubernetes_versions(parent: &KubernetesVersion, private: &KubernetesVersion) -> Differences {
    let mut found = Differences::default();
    let same = private.classification.is_none() || parent.classification == private.classification;
    found.field("classification", same, &parent.classification, &private.classification);
    found.other(&parent.other, &private.other, false);
    found
}

/// The same for an image, its versions apart.
pub(super) fn images(parent: &MachineImage, private: &MachineImage) -> Differences {
    let mut found = Differences::default();
    let own = parent.update_strategy.as_deref().unwrap_or(DEFAULT_STRATEGY);
    let same = private.update_strategy.as_deref().is_none_or(|strategy| strategy == own);
    found.field("updateStrategy", same, own, &private.update_strategy);
    found.other(&parent.other, &private.other, false);
    found
}

/// The same for a version of an image.
pub(super) fn image_versions(parent: &ImageVersion, private: &ImageVersion) -> Differences {
    let mut found = Differences::default();
    let same = private.classification.is_none() || parent.classification == private.classification;
    found.field("classification", same, &parent.classification, &private.classification);
    if !private.architectures.is_empty() {
        let own = set(&parent.architectures, DEFAULT_ARCHITECTURE);
        let other = set(&private.architectures, DEFAULT_ARCHITECTURE);
        found.field("architectures", own == other, &own, &other);
    }
    if !private.cri.is_empty() {
        found.field("cri", same_runtimes(parent, private), &parent.cri, &private.cri);
    }
    let same = private.kubelet_version_constraint.is_none()
        || parent.kubelet_version_constraint == private.kubelet_version_constraint;
    found.field(
        "kubeletVersionConstraint",
        same,
        &parent.kubelet_version_constraint,
        &private.kubelet_version_constraint,
    );
    found.other(&parent.other, &private.other, false);
    found
}

/// Whether a version of an image that stands alone means what the parent's means: what it leaves out it does not take over.
pub(super) fn is_whole_image_version(parent: &ImageVersion, private: &ImageVersion) -> bool {
    set(&parent.architectures, DEFAULT_ARCHITECTURE) == set(&private.architectures, DEFAULT_ARCHITECTURE)
        && parent.classification == private.classification
        && parent.kubelet_version_constraint == private.kubelet_version_constraint
        && parent.other == private.other
        && match (parent.cri.is_empty(), private.cri.is_empty()) {
            (true, true) => true,
            (false, true) => same_runtimes(private, parent),
            (_, false) => same_runtimes(parent, private),
        }
}

/// Whether two images have the same runtimes, in whatever order.
fn same_runtimes(parent: &ImageVersion, private: &ImageVersion) -> bool {
    if parent.cri.is_empty() {
        return matches!(private.cri.as_slice(), [only] if only.name == DEFAULT_RUNTIME && only.other.is_empty());
    }
    let all_in = |inner: &[ContainerRuntime], outer: &[ContainerRuntime]| {
        inner.iter().all(|one| outer.iter().any(|other| same_runtime(one, other)))
    };
    all_in(&parent.cri, &private.cri) && all_in(&private.cri, &parent.cri)
}

/// Whether two runtimes mean the same: what they can run besides is a set.
fn same_runtime(left: &ContainerRuntime, right: &ContainerRuntime) -> bool {
    const BESIDE: &str = "containerRuntimes";
    let same = |name: &str| match (left.other.get(name), right.other.get(name)) {
        (Some(Value::Array(left)), Some(Value::Array(right))) if name == BESIDE => same_set(left, right),
        (Some(Value::Array(only)), None) | (None, Some(Value::Array(only))) if name == BESIDE => only.is_empty(),
        (left, right) => left == right,
    };
    left.name == right.name && left.other.keys().chain(right.other.keys()).all(|name| same(name))
}

/// Whether two lists have the same entries, however often and in whatever order.
fn same_set<T: PartialEq>(left: &[T], right: &[T]) -> bool {
    let within = |inner: &[T], outer: &[T]| inner.iter().all(|one| outer.contains(one));
    within(left, right) && within(right, left)
}

/// A region, its zones apart: named again to add zones, it takes over what it leaves out.
pub(super) fn regions(parent: &Region, private: &Region) -> Differences {
    let mut found = Differences::default();
    if let Some(labels) = &private.labels {
        let own = parent.labels.clone().unwrap_or_default();
        found.field("labels", own == *labels, &own, labels);
    }
    if let Some(restrictions) = &private.access_restrictions {
        let own = parent.access_restrictions.as_deref().unwrap_or_default();
        found.field("accessRestrictions", same_set(own, restrictions), own, restrictions);
    }
    found.other(&parent.other, &private.other, false);
    found
}

/// A zone has to say what it lacks: left out, it would be had.
pub(super) fn zones(parent: &Zone, private: &Zone) -> Differences {
    let mut found = Differences::default();
    let set = |texts: &[String]| texts.iter().cloned().collect::<BTreeSet<String>>();
    let (own, other) = (set(&parent.unavailable_machine_types), set(&private.unavailable_machine_types));
    found.field("unavailableMachineTypes", own == other, &own, &other);
    let (own, other) = (set(&parent.unavailable_volume_types), set(&private.unavailable_volume_types));
    found.field("unavailableVolumeTypes", own == other, &own, &other);
    found.other(&parent.other, &private.other, true);
    found
}
