//! What holds for every parent and every private profile.

use std::sync::Arc;

use allotment_api::catalog::{
    CloudProfile, CloudProfileSpec, Date, FINALIZER, KeptProfile, KeptStatus, PrivateCloudProfileSpec, RenderedProfile,
};
use allotment_core::catalog::{
    Catalog, Change, Offer, Parent, ProfileKey, ProfilePlan, VersionKey, decide_profile, diff, expire_private_profile,
    later, needed, render, settled, validate_cloud_profile, validate_private_profile,
};
use allotment_core::write::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

use super::{at, create};

const NOW: &str = "2026-06-01T00:00:00Z";

/// Years around [`NOW`], or no date.
fn date() -> impl Strategy<Value = Option<String>> {
    proptest::option::of((2024..2030).prop_map(|year: i32| format!("{year}-01-01T00:00:00Z")))
}

fn put(mut value: Value, name: &str, member: Option<impl Into<Value>>) -> Value {
    if let Some(member) = member {
        value[name] = member.into();
    }
    value
}

fn named(names: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(names, 0..=most.min(names.len())).prop_shuffle()
}

fn versions(names: &'static [&'static str], is_image: bool) -> impl Strategy<Value = Vec<Value>> {
    let one = (date(), subsequence(vec!["amd64", "arm64"], 0..=2));
    (named(names, names.len()), proptest::collection::vec(one, names.len())).prop_map(move |(names, rest)| {
        let entry = |(name, (date, architectures)): (&str, (Option<String>, Vec<&str>))| {
            let architectures = (is_image && !architectures.is_empty()).then(|| json!(architectures));
            put(put(json!({"version": name}), "expirationDate", date), "architectures", architectures)
        };
        names.into_iter().zip(rest).map(entry).collect()
    })
}

fn images() -> impl Strategy<Value = Vec<Value>> {
    let one = versions(&["1", "2.0", "18.04.1"], true);
    (named(&["suse", "flat", "own"], 3), proptest::collection::vec(one, 3)).prop_map(|(names, versions)| {
        let images = names.into_iter().zip(versions).filter(|(_, versions)| !versions.is_empty());
        images.map(|(name, versions)| json!({"name": name, "versions": versions})).collect()
    })
}

fn machine_types() -> impl Strategy<Value = Vec<Value>> {
    let one = (subsequence(vec!["4", "4000m", "2"], 1), proptest::option::of(any::<bool>()));
    (named(&["a", "b", "c", "d"], 4), proptest::collection::vec(one, 4)).prop_map(|(names, rest)| {
        let entry = |(name, (cpu, usable)): (&str, (Vec<&str>, Option<bool>))| {
            put(json!({"name": name, "cpu": cpu[0], "memory": "8Gi"}), "usable", usable)
        };
        names.into_iter().zip(rest).map(entry).collect()
    })
}

fn regions() -> impl Strategy<Value = Vec<Value>> {
    let zones = (named(&["za", "zb", "zc"], 3), subsequence(vec!["a", "b"], 0..=2)).prop_map(|(names, lacks)| {
        let zone = |name| json!({"name": name, "unavailableMachineTypes": lacks});
        names.into_iter().map(zone).collect::<Vec<Value>>()
    });
    (named(&["r", "s", "t"], 3), proptest::collection::vec(zones, 3)).prop_map(|(names, zones)| {
        let region = |(name, zones): (&str, Vec<Value>)| json!({"name": name, "zones": zones});
        names.into_iter().zip(zones).map(region).collect()
    })
}

/// The entries that either profile may have.
fn entries() -> impl Strategy<Value = Value> {
    let kubernetes = versions(&["1.30.1", "1.30.2", "1.31.0"], false);
    let limit = proptest::option::of(1..100i32);
    (kubernetes, images(), machine_types(), regions(), limit).prop_map(|(kubernetes, images, types, regions, limit)| {
        let spec = json!({"kubernetes": {"versions": kubernetes}, "machineImages": images, "machineTypes": types,
            "regions": regions});
        put(spec, "limits", limit.map(|most| json!({"maxNodesTotal": most})))
    })
}

fn parent() -> impl Strategy<Value = Parent> {
    entries().prop_map(|spec| {
        let spec = put(put(spec, "type", Some("t")), "providerConfig", Some(json!({"kept": [1, "x"]})));
        Parent::new("central", serde_json::from_value(spec).expect("a profile"))
    })
}

fn private() -> impl Strategy<Value = PrivateCloudProfileSpec> {
    entries().prop_map(|spec| serde_json::from_value(put(spec, "parent", Some("central"))).expect("a profile"))
}

fn dates(spec: &CloudProfileSpec) -> Vec<(VersionKey<'_>, Option<&Date>)> {
    let kubernetes = spec.kubernetes.iter().flat_map(|kubernetes| &kubernetes.versions);
    let kubernetes = kubernetes.map(|one| (VersionKey::Kubernetes(&one.version), one.expiration_date.as_ref()));
    let images = spec.machine_images.iter().flat_map(|image| {
        image.versions.iter().map(|one| (VersionKey::Image(&image.name, &one.version), one.expiration_date.as_ref()))
    });
    kubernetes.chain(images).collect()
}

/// The private profile with all lists the other way round.
fn reversed(private: &PrivateCloudProfileSpec) -> PrivateCloudProfileSpec {
    let mut value = serde_json::to_value(private).expect("JSON");
    for list in ["machineImages", "machineTypes", "regions"] {
        if let Some(list) = value.get_mut(list).and_then(Value::as_array_mut) {
            list.reverse();
        }
    }
    serde_json::from_value(value).expect("a profile")
}

fn set_parent(catalog: &mut Catalog, parent: &Parent) {
    let offer = Offer::new(CloudProfile::new(parent.name(), parent.spec().clone()));
    catalog.set_profile(parent.name(), Some(Arc::new(offer)));
}

fn set_private(catalog: &mut Catalog, generation: i64, spec: &PrivateCloudProfileSpec, status: KeptStatus) {
    let metadata = ObjectMeta {
        name: Some("p".to_owned()),
        namespace: Some("team".to_owned()),
        generation: Some(generation),
        finalizers: Some(vec![FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    };
    let profile = KeptProfile { metadata, spec: spec.clone(), status };
    catalog.set_private(&ObjectKey::new("team", "p"), Some(Arc::new(profile)));
}

/// The status of the private profile once nothing is left to be done about it; before any of its dates.
fn decided(catalog: &mut Catalog) -> KeptStatus {
    let key = ObjectKey::new("team", "p");
    for _ in 0..3 {
        let plan = decide_profile(catalog, &ProfileKey::Private(key.clone()), at("2020-01-01T00:00:00Z"));
        let known = catalog.private(&key).expect("it is there").clone();
        match plan {
            ProfilePlan::Done { .. } => return known.status.clone(),
            ProfilePlan::WriteStatus { write, .. } => {
                set_private(catalog, known.metadata.generation.unwrap_or(0), &known.spec, write.kept);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it comes to no end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_added_renders_to_the_parent(parent in parent()) {
        let rendered = render(&parent, &PrivateCloudProfileSpec::default());
        prop_assert_eq!(&rendered.spec, parent.spec());
        prop_assert_eq!((rendered.conflicts.len(), rendered.faults.len()), (0, 0));
    }

    #[test]
    fn rendering_again_over_what_was_rendered_changes_nothing(parent in parent(), private in private()) {
        let once = render(&parent, &private);
        prop_assert_eq!(&render(&parent, &private), &once, "it depends on nothing else");
        let twice = render(&Parent::new("central", once.spec.clone()), &private);
        prop_assert_eq!(&twice.spec, &once.spec);
        prop_assert_eq!(&twice.conflicts, &once.conflicts, "what was added is no conflict with itself");
        // And by way of the text that is stored.
        let stored = serde_json::to_vec(&RenderedProfile::new("p", once.spec.clone())).expect("JSON");
        let read: RenderedProfile = serde_json::from_slice(&stored).expect("a profile");
        prop_assert_eq!(read.spec, once.spec);
    }

    #[test]
    fn what_is_rendered_differs_by_what_is_added_and_by_dates_and_limits(parent in parent(), private in private()) {
        prop_assert_eq!(diff(parent.spec(), parent.spec()), []);
        let rendered = render(&parent, &private).spec;
        let differences = diff(parent.spec(), &rendered);
        prop_assert_eq!(differences.is_empty(), &rendered == parent.spec());
        for one in &differences {
            let is_changed = one.path.ends_with(".expirationDate") || one.path == "spec.limits.maxNodesTotal";
            match one.change {
                Change::Added { .. } => prop_assert!(one.path.ends_with(']') || is_changed, "{}", one.path),
                Change::Changed { .. } => prop_assert!(is_changed, "{}", one.path),
                Change::Removed { .. } => prop_assert!(false, "{} is gone", one.path),
            }
        }
        // Nothing is told twice.
        let paths: std::collections::BTreeSet<&str> = differences.iter().map(|one| one.path.as_str()).collect();
        prop_assert_eq!(paths.len(), differences.len());
        // What was read from texts shares nothing, and differs in the same.
        let again: CloudProfileSpec = serde_json::from_value(serde_json::to_value(&rendered).expect("JSON")).expect("a profile");
        prop_assert_eq!(diff(parent.spec(), &again), differences);
    }

    #[test]
    fn a_rendered_profile_is_always_valid(parent in parent(), private in private()) {
        prop_assert_eq!(validate_cloud_profile(parent.spec(), None, at(NOW)).errors, []);
        prop_assert_eq!(validate_cloud_profile(&render(&parent, &private).spec, None, at(NOW)).errors, []);
    }

    #[test]
    fn every_entry_of_the_parent_stands_where_it_stood_and_no_date_is_shortened(parent in parent(), private in private()) {
        let rendered = render(&parent, &private).spec;
        let after: std::collections::BTreeMap<_, _> = dates(&rendered).into_iter().collect();
        for (key, own) in dates(parent.spec()) {
            let date = *after.get(&key).expect("it is still there");
            prop_assert_eq!(later(own, date), date, "{}", key);
            prop_assert!(own.is_some() || date.is_none(), "{key} has a date that the parent has not");
        }
        let own = parent.spec();
        prop_assert!(rendered.machine_types.starts_with(&own.machine_types));
        for (own, rendered) in own.regions.iter().zip(&rendered.regions) {
            prop_assert_eq!(&own.name, &rendered.name);
            prop_assert!(rendered.zones.starts_with(&own.zones));
        }
        for (own, rendered) in own.machine_images.iter().zip(&rendered.machine_images) {
            let names = |image: &allotment_api::catalog::MachineImage| {
                image.versions.iter().map(|one| one.version.clone()).collect::<Vec<_>>()
            };
            prop_assert!(names(rendered).starts_with(&names(own)));
        }
    }

    #[test]
    fn conflicts_do_not_depend_on_the_order_of_what_is_added(parent in parent(), private in private()) {
        let (one, other) = (render(&parent, &private), render(&parent, &reversed(&private)));
        prop_assert_eq!(&one.conflicts, &other.conflicts);
        prop_assert!(one.conflicts.is_sorted());
        prop_assert_eq!(one.faults.len(), other.faults.len());
    }

    #[test]
    fn it_makes_no_difference_which_of_two_was_first(
        before in parent(), after in parent(), had in private(), has in private(),
    ) {
        let status = |is_parent_first: bool| {
            let mut catalog = Catalog::default();
            set_parent(&mut catalog, &before);
            set_private(&mut catalog, 1, &had, KeptStatus::default());
            for is_parent in [is_parent_first, !is_parent_first] {
                let was = decided(&mut catalog);
                match is_parent {
                    true => set_parent(&mut catalog, &after),
                    false => set_private(&mut catalog, 2, &has, was),
                }
            }
            decided(&mut catalog)
        };
        let first = status(true);
        prop_assert_eq!(first.observed_generation, Some(2));
        prop_assert_eq!(first, status(false));
    }

    #[test]
    fn what_expired_goes_once_and_what_is_left_renders_without_it(parent in parent(), private in private()) {
        let expiry = expire_private_profile(&private, &parent, |_, _| Vec::new(), at(NOW));
        let left = expiry.spec.clone().unwrap_or_else(|| private.clone());
        let again = expire_private_profile(&left, &parent, |_, _| Vec::new(), at(NOW));
        prop_assert_eq!((again.spec, again.removed.len(), again.next), (None, 0, expiry.next));
        prop_assert!(expiry.next.is_none_or(|next| next > at(NOW)));
        // The manifest that is applied again comes to what is left, and needs no verb.
        let mut write = create(&parent, NOW);
        write.old = Some(&left);
        write.removed = &expiry.removed;
        let applied = settled(&private, &write).unwrap_or_else(|| private.clone());
        let was = settled(&left, &write).unwrap_or_else(|| left.clone());
        prop_assert_eq!(needed(Some(&was), &applied), []);
        let faults = validate_private_profile(&applied, &write).errors;
        let in_the_past = faults.iter().find(|error| error.to_string().contains("in the past"));
        prop_assert_eq!(in_the_past, None);
    }
}
