//! The rule of prefixes ([`super::names_allowed`]) for shared Clusters whose API server is not of this process: objects that
//! make the server itself keep it.
//!
//! # Flow
//! In the Cluster lie one ValidatingAdmissionPolicy and one binding. Who keeps to which prefix ([`table`]) stands in the
//! expressions of the policy itself, as constant maps that the server builds when it compiles them: a thousand tenants cost a
//! request no more than one, and nothing has to be there, or to be followed, beside the policy (ADR 17).
//!
//! # Guarantees
//! - Bound are ServiceAccounts only: nodes, certificates and administrators are no tenant's.
//! - An identity of an AccessRequest that the table does not know, or not yet, may write nothing outside namespaces.
//! - The policy answers a [`probe`] with the [`Policy::stamp`] that it was written with, so that nobody is given rights before
//!   the server that was asked judges by the newest table. Of several servers behind one address another one may judge by an
//!   older table, which is safe: an account that it does not know may write nothing. One that has no policy at all judges
//!   nothing, so where there was none it is waited for some time that they all have it; that they do nobody hears.
//! - Nobody gives rights outside namespaces to those who are not kept to the same prefix ([`super::rights`]).
//! - Everything is judged by the name that the object has: of a generated one the server shows the final name, of the
//!   objects of a collection that is deleted each one's own.
//!
//! # Caveats
//! - Kubernetes judges no write of policies and bindings by policies. Whoever may write these, or impersonate others, or ask
//!   for tokens in `allot-access`, can do without; ceilings are there to give no such rights.
//! - A ServiceAccount in a namespace with a tenant's prefix is bound once the server has compiled the table with the tenant's
//!   entry, which it does once a second. Of several servers behind one address the one that was asked has.
//! - Without policy or binding nobody is bound. They are put back by whoever follows them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use allotment_api::names;
use serde_json::{Value, json};

use super::rights;
use super::table::ANY;
pub use super::table::{MOST_OF_TENANT, Neighbours, NoRoom, Table, table};

/// What policy and binding are called, and the namespace that is never made ([`probe`]).
pub const GUARD: &str = "allotment-prefixes";
/// Most bytes of a table as text: who does not fit is left out. Policy and server's additions stay below what is stored as one
/// object (1.5 MiB): some 15,000 identities with names of usual length.
pub const MOST_BYTES: usize = 1024 * 1024;
/// Bytes of one expression. CEL takes 100,000 code points.
const EXPRESSION_BYTES: usize = 48 * 1024;
const POLICIES: &str = "admissionregistration.k8s.io/v1";

/// A policy that keeps to a table.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// The table.
    pub table: &'a Table,
    /// What it answers to the [`probe`]: letters and digits, others for each table and each writer.
    pub stamp: &'a str,
    /// Who writes it, in an annotation. A process that takes over writes it once though it says what it should: then what
    /// others decided on the state before is refused.
    pub holder: &'a str,
}

impl Policy<'_> {
    /// The policy and its binding, with all that a server would add of its own.
    pub fn objects(&self) -> [Value; 2] {
        let policy = json!({"apiVersion": POLICIES, "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": GUARD, "labels": labels(), "annotations": {names::PREFIXES_BY: self.holder}},
            "spec": self.spec()});
        let binding = json!({"apiVersion": POLICIES, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": GUARD, "labels": labels()},
            "spec": {"policyName": GUARD, "validationActions": ["Deny"]}});
        [policy, binding]
    }

    fn spec(&self) -> Value {
        let rule = |groups: &[&str], operations: &[&str], scope: &str| json!({"apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": ["*/*"], "scope": scope});
        json!({
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "resourceRules": [rule(&["*"], &["CREATE", "UPDATE", "DELETE"], "Cluster")],
                // Reviews are asked and never stored.
                "excludeResourceRules": [rule(&["authentication.k8s.io", "authorization.k8s.io"], &["*"], "*")],
            },
            "matchConditions": [{"name": "asked-of", "expression": format!("({BOUND}) || ({})", probed())}],
            "variables": self.variables(),
            "validations": validations(self.stamp),
        })
    }

    fn variables(&self) -> Vec<Value> {
        let Table { tenants, accounts, .. } = self.table;
        let (tenants, accounts) = (maps(tenants), maps(accounts));
        let of_account = look_up("accounts", accounts.len(), "variables.account[3]");
        let of_begin = look_up("tenants", tenants.len(), "variables.begin");
        let request = look_up("tenants", tenants.len(), "variables.prefix");
        let first = [
            ("probed", probed()),
            // system, serviceaccount, namespace, name
            ("account", format!("{BOUND} ? request.userInfo.username.split(':', 4) : ['', '', '', '']")),
            ("ours", format!("variables.account[2] == '{}'", names::ACCESS_NAMESPACE)),
            // A prefix ends at the only hyphen that it has.
            ("begin", "variables.account[2].substring(0, variables.account[2].indexOf('-') + 1)".to_owned()),
        ];
        let last = [
            // What the caller keeps to: a prefix, `any`, or nothing where nothing is known.
            ("prefix", format!("variables.ours ? ({of_account}) : (({of_begin}) == '' ? '{ANY}' : variables.begin)")),
            ("request", request),
            // What is deleted is shown as the old object only, each one of a collection.
            (
                "name",
                "request.operation == 'DELETE' ? (oldObject != null ? oldObject.metadata.name : request.name) \
                 : (has(object.metadata.name) ? object.metadata.name : object.metadata.generateName)"
                    .to_owned(),
            ),
        ];
        let parts = |name: &'static str, maps: Vec<String>| {
            maps.into_iter().enumerate().map(move |(index, map)| (format!("{name}{index}"), map))
        };
        let named = |all: Vec<(&'static str, String)>| all.into_iter().map(|(name, text)| (name.to_owned(), text));
        named(first.into())
            .chain(parts("tenants", tenants))
            .chain(parts("accounts", accounts))
            .chain(named(last.into()))
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect()
    }
}

/// What so many maps have for a key; an empty text where none has it.
fn look_up(name: &str, maps: usize, key: &str) -> String {
    (0..maps).fold("''".to_owned(), |otherwise, index| {
        let map = format!("variables.{name}{index}");
        format!("{key} in {map} ? {map}[{key}] : ({otherwise})")
    })
}

/// An object that is asked to be made as a dry run, and that the policy refuses with its stamp.
pub fn probe() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GUARD}})
}

/// The stamp of the policy that judges, from what was answered to the probe. Nothing where it is not such a policy
/// that answers.
pub fn in_force(answer: &str) -> Option<&str> {
    answer.split_once(SPOKEN)?.1.split(';').next()
}

/// The stamp that a policy was written with.
pub fn stamp_of(policy: &Value) -> Option<&str> {
    let validations = policy["spec"]["validations"].as_array()?;
    validations.iter().find_map(|validation| in_force(validation["message"].as_str()?))
}

const SPOKEN: &str = "prefixes are enforced as of ";

/// The caller is a ServiceAccount.
const BOUND: &str = "request.userInfo.username.startsWith('system:serviceaccount:') \
    && request.userInfo.username.split(':', 4).size() == 4";

fn probed() -> String {
    format!(
        "request.operation == 'CREATE' && request.resource.resource == 'namespaces' && request.name == '{GUARD}' \
         && has(request.dryRun) && request.dryRun"
    )
}

/// The entries as constant maps of CEL, each an expression of bounded length.
pub(super) fn maps(entries: &BTreeMap<String, String>) -> Vec<String> {
    let mut maps: Vec<String> = Vec::new();
    for (key, value) in entries {
        let entry = entry(key, value);
        match maps.last_mut().filter(|map| map.len() + entry.len() < EXPRESSION_BYTES) {
            Some(map) => {
                map.push(',');
                map.push_str(&entry);
            }
            None => maps.push(format!("{{{entry}")),
        }
    }
    maps.iter_mut().for_each(|map| map.push('}'));
    maps
}

/// An entry of a map.
pub(super) fn entry(key: &str, value: &str) -> String {
    format!("{}:{}", quoted(key), quoted(value))
}

/// A text of CEL. What is no part of a usual name is written as its number, so that no name ends it.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for letter in text.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '/' | ':' => quoted.push(letter),
            // Writing into a text does not fail.
            other => _ = write!(quoted, "\\U{:08x}", u32::from(other)),
        }
    }
    quoted.push('\'');
    quoted
}

fn validations(stamp: &str) -> Value {
    let unknown = "this cluster is shared, and no prefix is known of this identity; try again";
    let begin = "this cluster is shared: names of objects outside namespaces have to begin with";
    let exempt = format!("variables.prefix in ['', '{ANY}']");
    let mut validations = vec![
        json!({"expression": "!variables.probed", "reason": "Forbidden", "message": format!("{SPOKEN}{stamp};")}),
        json!({"expression": "variables.prefix != ''", "reason": "Forbidden", "message": unknown}),
        json!({"expression": format!("{exempt} || variables.name.startsWith(variables.prefix)"),
         "reason": "Forbidden", "message": format!("{begin} the tenant's prefix"),
         "messageExpression": format!(
            "'{begin} \"' + variables.prefix + '\", the prefix of ClusterRequest ' + variables.request")}),
    ];
    validations.extend(rights::expressions(&exempt).into_iter().map(|(expression, message, told)| {
        let mut validation = json!({"expression": expression, "reason": "Forbidden", "message": message});
        if let Some(told) = told {
            validation["messageExpression"] = json!(told);
        }
        validation
    }));
    validations.into()
}

fn labels() -> Value {
    json!({"app.kubernetes.io/managed-by": "allotment"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_stay_below_what_servers_compile_and_messages_below_what_they_take() {
        let long = "n".repeat(200);
        for table in [Table::default(), Table::large(1, "a"), Table::large(1_000, "team"), Table::large(1_500, &long)] {
            let [policy, _] = Policy { table: &table, stamp: "s", holder: "h" }.objects();
            for validation in policy["spec"]["validations"].as_array().expect("a list") {
                // Kubernetes takes messages of 5 KiB without a line break.
                let message = validation["message"].as_str().expect("each has one");
                assert!(message.len() < 1024 && !message.contains('\n'), "{message}");
            }
            for variable in policy["spec"]["variables"].as_array().expect("a list") {
                let expression = variable["expression"].as_str().expect("each has one");
                assert!(expression.len() < 100_000, "{}: {}", variable["name"], expression.len());
            }
            assert!(table.bytes() <= MOST_BYTES, "{} bytes for {} entries", table.bytes(), table.len());
            assert!(policy.to_string().len() < table.bytes() + 8 * 1024, "beside the table there is little");
        }
    }

    #[test]
    fn no_name_ends_the_text_that_it_stands_in() {
        assert_eq!(quoted("a-b.c/d"), "'a-b.c/d'");
        assert_eq!(
            quoted("a' || true || '\\"),
            "'a\\U00000027\\U00000020\\U0000007c\\U0000007c\\U00000020true\\U00000020\\U0000007c\\U0000007c\\U00000020\\U00000027\\U0000005c'"
        );
    }

    #[test]
    fn the_answer_to_the_probe_names_the_policy() {
        let says = |text: &str| {
            format!(
                "namespaces \"x\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: {text}"
            )
        };
        assert_eq!(in_force(&says("prefixes are enforced as of 4711;")), Some("4711"));
        assert_eq!(in_force("namespaces \"x\" is forbidden"), None);
        let [policy, binding] = Policy { table: &Table::large(2, "a"), stamp: "4711", holder: "h" }.objects();
        assert_eq!((stamp_of(&policy), stamp_of(&binding)), (Some("4711"), None));
    }
}
