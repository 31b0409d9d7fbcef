//! Strategic merge patches, by tables and laws.

use proptest::prelude::*;

use super::*;
use crate::json::parse;
use crate::patch::testing::object;

/// A type with one field of each kind: `ports` (merged by `port`), `names` (merged scalars), `atomic`
/// (a list that is replaced), `whole` (an object that is replaced), `inner` (the same type).
#[derive(Clone, Copy)]
enum Node {
    Object,
    Ports,
    Names,
    Atomic,
    Whole,
}

impl PatchSchema for Node {
    fn member(&self, name: &str) -> Option<&Self> {
        match name {
            "ports" => Some(&Node::Ports),
            "names" => Some(&Node::Names),
            "atomic" => Some(&Node::Atomic),
            "whole" => Some(&Node::Whole),
            "inner" => Some(&Node::Object),
            _ => None,
        }
    }

    fn items(&self) -> Option<&Self> {
        matches!(self, Node::Ports).then_some(&Node::Object)
    }

    fn merges_lists(&self) -> bool {
        matches!(self, Node::Ports | Node::Names)
    }

    fn replaces_objects(&self) -> bool {
        matches!(self, Node::Whole)
    }

    fn merge_key(&self) -> &str {
        if matches!(self, Node::Ports) { "port" } else { "" }
    }
}

fn read(text: &str) -> Map {
    match parse(text.as_bytes()).expect(text) {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

#[track_caller]
fn check(original: &str, patch: &str, expect: &str) {
    let actual = match apply(read(original), read(patch), Some(&Node::Object)) {
        Ok(map) => Value::Object(map).to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(actual, expect, "{original} + {patch}");
}

#[test]
fn objects_are_merged_replaced_and_deleted() {
    let original = r#"{"data":{"x":"1","y":"2"},"whole":{"a":1}}"#;
    check(original, r#"{"data":{"x":null,"z":"3"}}"#, r#"{"data":{"y":"2","z":"3"},"whole":{"a":1}}"#);
    check(original, r#"{"data":{"$patch":"replace","z":"3"},"whole":null}"#, r#"{"data":{"z":"3"}}"#);
    check(original, r#"{"data":{"$patch":"delete"},"whole":{"b":1}}"#, r#"{"data":{},"whole":{"b":1}}"#);
    check(original, r#"{"$patch":"replace","data":{"q":"1","r":null}}"#, r#"{"data":{"q":"1"}}"#);
    check(
        original,
        r#"{"data":"text","new":{"a":{"$patch":"delete"},"b":null,"c":[1]}}"#,
        r#"{"data":"text","new":{"c":[1]},"whole":{"a":1}}"#,
    );
    check(original, r#"{"data":{"$patch":"frob"}}"#, "unknown patch type: frob in map: map[$patch:frob]");
}

#[test]
fn retained_keys_clear_the_others() {
    let original = r#"{"inner":{"type":"A","a":{"x":1}}}"#;
    check(original, r#"{"inner":{"$retainKeys":["type"],"type":"B"}}"#, r#"{"inner":{"type":"B"}}"#);
    check(
        original,
        r#"{"inner":{"$retainKeys":["type","a"],"a":{"y":2}}}"#,
        r#"{"inner":{"a":{"x":1,"y":2},"type":"A"}}"#,
    );
    check(original, r#"{"inner":{"$retainKeys":["type"],"type":"B","b":1}}"#, "invalid patch format of retainKeys");
    check(original, r#"{"inner":{"$retainKeys":"type"}}"#, "invalid patch format of retainKeys");
    check("{}", r#"{"inner":{"$retainKeys":["a"],"a":1}}"#, r#"{"inner":{"$retainKeys":["a"],"a":1}}"#);
    check(
        original,
        r#"{"inner":{"$patch":"replace","$retainKeys":["a"],"a":1}}"#,
        r#"{"inner":{"$retainKeys":["a"],"a":1}}"#,
    );
    check(original, r#"{"inner":{"$retainKeys":["b"],"b":1,"a":null}}"#, r#"{"inner":{"b":1}}"#);
}

#[test]
fn lists_of_objects_are_merged_by_key() {
    let original = r#"{"ports":[{"port":1,"t":1},{"port":2,"t":2}]}"#;
    for (patch, expect) in [
        (r#"[{"port":2,"t":22}]"#, r#"[{"port":1,"t":1},{"port":2,"t":22}]"#),
        (r#"[{"port":3,"t":null}]"#, r#"[{"port":3,"t":null},{"port":1,"t":1},{"port":2,"t":2}]"#),
        (
            r#"[{"port":3,"$retainKeys":["port"]}]"#,
            r#"[{"$retainKeys":["port"],"port":3},{"port":1,"t":1},{"port":2,"t":2}]"#,
        ),
        (r#"[{"port":2,"t":22},{"port":3}]"#, r#"[{"port":1,"t":1},{"port":2,"t":22},{"port":3}]"#),
        (r#"[{"port":2,"u":1},{"port":1,"u":1}]"#, r#"[{"port":2,"t":2,"u":1},{"port":1,"t":1,"u":1}]"#),
        (r#"[{"port":1,"$patch":"delete"}]"#, r#"[{"port":2,"t":2}]"#),
        (r#"[{"port":9,"$patch":"delete"}]"#, r#"[{"port":1,"t":1},{"port":2,"t":2}]"#),
        (r#"[{"$patch":"replace"},{"port":7}]"#, r#"[{"port":7}]"#),
        (r#"[{"port":1,"ports":[{"port":5}]}]"#, r#"[{"port":1,"ports":[{"port":5}],"t":1},{"port":2,"t":2}]"#),
        (
            r#"[{"port":3,"ports":[{"port":5,"$patch":"delete"}]}]"#,
            r#"[{"port":3,"ports":[{"$patch":"delete","port":5}]},{"port":1,"t":1},{"port":2,"t":2}]"#,
        ),
    ] {
        check(original, &format!(r#"{{"ports":{patch}}}"#), &format!(r#"{{"ports":{expect}}}"#));
    }
    check(original, r#"{"ports":null}"#, "{}");
    check("{}", r#"{"ports":[{"port":1,"$patch":"delete"},{"port":2}]}"#, r#"{"ports":[{"port":2}]}"#);
    check(original, r#"{"ports":[{"t":1}]}"#, "map: map[t:1] does not contain declared merge key: port");
    check(original, r#"{"ports":[{"port":1,"$patch":"merge"}]}"#, "merging lists cannot yet be specified in the patch");
    check(
        original,
        r#"{"ports":["x"]}"#,
        "list element types are not identical: [[map[port:1 t:1] map[port:2 t:2]] [x]]",
    );
    check(original, r#"{"ports":{"port":1}}"#, r#"{"ports":{"port":1}}"#);
}

#[test]
fn of_elements_with_one_key_the_first_is_merged() {
    check(
        r#"{"ports":[{"port":53,"p":"T"},{"port":53,"p":"U"}]}"#,
        r#"{"ports":[{"port":53,"p":"U","n":"dns"}]}"#,
        r#"{"ports":[{"n":"dns","p":"U","port":53},{"p":"U","port":53}]}"#,
    );
}

#[test]
fn lists_of_scalars_are_united_and_others_replaced() {
    check(r#"{"names":["a","b"]}"#, r#"{"names":["c","a"]}"#, r#"{"names":["c","a","b"]}"#);
    check(r#"{"names":["a","b"]}"#, r#"{"$deleteFromPrimitiveList/names":["a","x"]}"#, r#"{"names":["b"]}"#);
    check("{}", r#"{"$deleteFromPrimitiveList/names":["a"]}"#, "{}");
    check("{}", r#"{"$deleteFromPrimitiveList":["a"]}"#, "invalid patch format of primitive list");
    check(
        r#"{"names":["a","b"]}"#,
        r#"{"$setElementOrder/names":["c","b"],"$deleteFromPrimitiveList/names":["a"],"names":["c"]}"#,
        r#"{"names":["c","b"]}"#,
    );
    check(r#"{"names":[1,2]}"#, r#"{"names":["1"]}"#, "list element types are not identical: [[1 2] [1]]");
    check(r#"{"atomic":[{"a":1}]}"#, r#"{"atomic":[{"b":1}]}"#, r#"{"atomic":[{"b":1}]}"#);
    check(r#"{"unknown":[1,2]}"#, r#"{"unknown":[3]}"#, r#"{"unknown":[3]}"#);
}

#[test]
fn element_order_orders_what_is_merged() {
    let original = r#"{"ports":[{"port":1},{"port":2}]}"#;
    check(
        original,
        r#"{"$setElementOrder/ports":[{"port":2},{"port":1}],"ports":[{"port":1,"t":11}]}"#,
        r#"{"ports":[{"port":2},{"port":1,"t":11}]}"#,
    );
    check(
        original,
        r#"{"$setElementOrder/ports":[{"port":1},{"port":5},{"port":2}],"ports":[{"port":5}]}"#,
        r#"{"ports":[{"port":1},{"port":5},{"port":2}]}"#,
    );
    check(original, r#"{"$setElementOrder/ports":[{"port":2},{"port":1}]}"#, r#"{"ports":[{"port":2},{"port":1}]}"#);
    check("{}", r#"{"$setElementOrder/ports":[{"port":2}]}"#, "{}");
    check(
        original,
        r#"{"$setElementOrder/ports":[{"port":1}],"ports":[{"port":2,"t":11}]}"#,
        "The order in patch list:\n[map[port:2 t:11]]\n doesn't match $setElementOrder list:\n[map[port:1]]\n",
    );
    check(
        original,
        r#"{"$setElementOrder/ports":[{"port":2}],"ports":[{"port":1,"$patch":"delete"}]}"#,
        r#"{"ports":[{"port":2}]}"#,
    );
    // An empty order names nothing; elements that the server lacks come behind the others.
    check(
        original,
        r#"{"$setElementOrder/ports":[],"ports":[{"port":5},{"port":6}]}"#,
        r#"{"ports":[{"port":1},{"port":2},{"port":6},{"port":5}]}"#,
    );
    check(original, r#"{"$setElementOrder":[]}"#, "invalid patch format of setElementOrder list");
    check(original, r#"{"$setElementOrder/ports":1}"#, "expected a []interface {}, but received a int64");
}

#[test]
fn elements_of_the_server_stay_where_they_were_among_others() {
    // The server has a, x, b, y; the patch names b and a: x and y are the server's alone.
    check(
        r#"{"names":["a","x","b","y"]}"#,
        r#"{"$setElementOrder/names":["b","a"],"names":["b"]}"#,
        r#"{"names":["x","b","a","y"]}"#,
    );
}

#[test]
fn the_schema_of_a_type_says_how_to_merge() {
    use crate::schema::{Patch, Shape};
    let patch = Patch { strategies: ["merge".into()].into(), merge_key: "uid".into() };
    let owners = Schema::array(Schema::object([("uid", Schema::of(Shape::String).into())])).with_patch(patch);
    let schema = Schema::object([("owners", owners.into())]);
    let merged = apply(
        read(r#"{"owners":[{"uid":"1"}],"free":[1]}"#),
        read(r#"{"owners":[{"uid":"2"}],"free":[2]}"#),
        Some(&schema),
    );
    assert_eq!(merged, Ok(read(r#"{"owners":[{"uid":"2"},{"uid":"1"}],"free":[2]}"#)));
}

#[test]
fn errors_have_the_status_that_kubernetes_answers_with() {
    let status = |patch: &str| {
        apply(read(r#"{"names":[[1]]}"#), read(patch), Some(&Node::Object)).expect_err("refused").status()
    };
    assert_eq!(status(r#"{"$retainKeys":1}"#), 400);
    assert_eq!(status(r#"{"names":[[2]]}"#), 422);
    assert_eq!(status(r#"{"$patch":"x"}"#), 500);
}

proptest! {
    #[test]
    fn without_lists_a_strategic_patch_is_a_merge_patch(original in object(), patch in object()) {
        fn listless(value: Value) -> Value {
            match value {
                Value::Array(_) => Value::from("list"),
                Value::Object(map) => map.into_iter().map(|(key, value)| (key, listless(value))).collect::<Map>().into(),
                other => other,
            }
        }
        let (original, patch) = (listless(original.into()), listless(patch.into()));
        let (Value::Object(left), Value::Object(right)) = (original.clone(), patch.clone()) else { panic!("objects") };
        let strategic = apply::<Node>(left, right, None).expect("no directives");
        prop_assert_eq!(Value::Object(strategic), crate::patch::merge::apply(original, patch));
    }

    #[test]
    fn merging_scalars_is_a_union(old in proptest::collection::vec("[a-e]", 0..5), new in proptest::collection::vec("[a-e]", 0..5)) {
        let list = |items: &[String]| Value::Array(items.iter().map(|item| Value::from(item.as_str())).collect());
        let field = |items: &[String]| Map::from_iter([(String::from("names"), list(items))]);
        let merged = apply(field(&old), field(&new), Some(&Node::Object)).expect("merges");
        let merged = merged.get("names").and_then(Value::as_array).expect("a list").to_vec();
        for item in old.iter().chain(&new) {
            let count = merged.iter().filter(|have| have.as_str() == Some(item.as_str())).count();
            prop_assert_eq!(count, 1);
        }
    }
}
