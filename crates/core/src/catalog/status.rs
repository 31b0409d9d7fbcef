//! What the status of a profile should be: of a private one what it is rendered to and what is to be known of that, of a
//! CloudProfile counts. Whoever writes a spec and whoever looks at it afterwards come to the same.

use allotment_api::catalog::{
    CloudProfileStatus, Digest, ExpiredInUse, KeptStatus, PrivateCloudProfileSpec, PrivateCloudProfileStatus,
    REMOVED_VERSIONS, RemovedVersion, RenderedProfile,
};
use allotment_api::reasons::{CatalogReason, ConditionType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

use super::expiry::expire_private_profile;
use super::index::{KeptShoot, Offer};
use super::lineage::{names_a_cloud_profile, said_of_reference};
use super::listed::listed;
use super::parent::Parent;
use super::render::render;
use super::room::{MOST_CONFLICTS, Size, bytes_of, has_room};
use super::unread::UnreadProfile;
use crate::requests::Said;

/// Most names, or errors, that a condition lists. It tells how many more there are.
const MOST_NAMED: usize = 20;

/// A private profile, and all that its status depends on.
#[derive(Clone, Copy, Debug)]
pub struct PrivateView<'a> {
    /// Its metadata. Of its annotations [`REMOVED_VERSIONS`] counts.
    pub metadata: &'a ObjectMeta,
    /// The generation that the spec has, or will have once it is written.
    pub generation: Option<i64>,
    /// Its spec.
    pub spec: &'a PrivateCloudProfileSpec,
    /// Its conditions so far, for the times since when they hold.
    pub conditions: &'a [Condition],
    /// Its CloudProfile, if that is there and can be read.
    pub parent: Option<ParentView<'a>>,
    /// Whether its CloudProfile is there and cannot be read.
    pub is_parent_unread: bool,
    /// The Shoots that use it, or may, in the order of their names.
    pub shoots: &'a [&'a KeptShoot],
    /// The time.
    pub now: Timestamp,
}

/// A CloudProfile as its private profiles see it.
#[derive(Clone, Copy, Debug)]
pub struct ParentView<'a> {
    /// What it offers.
    pub parent: &'a Parent,
    /// Whether its deletion has begun.
    pub is_going: bool,
}

impl<'a> From<&'a Offer> for ParentView<'a> {
    fn from(offer: &'a Offer) -> Self {
        ParentView { parent: &offer.parent, is_going: offer.is_going() }
    }
}

/// A CloudProfile, and all that its status depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloudView<'a> {
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// The generation that the spec has, or will have once it is written.
    pub generation: Option<i64>,
    /// Its conditions so far, for the times since when they hold.
    pub conditions: &'a [Condition],
    /// How many private profiles it has, or may have.
    pub children: usize,
    /// How many of them cannot be rendered whole.
    pub invalid: usize,
    /// How many Shoots use it or one of these, or may.
    pub shoots: usize,
    /// How many of both cannot be read.
    pub unread: usize,
    /// Why it cannot be read itself, if so.
    pub why_unread: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// What was taken out of a private profile, as its annotation says; nothing where that cannot be read.
pub fn recorded(metadata: &ObjectMeta) -> Vec<RemovedVersion> {
    let text = metadata.annotations.as_ref().and_then(|all| all.get(REMOVED_VERSIONS));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The status that a private profile should have. Without its parent nothing is rendered: nobody is offered what it was
/// rendered to before, and a status that was wiped could not be made again.
pub fn private_status(view: &PrivateView<'_>) -> PrivateCloudProfileStatus {
    let mut status = PrivateCloudProfileStatus {
        observed_generation: view.generation,
        removed: recorded(view.metadata),
        ..PrivateCloudProfileStatus::default()
    };
    let found = view.parent_found();
    let parent = view.parent.filter(|_| found.status == Some(true));
    let rendered = match parent {
        Some(ParentView { parent, .. }) => {
            let result = render(parent, view.spec);
            let said = said_of_rendering(result.conflicts.len(), result.faults.iter().map(ToString::to_string));
            status.conflicts = result.conflicts;
            status.conflicts.truncate(MOST_CONFLICTS);
            let users = |image: &str, version: &str| view.image_users(image, version);
            status.expired_in_use = expire_private_profile(view.spec, parent, users, view.now).in_use;
            status.expired_in_use.truncate(MOST_CONFLICTS);
            let name = view.metadata.name.clone().unwrap_or_default();
            let whole = RenderedProfile::new(name, result.spec);
            match view.has_room_for(&whole, parent, &mut status) {
                true => {
                    status.cloud_profile = Some(whole);
                    said
                }
                false => rendered(false, CatalogReason::TooLarge, TOO_LARGE.to_owned()),
            }
        }
        None => {
            let is_there = view.is_parent_unread && view.names_a_cloud_profile();
            let why = if is_there { CatalogReason::ParentUnreadable } else { CatalogReason::ParentNotFound };
            rendered(false, why, "there is nothing to render it over".to_owned())
        }
    };
    let write = |said: Said| said.written(view.conditions, view.generation, view.now);
    status.conditions = [rendered, found, used_by(view.metadata, view.shoots)].map(write).into();
    status
}

/// The status of a private profile that cannot be read: what was removed, who uses it, and that no more is known.
pub(super) fn unread_private_status(
    profile: &UnreadProfile,
    shoots: &[&KeptShoot],
    now: Timestamp,
) -> PrivateCloudProfileStatus {
    let (metadata, why) = (&profile.metadata, cannot_be_read(&profile.why));
    let generation = metadata.generation;
    let unknown = Said {
        kind: ConditionType::ParentFound,
        status: None,
        reason: CatalogReason::Unreadable.as_str(),
        message: why.clone(),
    };
    let said = [rendered(false, CatalogReason::Unreadable, why), unknown, used_by(metadata, shoots)];
    PrivateCloudProfileStatus {
        observed_generation: generation,
        removed: recorded(metadata),
        conditions: said.map(|said| said.written(&profile.status.conditions, generation, now)).into(),
        ..PrivateCloudProfileStatus::default()
    }
}

/// What is wrong, and what to do.
pub(super) fn cannot_be_read(why: &str) -> String {
    format!("it cannot be read: {why}; nothing follows from it until that is put right")
}

/// What is said of a profile that has no room for what it is rendered to. Shoots may use it all the same.
const TOO_LARGE: &str =
    "with what it is rendered to it would be larger than an object may be, so that is not shown: take entries out";

impl PrivateView<'_> {
    /// Whether there is room for that rendering in its status. Of the versions that expired and stay those are left for which there
    /// is some beside it. Looked at closely only where it may lack.
    fn has_room_for(&self, whole: &RenderedProfile, parent: &Parent, rest: &mut PrivateCloudProfileStatus) -> bool {
        if has_room(self.metadata, self.spec, parent, bytes_of(&rest.expired_in_use)) {
            return true;
        }
        let size = Size::of(self.metadata, self.spec, &rest.conflicts, whole);
        let mut left = size.left();
        let fits = |one: &&ExpiredInUse| {
            let bytes = bytes_of(*one) + 1;
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        };
        let fitting = rest.expired_in_use.iter().take_while(fits).count();
        rest.expired_in_use.truncate(fitting);
        !size.is_too_large()
    }

    /// Whether its parent is of the kind that there is.
    pub(super) fn names_a_cloud_profile(&self) -> bool {
        names_a_cloud_profile(&self.spec.parent)
    }

    fn parent_found(&self) -> Said {
        let name = &self.spec.parent.name;
        let said = |status, reason: CatalogReason, message| {
            Said::new(ConditionType::ParentFound, status, reason.as_str(), message)
        };
        if let Some(message) = said_of_reference(&self.spec.parent) {
            return said(false, CatalogReason::ParentNotSupported, message);
        }
        match self.parent {
            None if self.is_parent_unread => said(
                false,
                CatalogReason::ParentUnreadable,
                format!(
                    "CloudProfile {name:?} is there and cannot be read: ask an operator of the platform to put it right"
                ),
            ),
            None => said(
                false,
                CatalogReason::ParentNotFound,
                format!("there is no CloudProfile {name:?}: create it, or delete this profile"),
            ),
            Some(ParentView { is_going: true, .. }) => said(
                true,
                CatalogReason::ParentDeleting,
                format!("CloudProfile {name:?} is being deleted, and waits for this profile"),
            ),
            Some(_) => said(true, CatalogReason::AllGood, format!("CloudProfile {name:?} is there")),
        }
    }

    /// The live Shoots that use that version of that image.
    pub(super) fn image_users(&self, image: &str, version: &str) -> Vec<String> {
        let users = self.shoots.iter().filter(|shoot| shoot.keeps_image(image, version));
        users.filter_map(|shoot| shoot.metadata.name.clone()).collect()
    }
}

fn used_by(metadata: &ObjectMeta, shoots: &[&KeptShoot]) -> Said {
    let by = if shoots.is_empty() {
        "no Shoot uses it".to_owned()
    } else {
        format!("Shoots {}", listed(shoots.iter().map(|shoot| shoot.shown()), MOST_NAMED))
    };
    in_use(!shoots.is_empty(), metadata.deletion_timestamp.is_some(), by)
}

fn rendered(status: bool, reason: CatalogReason, message: String) -> Said {
    Said::new(ConditionType::Rendered, status, reason.as_str(), message)
}

fn said_of_rendering(conflicts: usize, faults: impl ExactSizeIterator<Item = String>) -> Said {
    if faults.len() > 0 {
        return rendered(false, CatalogReason::Invalid, format!("left out: {}", listed(faults, MOST_NAMED)));
    }
    match conflicts {
        0 => rendered(true, CatalogReason::AllGood, "all of it is rendered".to_owned()),
        count => {
            let of_many =
                if count > MOST_CONFLICTS { format!(" for the first {MOST_CONFLICTS}") } else { String::new() };
            let entries = counted(count, "entry", "entries");
            let message = format!("of {entries} the parent's holds: see status.conflicts{of_many}");
            rendered(true, CatalogReason::Conflicts, message)
        }
    }
}

fn in_use(is_used: bool, is_going: bool, by: String) -> Said {
    let said =
        |status, reason: CatalogReason, message| Said::new(ConditionType::InUse, status, reason.as_str(), message);
    match (is_used, is_going) {
        (false, _) => said(false, CatalogReason::NotInUse, by),
        (true, false) => said(true, CatalogReason::InUse, by),
        (true, true) => {
            let message = format!("{by}; it goes once they are gone or use another profile");
            said(true, CatalogReason::DeletionBlocked, message)
        }
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The status that a CloudProfile should have. It has no names: everybody may read it.
pub(super) fn cloud_status(view: &CloudView<'_>) -> CloudProfileStatus {
    // Programs read it: the words do not follow the numbers.
    let mut uses = format!("{} private profiles, {} Shoots", view.children, view.shoots);
    if view.unread > 0 {
        uses.push_str(&format!("; {} of these cannot be read, and may use it", view.unread));
    }
    let is_going = view.metadata.deletion_timestamp.is_some();
    let valid = match view.invalid {
        0 => (true, CatalogReason::AllGood, "every private profile is rendered whole".to_owned()),
        count => (
            false,
            CatalogReason::Invalid,
            format!("{count} of {} invalid", counted(view.children, "private profile is", "private profiles are")),
        ),
    };
    let mut valid = Said::new(ConditionType::ChildrenValid, valid.0, valid.1.as_str(), valid.2);
    if let Some(why) = view.why_unread {
        (valid.status, valid.reason) = (None, CatalogReason::Unreadable.as_str());
        valid.message = cannot_be_read(why);
    }
    let write = |said: Said| said.written(view.conditions, view.generation, view.now);
    CloudProfileStatus {
        observed_generation: view.generation,
        conditions: [in_use(view.children + view.shoots > 0, is_going, uses), valid].map(write).into(),
    }
}

/// A status as it is kept once it is written; `rendered` is its `cloudProfile` as JSON.
pub(super) fn kept(status: &PrivateCloudProfileStatus, rendered: Option<&str>) -> KeptStatus {
    KeptStatus {
        observed_generation: status.observed_generation,
        cloud_profile: rendered.and_then(|text| Digest::of_json(text).ok()),
        conflicts: status.conflicts.clone(),
        removed: status.removed.clone(),
        expired_in_use: status.expired_in_use.clone(),
        conditions: status.conditions.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use allotment_api::catalog::{CloudProfileSpec, ParentRef, Shoot, ShootSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use super::super::room::{MOST_BYTES, lacks_room};
    use super::*;

    fn parent() -> Parent {
        let spec = json!({"type": "t", "kubernetes": {"versions": [{"version": "1.30.1", "expirationDate": "2026-01-01T00:00:00Z"}]},
            "machineTypes": [{"name": "m", "cpu": "2", "gpu": "0", "memory": "8Gi"}]});
        Parent::new("central", serde_json::from_value::<CloudProfileSpec>(spec).expect("a spec"))
    }

    fn private(spec: Value) -> PrivateCloudProfileSpec {
        let spec: PrivateCloudProfileSpec = serde_json::from_value(spec).expect("a spec");
        PrivateCloudProfileSpec { parent: ParentRef::named("central"), ..spec }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("a time")
    }

    fn shoot(name: &str, spec: Value) -> KeptShoot {
        let mut spec: ShootSpec = serde_json::from_value(spec).expect("a Shoot");
        spec.cloud_profile = serde_json::from_value(json!({"kind": "PrivateCloudProfile", "name": "p"})).expect("one");
        let mut shoot = Shoot::new(name, spec);
        shoot.metadata.namespace = Some("n".to_owned());
        KeptShoot::read(&shoot)
    }

    struct Case {
        metadata: ObjectMeta,
        spec: PrivateCloudProfileSpec,
        parent: Option<Parent>,
        is_going: bool,
        shoots: Vec<KeptShoot>,
    }

    impl Case {
        fn new(spec: Value) -> Self {
            let metadata = ObjectMeta { name: Some("p".to_owned()), ..ObjectMeta::default() };
            Case { metadata, spec: private(spec), parent: Some(parent()), is_going: false, shoots: Vec::new() }
        }

        fn status(&self, conditions: &[Condition], now: Timestamp) -> PrivateCloudProfileStatus {
            let shoots: Vec<&KeptShoot> = self.shoots.iter().collect();
            private_status(&PrivateView {
                metadata: &self.metadata,
                generation: Some(3),
                spec: &self.spec,
                conditions,
                parent: self.parent.as_ref().map(|parent| ParentView { parent, is_going: self.is_going }),
                is_parent_unread: false,
                shoots: &shoots,
                now,
            })
        }

        /// Checks conditions as `Type=Status Reason: message`.
        #[track_caller]
        fn check(&self, expect: [&str; 3]) {
            let status = self.status(&[], at(0));
            let said = |one: &Condition| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message);
            assert_eq!(status.conditions.iter().map(said).collect::<Vec<_>>(), expect);
            assert!(status.conditions.iter().all(|one| one.observed_generation == Some(3)));
            self.check_written(&status);
        }

        /// What is written, read as it is kept, and decided again: nothing differs. What is altered is found.
        #[track_caller]
        fn check_written(&self, status: &PrivateCloudProfileStatus) {
            let text = serde_json::to_string(status).expect("JSON");
            let kept: KeptStatus = serde_json::from_str(&text).expect("a status");
            let again = self.status(&kept.conditions, at(60));
            let rendered =
                |status: &PrivateCloudProfileStatus| status.cloud_profile.as_ref().map(|one| json!(one).to_string());
            assert_eq!(super::kept(&again, rendered(&again).as_deref()), kept, "{text}");
            if again.cloud_profile.is_some() {
                let altered = rendered(&again).map(|text| text.replace("1.30.1", "1.30.2"));
                assert_ne!(super::kept(&again, altered.as_deref()), kept, "{text}");
                assert_ne!(super::kept(&again, None), kept, "{text}");
            }
        }
    }

    const WHOLE: &str = "Rendered=True AllGood: all of it is rendered";
    const FOUND: &str = "ParentFound=True AllGood: CloudProfile \"central\" is there";
    const UNUSED: &str = "InUse=False NotInUse: no Shoot uses it";

    #[test]
    fn conditions_say_how_it_stands_with_a_private_profile() {
        Case::new(json!({})).check([WHOLE, FOUND, UNUSED]);
        let other = json!({"machineTypes": [{"name": "m", "cpu": "4", "gpu": "0", "memory": "8192Mi"}]});
        let conflict = "Rendered=True Conflicts: of 1 entry the parent's holds: see status.conflicts";
        Case::new(other).check([conflict, FOUND, UNUSED]);

        let unknown = Case::new(json!({"kubernetes": {"versions": [{"version": "1.29.0"}]}}));
        let status = unknown.status(&[], at(0));
        let rendered = &status.conditions[0];
        assert_eq!((rendered.status.as_str(), rendered.reason.as_str()), ("False", "Invalid"));
        assert!(rendered.message.starts_with("left out: spec.kubernetes.versions[1.29.0]"), "{}", rendered.message);
        assert_eq!(status.cloud_profile.as_ref().map(|one| &one.spec), Some(parent().spec()));
        unknown.check_written(&status);

        let mut going = Case::new(json!({}));
        going.is_going = true;
        let deleting =
            "ParentFound=True ParentDeleting: CloudProfile \"central\" is being deleted, and waits for this profile";
        going.check([WHOLE, deleting, UNUSED]);
    }

    #[test]
    fn without_a_parent_nothing_is_rendered() {
        let nothing = "Rendered=False ParentNotFound: there is nothing to render it over";
        let mut orphan = Case::new(json!({}));
        orphan.parent = None;
        let missing =
            "ParentFound=False ParentNotFound: there is no CloudProfile \"central\": create it, or delete this profile";
        orphan.check([nothing, missing, UNUSED]);
        assert_eq!(orphan.status(&[], at(0)).cloud_profile, None);

        let mut nested = Case::new(json!({}));
        nested.spec.parent =
            ParentRef { kind: Some("PrivateCloudProfile".to_owned()), name: "central".to_owned(), is_object: true };
        let unsupported = "ParentFound=False ParentNotSupported: PrivateCloudProfile \"central\" is no CloudProfile: \
                           multi-level inheritance is not supported";
        nested.check([nothing, unsupported, UNUSED]);
    }

    #[test]
    fn those_who_use_it_are_named_up_to_a_bound() {
        let mut used = Case::new(json!({}));
        used.shoots = vec![shoot("a", json!({})), shoot("b", json!({}))];
        used.check([WHOLE, FOUND, "InUse=True InUse: Shoots a, b"]);
        used.metadata.deletion_timestamp = Some(Time(at(0)));
        let blocked = "InUse=True DeletionBlocked: Shoots a, b; it goes once they are gone or use another profile";
        used.check([WHOLE, FOUND, blocked]);
        used.shoots = (0..25).map(|number| shoot(&format!("s{number:02}"), json!({}))).collect();
        assert!(used.status(&[], at(0)).conditions[2].message.contains("s18, s19 and 5 more; it goes"));
    }

    #[test]
    fn times_stay_where_the_status_does() {
        let mut case = Case::new(json!({}));
        let before = case.status(&[], at(0)).conditions;
        case.shoots = vec![shoot("a", json!({}))];
        let after = case.status(&before, at(9)).conditions;
        let times = |all: &[Condition]| all.iter().map(|one| one.last_transition_time.0).collect::<Vec<_>>();
        assert_eq!(times(&after), [at(0), at(0), at(9)]);
    }

    #[test]
    fn what_expired_and_is_used_and_what_was_removed_is_told() {
        let image =
            json!([{"name": "own", "versions": [{"version": "1.0.0", "expirationDate": "2020-01-01T00:00:00Z"}]}]);
        let mut case = Case::new(json!({"machineImages": image}));
        let worker = json!({"name": "w", "machine": {"type": "m", "image": {"name": "own", "version": "1.0.0"}}});
        case.shoots = vec![shoot("a", json!({"provider": {"type": "t", "workers": [worker]}}))];
        let gone = json!([{"path": "spec.kubernetes.versions[1.28.6]", "version": "1.28.6",
            "expiredAt": "2023-01-01T00:00:00Z", "removedAt": "2023-01-02T00:00:00Z"}]);
        case.metadata.annotations = Some(BTreeMap::from([(REMOVED_VERSIONS.to_owned(), gone.to_string())]));
        let status = case.status(&[], at(0));
        assert_eq!(json!(status.removed), gone);
        let in_use: Vec<_> = status.expired_in_use.iter().map(|one| (one.path.as_str(), &one.shoots[..])).collect();
        assert_eq!(in_use, [("spec.machineImages[own].versions[1.0.0]", &["a".to_owned()][..])]);
        case.check_written(&status);
        case.metadata.annotations = Some(BTreeMap::from([(REMOVED_VERSIONS.to_owned(), "[{".to_owned())]));
        assert_eq!(case.status(&[], at(0)).removed, []);
    }

    #[test]
    fn a_cloud_profile_tells_counts() {
        let check = |children, invalid, shoots, going: bool, expect: [&str; 2]| {
            let deletion_timestamp = going.then(|| Time(at(0)));
            let metadata = ObjectMeta { deletion_timestamp, ..ObjectMeta::default() };
            let view = CloudView {
                metadata: &metadata,
                generation: Some(1),
                conditions: &[],
                children,
                invalid,
                shoots,
                unread: 0,
                why_unread: None,
                now: at(0),
            };
            let status = cloud_status(&view);
            let said = |one: &Condition| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message);
            assert_eq!(status.conditions.iter().map(said).collect::<Vec<_>>(), expect);
        };
        let valid = "ChildrenValid=True AllGood: every private profile is rendered whole";
        check(0, 0, 0, true, ["InUse=False NotInUse: 0 private profiles, 0 Shoots", valid]);
        check(0, 0, 1, false, ["InUse=True InUse: 0 private profiles, 1 Shoots", valid]);
        check(
            2,
            1,
            0,
            true,
            [
                "InUse=True DeletionBlocked: 2 private profiles, 0 Shoots; it goes once they are gone or use another profile",
                "ChildrenValid=False Invalid: 1 of 2 private profiles are invalid",
            ],
        );
    }

    fn machine(number: usize, cpu: usize, padding: usize) -> Value {
        json!({"name": format!("m{number}-{}", "x".repeat(padding)), "cpu": cpu.to_string(), "gpu": "0", "memory": "8Gi"})
    }

    #[test]
    fn a_status_is_never_larger_than_an_object_may_be() {
        let check = |inherited: usize, added: usize, expect: &str| {
            let list =
                |from: usize, count: usize| (from..from + count).map(|at| machine(at, 2, 200)).collect::<Vec<_>>();
            let mut case = Case::new(json!({"machineTypes": list(100_000, added)}));
            let spec = json!({"type": "t", "machineTypes": list(0, inherited)});
            case.parent =
                Some(Parent::new("central", serde_json::from_value::<CloudProfileSpec>(spec).expect("a spec")));
            let status = case.status(&[], at(0));
            let object = json!({"metadata": case.metadata, "spec": case.spec, "status": status}).to_string();
            assert!(object.len() <= MOST_BYTES, "{inherited} and {added}: {} bytes", object.len());
            let said = &status.conditions[0];
            assert_eq!(format!("{}={} {}", said.type_, said.status, said.reason), expect, "{inherited} and {added}");
            assert_eq!(status.cloud_profile.is_some(), said.status == "True");
        };
        check(10, 10, "Rendered=True AllGood");
        check(5_200, 1, "Rendered=True AllGood");
        check(6_000, 1, "Rendered=False TooLarge");
        check(10, 2_500, "Rendered=True AllGood");
        check(10, 3_100, "Rendered=False TooLarge");
    }

    #[test]
    fn what_is_let_in_for_its_size_is_shown_whoever_uses_it() {
        let dated = |at: usize| json!({"version": format!("1.0.{at}"), "expirationDate": "2020-01-01T00:00:00Z"});
        let machines =
            |from: usize, count: usize| (from..from + count).map(|at| machine(at, 2, 200)).collect::<Vec<_>>();
        let expired: Vec<Value> = (0..100).map(dated).collect();
        let mut case = Case::new(json!({"machineImages": [{"name": "own", "versions": expired}]}));
        let worker = |at: usize| json!({"name": format!("w{at}"), "machine": {"type": "m", "image": {"name": "own", "version": format!("1.0.{at}")}}});
        let workers: Vec<Value> = (0..100).map(worker).collect();
        let spec = json!({"provider": {"type": "t", "workers": workers}});
        case.shoots = (0..20).map(|at| shoot(&format!("s{at:02}-{}", "x".repeat(200)), spec.clone())).collect();
        let mut sides = [0, 0];
        for inherited in (4_000..6_200).step_by(200) {
            let spec = json!({"type": "t", "machineTypes": machines(0, inherited)});
            let parent = Parent::new("central", serde_json::from_value::<CloudProfileSpec>(spec).expect("a spec"));
            let is_refused = lacks_room(&case.metadata, &case.spec, &parent).is_some();
            case.parent = Some(parent);
            let status = case.status(&[], at(0));
            assert_eq!(status.cloud_profile.is_none(), is_refused, "{inherited}");
            let object = json!({"metadata": case.metadata, "spec": case.spec, "status": status}).to_string();
            assert!(object.len() <= MOST_BYTES, "{inherited}: {} bytes", object.len());
            sides[usize::from(is_refused)] += 1;
        }
        assert!(sides.iter().all(|count| *count > 0), "{sides:?}");
    }

    #[test]
    fn of_many_conflicts_the_first_are_listed_and_all_counted() {
        let list = |cpu: usize| (0..500).map(|at| machine(at, cpu, 0)).collect::<Vec<_>>();
        let mut case = Case::new(json!({"machineTypes": list(4)}));
        let spec = json!({"type": "t", "machineTypes": list(2)});
        case.parent = Some(Parent::new("central", serde_json::from_value::<CloudProfileSpec>(spec).expect("a spec")));
        let status = case.status(&[], at(0));
        assert_eq!(status.conflicts.len(), MOST_CONFLICTS);
        let message = &status.conditions[0].message;
        assert_eq!(message, "of 500 entries the parent's holds: see status.conflicts for the first 100");
    }

    #[test]
    fn of_many_shoots_that_keep_a_version_the_first_are_named() {
        let own = json!({"machineImages": [{"name": "own", "versions": [{"version": "1.0.0", "expirationDate": "2020-01-01T00:00:00Z"}]}]});
        let mut case = Case::new(own);
        let machine = json!({"type": "m", "image": {"name": "own", "version": "1.0.0"}});
        let spec = json!({"provider": {"type": "t", "workers": [{"name": "w", "machine": machine}]}});
        case.shoots = (0..25).map(|number| shoot(&format!("s{number:02}"), spec.clone())).collect();
        let status = case.status(&[], at(0));
        let [kept] = status.expired_in_use.as_slice() else { panic!("{:?}", status.expired_in_use) };
        assert_eq!((kept.shoots.len(), kept.more_shoots), (20, Some(5)));
        case.shoots.truncate(20);
        assert_eq!(case.status(&[], at(0)).expired_in_use[0].more_shoots, None);
    }
}
