//! `allot explain request --dry-run`: what would become of a request that is not there, or of a change of one that
//! is. The answer is the platform's own: its admission tells it in warnings of a server-side dry run.

use std::sync::{Arc, Mutex, PoisonError};

use allotment_api::names;
use allotment_api::reasons::Verdict;
use allotment_api::requests::{ClusterRequest, Finding};
use anyhow::anyhow;
use kube::{Api, Resource};
use serde_json::{Value, json};

use super::explain;
use super::shape;
use crate::cli::{ExplainFormat, ExplainRequest, Target};
use crate::client::{self, Platform};
use crate::exit::Outcome;
use crate::output;

/// What dry-run objects are called that nobody gave a name.
const NAMELESS: &str = "dry-run-";

/// Asks about what the flags or the file say.
pub(super) async fn run(target: &Target, arguments: ExplainRequest) -> Outcome {
    let mut manifest = shape::manifest(arguments.file.as_deref(), &arguments.shape)?;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ears = heard.clone();
    let hear = move |text: &str| ears.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    let platform = Platform::listening(target, hear).await?;

    let own = |field: &str| manifest["metadata"][field].as_str().map(str::to_owned);
    let namespace = arguments.namespace.or_else(|| own("namespace")).unwrap_or_else(|| platform.namespace.clone());
    let name = arguments.name.or_else(|| own("name"));
    manifest["metadata"]["namespace"] = json!(namespace);
    match &name {
        Some(name) => manifest["metadata"]["name"] = json!(name),
        None => manifest["metadata"]["generateName"] = json!(NAMELESS),
    }
    let said = ask(&platform, &heard, &namespace, name.as_deref(), &manifest).await?;
    let Some(said) = said else {
        // It is there, and asks for just this: it was decided already.
        return explain::standing(&platform, &namespace, &name.unwrap_or_default(), arguments.output).await;
    };
    let warnings = std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
    let answer = Answer::read(warnings).ok_or_else(|| {
        anyhow!(
            "the platform does not tell what it would decide: its admission is not asked, or has not seen everything \
             yet; try again, and see whether its controllers run"
        )
    })?;
    let purposes = said["spec"]["purposes"].clone();
    match arguments.output {
        ExplainFormat::Json => output::data(&output::json(&answer.as_value(&namespace, name, purposes))?),
        ExplainFormat::Yaml => output::data(&output::yaml(&answer.as_value(&namespace, name, purposes))?),
        ExplainFormat::Text => output::data(&answer.as_text(&namespace, name.as_deref(), &purposes)),
    }
}

/// Puts the request, or its change, to the platform; gives what would be stored, or nothing where the request is
/// there and asks for just this.
async fn ask(
    platform: &Platform,
    heard: &Mutex<Vec<String>>,
    namespace: &str,
    name: Option<&str>,
    manifest: &Value,
) -> anyhow::Result<Option<Value>> {
    let told = |error: &kube::Error| anyhow!("{}: {}", shown(namespace, name), client::explain(error));
    let created = send(platform, "POST", namespace, None, manifest).await;
    let Some(name) = name.filter(|_| matches!(&created, Err(kube::Error::Api(status)) if status.code == 409)) else {
        return created.map(Some).map_err(|error| told(&error));
    };
    let requests = Api::<ClusterRequest>::namespaced(platform.client.clone(), namespace);
    let there = requests.get(name).await.map_err(|error| told(&error))?;
    let mut changed = serde_json::to_value(&there)?;
    changed["spec"] = manifest["spec"].clone();
    let same =
        serde_json::from_value::<ClusterRequest>(changed.clone()).is_ok_and(|changed| changed.spec == there.spec);
    if same {
        return Ok(None);
    }
    // What was said of another request of this name answers nothing.
    heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
    send(platform, "PUT", namespace, Some(name), &changed).await.map(Some).map_err(|error| told(&error))
}

/// The request as people are told of it.
fn shown(namespace: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("ClusterRequest {namespace}/{name}"),
        None => format!("a ClusterRequest in namespace {namespace}"),
    }
}

/// A dry run, with unknown fields refused: a misspelt one would be another question.
async fn send(
    platform: &Platform,
    method: &str,
    namespace: &str,
    name: Option<&str>,
    object: &Value,
) -> kube::Result<Value> {
    let mut url = format!("/apis/{}/namespaces/{namespace}/{}", names::API_VERSION, ClusterRequest::plural(&()));
    if let Some(name) = name {
        url = format!("{url}/{name}");
    }
    let url = format!("{url}?dryRun=All&fieldManager=allot&fieldValidation=Strict");
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request =
        http::Request::builder().method(method).uri(url).header("content-type", "application/json").body(body);
    platform.client.request(request.map_err(kube::Error::HttpError)?).await
}

/// What the platform answers.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    /// In one sentence.
    would: String,
    verdict: Option<Verdict>,
    reason: Option<String>,
    cluster: Option<String>,
    /// `PROVIDER/PROFILE` of a Cluster that would be made.
    profile: Option<String>,
    why: Option<String>,
    prefix: Option<String>,
    findings: Vec<Finding>,
    omitted: usize,
    /// Further warnings.
    warnings: Vec<String>,
}

impl Answer {
    /// Reads it off the warnings; nothing if none of them is an answer.
    fn read(warnings: Vec<String>) -> Option<Self> {
        let mut answer = Answer::default();
        let mut all = 0_usize;
        for warning in warnings {
            let rest = |start: &str| warning.strip_prefix(start);
            if rest("would ").is_some() && answer.would.is_empty() {
                answer.take(&warning);
            } else if answer.would.is_empty() {
                answer.warnings.push(warning);
            } else if let Some(why) = rest("why: ") {
                answer.why = Some(why.to_owned());
            } else if let Some(reason) = rest("spec.prefix: would not be honored: ") {
                answer.prefix = Some(reason.to_owned());
            } else if let Some(count) = rest("findings: ").and_then(|text| text.split(" of ").nth(1)) {
                all = count.parse().unwrap_or(0);
            } else if let Some(finding) = rest("finding: ").and_then(finding) {
                answer.findings.push(finding);
            } else {
                answer.warnings.push(warning);
            }
        }
        answer.omitted = all.saturating_sub(answer.findings.len());
        (!answer.would.is_empty()).then_some(answer)
    }

    fn take(&mut self, would: &str) {
        would.clone_into(&mut self.would);
        let granted = ["would be Granted on Cluster ", "would stay Granted on Cluster "];
        if let Some(cluster) = granted.iter().find_map(|start| would.strip_prefix(start)) {
            self.verdict = Some(Verdict::Granted);
            self.cluster = Some(cluster.to_owned());
        } else if let Some(profile) = would.strip_prefix("would create a Cluster from ") {
            self.verdict = Some(Verdict::Granted);
            self.profile = Some(profile.to_owned());
        } else if let Some((verdict, reason)) = would.strip_prefix("would be ").and_then(|rest| rest.split_once(": ")) {
            self.verdict = Verdict::from_text(verdict);
            self.reason = Some(reason.to_owned());
        }
    }

    fn as_value(&self, namespace: &str, name: Option<String>, purposes: Value) -> Value {
        json!({
            "namespace": namespace, "name": name, "purposes": purposes, "dryRun": true, "answer": self.would,
            "status": self.verdict, "reason": self.reason, "message": self.why, "cluster": self.cluster,
            "profile": self.profile, "prefixNotHonored": self.prefix, "findings": self.findings,
            "findingsOmitted": self.omitted, "warnings": self.warnings,
        })
    }

    fn as_text(&self, namespace: &str, name: Option<&str>, purposes: &Value) -> String {
        let purposes: Vec<&str> = purposes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut lines = vec![format!("{} (dry run)", shown(namespace, name))];
        lines.push(format!("  purposes   {}", purposes.join(", ")));
        lines.push(format!("  answer     {}", self.would));
        let further = [("why", &self.why), ("prefix", &self.prefix)];
        for (what, text) in further.into_iter().filter_map(|(what, text)| text.as_ref().map(|text| (what, text))) {
            let text =
                if what == "prefix" { format!("the one proposed would not be honored: {text}") } else { text.clone() };
            lines.push(format!("  {what:<8}   {text}"));
        }
        lines.extend(self.warnings.iter().map(|warning| format!("  warning    {warning}")));
        lines.extend(explain::findings(&self.findings, self.omitted));
        lines.join("\n")
    }
}

/// Reads `[PROVIDER/PROFILE [NAMESPACE/CLUSTER]] REASON[: DETAIL]`.
fn finding(text: &str) -> Option<Finding> {
    let (head, detail) = text.split_once(": ").map_or((text, ""), |(head, detail)| (head, detail));
    let mut words: Vec<&str> = head.split(' ').collect();
    let reason = words.pop()?.to_owned();
    let (provider, profile) = words.first().and_then(|word| word.split_once('/')).unwrap_or_default();
    let cluster = words.get(1).copied().unwrap_or_default();
    let own = str::to_owned;
    Some(Finding { provider: own(provider), profile: own(profile), cluster: own(cluster), reason, detail: own(detail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(warnings: &[&str]) -> Option<Answer> {
        Answer::read(warnings.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn the_answer_and_what_each_candidate_lacks_are_read_off_the_warnings() {
        let answer = read(&[
            "spec.traits[0].trait: UnknownTrait: no profile publishes \"x/y\"",
            "would be Denied: NoProfileWithTrait",
            "why: no profile of a provider that is ready has \"x/y\"",
            "findings: 3 of 40",
            "finding: p/q NoProfileWithTrait: not or(x/y, z)",
            "finding: p/q n/c Dedicated",
            "finding: UnknownPurpose: nope",
            "something else",
        ])
        .expect("an answer");
        assert_eq!((answer.verdict, answer.reason.as_deref()), (Some(Verdict::Denied), Some("NoProfileWithTrait")));
        assert_eq!(answer.why.as_deref(), Some("no profile of a provider that is ready has \"x/y\""));
        assert_eq!((answer.findings.len(), answer.omitted, answer.warnings.len()), (3, 37, 2));
        let first = &answer.findings[0];
        assert_eq!((first.provider.as_str(), first.profile.as_str(), first.cluster.as_str()), ("p", "q", ""));
        assert_eq!(first.detail, "not or(x/y, z)");
        assert_eq!((answer.findings[1].cluster.as_str(), answer.findings[1].reason.as_str()), ("n/c", "Dedicated"));
        assert_eq!((answer.findings[2].provider.as_str(), answer.findings[2].detail.as_str()), ("", "nope"));
    }

    #[test]
    fn every_answer_says_where_the_request_would_be() {
        let check = |text: &str, cluster: Option<&str>, profile: Option<&str>| {
            let answer = read(&[text, "spec.prefix: would not be honored: Taken"]).expect("an answer");
            assert_eq!((answer.cluster.as_deref(), answer.profile.as_deref()), (cluster, profile), "{text}");
            assert_eq!((answer.verdict, answer.prefix.as_deref()), (Some(Verdict::Granted), Some("Taken")), "{text}");
        };
        check("would be Granted on Cluster n/c", Some("n/c"), None);
        check("would stay Granted on Cluster n/c", Some("n/c"), None);
        check("would create a Cluster from p/q", None, Some("p/q"));
        assert_eq!(read(&["unknown field \"a\""]), None);
        assert_eq!(read(&[]), None);
    }
}
