//! Bindings as the index keeps them: who, and which role.

use allotment_machinery::gotext::go_quote;
use allotment_machinery::json::Value;

use crate::auth::UserInfo;
use crate::auth::user::service_account_user;

/// The role that a binding refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoleRef {
    /// Whether it is a `ClusterRole`; else a `Role` of the binding's namespace.
    pub(crate) cluster: bool,
    /// Its name.
    pub(crate) name: String,
}

impl RoleRef {
    /// Reads `roleRef` of a binding; `None` where it refers to something else than a role.
    pub(crate) fn of(binding: &Value) -> Option<Self> {
        let reference = binding.get("roleRef")?;
        let cluster = match reference.get("kind")?.as_str()? {
            "ClusterRole" => true,
            "Role" => false,
            _ => return None,
        };
        Some(RoleRef { cluster, name: reference.get("name")?.as_str()?.to_owned() })
    }

    pub(crate) fn kind(&self) -> &'static str {
        if self.cluster { "ClusterRole" } else { "Role" }
    }
}

/// Somebody whom a binding gives a role to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

impl Subject {
    /// Reads the subjects of a binding. `namespace` is the binding's, which accounts without one are in;
    /// in a binding without one they are nobody.
    pub(crate) fn all_of(binding: &Value, namespace: &str) -> Vec<Self> {
        let list = binding.get("subjects").and_then(Value::as_array).unwrap_or_default();
        list.iter().filter_map(|subject| Subject::of(subject, namespace)).collect()
    }

    fn of(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").to_owned();
        match text("kind") {
            "User" => Some(Subject::User(name)),
            "Group" => Some(Subject::Group(name)),
            "ServiceAccount" => {
                let namespace = [text("namespace"), binding_namespace].into_iter().find(|text| !text.is_empty())?;
                Some(Subject::ServiceAccount { namespace: namespace.to_owned(), name })
            }
            _ => None,
        }
    }

    pub(crate) fn is(&self, user: &UserInfo) -> bool {
        match self {
            Subject::User(name) => *name == user.name,
            Subject::Group(name) => user.is_in(name),
            Subject::ServiceAccount { namespace, name } => service_account_user(namespace, name) == user.name,
        }
    }

    /// The key under which bindings of `namespace` to this subject are found.
    pub(super) fn key(&self, namespace: &str) -> String {
        match self {
            Subject::User(name) => user_key(namespace, name),
            Subject::Group(name) => group_key(namespace, name),
            Subject::ServiceAccount { namespace: home, name } => user_key(namespace, &service_account_user(home, name)),
        }
    }

    /// `User "x"`, `ServiceAccount "name/namespace"`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Subject::User(name) => format!("User {}", go_quote(name)),
            Subject::Group(name) => format!("Group {}", go_quote(name)),
            Subject::ServiceAccount { namespace, name } => {
                format!("ServiceAccount {}", go_quote(&format!("{name}/{namespace}")))
            }
        }
    }
}

// Namespaces hold no NUL, so keys of different namespaces never meet, whatever a user is called.
pub(super) fn user_key(namespace: &str, name: &str) -> String {
    format!("u{namespace}\0{name}")
}

pub(super) fn group_key(namespace: &str, name: &str) -> String {
    format!("g{namespace}\0{name}")
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) role: Option<RoleRef>,
    pub(crate) subjects: Vec<Subject>,
}

impl Binding {
    pub(crate) fn of(object: &Value, namespace: &str) -> Self {
        Binding { role: RoleRef::of(object), subjects: Subject::all_of(object, namespace) }
    }

    /// `RoleBinding "name/namespace" of Role "x" to User "y"`, as reasons of decisions name it.
    pub(crate) fn describe(&self, namespace: &str, name: &str, role: &RoleRef, subject: &Subject) -> String {
        let (kind, shown) = if namespace.is_empty() {
            ("ClusterRoleBinding", name.to_owned())
        } else {
            ("RoleBinding", format!("{name}/{namespace}"))
        };
        let (shown, role_name) = (go_quote(&shown), go_quote(&role.name));
        format!("{kind} {shown} of {} {role_name} to {}", role.kind(), subject.describe())
    }
}
