//! One AccessRequest: observe, decide, do the next thing, until nothing is left to do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_api::names::{ACCESS_BY, ACCESS_SECRET};
use allotment_api::reasons::{AccessReason, EventReason};
use allotment_api::requests::{AccessRequest, Cluster, Leftover, OidcIssuer};
use allotment_core::access::{
    AccessObserved, AccessPlan, Change, Inside, InsideState, LeftBehind, Looked, PrefixSeen, SecretFacts,
    TargetCluster, decide_access, other_secret_name, secret_rights,
};
use allotment_core::write::Write;
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use tracing::debug;

use super::secret::Answer;
use super::{AccessSecret, inside, secret};
use crate::clusters::{Bearer, Guards, bearer};
use crate::frame::{
    Lane, Next, ObjectKey, Reconcile, ReconcileError, Seams, Writer, chain, execute, is_conflict, is_gone, told,
    warn_of,
};
use crate::providers::outside::objects;
use crate::providers::{AdminAccess, Directory, ProviderError};
use crate::world::{State, World};

/// The field manager of all that this controller writes, inside Clusters too.
pub(super) const MANAGER: &str = "allot-access";
/// Steps of one pass. A grant takes six, a revocation as many; more means that something flaps, and
/// others are let in between.
const MOST_STEPS: usize = 16;
/// How long a Cluster may take to give admin access, to be read or to be changed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the names of a Cluster may take to be read: a page for each 500 of its own objects.
const LOOK_PATIENCE: Duration = Duration::from_secs(30);
/// How long it is believed that an object bears a prefix, or that names cannot be read.
const KEEP_OBSTACLES: Duration = Duration::from_secs(30);
/// When to look again at a Cluster that did not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The controller of AccessRequests.
pub(crate) struct AccessRequests {
    client: Client,
    world: Arc<World>,
    providers: Arc<Directory>,
    guards: Arc<Guards>,
    seams: Seams,
    token_lifetime_secs: i64,
    /// By UID of the AccessRequest: the last look that found the inside of its Cluster in order.
    looks: Mutex<BTreeMap<String, Looked>>,
    /// By UID of the Cluster and prefix: what a look found in the way, and until when that is believed. So requests that wait
    /// for its going cost a look together, not each at every change.
    obstacles: Mutex<BTreeMap<(String, String), (Timestamp, Obstacle)>>,
}

/// What is in the way of a first access by a prefix.
#[derive(Clone)]
enum Obstacle {
    /// An object of that kind bears it.
    Borne(String),
    /// The names cannot be read, for that reason.
    NotKnown(String),
}

/// What was seen inside the Cluster in this pass.
enum Seen {
    NotRead,
    /// Why, for people, where something is known of it.
    Unreachable(Option<String>),
    Unguarded(AccessReason, String),
    Gone,
    Read(InsideState),
}

impl Seen {
    /// The Secret was written for a Cluster that is reached there. A provider that names another address each time has
    /// it written once a look, and not for ever.
    fn now_at(&mut self, endpoint: Option<String>) {
        if let (Seen::Read(state), Some(endpoint)) = (self, endpoint) {
            state.endpoint = endpoint;
        }
    }
}

/// Why a Cluster cannot be worked in, for whoever wants access to it. What its server answered is not repeated: that may be
/// anybody's text, and say back what it was asked with.
fn why(error: &ReconcileError) -> String {
    match error {
        ReconcileError::Api(error) | ReconcileError::Provider(ProviderError::Api(error)) => told(error),
        ReconcileError::Provider(error) => chain(error),
        other => chain(other),
    }
}

/// What is known of the Secret that answers a request: the one that was made for its provider, if it is the request's
/// own, else the one that says itself whose it is.
fn secret_facts(state: &State, key: &ObjectKey, request: &AccessRequest, uid: &str) -> Option<SecretFacts> {
    let named = request.annotations().get(ACCESS_SECRET);
    let named = named.map(|name| ObjectKey::new(key.namespace.clone(), name.clone()));
    let named = named.and_then(|named| state.secrets.get(&named)).map(|secret| secret.facts(uid));
    let own = || state.secret_of(key, uid).map(|secret| secret.facts(uid));
    named.filter(|named| named.owned).or_else(own)
}

impl AccessRequests {
    /// A controller that asks for tokens of that lifetime.
    pub(crate) fn new(
        client: Client,
        world: Arc<World>,
        providers: Arc<Directory>,
        guards: Arc<Guards>,
        seams: Seams,
        token_lifetime_secs: i64,
    ) -> Self {
        let (looks, obstacles) = (Mutex::default(), Mutex::default());
        AccessRequests { client, world, providers, guards, seams, token_lifetime_secs, looks, obstacles }
    }

    fn decide(&self, key: &ObjectKey, seen: &Seen) -> Option<(Arc<AccessRequest>, AccessPlan)> {
        let state = self.world.read();
        let request = state.access.get(key)?.clone();
        let uid = request.uid().unwrap_or_default();
        let facts = secret_facts(&state, key, &request, &uid);
        let observed = AccessObserved {
            request: &request,
            inside: match seen {
                Seen::NotRead => Inside::NotRead,
                Seen::Unreachable(why) => Inside::Unreachable(why.as_deref()),
                Seen::Unguarded(reason, why) => Inside::Unguarded(*reason, why),
                Seen::Gone => Inside::Gone,
                Seen::Read(read) => Inside::Read(read),
            },
            secret: facts.as_ref(),
            looked: self.looks().get(&uid).copied(),
            now: self.seams.now(),
            token_lifetime_secs: self.token_lifetime_secs,
        };
        let plan = decide_access(&state.snapshot, &observed);
        drop(state);
        Some((request, plan))
    }

    fn looks(&self) -> MutexGuard<'_, BTreeMap<String, Looked>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn obstacles(&self) -> MutexGuard<'_, BTreeMap<(String, String), (Timestamp, Obstacle)>> {
        self.obstacles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a pass found that came to its end: the inside in order, or nothing to look at.
    fn keep_look(&self, request: &AccessRequest, seen: &Seen) {
        let uid = request.uid().unwrap_or_default();
        match seen {
            Seen::Read(_) => {
                let looked = Looked { generation: request.metadata.generation, at: self.seams.now() };
                self.looks().insert(uid, looked);
            }
            Seen::Gone => _ = self.looks().remove(&uid),
            Seen::NotRead | Seen::Unreachable(_) | Seen::Unguarded(..) => {}
        }
    }

    /// Admin access to the Cluster; absent where there is no such Cluster any more.
    async fn admin(&self, target: &TargetCluster) -> Result<Option<AdminAccess>, ReconcileError> {
        let cluster = self.world.read().clusters.get(&target.key).cloned();
        let Some(cluster) = cluster.filter(|found| found.uid().as_deref() == Some(&target.uid)) else {
            return Ok(None);
        };
        Ok(Some(self.providers.admin_access(&self.world, &cluster).await?))
    }

    async fn observe(
        &self,
        request: &AccessRequest,
        target: &TargetCluster,
        namespaces: &std::collections::BTreeSet<String>,
    ) -> Seen {
        let uid = request.uid().unwrap_or_default();
        let look = async {
            let Some(admin) = self.admin(target).await? else { return Ok(Seen::Gone) };
            Ok::<_, ReconcileError>(Seen::Read(
                inside::read(&admin.client, &uid, namespaces, secret::digest(&admin.endpoint)).await?,
            ))
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(Ok(seen)) => seen,
            Ok(Err(error)) => {
                debug!(cluster = %target.key, error = %chain(&error), "the Cluster cannot be read");
                Seen::Unreachable(Some(why(&error)))
            }
            Err(_) => Seen::Unreachable(None),
        }
    }

    /// Has tenants of a shared Cluster kept to their prefixes before anybody is given rights there.
    async fn guard(&self, target: &TargetCluster, admin: &AdminAccess, access_uid: &str) -> Result<(), Seen> {
        let cluster = self.world.read().clusters.get(&target.key).cloned();
        // Another one of that name may be of a provider that keeps the rule by itself.
        let Some(cluster) = cluster.filter(|found| found.uid().as_deref() == Some(&target.uid)) else {
            return Err(Seen::Gone);
        };
        if self.providers.keeps_prefixes(&self.world, &cluster) {
            return Ok(());
        }
        let put = self.guards.admit(&target.key, &target.uid, &admin.client, access_uid);
        match tokio::time::timeout(PATIENCE, put).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                debug!(cluster = %target.key, error = %chain(&error), "nobody is given rights in the Cluster");
                Err(Seen::Unguarded(error.reason(), error.told()))
            }
            Err(_) => Err(Seen::Unreachable(None)),
        }
    }

    /// Looks whether names of the Cluster's own objects begin with a tenant's prefix.
    async fn look_for_names(
        &self,
        seen: Seen,
        target: &TargetCluster,
        prefix: &str,
        tenant: &str,
    ) -> Result<Seen, ReconcileError> {
        let Seen::Read(mut state) = seen else { return Ok(Seen::NotRead) };
        let place = (target.uid.clone(), prefix.to_owned());
        let recent = self.obstacles().get(&place).cloned().filter(|(until, _)| self.seams.now() < *until);
        let obstacle = match recent {
            Some((_, obstacle)) => obstacle,
            None => match self.look_for_obstacle(target, prefix, tenant).await? {
                Some(obstacle) => {
                    let until = self.seams.now().saturating_add(KEEP_OBSTACLES).unwrap_or(Timestamp::MAX);
                    let mut obstacles = self.obstacles();
                    obstacles.retain(|_, (until, _)| self.seams.now() < *until);
                    obstacles.insert(place, (until, obstacle.clone()));
                    obstacle
                }
                None => {
                    state.prefix = PrefixSeen::Free;
                    return Ok(Seen::Read(state));
                }
            },
        };
        Ok(match obstacle {
            Obstacle::Borne(kind) => {
                state.prefix = PrefixSeen::Borne(kind);
                Seen::Read(state)
            }
            Obstacle::NotKnown(why) => Seen::Unguarded(AccessReason::PrefixNotKnown, why),
        })
    }

    async fn look_for_obstacle(
        &self,
        target: &TargetCluster,
        prefix: &str,
        tenant: &str,
    ) -> Result<Option<Obstacle>, ReconcileError> {
        let look = async {
            let Some(admin) = self.admin(target).await? else { return Ok(None) };
            Ok::<_, ReconcileError>(bearer(&admin.client, prefix, tenant).await?)
        };
        match tokio::time::timeout(LOOK_PATIENCE, look).await {
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(Bearer { kind, name }))) => {
                // Which one it is those may know who may see the Cluster: names may be other customers'.
                let cluster = self.world.read().clusters.get(&target.key).cloned();
                if let Some(cluster) = cluster {
                    let message =
                        format!("{kind} {name} begins with prefix {prefix:?} of a tenant, and is not the tenant's");
                    warn_of(&self.client, &self.seams, cluster.as_ref(), EventReason::PrefixTaken, &message).await?;
                }
                Ok(Some(Obstacle::Borne(kind)))
            }
            Ok(Err(error)) => {
                debug!(cluster = %target.key, error = %chain(&error), "the Cluster's names cannot be read");
                Ok(Some(Obstacle::NotKnown(format!("its names cannot be read: {}", why(&error)))))
            }
            Err(_) => {
                let limit = LOOK_PATIENCE.as_secs();
                Ok(Some(Obstacle::NotKnown(format!("its names cannot be read within {limit} s"))))
            }
        }
    }

    /// Changes the inside of the Cluster. What is inside then has to be read again, whether it worked or not.
    async fn change(
        &self,
        target: &TargetCluster,
        admin: &AdminAccess,
        access_uid: &str,
        (takes, gives): (&[Change], &[Change]),
    ) -> Result<Seen, ReconcileError> {
        let Ok(taken) = tokio::time::timeout(PATIENCE, inside::change(&admin.client, takes)).await else {
            return Ok(Seen::Unreachable(None));
        };
        taken?;
        if gives.is_empty() {
            return Ok(Seen::NotRead);
        }
        // Not before: rights are taken whether or not anybody is kept to prefixes.
        if let Err(without) = self.guard(target, admin, access_uid).await {
            return Ok(without);
        }
        let Ok(given) = tokio::time::timeout(PATIENCE, inside::change(&admin.client, gives)).await else {
            return Ok(Seen::Unreachable(None));
        };
        given?;
        Ok(Seen::NotRead)
    }

    async fn write(&self, write: &Write) -> Result<(), ReconcileError> {
        if let Some(written) = execute(&self.client, MANAGER, write).await? {
            self.world.took(written);
        }
        Ok(())
    }

    /// Mints a token and puts it into the Secret, which is made or replaced. Gives where that says the Cluster is reached.
    async fn mint(
        &self,
        request: &AccessRequest,
        target: &TargetCluster,
        account: &ObjectKey,
        lifetime_secs: i64,
        name: &str,
    ) -> Result<Option<String>, ReconcileError> {
        let made = async {
            let Some(admin) = self.admin(target).await? else { return Ok(None) };
            let lifetime_secs = lifetime_secs.max(admin.shortest_token_secs);
            let token = inside::mint(&admin.client, account, lifetime_secs).await?;
            Ok::<_, ReconcileError>(Some((admin, token)))
        };
        let made = tokio::time::timeout(PATIENCE, made).await;
        let made = made.map_err(|_| ReconcileError::Slow { cluster: target.key.clone() })??;
        let Some((admin, token)) = made else { return Ok(None) };
        let answer = Answer::Token(&token.token, token.expires);
        self.answer(request, secret::render(request, name, target, &admin.endpoint, &answer)).await?;
        Ok(Some(secret::digest(&admin.endpoint)))
    }

    /// Names the issuer in the Secret, which is made or replaced. Gives where that says the Cluster is reached.
    async fn describe(
        &self,
        request: &AccessRequest,
        target: &TargetCluster,
        issuer: &OidcIssuer,
        name: &str,
    ) -> Result<Option<String>, ReconcileError> {
        let admin = tokio::time::timeout(PATIENCE, self.admin(target)).await;
        let admin = admin.map_err(|_| ReconcileError::Slow { cluster: target.key.clone() })??;
        let Some(admin) = admin else { return Ok(None) };
        let answer = Answer::Issuer(issuer);
        self.answer(request, secret::render(request, name, target, &admin.endpoint, &answer)).await?;
        Ok(Some(secret::digest(&admin.endpoint)))
    }

    /// Makes or replaces the Secret, under another name if that is somebody else's.
    async fn answer(&self, request: &AccessRequest, mut wanted: Secret) -> Result<(), ReconcileError> {
        let written = match self.put(request, &wanted).await? {
            Some(written) => written,
            None => {
                // A Secret of that name was there before, and is somebody else's.
                wanted.metadata.name = Some(other_secret_name(&request.uid().unwrap_or_default()));
                let secret = ObjectKey::of(&wanted.metadata);
                self.put(request, &wanted).await?.ok_or(ReconcileError::Taken { secret })?
            }
        };
        self.world.written(AccessSecret::read(&written));
        Ok(())
    }

    /// Makes the Secret, or renews it; nothing where one of its name is not the request's own.
    async fn put(&self, request: &AccessRequest, wanted: &Secret) -> Result<Option<Secret>, ReconcileError> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &request.namespace().unwrap_or_default());
        match Writer::new(MANAGER).create(&secrets, wanted).await {
            Err(error) if is_conflict(&error) => {
                let there = secrets.get(&wanted.name_any()).await?;
                let own = there.owner_references().iter().any(|owner| Some(&owner.uid) == request.uid().as_ref());
                // The type of a Secret cannot be changed, and others write into those of some types.
                if !own || !secret::is_opaque(&there) {
                    return Ok(None);
                }
                let mut wanted = wanted.clone();
                wanted.metadata.resource_version = there.resource_version();
                wanted.metadata.uid = there.uid();
                let applying = PatchParams::apply(MANAGER).force();
                Ok(Some(secrets.patch(&there.name_any(), &applying, &Patch::Apply(&wanted)).await?))
            }
            answer => Ok(Some(answer?)),
        }
    }

    async fn delete_secret(&self, key: &ObjectKey, uid: &str) -> Result<(), ReconcileError> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &key.namespace);
        let this_one = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        match secrets.delete(&key.name, &DeleteParams::default().preconditions(this_one)).await {
            Err(error) if !is_gone(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Takes away what let a provider write the Secret.
    async fn withdraw(&self, request: &AccessRequest) -> Result<(), ReconcileError> {
        let Some(provider) = request.labels().get(ACCESS_BY) else { return Ok(()) };
        // The binding first: without it the role gives nothing.
        // They go by their names, whatever Secret they are of.
        for right in secret_rights(request, provider, "").iter().rev() {
            objects::delete(&self.client, right).await?;
        }
        Ok(())
    }

    /// Lists what could not be removed in an Event, and in the status of its Cluster if that is there.
    async fn leave_behind(&self, request: &AccessRequest, left: &LeftBehind) -> Result<(), ReconcileError> {
        warn_of(&self.client, &self.seams, request, EventReason::LeftBehind, &left.to_string()).await?;
        let before = self.world.read().clusters.get(&left.cluster.key).cloned();
        let Some(before) = before.filter(|found| found.uid().as_deref() == Some(&left.cluster.uid)) else {
            return Ok(());
        };
        let mut after = Cluster::clone(&before);
        let status = after.status.get_or_insert_default();
        let uid = request.uid().unwrap_or_default();
        if status.leftovers.iter().all(|leftover| leftover.uid != uid) {
            status.leftovers.push(Leftover {
                access_request: format!("{}/{}", request.namespace().unwrap_or_default(), request.name_any()),
                uid,
                not_after: left.not_after.map(Time),
            });
        }
        let clusters = Api::<Cluster>::namespaced(self.client.clone(), &left.cluster.key.namespace);
        if let Some(written) = Writer::new(MANAGER).update_status(&clusters, &before, &after).await? {
            self.world.written(written);
        }
        Ok(())
    }
}

#[async_trait]
impl Reconcile for AccessRequests {
    fn name(&self) -> &'static str {
        "accessrequests"
    }

    fn lane(&self, key: &ObjectKey) -> Option<Lane> {
        let cluster = self.world.read().home_of_access(key)?;
        self.providers.lane(&self.world, &cluster)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        let mut changed = BTreeMap::new();
        let done = self.pass(key, &mut changed).await;
        // What was made inside on an old view may belong to nobody by now; who lives elsewhere, or not at
        // all, is seen by now or will be told by the watch.
        for (uid, (request, cluster)) in changed {
            self.world.suspect(key, &request, &cluster, &uid);
        }
        done
    }
}

impl AccessRequests {
    /// Does one thing after the other until nothing is left to do. What was changed inside goes into
    /// `changed`: by UID of the Cluster, the UID of the AccessRequest and the Cluster's key.
    async fn pass(
        &self,
        key: &ObjectKey,
        changed: &mut BTreeMap<String, (String, ObjectKey)>,
    ) -> Result<Next, ReconcileError> {
        let mut seen = Seen::NotRead;
        for _ in 0..MOST_STEPS {
            let Some((request, plan)) = self.decide(key, &seen) else { return Ok(Next::Change) };
            match plan {
                AccessPlan::Done { again } => {
                    self.keep_look(&request, &seen);
                    let unreachable = matches!(seen, Seen::Unreachable(_) | Seen::Unguarded(..)).then_some(LOOK_AGAIN);
                    let again = again.map(|at| self.seams.until(at)).into_iter().chain(unreachable).min();
                    return Ok(again.map_or(Next::Change, Next::After));
                }
                AccessPlan::Observe { cluster, namespaces } => {
                    seen = self.observe(&request, &cluster, &namespaces).await;
                }
                AccessPlan::LookForNames { cluster, prefix, tenant } => {
                    seen = self.look_for_names(seen, &cluster, &prefix, &tenant).await?;
                }
                AccessPlan::Change { cluster, takes, gives } => {
                    let Some(admin) = self.admin(&cluster).await? else { continue };
                    let whose = request.uid().unwrap_or_default();
                    changed.insert(cluster.uid.clone(), (whose.clone(), cluster.key.clone()));
                    seen = self.change(&cluster, &admin, &whose, (&takes, &gives)).await?;
                }
                AccessPlan::Mint { cluster, service_account, lifetime_secs, secret } => {
                    let written = self.mint(&request, &cluster, &service_account, lifetime_secs, &secret).await?;
                    seen.now_at(written);
                }
                AccessPlan::Describe { cluster, issuer, secret } => {
                    let written = self.describe(&request, &cluster, &issuer, &secret).await?;
                    seen.now_at(written);
                }
                AccessPlan::MakeSecret { cluster, secret } => {
                    self.answer(&request, secret::empty(&request, &secret, &cluster)).await?;
                }
                AccessPlan::DeleteSecret { key: secret, uid } => {
                    // What somebody else makes under its name then is none of the provider's.
                    self.withdraw(&request).await?;
                    self.delete_secret(&secret, &uid).await?;
                    self.world.forget_secret(&secret, &uid);
                }
                AccessPlan::Approve { rights, write } => {
                    for right in &rights {
                        objects::apply(&self.client, right).await?;
                    }
                    self.write(&write).await?;
                }
                AccessPlan::LeaveBehind { left, write } => {
                    self.leave_behind(&request, &left).await?;
                    self.withdraw(&request).await?;
                    self.write(&write).await?;
                    seen = Seen::NotRead;
                }
                AccessPlan::RemoveFinalizer(write) => {
                    self.write(&write).await?;
                    self.looks().remove(&request.uid().unwrap_or_default());
                    return Ok(Next::Change);
                }
                AccessPlan::Forget(write) => {
                    self.withdraw(&request).await?;
                    self.write(&write).await?;
                    // Where it lives next may be another Cluster.
                    seen = Seen::NotRead;
                }
                AccessPlan::Record(write) | AccessPlan::WriteStatus(write) => {
                    self.write(&write).await?;
                }
            }
        }
        Ok(Next::After(Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clusters::GuardError;

    fn answer(code: u16, reason: &str) -> kube::Error {
        let message = "spec.variables[0].expression: Invalid value: {'their/name'}";
        let status = json!({"code": code, "reason": reason, "message": message, "status": "Failure"});
        kube::Error::Api(Box::new(serde_json::from_value(status).expect("a status")))
    }

    #[test]
    fn what_a_server_wrote_comes_into_no_status() {
        for (text, expect) in [
            (
                why(&ReconcileError::Api(answer(503, "ServiceUnavailable"))),
                "an API server answers 503 ServiceUnavailable",
            ),
            (why(&ReconcileError::Api(answer(500, "their/name"))), "an API server answers 500"),
            (
                why(&ReconcileError::Provider(ProviderError::Api(answer(403, "Forbidden")))),
                "an API server answers 403 Forbidden",
            ),
            (
                GuardError::Api(answer(422, "Invalid")).told(),
                "what keeps its tenants to their prefixes cannot be put in force: an API server answers 422 Invalid",
            ),
        ] {
            assert_eq!(text, expect);
        }
        let no_term = GuardError::NoTerm(answer(403, "Forbidden")).told();
        assert!(no_term.starts_with("this process may not write") && !no_term.contains("their/name"), "{no_term}");
    }
}
