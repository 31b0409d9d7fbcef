//! What somebody wants to do, as the rules look at it. Unlike a request it may name any verb.

use allotment_machinery::rbac::{PolicyRule, ResourceRequest};

use crate::request::RequestInfo;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action<'a> {
    /// Where; empty for the whole cluster.
    pub(crate) namespace: &'a str,
    /// What.
    pub(crate) what: What<'a>,
}

/// What an action is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What<'a> {
    /// An object of the API.
    Resource(ResourceRequest<'a>),
    /// Any other path.
    Path { verb: &'a str, path: &'a str },
}

impl<'a> Action<'a> {
    /// What a request does, or what `verb` does to the same thing.
    pub(crate) fn of(request: &'a RequestInfo, verb: &'a str) -> Self {
        let what = if request.is_resource {
            What::Resource(ResourceRequest {
                verb,
                api_group: &request.group,
                resource: &request.resource,
                subresource: &request.subresource,
                name: &request.name,
            })
        } else {
            What::Path { verb, path: &request.path }
        };
        Action { namespace: &request.namespace, what }
    }

    pub(crate) fn is_allowed_by(&self, rule: &PolicyRule) -> bool {
        match &self.what {
            What::Resource(request) => rule.allows(request),
            What::Path { verb, path } => rule.allows_path(verb, path),
        }
    }
}
