//! Runs the images of providers where the platform's API is that of a Kubernetes: a Deployment each, whose start is the same
//! as that of an executable.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use allotment_core::providers::{Deployed, PackageRef, Refusal, Removal, Run, deployment_objects};
use async_trait::async_trait;
use kube::Client;
use serde_json::Value;

use super::{RunOrder, Runner, RunnerError, Told, objects};

/// Runs images as Deployments in `allot-system`.
pub struct Deployments {
    client: Client,
    environment: String,
    /// What was applied for each ClusterProvider since this process began.
    applied: Mutex<std::collections::BTreeMap<String, Vec<Value>>>,
}

impl fmt::Debug for Deployments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Deployments").field("environment", &self.environment).finish_non_exhaustive()
    }
}

impl Deployments {
    /// Deployments by that client, for the landscape of that name.
    pub fn new(client: Client, environment: String) -> Self {
        Deployments { client, environment, applied: Mutex::default() }
    }

    fn applied(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<String, Vec<Value>>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(what: &'static str, provider: &str) -> impl FnOnce(kube::Error) -> RunnerError {
    let provider = provider.to_owned();
    move |error| RunnerError { what, provider, source: Box::new(error) }
}

#[async_trait]
impl Runner for Deployments {
    fn admit(&self, package: PackageRef<'_>) -> Result<(), Refusal> {
        match package {
            PackageRef::Image(_) => Ok(()),
            PackageRef::Executable(path) | PackageRef::BuiltIn(path) => Err(Refusal::not_allowed(format!(
                "\"{path}\" would be an executable, which runs on an embedded server (`allot up`) only; name an image \
                 with its registry here"
            ))),
        }
    }

    fn tell(&self, _told: Told) {}

    async fn ensure(&self, order: &RunOrder) -> Result<Run, RunnerError> {
        let deployed = Deployed {
            provider: &order.provider,
            image: &order.package,
            pull_secrets: &order.pull_secrets,
            environment: &self.environment,
        };
        let wanted = deployment_objects(&deployed);
        if self.applied().get(&order.provider) == Some(&wanted) {
            return Ok(Run::Running);
        }
        for object in &wanted {
            objects::apply(&self.client, object).await.map_err(failed("start", &order.provider))?;
        }
        self.applied().insert(order.provider.clone(), wanted);
        Ok(Run::Running)
    }

    async fn end(&self, provider: &str) -> Result<Removal, RunnerError> {
        let deployed = Deployed { provider, image: "", pull_secrets: &[], environment: &self.environment };
        // As long as a Pod of it ends, nothing else acts under its name.
        self.applied().remove(provider);
        let mut left = false;
        for object in deployment_objects(&deployed).iter().rev() {
            left |= !objects::delete(&self.client, object).await.map_err(failed("stop", provider))?;
        }
        Ok(if left { Removal::Going } else { Removal::Gone })
    }

    async fn forget(&self, _provider: &str) -> Result<(), RunnerError> {
        Ok(())
    }
}
