//! Decisions about catalogs; and about requests, Clusters and access, on a small store with the rules of the Kubernetes API that
//! they rest on: compare-and-swap, UIDs, finalizers, owners.

mod access;
mod catalog;
mod clusters;
mod due;
mod properties;
mod scheduling;
mod spares;
mod standing;
mod store;
mod trial;
