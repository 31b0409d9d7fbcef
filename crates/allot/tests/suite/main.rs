//! The command as users run it, as a process, with clients over TLS: `allot up`, and with `ALLOTMENT_BESIDE` set the
//! same cases on `allot controllers` beside Kubernetes' own API server (see `harness`).
//!
//! `children`, `folder`, `kube_rs` and parts of `outside` are about `allot up` alone, `beside` about `allot controllers` alone.

mod access;
mod admission;
mod beside;
mod catalog;
mod catalog_admission;
mod catalog_applied;
mod children;
mod commands;
mod contract;
mod credentials;
mod delegated;
mod deletion;
mod existing;
mod explained;
mod folder;
mod guarded;
mod harness;
mod kind;
mod kube_rs;
mod merge;
mod oidc;
mod outside;
mod policy;
mod prefixes;
mod profiles;
mod requests;
mod rest;
mod rights;
mod trouble;
mod unreadable;
