//! Every field of our kinds, checked before it is stored.

use std::collections::BTreeSet;

use allotment_api::requests::{
    AccessPolicySpec, AccessRequestSpec, CeilingRule, CeilingScope, ClusterProviderSpec, ClusterRequest,
    ClusterRequestSpec, ClusterSpec, Permission, PurposeSpec, TraitEquivalenceSpec,
};
use allotment_core::providers::PackageRef;
use allotment_core::requests::{Forecast, Snapshot, Version, forecast, is_well_formed};
use allotment_machinery::duration::Duration;
use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::names;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::review::{Found, Operation, Request};
use crate::{configs, selectors, traits};

/// Checks the object as it is to be stored.
pub(crate) fn check(request: &Request<'_>, object: &Value, snapshot: Option<&Snapshot>, found: &mut Found) {
    if matches!(request.kind, "Purpose" | "ClusterRequest") {
        traits::check_types(&object["spec"]["traits"], &spec().child("traits"), found);
        if !found.errors.is_empty() {
            return;
        }
    }
    match request.kind {
        "ClusterProvider" => with(object, found, provider),
        "Cluster" => {
            let (new, old) = (&object["spec"]["clusterProviderRef"], &request.old_object["spec"]["clusterProviderRef"]);
            // The provider of before would not hear that the Cluster goes, and keep what it made.
            if request.operation == Operation::Update && new != old {
                let path = spec().child("clusterProviderRef");
                found.errors.push(FieldError::forbidden(&path, "never changes; make another Cluster"));
            }
            with(object, found, |spec, found| cluster(spec, snapshot, found));
        }
        "Purpose" => with(object, found, |spec, found| purpose(spec, snapshot, found)),
        "ClusterRequest" => with(object, found, |spec, found| cluster_request(request, object, spec, snapshot, found)),
        "ClusterRequestGrant" if request.operation == Operation::Update => {
            found.errors.push(FieldError::forbidden(&Path::new("spec"), "is written once and never changes"));
        }
        "AccessRequest" => with(object, found, access_request),
        "AccessPolicy" => with(object, found, access_policy),
        "TraitEquivalence" => with(object, found, equivalence),
        "ProviderConfig" => configs::check(request, object, found),
        _ => {}
    }
}

pub(crate) fn spec() -> Path {
    Path::new("spec")
}

pub(crate) fn with<T: DeserializeOwned>(object: &Value, found: &mut Found, check: impl FnOnce(&T, &mut Found)) {
    match serde_json::from_value::<T>(object["spec"].clone()) {
        Ok(spec) => check(&spec, found),
        Err(error) => {
            let shown = allotment_machinery::field::ShownValue::raw("object");
            found.errors.push(FieldError::invalid(&spec(), shown, error.to_string()));
        }
    }
}

fn provider(provider: &ClusterProviderSpec, found: &mut Found) {
    let path = spec().child("package");
    if provider.package.trim().is_empty() {
        found.errors.push(FieldError::required(&path, "builtin:<name>, an image, or a path"));
    } else if provider.package.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let detail = "must not contain white space or control characters";
        found.errors.push(FieldError::invalid(&path, provider.package.as_str(), detail));
    }
    for (index, secret) in provider.package_pull_secret.iter().enumerate() {
        name(&secret.name, &spec().child("packagePullSecret").index(index).child("name"), found);
    }
}

/// The name of an object that is referred to: one that no object can have is a mistake for sure.
pub(crate) fn name(text: &str, path: &Path, found: &mut Found) {
    if text.is_empty() {
        found.errors.push(FieldError::required(path, ""));
        return;
    }
    let faults = names::dns1123_subdomain(text);
    found.errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, text, fault.to_string())));
}

/// Names of objects, each once.
fn object_names(items: &[String], path: &Path, found: &mut Found) {
    unique_names(items, path, found);
    for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_empty()) {
        name(item, &path.index(index), found);
    }
}

fn unique_names(items: &[String], path: &Path, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if item.is_empty() {
            found.errors.push(FieldError::required(&path.index(index), ""));
        } else if !seen.insert(item) {
            found.errors.push(FieldError::duplicate(&path.index(index), item));
        }
    }
}

pub(crate) fn version(text: Option<&str>, path: &Path, found: &mut Found) -> Option<Version> {
    let text = text.filter(|text| !text.is_empty())?;
    let parsed = Version::parse(text).filter(|version| version.components() <= 3);
    if parsed.is_none() {
        let detail = "must be up to three numbers with dots between, such as 1, 1.30 or 1.30.2";
        found.errors.push(FieldError::invalid(path, text, detail));
    }
    parsed
}

fn duration(text: Option<&str>, path: &Path, positive: bool, found: &mut Found) {
    let Some(text) = text else { return };
    match text.parse::<Duration>() {
        Err(error) => found.errors.push(FieldError::invalid(path, text, error.to_string())),
        Ok(length) if length.is_negative() || (positive && length.as_nanos() == 0) => {
            let detail = if positive { "must be greater than 0" } else { "must not be negative" };
            found.errors.push(FieldError::invalid(path, text, detail));
        }
        Ok(_) => {}
    }
}

fn namespace(text: Option<&str>, path: &Path, found: &mut Found) {
    let Some(text) = text else { return };
    let faults = names::dns1123_label(text);
    found.errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, text, fault.to_string())));
}

fn cluster(cluster: &ClusterSpec, snapshot: Option<&Snapshot>, found: &mut Found) {
    let reference = &cluster.cluster_provider_ref;
    name(&reference.name, &spec().child("clusterProviderRef").child("name"), found);
    name(&reference.profile, &spec().child("clusterProviderRef").child("profile"), found);
    if let Some(config) = &cluster.cluster_config_ref {
        let at = spec().child("clusterConfigRef");
        name(&config.name, &at.child("name"), found);
        name(&config.api_group, &at.child("apiGroup"), found);
        if config.kind.is_empty() {
            found.errors.push(FieldError::required(&at.child("kind"), ""));
        }
        let provider = snapshot.and_then(|snapshot| snapshot.provider(&reference.name));
        let package = provider.map(|provider| provider.spec.package.as_str());
        if let Some(package) = package.filter(|package| matches!(PackageRef::parse(package), PackageRef::BuiltIn(_))) {
            let what =
                "has no ClusterConfigs, so this is ignored; what its Clusters are like stands in its ProviderConfigs";
            found.warnings.push(format!("{at}: {package} {what}"));
        }
    }
    version(cluster.kubernetes.version.as_deref(), &spec().child("kubernetes").child("version"), found);
    object_names(&cluster.purposes, &spec().child("purposes"), found);
    duration(cluster.idle_grace.as_deref(), &spec().child("idleGrace"), false, found);
}

fn purpose(purpose: &PurposeSpec, snapshot: Option<&Snapshot>, found: &mut Found) {
    traits::check(&purpose.traits, &spec().child("traits"), false, snapshot, found);
    for (field, value, least) in [("maxTenants", purpose.max_tenants, 1), ("maxClusters", purpose.max_clusters, 0)] {
        if let Some(value) = value.filter(|value| *value < least) {
            let detail = format!("must be greater than or equal to {least}");
            found.errors.push(FieldError::invalid(&spec().child(field), i64::from(value), detail));
        }
    }
    let profiles = spec().child("profiles");
    unique_names(&purpose.profiles, &profiles, found);
    for (index, text) in purpose.profiles.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        let (provider, profile) = text.split_once('/').unwrap_or(("any", text));
        if [provider, profile].iter().any(|part| names::dns1123_subdomain(part).into_iter().next().is_some()) {
            let detail = "must be the name of a profile, or provider/profile";
            found.errors.push(FieldError::invalid(&profiles.index(index), text.as_str(), detail));
        }
    }
    if let Some(selector) = &purpose.allowed_namespaces {
        selectors::check(selector, &spec().child("allowedNamespaces"), found);
    }
    namespace(purpose.namespace.as_deref(), &spec().child("namespace"), found);
    if purpose.namespace.as_deref() == Some(allotment_api::names::PLANES_NAMESPACE) {
        let detail = "credentials of control planes lie there, and nothing that others have to read";
        found.errors.push(FieldError::forbidden(&spec().child("namespace"), detail));
    }
    ceiling(purpose.permission_ceiling.as_deref().unwrap_or_default(), found);
    duration(purpose.idle_grace.as_deref(), &spec().child("idleGrace"), false, found);
    if purpose.dedicated != Some(true) && purpose.permission_ceiling.is_none() {
        let text = "spec.permissionCeiling is unset: tenants of a shared Cluster may be granted whatever they ask for";
        found.warnings.push(text.to_owned());
    }
}

fn cluster_request(
    request: &Request<'_>,
    object: &Value,
    wanted: &ClusterRequestSpec,
    snapshot: Option<&Snapshot>,
    found: &mut Found,
) {
    if wanted.purposes.is_empty() {
        found.errors.push(FieldError::required(&spec().child("purposes"), "at least one"));
    }
    object_names(&wanted.purposes, &spec().child("purposes"), found);
    traits::check(&wanted.traits, &spec().child("traits"), true, snapshot, found);
    let text = wanted.kubernetes.as_ref().and_then(|wanted| wanted.version.as_deref());
    let parsed = version(text, &spec().child("kubernetes").child("version"), found);
    if let Some(prefix) = wanted.prefix.as_deref().filter(|prefix| !prefix.is_empty() && !is_well_formed(prefix)) {
        let detail = "must be a lowercase letter, then at most 18 lowercase letters and digits, then one hyphen";
        found.errors.push(FieldError::invalid(&spec().child("prefix"), prefix, detail));
    }
    if request.old_object["status"]["status"] == "Granted" {
        found
            .warnings
            .push("the request is granted already: a change of its spec changes neither Grant nor Cluster".to_owned());
    }
    let Some(snapshot) = snapshot.filter(|_| found.errors.is_empty()) else { return };
    if let (Some(text), Some(parsed)) = (text, parsed)
        && parsed.is_full()
        && snapshot.offers_deprecated(&parsed)
    {
        found.warnings.push(format!("spec.kubernetes.version: {text} is deprecated"));
    }
    let Ok(mut asked) = serde_json::from_value::<ClusterRequest>(object.clone()) else { return };
    asked.metadata.namespace = Some(request.namespace.to_owned());
    let resolved = snapshot.resolve(&asked);
    if let Ok(aggregated) = &resolved {
        let lost = aggregated.wishes_lost.iter();
        found.warnings.extend(lost.map(|lost| format!("spec.traits: a wish is lost: {lost}")));
    }
    if request.dry_run {
        tell(&forecast(snapshot, &asked, request.now), found);
    }
}

/// What would become of a request: the answer in one warning, then the reason for people, then what each candidate
/// lacks. `allot explain request --dry-run` reads them.
fn tell(forecast: &Forecast, found: &mut Found) {
    found.warnings.push(forecast.to_string());
    match forecast {
        Forecast::Kept { .. } => {}
        Forecast::Lost { .. } => {
            found.warnings.push("why: delete and re-create the request to get another Cluster".to_owned());
        }
        Forecast::Granted { prefix, .. } | Forecast::NewCluster { prefix, .. } => {
            found.warnings.extend(prefix.map(|reason| format!("spec.prefix: would not be honored: {reason}")));
        }
        Forecast::Waiting { message } => found.warnings.push(format!("why: {message}")),
        Forecast::Refused(refusal) => {
            found.warnings.push(format!("why: {}", refusal.message));
            let findings = refusal.findings.listed();
            let (listed, omitted) = (findings.len(), refusal.findings.omitted());
            if omitted > 0 {
                let all = listed.saturating_add(omitted);
                found.warnings.push(format!("findings: {listed} of {all}"));
            }
            for finding in findings {
                let mut words = vec![format!("{}/{}", finding.provider, finding.profile), finding.cluster.clone()];
                if finding.provider.is_empty() && finding.profile.is_empty() {
                    words.clear();
                }
                words.retain(|word| !word.is_empty());
                words.push(match finding.detail.as_str() {
                    "" => finding.reason.clone(),
                    detail => format!("{}: {detail}", finding.reason),
                });
                found.warnings.push(format!("finding: {}", words.join(" ")));
            }
        }
    }
}

fn permissions(list: &[Permission], found: &mut Found) {
    for (index, permission) in list.iter().enumerate() {
        let at = spec().child("permissions").index(index);
        namespace(permission.namespace.as_deref(), &at.child("namespace"), found);
        if permission.rules.is_empty() {
            found.errors.push(FieldError::required(&at.child("rules"), "at least one rule"));
        }
        for (index, rule) in permission.rules.iter().enumerate() {
            let list = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
            let shape = RuleShape {
                namespaced: permission.namespace.is_some(),
                verbs: !rule.verbs.is_empty(),
                groups: list(&rule.api_groups),
                resources: list(&rule.resources),
                names: list(&rule.resource_names),
                urls: list(&rule.non_resource_urls),
            };
            shape.check(&at.child("rules").index(index), found);
        }
    }
}

/// Which parts of a rule say something: of an RBAC rule, or of a ceiling's.
struct RuleShape {
    /// Whether it counts in certain namespaces only.
    namespaced: bool,
    verbs: bool,
    groups: bool,
    resources: bool,
    names: bool,
    urls: bool,
}

impl RuleShape {
    /// As Kubernetes checks the rules of Roles and ClusterRoles.
    fn check(&self, at: &Path, found: &mut Found) {
        if !self.verbs {
            found.errors.push(FieldError::required(&at.child("verbs"), "verbs must contain at least one value"));
        }
        if self.urls {
            if self.namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                found.errors.push(FieldError::forbidden(&at.child("nonResourceURLs"), detail));
            } else if self.groups || self.resources || self.names {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                found.errors.push(FieldError::forbidden(&at.child("nonResourceURLs"), detail));
            }
            return;
        }
        if !self.groups {
            let detail = "resource rules must supply at least one api group";
            found.errors.push(FieldError::required(&at.child("apiGroups"), detail));
        }
        if !self.resources {
            let detail = "resource rules must supply at least one resource";
            found.errors.push(FieldError::required(&at.child("resources"), detail));
        }
    }
}

fn ceiling(list: &[CeilingRule], found: &mut Found) {
    for (index, rule) in list.iter().enumerate() {
        let shape = RuleShape {
            namespaced: rule.scope == Some(CeilingScope::PrefixedNamespaces),
            verbs: !rule.verbs.is_empty(),
            groups: !rule.api_groups.is_empty(),
            resources: !rule.resources.is_empty(),
            names: !rule.resource_names.is_empty(),
            urls: !rule.non_resource_urls.is_empty(),
        };
        shape.check(&spec().child("permissionCeiling").index(index), found);
    }
}

fn access_request(access: &AccessRequestSpec, found: &mut Found) {
    match (&access.cluster_ref, &access.request_ref) {
        (None, None) => {
            found.errors.push(FieldError::required(&spec(), "exactly one of clusterRef and requestRef"));
        }
        (Some(_), Some(_)) => {
            let detail = "may not be set together with clusterRef";
            found.errors.push(FieldError::forbidden(&spec().child("requestRef"), detail));
        }
        _ => {}
    }
    for (field, reference) in [("clusterRef", &access.cluster_ref), ("requestRef", &access.request_ref)] {
        let Some(reference) = reference else { continue };
        let at = spec().child(field);
        name(&reference.name, &at.child("name"), found);
        namespace(reference.namespace.as_deref(), &at.child("namespace"), found);
    }
    duration(access.ttl.as_deref(), &spec().child("ttl"), true, found);
    permissions(&access.permissions, found);
}

fn access_policy(policy: &AccessPolicySpec, found: &mut Found) {
    for (index, peer) in policy.from.iter().enumerate() {
        let at = spec().child("from").index(index);
        if peer.namespace.is_some() == peer.namespace_selector.is_some() {
            found.errors.push(FieldError::required(&at, "exactly one of namespace and namespaceSelector"));
        }
        namespace(peer.namespace.as_deref(), &at.child("namespace"), found);
        if let Some(selector) = &peer.namespace_selector {
            selectors::check(selector, &at.child("namespaceSelector"), found);
        }
    }
    permissions(&policy.permissions, found);
    object_names(policy.names.as_deref().unwrap_or_default(), &spec().child("names"), found);
}

fn equivalence(equivalence: &TraitEquivalenceSpec, found: &mut Found) {
    if equivalence.traits.len() < 2 {
        found.errors.push(FieldError::required(&spec().child("traits"), "at least two"));
    }
    let path = spec().child("traits");
    unique_names(&equivalence.traits, &path, found);
    for (index, text) in equivalence.traits.iter().enumerate() {
        traits::check_name(text, &path.index(index), found);
    }
}
