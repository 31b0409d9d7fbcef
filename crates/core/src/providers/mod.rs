//! ClusterProviders, and their part of Clusters: what is written about them, and when a provider makes,
//! serves and removes a cluster.
//!
//! # Flow
//! [`decide_provider`] gives the next write for a ClusterProvider. [`decide_plane`] gives the next step for
//! a Cluster: a write, or something to ask of the provider, whose answer then goes in with what is observed.

mod deployment;
mod desk;
mod existing;
mod heartbeat;
mod identity;
mod kind;
mod package;
mod plane;
mod provider;
mod text;

pub use deployment::{Deployed, deployment_objects};
pub use desk::{ANSWER_LIMIT, DeskStep, MOST_ASKED, Sitting, decide_desk};
pub use existing::{
    Claim, ExistingLeaving, ExistingObserved, ExistingPlan, ExistingRemoval, Seen, Sight, decide_existing,
    decide_existing_removal, served_version,
};
pub use heartbeat::{BEAT_SECS, Heartbeat};
pub use identity::{OutsideIdentity, named_secrets};
pub use kind::{
    FORCED_WAIT, Job, KindObserved, KindPlan, KindRemoval, complaint, create_arguments, decide_kind,
    decide_kind_removal, delete_arguments, kind_definition, kind_image, kind_traits, kind_versions,
    kubeconfig_arguments, list_arguments, listed, make_again, most_kind_clusters,
};
pub use package::{PackageRef, Refusal, outside_group};
pub use plane::{Answer, Health, PlaneObserved, PlanePlan, Removal, decide_plane};
pub use provider::{Package, ProviderObserved, ProviderPlan, Readiness, Run, decide_provider, is_served};
pub use text::one_line;
