//! `allot help` and `allot completion`.

use clap::CommandFactory;

use crate::cli::{Cli, Completion, Help};
use crate::exit::{self, Code, Failure, Outcome};
use crate::output;

/// Prints help of a command, or the exit codes.
pub(crate) fn run(arguments: &Help) -> Outcome {
    if arguments.topic.first().is_some_and(|topic| topic == "exit-codes") {
        return output::data(exit::TABLE);
    }
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for word in &arguments.topic {
        found = found.find_subcommand_mut(word).ok_or_else(|| {
            let message = format!("no command is called \"{}\"; `allot help` lists them", arguments.topic.join(" "));
            Failure::new(Code::Usage, message)
        })?;
    }
    output::data(&found.render_long_help().to_string())
}

/// Prints a completion script.
pub(crate) fn completion(arguments: Completion) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "allot", &mut script);
    output::data(&String::from_utf8_lossy(&script))
}
