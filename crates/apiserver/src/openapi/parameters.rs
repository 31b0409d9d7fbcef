//! The parameters that operations take in their path and query.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::names::Form;

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: &'static str,
    kind: &'static str,
    description: &'static str,
}

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "query", kind, description }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "path", kind: "string", description }
}

pub(super) const NAME: Parameter = path("name", "The name of the object.");
pub(super) const NAMESPACE: Parameter = path("namespace", "The namespace of the object.");
pub(super) const PRETTY: Parameter = query("pretty", "string", "true for an answer that is easy to read.");

const CONTINUE: Parameter =
    query("continue", "string", "Where the last page ended, as its metadata.continue said; the other options stay.");
const DRY_RUN: Parameter = query("dryRun", "string", "All: check the request and answer it, but keep nothing.");
const FIELD_MANAGER: Parameter = query("fieldManager", "string", "Who makes the change: at most 128 characters.");
const FIELD_SELECTOR: Parameter = query("fieldSelector", "string", "Only objects with these values of fields.");
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What becomes of unknown and duplicate fields: Strict refuses, Warn drops and tells, Ignore drops.",
);
const FORCE: Parameter = query("force", "boolean", "Of an apply: take fields over that others manage.");
const GRACE_PERIOD: Parameter =
    query("gracePeriodSeconds", "integer", "How long the object may take to end; 0: at once.");
const LABEL_SELECTOR: Parameter = query("labelSelector", "string", "Only objects with these labels.");
const LIMIT: Parameter = query("limit", "integer", "The most objects of one page.");
const ORPHAN: Parameter = query("orphanDependents", "boolean", "The old form of propagationPolicy=Orphan.");
const PROPAGATION: Parameter =
    query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground.");
/// Of which state an object or a list is wanted.
pub(super) const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    "string",
    "Which state is wanted, as resourceVersionMatch says; of a watch, where it begins.",
);
const RESOURCE_VERSION_MATCH: Parameter =
    query("resourceVersionMatch", "string", "Exact: that state; NotOlderThan: that one or a newer.");
const INITIAL_EVENTS: Parameter =
    query("sendInitialEvents", "boolean", "Of a watch: begin with what there is, then a bookmark.");
const TIMEOUT: Parameter = query("timeoutSeconds", "integer", "When the list or watch ends at the latest.");
const BOOKMARKS: Parameter = query("allowWatchBookmarks", "boolean", "Of a watch: send bookmarks too.");
const WATCH: Parameter = query("watch", "boolean", "Send changes as they come instead of a list.");

/// What creates and replacements take.
pub(super) const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
/// What patches take.
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
/// What deletions take.
pub(super) const DELETE: &[Parameter] = &[DRY_RUN, GRACE_PERIOD, ORPHAN, PROPAGATION];
/// What lists and watches take.
pub(super) const LIST: &[Parameter] = &[
    BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    INITIAL_EVENTS,
    TIMEOUT,
    WATCH,
];
/// What deletions of many objects take.
pub(super) const DELETE_COLLECTION: &[Parameter] = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PROPAGATION,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    INITIAL_EVENTS,
    TIMEOUT,
];

impl Parameter {
    /// As it stands among an operation's or a path's parameters.
    pub(super) fn render(&self, form: Form) -> Value {
        let mut value = json!({"name": (self.name), "in": (self.place), "description": (self.description)});
        if let Some(map) = value.as_object_mut() {
            match form {
                Form::Two => {
                    map.insert("type", self.kind);
                    map.insert("uniqueItems", true);
                }
                Form::Three => {
                    map.insert("schema", json!({"type": (self.kind), "uniqueItems": true}));
                }
            }
            if self.place == "path" {
                map.insert("required", true);
            }
        }
        value
    }
}
