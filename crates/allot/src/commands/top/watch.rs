//! `allot top --watch`: looks again and again, and tells what is new. What is seen and how it reads is of the modules
//! beside this one.
//!
//! # Guarantees
//! - It ends when nobody reads it any more, and at Ctrl-C also while the server does not answer.
//! - Where it does not draw on a terminal, nothing is said anew where nothing changed but ages.
//! - Once it has seen something, a server that cannot be reached for a while ends nothing: the last picture stays, with
//!   the time it is of. Who is not known to the server any more is told so, and it ends.

use std::io::IsTerminal;
use std::pin::pin;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::seen::Seen;
use super::shown;
use crate::cli::{Top, TopFormat};
use crate::client::Platform;
use crate::commands::reading::Unauthorized;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;

/// Looking takes at most this part of the time, so that a big landscape is not kept busy by being looked at.
const MOST_OF_THE_TIME: u32 = 10;
/// Home, and clear to the end: what was there is overwritten, so nothing flickers.
const REDRAW: &str = "\x1b[H\x1b[J";
/// How often it is asked whether anybody reads still, while nothing is said.
const STILL_READ: Duration = Duration::from_secs(1);

/// Looks until it is told to stop, nobody reads, or the server does not know who asks.
pub(super) async fn run(platform: &Platform, arguments: &Top, every: Duration) -> Outcome {
    // One for all of the time: a signal that comes while nothing waits for it would be lost.
    let mut stop = pin!(tokio::signal::ctrl_c());
    let mut screen = Screen::new(std::io::stdout().is_terminal() && arguments.output != TopFormat::Json);
    loop {
        let begun = tokio::time::Instant::now();
        let looked = tokio::select! {
            biased;
            _ = &mut stop => return Ok(()),
            () = unread() => return Ok(()),
            looked = Seen::read(platform, arguments.namespace.as_deref()) => looked,
        };
        let say = match looked {
            Ok(seen) => screen.saw(Picture::of(&seen, arguments, seams().now())?),
            Err(error) if screen.last.is_none() || error.is::<Unauthorized>() => return Err(error.into()),
            Err(error) => screen.saw_nothing(&format!("{error:#}")),
        };
        if let Some(note) = say.note {
            output::note(&note);
        }
        if let Some(text) = say.data
            && !output::data_while_read(&text)?
        {
            return Ok(());
        }
        let pause = every.max(begun.elapsed() * MOST_OF_THE_TIME).max(Duration::from_secs(1));
        tokio::select! {
            biased;
            _ = &mut stop => return Ok(()),
            () = unread() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Comes to an end once nobody reads stdout any more.
async fn unread() {
    while output::is_read() {
        tokio::time::sleep(STILL_READ).await;
    }
}

/// What was seen at a time, as it is shown.
struct Picture {
    at: Timestamp,
    text: String,
    /// The same without ages.
    ageless: String,
}

impl Picture {
    fn of(seen: &Seen, arguments: &Top, now: Timestamp) -> anyhow::Result<Self> {
        // Of a time before all others, nothing has an age.
        let mut texts = [now, Timestamp::MIN].map(|now| shown(seen, arguments, now));
        if arguments.output != TopFormat::Json {
            for text in texts.iter_mut().flatten() {
                for why in &seen.unseen {
                    text.push_str(&format!("\nnot shown: {why}"));
                }
            }
        }
        let [text, ageless] = texts;
        Ok(Picture { at: now, text: text?, ageless: ageless? })
    }
}

/// What to say after a look.
#[derive(Debug, Default, PartialEq, Eq)]
struct Say {
    data: Option<String>,
    note: Option<String>,
}

/// What was shown last.
struct Screen {
    /// Whether all is drawn anew each time.
    redraw: bool,
    last: Option<Picture>,
    trouble: Option<String>,
}

impl Screen {
    fn new(redraw: bool) -> Self {
        Screen { redraw, last: None, trouble: None }
    }

    fn saw(&mut self, picture: Picture) -> Say {
        self.trouble = None;
        let is_new = self.last.as_ref().is_none_or(|last| last.ageless != picture.ageless);
        let data = match self.redraw {
            true => Some(format!("{REDRAW}{}", picture.text)),
            false => is_new.then(|| picture.text.clone()),
        };
        self.last = Some(picture);
        Say { data, note: None }
    }

    fn saw_nothing(&mut self, why: &str) -> Say {
        let Some(last) = &self.last else { return Say { data: None, note: Some(why.to_owned()) } };
        let since = Timestamp::from_second(last.at.as_second()).unwrap_or(last.at);
        let trouble = format!("as of {since}: {why}; looking again");
        if self.redraw {
            return Say { data: Some(format!("{REDRAW}{}\n\n{trouble}", last.text)), note: None };
        }
        // Once for each reason, not at each look.
        let is_new = self.trouble.as_deref() != Some(why);
        self.trouble = Some(why.to_owned());
        Say { data: None, note: is_new.then_some(trouble) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(at: i64, text: &str, ageless: &str) -> Picture {
        let at = Timestamp::from_second(1_800_000_000 + at).expect("a time");
        Picture { at, text: text.to_owned(), ageless: ageless.to_owned() }
    }

    fn says(data: Option<&str>, note: Option<&str>) -> Say {
        Say { data: data.map(str::to_owned), note: note.map(str::to_owned) }
    }

    #[test]
    fn what_changed_but_for_ages_is_said_and_trouble_once() {
        let mut screen = Screen::new(false);
        assert_eq!(screen.saw(picture(0, "r 1s", "r")), says(Some("r 1s"), None));
        assert_eq!(screen.saw(picture(1, "r 2s", "r")), says(None, None));
        let trouble = "as of 2027-01-15T08:00:01Z: gone; looking again";
        assert_eq!(screen.saw_nothing("gone"), says(None, Some(trouble)));
        assert_eq!(screen.saw_nothing("gone"), says(None, None));
        assert_eq!(screen.saw(picture(2, "r 3s", "r")), says(None, None));
        assert_eq!(screen.saw_nothing("gone").note.as_deref(), Some("as of 2027-01-15T08:00:02Z: gone; looking again"));
        assert_eq!(screen.saw(picture(3, "q 0s", "q")), says(Some("q 0s"), None));
    }

    #[test]
    fn a_terminal_keeps_the_last_picture_with_its_time_below_it() {
        let mut screen = Screen::new(true);
        assert_eq!(screen.saw(picture(0, "r 1s", "r")), says(Some(&format!("{REDRAW}r 1s")), None));
        assert_eq!(screen.saw(picture(1, "r 2s", "r")), says(Some(&format!("{REDRAW}r 2s")), None));
        let trouble = format!("{REDRAW}r 2s\n\nas of 2027-01-15T08:00:01Z: gone; looking again");
        assert_eq!(screen.saw_nothing("gone"), says(Some(&trouble), None));
        assert_eq!(screen.saw_nothing("gone"), says(Some(&trouble), None));
    }
}
