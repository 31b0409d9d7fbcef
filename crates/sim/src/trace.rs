//! What happened in a run, write by write, so that two runs can be compared.

use std::hash::{DefaultHasher, Hash, Hasher};

use allotment_api::names;
use allotment_store::{Event, EventKind, Seen};
use serde_json::Value;

/// The writes of a run in order. Signatures are random and no part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// One line a write: revision, what was done to what, a digest of the content.
    pub lines: Vec<String>,
}

impl Trace {
    /// One number for all of it.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lines.hash(&mut hasher);
        hasher.finish()
    }

    /// The first line in which two traces differ, in words; `None` where they are the same.
    pub fn difference(&self, other: &Trace) -> Option<String> {
        let at = (0..self.lines.len().max(other.lines.len())).find(|at| self.lines.get(*at) != other.lines.get(*at))?;
        Some(format!("write {at}: {:?} and {:?}", self.lines.get(at), other.lines.get(at)))
    }

    pub(crate) fn note(&mut self, seen: Seen<'_>) {
        self.lines.push(match seen {
            Seen::Object(event) => {
                let entry = &event.entry;
                let (tenant, resource) = (event.tenant.as_str(), entry.resource.as_str());
                let kind = match event.kind {
                    EventKind::Added => "added",
                    EventKind::Modified => "modified",
                    EventKind::Deleted => "deleted",
                };
                let digest = digest(event);
                format!(
                    "{} {kind} {tenant} {resource} {}/{} {digest:016x}",
                    event.revision, entry.namespace, entry.name
                )
            }
            Seen::Instantiated { tenant, revision } => format!("{revision} instantiated {}", tenant.as_str()),
            Seen::Dropped { tenant, revision } => format!("{revision} dropped {}", tenant.as_str()),
        });
    }
}

/// A digest of an object without what holds certificates, keys or tokens.
fn digest(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    if matches!(event.entry.resource.as_str(), "secrets" | "configmaps") {
        let mut object: Value = serde_json::from_slice(&event.entry.body()).unwrap_or_default();
        for field in ["data", "stringData", "binaryData"] {
            if let Some(data) = object.get_mut(field).and_then(Value::as_object_mut) {
                data.values_mut().for_each(|value| *value = Value::Null);
            }
        }
        // And without what is a digest of a certificate.
        if let Some(note) = object.pointer_mut("/metadata/annotations").and_then(|notes| notes.get_mut(names::ENDPOINT))
        {
            *note = Value::Null;
        }
        object.to_string().hash(&mut hasher);
    } else {
        event.entry.body().hash(&mut hasher);
    }
    hasher.finish()
}
