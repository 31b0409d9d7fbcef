//! May somebody do this: for anybody, for oneself, for anybody in one namespace.

use allotment_machinery::json::{Map, Value};
use allotment_machinery::rbac::ResourceRequest;
use allotment_machinery::selector::{FieldSelector, LabelSelector, Operator, Requirement};
use async_trait::async_trait;

use super::validation::{check_local, check_self, check_subject};
use super::{AUTHORIZATION, answer, text, texts};
use crate::auth::{Action, Decision, UserInfo, What, decide};
use crate::registry::Connect;
use crate::server::Context;
use crate::status::ApiError;

/// Whether somebody may do something.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubjectAccessReview;

#[async_trait]
impl Connect for SubjectAccessReview {
    async fn create(&self, cx: &Context, object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        check_subject(&object)?;
        let status = review(cx, &named_user(&object), object.get("spec")).await;
        Ok(answer("SubjectAccessReview", AUTHORIZATION, &object, status))
    }
}

/// Whether one may oneself do something.
#[derive(Clone, Copy, Debug, Default)]
pub struct SelfSubjectAccessReview;

#[async_trait]
impl Connect for SelfSubjectAccessReview {
    async fn create(&self, cx: &Context, object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        check_self(&object)?;
        let status = review(cx, &cx.user, object.get("spec")).await;
        Ok(answer("SelfSubjectAccessReview", AUTHORIZATION, &object, status))
    }
}

/// Whether somebody may do something in the namespace of the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSubjectAccessReview;

#[async_trait]
impl Connect for LocalSubjectAccessReview {
    async fn create(&self, cx: &Context, object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        check_local(&object, &cx.info.namespace)?;
        let status = review(cx, &named_user(&object), object.get("spec")).await;
        Ok(answer("LocalSubjectAccessReview", AUTHORIZATION, &object, status))
    }
}

/// The user that a review is about, exactly as it says: no groups are added.
fn named_user(object: &Value) -> UserInfo {
    let spec = object.get("spec");
    let mut user = UserInfo {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(spec, "groups"),
        ..UserInfo::default()
    };
    let extra = spec.and_then(|spec| spec.get("extra")).and_then(Value::as_object);
    for key in extra.into_iter().flat_map(Map::keys) {
        user.extra.insert(key.to_owned(), texts(spec.and_then(|spec| spec.get("extra")), key));
    }
    user
}

async fn review(cx: &Context, user: &UserInfo, spec: Option<&Value>) -> Map {
    let resource = spec.and_then(|spec| spec.get("resourceAttributes")).filter(|attributes| !attributes.is_null());
    let action = match resource {
        Some(_) => Action {
            namespace: text(resource, "namespace"),
            what: What::Resource(ResourceRequest {
                verb: text(resource, "verb"),
                api_group: text(resource, "group"),
                resource: text(resource, "resource"),
                subresource: text(resource, "subresource"),
                name: text(resource, "name"),
            }),
        },
        None => {
            let path = spec.and_then(|spec| spec.get("nonResourceAttributes"));
            Action { namespace: "", what: What::Path { verb: text(path, "verb"), path: text(path, "path") } }
        }
    };
    let (allowed, reason) = match decide(&cx.server, &cx.tenant, user, &action).await {
        Decision::Allow { reason } => (true, reason),
        Decision::NoOpinion { reason } => (false, reason),
    };
    let mut status = Map::new();
    status.insert("allowed", allowed);
    if !reason.is_empty() {
        status.insert("reason", reason);
    }
    let unread = unread_selectors(resource);
    if !unread.is_empty() {
        status.insert("evaluationError", unread.join("; "));
    }
    status
}

/// What could not be read of the selectors that a review names. Rights do not depend on selectors here, so the
/// rest of them is left out too, which makes what is asked for broader at most.
fn unread_selectors(resource: Option<&Value>) -> Vec<String> {
    let mut unread = Vec::new();
    for (name, judge) in [("fieldSelector", judge_fields as fn(&Value) -> Read), ("labelSelector", judge_labels)] {
        let selector = resource.and_then(|resource| resource.get(name)).filter(|selector| !selector.is_null());
        let how = match selector.map(judge) {
            None | Some(Read::Whole) => continue,
            Some(Read::InPart) => "partially ignored",
            Some(Read::Nothing) => "ignored",
        };
        unread.push(format!("spec.resourceAttributes.{name} {how} due to parse error"));
    }
    unread
}

/// How much of a selector was understood.
enum Read {
    Whole,
    InPart,
    Nothing,
}

/// `in` and `notin` of one value are what field selectors can say.
fn judge_fields(selector: &Value) -> Read {
    judge(
        selector,
        |raw| raw.parse::<FieldSelector>().is_ok(),
        |operator, _, values| matches!(operator, "In" | "NotIn") && values.len() == 1,
    )
}

fn judge_labels(selector: &Value) -> Read {
    judge(
        selector,
        |raw| raw.parse::<LabelSelector>().is_ok(),
        |operator, key, values| {
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return false,
            };
            Requirement::new(key, operator, values).is_ok()
        },
    )
}

fn judge(
    selector: &Value,
    raw_is_sound: impl Fn(&str) -> bool,
    is_sound: impl Fn(&str, &str, Vec<String>) -> bool,
) -> Read {
    let requirements = selector.get("requirements").and_then(Value::as_array).unwrap_or_default();
    if requirements.is_empty() {
        return if raw_is_sound(text(Some(selector), "rawSelector")) { Read::Whole } else { Read::Nothing };
    }
    let sound = requirements.iter().filter(|requirement| {
        let requirement = Some(*requirement);
        is_sound(text(requirement, "operator"), text(requirement, "key"), texts(requirement, "values"))
    });
    match sound.count() {
        0 => Read::Nothing,
        all if all == requirements.len() => Read::Whole,
        _ => Read::InPart,
    }
}
