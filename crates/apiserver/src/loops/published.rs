//! How a cluster's own API is found from within it: the Service `default/kubernetes`, and where it leads
//! (`k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice`).
//!
//! Where the API is served on an address that only its own machine can reach, the Service leads nowhere, as that
//! of a kube-apiserver on such an address does: Endpoints must not name it.

use std::net::IpAddr;
use std::sync::Arc;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_store::Resource;

use super::graph::Place;
use super::objects::{Failure, Objects};

/// Where the Service lies.
pub(super) const NAMESPACE: &str = "default";
/// What it is called, and where it leads.
pub(super) const NAME: &str = "kubernetes";
/// Its address, which no other Service gets.
const ADDRESS: &str = "10.0.0.1";
/// Its port; the listener has another.
const PORT: i64 = 443;

/// Puts in place what is missing, also of what is there, and leads it to where the API is served now.
pub(super) async fn ensure(objects: &Objects) -> Result<(), Failure> {
    let Some((address, port)) = address_of(&objects.tenant().server_url) else { return Ok(()) };
    put(objects, Resource::new("services", ""), service(port), &[&["spec", "ports"]], &[]).await?;
    if address.is_some_and(is_reachable) {
        let text = address.map(|address| address.to_string()).unwrap_or_default();
        put(objects, Resource::new("endpoints", ""), endpoints(&text, port), &[&["subsets"]], &[]).await?;
        let family = if address.is_some_and(|address| address.is_ipv6()) { "IPv6" } else { "IPv4" };
        let slices = Resource::new("endpointslices", "discovery.k8s.io");
        put(objects, slices, slice(&text, port, family), &[&["endpoints"], &["ports"]], &[&["addressType"]]).await?;
    }
    Ok(())
}

/// Makes an object, or makes what lies at some `paths` of it as it should be. Where what lies at a `fixed` one is
/// something else, the object is made anew, since no client expects that to change.
async fn put(
    objects: &Objects,
    resource: Resource,
    wanted: Value,
    paths: &[&[&str]],
    fixed: &[&[&str]],
) -> Result<(), Failure> {
    let place = Place { resource, namespace: Arc::from(NAMESPACE), name: Arc::from(NAME) };
    let Value::Object(wanted) = wanted else { return Ok(()) };
    match objects.get(&place).await? {
        None => objects.create(&place, wanted).await,
        Some(found) if found.is_deleting() => Ok(()),
        Some(found) if differs(&found.content, &wanted, fixed) => {
            objects.delete(&found.entry, None).await?;
            objects.create(&place, wanted).await
        }
        Some(found) if differs(&found.content, &wanted, paths) => {
            let mut content = found.content.clone();
            for path in paths {
                if let Some(value) = at(&wanted, path) {
                    set(&mut content, path, value.clone());
                }
            }
            objects.update(&found, content).await
        }
        Some(_) => Ok(()),
    }
}

fn at<'a>(object: &'a Map, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(first)?, |value, name| value.get(name))
}

fn differs(found: &Map, wanted: &Map, paths: &[&[&str]]) -> bool {
    paths.iter().any(|path| at(found, path) != at(wanted, path))
}

/// Puts a value at a path, of which nothing needs to be there.
fn set(object: &mut Map, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |object, name| {
        if object.object_mut(name).is_none() {
            object.insert(*name, Map::new());
        }
        object.object_mut(name)
    });
    if let Some(parent) = parent {
        parent.insert(*last, value);
    }
}

/// Host, where it is an address, and port of an URL.
fn address_of(url: &str) -> Option<(Option<IpAddr>, i64)> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, PORT),
    };
    Some((host.trim_start_matches('[').trim_end_matches(']').parse().ok(), port))
}

/// Whether Endpoints may name an address (`ValidateNonSpecialIP`).
fn is_reachable(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || link_local)
}

fn service(port: i64) -> Value {
    json!({
        "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": ADDRESS, "clusterIPs": [ADDRESS],
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None", "type": "ClusterIP"
        },
        "status": {"loadBalancer": {}}
    })
}

fn endpoints(address: &str, port: i64) -> Value {
    json!({
        "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]
    })
}

fn slice(address: &str, port: i64, family: &str) -> Value {
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": NAME}},
        "addressType": family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_found_where_its_url_says_and_named_where_others_can_reach_it() {
        let check = |url: &str, expect: Option<(Option<&str>, i64)>, reachable: bool| {
            let found = address_of(url);
            let expect = expect.map(|(host, port)| (host.map(|host| host.parse().expect("an address")), port));
            assert_eq!(found, expect, "{url}");
            assert_eq!(found.and_then(|(host, _)| host).is_some_and(is_reachable), reachable, "{url}");
        };
        check("https://127.0.0.1:7443", Some((Some("127.0.0.1"), 7443)), false);
        check("https://192.0.2.7:7443/clusters/x", Some((Some("192.0.2.7"), 7443)), true);
        check("https://[2001:db8::1]:6443", Some((Some("2001:db8::1"), 6443)), true);
        check("https://[2001:db8::1]", Some((Some("2001:db8::1"), 443)), true);
        check("https://[::1]:6443", Some((Some("::1"), 6443)), false);
        check("https://0.0.0.0:1", Some((Some("0.0.0.0"), 1)), false);
        check("https://169.254.0.1:1", Some((Some("169.254.0.1"), 1)), false);
        check("https://api.example.com/x", Some((None, 443)), false);
        check("https://a:b", None, false);
        check("", None, false);
    }
}
