//! Rules of object metadata: what is refused on create and on update, and in which words.

use super::*;
use crate::json;

fn map(value: Value) -> Map {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

fn shown(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn create(metadata: Value, expect: &[&str]) {
    assert_eq!(shown(&validate_create(&map(metadata), true, NameRule::Subdomain)), expect);
}

#[test]
fn a_good_object_may_be_created() {
    create(
        json!({
            "name": "a.b", "namespace": "n", "generateName": "a-", "generation": 3,
            "labels": {"example.com/a": "", "b": null}, "annotations": {"Example.com/A": "anything\n"},
            "finalizers": ["example.com/a", "example.com/a", "orphan"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "K", "name": "o", "uid": "u", "controller": true}],
            "managedFields": [{"manager": "kubectl é", "operation": "Apply", "fieldsType": "FieldsV1"}]
        }),
        &[],
    );
    create(json!({"name": "a", "namespace": "n", "labels": null, "annotations": null}), &[]);
}

#[test]
fn names_and_namespaces_are_checked_by_the_rule_of_the_kind() {
    create(json!({"namespace": "n"}), &["metadata.name: Required value: name or generateName is required"]);
    create(json!({"name": "a"}), &["metadata.namespace: Required value"]);
    let errors = validate_create(&map(json!({"name": "A", "generateName": "A"})), false, NameRule::Subdomain);
    let paths: Vec<String> = errors.iter().map(|error| error.path.to_string()).collect();
    assert_eq!(paths, ["metadata.generateName", "metadata.name"]);
    create(
        json!({"name": "a", "namespace": "a.b"}),
        &["metadata.namespace: Invalid value: \"a.b\": must not contain dots"],
    );
    let cluster = map(json!({"name": "a:B", "namespace": "n"}));
    assert_eq!(
        shown(&validate_create(&cluster, false, NameRule::PathSegment)),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    create(
        json!({"name": "a", "namespace": "n", "generation": (-1)}),
        &["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
    );
}

#[test]
fn annotations_are_bounded_in_all() {
    let sized = |first: usize, second: usize| json!({"name": "a", "namespace": "n", "annotations": {"a": ("x".repeat(first)), "b": ("x".repeat(second))}});
    create(sized(131_071, 131_071), &[]);
    create(sized(131_072, 131_071), &["metadata.annotations: Too long: may not be more than 262144 bytes"]);
}

#[test]
fn owners_are_named_in_full_and_only_one_controls() {
    let owner = |fields: Value| json!({"name": "a", "namespace": "n", "ownerReferences": [fields]});
    create(
        owner(json!({"kind": "K", "name": "", "apiVersion": "g/"})),
        &[
            "metadata.ownerReferences.apiVersion: Invalid value: \"g/\": version must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ],
    );
    create(
        owner(json!({"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u"})),
        &[
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"o\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
        ],
    );
    let controller = |uid: &str| json!({"apiVersion": "v1", "kind": "K", "name": "o", "uid": uid, "controller": true});
    create(
        json!({"name": "a", "namespace": "n", "ownerReferences": [(controller("1")), (controller("2"))]}),
        &[
            "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"K\",\"name\":\"o\",\"uid\":\"1\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"K\",\"name\":\"o\",\"uid\":\"2\",\"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in references for K/o and K/o",
        ],
    );
}

#[test]
fn an_object_of_faults_alone_does_not_multiply_them() {
    let metadata = |fields: Value| map(fields);
    let owner = |index: usize| json!({"apiVersion": "v1", "kind": "K", "name": (format!("n{index}")), "uid": "u", "controller": true});
    let owners: Vec<Value> = (0..20_000).map(owner).collect();
    let manager = "\u{1}".repeat(400_000);
    let managed = json!([{"manager": manager, "operation": "Apply"}]);
    for fields in [
        json!({"name": "a", "ownerReferences": (Value::Array(owners))}),
        json!({"name": "a", "managedFields": managed}),
    ] {
        let errors = validate_create(&metadata(fields), false, NameRule::Subdomain);
        let size: usize = errors.iter().map(|error| error.to_string().len()).sum();
        assert!(!errors.is_empty() && size < 16 << 20, "{} errors of {size} bytes", errors.len());
    }
    let many = |from: usize| Value::Array((from..from + 50_000).map(|n| Value::from(format!("e.com/f{n}"))).collect());
    let old = json!({"name": "a", "resourceVersion": "1", "deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": (many(0))});
    let new = json!({"name": "a", "resourceVersion": "1", "deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": (many(25_000))});
    assert_eq!(validate_update(&map(new), &map(old)).len(), 1);
}

#[test]
fn finalizers_are_qualified_and_do_not_contradict_each_other() {
    create(
        json!({"name": "a", "namespace": "n", "finalizers": ["orphan", "foregroundDeletion"]}),
        &[
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
        ],
    );
    let core = map(json!({"finalizers": ["kubernetes", "e.com/a", "nodomain"]}));
    assert_eq!(
        shown(&validate_core_finalizers(&core)),
        [
            "metadata.finalizers[2]: Invalid value: \"nodomain\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
}

#[test]
fn managed_fields_name_who_did_what() {
    create(
        json!({"name": "a", "namespace": "n", "managedFields": [
            {"manager": "a\u{7}b", "operation": "Frob", "fieldsType": "FieldsV2", "subresource": ("s".repeat(257))},
            {"manager": ("m".repeat(129)), "operation": "Update"}
        ]}),
        &[
            "metadata.managedFields[0].operation: Invalid value: \"Frob\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"FieldsV2\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"a\\ab\": invalid character U+0007 (at position 1)",
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes",
        ],
    );
    for (character, printable) in
        [(' ', true), ('~', true), ('é', true), ('\u{301}', true), ('\u{a0}', false), ('\u{200b}', false)]
    {
        assert_eq!(is_printable(character), printable, "{character:?}");
    }
}

#[track_caller]
fn update(change: Value, expect: &[&str]) {
    let old = map(json!({
        "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2,
        "creationTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["e.com/a"]
    }));
    let mut new = old.clone();
    for (key, value) in map(change) {
        new.insert(key, value);
    }
    assert_eq!(shown(&validate_update(&new, &old)), expect);
}

#[test]
fn what_a_server_sets_does_not_change_by_update() {
    update(json!({}), &[]);
    update(json!({"creationTimestamp": "2020-01-01T01:00:00+01:00", "deletionTimestamp": null}), &[]);
    update(json!({"finalizers": ["e.com/b"]}), &[]);
    update(json!({"uid": "v"}), &["metadata.uid: Invalid value: \"v\": field is immutable"]);
    update(json!({"uid": null}), &["metadata.uid: Invalid value: \"\": field is immutable"]);
    update(
        json!({"name": "b", "namespace": "m", "resourceVersion": "", "generation": 1}),
        &[
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.namespace: Invalid value: \"m\": field is immutable",
        ],
    );
    update(
        json!({"deletionTimestamp": "2001-01-01T00:00:00Z", "creationTimestamp": null, "deletionGracePeriodSeconds": 5}),
        &[
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        ],
    );
}

#[test]
fn an_object_that_is_being_deleted_takes_no_new_finalizers() {
    let deleted = "2020-01-01T00:00:00Z";
    let old = map(json!({"resourceVersion": "1", "deletionTimestamp": deleted, "finalizers": ["e.com/a"]}));
    let with = |finalizers: Value| {
        let mut new = old.clone();
        new.insert("finalizers", finalizers);
        shown(&validate_update(&new, &old))
    };
    assert!(with(json!(["e.com/a"])).is_empty() && with(Value::Null).is_empty());
    assert_eq!(
        with(json!(["e.com/c", "e.com/a", "e.com/b", "e.com/b"])),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"e.com/b\", \"e.com/c\"}"
        ]
    );
}
