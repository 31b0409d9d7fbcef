//! How everything stands that a Shoot uses of its profile, one by one, and which other profiles it could change to: for people
//! who ask why. What is refused is what `usage` refuses, in its words.

use allotment_api::catalog::{CloudProfileSpec, Date, PrivateCloudProfileSpec, ShootSpec, Worker};
use allotment_machinery::field::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::dates::has_passed;
use super::index::Catalog;
use super::parent::Parent;
use super::reference::{Going, ProfileKind, Reference, check_switch};
use super::render::{kubernetes_of, render};
use super::usage::{Begun, check_switch_usage, check_usage, longest_meant};
use super::versions::{VersionKey, dated};
use crate::write::ObjectKey;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It may be used.
    Ok,
    /// It is a version whose date has passed.
    Expired,
    /// The profile has no such thing.
    Unknown,
    /// The profile has it, and nothing new may be of it.
    Unusable,
    /// The zone lacks what is to be in it.
    Unavailable,
    /// It does not go with something else that the Shoot says.
    Mismatch,
}

/// The dates that a version has, where it has any.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dates {
    /// That of the CloudProfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Date>,
    /// That of the private profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private: Option<Date>,
    /// The one that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<Date>,
}

/// One thing that a Shoot uses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Used {
    /// The field that names it.
    pub path: String,
    /// What it names.
    pub value: String,
    /// How that stands.
    pub verdict: Verdict,
    /// Until when, if it is a version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dates: Option<Dates>,
    /// Why it is not given, and what would be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

/// What a reference comes to.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// The reference.
    pub name: &'a Reference,
    /// The CloudProfile at its root.
    pub parent: &'a Parent,
    /// What a private one adds.
    pub private: Option<&'a PrivateCloudProfileSpec>,
    /// What comes of both.
    pub rendered: &'a CloudProfileSpec,
}

/// How all that a Shoot uses would stand if it were new.
pub fn explain_usage(shoot: &ShootSpec, offered: &Offered<'_>, now: Timestamp) -> Vec<Used> {
    let errors = check_usage(shoot, None, offered.rendered, offered.name, now);
    let mut list = List { offered, now, errors, used: Vec::new() };
    let path = Path::new("spec");
    if let Some(provider) = &shoot.provider {
        list.put(&path.child("provider").child("type"), &provider.type_, |_| Verdict::Mismatch);
    }
    list.kubernetes(shoot.kubernetes.as_ref().and_then(|one| one.version.as_deref()), &path);
    let region = shoot.region.as_deref();
    if let Some(region) = region {
        list.put(&path.child("region"), region, |_| Verdict::Unknown);
    }
    for worker in shoot.provider.iter().flat_map(|provider| &provider.workers) {
        list.worker(worker, region, &path.child("provider").child("workers").key(&worker.name));
    }
    // What was found wrong with fields that are not there.
    for error in std::mem::take(&mut list.errors) {
        let why = vec![error.body()];
        list.used.push(Used {
            path: error.path.to_string(),
            value: String::new(),
            verdict: Verdict::Mismatch,
            dates: None,
            why,
        });
    }
    list.used
}

/// What was looked at so far.
struct List<'a> {
    offered: &'a Offered<'a>,
    now: Timestamp,
    /// Those that were not told yet.
    errors: Vec<FieldError>,
    used: Vec<Used>,
}

impl List<'_> {
    /// Adds what stands at `path`; `refused` says how it stands where something is wrong with it or below.
    fn put(&mut self, path: &Path, value: &str, refused: impl FnOnce(&CloudProfileSpec) -> Verdict) {
        let below = format!("{path}.");
        let is_about = |error: &FieldError| error.path == *path || error.path.to_string().starts_with(&below);
        let (about, rest) = std::mem::take(&mut self.errors).into_iter().partition(is_about);
        self.errors = rest;
        let why: Vec<String> = Vec::<FieldError>::into_iter(about).map(|error| error.detail).collect();
        let verdict = if why.is_empty() { Verdict::Ok } else { refused(self.offered.rendered) };
        self.used.push(Used { path: path.to_string(), value: value.to_owned(), verdict, dates: None, why });
    }

    fn dated(&mut self, key: Option<&VersionKey<'_>>, holds: Option<Date>) {
        if let Some(last) = self.used.last_mut() {
            let parent = key.and_then(|key| self.offered.parent.date(key).flatten().cloned());
            let own = self.offered.private.into_iter();
            let mut own = own.flat_map(|spec| dated(spec.kubernetes.as_ref(), &spec.machine_images));
            let private = key.and_then(|key| own.find(|(named, _)| named == key)?.1.cloned());
            last.dates = Some(Dates { parent, private, holds });
        }
    }

    fn kubernetes(&mut self, version: Option<&str>, path: &Path) {
        let Some(version) = version.filter(|version| !version.is_empty()) else { return };
        let all = kubernetes_of(self.offered.rendered);
        let path = path.child("kubernetes").child("version");
        let entry = all.iter().find(|entry| entry.version == version);
        let begun = Begun::of(version);
        let is_of = |text: &str| begun.as_ref().is_some_and(|begun| begun.is_of(text));
        let is_there = entry.is_some() || all.iter().any(|entry| is_of(&entry.version));
        self.put(&path, version, |_| if is_there { Verdict::Expired } else { Verdict::Unknown });
        match entry {
            Some(entry) => self.dated(Some(&VersionKey::Kubernetes(version)), entry.expiration_date.clone()),
            // Of `1.30` the version that lasts longest counts.
            None => {
                if let Some((_, date)) = longest_meant(self.offered.rendered, &VersionKey::Kubernetes(version)) {
                    self.dated(None, date.cloned());
                }
            }
        }
    }

    fn worker(&mut self, worker: &Worker, region: Option<&str>, path: &Path) {
        self.kubernetes(worker.kubernetes.as_ref().and_then(|one| one.version.as_deref()), path);
        let machine = path.child("machine");
        let wanted = worker.machine.type_.as_str();
        self.put(&machine.child("type"), wanted, |profile| {
            let entry = profile.machine_types.iter().find(|entry| entry.name == wanted);
            match entry.map(|entry| entry.usable) {
                None => Verdict::Unknown,
                Some(Some(false)) => Verdict::Unusable,
                Some(_) => Verdict::Mismatch,
            }
        });
        self.image(worker, &machine);
        let root = worker.volume.iter().map(|volume| (path.child("volume"), volume));
        let further = worker.data_volumes.iter().enumerate();
        let further = further.map(|(index, volume)| (path.child("dataVolumes").index(index), volume));
        for (path, volume) in root.chain(further) {
            let Some(wanted) = volume.type_.as_deref() else { continue };
            self.put(&path.child("type"), wanted, |profile| {
                match profile.volume_types.iter().any(|entry| entry.name == wanted) {
                    true => Verdict::Unusable,
                    false => Verdict::Unknown,
                }
            });
        }
        let own = |profile: &CloudProfileSpec| profile.regions.iter().any(|entry| Some(entry.name.as_str()) == region);
        if region.is_some() && !own(self.offered.rendered) {
            // Of a region that is not there no zone is anything.
            return;
        }
        for (index, zone) in worker.zones.iter().enumerate() {
            self.put(&path.child("zones").index(index), zone, |profile| {
                let own = profile.regions.iter().find(|entry| Some(entry.name.as_str()) == region);
                match own.is_some_and(|own| own.zones.iter().any(|entry| entry.name == *zone)) {
                    true => Verdict::Unavailable,
                    false => Verdict::Unknown,
                }
            });
        }
    }

    fn image(&mut self, worker: &Worker, machine: &Path) {
        let Some(image) = &worker.machine.image else { return };
        let version = image.version.as_deref().filter(|version| !version.is_empty());
        let value = version.map_or_else(|| image.name.clone(), |version| format!("{} {version}", image.name));
        let own = self.offered.rendered.machine_images.iter().find(|entry| entry.name == image.name);
        let entry = own.and_then(|own| own.versions.iter().find(|entry| Some(entry.version.as_str()) == version));
        let date = entry.and_then(|entry| entry.expiration_date.clone());
        let now = self.now;
        self.put(&machine.child("image"), &value, |_| match (version, entry) {
            (Some(_), None) => Verdict::Unknown,
            (Some(_), Some(_)) if has_passed(date.as_ref(), now) => Verdict::Expired,
            (Some(_), Some(_)) => Verdict::Mismatch,
            (None, _) if own.is_none() => Verdict::Unknown,
            (None, _) => Verdict::Unavailable,
        });
        if let (Some(version), Some(_)) = (version, entry) {
            self.dated(Some(&VersionKey::Image(&image.name, version)), date);
        }
    }
}

/// A profile that a Shoot could change to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// `CloudProfile` or `PrivateCloudProfile`, of the Shoot's namespace.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Whether the change is allowed.
    pub allowed: bool,
    /// Why it is not: what is missing there.
    pub lacks: Vec<String>,
    /// What a new Shoot would not be given there, of what this one uses.
    pub refused: Vec<String>,
}

/// The profiles that a Shoot of that namespace on `from` could change to: its root, and the private ones of the namespace on
/// the same root.
pub fn candidates(
    catalog: &Catalog,
    namespace: &str,
    shoot: &ShootSpec,
    from: &Reference,
    now: Timestamp,
) -> Vec<Candidate> {
    let place = |name: &str| ObjectKey::new(namespace, name);
    let parent_of = |name: &str| Some(catalog.private(&place(name))?.spec.parent.name.clone());
    let root = match from.kind {
        ProfileKind::CloudProfile => Some(from.name.clone()),
        ProfileKind::PrivateCloudProfile => parent_of(&from.name),
    };
    let Some(offer) = root.and_then(|root| catalog.profile(&root)) else { return Vec::new() };
    let private = catalog.children(offer.parent.name()).filter(|(key, _)| key.namespace == namespace);
    let private = private.map(|(key, kept)| {
        (Reference::private(key.name.clone()), render(&offer.parent, &kept.spec).spec, Some(&kept.metadata))
    });
    let own = (Reference::cloud_profile(offer.parent.name()), offer.parent.spec().clone(), None);
    let all = std::iter::once(own).chain(private).filter(|(name, ..)| name != from);
    let candidate = |(name, spec, private): (Reference, CloudProfileSpec, Option<&ObjectMeta>)| {
        let mut lacks: Vec<String> =
            check_switch(from, &name, parent_of).err().map(|error| error.to_string()).into_iter().collect();
        lacks.extend(Going::of(&name, private, offer).map(|going| going.to_string()));
        lacks.extend(check_switch_usage(shoot, &spec, &name).iter().map(ToString::to_string));
        let refused = check_usage(shoot, None, &spec, &name, now).iter().map(ToString::to_string).collect();
        Candidate { kind: name.kind.as_str(), name: name.name, allowed: lacks.is_empty(), lacks, refused }
    };
    all.map(candidate).collect()
}
