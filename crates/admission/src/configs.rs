//! ProviderConfigs of the providers in the platform's process: what can never work is refused before it is stored. What only
//! a look at the cluster or the machine tells is said by condition `ConfigsUsable` of their ClusterProvider.

use std::collections::BTreeSet;

use allotment_api::names;
use allotment_api::requests::{ExistingConfigSpec, KindConfigSpec, KubeconfigRef, OidcIssuer, ProviderConfigSpec};
use allotment_core::requests::Version;
use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::names::config_map_key;
use serde_json::Value;

use crate::review::{Found, Request};
use crate::traits;
use crate::validate::{name, spec, with};

/// What names of Kubernetes' own users begin with: an issuer's users are none of them.
const SYSTEM: &str = "system:";

/// Checks a ProviderConfig, by the group that it is of.
pub(crate) fn check(request: &Request<'_>, object: &Value, found: &mut Found) {
    match request.group {
        names::EXISTING_GROUP => with(object, found, existing),
        names::KIND_GROUP => with(object, found, kind),
        _ => with(object, found, |config: &ProviderConfigSpec, found| provider(&config.provider_ref, found)),
    }
}

fn provider(reference: &str, found: &mut Found) {
    name(reference, &spec().child("providerRef"), found);
}

fn existing(config: &ExistingConfigSpec, found: &mut Found) {
    provider(&config.provider_ref, found);
    kubeconfig(&config.kubeconfig_ref, &spec().child("kubeconfigRef"), found);
    trait_names(&config.traits, found);
    if let Some(issuer) = &config.oidc {
        oidc(issuer, &spec().child("oidc"), found);
    }
}

fn kubeconfig(reference: &KubeconfigRef, at: &Path, found: &mut Found) {
    name(&reference.name, &at.child("name"), found);
    let elsewhere = reference.namespace.as_deref().filter(|namespace| *namespace != names::PLANES_NAMESPACE);
    if let Some(namespace) = elsewhere {
        let detail = format!("admin access is read from namespace {} only; leave it out", names::PLANES_NAMESPACE);
        found.errors.push(FieldError::invalid(&at.child("namespace"), namespace, detail));
    }
    if let Some(key) = &reference.key {
        let faults = config_map_key(key).into_iter();
        found.errors.extend(faults.map(|fault| FieldError::invalid(&at.child("key"), key.as_str(), fault.to_string())));
    }
}

fn oidc(issuer: &OidcIssuer, at: &Path, found: &mut Found) {
    // As kube-apiserver demands of `--oidc-issuer-url`; what it says is compared letter by letter with what tokens say.
    let host = issuer.issuer.strip_prefix("https://").map(|rest| rest.split('/').next().unwrap_or_default());
    if host.is_none_or(str::is_empty) || issuer.issuer.contains(['?', '#', '@']) || !is_plain(&issuer.issuer) {
        let detail = "must be the URL of an issuer: https://HOST[:PORT][/PATH], without user, query and fragment";
        found.errors.push(FieldError::invalid(&at.child("issuer"), issuer.issuer.as_str(), detail));
    }
    if issuer.client_id.is_empty() || !is_plain(&issuer.client_id) {
        let detail = "must be what the cluster's API server has as --oidc-client-id, without white space";
        found.errors.push(FieldError::invalid(&at.child("clientID"), issuer.client_id.as_str(), detail));
    }
    let prefixes = [("usernamePrefix", &issuer.username_prefix), ("requesterPrefix", &issuer.requester_prefix)];
    for (field, prefix) in prefixes {
        if prefix.starts_with(SYSTEM) {
            let detail = "must not begin with \"system:\": those are users of Kubernetes itself, and no issuer's";
            found.errors.push(FieldError::invalid(&at.child(field), prefix.as_str(), detail));
        } else if !is_plain(prefix) {
            let detail = "must not contain white space or control characters";
            found.errors.push(FieldError::invalid(&at.child(field), prefix.as_str(), detail));
        }
    }
    for (index, scope) in issuer.extra_scopes.iter().enumerate() {
        if scope.is_empty() || !is_plain(scope) {
            let detail = "must be one scope, without white space";
            found.errors.push(FieldError::invalid(&at.child("extraScopes").index(index), scope.as_str(), detail));
        }
    }
}

fn kind(config: &KindConfigSpec, found: &mut Found) {
    provider(&config.provider_ref, found);
    trait_names(&config.traits, found);
    let mut seen = BTreeSet::new();
    for (index, offer) in config.versions.iter().enumerate() {
        let at = spec().child("versions").index(index);
        match Version::parse(&offer.version).filter(Version::is_full) {
            None => {
                let detail = "must be a full version, such as 1.34.0";
                found.errors.push(FieldError::invalid(&at.child("version"), offer.version.as_str(), detail));
            }
            Some(version) => {
                if !seen.insert(version) {
                    found.errors.push(FieldError::duplicate(&at.child("version"), offer.version.as_str()));
                }
            }
        }
        // It is a word of a command line, which takes what begins so for a flag.
        if let Some(image) = offer.image.as_ref().filter(|image| image.starts_with('-') || !is_plain(image)) {
            let detail = "must be a reference of an image, without white space";
            found.errors.push(FieldError::invalid(&at.child("image"), image.as_str(), detail));
        }
    }
}

fn trait_names(names: &[String], found: &mut Found) {
    let mut seen = BTreeSet::new();
    for (index, text) in names.iter().enumerate() {
        let at = spec().child("traits").index(index);
        if text.is_empty() {
            found.errors.push(FieldError::required(&at, ""));
        } else if !seen.insert(text) {
            found.errors.push(FieldError::duplicate(&at, text.as_str()));
        } else {
            traits::check_name(text, &at, found);
        }
    }
}

/// Whether it is one word of visible characters.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control())
}
