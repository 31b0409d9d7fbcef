//! The `allot` command: commands and wiring, nothing else.

mod cli;
mod client;
mod commands;
mod duration;
mod exit;
mod folder;
mod output;
mod platform;
mod progress;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::exit::{Code, Failure};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and the version are printed by way of an error; they go to stdout and are none.
            let code = if error.use_stderr() { usage_code() as u8 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    log_to_stderr(&cli);
    // Installed once for the whole process; a second try would only say that it is there.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(&Failure::new(Code::Failed, format!("cannot start: {error}"))),
    };
    let done = runtime.block_on(commands::run(cli));
    // What still computes has nothing to say to anybody; dropping the runtime would wait for it.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(&failure),
    }
}

/// How a wrong command line ends: a check says that it could not do its work.
fn usage_code() -> Code {
    let typed = Cli::command().ignore_errors(true).try_get_matches().ok();
    let catalog = typed.as_ref().and_then(|typed| typed.subcommand_matches("catalog"));
    match catalog.and_then(|catalog| catalog.subcommand()) {
        Some(("lint", _)) => Code::Denied,
        Some(("diff", words)) if words.get_flag("exit_code") => Code::Denied,
        _ => Code::Usage,
    }
}

/// Says what went wrong, in one line with its causes, and gives the code for scripts.
fn end(failure: &Failure) -> ExitCode {
    let text = format!("{:#}", failure.error);
    if !text.is_empty() {
        output::note(&format!("error: {text}"));
    }
    ExitCode::from(failure.code as u8)
}

/// Servers log what an operator should know, clients nothing: what goes wrong is their one line at the
/// end. `ALLOT_LOG` says otherwise.
fn log_to_stderr(cli: &Cli) {
    use tracing_subscriber::EnvFilter;
    let default = match cli.command {
        Command::Up(_) | Command::Controllers(_) => "warn,allot=info,kube_client::client=off,kube_runtime::watcher=off",
        Command::Demo(_) => "error",
        _ => "off",
    };
    let filter = EnvFilter::try_from_env("ALLOT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .init();
}
