//! What would become of a request, as things are: the answer of dry runs and of `allot explain request --dry-run`.
//!
//! It is the scheduler's own: [`Binding::of`] tells what a request is bound to, and [`destination`] where one goes that is
//! bound to nothing, for both.

use std::fmt;

use allotment_api::names;
use allotment_api::reasons::{PrefixReason, RequestReason};
use allotment_api::requests::ClusterRequest;
use k8s_openapi::jiff::Timestamp;

use super::aggregate::Aggregated;
use super::binding::Binding;
use super::prefixes;
use super::select::{Placement, Refusal};
use super::snapshot::Snapshot;
use crate::write::ObjectKey;

/// What would become of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Forecast {
    /// Nothing new: it is bound to this Cluster and stays there.
    Kept {
        /// Which.
        cluster: ObjectKey,
    },
    /// Nothing new: it was bound to this Cluster, which is gone, and gets no other one.
    Lost {
        /// Which.
        cluster: ObjectKey,
    },
    /// It would be bound to a Cluster that is there.
    Granted {
        /// Which.
        cluster: ObjectKey,
        /// Why it would not get the prefix that it proposes, where that is so.
        prefix: Option<PrefixReason>,
    },
    /// A Cluster would be made for it.
    NewCluster {
        /// Of this ClusterProvider.
        provider: String,
        /// From this profile.
        profile: String,
        /// Of this version.
        version: String,
        /// Why it would not get the prefix that it proposes, where that is so.
        prefix: Option<PrefixReason>,
    },
    /// Denied, or Pending.
    Refused(Refusal),
    /// Pending, and this is in the way.
    Waiting {
        /// For people.
        message: String,
    },
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forecast::Kept { cluster } => write!(f, "would stay Granted on Cluster {cluster}"),
            Forecast::Lost { cluster } => write!(f, "would stay Granted on Cluster {cluster}, which is gone"),
            Forecast::Granted { cluster, .. } => write!(f, "would be Granted on Cluster {cluster}"),
            Forecast::NewCluster { provider, profile, .. } => {
                write!(f, "would create a Cluster from {provider}/{profile}")
            }
            Forecast::Refused(refusal) => write!(f, "would be {}: {}", refusal.reason.verdict(), refusal.reason),
            Forecast::Waiting { .. } => {
                let reason = RequestReason::Scheduling;
                write!(f, "would be {}: {reason}", reason.verdict())
            }
        }
    }
}

/// What would become of a request if it were there now, made anew or changed; its status is not looked at. One that
/// has a UID is known by it, one without a name hinders no other.
pub fn forecast(snapshot: &Snapshot, request: &ClusterRequest, now: Timestamp) -> Forecast {
    match Binding::of(snapshot, request, now) {
        Binding::None => {}
        Binding::Room { cluster } => return Forecast::Kept { cluster: cluster.clone() },
        Binding::Granted { bound, .. } | Binding::Unseen { bound, .. } => return Forecast::Kept { cluster: bound },
        Binding::Lost { bound, .. } => return Forecast::Lost { cluster: bound },
        Binding::Blocked { message } => return Forecast::Waiting { message },
    }
    match destination(snapshot, request, now) {
        Destination::Refused(refusal) => Forecast::Refused(refusal),
        Destination::NoNamespace { message } => Forecast::Waiting { message },
        Destination::Existing { cluster, asked } => {
            let tenants = snapshot.clusters.get(&cluster).map_or(&[][..], |cluster| &cluster.spec.tenants);
            let prefix = not_honored(request, &asked, tenants);
            Forecast::Granted { cluster, prefix }
        }
        Destination::New { provider, profile, version, asked, .. } => {
            let prefix = not_honored(request, &asked, &[]);
            Forecast::NewCluster { provider, profile, version, prefix }
        }
    }
}

/// Why a request does not get the prefix that it proposes; `None` also where it proposes none.
fn not_honored(
    request: &ClusterRequest,
    asked: &Aggregated,
    tenants: &[allotment_api::requests::Tenant],
) -> Option<PrefixReason> {
    let proposed = request.spec.prefix.as_deref().filter(|prefix| !prefix.is_empty())?;
    match asked.dedicated {
        true => Some(PrefixReason::Dedicated),
        false => prefixes::obstacle(proposed, tenants.iter()),
    }
}

/// Where a request goes that is bound to nothing.
pub(crate) enum Destination {
    /// To a Cluster that is there.
    Existing {
        cluster: ObjectKey,
        asked: Box<Aggregated>,
    },
    /// To one that is made for it, in that namespace.
    New {
        provider: String,
        profile: String,
        version: String,
        namespace: String,
        asked: Box<Aggregated>,
    },
    Refused(Refusal),
    /// A Cluster would be made, and the namespace for it is not there.
    NoNamespace {
        message: String,
    },
}

/// Decides where a request goes that is bound to nothing; whether it has a name does not matter.
pub(crate) fn destination(snapshot: &Snapshot, request: &ClusterRequest, now: Timestamp) -> Destination {
    let asked = match snapshot.resolve(request) {
        Ok(asked) => Box::new(asked),
        Err(refusal) => return Destination::Refused(refusal),
    };
    match snapshot.place(request, &asked, now) {
        Placement::None(refusal) => Destination::Refused(refusal),
        Placement::Existing { cluster } => Destination::Existing { cluster, asked },
        Placement::New { provider, profile, version } => {
            let namespace = match &asked.namespace {
                Some(namespace) if !snapshot.namespaces.contains_key(namespace) => {
                    let message = format!(
                        "a new Cluster would go to namespace {namespace:?}, as its Purpose says, and there is none; \
                         make the namespace or change spec.namespace of the Purpose"
                    );
                    return Destination::NoNamespace { message };
                }
                Some(namespace) => namespace.clone(),
                None if asked.dedicated => request.metadata.namespace.clone().unwrap_or_default(),
                None => names::CLUSTERS_NAMESPACE.to_owned(),
            };
            Destination::New { provider, profile, version, namespace, asked }
        }
    }
}
