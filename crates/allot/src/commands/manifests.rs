//! Reads files with profiles and Shoots: documents of other kinds are passed over, slips are put right and told.

use std::path::PathBuf;

use allotment_api::catalog::{API_VERSION, GROUP, Shoot, ShootSpec};
use allotment_core::catalog::correct;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::metadata::validate_always;
use allotment_machinery::schema::normalise_numbers;
use allotment_machinery::{names, yaml};
use anyhow::{anyhow, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;

use super::files::{self, shown};
use crate::output;

/// What other landscapes call a private profile, in objects and in Shoots that use one.
const NAMESPACED: &str = "NamespacedCloudProfile";

/// Which kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A CloudProfile.
    Public,
    /// A PrivateCloudProfile.
    Private,
    /// A NamespacedCloudProfile: what other landscapes have in the place of a private one.
    Namespaced,
    /// A Shoot, which uses a profile.
    Shoot,
}

impl Kind {
    /// Those that are profiles.
    pub(super) const PROFILES: [Kind; 3] = [Kind::Public, Kind::Private, Kind::Namespaced];
    /// Profiles, and who uses them.
    pub(super) const ALL: [Kind; 4] = [Kind::Public, Kind::Private, Kind::Namespaced, Kind::Shoot];

    fn read(kind: &str) -> Option<Self> {
        match kind {
            "CloudProfile" => Some(Kind::Public),
            "PrivateCloudProfile" => Some(Kind::Private),
            NAMESPACED => Some(Kind::Namespaced),
            "Shoot" => Some(Kind::Shoot),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Kind::Public => "CloudProfile",
            Kind::Private => "PrivateCloudProfile",
            Kind::Namespaced => NAMESPACED,
            Kind::Shoot => "Shoot",
        }
    }
}

/// A profile or Shoot in a file.
#[derive(Debug)]
pub(super) struct Document {
    file: String,
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The object, slips put right.
    pub(super) value: Value,
    /// What was put right.
    pub(super) slips: Vec<String>,
    /// What is passed over.
    pub(super) warnings: Vec<String>,
    /// What is wrong outside the spec.
    pub(super) errors: Vec<String>,
}

/// The objects of these kinds of all files in their order; at least one.
pub(super) fn read(paths: &[PathBuf], kinds: &[Kind]) -> anyhow::Result<Vec<Document>> {
    let found = read_any(paths, kinds)?;
    if found.is_empty() {
        bail!("{} holds no CloudProfile or PrivateCloudProfile of {GROUP}", all_shown(paths));
    }
    Ok(found)
}

/// The same where there may be none.
pub(super) fn read_any(paths: &[PathBuf], kinds: &[Kind]) -> anyhow::Result<Vec<Document>> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(of_text(&shown(path), &files::text(path)?, kinds)?);
    }
    Ok(found)
}

/// The same of the text of one file.
pub(super) fn of_text(file: &str, text: &str, kinds: &[Kind]) -> anyhow::Result<Vec<Document>> {
    let documents = yaml::parse_stream(text).map_err(|error| anyhow!("{file} is neither YAML nor JSON: {error}"))?;
    let objects = documents.into_iter().flat_map(objects);
    Ok(objects.filter_map(|document| Document::of(file, document, kinds)).collect())
}

/// Files as messages name them.
pub(super) fn all_shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ")
}

/// The objects of a document: several where it is a list, as kubectl prints it.
fn objects(document: yaml::Document) -> Vec<yaml::Document> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind) = (text(&document.value, "apiVersion"), text(&document.value, "kind"));
    let is_ours = group == "v1" && kind == "List" || group.split('/').next() == Some(GROUP);
    let Some(of) = kind.strip_suffix("List").filter(|_| is_ours) else { return vec![document] };
    let yaml::Document { number, line, mut value, duplicates } = document;
    let Some(Value::Array(items)) = value.get_mut("items").map(|items| std::mem::replace(items, Value::Null)) else {
        return Vec::new();
    };
    let item = |(index, mut value): (usize, Value)| {
        if let Some(fields) = value.as_object_mut().filter(|_| !of.is_empty()) {
            // A list of one kind may leave to itself what its items are.
            for (field, inherited) in [("apiVersion", group.as_str()), ("kind", of)] {
                if fields.get(field).is_none() {
                    fields.insert(field, Value::from(inherited));
                }
            }
        }
        let within = format!("items[{index}].");
        let own = duplicates.iter().filter_map(|key| {
            let path = key.path.strip_prefix(&within)?.to_owned();
            Some(yaml::DuplicateKey { path, ..key.clone() })
        });
        yaml::Document { number, line, value, duplicates: own.collect() }
    };
    items.into_iter().enumerate().map(item).collect()
}

impl Document {
    fn of(file: &str, document: yaml::Document, kinds: &[Kind]) -> Option<Self> {
        let mut value = document.value;
        let text = |value: &Value, path: &[&str]| value.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let api_version = text(&value, &["apiVersion"]);
        if api_version.split('/').next() != Some(GROUP) {
            return None;
        }
        let named = text(&value, &["kind"]);
        let kind = Kind::read(&named);
        if kind.is_none() {
            let known = "CloudProfile, PrivateCloudProfile and Shoot";
            output::note(&output::on_a_line(&format!(
                "warning: {file}: a {named} of {GROUP} is passed over: of this group {known} are looked at"
            )));
        }
        let kind = kind.filter(|kind| kinds.contains(kind))?;
        let mut slips: Vec<String> =
            document.duplicates.iter().map(|key| format!("{}: {key}; the last one counts", key.path)).collect();
        slips.extend(correct(&mut value).iter().map(ToString::to_string));
        let mut warnings = Vec::new();
        let errors = if kind == Kind::Namespaced { Vec::new() } else { wrong_outside(&value, &api_version, kind) };
        let spec = value.get_mut("spec").and_then(Value::as_object_mut);
        if kind == Kind::Namespaced && spec.is_some_and(|spec| spec.remove("providerConfig").is_some()) {
            warnings.push("spec.providerConfig: is ignored: providerConfig is inherited from the parent".to_owned());
        }
        let namespace = text(&value, &["metadata", "namespace"]);
        let name = text(&value, &["metadata", "name"]);
        Some(Document { file: file.to_owned(), kind, namespace, name, value, slips, warnings, errors })
    }

    /// What tells it from other private profiles.
    pub(super) fn id(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// File, kind and name, for messages.
    pub(super) fn place(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{}: {} {}{slash}{}", self.file, self.kind.as_str(), self.namespace, self.name)
    }

    /// The metadata, or why it is none.
    pub(super) fn metadata(&self) -> Result<ObjectMeta, String> {
        typed_metadata(&self.value)
    }

    /// That it has a name, or what is wrong without.
    pub(super) fn named(&self) -> Result<(), String> {
        match self.name.as_str() {
            "" => Err(format!("metadata.name: Required value: name the {}", self.kind.as_str())),
            _ => Ok(()),
        }
    }

    /// A Shoot, with a name or without. One that uses a profile as other landscapes call it uses a private one.
    pub(super) fn shoot(&self) -> Result<Shoot, String> {
        let (metadata, mut spec) = (self.metadata()?, self.unnamed_spec::<ShootSpec>()?);
        if let Some(profile) = spec.cloud_profile.as_mut().filter(|profile| profile.kind.as_deref() == Some(NAMESPACED))
        {
            profile.kind = Some(Kind::Private.as_str().to_owned());
        }
        Ok(Shoot { metadata, spec })
    }

    /// Says on stderr what is put right, and what is passed over.
    pub(super) fn tell(&self) {
        self.note(self.slips.iter().chain(&self.warnings).map(|text| format!("{}: {text}", self.place())));
    }

    /// Says as well what else an API server of this platform would not take as it stands there.
    pub(super) fn tell_all(&self) {
        self.note(self.told());
    }

    fn note(&self, told: impl IntoIterator<Item = String>) {
        told.into_iter().for_each(|text| output::note(&output::on_a_line(&format!("warning: {text}"))));
    }

    /// All that there is to tell of how it is written.
    pub(super) fn told(&self) -> Vec<String> {
        let uses = || self.value.at(&["spec", "cloudProfile", "kind"]).and_then(Value::as_str);
        let private = Kind::Private.as_str();
        let other = match self.kind {
            Kind::Namespaced => Some(format!("is read as a {private}: write that here")),
            Kind::Shoot if uses() == Some(NAMESPACED) => {
                Some(format!("spec.cloudProfile.kind: {NAMESPACED} is read as {private}: write that here"))
            }
            Kind::Public | Kind::Private | Kind::Shoot => None,
        };
        let all = self.slips.iter().chain(&self.warnings).chain(&self.errors).chain(&other);
        all.map(|text| format!("{}: {text}", self.place())).collect()
    }

    /// The spec as one of its kind, or why it is none: with the field, where that can be told.
    pub(super) fn spec<T: DeserializeOwned>(&self) -> Result<T, String> {
        self.named()?;
        self.unnamed_spec()
    }

    fn unnamed_spec<T: DeserializeOwned>(&self) -> Result<T, String> {
        let spec = self.value.get("spec").and_then(Value::as_object);
        let spec = spec.ok_or(match self.kind {
            Kind::Shoot => "spec: Required value: say what the Shoot uses",
            Kind::Public | Kind::Private | Kind::Namespaced => "spec: Required value: say what the profile offers",
        })?;
        // As kubectl sends them: `5.0` is `5`.
        let mut spec = spec.clone();
        normalise_numbers(&mut spec);
        serde_json::from_slice(&Value::Object(spec.clone()).to_vec()).map_err(|whole| {
            let fields = spec.iter().filter_map(|(field, value)| misread::<T>(field, value));
            fields
                .map(|(path, why)| format!("spec.{path}: {why}"))
                .next()
                .unwrap_or_else(|| format!("spec: {}", plain(&whole)))
        })
    }
}

/// What the API refuses of an object whatever its spec says.
fn wrong_outside(value: &Value, api_version: &str, kind: Kind) -> Vec<String> {
    let mut wrong = Vec::new();
    if api_version != API_VERSION {
        wrong.push(format!("apiVersion: {api_version:?} is not served: write {API_VERSION:?}"));
    }
    let metadata = |field: &str| value.at(&["metadata", field]).filter(|value| !value.is_null());
    for field in ["name", "namespace"] {
        let Some(given) = metadata(field) else { continue };
        let Some(text) = given.as_str() else {
            wrong.push(format!("metadata.{field}: Invalid value: a text is wanted: put it in quotes"));
            continue;
        };
        let faults = match field {
            _ if text.is_empty() => continue,
            "name" => names::dns1123_subdomain(text),
            _ => names::dns1123_label(text),
        };
        wrong.extend(faults.iter().map(|fault| format!("metadata.{field}: Invalid value: {text:?}: {fault}")));
    }
    if kind == Kind::Public && metadata("namespace").is_some() {
        wrong.push("metadata.namespace: Forbidden: a CloudProfile is in no namespace: leave it out".to_owned());
    }
    for field in ["labels", "annotations"] {
        let all = metadata(field).and_then(Value::as_object).into_iter().flat_map(|all| all.iter());
        for (key, _) in all.filter(|(_, value)| value.as_str().is_none()) {
            wrong.push(format!("metadata.{field}[{key}]: Invalid value: a text is wanted: put it in quotes"));
        }
    }
    let typed = typed_metadata(value).err();
    // Of a member that is no text it is told above, in better words.
    wrong.extend(typed.filter(|_| wrong.iter().all(|told| !told.starts_with("metadata."))));
    let all = value.get("metadata").and_then(Value::as_object);
    wrong.extend(all.into_iter().flat_map(validate_always).map(|error| error.to_string()));
    wrong
}

fn typed_metadata(value: &Value) -> Result<ObjectMeta, String> {
    let Some(metadata) = value.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(ObjectMeta::default());
    };
    serde_json::from_slice(&metadata.to_vec()).map_err(|error| format!("metadata: {}", plain(&error)))
}

/// Why one field of a spec cannot be read, and which entry of it is to blame if it is a list.
fn misread<T: DeserializeOwned>(field: &str, value: &Value) -> Option<(String, String)> {
    let alone = |value: Value| {
        let spec = Value::Object(Map::from_iter([(field.to_owned(), value)]));
        serde_json::from_slice::<T>(&spec.to_vec()).err()
    };
    let whole = alone(value.clone())?;
    for (index, entry) in value.as_array().unwrap_or_default().iter().enumerate() {
        if let Some(error) = alone(Value::Array(vec![entry.clone()])) {
            let key = entry.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), str::to_owned);
            return Some((format!("{field}[{key}]"), plain(&error)));
        }
    }
    Some((field.to_owned(), plain(&whole)))
}

/// The words of an error without the place in a text that nobody has seen.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    let unquoted = text.starts_with("invalid type: ") && text.ends_with("expected a string");
    if unquoted { format!("{text}: put it in quotes") } else { text.to_owned() }
}
