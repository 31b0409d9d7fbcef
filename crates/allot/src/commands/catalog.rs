//! `allot catalog`: what private cloud profiles come to, in what they differ from their parents, what is wrong with them, and
//! what of them expires. The rules are those of `allotment_core`.

mod bounds;
mod diff;
mod expiring;
mod judged;

use std::collections::BTreeMap;

use allotment_machinery::json::Value;
use allotment_machinery::yaml;

use self::judged::{Aim, Finding, Judged, Level, Over};
use crate::cli::{CatalogLint, CatalogRender, DocumentFormat, Target};
use crate::client::Platform;
use crate::commands::manifests::{self, Kind};
use crate::commands::profiles;
use crate::exit::{Code, Failure, Outcome};
use crate::output;
use crate::platform::seams;

pub(crate) use diff::run as diff;
pub(crate) use expiring::run as expiring;

/// Prints rendered profiles.
pub(crate) fn render(arguments: &CatalogRender) -> Outcome {
    let now = arguments.at.unwrap_or_else(|| seams().now());
    let rendered = Judged::accepted(&arguments.files, now, Aim::RENDER)?;
    let mut all = rendered.into_iter().map(Over::object).collect::<anyhow::Result<Vec<Value>>>()?;
    match arguments.output {
        DocumentFormat::Yaml => {
            let documents: Vec<String> = all.iter().map(yaml::to_string).collect();
            output::data(&documents.join("---\n"))
        }
        DocumentFormat::Json => {
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

/// Judges the profiles of the files, over parents of the server where that is asked for.
async fn judge(target: &Target, arguments: &CatalogLint) -> Result<Judged, Failure> {
    let now = arguments.at.unwrap_or_else(|| seams().now());
    let documents = manifests::read(&arguments.files, &Kind::PROFILES)?;
    if !arguments.server {
        return Judged::over(&documents, None, now);
    }
    let platform = Platform::connect(target).await?;
    let mut parents = BTreeMap::new();
    for name in judged::lacking(&documents) {
        if let Some(found) = profiles::parent_if_there(&platform, &name).await? {
            parents.insert(name, found.map(|parent| (parent, None)));
        }
    }
    Judged::over(&documents, Some(parents), now)
}

/// Prints what is wrong.
pub(crate) async fn lint(target: &Target, arguments: &CatalogLint) -> Outcome {
    let judged = judge(target, arguments).await.map_err(|failure| Failure { code: Code::Denied, ..failure })?;
    let is_error = |finding: &&Finding| arguments.strict || finding.level != Level::Warning;
    let lines: Vec<String> = judged
        .findings
        .iter()
        .map(|finding| format!("{}: {finding}", if is_error(&finding) { "error" } else { "warning" }))
        .collect();
    if !lines.is_empty() {
        output::data(&output::lines(&lines))?;
    }
    match judged.findings.iter().filter(is_error).count() {
        0 => Ok(()),
        count => Err(Failure::new(Code::Failed, format!("{} in the profiles", output::counted(count, "error")))),
    }
}
