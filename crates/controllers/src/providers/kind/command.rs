//! The kind command: each thing that is asked of it, with the time it has.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use allotment_core::providers::{
    complaint, create_arguments, delete_arguments, kind_definition, kubeconfig_arguments, list_arguments, listed,
};

use super::programs::{ProgramError, Programs, Ran};
use super::record::Record;

const KIND: &str = "kind";
/// How long it may take to ask what runs the containers.
const ASK_LIMIT: Duration = Duration::from_secs(30);
/// How long a cluster may take: an image of a gigabyte is pulled first, and five minutes are waited for the nodes.
const CREATE_LIMIT: Duration = Duration::from_secs(15 * 60);
const DELETE_LIMIT: Duration = Duration::from_secs(3 * 60);

/// Why the kind command did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandError {
    /// It was not there, or did not end.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It said no.
    #[error("kind {what} failed: {complaint}")]
    Failed {
        /// `create cluster`
        what: String,
        /// What it complained of.
        complaint: String,
    },
    /// It said yes, and it is not so.
    #[error("kind still lists the cluster after it deleted it")]
    StillThere,
}

/// The kind command of this machine.
#[derive(Clone, Debug)]
pub(super) struct Command {
    programs: Arc<dyn Programs>,
}

impl Command {
    pub(super) fn new(programs: Arc<dyn Programs>) -> Self {
        Command { programs }
    }

    /// The clusters that there are.
    pub(super) async fn list(&self) -> Result<BTreeSet<String>, CommandError> {
        let ran = self.run(&list_arguments(), "", ASK_LIMIT).await?;
        Ok(listed(&ran.stdout))
    }

    /// Makes a cluster from nothing, whatever an earlier try left; gives its kubeconfig.
    pub(super) async fn create(&self, record: &Record) -> Result<String, CommandError> {
        let name = &record.name;
        if self.list().await?.contains(name) {
            self.run(&delete_arguments(name), "", DELETE_LIMIT).await?;
        }
        let definition = kind_definition(record.workers);
        self.run(&create_arguments(name, &record.image), &definition, CREATE_LIMIT).await?;
        Ok(self.run(&kubeconfig_arguments(name), "", ASK_LIMIT).await?.stdout)
    }

    /// Takes a cluster away, and looks whether it is gone.
    pub(super) async fn delete(&self, name: &str) -> Result<(), CommandError> {
        self.run(&delete_arguments(name), "", DELETE_LIMIT).await?;
        if self.list().await?.contains(name) { Err(CommandError::StillThere) } else { Ok(()) }
    }

    async fn run(&self, arguments: &[String], input: &str, limit: Duration) -> Result<Ran, CommandError> {
        let ran = self.programs.run(KIND, arguments, input, limit).await?;
        if ran.success {
            return Ok(ran);
        }
        let what = arguments.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
        Err(CommandError::Failed { what, complaint: complaint(&ran.stderr) })
    }
}
