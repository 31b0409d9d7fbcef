//! What the status of a definition says: which names it got, whether its kind is served, how far its
//! deletion is. Kubernetes' controllers write these one after the other; here they come with the write
//! of the definition itself, so that the kind is served when that returns.

use std::collections::BTreeSet;
use std::sync::Arc;

use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::metadata_mut;
use allotment_store::Entry;

use super::spec;
use crate::registry::Registry;

/// The finalizer that keeps a definition until its instances are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The annotation by which the Kubernetes community approves of a definition in one of its groups.
pub(super) const APPROVAL_ANNOTATION: &str = "api-approved.kubernetes.io";

/// Names that other kinds of the same group have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesInUse {
    /// Plurals, singulars and short names.
    pub resources: BTreeSet<String>,
    /// Kinds and list kinds.
    pub kinds: BTreeSet<String>,
}

impl NamesInUse {
    /// The names that kinds of `group` have, built-in ones and those that definitions among `entries` got,
    /// served or not; without those of the definition called `own`.
    pub(crate) fn in_group(group: &str, own: &str, registry: &Registry, entries: &[Arc<Entry>]) -> Self {
        let mut names = NamesInUse::default();
        for kind in registry.kinds().filter(|kind| !kind.custom && kind.group == group) {
            names.resources.extend([kind.plural.clone(), kind.singular.clone()]);
            names.resources.extend(kind.short_names.iter().cloned());
            names.kinds.extend([kind.kind.clone(), kind.list_kind.clone()]);
        }
        // A definition is called PLURAL.GROUP, so that others need not be read.
        let others = entries.iter().filter(|entry| {
            let of_group = entry.name.strip_suffix(group).is_some_and(|front| front.ends_with('.'));
            of_group && *entry.name != *own
        });
        for definition in others.filter_map(|entry| json::parse(&entry.body()).ok()) {
            let Some(accepted) = definition.at(&["status", "acceptedNames"]).and_then(Value::as_object) else {
                continue;
            };
            if definition.at(&["spec", "group"]).and_then(Value::as_str) == Some(group) {
                names.take(accepted);
            }
        }
        names
    }

    fn take(&mut self, accepted: &Map) {
        let text = |name: &str| Some(spec::text(accepted, name)).filter(|text| !text.is_empty()).map(str::to_owned);
        self.resources.extend(["plural", "singular"].into_iter().filter_map(text));
        self.resources.extend(spec::texts(accepted, "shortNames").map(str::to_owned));
        self.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
    }
}

/// Whether a definition asks for names that others had.
pub(crate) fn wants_names(definition: &Map) -> bool {
    spec::list(spec::map(definition, "status"), "conditions").iter().any(|condition| {
        let is = |name: &str, value: &str| condition.get(name).and_then(Value::as_str) == Some(value);
        is("type", "NamesAccepted") && is("status", "False")
    })
}

/// A condition of a definition.
struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn new(kind: &'static str, status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Condition { kind, status, reason, message: message.into() }
    }
}

/// Sets accepted names and conditions of a definition that is about to be written. `now` is an RFC 3339
/// time in seconds. Returns whether the kind is served after the write.
pub fn establish(definition: &mut Map, others: &NamesInUse, now: &str) -> bool {
    let established_before = is_established(definition);
    let approval = Approval::of(definition).condition();
    let wanted = spec::names(definition).clone();
    let accepted = spec::map(spec::map(definition, "status"), "acceptedNames").clone();
    let (accepted, conflict) = accept(&wanted, accepted, others);
    let accepted_all = conflict.is_none();
    let Some(status) = definition.object_mut("status") else { return false };
    status.insert("acceptedNames", accepted);
    let names = match conflict {
        Some((reason, message)) => Condition::new("NamesAccepted", "False", reason, message),
        None => Condition::new("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
    };
    set_condition(status, names, now);
    if !established_before {
        let established = if accepted_all {
            let message = "the initial names have been accepted";
            Condition::new("Established", "True", "InitialNamesAccepted", message)
        } else {
            Condition::new("Established", "False", "NotAccepted", "not all names are accepted")
        };
        set_condition(status, established, now);
    }
    if let Some(condition) = approval {
        set_condition(status, condition, now);
    }
    established_before || accepted_all
}

/// Takes back what [`establish`] found, so that a new definition shows what Kubernetes' answer does.
pub(crate) fn forget_observed(definition: &mut Map) {
    if let Some(status) = definition.object_mut("status") {
        status.insert("conditions", Value::Null);
        status
            .insert("acceptedNames", Map::from_iter(["plural", "kind"].map(|name| (name.to_owned(), Value::from("")))));
    }
}

/// The names that a definition gets, and the last conflict there is.
fn accept(wanted: &Map, mut accepted: Map, others: &NamesInUse) -> (Map, Option<(&'static str, String)>) {
    let mut conflict = None;
    let single = [
        ("plural", "PluralConflict", &others.resources),
        ("singular", "SingularConflict", &others.resources),
        ("kind", "KindConflict", &others.kinds),
        ("listKind", "ListKindConflict", &others.kinds),
    ];
    for (at, (name, reason, used)) in single.into_iter().enumerate() {
        if at == 2 {
            conflict = accept_short_names(wanted, &mut accepted, others).or(conflict);
        }
        let value = spec::text(wanted, name);
        if value != spec::text(&accepted, name) && used.contains(value) {
            conflict = Some((reason, format!("\"{value}\" is already in use")));
        } else if !value.is_empty() {
            accepted.insert(name, value);
        }
    }
    copy_list(wanted, &mut accepted, "categories");
    // Both are shown even when they are empty.
    for name in ["plural", "kind"] {
        accepted.get_or_insert_with(name, || Value::from(""));
    }
    (accepted, conflict)
}

fn accept_short_names(wanted: &Map, accepted: &mut Map, others: &NamesInUse) -> Option<(&'static str, String)> {
    let own: BTreeSet<&str> = spec::texts(accepted, "shortNames").collect();
    let taken: Vec<String> = spec::texts(wanted, "shortNames")
        .filter(|name| !own.contains(name) && others.resources.contains(*name))
        .map(|name| format!("\"{name}\" is already in use"))
        .collect();
    match taken.len() {
        0 => {
            copy_list(wanted, accepted, "shortNames");
            None
        }
        1 => Some(("ShortNamesConflict", taken.concat())),
        _ => Some(("ShortNamesConflict", format!("[{}]", taken.join(", ")))),
    }
}

fn copy_list(from: &Map, to: &mut Map, name: &str) {
    match from.get(name).filter(|_| !spec::list(from, name).is_empty()) {
        Some(list) => to.insert(name, list.clone()),
        None => to.remove(name),
    };
}

/// Whether a definition's kind is served.
pub fn is_established(definition: &Map) -> bool {
    has_condition(definition, "Established")
}

/// Whether a definition is being deleted, so that no instance may be created.
pub fn is_terminating(definition: &Map) -> bool {
    has_condition(definition, "Terminating")
}

fn has_condition(definition: &Map, kind: &str) -> bool {
    spec::list(spec::map(definition, "status"), "conditions").iter().any(|condition| {
        let is = |name: &str, value: &str| condition.get(name).and_then(Value::as_str) == Some(value);
        is("type", kind) && is("status", "True")
    })
}

/// Marks a definition that a client deletes: it stays until its instances are gone. Whoever deletes it
/// sets `metadata.deletionTimestamp`.
pub fn begin_deletion(definition: &mut Map, now: &str) {
    if let Some(metadata) = metadata_mut(definition) {
        let finalizers = metadata.get_or_insert_with("finalizers", || Value::Array(Vec::new()));
        if let Value::Array(finalizers) = finalizers
            && !finalizers.iter().any(|name| name.as_str() == Some(CLEANUP_FINALIZER))
        {
            finalizers.push(CLEANUP_FINALIZER.into());
        }
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let condition = Condition::new("Terminating", "True", "InstanceDeletionPending", message);
    if let Some(status) = definition.object_mut("status") {
        set_condition(status, condition, now);
    }
}

/// Notes that the instances of a definition are being deleted.
pub fn note_deletion(definition: &mut Map, now: &str) {
    let message = "CustomResource deletion is in progress";
    let condition = Condition::new("Terminating", "True", "InstanceDeletionInProgress", message);
    if let Some(status) = definition.object_mut("status") {
        set_condition(status, condition, now);
    }
}

/// Takes the finalizer off a definition whose instances are gone.
pub fn finish_deletion(definition: &mut Map, now: &str) {
    if let Some(metadata) = metadata_mut(definition)
        && let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers")
    {
        finalizers.retain(|name| name.as_str() != Some(CLEANUP_FINALIZER));
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    }
    let condition = Condition::new("Terminating", "False", "InstanceDeletionCompleted", "removed all instances");
    if let Some(status) = definition.object_mut("status") {
        set_condition(status, condition, now);
    }
}

/// Sets a condition; the time of its last transition changes only when its status does.
fn set_condition(status: &mut Map, condition: Condition, now: &str) {
    let list = status.get_or_insert_with("conditions", || Value::Array(Vec::new()));
    if !matches!(list, Value::Array(_)) {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(list) = list else { return };
    let same_kind = |value: &&mut Value| value.get("type").and_then(Value::as_str) == Some(condition.kind);
    let existing = list.iter_mut().find(same_kind);
    let since = existing
        .as_ref()
        .filter(|value| value.get("status").and_then(Value::as_str) == Some(condition.status))
        .and_then(|value| value.get("lastTransitionTime"))
        .map_or_else(|| Value::from(now), Value::clone);
    let mut value = Map::new();
    value.insert("type", condition.kind);
    value.insert("status", condition.status);
    value.insert("reason", condition.reason);
    value.insert("message", condition.message);
    value.insert("lastTransitionTime", since);
    match existing {
        Some(place) => *place = value.into(),
        None => list.push(value.into()),
    }
}

/// Whether the Kubernetes community approves of a definition in one of its groups.
pub(super) enum Approval<'a> {
    /// The group is not one of theirs.
    NotNeeded,
    /// Nothing is said; with what to do.
    Missing(String),
    /// Approved at this address.
    Given(&'a str),
    /// Knowingly without, in these words.
    Waived(&'a str),
    /// Neither an address nor a reason; with what to do.
    Malformed(&'a str, String),
}

impl<'a> Approval<'a> {
    /// What the annotations of a definition say.
    pub(super) fn of(definition: &'a Map) -> Self {
        let group = spec::group(definition);
        let protected = ["k8s.io", "kubernetes.io"]
            .into_iter()
            .any(|domain| group == domain || group.strip_suffix(domain).is_some_and(|front| front.ends_with('.')));
        if !protected {
            return Approval::NotNeeded;
        }
        let annotations = spec::map(spec::map(definition, "metadata"), "annotations");
        let annotation = spec::text(annotations, APPROVAL_ANNOTATION);
        let needed = format!("protected groups must have approval annotation \"{APPROVAL_ANNOTATION}\"");
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        if annotation.is_empty() {
            Approval::Missing(format!("{needed}, {see}"))
        } else if annotation.starts_with("unapproved") {
            Approval::Waived(annotation)
        } else if is_url(annotation) {
            Approval::Given(annotation)
        } else {
            let detail = format!("{needed} with either a URL or a reason starting with \"unapproved\", {see}");
            Approval::Malformed(annotation, detail)
        }
    }

    /// Whether both say the same, whatever the words.
    pub(super) fn same_state(&self, other: &Approval<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn condition(&self) -> Option<Condition> {
        let kind = "KubernetesAPIApprovalPolicyConformant";
        match self {
            Approval::NotNeeded => None,
            Approval::Missing(reason) => Some(Condition::new(kind, "False", "MissingAnnotation", reason)),
            Approval::Given(at) => {
                Some(Condition::new(kind, "True", "ApprovedAnnotation", format!("approved in {at}")))
            }
            Approval::Waived(why) => {
                Some(Condition::new(kind, "False", "UnapprovedAnnotation", format!("not approved: \"{why}\"")))
            }
            Approval::Malformed(_, reason) => Some(Condition::new(kind, "False", "InvalidAnnotation", reason)),
        }
    }
}

/// Whether a text names a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    let plain = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(plain) && !host.is_empty()
}
