//! The two configurations by which another API server asks this platform about writes of its kinds, and of
//! no others: what is wrong here must hold up nobody else.
//!
//! Their webhooks are ours as a whole: a condition or a selector that somebody adds would switch reviews off.

use std::collections::{BTreeMap, BTreeSet};

use allotment_api::catalog::GROUP as CATALOG_GROUP;
use allotment_api::names::{BUILT_IN_GROUPS, GROUP, PROVIDER_USER_PREFIX};
use allotment_api::reasons::EventReason;
use allotment_controllers::frame::{Kept, Seams, Whole, warn_of};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ApiResource, ObjectMeta};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::warn;

use crate::landscape::LandscapeError;
use crate::manifests::call_failed;

/// Where reviews before the fields are looked at are asked for.
pub const MUTATE_PATH: &str = "/mutate";
/// Where reviews of final objects are asked for.
pub const VALIDATE_PATH: &str = "/validate";

/// Annotation of both: who held the Lease when they were written last.
const TERM: &str = "cluster.openmcp.cloud/kept-by";
/// The catalog's kinds, with all that is below them.
const CATALOG_RESOURCES: [&str; 6] =
    ["cloudprofiles", "cloudprofiles/*", "privatecloudprofiles", "privatecloudprofiles/*", "shoots", "shoots/*"];
/// What both configurations are called.
pub(crate) const NAME: &str = "allotment";
/// Member of a webhook: where the server finds it.
const CLIENT_CONFIG: &str = "clientConfig";
/// What is told where somebody changed one of them, and where somebody deleted it.
const TAMPERED: &str = "its webhooks were not what the platform needs, so that writes of its kinds might not have been \
     reviewed; they are right again";
const DELETED: &str =
    "it was deleted, so that writes of the platform's kinds might not have been reviewed; it is there again";
/// How long a review may take: most are computed from what is in memory, those of the catalog read the API as well, for
/// half of it at most.
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
    pub(crate) seams: &'a Seams,
    pub(crate) manager: &'a str,
    /// Who holds the Lease. Each term writes both once, so that no write of an earlier one that comes late still fits.
    pub(crate) term: &'a str,
    pub(crate) address: &'a WebhookAddress,
    /// The platform's own user name.
    pub(crate) user: &'a str,
    /// Authorities that the webhooks' certificates may be of, as PEM.
    pub(crate) bundle: &'a str,
    /// The catalog's kinds are somebody else's.
    pub(crate) without_catalog: bool,
    /// The landscape was made before: configurations that lack were there once.
    pub(crate) is_made: bool,
}

impl Configurations<'_> {
    /// Puts both in force, or right where somebody changed them, and tells of that.
    pub(crate) async fn apply(&self) -> Result<(), LandscapeError> {
        self.keep(&self.mutating()).await?;
        self.keep(&self.validating()).await
    }

    async fn keep<K>(&self, wanted: &K) -> Result<(), LandscapeError>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let (kind, plural) = (K::kind(&()), K::plural(&()));
        let unreadable = |error: serde_json::Error| LandscapeError::Manifest {
            kind: "webhook configuration",
            source: Box::new(error),
        };
        let object = serde_json::to_value(wanted).map_err(unreadable)?;
        let api = Api::all_with(self.client.clone(), &ApiResource::erase::<K>(&()));
        let whole = Whole { object: &object, members: &["webhooks"], manager: self.manager };
        let kept = whole.keep(&api).await.map_err(|error| call_failed(format!("keep {plural} {NAME}"), error))?;
        let (about, text) = match kept {
            Kept::Mended(mended) if was_tampered(&mended.before.data["webhooks"], &object["webhooks"]) => {
                (mended.after, TAMPERED)
            }
            Kept::Made(made) if self.is_made => (*made, DELETED),
            Kept::Same(_) | Kept::Made(_) | Kept::Mended(_) => return Ok(()),
        };
        warn!(%kind, name = NAME, "{text}");
        let about: K = serde_json::to_value(&about).and_then(serde_json::from_value).map_err(unreadable)?;
        let told = warn_of(self.client, self.seams, &about, EventReason::Repaired, text).await;
        told.map_err(|error| call_failed(format!("tell of {plural} {NAME}"), error))
    }

    fn mutating(&self) -> MutatingWebhookConfiguration {
        // The platform's own writes have nothing to be refused for at this stage; who asked for access is
        // stamped whoever writes.
        let stamped = "request.resource.resource == 'accessrequests' && !has(request.subResource)";
        let webhook = MutatingWebhook {
            name: format!("mutate.{GROUP}"),
            client_config: self.address.client_config(MUTATE_PATH, self.bundle),
            rules: Some(self.rules()),
            match_conditions: Some(vec![self.unless_platform(stamped)]),
            failure_policy: Some("Fail".to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(LabelSelector::default()),
            object_selector: Some(LabelSelector::default()),
            reinvocation_policy: Some("IfNeeded".to_owned()),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECS),
            admission_review_versions: vec!["v1".to_owned()],
        };
        MutatingWebhookConfiguration { metadata: self.metadata(), webhooks: Some(vec![webhook]) }
    }

    fn validating(&self) -> ValidatingWebhookConfiguration {
        let webhook = ValidatingWebhook {
            name: format!("validate.{GROUP}"),
            client_config: self.address.client_config(VALIDATE_PATH, self.bundle),
            rules: Some(self.rules()),
            match_conditions: Some(vec![self.unless_platform("!has(request.subResource)")]),
            failure_policy: Some("Fail".to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(LabelSelector::default()),
            object_selector: Some(LabelSelector::default()),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECS),
            admission_review_versions: vec!["v1".to_owned()],
        };
        // A provider of another process may bring definitions, of its own group only, and may not write what names Secrets.
        let by_provider = MatchCondition {
            name: format!("by-provider.{GROUP}"),
            expression: format!("request.userInfo.username.startsWith('{PROVIDER_USER_PREFIX}')"),
        };
        let providers = ValidatingWebhook {
            name: format!("providers.{GROUP}"),
            rules: Some(vec![
                rule_about(&["apiextensions.k8s.io"], &["customresourcedefinitions"]),
                rule_about(&["*"], &["providerconfigs"]),
            ]),
            match_conditions: Some(vec![by_provider]),
            ..webhook.clone()
        };
        ValidatingWebhookConfiguration { metadata: self.metadata(), webhooks: Some(vec![webhook, providers]) }
    }

    /// Every write of our kinds: any version, subresources too. Our own group has no others; the catalog's may.
    fn rules(&self) -> Vec<RuleWithOperations> {
        let groups: Vec<&str> = std::iter::once(GROUP).chain(BUILT_IN_GROUPS).collect();
        let catalog = (!self.without_catalog).then(|| rule_about(&[CATALOG_GROUP], &CATALOG_RESOURCES));
        std::iter::once(rule_about(&groups, &["*/*"])).chain(catalog).collect()
    }

    fn metadata(&self) -> ObjectMeta {
        let term = BTreeMap::from([(TERM.to_owned(), self.term.to_owned())]);
        ObjectMeta { name: Some(NAME.to_owned()), annotations: Some(term), ..ObjectMeta::default() }
    }

    /// Asks about every write of others, and about those of the platform of which `else_if` holds: its own writes of
    /// status are most of all, and nothing about them is judged.
    fn unless_platform(&self, else_if: &str) -> MatchCondition {
        // A text in JSON is a text in CEL.
        let user = Value::from(self.user);
        MatchCondition {
            name: format!("judged.{GROUP}"),
            expression: format!("request.userInfo.username != {user} || ({else_if})"),
        }
    }
}

/// Whether writes might not have been reviewed while the webhooks were like that: anything differed but where we are found
/// and by what we are known, which changes with each process and each renewal.
fn was_tampered(before: &Value, wanted: &Value) -> bool {
    let (Some(before), Some(wanted)) = (before.as_array(), wanted.as_array()) else { return before != wanted };
    let same = |(before, wanted): (&Value, &Value)| {
        let mut before = before.clone();
        if reaches_none_but_us(&before[CLIENT_CONFIG], &wanted[CLIENT_CONFIG]) {
            before[CLIENT_CONFIG] = wanted[CLIENT_CONFIG].clone();
        }
        before == *wanted
    };
    before.len() != wanted.len() || !before.iter().zip(wanted).all(same)
}

/// Whether a review could be answered by nobody but the platform, there where such reviews are: it was asked for at our
/// address, or of a server that only our authorities vouch for. Else writes were refused, since nothing goes unreviewed.
fn reaches_none_but_us(before: &Value, wanted: &Value) -> bool {
    let same_address = before["url"] == wanted["url"] && before["service"] == wanted["service"];
    same_address || (path(before) == path(wanted) && believes_no_other(before, wanted))
}

/// The path at which a webhook is asked.
fn path(config: &Value) -> Option<&str> {
    match config["url"].as_str() {
        Some(url) => url.strip_prefix("https://")?.split_once('/').map(|(_, path)| path),
        None => config["service"]["path"].as_str()?.strip_prefix('/'),
    }
}

/// Whether each authority that is believed is one of ours; where none is named, the machine's are believed.
fn believes_no_other(before: &Value, wanted: &Value) -> bool {
    let (Some(before), Some(wanted)) = (authorities(before), authorities(wanted)) else { return false };
    !before.is_empty() && before.is_subset(&wanted)
}

/// The certificates of a bundle, as PEM.
fn authorities(config: &Value) -> Option<BTreeSet<String>> {
    let bundle = serde_json::from_value::<ByteString>(config["caBundle"].clone()).ok()?;
    let text = String::from_utf8(bundle.0).ok()?;
    Some(
        text.split_inclusive("-----END CERTIFICATE-----")
            .map(|one| one.trim().to_owned())
            .filter(|one| !one.is_empty())
            .collect(),
    )
}

/// Every write of these resources in any version.
fn rule_about(groups: &[&str], resources: &[&str]) -> RuleWithOperations {
    let all = |items: &[&str]| Some(items.iter().map(|item| (*item).to_owned()).collect());
    RuleWithOperations {
        api_groups: all(groups),
        api_versions: all(&["*"]),
        operations: all(&["CREATE", "UPDATE", "DELETE"]),
        resources: all(resources),
        scope: Some("*".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_catalogs_kinds_are_asked_about_and_no_others() {
        let mut plurals: Vec<String> = Vec::new();
        for definition in allotment_api::catalog_crds() {
            let plural = definition.spec.names.plural;
            plurals.extend([plural.clone(), format!("{plural}/*")]);
        }
        plurals.sort();
        assert_eq!(plurals, CATALOG_RESOURCES);
    }

    #[test]
    fn the_certificate_bears_the_name_by_which_the_server_is_asked() {
        let url = |text: &str| WebhookAddress::Url(text.to_owned()).server_name();
        assert_eq!(url("https://127.0.0.1:9443"), "127.0.0.1");
        assert_eq!(url("https://[::1]:9443"), "::1");
        assert_eq!(url("https://hooks.example.com"), "hooks.example.com");
        let service = WebhookAddress::Service { namespace: "n".into(), name: "s".into(), port: 443 };
        assert_eq!(service.server_name(), "s.n.svc");
    }
    #[test]
    fn only_what_could_leave_a_write_unreviewed_is_told_of() {
        let pem = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n");
        let (ours, next, foreign) = (pem("ours"), pem("next"), pem("foreign"));
        let webhook = |address: &WebhookAddress, path: &str, bundle: &str| {
            let webhook = ValidatingWebhook {
                name: "w".to_owned(),
                client_config: address.client_config(path, bundle),
                rules: Some(vec![rule_about(&[GROUP], &["*/*"])]),
                ..ValidatingWebhook::default()
            };
            serde_json::to_value(webhook).expect("a webhook")
        };
        let url = |text: &str| WebhookAddress::Url(text.to_owned());
        let service = WebhookAddress::Service { namespace: "n".into(), name: "s".into(), port: 443 };
        let (here, before) = (url("https://127.0.0.1:40001"), url("https://127.0.0.1:9443"));
        let both = format!("{ours}{next}");
        let wanted = Value::from(vec![webhook(&here, VALIDATE_PATH, &both)]);
        let check = |name: &str, webhook: Value, expect: bool| {
            assert_eq!(was_tampered(&Value::from(vec![webhook]), &wanted), expect, "{name}");
        };
        check("the same", webhook(&here, VALIDATE_PATH, &both), false);
        check("the process before us", webhook(&before, VALIDATE_PATH, &ours), false);
        check("a Service before us", webhook(&service, VALIDATE_PATH, &both), false);
        check("before the renewal", webhook(&here, VALIDATE_PATH, &ours), false);
        check("our address, which cannot be believed", webhook(&here, VALIDATE_PATH, &foreign), false);
        check("another server", webhook(&before, VALIDATE_PATH, &foreign), true);
        check("another server too", webhook(&before, VALIDATE_PATH, &format!("{ours}{foreign}")), true);
        check("a server the machine believes", webhook(&before, VALIDATE_PATH, ""), true);
        check("what we answer otherwise", webhook(&before, MUTATE_PATH, &ours), true);
        check("what we answer otherwise here", webhook(&here, MUTATE_PATH, &both), true);
        let mut narrowed = webhook(&before, VALIDATE_PATH, &ours);
        narrowed["matchConditions"] = serde_json::json!([{"name": "never", "expression": "false"}]);
        check("a condition", narrowed, true);
        let one = webhook(&here, VALIDATE_PATH, &both);
        assert!(was_tampered(&Value::from(vec![one.clone(), one]), &wanted), "one more");
        assert!(
            was_tampered(&Value::from(Vec::<Value>::new()), &wanted) && was_tampered(&Value::Null, &wanted),
            "none"
        );
    }
}
