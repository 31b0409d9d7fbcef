//! `/log`, `/exec`, `/attach`, `/portforward` and `/proxy`: ways to a node, of which there is none. What is wrong with
//! a request is said as where there are nodes (`k8s.io/kubernetes/pkg/registry/core/pod`).

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_str;
use allotment_store::Resource;
use async_trait::async_trait;

use super::super::create::check_access;
use super::super::store;
use super::{about_pod, key, pod, row};
use crate::builtin;
use crate::query::Query;
use crate::registry::Connect;
use crate::server::Context;
use crate::status::ApiError;

/// Where a request is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// What a container has said.
    Log,
    /// A program in a container, or one that runs there.
    Container,
    /// A port of the pod, through the node.
    PortForward,
    /// A port of the pod, by its address.
    Proxy,
}

#[async_trait]
impl Connect for Stream {
    async fn create(&self, _cx: &Context, _object: Value, _dry_run: bool) -> Result<Value, ApiError> {
        Err(ApiError::method_not_allowed())
    }

    fn streams(&self) -> bool {
        true
    }

    async fn stream(&self, cx: &Context, query: &Query) -> Result<(), ApiError> {
        match self {
            Stream::Log => log(cx, query).await,
            Stream::Proxy => proxy(cx).await,
            Stream::Container | Stream::PortForward => {
                // Whoever may only read must not come into a container by a GET.
                if cx.info.verb != "create" {
                    check_access(cx).await?;
                }
                let row = row(cx, "", "pods")?;
                let (_, pod) = pod(cx, &row).await?;
                if *self == Stream::Container {
                    check_container(&pod, query.text("container"))?;
                }
                let node = node_of(&pod);
                if node.is_empty() {
                    let message = format!("pod {} does not have a host assigned", cx.info.name);
                    return Err(ApiError::bad_request(message));
                }
                reach(cx, node).await
            }
        }
    }
}

fn node_of(pod: &Map) -> &str {
    pod.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str).unwrap_or_default()
}

/// A node that is there has no address that could be reached.
async fn reach(cx: &Context, node: &str) -> Result<(), ApiError> {
    let key = key(cx, Resource::new("nodes", ""), "", node);
    // Kubernetes calls the node a pod here.
    store::find(cx, &key).await?.ok_or_else(|| ApiError::not_found(about_pod(node)))?;
    Err(ApiError::new(500, "", "no preferred addresses found; known addresses: []"))
}

/// The container that is meant: the one of that name, or the only one.
fn check_container(pod: &Map, name: &str) -> Result<(), ApiError> {
    let own = metadata_str(pod, "name").unwrap_or_default();
    let names = |list: &str| -> Vec<String> {
        let containers = pod.get("spec").and_then(|spec| spec.get(list)).and_then(Value::as_array).unwrap_or_default();
        containers.iter().filter_map(|one| one.get("name").and_then(Value::as_str)).map(str::to_owned).collect()
    };
    let all: Vec<String> =
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(names).collect();
    if !name.is_empty() {
        return match all.iter().any(|have| have == name) {
            true => Ok(()),
            false => Err(ApiError::bad_request(format!("container {name} is not valid for pod {own}"))),
        };
    }
    match names("containers").len() {
        1 => Ok(()),
        0 => Err(ApiError::bad_request(format!("a container name must be specified for pod {own}"))),
        _ => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {own}, choose one of: [{}]",
            all.join(" ")
        ))),
    }
}

/// A pod without a node has said nothing.
async fn log(cx: &Context, query: &Query) -> Result<(), ApiError> {
    let errors = log_faults(query)?;
    if !errors.is_empty() {
        return Err(ApiError::invalid("", "PodLogOptions", &cx.info.name, &errors));
    }
    let row = row(cx, "", "pods")?;
    let (_, pod) = pod(cx, &row).await?;
    check_container(&pod, query.text("container"))?;
    match node_of(&pod) {
        "" => Ok(()),
        node => reach(cx, node).await,
    }
}

fn log_faults(query: &Query) -> Result<Vec<FieldError>, ApiError> {
    let number = |name: &str| -> Result<Option<i64>, ApiError> {
        match query.text(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
        }
    };
    let mut errors = Vec::new();
    if let Some(lines) = number("tailLines")?.filter(|lines| *lines < 0) {
        errors.push(FieldError::invalid(&Path::new("tailLines"), lines, "must be greater than or equal to 0"));
    }
    if let Some(bytes) = number("limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.push(FieldError::invalid(&Path::new("limitBytes"), bytes, "must be greater than 0"));
    }
    match (number("sinceSeconds")?, query.text("sinceTime")) {
        (Some(_), since) if !since.is_empty() => {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&Path::new(""), detail));
        }
        (Some(seconds), _) if seconds < 1 => {
            errors.push(FieldError::invalid(&Path::new("sinceSeconds"), seconds, "must be greater than 0"));
        }
        _ => {}
    }
    Ok(errors)
}

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`; the address has to be one that is the pod's alone.
async fn proxy(cx: &Context) -> Result<(), ApiError> {
    let id = cx.info.name.as_str();
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts[..] {
        [name] => ("", name, ""),
        [name, port] => ("", name, port),
        [scheme, name, port] => (scheme, name, port),
        _ => ("?", "", ""),
    };
    if !matches!(scheme, "" | "http" | "https") || name.is_empty() {
        return Err(ApiError::bad_request(format!("invalid pod request {id:?}")));
    }
    let row = row(cx, "", "pods")?;
    let key = key(cx, Resource::new("pods", ""), &cx.info.namespace, name);
    let entry = store::find(cx, &key).await?.ok_or_else(|| ApiError::not_found(about_pod(name)))?;
    let pod = store::object_of(&row, &entry.body())?;
    let address = pod.get("status").and_then(|status| status.get("podIP")).and_then(Value::as_str).unwrap_or_default();
    if !builtin::is_reachable(address) {
        return Err(ApiError::bad_request("address not allowed"));
    }
    let port = if port.is_empty() { String::new() } else { format!(":{port}") };
    let message = format!("error trying to reach service: nothing runs at {address}{port}, there are no nodes");
    Err(ApiError { details: None, ..ApiError::new(503, "ServiceUnavailable", message) })
}
