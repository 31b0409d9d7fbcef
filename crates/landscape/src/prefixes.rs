//! The rule of prefixes inside logical clusters, in this process: whom it binds `core` decides.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use allotment_apiserver::server::{AdmissionOperation, AdmissionRequest, InProcessAdmission};
use allotment_apiserver::status::{About, ApiError};
use allotment_controllers::Controllers;
use allotment_controllers::frame::ObjectKey;
use allotment_core::access::{NamesAllowed, Writing, names_allowed};
use allotment_core::requests::owns;
use allotment_machinery::json::Value;
use async_trait::async_trait;

/// Groups of the reviews, which are asked and never stored.
const REVIEWS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// Which Cluster each logical cluster is: key and UID, by its id.
#[derive(Debug, Default)]
pub(crate) struct Homes(RwLock<BTreeMap<String, (ObjectKey, String)>>);

impl Homes {
    pub(crate) fn set(&self, id: &str, cluster: ObjectKey, uid: String) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), (cluster, uid));
    }

    pub(crate) fn remove(&self, id: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn get(&self, id: &str) -> Option<(ObjectKey, String)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

/// Keeps the identities of tenants to names that begin with their prefixes.
pub(crate) struct Prefixes {
    homes: Arc<Homes>,
    /// What the scheduler sees, once the controllers run.
    controllers: RwLock<Option<Arc<Controllers>>>,
}

impl fmt::Debug for Prefixes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Prefixes").finish_non_exhaustive()
    }
}

impl Prefixes {
    pub(crate) fn new(homes: Arc<Homes>) -> Self {
        Prefixes { homes, controllers: RwLock::default() }
    }

    /// From now on it is decided on what these controllers know.
    pub(crate) fn set_controllers(&self, controllers: Arc<Controllers>) {
        *self.controllers.write().unwrap_or_else(PoisonError::into_inner) = Some(controllers);
    }

    fn allowed(&self, id: &str, username: &str) -> NamesAllowed {
        let controllers = self.controllers.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Controllers that have ended know whom they gave a prefix to, and nobody is given one meanwhile.
        let known = controllers.zip(self.homes.get(id)).and_then(|(controllers, (cluster, uid))| {
            controllers.with_whole_snapshot(|snapshot| names_allowed(snapshot, &cluster, &uid, username))
        });
        match known {
            Some(allowed) => allowed,
            None if username.starts_with("system:serviceaccount:") => NamesAllowed::Unknown,
            None => NamesAllowed::Any,
        }
    }
}

#[async_trait]
impl InProcessAdmission for Prefixes {
    fn covers(&self, group: &str, _resource: &str, namespace: &str) -> bool {
        namespace.is_empty() && !REVIEWS.contains(&group)
    }

    async fn validate(&self, request: &AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        if request.tenant.is_platform() || request.operation == AdmissionOperation::Connect {
            return Ok(Vec::new());
        }
        let about = About { group: request.group, resource: request.resource, name: request.name };
        match self.allowed(request.tenant.as_str(), &request.user.name) {
            NamesAllowed::Any => Ok(Vec::new()),
            NamesAllowed::Prefix { prefix, .. } if owns(&prefix, name(request)) => {
                let AdmissionRequest { group, resource, subresource, .. } = *request;
                let writing = Writing { group, resource, subresource, object: &*request.object };
                writing.refusal(&prefix).map_or(Ok(Vec::new()), |why| Err(ApiError::forbidden(about, &why)))
            }
            NamesAllowed::Prefix { prefix, request } => {
                let why = format!(
                    "this cluster is shared: names of objects outside namespaces have to begin with \"{prefix}\", the prefix of ClusterRequest {request}"
                );
                Err(ApiError::forbidden(about, &why))
            }
            NamesAllowed::Unknown => {
                let why = "this cluster may be shared, and no prefix is known of this identity; try again";
                Err(ApiError::forbidden(about, why))
            }
        }
    }
}

/// The name of the object, or what it is going to begin with.
fn name<'a>(request: &'a AdmissionRequest<'_>) -> &'a str {
    let metadata = request.object.get("metadata");
    let text = |field: &str| metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
    match request.name {
        "" => text("name").filter(|name| !name.is_empty()).or_else(|| text("generateName")).unwrap_or_default(),
        name => name,
    }
}
