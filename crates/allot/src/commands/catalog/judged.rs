//! Judges the profiles of files as the API would: what is refused, what is warned of, and what the private ones that are
//! right come to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use allotment_api::catalog::{CloudProfileSpec, PrivateCloudProfileSpec, RenderedProfile};
use allotment_core::catalog::{
    Found, NoParent, Parent, PrivateWrite, Rendered, render, settled, validate_cloud_profile, validate_private_profile,
    why_no_parent,
};
use allotment_machinery::json::{self, Value};
use allotment_machinery::names::dns1123_subdomain;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::bounds::Bounds;
use crate::commands::manifests::{self, Document, Kind};
use crate::exit::{Code, Failure};
use crate::output;

/// What profiles are judged for, in words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// `render`.
    what: &'static str,
    /// `rendered`.
    done: &'static str,
}

impl Aim {
    /// To print what they come to.
    pub(super) const RENDER: Aim = Aim { what: "render", done: "rendered" };
    /// To print in what they differ.
    pub(super) const COMPARE: Aim = Aim { what: "compare", done: "compared" };
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The API takes it, and says so.
    Warning,
    /// The API refuses it; rendering puts it right.
    Slip,
    /// The API refuses it.
    Error,
}

/// Something about one profile.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// File, kind and name.
    place: String,
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Profiles of some files, and what comes of them.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// In the order of files and documents.
    pub(super) findings: Vec<Finding>,
    /// The private ones that are right, in that order.
    pub(super) rendered: Vec<Over>,
}

/// A private profile over its parent.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The parent's name.
    pub(super) parent: String,
    /// What the parent offers itself.
    pub(super) base: CloudProfileSpec,
    /// What the two come to.
    pub(super) rendered: Rendered,
    /// The parent's `providerConfig` to the letter.
    config: Option<Value>,
}

impl Over {
    /// The rendered profile as an object of its own.
    pub(super) fn object(self) -> anyhow::Result<Value> {
        let profile = RenderedProfile::new(self.name, self.rendered.spec);
        let mut value = json::parse(&serde_json::to_vec(&profile)?)?;
        // The typed value has no other words for a number than its own.
        if let (Some(spec), Some(config)) = (value.get_mut("spec").and_then(Value::as_object_mut), self.config) {
            spec.insert("providerConfig", config);
        }
        Ok(value)
    }
}

/// A CloudProfile, and its providerConfig to the letter.
pub(super) type Known = (Parent, Option<Value>);

/// CloudProfiles by name; of those that nothing can be rendered over, why.
pub(super) type Parents = BTreeMap<String, Result<Known, String>>;

/// Of a parent among the files that is wrong itself.
const REFUSED: &str = "would be refused, see there";

/// What private profiles are judged with.
struct Given<'a> {
    parents: &'a Parents,
    bounds: &'a Bounds,
    /// What to say of a parent that is not there.
    missing: &'static str,
}

/// The parents that are not among the profiles themselves.
pub(super) fn lacking(documents: &[Document]) -> BTreeSet<String> {
    let is_there = |name: &String| documents.iter().any(|one| one.kind == Kind::Public && one.name == *name);
    let private = documents.iter().filter(|document| document.kind != Kind::Public);
    let named = private.filter_map(|document| Some(document.spec::<PrivateCloudProfileSpec>().ok()?.parent.name));
    // What no object can be called is not asked for: it is told of by itself.
    named.filter(|name| dns1123_subdomain(name).is_empty() && !is_there(name)).collect()
}

impl Judged {
    /// What is right of some files, its warnings told; nothing of it where the API would refuse anything.
    pub(super) fn accepted(files: &[PathBuf], now: Timestamp, aim: Aim) -> Result<Vec<Over>, Failure> {
        let judged = Judged::of(files, now)?;
        for warning in judged.findings.iter().filter(|finding| finding.level != Level::Error) {
            output::note(&output::on_a_line(&format!("warning: {warning}")));
        }
        let errors: Vec<&Finding> = judged.findings.iter().filter(|finding| finding.level == Level::Error).collect();
        if !errors.is_empty() {
            errors.iter().for_each(|error| output::note(&output::on_a_line(&format!("error: {error}"))));
            let count = output::counted(errors.len(), "error");
            let done = aim.done;
            return Err(Failure::new(Code::Failed, format!("nothing is {done}: {count} in the profiles")));
        }
        if judged.rendered.is_empty() {
            let what = aim.what;
            let message =
                format!("there is no PrivateCloudProfile in the files, so there is nothing to {what}; add its file");
            return Err(Failure::new(Code::Failed, message));
        }
        Ok(judged.rendered)
    }

    fn of(files: &[PathBuf], now: Timestamp) -> Result<Judged, Failure> {
        Judged::over(&manifests::read(files, &Kind::PROFILES)?, None, now)
    }

    /// The same of what was read, over the parents among it and those of a server, if that was asked.
    pub(super) fn over(documents: &[Document], given: Option<Parents>, now: Timestamp) -> Result<Judged, Failure> {
        let missing = match given {
            Some(_) => "is neither in the files nor on the server: make it, or add its file",
            None => "is in none of the files: add its file",
        };
        let mut parents = given.unwrap_or_default();
        let bounds = Bounds::new()?;
        let mut judged = Judged::default();
        for document in documents.iter().filter(|document| document.kind == Kind::Public) {
            judged.slips(document);
            let known = judged.cloud_profile(document, &bounds, now).ok_or_else(|| REFUSED.to_owned());
            if parents.insert(document.name.clone(), known).is_some() {
                judged.error(document, "stands in the files more than once: take one out");
            }
        }
        let private: Vec<&Document> = documents.iter().filter(|document| document.kind != Kind::Public).collect();
        let all: BTreeSet<(&str, &str)> = private.iter().map(|document| document.id()).collect();
        let mut before = BTreeSet::new();
        for document in &private {
            judged.slips(document);
            if !before.insert(document.id()) {
                judged.error(document, "stands in the files more than once: take one out");
                continue;
            }
            let is_private = |name: &str| name != document.name && all.contains(&(document.namespace.as_str(), name));
            judged.private_profile(document, &Given { parents: &parents, bounds: &bounds, missing }, &is_private, now);
        }
        Ok(judged)
    }

    fn find(&mut self, document: &Document, level: Level, text: impl Into<String>) {
        self.findings.push(Finding { level, place: document.place(), text: text.into() });
    }

    fn error(&mut self, document: &Document, text: impl Into<String>) {
        self.find(document, Level::Error, text);
    }

    fn slips(&mut self, document: &Document) {
        for text in &document.slips {
            self.find(document, Level::Slip, text);
        }
        for text in &document.warnings {
            self.find(document, Level::Warning, text);
        }
        for text in &document.errors {
            self.error(document, text);
        }
    }

    fn found(&mut self, document: &Document, found: Found) -> bool {
        let is_right = found.errors.is_empty();
        found.warnings.into_iter().for_each(|text| self.find(document, Level::Warning, text));
        if found.unkept > 0 {
            self.find(document, Level::Warning, format!("and {} more warnings", found.unkept));
        }
        found.errors.into_iter().for_each(|error| self.error(document, error.to_string()));
        is_right
    }

    /// The typed spec; told where it cannot be read, or is not as its definition says: then no server looks further.
    fn spec<T: DeserializeOwned>(&mut self, document: &Document, bounds: &Bounds) -> Option<T> {
        let wrong = match document.spec() {
            Ok(spec) => {
                let faults = bounds.faults(document);
                if faults.is_empty() {
                    return Some(spec);
                }
                faults.iter().map(ToString::to_string).collect()
            }
            Err(why) => vec![why],
        };
        wrong.into_iter().for_each(|why| self.error(document, why));
        None
    }

    fn cloud_profile(&mut self, document: &Document, bounds: &Bounds, now: Timestamp) -> Option<Known> {
        let spec: CloudProfileSpec = self.spec(document, bounds)?;
        if !self.found(document, validate_cloud_profile(&spec, None, now)) {
            return None;
        }
        let config = document.value.at(&["spec", "providerConfig"]).cloned();
        Some((Parent::new(document.name.clone(), spec), config))
    }

    fn private_profile(
        &mut self,
        document: &Document,
        given: &Given<'_>,
        is_private: &dyn Fn(&str) -> bool,
        now: Timestamp,
    ) {
        let Some(spec) = self.spec::<PrivateCloudProfileSpec>(document, given.bounds) else { return };
        let wanted = &spec.parent.name;
        let (parent, config) = match given.parents.get(wanted) {
            Some(Ok(known)) => known,
            Some(Err(why)) => return self.error(document, format!("spec.parent: CloudProfile {wanted:?} {why}")),
            None => {
                let missing = format!("CloudProfile {wanted:?} {}", given.missing);
                let there = match is_private(wanted) {
                    true => NoParent::Private(&document.namespace),
                    false => NoParent::Missing(&missing),
                };
                return self.error(document, why_no_parent(&spec.parent, None, there).to_string());
            }
        };
        let write = PrivateWrite { parent, old: None, removed: &[], in_use: &|_, _| false, now };
        let spec = settled(&spec, &write).unwrap_or(spec);
        if !self.found(document, validate_private_profile(&spec, &write)) {
            return;
        }
        self.rendered.push(Over {
            namespace: document.namespace.clone(),
            name: document.name.clone(),
            parent: parent.name().to_owned(),
            base: parent.spec().clone(),
            rendered: render(parent, &spec),
            config: config.clone(),
        });
    }
}
