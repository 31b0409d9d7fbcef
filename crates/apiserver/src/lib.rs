//! A Kubernetes API over a store: many tenants, one process, no nodes.
//!
//! A request goes through [`service`]: path to [`request::RequestInfo`], tenant, authentication,
//! authorization, then one of the generic handlers in `endpoints` on a row of the [`registry`].

pub mod auth;
mod body;
pub mod builtin;
pub mod crd;
mod discovery;
mod endpoints;
mod health;
pub mod listener;
mod loops;
mod metrics;
mod negotiation;
mod nonresource;
mod openapi;
pub mod protobuf;
mod query;
mod recent;
pub mod registry;
pub mod request;
mod rounds;
pub mod server;
pub mod service;
pub mod status;
pub mod tls;

pub use body::ResponseBody;
pub use health::ReadinessCheck;
