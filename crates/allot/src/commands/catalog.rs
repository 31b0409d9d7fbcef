//! `allot catalog render` and `lint`: what private cloud profiles in files come to, and what is wrong with them. The rules
//! are those of `allotment_core`; nothing is asked of a server.

mod files;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use allotment_api::catalog::{CloudProfileSpec, PrivateCloudProfileSpec, RenderedProfile};
use allotment_core::catalog::{
    Found, Parent, PrivateWrite, render as rendered, settled, validate_cloud_profile, validate_private_profile,
};
use allotment_machinery::json::Value;
use allotment_machinery::{json, yaml};
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use self::files::{Document, Kind};
use crate::cli::{CatalogLint, CatalogRender, DocumentFormat};
use crate::exit::{Code, Failure, Outcome};
use crate::output;
use crate::platform::seams;

/// Prints rendered profiles.
pub(crate) fn render(arguments: &CatalogRender) -> Outcome {
    let now = arguments.at.unwrap_or_else(|| seams().now());
    let judged = Judged::of(&arguments.files, now)?;
    for warning in judged.findings.iter().filter(|finding| finding.level != Level::Error) {
        output::note(&format!("warning: {warning}"));
    }
    let errors: Vec<&Finding> = judged.findings.iter().filter(|finding| finding.level == Level::Error).collect();
    if !errors.is_empty() {
        errors.iter().for_each(|error| output::note(&format!("error: {error}")));
        let what = output::counted(errors.len(), "error");
        return Err(Failure::new(Code::Failed, format!("nothing is rendered: {what} in the profiles")));
    }
    if judged.rendered.is_empty() {
        let message = "there is no PrivateCloudProfile in the files, so there is nothing to render; add its file";
        return Err(Failure::new(Code::Failed, message));
    }
    match arguments.output {
        DocumentFormat::Yaml => {
            let documents: Vec<String> = judged.rendered.iter().map(yaml::to_string).collect();
            output::data(&documents.join("---\n"))
        }
        DocumentFormat::Json => {
            let mut all = judged.rendered;
            let value = match (all.pop(), all.is_empty()) {
                (Some(only), true) => only,
                (last, _) => {
                    all.extend(last);
                    allotment_machinery::json!({"apiVersion": "v1", "kind": "List", "items": all})
                }
            };
            output::data(&output::pretty(&value))
        }
    }
}

/// Prints what is wrong.
pub(crate) fn lint(arguments: &CatalogLint) -> Outcome {
    let now = arguments.at.unwrap_or_else(|| seams().now());
    let judged = Judged::of(&arguments.files, now).map_err(|failure| Failure { code: Code::Denied, ..failure })?;
    let is_error = |finding: &&Finding| arguments.strict || finding.level != Level::Warning;
    let lines: Vec<String> = judged
        .findings
        .iter()
        .map(|finding| format!("{}: {finding}", if is_error(&finding) { "error" } else { "warning" }))
        .collect();
    if !lines.is_empty() {
        output::data(&lines.join("\n"))?;
    }
    match judged.findings.iter().filter(is_error).count() {
        0 => Ok(()),
        count => Err(Failure::new(Code::Failed, format!("{} in the profiles", output::counted(count, "error")))),
    }
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// The API takes it, and says so.
    Warning,
    /// The API refuses it; rendering puts it right.
    Slip,
    /// The API refuses it.
    Error,
}

/// Something about one profile.
#[derive(Debug)]
struct Finding {
    level: Level,
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
struct Judged {
    /// In the order of files and documents.
    findings: Vec<Finding>,
    /// The private ones that are right, rendered, in that order.
    rendered: Vec<Value>,
}

/// A CloudProfile, and its providerConfig to the letter.
type Known = (Parent, Option<Value>);

impl Judged {
    fn of(files: &[PathBuf], now: Timestamp) -> Result<Judged, Failure> {
        let documents = files::read(files)?;
        let mut judged = Judged::default();
        let mut parents: BTreeMap<String, Option<Known>> = BTreeMap::new();
        for document in documents.iter().filter(|document| document.kind == Kind::Public) {
            judged.slips(document);
            let known = judged.cloud_profile(document, now);
            if parents.insert(document.name.clone(), known).is_some() {
                judged.error(document, "stands in the files more than once: take one out");
            }
        }
        let private: Vec<&Document> = documents.iter().filter(|document| document.kind != Kind::Public).collect();
        for (index, document) in private.iter().enumerate() {
            judged.slips(document);
            if private[..index].iter().any(|before| before.id() == document.id()) {
                judged.error(document, "stands in the files more than once: take one out");
                continue;
            }
            let is_private =
                |name: &str| private.iter().any(|other| other.name == name && other.namespace == document.namespace);
            judged.private_profile(document, &parents, &is_private, now);
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
    }

    fn found(&mut self, document: &Document, found: Found) -> bool {
        let is_right = found.errors.is_empty();
        found.warnings.into_iter().for_each(|text| self.find(document, Level::Warning, text));
        found.errors.into_iter().for_each(|error| self.error(document, error.to_string()));
        is_right
    }

    /// The typed spec; told where it cannot be read.
    fn spec<T: DeserializeOwned>(&mut self, document: &Document) -> Option<T> {
        match document.spec() {
            Ok(spec) => Some(spec),
            Err(why) => {
                self.error(document, why);
                None
            }
        }
    }

    fn cloud_profile(&mut self, document: &Document, now: Timestamp) -> Option<Known> {
        let spec: CloudProfileSpec = self.spec(document)?;
        if !self.found(document, validate_cloud_profile(&spec, None, now)) {
            return None;
        }
        let config = document.value.at(&["spec", "providerConfig"]).cloned();
        Some((Parent::new(document.name.clone(), spec), config))
    }

    fn private_profile(
        &mut self,
        document: &Document,
        parents: &BTreeMap<String, Option<Known>>,
        is_private: &dyn Fn(&str) -> bool,
        now: Timestamp,
    ) {
        let Some(spec) = self.spec::<PrivateCloudProfileSpec>(document) else { return };
        let wanted = &spec.parent.name;
        let (parent, config) = match parents.get(wanted) {
            Some(Some(known)) => known,
            Some(None) => {
                return self
                    .error(document, format!("spec.parent: CloudProfile {wanted:?} would be refused, see there"));
            }
            None if wanted.is_empty() => {
                return self.error(document, "spec.parent: Required value: name the CloudProfile that this adds to");
            }
            None if is_private(wanted) => {
                let text = "multi-level inheritance is not supported: name a CloudProfile";
                return self.error(document, format!("spec.parent: Invalid value: {wanted:?}: {text}"));
            }
            None => {
                let text = format!("spec.parent: CloudProfile {wanted:?} is in none of the files: add its file");
                return self.error(document, text);
            }
        };
        let write = PrivateWrite { parent, old: None, removed: &[], in_use: &|_, _| false, now };
        let spec = settled(&spec, &write).unwrap_or(spec);
        if !self.found(document, validate_private_profile(&spec, &write)) {
            return;
        }
        let profile = RenderedProfile::new(document.name.clone(), rendered(parent, &spec).spec);
        let text = serde_json::to_vec(&profile).unwrap_or_default();
        match json::parse(&text) {
            Ok(mut value) => {
                // Kept to the letter: the typed value has no other words for a number than its own.
                if let (Some(spec), Some(config)) = (value.get_mut("spec").and_then(Value::as_object_mut), config) {
                    spec.insert("providerConfig", config.clone());
                }
                self.rendered.push(value);
            }
            Err(error) => self.error(document, format!("what is rendered cannot be read again: {error}")),
        }
    }
}
