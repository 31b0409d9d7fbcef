//! Requirements on labels, from the query form, from a `LabelSelector` object, and matching.

use std::fmt;
use std::str::FromStr;

use super::parse::{self, SelectorParseError};
use crate::field::{FieldError, Path, ShownValue};
use crate::json::{Map, Value};
use crate::metadata;
use crate::names;

/// How a label's value relates to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// `k=v`
    Equals,
    /// `k==v`
    DoubleEquals,
    /// `k!=v`; holds also where there is no such label.
    NotEquals,
    /// `k in (v,w)`
    In,
    /// `k notin (v,w)`; holds also where there is no such label.
    NotIn,
    /// `k`
    Exists,
    /// `!k`
    DoesNotExist,
    /// `k>1`, both being integers.
    GreaterThan,
    /// `k<1`, both being integers.
    LessThan,
}

/// One condition on one label. Keys and values are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, each once.
    values: Vec<String>,
}

/// What is wrong with a requirement: one error per fault, shown as Kubernetes shows an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementError {
    /// The faults; at least one.
    pub errors: Vec<FieldError>,
}

impl fmt::Display for RequirementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for text in self.errors.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

impl std::error::Error for RequirementError {}

impl Requirement {
    /// A requirement, if key and values are valid and as many as the operator takes.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, RequirementError> {
        values.sort();
        values.dedup();
        let mut errors = Vec::new();
        let faults = names::qualified_name(key);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(&Path::new("key"), key, faults.join("; ")));
        }
        check_count(operator, &values, &mut errors);
        for (index, value) in values.iter().enumerate() {
            let path = || Path::new("values").index(index);
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(&path(), value, detail));
            }
            let faults = names::label_value(value);
            if !faults.is_empty() {
                errors.push(FieldError::invalid(&path().key(key), value, faults.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(Requirement { key: key.to_owned(), operator, values })
        } else {
            Err(RequirementError { errors })
        }
    }

    /// The key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values in order, each once.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether it holds for an object with these labels (`metadata.labels`).
    pub fn matches(&self, labels: Option<&Map>) -> bool {
        let value = labels.and_then(|labels| labels.get(&self.key)).map(|value| value.as_str().unwrap_or_default());
        let listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(std::cmp::Ordering::is_gt),
            Operator::LessThan => self.compare(value).is_some_and(std::cmp::Ordering::is_lt),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<std::cmp::Ordering> {
        let bound: i64 = self.values.first()?.parse().ok()?;
        Some(value?.parse::<i64>().ok()?.cmp(&bound))
    }
}

fn check_count(operator: Operator, values: &[String], errors: &mut Vec<FieldError>) {
    let detail = match (operator, values.len()) {
        (Operator::In | Operator::NotIn, 0) => "for 'in', 'notin' operators, values set can't be empty",
        (Operator::Equals | Operator::DoubleEquals | Operator::NotEquals, count) if count != 1 => {
            "exact-match compatibility requires one single value"
        }
        (Operator::Exists | Operator::DoesNotExist, 1..) => "values set must be empty for exists and does not exist",
        (Operator::GreaterThan | Operator::LessThan, count) if count != 1 => {
            "for 'Gt', 'Lt' operators, exactly one value is required"
        }
        _ => return,
    };
    let shown = Value::Array(values.iter().map(|value| Value::from(value.as_str())).collect());
    errors.push(FieldError::invalid(&Path::new("values"), &shown, detail));
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = self.values.join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A selector of objects by their labels: all its requirements have to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// Sorted by key. `None` selects nothing.
    requirements: Option<Vec<Requirement>>,
}

/// Why a `LabelSelector` object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorObjectError {
    /// An operator that there is not.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// A key, or values, that cannot be.
    #[error("{0}")]
    Requirement(#[from] RequirementError),
}

impl LabelSelector {
    /// Selects every object.
    pub const fn everything() -> Self {
        LabelSelector { requirements: Some(Vec::new()) }
    }

    /// Selects no object.
    pub const fn nothing() -> Self {
        LabelSelector { requirements: None }
    }

    /// Selects what meets all of `requirements`.
    pub fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        LabelSelector { requirements: Some(requirements) }
    }

    /// The selector that an object of type `metav1.LabelSelector` stands for: none selects nothing, an
    /// empty one everything.
    pub fn from_object(object: Option<&Value>) -> Result<Self, SelectorObjectError> {
        let Some(object) = object.and_then(Value::as_object) else { return Ok(LabelSelector::nothing()) };
        let mut requirements = Vec::new();
        let labels = object.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flat_map(Map::iter) {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        let expressions = object.get("matchExpressions").and_then(Value::as_array).unwrap_or_default();
        for expression in expressions {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorObjectError::Operator(other.to_owned())),
            };
            let values = expression.get("values").and_then(Value::as_array).unwrap_or_default();
            let values = values.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
            requirements.push(Requirement::new(text("key"), operator, values)?);
        }
        Ok(LabelSelector::of(requirements))
    }

    /// Whether it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// The requirements, sorted by key; empty also for [`LabelSelector::nothing`].
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Whether it selects an object with these labels (`metadata.labels`).
    pub fn matches(&self, labels: Option<&Map>) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }

    /// The keys of labels that whatever is selected has.
    pub fn required_keys(&self) -> impl Iterator<Item = &str> {
        let requires = |requirement: &&Requirement| {
            !matches!(requirement.operator, Operator::NotEquals | Operator::NotIn | Operator::DoesNotExist)
        };
        self.requirements().iter().filter(requires).map(Requirement::key)
    }

    /// The one value that label `key` must have, if the selector asks for one.
    pub fn exact(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements().iter().find(|requirement| requirement.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [only]) => Some(only),
            _ => None,
        }
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorParseError;

    /// Reads the query form: `a=b,c!=d,e in (f,g),!h`.
    fn from_str(text: &str) -> Result<Self, SelectorParseError> {
        parse::requirements(text).map(LabelSelector::of)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// What is wrong with an object of type `metav1.LabelSelector` at `path`.
pub fn validate_object(selector: &Map, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        errors.extend(metadata::validate_labels(labels, &path.child("matchLabels")));
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).unwrap_or_default();
    for (index, expression) in expressions.iter().enumerate() {
        let path = || path.child("matchExpressions").index(index);
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array).unwrap_or_default();
        match (text("operator"), values) {
            ("In" | "NotIn", []) => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&path().child("values"), detail));
            }
            ("Exists" | "DoesNotExist", [_, ..]) => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&path().child("values"), detail));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (other, _) => {
                let shown = ShownValue::from(other);
                errors.push(FieldError::invalid(&path().child("operator"), shown, "not a valid selector operator"));
            }
        }
        let key = text("key");
        let faults = names::qualified_name(key).into_iter();
        errors.extend(faults.map(|fault| FieldError::invalid(&path().child("key"), key, fault)));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let path = || path().child("values").index(index);
            let faults = names::label_value(value).into_iter();
            errors.extend(faults.map(|fault| FieldError::invalid(&path(), value, fault)));
        }
    }
    errors
}
