//! `live`: Kubernetes' own API server beside ours.

use std::path::PathBuf;

use allotment_testkit::kubernetes::{Kubernetes, Options};
use anyhow::Result;
use clap::{Parser, Subcommand};
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
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
        done = work => done,
    }
}

async fn run(cli: Cli) -> Result<()> {
    match cli.task {
        Task::Serve { durable } => {
            serve(Options { programs: cli.programs, dir: cli.dir, controllers: true, durable }).await
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

#[expect(clippy::print_stderr, reason = "a test program tells whoever started it")]
fn say(text: &str) {
    eprintln!("{text}");
}
