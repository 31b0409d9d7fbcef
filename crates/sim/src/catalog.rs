//! One run about the catalog: profiles, Shoots and trouble, then peace, then dates that pass, then everything wiped, then
//! everything deleted. It has chance of its own, so that seeds of other runs stay what they are.

use std::collections::BTreeMap;
use std::time::Duration;

use allotment_api::catalog::{
    CloudProfile, Date, PrivateCloudProfile, REMOVE_EXPIRED_VERSIONS, RenderedProfile, Shoot,
};
use allotment_core::catalog::{KeptShoot, Parent, ProfileKey, VersionKey, render};
use allotment_core::write::ObjectKey;
use allotment_store::Event;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::known::{Change, change};
use crate::simulation::{is_broken, settle};
use crate::workload::{api, create, delete, delete_wide, patch, wipe_status};
use crate::world::World;

const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
const PARENTS: [&str; 2] = ["central", "other"];
const NAMES: usize = 3;
/// Steps of the workload.
const STEPS: usize = 40;
/// Steps of the store within which something that is to be killed is killed.
const FUSE: usize = 60;
/// The latest that a date of the workload lies ahead, in seconds.
const LATEST: usize = 1_800;
/// How long after its date a version may still be there.
const SETTLED: SignedDuration = SignedDuration::from_secs(5);
/// Longer than every date of the workload.
const BEYOND_DATES: Duration = Duration::from_secs(3_600);
/// The names that versions and images of the workload have.
const IMAGES: [&str; 2] = ["linux", "own"];

/// The catalog, as the writes told.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) profiles: BTreeMap<ObjectKey, CloudProfile>,
    pub(crate) private: BTreeMap<ObjectKey, PrivateCloudProfile>,
    pub(crate) shoots: BTreeMap<ObjectKey, Shoot>,
}

impl Shelf {
    /// Takes in a write, if it is of the catalog, and says what it breaks.
    pub(crate) fn learn(&mut self, event: &Event, now: Timestamp, broken: &mut Vec<String>) -> Result<(), String> {
        match event.entry.resource.as_str() {
            "cloudprofiles.core.gardener.cloud" => {
                let change = change(&mut self.profiles, event)?;
                self.judge_cloud(&change, now, broken);
            }
            "privatecloudprofiles.core.gardener.cloud" => {
                let change = change(&mut self.private, event)?;
                self.judge_private(&change, now, broken);
            }
            "shoots.core.gardener.cloud" => drop(change(&mut self.shoots, event)?),
            _ => {}
        }
        Ok(())
    }

    fn users(&self, profile: &ProfileKey) -> impl Iterator<Item = (&ObjectKey, KeptShoot)> {
        let shoots = self.shoots.iter().map(|(key, shoot)| (key, KeptShoot::read(shoot)));
        shoots.filter(move |(_, shoot)| shoot.profile.as_ref() == Some(profile))
    }

    fn parent(&self, private: &PrivateCloudProfile) -> Option<Parent> {
        let name = &private.spec.parent.name;
        let profile = self.profiles.get(&ObjectKey::cluster_wide(name.clone()))?;
        Some(Parent::new(name.clone(), profile.spec.clone()))
    }

    /// Nobody takes versions out but the platform: never before their date, and of those that a Shoot alone finds in its
    /// private profile none that it uses.
    fn judge_private(&self, change: &Change<PrivateCloudProfile>, now: Timestamp, broken: &mut Vec<String>) {
        let (key, Some(before)) = (&change.key, &change.before) else { return };
        let id = ProfileKey::Private(key.clone());
        let Some(after) = &change.after else {
            let users = self.users(&id).map(|(user, _)| user.to_string()).collect::<Vec<_>>();
            if !users.is_empty() {
                broken.push(format!("PrivateCloudProfile {key} is gone, and Shoots use it: {}", users.join(", ")));
            }
            return;
        };
        let left = versions(after.spec.kubernetes.as_ref(), &after.spec.machine_images);
        let parent = self.parent(before);
        for (version, date) in versions(before.spec.kubernetes.as_ref(), &before.spec.machine_images) {
            if left.iter().any(|(stays, _)| *stays == version) {
                continue;
            }
            let own = parent.as_ref().and_then(|parent| parent.date(&version));
            let holds = match own {
                Some(own) => allotment_core::catalog::later(own, date),
                None => date,
            };
            if holds.and_then(Date::at).is_none_or(|at| at > now) {
                broken.push(format!("{version} was taken out of PrivateCloudProfile {key} before its date {holds:?}"));
            }
            let used = self.users(&id).find(|(_, shoot)| shoot.is_live() && shoot.uses(&version));
            if let (None, VersionKey::Image(..), Some((user, _))) = (own, version, used) {
                broken.push(format!("{version} was taken out of PrivateCloudProfile {key} while Shoot {user} uses it"));
            }
        }
    }

    fn judge_cloud(&self, change: &Change<CloudProfile>, now: Timestamp, broken: &mut Vec<String>) {
        let (name, Some(before)) = (&change.key.name, &change.before) else { return };
        let children = || self.private.iter().filter(|(_, private)| private.spec.parent.name == *name);
        let family = || {
            let private = children().map(|(key, _)| ProfileKey::Private(key.clone()));
            std::iter::once(ProfileKey::Cloud(name.clone())).chain(private)
        };
        let Some(after) = &change.after else {
            let users =
                family().flat_map(|profile| self.users(&profile).map(|(user, _)| user.clone()).collect::<Vec<_>>());
            let users = children().map(|(key, _)| key.clone()).chain(users).map(|key| key.to_string());
            let users = users.collect::<Vec<_>>();
            if !users.is_empty() {
                broken.push(format!("CloudProfile {name} is gone, and is used by {}", users.join(", ")));
            }
            return;
        };
        let left = versions(after.spec.kubernetes.as_ref(), &after.spec.machine_images);
        for (version, date) in versions(before.spec.kubernetes.as_ref(), &before.spec.machine_images) {
            if left.iter().any(|(stays, _)| *stays == version) {
                continue;
            }
            if date.and_then(Date::at).is_none_or(|at| at > now) {
                broken.push(format!("{version} was taken out of CloudProfile {name} before its date {date:?}"));
            }
            let users =
                family().any(|profile| self.users(&profile).any(|(_, shoot)| shoot.is_live() && shoot.uses(&version)));
            if users {
                broken.push(format!("{version} was taken out of CloudProfile {name} while a Shoot uses it"));
            }
        }
    }

    /// What holds once nothing is written any more.
    fn judge_rest(&self, now: Timestamp) -> Vec<String> {
        let mut broken = Vec::new();
        for (key, private) in &self.private {
            let status = private.status.clone().unwrap_or_default();
            let rendered = self
                .parent(private)
                .map(|parent| RenderedProfile::new(key.name.clone(), render(&parent, &private.spec).spec));
            if status.cloud_profile != rendered {
                broken.push(format!("the status of PrivateCloudProfile {key} is not what its specs are rendered to"));
            }
            let users = self.users(&ProfileKey::Private(key.clone())).count();
            let in_use = status.conditions.iter().any(|one| one.type_ == "InUse" && one.status == "True");
            if in_use != (users > 0) {
                broken.push(format!("PrivateCloudProfile {key} says in use: {in_use}, and {users} Shoots use it"));
            }
            if private.metadata.deletion_timestamp.is_some() && users == 0 {
                broken.push(format!("PrivateCloudProfile {key} is unused and does not go"));
            }
            let shown = rendered.map(|rendered| rendered.spec).unwrap_or_default();
            for (version, date) in versions(shown.kubernetes.as_ref(), &shown.machine_images) {
                let own = versions(private.spec.kubernetes.as_ref(), &private.spec.machine_images);
                let listed = own.iter().any(|(own, _)| *own == version);
                let expired = date.and_then(Date::at).is_some_and(|at| at <= now);
                // Whatever goes waits a moment after its date.
                if date.and_then(Date::at).is_some_and(|at| at <= now && now.duration_since(at) < SETTLED) {
                    continue;
                }
                let told = status.expired_in_use.iter().any(|one| one.path == version.to_string());
                if (listed && expired) != told {
                    broken.push(format!("{version} of PrivateCloudProfile {key}: expired {expired}, told {told}"));
                }
            }
        }
        for (key, profile) in &self.profiles {
            let name = &key.name;
            let children = self.private.iter().filter(|(_, private)| private.spec.parent.name == *name);
            let children: Vec<&ObjectKey> = children.map(|(key, _)| key).collect();
            let on = |profile: ProfileKey| self.users(&profile).count();
            let of_children: usize = children.iter().map(|key| on(ProfileKey::Private((*key).clone()))).sum();
            let shoots = on(ProfileKey::Cloud(name.clone())) + of_children;
            let says = format!("{} private profiles, {shoots} Shoots", children.len());
            let status = profile.status.clone().unwrap_or_default();
            if !status.conditions.iter().any(|one| one.type_ == "InUse" && one.message.starts_with(&says)) {
                broken.push(format!("CloudProfile {name} does not say {says:?}: {:?}", status.conditions));
            }
            if profile.metadata.deletion_timestamp.is_some() && children.len() + shoots == 0 {
                broken.push(format!("CloudProfile {name} is unused and does not go"));
            }
        }
        broken
    }
}

/// The versions of a profile with their dates.
fn versions<'a>(
    kubernetes: Option<&'a allotment_api::catalog::Shared<allotment_api::catalog::Kubernetes>>,
    images: &'a [allotment_api::catalog::Shared<allotment_api::catalog::MachineImage>],
) -> Vec<(VersionKey<'a>, Option<&'a Date>)> {
    let kubernetes = kubernetes.into_iter().flat_map(|kubernetes| &kubernetes.versions);
    let kubernetes = kubernetes.map(|one| (VersionKey::Kubernetes(&one.version), one.expiration_date.as_ref()));
    let images = images.iter().flat_map(|image| {
        let key = |version| VersionKey::Image(&image.name, version);
        image.versions.iter().map(move |one| (key(&one.version), one.expiration_date.as_ref()))
    });
    kubernetes.chain(images).collect()
}

/// Plays the seed; what is broken at rest, if anything is.
pub(crate) async fn play(world: &mut World, mut chance: Chance) -> Vec<String> {
    prepare(world, &mut chance).await;
    world.set_trouble(true);
    for _ in 0..STEPS {
        act(world, &mut chance).await;
        tokio::time::sleep(Duration::from_millis(chance.below(3_000) as u64)).await;
        world.revive().await;
        if is_broken(world) {
            return Vec::new();
        }
    }
    world.set_trouble(false);
    for when in ["after the trouble", "after the dates", "after every status was wiped"] {
        match when {
            "after the dates" => tokio::time::sleep(BEYOND_DATES).await,
            "after every status was wiped" => wipe_all(world).await,
            _ => {}
        }
        let broken = at_rest(world, when).await;
        if !broken.is_empty() || is_broken(world) {
            return broken;
        }
    }
    clean_up(world).await;
    let mut broken = at_rest(world, "after everything was deleted").await;
    let findings = world.judge.findings();
    let shelf = &findings.known.shelf;
    let left = shelf.private.keys().chain(shelf.profiles.keys());
    broken.extend(left.map(|key| format!("profile {key} is left though nobody uses it")));
    broken
}

async fn at_rest(world: &mut World, when: &str) -> Vec<String> {
    settle(world, when, |known, _, now| known.shelf.judge_rest(now)).await
}

async fn prepare(world: &World, chance: &mut Chance) {
    let client = world.admin();
    for name in NAMESPACES {
        create::<Namespace>(Api::all(client.clone()), json!({ "metadata": { "name": name } })).await;
    }
    for name in PARENTS {
        let versions = json!([{"version": "1.30.1"}, {"version": "1.29.1", "expirationDate": ahead(world, chance)}]);
        let images = json!([image("linux", &[("1.0.0", None), ("2.0.0", Some(ahead(world, chance)))])]);
        let spec = json!({"type": "local", "kubernetes": {"versions": versions}, "machineImages": images,
            "machineTypes": [machine("small")], "volumeTypes": [{"name": "disk", "class": "standard"}],
            "regions": [{"name": "r1", "zones": [{"name": "a"}]}]});
        create::<CloudProfile>(Api::all(client.clone()), json!({"metadata": {"name": name}, "spec": spec})).await;
    }
}

fn ahead(world: &World, chance: &mut Chance) -> String {
    let seconds = 60 + chance.below(LATEST - 60);
    Date::of(world.now() + SignedDuration::from_secs(seconds as i64)).text().to_owned()
}

fn machine(name: &str) -> Value {
    json!({"name": name, "cpu": "2", "gpu": "0", "memory": "8Gi"})
}

fn image(name: &str, versions: &[(&str, Option<String>)]) -> Value {
    let version = |(version, date): &(&str, Option<String>)| {
        let mut entry = json!({"version": version, "cri": [{"name": "containerd"}], "architectures": ["amd64"]});
        if let Some(date) = date {
            entry["expirationDate"] = json!(date);
        }
        entry
    };
    json!({"name": name, "versions": versions.iter().map(version).collect::<Vec<_>>()})
}

fn keys<T>(objects: &BTreeMap<ObjectKey, T>) -> Vec<ObjectKey> {
    objects.keys().cloned().collect()
}

/// One of those that are there, or one that is not.
fn any(world: &World, chance: &mut Chance, of: impl Fn(&Shelf) -> Vec<ObjectKey>) -> ObjectKey {
    let keys = of(&world.judge.findings().known.shelf);
    if keys.is_empty() { ObjectKey::new(NAMESPACES[0], "none") } else { chance.pick(&keys).clone() }
}

async fn act(world: &mut World, chance: &mut Chance) {
    let client = world.admin();
    let place = ObjectKey::new(*chance.pick(&NAMESPACES), format!("p{}", chance.below(NAMES)));
    match chance.below(100) {
        0..20 => {
            let dates = [ahead(world, chance), ahead(world, chance)].map(Some);
            let [one, two] = dates;
            let spec = json!({"parent": chance.pick(&PARENTS), "machineTypes": [machine("big")],
                "machineImages": [image("own", &[("1.0.0", one), ("2.0.0", two)])]});
            create::<PrivateCloudProfile>(
                api(&client, &place),
                json!({"metadata": {"name": place.name}, "spec": spec}),
            )
            .await;
        }
        20..45 => {
            let key = ObjectKey::new(place.namespace, format!("s{}", chance.below(NAMES)));
            let private = chance.strikes(700);
            let reference = match private {
                true => json!({"kind": "PrivateCloudProfile", "name": place.name}),
                false => json!({"kind": "CloudProfile", "name": chance.pick(&PARENTS)}),
            };
            let image =
                json!({"name": chance.pick(&IMAGES), "version": if chance.strikes(500) { "1.0.0" } else { "2.0.0" }});
            let worker = json!({"name": "w", "machine": {"type": "small", "image": image}, "minimum": 1, "maximum": 1,
                "volume": {"type": "disk", "size": "20Gi"}, "zones": ["a"]});
            let spec = json!({"cloudProfile": reference, "region": "r1", "kubernetes": {"version": "1.30.1"},
                "provider": {"type": "local", "workers": [worker]}});
            create::<Shoot>(api(&client, &key), json!({"metadata": {"name": key.name}, "spec": spec})).await;
        }
        45..57 => {
            let key = any(world, chance, |shelf| keys(&shelf.shoots));
            delete::<Shoot>(&client, &key).await;
        }
        57..67 => {
            let key = any(world, chance, |shelf| keys(&shelf.private));
            delete::<PrivateCloudProfile>(&client, &key).await;
        }
        67..75 => {
            let more: Vec<Value> = (0..=chance.below(4)).map(|number| machine(&format!("m{number}"))).collect();
            let all = [vec![machine("small")], more].concat();
            let name = *chance.pick(&PARENTS);
            patch::<CloudProfile>(Api::all(client), name, json!({"spec": {"machineTypes": all}})).await;
        }
        75..79 => {
            let key = any(world, chance, |shelf| keys(&shelf.private));
            let own = machine(&format!("m{}", chance.below(4)));
            patch::<PrivateCloudProfile>(api(&client, &key), &key.name, json!({"spec": {"machineTypes": [own]}})).await;
        }
        79..83 => {
            let key = any(world, chance, |shelf| keys(&shelf.private));
            wipe_status::<PrivateCloudProfile>(api(&client, &key), &key.name).await;
        }
        83..86 => {
            let annotations = json!({REMOVE_EXPIRED_VERSIONS: if chance.strikes(700) { "true" } else { "false" }});
            let name = *chance.pick(&PARENTS);
            patch::<CloudProfile>(Api::all(client), name, json!({"metadata": {"annotations": annotations}})).await;
        }
        86..88 => delete_wide::<CloudProfile>(&client, PARENTS[1]).await,
        88..94 => {
            let (steps, which) = (chance.below(FUSE) as u64, chance.below(2));
            world.kill_controllers_after(steps, which);
        }
        94..97 => world.kill_after(chance.below(FUSE) as u64),
        _ => tokio::time::sleep(Duration::from_secs(chance.below(600) as u64)).await,
    }
}

async fn wipe_all(world: &mut World) {
    let client = world.admin();
    let (private, profiles) = {
        let findings = world.judge.findings();
        (keys(&findings.known.shelf.private), keys(&findings.known.shelf.profiles))
    };
    for key in &private {
        wipe_status::<PrivateCloudProfile>(api(&client, key), &key.name).await;
    }
    for key in &profiles {
        wipe_status::<CloudProfile>(Api::all(client.clone()), &key.name).await;
    }
    world.kill();
}

/// Deletes all: profiles first, so that they have to wait for who uses them.
async fn clean_up(world: &World) {
    let client = world.admin();
    let (private, profiles, shoots) = {
        let findings = world.judge.findings();
        let shelf = &findings.known.shelf;
        (keys(&shelf.private), keys(&shelf.profiles), keys(&shelf.shoots))
    };
    for key in &profiles {
        delete_wide::<CloudProfile>(&client, &key.name).await;
    }
    for key in &private {
        delete::<PrivateCloudProfile>(&client, key).await;
    }
    for key in &shoots {
        delete::<Shoot>(&client, key).await;
    }
}
