//! Whether two answers say the same: two servers give the same thing other UIDs, versions, times and
//! generated names, so these are paired as they are first seen and have to stay paired.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use allotment_machinery::json::{Map, Value};
use regex::Regex;

use crate::client::Reply;

/// Headers that clients read.
const HEADERS: &[&str] = &["content-type", "warning", "allow", "cache-control", "location"];
/// Headers of which only matters whether they are there.
const HEADERS_PRESENT: &[&str] = &["etag", "audit-id", "retry-after"];

/// One place in which two answers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where: `status`, `header warning`, `$.metadata.name`.
    pub path: String,
    /// What kube-apiserver says; empty where it says nothing.
    pub theirs: String,
    /// What we say.
    pub ours: String,
}

impl Difference {
    /// The place without the positions in lists and the names of a run: what groups differences.
    pub fn place(&self) -> String {
        static INDEX: LazyLock<Regex> = LazyLock::new(|| regex(r"\[\d+\]"));
        INDEX.replace_all(&self.path, "[]").into_owned()
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// What is one thing under two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Uid,
    Version,
    Name,
    Address,
}

/// What was paired so far in one run of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    ours: BTreeMap<(Class, String), String>,
    theirs: BTreeMap<(Class, String), String>,
}

impl Pairs {
    /// Pairs two names of a thing; false if one of them is paired otherwise.
    fn pair(&mut self, class: Class, theirs: &str, ours: &str) -> bool {
        let there = self.ours.entry((class, theirs.to_owned())).or_insert_with(|| ours.to_owned()).clone();
        let back = self.theirs.entry((class, ours.to_owned())).or_insert_with(|| theirs.to_owned()).clone();
        there == ours && back == theirs
    }

    fn paired(&self, class: Class, theirs: &str, ours: &str) -> bool {
        self.ours.get(&(class, theirs.to_owned())).is_some_and(|known| known == ours)
    }

    /// Our text with generated names as theirs are.
    fn with_their_names(&self, ours: &str) -> String {
        let mut text = ours.to_owned();
        for ((class, ours), theirs) in &self.theirs {
            if *class == Class::Name && ours != theirs {
                text = text.replace(ours, theirs);
            }
        }
        text
    }

    /// Learns generated names from a pair of objects.
    fn learn_names(&mut self, theirs: &Value, ours: &Value) {
        let name = |value: &Value| {
            let meta = value.get("metadata")?;
            let prefix = meta.get("generateName")?.as_str()?.to_owned();
            let name = meta.get("name")?.as_str()?.to_owned();
            name.starts_with(&prefix).then_some(name)
        };
        if let (Some(theirs), Some(ours)) = (name(theirs), name(ours)) {
            self.pair(Class::Name, &theirs, &ours);
        }
    }
}

/// What is compared of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Whether managedFields are.
    pub managed_fields: bool,
}

/// All differences of two answers.
pub(crate) fn compare_replies(pairs: &mut Pairs, rules: Rules, theirs: &Reply, ours: &Reply) -> Vec<Difference> {
    let mut comparison = Comparison { pairs, differences: Vec::new() };
    if theirs.status != ours.status {
        comparison.add("status", theirs.status.to_string(), ours.status.to_string());
    }
    for name in HEADERS {
        comparison.headers(name, theirs, ours);
    }
    for name in HEADERS_PRESENT {
        let there = |reply: &Reply| if reply.header(name).is_empty() { "absent" } else { "present" };
        if there(theirs) != there(ours) {
            comparison.add(&format!("header {name}"), there(theirs).to_owned(), there(ours).to_owned());
        }
    }
    match (theirs.value(), ours.value()) {
        (Some(left), Some(right)) => {
            comparison.pairs.learn_names(&left, &right);
            let soft = is_decoder_text(&left);
            let (left, right) = (tidy(left, rules, soft), tidy(right, rules, soft));
            comparison.values("$", "", &left, &right);
        }
        (None, None) => {
            let text = |reply: &Reply| String::from_utf8_lossy(&reply.body).into_owned();
            comparison.texts("body", &text(theirs), &text(ours));
        }
        (left, right) => {
            let kind = |value: Option<Value>, reply: &Reply| match value {
                Some(_) => "JSON".to_owned(),
                None => clip(&String::from_utf8_lossy(&reply.body)),
            };
            comparison.add("body", kind(left, theirs), kind(right, ours));
        }
    }
    comparison.differences
}

/// All differences of two lists of events.
pub(crate) fn compare_events(pairs: &mut Pairs, rules: Rules, theirs: &[Value], ours: &[Value]) -> Vec<Difference> {
    let mut comparison = Comparison { pairs, differences: Vec::new() };
    let tidied = |events: &[Value]| Value::Array(events.iter().map(|e| tidy(e.clone(), rules, false)).collect());
    comparison.values("events", "", &tidied(theirs), &tidied(ours));
    comparison.differences
}

struct Comparison<'a> {
    pairs: &'a mut Pairs,
    differences: Vec<Difference>,
}

impl Comparison<'_> {
    fn add(&mut self, path: &str, theirs: String, ours: String) {
        self.differences.push(Difference { path: path.to_owned(), theirs, ours });
    }

    fn headers(&mut self, name: &str, theirs: &Reply, ours: &Reply) {
        let values = |reply: &Reply| {
            let mut values = reply.header(name);
            values.iter_mut().for_each(|value| *value = value.replace("; ", ";"));
            values.sort();
            values.join(" | ")
        };
        self.texts(&format!("header {name}"), &values(theirs), &values(ours));
    }

    fn values(&mut self, path: &str, key: &str, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(left), Value::Object(right)) => self.objects(path, left, right),
            (Value::Array(left), Value::Array(right)) => {
                for index in 0..left.len().max(right.len()) {
                    let path = format!("{path}[{index}]");
                    match (left.get(index), right.get(index)) {
                        (Some(left), Some(right)) => self.values(&path, key, left, right),
                        (left, right) => self.add(&path, shown(left), shown(right)),
                    }
                }
            }
            (Value::String(left), Value::String(right)) => self.strings(path, key, left, right),
            (Value::Number(left), Value::Number(right)) if is_node_port(key, left.as_i64(), right.as_i64()) => {}
            _ if theirs == ours => {}
            _ => self.add(path, shown(Some(theirs)), shown(Some(ours))),
        }
    }

    /// The key of ours that is one of theirs but for a UID that was paired.
    fn own_key(&self, key: &str, ours: &Map) -> Option<String> {
        if !key.contains("\"uid\":") || ours.contains_key(key) {
            return None;
        }
        let uids = self.pairs.ours.iter().filter(|((class, theirs), _)| *class == Class::Uid && key.contains(theirs));
        uids.map(|((_, theirs), own)| key.replace(theirs.as_str(), own)).find(|own| ours.contains_key(own))
    }

    fn objects(&mut self, path: &str, theirs: &Map, ours: &Map) {
        for (key, left) in theirs.iter() {
            let own = self.own_key(key, ours);
            let path = format!("{path}.{key}");
            match ours.get(own.as_deref().unwrap_or(key)) {
                Some(right) => self.values(&path, key, left, right),
                None => self.add(&path, shown(Some(left)), "absent".to_owned()),
            }
        }
        for (key, right) in ours.iter() {
            if theirs.contains_key(key) || theirs.keys().any(|their| self.own_key(their, ours).as_deref() == Some(key))
            {
                continue;
            }
            self.add(&format!("{path}.{key}"), "absent".to_owned(), shown(Some(right)));
        }
    }

    fn strings(&mut self, path: &str, key: &str, theirs: &str, ours: &str) {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let class = match key {
            "resourceVersion" if digits(theirs) && digits(ours) && theirs != "0" => Class::Version,
            // Ages and ports of nodes, in tables.
            "cells" if is_age(theirs) && is_age(ours) => return,
            "cells" if without_node_ports(theirs) == without_node_ports(ours) => return,
            // Each server hashes what it likes.
            "storageVersionHash" if !theirs.is_empty() && !ours.is_empty() => return,
            "uid" if is_uuid(theirs) && is_uuid(ours) => Class::Uid,
            "clusterIP" | "clusterIPs" | "cells" if is_address(theirs) && is_address(ours) => Class::Address,
            _ => return self.texts(path, theirs, ours),
        };
        if !self.pairs.pair(class, theirs, ours) {
            let known = |known: Option<&String>| known.map_or("nothing".to_owned(), Clone::clone);
            let left = known(self.pairs.ours.get(&(class, theirs.to_owned())));
            let right = known(self.pairs.theirs.get(&(class, ours.to_owned())));
            self.add(path, format!("{theirs} (seen with {left})"), format!("{ours} (seen with {right})"));
        }
    }

    /// Texts are the same if they are once UIDs, versions, names and times in them are taken for paired.
    fn texts(&mut self, path: &str, theirs: &str, ours: &str) {
        if theirs == ours {
            return;
        }
        let renamed = self.pairs.with_their_names(ours);
        if theirs == renamed {
            return;
        }
        let (left, right) = (tokens(theirs), tokens(&renamed));
        let mut same = left.len() == right.len();
        let mut before = "";
        for (left, right) in left.iter().zip(&right) {
            // The newest version of a server is nobody else's.
            let current =
                ["current: ", "the ResourceVersion in the precondition ("].iter().any(|of| before.ends_with(of))
                    || theirs.starts_with("too old resource version: ");
            same &= current && matches!((left, right), (Token::Digits(_), Token::Digits(_))) || self.same(left, right);
            if let Token::Text(text) = left {
                before = text;
            }
        }
        if !same {
            self.add(path, clip(theirs), clip(ours));
        }
    }

    fn same(&mut self, theirs: &Token<'_>, ours: &Token<'_>) -> bool {
        match (theirs, ours) {
            (Token::Text(left), Token::Text(right)) => left == right,
            (Token::Uid(left), Token::Uid(right)) => self.pairs.pair(Class::Uid, left, right),
            (Token::Time(left), Token::Time(right)) => left == right || (is_recent(left) && is_recent(right)),
            (Token::Digits(left), Token::Digits(right)) => {
                left == right || self.pairs.paired(Class::Version, left, right)
            }
            (Token::Generated(left), Token::Generated(right)) => {
                prefix(left) == prefix(right) && self.pairs.pair(Class::Name, left, right)
            }
            (Token::Opaque, Token::Opaque) => true,
            _ => false,
        }
    }
}

enum Token<'a> {
    Text(&'a str),
    Uid(&'a str),
    Time(&'a str),
    /// What each server has its own of: a token, a certificate.
    Opaque,
    Digits(&'a str),
    /// A generated name, as sequences ask for them.
    Generated(&'a str),
}

/// A generated name without its random end.
fn prefix(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(prefix, _)| prefix)
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
        regex(concat!(
            r"(?<certificate>-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----\n?)",
            r"|(?<uid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})",
            r"|(?<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z)",
            r"|(?<jwt>eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)",
            r"|(?<generated>(gen\d+|kube-api-access)-[bcdfghjklmnpqrstvwxz2456789]{5})",
            r"|(?<digits>\d+)"
        ))
    });
    let mut tokens = Vec::new();
    let mut at = 0;
    for found in TOKENS.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        tokens.push(Token::Text(&text[at..whole.start()]));
        at = whole.end();
        tokens.push(if found.name("uid").is_some() {
            Token::Uid(whole.as_str())
        } else if found.name("time").is_some() {
            Token::Time(whole.as_str())
        } else if found.name("jwt").or(found.name("certificate")).is_some() {
            Token::Opaque
        } else if found.name("generated").is_some() {
            Token::Generated(whole.as_str())
        } else {
            Token::Digits(whole.as_str())
        });
    }
    tokens.push(Token::Text(&text[at..]));
    tokens
}

fn is_uuid(text: &str) -> bool {
    matches!(tokens(text).as_slice(), [Token::Text(""), Token::Uid(_), Token::Text("")])
}

/// A short span of time, as tables show it.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|seconds| !seconds.is_empty() && seconds.bytes().all(|c| c.is_ascii_digit()))
}

fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

/// The ports of a Service as a table shows them, without those of nodes that the server chose.
fn without_node_ports(text: &str) -> std::borrow::Cow<'_, str> {
    static PORTS: LazyLock<Regex> = LazyLock::new(|| regex(r":(?:3[01]\d{3}|32[0-6]\d{2}|327[0-5]\d|3276[0-7])/"));
    PORTS.replace_all(text, ":<port>/")
}

fn is_node_port(key: &str, theirs: Option<i64>, ours: Option<i64>) -> bool {
    let in_range = |port: Option<i64>| port.is_some_and(|port| (30000..=32767).contains(&port));
    (key == "nodePort" || key == "healthCheckNodePort") && in_range(theirs) && in_range(ours)
}

/// Whether a time is of about now, which the server put in.
fn is_recent(text: &str) -> bool {
    const DAYS: i64 = 2;
    let now = jiff::Timestamp::now().as_second();
    text.parse::<jiff::Timestamp>().is_ok_and(|time| (time.as_second() - now).abs() < DAYS * 24 * 60 * 60)
}

/// Texts that come from the decoder of kube-apiserver's language, not from the API.
fn is_decoder_text(body: &Value) -> bool {
    static TEXTS: LazyLock<Regex> = LazyLock::new(|| {
        regex(concat!(
            r#"cannot unmarshal|unknown conversion|no kind "|no kind is registered for the type"#,
            r#"|is registered for version|JSON input"#,
            r#"|invalid character '|patch: Invalid value: "[{m]|unrecognized type|cannot restore"#,
            r"|error converting YAML|strconv\.|yaml: |error decoding|unable to decode|json patch",
            r"|illegal base64 data|parsing time "
        ))
    });
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    text("kind") == Some("Status") && text("message").is_some_and(|message| TEXTS.is_match(message))
}

/// An answer without what servers do not keep stable.
fn tidy(value: Value, rules: Rules, soft: bool) -> Value {
    let mut value = sort_causes(value);
    sort_rules(&mut value);
    if soft {
        soften(&mut value);
    }
    tidy_within(&mut value, rules, false);
    value
}

fn tidy_within(value: &mut Value, rules: Rules, bookmark: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| tidy_within(item, rules, bookmark)),
        Value::Object(map) => {
            let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
            let is_list = bookmark || kind.ends_with("List") || kind == "Table" || map.contains_key("items");
            let event_is_bookmark = map.get("type").and_then(Value::as_str) == Some("BOOKMARK");
            if let Some(meta) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                tidy_metadata(meta, rules, is_list);
            }
            for (_, member) in map.iter_mut() {
                tidy_within(member, rules, event_is_bookmark);
            }
        }
        _ => {}
    }
}

fn tidy_metadata(meta: &mut Map, rules: Rules, is_list: bool) {
    // The version of a list is that of the whole store, which others write to as well.
    if is_list && meta.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        meta.insert("resourceVersion", "<version>");
    }
    if meta.get("continue").and_then(Value::as_str).is_some_and(|token| !token.is_empty()) {
        meta.insert("continue", "<continue>");
    }
    // Each server has a part of its own that writes this one.
    let own = meta.get("name").and_then(Value::as_str) == Some("kube-root-ca.crt");
    if !rules.managed_fields || own {
        meta.remove("managedFields");
    } else if let Some(entries) = meta.get_mut("managedFields").and_then(Value::as_array_mut) {
        // Their order depends on seconds of the clock.
        entries.sort_by_cached_key(|entry| {
            ["manager", "operation", "subresource", "apiVersion", "fieldsV1"].map(|key| shown(entry.get(key)))
        });
    }
}

/// The rules of a review come in the order in which bindings are found.
fn sort_rules(body: &mut Value) {
    if body.get("kind").and_then(Value::as_str) != Some("SelfSubjectRulesReview") {
        return;
    }
    for list in ["resourceRules", "nonResourceRules"] {
        if let Some(rules) = body.get_mut("status").and_then(|s| s.get_mut(list)).and_then(Value::as_array_mut) {
            rules.sort_by_cached_key(Value::to_string);
        }
    }
}

/// Several complaints have no promised order: sorted in the causes and in the message.
fn sort_causes(mut body: Value) -> Value {
    let text = |cause: &Value, key: &str| cause.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if body.get("kind").and_then(Value::as_str) != Some("Status") {
        return body;
    }
    let Some(causes) = body.get_mut("details").and_then(|d| d.get_mut("causes")).and_then(Value::as_array_mut) else {
        return body;
    };
    causes.sort_by_cached_key(|cause| ["field", "reason", "message"].map(|key| text(cause, key)));
    let parts: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect();
    let message = body.get("message").and_then(Value::as_str).unwrap_or_default();
    if let Some((head, list)) = message.split_once(" is invalid: [")
        && let Some(list) = list.strip_suffix(']')
        && let Some(mut found) = split_parts(list, &parts)
    {
        found.sort();
        found.dedup();
        let message = format!("{head} is invalid: [{}]", found.join(", "));
        if let Some(map) = body.as_object_mut() {
            map.insert("message", message);
        }
    }
    body
}

/// Takes a list of complaints apart into those known; `None` if it has others.
fn split_parts<'a>(mut list: &'a str, parts: &[String]) -> Option<Vec<&'a str>> {
    let mut found = Vec::new();
    while !list.is_empty() {
        let longest = parts.iter().filter(|part| list.starts_with(part.as_str())).map(String::len).max()?;
        let (part, rest) = list.split_at(longest);
        found.push(part);
        list = rest.strip_prefix(", ").unwrap_or(rest);
    }
    Some(found)
}

fn soften(body: &mut Value) {
    if let Some(map) = body.as_object_mut() {
        map.remove("message");
        if let Some(causes) = map.get_mut("details").and_then(|d| d.get_mut("causes")).and_then(Value::as_array_mut) {
            causes.iter_mut().filter_map(Value::as_object_mut).for_each(|cause| {
                cause.remove("message");
            });
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| clip(&value.to_string()))
}

/// A text of a length to be read.
fn clip(text: &str) -> String {
    const LONGEST: usize = 600;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_nodes_in_tables_are_each_servers_own_and_others_are_not() {
        let check = |theirs: &str, ours: &str, same: bool| {
            assert_eq!(without_node_ports(theirs) == without_node_ports(ours), same, "{theirs} {ours}");
        };
        check("80:30741/TCP,80:30741/UDP", "80:31694/TCP,80:31694/UDP", true);
        check("80:30741/TCP", "81:31694/TCP", false);
        check("80:30741/TCP", "80:31694/UDP", false);
        check("80:30741/TCP", "80/TCP", false);
        check("80:32767/TCP", "80:32768/TCP", false);
    }
}
