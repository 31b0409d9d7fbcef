//! What the files of `allot explain shoot` hold: the Shoot that is asked about, and profiles that stand for those of the server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use allotment_api::catalog::{CloudProfile, KeptProfile, Shoot};
use allotment_core::catalog::Offer;
use anyhow::{anyhow, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::commands::manifests::{self, Document, Kind};

/// All that some files hold.
#[derive(Debug)]
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
    /// Reads them, and tells what is put right; there has to be one Shoot in them all.
    pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Files> {
        let documents = manifests::read_any(paths, &Kind::ALL)?;
        documents.iter().for_each(Document::tell_all);
        Files::of(&documents, &manifests::all_shown(paths))
    }

    fn of(documents: &[Document], files: &str) -> anyhow::Result<Files> {
        let (mut shoots, mut cloud, mut private) = (Vec::new(), Vec::new(), Vec::new());
        for document in documents {
            let wrong = |why: String| anyhow!("{}: {why}", document.place());
            match document.kind {
                Kind::Public => {
                    let spec = document.spec().map_err(wrong)?;
                    cloud.push(Offer::new(CloudProfile { metadata: called_so(document), spec, status: None }));
                }
                Kind::Private | Kind::Namespaced => {
                    let (metadata, spec) = (called_so(document), document.spec().map_err(wrong)?);
                    private.push(KeptProfile { metadata, spec, ..KeptProfile::default() });
                }
                Kind::Shoot => shoots.push(document.shoot().map_err(wrong)?),
            }
        }
        match (shoots.pop(), shoots.len()) {
            (Some(mut shoot), 0) => {
                // It has the name that it says, and none by `generateName`.
                shoot.metadata.name.get_or_insert_default();
                Ok(Files { shoot, cloud, private })
            }
            (None, _) => bail!("{files} holds no Shoot"),
            (Some(_), more) => bail!("{files} holds {} Shoots; one is asked about at a time", more + 1),
        }
    }

    /// The Shoot, and what a Shoot of that namespace may use. A private profile that names no namespace is of that one.
    pub(super) fn within(self, namespace: &str) -> anyhow::Result<(Shoot, Given)> {
        let mut given = Given::default();
        for offer in self.cloud {
            let name = offer.parent.name().to_owned();
            if given.cloud.insert(name.clone(), offer).is_some() {
                bail!("CloudProfile {name} stands in the files more than once: take one out");
            }
        }
        for mut private in self.private {
            let own = private.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
            if own != namespace {
                continue;
            }
            let name = private.name_any();
            if given.private.insert(name.clone(), private).is_some() {
                bail!("PrivateCloudProfile {namespace}/{name} stands in the files more than once: take one out");
            }
        }
        Ok((self.shoot, given))
    }
}

/// Of a profile's metadata what it would be made with: what a server noted on the one that the file was printed from is none of it.
fn called_so(document: &Document) -> ObjectMeta {
    let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    ObjectMeta { name: said(&document.name), namespace: said(&document.namespace), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use allotment_core::catalog::{Parent, Reference, reference};

    use super::*;

    const FILE: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: central}
spec:
  type: aws
  kubernetes: {versions: [{version: 1.31.0}, {version: 1.30.2, expirationDate: 2025-06-1T00:00:00Z}]}
  machineImages: [{name: linux, versions: [{version: 15.10}]}]
---
apiVersion: core.gardener.cloud/v1beta1
kind: NamespacedCloudProfile
metadata: {name: own, namespace: team, uid: of-a-server}
spec: {parent: {kind: CloudProfile, name: central}, providerConfig: {a: b}}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {namespace: team}
spec: {cloudProfile: {kind: NamespacedCloudProfile, name: own}, kubernetes: {version: 1.30.2}}
";

    #[test]
    fn slips_are_put_right_and_namespaced_profiles_are_private_ones() {
        let documents = manifests::of_text("all.yaml", FILE, &Kind::ALL).expect("YAML");
        let told: Vec<String> = documents.iter().flat_map(Document::told).collect();
        let expect = [
            "all.yaml: CloudProfile central: spec.kubernetes.versions[1.30.2].expirationDate: \"2025-06-1T00:00:00Z\": not a time",
            "all.yaml: CloudProfile central: spec.machineImages[linux].versions[15.10].version: 15.10: a version is a text",
            "all.yaml: NamespacedCloudProfile team/own: spec.providerConfig: is ignored",
            "all.yaml: NamespacedCloudProfile team/own: is read as a PrivateCloudProfile",
            "all.yaml: Shoot team/: spec.cloudProfile.kind: NamespacedCloudProfile is read as PrivateCloudProfile",
        ];
        assert!(
            told.len() == expect.len() && told.iter().zip(expect).all(|(told, expect)| told.starts_with(expect)),
            "{told:#?}"
        );

        let (shoot, given) = Files::of(&documents, "all.yaml").and_then(|files| files.within("team")).expect("a Shoot");
        assert_eq!(reference(&shoot.spec, None), Ok(Reference::private("own")));
        assert_eq!(given.private["own"].metadata.uid, None);
        let parent: &Parent = &given.cloud["central"].parent;
        let date = parent.spec().kubernetes.as_ref().and_then(|own| own.versions[1].expiration_date.clone());
        assert_eq!(date.map(|date| date.to_string()).as_deref(), Some("2025-06-01T00:00:00Z"));
        assert_eq!(parent.spec().machine_images[0].versions[0].version, "15.10");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let check = |from: &str, to: &str, expect: &str| {
            let documents = manifests::of_text("all.yaml", &FILE.replace(from, to), &Kind::ALL).expect("YAML");
            assert_eq!(Files::of(&documents, "all.yaml").expect_err(to).to_string(), expect);
        };
        check("kind: Shoot", "kind: Seed", "all.yaml holds no Shoot");
        check(
            "{name: own, namespace",
            "{namespace",
            "all.yaml: NamespacedCloudProfile team/: metadata.name: Required value: name the NamespacedCloudProfile",
        );
        check(
            "kubernetes: {version: 1.30.2}",
            "region: 1",
            "all.yaml: Shoot team/: spec.region: invalid type: integer `1`, expected a string: put it in quotes",
        );
    }
}
