//! What is said of pods and templates that are taken: labels and volumes of old, selectors that select nothing,
//! things that stand twice (`k8s.io/kubernetes/pkg/api/pod`, warnings).

use std::collections::BTreeSet;
use std::net::IpAddr;

use allotment_machinery::field::Path;
use allotment_machinery::json::Map;
use allotment_machinery::names;
use allotment_machinery::object::metadata_str;

use crate::builtin::core::node::old_label;
use crate::builtin::core::resources;
use crate::builtin::rules::look::{int, is_given, items, object, object_at, text, texts};
use crate::registry::{Operation, Warnings};

use super::annotations::{APP_ARMOR, SECCOMP_OF_CONTAINER, SECCOMP_OF_POD};
use super::containers::visit;
use super::scheduling::{PREFERRED, REQUIRED};
use super::{annotations, paths};

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
/// Volumes that have no driver any more: member, name in the warning, what is said.
const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// What is said of a new pod. Changes are made by programs, which read no warnings.
pub(crate) fn of_pod(operation: Operation<'_>, pod: &Map) -> Warnings {
    if !matches!(operation, Operation::Create) {
        return Warnings::default();
    }
    let mut warnings: Warnings = of_name(pod, "the Pod's hostname").into_iter().collect();
    warnings.extend(of(pod, false, &Path::root()));
    warnings
}

/// What is said of the template at `path` of a workload, where it is new or something desired has changed.
pub(crate) fn of_template(operation: Operation<'_>, object: &Map, path: &[&str]) -> Warnings {
    let generation = |object: &Map| object_at(object, &["metadata"]).and_then(|metadata| int(metadata, "generation"));
    if matches!(operation, Operation::Update { old, .. } if generation(old) == generation(object)) {
        return Warnings::default();
    }
    let place = path.iter().fold(Path::root(), |place, name| place.child(name));
    object_at(object, path).map(|template| of(template, true, &place)).unwrap_or_default()
}

/// What is said of a name that pods will carry, at the create of what makes them.
pub(crate) fn of_workload_name(operation: Operation<'_>, object: &Map) -> Option<String> {
    matches!(operation, Operation::Create).then(|| of_name(object, "Pod names and hostnames")).flatten()
}

fn of_name(object: &Map, used: &str) -> Option<String> {
    let found = names::dns1123_label(metadata_str(object, "name").unwrap_or_default());
    (!found.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            found.join(" ")
        )
    })
}

/// A pod or a template: its metadata and its spec.
fn of(owner: &Map, in_template: bool, path: &Path) -> Warnings {
    let empty = Map::new();
    let (spec, at) = (object(owner, "spec").unwrap_or(&empty), path.child("spec"));
    let mut warnings = Warnings::default();
    places(spec, &at, &mut warnings);
    let annotations_path = path.child("metadata").child("annotations");
    let own = annotations::of(owner).unwrap_or(&empty);
    for (key, message) in OLD_ANNOTATIONS.iter().filter(|(key, _)| own.contains_key(key)) {
        warnings.push(format!("{}: {message}", annotations_path.key(key)));
    }
    for (index, volume) in items(spec, "volumes") {
        let at = at.child("volumes").index(index);
        for (_, called, message) in OLD_VOLUMES.iter().filter(|(name, ..)| is_given(volume, name)) {
            warnings.push(format!("{}: {message}", at.child(called)));
        }
        let claim = object_at(volume, &["ephemeral", "volumeClaimTemplate", "spec"]);
        if let Some(claim) = claim {
            let at = at.child("ephemeral").child("volumeClaimTemplate").child("spec");
            of_claim(claim, &at, &mut warnings);
        }
    }
    warnings.extend(paths::overlaps(spec));
    repeated(spec, "hostAliases", "ip", &at, &mut warnings);
    repeated(spec, "imagePullSecrets", "name", &at, &mut warnings);
    for (index, _) in items(spec, "imagePullSecrets").filter(|(_, secret)| text(secret, "name").is_empty()) {
        let at = at.child("imagePullSecrets").index(index).child("name");
        warnings.push(format!("{at}: invalid empty name \"\""));
    }
    fractions(spec, "overhead", &at, &mut warnings);
    profiles(own, spec, in_template, path, &mut warnings);
    for (at, container) in visit(spec, &at) {
        if let Some(wanted) = object(container, "resources") {
            ["limits", "requests"]
                .iter()
                .for_each(|kind| fractions(wanted, kind, &at.child("resources"), &mut warnings));
        }
        hidden_variables(container, &at, &mut warnings);
    }
    super::ports::warnings(spec, &at, &mut warnings);
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let at = at.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    selectors(spec, &at.child("affinity"), &mut warnings);
    let servers = object(spec, "dnsConfig").into_iter().flat_map(|config| texts(config, "nameservers"));
    for (index, server) in servers.enumerate() {
        of_address(server, &at.child("dnsConfig").child("nameservers").index(index), &mut warnings);
    }
    for (index, alias) in items(spec, "hostAliases") {
        of_address(text(alias, "ip"), &at.child("hostAliases").index(index).child("ip"), &mut warnings);
    }
    warnings
}

/// Labels of nodes under names of old, and constraints without a selector.
fn places(spec: &Map, path: &Path, warnings: &mut Warnings) {
    for (key, message) in
        object(spec, "nodeSelector").into_iter().flat_map(Map::iter).filter_map(|(key, _)| Some((key, old_label(key)?)))
    {
        warnings.push(format!("{}: {message}", path.child("nodeSelector").key(key)));
    }
    let mut term = |term: &Map, judge_values: bool, path: &Path| {
        for (index, expression) in items(term, "matchExpressions") {
            let (path, key) = (path.child("matchExpressions").index(index), text(expression, "key"));
            if let Some(message) = old_label(key) {
                warnings.push(format!("{}: {key} is {message}", path.child("key")));
            }
            for (place, value) in texts(expression, "values").enumerate().filter(|_| judge_values) {
                let at = path.child("values").index(place);
                warnings.extend(
                    names::label_value(value).into_iter().map(|fault| format!("{at}: {value} is invalid, {fault}")),
                );
            }
        }
    };
    if let Some(nodes) = object_at(spec, &["affinity", "nodeAffinity"]) {
        let path = path.child("affinity").child("nodeAffinity");
        for (index, wanted) in object(nodes, REQUIRED).into_iter().flat_map(|own| items(own, "nodeSelectorTerms")) {
            term(wanted, false, &path.child(REQUIRED).child("nodeSelectorTerms").index(index));
        }
        for (index, wanted) in items(nodes, PREFERRED) {
            if let Some(wanted) = object(wanted, "preference") {
                term(wanted, true, &path.child(PREFERRED).index(index).child("preference"));
            }
        }
    }
    for (index, constraint) in items(spec, "topologySpreadConstraints") {
        let (path, key) = (path.child("topologySpreadConstraints").index(index), text(constraint, "topologyKey"));
        if let Some(message) = old_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if !is_given(constraint, "labelSelector") {
            warnings.push(format!("{}: {NO_SELECTOR}", path.child("labelSelector")));
        }
    }
}

/// Terms without a selector.
fn selectors(spec: &Map, path: &Path, warnings: &mut Warnings) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = object_at(spec, &["affinity", kind]) else { continue };
        let path = path.child(kind);
        for (index, _) in items(terms, REQUIRED).filter(|(_, term)| !is_given(term, "labelSelector")) {
            warnings.push(format!("{}: {NO_SELECTOR}", path.child(REQUIRED).index(index).child("labelSelector")));
        }
        for (index, weighted) in items(terms, PREFERRED) {
            if object(weighted, "podAffinityTerm").is_none_or(|term| !is_given(term, "labelSelector")) {
                let at = path.child(PREFERRED).index(index).child("podAffinityTerm").child("labelSelector");
                warnings.push(format!("{at}: {NO_SELECTOR}"));
            }
        }
    }
}

/// Tells of elements of a list that say the same again.
fn repeated(spec: &Map, name: &str, member: &str, path: &Path, warnings: &mut Warnings) {
    let mut seen = BTreeSet::new();
    for (index, element) in items(spec, name) {
        if !seen.insert(text(element, member)) {
            let at = path.child(name).index(index).child(member);
            warnings.push(format!("{at}: duplicate {member} {:?}", text(element, member)));
        }
    }
}

/// Memory that is no whole number of bytes.
fn fractions(owner: &Map, kind: &str, path: &Path, warnings: &mut Warnings) {
    for (name, value) in
        resources::entries(owner, kind).filter(|(name, _)| matches!(*name, "memory" | "ephemeral-storage"))
    {
        if resources::is_fraction(value) {
            let (at, shown) = (path.child(kind).key(name), value.as_str().unwrap_or_default());
            warnings.push(format!("{at}: fractional byte value \"{shown}\" is invalid, must be an integer"));
        }
    }
}

/// What is said of the spec of a claim.
pub(crate) fn of_claim(claim: &Map, path: &Path, warnings: &mut Warnings) {
    let Some(wanted) = object(claim, "resources") else { return };
    for (name, value) in resources::entries(wanted, "requests").filter(|(name, _)| *name == "storage") {
        if resources::is_fraction(value) {
            let (at, shown) = (path.child("resources").child("requests").key(name), value.as_str().unwrap_or_default());
            warnings.push(format!("{at}: fractional byte value \"{shown}\" is invalid, must be an integer"));
        }
    }
}

/// Profiles that are given as annotations only.
fn profiles(annotations: &Map, spec: &Map, in_template: bool, path: &Path, warnings: &mut Warnings) {
    let has = |owner: &Map, name: &str| object(owner, "securityContext").is_some_and(|context| is_given(context, name));
    let at = path.child("metadata").child("annotations");
    let seccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    if !has(spec, "seccompProfile") && annotations.contains_key(SECCOMP_OF_POD) {
        warnings.push(format!("{}: {seccomp}", at.key(SECCOMP_OF_POD)));
    }
    for (_, container) in visit(spec, path) {
        let key = format!("{SECCOMP_OF_CONTAINER}{}", text(container, "name"));
        if !has(container, "seccompProfile") && annotations.contains_key(&key) {
            warnings.push(format!("{}: {seccomp}", at.key(&key)));
        }
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        if in_template && !has(container, "appArmorProfile") && annotations.contains_key(&key) {
            let message = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
            warnings.push(format!("{}: {message}", at.key(&key)));
        }
    }
}

/// A variable that stands twice hides the first, unless it is made of it.
fn hidden_variables(container: &Map, path: &Path, warnings: &mut Warnings) {
    let mut seen = BTreeSet::new();
    for (index, variable) in items(container, "env") {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        let own = format!("$({name})");
        let hides = is_given(variable, "valueFrom") || value == own || !value.contains(&own);
        if !seen.insert(name) && hides {
            let at = path.child("env").index(index);
            warnings
                .push(format!("{at}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
}

/// Addresses that are written in another way than the usual one.
fn of_address(text: &str, path: &Path, warnings: &mut Warnings) {
    let Ok(IpAddr::V6(address)) = text.parse::<IpAddr>() else { return };
    if let Some(plain) = address.to_ipv4_mapped() {
        warnings.push(format!("{path}: non-standard IP address {text:?} is invalid: use \"{plain}\""));
    } else if address.to_string() != text {
        warnings.push(format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{address}\")"));
    }
}
