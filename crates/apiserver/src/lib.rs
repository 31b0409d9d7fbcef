//! A Kubernetes API over a store: many tenants, one process, no nodes.
//!
//! A request goes through [`service`]: path to [`request::RequestInfo`], tenant, authentication,
//! authorization, then one of the generic handlers in `endpoints` on a row of the [`registry`].

pub mod auth;
pub mod builtin;
pub mod crd;
pub mod registry;
pub mod request;
pub mod server;
pub mod status;
pub mod tls;
