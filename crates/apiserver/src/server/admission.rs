//! The seam for admission in this process: rules of kinds that this crate does not know.

use std::fmt::Debug;

use allotment_machinery::json::Value;
use allotment_store::Tenant;
use async_trait::async_trait;

use crate::auth::UserInfo;
use crate::status::ApiError;

/// What an admitted request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionOperation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// An object goes away (or begins to).
    Delete,
    /// A create that stores nothing: token requests.
    Connect,
}

/// One write on its way to the store, as `AdmissionReview` shows it.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// Whose key space.
    pub tenant: &'a Tenant,
    /// Who asks.
    pub user: &'a UserInfo,
    /// What happens.
    pub operation: AdmissionOperation,
    /// API group of the kind.
    pub group: &'a str,
    /// Version that the request names.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// Subresource; empty where there is none.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Object name; empty where it is yet to be generated.
    pub name: &'a str,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The object with `apiVersion` and `kind`, which mutating admission may change; `null` in deletes.
    pub object: &'a mut Value,
    /// The object before; `null` in creates.
    pub old: &'a Value,
}

/// The turn of a write: what it is judged by stays as it is until this is dropped.
pub type AdmissionTurn = Box<dyn Send + Sync>;

/// Admission rules in this process. They run in the order in which they were added: first everyone's
/// `turn`, then everyone's `mutate`, everyone's `validate`, in the end everyone's `complete`.
#[async_trait]
pub trait InProcessAdmission: Debug + Send + Sync + 'static {
    /// Whether this admission wants to see writes of `resource` in `group` at all, in that namespace
    /// (empty for objects of the whole cluster); asked first, so that others cost nothing.
    fn covers(&self, group: &str, resource: &str, namespace: &str) -> bool;

    /// Waits until no write is under way that this one must not overtake. Held until the write is stored, or is not.
    async fn turn(&self, _request: &AdmissionRequest<'_>) -> Result<Option<AdmissionTurn>, ApiError> {
        Ok(None)
    }

    /// Changes the object, or refuses. Answers warnings for the client.
    async fn mutate(&self, _request: &mut AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        Ok(Vec::new())
    }

    /// Judges the final object. Answers warnings for the client.
    async fn validate(&self, request: &AdmissionRequest<'_>) -> Result<Vec<String>, ApiError>;

    /// Puts into an object that was judged right what follows from it, and is judged no more: a status.
    async fn complete(&self, _request: &mut AdmissionRequest<'_>) -> Result<(), ApiError> {
        Ok(())
    }
}
