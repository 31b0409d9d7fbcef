//! One run: trouble and a workload, then peace, then everything wiped, then everything deleted; judged
//! all along.

use std::collections::BTreeMap;
use std::time::Duration;

use allotment_core::write::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use crate::bugs::Bug;
use crate::chance::Chance;
use crate::known::Known;
use crate::trace::Trace;
use crate::world::World;
use crate::{catalog, rest, thread, workload};

/// The stream of a seed that the workload is drawn from.
const WORKLOAD: u64 = 6;
/// The same for the catalog's.
const CATALOG: u64 = 7;
/// Steps of the workload: few more than a cluster's life takes, since seeds are cheaper than steps.
const STEPS: usize = 30;
/// Nothing is retried more rarely than every 30 s, so silence for longer is rest.
const SILENCE: SignedDuration = SignedDuration::from_secs(45);
/// How long what is at rest is watched, beyond that: longer than any look that is repeated, and than tokens last.
const REST: Duration = Duration::from_secs(1800);
/// How often it is looked whether all is at rest.
const LOOK: Duration = Duration::from_secs(5);
/// Writes at rest that are told; the first says it all.
const MOST_TOLD: usize = 6;
/// Looks before it counts as never coming to rest: half an hour.
const MOST_LOOKS: usize = 360;

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was broken, first things first; empty for a good run.
    pub violations: Vec<String>,
    /// What was written.
    pub trace: Trace,
}

/// Runs one seed to its end, or to the first violation.
pub fn simulate(seed: u64, bug: Option<Bug>) -> Outcome {
    thread::run(seed, move || async move {
        let mut world = World::start(seed, bug, false).await;
        let broken = play(&mut world, Chance::new(seed, WORKLOAD)).await;
        outcome(world, broken)
    })
}

/// The same about the catalog: what people do with profiles and Shoots. Other runs have no part of it, so that its
/// chance is not theirs.
pub fn simulate_catalog(seed: u64, bug: Option<Bug>) -> Outcome {
    thread::run(seed, move || async move {
        let mut world = World::start(seed, bug, true).await;
        let broken = catalog::play(&mut world, Chance::new(seed, CATALOG)).await;
        outcome(world, broken)
    })
}

fn outcome(mut world: World, broken: Vec<String>) -> Outcome {
    world.kill();
    let mut findings = world.judge.findings();
    let mut violations = std::mem::take(&mut findings.violations);
    violations.extend(broken);
    Outcome { violations, trace: std::mem::take(&mut findings.trace) }
}

/// Plays the seed; what is broken at rest, if anything is.
async fn play(world: &mut World, mut chance: Chance) -> Vec<String> {
    workload::prepare(world).await;
    world.set_trouble(true);
    for _ in 0..STEPS {
        workload::step(world, &mut chance).await;
        if is_broken(world) {
            return Vec::new();
        }
    }
    world.set_trouble(false);
    let mut broken = at_rest(world, "after the trouble", false).await;
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    tokio::time::sleep(workload::BEYOND_GRACE).await;
    broken = at_rest(world, "after the grace", true).await;
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    broken = rest(world, "after the grace", is_renewal).await;
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    let before = grants(world);
    workload::wipe_all(world).await;
    world.kill();
    // Clusters that are old and not known to have been healthy count as late until their provider has looked, so that
    // a spare too many may be made; it goes after its grace.
    broken = at_rest(world, "after every status was wiped", false).await;
    if grants(world) != before {
        broken.push("wiped statuses and a restart led to other Grants".to_owned());
    }
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    tokio::time::sleep(workload::BEYOND_GRACE).await;
    broken = at_rest(world, "after that and the grace", true).await;
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    workload::clean_up(world).await;
    tokio::time::sleep(workload::BEYOND_GRACE).await;
    broken = at_rest(world, "after everything was deleted", true).await;
    broken.extend(rest(world, "after everything was deleted", |_| false).await);
    let findings = world.judge.findings();
    let left = findings.known.clusters.iter().filter(|(_, cluster)| cluster.spec.deletion_policy.is_some());
    broken.extend(left.map(|(key, _)| format!("Cluster {key} is left of nothing")));
    broken
}

pub(crate) fn is_broken(world: &World) -> bool {
    !world.judge.findings().violations.is_empty()
}

async fn at_rest(world: &mut World, when: &str, idle_ended: bool) -> Vec<String> {
    settle(world, when, |known, key_spaces, _| rest::judge(known, key_spaces, idle_ended)).await
}

/// Waits until nothing is written any more, and judges.
pub(crate) async fn settle(
    world: &mut World,
    when: &str,
    judge: impl Fn(&Known, &[String], Timestamp) -> Vec<String>,
) -> Vec<String> {
    for _ in 0..MOST_LOOKS {
        world.revive().await;
        tokio::time::sleep(LOOK).await;
        let last = world.judge.findings().last_write;
        let silent = last.is_none_or(|last| world.now().duration_since(last) > SILENCE);
        if silent && world.is_idle() {
            let key_spaces = world.key_spaces().await;
            let broken = judge(&world.judge.findings().known, &key_spaces, world.now());
            return broken.into_iter().map(|text| format!("{when}: {text}")).collect();
        }
    }
    let findings = world.judge.findings();
    let last: Vec<_> = findings.trace.lines.iter().rev().take(6).cloned().collect();
    vec![format!("{when}: it never comes to rest; last writes: {last:#?}")]
}

/// Waits for as long, in which a platform at rest writes nothing but what `may_be`.
async fn rest(world: &World, when: &str, may_be: impl Fn(&str) -> bool) -> Vec<String> {
    let before = world.judge.findings().trace.lines.len();
    tokio::time::sleep(REST).await;
    let findings = world.judge.findings();
    let written = findings.trace.lines.iter().skip(before).filter(|line| !may_be(line));
    written.take(MOST_TOLD).map(|line| format!("{when}: at rest this was written: {line}")).collect()
}

/// Whether a line of the trace is one of a token that is renewed: a Secret, and the status that tells of it.
fn is_renewal(line: &str) -> bool {
    let mut words = line.split(' ').skip(1);
    let (verb, tenant, resource) = (words.next(), words.next(), words.next());
    verb == Some("modified")
        && tenant == Some("platform")
        && matches!(resource, Some("secrets" | "accessrequests.cluster.openmcp.cloud"))
}

/// Which Grant is bound to which Cluster.
fn grants(world: &World) -> BTreeMap<ObjectKey, String> {
    let findings = world.judge.findings();
    findings.known.grants.iter().map(|(key, grant)| (key.clone(), grant.spec.cluster_ref.uid.clone())).collect()
}
