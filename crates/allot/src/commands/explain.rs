//! `allot explain request`: how a ClusterRequest stands, and what stood in the way. What would become of one is asked
//! by `dry_run`. Shoots and profiles are explained by modules of their own.

mod given;
pub(super) mod profile;
pub(super) mod shoot;

use allotment_api::requests::{ClusterRequest, ClusterRequestGrant, Finding};
use anyhow::anyhow;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::dry_run;
use crate::cli::{ExplainFormat, ExplainRequest, Target};
use crate::client::{self, Platform};
use crate::exit::Outcome;
use crate::output;

/// Explains one request.
pub(crate) async fn run(target: &Target, arguments: ExplainRequest) -> Outcome {
    if arguments.dry_run {
        return dry_run::run(target, arguments).await;
    }
    let platform = Platform::connect(target).await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| platform.namespace.clone());
    standing(&platform, &namespace, &arguments.name.unwrap_or_default(), arguments.output).await
}

/// Says how a request stands that is there.
pub(super) async fn standing(platform: &Platform, namespace: &str, name: &str, format: ExplainFormat) -> Outcome {
    let requests = Api::<ClusterRequest>::namespaced(platform.client.clone(), namespace);
    let grants = Api::<ClusterRequestGrant>::namespaced(platform.client.clone(), namespace);
    let (request, grant) = futures::future::join(requests.get(name), grants.get_opt(name)).await;
    let request = request.map_err(|error| anyhow!("ClusterRequest {namespace}/{name}: {}", client::explain(&error)))?;
    // What the request says of itself stands without its Grant too.
    let grant = match grant {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let why = format!("ClusterRequestGrant {namespace}/{name}: {}", status.message);
            output::note(&format!("not shown: {why}; told is what the request itself says"));
            Granted::Unseen
        }
        Ok(grant) => grant.map_or(Granted::Not, |grant| Granted::By(Box::new(grant))),
        Err(error) => {
            return Err(anyhow!("ClusterRequestGrant {namespace}/{name}: {}", client::explain(&error)).into());
        }
    };
    match format {
        ExplainFormat::Json => output::data(&output::json(&as_value(&request, &grant))?),
        ExplainFormat::Yaml => output::data(&output::yaml(&as_value(&request, &grant))?),
        ExplainFormat::Text => output::data(&as_text(&request, &grant)),
    }
}

/// What is known of the Grant of a request.
enum Granted {
    /// It is there.
    By(Box<ClusterRequestGrant>),
    /// There is none.
    Not,
    /// It may not be seen.
    Unseen,
}

impl Granted {
    /// The Cluster: what the Grant says, or as far as the request itself tells.
    fn cluster(&self, request: &ClusterRequest) -> serde_json::Value {
        let own = request.status.as_ref().and_then(|status| status.cluster_ref.as_ref());
        match self {
            Granted::By(grant) => json!(grant.spec.cluster_ref),
            Granted::Unseen => json!(own),
            Granted::Not => serde_json::Value::Null,
        }
    }

    fn grant(&self) -> Option<&ClusterRequestGrant> {
        match self {
            Granted::By(grant) => Some(grant),
            Granted::Not | Granted::Unseen => None,
        }
    }
}

fn as_value(request: &ClusterRequest, grant: &Granted) -> serde_json::Value {
    let status = request.status.clone().unwrap_or_default();
    json!({
        "namespace": request.namespace(),
        "name": request.name_any(),
        "current": status.observed_generation == request.metadata.generation,
        "status": status.status,
        "reason": status.reason,
        "message": status.message,
        "grantSeen": !matches!(grant, Granted::Unseen),
        "cluster": grant.cluster(request),
        "prefix": grant.grant().map(|grant| &grant.spec.prefix),
        "resolved": grant.grant().map(|grant| &grant.spec.resolved),
        "conditions": status.conditions,
        "findings": status.findings,
        "findingsOmitted": status.findings_omitted.unwrap_or(0),
    })
}

fn as_text(request: &ClusterRequest, grant: &Granted) -> String {
    let status = request.status.clone().unwrap_or_default();
    let mut lines = vec![format!("ClusterRequest {}/{}", request.namespace().unwrap_or_default(), request.name_any())];
    lines.push(format!("  purposes   {}", request.spec.purposes.join(", ")));
    let verdict = status.status.map_or("not decided yet", |verdict| verdict.as_str());
    match status.reason.as_str() {
        "" => lines.push(format!("  status     {verdict}")),
        reason => lines.push(format!("  status     {verdict} ({reason}): {}", status.message)),
    }
    if status.observed_generation != request.metadata.generation {
        lines.push("             about an earlier spec; the latest is being decided".to_owned());
    }
    match grant {
        Granted::By(grant) => {
            let cluster = &grant.spec.cluster_ref;
            lines.push(format!("  cluster    {}/{} ({})", cluster.namespace, cluster.name, cluster.uid));
            let dedicated = grant.spec.prefix.is_empty();
            let prefix = if dedicated { "none, the cluster is dedicated" } else { &grant.spec.prefix };
            lines.push(format!("  prefix     {prefix}"));
        }
        Granted::Unseen => {
            if let Some(cluster) = &status.cluster_ref {
                let place = cluster.namespace.as_deref().unwrap_or_default();
                lines.push(format!("  cluster    {place}/{}", cluster.name));
            }
        }
        Granted::Not => {}
    }
    for condition in &status.conditions {
        let text = format!("{}={} ({}) {}", condition.type_, condition.status, condition.reason, condition.message);
        lines.push(format!("  condition  {}", text.trim_end()));
    }
    let omitted = status.findings_omitted.and_then(|omitted| usize::try_from(omitted).ok()).unwrap_or(0);
    lines.extend(findings(&status.findings, omitted));
    lines.join("\n")
}

/// What each candidate lacks, as lines below the rest.
pub(super) fn findings(findings: &[Finding], omitted: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if !findings.is_empty() {
        lines.push(String::new());
        let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
        lines.push(output::table(&["CANDIDATE", "REASON", "DETAIL"], &rows));
    }
    if omitted > 0 {
        lines.push(format!("and {omitted} more"));
    }
    lines
}

fn row(finding: &Finding) -> Vec<String> {
    let candidate = match (finding.cluster.as_str(), finding.provider.as_str()) {
        ("", "") => "-".to_owned(),
        ("", provider) if finding.profile.is_empty() => format!("provider {provider}"),
        ("", provider) => format!("profile {provider}/{}", finding.profile),
        (cluster, _) => format!("cluster {cluster}"),
    };
    vec![candidate, finding.reason.clone(), finding.detail.clone()]
}
