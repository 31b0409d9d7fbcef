//! Admission of our kinds, in this process: the one handler of `allotment-admission`, called directly.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use allotment_admission::catalog::{Case, Stage, Write, is_judged};
use allotment_admission::{Caller, Concerns, Config, Denial, Operation, Request, concerns, is_watched, review, stamp};
use allotment_api::names::{is_judged_group, provider_of_user};
use allotment_apiserver::auth::UserInfo;
use allotment_apiserver::server::{AdmissionOperation, AdmissionRequest, AdmissionTurn, InProcessAdmission};
use allotment_apiserver::status::{About, ApiError};
use allotment_controllers::Controllers;
use allotment_core::catalog::{Catalog, ProfileKey};
use allotment_core::write::ObjectKey;
use allotment_machinery::json;
use allotment_machinery::seams::Clock;
use async_trait::async_trait;
use kube::Client;
use tokio::time::timeout;

use crate::catalog::{Known, Lookups};
use crate::lately::Lately;
use crate::turns::{Needs, Turns};

/// The user name of the platform's own controllers.
pub const CONTROLLERS: &str = "system:allotment:controllers";

/// How long is listed what the mirror may not have seen, before it is taken as it is: less than all lookups may take.
const HEARING_LIMIT: Duration = Duration::from_secs(2);
/// How long a write waits for its turn. Meanwhile it holds a place that others could have.
const TURN_LIMIT: Duration = Duration::from_secs(5);
/// How deep an object of ours may be nested.
const MOST_DEEP: usize = 120;
const MANAGED_FIELDS: &str = "managedFields";
/// The member of a spec that says who asks.
const REQUESTED_BY: &str = "requestedBy";
/// Why a final object is refused that `mutate` has not seen.
const UNSTAMPED: &str =
    "it was not stamped with who asks; the MutatingWebhookConfiguration of the platform is missing or overruled";

/// Reviews writes of our kinds on the platform's own API.
pub(crate) struct OurKinds {
    config: Config,
    clock: Arc<dyn Clock>,
    /// What the scheduler sees, once the controllers run.
    controllers: RwLock<Option<Arc<Controllers>>>,
    /// For the catalog's kinds; nothing where they are somebody else's.
    lookups: Option<Lookups>,
    turns: Turns,
    lately: Lately,
}

impl fmt::Debug for OurKinds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OurKinds").field("config", &self.config).finish_non_exhaustive()
    }
}

impl OurKinds {
    /// Admission that knows the platform's own identity, by its user name.
    pub(crate) fn new(platform_user: &str, clock: Arc<dyn Clock>) -> Self {
        let config = Config { platform_users: [platform_user.to_owned()].into() };
        OurKinds {
            config,
            clock,
            controllers: RwLock::default(),
            lookups: Some(Lookups::default()),
            turns: Turns::default(),
            lately: Lately::default(),
        }
    }

    /// The same where the catalog's kinds are somebody else's.
    pub(crate) fn without_catalog(self) -> Self {
        OurKinds { lookups: None, ..self }
    }

    /// From now on what writes of the catalog's kinds depend on is asked of this client.
    pub(crate) fn set_client(&self, client: Client) {
        if let Some(lookups) = &self.lookups {
            lookups.set_client(client);
        }
    }

    /// From now on warnings tell what these controllers would decide.
    pub(crate) fn set_controllers(&self, controllers: Arc<Controllers>) {
        *self.controllers.write().unwrap_or_else(PoisonError::into_inner) = Some(controllers);
    }

    /// From now on no warnings tell what would be decided.
    pub(crate) fn clear_controllers(&self) {
        *self.controllers.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn concerns(&self, request: &AdmissionRequest<'_>) -> Concerns {
        concerns(&self.config, &caller(request.user), request.kind, request.subresource)
    }

    /// Shows the write to `judge` as the handler takes it; what is refused becomes the API's error.
    fn with_request<T>(
        &self,
        request: &AdmissionRequest<'_>,
        judge: impl FnOnce(&Request<'_>) -> Result<T, Denial>,
    ) -> Result<Option<T>, ApiError> {
        let Some(operation) = operation(request) else { return Ok(None) };
        if !is_judged_group(request.group)
            && (provider_of_user(&request.user.name).is_none() || !is_watched(request.group, request.resource))
        {
            return Ok(None);
        }
        let read = |value: &json::Value| {
            let too_deep = format!("the object cannot be read: it is nested more than {MOST_DEEP} deep");
            shown(value).ok_or_else(|| ApiError::bad_request(too_deep))
        };
        let (object, old_object): (serde_json::Value, serde_json::Value) = (read(request.object)?, read(request.old)?);
        let shown = Request {
            operation,
            group: request.group,
            kind: request.kind,
            resource: request.resource,
            subresource: request.subresource,
            namespace: request.namespace,
            name: request.name,
            object: &object,
            old_object: &old_object,
            caller: &caller(request.user),
            dry_run: request.dry_run,
            now: self.clock.now(),
        };
        judge(&shown).map(Some).map_err(|denial| refusal(denial, request))
    }
}

/// What is done, as the rules call it; nothing of ours is connected to.
fn operation(request: &AdmissionRequest<'_>) -> Option<Operation> {
    match request.operation {
        AdmissionOperation::Create => Some(Operation::Create),
        AdmissionOperation::Update => Some(Operation::Update),
        AdmissionOperation::Delete => Some(Operation::Delete),
        AdmissionOperation::Connect => None,
    }
}

#[async_trait]
impl Known for OurKinds {
    fn with_catalog(&self, look: &mut dyn FnMut(&Catalog)) {
        let controllers = self.controllers.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(controllers) = controllers {
            controllers.with_catalog(|catalog| look(catalog));
        }
    }

    async fn hear_of_users(&self, client: &Client, profile: &ProfileKey) {
        let controllers = self.controllers.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(controllers) = controllers {
            let doubted = |shown: &Catalog| match profile {
                ProfileKey::Cloud(_) => self.lately.not_in(shown),
                ProfileKey::Private(_) => BTreeSet::new(),
            };
            controllers.hear_of_users(client, profile, doubted, HEARING_LIMIT).await;
        }
    }
}

/// Admission of the catalog's kinds.
impl OurKinds {
    /// What looks things up for a write, if it is of one of these kinds.
    fn lookups(&self, request: &AdmissionRequest<'_>) -> Option<&Lookups> {
        self.lookups.as_ref().filter(|_| is_judged(request.group, request.kind))
    }

    /// The turns of a write of the catalog, that of a private profile before its parent's. Nobody uses yet what is about to get
    /// a name.
    async fn turn_of(&self, needs: Needs, lookups: &Lookups) -> Result<Option<AdmissionTurn>, ApiError> {
        let parent = |name: String| self.turns.shared(ProfileKey::Cloud(name));
        Ok(Some(match needs {
            Needs::Nothing => return Ok(None),
            Needs::Cloud(name) => self.turns.alone(ProfileKey::Cloud(name)).await,
            Needs::Private(key, name) if key.name.is_empty() => parent(name).await,
            Needs::Private(key, name) => {
                let own = self.turns.alone(ProfileKey::Private(key)).await;
                Box::new((own, parent(name).await))
            }
            Needs::Use(ProfileKey::Cloud(name)) => parent(name).await,
            Needs::Use(ProfileKey::Private(key)) => {
                let own = self.turns.shared(ProfileKey::Private(key.clone())).await;
                match lookups.parent_of(&key, self).await? {
                    Some(name) => Box::new((own, parent(name).await)),
                    None => own,
                }
            }
        }))
    }

    async fn mutate_catalog(
        &self,
        lookups: &Lookups,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<Vec<String>, ApiError> {
        let by = caller(request.user);
        let Some(write) = self.write(request, &by) else { return Ok(Vec::new()) };
        let case = Case::read_to_change(&self.config, &write).map_err(|denial| refusal(denial, request))?;
        let Some(case) = case else { return Ok(Vec::new()) };
        let facts = lookups.facts(&case, Stage::Mutate, self, request.user, &write).await?;
        let changes = case.changes(&facts);
        if !changes.is_empty() {
            changes.apply(request.object);
        }
        Ok(changes.warnings)
    }

    async fn judge_catalog(&self, lookups: &Lookups, request: &AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        let by = caller(request.user);
        let Some(write) = self.write(request, &by) else { return Ok(Vec::new()) };
        let case = Case::read(&self.config, &write).map_err(|denial| refusal(denial, request))?;
        let Some(case) = case else { return Ok(Vec::new()) };
        let facts = lookups.facts(&case, Stage::Validate, self, request.user, &write).await?;
        let warnings = case.judge(&facts).map_err(|denial| refusal(denial, request))?;
        if request.kind == "PrivateCloudProfile" && request.subresource.is_empty() && !request.dry_run {
            let over = request.old.at(&["metadata", "resourceVersion"]).and_then(json::Value::as_str);
            self.let_through(ObjectKey::new(request.namespace, case.name()), over);
        }
        Ok(warnings)
    }

    /// The mirror of private profiles lags until it shows that write.
    fn let_through(&self, profile: ObjectKey, over: Option<&str>) {
        self.lately.forget(None);
        self.with_catalog(&mut |shown| self.lately.forget(Some(shown)));
        self.lately.let_through(profile, over.map(str::to_owned));
    }

    async fn complete_catalog(&self, lookups: &Lookups, request: &mut AdmissionRequest<'_>) -> Result<(), ApiError> {
        let by = caller(request.user);
        let Some(write) = self.write(request, &by) else { return Ok(()) };
        let Some(case) = Case::read_to_complete(&write) else { return Ok(()) };
        let facts = lookups.facts(&case, Stage::Complete, self, request.user, &write).await?;
        let Some(status) = case.status(&facts) else { return Ok(()) };
        let text = serde_json::to_vec(&status).map_err(|error| ApiError::internal(error.to_string()))?;
        let status = json::parse(&text).map_err(|error| ApiError::internal(error.to_string()))?;
        if let Some(object) = request.object.as_object_mut() {
            object.insert("status", status);
        }
        Ok(())
    }

    /// A write as the rules of the catalog take it.
    fn write<'a>(&self, request: &'a AdmissionRequest<'_>, caller: &'a Caller) -> Option<Write<'a>> {
        Some(Write {
            operation: operation(request)?,
            kind: request.kind,
            subresource: request.subresource,
            namespace: request.namespace,
            name: request.name,
            object: &*request.object,
            old: request.old,
            caller,
            now: self.clock.now(),
        })
    }
}

/// An object as the handler reads it: without who owns what in it, which is half of it and nothing to the handler.
/// `None` if it is too deep.
fn shown(object: &json::Value) -> Option<serde_json::Value> {
    let Some(members) = object.as_object() else { return tree(object, MOST_DEEP) };
    let show = |(name, value): (&str, &json::Value)| {
        let value = match value.as_object().filter(|_| name == "metadata") {
            Some(metadata) => {
                let kept = metadata.iter().filter(|(name, _)| *name != MANAGED_FIELDS);
                kept.map(|(name, value)| Some((name.to_owned(), tree(value, MOST_DEEP - 2)?))).collect::<Option<_>>()?
            }
            None => tree(value, MOST_DEEP - 1)?,
        };
        Some((name.to_owned(), value))
    };
    members.iter().map(show).collect()
}

/// The same JSON, if it is no deeper than that.
fn tree(value: &json::Value, deep: usize) -> Option<serde_json::Value> {
    Some(match value {
        json::Value::Null => serde_json::Value::Null,
        json::Value::Bool(value) => serde_json::Value::Bool(*value),
        json::Value::Number(number) => serde_json::from_str(number.as_str()).ok()?,
        json::Value::String(text) => serde_json::Value::String(text.clone()),
        json::Value::Array(items) => {
            let deep = deep.checked_sub(1)?;
            items.iter().map(|item| tree(item, deep)).collect::<Option<_>>()?
        }
        json::Value::Object(members) => {
            let deep = deep.checked_sub(1)?;
            let show = |(name, value): (&str, &json::Value)| Some((name.to_owned(), tree(value, deep)?));
            members.iter().map(show).collect::<Option<_>>()?
        }
    })
}

/// Puts who asks where the rules put it; nothing else is written anew, so that numbers keep their text.
fn put_stamp(object: &mut json::Value, stamped: &serde_json::Value) -> Result<(), ApiError> {
    let Some(spec) = object.get_mut("spec").and_then(json::Value::as_object_mut) else { return Ok(()) };
    let text =
        serde_json::to_vec(&stamped["spec"][REQUESTED_BY]).map_err(|error| ApiError::internal(error.to_string()))?;
    spec.insert(REQUESTED_BY, json::parse(&text).map_err(|error| ApiError::internal(error.to_string()))?);
    Ok(())
}

fn caller(user: &UserInfo) -> Caller {
    Caller { username: user.name.clone(), uid: user.uid.clone(), groups: user.groups.clone() }
}

fn refusal(denial: Denial, request: &AdmissionRequest<'_>) -> ApiError {
    match denial {
        Denial::Invalid(errors) => ApiError::invalid(request.group, request.kind, request.name, &errors),
        Denial::Forbidden(why) => {
            let about = About { group: request.group, resource: request.resource, name: request.name };
            ApiError::forbidden(about, &why)
        }
    }
}

#[async_trait]
impl InProcessAdmission for OurKinds {
    fn covers(&self, group: &str, resource: &str, _namespace: &str) -> bool {
        let of_catalog = group == allotment_api::catalog::GROUP && self.lookups.is_some();
        of_catalog || is_judged_group(group) || matches!(resource, "customresourcedefinitions" | "providerconfigs")
    }

    async fn turn(&self, request: &AdmissionRequest<'_>) -> Result<Option<AdmissionTurn>, ApiError> {
        match self.lookups(request).filter(|_| request.tenant.is_platform()) {
            Some(lookups) => {
                let turn = timeout(TURN_LIMIT, self.turn_of(Needs::of(request), lookups)).await;
                turn.unwrap_or_else(|_| {
                    let text =
                        "too many writes wait for their profile, or it takes long; nothing was written, try again";
                    Err(ApiError::unavailable(text))
                })
            }
            None => Ok(None),
        }
    }

    async fn mutate(&self, request: &mut AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        // In a logical cluster a group of this name is its owner's.
        if !request.tenant.is_platform() {
            return Ok(Vec::new());
        }
        if let Some(lookups) = self.lookups(request) {
            return self.mutate_catalog(lookups, request).await;
        }
        if !self.concerns(request).stamp {
            return Ok(Vec::new());
        }
        let stamped = self.with_request(request, |request| stamp(&self.config, request))?.flatten();
        if let Some(changed) = stamped {
            put_stamp(request.object, &changed)?;
        }
        Ok(Vec::new())
    }

    async fn validate(&self, request: &AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        if !request.tenant.is_platform() {
            return Ok(Vec::new());
        }
        if let Some(lookups) = self.lookups(request) {
            return self.judge_catalog(lookups, request).await;
        }
        if !self.concerns(request).review {
            return Ok(Vec::new());
        }
        let reviewed = self.with_request(request, |request| {
            if stamp(&self.config, request)?.is_some() {
                // Enforcement relies on the stamp; where it was not made, or undone, nothing passes.
                return Err(Denial::Forbidden(UNSTAMPED.to_owned()));
            }
            match &*self.controllers.read().unwrap_or_else(PoisonError::into_inner) {
                Some(controllers) => {
                    controllers.with_snapshot(|snapshot| review(&self.config, Some(snapshot), request))
                }
                None => review(&self.config, None, request),
            }
        })?;
        Ok(reviewed.map(|reviewed| reviewed.warnings).unwrap_or_default())
    }

    async fn complete(&self, request: &mut AdmissionRequest<'_>) -> Result<(), ApiError> {
        match self.lookups(request).filter(|_| request.tenant.is_platform()) {
            Some(lookups) => self.complete_catalog(lookups, request).await,
            None => Ok(()),
        }
    }
}
