//! Which crate may use which. Checked package by package: a build of the whole workspace unifies
//! features and hides edges.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use crate::run::{cargo, output};

/// What a crate may use of the workspace, and which packages of others must not be anywhere below it.
struct Rule {
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

const NO_IO: &[&str] = &["tokio", "kube-client", "hyper"];

const RULES: &[Rule] = &[
    Rule { name: "allotment-machinery", may_use: &[], never: &["tokio", "kube-core", "k8s-openapi", "hyper"] },
    Rule { name: "allotment-pki", may_use: &[], never: &["tokio", "kube-core", "k8s-openapi"] },
    Rule { name: "allotment-api", may_use: &["machinery"], never: NO_IO },
    Rule { name: "allotment-core", may_use: &["api", "machinery"], never: NO_IO },
    Rule { name: "allotment-admission", may_use: &["core", "api", "machinery"], never: NO_IO },
    Rule { name: "allotment-store", may_use: &["machinery"], never: &["kube-core", "k8s-openapi", "hyper"] },
    Rule {
        name: "allotment-apiserver",
        may_use: &["store", "machinery", "pki"],
        never: &["kube-core", "kube-client", "k8s-openapi"],
    },
    Rule { name: "allotment-controllers", may_use: &["core", "api", "machinery", "pki"], never: &[] },
    Rule {
        name: "allotment-landscape",
        may_use: &["admission", "apiserver", "controllers", "core", "api", "machinery", "pki", "store"],
        never: &[],
    },
];

/// Of everything that is linked, never these: one crypto provider, no second TLS stack.
const NEVER_ANYWHERE: &[&str] = &["ring", "openssl", "openssl-sys", "native-tls"];

/// Crates that only tests and tasks use: nobody depends on them.
const LEAVES: &[&str] = &["allot", "allotment-sim", "allotment-testkit", "xtask"];

/// Fails with a line for each edge that is not allowed.
pub(crate) fn check() -> Result<()> {
    let members = members()?;
    let mut wrong = Vec::new();
    for member in &members {
        let below = tree(member)?;
        for name in NEVER_ANYWHERE.iter().filter(|name| below.contains(**name)) {
            wrong.push(format!("{member} links {name}: one crypto provider for all (aws-lc-rs)"));
        }
        for leaf in LEAVES.iter().filter(|leaf| below.contains(**leaf)) {
            wrong.push(format!("{member} uses {leaf}, which nobody may use"));
        }
        let Some(rule) = RULES.iter().find(|rule| rule.name == member) else {
            if !LEAVES.contains(&member.as_str()) {
                wrong.push(format!("{member} has no rule: add one here and to ARCHITECTURE.md"));
            }
            continue;
        };
        let allowed: BTreeSet<String> = rule.may_use.iter().map(|name| format!("allotment-{name}")).collect();
        for used in below.iter().filter(|name| members.contains(*name) && !allowed.contains(*name)) {
            wrong.push(format!("{member} uses {used}, which its rule does not allow"));
        }
        for name in rule.never.iter().filter(|name| below.contains(**name)) {
            wrong.push(format!("{member} links {name}, which its rule forbids"));
        }
    }
    if !wrong.is_empty() {
        bail!("edges that are not allowed:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn members() -> Result<BTreeSet<String>> {
    let metadata = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: BTreeMap<String, serde_json::Value> = serde_json::from_str(&metadata)?;
    let packages = metadata.get("packages").and_then(serde_json::Value::as_array).into_iter().flatten();
    Ok(packages.filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

/// The names of all packages linked into `member`, itself left out.
fn tree(member: &str) -> Result<BTreeSet<String>> {
    let lines = output(cargo().args([
        "tree",
        "--locked",
        "-p",
        member,
        "-e",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "-f",
        "{p}",
    ]))?;
    let names = lines.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| *name != member).map(str::to_owned).collect())
}
