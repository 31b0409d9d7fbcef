//! List: a page of a collection at one revision, filtered by selectors.

use std::sync::Arc;

use allotment_machinery::gotext::go_quote;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::selector::{FieldSelector, FieldTerm, LabelSelector};
use allotment_store::{Entry, ListQuery, Revision, Scope, StoreError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memchr::memmem::Finder;

use super::options::{ListOptions, RevisionMatch};
use super::store::{self, Stored};
use super::{Call, Reply};
use crate::registry::Row;
use crate::status::ApiError;

/// How many objects are looked at between two chances for other requests to run.
const CHUNK: usize = 1000;
/// The same in stored bytes, where objects have to be read to be selected.
const CHUNK_BYTES: usize = 64 * 1024;

/// Answers a GET on a collection.
pub(super) async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let options = ListOptions::parse(call.query)?;
    let selection = Selection::of(call.row, &options)?;
    page(call, &options, &selection).await.map(Reply::List)
}

/// A page of a collection, ready to be shown.
pub(crate) struct ListPage {
    pub(super) revision: Revision,
    pub(super) entries: Vec<Arc<Entry>>,
    /// Where the next page begins; empty if there is none.
    pub(super) continue_token: String,
    /// How many come after, where that is known: without selectors.
    pub(super) remaining: Option<usize>,
}

/// Which objects a list or a watch is about.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// What stands in the text of whatever has the labels: their keys, as JSON. Most objects have none of them, and need
    /// not be taken apart to be told so.
    keys: Vec<Finder<'static>>,
}

impl Selection {
    /// What the options select; fields that the kind cannot be selected by are refused.
    pub(super) fn of(row: &Row, options: &ListOptions) -> Result<Self, ApiError> {
        for term in options.fields.terms() {
            check_field(row, &term.field)?;
        }
        // Keys of labels have no character that JSON writes otherwise.
        let keys = options.labels.required_keys().map(|key| Finder::new(&format!("\"{key}\"")).into_owned()).collect();
        Ok(Selection { labels: options.labels.clone(), fields: options.fields.clone(), keys })
    }

    /// The same of the one object that a path names.
    pub(super) fn of_name(mut self, name: &str) -> Result<Self, ApiError> {
        if self.fields.is_everything() {
            self.fields = FieldSelector::of_name(name);
        } else if self.only_name() != Some(name) {
            return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        Ok(self)
    }

    /// Whether everything is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The one name that can be selected at all, if the field selector names it.
    fn only_name(&self) -> Option<&str> {
        let names = |term: &&FieldTerm| term.field == "metadata.name" && !term.negated;
        self.fields.terms().iter().find(names).map(|term| term.value.as_str())
    }

    /// Whether the stored object is selected.
    pub(super) fn selects(&self, row: &Row, stored: &Stored<'_>) -> bool {
        self.is_everything() || (self.selects_names(stored.entry()) && self.selects_content(row, stored))
    }

    /// What can be told without reading the object.
    fn selects_names(&self, entry: &Entry) -> bool {
        self.fields.terms().iter().all(|term| {
            let value = match term.field.as_str() {
                "metadata.name" => &*entry.name,
                "metadata.namespace" => &*entry.namespace,
                _ => return true,
            };
            (value == term.value) != term.negated
        })
    }

    fn selects_content(&self, row: &Row, stored: &Stored<'_>) -> bool {
        let of_metadata = |field: &str| matches!(field, "metadata.name" | "metadata.namespace");
        let needs_fields = self.fields.terms().iter().any(|term| !of_metadata(&term.field));
        if self.labels.is_everything() && !needs_fields {
            return true;
        }
        if !self.keys.iter().all(|key| key.find(stored.body()).is_some()) {
            return false;
        }
        let Ok(object) = store::object_of(row, stored.body()) else { return false };
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
        self.labels.matches(labels)
            && self.fields.terms().iter().filter(|term| !of_metadata(&term.field)).all(|term| {
                let value = field_value(row, &object, &term.field);
                (value == term.value) != term.negated
            })
    }
}

fn check_field(row: &Row, field: &str) -> Result<(), ApiError> {
    let selectable = &row.version().selectable_fields;
    // Cluster-scoped kinds have no namespace to be selected by, but those built-in ones that have no fields
    // of their own do not look.
    let knows_namespace = row.kind.namespaced || (!row.kind.custom && selectable.is_empty());
    if field == "metadata.name"
        || (field == "metadata.namespace" && knows_namespace)
        || selectable.iter().any(|have| have == field)
    {
        return Ok(());
    }
    let message = if row.kind.custom || !selectable.is_empty() {
        row.kind.strategy.unselectable(field)
    } else {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    };
    Err(ApiError::bad_request(message))
}

/// The value of a selectable field as text; empty where it is absent.
fn field_value(row: &Row, object: &Map, field: &str) -> String {
    if let Some(value) = row.kind.strategy.selected_field(object, field) {
        return value;
    }
    let mut parts = field.split('.');
    let first = parts.next().and_then(|name| object.get(name));
    match parts.fold(first, |value, name| value.and_then(|value| value.get(name))) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Which state a list shows and where it begins.
struct Start {
    at: Option<Revision>,
    after: Option<(Arc<str>, Arc<str>)>,
}

/// Reads one page.
pub(super) async fn page(call: &Call<'_>, options: &ListOptions, selection: &Selection) -> Result<ListPage, ApiError> {
    let start = start(call, options, selection).await?;
    let everything = selection.is_everything();
    let (mut at, mut after) = (start.at, start.after);
    if let (Some(name), None, None) = (only_object(call, selection), at, &after) {
        return only(call, name, selection).await;
    }
    let mut entries = Vec::new();
    let whole = options.resource_version == "0" && comes_from_cache(call.row);
    let most = if whole { 0 } else { options.limit };
    loop {
        let limit = if everything { most } else { CHUNK };
        let query = ListQuery { scope: scope(call), at, after: after.clone(), limit };
        let read = call.cx.server.store().list(query).await;
        let tenant = call.cx.tenant.tenant.as_str();
        let page = read.map_err(|error| list_error(tenant, &error, options, after.as_ref()))?;
        at = Some(page.revision);
        let count = page.entries.len();
        let mut read = 0;
        for (index, entry) in page.entries.into_iter().enumerate() {
            after = Some((Arc::clone(&entry.namespace), Arc::clone(&entry.name)));
            if !everything {
                read += entry.body_len();
                if read >= CHUNK_BYTES {
                    read = 0;
                    tokio::task::yield_now().await;
                }
                if !selection.selects(call.row, &Stored::of(&entry)) {
                    continue;
                }
            }
            entries.push(entry);
            let behind = count - index - 1 + page.remaining;
            if most > 0 && entries.len() == most && behind > 0 {
                let continue_token = token(call.cx.tenant.tenant.as_str(), page.revision, after.as_ref());
                let remaining = everything.then_some(behind);
                return Ok(ListPage { revision: page.revision, entries, continue_token, remaining });
            }
        }
        if page.remaining == 0 || count == 0 {
            return Ok(ListPage { revision: page.revision, entries, continue_token: String::new(), remaining: None });
        }
        tokio::task::yield_now().await;
    }
}

/// Whether kube-apiserver answers a list to which any version will do from a cache, and so whole: all but events.
fn comes_from_cache(row: &Row) -> bool {
    row.kind.plural != "events" || !row.kind.shown_group().is_empty()
}

/// The name of the one object that can be selected, if there is only one.
fn only_object<'a>(call: &Call<'_>, selection: &'a Selection) -> Option<&'a str> {
    selection.only_name().filter(|_| !call.row.kind.namespaced || !call.object_namespace().is_empty())
}

/// The page of the one object that can be selected.
async fn only(call: &Call<'_>, name: &str, selection: &Selection) -> Result<ListPage, ApiError> {
    // The revision is read first: the object may be newer than the page says, never older.
    let revision = call.cx.server.store().revision().await.map_err(|error| store::api_error(&error))?;
    let found = store::find(call.cx, &store::key(call.cx, call.row, &call.object_namespace(), name)).await?;
    let entries: Vec<_> = found.into_iter().filter(|entry| selection.selects(call.row, &Stored::of(entry))).collect();
    let revision = entries.iter().map(|entry| entry.revision).fold(revision, Revision::max);
    Ok(ListPage { revision, entries, continue_token: String::new(), remaining: None })
}

/// The part of the collection that the path names.
pub(super) fn scope(call: &Call<'_>) -> Scope {
    let namespace = call.object_namespace();
    Scope {
        tenant: call.cx.tenant.tenant.clone(),
        resource: call.row.kind.resource(),
        namespace: (call.row.kind.namespaced && !namespace.is_empty()).then(|| Arc::from(namespace)),
    }
}

async fn start(call: &Call<'_>, options: &ListOptions, selection: &Selection) -> Result<Start, ApiError> {
    if !options.continue_token.is_empty() {
        return continued(call.cx.tenant.tenant.as_str(), options);
    }
    let asked = match options.resource_version.as_str() {
        "" | "0" => return Ok(Start { at: None, after: None }),
        text => text.parse().map(Revision).map_err(|_| {
            let text = go_quote(text);
            ApiError::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: \
                 invalid syntax"
            ))
        })?,
    };
    let current = call.cx.server.store().revision().await.map_err(|error| store::api_error(&error))?;
    if asked > current {
        return Err(store::too_large_version(asked, current));
    }
    // A limit without a match has always meant exactly this revision, but of lists of one object.
    let exact = match options.resource_version_match {
        Some(version_match) => version_match == RevisionMatch::Exact,
        None => options.limit > 0 && only_object(call, selection).is_none(),
    };
    Ok(Start { at: exact.then_some(asked), after: None })
}

/// The longest token that is read, in bytes: three names of 253 characters and a revision, encoded.
const TOKEN_LIMIT: usize = 1536;

/// Where a page after the first begins: the text `v2 REVISION TENANT/NAMESPACE/NAME`, encoded so that nobody
/// is tempted to rely on it. Revision 0 stands for the newest state.
fn token(tenant: &str, revision: Revision, after: Option<&(Arc<str>, Arc<str>)>) -> String {
    let (namespace, name) = after.map(|(namespace, name)| (&**namespace, &**name)).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(format!("v2 {revision} {tenant}/{namespace}/{name}"))
}

fn continued(tenant: &str, options: &ListOptions) -> Result<Start, ApiError> {
    let invalid =
        || ApiError::bad_request("invalid continue token: continue key is not valid: this server has not given it");
    let start = read_token(tenant, &options.continue_token).ok_or_else(invalid)?;
    if !matches!(options.resource_version.as_str(), "" | "0") {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(start)
}

/// What a token of this tenant says; those of others are none.
fn read_token(tenant: &str, token: &str) -> Option<Start> {
    let token = Some(token).filter(|token| token.len() <= TOKEN_LIMIT)?;
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (revision, after) = text.strip_prefix("v2 ")?.split_once(' ')?;
    let revision: u64 = revision.parse().ok()?;
    let (of, after) = after.split_once('/')?;
    let (namespace, name) = after.split_once('/')?;
    (of == tenant).then(|| Start {
        at: (revision > 0).then_some(Revision(revision)),
        after: Some((Arc::from(namespace), Arc::from(name))),
    })
}

/// A page whose revision is gone can be had no more, but the newest state of what follows can.
fn list_error(
    tenant: &str,
    error: &StoreError,
    options: &ListOptions,
    after: Option<&(Arc<str>, Arc<str>)>,
) -> ApiError {
    if options.continue_token.is_empty() || !matches!(error, StoreError::Compacted { .. }) {
        return store::api_error(error);
    }
    let mut expired = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    expired.details.get_or_insert_default().continue_token = token(tenant, Revision(0), after);
    expired
}
