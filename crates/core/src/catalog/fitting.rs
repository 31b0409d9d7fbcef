//! What of a worker pool has to go together: the version of its image with that of its kubelets, and the size of its volume with
//! the types of volume and machine. When it is looked at is left to `usage`.

use allotment_api::catalog::{CloudProfileSpec, ImageVersion, KubernetesVersion, ShootSpec, Worker};
use allotment_machinery::version::{Version, VersionRequest};

use super::constraint::Constraint;
use super::render::kubernetes_of;
use super::usage::{architecture, has_architecture, listed};

/// The version of a pool's kubelets: its own, or that of the Shoot.
pub(super) fn kubelet_version<'a>(shoot: &'a ShootSpec, worker: &'a Worker) -> Option<&'a str> {
    let all = worker.kubernetes.iter().chain(&shoot.kubernetes);
    all.filter_map(|one| one.version.as_deref()).find(|version| !version.is_empty())
}

/// The version of a pool's image, and why it does not go with its kubelets. Of the beginning of a version (`1.30`) one that is
/// `usable` has to; `offered` are versions of the image that may be chosen.
pub(super) fn kubelets(
    profile: &CloudProfileSpec,
    (shoot, worker): (&ShootSpec, &Worker),
    usable: impl Fn(&KubernetesVersion) -> bool,
    offered: impl Fn(&ImageVersion) -> bool,
) -> Option<(String, String)> {
    let (image, wanted) = (worker.machine.image.as_ref()?, kubelet_version(shoot, worker)?);
    let own = profile.machine_images.iter().find(|entry| entry.name == image.name)?;
    let entry = own.versions.iter().find(|entry| Some(&entry.version) == image.version.as_ref())?;
    let text = entry.kubelet_version_constraint.as_ref()?;
    let request = wanted.parse::<VersionRequest>().ok()?;
    let meant: Vec<Version> = match wanted.parse() {
        Ok(version) => vec![version],
        Err(_) => {
            let usable = kubernetes_of(profile).iter().filter(|entry| usable(entry));
            let versions = usable.filter_map(|entry| entry.version.parse().ok());
            versions.filter(|version| request.matches(version)).collect()
        }
    };
    let works = |entry: &ImageVersion| {
        let constraint = entry.kubelet_version_constraint.as_ref().and_then(|text| Constraint::read(text));
        constraint.is_none_or(|constraint| meant.iter().any(|version| constraint.allows(version)))
    };
    if meant.is_empty() || works(entry) {
        return None;
    }
    let fits = |entry: &&str| {
        let entry = own.versions.iter().find(|one| one.version == **entry);
        entry.is_some_and(|entry| offered(entry) && has_architecture(entry, architecture(worker)) && works(entry))
    };
    let fitting = listed(own.versions.iter().map(|entry| entry.version.as_str()).filter(fits));
    let (version, name) = (&entry.version, &image.name);
    let detail = format!(
        "version {version} of machine image {name:?} works with kubelets {text:?} only, and those of the pool are {wanted}; \
         offered for {wanted}: {fitting}"
    );
    Some((version.clone(), detail))
}

/// The size of a pool's volume, and why it is too small. What is no size is told elsewhere.
pub(super) fn volume_size(profile: &CloudProfileSpec, worker: &Worker) -> Option<(String, String)> {
    let volume = worker.volume.as_ref()?;
    let (wanted, size) = (volume.type_.as_deref()?, volume.size.as_ref()?);
    let asked = size.quantity()?.nanos();
    let machine = profile.machine_types.iter().find(|entry| entry.name == worker.machine.type_);
    let storage = machine.and_then(|entry| entry.storage.as_ref()).filter(|storage| storage.type_ == wanted);
    let of_machine = storage.and_then(|storage| storage.min_size.as_ref());
    let of_type = profile.volume_types.iter().find(|entry| entry.name == wanted).and_then(|one| one.min_size.as_ref());
    let nanos = |least: &&allotment_api::catalog::Amount| least.quantity().map(|quantity| quantity.nanos());
    let least = of_machine.into_iter().chain(of_type).max_by_key(nanos)?;
    if asked >= nanos(&least)? {
        return None;
    }
    let detail = match of_machine == Some(least) {
        true => {
            format!("with machine type {:?} a volume of type {wanted:?} has at least {least}", worker.machine.type_)
        }
        false => format!("a volume of type {wanted:?} has at least {least}"),
    };
    Some((size.text().to_owned(), format!("{detail}: ask for that much, or choose another type")))
}
