//! `allot catalog expiring`: which versions expire, in which profiles, and whom that concerns; of files or of a server.

use std::path::PathBuf;

use allotment_api::catalog::{CloudProfile, Date, KeptProfile};
use allotment_core::catalog::{self, Expiring, KeptShoot, Offer};
use allotment_machinery::time;
use anyhow::{anyhow, bail};
use serde_json::json;

use crate::cli::{CatalogExpiring, ExplainFormat, Target};
use crate::client::Platform;
use crate::commands::manifests::{self, Kind};
use crate::commands::profiles::Landscape;
use crate::commands::versions;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;

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
    rows.sort_by_key(|row| row.expires.as_ref().and_then(Date::at));
    let value = || {
        json!({
            "at": time::format(now), "until": time::format(until), "versions": rows, "unseen": there.unseen, "unread": there.unread,
        })
    };
    match arguments.output {
        ExplainFormat::Json => output::data(&output::json(&value())?),
        ExplainFormat::Yaml => output::data(&output::yaml(&value())?),
        ExplainFormat::Text if rows.is_empty() => {
            let seen = if there.unseen.is_empty() && there.unread.is_empty() { "" } else { " that may be seen" };
            output::note(&format!("nothing{seen} expires until {}", time::format(until)));
            Ok(())
        }
        ExplainFormat::Text => output::data(&versions::table(&rows, now)),
    }
}

fn of_files(files: &[PathBuf]) -> anyhow::Result<Landscape> {
    let mut there = Landscape::default().whole();
    for document in manifests::read(files, &Kind::ALL)? {
        document.tell();
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
                document.named().map_err(wrong)?;
                there.add_shoot(KeptShoot::read(&document.shoot().map_err(wrong)?));
            }
        }
    }
    if there.cloud_profiles.is_empty() {
        bail!("there is no CloudProfile in the files, so there is no version that could expire; add its file");
    }
    Ok(there)
}
