//! Objects that cannot be read, among others that can.

use super::*;

const OWN: &str = "own";

/// A parent whose versions go, a private profile with an image of its own, and another one in the next namespace.
fn model() -> Model {
    let mut model = Model::default();
    let image = |name: &str, day| json!([{"name": name, "versions": [version("1.0.0", Some(day))]}]);
    model.create(CLOUD, parent_key(), json!({"type": "t", "machineImages": image("linux", 2)}));
    model.update(CLOUD, &parent_key(), |object| {
        object["metadata"]["annotations"] = json!({REMOVE_EXPIRED_VERSIONS: "true"});
    });
    model.create(CLOUD, ObjectKey::cluster_wide("other"), json!({"type": "t", "machineImages": image(OWN, 9)}));
    for namespace in ["one", "two"] {
        let spec = json!({"parent": "central", "machineImages": image(OWN, 1)});
        model.create(PRIVATE, ObjectKey::new(namespace, OWN), spec);
    }
    model
}

fn own() -> ObjectKey {
    ObjectKey::new("one", OWN)
}

fn has_own_image(model: &Model, namespace: &str) -> bool {
    !model.objects[&(PRIVATE.to_owned(), ObjectKey::new(namespace, OWN))]["spec"]["machineImages"].is_null()
}

fn has_image(model: &Model) -> bool {
    !model.objects[&(CLOUD.to_owned(), parent_key())]["spec"]["machineImages"].is_null()
}

/// A condition as `Type=Status Reason: message`.
#[track_caller]
fn check(model: &Model, kind: &str, key: &ObjectKey, condition: &str, expect: &str) {
    let conditions = &model.objects[&(kind.to_owned(), key.clone())]["status"]["conditions"];
    let said = conditions.as_array().expect("conditions").iter().find(|one| one["type"] == condition);
    let said = said.unwrap_or_else(|| panic!("no {condition} in {conditions}"));
    let text = |member: &str| said[member].as_str().unwrap_or_default().to_owned();
    assert_eq!(format!("{}={} {}: {}", condition, text("status"), text("reason"), text("message")), expect);
}

#[test]
fn a_shoot_that_cannot_be_read_keeps_all_that_it_may_use() {
    let spec = shoot_spec(PRIVATE, OWN, OWN, "1.0.0");
    let with = |member: &str, value: Value| {
        let mut spec = spec.clone();
        spec[member] = value;
        spec
    };
    // Of one it is known which profile it uses, of the others not.
    for (odd, is_known) in [
        (with("kubernetes", json!(5)), true),
        (with("cloudProfile", json!(5)), false),
        (with("cloudProfileName", json!([])), false),
        (json!("text"), false),
    ] {
        let mut model = model();
        model.create(SHOOT, ObjectKey::new("one", "s"), odd.clone());
        model.settle(at(0));
        model.settle(at(3));
        assert!(has_own_image(&model, "one"), "{odd}");
        assert!(!has_own_image(&model, "two"), "it is of another namespace: {odd}");
        assert!(has_image(&model), "it may use that as well: {odd}");
        model.delete(PRIVATE, &own(), at(4));
        model.delete(CLOUD, &parent_key(), at(4));
        model.settle(at(4));
        let waits = "Shoots s (cannot be read); it goes once they are gone or use another profile";
        check(&model, PRIVATE, &own(), "InUse", &format!("InUse=True DeletionBlocked: {waits}"));
        let counts = "2 private profiles, 1 Shoots; 1 of these cannot be read, and may use it";
        let waits = format!("{counts}; it goes once they are gone or use another profile");
        check(&model, CLOUD, &parent_key(), "InUse", &format!("InUse=True DeletionBlocked: {waits}"));
        // Once it is put right, nothing else is held up.
        model.update(SHOOT, &ObjectKey::new("one", "s"), |object| {
            object["spec"] = shoot_spec(CLOUD, "other", OWN, "1.0.0");
        });
        model.settle(at(5));
        assert_eq!(model.keys(PRIVATE), [ObjectKey::new("two", OWN)], "{odd}");
        assert_eq!(is_known, odd["cloudProfile"]["name"].is_string() && odd["cloudProfileName"].is_null());
    }
}

#[test]
fn a_shoot_that_cannot_be_read_holds_up_nothing_that_it_does_not_name() {
    let mut model = model();
    let mut spec = shoot_spec(CLOUD, "other", OWN, "1.0.0");
    spec["region"] = json!({});
    model.create(SHOOT, ObjectKey::new("one", "s"), spec);
    model.settle(at(3));
    assert!(!has_own_image(&model, "one") && !has_image(&model));
    model.delete(PRIVATE, &own(), at(4));
    model.settle(at(4));
    assert_eq!(model.keys(PRIVATE), [ObjectKey::new("two", OWN)]);
}

#[test]
fn a_private_profile_that_cannot_be_read_says_so_and_holds_its_parent() {
    for odd in [json!({"parent": 5}), json!({"parent": "central", "machineTypes": {}})] {
        let mut model = model();
        model.update(PRIVATE, &own(), |object| object["spec"] = odd.clone());
        model.create(SHOOT, ObjectKey::new("one", "s"), shoot_spec(PRIVATE, OWN, OWN, "1.0.0"));
        model.settle(at(3));
        let key = |name: &str| model.objects[&(PRIVATE.to_owned(), own())]["spec"][name].clone();
        assert_eq!(key("parent"), odd["parent"], "it is left as it is");
        let why = match odd["parent"].is_string() {
            true => "spec.machineTypes: invalid type: map, expected a sequence",
            false => {
                "spec.parent: invalid type: integer `5`, expected the name of a CloudProfile, or an object with kind and name"
            }
        };
        let said = format!("it cannot be read: {why}; nothing follows from it until that is put right");
        check(&model, PRIVATE, &own(), "Rendered", &format!("Rendered=False Unreadable: {said}"));
        check(&model, PRIVATE, &own(), "ParentFound", &format!("ParentFound=Unknown Unreadable: {said}"));
        check(&model, PRIVATE, &own(), "InUse", "InUse=True InUse: Shoots s");
        assert!(model.events.contains(&said), "{:?}", model.events);
        assert!(!has_own_image(&model, "two") && has_image(&model), "it may extend the parent's: {odd}");
        model.delete(PRIVATE, &ObjectKey::new("two", OWN), at(4));
        model.delete(CLOUD, &parent_key(), at(4));
        model.settle(at(4));
        let counts = "1 private profiles, 1 Shoots; 1 of these cannot be read, and may use it";
        let waits = format!("{counts}; it goes once they are gone or use another profile");
        check(&model, CLOUD, &parent_key(), "InUse", &format!("InUse=True DeletionBlocked: {waits}"));
        // It waits for its own users as any other.
        model.delete(PRIVATE, &own(), at(4));
        model.settle(at(4));
        assert_eq!(model.keys(PRIVATE), [own()]);
        model.delete(SHOOT, &ObjectKey::new("one", "s"), at(5));
        model.settle(at(5));
        assert_eq!(model.keys(PRIVATE), []);
        assert_eq!(model.keys(CLOUD), [ObjectKey::cluster_wide("other")]);
    }
}

#[test]
fn a_private_profile_is_rendered_as_soon_as_it_is_put_right() {
    let mut model = model();
    model.update(PRIVATE, &own(), |object| object["spec"] = json!({"parent": 5}));
    model.settle(at(0));
    model.update(PRIVATE, &own(), |object| object["spec"] = json!({"parent": "central"}));
    model.settle(at(0));
    check(&model, PRIVATE, &own(), "Rendered", "Rendered=True AllGood: all of it is rendered");
    model.check_settled();
}

#[test]
fn of_a_cloud_profile_that_cannot_be_read_children_say_so_until_it_is_put_right() {
    let mut model = model();
    model.settle(at(0));
    let spec = model.objects[&(CLOUD.to_owned(), parent_key())]["spec"].clone();
    model.update(CLOUD, &parent_key(), |object| object["spec"]["regions"] = json!("here"));
    model.settle(at(3));
    let why = "it cannot be read: spec.regions: invalid type: string \"here\", expected a sequence; nothing follows from it until \
         that is put right";
    check(&model, CLOUD, &parent_key(), "ChildrenValid", &format!("ChildrenValid=Unknown Unreadable: {why}"));
    check(&model, CLOUD, &parent_key(), "InUse", "InUse=True InUse: 2 private profiles, 0 Shoots");
    let found = "CloudProfile \"central\" is there and cannot be read: ask an operator of the platform to put it right";
    check(&model, PRIVATE, &own(), "ParentFound", &format!("ParentFound=False ParentUnreadable: {found}"));
    let rendered = "Rendered=False ParentUnreadable: there is nothing to render it over";
    check(&model, PRIVATE, &own(), "Rendered", rendered);
    assert!(has_own_image(&model, "one"), "without its parent nothing expires");
    model.update(CLOUD, &parent_key(), |object| object["spec"] = spec);
    model.settle(at(0));
    model.check_settled();
    check(&model, PRIVATE, &own(), "ParentFound", "ParentFound=True AllGood: CloudProfile \"central\" is there");
}
