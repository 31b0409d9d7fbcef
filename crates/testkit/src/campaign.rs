//! Many sequences, several at a time: those that part are made small, one of each kind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::compare::Rules;
use crate::generate;
use crate::run::{Bench, Outcome, Parting};
use crate::sequence::Sequence;
use crate::shrink::shrink;
use crate::target::Target;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides the sequences.
    pub seed: u64,
    /// The number of the first.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// How many at a time.
    pub jobs: usize,
    /// Of what.
    pub areas: Vec<&'static str>,
    /// What is compared.
    pub rules: Rules,
    /// Whether what parts is made small.
    pub shrink: bool,
}

/// One kind of difference that was found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The first sequence in which it was.
    pub number: u64,
    /// In how many it was.
    pub times: u64,
    /// The smallest sequence that shows it.
    pub sequence: Sequence,
    /// How that parts.
    pub parting: Parting,
}

/// How it came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many sequences were the same.
    pub same: u64,
    /// How many parted on purpose, by reason.
    pub deliberate: BTreeMap<&'static str, u64>,
    /// How many parted once and not again: one of the servers answers by chance.
    pub unsteady: u64,
    /// What was found, by what it has in common.
    pub findings: BTreeMap<String, Finding>,
}

/// What the workers share.
struct Shared {
    plan: Plan,
    next: AtomicU64,
    words: AtomicU64,
    report: Mutex<Report>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Shared {
    /// A word that no other run on these servers has.
    fn word(&self) -> String {
        let mut number = self.words.fetch_add(1, Ordering::Relaxed);
        let mut word = vec![b'q'; 7];
        for letter in word.iter_mut().rev() {
            *letter = b'b' + u8::try_from(number % 24).unwrap_or_default();
            number /= 24;
        }
        format!("q{}", String::from_utf8_lossy(&word))
    }

    fn report(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts all sequences of a plan to both servers. `tell` is told of what is found on the way.
///
/// # Errors
/// A server does not answer.
pub async fn run(
    plan: Plan,
    theirs: &Target,
    ours: &Target,
    tell: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Report> {
    let shared = Arc::new(Shared {
        next: AtomicU64::new(plan.first),
        words: AtomicU64::new(0),
        report: Mutex::default(),
        tell: Box::new(tell),
        plan,
    });
    let mut workers = JoinSet::new();
    for _ in 0..shared.plan.jobs {
        let bench = Bench::new(Client::new(theirs.clone()), Client::new(ours.clone()), shared.plan.rules);
        workers.spawn(work(Arc::clone(&shared), bench));
    }
    while let Some(done) = workers.join_next().await {
        done.context("a worker broke")??;
    }
    Ok(std::mem::take(&mut *shared.report()))
}

async fn work(shared: Arc<Shared>, mut bench: Bench) -> Result<()> {
    let end = shared.plan.first + shared.plan.count;
    loop {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return Ok(());
        }
        if number.is_multiple_of(500) && number > shared.plan.first {
            let report = shared.report().clone();
            (shared.tell)(&format!(
                "{number}: {} the same, {} kinds of difference",
                report.same,
                report.findings.len()
            ));
        }
        one(&shared, &mut bench, number).await.with_context(|| format!("sequence {number}"))?;
    }
}

async fn one(shared: &Shared, bench: &mut Bench, number: u64) -> Result<()> {
    let sequence = generate::sequence(shared.plan.seed, number, &shared.plan.areas);
    let parting = match bench.run(&sequence, &shared.word()).await? {
        Outcome::Same => {
            shared.report().same += 1;
            return Ok(());
        }
        Outcome::Deliberate(why) => {
            *shared.report().deliberate.entry(why).or_default() += 1;
            return Ok(());
        }
        Outcome::Parted(parting) => parting,
    };
    let again = bench.run(&sequence, &shared.word()).await?;
    let steady = matches!(&again, Outcome::Parted(again) if again.signature() == parting.signature());
    if !steady {
        shared.report().unsteady += 1;
        (shared.tell)(&format!("sequence {number} parted once, not again: {}", crate::scenario::describe(&parting)));
        return Ok(());
    }
    let signature = parting.signature();
    {
        let mut report = shared.report();
        if let Some(finding) = report.findings.get_mut(&signature) {
            finding.times += 1;
            return Ok(());
        }
        let finding = Finding { number, times: 1, sequence: sequence.clone(), parting: parting.clone() };
        report.findings.insert(signature.clone(), finding);
    }
    // A run that is broken off has said what it found.
    (shared.tell)(&format!("sequence {number} parts: {signature}"));
    if shared.plan.shrink {
        let (small, parting) = shrink(bench, &mut || shared.word(), sequence, parting).await?;
        let mut report = shared.report();
        if let Some(finding) = report.findings.get_mut(&signature) {
            (finding.sequence, finding.parting) = (small, parting);
        }
    }
    Ok(())
}
