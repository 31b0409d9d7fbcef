//! `allot catalog expiring`: which versions expire, in which profiles, and whom that concerns; of files or of a server.

use std::path::PathBuf;

use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot};
use allotment_core::catalog::{self, Expiring, KeptShoot, Offer, ProfileName};
use allotment_machinery::time;
use anyhow::{anyhow, bail};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::files::{self, Kind};
use crate::cli::{CatalogExpiring, ExplainFormat, Target};
use crate::client::Platform;
use crate::commands::profiles::Landscape;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;

/// Most Shoots, and most profiles, that a row of the table names.
const MOST_NAMED: usize = 5;

/// Prints what expires.
pub(crate) async fn run(target: &Target, arguments: &CatalogExpiring) -> Outcome {
    let now = arguments.at.unwrap_or_else(|| seams().now());
    let until = now.checked_add(arguments.within).map_err(|_| anyhow!("--within reaches past the end of time"))?;
    let namespace = arguments.namespace.as_deref();
    let there = match arguments.files.as_slice() {
        [] => Landscape::read(&Platform::connect(target).await?, namespace).await?,
        files => of_files(files)?,
    };
    there.tell(namespace);
    let profiles = there.cloud_profiles.iter().filter_map(|name| there.catalog.profile(name));
    let mut rows: Vec<Expiring> =
        profiles.flat_map(|offer| catalog::expiring(&there.catalog, &offer.parent, now, until)).collect();
    rows.sort_by_key(|row| row.expires.at());
    let value = || {
        json!({
            "at": time::format(now), "until": time::format(until), "versions": rows, "unseen": there.unseen,
        })
    };
    match arguments.output {
        ExplainFormat::Json => output::data(&serde_json::to_string_pretty(&value())?),
        ExplainFormat::Yaml => output::data(&output::yaml(&value())?),
        ExplainFormat::Text if rows.is_empty() => {
            output::note(&format!("nothing expires until {}", time::format(until)));
            Ok(())
        }
        ExplainFormat::Text => output::data(&table(&rows, now)),
    }
}

fn of_files(files: &[PathBuf]) -> anyhow::Result<Landscape> {
    let mut there = Landscape::default().whole();
    for document in files::read(files, &[Kind::Public, Kind::Private, Kind::Namespaced, Kind::Shoot])? {
        for text in document.slips.iter().chain(&document.warnings) {
            output::note(&format!("warning: {}: {text}", document.place()));
        }
        let wrong = |why: String| anyhow!("{}: {why}", document.place());
        let object = document.metadata().map_err(wrong)?;
        match document.kind {
            Kind::Public => {
                let profile = CloudProfile { metadata: object, spec: document.spec().map_err(wrong)?, status: None };
                there.add_profile(Offer::new(profile));
            }
            Kind::Private | Kind::Namespaced => {
                let spec = document.spec().map_err(wrong)?;
                there.add_private(KeptProfile { metadata: object, spec, ..KeptProfile::default() });
            }
            Kind::Shoot => {
                let shoot = Shoot { metadata: object, spec: document.spec().map_err(wrong)? };
                there.add_shoot(KeptShoot::read(&shoot));
            }
        }
    }
    if there.cloud_profiles.is_empty() {
        bail!("there is no CloudProfile in the files, so there is no version that could expire; add its file");
    }
    Ok(there)
}

fn table(rows: &[Expiring], now: Timestamp) -> String {
    let row = |row: &Expiring| {
        let in_ = row.expires.at().map(|at| distance(now.duration_until(at))).unwrap_or_default();
        let profile = |name: &ProfileName| match name.namespace.as_str() {
            "" => name.name.clone(),
            namespace => format!("{namespace}/{}", name.name),
        };
        let profiles: Vec<String> = row.profiles.iter().map(profile).collect();
        let what = format!("{} {}", row.image.as_deref().unwrap_or("kubernetes"), row.version);
        vec![what, row.expires.text().to_owned(), in_, named(&profiles), named(&row.shoots)]
    };
    output::table(&["VERSION", "EXPIRES", "IN", "PROFILES", "SHOOTS"], &rows.iter().map(row).collect::<Vec<_>>())
}

fn named(names: &[String]) -> String {
    let (shown, more) = names.split_at(names.len().min(MOST_NAMED));
    match (shown.is_empty(), more.len()) {
        (true, _) => "-".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// How far a date is away, in its largest unit: `12d`, `3h ago`.
fn distance(span: SignedDuration) -> String {
    let minutes = span.unsigned_abs().as_secs() / 60;
    let text = match minutes {
        0..60 => format!("{minutes}m"),
        60..1440 => format!("{}h", minutes / 60),
        _ => format!("{}d", minutes / 1440),
    };
    if span.is_negative() || span.is_zero() { format!("{text} ago") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_their_largest_unit() {
        let check = |minutes: i64, expect: &str| {
            assert_eq!(distance(SignedDuration::from_mins(minutes)), expect, "{minutes}");
        };
        check(59, "59m");
        check(-60, "1h ago");
        check(0, "0m ago");
        check(1439, "23h");
        check(1440 * 30, "30d");
        check(-1440 * 400, "400d ago");
    }

    #[test]
    fn long_lists_are_cut_off() {
        let names = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>();
        assert_eq!(named(&names(0)), "-");
        assert_eq!(named(&names(2)), "n0, n1");
        assert_eq!(named(&names(7)), "n0, n1, n2, n3, n4 and 2 more");
    }
}
