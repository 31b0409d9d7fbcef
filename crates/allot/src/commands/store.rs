//! `allot store check|repair`: what a data folder's store holds, and what can be kept of a damaged one.

use std::path::PathBuf;

use allotment_store::{Repair, Report};
use anyhow::anyhow;
use serde_json::json;

use crate::cli::{Format, StoreCheck, StoreRepair};
use crate::exit::{Code, Failure, Outcome};
use crate::folder;
use crate::output::{self, note};
use crate::platform::{DataFolder, store_failure};

/// Says what is there, or where it is damaged.
pub(crate) async fn check(arguments: StoreCheck) -> Outcome {
    let dir = store_dir(arguments.data_dir)?;
    let report = allotment_store::check(&dir).await.map_err(store_failure)?;
    for segment in report.segments.iter().filter(|segment| segment.torn > 0) {
        note(&format!(
            "{} ends with {} bytes of a write that was not finished, from byte {}; they are cut at the next start",
            segment.name, segment.torn, segment.bytes
        ));
    }
    let segments: Vec<_> = report
        .segments
        .iter()
        .map(|one| json!({"name": one.name, "writes": one.records, "bytes": one.bytes, "torn": one.torn}))
        .collect();
    let value = json!({
        "folder": dir, "revision": report.revision, "objects": report.objects, "tenants": report.tenants,
        "historyAfter": report.history_after, "snapshot": report.snapshot.as_ref().map(|(name, _)| name),
        "segments": segments,
    });
    let wide = arguments.output == Some(Format::Wide);
    output::object(&value, arguments.output, &dir.display().to_string(), || describe(&report, wide))
}

fn describe(report: &Report, wide: bool) -> String {
    let Report { revision, objects, tenants, .. } = report;
    let mut text = format!("the store is right: revision {revision}, {objects} objects of {tenants} tenants");
    if wide {
        if let Some((name, bytes)) = &report.snapshot {
            text.push_str(&format!("\n{name}: {bytes} bytes"));
        }
        for segment in &report.segments {
            text.push_str(&format!("\n{}: {} writes, {} bytes", segment.name, segment.records, segment.bytes));
        }
    }
    text
}

/// Says what a repair would keep and lose; does it with `--yes`.
pub(crate) async fn repair(arguments: StoreRepair) -> Outcome {
    let dir = store_dir(arguments.data_dir)?;
    let planned = allotment_store::plan_repair(&dir, arguments.restored).await.map_err(store_failure)?;
    if planned.jumps_to.is_none() {
        return output::data("the store is right; there is nothing to repair");
    }
    if !arguments.yes {
        output::data(&tell(&planned, false))?;
        let message = "nothing was changed; to do this, add --yes";
        return Err(Failure::new(Code::Failed, message));
    }
    let done = allotment_store::repair(&dir, arguments.restored).await.map_err(store_failure)?;
    output::data(&tell(&done, true))
}

/// What was done, or would be.
fn tell(repair: &Repair, done: bool) -> String {
    let verb = |past: &'static str, future: &'static str| if done { past } else { future };
    let mut lines = Vec::new();
    if let Some(damage) = &repair.damage {
        lines.push(format!("damaged:  {damage}"));
        if let Some(losses) = &repair.snapshot {
            let count = match losses.objects {
                Some(count) => format!("{count} objects"),
                None => "an unknown number of objects".to_owned(),
            };
            lines.push(format!("{}  {count} of the snapshot", verb("lost:   ", "to lose:")));
            lines.extend(losses.gaps.iter().map(|gap| format!("missing:  {gap}")));
        }
    }
    if repair.lost_bytes > 0 {
        let readable = match repair.lost_writes {
            0 => "no write of which can be read".to_owned(),
            count => format!("with at least {count} whole writes"),
        };
        lines.push(format!(
            "{}  {} bytes at the end of the log, {readable}",
            verb("lost:   ", "to lose:"),
            repair.lost_bytes
        ));
    }
    lines.push(format!(
        "{}  {} objects, as they were at revision {}",
        verb("kept:   ", "to keep:"),
        repair.objects,
        repair.revision
    ));
    lines.extend(repair.aside.iter().map(|file| format!("{}  {file}", verb("aside:  ", "aside:  "))));
    if let Some(target) = repair.jumps_to {
        lines.push(format!("revision: {} {target}, so that clients list everything anew", verb("is now", "jumps to")));
    }
    lines.join("\n")
}

/// The store of a data folder that is there.
fn store_dir(data_dir: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let root = match data_dir {
        Some(dir) => dir,
        None => folder::default_data_dir()
            .ok_or_else(|| anyhow!("there is no home folder; name a folder with --data-dir"))?,
    };
    let folder = DataFolder::inspect(&root)?;
    if folder.is_new() {
        let message = format!("data folder {}: it holds no store; name another one with --data-dir", root.display());
        return Err(Failure::new(Code::FolderUnusable, message));
    }
    Ok(folder.store())
}
