//! The managers of an object as those of its scale, and back: `/scale` writes one number of the object
//! under another path and in another version.

use std::collections::BTreeMap;

use super::element::PathElement;
use super::managers::{Managed, ManagerOperation, Managers};
use super::set::FieldSet;

/// The version in which scales are written.
pub const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the versions of a kind keep the number that their scale shows.
#[derive(Clone, Debug, Default)]
pub struct ReplicasPaths {
    by_version: BTreeMap<String, Option<Vec<PathElement>>>,
}

impl ReplicasPaths {
    /// Adds a version: with the steps to its number, or without where it has no scale.
    pub fn add(&mut self, api_version: &str, steps: Option<Vec<PathElement>>) {
        self.by_version.insert(api_version.to_owned(), steps);
    }

    /// Which of an object's managers own its number, as managers of its scale.
    pub fn to_scale(&self, managers: &Managers) -> Managers {
        let mut out = Managers::default();
        for (id, managed) in managers.iter() {
            let Some(Some(path)) = self.by_version.get(&managed.api_version) else { continue };
            if managed.fields.has(path) {
                let fields = FieldSet::of_path(&replicas());
                let mut id = id.clone();
                if id.operation == ManagerOperation::Update {
                    // Those that update are told apart by version too, so that whoever did so in the object's
                    // own is another one afterwards: what it owned besides the number stays apart.
                    SCALE_VERSION.clone_into(&mut id.api_version);
                }
                let api_version = SCALE_VERSION.to_owned();
                out.insert(id, Managed { fields, api_version, time: managed.time.clone() });
            }
        }
        out
    }

    /// The object's managers after its scale was written through `api_version`: whoever lost the number
    /// there loses it here, whoever has it there has it here.
    pub fn to_object(&self, managers: &Managers, mut of_scale: Managers, api_version: &str) -> Managers {
        let mut out = Managers::default();
        for (id, managed) in managers.iter() {
            // What was written in a version that is gone is forgotten.
            let Some(path) = self.by_version.get(&managed.api_version) else { continue };
            let mut managed = managed.clone();
            if let Some(path) = path.as_ref().filter(|path| managed.fields.has(path))
                && of_scale.remove(id).is_none()
            {
                managed.fields = managed.fields.difference(&FieldSet::of_path(path));
            }
            if !managed.fields.is_empty() {
                out.insert(id.clone(), managed);
            }
        }
        let own = self.by_version.get(api_version).and_then(Option::as_ref);
        for (id, _) in of_scale.iter().filter(|(_, managed)| managed.fields.has(&replicas())) {
            let fields = own.map(|path| FieldSet::of_path(path)).unwrap_or_default();
            // As in the reference, the time is the one that the manager had on the object: a new one has none.
            let time = managers.get(id).and_then(|before| before.time.clone());
            out.insert(id.clone(), Managed { fields, api_version: api_version.to_owned(), time });
        }
        out
    }
}

fn replicas() -> [PathElement; 2] {
    [PathElement::field("spec"), PathElement::field("replicas")]
}
