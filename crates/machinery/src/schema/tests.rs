//! Schemas end to end: from the JSON of a definition to what is pruned, filled in and complained of.

use proptest::prelude::*;

use super::*;
use crate::field::{FieldError, Path};
use crate::json;
use crate::json::{Map, Value, parse};

fn value(text: &str) -> Value {
    parse(text.as_bytes()).expect(text)
}

fn object(text: &str) -> Map {
    match value(text) {
        Value::Object(map) => map,
        other => panic!("no object: {other}"),
    }
}

/// A schema whose `spec` has these properties.
fn schema(properties: &str) -> Schema {
    let root = format!(r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{properties}}}}}}}"#);
    parse_structural(&value(&root), &Path::new("s")).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

/// Checks the errors of an object with this `spec`, decoded and defaulted as on a create.
#[track_caller]
fn check(schema: &Schema, spec: &str, expect: &[&str]) {
    let mut object = Map::from_iter([("spec".to_owned(), value(spec))]);
    normalise_numbers(&mut object);
    prune(schema, &mut object);
    apply_defaults(schema, &mut object);
    let found = validate(schema, &object);
    let mut expect: Vec<String> = expect.iter().map(|text| (*text).to_owned()).collect();
    expect.sort();
    assert_eq!(texts(&found), expect, "{spec}");
}

/// Checks what is wrong with a schema whose root is an object with these properties.
#[track_caller]
fn refused(properties: &str, expect: &[&str]) {
    let root = format!(r#"{{"type":"object","properties":{properties}}}"#);
    let found = parse_structural(&value(&root), &Path::new("s")).err().unwrap_or_default();
    let mut expect: Vec<String> = expect.iter().map(|text| format!("s.{text}")).collect();
    expect.sort();
    assert_eq!(texts(&found), expect, "{properties}");
}

#[test]
fn unknown_members_are_pruned_and_their_paths_told() {
    let schema = schema(
        r#"{"a":{"type":"string"},"o":{"type":"object","properties":{"x":{"type":"string"}}},
            "l":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}},
            "m":{"type":"object","additionalProperties":{"type":"object","properties":{"x":{"type":"string"}}}},
            "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
                    "properties":{"known":{"type":"object","properties":{"y":{"type":"string"}}}}}}"#,
    );
    let mut given = object(
        r#"{"apiVersion":"v1","kind":"K","metadata":{"odd":1},"extra":1,"spec":{"a":"1","b":2,"o":{"x":"1","y":2},
            "l":[{"y":2}],"m":{"k":{"y":2}},"free":{"any":{"z":1},"known":{"bad":1,"y":"1"}}}}"#,
    );
    let unknown = prune(&schema, &mut given);
    assert_eq!(unknown, ["extra", "spec.b", "spec.free.known.bad", "spec.l[0].y", "spec.m.k.y", "spec.o.y"]);
    let expect = r#"{"apiVersion":"v1","kind":"K","metadata":{"odd":1},"spec":{"a":"1",
        "free":{"any":{"z":1},"known":{"y":"1"}},"l":[{}],"m":{"k":{}},"o":{"x":"1"}}}"#;
    assert_eq!(given, object(expect));
}

#[test]
fn defaults_fill_in_what_is_absent_or_null_where_null_is_no_value() {
    let schema = schema(
        r#"{"a":{"type":"string","default":"x"},"n":{"type":"string"},"nu":{"type":"string","nullable":true,"default":"d"},
            "o":{"type":"object","default":{},"properties":{"i":{"type":"integer","default":7}}},
            "p":{"type":"object","properties":{"i":{"type":"integer","default":8}}},
            "l":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string","default":"dk"}}}}}"#,
    );
    let mut given = object(r#"{"spec":{"a":null,"n":null,"nu":null,"l":[{},{"k":"v"}]}}"#);
    apply_defaults(&schema, &mut given);
    let expect = r#"{"spec":{"a":"x","l":[{"k":"dk"},{"k":"v"}],"nu":null,"o":{"i":7}}}"#;
    assert_eq!(given, object(expect));
    let mut without = object("{}");
    apply_defaults(&schema, &mut without);
    assert_eq!(without, object("{}"));
}

#[test]
fn wrong_types_name_the_path_and_both_types() {
    let schema = schema(
        r#"{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
            "o":{"type":"object"},"l":{"type":"array","items":{"type":"integer"}},
            "p":{"x-kubernetes-int-or-string":true},"q":{"x-kubernetes-int-or-string":true,"pattern":"^[0-9]+%?$",
            "anyOf":[{"type":"integer"},{"type":"string"}]}}"#,
    );
    let wrong = |path: &str, expected: &str, found: &str| {
        format!("spec.{path}: Invalid value: \"{found}\": spec.{path} in body must be of type {expected}: \"{found}\"")
    };
    let each = [
        wrong("s", "string", "integer"),
        wrong("i", "integer", "string"),
        wrong("n", "number", "string"),
        wrong("b", "boolean", "string"),
        wrong("o", "object", "array"),
        wrong("l", "array", "object"),
    ];
    let each: Vec<&str> = each.iter().map(String::as_str).collect();
    check(&schema, r#"{"s":1,"i":"x","n":"y","b":"true","o":[],"l":{}}"#, &each);
    check(
        &schema,
        r#"{"i":1.5}"#,
        &[
            "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.i",
            &wrong("i", "integer", "number"),
        ],
    );
    check(&schema, r#"{"i":1.0,"n":100.0,"p":"x","q":"50%"}"#, &[]);
    check(&schema, r#"{"l":[1,"x"]}"#, &[&wrong("l[1]", "integer", "string")]);
    check(&schema, r#"{"p":1.5}"#, &[&wrong("p", "integer,string", "number")]);
    check(&schema, r#"{"p":true}"#, &[&wrong("p", "integer,string", "boolean")]);
    check(&schema, r#"{"q":"zz"}"#, &["spec.q: Invalid value: \"zz\": spec.q in body should match '^[0-9]+%?$'"]);
}

#[test]
fn numbers_have_to_fit_their_format() {
    let schema = schema(r#"{"i":{"type":"integer","format":"int32"},"j":{"type":"integer","format":"int64"}}"#);
    let whole =
        |text: &str| format!("<nil>: Invalid value: \"\": Checked value must be of type integer with format {text}");
    check(&schema, r#"{"i":2147483648}"#, &[&whole("int32 in spec.i")]);
    check(&schema, r#"{"i":-2147483648,"j":9223372036854775807}"#, &[]);
    check(
        &schema,
        r#"{"j":9223372036854775808}"#,
        &[
            &whole("int64 in spec.j"),
            "spec.j: Invalid value: \"float64\": spec.j in body must be of type int64: \"float64\"",
        ],
    );
}

#[test]
fn rules_about_values_have_the_texts_of_kubernetes() {
    let schema = schema(
        r#"{"mi":{"type":"string","minLength":2},"ma":{"type":"string","maxLength":3},"p":{"type":"string","pattern":"^a+$"},
            "e":{"type":"string","enum":["x","y"]},"lo":{"type":"integer","minimum":2},
            "hi":{"type":"integer","maximum":3,"exclusiveMaximum":true},"mu":{"type":"integer","multipleOf":3},
            "ra":{"type":"number","multipleOf":0.1},
            "li":{"type":"array","items":{"type":"string"},"minItems":2},
            "la":{"type":"array","items":{"type":"string"},"maxItems":1},
            "pi":{"type":"object","minProperties":1,"additionalProperties":{"type":"string"}},
            "pa":{"type":"object","maxProperties":1,"additionalProperties":{"type":"string"}}}"#,
    );
    check(
        &schema,
        r#"{"mi":"a"}"#,
        &["spec.mi: Invalid value: \"a\": spec.mi in body should be at least 2 chars long"],
    );
    check(&schema, r#"{"ma":"abcd"}"#, &["spec.ma: Too long: may not be more than 3 bytes"]);
    check(&schema, r#"{"p":"bc"}"#, &["spec.p: Invalid value: \"bc\": spec.p in body should match '^a+$'"]);
    check(&schema, r#"{"e":"z"}"#, &["spec.e: Unsupported value: \"z\": supported values: \"x\", \"y\""]);
    check(&schema, r#"{"mi":"é€","ma":"日本語","p":"aa","e":"y"}"#, &[]);
    check(&schema, r#"{"lo":1}"#, &["spec.lo: Invalid value: 1: spec.lo in body should be greater than or equal to 2"]);
    check(&schema, r#"{"hi":3}"#, &["spec.hi: Invalid value: 3: spec.hi in body should be less than 3"]);
    check(&schema, r#"{"mu":4}"#, &["spec.mu: Invalid value: 4: spec.mu in body should be a multiple of 3"]);
    check(&schema, r#"{"ra":0.3}"#, &[]);
    check(&schema, r#"{"ra":0.35}"#, &["spec.ra: Invalid value: 0.35: spec.ra in body should be a multiple of 0.1"]);
    check(&schema, r#"{"li":["a"]}"#, &["spec.li: Invalid value: 1: spec.li in body should have at least 2 items"]);
    check(&schema, r#"{"la":["a","b"]}"#, &["spec.la: Too many: 2: must have at most 1 item"]);
    check(&schema, r#"{"pi":{}}"#, &["spec.pi: Invalid value: 0: spec.pi in body should have at least 1 properties"]);
    check(&schema, r#"{"pa":{"a":"1","b":"2"}}"#, &["spec.pa: Too many: 2: must have at most 1 item"]);
}

#[test]
fn rules_that_combine_rules_tell_of_the_nearest_alternative() {
    let schema = schema(
        r#"{"a":{"type":"integer","anyOf":[{"minimum":10},{"enum":[1]}]},"o":{"type":"integer","oneOf":[{"minimum":1},{"maximum":9}]},
            "l":{"type":"integer","allOf":[{"minimum":5},{"maximum":9}]},"n":{"type":"string","not":{"enum":["bad"]}}}"#,
    );
    check(&schema, r#"{"a":1,"o":0,"l":7,"n":"good"}"#, &[]);
    check(
        &schema,
        r#"{"o":5}"#,
        &[
            "<nil>: Invalid value: \"\": \"spec.o\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ],
    );
    check(
        &schema,
        r#"{"l":4}"#,
        &[
            "<nil>: Invalid value: \"\": \"spec.l\" must validate all the schemas (allOf)",
            "spec.l: Invalid value: 4: spec.l in body should be greater than or equal to 5",
        ],
    );
    check(&schema, r#"{"n":"bad"}"#, &["<nil>: Invalid value: \"\": \"spec.n\" must not validate the schema (not)"]);
    let mut given = object(r#"{"spec":{"a":2}}"#);
    apply_defaults(&schema, &mut given);
    let found = texts(&validate(&schema, &given));
    assert_eq!(found[0], "<nil>: Invalid value: \"\": \"spec.a\" must validate at least one schema (anyOf)");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn elements_of_sets_and_maps_differ() {
    let schema = schema(
        r#"{"s":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
            "m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","q"],
                 "items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"q":{"type":"integer","default":1}}}}}"#,
    );
    check(&schema, r#"{"s":["a","b","a","a"]}"#, &["spec.s[2]: Duplicate value: \"a\""]);
    check(&schema, r#"{"m":[{"k":"a"},{"k":"a","q":1}]}"#, &["spec.m[1]: Duplicate value: {\"k\":\"a\",\"q\":1}"]);
    check(&schema, r#"{"m":[{"k":"a"},{"k":"a","q":2}]}"#, &[]);
}

#[test]
fn unchanged_faults_pass_an_update_and_new_ones_do_not() {
    let schema = schema(
        r#"{"old":{"type":"string","maxLength":1},"new":{"type":"string","maxLength":1},
            "m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                 "items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"string","maxLength":1}}}}}"#,
    );
    let old = object(r#"{"spec":{"old":"long","new":"a","m":[{"k":"a","v":"long"},{"k":"b","v":"x"}]}}"#);
    let new = object(r#"{"spec":{"old":"long","new":"long","m":[{"k":"b","v":"wide"},{"k":"a","v":"long"}]}}"#);
    let found = texts(&validate_update(&schema, &new, &old));
    assert_eq!(
        found,
        ["spec.m[0].v: Too long: may not be more than 1 byte", "spec.new: Too long: may not be more than 1 byte"]
    );
}

#[test]
fn embedded_resources_say_what_they_are() {
    let schema = schema(
        r#"{"e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}"#,
    );
    check(
        &schema,
        r#"{"e":{"metadata":{"name":"x"}}}"#,
        &["spec.e.apiVersion: Required value", "spec.e.kind: Required value"],
    );
    let mut given = object(r#"{"spec":{"e":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","odd":1},"z":1}}}"#);
    assert_eq!(prune(&schema, &mut given), ["spec.e.metadata.odd"]);
    let wrong = object(r#"{"spec":{"e":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":"x"}}}}"#);
    assert_eq!(
        check_embedded_metadata(&schema, &wrong).expect_err("wrong type").to_string(),
        "spec.e.metadata: Invalid value: {\"labels\":\"x\"}: json: cannot unmarshal string into Go struct field \
         ObjectMeta.labels of type map[string]string"
    );
}

#[test]
fn defaults_make_sound_resources() {
    let embedded = |properties: &str| {
        format!(
            r#"{{"e":{{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"properties":{properties}}}}}"#
        )
    };
    refused(
        &embedded(r#"{"kind":{"type":"string","default":"A/B"},"apiVersion":{"type":"string","default":"v1"}}"#),
        &["properties[e].properties[kind].default: Invalid value: \"A/B\": must result in valid metadata: kind: \
           Invalid value: \"A/B\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of \
           lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric \
           character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"],
    );
    refused(
        &embedded(r#"{"metadata":{"type":"object","default":{"name":1},"properties":{"name":{"type":"string"}}}}"#),
        &["properties[e].properties[metadata].default: Invalid value: {\"name\":1}: must result in valid metadata: \
           metadata: Invalid value: {\"name\":1}: json: cannot unmarshal number into Go struct field ObjectMeta.name of \
           type string"],
    );
    let root =
        parse(br#"{"type":"object","default":{"spec":{}},"properties":{"spec":{"type":"object"}}}"#).expect("JSON");
    assert_eq!(
        texts(&parse_structural(&root, &Path::new("s")).expect_err("no resource")),
        ["s.default.apiVersion: Required value", "s.default.kind: Required value"]
    );
}

#[test]
fn that_there_are_no_other_members_may_stand_among_alternatives() {
    let given = r#"{"a":{"type":"object","oneOf":[{"additionalProperties":false},{"required":["k"]}]}}"#;
    let _ = schema(given);
    refused(
        &given.replace("false", "true"),
        &["properties[a].oneOf[0].additionalProperties: Forbidden: must be undefined to be structural"],
    );
}

#[test]
fn what_is_not_structural_is_refused() {
    refused(r#"{"a":{}}"#, &["properties[a].type: Required value: must not be empty for specified object fields"]);
    refused(r#"{"a":{"type":"array"}}"#, &["properties[a].items: Required value: must be specified"]);
    refused(
        r#"{"b":{"type":"null"}}"#,
        &[
            "properties[b].type: Forbidden: type cannot be set to null, use nullable as an alternative",
            "properties[b].type: Unsupported value: \"null\": supported values: \"array\", \"boolean\", \"integer\", \
             \"number\", \"object\", \"string\"",
        ],
    );
    refused(
        r##"{"a":{"type":"object","$ref":"#/x","id":"x"}}"##,
        &["properties[a].$ref: Forbidden: $ref is not supported", "properties[a].id: Forbidden: id is not supported"],
    );
    refused(
        r#"{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}"#,
        &["properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata \
           is implicitly specified"],
    );
    refused(
        r#"{"a":{"type":"string","pattern":"("}}"#,
        &["properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing \
           regexp: missing closing ): `(`"],
    );
    refused(
        r#"{"a":{"type":"string","anyOf":[{"description":"x","properties":{"z":{"minLength":1}}}]}}"#,
        &["properties[a].anyOf[0].description: Forbidden: must be empty to be structural"],
    );
    refused(
        r#"{"a":{"type":"string","default":5},"c":{"type":"object","default":{"y":1},"properties":{"x":{"type":"string"}}},
            "d":{"type":"string","default":null}}"#,
        &[
            "properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
            "properties[c].default: Invalid value: {\"y\":1}: must not have unknown fields",
        ],
    );
    refused(
        r#"{"a":{"type":"string","x-kubernetes-validations":[{"rule":"self != ''"}]}}"#,
        &[
            "properties[a].x-kubernetes-validations[0]: Forbidden: rules in CEL are not evaluated by this server; express \
           the rule with other keywords of the schema",
        ],
    );
}

#[test]
fn rules_may_only_name_declared_members() {
    let root = value(r#"{"type":"object","anyOf":[{"required":["a"],"properties":{"z":{"minLength":1}}}]}"#);
    let found = parse_structural(&root, &Path::new("s")).expect_err("refused");
    assert_eq!(texts(&found), ["s.properties[z]: Required value: because it is defined in s.anyOf[0].properties[z]"]);
}

#[test]
fn a_value_made_to_be_slow_is_refused_in_bounded_time() {
    let alternatives: Vec<String> = (0..400).map(|count| format!(r#"{{"minLength":{}}}"#, count + 2)).collect();
    let text =
        format!(r#"{{"l":{{"type":"array","items":{{"type":"string","anyOf":[{}]}}}}}}"#, alternatives.join(","));
    let schema = schema(&text);
    let items: Vec<Value> = (0..200_000).map(|_| Value::from("")).collect();
    let object = Map::from_iter([("spec".to_owned(), json!({"l": items}))]);
    assert!(!validate(&schema, &object).is_empty());
}

/// Any JSON value, not deep.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "-?[1-9]{1,5}\\.[0-9]{1,3}(e[0-9]{1,2})?".prop_map(|text| value(&text)),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-e]", inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Some schema over the names that [`any_value`] uses.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "maxLength": 2_i64})),
        Just(json!({"type": "string", "default": "d", "nullable": true})),
        Just(json!({"type": "integer", "default": 1_i64, "maximum": 100_i64})),
        Just(json!({"type": "integer", "format": "int32"})),
        Just(json!({"type": "number", "anyOf": [{"minimum": 3_i64}, {"maximum": 0_i64}]})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 3_i64})),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            prop::collection::btree_map("[a-e]", inner, 1..5).prop_map(|map| {
                let properties: Map = map.into_iter().collect();
                json!({"type": "object", "properties": properties, "required": ["a"]})
            }),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_again_changes_nothing(schema in any_schema(), given in any_value()) {
        let root = json!({"type": "object", "properties": {"spec": schema}});
        let schema = parse_structural(&root, &Path::new("s")).expect("structural");
        let mut object = Map::from_iter([("spec".to_owned(), given)]);
        normalise_numbers(&mut object);
        prune(&schema, &mut object);
        prop_assert_eq!(prune(&schema, &mut object), Vec::<String>::new());
        apply_defaults(&schema, &mut object);
        let once = object.clone();
        apply_defaults(&schema, &mut object);
        prop_assert_eq!(&once, &object);
        prop_assert_eq!(prune(&schema, &mut object), Vec::<String>::new());
        let wrong = validate(&schema, &object);
        prop_assert_eq!(&validate(&schema, &once), &wrong);
        let (wrong_still, clean) = (validate_update(&schema, &object, &object), Vec::new());
        prop_assert_eq!(wrong_still, clean, "an object that has not changed is let pass");
    }

    #[test]
    fn no_schema_text_makes_the_parser_panic(given in any_value(), text in "[a-z()\\[\\]*+?{}|\\\\^$.:&~-]{0,12}") {
        let root = json!({"type": "object", "properties": {"a": (given.clone()), "b": {"type": "string", "pattern": (text.as_str())}}});
        let _ = parse_structural(&root, &Path::new("s"));
        let _ = parse_structural(&given, &Path::new("s"));
        for format in ["date-time", "duration", "email", "uri", "cidr", "mac", "ssn", "hostname", "uuid", "byte", "creditcard"] {
            let root = json!({"type": "object", "properties": {"f": {"type": "string", "format": format}}});
            let schema = parse_structural(&root, &Path::new("s")).expect("structural");
            let _ = validate(&schema, &Map::from_iter([("f".to_owned(), Value::from(text.as_str()))]));
        }
    }
}

#[test]
fn a_write_of_the_status_is_told_of_as_seen_from_the_status() {
    let root = r#"{"type":"object","properties":{"spec":{"type":"integer"},
        "status":{"type":"object","properties":{"s":{"type":"string"}}}}}"#;
    let schema = parse_structural(&value(root), &Path::new("s")).expect("structural");
    let old = object(r#"{"spec":"wrong","status":{}}"#);
    let new = object(r#"{"spec":"wrong","status":{"s":1}}"#);
    let detail = "s in body must be of type string: \"integer\"";
    let expect = format!("status.s: Invalid value: \"integer\": {detail}");
    assert_eq!(texts(&validate_status(&schema, &new, &old)), [expect.as_str()]);
    assert!(validate_status(&schema, &new, &new).is_empty(), "what has not changed is let pass");
}
