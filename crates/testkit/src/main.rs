//! `live`: Kubernetes' own API server, alone or beside ours.

use std::path::{Path, PathBuf};

use allotment_testkit::campaign::{Finding, Plan, Report};
use allotment_testkit::compare::Rules;
use allotment_testkit::kubernetes::{Kubernetes, Options};
use allotment_testkit::ours::Ours;
use allotment_testkit::{campaign, generate, scenario};
use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(name = "live", about = "Kubernetes' own API server, and ours beside it")]
struct Cli {
    /// The folder with etcd, kube-apiserver and kube-controller-manager (cargo xtask assets)
    #[arg(long, env = "ALLOTMENT_KUBERNETES")]
    programs: PathBuf,
    /// A folder for data and logs; removed at the end
    #[arg(long)]
    dir: PathBuf,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Serve Kubernetes' own API until interrupted; the folder has kubeconfig, ca.crt and token
    Serve {
        /// Wait for the disk, as a comparison of speed has to
        #[arg(long)]
        durable: bool,
    },
    /// Put random sequences of requests to both servers and compare the answers
    Compare(Compare),
}

#[derive(Args)]
struct Compare {
    /// Decides the sequences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first sequence
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many sequences
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// How many at a time
    #[arg(long, default_value_t = 6)]
    jobs: usize,
    /// Only these areas
    #[arg(long, value_delimiter = ',')]
    areas: Vec<String>,
    /// Compare managedFields too
    #[arg(long)]
    managed_fields: bool,
    /// Do not make what is found smaller
    #[arg(long)]
    no_shrink: bool,
    /// Known differences: `SIGNATURE # reason` a line. Only others fail
    #[arg(long)]
    pending: Option<PathBuf>,
    /// Write what is found, as scenarios of tests/golden, to this file
    #[arg(long)]
    out: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let work = run(cli);
    // Whatever ends this process, what it started ends with it.
    tokio::select! {
        biased;
        _ = interrupted.recv() => bail!("interrupted"),
        _ = terminated.recv() => bail!("terminated"),
        done = work => done,
    }
}

async fn run(cli: Cli) -> Result<()> {
    let Cli { programs, dir, task } = cli;
    let options =
        |dir, quotas, durable| Options { programs, dir, controllers: true, quotas, durable, flags: Vec::new() };
    match task {
        Task::Serve { durable } => serve(options(dir, true, durable)).await,
        Task::Compare(compare) => {
            let theirs = Kubernetes::start(&options(dir.join("theirs"), false, false)).await?;
            let ours = Ours::start(&dir.join("ours")).await?;
            let report = campaign::run(compare.plan()?, theirs.target(), ours.target(), say).await?;
            ours.stop().await;
            drop(theirs);
            compare.judge(&report)
        }
    }
}

async fn serve(options: Options) -> Result<()> {
    let mut kubernetes = Kubernetes::start(&options).await?;
    say(&format!("serving https://{}, kubeconfig {}", kubernetes.target().address, kubernetes.kubeconfig().display()));
    loop {
        kubernetes.check()?;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

impl Compare {
    fn plan(&self) -> Result<Plan> {
        let mut areas = Vec::new();
        for wanted in &self.areas {
            let known = generate::AREAS.iter().find(|area| *area == wanted);
            areas.push(*known.with_context(|| format!("no area {wanted}; there are {:?}", generate::AREAS))?);
        }
        if areas.is_empty() {
            areas.extend(generate::AREAS);
        }
        Ok(Plan {
            seed: self.seed,
            first: self.first,
            count: self.count,
            jobs: self.jobs.max(1),
            areas,
            rules: Rules { managed_fields: self.managed_fields },
            shrink: !self.no_shrink,
        })
    }

    /// Says what came out; fails where something differs that is not known.
    fn judge(&self, report: &Report) -> Result<()> {
        let pending = self.pending.as_deref().map(read_pending).transpose()?.unwrap_or_default();
        let mut unknown = Vec::new();
        let mut scenarios = String::from("scenarios:\n");
        for (signature, finding) in &report.findings {
            let text = shown(finding);
            scenarios.push_str(&scenario::render(
                &format!("found-{}", finding.number),
                &finding.sequence,
                Some(&finding.parting),
            ));
            if let Some(reason) = pending.iter().find(|(known, _)| known == signature).map(|(_, reason)| reason) {
                say(&format!("known, {} times: {signature} ({reason})", finding.times));
            } else {
                say(&format!("\n{} times: {signature}\n{text}", finding.times));
                unknown.push(signature);
            }
        }
        if let Some(path) = &self.out {
            std::fs::write(path, scenarios).with_context(|| format!("cannot write {}", path.display()))?;
        }
        for (why, times) in &report.deliberate {
            say(&format!("{times} times on purpose: {why}"));
        }
        let Report { same, unsteady, findings, .. } = report;
        say(&format!(
            "seed {}: {} sequences, {same} the same throughout, {unsteady} unsteady, {} kinds of difference, {} of \
             them not known",
            self.seed,
            self.count,
            findings.len(),
            unknown.len()
        ));
        if !unknown.is_empty() {
            bail!("answers differ from kube-apiserver's: {unknown:#?}");
        }
        Ok(())
    }
}

fn shown(finding: &Finding) -> String {
    let reproducer = scenario::render(&format!("found-{}", finding.number), &finding.sequence, None);
    format!("{}\n{reproducer}", scenario::describe(&finding.parting))
}

/// `SIGNATURE # reason` a line.
fn read_pending(path: &Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (signature, reason) = line.split_once(" # ").with_context(|| format!("{line}: without a reason"))?;
            Ok((signature.trim().to_owned(), reason.trim().to_owned()))
        })
        .collect()
}

#[expect(clippy::print_stderr, reason = "a test program tells whoever started it")]
fn say(text: &str) {
    eprintln!("{text}");
}
