//! The rules of apply, as cases: what a sequence of writes makes of an object and of its managers.

use proptest::prelude::*;

use super::set::Node;
use super::*;
use crate::field::Path;
use crate::json;
use crate::json::{Map, Value};
use crate::schema::{Schema, parse_structural};

const VERSION: &str = "example.com/v1";

/// One version of a kind with a list and a map of every sort.
struct Kind {
    schema: Schema,
    other: Option<Schema>,
    reset: FieldSet,
}

fn schema(spec: &str) -> Schema {
    let text = format!(
        r#"{{"type":"object","properties":{{"spec":{spec},"status":{{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}"#
    );
    parse_structural(&json::parse(text.as_bytes()).expect(&text), &Path::new("s")).expect("structural")
}

const SPEC: &str = r#"{"type":"object","properties":{
    "a":{"type":"string"},"b":{"type":"string"},"n":{"type":"integer"},
    "m":{"type":"object","additionalProperties":{"type":"string"}},
    "inner":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}},
    "atomic":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"x":{"type":"string"},"y":{"type":"string"}}},
    "list":{"type":"array","items":{"type":"string"}},
    "set":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
    "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
        "items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"string"},"w":{"type":"string"}}}},
    "two":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["p","q"],
        "items":{"type":"object","required":["p"],"properties":{"p":{"type":"integer"},"q":{"type":"string","default":"TCP"},"v":{"type":"string"}}}},
    "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}"#;

impl Kind {
    fn new() -> Self {
        Kind { schema: schema(SPEC), other: None, reset: FieldSet::of_members(["status"]) }
    }
}

impl Versions for Kind {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'_>> {
        match api_version {
            VERSION => Some(TypeRef::of_resource(&self.schema)),
            "example.com/v2" => self.other.as_ref().map(TypeRef::of_resource),
            _ => None,
        }
    }

    fn convert(&self, object: &Map, _from: &str, to: &str) -> Result<Map, String> {
        let mut object = object.clone();
        object.insert("apiVersion", to);
        Ok(object)
    }

    fn reset_fields(&self, _api_version: &str) -> Option<&FieldSet> {
        Some(&self.reset)
    }
}

/// An object that several write to.
struct World {
    kind: Kind,
    object: Map,
    managers: Managers,
}

fn map(text: &str) -> Map {
    match json::parse(text.as_bytes()).expect(text) {
        Value::Object(map) => map,
        other => panic!("no object: {other}"),
    }
}

fn whole(spec: &str) -> Map {
    map(&format!(r#"{{"apiVersion":"{VERSION}","kind":"K","metadata":{{"name":"a","uid":"u"}},"spec":{spec}}}"#))
}

impl World {
    fn new() -> Self {
        World { kind: Kind::new(), object: empty(), managers: Managers::default() }
    }

    fn writer<'a>(&'a self, manager: &'a str) -> Writer<'a> {
        Writer { versions: &self.kind, api_version: VERSION, subresource: "", manager, now: "2026-01-02T03:04:05Z" }
    }

    fn try_apply(&mut self, manager: &str, spec: &str, force: bool) -> Result<bool, String> {
        let mut config = whole(spec);
        config.insert("metadata", json!({"name": "a"}));
        let applied = self
            .writer(manager)
            .apply(&self.object, &empty(), &config, self.managers.clone(), force)
            .map_err(|error| error.to_string())?;
        self.object = applied.object;
        if let Some(metadata) = crate::object::metadata_mut(&mut self.object) {
            metadata.insert("uid", "u");
        }
        self.managers = applied.managers;
        Ok(applied.changed)
    }

    #[track_caller]
    fn apply(mut self, manager: &str, spec: &str) -> Self {
        self.try_apply(manager, spec, false).expect("no conflict");
        self
    }

    #[track_caller]
    fn force(mut self, manager: &str, spec: &str) -> Self {
        self.try_apply(manager, spec, true).expect("by force");
        self
    }

    #[track_caller]
    fn update(mut self, manager: &str, spec: &str) -> Self {
        let new = whole(spec);
        self.managers = self.writer(manager).update(&self.object, &new, self.managers.clone()).expect("compares");
        self.object = new;
        self
    }

    #[track_caller]
    fn refused(mut self, manager: &str, spec: &str, expect: &str) -> Self {
        assert_eq!(self.try_apply(manager, spec, false), Err(expect.to_owned()));
        self
    }

    #[track_caller]
    fn is(self, spec: &str, owners: &[(&str, &str)]) -> Self {
        assert_eq!(self.object.get("spec").map(ToString::to_string).unwrap_or_default(), spec);
        let have: Vec<(String, String)> = self
            .managers
            .iter()
            .map(|(id, managed)| (id.name.clone(), managed.fields.to_json().replace(r#"\""#, "'")))
            .collect();
        let have: Vec<(&str, &str)> = have.iter().map(|(name, fields)| (name.as_str(), fields.as_str())).collect();
        assert_eq!(have, owners);
        self
    }
}

fn empty() -> Map {
    map(&format!(r#"{{"apiVersion":"{VERSION}","kind":"K"}}"#))
}

#[test]
fn members_are_owned_one_by_one() {
    World::new()
        .apply("one", r#"{"a":"1"}"#)
        .apply("two", r#"{"b":"1"}"#)
        .is(r#"{"a":"1","b":"1"}"#, &[("one", r#"{"f:spec":{"f:a":{}}}"#), ("two", r#"{"f:spec":{"f:b":{}}}"#)])
        .refused("two", r#"{"a":"2"}"#, "Apply failed with 1 conflict: conflict with \"one\": .spec.a")
        .force("two", r#"{"a":"2"}"#)
        .is(r#"{"a":"2"}"#, &[("two", r#"{"f:spec":{"f:a":{}}}"#)]);
}

#[test]
fn what_two_apply_alike_goes_only_with_both() {
    World::new()
        .apply("one", r#"{"a":"1"}"#)
        .apply("two", r#"{"a":"1"}"#)
        .apply("one", "{}")
        .is(r#"{"a":"1"}"#, &[("one", r#"{"f:spec":{}}"#), ("two", r#"{"f:spec":{"f:a":{}}}"#)])
        .apply("two", "{}")
        .is("null", &[("one", r#"{"f:spec":{}}"#), ("two", r#"{"f:spec":{}}"#)]);
}

#[test]
fn an_update_owns_what_it_changes_and_an_applier_that_agrees_is_left_alone() {
    World::new()
        .update("up", r#"{"a":"1","m":{"x":"1"}}"#)
        .is(r#"{"a":"1","m":{"x":"1"}}"#, &[("up", r#"{"f:spec":{".":{},"f:a":{},"f:m":{".":{},"f:x":{}}}}"#)])
        .refused(
            "one",
            r#"{"a":"2"}"#,
            "Apply failed with 1 conflict: conflict with \"up\" using example.com/v1: .spec.a",
        )
        .apply("one", r#"{"a":"1"}"#)
        .update("up", r#"{"a":"3","m":{"x":"1"}}"#)
        .is(r#"{"a":"3","m":{"x":"1"}}"#, &[("up", r#"{"f:spec":{".":{},"f:a":{},"f:m":{".":{},"f:x":{}}}}"#)]);
}

#[test]
fn atomic_values_are_owned_whole() {
    World::new()
        .apply("one", r#"{"atomic":{"x":"1"},"list":["a"]}"#)
        .is(r#"{"atomic":{"x":"1"},"list":["a"]}"#, &[("one", r#"{"f:spec":{"f:atomic":{},"f:list":{}}}"#)])
        .refused(
            "two",
            r#"{"atomic":{"y":"1"},"list":["a","b"]}"#,
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.atomic\n- .spec.list",
        )
        .force("two", r#"{"atomic":{"y":"1"}}"#)
        .is(
            r#"{"atomic":{"y":"1"},"list":["a"]}"#,
            &[("one", r#"{"f:spec":{"f:list":{}}}"#), ("two", r#"{"f:spec":{"f:atomic":{}}}"#)],
        );
}

#[test]
fn sets_merge_and_follow_the_order_of_whoever_applies() {
    World::new()
        .apply("one", r#"{"set":["a","b"]}"#)
        .apply("two", r#"{"set":["c","b"]}"#)
        .is(
            r#"{"set":["a","c","b"]}"#,
            &[
                ("one", r#"{"f:spec":{"f:set":{"v:'a'":{},"v:'b'":{}}}}"#),
                ("two", r#"{"f:spec":{"f:set":{"v:'b'":{},"v:'c'":{}}}}"#),
            ],
        )
        .apply("one", r#"{"set":["b"]}"#)
        .is(
            r#"{"set":["c","b"]}"#,
            &[
                ("one", r#"{"f:spec":{"f:set":{"v:'b'":{}}}}"#),
                ("two", r#"{"f:spec":{"f:set":{"v:'b'":{},"v:'c'":{}}}}"#),
            ],
        )
        .refused(
            "one",
            r#"{"set":["b","b"]}"#,
            "failed to create typed patch object (/a; example.com/v1, Kind=K): .spec.set: duplicate entries for key \
             [=\"b\"]",
        );
}

#[test]
fn elements_of_keyed_lists_are_owned_member_by_member() {
    World::new()
        .apply("one", r#"{"map":[{"k":"a","v":"1"},{"k":"b"}]}"#)
        .apply("two", r#"{"map":[{"k":"c"},{"k":"a","w":"2"}]}"#)
        .is(
            r#"{"map":[{"k":"c"},{"k":"a","v":"1","w":"2"},{"k":"b"}]}"#,
            &[
                ("one", r#"{"f:spec":{"f:map":{"k:{'k':'a'}":{".":{},"f:k":{},"f:v":{}},"k:{'k':'b'}":{".":{},"f:k":{}}}}}"#),
                ("two", r#"{"f:spec":{"f:map":{"k:{'k':'a'}":{".":{},"f:k":{},"f:w":{}},"k:{'k':'c'}":{".":{},"f:k":{}}}}}"#),
            ],
        )
        .apply("one", r#"{"map":[]}"#)
        .is(
            r#"{"map":[{"k":"c"},{"k":"a","w":"2"}]}"#,
            &[("two", r#"{"f:spec":{"f:map":{"k:{'k':'a'}":{".":{},"f:k":{},"f:w":{}},"k:{'k':'c'}":{".":{},"f:k":{}}}}}"#)],
        );
}

#[test]
fn an_absent_key_is_its_default_and_numbers_sort_as_numbers() {
    World::new().apply("one", r#"{"two":[{"p":443},{"p":80,"q":"UDP"}]}"#).is(
        r#"{"two":[{"p":443},{"p":80,"q":"UDP"}]}"#,
        &[(
            "one",
            r#"{"f:spec":{"f:two":{"k:{'p':80,'q':'UDP'}":{".":{},"f:p":{},"f:q":{}},"k:{'p':443,'q':'TCP'}":{".":{},"f:p":{}}}}}"#,
        )],
    );
}

#[test]
fn what_is_not_declared_is_deduced() {
    World::new().apply("one", r#"{"free":{"o":{"x":1},"l":[1]}}"#).apply("two", r#"{"free":{"o":{"y":2}}}"#).is(
        r#"{"free":{"l":[1],"o":{"x":1,"y":2}}}"#,
        &[
            ("one", r#"{"f:spec":{"f:free":{"f:l":{},"f:o":{".":{},"f:x":{}}}}}"#),
            ("two", r#"{"f:spec":{"f:free":{"f:o":{".":{},"f:y":{}}}}}"#),
        ],
    );
    World::new().refused(
        "one",
        r#"{"nope":1}"#,
        "failed to create typed patch object (/a; example.com/v1, Kind=K): .spec.nope: field not declared in schema",
    );
}

#[test]
fn a_stored_object_without_owners_was_there_before() {
    let mut world = World::new();
    world.object = whole(r#"{"a":"1"}"#);
    world.apply("one", r#"{"a":"1","b":"2"}"#).is(
        r#"{"a":"1","b":"2"}"#,
        &[("before-first-apply", r#"{"f:spec":{".":{},"f:a":{}}}"#), ("one", r#"{"f:spec":{"f:a":{},"f:b":{}}}"#)],
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_on_its_own_side() {
    let last = r#"{"apiVersion":"example.com/v1","kind":"K","metadata":{"name":"a"},"spec":{"a":"1","b":"1"}}"#;
    let mut world = World::new().update("old", r#"{"a":"1","b":"2"}"#);
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    let metadata = crate::object::metadata_mut(&mut world.object).expect("metadata");
    metadata.insert("annotations", annotations);
    world = world.refused(
        "kubectl",
        r#"{"a":"9","b":"9"}"#,
        "Apply failed with 1 conflict: conflict with \"old\" using example.com/v1: .spec.b",
    );
    world = world.apply("kubectl", r#"{"a":"9"}"#);
    let kept =
        world.object.get("metadata").and_then(|m| m.get("annotations")).and_then(Value::as_object).expect("kept");
    let kept = kept.iter().next().and_then(|(_, value)| value.as_str()).expect("a text");
    assert_eq!(
        kept,
        concat!(r#"{"apiVersion":"example.com/v1","kind":"K","metadata":{"name":"a"},"spec":{"a":"9"}}"#, "\n")
    );
    assert_eq!(world.object.get("spec").map(ToString::to_string).as_deref(), Some(r#"{"a":"9","b":"2"}"#));
}

#[test]
fn a_write_that_changes_nothing_takes_nothing() {
    let mut world = World::new().apply("one", r#"{"a":"1","set":["a"]}"#);
    let before = (world.object.clone(), world.managers.clone());
    assert_eq!(world.try_apply("one", r#"{"a":"1","set":["a"]}"#, false), Ok(false));
    assert_eq!((world.object.clone(), world.managers.clone()), before);
    world = world.update("up", r#"{"a":"1","set":["a"]}"#);
    assert_eq!(world.managers, before.1);
}

#[test]
fn reset_fields_are_nobodys() {
    let mut world = World::new();
    let new = map(r#"{"apiVersion":"example.com/v1","kind":"K","spec":{},"status":{"x":1}}"#);
    world.managers = world.writer("up").update(&empty(), &new, Managers::default()).expect("compares");
    world.object = new;
    world.is("{}", &[("up", r#"{"f:spec":{}}"#)]);
}

#[test]
fn managers_of_a_version_that_is_gone_are_forgotten_and_those_of_another_one_kept() {
    let entry = |version: &str| {
        json!({"manager": "old", "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {}}}})
    };
    let decode = |version: &str| Managers::decode(Some(&json!([(entry(version))]))).expect("decodes");
    let mut world = World::new().update("up", r#"{"a":"1","b":"1"}"#);
    world.managers = decode("example.com/v0");
    let gone = world.update("up", r#"{"a":"2","b":"1"}"#);
    assert!(gone.managers.iter().all(|(id, _)| id.name == "up"));
    let mut world = World::new().update("up", r#"{"a":"1","b":"1"}"#);
    world.kind.other = Some(schema(SPEC));
    world.managers = decode("example.com/v2");
    world
        .update("up", r#"{"a":"2","b":"1"}"#)
        .is(r#"{"a":"2","b":"1"}"#, &[("old", r#"{"f:spec":{"f:b":{}}}"#), ("up", r#"{"f:spec":{"f:a":{}}}"#)]);
}

#[test]
fn what_became_one_value_is_owned_as_one() {
    let granular = json!({"f:spec": {"f:atomic": {".": {}, "f:x": {}}, "f:list": {"v:\"a\"": {}}, "f:m": {"f:x": {}}}});
    let set = FieldSet::from_fields(&granular).expect("a set");
    let kind = Kind::new();
    let reconciled = reconcile(&set, TypeRef::of_resource(&kind.schema)).expect("changes");
    assert_eq!(reconciled.to_json(), r#"{"f:spec":{"f:atomic":{},"f:list":{},"f:m":{"f:x":{}}}}"#);
    assert_eq!(reconcile(&reconciled, TypeRef::of_resource(&kind.schema)), None);
}

#[test]
fn the_oldest_of_many_updaters_become_one() {
    let entry = |number: usize| {
        let name = format!("u{number:02}");
        json!({"manager": (name.as_str()), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": (format!("2026-01-01T00:00:{:02}Z", 30 - number)), "fieldsV1": {(format!("f:{name}")): {}}})
    };
    let entries = Value::Array((0..12).map(entry).collect());
    let mut managers = Managers::decode(Some(&entries)).expect("decodes");
    managers.merge_old_updates();
    let names: Vec<&str> = managers.iter().map(|(id, _)| id.name.as_str()).collect();
    assert_eq!(names, ["ancient-changes", "u00", "u01", "u02", "u03", "u04", "u05", "u06", "u07", "u08"]);
    let old = managers.get(&ManagerId::updater("ancient-changes", "v1", "")).expect("there");
    assert_eq!(
        (old.fields.to_json().as_str(), old.time.as_deref()),
        (r#"{"f:u09":{},"f:u10":{},"f:u11":{}}"#, Some("2026-01-01T00:00:21Z"))
    );
}

#[test]
fn entries_are_sorted_and_malformed_ones_refused() {
    let decode = |entry: Value| Managers::decode(Some(&json!([entry]))).map_err(|error| error.to_string());
    let entry = |operation: &str, kind: &str, fields: Value| json!({"manager": "m", "operation": operation, "apiVersion": "v1", "fieldsType": kind, "fieldsV1": fields});
    assert!(decode(entry("Odd", "FieldsV1", json!({}))).expect_err("odd").contains("operation must be"));
    assert!(decode(entry("Apply", "", json!({}))).expect_err("no type").contains("missing fieldsType"));
    assert!(decode(entry("Apply", "V2", json!({}))).expect_err("odd type").contains("invalid fieldsType \"V2\""));
    assert!(decode(entry("Apply", "FieldsV1", json!({"odd": {}}))).expect_err("odd key").contains("missing colon"));
    assert!(decode(entry("Apply", "FieldsV1", json!({"f:a": 1}))).is_err());
    assert!(decode(json!({"operation": "Apply"})).expect_err("no version").contains("apiVersion must not be empty"));
    let of = |name: &str, operation: &str, time: &str| {
        json!({"manager": name, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "time": time,
            "fieldsV1": {"f:a": {}}})
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    let entries = json!([
        (of("d", "Update", early)),
        (of("b", "Apply", late)),
        (of("a", "Apply", late)),
        (of("c", "Apply", early))
    ]);
    let encoded = Managers::decode(Some(&entries)).expect("decodes").encode().expect("not empty");
    let names: Vec<&str> =
        encoded.as_array().expect("a list").iter().filter_map(|entry| entry.get("manager")?.as_str()).collect();
    assert_eq!(names, ["c", "a", "b", "d"]);
}

#[test]
fn scales_move_the_number_between_two_managers() {
    let mut paths = ReplicasPaths::default();
    paths.add("v1", Some(vec![PathElement::field("spec"), PathElement::field("replicas")]));
    let decode = |entries: Value| Managers::decode(Some(&entries)).expect("decodes");
    let object = decode(json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:a": {}}}}]));
    let scale = paths.to_scale(&object);
    let shown = |managers: &Managers| managers.encode().map(|value| value.to_string()).unwrap_or_default();
    assert!(
        shown(&scale).contains(
            r#""apiVersion":"autoscaling/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}"#
        )
    );
    assert_eq!(paths.to_object(&object, scale, "v1"), object);
    let other = decode(json!([{"manager": "s", "operation": "Update", "apiVersion": "autoscaling/v1",
        "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]));
    let after = shown(&paths.to_object(&object, other, "v1"));
    assert!(after.contains(r#""fieldsV1":{"f:spec":{"f:a":{}}},"manager":"m""#), "{after}");
    assert!(after.contains(r#""fieldsV1":{"f:spec":{"f:replicas":{}}},"manager":"s""#), "{after}");
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    let leaf = Just(FieldSet::new());
    let element = prop_oneof![
        "[ab]".prop_map(|name| PathElement::field(&name)),
        (0i64..3).prop_map(|number| PathElement::Value(Value::from(number))),
        (0i64..2).prop_map(|number| PathElement::key(vec![("k".into(), Value::from(number))])),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        proptest::collection::vec((element.clone(), any::<bool>(), inner), 0..5).prop_map(|nodes| {
            let mut set = FieldSet::new();
            for (element, member, children) in nodes {
                set.push(Node { element, member, children });
            }
            set
        })
    })
}

proptest! {
    #[test]
    fn sets_are_written_and_read_without_loss(set in any_set()) {
        prop_assert_eq!(&FieldSet::from_fields(&set.to_fields()).expect("a set"), &set);
        let text = json::parse(set.to_json().as_bytes()).expect("JSON");
        prop_assert_eq!(&FieldSet::from_fields(&text).expect("a set"), &set);
    }

    #[test]
    fn the_algebra_of_sets_holds(a in any_set(), b in any_set()) {
        let (union, both, less) = (a.union(&b), a.intersection(&b), a.difference(&b));
        prop_assert_eq!(&union, &b.union(&a));
        prop_assert_eq!(&both, &b.intersection(&a));
        prop_assert_eq!(&less.union(&both), &a);
        prop_assert!(less.intersection(&b).is_empty());
        let paths = |set: &FieldSet| -> Vec<Vec<PathElement>> {
            set.paths().into_iter().map(|path| path.into_iter().cloned().collect()).collect()
        };
        for path in paths(&union) {
            prop_assert!(union.has(&path) && (a.has(&path) || b.has(&path)));
            prop_assert_eq!(both.has(&path), a.has(&path) && b.has(&path));
            prop_assert_eq!(less.has(&path), a.has(&path) && !b.has(&path));
        }
        for path in paths(&a.recursive_difference(&b)) {
            let above = (1..=path.len()).any(|depth| b.has(&path[..depth]));
            prop_assert!(a.has(&path) && !above);
        }
    }
}
