//! What a provider of another process is on the platform's API: its ServiceAccount, its rights, its Lease, and the Secret
//! through which it is asked for admin access. All of it is the platform's; how to run the provider is left to others.
//!
//! # Guarantees
//! - Its rights are those of [the contract](https://kubernetes.io/docs/reference/access-authn-authz/rbac/) and no more: it reads
//!   Clusters, its ClusterProvider, and the Secrets that its ProviderConfigs name and that operators opened to it; it has
//!   its own API group, its Lease and its desk; it writes events, and finalizers and status of Clusters. What RBAC cannot say, admission does: only
//!   its own Clusters, only its part of them, only definitions of its own group.

use std::collections::BTreeSet;

use allotment_api::names::{self, PLANES_NAMESPACE, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

/// Secrets that one provider may read; ProviderConfigs that name more are served as far as this.
const MOST_SECRETS: usize = 256;
/// How deep the spec of a ProviderConfig is searched for names of Secrets.
const DEEPEST: usize = 16;

/// A provider of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideIdentity {
    /// Its ClusterProvider.
    pub provider: String,
    /// Its API group.
    pub group: String,
    /// The Secrets in `allot-system` that its ProviderConfigs name and that say themselves that it may read them
    /// ([`names::READ_BY`]): it defines its ProviderConfigs, so what these name is no consent.
    pub secrets: BTreeSet<String>,
    /// Whether one of its profiles has it make access itself. Secrets are no part of that: it is let to those of the
    /// AccessRequests that it was asked to fulfil, one by one (`allotment_core::access`).
    pub fulfils_access: bool,
}

impl OutsideIdentity {
    /// The objects, in the order in which they are made; the Lease, which tells that there may be others, comes first and
    /// goes last. Each is what the platform owns of the object.
    pub fn objects(&self) -> Vec<Value> {
        let name = names::provider_object(&self.provider);
        let desk = names::admin_desk(&self.provider);
        let labelled = |mut object: Value, label: &str| {
            object["metadata"]["labels"] = json!({ (label): "" });
            object
        };
        let lease = object("coordination.k8s.io/v1", "Lease", SYSTEM_NAMESPACE, &name);
        let mut secret = object("v1", "Secret", PLANES_NAMESPACE, &desk);
        secret["type"] = json!("Opaque");
        let secret = labelled(secret, names::ADMIN_DESK);
        let everywhere = wide_name(&self.provider);
        vec![
            labelled(lease, names::HEARTBEAT),
            object("v1", "ServiceAccount", SYSTEM_NAMESPACE, &name),
            secret,
            role("ClusterRole", "", &everywhere, self.wide_rules()),
            binding("ClusterRoleBinding", "", &everywhere, "ClusterRole", &name),
            role("Role", SYSTEM_NAMESPACE, &name, self.system_rules(&name)),
            binding("RoleBinding", SYSTEM_NAMESPACE, &name, "Role", &name),
            role("Role", PLANES_NAMESPACE, &desk, desk_rules(&desk)),
            binding("RoleBinding", PLANES_NAMESPACE, &desk, "Role", &name),
        ]
    }

    fn wide_rules(&self) -> Value {
        let provider = [&self.provider];
        let mut rules = json!([
            rule(names::GROUP, &["clusters"], &["get", "list", "watch", "update", "patch"]),
            rule(names::GROUP, &["clusters/status"], &["get", "update", "patch"]),
            rule(names::GROUP, &["clusters/finalizers"], &["update"]),
            named_rule(names::GROUP, &["clusterproviders"], &provider, &["get", "list", "watch"]),
            named_rule(names::GROUP, &["clusterproviders/status"], &provider, &["get", "update", "patch"]),
            rule(&self.group, &["*"], &["*"]),
            // None is deleted, since what operators wrote would go with it; of which group, admission says.
            rule(
                "apiextensions.k8s.io",
                &["customresourcedefinitions"],
                &["get", "list", "watch", "create", "update", "patch"],
            ),
            { "apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"] },
        ]);
        if let Some(list) = rules.as_array_mut().filter(|_| self.fulfils_access) {
            // Its finalizer is part of the object; admission sees to it that it changes nothing else.
            list.push(rule(names::GROUP, &["accessrequests"], &["get", "list", "watch", "update", "patch"]));
            list.push(rule(names::GROUP, &["accessrequests/status"], &["get", "update", "patch"]));
            list.push(rule(names::GROUP, &["accessrequests/finalizers"], &["update"]));
        }
        rules
    }

    fn system_rules(&self, name: &str) -> Value {
        let lease =
            named_rule("coordination.k8s.io", &["leases"], &[name], &["get", "list", "watch", "update", "patch"]);
        if self.secrets.is_empty() {
            // A rule without names would be one about all.
            return json!([lease]);
        }
        let named: Vec<&String> = self.secrets.iter().take(MOST_SECRETS).collect();
        json!([lease, named_rule("", &["secrets"], &named, &["get", "list", "watch"])])
    }
}

/// What is called after a ClusterProvider among the objects of the whole cluster.
fn wide_name(provider: &str) -> String {
    format!("{}:provider:{provider}", names::GROUP)
}

fn desk_rules(desk: &str) -> Value {
    json!([named_rule("", &["secrets"], &[desk], &["get", "list", "watch", "update", "patch"])])
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn named_rule<T: serde::Serialize>(group: &str, resources: &[&str], of_name: &[T], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "resourceNames": of_name, "verbs": verbs })
}

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    let mut role = object("rbac.authorization.k8s.io/v1", kind, namespace, name);
    role["rules"] = rules;
    role
}

fn binding(kind: &str, namespace: &str, name: &str, role: &str, account: &str) -> Value {
    let mut binding = object("rbac.authorization.k8s.io/v1", kind, namespace, name);
    binding["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name });
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE }]);
    binding
}

/// The Secrets in `allot-system` that the spec of a ProviderConfig names: an object that says it is one (`type` or `kind`
/// is `Secret`), or that stands under a member whose name ends with `SecretRef`, with a `name` and no other namespace.
pub fn named_secrets(spec: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    search("", spec, DEEPEST, &mut found);
    found
}

fn search(member: &str, value: &Value, deeper: usize, found: &mut BTreeSet<String>) {
    let Some(deeper) = deeper.checked_sub(1) else { return };
    match value {
        Value::Object(members) => {
            let text = |key: &str| members.get(key).and_then(Value::as_str);
            let said = text("kind").or_else(|| text("type"));
            let under = member.ends_with("SecretRef") || member.ends_with("secretRef");
            let is_one = said == Some("Secret") || (under && said.is_none());
            let here = text("namespace").is_none_or(|namespace| namespace == SYSTEM_NAMESPACE);
            if let Some(name) = text("name").filter(|name| is_one && here && !name.is_empty()) {
                found.insert(name.to_owned());
            }
            members.iter().for_each(|(key, value)| search(key, value, deeper, found));
        }
        Value::Array(items) => items.iter().for_each(|item| search(member, item, deeper, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(secrets: &[&str]) -> OutsideIdentity {
        OutsideIdentity {
            provider: "p".into(),
            group: "planes.cluster.openmcp.cloud".into(),
            secrets: secrets.iter().map(|name| (*name).to_owned()).collect(),
            fulfils_access: false,
        }
    }

    fn rules_about<'a>(objects: &'a [Value], resource: &str) -> Vec<&'a Value> {
        let rules = objects.iter().filter_map(|object| object["rules"].as_array()).flatten();
        rules.filter(|rule| rule["resources"].as_array().is_some_and(|all| all.contains(&json!(resource)))).collect()
    }

    #[test]
    fn secrets_are_read_by_name_only() {
        for secrets in [&[][..], &["a", "b"]] {
            let objects = identity(secrets).objects();
            for rule in rules_about(&objects, "secrets") {
                assert!(rule["resourceNames"].as_array().is_some_and(|named| !named.is_empty()), "{rule}");
                assert_eq!(rule["apiGroups"], json!([""]));
            }
            assert_eq!(rules_about(&objects, "secrets").len(), if secrets.is_empty() { 1 } else { 2 });
        }
        for resource in ["leases", "clusterproviders", "clusterproviders/status"] {
            let objects = identity(&[]).objects();
            let all_named = rules_about(&objects, resource).iter().all(|rule| rule["resourceNames"].is_array());
            assert!(all_named && !rules_about(&objects, resource).is_empty(), "{resource}");
        }
    }

    #[test]
    fn no_definition_is_deleted_by_a_provider() {
        let objects = identity(&[]).objects();
        for rule in rules_about(&objects, "customresourcedefinitions") {
            let verbs = rule["verbs"].as_array().expect("verbs");
            assert!(["delete", "deletecollection", "*"].iter().all(|verb| !verbs.contains(&json!(verb))), "{rule}");
        }
    }

    #[test]
    fn nothing_of_the_platforms_group_is_made_or_deleted_by_a_provider() {
        let objects = identity(&["s", "t"]).objects();
        let rules = objects.iter().filter_map(|object| object["rules"].as_array()).flatten();
        for rule in rules.filter(|rule| rule["apiGroups"] == json!([names::GROUP])) {
            let verbs = rule["verbs"].as_array().expect("verbs");
            for verb in ["create", "delete", "deletecollection", "*"] {
                assert!(!verbs.contains(&json!(verb)), "{rule}");
            }
        }
    }

    #[test]
    fn the_lease_comes_first_and_every_binding_leads_to_a_role_that_is_there() {
        let objects = identity(&[]).objects();
        assert_eq!(objects[0]["kind"], "Lease");
        for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
            let role = |object: &&Value| {
                object["kind"] == binding["roleRef"]["kind"]
                    && object["metadata"]["name"] == binding["roleRef"]["name"]
                    && object["metadata"]["namespace"] == binding["metadata"]["namespace"]
            };
            assert!(objects.iter().any(|object| role(&object)), "{binding}");
            assert_eq!(binding["subjects"][0]["name"], "provider-p");
        }
    }

    #[test]
    fn a_config_names_the_secrets_it_says_are_secrets() {
        for (spec, expect) in [
            (json!({"gardenKubeconfigRef": {"type": "Secret", "name": "a"}}), &["a"][..]),
            (json!({"pullSecretRef": {"name": "a"}, "list": [{"kind": "Secret", "name": "b"}]}), &["a", "b"]),
            (json!({"secretRef": {"name": "a", "namespace": "allot-system"}}), &["a"]),
            (json!({"secretRef": {"name": "a", "namespace": "allot-planes"}}), &[]),
            (json!({"secretRef": {"kind": "ConfigMap", "name": "a"}, "machineTypeRef": {"name": "large"}}), &[]),
            (json!({"secretRef": {"name": ""}, "secret": "a", "name": "b", "kind": "X"}), &[]),
            (json!("text"), &[]),
        ] {
            let found: Vec<String> = named_secrets(&spec).into_iter().collect();
            assert_eq!(found, expect, "{spec}");
        }
        let deep = (0..40).fold(json!({"kind": "Secret", "name": "deep"}), |inner, _| json!({"x": inner}));
        assert!(named_secrets(&deep).is_empty());
    }
}
