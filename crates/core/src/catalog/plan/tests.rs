//! Whole lives of profiles: an API of JSON in memory, a clock of years, plans carried out one by one, with the process ended
//! between any two writes (there is no state but the API's, so each decision reads all of it anew).

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_api::catalog::{
    CloudProfile, CloudProfileSpec, PrivateCloudProfile, PrivateCloudProfileSpec, Shoot, Stored,
};
use k8s_openapi::jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::Map;

use super::super::render::render;
use super::super::says;
use super::super::versions::kubernetes_versions;
use super::*;
use crate::write::merge_apply;

mod patched;
mod told;
mod unread;

/// More writes than that for one change mean that it never ends.
const MOST_WRITES: usize = 100;
const DAY: i64 = 86_400;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + day * DAY).expect("a time")
}

fn date(day: i64) -> String {
    allotment_api::catalog::Date::of(at(day)).text().to_owned()
}

/// An API server with these objects.
#[derive(Clone, Debug, Default)]
struct Model {
    objects: BTreeMap<(String, ObjectKey), Value>,
    revision: u64,
    /// What the plans said, in their order.
    events: Vec<String>,
}

impl Model {
    fn create(&mut self, kind: &str, key: ObjectKey, spec: Value) {
        self.revision += 1;
        let metadata = json!({"name": key.name, "namespace": (!key.namespace.is_empty()).then_some(&key.namespace),
            "uid": format!("u{}", self.revision), "generation": 1, "resourceVersion": self.revision.to_string()});
        self.objects.insert((kind.to_owned(), key), json!({"metadata": metadata, "spec": spec}));
    }

    fn update(&mut self, kind: &str, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        let id = (kind.to_owned(), key.clone());
        let Some(object) = self.objects.get_mut(&id) else { return };
        let before = object.clone();
        change(object);
        if *object == before {
            return;
        }
        self.revision += 1;
        if object["spec"] != before["spec"] {
            object["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if !object["metadata"]["deletionTimestamp"].is_null() && !held {
            self.objects.remove(&id);
        }
    }

    fn delete(&mut self, kind: &str, key: &ObjectKey, now: Timestamp) {
        self.update(kind, key, |object| object["metadata"]["deletionTimestamp"] = json!(now.to_string()));
    }

    fn read<T: serde::de::DeserializeOwned>(&self, kind: &str, key: &ObjectKey) -> Option<T> {
        let object = self.objects.get(&(kind.to_owned(), key.clone()))?;
        Some(serde_json::from_value(object.clone()).expect("it reads"))
    }

    fn keys(&self, kind: &str) -> Vec<ObjectKey> {
        self.objects.keys().filter(|(of, _)| of == kind).map(|(_, key)| key.clone()).collect()
    }

    /// What a process that has just started knows.
    fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::default();
        for key in self.keys(CLOUD) {
            match self.read(CLOUD, &key).expect("it is there") {
                Stored::Read(one) => catalog.set_profile(&key.name, Some(Arc::new(Offer::new(one)))),
                Stored::Unread(one) => catalog.set_unread_profile(&key.name, Arc::new(UnreadProfile::read(*one))),
            }
        }
        for key in self.keys(PRIVATE) {
            match self.read(PRIVATE, &key).expect("it is there") {
                Stored::Read(one) => catalog.set_private(&key, Some(Arc::new(one))),
                Stored::Unread(one) => catalog.set_unread_private(&key, Arc::new(UnreadProfile::read(*one))),
            }
        }
        for key in self.keys(SHOOT) {
            let shoot = match self.read::<Stored<Shoot>>(SHOOT, &key).expect("it is there") {
                Stored::Read(shoot) => KeptShoot::read(&shoot),
                Stored::Unread(shoot) => KeptShoot::unread(&shoot),
            };
            catalog.set_shoot(&key, Some(Arc::new(shoot)));
        }
        catalog
    }

    fn profiles(&self) -> Vec<ProfileKey> {
        let private = self.keys(PRIVATE).into_iter().map(ProfileKey::Private);
        private.chain(self.keys(CLOUD).into_iter().map(|key| ProfileKey::Cloud(key.name))).collect()
    }

    fn carry_out(&mut self, plan: &ProfilePlan) {
        let (profile, replaces, body) = match plan {
            ProfilePlan::Done { .. } => return,
            ProfilePlan::AddFinalizer(write) | ProfilePlan::Release(write) => (&write.profile, false, &write.patch),
            ProfilePlan::TakeOut { write, told } => {
                self.events.push(told.clone());
                (&write.profile, false, &write.patch)
            }
            ProfilePlan::WriteStatus { write, told, .. } => {
                self.events.extend(told.iter().map(|told| told.message.clone()));
                match &write.body {
                    StatusBody::Whole(object) => (&write.profile, true, object),
                    StatusBody::AllButRendered(patch) => (&write.profile, false, patch),
                }
            }
        };
        let (kind, key) = match profile {
            ProfileKey::Cloud(name) => (CLOUD, ObjectKey::cluster_wide(name.clone())),
            ProfileKey::Private(key) => (PRIVATE, key.clone()),
        };
        let body: Value = serde_json::from_str(body).expect("JSON");
        self.update(kind, &key, |object| {
            for member in ["uid", "resourceVersion"] {
                assert_eq!(body["metadata"][member], object["metadata"][member], "a write names what it is upon");
            }
            match replaces {
                true => object["status"] = body["status"].clone(),
                false => merge_apply(object, &body),
            }
        });
    }

    /// Carries out what is to be done until nothing is; gives when to look again.
    fn settle(&mut self, now: Timestamp) -> Option<Timestamp> {
        for _ in 0..MOST_WRITES {
            let plans: Vec<ProfilePlan> = {
                let catalog = self.catalog();
                self.profiles().iter().map(|profile| decide_profile(&catalog, profile, now)).collect()
            };
            let Some(plan) = plans.iter().find(|plan| !matches!(plan, ProfilePlan::Done { .. })) else {
                let again = plans.iter().filter_map(|plan| match plan {
                    ProfilePlan::Done { again } => *again,
                    _ => None,
                });
                return again.min();
            };
            self.carry_out(plan);
            self.check(now);
        }
        panic!("it never ends: {:#?}", self.objects);
    }

    /// What holds after each write: nobody who is there lost what he uses, nobody's profile went.
    fn check(&self, now: Timestamp) {
        let catalog = self.catalog();
        for key in self.keys(SHOOT) {
            let shoot = catalog.shoot(&key).expect("it is there");
            let Some(profile) = &shoot.profile else {
                assert!(shoot.unclear.is_some(), "it names one");
                continue;
            };
            if catalog.unread(profile).is_some() {
                continue;
            }
            match profile {
                ProfileKey::Cloud(name) => {
                    let offer = catalog.profile(name).unwrap_or_else(|| panic!("{key} lost CloudProfile {name}"));
                    assert_used(shoot, offer.parent.spec(), now);
                }
                ProfileKey::Private(of) => {
                    let private = catalog.private(of).unwrap_or_else(|| panic!("{key} lost {of}"));
                    let parent = catalog.profile(&private.spec.parent.name).expect("its parent is there");
                    assert_used(shoot, &render(&parent.parent, &private.spec).spec, now);
                }
            }
        }
    }

    /// What holds once nothing is to be done.
    fn check_settled(&self) {
        let catalog = self.catalog();
        for key in self.keys(PRIVATE) {
            let profile: PrivateCloudProfile = self.read(PRIVATE, &key).expect("it is there");
            let rendered = profile.status.and_then(|status| status.cloud_profile).map(|one| one.spec);
            let parent = catalog.profile(&profile.spec.parent.name);
            assert_eq!(rendered, parent.map(|parent| render(&parent.parent, &profile.spec).spec), "{key}");
        }
    }
}

/// Images that a live Shoot uses are in what its profile comes to, be they expired.
fn assert_used(shoot: &KeptShoot, spec: &CloudProfileSpec, now: Timestamp) {
    for used in shoot.versions().filter(|_| shoot.is_live()) {
        if let VersionKey::Image(name, version) = used {
            let image = spec.machine_images.iter().find(|image| image.name == name);
            let found = image.is_some_and(|image| image.versions.iter().any(|entry| entry.version == version));
            assert!(found, "{used} was taken out while {:?} uses it, at {now}", shoot.metadata.name);
        }
    }
}

const CLOUD: &str = "CloudProfile";
const PRIVATE: &str = "PrivateCloudProfile";
const SHOOT: &str = "Shoot";

fn parent_key() -> ObjectKey {
    ObjectKey::cluster_wide("central")
}

/// Days on which entries of parent and child expire; none for never.
#[derive(Clone, Debug)]
struct Dates {
    parent_kubernetes: [Option<i64>; 2],
    parent_image: Option<i64>,
    child_kubernetes: [Option<Option<i64>>; 2],
    child_image: Option<Option<i64>>,
    own_images: [Option<i64>; 2],
    opted_in: bool,
}

fn dates() -> impl Strategy<Value = Dates> {
    let day = || prop::option::of(1..1_500_i64);
    let entry = move || prop::option::of(day());
    let pairs = ([day(), day()], day(), [entry(), entry()], entry(), [day(), day()], any::<bool>());
    pairs.prop_map(|(parent_kubernetes, parent_image, child_kubernetes, child_image, own_images, opted_in)| Dates {
        parent_kubernetes,
        parent_image,
        child_kubernetes,
        child_image,
        own_images,
        opted_in,
    })
}

fn version(name: &str, day: Option<i64>) -> Value {
    let mut entry = Map::from_iter([("version".to_owned(), json!(name))]);
    if let Some(day) = day {
        entry.insert("expirationDate".to_owned(), json!(date(day)));
    }
    Value::Object(entry)
}

fn parent_spec(dates: &Dates) -> Value {
    let [first, second] = dates.parent_kubernetes;
    json!({"type": "t", "kubernetes": {"versions": [version("1.30.1", first), version("1.29.1", second), version("1.31.0", None)]},
        "machineImages": [{"name": "linux", "versions": [version("1.0.0", dates.parent_image)]}],
        "machineTypes": [{"name": "m", "cpu": "2", "gpu": "0", "memory": "8Gi"}], "providerConfig": {"a": 1}})
}

fn child_spec(dates: &Dates) -> Value {
    let listed = ["1.30.1", "1.29.1"].iter().zip(dates.child_kubernetes);
    let kubernetes: Vec<Value> = listed.filter_map(|(name, day)| Some(version(name, day?))).collect();
    let [one, two] = dates.own_images;
    let mut images = vec![json!({"name": "own", "versions": [version("1.0.0", one), version("2.0.0", two)]})];
    images.extend(dates.child_image.map(|day| json!({"name": "linux", "versions": [version("1.0.0", day)]})));
    let mut spec = json!({"parent": "central", "machineImages": images});
    if !kubernetes.is_empty() {
        spec["kubernetes"] = json!({"versions": kubernetes});
    }
    spec
}

fn shoot_spec(kind: &str, profile: &str, image: &str, version: &str) -> Value {
    let machine = json!({"type": "m", "image": {"name": image, "version": version}});
    json!({"cloudProfile": {"kind": kind, "name": profile}, "kubernetes": {"version": "1.31.0"},
        "provider": {"type": "t", "workers": [{"name": "w", "machine": machine}]}})
}

/// A landscape of one parent, two children of one name, and a Shoot of one of them that uses the image of that number.
fn landscape(dates: &Dates, image: usize) -> Model {
    let mut model = Model::default();
    model.create(CLOUD, parent_key(), parent_spec(dates));
    if dates.opted_in {
        model.update(CLOUD, &parent_key(), |object| {
            object["metadata"]["annotations"] = json!({REMOVE_EXPIRED_VERSIONS: "true"});
        });
    }
    for namespace in ["one", "two"] {
        model.create(PRIVATE, ObjectKey::new(namespace, "own"), child_spec(dates));
    }
    let (image, version) = [("own", "1.0.0"), ("own", "2.0.0"), ("linux", "1.0.0")][image];
    model.create(SHOOT, ObjectKey::new("one", "s"), shoot_spec(PRIVATE, "own", image, version));
    model
}

/// The dates that versions have in what a profile comes to; of each the day, none for never.
fn effective(spec: &CloudProfileSpec) -> BTreeMap<String, Option<Timestamp>> {
    let entries = dated(spec.kubernetes.as_ref(), &spec.machine_images);
    entries.map(|(key, date)| (key.to_string(), date.and_then(allotment_api::catalog::Date::at))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Years go by from one wake-up to the next. Nothing goes before its date or while it is used, all goes after it, no date
    /// is shortened, and whoever decides again finds nothing to do.
    #[test]
    fn versions_go_at_their_dates_over_the_years(dates in dates(), image in 0..3_usize, leaves in 1..1_600_i64) {
        let mut model = landscape(&dates, image);
        let mut now = at(0);
        let mut before: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
        for _ in 0..30 {
            let again = model.settle(now);
            model.check_settled();
            let revision = model.revision;
            model.settle(now);
            prop_assert_eq!(model.revision, revision, "deciding again changed something");

            let profile: PrivateCloudProfile = model.read(PRIVATE, &ObjectKey::new("one", "own")).expect("it is there");
            let status = profile.status.clone().unwrap_or_default();
            let shown = effective(&status.cloud_profile.clone().expect("it is rendered").spec);
            for (path, was) in &before {
                match shown.get(path) {
                    None => prop_assert!(was.is_some_and(|was| was <= now), "{path} went before {was:?}"),
                    Some(is) => prop_assert!(is == was || is.is_none_or(|is| is <= now) || was.is_none(), "{path}: {was:?} → {is:?}"),
                }
            }
            // What is left of the child has not expired, or is named as used.
            for (key, date) in dated(profile.spec.kubernetes.as_ref(), &profile.spec.machine_images) {
                let path = key.to_string();
                let passed = |by: Timestamp| shown.get(&path).is_some_and(|date| date.is_some_and(|date| date <= by));
                // What only the child has stays a moment, until it is known who uses it.
                let settled = now - SignedDuration::from_secs(15);
                let is_own = path.starts_with("spec.machineImages[own]");
                let expired = passed(if is_own { settled } else { now });
                if is_own && passed(now) && !expired {
                    continue;
                }
                let told = status.expired_in_use.iter().any(|one| one.path == path);
                prop_assert_eq!(expired, told, "{} with {:?} at {}", path, date, now);
            }
            before = shown;

            let gone = at(leaves);
            let leave = (!model.keys(SHOOT).is_empty()).then_some(gone);
            let Some(next) = again.into_iter().chain(leave).min() else { break };
            prop_assert!(next > now || leave.is_some(), "a wake-up lies in the past");
            now = next.max(now);
            if now >= gone {
                model.delete(SHOOT, &ObjectKey::new("one", "s"), now);
            }
        }
        prop_assert_eq!(model.settle(now), None, "something still waits for its date");
        let parent: CloudProfile = model.read(CLOUD, &parent_key()).expect("it is there");
        let left = kubernetes_versions(parent.spec.kubernetes.as_ref()).len();
        let expiring = dates.parent_kubernetes.iter().flatten().count();
        prop_assert_eq!(left, if says(&parent.metadata, REMOVE_EXPIRED_VERSIONS) { 3 - expiring } else { 3 });
    }

    /// Statuses that are wiped, deletions that begin at any time: all is rebuilt, the used ones stay, and the rest goes.
    #[test]
    fn wiped_statuses_come_back_and_deletions_wait(dates in dates(), wiped in any::<bool>(), day in 0..1_500_i64) {
        let mut model = landscape(&dates, 0);
        let now = at(day);
        model.settle(now);
        let (one, two) = (ObjectKey::new("one", "own"), ObjectKey::new("two", "own"));
        let was: PrivateCloudProfile = model.read(PRIVATE, &one).expect("it is there");
        if wiped {
            model.update(PRIVATE, &one, |object| object["status"] = Value::Null);
            model.update(CLOUD, &parent_key(), |object| object["status"] = Value::Null);
            model.settle(now);
            let is: PrivateCloudProfile = model.read(PRIVATE, &one).expect("it is there");
            prop_assert_eq!(&is.status, &was.status);
        }
        model.delete(CLOUD, &parent_key(), now);
        model.delete(PRIVATE, &one, now);
        model.delete(PRIVATE, &two, now);
        model.settle(now);
        prop_assert_eq!(model.keys(PRIVATE), vec![one.clone()], "the unused one goes, the used one stays");
        prop_assert_eq!(model.keys(CLOUD), vec![parent_key()]);
        let is: PrivateCloudProfile = model.read(PRIVATE, &one).expect("it is there");
        let said = is.status.unwrap_or_default().conditions;
        let in_use = find_condition(&said, ConditionType::InUse).expect("it is told");
        prop_assert_eq!(&in_use.reason, "DeletionBlocked");
        prop_assert!(model.events.iter().any(|event| event.contains("Shoots s;")), "{:?}", model.events);
        prop_assert!(model.events.iter().any(|event| event.contains("1 private profiles, 1 Shoots")), "{:?}", model.events);
        model.delete(SHOOT, &ObjectKey::new("one", "s"), now);
        model.settle(now);
        prop_assert!(model.objects.is_empty(), "{:?}", model.objects.keys());
    }
}

#[test]
fn a_version_goes_from_spec_into_the_annotation_in_one_write_and_the_parent_waits_for_its_children() {
    let dates = Dates {
        parent_kubernetes: [Some(10), None],
        parent_image: None,
        child_kubernetes: [Some(Some(20)), None],
        child_image: None,
        own_images: [None, None],
        opted_in: true,
    };
    let mut model = landscape(&dates, 2);
    assert_eq!(model.settle(at(0)), Some(at(20)), "the extended date holds, for parent and child");
    assert_eq!(model.settle(at(15)), Some(at(20)));
    let key = ProfileKey::Private(ObjectKey::new("one", "own"));
    let catalog = model.catalog();
    let parent = decide_profile(&catalog, &ProfileKey::Cloud("central".to_owned()), at(20));
    assert!(matches!(parent, ProfilePlan::Done { .. }), "its children name it still: {parent:?}");
    let ProfilePlan::TakeOut { write, told } = decide_profile(&catalog, &key, at(20)) else { panic!("it goes") };
    assert_eq!(told, format!("expired versions are taken out: spec.kubernetes.versions[1.30.1] ({})", date(20)));
    let patch: Value = serde_json::from_str(&write.patch).expect("JSON");
    assert_eq!(patch["spec"]["kubernetes"], Value::Null, "it goes whole");
    let noted = patch["metadata"]["annotations"][REMOVED_VERSIONS].as_str().expect("a text");
    assert!(noted.contains("1.30.1") && noted.contains(&date(20)), "{noted}");
    model.settle(at(20));
    model.check_settled();
    let told = model.events.last().expect("the parent's event");
    assert!(told.contains("spec.providerConfig is left as it is"), "{told}");
    let private: PrivateCloudProfile = model.read(PRIVATE, &ObjectKey::new("one", "own")).expect("it is there");
    let rendered =
        find_condition(&private.status.as_ref().expect("a status").conditions, ConditionType::Rendered).cloned();
    assert_eq!(rendered.map(|said| said.reason).as_deref(), Some("AllGood"));
}

#[test]
fn without_its_parent_nothing_expires_and_all_comes_back_with_it() {
    let spec: PrivateCloudProfileSpec = serde_json::from_value(json!({"parent": "central", "machineImages":
        [{"name": "own", "versions": [version("1.0.0", Some(1))]}]}))
    .expect("a spec");
    let key = ObjectKey::new("one", "own");
    let mut model = Model::default();
    model.create(PRIVATE, key.clone(), json!(spec));
    assert_eq!(model.settle(at(5)), None);
    let orphan: PrivateCloudProfile = model.read(PRIVATE, &key).expect("it is there");
    assert_eq!((orphan.spec, orphan.status.and_then(|status| status.cloud_profile)), (spec, None));
    model.create(CLOUD, parent_key(), json!({"type": "t"}));
    model.settle(at(5));
    model.check_settled();
    let found: PrivateCloudProfile = model.read(PRIVATE, &key).expect("it is there");
    assert!(found.spec.machine_images.is_empty(), "what expired meanwhile goes");
}

#[test]
fn the_last_version_goes_although_its_list_has_neighbours_that_stay() {
    let kubernetes = |day| json!({"versions": [version("1.30.1", Some(day))], "unknown": {"a": 1}});
    let key = ObjectKey::new("one", "own");
    let mut model = Model::default();
    model.create(CLOUD, parent_key(), json!({"type": "t", "kubernetes": kubernetes(1)}));
    model.update(CLOUD, &parent_key(), |object| {
        object["metadata"]["annotations"] = json!({REMOVE_EXPIRED_VERSIONS: "true"});
    });
    model.create(PRIVATE, key.clone(), json!({"parent": "central", "kubernetes": kubernetes(2)}));
    model.settle(at(5));
    let private: PrivateCloudProfile = model.read(PRIVATE, &key).expect("it is there");
    assert_eq!(json!(private.spec.kubernetes), json!({"unknown": {"a": 1}}));
    let parent: CloudProfile = model.read(CLOUD, &parent_key()).expect("it is there");
    assert_eq!(json!(parent.spec.kubernetes), json!({"unknown": {"a": 1}}));
    assert_eq!(model.events.len(), 2, "each is told once: {:?}", model.events);
}

#[test]
fn what_bastions_run_on_stays_in_a_profile() {
    let check = |bastion: Value, left: &[&str]| {
        let mut model = Model::default();
        let versions = json!([version("1.0.0", Some(1)), version("2.0.0", Some(2)), version("3.0.0", Some(1))]);
        let spec = json!({"type": "t", "machineImages": [{"name": "i", "versions": versions}], "bastion": bastion});
        model.create(CLOUD, parent_key(), spec);
        model.update(CLOUD, &parent_key(), |object| {
            object["metadata"]["annotations"] = json!({REMOVE_EXPIRED_VERSIONS: "true"});
        });
        model.settle(at(5));
        let profile: CloudProfile = model.read(CLOUD, &parent_key()).expect("it is there");
        let images = profile.spec.machine_images.iter().flat_map(|image| &image.versions);
        assert_eq!(images.map(|version| version.version.as_str()).collect::<Vec<_>>(), left, "{bastion}");
    };
    check(json!({"machineType": {"name": "m"}}), &[]);
    check(json!({"machineImage": {"name": "i", "version": "1.0.0"}}), &["1.0.0"]);
    // Which one is left open: as with Shoots, none of those that may be meant goes before there is another.
    check(json!({"machineImage": {"name": "i"}}), &["1.0.0", "2.0.0", "3.0.0"]);
}

#[test]
fn what_was_removed_is_remembered_as_far_as_the_annotations_leave_room() {
    /// What `ValidateAnnotationsSize` of k8s.io/apimachinery lets pass.
    const MOST_BYTES: usize = 256 * 1024;
    let name = |number: usize| format!("{number}.0.0-{}", "x".repeat(240));
    let check = |others: usize, expect: std::ops::Range<usize>| {
        let key = ObjectKey::new("one", "own");
        let mut model = Model::default();
        model.create(CLOUD, parent_key(), json!({"type": "t"}));
        let versions: Vec<Value> = (0..900).map(|number| version(&name(number), Some(1))).collect();
        let images = json!([{"name": "i".repeat(253), "versions": versions}]);
        model.create(PRIVATE, key.clone(), json!({"parent": "central", "machineImages": images}));
        model.update(PRIVATE, &key, |object| {
            object["metadata"]["annotations"] = json!({"note": "x".repeat(others)});
        });
        model.settle(at(5));
        let private: PrivateCloudProfile = model.read(PRIVATE, &key).expect("it is there");
        let annotations = private.metadata.annotations.clone().expect("annotations");
        let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(bytes <= MOST_BYTES, "{bytes} with {others} of others");
        assert!(private.spec.machine_images.is_empty(), "they go all the same");
        let kept = recorded(&private.metadata).len();
        assert!(expect.contains(&kept), "{kept} with {others} of others");
    };
    check(0, 150..500);
    check(MOST_BYTES - 10_000, 1..20);
    check(MOST_BYTES - 100, 0..1);
}

#[test]
fn a_plan_is_known_again_after_it_was_carried_out() {
    let key = ProfileKey::Private(ObjectKey::new("one", "own"));
    let dates = Dates {
        parent_kubernetes: [Some(10), None],
        parent_image: None,
        child_kubernetes: [Some(None), None],
        child_image: None,
        own_images: [Some(10), None],
        opted_in: false,
    };
    let mut model = landscape(&dates, 2);
    model.settle(at(0));
    let first = decide_profile(&model.catalog(), &key, at(11));
    assert!(matches!(first, ProfilePlan::TakeOut { .. }), "{first:?}");
    // Somebody puts back what is taken out.
    let spec = model.read::<Value>(PRIVATE, &ObjectKey::new("one", "own")).expect("it is there")["spec"].clone();
    model.carry_out(&first);
    let second = decide_profile(&model.catalog(), &key, at(11));
    assert!(!second.repeats(&first), "{second:?}");
    model.update(PRIVATE, &ObjectKey::new("one", "own"), |object| object["spec"] = spec);
    let third = decide_profile(&model.catalog(), &key, at(12));
    assert!(third != first && third.repeats(&first), "{third:?}");
}
