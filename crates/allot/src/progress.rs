//! What is going on, on stderr: a spinner on a terminal, a line for every step elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::note;

/// Turns of the spinner.
const TICK: Duration = Duration::from_millis(80);

/// Shows one thing that is waited for.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    last: String,
}

impl Progress {
    /// Begins to show.
    pub(crate) fn start() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress { bar, last: String::new() }
    }

    /// Says what is waited for; the same text again says nothing new.
    pub(crate) fn say(&mut self, text: &str) {
        if text == self.last {
            return;
        }
        text.clone_into(&mut self.last);
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => note(text),
        }
    }

    /// Says how far it has come, on a terminal only: elsewhere nobody looks.
    pub(crate) fn hint(&self, text: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        }
    }

    /// Ends the show; what has been said on a terminal goes away.
    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
