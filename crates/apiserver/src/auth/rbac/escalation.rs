//! Nobody gives away rights that he does not have: checks on writes of roles and bindings
//! (`k8s.io/kubernetes/pkg/registry/rbac`).

use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_machinery::rbac::{self, PolicyRule, ResourceRequest};

use super::RBAC_GROUP;
use super::binding::RoleRef;
use super::policy::{Policy, in_one};
use crate::auth::user::GROUP_MASTERS;
use crate::auth::{Action, Decision, What, decide};
use crate::server::Context;
use crate::status::{About, ApiError};

/// Whether the user may write `object` as far as the rights go that it would give away; `old` is the
/// object before an update. Objects of other kinds pass.
pub(crate) async fn check_escalation(
    cx: &Context,
    group: &str,
    resource: &str,
    object: &Map,
    old: Option<&Map>,
) -> Result<(), ApiError> {
    if group != RBAC_GROUP || cx.user.is_in(GROUP_MASTERS) {
        return Ok(());
    }
    match resource {
        "roles" | "clusterroles" => check_role(cx, resource, object, old).await,
        "rolebindings" | "clusterrolebindings" => check_binding(cx, resource, object, old).await,
        _ => Ok(()),
    }
}

async fn check_role(cx: &Context, resource: &str, object: &Map, old: Option<&Map>) -> Result<(), ApiError> {
    let name = cx.info.name.as_str();
    if may(cx, "escalate", resource, name).await || old.is_some_and(|old| differs_only_in_ownership(object, old)) {
        return Ok(());
    }
    let wanted = PolicyRule::list_from_json(object.get("rules"));
    let refused = |why: &str| ApiError::forbidden(about(resource, object), why);
    confirm(cx, &wanted).await?.map_err(|why| refused(&why))?;
    // A role that aggregates may come to hold anything.
    if aggregates(object) || old.is_some_and(aggregates) {
        let everything = confirm(cx, &full_authority()).await?;
        everything.map_err(|_| refused("must have cluster-admin privileges to use the aggregationRule"))?;
    }
    Ok(())
}

async fn check_binding(cx: &Context, resource: &str, object: &Map, old: Option<&Map>) -> Result<(), ApiError> {
    if old.is_some_and(|old| differs_only_in_ownership(object, old)) {
        return Ok(());
    }
    // Validation refuses what refers to no role.
    let Some(role) = RoleRef::of(&Value::Object(object.clone())) else { return Ok(()) };
    let role_resource = if role.cluster { "clusterroles" } else { "roles" };
    if may(cx, "bind", role_resource, &role.name).await {
        return Ok(());
    }
    let namespace = cx.info.namespace.as_str();
    let given = ask(cx, |policy| policy.role_rules(&role, namespace).ok()).await?;
    let Some(given) = given else {
        // As kube-apiserver words it: with the resource of the request.
        return Err(ApiError::not_found(About { group: RBAC_GROUP, resource, name: &role.name }));
    };
    confirm(cx, &given).await?.map_err(|why| ApiError::forbidden(about(resource, object), &why))
}

fn about<'a>(resource: &'a str, object: &'a Map) -> About<'a> {
    About { group: RBAC_GROUP, resource, name: metadata_str(object, "name").unwrap_or_default() }
}

async fn may(cx: &Context, verb: &str, resource: &str, name: &str) -> bool {
    let resource = ResourceRequest { verb, api_group: RBAC_GROUP, resource, subresource: "", name };
    let action = Action { namespace: &cx.info.namespace, what: What::Resource(resource) };
    matches!(decide(&cx.server, &cx.tenant, &cx.user, &action).await, Decision::Allow { .. })
}

async fn ask<T>(cx: &Context, question: impl FnOnce(&Policy) -> T + Send) -> Result<T, ApiError> {
    let answer = cx.tenant.access.rbac.ask(cx.server.store(), &cx.tenant.tenant, question).await;
    answer.map_err(|error| ApiError::internal(error.to_string()))
}

/// Whether the user's own rules cover `wanted`; if not, what is missing.
async fn confirm(cx: &Context, wanted: &[PolicyRule]) -> Result<Result<(), String>, ApiError> {
    let (own, errors) = ask(cx, |policy| policy.rules_for(&cx.user, &cx.info.namespace)).await?;
    let missing = rbac::uncovered(&own, wanted);
    if missing.is_empty() {
        return Ok(Ok(()));
    }
    let mut why = rbac::escalation_message(&cx.user.name, &cx.user.groups, &missing);
    if !errors.is_empty() {
        why.push_str(&format!("; resolution errors: [{}]", in_one(&errors)));
    }
    Ok(Err(why))
}

/// What cluster-admin may.
fn full_authority() -> [PolicyRule; 2] {
    let all = || vec![rbac::ALL.to_owned()];
    let resources = PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
    [resources, PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() }]
}

fn aggregates(role: &Map) -> bool {
    let selectors = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
}

/// Whether only those fields change that the garbage collector writes; it gives nobody rights.
fn differs_only_in_ownership(object: &Map, old: &Map) -> bool {
    let stripped = |object: &Map| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields", "selfLink", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        object
    };
    stripped(object) == stripped(old)
}
