//! Asks providers of other processes for admin access to their Clusters, through a Secret that each has for that, and keeps the
//! answers in memory for as long as they hold. When to ask is decided in `allotment_core::providers`.
//!
//! # Guarantees
//! - What a provider answered, asked or not, is taken out of the Secret as soon as it was seen, with the question: all that was
//!   seen by one write, so that it does not stay the longer the more is asked.
//! - A Cluster that refuses an answer as unknown (401) is asked for anew.
//! - Questions are bounded: 64 at once for each provider, one for each Cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_api::names::{ADMIN_DESK, ADMIN_PREFIX, PLANES_NAMESPACE, admin_desk};
use allotment_core::providers::{ANSWER_LIMIT, DeskStep, Sitting, decide_desk};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::frame::{Queue, Seams, Synced, caught_at_once, chain, follow, is_conflict, is_gone};
use crate::providers::gate::guarded;
use crate::providers::kubeconfig::ForeignKubeconfig;
use crate::providers::{AdminAccess, Endpoint, KubeconfigFault, ProviderError};

const MANAGER: &str = "allot-providers";
/// What is said of a provider that has not answered.
const SILENT: &str = "did not answer within 30 s, and is asked again later";
/// How soon answers are taken out again where the Secret was written meanwhile: while much is asked that is no failure, and
/// is not waited for longer and longer.
const CLEAR_AGAIN: Duration = Duration::from_millis(50);
/// How long it is remembered that nobody answered for a Cluster.
const FORGET_AFTER: SignedDuration = SignedDuration::from_secs(600);

/// Where providers are asked.
pub(super) struct Desk {
    client: Client,
    seams: Seams,
    /// By ClusterProvider, then UID of the Cluster.
    places: Mutex<BTreeMap<String, BTreeMap<String, Place>>>,
    changed: Notify,
    /// Answers and questions to take out of the Secrets: by ClusterProvider, UIDs of Clusters.
    seen: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// The ClusterProviders whose Secrets hold any of these.
    clearing: Queue<String>,
}

/// What is known of admin access to one Cluster.
#[derive(Default)]
struct Place {
    sitting: Sitting,
    /// Until when the open question asks.
    until: Option<Timestamp>,
    held: Option<Held>,
    /// What was wrong with the last answer, where it could not be used.
    fault: Option<String>,
}

struct Held {
    /// Its calls end in time, and fail at once for a while after one that did not: the provider says where it leads.
    client: Client,
    endpoint: Endpoint,
    /// The Cluster did not know the credential.
    refused: Arc<AtomicBool>,
}

impl Place {
    /// Whether anything is lost if this is forgotten.
    fn is_of_use(&self, now: Timestamp) -> bool {
        match self.sitting {
            Sitting::Nothing => false,
            Sitting::Asked { at, .. } => now < at.saturating_add(ANSWER_LIMIT).unwrap_or(Timestamp::MAX),
            Sitting::Answered { until } => now < until,
            Sitting::Silent { since, .. } => now < since.saturating_add(FORGET_AFTER).unwrap_or(Timestamp::MAX),
        }
    }

    fn sitting(&self) -> Sitting {
        match (&self.held, self.sitting) {
            (Some(held), Sitting::Answered { .. }) if held.refused.load(Ordering::Relaxed) => Sitting::Nothing,
            (None, Sitting::Answered { .. }) => Sitting::Nothing,
            (_, sitting) => sitting,
        }
    }
}

impl Desk {
    pub(super) fn new(client: Client, seams: Seams) -> Self {
        Desk {
            client,
            seams,
            places: Mutex::default(),
            changed: Notify::new(),
            seen: Mutex::default(),
            clearing: Queue::default(),
        }
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), PLANES_NAMESPACE)
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has answer and question of that Cluster taken out of the Secret.
    fn take_out(&self, provider: &str, uid: &str) {
        self.seen().entry(provider.to_owned()).or_default().insert(uid.to_owned());
        self.clearing.add(provider.to_owned());
    }

    /// Forgets a ClusterProvider that is gone.
    pub(super) fn forget(&self, provider: &str) {
        self.places().remove(provider);
        self.seen().remove(provider);
    }

    /// Admin access to the Cluster of that UID. Waits while the provider may still answer; a caller that gives up
    /// earlier leaves the question as it is, and finds the answer when it comes again.
    pub(super) async fn ask(&self, provider: &str, uid: &str, alive: bool) -> Result<AdminAccess, ProviderError> {
        let unanswered =
            |what: &str| ProviderError::Unanswered { provider: provider.to_owned(), what: what.to_owned() };
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.step(provider, uid, alive) {
                (DeskStep::Use, Some(access)) => return Ok(access),
                (DeskStep::Use, None) => return Err(unanswered("gave an answer that is gone")),
                (DeskStep::Ask { until, .. }, _) => {
                    let question = json!({ (format!("{ADMIN_PREFIX}{uid}")): until.to_string() });
                    if let Err(error) = self.patch(provider, &json!({ "metadata": { "annotations": question } })).await
                    {
                        self.places().entry(provider.to_owned()).or_default().remove(uid);
                        return Err(error.into());
                    }
                }
                (DeskStep::Wait(wait), _) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
                (DeskStep::GiveUp { .. }, _) => {
                    self.take_out(provider, uid);
                    return Err(unanswered(SILENT));
                }
                (DeskStep::Later(_), _) => return Err(unanswered(&self.why(provider, uid))),
                (DeskStep::Full, _) => return Err(unanswered("has as many questions open as it may have")),
                (DeskStep::Dead, _) => return Err(unanswered("has no heartbeat, and is not asked")),
            }
        }
    }

    /// Why there is no answer, while it is not asked for again.
    fn why(&self, provider: &str, uid: &str) -> String {
        let places = self.places();
        let fault = places.get(provider).and_then(|of_provider| of_provider.get(uid)?.fault.clone());
        let told = fault.map(|fault| format!("gave an answer that cannot be used: {fault}; it is asked again later"));
        told.unwrap_or_else(|| SILENT.to_owned())
    }

    /// Decides, and notes what was decided; with the access where it is to be used.
    fn step(&self, provider: &str, uid: &str, alive: bool) -> (DeskStep, Option<AdminAccess>) {
        let now = self.seams.now();
        let mut places = self.places();
        let of_provider = places.entry(provider.to_owned()).or_default();
        of_provider.retain(|other, known| {
            let keep = other == uid || known.is_of_use(now);
            if !keep && matches!(known.sitting, Sitting::Asked { .. }) {
                // Whoever asked does not wait any more: the question goes, and gives its place to another one.
                self.take_out(provider, other);
            }
            keep
        });
        let open = of_provider.values().filter(|place| matches!(place.sitting, Sitting::Asked { .. })).count();
        let place = of_provider.entry(uid.to_owned()).or_default();
        let step = decide_desk(place.sitting(), open, alive, now);
        match step {
            DeskStep::Use => {
                let access =
                    place.held.as_ref().map(|held| AdminAccess::foreign(held.client.clone(), held.endpoint.clone()));
                return (step, access);
            }
            DeskStep::Ask { until, failures } => {
                *place = Place {
                    sitting: Sitting::Asked { at: now, failures },
                    until: Some(until),
                    held: None,
                    fault: None,
                };
            }
            DeskStep::GiveUp { failures } => {
                place.sitting = Sitting::Silent { since: now, failures };
                place.until = None;
            }
            DeskStep::Wait(_) | DeskStep::Later(_) | DeskStep::Full | DeskStep::Dead => {}
        }
        (step, None)
    }

    /// Follows the Secrets, and takes out of them what was seen. Ends when it is dropped.
    pub(super) async fn keep(self: Arc<Self>) {
        let seen = self.clone();
        let api = self.secrets();
        let follows = follow(api, ADMIN_DESK, Synced::default(), move |event| match event {
            Event::Apply(secret) | Event::InitApply(secret) => seen.see(&secret),
            Event::Delete(_) | Event::Init | Event::InitDone => {}
        });
        let clears = async {
            loop {
                let provider = self.clearing.take().await;
                match self.clear(&provider).await {
                    Err(error) if is_conflict(&error) => self.clearing.add_after(provider.clone(), CLEAR_AGAIN),
                    Err(error) => {
                        debug!(provider, error = %chain(&error), "cannot take out answers, trying again");
                        self.clearing.retry(provider.clone());
                    }
                    Ok(()) => self.clearing.succeeded(&provider),
                }
                self.clearing.done(&provider);
            }
        };
        futures::future::join(follows, clears).await;
    }

    /// Takes in what a provider wrote, and has it taken out.
    fn see(&self, secret: &Secret) {
        let name = secret.name_any();
        let Some(provider) = name.strip_prefix("access-").filter(|provider| admin_desk(provider) == name) else {
            return;
        };
        let now = self.seams.now();
        let mut places = self.places();
        let of_provider = places.entry(provider.to_owned()).or_default();
        for (uid, answer) in secret.data.iter().flatten() {
            self.take_out(provider, uid);
            let Some(place) = of_provider.get_mut(uid) else { continue };
            let (Sitting::Asked { failures, .. }, Some(until)) = (place.sitting, place.until) else { continue };
            let read = caught_at_once("an answer of a provider", || held(&answer.0));
            match read.unwrap_or(Err(KubeconfigFault::Unreadable)) {
                Ok(held) => {
                    *place = Place { sitting: Sitting::Answered { until }, until: None, held: Some(held), fault: None };
                }
                Err(fault) => {
                    // Not what stands in it: that would be a credential.
                    warn!(provider, cluster = %uid, error = %chain(&fault), "the provider's answer cannot be used");
                    let failures = failures.saturating_add(1);
                    let fault = Some(chain(&fault));
                    *place =
                        Place { sitting: Sitting::Silent { since: now, failures }, until: None, held: None, fault };
                }
            }
        }
        // Questions that nobody waits for, of a process before this one or of long ago.
        for asked in secret.annotations().iter().filter(|(key, _)| key.starts_with(ADMIN_PREFIX)) {
            let (key, until) = asked;
            let uid = key.strip_prefix(ADMIN_PREFIX).unwrap_or_default();
            let over = until.parse::<Timestamp>().map_or(true, |until| until <= now);
            let waited_for = of_provider.get(uid).is_some_and(|place| matches!(place.sitting, Sitting::Asked { .. }));
            if over && !waited_for {
                self.take_out(provider, uid);
            }
        }
        drop(places);
        self.changed.notify_waiters();
    }

    /// Takes all answers that were seen, and their questions, out of the Secret as it was read, so that one that is asked anew
    /// meanwhile stays.
    ///
    /// # Errors
    /// A call failed, or the Secret was written between the read and the write; to be tried again.
    async fn clear(&self, provider: &str) -> Result<(), kube::Error> {
        // What is seen from now on is for the next time.
        let uids = self.seen().remove(provider).unwrap_or_default();
        let cleared = self.clear_of(provider, &uids).await;
        if cleared.is_err() {
            self.seen().entry(provider.to_owned()).or_default().extend(uids);
        }
        cleared
    }

    async fn clear_of(&self, provider: &str, uids: &BTreeSet<String>) -> Result<(), kube::Error> {
        if uids.is_empty() {
            return Ok(());
        }
        let Some(read) = self.secrets().get_metadata_opt(&admin_desk(provider)).await? else { return Ok(()) };
        let (mut answers, mut questions) = (Map::new(), Map::new());
        {
            // Looked at after the read: who asks notes that first, and writes after.
            let places = self.places();
            let of_provider = places.get(provider);
            for uid in uids {
                let place = of_provider.and_then(|of_provider| of_provider.get(uid));
                answers.insert(uid.clone(), Value::Null);
                if !place.is_some_and(|place| matches!(place.sitting, Sitting::Asked { .. })) {
                    questions.insert(format!("{ADMIN_PREFIX}{uid}"), Value::Null);
                }
            }
        }
        let metadata = json!({"resourceVersion": read.resource_version(), "annotations": questions});
        match self.patch(provider, &json!({"data": answers, "metadata": metadata})).await {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    async fn patch(&self, provider: &str, patch: &Value) -> Result<(), kube::Error> {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.secrets().patch_metadata(&admin_desk(provider), &params, &Patch::Merge(patch)).await.map(drop)
    }
}

fn held(answer: &[u8]) -> Result<Held, KubeconfigFault> {
    let text = std::str::from_utf8(answer).map_err(|_| KubeconfigFault::Unreadable)?;
    let kubeconfig = ForeignKubeconfig::read(text)?;
    let refused = Arc::new(AtomicBool::new(false));
    let client = guarded(kubeconfig.client_noting(refused.clone())?, Arc::default());
    Ok(Held { client, endpoint: kubeconfig.endpoint(), refused })
}

#[cfg(test)]
mod tests {
    use allotment_pki::{CertificateAuthority, KeySource as _, Kubeconfig, KubeconfigUser, RandomKeys};
    use http::{Method, Request, Response};
    use kube::client::Body;
    use tokio::time::Instant;

    use super::*;
    use crate::frame::still;

    const UID: &str = "1111";

    /// An API server that keeps the Secret of provider `p`: its version, the question about one Cluster, and what happens to it
    /// right after it was read.
    #[derive(Default)]
    struct Stored {
        version: u64,
        question: Option<String>,
        asked_after_a_read: Option<String>,
        /// What was taken out of its data, by each write that was taken.
        taken_out: Vec<Vec<String>>,
    }

    fn serve(stored: Arc<Mutex<Stored>>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let stored = stored.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("a body");
                let mut stored = stored.lock().expect("nobody panicked");
                if parts.method == Method::PATCH {
                    let patch: Value = serde_json::from_slice(&body).expect("JSON");
                    let told = &patch["metadata"]["resourceVersion"];
                    let stale = told.as_str().is_some_and(|told| told.parse() != Ok(stored.version));
                    if stale {
                        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
                            "reason": "Conflict", "message": "it was changed"});
                        let answer = Response::builder().status(409).body(Body::from(status.to_string().into_bytes()));
                        return Ok::<_, tower::BoxError>(answer.expect("an answer"));
                    }
                    stored.version += 1;
                    let data = patch["data"].as_object().into_iter().flatten();
                    stored.taken_out.push(data.filter(|(_, to)| to.is_null()).map(|(uid, _)| uid.clone()).collect());
                    let annotations = patch["metadata"]["annotations"].as_object();
                    if annotations.is_some_and(|given| given.contains_key(&format!("{ADMIN_PREFIX}{UID}"))) {
                        stored.question = None;
                    }
                }
                let metadata = json!({"name": "access-p", "resourceVersion": stored.version.to_string()});
                let answer =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
                if let Some(until) = stored.asked_after_a_read.take().filter(|_| parts.method == Method::GET) {
                    (stored.question, stored.version) = (Some(until), stored.version + 1);
                }
                Ok(Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_question_that_is_asked_anew_while_the_last_one_is_taken_out_stays() {
        let stored = Stored {
            version: 1,
            question: Some("old".into()),
            asked_after_a_read: Some("new".into()),
            ..Stored::default()
        };
        let stored = Arc::new(Mutex::new(stored));
        let desk = Desk::new(serve(stored.clone()), still());
        let question = || stored.lock().expect("nobody panicked").question.clone();
        desk.take_out("p", UID);
        assert!(desk.clear("p").await.is_err_and(|error| is_conflict(&error)));
        assert_eq!(question().as_deref(), Some("new"));
        desk.clear("p").await.expect("nobody else writes");
        assert_eq!(question(), None);
    }

    #[tokio::test]
    async fn all_that_was_seen_is_taken_out_by_one_write_and_nothing_is_forgotten_by_one_that_came_too_late() {
        let stored = Stored { version: 1, asked_after_a_read: Some("new".into()), ..Stored::default() };
        let stored = Arc::new(Mutex::new(stored));
        let desk = Desk::new(serve(stored.clone()), still());
        let uids: Vec<String> = (0..100).map(|number| format!("u{number:03}")).collect();
        uids.iter().for_each(|uid| desk.take_out("p", uid));
        desk.take_out("q", "other");
        assert!(desk.clear("p").await.is_err_and(|error| is_conflict(&error)));
        desk.take_out("p", "later");
        desk.clear("p").await.expect("nobody else writes");
        desk.clear("p").await.expect("there is nothing to do");
        let expect: Vec<String> = std::iter::once("later".to_owned()).chain(uids).collect();
        assert_eq!(stored.lock().expect("nobody panicked").taken_out, [expect]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_calls_and_says_nothing_holds_nobody_up_for_long() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("an address");
        let server = format!("https://{}", listener.local_addr().expect("its address"));
        let authority = CertificateAuthority::new("a", RandomKeys.generate().expect("a key"), 1_800_000_000, 86_400);
        let kubeconfig = Kubeconfig {
            name: "c".to_owned(),
            server,
            ca_pem: Some(authority.expect("an authority").certificate().to_pem()),
            tls_server_name: None,
            namespace: None,
            user: KubeconfigUser::Token("t".to_owned().into()),
        };
        let held = held(kubeconfig.to_yaml().as_bytes()).expect("it can be used");
        let secrets = Api::<Secret>::namespaced(held.client, "default");
        let begin = Instant::now();
        secrets.get("a").await.expect_err("nobody answers");
        assert!(begin.elapsed() <= crate::providers::gate::CALL_LIMIT, "{:?}", begin.elapsed());
        let begin = Instant::now();
        secrets.get("a").await.expect_err("it is left alone");
        assert_eq!(begin.elapsed(), std::time::Duration::ZERO, "the next call ends at once");
    }
}
