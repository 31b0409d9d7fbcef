//! What of a private profile's status is written: not what it is rendered to, where that stays.

use super::*;

fn own() -> ObjectKey {
    ObjectKey::new("one", "own")
}

/// A private profile at rest; one of its entries is its parent's, and differs.
fn at_rest() -> Model {
    let mut model = Model::default();
    let machine = |cpu: &str| json!({"name": "m", "cpu": cpu, "gpu": "0", "memory": "8Gi"});
    let images = json!([{"name": "linux", "versions": [version("1.0.0", None)]}]);
    let versions = json!([version("1.31.0", None)]);
    let spec = json!({"type": "t", "machineTypes": [machine("2")], "machineImages": images, "kubernetes": {"versions": versions}});
    model.create(CLOUD, parent_key(), spec);
    model.create(PRIVATE, own(), json!({"parent": "central", "machineTypes": [machine("4")]}));
    model.settle(at(0));
    model
}

fn status(model: &Model) -> Value {
    model.read::<Value>(PRIVATE, &own()).expect("it is there")["status"].clone()
}

/// Carries out what a change leads to, which is one status; whether that was a patch without what is rendered.
fn check(model: &mut Model, change: &str, is_patch: bool) {
    let plan = decide_profile(&model.catalog(), &ProfileKey::Private(own()), at(1));
    let ProfilePlan::WriteStatus { write, .. } = &plan else { panic!("{change}: {plan:?}") };
    match &write.body {
        StatusBody::Whole(object) => assert!(!is_patch && object.contains("\"cloudProfile\":{"), "{change}: {object}"),
        StatusBody::AllButRendered(patch) => assert!(is_patch && !patch.contains("cloudProfile"), "{change}: {patch}"),
    }
    model.carry_out(&plan);
    model.settle(at(1));
    model.check_settled();
}

#[test]
fn a_shoot_that_comes_is_written_without_what_is_rendered_and_a_change_of_that_with_it() {
    let mut model = at_rest();
    let before = status(&model);
    model.create(SHOOT, ObjectKey::new("one", "s"), shoot_spec(PRIVATE, "own", "linux", "1.0.0"));
    check(&mut model, "a Shoot comes", true);
    let after = status(&model);
    assert_eq!(after["cloudProfile"], before["cloudProfile"]);
    assert_ne!(after["conditions"], before["conditions"]);
    assert_eq!(after["conditions"].as_array().map(Vec::len), Some(3), "a list is written whole: {after}");
    model.update(CLOUD, &parent_key(), |object| object["spec"]["volumeTypes"] = json!([{"name": "v", "class": "c"}]));
    check(&mut model, "the parent has more", false);
    assert!(status(&model)["cloudProfile"].to_string().contains("volumeTypes"));
}

#[test]
fn what_becomes_empty_goes_although_the_rest_is_patched() {
    let mut model = at_rest();
    assert_eq!(status(&model)["conflicts"].as_array().map(Vec::len), Some(1));
    model.update(PRIVATE, &own(), |object| object["spec"] = json!({"parent": "central"}));
    check(&mut model, "nothing differs any more", true);
    assert_eq!(status(&model).get("conflicts"), None);
}

#[test]
fn a_status_that_was_wiped_or_altered_is_written_whole() {
    let mut model = at_rest();
    let before = status(&model);
    type Harm = (&'static str, fn(&mut Value));
    let harms: [Harm; 4] = [
        ("no status", |object| drop(object.as_object_mut().expect("an object").remove("status"))),
        ("an empty one", |object| object["status"] = json!({})),
        ("nothing rendered", |object| object["status"]["cloudProfile"] = Value::Null),
        ("something else", |object| object["status"]["cloudProfile"]["spec"]["type"] = json!("other")),
    ];
    for (what, harm) in harms {
        model.update(PRIVATE, &own(), harm);
        check(&mut model, what, false);
        assert_eq!(status(&model)["cloudProfile"], before["cloudProfile"], "{what}");
    }
}
