//! Runs admission over a write: what every API server checks of namespaces, then the rules that were
//! handed in.

use allotment_machinery::json::{Map, Value};
use allotment_store::{Entry, Key, Resource};
use std::sync::Arc;

use super::store;
use crate::auth;
use crate::registry::Row;
use crate::server::{AdmissionOperation, AdmissionRequest, AdmissionTurn, Context};
use crate::status::{About, ApiError, Cause};

/// The turns of a write, held until it is stored.
pub(super) type Turns = Vec<AdmissionTurn>;

/// One write on its way through admission.
pub(super) struct Admission<'a> {
    pub(super) cx: &'a Context,
    pub(super) row: &'a Row,
    pub(super) operation: AdmissionOperation,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) dry_run: bool,
}

impl Admission<'_> {
    fn covered(&self) -> bool {
        let admission = self.cx.server.admission();
        admission.iter().any(|one| one.covers(&self.row.kind.group, &self.row.kind.plural, self.namespace))
    }

    /// Waits for the write's turn, which is to be held until it is stored. Who waited may have been overtaken.
    pub(super) async fn turn(&self, object: Map, old: Option<&Value>) -> Result<(Map, Turns), ApiError> {
        self.run(object, old, Step::Turn).await
    }

    /// Whether, by the time that it is a write's turn, something else is stored than what it is about to replace.
    pub(super) async fn is_overtaken(&self, turns: &Turns, current: &Entry) -> Result<bool, ApiError> {
        if turns.is_empty() {
            return Ok(false);
        }
        let now = store::find(self.cx, &current.key(&self.cx.tenant.tenant)).await?;
        Ok(now.is_none_or(|now| now.revision != current.revision))
    }

    /// Lets every rule change the object.
    pub(super) async fn mutate(&self, object: Map, old: Option<&Value>) -> Result<Map, ApiError> {
        let (object, _) = self.run(object, old, Step::Mutate).await?;
        let (kind, old) = (&self.row.kind, old.and_then(Value::as_object));
        auth::check_escalation(self.cx, &kind.group, &kind.plural, &object, old).await?;
        Ok(object)
    }

    /// Lets every rule judge the object, then complete it.
    pub(super) async fn validate(&self, object: Map, old: Option<&Value>) -> Result<Map, ApiError> {
        let (object, _) = self.run(object, old, Step::Validate).await?;
        Ok(self.run(object, old, Step::Complete).await?.0)
    }

    async fn run(&self, object: Map, old: Option<&Value>, step: Step) -> Result<(Map, Turns), ApiError> {
        if !self.covered() {
            return Ok((object, Turns::new()));
        }
        let mut object = Value::Object(object);
        let turns = self.each(&mut object, old.unwrap_or(&Value::Null), step).await?;
        match object {
            Value::Object(map) => Ok((map, turns)),
            _ => Err(ApiError::internal("admission made something else of an object")),
        }
    }

    /// Waits for a deletion's turn, which is to be held until it is done.
    pub(super) async fn turn_to_delete(&self, old: &Value) -> Result<Turns, ApiError> {
        if !self.covered() {
            return Ok(Turns::new());
        }
        self.each(&mut Value::Null, old, Step::Turn).await
    }

    /// Lets every rule judge a deletion.
    pub(super) async fn delete(&self, old: &Value) -> Result<(), ApiError> {
        if self.covered() {
            self.each(&mut Value::Null, old, Step::Mutate).await?;
            self.each(&mut Value::Null, old, Step::Validate).await?;
        }
        Ok(())
    }

    async fn each(&self, object: &mut Value, old: &Value, step: Step) -> Result<Turns, ApiError> {
        let kind = &self.row.kind;
        let mut turns = Turns::new();
        for one in self.cx.server.admission().iter().filter(|one| one.covers(&kind.group, &kind.plural, self.namespace))
        {
            let mut request = AdmissionRequest {
                tenant: &self.cx.tenant.tenant,
                user: &self.cx.user,
                operation: self.operation,
                group: &kind.group,
                version: &self.row.version().name,
                kind: &kind.kind,
                resource: &kind.plural,
                subresource: &self.cx.info.subresource,
                namespace: self.namespace,
                name: self.name,
                dry_run: self.dry_run,
                object,
                old,
            };
            let warnings = match step {
                Step::Turn => {
                    turns.extend(one.turn(&request).await?);
                    Vec::new()
                }
                Step::Mutate => one.mutate(&mut request).await?,
                Step::Validate => one.validate(&request).await?,
                Step::Complete => one.complete(&mut request).await.map(|()| Vec::new())?,
            };
            warnings.into_iter().for_each(|text| self.cx.warn(text));
        }
        Ok(turns)
    }
}

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Turn,
    Mutate,
    Validate,
    Complete,
}

/// Refuses a new object in a namespace that is absent (404) or going away (403).
pub(super) async fn check_namespace(cx: &Context, row: &Row, namespace: &str, name: &str) -> Result<(), ApiError> {
    let key = Key {
        tenant: cx.tenant.tenant.clone(),
        resource: Resource::new("namespaces", ""),
        namespace: Arc::from(""),
        name: Arc::from(namespace),
    };
    let Some(entry) = store::find(cx, &key).await? else {
        return Err(ApiError::not_found(About { group: "", resource: "namespaces", name: namespace }));
    };
    if !is_terminating(&entry.body()) {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut error = ApiError::forbidden(store::about(row, name), &why);
    error.details.get_or_insert_default().causes.push(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    Err(error)
}

/// Whether a stored object has a deletion timestamp. Most have none, which a search for its name tells
/// without parsing.
fn is_terminating(body: &[u8]) -> bool {
    const NAME: &[u8] = b"\"deletionTimestamp\"";
    // The second byte alone tells most places apart, at a tenth of the cost.
    body.windows(NAME.len()).any(|window| window[1] == NAME[1] && window == NAME)
        && allotment_machinery::json::parse(body)
            .is_ok_and(|object| object.at(&["metadata", "deletionTimestamp"]).is_some())
}
