//! The index against a search through all that there is.

use std::collections::BTreeMap;

use allotment_api::catalog::{CloudProfileReference, ParentRef, PrivateCloudProfileSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn private(parent: &str, reason: Option<CatalogReason>) -> Arc<KeptProfile> {
    let spec = PrivateCloudProfileSpec { parent: ParentRef::named(parent), ..PrivateCloudProfileSpec::default() };
    let rendered = reason.map(|reason| Condition {
        type_: ConditionType::Rendered.as_str().to_owned(),
        status: "False".to_owned(),
        reason: reason.as_str().to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    });
    let status = KeptStatus { conditions: rendered.into_iter().collect(), ..KeptStatus::default() };
    Arc::new(KeptProfile { spec, status, ..KeptProfile::default() })
}

fn shoot(key: &ObjectKey, kind: &str, name: &str) -> Arc<KeptShoot> {
    let cloud_profile = Some(CloudProfileReference { kind: Some(kind.to_owned()), name: name.to_owned() });
    let mut shoot = Shoot::new(&key.name, ShootSpec { cloud_profile, ..ShootSpec::default() });
    shoot.metadata.namespace = Some(key.namespace.clone());
    Arc::new(KeptShoot::read(&shoot))
}

/// What becomes of one of few objects.
#[derive(Clone, Debug)]
enum Change {
    Private(u8, Option<(u8, Option<CatalogReason>)>),
    /// It cannot be read; perhaps its parent can.
    UnreadPrivate(u8, Option<u8>),
    Shoot(u8, Option<(bool, u8)>),
    /// It cannot be read; perhaps its profile can.
    UnreadShoot(u8, Option<(bool, u8)>),
}

fn reason() -> impl Strategy<Value = CatalogReason> {
    use CatalogReason::{Invalid, ParentNotFound, TooLarge};
    prop::sample::select(vec![Invalid, TooLarge, ParentNotFound])
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..4_u8, prop::option::of((0..3_u8, prop::option::of(reason()))))
            .prop_map(|(key, parent)| Change::Private(key, parent)),
        (0..4_u8, prop::option::of(0..3_u8)).prop_map(|(key, parent)| Change::UnreadPrivate(key, parent)),
        (0..6_u8, prop::option::of((any::<bool>(), 0..4_u8))).prop_map(|(key, uses)| Change::Shoot(key, uses)),
        (0..6_u8, prop::option::of((any::<bool>(), 0..4_u8))).prop_map(|(key, uses)| Change::UnreadShoot(key, uses)),
    ]
}

/// Two namespaces, with the same names in both.
fn key(number: u8) -> ObjectKey {
    ObjectKey::new(format!("n{}", number % 2), format!("o{}", number / 2))
}

/// The profile that a Shoot of that key names: a private one of its namespace, or one for everybody.
fn named(at: &ObjectKey, (is_private, of): (bool, u8)) -> (&'static str, String, ProfileKey) {
    match is_private {
        true => {
            let name = format!("o{}", of / 2);
            let key = ObjectKey::new(at.namespace.clone(), name.clone());
            ("PrivateCloudProfile", name, ProfileKey::Private(key))
        }
        false => ("CloudProfile", format!("p{of}"), ProfileKey::Cloud(format!("p{of}"))),
    }
}

fn unread(at: &ObjectKey, spec: serde_json::Value) -> Unread {
    let name = (Some(at.namespace.clone()), Some(at.name.clone()));
    let metadata = ObjectMeta { namespace: name.0, name: name.1, ..ObjectMeta::default() };
    Unread { metadata, spec, status: Default::default(), why: "spec.odd: is odd".to_owned() }
}

/// Whether a private profile can be read, whether it is rendered whole, and its parent.
type Parented = (bool, bool, Option<String>);

/// What is so after changes: of each private profile its parent, of each Shoot its profile, where these are known.
#[derive(Default)]
struct Model {
    unread_shoots: BTreeSet<ObjectKey>,
    parents: BTreeMap<ObjectKey, Parented>,
    uses: BTreeMap<ObjectKey, Option<ProfileKey>>,
}

impl Model {
    fn take(&mut self, catalog: &mut Catalog, change: Change) {
        if let Change::Shoot(number, _) | Change::UnreadShoot(number, _) = &change {
            self.unread_shoots.remove(&key(*number));
        }
        match change {
            Change::Private(number, None) => {
                catalog.set_private(&key(number), None);
                self.parents.remove(&key(number));
            }
            Change::Private(number, Some((parent, reason))) => {
                let parent = format!("p{parent}");
                catalog.set_private(&key(number), Some(private(&parent, reason)));
                let is_whole = !matches!(reason, Some(CatalogReason::Invalid | CatalogReason::TooLarge));
                self.parents.insert(key(number), (true, is_whole, Some(parent)));
            }
            Change::UnreadPrivate(number, parent) => {
                let parent = parent.map(|parent| format!("p{parent}"));
                let spec =
                    parent.as_ref().map_or(json!({"parent": 5}), |parent| json!({"parent": parent, "limits": 5}));
                let profile = UnreadProfile::read(unread(&key(number), spec));
                catalog.set_unread_private(&key(number), Arc::new(profile));
                self.parents.insert(key(number), (false, false, parent));
            }
            Change::Shoot(number, None) => {
                catalog.set_shoot(&key(number), None);
                self.uses.remove(&key(number));
            }
            Change::Shoot(number, Some(uses)) => {
                let (kind, name, profile) = named(&key(number), uses);
                catalog.set_shoot(&key(number), Some(shoot(&key(number), kind, &name)));
                self.uses.insert(key(number), Some(profile));
            }
            Change::UnreadShoot(number, uses) => {
                let named = uses.map(|uses| named(&key(number), uses));
                let spec = named.as_ref().map_or(
                    json!({"cloudProfile": 5}),
                    |(kind, name, _)| json!({"cloudProfile": {"kind": kind, "name": name}, "kubernetes": 5}),
                );
                let shoot = KeptShoot::unread(&unread(&key(number), spec));
                catalog.set_shoot(&key(number), Some(Arc::new(shoot)));
                self.unread_shoots.insert(key(number));
                self.uses.insert(key(number), named.map(|(_, _, profile)| profile));
            }
        }
    }

    /// The private profiles that are on that parent, or may be.
    fn children(&self, parent: &str, is_read: bool) -> Vec<&ObjectKey> {
        let of = |own: &Option<String>| own.as_deref().is_none_or(|own| own == parent);
        let of = |(read, _, own): &Parented| *read == is_read && of(own);
        self.parents.iter().filter(|(_, parented)| of(parented)).map(|(key, _)| key).collect()
    }

    fn shoots(&self, may: impl Fn(&ObjectKey, Option<&ProfileKey>) -> bool) -> Vec<&ObjectKey> {
        self.uses.iter().filter(|(key, profile)| may(key, profile.as_ref())).map(|(key, _)| key).collect()
    }
}

fn sorted<'a, T>(found: impl Iterator<Item = (&'a ObjectKey, T)>) -> Vec<&'a ObjectKey> {
    let mut found: Vec<_> = found.map(|(key, _)| key).collect();
    found.sort();
    found
}

proptest! {
    #[test]
    fn the_index_says_what_a_search_would_find(changes in prop::collection::vec(change(), 0..40)) {
        let (mut catalog, mut model) = (Catalog::default(), Model::default());
        changes.into_iter().for_each(|change| model.take(&mut catalog, change));
        for parent in ["p0", "p1", "p2", "p3"] {
            let (children, unread) = (model.children(parent, true), model.children(parent, false));
            prop_assert_eq!(catalog.children(parent).map(|(key, _)| key).collect::<Vec<_>>(), children.clone());
            prop_assert_eq!(sorted(catalog.unread_children(parent)), unread.clone());
            let in_family = |_: &ObjectKey, profile: Option<&ProfileKey>| match profile {
                None => true,
                Some(ProfileKey::Cloud(name)) => name == parent,
                Some(ProfileKey::Private(key)) => children.contains(&key) || unread.contains(&key),
            };
            let expect = model.shoots(in_family);
            let is_invalid = |(_, is_whole, of): &&Parented| !is_whole && of.as_deref() == Some(parent);
            let unread_shoots = expect.iter().filter(|key| model.unread_shoots.contains(**key)).count();
            prop_assert_eq!(catalog.uses_of(parent), Uses {
                children: children.len() + unread.len(),
                invalid: model.parents.values().filter(is_invalid).count(),
                shoots: expect.len(),
                unread: unread.len() + unread_shoots,
            });
            prop_assert_eq!(sorted(catalog.shoots_of_family(parent)), expect);
            let cloud = ProfileKey::Cloud(parent.to_owned());
            let expect = model.shoots(|_, profile| profile.is_none_or(|profile| *profile == cloud));
            prop_assert_eq!(sorted(catalog.shoots_on(&cloud)), expect);
        }
        for own in (0..4).map(key) {
            let profile = ProfileKey::Private(own.clone());
            let may = |at: &ObjectKey, named: Option<&ProfileKey>| {
                named.map_or(at.namespace == own.namespace, |named| *named == profile)
            };
            prop_assert_eq!(sorted(catalog.shoots_on(&profile)), model.shoots(may));
        }
    }
}
