//! YAML in and out: documents, scalars and limits.

use proptest::prelude::*;

use super::*;
use crate::json;

#[track_caller]
fn reads(yaml: &str, expect: &str) {
    let actual = match parse(yaml) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(actual, expect, "{yaml}");
}

#[test]
fn plain_scalars_mean_what_they_mean_to_go_yaml() {
    for (yaml, expect) in [
        ("a", "\"a\""),
        ("yes", "true"),
        ("Off", "false"),
        ("y", "true"),
        ("'yes'", "\"yes\""),
        ("\"1\"", "\"1\""),
        ("~", "null"),
        ("=", "\"=\""),
        ("1", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("1.0", "1.0"),
        ("1e3", "1e3"),
        (".5", "0.5"),
        ("5.", "5"),
        ("010", "8"),
        ("08", "8"),
        ("0x1F", "31"),
        ("0o17", "15"),
        ("0b101", "5"),
        ("1_000", "1000"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1.2.3", "\"1.2.3\""),
        ("1:30", "\"1:30\""),
        ("-", "[null]"),
        ("2020-01-01T00:00:00Z", "\"2020-01-01T00:00:00Z\""),
        ("!!str 1", "\"1\""),
        ("!!int 1", "1"),
        ("!own 1", "\"1\""),
        ("!!int a", "yaml: line 1: cannot read \"a\" as !!int"),
        (".inf", "yaml: line 1: .inf is a number that JSON does not have"),
        ("", "null"),
    ] {
        reads(yaml, expect);
    }
}

#[test]
fn collections_become_objects_and_lists() {
    reads("a:\n- 1\n- b: c\n  d: [e, {f: g}]\n", r#"{"a":[1,{"b":"c","d":["e",{"f":"g"}]}]}"#);
    reads("1: a\ntrue: b\nx: |\n  one\n  two\n", r#"{"1":"a","true":"b","x":"one\ntwo\n"}"#);
    reads("? [a]\n: b\n", "yaml: line 1: a key has to be a text, a number or a boolean");
    reads("a: b: c\n", &parse("a: b: c\n").expect_err("not YAML").to_string());
    assert_eq!(parse("a:\n  - b\n c").expect_err("not YAML").line, 3);
}

#[test]
fn aliases_and_merge_keys_are_followed() {
    reads("a: &x {b: 1}\nc: *x\n", r#"{"a":{"b":1},"c":{"b":1}}"#);
    reads("a: &x {b: 1, c: 2}\nd:\n  b: 3\n  <<: *x\n", r#"{"a":{"b":1,"c":2},"d":{"b":3,"c":2}}"#);
    reads("- &x {a: 1}\n- &y {a: 2, b: 2}\n- <<: [*x, *y]\n", r#"[{"a":1},{"a":2,"b":2},{"a":1,"b":2}]"#);
    reads("<<: 1\n", "yaml: line 1: map merge requires map or sequence of maps as the value");
    reads("a: &x [*x]\n", "yaml: line 1: an alias stands for a value that is not complete");
    reads("\"<<\": 1\n", r#"{"<<":1}"#);
}

#[test]
fn aliases_cannot_make_much_of_little() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let previous = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", previous.trim_end_matches(", ")));
    }
    assert_eq!(parse(&bomb).expect_err("a bomb").problem, "document contains excessive aliasing");
    let anchors: String = (0..200).map(|level| format!("&a{level} [")).collect();
    let nested = format!("{anchors}\"{}\"{}", "x".repeat(100_000), "]".repeat(200));
    assert_eq!(parse(&nested).expect_err("many copies").problem, "document contains excessive aliasing");
    let mut deep = String::from("a0: &a0 [[[[[[[[[[]]]]]]]]]]\n");
    for level in 1..30 {
        deep.push_str(&format!("a{level}: &a{level} [[[[[[[[[[*a{}]]]]]]]]]]\n", level - 1));
    }
    assert!(parse(&deep).expect_err("too deep").problem.starts_with("nested deeper than"));
    for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
        assert!(parse(&deep).is_err());
    }
}

#[test]
fn streams_have_documents_of_which_empty_ones_are_left_out() {
    let documents = parse_stream("# nothing\n---\na: 1\n---\n---\nnull\n...\n---\nb: 2\n").expect("parses");
    let shown: Vec<String> = documents.iter().map(|document| document.value.to_string()).collect();
    assert_eq!(shown, [r#"{"a":1}"#, r#"{"b":2}"#]);
    assert!(documents[0].number < documents[1].number);
    let documents = parse_stream("{\"a\":1}\n{\"b\":2}[3]").expect("parses");
    let shown: Vec<(usize, usize)> = documents.iter().map(|document| (document.number, document.line)).collect();
    assert_eq!(shown, [(1, 1), (2, 2), (3, 2)]);
    assert_eq!(parse("a: 1\n---\nb: 2").expect_err("two").problem, "there is more than one document");
    assert!(parse_stream("").expect("nothing").is_empty());
    reads("{a: 1, b: [x]}", r#"{"a":1,"b":["x"]}"#);
}

#[test]
fn keys_that_stand_twice_are_told_with_their_place() {
    let documents = parse_stream("metadata:\n  name: a\nitems:\n- k: 1\n  k: 2\nmetadata: {}\n").expect("parses");
    let found: Vec<(usize, &str)> =
        documents[0].duplicates.iter().map(|found| (found.line, found.path.as_str())).collect();
    assert_eq!(found, [(5, "items[0].k"), (6, "metadata")]);
    assert_eq!(documents[0].value.to_string(), r#"{"items":[{"k":2}],"metadata":{}}"#);
    assert_eq!(documents[0].duplicates[0].to_string(), "line 5: key \"k\" already set in map");
    let documents = parse_stream(r#"{"a":{"k":1,"k":2}}"#).expect("parses");
    assert_eq!(documents[0].duplicates[0].path, "a.k");
}

#[test]
fn objects_are_written_as_kubectl_shows_them() {
    let value = json!({
        "apiVersion": "v1",
        "metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "labels": {"a": "true", "b": "", "c": "1.5", "d": "x y"}},
        "items": [{"args": ["--v=2", "- x", "*", "a: b", "it's"], "name": "c"}, [1, [2]], {}, []],
        "text": "one\n  two\n\nthree\n",
        "chomped": "one\ntwo",
        "tab": "a\tb",
        "nothing": null
    });
    let expect = "\
apiVersion: v1
chomped: |-
  one
  two
items:
- args:
  - --v=2
  - '- x'
  - '*'
  - 'a: b'
  - it's
  name: c
- - 1
  - - 2
- {}
- []
metadata:
  creationTimestamp: \"2020-01-01T00:00:00Z\"
  labels:
    a: \"true\"
    b: \"\"
    c: \"1.5\"
    d: x y
nothing: null
tab: \"a\\tb\"
text: |
  one
    two

  three
";
    assert_eq!(to_string(&value), expect);
    reads(expect, &value.to_string());
}

#[test]
fn keys_of_any_length_and_kind_can_be_written() {
    for key in ["k".repeat(5_000), "\u{1}".repeat(300), "- x".repeat(60), "yes".into(), "1".into(), "<<".into()] {
        let key = key.as_str();
        let nested = json!({key: {key: [{key: "v"}], "b": "one\ntwo\n"}});
        assert_eq!(parse(&to_string(&nested)), Ok(nested));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>(),
        "[ \\-:#'\"\\\\\n\t,{}\\[\\]&*!|>%@`~=<a1.]{0,8}",
        "(yes|no|on|null|~|0x1|1e3|010|1_0|[.]inf|<<|---|[.]{3}|2020-01-01|1:2)",
        "([a-z ]{0,4}\n){0,3}[a-z ]{0,3}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "-?(0|[1-9][0-9]{0,30})([.][0-9]{1,5})?(e[+-]?[0-9]{1,3})?"
            .prop_map(|text| json::Number::parse(&text).map_or(Value::Null, Value::Number)),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_is_written_reads_the_same(value in any_value()) {
        let text = to_string(&value);
        prop_assert_eq!(parse(&text), Ok(value), "{}", text);
    }

    #[test]
    fn json_reads_what_it_writes(value in any_value()) {
        prop_assert_eq!(json::parse(value.to_string().as_bytes()), Ok(value.clone()));
        let spaced = format!(" [\t{value} ,\n{value}] ");
        prop_assert_eq!(json::parse(spaced.as_bytes()), Ok(Value::Array(vec![value.clone(), value])));
    }

    #[test]
    fn json_is_yaml(value in any_value()) {
        let text = value.to_string();
        let documents = parse_stream(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(documents.into_iter().next().map(|document| document.value).unwrap_or_default(), value);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-:#'\"\n\t,{}\\[\\]&*!|>%a1<. ]{0,40}") {
        let _ = parse_stream(&text);
    }
}
