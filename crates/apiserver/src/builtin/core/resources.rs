//! Lists of resources: their names, amounts, and how requests and limits go together
//! (`k8s.io/kubernetes/pkg/apis/core/validation`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::names;
use allotment_machinery::quantity::Quantity;

use crate::builtin::rules::Errors;
use crate::builtin::rules::checks::faults;
use crate::builtin::rules::look::{items, object};

const HUGE_PAGES: &str = "hugepages-";
/// What belongs to Kubernetes itself though it has a domain.
const NATIVE_DOMAIN: &str = "kubernetes.io/";
const REQUESTS: &str = "requests.";

/// The resources that containers have, besides huge pages.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources without a domain that quotas and ranges may name.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources that are counted.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE_DOMAIN)
}

fn is_extended(name: &str) -> bool {
    let in_quotas = || names::qualified_name(&format!("{REQUESTS}{name}")).is_empty();
    !is_native(name) && !name.starts_with(REQUESTS) && in_quotas()
}

fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn is_whole(name: &str) -> bool {
    WHOLE.contains(&name) || is_extended(name)
}

/// Names that are told of are plain; others are qualified, and without a domain known.
fn resource_name(name: &str, path: &Path, errors: &mut Errors) -> bool {
    let found = names::qualified_name(name);
    let fits = found.is_empty();
    faults(path, name, found, errors);
    if fits && !name.contains('/') && !STANDARD.contains(&name) && !is_huge_page(name) {
        let prefixed = ["count/", "requests.hugepages-", "limits.hugepages-"];
        if !prefixed.iter().any(|prefix| name.starts_with(prefix)) {
            errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
            return false;
        }
    }
    fits
}

/// A list of resources of a range: what pods and containers ask for, or anything.
pub(crate) fn validate_range_list(of_containers: bool, owner: &Map, name: &str, path: &Path, errors: &mut Errors) {
    for (resource, _) in entries(owner, name) {
        let path = path.child(name).key(resource);
        if of_containers {
            container_resource(resource, &path, errors);
        } else {
            resource_name(resource, &path, errors);
        }
    }
}

/// A list of resources of a quota.
pub(crate) fn validate_quota_list(owner: &Map, name: &str, path: &Path, errors: &mut Errors) {
    for (resource, value) in entries(owner, name) {
        let path = path.child(name).key(resource);
        resource_name(resource, &path, errors);
        if !resource.contains('/') && !is_of_quotas(resource) {
            errors.push(FieldError::invalid(&path, resource, "must be a standard resource for quota"));
        }
        amount(resource, value, &path, errors);
    }
}

/// Whether a quota may name a resource without a domain.
pub(crate) fn is_of_quotas(name: &str) -> bool {
    let huge = [HUGE_PAGES, "requests.hugepages-"].iter().any(|prefix| name.starts_with(prefix));
    huge || STANDARD.contains(&name) && name != "storage"
}

/// The name of a resource that containers have.
pub(crate) fn container_resource(name: &str, path: &Path, errors: &mut Errors) {
    resource_name(name, path, errors);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge_page(name) {
            errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(path, name, "doesn't follow extended resource name standard"));
    }
}

/// An amount that is not below zero, and whole where things are counted.
pub(crate) fn amount(name: &str, value: &Value, path: &Path, errors: &mut Errors) {
    const UNIT: i128 = 1_000_000_000;
    let Some(quantity) = read(value) else { return };
    if quantity.is_negative() {
        errors.push(FieldError::invalid(path, value, "must be greater than or equal to 0"));
    }
    if is_whole(name) && quantity.nanos() % UNIT != 0 {
        errors.push(FieldError::invalid(path, value, "must be an integer"));
    }
}

/// Of huge pages whole ones.
fn pages(name: &str, value: &Value, path: &Path, errors: &mut Errors) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let (Some(amount), Ok(size)) = (read(value), size.parse::<Quantity>()) else { return };
    if size.nanos() <= 0 || amount.nanos() <= 0 || amount.nanos() % size.nanos() != 0 {
        let shown = value.as_str().unwrap_or_default();
        errors.push(FieldError::invalid(path, shown, format!("{shown} is not positive integer multiple of {name}")));
    }
}

/// The amount that a value is.
pub(crate) fn read(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// The members of a list of resources.
pub(crate) fn entries<'a>(owner: &'a Map, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    object(owner, name).into_iter().flat_map(Map::iter)
}

/// What a container asks for and may have at most.
pub(crate) fn validate_requirements(wanted: &Map, path: &Path, errors: &mut Errors) {
    requirements(wanted, container_resource, path, errors);
}

/// What a pod as a whole asks for and may have at most.
pub(crate) fn validate_of_pod(wanted: &Map, path: &Path, errors: &mut Errors) {
    const OF_PODS: [&str; 3] = ["cpu", "hugepages-", "memory"];
    let resource = |name: &str, path: &Path, errors: &mut Errors| {
        if resource_name(name, path, errors) && !is_huge_page(name) && !matches!(name, "cpu" | "memory") {
            errors.push(FieldError::not_supported(path, name, &OF_PODS));
        }
    };
    requirements(wanted, resource, path, errors);
}

fn requirements(wanted: &Map, resource: fn(&str, &Path, &mut Errors), path: &Path, errors: &mut Errors) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (name, value) in entries(wanted, "limits") {
        resource(name, &limits_path.key(name), errors);
        amount(name, value, &limits_path.key(name), errors);
        pages(name, value, &limits_path.key(name), errors);
    }
    for (name, value) in entries(wanted, "requests") {
        resource(name, &requests_path.key(name), errors);
        amount(name, value, &requests_path.key(name), errors);
        let limit = object(wanted, "limits").and_then(|limits| limits.get(name));
        match limit.map(|limit| (limit, read(value).cmp(&read(limit)))) {
            None if may_be_overcommitted(name) => {}
            None => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&limits_path, detail));
            }
            Some((limit, order)) => {
                let shown = limit.as_str().unwrap_or_default();
                if order.is_ne() && !may_be_overcommitted(name) {
                    let detail = format!("must be equal to {name} limit of {shown}");
                    errors.push(FieldError::invalid(&requests_path, value, detail));
                } else if order.is_gt() {
                    let detail = format!("must be less than or equal to {name} limit of {shown}");
                    errors.push(FieldError::invalid(&requests_path, value, detail));
                }
            }
        }
        pages(name, value, &requests_path.key(name), errors);
    }
    let names = || entries(wanted, "limits").chain(entries(wanted, "requests")).map(|(name, _)| name);
    if names().any(is_huge_page) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Whether an amount is no whole number.
pub(crate) fn is_fraction(value: &Value) -> bool {
    const UNIT: i128 = 1_000_000_000;
    read(value).is_some_and(|quantity| quantity.nanos() % UNIT != 0)
}

/// What the containers of a pod ask for of one resource at once: those that run, beside those that run on from the
/// beginning, or the greediest of those that run first.
pub(crate) fn sum_of_containers(spec: &Map, kind: &str, name: &str) -> Option<Quantity> {
    let of = |container: &Map| read(object(object(container, "resources")?, kind)?.get(name)?);
    let add = |sum: Option<Quantity>, more: Option<Quantity>| match (sum, more) {
        (Some(sum), Some(more)) => Some(sum.plus(&more)),
        (sum, more) => sum.or(more),
    };
    let running = items(spec, "containers").fold(None, |sum, (_, container)| add(sum, of(container)));
    let (mut sidecars, mut most) = (None, None);
    for (_, container) in items(spec, "initContainers") {
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            sidecars = add(sidecars, of(container));
            most = most.max(sidecars);
        } else {
            most = most.max(add(sidecars, of(container)));
        }
    }
    add(running, sidecars).max(most)
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    #[track_caller]
    fn check(wanted: Value, expect: &[&str]) {
        let mut errors = Errors::default();
        validate_requirements(wanted.as_object().expect("an object"), &Path::new("r"), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect, "{wanted}");
    }

    #[test]
    fn requests_stay_within_limits() {
        check(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1000m", "example.com/gpu": "1"}}), &[]);
        check(
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            &["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        );
        check(
            json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}),
            &["r.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2"],
        );
        check(
            json!({"requests": {"example.com/gpu": "1"}}),
            &["r.limits: Required value: Limit must be set for non overcommitable resources"],
        );
    }

    #[test]
    fn amounts_and_names_follow_their_rules() {
        check(
            json!({"limits": {"memory": "-1", "example.com/gpu": "500m", "pods": "1"}}),
            &[
                "r.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer",
                "r.limits[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
                "r.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ],
        );
        check(json!({"limits": {"hugepages-2Mi": "2Mi"}}), &["r: Forbidden: HugePages require cpu or memory"]);
        check(
            json!({"limits": {"bogus": "1"}}),
            &[
                "r.limits[bogus]: Invalid value: \"bogus\": must be a standard resource type or fully qualified",
                "r.limits[bogus]: Invalid value: \"bogus\": must be a standard resource for containers",
            ],
        );
    }
}
