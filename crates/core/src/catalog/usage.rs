//! What a Shoot may use of its profile, and why not. What a write leaves as it was always passes: a Shoot can be changed and
//! deleted after its versions expired or its region went.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::{
    CloudProfileSpec, Date, ImageVersion, KubernetesVersion, MachineImage, Shared, ShootSpec, Worker,
};
use allotment_machinery::field::{FieldError, MAX_ERRORS, Path};
use allotment_machinery::version::{Version, VersionRequest};
use k8s_openapi::jiff::Timestamp;

use super::compare::DEFAULT_ARCHITECTURE;
use super::dates::has_passed;
use super::fitting;
use super::reference::Reference;
use super::render::kubernetes_of;
use super::versions::{VersionKey, dated, once_each};

/// Most entries that a message lists.
const MOST_LISTED: usize = 20;

pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.peekable();
    if names.peek().is_none() { "none".to_owned() } else { super::listed::listed(names, MOST_LISTED) }
}

/// A Shoot's demands against one profile.
struct Check<'a> {
    profile: &'a CloudProfileSpec,
    name: &'a Reference,
    /// The Shoot's region.
    region: Option<&'a str>,
    /// Whether it was there before.
    region_stays: bool,
    /// `None` where expired versions count as there.
    now: Option<Timestamp>,
    errors: Vec<FieldError>,
}

/// What a Shoot may not use of `profile`, which is what `name` renders to. `old` is what was stored; what it used already
/// is not looked at.
pub fn check_usage(
    shoot: &ShootSpec,
    old: Option<&ShootSpec>,
    profile: &CloudProfileSpec,
    name: &Reference,
    now: Timestamp,
) -> Vec<FieldError> {
    let region_stays = old.is_some_and(|old| old.region == shoot.region);
    let region = shoot.region.as_deref();
    let mut check = Check { profile, name, region, region_stays, now: Some(now), errors: Vec::new() };
    let path = Path::new("spec");
    let provider_before = old.and_then(|old| old.provider.as_ref()).map(|provider| &provider.type_);
    if let Some(provider) = shoot.provider.as_ref().filter(|provider| provider_before != Some(&provider.type_))
        && provider.type_ != profile.type_
    {
        let detail = format!("{name} is for provider {:?}: use that, or another profile", profile.type_);
        let path = path.child("provider").child("type");
        check.errors.push(FieldError::invalid(&path, &provider.type_, detail));
    }
    check.names(workers(shoot), old.map(workers).unwrap_or_default());
    let version = kubernetes(shoot);
    if version != old.and_then(kubernetes) {
        check.kubernetes(version, &path.child("kubernetes").child("version"));
    }
    if !region_stays {
        check.region(&path.child("region"));
    }
    // Of a name that stands twice the first pool counts.
    let before = old.map(workers).unwrap_or_default().iter().rev().map(|worker| (worker.name.as_str(), worker));
    let before: BTreeMap<&str, &Worker> = before.collect();
    for worker in workers(shoot) {
        if check.is_full() {
            break;
        }
        let before = before.get(worker.name.as_str()).copied();
        check.worker(worker, before);
        check.fitting((shoot, worker), old.zip(before));
    }
    check.errors
}

/// What of a Shoot `target` lacks, to which it is to change: region and zones, machine and volume types, image versions, each
/// of the architecture that it is used with. Versions that expired are there.
pub fn check_switch_usage(shoot: &ShootSpec, target: &CloudProfileSpec, name: &Reference) -> Vec<FieldError> {
    let region = shoot.region.as_deref();
    let mut check = Check { profile: target, name, region, region_stays: false, now: None, errors: Vec::new() };
    check.region(&Path::new("spec").child("region"));
    for worker in workers(shoot) {
        if check.is_full() {
            break;
        }
        check.worker(worker, None);
    }
    check.errors
}

/// The Kubernetes versions that a Shoot names, of its control plane and its workers.
pub fn used_kubernetes(shoot: &ShootSpec) -> impl Iterator<Item = &str> {
    kubernetes(shoot).into_iter().chain(workers(shoot).iter().filter_map(kubernetes_of_worker))
}

/// The images that a Shoot names with their versions, of which none is any.
pub(super) fn used_images(shoot: &ShootSpec) -> impl Iterator<Item = (&str, &str)> {
    let images = workers(shoot).iter().filter_map(|worker| worker.machine.image.as_ref());
    images.map(|image| (image.name.as_str(), image.version.as_deref().unwrap_or_default()))
}

/// Whether a profile has a version, expired or not, by which a Shoot may mean `wanted`: a Kubernetes version or the
/// beginning of one (`1.30`), a version of an image or, where that is empty, any.
pub fn offers(profile: &CloudProfileSpec, wanted: &VersionKey<'_>) -> bool {
    dated(profile.kubernetes.as_ref(), &profile.machine_images).any(|(key, _)| is_meant(wanted, &key))
}

/// The beginning of a Kubernetes version (`1.30`), that stands for each which goes on from it.
pub(super) struct Begun(VersionRequest);

impl Begun {
    /// Nothing where it is a version whole.
    pub(super) fn of(text: &str) -> Option<Self> {
        text.parse::<VersionRequest>().ok().filter(|request| !request.is_full()).map(Begun)
    }

    /// Whether that version goes on from it.
    pub(super) fn is_of(&self, version: &str) -> bool {
        version.parse::<Version>().is_ok_and(|one| self.0.matches(&one))
    }
}

/// Whether a version is one that `wanted` may stand for.
fn is_meant(wanted: &VersionKey<'_>, key: &VersionKey<'_>) -> bool {
    match (wanted, key) {
        (VersionKey::Kubernetes(wanted), VersionKey::Kubernetes(version)) => {
            wanted == version || Begun::of(wanted).is_some_and(|begun| begun.is_of(version))
        }
        (VersionKey::Image(wanted, any), VersionKey::Image(image, version)) => {
            wanted == image && (any.is_empty() || any == version)
        }
        _ => false,
    }
}

/// The version by which a Shoot is served that means `wanted`, with its date: of those that it may stand for the one that lasts
/// longest, and of several such the highest. Nothing where the profile has none.
pub(super) fn longest_meant<'p>(
    profile: &'p CloudProfileSpec,
    wanted: &VersionKey<'_>,
) -> Option<(VersionKey<'p>, Option<&'p Date>)> {
    let meant = once_each(dated(profile.kubernetes.as_ref(), &profile.machine_images));
    let meant = meant.into_iter().filter(|(key, _)| is_meant(wanted, key));
    meant.max_by_key(|(key, date)| {
        let lasts = date.and_then(Date::at).unwrap_or(Timestamp::MAX);
        // Versions of images have as many parts as they like.
        let parts: Vec<Option<u64>> = key.version().split('.').map(|part| part.parse().ok()).collect();
        (key == wanted, lasts, parts)
    })
}

/// The versions of a profile that have expired by `now` and are the last ones that one of `wanted` may stand for: whoever
/// says no more than `1.30`, or names an image without a version, would be left with none.
pub fn last_meant<'p>(
    profile: &'p CloudProfileSpec,
    wanted: &BTreeSet<VersionKey<'_>>,
    now: Timestamp,
) -> BTreeSet<VersionKey<'p>> {
    let all: Vec<(VersionKey<'p>, Option<&Date>)> =
        dated(profile.kubernetes.as_ref(), &profile.machine_images).collect();
    let mut last = BTreeSet::new();
    for open in wanted.iter().filter(|wanted| !all.iter().any(|(key, _)| key == *wanted)) {
        let meant = || all.iter().filter(|(key, _)| is_meant(open, key));
        if meant().all(|(key, date)| has_passed(*date, now) && !wanted.contains(key)) {
            last.extend(meant().map(|(key, _)| *key));
        }
    }
    last
}

fn kubernetes(shoot: &ShootSpec) -> Option<&str> {
    shoot.kubernetes.as_ref()?.version.as_deref().filter(|version| !version.is_empty())
}

fn kubernetes_of_worker(worker: &Worker) -> Option<&str> {
    worker.kubernetes.as_ref()?.version.as_deref().filter(|version| !version.is_empty())
}

fn workers(shoot: &ShootSpec) -> &[Worker] {
    shoot.provider.as_ref().map_or(&[], |provider| &provider.workers)
}

pub(super) fn architecture(worker: &Worker) -> &str {
    worker.machine.architecture.as_deref().unwrap_or(DEFAULT_ARCHITECTURE)
}

pub(super) fn has_architecture(version: &ImageVersion, wanted: &str) -> bool {
    match version.architectures.as_slice() {
        [] => wanted == DEFAULT_ARCHITECTURE,
        all => all.iter().any(|one| one == wanted),
    }
}

impl Check<'_> {
    fn has_expired(&self, date: Option<&Date>) -> bool {
        self.now.is_some_and(|now| has_passed(date, now))
    }

    /// Whether nothing more is told.
    fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    fn refuse(&mut self, path: &Path, value: &str, detail: String) {
        if !self.is_full() {
            self.errors.push(FieldError::invalid(path, value, detail));
        }
    }

    /// That no name of a pool newly stands twice: the one would be taken for the other.
    fn names(&mut self, workers: &[Worker], before: &[Worker]) {
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        for worker in before {
            *left.entry(&worker.name).or_default() += 1;
        }
        let mut seen = BTreeSet::new();
        for (index, worker) in workers.iter().enumerate() {
            let known = left.entry(&worker.name).or_default();
            let is_known = *known > 0;
            *known = known.saturating_sub(1);
            if !seen.insert(worker.name.as_str()) && !is_known && !self.is_full() {
                let path = Path::new("spec").child("provider").child("workers").index(index).child("name");
                let detail = "stands in the list already: choose another one for one of the two";
                self.errors.push(FieldError::duplicate(&path, &worker.name).with_detail(detail));
            }
        }
    }

    fn kubernetes(&mut self, version: Option<&str>, path: &Path) {
        let Some(version) = version else { return };
        let all = kubernetes_of(self.profile);
        let usable = || all.iter().filter(|entry| !self.has_expired(entry.expiration_date.as_ref()));
        let offered = || format!("{} offers {}", self.name, listed(usable().map(|entry| entry.version.as_str())));
        if let Some(entry) = all.iter().find(|entry| entry.version == version) {
            if let Some(date) = entry.expiration_date.as_ref().filter(|date| self.has_expired(Some(date))) {
                let detail = format!("version {version} expired on {date}; {}", offered());
                self.refuse(path, version, detail);
            }
            return;
        }
        let begun = Begun::of(version);
        if begun.as_ref().is_some_and(|begun| usable().any(|entry| begun.is_of(&entry.version))) {
            return;
        }
        let expired = || {
            let begun = begun.as_ref()?;
            let of_family = all.iter().filter(|entry| begun.is_of(&entry.version));
            let dated = of_family.filter_map(|entry| Some((entry, entry.expiration_date.as_ref()?)));
            let all: Vec<String> = dated.map(|(entry, date)| format!("{} on {date}", entry.version)).collect();
            (!all.is_empty()).then(|| listed(all.iter().map(String::as_str)))
        };
        let detail = match expired() {
            Some(all) => format!("every version of {version} expired: {all}; {}", offered()),
            None => format!("there is no version {version}; {}", offered()),
        };
        self.refuse(path, version, detail);
    }

    fn region(&mut self, path: &Path) {
        let Some(region) = self.region else { return };
        if !self.profile.regions.iter().any(|entry| entry.name == region) {
            let names = listed(self.profile.regions.iter().map(|entry| entry.name.as_str()));
            let detail = format!("there is no region {region:?}; {} offers {names}", self.name);
            self.refuse(path, region, detail);
        }
    }

    fn worker(&mut self, worker: &Worker, before: Option<&Worker>) {
        let path = Path::new("spec").child("provider").child("workers").key(&worker.name);
        let machine = path.child("machine");
        let version = kubernetes_of_worker(worker);
        if self.now.is_some() && before.and_then(kubernetes_of_worker) != version {
            self.kubernetes(version, &path.child("kubernetes").child("version"));
        }
        let type_stays = before.is_some_and(|before| {
            before.machine.type_ == worker.machine.type_ && architecture(before) == architecture(worker)
        });
        if !type_stays {
            self.machine_type(worker, &machine);
        }
        let image_stays = before.is_some_and(|before| {
            let used =
                |worker: &Worker| worker.machine.image.as_ref().map(|one| (one.name.clone(), one.version.clone()));
            used(before) == used(worker) && architecture(before) == architecture(worker)
        });
        if !image_stays {
            self.image(worker, &machine.child("image"));
        }
        self.volumes(worker, before, &path);
        self.zones(worker, before.filter(|_| self.region_stays), &path);
    }

    /// What of a pool does not go with something else of it, where one of the two is new.
    fn fitting(&mut self, pool: (&ShootSpec, &Worker), before: Option<(&ShootSpec, &Worker)>) {
        let path = Path::new("spec").child("provider").child("workers").key(&pool.1.name);
        let kubelets = |(shoot, worker): (&ShootSpec, &Worker)| {
            let image = worker.machine.image.as_ref().map(|image| (image.name.clone(), image.version.clone()));
            (fitting::kubelet_version(shoot, worker).map(str::to_owned), image)
        };
        let image = path.child("machine").child("image").child("version");
        let is_told = self.errors.iter().any(|error| error.path == image);
        if !is_told && before.map(kubelets) != Some(kubelets(pool)) {
            let usable = |entry: &KubernetesVersion| !self.has_expired(entry.expiration_date.as_ref());
            let offered = |entry: &ImageVersion| !self.has_expired(entry.expiration_date.as_ref());
            if let Some((version, detail)) = fitting::kubelets(self.profile, pool, usable, offered) {
                self.refuse(&image, &version, detail);
            }
        }
        let volumes = |(_, worker): (&ShootSpec, &Worker)| {
            let volume = worker.volume.as_ref().map(|volume| (volume.type_.clone(), volume.size.clone()));
            (worker.machine.type_.clone(), volume)
        };
        if before.map(volumes) != Some(volumes(pool))
            && let Some((size, detail)) = fitting::volume_size(self.profile, pool.1)
        {
            self.refuse(&path.child("volume").child("size"), &size, detail);
        }
    }

    fn machine_type(&mut self, worker: &Worker, path: &Path) {
        let (wanted, path) = (worker.machine.type_.as_str(), path.child("type"));
        if wanted.is_empty() {
            self.errors.push(FieldError::required(&path, "name a machine type of the profile"));
            return;
        }
        let detail = match self.profile.machine_types.iter().find(|entry| entry.name == wanted) {
            None => {
                let names = listed(self.profile.machine_types.iter().map(|entry| entry.name.as_str()));
                format!("there is no machine type {wanted:?}; {} offers {names}", self.name)
            }
            // That new machines may not be of it says nothing to those that are.
            Some(entry) if self.now.is_some() && entry.usable == Some(false) => {
                format!("machine type {wanted:?} is not usable any more: choose another one")
            }
            Some(entry) if entry.architecture.as_deref().unwrap_or(DEFAULT_ARCHITECTURE) != architecture(worker) => {
                let own = entry.architecture.as_deref().unwrap_or(DEFAULT_ARCHITECTURE);
                let asked = architecture(worker);
                format!(
                    "machine type {wanted:?} has architecture {own}, and the pool asks for {asked}: change one of them"
                )
            }
            Some(_) => return,
        };
        self.refuse(&path, wanted, detail);
    }

    fn image(&mut self, worker: &Worker, path: &Path) {
        let Some(image) = &worker.machine.image else { return };
        let (name, wanted) = (image.name.as_str(), architecture(worker));
        let Some(entry) = self.profile.machine_images.iter().find(|entry| entry.name == name).cloned() else {
            let names = listed(self.profile.machine_images.iter().map(|entry| entry.name.as_str()));
            let detail = format!("there is no machine image {name:?}; {} offers {names}", self.name);
            return self.refuse(&path.child("name"), name, detail);
        };
        let offered = self.offered(&entry, wanted);
        let Some(version) = image.version.as_deref().filter(|version| !version.is_empty()) else {
            if offered == "none" {
                let detail = format!("no version of machine image {name:?} for {wanted} is offered any more");
                self.refuse(&path.child("name"), name, detail);
            }
            return;
        };
        let path = path.child("version");
        let detail = match entry.versions.iter().find(|entry| entry.version == version) {
            None => format!("machine image {name:?} has no version {version}; offered for {wanted}: {offered}"),
            Some(found) if self.has_expired(found.expiration_date.as_ref()) => {
                let date = found.expiration_date.as_ref().map_or("", Date::text);
                format!(
                    "version {version} of machine image {name:?} expired on {date}; offered for {wanted}: {offered}"
                )
            }
            Some(found) if !has_architecture(found, wanted) => format!(
                "version {version} of machine image {name:?} is not for architecture {wanted}, it is for {}; offered for \
                 {wanted}: {offered}",
                listed(
                    found
                        .architectures
                        .iter()
                        .map(String::as_str)
                        .chain(found.architectures.is_empty().then_some(DEFAULT_ARCHITECTURE))
                )
            ),
            Some(_) => return,
        };
        self.refuse(&path, version, detail);
    }

    fn offered(&self, image: &Shared<MachineImage>, architecture: &str) -> String {
        let usable = |entry: &&Shared<ImageVersion>| {
            !self.has_expired(entry.expiration_date.as_ref()) && has_architecture(entry, architecture)
        };
        listed(image.versions.iter().filter(usable).map(|entry| entry.version.as_str()))
    }

    fn volumes(&mut self, worker: &Worker, before: Option<&Worker>, path: &Path) {
        let known = before.map(volume_types).unwrap_or_default();
        let root = worker.volume.iter().map(|volume| (path.child("volume"), volume));
        let further = worker.data_volumes.iter().enumerate();
        let further = further.map(|(index, volume)| (path.child("dataVolumes").index(index), volume));
        for (path, volume) in root.chain(further).collect::<Vec<_>>() {
            if self.is_full() {
                return;
            }
            let Some(wanted) = volume.type_.as_ref().filter(|wanted| !known.contains(wanted.as_str())) else {
                continue;
            };
            let detail = match self.profile.volume_types.iter().find(|entry| entry.name == *wanted) {
                None => {
                    let names = listed(self.profile.volume_types.iter().map(|entry| entry.name.as_str()));
                    format!("there is no volume type {wanted:?}; {} offers {names}", self.name)
                }
                Some(entry) if self.now.is_some() && entry.usable == Some(false) => {
                    format!("volume type {wanted:?} is not usable any more: choose another one")
                }
                Some(_) => continue,
            };
            self.refuse(&path.child("type"), wanted, detail);
        }
    }

    /// Three questions, each where one of its sides is new: whether the region has the zone, and whether the zone has the
    /// machine type, and each volume type. `before` is the pool as it was in this region.
    fn zones(&mut self, worker: &Worker, before: Option<&Worker>, path: &Path) {
        let Some(name) = self.region else { return };
        let offered = self.profile.regions.iter().find(|entry| entry.name == name).cloned();
        if offered.is_none() && !self.region_stays {
            // That is told of the region itself.
            return;
        }
        let known: BTreeSet<&str> = before.into_iter().flat_map(|pool| &pool.zones).map(String::as_str).collect();
        let type_stays = before.is_some_and(|before| before.machine.type_ == worker.machine.type_);
        let (volumes, volumes_before) = (volume_types(worker), before.map(volume_types).unwrap_or_default());
        for (index, zone) in worker.zones.iter().enumerate() {
            if self.is_full() {
                return;
            }
            let (path, zone_stays) = (path.child("zones").index(index), known.contains(zone.as_str()));
            let entry = offered.as_ref().and_then(|region| region.zones.iter().find(|entry| entry.name == *zone));
            let Some(entry) = entry else {
                if !zone_stays {
                    let detail = match &offered {
                        None => format!("region {name:?} is not there any more: no zone can be added to it"),
                        Some(region) => {
                            let names = listed(region.zones.iter().map(|entry| entry.name.as_str()));
                            format!("region {name:?} has no such zone; it has {names}")
                        }
                    };
                    self.refuse(&path, zone, detail);
                }
                continue;
            };
            if self.now.is_none() {
                continue;
            }
            let machine = &worker.machine.type_;
            if !(zone_stays && type_stays) && entry.unavailable_machine_types.contains(machine) {
                let detail = format!("machine type {machine:?} is not available in this zone");
                self.refuse(&path, zone, format!("{detail}: choose another zone or type"));
            }
            let is_asked = |wanted: &str| volumes.contains(wanted) && !(zone_stays && volumes_before.contains(wanted));
            for wanted in entry.unavailable_volume_types.iter().filter(|wanted| is_asked(wanted)) {
                let detail = format!("volume type {wanted:?} is not available in this zone: choose another one");
                self.refuse(&path, zone, detail);
            }
        }
    }
}

/// The types of the volumes of a pool.
fn volume_types(worker: &Worker) -> BTreeSet<&str> {
    worker.volume.iter().chain(&worker.data_volumes).filter_map(|volume| volume.type_.as_deref()).collect()
}
