//! The manifests of the proposal of private profiles (GEP-25), and those that a landscape ships as its examples: the
//! latter are not part of this repository, so whoever has them names
//! their folder by `ALLOTMENT_GARDENER_MANIFESTS` and runs that test with `--ignored`.

use std::path::PathBuf;

use allotment_api::catalog::{CloudProfileSpec, PrivateCloudProfileSpec, RenderedProfile};
use allotment_core::catalog::{Parent, correct, render, settled, validate_cloud_profile, validate_private_profile};
use allotment_machinery::yaml;
use serde::de::DeserializeOwned;

use super::{at, create, shown, spec};

pub(crate) const PARENT: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: aws-central-cloud-profile
spec:
  type: aws
  kubernetes:
    versions:
      - version: 1.27.1
      - version: 1.26.3
      - version: 1.25.8
      - version: 1.24.6
      - version: 1.28.6
        expirationDate: 2023-02-02T01:02:03Z
  machineImages:
    - name: suse-chost
      versions:
        - version: 15.4
        - version: 14.4
        - version: 13.6
  machineTypes:
    - name: m5.large
      cpu: \"4\"
      gpu: \"0\"
      memory: 8Gi
  volumeTypes:
    - name: gp3
      class: standard
      usable: true
  regions:
    - name: europe-central-1
      zones:
        - name: europe-central-1a
        - name: europe-central-1b
        - name: europe-central-1c
";

pub(crate) const PRIVATE: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: PrivateCloudProfile
metadata:
  name: private-cloud-profile-xyz
  namespace: project-xyz
spec:
  parent: aws-central-cloud-profile
  kubernetes:
    versions:
      - version: 1.28.6
        expirationDate: 2024-06-06T01:02:03Z
  machineImages:
    - name: suse-chost
      versions:
        - version: 16.4
          expirationDate: 2023-08-8T23:59:59Z
  machineTypes:
    - name: m5.xlarge
      cpu: \"8\"
      gpu: \"0\"
      memory: 16Gi
  volumeTypes:
    - name: ab6
      class: premium
      usable: true
  regions:
    - name: europe-special
      zones:
        - name: europe-custom-1a
        - name: europe-custom-1b
        - name: europe-custom-1c
";

/// The proposal's result, with the parent's entries first throughout and the slips put right.
const RESULT: &str = "
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: private-cloud-profile-xyz
spec:
  type: aws
  kubernetes:
    versions:
      - version: 1.27.1
      - version: 1.26.3
      - version: 1.25.8
      - version: 1.24.6
      - version: 1.28.6
        expirationDate: 2024-06-06T01:02:03Z
  machineImages:
    - name: suse-chost
      versions:
        - version: '15.4'
        - version: '14.4'
        - version: '13.6'
        - version: '16.4'
          expirationDate: 2023-08-08T23:59:59Z
  machineTypes:
    - name: m5.large
      cpu: \"4\"
      gpu: \"0\"
      memory: 8Gi
    - name: m5.xlarge
      cpu: \"8\"
      gpu: \"0\"
      memory: 16Gi
  volumeTypes:
    - name: gp3
      class: standard
      usable: true
    - name: ab6
      class: premium
      usable: true
  regions:
    - name: europe-central-1
      zones:
        - name: europe-central-1a
        - name: europe-central-1b
        - name: europe-central-1c
    - name: europe-special
      zones:
        - name: europe-custom-1a
        - name: europe-custom-1b
        - name: europe-custom-1c
";

/// The spec of a manifest with its slips put right, and these as texts.
fn corrected<T: DeserializeOwned>(text: &str) -> (T, Vec<String>) {
    let mut value = yaml::parse(text).expect("YAML");
    let slips = correct(&mut value).iter().map(ToString::to_string).collect();
    (spec(&value.to_string()), slips)
}

#[test]
fn the_proposals_own_profiles_render_to_its_result() {
    let (cloud, slips): (CloudProfileSpec, _) = corrected(PARENT);
    let number = |version: &str| {
        format!(
            "spec.machineImages[suse-chost].versions[{version}].version: {version}: a version is a text, and this a \
             number: quote the version, \"{version}\""
        )
    };
    assert_eq!(slips, [number("15.4"), number("14.4"), number("13.6")]);
    let (private, slips): (PrivateCloudProfileSpec, _) = corrected(PRIVATE);
    let date = "spec.machineImages[suse-chost].versions[16.4].expirationDate: \"2023-08-8T23:59:59Z\": not a time by RFC \
                3339: write \"2023-08-08T23:59:59Z\"";
    assert_eq!(slips, [number("16.4"), date.to_owned()]);

    let before = "2023-01-01T00:00:00Z";
    let newest = "spec.kubernetes.versions[1.28.6].expirationDate: the newest Kubernetes version expires at";
    let found = validate_cloud_profile(&cloud, None, at(before));
    assert_eq!(found.errors, []);
    assert!(matches!(found.warnings.as_slice(), [only] if only.starts_with(newest)), "{:?}", found.warnings);

    let parent = Parent::new("aws-central-cloud-profile", cloud);
    let write = create(&parent, before);
    assert_eq!(settled(&private, &write), None);
    let found = validate_private_profile(&private, &write);
    assert_eq!(found.errors, []);
    assert!(matches!(found.warnings.as_slice(), [only] if only.starts_with(newest)), "{:?}", found.warnings);

    let rendered = render(&parent, &private);
    assert_eq!((rendered.conflicts.len(), rendered.faults.len()), (0, 0));
    let object = RenderedProfile::new("private-cloud-profile-xyz", rendered.spec.clone());
    assert_eq!(shown(&object), yaml::to_string(&yaml::parse(RESULT).expect("YAML")));
    assert_eq!(validate_cloud_profile(&rendered.spec, None, at(before)).errors, []);
}

#[test]
fn a_private_profile_of_the_proposal_comes_too_late_after_its_dates() {
    let (cloud, _) = corrected(PARENT);
    let (private, _): (PrivateCloudProfileSpec, _) = corrected(PRIVATE);
    let parent = Parent::new("aws-central-cloud-profile", cloud);
    let found = validate_private_profile(&private, &create(&parent, "2025-01-01T00:00:00Z"));
    let texts: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec.kubernetes.versions[1.28.6].expirationDate: Invalid value: \"2024-06-06T01:02:03Z\": is in the past: choose a date \
             to come, or leave the version out",
            "spec.machineImages[suse-chost].versions[16.4].expirationDate: Invalid value: \"2023-08-08T23:59:59Z\": is in the past: \
             choose a date to come, or leave the version out",
        ]
    );
}

#[test]
fn without_correction_slips_are_told_with_what_is_right() {
    let parent = Parent::new("aws-central-cloud-profile", corrected(PARENT).0);
    let quoted: PrivateCloudProfileSpec = spec(&PRIVATE.replace("16.4", "'16.4'"));
    let found = validate_private_profile(&quoted, &create(&parent, "2023-01-01T00:00:00Z"));
    let texts: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec.machineImages[suse-chost].versions[16.4].expirationDate: Invalid value: \"2023-08-8T23:59:59Z\": not a time by RFC \
          3339: write \"2023-08-08T23:59:59Z\""
        ]
    );
    let mut value = yaml::parse(PARENT).expect("YAML");
    assert_eq!(
        correct(&mut value)[0].error().to_string(),
        "spec.machineImages[suse-chost].versions[15.4].version: Invalid value: 15.4: a version is a text, and this a number: quote \
         the version, \"15.4\""
    );
}

#[test]
#[ignore = "the examples are not part of this repository: name their folder by ALLOTMENT_GARDENER_MANIFESTS"]
fn the_examples_of_a_real_landscape_are_read_judged_and_rendered() {
    let folder = std::env::var_os("ALLOTMENT_GARDENER_MANIFESTS").map(PathBuf::from);
    let folder = folder.expect("ALLOTMENT_GARDENER_MANIFESTS names the folder of the examples");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    let (cloud, slips): (CloudProfileSpec, _) = corrected(&read("30-cloudprofile.yaml"));
    assert_eq!(slips, Vec::<String>::new());
    let now = "2025-01-01T00:00:00Z";
    assert_eq!(validate_cloud_profile(&cloud, None, at(now)).errors, []);
    let (private, _): (PrivateCloudProfileSpec, _) = corrected(&read("35-namespacedcloudprofile.yaml"));
    assert!(private.parent.is_object && private.parent.name == "local");
    let parent = Parent::new("local", cloud);
    let found = validate_private_profile(&private, &create(&parent, now));
    let texts: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    assert!(texts.iter().any(|text| text.starts_with("spec.providerConfig: Forbidden: providerConfig is inherited")));
    assert!(texts.iter().any(|text| text.contains("of 1.34 it has 1.34.7")), "{texts:?}");
    let rendered = render(&parent, &private);
    let images: Vec<&str> = rendered.spec.machine_images.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(images, ["gardenlinux", "ubuntu", "local", "ubuntu-custom"]);
    assert_eq!(rendered.spec.provider_config, parent.spec().provider_config);
    let _: allotment_api::catalog::ShootSpec = corrected(&read("90-shoot.yaml")).0;
}
