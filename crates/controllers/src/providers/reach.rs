//! The way to one cluster: its kubeconfig, a client, and what was seen when it was looked at last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allotment_core::access::why;
use allotment_core::providers::{Seen, Sight, one_line, served_version};
use http::Request;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, timeout};

use super::gate::{CALL_LIMIT, Gate, guarded};
use super::kubeconfig::ForeignKubeconfig;
use super::place::Place;
use super::{Endpoint, Looked};
use crate::frame::chain;

/// How often it is looked whether a kubeconfig is another one while its cluster does not answer.
const READ_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// The way to one cluster.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    gate: Arc<Gate>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sight: Sight,
    /// What was seen when it was told last.
    told: Sight,
    line: Option<Line>,
    /// Looks in a row that saw no cluster that does well.
    failures: u32,
    /// When the cluster is to be asked next.
    due: Option<Instant>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("sight", &self.sight).finish_non_exhaustive()
    }
}

/// What one kubeconfig gives.
#[derive(Clone)]
struct Line {
    /// What it was made from: the SHA-256 of the kubeconfig.
    hash: [u8; 32],
    endpoint: Endpoint,
    /// For looks, whatever the gate says.
    client: Client,
}

impl Reach {
    /// What was seen last.
    pub(crate) fn sight(&self) -> Sight {
        self.lock().sight.clone()
    }

    /// Whether what is seen is something else than what was told last, which it is from now on.
    pub(crate) fn tell(&self) -> bool {
        let mut state = self.lock();
        let changed = state.told != state.sight;
        state.told = state.sight.clone();
        changed
    }

    /// What was seen last, and a client of the kubeconfig by which it was seen, whose calls end in time, with where others
    /// reach the cluster; absent while there is no kubeconfig. Both are of one look: by another one's client something might
    /// be done in another cluster than the one that was seen.
    pub(crate) fn view(&self) -> (Sight, Option<(Client, Endpoint)>) {
        let (sight, line) = {
            let state = self.lock();
            (state.sight.clone(), state.line.clone())
        };
        (sight, line.map(|line| (guarded(line.client, self.gate.clone()), line.endpoint)))
    }

    /// Reads the kubeconfig, and asks the cluster how it does if that is due or the kubeconfig is another one.
    ///
    /// # Errors
    /// The platform's API does not answer.
    pub(crate) async fn look(&self, secrets: &Api<Secret>, place: &Place) -> Result<Looked, kube::Error> {
        let text = match place.read(secrets).await? {
            Ok(text) => text,
            Err(message) => return Ok(self.not_usable(message)),
        };
        let hash = allotment_pki::sha256(text.as_bytes());
        let (known, due) = {
            let state = self.lock();
            (state.line.clone().filter(|line| line.hash == hash), state.due)
        };
        let line = match known {
            Some(line) => {
                if let Some(left) =
                    due.map(|due| due.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
                {
                    return Ok(Looked { changed: false, again: Some(left.min(READ_AGAIN)) });
                }
                line
            }
            None => match draw(&text, hash) {
                Ok(line) => line,
                Err(fault) => {
                    let Place { name, key } = place;
                    return Ok(self.not_usable(format!("Secret allot-planes/{name}, key {key:?}: {fault}")));
                }
            },
        };
        let sight = match timeout(CALL_LIMIT, ask(&line)).await {
            Ok(sight) => sight,
            Err(_) => {
                let (server, limit) = (&line.endpoint.server, CALL_LIMIT.as_secs());
                Sight::Unreachable { message: format!("{server} does not answer within {limit} s") }
            }
        };
        Ok(self.saw(sight, Some(line)))
    }

    /// There is no kubeconfig that can be used.
    pub(crate) fn not_usable(&self, message: String) -> Looked {
        self.saw(Sight::NotUsable { message }, None)
    }

    fn saw(&self, sight: Sight, line: Option<Line>) -> Looked {
        match &sight {
            Sight::Seen(_) => self.gate.open(),
            other => self.gate.shut(other.trouble().map(|(_, message)| message).unwrap_or_default()),
        }
        let mut state = self.lock();
        state.failures = if matches!(sight, Sight::Seen(_)) { 0 } else { state.failures.saturating_add(1) };
        let wait = sight.look_again(state.failures);
        state.due = Some(Instant::now() + wait);
        let changed = state.sight != sight;
        // Its kubeconfig is read more often than it is asked, unless all is well.
        let again = if matches!(sight, Sight::Seen(_)) { wait } else { wait.min(READ_AGAIN) };
        state.sight = sight;
        state.line = line;
        Looked { changed, again: Some(again) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What that kubeconfig gives; text for people where it gives nothing.
fn draw(text: &str, hash: [u8; 32]) -> Result<Line, String> {
    let kubeconfig = ForeignKubeconfig::read(text).map_err(|fault| fault.to_string())?;
    let client = kubeconfig.client().map_err(|fault| fault.to_string())?;
    let endpoint = Endpoint {
        server: kubeconfig.server,
        certificate_authority: kubeconfig.certificate_authority,
        tls_server_name: kubeconfig.tls_server_name,
    };
    Ok(Line { hash, endpoint, client })
}

/// Asks a cluster how it does, and whether the platform may do all it has to there.
async fn ask(line: &Line) -> Sight {
    let server = line.endpoint.server.as_str();
    match questions(&line.client).await {
        Ok(sight) => sight,
        Err(error) => unanswered(server, &error),
    }
}

async fn questions(client: &Client) -> Result<Sight, kube::Error> {
    let git_version = client.apiserver_version().await?.git_version;
    let Some(version) = served_version(&git_version) else {
        let says = one_line(&git_version, MOST_WORDS);
        let message = format!("the cluster says that it runs {says:?}, which is no version of Kubernetes");
        return Ok(Sight::NotUsable { message });
    };
    let namespaces = Api::<Namespace>::all(client.clone());
    let nodes = Api::<Node>::all(client.clone());
    let one = ListParams::default().limit(1);
    let answers = futures::future::try_join4(
        is_ready(client),
        namespaces.get("kube-system"),
        nodes.list_metadata(&one),
        may_do_all(client),
    );
    let (ready, system, nodes, may) = answers.await?;
    if let Err(message) = ready {
        return Ok(Sight::Unreachable { message });
    }
    if !may {
        let message = "the kubeconfig's identity does not have all rights in the cluster (verb * on * in all groups); \
                       bind it to ClusterRole cluster-admin"
            .to_owned();
        return Ok(Sight::Refused { message });
    }
    let identity = system.uid().unwrap_or_default();
    Ok(Sight::Seen(Seen { version, identity, has_nodes: !nodes.items.is_empty() }))
}

/// What `/readyz` says. A server without it has answered, which is all that is known then.
async fn is_ready(client: &Client) -> Result<Result<(), String>, kube::Error> {
    let request = Request::get("/readyz").body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request_text(request).await {
        Ok(_) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code >= 500 => {
            Ok(Err(format!("the cluster says at /readyz that it is not ready ({})", status.code)))
        }
        Err(error) => Err(error),
    }
}

async fn may_do_all(client: &Client) -> Result<bool, kube::Error> {
    let all = || Some("*".to_owned());
    let attributes = ResourceAttributes {
        group: all(),
        resource: all(),
        verb: all(),
        version: all(),
        ..ResourceAttributes::default()
    };
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::<SelfSubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Longest text of others that is passed on, in bytes.
const MOST_WORDS: usize = 200;

/// What is said of a cluster that did not answer what it was asked. Many read it, so what its server wrote is no part of it.
fn unanswered(server: &str, error: &kube::Error) -> Sight {
    match error {
        kube::Error::Api(status) if status.code == 401 => Sight::Refused {
            message: format!("{server} does not know the kubeconfig's identity (401); put a valid credential into it"),
        },
        kube::Error::Api(status) if status.code == 403 => Sight::Refused {
            message: format!(
                "{server} does not give the kubeconfig's identity all rights (403); bind it to ClusterRole cluster-admin"
            ),
        },
        kube::Error::Api(status) => {
            Sight::Unreachable { message: format!("{server} answers {}", why::answer(status.code, &status.reason)) }
        }
        kube::Error::SerdeError(_) => {
            Sight::Unreachable { message: format!("{server} answers what no API server of Kubernetes does") }
        }
        error => {
            let last = one_line(&last(error), MOST_WORDS);
            Sight::Unreachable { message: format!("{server} does not answer: {last}") }
        }
    }
}

/// The cause at the end of the chain, which says most.
fn last(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    chain(cause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_server_wrote_is_told_to_nobody() {
        let api = |code: u16, reason: &str| {
            let status = json!({"code": code, "reason": reason, "message": "Bearer abc", "status": "Failure"});
            kube::Error::Api(Box::new(serde_json::from_value(status).expect("a status")))
        };
        let unread = serde_json::from_str::<bool>("\"Bearer abc\"").expect_err("it is a text");
        for (error, expect) in [
            (api(401, "Unauthorized"), "s does not know the kubeconfig's identity (401)"),
            (api(403, "Bearer abc"), "all rights (403); bind it"),
            (api(500, "Bearer abc"), "s answers 500"),
            (api(503, "ServiceUnavailable"), "s answers 503 ServiceUnavailable"),
            (kube::Error::SerdeError(unread), "s answers what no API server"),
        ] {
            let sight = unanswered("s", &error);
            let (_, message) = sight.trouble().expect("it is in trouble");
            assert!(message.contains(expect) && !message.contains("abc"), "{message}");
        }
    }
}
