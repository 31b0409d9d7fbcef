//! Who asks.

use std::collections::BTreeMap;

/// Everyone who was authenticated.
pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
/// Everyone who was not.
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
/// May do everything, whatever the roles say.
pub const GROUP_MASTERS: &str = "system:masters";
/// All service accounts.
pub const GROUP_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// Who asks without credentials, where that is allowed.
pub const USER_ANONYMOUS: &str = "system:anonymous";

/// Marks identities of this process; nobody can be given it over the wire.
pub(crate) const EXTRA_IN_PROCESS: &str = "allotment.dev/in-process";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// An authenticated identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The name: `alice`, `system:serviceaccount:NAMESPACE:NAME`.
    pub name: String,
    /// A unique id, where the authenticator knows one.
    pub uid: String,
    /// Groups, `system:authenticated` included.
    pub groups: Vec<String>,
    /// What else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A part of this process, known by what it puts into a request's extensions and never by anything on
    /// the wire. It may ask for tokens of any lifetime.
    pub fn in_process(name: &str, groups: &[&str]) -> Self {
        let mut user = UserInfo {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            extra: BTreeMap::from([(EXTRA_IN_PROCESS.to_owned(), vec!["true".to_owned()])]),
            ..UserInfo::default()
        };
        user.add_group(GROUP_AUTHENTICATED);
        user
    }

    /// Whether this was made by [`UserInfo::in_process`].
    pub fn is_in_process(&self) -> bool {
        self.extra.contains_key(EXTRA_IN_PROCESS)
    }

    /// Who asks without credentials.
    pub fn anonymous() -> Self {
        UserInfo {
            name: USER_ANONYMOUS.to_owned(),
            groups: vec![GROUP_UNAUTHENTICATED.to_owned()],
            ..UserInfo::default()
        }
    }

    /// The service account `name` in `namespace`.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let mut groups = service_account_groups(namespace);
        groups.push(GROUP_AUTHENTICATED.to_owned());
        UserInfo { name: service_account_user(namespace, name), uid: uid.to_owned(), groups, extra: BTreeMap::new() }
    }

    /// Whether the user belongs to `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|have| have == group)
    }

    pub(crate) fn add_group(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }
}

/// The user name of a service account.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of every service account of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![GROUP_SERVICE_ACCOUNTS.to_owned(), format!("{GROUP_SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name behind a user name, if it is that of a service account.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let label = |text: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
    };
    let sound = namespace.len() <= 63 && label(namespace) && name.len() <= 253 && name.split('.').all(label);
    sound.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_of_service_accounts_are_taken_apart_only_where_both_names_are_sound() {
        for (user, expect) in [
            ("system:serviceaccount:ns:a", Some(("ns", "a"))),
            ("system:serviceaccount:ns:a.b-c", Some(("ns", "a.b-c"))),
            ("system:serviceaccount:bad", None),
            ("system:serviceaccount::a", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount:ns:a:b", None),
            ("system:serviceaccount:NS:a", None),
            ("system:serviceaccount:n.s:a", None),
            ("alice", None),
        ] {
            assert_eq!(split_service_account(user), expect, "{user}");
        }
    }

    #[test]
    fn who_is_of_this_process_says_so() {
        assert!(UserInfo::in_process("system:allotment", &[GROUP_MASTERS]).is_in_process());
        assert!(!UserInfo::service_account("n", "s", "u").is_in_process());
    }
}
