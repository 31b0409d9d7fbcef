//! The verbs that a change of a private profile needs beside `create` and `update`, and how a denial reads.

use allotment_api::catalog::{GROUP, Kubernetes, MachineImage, PrivateCloudProfileSpec, Shared};
use serde::Serialize;

/// A verb that guards a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Guards `spec.kubernetes`.
    Kubernetes,
    /// Guards `spec.machineImages`.
    MachineImages,
}

impl Verb {
    /// As rules name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Kubernetes => "modify-spec-kubernetes",
            Verb::MachineImages => "modify-spec-machineImages",
        }
    }

    /// The field that it guards.
    pub fn field(self) -> &'static str {
        match self {
            Verb::Kubernetes => ".spec.kubernetes",
            Verb::MachineImages => ".spec.machineImages",
        }
    }
}

/// The verbs for a change from `old`, `None` for a create, to `new`, both without expired entries (`settled`). Every way in
/// which a field changes counts, its removal as well.
pub fn needed(old: Option<&PrivateCloudProfileSpec>, new: &PrivateCloudProfileSpec) -> Vec<Verb> {
    fn kubernetes(spec: &PrivateCloudProfileSpec) -> Option<&Shared<Kubernetes>> {
        spec.kubernetes.as_ref().filter(|kubernetes| !kubernetes.versions.is_empty() || !kubernetes.other.is_empty())
    }
    fn images(spec: &PrivateCloudProfileSpec) -> &[Shared<MachineImage>] {
        &spec.machine_images
    }
    // As it is written: that two texts mean the same date makes them no less different.
    fn text(value: impl Serialize) -> Option<serde_json::Value> {
        serde_json::to_value(value).ok()
    }
    let mut verbs = Vec::new();
    if text(old.and_then(kubernetes)) != text(kubernetes(new)) {
        verbs.push(Verb::Kubernetes);
    }
    if text(old.map(images).unwrap_or_default()) != text(images(new)) {
        verbs.push(Verb::MachineImages);
    }
    verbs
}

/// Why `user` may not make a change, for all verbs that they lack, with the rule that would allow it. `has_source_rule`:
/// a rule is bound that names the resource as the proposal of private profiles did, which means another one.
pub fn denial(user: &str, lacking: &[Verb], has_source_rule: bool) -> String {
    let fields = lacking
        .iter()
        .map(|verb| format!("user {user:?} is not allowed to modify {} for \"privatecloudprofiles\"", verb.field()));
    let rules = lacking.iter().map(|verb| {
        format!("{{apiGroups: [\"{GROUP}\"], resources: [\"privatecloudprofiles\"], verbs: [\"{}\"]}}", verb.as_str())
    });
    let mut text = fields.collect::<Vec<_>>().join("; ");
    text.push_str("; a role with this would allow it: ");
    text.push_str(&rules.collect::<Vec<_>>().join(" and "));
    if has_source_rule {
        text.push_str("; a bound rule has apiGroups: [\"\"], resources: [\"privatecloudprofile\"]");
    }
    text
}
