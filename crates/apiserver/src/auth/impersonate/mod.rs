//! Being taken for somebody else, and whether the one who asks may.

mod mode;
mod wanted;

use std::sync::Arc;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::gotext::go_quote;
use http::request::Parts;

pub(super) use mode::Remembered;
use mode::{MODES, Mode, node_of};

use super::user::{
    EXTRA_IN_PROCESS, GROUP_AUTHENTICATED, GROUP_MASTERS, GROUP_UNAUTHENTICATED, USER_ANONYMOUS,
    service_account_groups, split_service_account,
};
use super::{Attributes, Decision, UserInfo, authorize, forbidden};
use crate::builtin::{Errors, domain_prefixed};
use crate::request::RequestInfo;
use crate::server::{ApiServer, TenantState};
use crate::status::ApiError;

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
const NODES_GROUP: &str = "system:nodes";
/// From how many groups or values on it is asked first whether all of them are allowed.
const MANY: usize = 4;

/// The identity that the request asks to be taken for, if `user` may take it for this request; `user` itself where
/// it asks for none.
pub(crate) async fn impersonate(
    server: &ApiServer,
    tenant: &TenantState,
    user: Arc<UserInfo>,
    parts: &Parts,
    info: &RequestInfo,
) -> Result<Arc<UserInfo>, ApiError> {
    let Some(wanted) = wanted::wanted_user(&parts.headers)? else { return Ok(user) };
    let remembered = &tenant.access.impersonated;
    let last = remembered.get(&user.name);
    let mut refused = None;
    for mode in last.into_iter().chain(MODES.into_iter().filter(|mode| Some(*mode) != last)) {
        if !mode.applies(&wanted, &user) {
            continue;
        }
        match (Attempt { server, tenant, requestor: &user, mode }).check(&wanted, info).await {
            Ok(()) if wanted.extra.contains_key(EXTRA_IN_PROCESS) => {
                return Err(ApiError::bad_request(format!("{EXTRA_IN_PROCESS} cannot be impersonated")));
            }
            Ok(()) => {
                remembered.set(&user.name, mode);
                return Ok(Arc::new(completed(wanted, mode)));
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
}

/// One way, tried by one who asks. Every right that it takes is asked for, in order.
struct Attempt<'a> {
    server: &'a ApiServer,
    tenant: &'a TenantState,
    requestor: &'a UserInfo,
    mode: Mode,
}

impl Attempt<'_> {
    async fn check(&self, wanted: &UserInfo, info: &RequestInfo) -> Result<(), ApiError> {
        if let Some(verb) = self.mode.verb_on(info.verb) {
            self.ask(info, &verb).await?;
        }
        self.name(&wanted.name).await?;
        if !wanted.uid.is_empty() {
            self.allowed(&on(AUTHENTICATION_GROUP, "uids", &wanted.uid)).await?;
        }
        self.groups(wanted).await?;
        self.extra(wanted).await
    }

    async fn ask(&self, request: &RequestInfo, verb: &str) -> Result<(), ApiError> {
        let attributes = Attributes { user: self.requestor, request, verb };
        match authorize(self.server, self.tenant, &attributes).await {
            Decision::Allow { .. } => Ok(()),
            Decision::NoOpinion { reason } => Err(forbidden(&attributes, &reason)),
        }
    }

    async fn allowed(&self, thing: &RequestInfo) -> Result<(), ApiError> {
        self.ask(thing, &self.mode.verb()).await
    }

    fn refuse(&self, thing: &RequestInfo, why: &str) -> ApiError {
        forbidden(&Attributes { user: self.requestor, request: thing, verb: &self.mode.verb() }, why)
    }

    /// The group of users and their groups.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() { AUTHENTICATION_GROUP } else { "" }
    }

    async fn name(&self, name: &str) -> Result<(), ApiError> {
        let node = node_of(name).filter(|_| self.mode.is_constrained());
        let thing = match (node, split_service_account(name)) {
            // The right is one to the node of whichever pod the account is used in.
            (Some(_), _) if self.mode == Mode::AssociatedNode => on(self.group(), "nodes", "*"),
            (Some(node), _) => on(self.group(), "nodes", node),
            (None, Some((namespace, name))) => {
                RequestInfo { namespace: namespace.to_owned(), ..on(self.group(), "serviceaccounts", name) }
            }
            (None, None) => on(self.group(), "users", name),
        };
        self.allowed(&thing).await
    }

    async fn groups(&self, wanted: &UserInfo) -> Result<(), ApiError> {
        let one = |name: &str| on(self.group(), "groups", name);
        if self.mode.is_constrained() {
            if wanted.groups.iter().any(String::is_empty) {
                return Err(self.refuse(&one(""), "impersonating the empty string group is not allowed"));
            }
            if wanted.is_in(GROUP_MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.refuse(&one(GROUP_MASTERS), why));
            }
            if wanted.groups.len() >= MANY && self.allowed(&one("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in &wanted.groups {
            self.allowed(&one(group)).await?;
        }
        Ok(())
    }

    async fn extra(&self, wanted: &UserInfo) -> Result<(), ApiError> {
        let one = |key: &str, value: &str| RequestInfo {
            subresource: key.to_owned(),
            ..on(AUTHENTICATION_GROUP, "userextras", value)
        };
        if self.mode.is_constrained() {
            if let Some(why) = wrong_extra(wanted) {
                return Err(self.refuse(&one("", ""), &why));
            }
            let values: usize = wanted.extra.values().map(Vec::len).sum();
            if values >= MANY && self.allowed(&one("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                self.allowed(&one(key, value)).await?;
            }
        }
        Ok(())
    }
}

/// What it takes a right to, so that somebody can be taken for another one.
fn on(group: &str, resource: &str, name: &str) -> RequestInfo {
    RequestInfo {
        is_resource: true,
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..RequestInfo::default()
    }
}

/// What else one says of oneself has to be well formed where rights are confined.
fn wrong_extra(wanted: &UserInfo) -> Option<String> {
    wanted.extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let mut errors = Errors::default();
        domain_prefixed(key, &Path::new("extra").child("key"), &mut errors);
        if !errors.is_empty() {
            return Some(format!("impersonating an invalid key in extra is not allowed: {}", together(&errors)));
        }
        if key.chars().any(char::is_uppercase) {
            return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", go_quote(key)));
        }
        let empty = values.iter().any(String::is_empty);
        empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}

/// One error as it is, several in brackets.
fn together(errors: &[FieldError]) -> String {
    match errors {
        [one] => one.to_string(),
        several => format!("[{}]", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Adds the groups that go without saying: those of a service account if no group was named, that of all nodes
/// where nodes are told from others, and whether the user counts as authenticated unless the request says that
/// itself.
fn completed(mut wanted: UserInfo, mode: Mode) -> UserInfo {
    if mode.is_constrained() && node_of(&wanted.name).is_some() {
        wanted.groups = vec![NODES_GROUP.to_owned()];
    }
    if let (Some((namespace, _)), true) = (split_service_account(&wanted.name), wanted.groups.is_empty()) {
        wanted.groups = service_account_groups(namespace);
    }
    if wanted.name == USER_ANONYMOUS {
        wanted.add_group(GROUP_UNAUTHENTICATED);
    } else if !wanted.is_in(GROUP_UNAUTHENTICATED) {
        wanted.add_group(GROUP_AUTHENTICATED);
    }
    wanted
}
