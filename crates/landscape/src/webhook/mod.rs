//! Admission of our kinds as webhooks of another API server: what it asks, where it asks, and by which
//! certificate it knows whom it asks. Sockets and TLS are the binary's.

mod authority;
mod configuration;
mod review;

pub use authority::{Authority, WEBHOOK_AUTHORITY, is_due};
pub use configuration::{MUTATE_PATH, VALIDATE_PATH, WebhookAddress};
pub use review::{Stage, Webhook};

pub(crate) use authority::Authorities;
pub(crate) use configuration::{Configurations, NAME as CONFIGURATIONS};
