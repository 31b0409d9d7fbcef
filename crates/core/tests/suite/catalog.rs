//! Private profiles: rendering, what is refused, what a Shoot may use, what expires. All pure; profiles are read from YAML
//! as the command and admission read them.

mod differing;
mod effects;
mod expiring;
mod expiry;
mod explaining;
mod judging;
mod properties;
mod rendering;
mod shoots;
mod source;
mod written;
mod zones;

use allotment_api::catalog::{CloudProfileSpec, PrivateCloudProfileSpec, ShootSpec};
use allotment_core::catalog::{Parent, PrivateWrite};
use allotment_machinery::yaml;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;

/// The spec of a manifest, or a spec alone.
#[track_caller]
pub(crate) fn spec<T: DeserializeOwned>(text: &str) -> T {
    let value = yaml::parse(text).expect("YAML");
    let value = value.get("spec").unwrap_or(&value).to_vec();
    serde_json::from_slice(&value).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) fn cloud(text: &str) -> CloudProfileSpec {
    spec(text)
}

pub(crate) fn private(text: &str) -> PrivateCloudProfileSpec {
    spec(text)
}

pub(crate) fn shoot(text: &str) -> ShootSpec {
    spec(text)
}

pub(crate) fn parent(text: &str) -> Parent {
    Parent::new("central", cloud(text))
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// A create at that time, that nobody's Shoots have to do with.
pub(crate) fn create<'a>(parent: &'a Parent, now: &str) -> PrivateWrite<'a> {
    PrivateWrite { parent, old: None, removed: &[], in_use: &|_, _| false, now: at(now) }
}

/// A spec as YAML, for comparisons that people can read.
pub(crate) fn shown(spec: &impl serde::Serialize) -> String {
    let value = allotment_machinery::json::parse(&serde_json::to_vec(spec).expect("JSON")).expect("JSON");
    yaml::to_string(&value)
}
