//! Programs of the machine that a provider runs, behind a seam: who starts processes is the binary, and a simulation
//! has none.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

/// What a program that has ended left behind.
#[derive(Clone, PartialEq, Eq)]
pub struct Ran {
    /// It ended with exit code 0.
    pub success: bool,
    /// What it printed, cut to [`MOST_OUTPUT`].
    pub stdout: String,
    /// What it complained of, cut likewise.
    pub stderr: String,
}

/// The longest output of a program that is kept, in bytes.
pub const MOST_OUTPUT: usize = 1024 * 1024;

impl Debug for Ran {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What it printed may be a kubeconfig.
        formatter.debug_struct("Ran").field("success", &self.success).finish_non_exhaustive()
    }
}

/// Why a program did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// There is none of that name.
    #[error("{program} is not in the PATH of the server")]
    NotFound {
        /// Its name.
        program: String,
    },
    /// It cannot be started, or its output not read.
    #[error("{program} cannot be run: {why}")]
    NotRun {
        /// Its name.
        program: String,
        /// What the system said.
        why: String,
    },
    /// It took too long, and was ended.
    #[error("{program} did not end within {limit_secs} s")]
    TooSlow {
        /// Its name.
        program: String,
        /// How long it had.
        limit_secs: u64,
    },
}

/// Runs programs of the machine.
#[async_trait]
pub trait Programs: Debug + Send + Sync + 'static {
    /// Runs a program of the PATH with these arguments and that text as its standard input, in an empty folder that
    /// nobody else reads and that goes with it. Ended when the time is up or the future is dropped.
    async fn run(&self, program: &str, arguments: &[String], input: &str, limit: Duration)
    -> Result<Ran, ProgramError>;
}

/// A machine without programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrograms;

#[async_trait]
impl Programs for NoPrograms {
    async fn run(&self, program: &str, _: &[String], _: &str, _: Duration) -> Result<Ran, ProgramError> {
        Err(ProgramError::NotFound { program: program.to_owned() })
    }
}
