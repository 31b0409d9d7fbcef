//! What `allot controllers` may do on the API server that it stands beside, compared with what it needs: all that lacks is said
//! at once, before anything is begun.

use allotment_api::catalog::GROUP;
use allotment_api::names::SYSTEM_NAMESPACE;
use allotment_machinery::json::Value;
use allotment_machinery::rbac::{PolicyRule, uncovered};
use allotment_machinery::{json, yaml};
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::landscape::LandscapeError;
use crate::manifests::call_failed;

/// What the documents say is enough.
const RBAC: &str = include_str!("../../../deploy/controllers/rbac.yaml");

/// No namespace can be called so, hence no RoleBinding is in it: what holds there holds everywhere.
const NOWHERE: &str = "-";
/// What is touched in the platform's own namespace alone, so that a RoleBinding there is enough for it.
const IN_SYSTEM: [&str; 4] = ["configmaps", "deployments", "leases", "serviceaccounts"];

/// The groups of which nothing is touched without the catalog.
const CATALOG_ONLY: [&str; 2] = [GROUP, "authorization.k8s.io"];

/// What it lacks there, in words; nothing where the server does not say all that it knows.
pub(crate) async fn missing(client: &Client, without_catalog: bool) -> Result<Vec<String>, LandscapeError> {
    let is_of_catalog = |rule: &PolicyRule| rule.api_groups.iter().any(|group| CATALOG_ONLY.contains(&group.as_str()));
    let (in_system, everywhere): (Vec<PolicyRule>, Vec<PolicyRule>) = needed()?
        .into_iter()
        .filter(|rule| !(without_catalog && is_of_catalog(rule)))
        .partition(|rule| rule.resources.iter().all(|resource| IN_SYSTEM.contains(&resource.as_str())));
    let mut lacking = Vec::new();
    for (namespace, wanted) in [(NOWHERE, everywhere), (SYSTEM_NAMESPACE, in_system)] {
        if let Some(held) = held_in(client, namespace).await? {
            lacking.extend(uncovered(&held, &wanted));
        }
    }
    Ok(words(lacking))
}

/// The rules that hold for us in a namespace; nothing where the server does not say all that it knows.
async fn held_in(client: &Client, namespace: &str) -> Result<Option<Vec<PolicyRule>>, LandscapeError> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let answer = Api::<SelfSubjectRulesReview>::all(client.clone()).create(&PostParams::default(), &review).await;
    let answer = match answer {
        Ok(answer) => answer,
        // Whoever may not ask is told by what fails later.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(None),
        Err(error) => return Err(call_failed("ask the API server for the own rights".to_owned(), error)),
    };
    let status = answer.status.unwrap_or_default();
    let held: Vec<PolicyRule> = status
        .resource_rules
        .into_iter()
        .map(|rule| PolicyRule {
            verbs: rule.verbs,
            api_groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            resource_names: rule.resource_names.unwrap_or_default(),
            non_resource_urls: Vec::new(),
        })
        .collect();
    // Not every authorizer can tell rules; RBAC can.
    Ok((!status.incomplete).then_some(held))
}

/// The rules of the one ClusterRole in the manifest.
fn needed() -> Result<Vec<PolicyRule>, LandscapeError> {
    let kind = "ClusterRole";
    let documents = yaml::parse_stream(RBAC);
    let documents = documents.map_err(|error| LandscapeError::Manifest { kind, source: Box::new(error) })?;
    let is_role = |value: &Value| value.get("kind").and_then(Value::as_str) == Some(kind);
    let roles = documents.into_iter().map(|document| document.value).filter(is_role);
    Ok(roles.flat_map(|role: json::Value| PolicyRule::list_from_json(role.get("rules"))).collect())
}

/// `list, watch namespaces`, one for each resource.
fn words(lacking: Vec<PolicyRule>) -> Vec<String> {
    let mut by_resource: Vec<(String, Vec<String>)> = Vec::new();
    for rule in lacking {
        for (group, resource) in rule.api_groups.iter().flat_map(|group| rule.resources.iter().map(move |r| (group, r)))
        {
            let what = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
            match by_resource.iter_mut().find(|(known, _)| *known == what) {
                Some((_, verbs)) => verbs.extend(rule.verbs.iter().cloned()),
                None => by_resource.push((what, rule.verbs.clone())),
            }
        }
    }
    by_resource.into_iter().map(|(what, verbs)| format!("{} {what}", verbs.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_is_told_by_resource() {
        let needed = needed().expect("the manifest reads");
        assert!(needed.len() > 5, "{needed:?}");
        assert!(words(uncovered(&needed, &needed)).is_empty());
        let all = PolicyRule {
            verbs: vec!["*".to_owned()],
            api_groups: vec!["*".to_owned()],
            resources: vec!["*".to_owned()],
            ..PolicyRule::default()
        };
        assert!(words(uncovered(&[all], &needed)).is_empty());
        let without = |resource: &str| -> Vec<PolicyRule> {
            needed.iter().filter(|rule| !rule.resources.iter().any(|found| found == resource)).cloned().collect()
        };
        let leases = "get, list, watch, create, update, patch, delete leases.coordination.k8s.io";
        assert_eq!(words(uncovered(&without("leases"), &needed)), [leases]);
        assert_eq!(words(uncovered(&without("configmaps"), &needed)), ["get, create, patch, delete configmaps"]);
    }
}
