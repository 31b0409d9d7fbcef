//! The two configurations by which another API server asks this platform about writes of its kinds, and of
//! no others: what is wrong here must hold up nobody else.

use allotment_api::names::{GROUP, LOCAL_GROUP, PROVIDER_USER_PREFIX};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client};

use crate::landscape::LandscapeError;
use crate::manifests::call;

/// Where reviews before the fields are looked at are asked for.
pub const MUTATE_PATH: &str = "/mutate";
/// Where reviews of final objects are asked for.
pub const VALIDATE_PATH: &str = "/validate";

/// What both configurations are called.
const NAME: &str = "allotment";
/// How long a review may take. It is computed from what is in memory; this bounds the network.
const TIMEOUT_SECS: i32 = 10;

/// Where the API server finds the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// `https://HOST:PORT`, no trailing slash.
    Url(String),
    /// A Service that leads to every replica.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

impl WebhookAddress {
    /// The name that the serving certificate has to bear.
    pub fn server_name(&self) -> String {
        match self {
            WebhookAddress::Url(url) => {
                let host = url.trim_start_matches("https://").split('/').next().unwrap_or_default();
                match host.strip_prefix('[') {
                    Some(v6) => v6.split(']').next().unwrap_or_default().to_owned(),
                    None => host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned(),
                }
            }
            WebhookAddress::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }

    fn client_config(&self, path: &str, bundle: &str) -> WebhookClientConfig {
        let ca_bundle = Some(ByteString(bundle.as_bytes().to_vec()));
        match self {
            WebhookAddress::Url(url) => {
                WebhookClientConfig { url: Some(format!("{url}{path}")), ca_bundle, ..WebhookClientConfig::default() }
            }
            WebhookAddress::Service { namespace, name, port } => WebhookClientConfig {
                service: Some(ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    path: Some(path.to_owned()),
                    port: Some(i32::from(*port)),
                }),
                ca_bundle,
                ..WebhookClientConfig::default()
            },
        }
    }
}

/// Writes the configurations.
#[derive(Clone)]
pub(crate) struct Configurations<'a> {
    pub(crate) client: &'a Client,
    pub(crate) manager: &'a str,
    pub(crate) address: &'a WebhookAddress,
    /// The platform's own user name.
    pub(crate) user: &'a str,
    /// Authorities that the webhooks' certificates may be of, as PEM.
    pub(crate) bundle: &'a str,
}

impl Configurations<'_> {
    /// Puts both in force, or right where somebody changed them.
    pub(crate) async fn apply(&self) -> Result<(), LandscapeError> {
        let params = PatchParams::apply(self.manager).force();
        let mutating = Api::<MutatingWebhookConfiguration>::all(self.client.clone());
        let applied = mutating.patch(NAME, &params, &Patch::Apply(&self.mutating())).await;
        applied.map_err(|error| call(format!("apply MutatingWebhookConfiguration {NAME}"), error))?;
        let validating = Api::<ValidatingWebhookConfiguration>::all(self.client.clone());
        let applied = validating.patch(NAME, &params, &Patch::Apply(&self.validating())).await;
        applied.map_err(|error| call(format!("apply ValidatingWebhookConfiguration {NAME}"), error))?;
        Ok(())
    }

    fn mutating(&self) -> MutatingWebhookConfiguration {
        // The platform's own writes have nothing to be refused for at this stage; who asked for access is
        // stamped whoever writes.
        let stamped = "request.resource.resource == 'accessrequests' && !has(request.subResource)";
        let webhook = MutatingWebhook {
            name: format!("mutate.{GROUP}"),
            client_config: self.address.client_config(MUTATE_PATH, self.bundle),
            rules: Some(vec![rule()]),
            match_conditions: Some(vec![self.unless_platform(stamped)]),
            failure_policy: Some("Fail".to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            reinvocation_policy: Some("IfNeeded".to_owned()),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECS),
            admission_review_versions: vec!["v1".to_owned()],
            ..MutatingWebhook::default()
        };
        MutatingWebhookConfiguration { metadata: metadata(), webhooks: Some(vec![webhook]) }
    }

    fn validating(&self) -> ValidatingWebhookConfiguration {
        let webhook = ValidatingWebhook {
            name: format!("validate.{GROUP}"),
            client_config: self.address.client_config(VALIDATE_PATH, self.bundle),
            rules: Some(vec![rule()]),
            match_conditions: Some(vec![self.unless_platform("!has(request.subResource)")]),
            failure_policy: Some("Fail".to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECS),
            admission_review_versions: vec!["v1".to_owned()],
            ..ValidatingWebhook::default()
        };
        // A provider of another process may bring definitions, of its own group only, and may not write what names Secrets.
        let by_provider = MatchCondition {
            name: format!("by-provider.{GROUP}"),
            expression: format!("request.userInfo.username.startsWith('{PROVIDER_USER_PREFIX}')"),
        };
        let providers = ValidatingWebhook {
            name: format!("providers.{GROUP}"),
            rules: Some(vec![
                rule_about(&["apiextensions.k8s.io"], "customresourcedefinitions"),
                rule_about(&["*"], "providerconfigs"),
            ]),
            match_conditions: Some(vec![by_provider]),
            ..webhook.clone()
        };
        ValidatingWebhookConfiguration { metadata: metadata(), webhooks: Some(vec![webhook, providers]) }
    }

    /// Asks about every write of others, and about those of the platform of which `else_if` holds: its own writes of
    /// status are most of all, and nothing about them is judged.
    fn unless_platform(&self, else_if: &str) -> MatchCondition {
        // A text in JSON is a text in CEL.
        let user = serde_json::Value::from(self.user);
        MatchCondition {
            name: format!("judged.{GROUP}"),
            expression: format!("request.userInfo.username != {user} || ({else_if})"),
        }
    }
}

fn metadata() -> ObjectMeta {
    ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() }
}

/// Every write of our groups: any version, any kind, subresources too.
fn rule() -> RuleWithOperations {
    rule_about(&[GROUP, LOCAL_GROUP], "*/*")
}

/// Every write of these resources in any version.
fn rule_about(groups: &[&str], resource: &str) -> RuleWithOperations {
    let all = |items: &[&str]| Some(items.iter().map(|item| (*item).to_owned()).collect());
    RuleWithOperations {
        api_groups: all(groups),
        api_versions: all(&["*"]),
        operations: all(&["CREATE", "UPDATE", "DELETE"]),
        resources: all(&[resource]),
        scope: Some("*".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_bears_the_name_by_which_the_server_is_asked() {
        let url = |text: &str| WebhookAddress::Url(text.to_owned()).server_name();
        assert_eq!(url("https://127.0.0.1:9443"), "127.0.0.1");
        assert_eq!(url("https://[::1]:9443"), "::1");
        assert_eq!(url("https://hooks.example.com"), "hooks.example.com");
        let service = WebhookAddress::Service { namespace: "n".into(), name: "s".into(), port: 443 };
        assert_eq!(service.server_name(), "s.n.svc");
    }
}
