//! The algebra of RBAC rules: whether a rule allows a request, whether rules cover others, and how rules
//! are shown (`k8s.io/component-helpers/auth/rbac/validation`). Who has which rules is left to the
//! authorizer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::gotext::go_quote;
use crate::json::{Map, Value};

/// Stands for everything in a rule's lists.
pub const ALL: &str = "*";

/// How many comparisons of single permissions with rules one [`uncovered`] makes. A rule with long lists
/// stands for the product of their lengths; one that stands for more than this is taken as a whole.
const MAX_COMPARISONS: usize = 20_000_000;

/// What may be done: verbs on resources, or verbs on paths that are no resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyRule {
    /// `get`, `list`, …, or `*`.
    pub verbs: Vec<String>,
    /// Empty text is the core group; `*` is every group.
    pub api_groups: Vec<String>,
    /// `pods`, `pods/log`, `*/scale`, or `*`.
    pub resources: Vec<String>,
    /// The only names that it is about; empty for all.
    pub resource_names: Vec<String>,
    /// Paths, or beginnings of paths that end in `*`.
    pub non_resource_urls: Vec<String>,
}

/// A request on a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest<'a> {
    /// What is to be done.
    pub verb: &'a str,
    /// The group; empty for the core group.
    pub api_group: &'a str,
    /// The resource without subresource.
    pub resource: &'a str,
    /// The subresource; may be empty.
    pub subresource: &'a str,
    /// The name; empty where the request is about no single object.
    pub name: &'a str,
}

impl PolicyRule {
    /// A rule from its JSON; what is absent is empty.
    pub fn from_json(rule: &Value) -> Self {
        let list = |field: &str| {
            let items = rule.get(field).and_then(Value::as_array).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        PolicyRule {
            verbs: list("verbs"),
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// The rules of a role: what is under `rules`.
    pub fn list_from_json(rules: Option<&Value>) -> Vec<Self> {
        rules.and_then(Value::as_array).unwrap_or_default().iter().map(PolicyRule::from_json).collect()
    }

    /// The rule as JSON; what is empty is left out, but for the verbs.
    pub fn to_json(&self) -> Value {
        let list = |items: &[String]| Value::Array(items.iter().map(|item| Value::from(item.as_str())).collect());
        let mut map = Map::from_iter([(String::from("verbs"), list(&self.verbs))]);
        for (field, items) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !items.is_empty() {
                map.insert(field, list(items));
            }
        }
        map.into()
    }

    /// Whether the rule allows a request on a resource.
    pub fn allows(&self, request: &ResourceRequest<'_>) -> bool {
        has_or_all(&self.verbs, request.verb)
            && has_or_all(&self.api_groups, request.api_group)
            && self.resources.iter().any(|resource| resource_matches(resource, request))
            && (self.resource_names.is_empty() || has(&self.resource_names, request.name))
    }

    /// Whether the rule allows a request on a path that is no resource.
    pub fn allows_path(&self, verb: &str, path: &str) -> bool {
        has_or_all(&self.verbs, verb) && self.non_resource_urls.iter().any(|url| url_covers(url, path))
    }

    /// Whether everything that `other` allows, this one allows. Looks at single rules: what several
    /// allow together is [`uncovered`]'s business.
    pub fn covers(&self, other: &PolicyRule) -> bool {
        let names = if other.resource_names.is_empty() {
            self.resource_names.is_empty()
        } else {
            self.resource_names.is_empty() || other.resource_names.iter().all(|name| has(&self.resource_names, name))
        };
        names
            && other.verbs.iter().all(|verb| has_or_all(&self.verbs, verb))
            && other.api_groups.iter().all(|group| has_or_all(&self.api_groups, group))
            && other.resources.iter().all(|resource| resource_covered(&self.resources, resource))
            && other.non_resource_urls.iter().all(|url| self.non_resource_urls.iter().any(|own| url_covers(own, url)))
    }

    /// How many single permissions the rule stands for.
    fn permissions(&self) -> usize {
        let on_resources = self
            .api_groups
            .len()
            .saturating_mul(self.resources.len())
            .saturating_mul(self.verbs.len())
            .saturating_mul(self.resource_names.len().max(1));
        on_resources.saturating_add(self.non_resource_urls.len().saturating_mul(self.verbs.len()))
    }

    /// The same as rules with one verb, one group, one resource and at most one name each, or one verb
    /// and one path.
    pub fn break_down(&self) -> impl Iterator<Item = PolicyRule> {
        let one = |text: &str| vec![text.to_owned()];
        let no_name = [None];
        let names: Vec<Option<&str>> = self.resource_names.iter().map(|name| Some(name.as_str())).collect();
        let names = if names.is_empty() { no_name.to_vec() } else { names };
        let on_resources = self.api_groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    names.clone().into_iter().map(move |name| PolicyRule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: name.map(one).unwrap_or_default(),
                        non_resource_urls: Vec::new(),
                    })
                })
            })
        });
        let on_paths = self.non_resource_urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| PolicyRule {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..PolicyRule::default()
            })
        });
        on_resources.chain(on_paths)
    }

    /// Group, resource and name, if the rule has one of each and nothing but verbs besides.
    fn simple_subject(&self) -> Option<(&str, &str, Option<&str>)> {
        match (self.api_groups.as_slice(), self.resources.as_slice(), self.resource_names.as_slice()) {
            _ if !self.non_resource_urls.is_empty() => None,
            ([group], [resource], []) => Some((group, resource, None)),
            ([group], [resource], [name]) => Some((group, resource, Some(name))),
            _ => None,
        }
    }
}

/// As messages show a rule: `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut first = true;
        for (title, items) in [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ] {
            if !items.is_empty() {
                let comma = if std::mem::take(&mut first) { "" } else { ", " };
                write!(f, "{comma}{title}:{}", quoted_list(items))?;
            }
        }
        f.write_str("}")
    }
}

/// The single permissions of `wanted` that `held` does not cover. What one rule of `held` covers as a
/// whole is not broken down; a rule that stands for too many permissions counts as not covered, whole.
pub fn uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let covered = |rule: &PolicyRule| held.iter().any(|own| own.covers(rule));
    let mut missing = Vec::new();
    let mut left = MAX_COMPARISONS;
    for rule in wanted {
        let permissions = rule.permissions();
        // A rule that allows nothing asks for nothing; one that is covered whole needs no closer look.
        if permissions == 0 || covered(rule) {
            continue;
        }
        match left.checked_sub(permissions.saturating_mul(held.len().max(1))) {
            Some(rest) => {
                left = rest;
                missing.extend(rule.break_down().filter(|single| !covered(single)));
            }
            None => missing.push(rule.clone()),
        }
    }
    missing
}

/// Rules on the same resource, and name if any, joined into one with all their verbs. The others stay.
pub fn compact(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut joined: BTreeMap<(&str, &str, Option<&str>), PolicyRule> = BTreeMap::new();
    let mut out = Vec::new();
    for rule in rules {
        match rule.simple_subject() {
            None => out.push(rule.clone()),
            Some(subject) => match joined.get_mut(&subject) {
                Some(known) => known.verbs.extend_from_slice(&rule.verbs),
                None => {
                    joined.insert(subject, rule.clone());
                }
            },
        }
    }
    out.extend(joined.into_values());
    out
}

/// What someone is told who grants more than they have.
pub fn escalation_message(user: &str, groups: &[String], missing: &[PolicyRule]) -> String {
    let lines: BTreeSet<String> = compact(missing).iter().map(ToString::to_string).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        go_quote(user),
        quoted_list(groups),
        lines.join("\n")
    )
}

fn quoted_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| go_quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

/// Whether an entry of a rule's resources is about what a request is about.
fn resource_matches(entry: &str, request: &ResourceRequest<'_>) -> bool {
    if entry == ALL {
        return true;
    }
    match entry.split_once('/') {
        None => request.subresource.is_empty() && entry == request.resource,
        Some((resource, subresource)) => {
            !request.subresource.is_empty()
                && subresource == request.subresource
                && (resource == ALL || resource == request.resource)
        }
    }
}

/// Whether a rule's resources cover an entry of another rule's.
fn resource_covered(own: &[String], entry: &str) -> bool {
    let by_subresource = |own: &str| match (own.split_once('/'), entry.split_once('/')) {
        (Some((ALL, own)), Some((_, subresource))) => own == subresource,
        _ => false,
    };
    own.iter().any(|own| own == ALL || own == entry || by_subresource(own))
}

/// Whether an entry of a rule's paths covers a path, or such an entry.
fn url_covers(own: &str, path: &str) -> bool {
    own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}

#[cfg(test)]
mod tests;
