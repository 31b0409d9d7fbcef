//! Whatever clients send: readers of JSON, YAML, patches, selectors and schemas take mutated and deep input on
//! a small stack without a panic. Which input is right is tested where each reader is written.
//!
//! `ALLOTMENT_SOAK` makes the long run that `cargo xtask verify --soak` asks for.

use allotment_machinery::field::Path;
use allotment_machinery::json::{self, Value};
use allotment_machinery::jsonpath::JsonPath;
use allotment_machinery::patch::json::JsonPatch;
use allotment_machinery::patch::{merge, strategic};
use allotment_machinery::schema::{self, Schema, parse_structural};
use allotment_machinery::selector::{FieldSelector, LabelSelector};
use allotment_machinery::yaml;

/// The stack that all of it has to do with, in bytes.
const STACK: usize = 256 * 1024;
/// The stack for objects of the greatest depth: frames of builds that are not optimised are several times as
/// large.
const DEEP_STACK: usize = if cfg!(debug_assertions) { 1 << 20 } else { STACK };
/// Cases of each reader in an ordinary run.
const CASES: u64 = 300;
/// Cases in a soak.
const SOAK_CASES: u64 = 100_000;

/// SplitMix64: small, seeded, good enough to mutate texts.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(bound.max(1)).expect("fits")).expect("fits")
    }

    /// A text that was right once, changed in a few places.
    fn mutated(&mut self, seeds: &[&str], words: &[&str]) -> String {
        let mut bytes = seeds[self.below(seeds.len())].as_bytes().to_vec();
        for _ in 0..=self.below(5) {
            let at = self.below(bytes.len() + 1);
            let word = words[self.below(words.len())].as_bytes();
            match self.below(5) {
                0 => drop(bytes.splice(at..at, word.iter().copied())),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 if at < bytes.len() => bytes[at] = u8::try_from(self.below(128)).expect("below 128"),
                3 => bytes.truncate(at),
                _ => {
                    let repeated = word.repeat(self.below(400));
                    bytes.splice(at..at, repeated);
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn on_stack(bytes: usize, body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(bytes).spawn(body).expect("a thread");
    assert!(thread.join().is_ok(), "see above");
}

fn run(seeds: &'static [&'static str], words: &'static [&'static str], case: fn(&str, &mut Dice)) {
    let count = if std::env::var_os("ALLOTMENT_SOAK").is_some() { SOAK_CASES } else { CASES };
    on_stack(STACK, move || {
        for seed in 0..count {
            let mut dice = Dice(seed);
            let text = dice.mutated(seeds, words);
            case(&text, &mut dice);
        }
    });
}

const OBJECTS: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v","n":"1"}}"#,
    r#"{"spec":{"l":[{"k":"a","v":1.5e3},{"k":"b","v":null}],"m":{"x":{"y":[true,false,-0.1]}}}}"#,
];
const WORDS: &[&str] = &[
    "[", "{\"a\":", "}", "]", ",", ":", "\"", "\\ud800", "null", "1e999", "-", "0", "\u{feff}", "- ", "&a ", "*a",
    "? ", "|\n", "!!", "  ", "\n", "(", ")", "=", "!", " in ", "\\", "..", "?(@", "~1", "/", "{1000}", "é",
];

#[test]
fn any_text_is_json_or_is_not() {
    run(OBJECTS, WORDS, |text, _| {
        let Ok(value) = json::parse(text.as_bytes()) else { return };
        assert_eq!(json::parse(&value.to_vec()).as_ref(), Ok(&value), "what was read is read again as the same");
    });
}

#[test]
fn any_text_is_yaml_or_is_not() {
    const SEEDS: &[&str] = &[
        "apiVersion: v1\nmetadata: {name: a, labels: {x: 'y'}}\ndata:\n  k: |\n    text\n  n: \"1\"\n",
        "a: &a [1, 2]\nb: *a\nc: !!str 5\n---\n- - - x\n  - ? y\n    : z\n",
    ];
    run(SEEDS, WORDS, |text, _| drop(yaml::parse_stream(text)));
}

#[test]
fn any_patch_applies_or_does_not() {
    const PATCHES: &[&str] = &[
        r#"[{"op":"add","path":"/data/x","value":{"a":[1]}},{"op":"copy","from":"/data","path":"/data/y"}]"#,
        r#"[{"op":"move","from":"/spec/l/0","path":"/spec/l/-"},{"op":"test","path":"","value":{}}]"#,
        r#"{"data":{"k":null,"$patch":"replace"},"spec":{"$retainKeys":["l"],"$setElementOrder/l":[{"k":"b"}]}}"#,
    ];
    run(PATCHES, WORDS, |text, dice| {
        let Ok(patch) = json::parse(text.as_bytes()) else { return };
        let object = json::parse(OBJECTS[dice.below(OBJECTS.len())].as_bytes()).expect("right");
        if let Ok(operations) = JsonPatch::decode(patch.clone()) {
            drop(operations.apply(object.clone()));
        }
        let _ = merge::apply(object.clone(), patch.clone());
        if let (Value::Object(object), Value::Object(patch)) = (object, patch) {
            drop(strategic::apply::<Schema>(object, patch, None));
        }
    });
}

#[test]
fn any_selector_is_read_or_refused() {
    const SEEDS: &[&str] =
        &["a in (b,c),!d,e!=f,g>1", "metadata.name=a,spec.x!=b\\,c", ".spec.l[?(@.k==\"a\")].v[0:2]"];
    run(SEEDS, WORDS, |text, _| {
        drop(text.parse::<LabelSelector>());
        drop(text.parse::<FieldSelector>());
        if let Ok(path) = text.parse::<JsonPath>() {
            let object = json::parse(OBJECTS[1].as_bytes()).expect("right");
            let _ = path.find(&object);
        }
    });
}

#[test]
fn any_schema_is_structural_or_is_not() {
    const SCHEMAS: &[&str] = &[
        r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string","pattern":"^a+(b|c)*$"},"v":{"type":"number","default":1}}}}}}}}"#,
    ];
    run(SCHEMAS, WORDS, |text, _| {
        let Ok(given) = json::parse(text.as_bytes()) else { return };
        let Ok(structural) = parse_structural(&given, &Path::new("s")) else { return };
        let Ok(Value::Object(mut object)) = json::parse(OBJECTS[1].as_bytes()) else { return };
        schema::prune(&structural, &mut object);
        schema::apply_defaults(&structural, &mut object);
        let _ = schema::validate(&structural, &object);
    });
}

#[test]
fn the_deepest_objects_fit_a_small_stack() {
    on_stack(DEEP_STACK, || {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let value = json::parse(text(json::MAX_DEPTH).as_bytes()).expect("not too deep");
            assert!(json::parse(text(json::MAX_DEPTH + 1).as_bytes()).is_err());
            assert_eq!(value.to_vec(), text(json::MAX_DEPTH).into_bytes());
            let _ = merge::apply(value.clone(), value.clone());
        }
    });
}
