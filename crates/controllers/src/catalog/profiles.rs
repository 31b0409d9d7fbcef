//! Profiles of both kinds: finalizer, versions that expired, status, end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_api::catalog::{CloudProfile, CloudProfileStatus, KeptProfile, Stored};
use allotment_api::reasons::EventReason;
use allotment_core::catalog::{
    Offer, ProfileKey, ProfilePlan, ProfileWrite, StatusBody, StatusWrite, Told, UnreadProfile, decide_profile,
};
use async_trait::async_trait;
use http::header::{ACCEPT, HeaderValue};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{PartialObjectMeta, Request};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::confirm::catch_up;
use super::followed::{Followed, ReadFrom};
use super::world::{CatalogWorld, Mirrored, key_of, profile_of};
use crate::frame::{Next, ObjectKey, Reconcile, ReconcileError, Seams, warn_of};

const MANAGER: &str = "allot-catalog";
/// Writes of one pass; more means that somebody undoes them.
const MOST_STEPS: usize = 8;
/// How long a call may take. All writes say which state they were decided on, so that one more try does no harm.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// Of what a status write leaves behind the metadata say all that is not known.
const METADATA_ALONE: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// The controller of profiles.
pub(crate) struct Profiles {
    client: Client,
    world: Arc<CatalogWorld>,
    seams: Seams,
    /// What is so by a status, and could not be told yet.
    untold: Mutex<HashMap<ObjectKey, Vec<Told>>>,
}

impl Profiles {
    /// A controller over that API.
    pub(crate) fn new(client: Client, world: Arc<CatalogWorld>, seams: Seams) -> Self {
        Profiles { client, world, seams, untold: Mutex::default() }
    }

    fn decide(&self, profile: &ProfileKey) -> ProfilePlan {
        self.world.with(|catalog| decide_profile(catalog, profile, self.seams.now()))
    }

    /// Whether the plan is the same after a look at what the API itself says of users.
    async fn is_confirmed(&self, profile: &ProfileKey, plan: &ProfilePlan) -> Result<bool, ReconcileError> {
        self.catch_up(profile).await?;
        // Dates that pass meanwhile change nothing about who uses what.
        let same = std::mem::discriminant(&self.decide(profile)) == std::mem::discriminant(plan);
        Ok(same)
    }

    /// Brings what is known of its users up to what the API says. Where the mirrors lag too far behind for that it is a
    /// failure, so that each further try waits longer.
    async fn catch_up(&self, profile: &ProfileKey) -> Result<(), ReconcileError> {
        match in_time(catch_up(&self.client, &self.world, profile)).await? {
            true => Ok(()),
            false => Err(ReconcileError::Behind { profile: profile.to_string() }),
        }
    }

    async fn tell(&self, profile: &ProfileKey, reason: EventReason, told: &str) -> Result<(), kube::Error> {
        let unread = self.world.with(|catalog| catalog.unread(profile).cloned());
        match profile {
            ProfileKey::Cloud(name) => {
                let offer = self.world.with(|catalog| catalog.profile(name).cloned());
                let about = offer.map(Followed::<Offer>::Read).or_else(|| unread.map(Followed::Unread));
                let Some(about) = about else { return Ok(()) };
                in_time(warn_of(&self.client, &self.seams, &about, reason, told)).await
            }
            ProfileKey::Private(key) => {
                let private = self.world.with(|catalog| catalog.private(key).cloned());
                let about = private.map(Followed::<KeptProfile>::Read).or_else(|| unread.map(Followed::Unread));
                let Some(about) = about else { return Ok(()) };
                in_time(warn_of(&self.client, &self.seams, &about, reason, told)).await
            }
        }
    }

    fn untold(&self) -> MutexGuard<'_, HashMap<ObjectKey, Vec<Told>>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what could not be told before: the status does not say any more that it has to be.
    async fn tell_all(&self, profile: &ProfileKey) -> Result<(), kube::Error> {
        let key = key_of(profile);
        loop {
            let next = self.untold().get(&key).and_then(|told| told.first().cloned());
            let Some(told) = next else { break };
            self.tell(profile, told.reason, &told.message).await?;
            if let Some(told) = self.untold().get_mut(&key) {
                told.remove(0);
            }
        }
        self.untold().remove(&key);
        Ok(())
    }

    async fn patch(&self, write: &ProfileWrite) -> Result<(), kube::Error> {
        match &write.profile {
            ProfileKey::Cloud(name) => {
                let written: Stored<CloudProfile> = patch(Api::all(self.client.clone()), name, &write.patch).await?;
                self.world.seen(Followed::<Offer>::of(written));
            }
            ProfileKey::Private(key) => {
                let api = Api::namespaced(self.client.clone(), &key.namespace);
                let written: Stored<KeptProfile> = patch(api, &key.name, &write.patch).await?;
                self.world.seen(Followed::<KeptProfile>::of(written));
            }
        }
        Ok(())
    }

    async fn write_status(&self, write: &StatusWrite) -> Result<(), kube::Error> {
        match &write.profile {
            ProfileKey::Cloud(name) => {
                let api = Api::<CloudProfile>::all(self.client.clone());
                let metadata = send_status(&api, name, &write.body).await?.metadata;
                self.settle_unread::<Offer>(write, &metadata);
                let Some(offer) = self.world.with(|catalog| catalog.profile(name).cloned()) else { return Ok(()) };
                if !is_of_the_same_spec(&offer.metadata, &metadata) {
                    return Ok(());
                }
                let status = CloudProfileStatus {
                    observed_generation: write.kept.observed_generation,
                    conditions: write.kept.conditions.clone(),
                };
                let offer = Offer { metadata, parent: offer.parent.clone(), status };
                self.world.settled(Followed::Read(Arc::new(offer)));
            }
            ProfileKey::Private(key) => {
                let api = Api::<KeptProfile>::namespaced(self.client.clone(), &key.namespace);
                let metadata = send_status(&api, &key.name, &write.body).await?.metadata;
                self.settle_unread::<KeptProfile>(write, &metadata);
                let Some(private) = self.world.with(|catalog| catalog.private(key).cloned()) else { return Ok(()) };
                if is_of_the_same_spec(&private.metadata, &metadata) {
                    let (spec, status) = (private.spec.clone(), write.kept.clone());
                    self.world.settled(Followed::Read(Arc::new(KeptProfile { metadata, spec, status })));
                }
            }
        }
        Ok(())
    }

    /// Takes in the status that was written of a profile which cannot be read, if it is such a one.
    fn settle_unread<T: ReadFrom>(&self, write: &StatusWrite, metadata: &ObjectMeta)
    where
        Followed<T>: Mirrored,
    {
        let unread = self.world.with(|catalog| catalog.unread(&write.profile).cloned());
        let Some(unread) = unread.filter(|unread| is_of_the_same_spec(&unread.metadata, metadata)) else { return };
        let (metadata, status) = (metadata.clone(), write.kept.clone());
        let (parent, why) = (unread.parent.clone(), unread.why.clone());
        self.world.settled(Followed::<T>::Unread(Arc::new(UnreadProfile { metadata, status, parent, why })));
    }

    /// Carries a plan out. Whether that was the last one, until something changes or the profile's next date comes; otherwise what
    /// is to be done next is decided anew.
    async fn carry_out(&self, profile: &ProfileKey, plan: &ProfilePlan) -> Result<bool, ReconcileError> {
        match plan {
            ProfilePlan::Done { again } => {
                self.world.dates.set(&key_of(profile), *again);
                return Ok(true);
            }
            ProfilePlan::AddFinalizer(write) => self.patch(write).await?,
            ProfilePlan::Release(write) => {
                if self.is_confirmed(profile, plan).await? {
                    self.patch(write).await?;
                }
            }
            ProfilePlan::TakeOut { .. } => {
                self.catch_up(profile).await?;
                // What goes may have become less.
                if let ProfilePlan::TakeOut { write, told } = self.decide(profile) {
                    // Told before, and worded so: of a CloudProfile nothing else says it, and the next look finds nothing left.
                    self.tell(profile, EventReason::VersionsRemoved, &told).await?;
                    self.patch(&write).await?;
                }
            }
            ProfilePlan::WriteStatus { write, told, again } => {
                self.write_status(write).await?;
                // Told once it is so: of a write that was refused nobody should read.
                if !told.is_empty() {
                    self.untold().entry(key_of(profile)).or_default().extend(told.iter().cloned());
                    self.tell_all(profile).await?;
                }
                self.world.dates.set(&key_of(profile), *again);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether metadata of after a write of ours go with the spec that is known.
fn is_of_the_same_spec(known: &ObjectMeta, written: &ObjectMeta) -> bool {
    known.uid == written.uid && known.generation == written.generation
}

async fn patch<K>(api: Api<K>, name: &str, patch: &str) -> Result<K, kube::Error>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let request = Request::new(api.resource_url()).patch(name, &params, &Patch::Merge(()));
    let mut request = request.map_err(kube::Error::BuildRequest)?.map(|_| patch.as_bytes().to_vec());
    request.extensions_mut().insert("patch");
    in_time(api.into_client().request(request)).await
}

/// Replaces or patches a status; of what the server has then it answers with the metadata.
async fn send_status<K>(api: &Api<K>, name: &str, body: &StatusBody) -> Result<PartialObjectMeta<K>, kube::Error>
where
    K: Resource + Clone,
{
    let (request, manager) = (Request::new(api.resource_url()), Some(MANAGER.to_owned()));
    let (request, verb) = match body {
        StatusBody::Whole(object) => {
            let params = PostParams { field_manager: manager, ..PostParams::default() };
            let body = object.as_bytes().to_vec();
            (request.replace_subresource("status", name, &params, body), "replace_subresource")
        }
        StatusBody::AllButRendered(patch) => {
            let params = PatchParams { field_manager: manager, ..PatchParams::default() };
            let request = request.patch_subresource("status", name, &params, &Patch::Merge(()));
            (request.map(|request| request.map(|_| patch.as_bytes().to_vec())), "patch_subresource")
        }
    };
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(ACCEPT, METADATA_ALONE);
    request.extensions_mut().insert(verb);
    in_time(api.clone().into_client().request(request)).await
}

/// Did not answer in time; whether a write was carried out is not known.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", CALL_LIMIT.as_secs())]
struct NoAnswer;

pub(super) async fn in_time<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match timeout(CALL_LIMIT, call).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(Box::new(NoAnswer))),
    }
}

#[async_trait]
impl Reconcile for Profiles {
    fn name(&self) -> &'static str {
        "catalog"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let profile = profile_of(key);
        self.tell_all(&profile).await?;
        let mut before: Option<ProfilePlan> = None;
        for _ in 0..MOST_STEPS {
            let plan = self.decide(&profile);
            // It was carried out, and nothing came of it.
            if before.as_ref().is_some_and(|before| plan.repeats(before)) {
                break;
            }
            if self.carry_out(&profile, &plan).await? {
                return Ok(Next::Change);
            }
            before = Some(plan);
        }
        Err(ReconcileError::Restless { profile: profile.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Method, Response};
    use kube::client::Body;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::frame::still;

    type Written = Arc<Mutex<Vec<(Method, String)>>>;

    /// A server that lists nothing, and takes Events and whatever else is written with the codes that it is told; and what was
    /// written.
    fn server(code_of: impl Fn(&Method) -> u16 + Clone + Send + 'static) -> (Client, Written) {
        let written = Written::default();
        let seen = written.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (seen, code_of) = (seen.clone(), code_of.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = String::from_utf8_lossy(&body.collect_bytes().await.expect("a body")).into_owned();
                let (code, answer) = match parts.method {
                    Method::GET => (200, json!({"metadata": {"resourceVersion": "9"}, "items": []}).to_string()),
                    _ => match code_of(&parts.method) {
                        code @ 400.. => (
                            code,
                            json!({"kind": "Status", "status": "Failure", "reason": "", "code": code}).to_string(),
                        ),
                        code => {
                            let mut stored: serde_json::Value = serde_json::from_str(&body).expect("JSON");
                            stored["metadata"] = json!({"name": "central", "uid": "c", "resourceVersion": "30", "generation": 1,
                                "finalizers": ["allotment.dev/catalog"], "deletionTimestamp": "1970-01-01T00:00:00Z"});
                            (code, stored.to_string())
                        }
                    },
                };
                if parts.method != Method::GET {
                    seen.lock().expect("unharmed").push((parts.method, body));
                }
                let response = Response::builder().status(code).body(Body::from(answer.into_bytes()));
                Ok::<_, kube::Error>(response.expect("a response"))
            }
        });
        (Client::new(service, "default"), written)
    }

    fn knows(world: &CatalogWorld, profile: serde_json::Value) -> ObjectKey {
        let profile: CloudProfile = serde_json::from_value(profile).expect("a profile");
        let key = ObjectKey::of(&profile.metadata);
        world.watched(Event::Apply(Followed::<Offer>::of(Stored::Read(profile))));
        key
    }

    #[tokio::test]
    async fn what_goes_out_of_a_cloud_profile_is_told_though_the_write_fails() {
        let world = Arc::new(CatalogWorld::default());
        let profile = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile",
            "metadata": {"name": "central", "uid": "c", "resourceVersion": "3", "finalizers": ["allotment.dev/catalog"],
                "annotations": {"allotment.dev/remove-expired-versions": "true"}},
            "spec": {"type": "local", "kubernetes": {"versions": [{"version": "1.31.0"},
                {"version": "1.29.1", "expirationDate": "1969-01-01T00:00:00Z"}]}}});
        let key = knows(&world, profile);
        let (client, writes) = server(|method| if *method == Method::POST { 201 } else { 409 });
        let profiles = Profiles::new(client, world, still());
        assert!(profiles.reconcile(&key).await.is_err(), "somebody wrote since");
        let writes = writes.lock().expect("unharmed");
        let [(told, event), (written, patch)] = writes.as_slice() else { panic!("{writes:?}") };
        assert_eq!((told, written), (&Method::POST, &Method::PATCH));
        assert!(event.contains("expired versions are taken out: spec.kubernetes.versions[1.29.1]"), "{event}");
        assert!(patch.contains("1.31.0") && !patch.contains("1.29.1"), "{patch}");
    }

    #[tokio::test]
    async fn what_a_status_says_is_told_later_where_it_cannot_be_told_at_once() {
        for (refusal, tries) in [(503, 2), (429, 2), (422, 1)] {
            let world = Arc::new(CatalogWorld::default());
            let profile = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile",
                "metadata": {"name": "central", "uid": "c", "resourceVersion": "3", "generation": 1,
                    "finalizers": ["allotment.dev/catalog"], "deletionTimestamp": "1970-01-01T00:00:00Z"},
                "spec": {"type": "local"}});
            let key = knows(&world, profile);
            let child = json!({"metadata": {"name": "mine", "namespace": "team", "uid": "p", "resourceVersion": "20"},
                "spec": {"parent": "central"}});
            let child = serde_json::from_value(child).expect("a profile");
            world.watched(Event::Apply(Followed::<KeptProfile>::of(Stored::Read(child))));
            let told = Arc::<AtomicUsize>::default();
            let (client, writes) = server(move |method| match *method {
                Method::POST if told.fetch_add(1, Ordering::SeqCst) == 0 => refusal,
                _ => 200,
            });
            let profiles = Profiles::new(client, world, still());
            assert_eq!(profiles.reconcile(&key).await.is_ok(), tries == 1, "{refusal}");
            profiles.reconcile(&key).await.expect("it is told now");
            let writes = writes.lock().expect("unharmed");
            let events: Vec<&String> =
                writes.iter().filter(|(method, _)| *method == Method::POST).map(|(_, event)| event).collect();
            assert_eq!(events.len(), tries, "{refusal}: {writes:?}");
            assert!(events.iter().all(|event| event.contains("DeletionBlocked")), "{events:?}");
        }
    }
}
