//! The roles and bindings that every key space begins with. The facts stand in `bootstrap.txt`; here they
//! become objects.

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::Encoded;
use allotment_pki::token_digest;
use allotment_store::{Resource, TemplateEntry};
use jiff::Timestamp;

use super::RBAC_GROUP;
use super::aggregate::{aggregated_rules, managed_fields};

const TABLE: &str = include_str!("bootstrap.txt");

/// Roles, bindings and what they aggregate to, as entries of a template. The same `created` gives the same
/// entries, UIDs included.
pub fn bootstrap_policy(created: Timestamp) -> Vec<TemplateEntry> {
    let mut objects: Vec<Object> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.split_once(' ') {
            Some(("role", header)) => objects.push(Object::role(header)),
            Some(("bind", header)) => objects.push(Object::binding(header)),
            _ => {
                if let Some(role) = objects.last_mut() {
                    role.add_rule(rule(line.trim_start()));
                }
            }
        }
    }
    aggregate(&mut objects);
    objects.into_iter().filter_map(|object| object.entry(created)).collect()
}

#[derive(Debug)]
struct Object {
    plural: &'static str,
    namespace: String,
    name: String,
    labels: Map,
    /// Everything but the metadata.
    content: Map,
    /// Whether its rules come from other roles.
    aggregated: bool,
}

impl Object {
    fn new(plurals: [&'static str; 2], full_name: &str) -> Self {
        let (namespace, name) = full_name.split_once('/').unwrap_or(("", full_name));
        let mut labels = Map::new();
        labels.insert("kubernetes.io/bootstrapping", "rbac-defaults");
        Object {
            plural: if namespace.is_empty() { plurals[0] } else { plurals[1] },
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            labels,
            content: Map::new(),
            aggregated: false,
        }
    }

    fn role(header: &str) -> Self {
        let mut words = header.split(' ');
        let mut object = Object::new(["clusterroles", "roles"], words.next().unwrap_or_default());
        object.content.insert("rules", Value::Null);
        for word in words {
            match word.split_once('=') {
                Some(("to", aggregate)) => {
                    object.labels.insert(aggregate_label(aggregate), "true");
                }
                Some(("from", aggregate)) => {
                    let label = aggregate_label(aggregate);
                    let rule = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
                    object.content.insert("aggregationRule", rule);
                }
                _ => {}
            }
        }
        object
    }

    fn binding(header: &str) -> Self {
        let mut words = header.split(' ');
        let mut object = Object::new(["clusterrolebindings", "rolebindings"], words.next().unwrap_or_default());
        let mut role = object.name.clone();
        let mut subjects = Vec::new();
        for word in words {
            match word.strip_prefix("role=") {
                Some(other) => other.clone_into(&mut role),
                None => subjects.push(subject(word)),
            }
        }
        let kind = if object.namespace.is_empty() { "ClusterRole" } else { "Role" };
        object.content.insert("roleRef", json!({"apiGroup": RBAC_GROUP, "kind": kind, "name": role}));
        if !subjects.is_empty() {
            object.content.insert("subjects", subjects);
        }
        object
    }

    fn add_rule(&mut self, rule: Value) {
        match self.content.get_mut("rules").and_then(Value::as_array_mut) {
            Some(rules) => rules.push(rule),
            None => {
                self.content.insert("rules", vec![rule]);
            }
        }
    }

    fn entry(mut self, created: Timestamp) -> Option<TemplateEntry> {
        let mut metadata = json!({
            "name": (self.name.as_str()),
            "uid": (stable_uid(self.plural, &self.namespace, &self.name)),
            "creationTimestamp": (created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            "labels": (std::mem::take(&mut self.labels)),
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}
        });
        let map = metadata.as_object_mut()?;
        if !self.namespace.is_empty() {
            map.insert("namespace", self.namespace.as_str());
        }
        if self.aggregated {
            map.insert("managedFields", managed_fields(created));
        }
        self.content.insert("metadata", metadata);
        Some(TemplateEntry {
            resource: Resource::new(self.plural, RBAC_GROUP),
            namespace: self.namespace.into(),
            name: self.name.into(),
            body: Encoded::of(&self.content)?,
        })
    }
}

fn aggregate_label(aggregate: &str) -> String {
    format!("{RBAC_GROUP}/aggregate-to-{aggregate}")
}

fn rule(line: &str) -> Value {
    if line == "events" {
        return rule("create,patch,update core,events.k8s.io events");
    }
    let list = |text: &str| text.split(',').map(Value::from).collect::<Vec<_>>();
    let words: Vec<&str> = line.split(' ').collect();
    let verbs = match words[0] {
        "read" => list("get,list,watch"),
        "write" => list("create,delete,deletecollection,patch,update"),
        "all" => list("create,delete,deletecollection,get,list,patch,update,watch"),
        verbs => list(verbs),
    };
    if let [_, groups, resources] = words[..]
        && !groups.starts_with('/')
    {
        let groups: Vec<Value> =
            groups.split(',').map(|group| if group == "core" { "" } else { group }.into()).collect();
        let (resources, names) = resources.split_once('=').unwrap_or((resources, ""));
        let mut rule = json!({"verbs": verbs, "apiGroups": groups, "resources": (list(resources))});
        if let (false, Some(rule)) = (names.is_empty(), rule.as_object_mut()) {
            rule.insert("resourceNames", list(names));
        }
        return rule;
    }
    let paths: Vec<Value> = words[1..].iter().map(|path| Value::from(*path)).collect();
    json!({"verbs": verbs, "nonResourceURLs": paths})
}

fn subject(word: &str) -> Value {
    match word.split_once(':') {
        Some(("s", account)) => {
            let (namespace, name) = account.split_once('/').unwrap_or(("", account));
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
        Some(("g", name)) => json!({"apiGroup": RBAC_GROUP, "kind": "Group", "name": name}),
        Some((_, name)) => json!({"apiGroup": RBAC_GROUP, "kind": "User", "name": name}),
        None => Value::Null,
    }
}

/// Fills in the rules of aggregates. Those that are parts of others come first: view, edit, admin.
fn aggregate(objects: &mut [Object]) {
    for name in ["view", "edit", "admin"] {
        let roles: Vec<Value> = objects.iter().filter(|object| object.plural == "clusterroles").map(as_value).collect();
        let Some(role) = roles.iter().find(|role| role.at(&["metadata", "name"]) == Some(&Value::from(name))) else {
            continue;
        };
        let Some(rules) = aggregated_rules(role, &roles) else { continue };
        let target = objects.iter_mut().find(|object| object.plural == "clusterroles" && object.name == name);
        if let Some(object) = target {
            object.content.insert("rules", rules);
            object.aggregated = true;
        }
    }
}

fn as_value(object: &Object) -> Value {
    let mut content = object.content.clone();
    content.insert("metadata", json!({"name": (object.name.as_str()), "labels": (object.labels.clone())}));
    Value::Object(content)
}

/// A UID that follows from the name alone (RFC 9562, version 8), so that the template is the same in every
/// process.
fn stable_uid(plural: &str, namespace: &str, name: &str) -> String {
    let mut bytes = token_digest(format!("{RBAC_GROUP}/{plural}/{namespace}/{name}").as_bytes());
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
