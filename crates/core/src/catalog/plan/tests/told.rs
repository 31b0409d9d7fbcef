//! What is told of a change that makes private profiles invalid.

use super::*;

#[test]
fn a_change_that_makes_private_profiles_invalid_is_told_to_each_and_counted_for_all() {
    let mut model = Model::default();
    model.create(CLOUD, parent_key(), json!({"type": "t", "kubernetes": {"versions": [version("1.30.1", Some(5))]}}));
    for namespace in ["one", "two"] {
        let spec = json!({"parent": "central", "kubernetes": {"versions": [version("1.30.1", Some(9))]}});
        model.create(PRIVATE, ObjectKey::new(namespace, "own"), spec);
    }
    model.settle(at(0));
    assert_eq!(model.events, [""; 0]);
    model.update(CLOUD, &parent_key(), |object| {
        object["spec"]["kubernetes"]["versions"] = json!([version("1.31.0", None)]);
    });
    model.settle(at(1));
    let of_child = |told: &&String| {
        told.starts_with(
            "some of it is wrong under what its CloudProfile is now: left out: spec.kubernetes.versions[1.30.1]",
        )
    };
    assert_eq!(model.events.iter().filter(of_child).count(), 2, "{:?}", model.events);
    let counts: Vec<&String> = model.events.iter().filter(|told| !of_child(told)).collect();
    assert_eq!(counts.last().map(|told| told.as_str()), Some("2 of 2 private profiles are invalid"));
    assert!(counts.iter().all(|told| !told.contains("own") && !told.contains("one")), "no names: {counts:?}");
    // What gets better is not told, nor what stays.
    model.events.clear();
    model.update(PRIVATE, &ObjectKey::new("two", "own"), |object| object["spec"] = json!({"parent": "central"}));
    model.settle(at(2));
    assert_eq!(model.events, [""; 0]);
}
