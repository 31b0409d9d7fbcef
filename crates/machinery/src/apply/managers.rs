//! Who owns which fields: `metadata.managedFields`, decoded.

use std::collections::BTreeMap;

use super::fields::FieldsError;
use super::scalar;
use super::set::FieldSet;
use crate::gotext::go_quote;
use crate::json::{Map, Value};

/// How many managers that update are kept apart. The oldest beyond become one, or an object that everybody
/// patches under a name of their own would grow for ever (`DefaultMaxUpdateManagers`).
const MAX_UPDATE_MANAGERS: usize = 10;
/// The name under which old updates are kept together.
const OLD_UPDATES: &str = "ancient-changes";
/// The time that entries without one are sorted by.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// How a manager wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagerOperation {
    /// It applied a configuration.
    Apply,
    /// It created, updated or patched.
    Update,
}

impl ManagerOperation {
    fn as_str(self) -> &'static str {
        match self {
            ManagerOperation::Apply => "Apply",
            ManagerOperation::Update => "Update",
        }
    }
}

/// What tells one manager from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// Its name.
    pub name: String,
    /// How it wrote.
    pub operation: ManagerOperation,
    /// The version that it wrote; empty for those that apply, which are the same in all versions.
    pub api_version: String,
    /// The subresource that it wrote to, or empty.
    pub subresource: String,
}

impl ManagerId {
    /// A manager that applies.
    pub fn applier(name: &str, subresource: &str) -> Self {
        ManagerId::new(name, ManagerOperation::Apply, "", subresource)
    }

    /// A manager that creates, updates or patches in `api_version`.
    pub fn updater(name: &str, api_version: &str, subresource: &str) -> Self {
        ManagerId::new(name, ManagerOperation::Update, api_version, subresource)
    }

    fn new(name: &str, operation: ManagerOperation, api_version: &str, subresource: &str) -> Self {
        let text = str::to_owned;
        let api_version = text(api_version);
        ManagerId { name: text(name), operation, api_version, subresource: text(subresource) }
    }

    /// The text by which the reference knows and sorts managers: the entry's JSON without fields and time.
    pub(super) fn sort_key(&self) -> String {
        let mut out = String::from("{");
        let members = [
            ("manager", &*self.name),
            ("operation", self.operation.as_str()),
            ("apiVersion", &*self.api_version),
            ("subresource", &*self.subresource),
        ];
        for (name, value) in members.iter().filter(|(_, value)| !value.is_empty()) {
            if out.len() > 1 {
                out.push(',');
            }
            scalar::write_json_string(name, true, &mut out);
            out.push(':');
            scalar::write_json_string(value, true, &mut out);
        }
        out.push('}');
        out
    }

    /// The manager as conflicts name it: `"a" with subresource "scale" using apps/v1`.
    pub(super) fn shown(&self) -> String {
        let mut out = go_quote(&self.name);
        if !self.subresource.is_empty() {
            out.push_str(" with subresource ");
            out.push_str(&go_quote(&self.subresource));
        }
        if self.operation == ManagerOperation::Update {
            out.push_str(" using ");
            out.push_str(&self.api_version);
        }
        out
    }
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// The fields.
    pub fields: FieldSet,
    /// The version whose fields they are.
    pub api_version: String,
    /// When that last changed by its own doing, as RFC 3339 in seconds of UTC.
    pub time: Option<String>,
}

/// Why `managedFields` cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagersError {
    /// An entry is no object.
    #[error("managed fields entry {0} is no object")]
    NoObject(usize),
    /// An entry's operation is not known.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry has no version.
    #[error("apiVersion must not be empty")]
    NoVersion,
    /// An entry does not say what form its fields have.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// An entry's fields have a form that is not known.
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    /// An entry's fields are malformed.
    #[error("error decoding set: {0}")]
    Fields(FieldsError),
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    entries: BTreeMap<ManagerId, Managed>,
}

impl Managers {
    /// Reads `managedFields`; none where there is nothing.
    ///
    /// # Errors
    /// Entries that are malformed or of a kind that is not known.
    pub fn decode(entries: Option<&Value>) -> Result<Managers, ManagersError> {
        let mut managers = Managers::default();
        for (index, entry) in entries.and_then(Value::as_array).unwrap_or_default().iter().enumerate() {
            let Some(entry) = entry.as_object() else { return Err(ManagersError::NoObject(index)) };
            let (id, managed) = decode_entry(entry, index)?;
            managers.entries.insert(id, managed);
        }
        Ok(managers)
    }

    /// The entries as `managedFields` shows them; nothing where there are none.
    pub fn encode(&self) -> Option<Value> {
        let mut entries: Vec<(&ManagerId, &Managed)> = self.entries.iter().collect();
        entries.sort_by_key(|(id, managed)| {
            let time = managed.time.as_deref().unwrap_or(EPOCH);
            (id.operation, time, &id.name, &managed.api_version, &id.subresource)
        });
        let entries: Vec<Value> = entries.into_iter().map(|(id, managed)| encode_entry(id, managed)).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What a manager owns.
    pub fn get(&self, id: &ManagerId) -> Option<&Managed> {
        self.entries.get(id)
    }

    /// Sets what a manager owns.
    pub fn insert(&mut self, id: ManagerId, managed: Managed) {
        self.entries.insert(id, managed);
    }

    /// Takes a manager out.
    pub fn remove(&mut self, id: &ManagerId) -> Option<Managed> {
        self.entries.remove(id)
    }

    /// All managers, by their identities.
    pub fn iter(&self) -> impl Iterator<Item = (&ManagerId, &Managed)> {
        self.entries.iter()
    }

    /// Keeps the managers for which `keep` holds, which may change what they own.
    pub fn retain(&mut self, mut keep: impl FnMut(&ManagerId, &mut Managed) -> bool) {
        self.entries.retain(|id, managed| keep(id, managed));
    }

    /// Makes one of the oldest managers that update, if there are more than are kept apart: one for each
    /// version, as late as the last of them.
    pub(super) fn merge_old_updates(&mut self) {
        let updaters = self.entries.keys().filter(|id| id.operation == ManagerOperation::Update);
        let mut updaters: Vec<ManagerId> = updaters.cloned().collect();
        if updaters.len() <= MAX_UPDATE_MANAGERS {
            return;
        }
        let time = |id: &ManagerId| self.entries[id].time.clone().unwrap_or_else(|| EPOCH.to_owned());
        updaters.sort_by_cached_key(|id| (time(id), id.sort_key()));
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        let mut left = updaters.len();
        for id in updaters {
            if left <= MAX_UPDATE_MANAGERS {
                break;
            }
            let version = self.entries[&id].api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            let bucket = ManagerId::updater(OLD_UPDATES, &version, "");
            if !self.entries.contains_key(&bucket)
                && let Some(managed) = self.entries.remove(first)
            {
                self.entries.insert(bucket.clone(), managed);
            }
            if let Some(old) = self.entries.remove(&id)
                && let Some(kept) = self.entries.get_mut(&bucket)
            {
                kept.fields = old.fields.union(&kept.fields);
                kept.time = old.time;
            }
            left -= 1;
        }
    }
}

fn decode_entry(entry: &Map, index: usize) -> Result<(ManagerId, Managed), ManagersError> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => ManagerOperation::Apply,
        "Update" => ManagerOperation::Update,
        _ => return Err(ManagersError::Operation),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err(ManagersError::NoVersion);
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(ManagersError::NoFieldsType(index)),
        other => return Err(ManagersError::FieldsType(other.to_owned(), index)),
    }
    let fields = match entry.get("fieldsV1") {
        Some(fields) => FieldSet::from_fields(fields).map_err(ManagersError::Fields)?,
        None => FieldSet::new(),
    };
    let of_id = if operation == ManagerOperation::Apply { "" } else { api_version };
    let id = ManagerId::new(text("manager"), operation, of_id, text("subresource"));
    let time = Some(text("time")).filter(|time| !time.is_empty()).map(str::to_owned);
    Ok((id, Managed { fields, api_version: api_version.to_owned(), time }))
}

fn encode_entry(id: &ManagerId, managed: &Managed) -> Value {
    let mut entry = vec![
        ("apiVersion".to_owned(), Value::from(managed.api_version.as_str())),
        ("fieldsType".to_owned(), Value::from("FieldsV1")),
        ("fieldsV1".to_owned(), managed.fields.to_fields()),
    ];
    let mut text = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.push((name.to_owned(), Value::from(value)));
        }
    };
    text("manager", &id.name);
    text("operation", id.operation.as_str());
    text("subresource", &id.subresource);
    text("time", managed.time.as_deref().unwrap_or_default());
    Value::Object(Map::from_iter(entry))
}
