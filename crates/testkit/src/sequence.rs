//! Sequences of requests as data: written once, put to any server.
//!
//! A text may hold `${name}`: `r`, `ns` and `g` stand for names of the run's own, `rv3`, `list3`, `uid3`,
//! `continue3` for what the answer to step 3 said: the version of an object, that of a list, and so on. What is not
//! known is sent as `1`, a version as `0`.

use std::collections::BTreeMap;

use allotment_machinery::json::{Map, Value};

use crate::client::Call;

/// A sequence of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// One request of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Which step it was when the sequence was made; what its answer says is known by this number.
    pub id: usize,
    /// `GET`, …
    pub method: String,
    /// The path, without query.
    pub path: String,
    /// The query's parameters, unescaped.
    pub query: Vec<(String, String)>,
    /// Headers beside the usual ones.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// What kind of step it is.
    pub kind: StepKind,
}

/// What is done with a step's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepKind {
    /// It is compared.
    #[default]
    Request,
    /// It is repeated until it has this status; only that is compared.
    Until(u16),
    /// It is a watch; its events are compared at the end.
    Watch,
}

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    #[default]
    None,
    /// JSON.
    Json(Value),
    /// Any text.
    Raw(String),
}

/// What the variables of a run stand for on one server.
pub(crate) type Variables = BTreeMap<String, String>;

impl Sequence {
    /// Whether a namespace of its own is wanted.
    pub(crate) fn wants_namespace(&self) -> bool {
        self.steps.iter().any(|step| step.mentions("${ns}"))
    }
}

impl Step {
    /// Whether `text` stands anywhere in it.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        let pairs = self.query.iter().chain(&self.headers);
        let in_body = match &self.body {
            Body::None => false,
            Body::Json(value) => value.to_string().contains(text),
            Body::Raw(raw) => raw.contains(text),
        };
        in_body || self.path.contains(text) || pairs.into_iter().any(|(_, value)| value.contains(text))
    }

    /// The name of the object in its body.
    pub(crate) fn json_name(&self) -> Option<String> {
        let Body::Json(body) = &self.body else { return None };
        body.at(&["metadata", "name"]).and_then(Value::as_str).map(str::to_owned)
    }

    /// The path with its query, escaped.
    pub(crate) fn target(&self, variables: &Variables) -> String {
        self.written(|text, also| escape(&substitute(text, variables), also))
    }

    fn written(&self, write: impl Fn(&str, &str) -> String) -> String {
        let mut target = write(&self.path, "/:");
        for (index, (name, value)) in self.query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            target.extend([&write(name, ""), "=", &write(value, "")]);
        }
        target
    }

    /// The request, with what the variables stand for.
    pub(crate) fn call(&self, variables: &Variables) -> Call {
        let body = match &self.body {
            Body::None => None,
            Body::Json(value) => Some(substitute_all(value, variables).to_vec()),
            Body::Raw(text) => Some(substitute(text, variables).into_bytes()),
        };
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), substitute(value, variables)));
        Call { method: self.method.clone(), path: self.target(variables), headers: headers.collect(), body }
    }
}

/// The path with its query, escaped but for the variables.
pub(crate) fn pattern(step: &Step) -> String {
    step.written(|text, also| {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else { break };
            out.extend([&escape(before, also), "${", name, "}"]);
            rest = after;
        }
        out + &escape(rest, also)
    })
}

/// Percent-encodes all but unreserved characters and those of `also`.
fn escape(text: &str, also: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || also.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Puts in what variables stand for; where one is not known, what is nobody's: version `0`, else `1`.
pub(crate) fn substitute(text: &str, variables: &Variables) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(before);
        let unknown = if name.starts_with("rv") || name.starts_with("list") { "0" } else { "1" };
        out.push_str(variables.get(name).map_or(unknown, String::as_str));
        rest = after;
    }
    out + rest
}

fn substitute_all(value: &Value, variables: &Variables) -> Value {
    match value {
        Value::String(text) => substitute(text, variables).into(),
        Value::Array(items) => Value::Array(items.iter().map(|item| substitute_all(item, variables)).collect()),
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| (substitute(key, variables), substitute_all(value, variables)));
            Value::Object(members.collect::<Map>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    #[test]
    fn variables_are_put_in_and_queries_escaped() {
        let step = Step {
            method: "PUT".to_owned(),
            path: "/api/v1/namespaces/${ns}/configmaps/a".to_owned(),
            query: vec![("labelSelector".to_owned(), "a in (b,c),x=${uid1}".to_owned())],
            body: Body::Json(json!({"metadata": {"resourceVersion": "${rv4}", "${r}": "${gone}"}})),
            ..Step::default()
        };
        let known = [("ns", "g-x"), ("uid1", "u/1"), ("rv4", "77"), ("r", "x")];
        let variables = known.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let call = step.call(&variables);
        assert_eq!(call.path, "/api/v1/namespaces/g-x/configmaps/a?labelSelector=a%20in%20%28b%2Cc%29%2Cx%3Du%2F1");
        assert_eq!(String::from_utf8(call.body.unwrap()).unwrap(), r#"{"metadata":{"resourceVersion":"77","x":"1"}}"#);
        assert_eq!(
            pattern(&step),
            "/api/v1/namespaces/${ns}/configmaps/a?labelSelector=a%20in%20%28b%2Cc%29%2Cx%3D${uid1}"
        );
        assert!(step.mentions("${ns}") && !step.mentions("${g}"));
    }
}
