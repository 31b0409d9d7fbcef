//! The one entry: a write to one of our kinds, reviewed.

use std::collections::BTreeSet;

use allotment_api::names;
use allotment_core::requests::Snapshot;
use allotment_machinery::field::FieldError;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::warned::bounded;
use crate::{definitions, ownership, providers, validate};

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
}

/// Who writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User name.
    pub username: String,
    /// UID, where authentication gives one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// Who counts as the platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// User names of the platform's own identities: its controllers and providers, such as
    /// `system:serviceaccount:allot-system:allot-controllers`. The group `system:masters` always counts.
    pub platform_users: BTreeSet<String>,
}

/// A write under review.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What is done.
    pub operation: Operation,
    /// API group of the object.
    pub group: &'a str,
    /// Kind of the object.
    pub kind: &'a str,
    /// Its plural name, which leads to it; in groups that others define it need not be that of the kind.
    pub resource: &'a str,
    /// The subresource written, `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for objects of the whole cluster.
    pub namespace: &'a str,
    /// Name; empty on a create with `generateName`.
    pub name: &'a str,
    /// The object as it would be stored; null on delete.
    pub object: &'a Value,
    /// The object as it is stored; null on create.
    pub old_object: &'a Value,
    /// Who writes.
    pub caller: &'a Caller,
    /// Nothing will be stored: the answer to a ClusterRequest tells what would be decided.
    pub dry_run: bool,
    /// The time of the review.
    pub now: Timestamp,
}

/// A write that may go on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reviewed {
    /// The object to store instead, where it was changed.
    pub object: Option<Value>,
    /// What is probably not meant.
    pub warnings: Vec<String>,
}

/// A write that may not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Fields are wrong: 422, reason `Invalid`, one cause per field.
    #[error("{} is invalid", .0.first().map(ToString::to_string).unwrap_or_default())]
    Invalid(Vec<FieldError>),
    /// The caller may not do this: 403, reason `Forbidden`.
    #[error("{0}")]
    Forbidden(String),
}

/// Whether [`stamp`] and [`review`] have anything to do with a write, as far as is known without its objects: of the
/// platform's own writes most are not judged, and to show them costs more than the rest.
pub fn concerns(config: &Config, caller: &Caller, kind: &str, subresource: &str) -> Concerns {
    let platform = config.is_platform(caller);
    Concerns {
        stamp: !platform || (kind == "AccessRequest" && subresource.is_empty()),
        review: !platform || (subresource.is_empty() && !(config.is_own(caller) && is_scheduled(kind))),
    }
}

/// The kinds that the platform writes as it decides, many times for each request: what it writes there was decided on the same
/// snapshot that a review would look at.
fn is_scheduled(kind: &str) -> bool {
    matches!(kind, "Cluster" | "ClusterRequest" | "ClusterRequestGrant")
}

/// What has to be done about a write; see [`concerns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concerns {
    /// [`stamp`] may change or refuse it.
    pub stamp: bool,
    /// [`review`] may refuse it or warn of it.
    pub review: bool,
}

/// Stamps a write before the API server judges its fields by their schema: the object to store instead,
/// where it has to be changed. Refuses what the caller may not write.
pub fn stamp(config: &Config, request: &Request<'_>) -> Result<Option<Value>, Denial> {
    let platform = config.is_platform(request.caller);
    if !platform && request.group == names::GROUP && request.operation == Operation::Delete {
        ownership::check_deletion(request)?;
    }
    let provider = config.provider_of(request.caller);
    let judged = provider.and_then(|provider| providers::check(request, provider)).transpose()?;
    if !is_ours(request) {
        return Ok(None);
    }
    match provider {
        _ if judged.is_some() => {}
        Some(provider) if request.kind == "AccessRequest" && request.operation == Operation::Update => {
            ownership::check_provider(request, provider)?;
        }
        _ if !platform => ownership::check(request)?,
        _ => {}
    }
    if !is_judged(request) || request.kind != "AccessRequest" {
        return Ok(None);
    }
    let mut object = request.object.clone();
    crate::stamp::requested_by(request, platform, &mut object)?;
    Ok((object != *request.object).then_some(object))
}

/// Reviews a write, after [`stamp`]; to be called once the fields are of the types that the schema says,
/// so that errors of type are the schema's, which names each field. `snapshot` is what the scheduler
/// sees, for warnings that need other objects; without one these are left out. Whose a group is only it tells, so
/// without one no provider writes definitions.
pub fn review(config: &Config, snapshot: Option<&Snapshot>, request: &Request<'_>) -> Result<Reviewed, Denial> {
    let stamped = stamp(config, request)?;
    if let Some(provider) = config.provider_of(request.caller).filter(|_| definitions::is_one(request)) {
        definitions::check_group(request, provider, snapshot)?;
    }
    if !is_ours(request) || !is_judged(request) {
        return Ok(Reviewed::default());
    }
    let object = stamped.as_ref().unwrap_or(request.object);
    // What was stored once is not judged again: rules that came later must not lock its owner out.
    let unchanged = request.operation == Operation::Update && object["spec"] == request.old_object["spec"];
    let mut found = Found::default();
    if !unchanged {
        validate::check(request, object, snapshot, &mut found);
    }
    if !found.errors.is_empty() {
        return Err(Denial::Invalid(found.errors));
    }
    Ok(Reviewed { object: stamped, warnings: bounded(found.warnings, 0, "") })
}

fn is_ours(request: &Request<'_>) -> bool {
    names::is_judged_group(request.group) && request.operation != Operation::Delete
}

/// Whether the spec is judged: not with a subresource, and not once the stored object is being deleted,
/// since finalizers have to be able to go whatever it says. What a new object says of its deletion
/// counts for nothing: the API server drops it.
fn is_judged(request: &Request<'_>) -> bool {
    request.subresource.is_empty() && request.old_object["metadata"].get("deletionTimestamp").is_none()
}

/// What a review found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) errors: Vec<FieldError>,
    pub(crate) warnings: Vec<String>,
}

impl Config {
    /// The ClusterProvider that writes, if one does.
    fn provider_of<'a>(&self, caller: &'a Caller) -> Option<&'a str> {
        names::provider_of_user(&caller.username).filter(|_| !self.is_platform(caller))
    }

    /// Whether it is the platform itself, not an administrator.
    pub(crate) fn is_own(&self, caller: &Caller) -> bool {
        self.platform_users.contains(&caller.username)
    }

    pub(crate) fn is_platform(&self, caller: &Caller) -> bool {
        self.is_own(caller) || caller.groups.iter().any(|group| group == "system:masters")
    }
}
