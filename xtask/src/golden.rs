//! The recorded replies of kube-apiserver, replayed against `allot up`: against the platform, and a part of them
//! against a logical cluster below `/clusters/<id>`, which has to answer alike.
//!
//! `tests/golden/pending.txt` lists, by name, the scenarios of the areas built that do not pass yet. A
//! scenario that fails without standing there fails the check, and so does one that stands there and
//! passes: the list only shrinks. Behind each name stands why it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::run::{root, run, say};
use crate::server::{Server, Tenant, build};
use crate::{assets, assets::Assets};

/// The areas that are built. The others wait for parts that are not there yet.
const AREAS: &[&str] = &[
    "apply",
    "config",
    "create",
    "crd",
    "delete",
    "discovery",
    "dryrun",
    "errors",
    "events",
    "fieldvalidation",
    "generation",
    "leases",
    "limits",
    "listwatch",
    "namespaces",
    "openapi",
    "patch",
    "rbac",
    "reviews",
    "serviceaccounts",
    "subresources",
    "update",
    "workloads",
];

/// The areas that are replayed below `/clusters/<id>` too: those whose replies depend on whose key space, access
/// rules, definitions and keys are looked at.
const TENANT_AREAS: &[&str] = &[
    "crd",
    "delete",
    "discovery",
    "errors",
    "listwatch",
    "namespaces",
    "openapi",
    "rbac",
    "reviews",
    "serviceaccounts",
];

/// What a replay is put to.
enum Subject<'a> {
    Platform,
    Tenant(&'a Tenant),
}

#[derive(Deserialize)]
struct Report {
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    area: String,
    name: String,
    passed: bool,
}

fn pending_file() -> PathBuf {
    root().join("tests/golden/pending.txt")
}

/// The pending scenarios by name, with the reason of each: `area/scenario # reason`.
fn pending() -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(pending_file()).context("cannot read tests/golden/pending.txt")?;
    parse_pending(&text)
}

fn parse_pending(text: &str) -> Result<BTreeMap<String, String>> {
    let mut pending = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, reason) = line.split_once('#').unwrap_or((line, ""));
        let (name, reason) = (name.trim(), reason.trim());
        if reason.is_empty() {
            bail!("tests/golden/pending.txt does not say why {name} is pending: write `{name} # reason`");
        }
        pending.insert(name.to_owned(), reason.to_owned());
    }
    Ok(pending)
}

/// Replays some scenarios and shows what differs.
pub(crate) fn show(only: &[String], below_tenant: bool) -> Result<()> {
    let assets = assets::install()?;
    let server = Server::start(&build()?, "golden")?;
    let tenant = if below_tenant { Some(server.tenant(kubectl(&assets)?)?) } else { None };
    let subject = tenant.as_ref().map_or(Subject::Platform, Subject::Tenant);
    run(&mut replay(&assets, &server, &subject, only)?)
}

fn kubectl(assets: &Assets) -> Result<&Path> {
    let (_, kubectl) = assets.kubectl.first().context("no kubectl is installed")?;
    Ok(kubectl)
}

/// What passed and what did not, by name.
struct Outcome {
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// What the replay printed.
    log: String,
}

fn outcome(assets: &Assets, server: &Server, subject: &Subject<'_>, areas: &[&str]) -> Result<Outcome> {
    let report = server.dir.join("report.json");
    let areas: Vec<String> = areas.iter().map(|area| (*area).to_owned()).collect();
    let log = std::fs::File::create(server.dir.join("replay.log"))?;
    let mut command = replay(assets, server, subject, &areas)?;
    let status = command.arg("--json").arg(&report).stdout(log).status()?;
    let text = std::fs::read_to_string(&report).with_context(|| {
        format!("the replay ended with {status} and wrote no report; the server said:\n{}", server.log())
    })?;
    std::fs::remove_file(&report)?;
    let report: Report = serde_json::from_str(&text)?;
    let names = |passed: bool| -> BTreeSet<String> {
        let scenarios = report.scenarios.iter().filter(|scenario| scenario.passed == passed);
        scenarios.map(|scenario| format!("{}/{}", scenario.area, scenario.name)).collect()
    };
    let log = std::fs::read_to_string(server.dir.join("replay.log")).unwrap_or_default();
    let outcome = Outcome { passed: names(true), failed: names(false), log };
    if outcome.passed.len() + outcome.failed.len() == 0 {
        bail!("the replay ran no scenario");
    }
    Ok(outcome)
}

/// Replays the areas built and compares the outcome with the list of pending scenarios.
pub(crate) fn check(update: bool) -> Result<()> {
    let reasons = pending()?;
    let assets = assets::install()?;
    let server = Server::start(&build()?, "golden")?;
    check_tenant(&assets, &server, &reasons)?;
    let Outcome { passed, failed, log } = outcome(&assets, &server, &Subject::Platform, AREAS)?;
    say(&format!("recorded replies: {} scenarios pass, {} are pending", passed.len(), failed.len()));
    let known: BTreeSet<String> = reasons.keys().cloned().collect();
    if update {
        let grown: Vec<&String> = failed.difference(&known).collect();
        if !grown.is_empty() {
            bail!("the list only shrinks; these would be new: {grown:?}");
        }
        return rewrite(&reasons, &failed);
    }
    let surprises: Vec<&String> = failed.difference(&known).collect();
    if !surprises.is_empty() {
        bail!("recorded replies that no longer pass: {surprises:?}\n{}", excerpt(&log, &surprises));
    }
    let done: Vec<&String> = known.difference(&failed).collect();
    if !done.is_empty() {
        bail!("these pass now, take them out of tests/golden/pending.txt (cargo xtask golden --update): {done:?}");
    }
    Ok(())
}

/// A logical cluster answers as the platform does: what passes there passes here.
fn check_tenant(assets: &Assets, server: &Server, pending: &BTreeMap<String, String>) -> Result<()> {
    let tenant = server.tenant(kubectl(assets)?)?;
    let outcome = outcome(assets, server, &Subject::Tenant(&tenant), TENANT_AREAS)?;
    say(&format!("below {}: {} pass, {} are pending", tenant.prefix, outcome.passed.len(), outcome.failed.len()));
    let surprises: Vec<&String> = outcome.failed.iter().filter(|name| !pending.contains_key(*name)).collect();
    if !surprises.is_empty() {
        let shown = excerpt(&outcome.log, &surprises);
        bail!("recorded replies that a logical cluster does not give: {surprises:?}\n{shown}");
    }
    Ok(())
}

/// The part of the replay's output that is about `names`.
fn excerpt(replay: &str, names: &[&String]) -> String {
    let mut shown = String::new();
    let mut wanted = false;
    for line in replay.lines() {
        if let Some(rest) = line.strip_prefix("FAIL ") {
            wanted = rest.split_whitespace().next().is_some_and(|name| names.iter().any(|wanted| *wanted == name));
        }
        if wanted {
            shown.extend([line, "\n"]);
        }
    }
    shown
}

fn rewrite(reasons: &BTreeMap<String, String>, failed: &BTreeSet<String>) -> Result<()> {
    let mut text = String::from(
        "# Recorded scenarios of the areas built that do not pass yet. This list only shrinks:\n\
         # cargo xtask golden --update takes out what passes. Behind each name stands what it waits for, or the\n\
         # decision of docs/adr/0007-differences-from-kube-apiserver.md that it differs by.\n",
    );
    for (name, reason) in reasons.iter().filter(|(name, _)| failed.contains(*name)) {
        text.extend([name, " # ", reason, "\n"]);
    }
    Ok(std::fs::write(pending_file(), text)?)
}

fn replay(assets: &Assets, server: &Server, subject: &Subject<'_>, only: &[String]) -> Result<Command> {
    let mut access = server.access(kubectl(assets)?)?;
    let mut command = Command::new(&assets.python);
    command
        .current_dir(root())
        .arg("tests/golden/replay.py")
        .arg("--server")
        .arg(&access.server)
        .arg("--ca")
        .arg(&access.ca);
    if let Subject::Tenant(tenant) = subject {
        command.arg("--prefix").arg(&tenant.prefix);
        access.client = Some(tenant.client.clone());
    }
    if let Some((certificate, key)) = &access.client {
        command.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    if let Some(token) = &access.token {
        command.arg("--token-file").arg(token);
    }
    for name in only {
        command.args(["--only", name]);
    }
    command.arg("tests/golden");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_scenario_needs_a_reason() {
        let pending = parse_pending("# about the list\n\na/b # needs kind c\n").expect("every line has a reason");
        assert_eq!(pending, BTreeMap::from([("a/b".to_owned(), "needs kind c".to_owned())]));
        for text in ["a/b\n", "a/b #\n", "a/b # \n"] {
            let error = parse_pending(text).expect_err(text).to_string();
            assert!(error.contains("a/b # reason"), "{error}");
        }
    }
}
