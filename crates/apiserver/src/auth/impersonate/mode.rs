//! The ways to be taken for somebody else (KEP-5284): each has verbs of its own, so that a right can be confined
//! to a kind of user and to what is done as that user. The oldest, with the verb `impersonate`, has no such bounds.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use allotment_machinery::names::dns1123_subdomain;

use crate::auth::UserInfo;
use crate::auth::authenticate::EXTRA_NODE_NAME;
use crate::auth::user::split_service_account;

const NODE_PREFIX: &str = "system:node:";
/// Of how many users it is remembered what worked last; a few hundred bytes each.
const MAX_REMEMBERED: usize = 256;

/// A way to be taken for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A service account as the node that its pod is on.
    AssociatedNode,
    /// A node.
    ArbitraryNode,
    /// A service account.
    ServiceAccount,
    /// Anybody who is neither.
    UserInfo,
    /// Anybody, for anything.
    Legacy,
}

/// In the order in which they are tried: the most confined first.
pub(super) const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

impl Mode {
    /// What its verbs are called after.
    fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }

    /// Whether rights in it are confined.
    pub(super) fn is_constrained(self) -> bool {
        self != Mode::Legacy
    }

    /// The verb that allows to be taken for somebody.
    pub(super) fn verb(self) -> String {
        if self.is_constrained() { format!("impersonate:{}", self.name()) } else { "impersonate".to_owned() }
    }

    /// The verb that allows to do `verb` as somebody else; `None` where nothing is asked about that.
    pub(super) fn verb_on(self, verb: &str) -> Option<String> {
        self.is_constrained().then(|| format!("impersonate-on:{}:{verb}", self.name()))
    }

    /// Whether it is meant for taking `requestor` for `wanted`.
    pub(super) fn applies(self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_of(&wanted.name);
        let is_account = |user: &UserInfo| split_service_account(&user.name).is_some();
        match self {
            Mode::AssociatedNode => {
                let own = requestor.extra.get(EXTRA_NODE_NAME).map(Vec::as_slice);
                only_name && is_account(requestor) && matches!((node, own), (Some(node), Some([own])) if node == own)
            }
            Mode::ArbitraryNode => only_name && node.is_some(),
            Mode::ServiceAccount => only_name && is_account(wanted),
            Mode::UserInfo => node.is_none() && !is_account(wanted),
            Mode::Legacy => true,
        }
    }
}

/// The node behind a user name, if it is that of a node.
pub(super) fn node_of(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| dns1123_subdomain(name).is_empty())
}

/// What worked last, by the name of who asked: tried first, so that who may impersonate without bounds is not asked
/// for more than that each time. It decides which refusal is told, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<BTreeMap<String, Mode>>);

impl Remembered {
    pub(super) fn get(&self, user: &str) -> Option<Mode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(user).copied()
    }

    pub(super) fn set(&self, user: &str, mode: Mode) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED && !known.contains_key(user) {
            known.clear();
        }
        known.insert(user.to_owned(), mode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_meant_for_its_kind_of_user() {
        use Mode::{ArbitraryNode, AssociatedNode, Legacy, ServiceAccount, UserInfo as Anybody};
        let named = |name: &str| UserInfo { name: name.to_owned(), ..UserInfo::default() };
        let grouped = |name: &str| UserInfo { groups: vec!["g".to_owned()], ..named(name) };
        let on = |node: &str| UserInfo {
            extra: BTreeMap::from([(EXTRA_NODE_NAME.to_owned(), vec![node.to_owned()])]),
            ..named("system:serviceaccount:n:a")
        };
        for (wanted, requestor, expect) in [
            (named("jane"), named("x"), vec![Anybody, Legacy]),
            (grouped("jane"), named("x"), vec![Anybody, Legacy]),
            (named("system:node:n"), named("x"), vec![ArbitraryNode, Legacy]),
            (named("system:node:n"), on("n"), vec![AssociatedNode, ArbitraryNode, Legacy]),
            (named("system:node:n"), on("m"), vec![ArbitraryNode, Legacy]),
            (grouped("system:node:n"), on("n"), vec![Legacy]),
            (named("system:node:No"), named("x"), vec![Anybody, Legacy]),
            (named("system:serviceaccount:n:a"), named("x"), vec![ServiceAccount, Legacy]),
            (grouped("system:serviceaccount:n:a"), named("x"), vec![Legacy]),
            (named("system:serviceaccount:bad"), named("x"), vec![Anybody, Legacy]),
        ] {
            let applies: Vec<Mode> = MODES.into_iter().filter(|mode| mode.applies(&wanted, &requestor)).collect();
            assert_eq!(applies, expect, "{wanted:?} by {requestor:?}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let remembered = Remembered::default();
        for number in 0..3 * MAX_REMEMBERED {
            remembered.set(&number.to_string(), Mode::Legacy);
            assert_eq!(remembered.get(&number.to_string()), Some(Mode::Legacy));
        }
        assert!(remembered.0.lock().expect("not poisoned").len() <= MAX_REMEMBERED);
    }
}
