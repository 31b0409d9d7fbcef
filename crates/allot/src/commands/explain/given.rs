//! What the files of `allot explain shoot` hold: the Shoot that is asked about, and profiles that stand for those of the server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use allotment_api::catalog::{API_VERSION, CloudProfile, KeptProfile, Shoot};
use allotment_core::catalog::Offer;
use anyhow::{anyhow, bail};
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::commands::shape;

const SHOOT: &str = "Shoot";
const CLOUD: &str = "CloudProfile";
const PRIVATE: &str = "PrivateCloudProfile";

/// All that some files hold.
pub(super) struct Files {
    /// The Shoot.
    pub(super) shoot: Shoot,
    cloud: Vec<Offer>,
    private: Vec<KeptProfile>,
}

/// Profiles that count, whatever the server has of their names.
#[derive(Default)]
pub(super) struct Given {
    /// CloudProfiles by name.
    pub(super) cloud: BTreeMap<String, Offer>,
    /// Private profiles of one namespace, by name.
    pub(super) private: BTreeMap<String, KeptProfile>,
}

impl Files {
    /// Reads them; there has to be one Shoot in them all.
    pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Files> {
        let (mut shoots, mut cloud, mut private) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            for mut value in shape::documents_of(path, &[SHOOT, CLOUD, PRIVATE], API_VERSION)? {
                match value["kind"].as_str().unwrap_or_default() {
                    CLOUD => cloud.push(Offer::new(profile::<CloudProfile>(path, CLOUD, value)?)),
                    PRIVATE => private.push(profile::<KeptProfile>(path, PRIVATE, value)?),
                    _ => {
                        if value["metadata"]["name"].is_null() {
                            value["metadata"]["name"] = json!("");
                        }
                        shoots.push(typed::<Shoot>(path, SHOOT, value)?);
                    }
                }
            }
        }
        let all = || paths.iter().map(|path| shape::shown(path)).collect::<Vec<_>>().join(", ");
        match (shoots.pop(), shoots.len()) {
            (Some(shoot), 0) => Ok(Files { shoot, cloud, private }),
            (None, _) => bail!("{} holds no Shoot", all()),
            (Some(_), more) => bail!("{} holds {} Shoots; one is asked about at a time", all(), more + 1),
        }
    }

    /// The Shoot, and what a Shoot of that namespace may use. A private profile that names no namespace is of that one.
    pub(super) fn within(self, namespace: &str) -> anyhow::Result<(Shoot, Given)> {
        let mut given = Given::default();
        for offer in self.cloud {
            let name = offer.parent.name().to_owned();
            if given.cloud.insert(name.clone(), offer).is_some() {
                bail!("{CLOUD} {name} stands in the files more than once: take one out");
            }
        }
        for mut private in self.private {
            let own = private.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
            if own != namespace {
                continue;
            }
            let name = private.name_any();
            if given.private.insert(name.clone(), private).is_some() {
                bail!("{PRIVATE} {namespace}/{name} stands in the files more than once: take one out");
            }
        }
        Ok((self.shoot, given))
    }
}

/// A profile as it would be made: what a server noted on the one that the file was printed from is none of it.
fn profile<T: DeserializeOwned>(path: &Path, kind: &str, mut value: Value) -> anyhow::Result<T> {
    let text = |field: &str| value["metadata"][field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (name, namespace) = (text("name"), text("namespace"));
    let Some(name) = name else {
        bail!("{}: {kind}: metadata.name: Required value: name the {kind}", shape::shown(path));
    };
    value["metadata"] = json!({"name": name, "namespace": namespace});
    if let Some(members) = value.as_object_mut() {
        members.remove("status");
    }
    typed(path, &format!("{kind} {name}"), value)
}

fn typed<T: DeserializeOwned>(path: &Path, what: &str, value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).map_err(|error| anyhow!("{}: {what}: {error}", shape::shown(path)))
}
