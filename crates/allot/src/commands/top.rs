//! `allot top`: Clusters, Purposes, requests that wait and providers at a glance. Each kind is listed once, page by
//! page; of each object only its row is kept.

mod rows;
mod seen;

use std::io::IsTerminal;
use std::time::Duration;

use crate::cli::{Target, Top, TopFormat};
use crate::client::Platform;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;
use seen::Seen;

/// Looking takes at most this part of the time, so that a big landscape is not kept busy by being looked at.
const MOST_OF_THE_TIME: u32 = 10;
/// Home, and clear to the end: what was there is overwritten, so nothing flickers.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Shows it once, or again and again.
pub(crate) async fn run(target: &Target, arguments: Top) -> Outcome {
    let platform = Platform::connect(target).await?;
    let Some(every) = arguments.watch else {
        let seen = Seen::read(&platform, arguments.namespace.as_deref()).await?;
        seen.unseen.iter().for_each(|why| output::note(&format!("not shown: {why}")));
        return output::data(&shown(&seen, &arguments)?);
    };
    let terminal = std::io::stdout().is_terminal() && arguments.output != TopFormat::Json;
    let mut last = String::new();
    loop {
        let begun = tokio::time::Instant::now();
        let seen = Seen::read(&platform, arguments.namespace.as_deref()).await?;
        let mut text = shown(&seen, &arguments)?;
        if arguments.output != TopFormat::Json {
            for why in &seen.unseen {
                text.push_str(&format!("\nnot shown: {why}"));
            }
        }
        if terminal {
            output::data(&format!("{REDRAW}{text}"))?;
        } else if text != last {
            // Nothing is said anew where nothing changed but ages.
            output::data(&text)?;
        }
        last = text;
        let pause = every.max(begun.elapsed() * MOST_OF_THE_TIME);
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => return Ok(()),
            () = tokio::time::sleep(pause.max(Duration::from_secs(1))) => {}
        }
    }
}

fn shown(seen: &Seen, arguments: &Top) -> anyhow::Result<String> {
    let sections = rows::sections(seen, arguments, seams().now());
    Ok(match (arguments.output, arguments.watch) {
        (TopFormat::Json, Some(_)) => serde_json::to_string(&rows::as_value(&sections, &seen.unseen))?,
        (TopFormat::Json, None) => serde_json::to_string_pretty(&rows::as_value(&sections, &seen.unseen))?,
        (format, _) => rows::as_text(&sections, format == TopFormat::Wide),
    })
}
