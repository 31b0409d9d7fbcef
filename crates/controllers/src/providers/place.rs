//! Where a kubeconfig lies: a key of a Secret among what is admin access.

use allotment_api::names::PLANES_NAMESPACE;
use allotment_api::requests::KubeconfigRef;
use allotment_machinery::names::dns1123_subdomain;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

/// The key of a kubeconfig in a Secret, unless another one is named.
const DEFAULT_KEY: &str = "kubeconfig";

/// A key of a Secret in namespace `allot-planes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The Secret.
    pub(crate) name: String,
    /// The key in its data.
    pub(crate) key: String,
}

impl Place {
    /// The place that a ProviderConfig names; text for people where it names one that is not read.
    pub(crate) fn of(reference: &KubeconfigRef) -> Result<Place, String> {
        match reference.namespace.as_deref() {
            None | Some(PLANES_NAMESPACE) => {}
            Some(other) => {
                return Err(format!(
                    "spec.kubeconfigRef.namespace: admin access is read from namespace {PLANES_NAMESPACE} only, not from \
                     {other:?}"
                ));
            }
        }
        // In a path it would mean another object.
        if let Some(fault) = dns1123_subdomain(&reference.name).first() {
            return Err(format!("spec.kubeconfigRef.name: no Secret is called {:?}: {fault}", reference.name));
        }
        let key = reference.key.clone().unwrap_or_else(|| DEFAULT_KEY.to_owned());
        Ok(Place { name: reference.name.clone(), key })
    }

    /// What lies there; text for people where nothing does.
    pub(crate) async fn read(&self, secrets: &Api<Secret>) -> Result<Result<String, String>, kube::Error> {
        let Place { name, key } = self;
        let Some(secret) = secrets.get_opt(name).await? else {
            return Ok(Err(format!(
                "Secret {PLANES_NAMESPACE}/{name} does not exist; put an admin's kubeconfig there"
            )));
        };
        let Some(bytes) = secret.data.as_ref().and_then(|data| data.get(key)) else {
            return Ok(Err(format!(
                "Secret {PLANES_NAMESPACE}/{name} has no key {key:?}; name it in kubeconfigRef.key"
            )));
        };
        let text = String::from_utf8(bytes.0.clone());
        Ok(text.map_err(|_| format!("Secret {PLANES_NAMESPACE}/{name}, key {key:?}: the kubeconfig is no text")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_read_from_the_namespace_of_admin_access_only() {
        let named = |namespace: Option<&str>, key: Option<&str>| KubeconfigRef {
            name: "s".into(),
            namespace: namespace.map(str::to_owned),
            key: key.map(str::to_owned),
            ..KubeconfigRef::default()
        };
        let place = |key: &str| Ok(Place { name: "s".into(), key: key.into() });
        assert_eq!(Place::of(&named(None, None)), place("kubeconfig"));
        assert_eq!(Place::of(&named(Some("allot-planes"), Some("value"))), place("value"));
        for other in ["default", "allot-system", ""] {
            assert!(Place::of(&named(Some(other), None)).expect_err(other).contains("allot-planes"));
        }
        for name in ["", "s?", "s#", "s/status", "../default/secrets/s", "%73"] {
            let reference = KubeconfigRef { name: name.into(), ..named(None, None) };
            assert!(Place::of(&reference).expect_err(name).contains("RFC 1123"));
        }
    }
}
