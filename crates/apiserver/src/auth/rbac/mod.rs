//! Role-based access control: what a tenant's roles and bindings allow (`rbac.authorization.k8s.io`). What
//! a single rule means is left to [`allotment_machinery::rbac`].

mod aggregate;
mod binding;
mod bootstrap;
mod escalation;
mod index;
mod policy;

pub(crate) use aggregate::{Aggregation, run_aggregation};
pub use bootstrap::bootstrap_policy;
pub(crate) use escalation::check_escalation;
pub(super) use index::RbacIndex;
pub(super) use policy::in_one;

/// API group of roles and bindings.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests;
