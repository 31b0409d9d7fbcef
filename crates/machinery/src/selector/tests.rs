//! Selectors: texts, matches and errors.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::field::Path;
use crate::json;
use crate::json::{Map, Value};

fn labels(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|(key, value)| (String::from(*key), Value::from(*value))).collect()
}

/// Which of `a`..`c` a selector selects, or the message.
#[track_caller]
fn check(selector: &str, expect: &str) {
    let objects = [
        ("a", labels(&[("t", "1"), ("env", "prod"), ("n", "5")])),
        ("b", labels(&[("t", "1"), ("env", "dev")])),
        ("c", labels(&[("t", "1"), ("in", "notin")])),
    ];
    let actual = match selector.parse::<LabelSelector>() {
        Ok(parsed) => {
            let again: LabelSelector = parsed.to_string().parse().expect("prints what it reads");
            assert_eq!(again, parsed, "{selector}");
            objects.iter().filter(|(_, labels)| parsed.matches(Some(labels))).map(|(name, _)| *name).collect()
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(actual, expect, "{selector}");
}

#[test]
fn label_selectors_select_by_query() {
    for (selector, expect) in [
        ("", "abc"),
        ("env=prod", "a"),
        ("env==prod", "a"),
        ("t=1,env!=prod", "bc"),
        ("env!=", "abc"),
        (" env = prod ", "a"),
        ("env in ( prod , dev)", "ab"),
        ("env in (prod,)", "a"),
        ("env in ()", ""),
        ("env notin (prod,,dev)", "c"),
        ("env=", ""),
        ("env", "ab"),
        ("!env", "c"),
        ("! env , t", "c"),
        ("in=notin", "c"),
        ("in in (in,notin)", "c"),
        ("n>4", "a"),
        ("n<5", ""),
        ("n>5", ""),
        ("env>1", ""),
        ("t=1,", "found '', expected: identifier after ','"),
    ] {
        check(selector, expect);
    }
}

#[test]
fn label_selectors_are_refused_in_the_words_of_kubernetes() {
    for (selector, expect) in [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a=!", "unable to parse requirement: found '!', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b=c)", "unable to parse requirement: found '=', expected: ',' or ')'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("/a=b", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty"),
    ] {
        check(selector, expect);
    }
    let error = "a=b!c".parse::<LabelSelector>().expect_err("not a value").to_string();
    assert_eq!(error, "found '!', expected: ',' or 'end of string'");
    let error = format!("a={}", "b".repeat(64)).parse::<LabelSelector>().expect_err("too long").to_string();
    let expect = format!(
        "unable to parse requirement: values[0][a]: Invalid value: \"{}\": must be no more than 63 bytes",
        "b".repeat(64)
    );
    assert_eq!(error, expect);
}

#[test]
fn selector_objects_select_nothing_everything_or_by_requirement() {
    let of = |object: Value| LabelSelector::from_object(Some(&object));
    assert!(!LabelSelector::from_object(None).expect("absent").matches(None));
    assert!(of(Value::Null).is_ok_and(|selector| selector == LabelSelector::nothing()));
    assert!(of(json!({})).is_ok_and(|selector| selector.is_everything() && selector.matches(None)));
    let object = json!({
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "NotIn", "values": ["y", "x"]},
            {"key": "c", "operator": "Exists"}
        ]
    });
    let selector = of(object).expect("valid");
    assert_eq!(selector.to_string(), "a notin (x,y),b=1,c");
    assert!(selector.matches(Some(&labels(&[("b", "1"), ("c", "")]))));
    assert!(!selector.matches(Some(&labels(&[("a", "x"), ("b", "1"), ("c", "")]))));
    assert_eq!((selector.exact("b"), selector.exact("a")), (Some("1"), None));
    let error = of(json!({"matchExpressions": [{"key": "a", "operator": "Frob"}]})).expect_err("no such operator");
    assert_eq!(error.to_string(), "\"Frob\" is not a valid label selector operator");
    let error = of(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})).expect_err("no values");
    assert_eq!(error.to_string(), "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
}

#[test]
fn selector_objects_are_validated_field_by_field() {
    let object = json!({
        "matchLabels": {"bad key": "v"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "", "operator": "Frob", "values": ["-"]}
        ]
    });
    let errors = validate_object(object.as_object().expect("an object"), &Path::new("spec").child("selector"));
    let paths: Vec<String> = errors.iter().map(|error| error.path.to_string()).collect();
    assert_eq!(
        paths,
        [
            "spec.selector.matchLabels",
            "spec.selector.matchExpressions[0].values",
            "spec.selector.matchExpressions[1].values",
            "spec.selector.matchExpressions[2].operator",
            "spec.selector.matchExpressions[2].key",
            "spec.selector.matchExpressions[2].key",
            "spec.selector.matchExpressions[2].values[0]",
        ]
    );
    assert_eq!(errors[1].body(), "Required value: must be specified when `operator` is 'In' or 'NotIn'");
    assert_eq!(errors[3].body(), "Invalid value: \"Frob\": not a valid selector operator");
}

#[track_caller]
fn fields(selector: &str, values: &[(&str, &'static str)], expect: bool) {
    let values: BTreeMap<&str, &'static str> = values.iter().copied().collect();
    let parsed: FieldSelector = selector.parse().expect(selector);
    assert_eq!(parsed.matches(|field| values.get(field).copied().unwrap_or_default()), expect, "{selector}");
}

#[test]
fn field_selectors_compare_fields_with_values() {
    let object = [("metadata.name", "a"), ("spec.x", "b,c=\\d")];
    for (selector, expect) in [
        ("", true),
        (",,", true),
        ("metadata.name=a", true),
        ("metadata.name==a", true),
        ("metadata.name!=a", false),
        ("metadata.name=a,metadata.name=b", false),
        ("metadata.name=", false),
        ("absent=", true),
        ("spec.x=b\\,c\\=\\\\d", true),
    ] {
        fields(selector, &object, expect);
    }
    let selector: FieldSelector = "b!=1,a==2\\,".parse().expect("parses");
    assert_eq!(selector.to_string(), "a=2\\,,b!=1");
    assert_eq!((selector.exact("a"), selector.exact("b")), (Some("2,"), None));
}

#[test]
fn field_selectors_are_refused_in_the_words_of_kubernetes() {
    for (selector, expect) in [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("b=1,a in (x)", "invalid selector: 'b=1,a in (x)'; can't understand 'a in (x)'"),
        ("a=b\\c", "invalid field selector: invalid escape sequence: \\c"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
    ] {
        assert_eq!(selector.parse::<FieldSelector>().expect_err(selector).to_string(), expect);
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_and_what_is_read_prints_itself(text in "[ab/.!=<>(), inot1-]{0,24}") {
        if let Ok(selector) = text.parse::<LabelSelector>() {
            prop_assert_eq!(selector.to_string().parse::<LabelSelector>(), Ok(selector));
        }
    }

    #[test]
    fn any_value_survives_escaping(value in any::<String>(), negated: bool) {
        let operator = if negated { "!=" } else { "=" };
        let selector: FieldSelector = format!("f{operator}{}", escape_value(&value)).parse().expect("parses");
        prop_assert_eq!(selector.terms(), [FieldTerm { field: "f".into(), negated, value }]);
    }

    #[test]
    fn a_requirement_and_its_opposite_never_agree(key in "[ab]", values in proptest::collection::vec("[xy]", 1..3), label in "[xy]") {
        let labels = labels(&[("a", &label)]);
        let of = |operator| Requirement::new(&key, operator, values.clone()).expect("valid").matches(Some(&labels));
        prop_assert_ne!(of(Operator::In), of(Operator::NotIn));
    }
    #[test]
    fn whatever_is_selected_has_the_keys_that_are_required(
        text in "(!?[ab]|[ab](=|!=| in | notin )[(]?[xy][)]?)(,!?[ab])?", label in prop::option::of("[xy]"),
    ) {
        if let Ok(selector) = text.parse::<LabelSelector>() {
            let labels = label.as_deref().map(|label| labels(&[("a", label)]));
            let has = |key: &str| labels.as_ref().is_some_and(|labels| labels.get(key).is_some());
            prop_assert!(!selector.matches(labels.as_ref()) || selector.required_keys().all(has));
        }
    }
}
