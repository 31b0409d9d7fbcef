//! The rule of prefixes ([`super::names_allowed`]) for shared Clusters whose API server is not of this process: objects that
//! make the server itself keep it.
//!
//! # Flow
//! In the Cluster lie one ValidatingAdmissionPolicy, one binding, and one ConfigMap, the [`table`], which says who keeps to
//! which prefix. The table is one object, so that a tenant's prefix and its identities come into force together, and the
//! policy looks a caller up in it, so that a thousand tenants cost a request no more than one.
//!
//! # Guarantees
//! - Bound are ServiceAccounts only: nodes, certificates and administrators are no tenant's.
//! - An identity of an AccessRequest that the table does not know, or not yet, may write nothing outside namespaces.
//! - The policy says by [`probe`] of which table it judges, so that nobody is given rights before it does.
//! - Everything is judged by the name that the object has: of a generated one the server shows the final name, of the
//!   objects of a collection that is deleted each one's own.
//!
//! # Caveats
//! - Kubernetes judges no write of policies and bindings by policies. Whoever may write these, or impersonate others, or ask
//!   for tokens in `allot-access`, can do without; ceilings are there to give no such rights.
//! - A ServiceAccount in a namespace with a tenant's prefix is bound once the server has seen the tenant's entry. Of several
//!   servers behind one address the one that was asked has.
//! - Without the table nobody is bound: the other choice would hold up every ServiceAccount there is, and those who could put
//!   it right. It is put back when it is looked for.

use std::collections::BTreeMap;

use allotment_api::names;
use serde_json::{Value, json};

use super::inside::object_name;
use super::names::{NamesAllowed, of_access_request};
use crate::requests::{Snapshot, is_well_formed, owns};
use crate::write::ObjectKey;

/// What policy, binding and table are called, and the namespace that is never made ([`probe`]).
pub const GUARD: &str = "allotment-prefixes";
/// Most entries of a table. With who owns them they stay below what the server stores as one object (1.5 MiB).
pub const MOST_ENTRIES: usize = 8_000;
/// What those may give who are bound to no prefix.
const ANY: &str = "any";
const POLICIES: &str = "admissionregistration.k8s.io/v1";

/// Who keeps to which prefix, by the name of the account or by the prefix itself. Nothing where there is nobody to keep
/// apart: of a dedicated Cluster, or one that is not known.
pub fn table(snapshot: &Snapshot, key: &ObjectKey, cluster_uid: &str) -> Option<BTreeMap<String, String>> {
    let cluster = snapshot.cluster(key).filter(|cluster| cluster.metadata.uid.as_deref() == Some(cluster_uid))?;
    if cluster.spec.dedicated != Some(false) {
        return None;
    }
    // Those that were released count too: their namespaces are still there.
    let tenants = cluster.spec.tenants.iter().filter(|tenant| is_well_formed(&tenant.prefix));
    let tenants = tenants.filter(|tenant| owns(&tenant.prefix, &tenant.prefix));
    let mut entries: BTreeMap<String, String> = tenants
        .map(|tenant| (tenant.prefix.clone(), format!("{} {}/{}", tenant.prefix, tenant.namespace, tenant.name)))
        .collect();
    let living = snapshot.live_access.get(cluster_uid).into_iter().flatten();
    for access in living.filter_map(|key| snapshot.access.get(key)) {
        let Some(uid) = access.metadata.uid.as_deref() else { continue };
        let entry = match of_access_request(snapshot, cluster, access) {
            NamesAllowed::Any => ANY.to_owned(),
            NamesAllowed::Prefix { prefix, request } => format!("{prefix} {request}"),
            NamesAllowed::Unknown => continue,
        };
        entries.insert(object_name(uid), entry);
    }
    Some(entries)
}

/// The table as an object.
pub fn table_object(entries: &BTreeMap<String, String>) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": entries,
        "metadata": {"name": GUARD, "namespace": names::ACCESS_NAMESPACE, "labels": labels()}})
}

/// The policy and its binding, with all that a server would add of its own.
pub fn policy_objects() -> [Value; 2] {
    let policy = json!({"apiVersion": POLICIES, "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": GUARD, "labels": labels()}, "spec": policy_spec(&spoken())});
    let binding = json!({"apiVersion": POLICIES, "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": GUARD, "labels": labels()}, "spec": {
        "policyName": GUARD, "validationActions": ["Deny"],
        "paramRef": {"name": GUARD, "namespace": names::ACCESS_NAMESPACE, "parameterNotFoundAction": "Allow"},
    }});
    [policy, binding]
}

fn policy_spec(spoken: &str) -> Value {
    let rule = |groups: &[&str], operations: &[&str], scope: &str| json!({"apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": ["*/*"], "scope": scope});
    json!({
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
            "resourceRules": [rule(&["*"], &["CREATE", "UPDATE", "DELETE"], "Cluster")],
            // Reviews are asked and never stored.
            "excludeResourceRules": [rule(&["authentication.k8s.io", "authorization.k8s.io"], &["*"], "*")],
        },
        "matchConditions": [{"name": "asked-of", "expression": format!("({BOUND}) || ({})", probed())}],
        "variables": variables(),
        "validations": validations(spoken),
    })
}

/// An object that is asked to be made as a dry run, and that the policy refuses, saying of which table it judges.
pub fn probe() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GUARD}})
}

/// The resourceVersion of the table that the policy judges by, from what was answered to the probe. Nothing where it
/// is not this policy that answers.
pub fn in_force(answer: &str) -> Option<&str> {
    answer.split_once(&spoken())?.1.split_whitespace().next()
}

/// The caller is a ServiceAccount.
const BOUND: &str = "request.userInfo.username.startsWith('system:serviceaccount:') \
    && request.userInfo.username.split(':', 4).size() == 4";

fn probed() -> String {
    format!(
        "request.operation == 'CREATE' && request.resource.resource == 'namespaces' && request.name == '{GUARD}' \
         && has(request.dryRun) && request.dryRun"
    )
}

fn variables() -> Value {
    let access = names::ACCESS_NAMESPACE;
    let variable = |name: &str, expression: String| json!({"name": name, "expression": expression});
    json!([
        variable("probed", probed()),
        // system, serviceaccount, namespace, name
        variable("account", format!("{BOUND} ? request.userInfo.username.split(':', 4) : ['', '', '', '']")),
        variable("ours", format!("variables.account[2] == '{access}'")),
        // A prefix ends at the only hyphen that it has.
        variable(
            "key",
            "variables.ours ? variables.account[3] \
             : variables.account[2].substring(0, variables.account[2].indexOf('-') + 1)"
                .to_owned(),
        ),
        variable(
            "entry",
            "has(params.data) && variables.key in params.data ? params.data[variables.key] : ''".to_owned(),
        ),
        variable("prefix", "variables.entry.split(' ')[0]".to_owned()),
        // What is deleted is shown as the old object only, each one of a collection.
        variable(
            "name",
            "request.operation == 'DELETE' ? (oldObject != null ? oldObject.metadata.name : request.name) \
             : (has(object.metadata.name) ? object.metadata.name : object.metadata.generateName)"
                .to_owned(),
        ),
    ])
}

fn validations(spoken: &str) -> Value {
    let unknown = "this cluster is shared, and no prefix is known of this identity; try again";
    let begin = "this cluster is shared: names of objects outside namespaces have to begin with";
    json!([
        {"expression": "!variables.probed", "reason": "Forbidden", "message": "prefixes are enforced",
         "messageExpression": format!("'{spoken}' + params.metadata.resourceVersion")},
        {"expression": "!variables.ours || variables.entry != ''", "reason": "Forbidden", "message": unknown},
        {"expression": format!(
            "variables.entry == '' || variables.entry == '{ANY}' || variables.name.startsWith(variables.prefix)"),
         "reason": "Forbidden", "message": format!("{begin} the tenant's prefix"),
         "messageExpression": format!(
            "'{begin} \"' + variables.prefix + '\", the prefix of ClusterRequest ' + variables.entry.split(' ')[1]")},
    ])
}

/// How the probe is answered, but for the table. It changes with the policy, so that an older one is not taken for this.
fn spoken() -> String {
    format!("prefixes are enforced as of {:016x} ", digest(&policy_spec("").to_string()))
}

/// FNV-1a: nobody has a use for a policy that seems to be another.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn labels() -> Value {
    json!({"app.kubernetes.io/managed-by": "allotment"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_stay_below_what_servers_compile_and_names_below_what_they_take() {
        let [policy, _] = policy_objects();
        for validation in policy["spec"]["validations"].as_array().expect("a list") {
            // Kubernetes takes messages of 5 KiB and expressions without a line break in messages.
            let message = validation["message"].as_str().expect("each has one");
            assert!(message.len() < 1024 && !message.contains('\n'), "{message}");
        }
        assert!(policy["spec"].to_string().len() < 8 * 1024, "each server compiles it each time it changes");
    }

    #[test]
    fn the_answer_to_the_probe_names_the_table() {
        let says = |text: &str| {
            format!(
                "namespaces \"x\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: {text}"
            )
        };
        assert_eq!(in_force(&says(&format!("{}4711", spoken()))), Some("4711"));
        assert_eq!(in_force(&says("prefixes are enforced as of 0123456789abcdef 4711")), None, "another policy");
        assert_eq!(in_force("namespaces \"x\" is forbidden"), None);
    }
}
