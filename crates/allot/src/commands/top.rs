//! `allot top`: Clusters, Purposes, requests that wait and providers at a glance. Each kind is listed once, page by
//! page; of each object only its row is kept.

mod rows;
mod seen;
mod watch;

use anyhow::anyhow;
use k8s_openapi::jiff::Timestamp;

use crate::cli::{Target, Top, TopFormat};
use crate::client::Platform;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;
use seen::Seen;

/// Shows it once, or again and again.
pub(crate) async fn run(target: &Target, arguments: Top) -> Outcome {
    let platform = Platform::connect(target).await?;
    if let Some(every) = arguments.watch {
        return watch::run(&platform, &arguments, every).await;
    }
    let mut seen = Seen::read(&platform, arguments.namespace.as_deref()).await?;
    if seen.is_nothing() {
        // Whoever reads JSON has asked for what is known, which is that nothing is; and is not told that all is well.
        if arguments.output == TopFormat::Json {
            output::data(&shown(&seen, &arguments, seams().now())?)?;
        }
        return Err(anyhow!(seen.unseen.swap_remove(0)).into());
    }
    seen.unseen.iter().for_each(|why| output::note(&format!("not shown: {why}")));
    output::data(&shown(&seen, &arguments, seams().now())?)
}

fn shown(seen: &Seen, arguments: &Top, now: Timestamp) -> anyhow::Result<String> {
    let sections = rows::sections(seen, arguments, now);
    Ok(match (arguments.output, arguments.watch) {
        (TopFormat::Json, Some(_)) => serde_json::to_string(&rows::as_value(&sections, &seen.unseen))?,
        (TopFormat::Json, None) => output::json(&rows::as_value(&sections, &seen.unseen))?,
        (format, _) => rows::as_text(&sections, format == TopFormat::Wide),
    })
}
