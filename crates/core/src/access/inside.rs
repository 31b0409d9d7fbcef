//! What lies in a Cluster for one AccessRequest, and how what is there becomes that.
//!
//! What takes away comes first, and is told apart from what gives: a role that loses some rights and gains others is
//! narrowed to what the old and the new one have in common, and gains once that is seen. So at no moment does the
//! identity have what neither was granted before nor is to be granted now, and nothing that is in the way of giving is
//! in the way of taking.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::names;
use allotment_api::requests::AccessRequest;
use allotment_machinery::rbac::{PolicyRule, compact, uncovered};
use k8s_openapi::api::rbac::v1::PolicyRule as ApiRule;
use serde_json::{Value, json};

use super::judge::{Allowed, as_written, rule};
use super::means::OidcUser;
use super::plan::{Change, InsideState};
use crate::requests::{owns, to_value};
use crate::write::ObjectKey;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Name of every object of an AccessRequest inside a Cluster.
pub(crate) fn object_name(uid: &str) -> String {
    format!("access-{uid}")
}

/// The ServiceAccount of an AccessRequest.
pub(crate) fn service_account(uid: &str) -> ObjectKey {
    ObjectKey::new(names::ACCESS_NAMESPACE, object_name(uid))
}

/// Who is given the rights.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// A ServiceAccount of the AccessRequest's own.
    Own,
    /// A user of an issuer, who is there whatever lies in the Cluster.
    User(&'a OidcUser),
}

/// The namespaces that have to be known: those asked for, and that of identities.
pub(crate) fn namespaces(request: &AccessRequest) -> BTreeSet<String> {
    let asked = request.spec.permissions.iter().filter_map(|permission| permission.namespace.clone());
    asked.chain([names::ACCESS_NAMESPACE.to_owned()]).collect()
}

/// A namespace asked for that does not exist and may not be made.
pub(crate) fn missing_namespace(request: &AccessRequest, allowed: &Allowed, state: &InsideState) -> Option<String> {
    let may_be_made = |namespace: &str| allowed.dedicated || owns(&allowed.prefix, namespace);
    let asked = request.spec.permissions.iter().filter_map(|permission| permission.namespace.as_ref());
    asked.filter(|name| !state.namespaces.contains(*name)).find(|name| !may_be_made(name)).cloned()
}

/// The objects that are to be there, but for namespaces.
pub(crate) fn desired(request: &AccessRequest, uid: &str, subject: Subject<'_>) -> Vec<Value> {
    let name = object_name(uid);
    let labels = json!({ names::ACCESS_REQUEST: uid });
    let metadata = |namespace: Option<&str>| match namespace {
        Some(namespace) => json!({ "name": name, "namespace": namespace, "labels": labels }),
        None => json!({ "name": name, "labels": labels }),
    };
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(Some(names::ACCESS_NAMESPACE)),
    });
    let (mut objects, subject) = match subject {
        Subject::Own => {
            (vec![account], json!({ "kind": "ServiceAccount", "name": name, "namespace": names::ACCESS_NAMESPACE }))
        }
        Subject::User(user) => {
            (Vec::new(), json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name }))
        }
    };
    let mut by_place: BTreeMap<Option<&str>, Vec<&ApiRule>> = BTreeMap::new();
    for permission in &request.spec.permissions {
        by_place.entry(permission.namespace.as_deref()).or_default().extend(&permission.rules);
    }
    for (namespace, rules) in by_place {
        let (role, binding) = match namespace {
            Some(_) => ("Role", "RoleBinding"),
            None => ("ClusterRole", "ClusterRoleBinding"),
        };
        objects.push(json!({ "apiVersion": RBAC, "kind": role, "metadata": metadata(namespace), "rules": rules }));
        objects.push(json!({
            "apiVersion": RBAC, "kind": binding, "metadata": metadata(namespace),
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name },
            "subjects": [subject],
        }));
    }
    objects
}

/// Changes inside a Cluster, each list in the order in which they are made.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// They give nobody any right.
    pub(crate) takes: Vec<Change>,
    /// They may.
    pub(crate) gives: Vec<Change>,
}

/// What makes of `state` what is desired, or brings it nearer to that; nothing where it is that already.
pub(crate) fn changes(request: &AccessRequest, uid: &str, subject: Subject<'_>, state: &InsideState) -> Changes {
    let desired = desired(request, uid, subject);
    let have: BTreeMap<Place<'_>, &Value> = state.objects.iter().map(|object| (place(object), object)).collect();
    let want: BTreeSet<Place<'_>> = desired.iter().map(place).collect();

    let mut gone: Vec<&Value> =
        have.iter().filter(|(key, _)| !want.contains(*key)).map(|(_, object)| *object).collect();
    let (mut narrowed, mut widened, mut created) = (Vec::new(), Vec::new(), Vec::new());
    for object in &desired {
        match have.get(&place(object)) {
            None => created.push(object.clone()),
            Some(there) if same(there, object) => {}
            // The role of a binding cannot be changed: it is made anew.
            Some(there) if is_binding(object) => {
                gone.push(there);
                created.push(object.clone());
            }
            Some(there) => {
                let mut applied = object.clone();
                for field in ["uid", "resourceVersion"] {
                    applied["metadata"][field] = there["metadata"][field].clone();
                }
                let (had, wanted) = (rules(there), rules(object));
                if is_within(&had, &wanted) {
                    widened.push(applied);
                } else {
                    if !is_within(&wanted, &had) {
                        applied["rules"] =
                            in_common(&had, &wanted).iter().map(as_written).map(|rule| to_value(&rule)).collect();
                    }
                    narrowed.push(applied);
                }
            }
        }
    }
    gone.sort_by_key(|object| !is_binding(object));
    let needed = |name: &String| match subject {
        Subject::Own => true,
        Subject::User(_) => request.spec.permissions.iter().any(|asked| asked.namespace.as_ref() == Some(name)),
    };
    let namespaces = namespaces(request).into_iter().filter(|name| !state.namespaces.contains(name)).filter(needed);
    let made = namespaces.map(|name| {
        let labels = match name.as_str() {
            names::ACCESS_NAMESPACE => json!({}),
            _ => json!({ names::ACCESS_REQUEST: uid }),
        };
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
    });
    let given = made.map(Change::Create).chain(widened.into_iter().map(Change::Apply));
    Changes {
        takes: gone.into_iter().map(delete).chain(narrowed.into_iter().map(Change::Apply)).collect(),
        gives: given.chain(created.into_iter().map(Change::Create)).collect(),
    }
}

/// What takes everything away: the identity first, so that its tokens end at once.
pub(crate) fn removal(state: &InsideState) -> Vec<Change> {
    let mut objects: Vec<&Value> = state.objects.iter().collect();
    objects.sort_by_key(|object| (object["kind"] != "ServiceAccount", !is_binding(object)));
    objects.into_iter().map(delete).collect()
}

/// UID of the ServiceAccount, if it is there.
pub(crate) fn identity<'a>(uid: &str, state: &'a InsideState) -> Option<&'a str> {
    let wanted = service_account(uid);
    let account = state.objects.iter().find(|object| object["kind"] == "ServiceAccount" && key(object) == wanted)?;
    account["metadata"]["uid"].as_str()
}

/// The one user whom all bindings name; nothing where they name others, or there are none.
pub(crate) fn sole_user(state: &InsideState) -> Option<String> {
    let subjects = state.objects.iter().filter(|object| is_binding(object)).map(|binding| &binding["subjects"]);
    let names = subjects.map(|subjects| match subjects.as_array().map(Vec::as_slice) {
        Some([one]) if one["kind"] == "User" => one["name"].as_str(),
        _ => None,
    });
    let names: BTreeSet<Option<&str>> = names.collect();
    match names.iter().collect::<Vec<_>>().as_slice() {
        [Some(name)] => Some((*name).to_owned()),
        _ => None,
    }
}

type Place<'a> = (&'a str, ObjectKey);

fn key(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

fn place(object: &Value) -> Place<'_> {
    (object["kind"].as_str().unwrap_or_default(), key(object))
}

fn is_binding(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("RoleBinding" | "ClusterRoleBinding"))
}

fn rules(object: &Value) -> Vec<PolicyRule> {
    let rules: Vec<ApiRule> = serde_json::from_value(object["rules"].clone()).unwrap_or_default();
    rules.iter().map(rule).collect()
}

fn same(there: &Value, wanted: &Value) -> bool {
    match wanted["kind"].as_str() {
        Some("Role" | "ClusterRole") => rules(there) == rules(wanted),
        Some("RoleBinding" | "ClusterRoleBinding") => {
            let subject = |object: &Value| {
                let list = object["subjects"].as_array().cloned().unwrap_or_default();
                let part = |subject: &Value, field: &str| subject[field].as_str().unwrap_or_default().to_owned();
                list.iter()
                    .map(|one| (part(one, "kind"), part(one, "namespace"), part(one, "name")))
                    .collect::<Vec<_>>()
            };
            there["roleRef"] == wanted["roleRef"] && subject(there) == subject(wanted)
        }
        _ => true,
    }
}

/// Whether `held` covers every one of the rules. Each by itself, so that how many there are does not matter.
fn is_within(rules: &[PolicyRule], held: &[PolicyRule]) -> bool {
    rules.iter().all(|rule| uncovered(held, std::slice::from_ref(rule)).is_empty())
}

/// Rules that lie within both. What stands for too many permissions to be compared is left out.
fn in_common(had: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    // Either way, since a rule with a wildcard is within no other, and others are within it.
    [(had, wanted), (wanted, had)]
        .into_iter()
        .flat_map(|(rules, other)| rules.iter().flat_map(|rule| part(rule, other)))
        .collect()
}

/// What of a rule `held` covers.
fn part(rule: &PolicyRule, held: &[PolicyRule]) -> Vec<PolicyRule> {
    let missing = uncovered(held, std::slice::from_ref(rule));
    match missing.as_slice() {
        [] => vec![rule.clone()],
        [whole] if whole == rule => Vec::new(),
        _ => compact(&rule.break_down().filter(|single| !missing.contains(single)).collect::<Vec<_>>()),
    }
}

fn delete(object: &Value) -> Change {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Change::Delete {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        key: key(object),
        uid: text(&object["metadata"]["uid"]),
    }
}
