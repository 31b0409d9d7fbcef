//! `allot explain cloudprofile` and `privatecloudprofile`: who uses a profile, which versions of it until when, what is wrong with
//! it, and what its deletion would wait for.

use std::collections::BTreeSet;

use allotment_api::catalog::{CloudProfile, KeptProfile, Stored};
use allotment_core::catalog::{
    Catalog, Expiring, KeptShoot, Offer, ProfileKey, Rendered, expire_private_profile, render, used_versions,
};
use allotment_core::write::ObjectKey;
use allotment_machinery::time;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Api;
use serde_json::{Value, json};

use crate::cli::{ExplainFormat, ExplainProfile, Named, Target};
use crate::client::Platform;
use crate::commands::profiles::{self, Landscape};
use crate::commands::versions;
use crate::exit::Outcome;
use crate::output;
use crate::platform::seams;

/// Explains a CloudProfile.
pub(crate) async fn cloud_profile(target: &Target, arguments: ExplainProfile) -> Outcome {
    let platform = Platform::connect(target).await?;
    let namespace = arguments.object.namespace.as_deref();
    let offer = profiles::cloud_profile(&platform, &arguments.object.name).await?;
    let mut there = Landscape::users(&platform, namespace).await?;
    there.add_profile(offer.clone());
    there.tell_unseen(namespace);
    let told = OfCloudProfile::of(&offer, &there, namespace, seams().now());
    print(arguments.output, || told.as_value(), || told.as_text())
}

/// Explains a PrivateCloudProfile.
pub(crate) async fn private_profile(target: &Target, arguments: ExplainProfile) -> Outcome {
    let platform = Platform::connect(target).await?;
    let Named { name, namespace } = &arguments.object;
    let namespace = namespace.clone().unwrap_or_else(|| platform.namespace.clone());
    let own = Api::<Stored<KeptProfile>>::namespaced(platform.client.clone(), &namespace);
    let private = profiles::get(&own, "PrivateCloudProfile", &format!("{namespace}/{name}"), name).await?;
    let mut there = Landscape::shoots(&platform, Some(&namespace)).await?;
    let all = Api::<Stored<CloudProfile>>::all(platform.client.clone());
    let parent = private.spec.parent.name.clone();
    if let Some(offer) = there.one(&all, &parent, &format!("CloudProfile {parent}")).await? {
        there.add_profile(Offer::new(offer));
    }
    there.add_private(private.clone());
    there.tell_unseen(Some(&namespace));
    let told = OfPrivate::of(&private, &there, seams().now());
    print(arguments.output, || told.as_value(), || told.as_text())
}

fn print(format: ExplainFormat, value: impl Fn() -> Value, text: impl Fn() -> String) -> Outcome {
    match format {
        ExplainFormat::Json => output::data(&output::json(&value())?),
        ExplainFormat::Yaml => output::data(&output::yaml(&value())?),
        ExplainFormat::Text => output::data(&text()),
    }
}

fn conditions(conditions: &[Condition]) -> impl Iterator<Item = String> {
    conditions.iter().map(|condition| {
        let text = format!("{}={} ({}) {}", condition.type_, condition.status, condition.reason, condition.message);
        format!("  condition  {}", text.trim_end())
    })
}

/// What a deletion waits for, or would. Of what may not be seen the condition `InUse` tells how much there is.
fn deletion(metadata: &ObjectMeta, waits: &[String], is_all_seen: bool, conditions: &[Condition]) -> String {
    let begun = metadata.deletion_timestamp.as_ref().map(|at| time::format(at.0));
    let verb = begun.as_ref().map_or("would wait".to_owned(), |since| format!("waits since {since}"));
    let in_use = conditions.iter().find(|one| one.type_ == "InUse" && one.status == "True");
    match (waits.is_empty(), is_all_seen, in_use, begun) {
        (false, true, ..) => format!("{verb} for {}", waits.join(" and ")),
        (false, false, ..) => format!("{verb} for {}, as far as may be seen", waits.join(" and ")),
        (true, true, _, None) => "nothing: it would go at once".to_owned(),
        (true, true, _, Some(since)) => format!("nothing; being deleted since {since}"),
        (true, false, Some(said), _) => format!("{verb} for what may not be seen: {}", said.message),
        (true, false, None, None) => "nothing that may be seen".to_owned(),
        (true, false, None, Some(since)) => format!("nothing that may be seen; being deleted since {since}"),
    }
}

/// The same for programs: null where it may wait for what is not seen.
fn waits_for(waits: Vec<String>, is_all_seen: bool) -> Option<Vec<String>> {
    (is_all_seen || !waits.is_empty()).then_some(waits)
}

/// Names behind their number; nothing where there are none.
fn counted(names: &[String], what: &str) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} ({})", output::counted(names.len(), what), versions::named(names)))
}

/// The same where there may be none.
fn listed(names: &[String], what: &str, is_seen: bool) -> String {
    match counted(names, what) {
        Some(text) => text,
        None if is_seen => "none".to_owned(),
        None => "may not be seen".to_owned(),
    }
}

fn places<'a>(keys: impl Iterator<Item = &'a ObjectKey>) -> Vec<String> {
    keys.map(ToString::to_string).collect()
}

/// Where a Shoot is, and whether it can be read.
fn place_of(key: &ObjectKey, shoot: &KeptShoot) -> String {
    format!("{}/{}", key.namespace, shoot.shown())
}

/// The Shoots that use a profile, or may.
fn shoots_on(catalog: &Catalog, profile: &ProfileKey) -> Vec<String> {
    catalog.shoots_on(profile).map(|(key, shoot)| place_of(key, shoot)).collect()
}

/// All that is told of a CloudProfile.
struct OfCloudProfile<'a> {
    offer: &'a Offer,
    there: &'a Landscape,
    /// The namespace that was looked at alone.
    only: Option<&'a str>,
    now: Timestamp,
    children: Vec<String>,
    /// On itself.
    shoots: Vec<String>,
    /// On its children.
    shoots_of_children: Vec<String>,
    versions: Vec<Expiring>,
}

impl<'a> OfCloudProfile<'a> {
    fn of(offer: &'a Offer, there: &'a Landscape, only: Option<&'a str>, now: Timestamp) -> Self {
        let name = offer.parent.name();
        let catalog = &there.catalog;
        let itself = ProfileKey::Cloud(name.to_owned());
        let unread = || catalog.unread_children(name).map(|(key, _)| key);
        OfCloudProfile {
            offer,
            there,
            only,
            now,
            children: places(catalog.children(name).map(|(key, _)| key))
                .into_iter()
                .chain(unread().map(|key| format!("{key} (cannot be read)")))
                .collect(),
            // Of those of which it is not known whose they are it is told once, on the CloudProfile itself.
            shoots_of_children: catalog
                .shoots_of_family(name)
                .filter(|(_, shoot)| !shoot.may_use(&itself))
                .map(|(key, shoot)| place_of(key, shoot))
                .collect(),
            shoots: shoots_on(catalog, &itself),
            versions: used_versions(catalog, &offer.parent, now),
        }
    }

    fn is_all_seen(&self) -> bool {
        self.there.are_private_seen && self.there.are_shoots_seen && self.only.is_none()
    }

    fn waits(&self) -> Vec<String> {
        [counted(&self.children, "private profile"), counted(&self.shoots, "Shoot")].into_iter().flatten().collect()
    }

    fn as_value(&self) -> Value {
        json!({
            "name": self.offer.parent.name(),
            "conditions": self.offer.status.conditions,
            "privateCloudProfiles": self.there.are_private_seen.then_some(&self.children),
            "shoots": self.there.are_shoots_seen.then_some(&self.shoots),
            "shootsOfPrivateCloudProfiles": self.there.are_shoots_seen.then_some(&self.shoots_of_children),
            "versionsInUse": self.versions,
            "deleting": self.offer.is_going(),
            "deletionWaitsFor": waits_for(self.waits(), self.is_all_seen()),
            "unseen": self.there.unseen,
            "unread": self.there.unread,
        })
    }

    fn as_text(&self) -> String {
        let spec = self.offer.parent.spec();
        let mut lines = vec![format!("CloudProfile {}", self.offer.parent.name())];
        lines.push(format!("  type       {}", spec.type_));
        lines.extend(conditions(&self.offer.status.conditions));
        let within = self.only.map(|only| format!(" in namespace {only}")).unwrap_or_default();
        let children = listed(&self.children, "private profile", self.there.are_private_seen);
        lines.push(format!("  children   {children}{within}"));
        let shoots = listed(&self.shoots, "Shoot", self.there.are_shoots_seen);
        lines.push(format!("  shoots     {shoots}{within}"));
        if let Some(of_children) = counted(&self.shoots_of_children, "Shoot") {
            lines.push(format!("             on its children {of_children}"));
        }
        let said = &self.offer.status.conditions;
        let waits = deletion(&self.offer.metadata, &self.waits(), self.is_all_seen(), said);
        lines.push(format!("  deletion   {waits}"));
        let mut text = output::lines(&lines);
        if !self.versions.is_empty() {
            text.push_str(&format!("\n\n{}", versions::table(&self.versions, self.now)));
        }
        text
    }
}

/// All that is told of a private profile.
struct OfPrivate<'a> {
    private: &'a KeptProfile,
    there: &'a Landscape,
    now: Timestamp,
    place: ObjectKey,
    rendered: Option<Rendered>,
    shoots: Vec<String>,
    /// Those of this profile that are in use.
    versions: Vec<Expiring>,
    /// When the next of its own versions expires.
    next: Option<Timestamp>,
}

impl<'a> OfPrivate<'a> {
    fn of(private: &'a KeptProfile, there: &'a Landscape, now: Timestamp) -> Self {
        let place = ObjectKey::of(&private.metadata);
        let profile = ProfileKey::Private(place.clone());
        let offer = there.catalog.profile(&private.spec.parent.name);
        let shoots = shoots_on(&there.catalog, &profile);
        let own: BTreeSet<&String> = shoots.iter().collect();
        let mut versions = offer.map(|offer| used_versions(&there.catalog, &offer.parent, now)).unwrap_or_default();
        versions.retain_mut(|row| {
            row.profiles.retain(|name| name.namespace == place.namespace && name.name == place.name);
            row.shoots.retain(|shoot| own.contains(shoot));
            !row.shoots.is_empty()
        });
        let expiry = offer.map(|offer| expire_private_profile(&private.spec, &offer.parent, |_, _| Vec::new(), now));
        OfPrivate {
            private,
            there,
            now,
            rendered: offer.map(|offer| render(&offer.parent, &private.spec)),
            shoots,
            place,
            versions,
            next: expiry.and_then(|expiry| expiry.next),
        }
    }

    fn waits(&self) -> Vec<String> {
        counted(&self.shoots, "Shoot").into_iter().collect()
    }

    fn as_value(&self) -> Value {
        let status = &self.private.status;
        let rendered = self.rendered.as_ref();
        let faults = rendered.map(|rendered| rendered.faults.iter().map(ToString::to_string).collect::<Vec<_>>());
        json!({
            "namespace": self.place.namespace,
            "name": self.place.name,
            "parent": self.private.spec.parent.name,
            "current": status.observed_generation == self.private.metadata.generation,
            "conditions": status.conditions,
            "conflicts": rendered.map(|rendered| &rendered.conflicts),
            "faults": faults,
            "removed": status.removed,
            "expiredInUse": status.expired_in_use,
            "nextExpiry": self.next.map(time::format),
            "shoots": self.there.are_shoots_seen.then_some(&self.shoots),
            "versionsInUse": self.versions,
            "deleting": self.private.metadata.deletion_timestamp.is_some(),
            "deletionWaitsFor": waits_for(self.waits(), self.there.are_shoots_seen),
            "unseen": self.there.unseen,
            "unread": self.there.unread,
        })
    }

    fn as_text(&self) -> String {
        let status = &self.private.status;
        let mut lines = vec![format!("PrivateCloudProfile {}", self.place)];
        lines.push(format!("  parent     CloudProfile {}", self.private.spec.parent.name));
        if status.observed_generation != self.private.metadata.generation {
            lines.push("             its status is about an earlier spec".to_owned());
        }
        lines.extend(conditions(&status.conditions));
        lines.push(format!("  shoots     {}", listed(&self.shoots, "Shoot", self.there.are_shoots_seen)));
        let is_seen = self.there.are_shoots_seen;
        let waits = deletion(&self.private.metadata, &self.waits(), is_seen, &status.conditions);
        lines.push(format!("  deletion   {waits}"));
        if let Some(next) = self.next {
            lines.push(format!("  expires    the next of its versions at {}", time::format(next)));
        }
        for conflict in self.rendered.iter().flat_map(|rendered| &rendered.conflicts) {
            let (parent, own) = (&conflict.parent_value, &conflict.child_value);
            lines.push(format!("  conflict   {}: {} (parent {parent}, here {own})", conflict.path, conflict.reason));
        }
        for fault in self.rendered.iter().flat_map(|rendered| &rendered.faults) {
            lines.push(format!("  left out   {fault}"));
        }
        for kept in &status.expired_in_use {
            let users = versions::named(&kept.shoots);
            lines.push(format!("  expired    {} on {}; stays while used by {users}", kept.path, kept.expired_at));
        }
        for gone in &status.removed {
            lines.push(format!("  removed    {} at {}, expired on {}", gone.path, gone.removed_at, gone.expired_at));
        }
        let mut text = output::lines(&lines);
        if !self.versions.is_empty() {
            text.push_str(&format!("\n\n{}", versions::table(&self.versions, self.now)));
        }
        text
    }
}
