//! One run: trouble and a workload, then peace, then everything wiped, then everything deleted; judged
//! all along.

use std::collections::BTreeMap;
use std::time::Duration;

use allotment_core::write::ObjectKey;
use jiff::SignedDuration;

use crate::bugs::Bug;
use crate::chance::Chance;
use crate::trace::Trace;
use crate::world::World;
use crate::{rest, thread, workload};

/// The stream of a seed that the workload is drawn from.
const WORKLOAD: u64 = 6;
/// Steps of the workload: few more than a cluster's life takes, since seeds are cheaper than steps.
const STEPS: usize = 30;
/// Nothing is retried more rarely than every 30 s, so silence for longer is rest.
const SILENCE: SignedDuration = SignedDuration::from_secs(45);
/// How often it is looked whether all is at rest.
const LOOK: Duration = Duration::from_secs(5);
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
        let mut world = World::start(seed, bug).await;
        let broken = play(&mut world, Chance::new(seed, WORKLOAD)).await;
        world.kill();
        let mut findings = world.judge.findings();
        let mut violations = std::mem::take(&mut findings.violations);
        violations.extend(broken);
        Outcome { violations, trace: std::mem::take(&mut findings.trace) }
    })
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
    let mut broken = settle(world, "after the trouble", false).await;
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    tokio::time::sleep(workload::BEYOND_GRACE).await;
    broken = settle(world, "after the grace", true).await;
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    let before = grants(world);
    workload::wipe_all(world).await;
    world.kill();
    broken = settle(world, "after every status was wiped", true).await;
    if grants(world) != before {
        broken.push("wiped statuses and a restart led to other Grants".to_owned());
    }
    if !broken.is_empty() || is_broken(world) {
        return broken;
    }
    workload::clean_up(world).await;
    tokio::time::sleep(workload::BEYOND_GRACE).await;
    broken = settle(world, "after everything was deleted", true).await;
    let findings = world.judge.findings();
    let left = findings.known.clusters.iter().filter(|(_, cluster)| cluster.spec.deletion_policy.is_some());
    broken.extend(left.map(|(key, _)| format!("Cluster {key} is left of nothing")));
    broken
}

fn is_broken(world: &World) -> bool {
    !world.judge.findings().violations.is_empty()
}

/// Waits until nothing is written any more, and judges.
async fn settle(world: &mut World, when: &str, idle_ended: bool) -> Vec<String> {
    for _ in 0..MOST_LOOKS {
        world.revive().await;
        tokio::time::sleep(LOOK).await;
        let last = world.judge.findings().last_write;
        let silent = last.is_none_or(|last| world.now().duration_since(last) > SILENCE);
        if silent && world.is_idle() {
            let key_spaces = world.key_spaces().await;
            let broken = rest::judge(&world.judge.findings().known, &key_spaces, idle_ended);
            return broken.into_iter().map(|text| format!("{when}: {text}")).collect();
        }
    }
    let findings = world.judge.findings();
    let last: Vec<_> = findings.trace.lines.iter().rev().take(6).cloned().collect();
    vec![format!("{when}: it never comes to rest; last writes: {last:#?}")]
}

/// Which Grant is bound to which Cluster.
fn grants(world: &World) -> BTreeMap<ObjectKey, String> {
    let findings = world.judge.findings();
    findings.known.grants.iter().map(|(key, grant)| (key.clone(), grant.spec.cluster_ref.uid.clone())).collect()
}
