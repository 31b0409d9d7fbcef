//! Definitions (CustomResourceDefinitions) that providers of other processes bring: of whose group, and of which form. RBAC
//! cannot tell by a group what may be made or changed.
//!
//! # Guarantees
//! - A provider makes and changes definitions of its own group only, and deletes none: a definition that goes takes
//!   what operators wrote with it.
//! - What operators write into ProviderConfigs stays as they wrote it: no default fills it, no webhook converts it, and
//!   the resource that the platform reads is the one that operators write.

use allotment_api::names;
use allotment_core::providers::PackageRef;
use allotment_core::requests::Snapshot;
use serde_json::Value;

use crate::review::{Denial, Operation, Request};

/// The group of definitions.
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
/// Their plural name.
pub(crate) const RESOURCE: &str = "customresourcedefinitions";
/// The plural name of the settings that operators write for a provider.
pub(crate) const CONFIGS: &str = "providerconfigs";
/// Their kind.
const CONFIG_KIND: &str = "ProviderConfig";
/// How deep a schema is searched; the API server takes none that is as deep.
const DEEPEST: usize = 256;

/// Whether it is a definition that is written.
pub(crate) fn is_one(request: &Request<'_>) -> bool {
    request.group == GROUP && request.resource == RESOURCE
}

/// Refuses what no provider may write, whichever group is its own.
pub(crate) fn check(request: &Request<'_>) -> Result<(), Denial> {
    let forbidden = |what: String| Err(Denial::Forbidden(what));
    if request.operation == Operation::Delete {
        return forbidden("a provider deletes no definitions: all objects would go with it. Operators do".to_owned());
    }
    for group in groups(request) {
        if !group.ends_with(names::SUBGROUP) || names::BUILT_IN_GROUPS.contains(&group) {
            let own = names::SUBGROUP;
            return forbidden(format!("a provider brings definitions of its own group NAME{own}, not of {group:?}"));
        }
    }
    if request.object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty()) {
        return forbidden("metadata.ownerReferences: a definition of a provider has no owner to go with".to_owned());
    }
    let spec = &request.object["spec"];
    let (plural, kind) = (spec["names"]["plural"].as_str(), spec["names"]["kind"].as_str());
    let is_config = plural == Some(CONFIGS);
    if is_config != (kind == Some(CONFIG_KIND)) {
        return forbidden(format!(
            "spec.names: plural {CONFIGS} and kind {CONFIG_KIND} go together: give both or neither"
        ));
    }
    if spec["conversion"]["strategy"].as_str().is_some_and(|strategy| strategy != "None") {
        return forbidden(
            "spec.conversion: definitions of providers are converted by no webhook: set strategy None".to_owned(),
        );
    }
    let Some(versions) = spec["versions"].as_array().filter(|_| is_config) else { return Ok(()) };
    for (index, version) in versions.iter().enumerate() {
        let place = format!("spec.versions[{index}].schema.openAPIV3Schema");
        if let Some(place) = default_in(&version["schema"]["openAPIV3Schema"], &place, true, DEEPEST) {
            return forbidden(format!(
                "{place}.default: operators alone say what stands in a {CONFIG_KIND}, and it names Secrets; remove the \
                 default, and let the provider take it where nothing is said"
            ));
        }
    }
    Ok(())
}

/// Refuses definitions of a group that is not that of the provider's package.
pub(crate) fn check_group(request: &Request<'_>, provider: &str, snapshot: Option<&Snapshot>) -> Result<(), Denial> {
    let known = snapshot.and_then(|snapshot| snapshot.provider(provider));
    let Some(known) = known else {
        let why = format!("ClusterProvider {provider:?} is not known, so its group is not either; try again");
        return Err(Denial::Forbidden(why));
    };
    let package = PackageRef::parse(&known.spec.package);
    let own = Some(package).filter(|package| !matches!(package, PackageRef::BuiltIn(_)));
    let own = own.and_then(|package| package.group()).unwrap_or_default();
    match groups(request).find(|group| *group != own) {
        Some(group) => Err(Denial::Forbidden(format!(
            "a provider brings definitions of its own group only: that of ClusterProvider {provider:?} is {own:?}, by the \
             name of its package, not {group:?}"
        ))),
        None => Ok(()),
    }
}

/// The groups that the definition is of, before and after.
fn groups<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a str> {
    let (old, new) = (request.old_object, request.object);
    [old, new]
        .into_iter()
        .filter(|object| !object.is_null())
        .map(|object| object["spec"]["group"].as_str().unwrap_or(""))
}

/// Where a schema has a default, if anywhere but in the status, which at the `top` is a member. What is deeper than can
/// be searched counts as one.
fn default_in(schema: &Value, place: &str, top: bool, deeper: usize) -> Option<String> {
    let Some(deeper) = deeper.checked_sub(1) else { return Some(place.to_owned()) };
    let members = schema.as_object()?;
    for (key, value) in members {
        let found = match (key.as_str(), value) {
            ("default", Value::Null) => None,
            ("default", _) => Some(place.to_owned()),
            ("properties" | "patternProperties", Value::Object(named)) => {
                let named = named.iter().filter(|(name, _)| !(top && *name == "status"));
                let mut found = named.map(|(name, schema)| (format!("{place}.{key}[{name}]"), schema));
                found.find_map(|(place, schema)| default_in(schema, &place, false, deeper))
            }
            ("items" | "additionalProperties" | "not", schema) => {
                default_in(schema, &format!("{place}.{key}"), false, deeper)
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter().find_map(|schema| default_in(schema, &format!("{place}.{key}"), top, deeper))
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
