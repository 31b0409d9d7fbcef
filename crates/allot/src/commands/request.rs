//! `allot request`: makes a ClusterRequest and, if told so, waits for the cluster.

use allotment_api::reasons::{ConditionType, Verdict};
use allotment_api::requests::ClusterRequest;
use allotment_controllers::frame::is_conflict;
use anyhow::anyhow;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::shape;
use super::waiting::{self, Look};
use crate::cli::{Request, Target};
use crate::client::{self, Platform};
use crate::exit::{Code, Failure, Outcome};
use crate::output;

/// Makes the request; one that is there already and says the same is taken as made.
pub(crate) async fn run(target: &Target, arguments: Request) -> Outcome {
    let platform = Platform::connect(target).await?;
    let namespace = arguments.object.namespace.clone().unwrap_or_else(|| platform.namespace.clone());
    let name = arguments.object.name.as_str();
    let api = Api::<ClusterRequest>::namespaced(platform.client.clone(), &namespace);
    let wanted = ClusterRequest::new(name, shape::spec(&arguments.shape));
    let params = PostParams { field_manager: Some("allot".to_owned()), ..PostParams::default() };
    let made = match api.create(&params, &wanted).await {
        Err(error) if is_conflict(&error) => {
            let read = api.get(name).await;
            let there =
                read.map_err(|error| anyhow!("ClusterRequest {namespace}/{name}: {}", client::explain(&error)))?;
            if there.spec != wanted.spec {
                return Err(anyhow!(
                    "ClusterRequest {namespace}/{name} is there already and asks for something else; choose another \
                     name, or delete it first"
                )
                .into());
            }
            there
        }
        Err(error) => {
            return Err(anyhow!("ClusterRequest {namespace}/{name}: {}", client::explain(&error)).into());
        }
        Ok(made) => made,
    };
    let last = if arguments.waiting.wait {
        let waited = waiting::until(api, name, arguments.waiting.timeout, look).await;
        waited.map_err(|failure| Failure {
            error: failure.error.context(format!("ClusterRequest {namespace}/{name}")),
            ..failure
        })?
    } else {
        made
    };
    let id = format!("clusterrequest.cluster.openmcp.cloud/{name}");
    output::object(&last, arguments.output, &id, || line(&last, &namespace))?;
    let status = last.status.clone().unwrap_or_default();
    if arguments.waiting.wait && status.status == Some(Verdict::Denied) {
        output::note(&format!("why: allot explain request {name} -n {namespace}"));
        let message = format!("ClusterRequest {namespace}/{name} is Denied: {}: {}", status.reason, status.message);
        return Err(Failure::new(Code::Denied, message));
    }
    Ok(())
}

fn look(request: &ClusterRequest) -> Look {
    let status = request.status.clone().unwrap_or_default();
    if status.observed_generation != request.metadata.generation {
        return Look::NotYet("waiting to be decided".to_owned());
    }
    match status.status {
        Some(Verdict::Denied) => Look::Done,
        Some(Verdict::Granted) if ConditionType::Ready.is_true(&status.conditions) => Look::Done,
        Some(verdict) => Look::NotYet(format!("{verdict}: {}: {}", status.reason, status.message)),
        None => Look::NotYet("waiting to be decided".to_owned()),
    }
}

fn line(request: &ClusterRequest, namespace: &str) -> String {
    let name = request.name_any();
    let status = request.status.clone().unwrap_or_default();
    match (status.status, status.cluster_ref) {
        (Some(verdict), Some(cluster)) => {
            let place = cluster.namespace.unwrap_or_else(|| namespace.to_owned());
            format!("clusterrequest/{name} {verdict}: cluster {place}/{}", cluster.name)
        }
        (Some(verdict), None) => format!("clusterrequest/{name} {verdict}: {}", status.reason),
        (None, _) => format!("clusterrequest/{name} created"),
    }
}
