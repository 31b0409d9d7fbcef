//! `allot catalog diff`: in what private profiles differ from their parents, of files or of a server.

use std::path::PathBuf;

use allotment_core::catalog::{self, Change, Difference, Rendered};
use anyhow::anyhow;
use serde_json::{Value, json};

use super::judged::{Aim, Judged};
use crate::cli::{CatalogDiff, ExplainFormat, Target};
use crate::client::Platform;
use crate::commands::profiles;
use crate::exit::{Code, Failure, Outcome};
use crate::output;
use crate::platform::seams;

/// Prints the differences.
pub(crate) async fn run(target: &Target, arguments: &CatalogDiff) -> Outcome {
    let done = compare(target, arguments).await;
    match (done, arguments.exit_code) {
        (Ok(true), true) => Err(Failure::silent(Code::Failed)),
        (Ok(_), _) => Ok(()),
        (Err(failure), true) => Err(Failure { code: Code::Denied, ..failure }),
        (Err(failure), false) => Err(failure),
    }
}

/// Prints them, and says whether there are any.
async fn compare(target: &Target, arguments: &CatalogDiff) -> Result<bool, Failure> {
    let (compared, failed) = match &arguments.namespace {
        Some(namespace) => of_server(target, namespace, &arguments.what).await?,
        None => (of_files(arguments)?, Vec::new()),
    };
    if compared.is_empty() && !failed.is_empty() {
        return Err(together(&failed).into());
    }
    match arguments.output {
        ExplainFormat::Json => output::data(&output::json(&as_value(&compared))?)?,
        ExplainFormat::Yaml => output::data(&output::yaml(&as_value(&compared))?)?,
        ExplainFormat::Text => as_text(&compared)?,
    }
    match failed.as_slice() {
        [] => Ok(compared.iter().any(|one| !one.is_same())),
        failed => Err(together(failed).into()),
    }
}

/// What went wrong with several profiles.
fn together(failed: &[anyhow::Error]) -> anyhow::Error {
    anyhow!("{}", failed.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>().join("; "))
}

fn of_files(arguments: &CatalogDiff) -> Result<Vec<Compared>, Failure> {
    let now = arguments.at.unwrap_or_else(|| seams().now());
    let files: Vec<PathBuf> = arguments.what.iter().map(Into::into).collect();
    let accepted = Judged::accepted(&files, now, Aim::COMPARE).map_err(|failure| {
        let is_file = |file: &PathBuf| file.as_os_str() == "-" || file.exists();
        match files.iter().all(is_file) {
            true => failure,
            false => Failure {
                error: anyhow!(
                    "{:#}; for PrivateCloudProfiles of a server name their namespace with -n",
                    failure.error
                ),
                ..failure
            },
        }
    })?;
    let compared = accepted.into_iter().map(|over| Compared {
        differences: catalog::diff(&over.base, &over.rendered.spec),
        place: (over.namespace, over.name),
        parent: over.parent,
        rendered: over.rendered,
    });
    Ok(compared.collect())
}

/// Those that there are, and why it cannot be told of others.
async fn of_server(
    target: &Target,
    namespace: &str,
    names: &[String],
) -> anyhow::Result<(Vec<Compared>, Vec<anyhow::Error>)> {
    let platform = Platform::connect(target).await?;
    let (mut compared, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        let (private, parent) = match profiles::private_with_parent(&platform, namespace, name).await {
            Ok(found) => found,
            Err(error) => {
                failed.push(error);
                continue;
            }
        };
        let rendered = catalog::render(&parent, &private.spec);
        compared.push(Compared {
            place: (namespace.to_owned(), name.clone()),
            parent: parent.name().to_owned(),
            differences: catalog::diff(parent.spec(), &rendered.spec),
            rendered,
        });
    }
    Ok((compared, failed))
}

/// A private profile, and in what it differs from its parent.
struct Compared {
    /// Namespace and name.
    place: (String, String),
    parent: String,
    differences: Vec<Difference>,
    rendered: Rendered,
}

impl Compared {
    fn is_same(&self) -> bool {
        self.differences.is_empty() && self.rendered.conflicts.is_empty() && self.rendered.faults.is_empty()
    }

    fn title(&self) -> String {
        let (namespace, name) = &self.place;
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("PrivateCloudProfile {namespace}{slash}{name}")
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("--- CloudProfile {}", self.parent), format!("+++ {}", self.title())];
        lines.extend(self.differences.iter().map(line));
        lines.extend(self.rendered.conflicts.iter().map(|conflict| {
            let (path, reason) = (&conflict.path, &conflict.reason);
            let (parent, own) = (&conflict.parent_value, &conflict.child_value);
            format!("! {path}: parent value {parent} holds, child value {own}: {reason}")
        }));
        lines.extend(self.rendered.faults.iter().map(|fault| format!("! {}: left out: {}", fault.path, fault.body())));
        lines
    }
}

fn line(difference: &Difference) -> String {
    let path = &difference.path;
    match &difference.change {
        Change::Added { value } => format!("+ {path}{}", scalar(value)),
        Change::Removed { value } => format!("- {path}{}", scalar(value)),
        Change::Changed { before, after } => format!("~ {path}: {} -> {}", shown(before), shown(after)),
    }
}

/// A single value behind its path; entries are told by their keys.
fn scalar(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        single => format!(": {}", shown(single)),
    }
}

/// A value on a line: texts without quotes, certificates by their number.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains("-----BEGIN ") => {
            output::counted(text.matches("-----BEGIN ").count(), "certificate")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn as_text(compared: &[Compared]) -> Outcome {
    let (same, different): (Vec<&Compared>, Vec<&Compared>) = compared.iter().partition(|one| one.is_same());
    for one in same {
        output::note(&format!("{} says nothing that CloudProfile {} does not say", one.title(), one.parent));
    }
    let lines: Vec<String> = different.into_iter().flat_map(Compared::lines).collect();
    if lines.is_empty() { Ok(()) } else { output::data(&output::lines(&lines)) }
}

fn as_value(compared: &[Compared]) -> Value {
    let profile = |one: &Compared| {
        let fault = |fault: &allotment_machinery::field::FieldError| json!({"path": fault.path.to_string(), "message": fault.body()});
        json!({
            "namespace": one.place.0,
            "name": one.place.1,
            "parent": one.parent,
            "differences": one.differences,
            "conflicts": one.rendered.conflicts,
            "faults": one.rendered.faults.iter().map(fault).collect::<Vec<Value>>(),
        })
    };
    json!({"profiles": compared.iter().map(profile).collect::<Vec<Value>>()})
}
