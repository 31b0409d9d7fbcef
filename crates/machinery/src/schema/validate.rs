//! What is wrong with a custom resource.
//!
//! Texts, causes and quirks are those of `k8s.io/kube-openapi/pkg/validation` beneath
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/validation`, since clients and their tests read them.

use super::node::{Junctors, ListType, Schema, Shape, ValueRules};
use super::trail::Trail;
use super::{embedded, format, lists};
use crate::field::{FieldError, Path};
use crate::gotext::go_quote;
use crate::json::{Map, Number, Value};

/// How many errors are told. The rest of an object with more is not looked at.
const MOST_ERRORS: usize = 256;

/// How many steps a validation may take: nodes visited, values compared, characters matched. Enough for
/// the largest object under any schema met in practice; a schema made to be slow is stopped by it.
const MOST_STEPS: u64 = 50_000_000;

/// Everything that is wrong with an object, but for its own metadata.
pub fn validate(schema: &Schema, object: &Map) -> Vec<FieldError> {
    let mut errors = values(schema, object, None);
    errors.extend(validate_parts(schema, object, None));
    errors.truncate(MOST_ERRORS);
    errors
}

/// As [`validate`], but what was wrong with a value before and has not changed is let pass (KEP-4008).
pub fn validate_update(schema: &Schema, object: &Map, old: &Map) -> Vec<FieldError> {
    let mut errors = values(schema, object, Some(old));
    errors.extend(validate_parts(schema, object, Some(old)));
    errors.truncate(MOST_ERRORS);
    errors
}

/// As [`validate_update`], for a write of the status alone. What else stands in the object is not looked
/// at, and texts name values as seen from the status, not from the object.
pub fn validate_status(schema: &Schema, object: &Map, old: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let (Some(of_status), Some(status)) = (schema.property("status"), object.get("status")) {
        let base = Path::new("status");
        let mut walk = Walk { base: &base, steps: MOST_STEPS, exhausted: false };
        let mut outcome = Outcome::default();
        walk.value(of_status, status, old.get("status"), Trail::Start, &mut outcome);
        errors.extend(walk.finish(outcome));
    }
    errors.extend(validate_parts(schema, object, Some(old)));
    errors.truncate(MOST_ERRORS);
    errors
}

/// What is wrong with the resources in an object, and with lists whose elements have to differ, unless some of the
/// object before did not differ either.
pub fn validate_parts(schema: &Schema, object: &Map, old: Option<&Map>) -> Vec<FieldError> {
    let mut errors = embedded::check_members(schema, object);
    if old.is_none_or(|old| lists::check(schema, old).is_empty()) {
        errors.extend(lists::check(schema, object));
    }
    errors
}

fn values(schema: &Schema, object: &Map, old: Option<&Map>) -> Vec<FieldError> {
    let base = Path::root();
    let mut walk = Walk { base: &base, steps: MOST_STEPS, exhausted: false };
    let mut outcome = Outcome::default();
    if schema.shape == Shape::Any || schema.shape == Shape::Object {
        walk.members(schema, object, old, Trail::Start, &mut outcome);
    }
    if let Some(junctors) = schema.rules().and_then(|rules| rules.junctors.as_deref()) {
        walk.junctors(junctors, &Value::Object(object.clone()), Trail::Start, &mut outcome);
    }
    walk.finish(outcome)
}

/// What is wrong with a value at `path` of a schema's own definition.
pub(super) fn validate_value(schema: &Schema, value: &Value, path: &Path) -> Vec<FieldError> {
    let mut walk = Walk { base: path, steps: MOST_STEPS, exhausted: false };
    let mut outcome = Outcome::default();
    walk.value(schema, value, None, Trail::Start, &mut outcome);
    let mut errors = walk.finish(outcome);
    if let Value::Object(map) = value {
        errors.extend(lists::check(schema, map));
    }
    errors
}

/// What a part of the walk found.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    /// How many checks applied: of alternatives none of which fits, the one with most is told about.
    checks: usize,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn push(&mut self, error: FieldError) {
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.checks += other.checks;
        for error in other.errors {
            self.push(error);
        }
    }
}

struct Walk<'a> {
    /// What the names of values are under.
    base: &'a Path,
    steps: u64,
    exhausted: bool,
}

impl Walk<'_> {
    fn finish(self, outcome: Outcome) -> Vec<FieldError> {
        if self.exhausted {
            let detail = "the object takes too long to validate: make it smaller, or its schema simpler";
            return vec![FieldError::forbidden(self.base, detail)];
        }
        outcome.errors
    }

    /// Takes `count` steps, if there are so many left.
    fn step(&mut self, count: usize) -> bool {
        match self.steps.checked_sub(count as u64) {
            Some(left) => self.steps = left,
            None => self.exhausted = true,
        }
        !self.exhausted
    }

    fn path(&self, name: Trail<'_>) -> Path {
        name.path(self.base)
    }

    fn invalid(&self, name: Trail<'_>, value: &Value, detail: &str) -> FieldError {
        FieldError::invalid(&self.path(name), value, format!("{name} in body {detail}"))
    }

    fn type_invalid(&self, name: Trail<'_>, expected: &str, found: &str) -> FieldError {
        let detail = format!("{name} in body must be of type {expected}: \"{found}\"");
        FieldError::type_invalid(&self.path(name), found, detail)
    }

    /// An error of the object as a whole, as rules that combine rules give them.
    fn overall(&self, detail: String) -> FieldError {
        FieldError::invalid(self.base, "", detail)
    }

    fn value(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, name: Trail<'_>, outcome: &mut Outcome) {
        if !self.step(1) || outcome.errors.len() >= MOST_ERRORS {
            return;
        }
        let before = outcome.errors.len();
        self.own_rules(schema, value, name, outcome);
        if outcome.errors.len() > before && old == Some(value) {
            outcome.errors.truncate(before);
            return;
        }
        match value {
            Value::Object(map) if matches!(schema.shape, Shape::Object | Shape::Any) => {
                self.members(schema, map, old.and_then(Value::as_object), name, outcome);
            }
            Value::Array(items) if matches!(schema.shape, Shape::Array | Shape::Any) => {
                self.items(schema, items, old.and_then(Value::as_array), name, outcome);
            }
            _ => {}
        }
    }

    /// What is said of the value itself, not of members and elements; junctors go below.
    fn own_rules(&mut self, schema: &Schema, value: &Value, name: Trail<'_>, outcome: &mut Outcome) {
        outcome.checks += 1;
        if let Some(error) = self.wrong_type(schema, value, name) {
            outcome.push(error);
        }
        if value.is_null() && !schema.nullable && schema.shape != Shape::Any {
            return;
        }
        if let Value::Number(number) = value
            && let Some(error) = self.out_of_range(schema, number, name)
        {
            outcome.push(error);
        }
        let Some(rules) = schema.rules() else { return };
        let allowed_null = value.is_null() && schema.nullable;
        if !rules.one_of_values.is_empty() && !allowed_null {
            self.enumeration(rules, value, name, outcome);
        }
        match value {
            Value::String(text) => self.text(schema, rules, text, name, outcome),
            Value::Number(number) => self.number(rules, number, name, outcome),
            Value::Array(items) => self.item_count(rules, items.len(), name, outcome),
            _ => {}
        }
        if let Some(junctors) = &rules.junctors {
            self.junctors(junctors, value, name, outcome);
        }
    }

    fn wrong_type(&self, schema: &Schema, value: &Value, name: Trail<'_>) -> Option<FieldError> {
        let expected = match schema.shape {
            Shape::Any => return None,
            Shape::IntOrString => "integer,string",
            shape => shape.type_name(),
        };
        let (found, found_format) = match value {
            Value::Null if schema.nullable => return None,
            Value::Number(number) if number.as_i64().is_some() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            other => (other.type_name(), ""),
        };
        let whole = matches!(value, Value::Number(number) if whole_float(number));
        let fits = match schema.shape {
            Shape::Number => matches!(found, "integer" | "number"),
            Shape::Integer => found == "integer" || whole,
            Shape::IntOrString => matches!(found, "integer" | "string") || whole,
            _ => found == expected,
        };
        if fits {
            return None;
        }
        let format = format::effective(schema.shape.type_name(), schema.format());
        let by_format = !format.is_empty() && !matches!(value, Value::String(_) | Value::Array(_) | Value::Null);
        Some(if by_format {
            self.type_invalid(name, format, found_format)
        } else {
            self.type_invalid(name, expected, found)
        })
    }

    fn enumeration(&mut self, rules: &ValueRules, value: &Value, name: Trail<'_>, outcome: &mut Outcome) {
        outcome.checks += 1;
        if !self.step(rules.one_of_values.len()) || rules.one_of_values.contains(value) {
            return;
        }
        let shown: Vec<String> = rules.one_of_values.iter().map(shown).collect();
        let supported: Vec<&str> = shown.iter().map(String::as_str).collect();
        outcome.push(FieldError::not_supported(&self.path(name), value, &supported));
    }

    /// Stops at the first rule that is broken, as Kubernetes does for strings.
    fn text(&mut self, schema: &Schema, rules: &ValueRules, text: &str, name: Trail<'_>, outcome: &mut Outcome) {
        outcome.checks += 1;
        let value = || Value::from(text);
        let length = if rules.max_length.is_some() || rules.min_length.is_some() { text.chars().count() } else { 0 };
        if let Some(most) = rules.max_length.filter(|most| exceeds(length, *most)) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            outcome.push(FieldError::too_long(&self.path(name), most));
        } else if let Some(least) = rules.min_length.filter(|least| falls_short(length, *least)) {
            outcome.push(self.invalid(name, &value(), &format!("should be at least {least} chars long")));
        } else if let Some(pattern) = &rules.pattern
            && self.step(text.len())
            && !pattern.is_match(text)
        {
            outcome.push(self.invalid(name, &value(), &format!("should match '{}'", pattern.source())));
        }
        let format = format::effective(schema.shape.type_name(), &rules.format);
        let of_text = matches!(schema.shape, Shape::String | Shape::Any | Shape::IntOrString);
        if !format.is_empty() && of_text && self.step(text.len()) && !format::matches(format, text) {
            outcome.checks += 1;
            let detail = format!("{name} in body must be of type {format}: {}", go_quote(text));
            outcome.push(FieldError::type_invalid(&self.path(name), text, detail));
        }
    }

    fn number(&self, rules: &ValueRules, number: &Number, name: Trail<'_>, outcome: &mut Outcome) {
        outcome.checks += 1;
        let shown = Value::Number(number.clone());
        let mut complain = |detail: String| outcome.push(self.invalid(name, &shown, &detail));
        if let Some(step) = &rules.multiple_of
            && !is_multiple(number, step)
        {
            complain(format!("should be a multiple of {step}"));
        }
        if let Some((limit, exclusive)) = &rules.maximum
            && over(number, limit, *exclusive)
        {
            complain(format!("should be less than {}{limit}", if *exclusive { "" } else { "or equal to " }));
        }
        if let Some((limit, exclusive)) = &rules.minimum
            && over(limit, number, *exclusive)
        {
            complain(format!("should be greater than {}{limit}", if *exclusive { "" } else { "or equal to " }));
        }
    }

    /// Numbers that the type's format cannot hold. Told of the object as a whole, without a value.
    fn out_of_range(&self, schema: &Schema, number: &Number, name: Trail<'_>) -> Option<FieldError> {
        let kind = schema.shape.type_name();
        let format = format::effective(kind, schema.format());
        let fits = match (schema.shape, format) {
            (Shape::Integer, "int32") => number.as_i64().is_some_and(|value| i32::try_from(value).is_ok()),
            (Shape::Integer, _) => number.as_i64().is_some(),
            (Shape::Number, "float") => number.as_f64().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if fits {
            return None;
        }
        let format = if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        Some(self.overall(format!("Checked value must be of type {kind} {format} in {name}")))
    }

    fn item_count(&mut self, rules: &ValueRules, count: usize, name: Trail<'_>, outcome: &mut Outcome) {
        outcome.checks += 1;
        if let Some(least) = rules.min_items.filter(|least| falls_short(count, *least)) {
            let detail = format!("should have at least {least} items");
            outcome.push(self.invalid(name, &counted(count), &detail));
        }
        if let Some(most) = rules.max_items.filter(|most| exceeds(count, *most)) {
            outcome.push(too_many(&self.path(name), count, most));
        }
    }

    fn items(
        &mut self,
        schema: &Schema,
        items: &[Value],
        old: Option<&[Value]>,
        name: Trail<'_>,
        outcome: &mut Outcome,
    ) {
        let Some(of_items) = &schema.items else { return };
        let unchanged = old == Some(items);
        let old = old.map(|old| Correlated::new(&schema.list_type, old));
        for (index, item) in items.iter().enumerate() {
            let old = if unchanged { Some(item) } else { old.as_ref().and_then(|old| old.find(item)) };
            self.value(of_items.get(), item, old, Trail::Index(&name, index), outcome);
        }
    }

    fn members(&mut self, schema: &Schema, map: &Map, old: Option<&Map>, name: Trail<'_>, outcome: &mut Outcome) {
        outcome.checks += 1;
        let before = outcome.errors.len();
        if self.member_count(schema, map, name, outcome) {
            self.required_members(schema, map, name, outcome);
        }
        if outcome.errors.len() > before && old == Some(map) {
            outcome.errors.truncate(before);
        }
        for (member, value) in map.iter() {
            if let Some(member_schema) = schema.member(member) {
                let old = old.and_then(|old| old.get(member));
                self.value(member_schema, value, old, Trail::Member(&name, member), outcome);
            }
        }
    }

    /// Whether there are neither too few nor too many members.
    fn member_count(&mut self, schema: &Schema, map: &Map, name: Trail<'_>, outcome: &mut Outcome) -> bool {
        let Some(rules) = schema.rules() else { return true };
        if let Some(least) = rules.min_properties.filter(|least| falls_short(map.len(), *least)) {
            let detail = format!("should have at least {least} properties");
            outcome.push(self.invalid(name, &counted(map.len()), &detail));
            return false;
        }
        if let Some(most) = rules.max_properties.filter(|most| exceeds(map.len(), *most)) {
            outcome.push(too_many(&self.path(name), map.len(), most));
            return false;
        }
        true
    }

    fn required_members(&self, schema: &Schema, map: &Map, name: Trail<'_>, outcome: &mut Outcome) {
        for required in schema.required.iter().filter(|required| !map.contains_key(required)) {
            outcome.push(FieldError::required(&self.path(Trail::Member(&name, required)), ""));
        }
    }

    fn junctors(&mut self, junctors: &Junctors, value: &Value, name: Trail<'_>, outcome: &mut Outcome) {
        outcome.checks += 1;
        if !junctors.any_of.is_empty() {
            let tried = self.alternatives(&junctors.any_of, value, name, true);
            if tried.fitting == 0 {
                outcome.push(self.overall(format!("\"{name}\" must validate at least one schema (anyOf)")));
                outcome.merge(tried.nearest);
            }
        }
        if !junctors.one_of.is_empty() {
            let tried = self.alternatives(&junctors.one_of, value, name, false);
            if tried.fitting != 1 {
                let how_many = match tried.fitting {
                    0 => "Found none valid".to_owned(),
                    count => format!("Found {count} valid alternatives"),
                };
                let detail = format!("\"{name}\" must validate one and only one schema (oneOf). {how_many}");
                outcome.push(self.overall(detail));
                if tried.fitting == 0 {
                    outcome.merge(tried.nearest);
                }
            }
        }
        self.all_of(&junctors.all_of, value, name, outcome);
        if let Some(not) = &junctors.not
            && self.try_one(not, value, name).is_valid()
        {
            outcome.push(self.overall(format!("\"{name}\" must not validate the schema (not)")));
        }
    }

    fn all_of(&mut self, schemas: &[Schema], value: &Value, name: Trail<'_>, outcome: &mut Outcome) {
        let mut fitting = 0;
        for schema in schemas {
            let tried = self.try_one(schema, value, name);
            fitting += usize::from(tried.is_valid());
            outcome.merge(tried);
        }
        if fitting < schemas.len() {
            let none = if fitting == 0 { ". None validated" } else { "" };
            outcome.push(self.overall(format!("\"{name}\" must validate all the schemas (allOf){none}")));
        }
    }

    fn try_one(&mut self, schema: &Schema, value: &Value, name: Trail<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        self.value(schema, value, None, name, &mut outcome);
        outcome
    }

    fn alternatives(&mut self, schemas: &[Schema], value: &Value, name: Trail<'_>, first_is_enough: bool) -> Tried {
        let mut tried = Tried::default();
        for schema in schemas {
            let outcome = self.try_one(schema, value, name);
            if outcome.is_valid() {
                tried.fitting += 1;
                if first_is_enough {
                    break;
                }
            } else if tried.nearest.is_valid() || outcome.checks > tried.nearest.checks {
                tried.nearest = outcome;
            }
        }
        tried
    }
}

/// How a value fared with alternatives.
#[derive(Default)]
struct Tried {
    fitting: usize,
    /// What is wrong in the eyes of the alternative that looked at most of the value.
    nearest: Outcome,
}

/// The elements of a list as they were, to be found by what tells them apart. Elements of other lists
/// have no identity: where such a list has changed, all of it counts as changed.
struct Correlated<'a> {
    keys: &'a [Box<str>],
    by_keys: std::collections::HashMap<Vec<Option<&'a Value>>, &'a Value>,
}

impl<'a> Correlated<'a> {
    fn new(list_type: &'a ListType, old: &'a [Value]) -> Self {
        let keys: &[Box<str>] = match list_type {
            ListType::Map(keys) => keys,
            ListType::Atomic | ListType::Set => &[],
        };
        let by_keys = if keys.is_empty() {
            Default::default()
        } else {
            old.iter().map(|item| (keys.iter().map(|key| item.get(key)).collect(), item)).collect()
        };
        Correlated { keys, by_keys }
    }

    fn find(&self, item: &'a Value) -> Option<&'a Value> {
        let identity: Vec<Option<&Value>> = self.keys.iter().map(|key| item.get(key)).collect();
        self.by_keys.get(&identity).copied()
    }
}

fn counted(count: usize) -> Value {
    Value::from(i64::try_from(count).unwrap_or(i64::MAX))
}

fn too_many(path: &Path, count: usize, most: u64) -> FieldError {
    FieldError::too_many(path, count, usize::try_from(most).unwrap_or(usize::MAX))
}

fn exceeds(length: usize, most: u64) -> bool {
    length as u64 > most
}

fn falls_short(length: usize, least: u64) -> bool {
    (length as u64) < least
}

/// A supported value as the message lists it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a number that is written as a float, or does not fit 64 bits, is an integer that floats hold
/// exactly (`swag.IsFloat64AJSONInteger`).
fn whole_float(number: &Number) -> bool {
    let value = number.as_f64();
    value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0
}

/// Whether `left` is greater than `right`, or equal where that is excluded. Integers are compared as
/// such: floats do not tell large ones apart.
fn over(left: &Number, right: &Number, exclusive: bool) -> bool {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left > right || exclusive && left == right,
        _ => {
            let (left, right) = (left.as_f64(), right.as_f64());
            left > right || exclusive && left == right
        }
    }
}

fn is_multiple(number: &Number, step: &Number) -> bool {
    match (number.as_i64(), step.as_i64()) {
        (Some(_), Some(0)) => true,
        (Some(value), Some(step)) => value.checked_rem(step).is_none_or(|rest| rest == 0),
        _ => {
            let (number, step) = (number.as_f64(), step.as_f64());
            is_whole(if step < 1.0 { 1.0 / step * number } else { number / step })
        }
    }
}

/// Whether a number is whole, but for what is lost in computing with floats
/// (`github.com/go-openapi/swag`, `IsFloat64AJSONInteger`).
fn is_whole(number: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    /// The largest number up to which all whole ones are told apart.
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    let below = number.trunc();
    number.abs() <= LARGEST && (number == below || below > 0.0 && (number - below) / (number + below) < EPSILON)
}
