//! The roles and bindings of one tenant at one moment, found by whom they are for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use allotment_machinery::json;
use allotment_machinery::rbac::PolicyRule;
use allotment_store::{Entry, Revision};

use super::binding::{Binding, RoleRef, group_key, user_key};
use crate::auth::{Action, Decision, UserInfo};

/// Namespace (empty for cluster-scoped objects) and name.
pub(super) type Name = (Arc<str>, Arc<str>);

/// Roles and bindings, indexed. A tenant that nobody asks costs nothing, since rules are read off their
/// objects, which the store has anyhow, only when a decision needs them.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    roles: BTreeMap<Name, Role>,
    bindings: BTreeMap<Name, Binding>,
    /// Names of bindings by namespace and subject.
    by_subject: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// The revision at which each collection was read.
    pub(super) read_at: [Revision; 4],
}

#[derive(Debug)]
struct Role {
    entry: Arc<Entry>,
    rules: OnceLock<Arc<[PolicyRule]>>,
}

impl Policy {
    pub(super) fn put_role(&mut self, name: Name, entry: Arc<Entry>) {
        self.roles.insert(name, Role { entry, rules: OnceLock::new() });
    }

    pub(super) fn remove_role(&mut self, name: &Name) {
        self.roles.remove(name);
    }

    pub(super) fn put_binding(&mut self, name: Name, binding: Binding) {
        self.remove_binding(&name);
        for subject in &binding.subjects {
            self.by_subject.entry(subject.key(&name.0)).or_default().insert(Arc::clone(&name.1));
        }
        self.bindings.insert(name, binding);
    }

    pub(super) fn remove_binding(&mut self, name: &Name) {
        let Some(binding) = self.bindings.remove(name) else { return };
        for subject in &binding.subjects {
            let key = subject.key(&name.0);
            if let Some(names) = self.by_subject.get_mut(&key) {
                names.remove(&name.1);
                if names.is_empty() {
                    self.by_subject.remove(&key);
                }
            }
        }
    }

    /// Whether some rule lets `user` do it.
    pub(crate) fn decide(&self, user: &UserInfo, action: &Action<'_>) -> Decision {
        let mut errors = Vec::new();
        for source in self.sources(user, action.namespace) {
            match self.role_rules(&source.role, source.namespace) {
                Ok(rules) if rules.iter().any(|rule| action.is_allowed_by(rule)) => {
                    return Decision::Allow { reason: format!("RBAC: allowed by {}", source.description()) };
                }
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
        let reason = if errors.is_empty() { String::new() } else { format!("RBAC: {}", in_one(&errors)) };
        Decision::NoOpinion { reason }
    }

    /// Every rule that applies to `user` in `namespace` (or, if it is empty, everywhere), and what could
    /// not be found out.
    pub(crate) fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for source in self.sources(user, namespace) {
            match self.role_rules(&source.role, source.namespace) {
                Ok(found) => rules.extend(found.iter().cloned()),
                Err(error) => errors.push(error),
            }
        }
        (rules, errors)
    }

    /// The rules of the role that a binding in `namespace` refers to; an error says that it is missing.
    pub(crate) fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[PolicyRule]>, String> {
        let home = if role.cluster { "" } else { namespace };
        let found = self.roles.get(&(Arc::from(home), Arc::from(role.name.as_str())));
        let found = found.ok_or_else(|| {
            let kind = if role.cluster { "clusterrole" } else { "role" };
            format!("{kind}.{} {} not found", super::RBAC_GROUP, allotment_machinery::gotext::go_quote(&role.name))
        })?;
        Ok(Arc::clone(found.rules.get_or_init(|| rules_of_entry(&found.entry))))
    }

    /// The bindings that give `user` something in `namespace`: those of the whole cluster first, each in
    /// order of their names.
    fn sources<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> impl Iterator<Item = Source<'a>> {
        let scopes = if namespace.is_empty() { vec![""] } else { vec!["", namespace] };
        scopes.into_iter().flat_map(move |scope| {
            let groups = user.groups.iter().map(|group| group_key(scope, group));
            let keys = std::iter::once(user_key(scope, &user.name)).chain(groups);
            let names: BTreeSet<&'a Arc<str>> = keys.filter_map(|key| self.by_subject.get(&key)).flatten().collect();
            names.into_iter().filter_map(move |name| {
                let binding = self.bindings.get(&(Arc::from(scope), Arc::clone(name)))?;
                Some(Source { namespace: scope, name, binding, role: binding.role.clone()?, user })
            })
        })
    }
}

/// A binding that applies to somebody.
struct Source<'a> {
    namespace: &'a str,
    name: &'a str,
    binding: &'a Binding,
    role: RoleRef,
    user: &'a UserInfo,
}

impl Source<'_> {
    fn description(&self) -> String {
        let subject = self.binding.subjects.iter().find(|subject| subject.is(self.user));
        subject.map(|subject| self.binding.describe(self.namespace, self.name, &self.role, subject)).unwrap_or_default()
    }
}

fn rules_of_entry(entry: &Entry) -> Arc<[PolicyRule]> {
    let role = json::parse(&entry.body()).unwrap_or_default();
    PolicyRule::list_from_json(role.get("rules")).into()
}

/// Several errors in one line, as Kubernetes' aggregates print them: each once, in brackets if there are
/// several.
pub(crate) fn in_one(errors: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&str> = errors.iter().map(String::as_str).filter(|error| seen.insert(*error)).collect();
    match distinct[..] {
        [only] => only.to_owned(),
        _ => format!("[{}]", distinct.join(", ")),
    }
}
