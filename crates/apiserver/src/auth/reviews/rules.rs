//! What may I do in a namespace, all of it: `kubectl auth can-i --list`.

use allotment_machinery::json::{Map, Value};
use allotment_machinery::rbac::PolicyRule;
use async_trait::async_trait;

use super::{AUTHORIZATION, answer, text};
use crate::auth::rbac::in_one;
use crate::registry::Connect;
use crate::server::Context;
use crate::status::ApiError;

/// Lists the rules that apply to the one who asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SelfSubjectRulesReview;

#[async_trait]
impl Connect for SelfSubjectRulesReview {
    async fn create(&self, cx: &Context, object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        let namespace = text(object.get("spec"), "namespace");
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let asked = cx
            .tenant
            .access
            .rbac
            .ask(cx.server.store(), &cx.tenant.tenant, |policy| policy.rules_for(&cx.user, namespace));
        let (rules, errors) = asked.await.map_err(|error| ApiError::internal(error.to_string()))?;
        let mut status = Map::new();
        let on_resources = |rule: &&PolicyRule| !rule.resources.is_empty();
        let on_paths = |rule: &&PolicyRule| !rule.non_resource_urls.is_empty();
        status.insert("resourceRules", rules.iter().filter(on_resources).map(resource_rule).collect::<Vec<_>>());
        status.insert("nonResourceRules", rules.iter().filter(on_paths).map(path_rule).collect::<Vec<_>>());
        status.insert("incomplete", false);
        if !errors.is_empty() {
            status.insert("evaluationError", in_one(&errors));
        }
        // Kubernetes answers without what was asked.
        let mut answered = answer("SelfSubjectRulesReview", AUTHORIZATION, &Value::Null, status);
        if let Some(map) = answered.as_object_mut() {
            map.insert("spec", Map::new());
        }
        Ok(answered)
    }
}

fn resource_rule(rule: &PolicyRule) -> Value {
    PolicyRule { non_resource_urls: Vec::new(), ..rule.clone() }.to_json()
}

fn path_rule(rule: &PolicyRule) -> Value {
    let urls = rule.non_resource_urls.clone();
    PolicyRule { verbs: rule.verbs.clone(), non_resource_urls: urls, ..PolicyRule::default() }.to_json()
}
