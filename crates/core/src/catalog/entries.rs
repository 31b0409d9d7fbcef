//! What is wrong with the entries that a CloudProfile and a private one both have: forms of names, versions, dates and
//! amounts, keys that stand twice. What only one of the two may have is left to `profile` and `private`.

use std::collections::BTreeSet;

use allotment_api::catalog::{
    Amount, Date, ImageVersion, Kubernetes, Limits, MachineImage, MachineType, Other, Region, SeedSelector, Shared,
    VolumeType,
};
use allotment_machinery::field::{FieldError, MAX_ERRORS, Path};
use allotment_machinery::json;
use allotment_machinery::names;
use allotment_machinery::selector::validate_object;
use allotment_machinery::version::Version;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

use serde_json::Value;

use super::constraint::Constraint;
use super::{certificates, dates};

/// CPU architectures that there are.
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
const CLASSIFICATIONS: [&str; 3] = ["deprecated", "preview", "supported"];
/// The longest name or version, in bytes: what names of objects may have.
const MOST_KEY: usize = 253;
/// What is shown of a longer one.
const MOST_KEY_SHOWN: usize = 32;
const STRATEGIES: [&str; 3] = ["major", "minor", "patch"];

/// What was found. Of errors and of warnings only the first [`MAX_ERRORS`] are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Why it is refused; accepted where empty.
    pub errors: Vec<FieldError>,
    /// What whoever wrote it should know.
    pub warnings: Vec<String>,
    /// How many more warnings there would be.
    pub unkept: usize,
    /// What was wrong before and is no reason to refuse.
    known: BTreeSet<String>,
    /// Whether all errors are kept.
    has_no_bound: bool,
}

impl Found {
    /// What is wrong with `new`. What was wrong with `old` in the same words, since it was stored when other rules held, or
    /// another parent, becomes a warning.
    pub(super) fn of_change<S>(new: &S, old: Option<&S>, check: impl Fn(&S, &mut Found)) -> Found {
        let mut found = Found::default();
        check(new, &mut found);
        let Some(old) = old.filter(|_| !found.errors.is_empty()) else { return found };
        let mut before = Found { has_no_bound: true, ..Found::default() };
        check(old, &mut before);
        if before.errors.is_empty() {
            return found;
        }
        let known = before.errors.iter().map(ToString::to_string).collect();
        found = Found { known, ..Found::default() };
        check(new, &mut found);
        Found { known: BTreeSet::new(), ..found }
    }

    pub(super) fn error(&mut self, error: FieldError) {
        if !self.known.is_empty() {
            let text = error.to_string();
            if self.known.contains(&text) {
                return self.warn(|| format!("{text}; it was so before"));
            }
        }
        if self.has_no_bound || self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    pub(super) fn warn(&mut self, warning: impl FnOnce() -> String) {
        if self.warnings.len() < MAX_ERRORS {
            self.warnings.push(warning());
        } else {
            self.unkept += 1;
        }
    }

    fn one_of(&mut self, value: Option<&String>, supported: &[&str], path: impl FnOnce() -> Path) {
        if let Some(value) = value.filter(|value| !supported.contains(&value.as_str())) {
            self.error(FieldError::not_supported(&path(), value, supported));
        }
    }

    fn amount(&mut self, amount: Option<&Amount>, path: impl FnOnce() -> Path) {
        match amount.map(|amount| (amount, amount.quantity())) {
            None => {}
            Some((amount, None)) => {
                let detail = "not a quantity: write it as 4, 500m or 8Gi";
                self.error(FieldError::invalid(&path(), amount.text(), detail));
            }
            Some((amount, Some(quantity))) if quantity.is_negative() => {
                self.error(FieldError::invalid(&path(), amount.text(), "must not be negative"));
            }
            Some(_) => {}
        }
    }

    fn date(&mut self, date: Option<&Date>, path: impl FnOnce() -> Path) {
        let Some(date) = date.filter(|date| date.at().is_none()) else { return };
        self.error(FieldError::invalid(&path(), date.text(), dates::fault(date.text())));
    }
}

impl Found {
    /// That the names of fields that are not known, and of those within them, can be shown. What they say is not judged.
    pub(super) fn other(&mut self, other: &Other, path: impl Fn() -> Path) {
        for (name, value) in other {
            match unseen_in(name, value) {
                None => {}
                Some(wrong) if wrong.len() > MOST_KEY => {
                    let detail = format!("a field has a name of more than {MOST_KEY} bytes: choose a shorter one");
                    self.error(FieldError::invalid(&path(), shortened(wrong).as_str(), detail));
                }
                Some(wrong) => {
                    let detail = "a field's name has characters that are not seen: choose a name without them";
                    self.error(FieldError::invalid(&path(), wrong.escape_debug().to_string().as_str(), detail));
                }
            }
        }
    }
}

/// The first name of a field, or of one within it, that is too long or has characters that are not seen. The depth is bounded
/// by whoever reads JSON.
fn unseen_in<'a>(name: &'a str, value: &'a Value) -> Option<&'a str> {
    if name.len() > MOST_KEY || name.contains(is_unseen) {
        return Some(name);
    }
    match value {
        Value::Object(members) => members.iter().find_map(|(name, value)| unseen_in(name, value)),
        Value::Array(items) => items.iter().find_map(|item| unseen_in("", item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The beginning of a text that is too long.
fn shortened(text: &str) -> String {
    format!("{}…", &text[..text.floor_char_boundary(MOST_KEY_SHOWN)]).escape_debug().to_string()
}

/// Checks keys one after another: that there is one, that it has no slash, that it did not stand before. Gives paths by
/// key, and by place where the key is of no use.
struct Keys<'a> {
    list: Path,
    field: &'static str,
    seen: BTreeSet<&'a str>,
    place: usize,
}

impl<'a> Keys<'a> {
    fn new(list: Path, field: &'static str) -> Self {
        Keys { list, field, seen: BTreeSet::new(), place: 0 }
    }

    fn next(&mut self, key: &'a str, found: &mut Found) -> Path {
        let place = self.list.index(self.place);
        self.place += 1;
        if key.is_empty() {
            found.error(FieldError::required(&place.child(self.field), "every entry of the list needs one"));
            return place;
        }
        if !self.seen.insert(key) {
            let detail = "stands in the list already: take one of the two out";
            found.error(FieldError::duplicate(&place.child(self.field), key).with_detail(detail));
        }
        if key.len() > MOST_KEY {
            let detail = format!("must be no longer than {MOST_KEY} bytes: choose a shorter one");
            found.error(FieldError::invalid(&place.child(self.field), shortened(key).as_str(), detail));
            return place;
        }
        if key.contains(is_unseen) {
            let detail = "must not contain characters that are not seen: choose a name without them";
            found.error(FieldError::invalid(&place.child(self.field), key.escape_debug().to_string().as_str(), detail));
            return place;
        }
        if key.contains('/') {
            let detail = "must not contain '/': choose a name without it";
            found.error(FieldError::invalid(&place.child(self.field), key, detail));
            return place;
        }
        self.list.key(key)
    }
}

/// Whether a character acts on a terminal instead of being shown: control characters, and those that turn the direction of
/// writing or join lines.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub(super) fn kubernetes(kubernetes: Option<&Shared<Kubernetes>>, found: &mut Found) {
    let list = Path::new("spec").child("kubernetes").child("versions");
    let mut keys = Keys::new(list, "version");
    for entry in super::versions::kubernetes_versions(kubernetes) {
        let path = keys.next(&entry.version, found);
        if !entry.version.is_empty() && !is_plain_version(&entry.version) {
            let detail = "a Kubernetes version is three numbers: write it as \"1.30.2\"";
            found.error(FieldError::invalid(&path.child("version"), &entry.version, detail));
        }
        found.date(entry.expiration_date.as_ref(), || path.child("expirationDate"));
        found.one_of(entry.classification.as_ref(), &CLASSIFICATIONS, || path.child("classification"));
        found.other(&entry.other, || path.clone());
    }
    if let Some(kubernetes) = kubernetes {
        found.other(&kubernetes.other, || Path::new("spec").child("kubernetes"));
    }
}

/// `N.N.N`, without anything before or behind.
fn is_plain_version(text: &str) -> bool {
    !text.starts_with('v')
        && text.parse::<Version>().is_ok_and(|version| !version.is_pre_release() && version.build.is_empty())
}

/// One to three numbers, which may begin with zeros (`18.04.20190617`), and what semantic versioning has behind them.
pub(super) fn image_version(text: &str) -> Option<Version> {
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    if text.starts_with('v') {
        return None;
    }
    let number = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        significant => significant.to_owned(),
    };
    let numbers: Vec<String> = numbers.split('.').map(number).collect();
    Version::parse_short(&format!("{}{rest}", numbers.join("."))).ok()
}

pub(super) fn images(images: &[Shared<MachineImage>], found: &mut Found) {
    let mut keys = Keys::new(Path::new("spec").child("machineImages"), "name");
    for image in images {
        let path = keys.next(&image.name, found);
        found.one_of(image.update_strategy.as_ref(), &STRATEGIES, || path.child("updateStrategy"));
        found.other(&image.other, || path.clone());
        let mut versions = Keys::new(path.child("versions"), "version");
        for entry in &image.versions {
            let path = versions.next(&entry.version, found);
            image_entry(entry, &path, found);
        }
    }
}

fn image_entry(entry: &ImageVersion, path: &Path, found: &mut Found) {
    if !entry.version.is_empty() && image_version(&entry.version).is_none() {
        let detail =
            "not a version: write it as \"15.4\" or \"15.4.20220818\", with what semantic versioning allows behind it";
        found.error(FieldError::invalid(&path.child("version"), &entry.version, detail));
    }
    found.date(entry.expiration_date.as_ref(), || path.child("expirationDate"));
    found.one_of(entry.classification.as_ref(), &CLASSIFICATIONS, || path.child("classification"));
    let mut seen = BTreeSet::new();
    for (index, architecture) in entry.architectures.iter().enumerate() {
        let path = || path.child("architectures").index(index);
        found.one_of(Some(architecture), &ARCHITECTURES, path);
        if !seen.insert(architecture) {
            found.error(FieldError::duplicate(&path(), architecture));
        }
    }
    let mut runtimes = Keys::new(path.child("cri"), "name");
    for runtime in &entry.cri {
        let path = runtimes.next(&runtime.name, found);
        found.other(&runtime.other, || path.clone());
    }
    found.other(&entry.other, || path.clone());
    if let Some(constraint) = entry.kubelet_version_constraint.as_ref().filter(|text| Constraint::read(text).is_none())
    {
        let detail = "not a constraint: write it as \"< 1.26\" or \">= 1.25, < 1.28\"";
        found.error(FieldError::invalid(&path.child("kubeletVersionConstraint"), constraint, detail));
    }
}

pub(super) fn machine_types(types: &[Shared<MachineType>], found: &mut Found) {
    let mut keys = Keys::new(Path::new("spec").child("machineTypes"), "name");
    for entry in types {
        let path = keys.next(&entry.name, found);
        for (field, amount) in [("cpu", &entry.cpu), ("memory", &entry.memory)] {
            if amount.is_none() {
                found.error(FieldError::required(&path.child(field), "say how much a machine has"));
            }
            found.amount(amount.as_ref(), || path.child(field));
        }
        found.amount(entry.gpu.as_ref(), || path.child("gpu"));
        found.one_of(entry.architecture.as_ref(), &ARCHITECTURES, || path.child("architecture"));
        found.other(&entry.other, || path.clone());
        let Some(storage) = &entry.storage else { continue };
        let path = path.child("storage");
        found.other(&storage.other, || path.clone());
        for (field, text) in [("class", &storage.class), ("type", &storage.type_)] {
            if text.is_empty() {
                found.error(FieldError::required(&path.child(field), "a machine's own storage has one"));
            }
        }
        if storage.size.is_some() == storage.min_size.is_some() {
            found.error(FieldError::required(&path, "set either size or minSize"));
        }
        found.amount(storage.size.as_ref(), || path.child("size"));
        found.amount(storage.min_size.as_ref(), || path.child("minSize"));
    }
}

pub(super) fn volume_types(types: &[Shared<VolumeType>], found: &mut Found) {
    let mut keys = Keys::new(Path::new("spec").child("volumeTypes"), "name");
    for entry in types {
        let path = keys.next(&entry.name, found);
        if entry.class.is_empty() {
            found.error(FieldError::required(&path.child("class"), "such as standard or premium"));
        }
        found.amount(entry.min_size.as_ref(), || path.child("minSize"));
        found.other(&entry.other, || path.clone());
    }
}

pub(super) fn regions(regions: &[Shared<Region>], found: &mut Found) {
    let mut keys = Keys::new(Path::new("spec").child("regions"), "name");
    for entry in regions {
        let path = keys.next(&entry.name, found);
        found.other(&entry.other, || path.clone());
        let mut zones = Keys::new(path.child("zones"), "name");
        for zone in &entry.zones {
            let path = zones.next(&zone.name, found);
            found.other(&zone.other, || path.clone());
        }
        for (key, value) in entry.labels.iter().flatten() {
            let path = || path.child("labels").key(key);
            for fault in names::qualified_name(key) {
                found.error(FieldError::invalid(&path(), key, fault));
            }
            for fault in names::label_value(value) {
                found.error(FieldError::invalid(&path(), value, fault));
            }
        }
        let mut restrictions = Keys::new(path.child("accessRestrictions"), "name");
        for restriction in entry.access_restrictions.iter().flatten() {
            let path = restrictions.next(&restriction.name, found);
            found.other(&restriction.other, || path.clone());
        }
    }
}

pub(super) fn ca_bundle(bundle: Option<&Shared<String>>, found: &mut Found) {
    if let Some(Err(error)) = bundle.map(|text| certificates::read(text)) {
        found.error(FieldError::invalid_omitted(&Path::new("spec").child("caBundle"), error.to_string()));
    }
}

/// A selector of labels as Kubernetes has it, and types of providers.
pub(super) fn seed_selector(selector: Option<&Shared<SeedSelector>>, found: &mut Found) {
    let Some(selector) = selector else { return };
    let path = Path::new("spec").child("seedSelector");
    let labels = selector.match_labels.iter().flatten();
    let labels: json::Map = labels.map(|(key, value)| (key.clone(), json::Value::from(value.as_str()))).collect();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: Vec<json::Value> = expressions.map(expression).collect();
    let written = json::Map::from_iter([
        ("matchLabels".to_owned(), json::Value::Object(labels)),
        ("matchExpressions".to_owned(), json::Value::Array(expressions)),
    ]);
    validate_object(&written, &path).into_iter().for_each(|error| found.error(error));
    let types = selector.provider_types.iter().flatten().enumerate();
    for (index, _) in types.filter(|(_, name)| name.is_empty()) {
        let path = path.child("providerTypes").index(index);
        found.error(FieldError::required(&path, "name a provider, such as aws, azure or gcp, or leave the entry out"));
    }
}

fn expression(requirement: &LabelSelectorRequirement) -> json::Value {
    let values = requirement.values.iter().flatten().map(|value| json::Value::from(value.as_str()));
    json::Value::Object(json::Map::from_iter([
        ("key".to_owned(), json::Value::from(requirement.key.as_str())),
        ("operator".to_owned(), json::Value::from(requirement.operator.as_str())),
        ("values".to_owned(), json::Value::Array(values.collect())),
    ]))
}

pub(super) fn limits(limits: Option<&Limits>, found: &mut Found) {
    if let Some(limits) = limits {
        found.other(&limits.other, || Path::new("spec").child("limits"));
    }
    if let Some(most) = limits.and_then(|limits| limits.max_nodes_total).filter(|most| *most < 1) {
        let path = Path::new("spec").child("limits").child("maxNodesTotal");
        found.error(FieldError::invalid(&path, i64::from(most), "must be at least 1; leave it out for no limit"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_images_are_those_that_landscapes_have() {
        for text in ["15.4", "16", "18.04.201906170", "1.0.1-dev", "1443.3.0", "0.0.0", "15.4.20220818+build.1"] {
            assert!(image_version(text).is_some(), "{text}");
        }
        for text in ["", "latest", "15.x", "1.2.3.4", "1..2", "v1.2", "15.4-", "1 2"] {
            assert!(image_version(text).is_none(), "{text}");
        }
    }
}
