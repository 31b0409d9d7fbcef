//! The options of requests, as `meta.k8s.io` defines them: read from the query, for deletes also from
//! the body, and validated (`k8s.io/apimachinery/pkg/apis/meta/v1/validation`).

use std::num::{IntErrorKind, ParseIntError};

use allotment_machinery::field::{FieldError, Path, ShownValue};
use allotment_machinery::gotext::go_quote;
use allotment_machinery::json::Value;
use allotment_machinery::selector::{FieldSelector, FieldSelectorError, LabelSelector, SelectorParseError};

use crate::query::Query;
use crate::status::ApiError;

/// What happens to fields that a kind does not know and to keys that stand twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// Options that all writes share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// Whether the body gives a number another type than the stored one has; found when it is read.
    pub(crate) retyped: bool,
}

/// The longest `fieldManager`, in bytes.
const FIELD_MANAGER_LIMIT: usize = 128;

impl WriteOptions {
    /// Reads `CreateOptions` or `UpdateOptions`.
    pub(crate) fn parse(query: &Query, kind: &'static str) -> Result<Self, ApiError> {
        let (options, errors) = WriteOptions::read(query);
        refuse(kind, &errors)?;
        Ok(options)
    }

    /// Reads `PatchOptions` of a patch that is not an apply.
    pub(crate) fn parse_patch(query: &Query) -> Result<Self, ApiError> {
        let (options, mut errors) = WriteOptions::read(query);
        if query.get("force").is_some() {
            errors.push(FieldError::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        refuse("PatchOptions", &errors)?;
        Ok(options)
    }

    /// Reads `PatchOptions` of an apply, and whether fields are taken from whoever owns them.
    pub(crate) fn parse_apply(query: &Query) -> Result<(Self, bool), ApiError> {
        let (options, mut errors) = WriteOptions::read(query);
        if query.text("fieldManager").is_empty() {
            errors.insert(0, FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
        }
        refuse("PatchOptions", &errors)?;
        Ok((options, query.flag("force")))
    }

    fn read(query: &Query) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let manager = query.text("fieldManager");
        if manager.len() > FIELD_MANAGER_LIMIT {
            errors.push(FieldError::too_long(&Path::new("fieldManager"), FIELD_MANAGER_LIMIT));
        }
        if let Some((position, character)) = manager.chars().enumerate().find(|(_, c)| c.is_control()) {
            let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
            errors.push(FieldError::invalid(&Path::new("fieldManager"), shown(manager), detail));
        }
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        errors.extend(check_dry_run(&dry_run));
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(&Path::new("fieldValidation"), other, &supported));
                FieldValidation::Warn
            }
        };
        (WriteOptions { dry_run: !dry_run.is_empty(), field_validation, retyped: false }, errors)
    }
}

/// A text quoted as Go quotes it, the bell included.
fn shown(text: &str) -> ShownValue {
    if text.contains('\u{7}') {
        ShownValue::raw(format!("\"{}\"", text.replace('\u{7}', "\\a")))
    } else {
        ShownValue::from(text)
    }
}

fn check_dry_run(values: &[&str]) -> Option<FieldError> {
    let other = values.iter().any(|value| *value != "All");
    let all = Value::from(values.iter().map(|value| Value::from(*value)).collect::<Vec<_>>());
    other.then(|| FieldError::not_supported(&Path::new("dryRun"), &all, &["All"]))
}

fn refuse(kind: &'static str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", errors)) }
}

/// A whole number in an option.
fn integer(query: &Query, name: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        ApiError::bad_request(format!("strconv.ParseInt: parsing {}: {why}", go_quote(text)))
    })
}

/// Which revision a list may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevisionMatch {
    NotOlderThan,
    Exact,
}

/// `ListOptions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: Option<RevisionMatch>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads the options of a list or a watch. What cannot be read is told of before what does not go together.
    pub(crate) fn parse(query: &Query) -> Result<Self, ApiError> {
        let timeout = integer(query, "timeoutSeconds")?;
        let limit = integer(query, "limit")?.unwrap_or_default();
        let labels = query.text("labelSelector").parse();
        let labels = labels.map_err(|error: SelectorParseError| ApiError::bad_request(error.to_string()))?;
        let fields = query.text("fieldSelector").parse();
        let fields = fields.map_err(|error: FieldSelectorError| ApiError::bad_request(error.to_string()))?;
        let mut options = ListOptions {
            labels,
            fields,
            // A negative limit is none.
            limit: usize::try_from(limit).unwrap_or_default(),
            continue_token: query.text("continue").to_owned(),
            resource_version: query.text("resourceVersion").to_owned(),
            resource_version_match: None,
            timeout_seconds: timeout.and_then(|seconds| u64::try_from(seconds).ok()),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
        };
        let watch = query.flag("watch");
        let mut version_match = query.text("resourceVersionMatch");
        // A watch of the newest state, or of any, has always begun with what there is.
        let from_now = matches!(options.resource_version.as_str(), "" | "0");
        if watch && from_now && options.send_initial_events.is_none() && version_match.is_empty() {
            (options.send_initial_events, version_match) = (Some(true), "NotOlderThan");
        }
        options.resource_version_match = match version_match {
            "NotOlderThan" => Some(RevisionMatch::NotOlderThan),
            "Exact" => Some(RevisionMatch::Exact),
            _ => None,
        };
        let errors = if watch { options.check_watch(version_match) } else { options.check(version_match) };
        refuse("ListOptions", &errors)?;
        Ok(options)
    }

    /// `ValidateListOptions`: which options go together.
    fn check(&self, version_match: &str) -> Vec<FieldError> {
        let at_match = Path::new("resourceVersionMatch");
        let forbidden = |detail: &str| FieldError::forbidden(&at_match, detail);
        let mut errors = Vec::new();
        if !version_match.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if !self.continue_token.is_empty() {
                errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
            if self.resource_version_match.is_none() {
                errors.push(FieldError::not_supported(&at_match, version_match, &["Exact", "NotOlderThan", ""]));
            }
            if self.resource_version_match == Some(RevisionMatch::Exact) && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(forbidden(detail));
            }
        }
        if self.send_initial_events.is_some() {
            let at = Path::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&at, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn check_watch(&self, version_match: &str) -> Vec<FieldError> {
        let at = Path::new("resourceVersionMatch");
        let forbidden = |detail: &str| FieldError::forbidden(&at, detail);
        let mut errors = Vec::new();
        if self.send_initial_events.is_some() && version_match != "NotOlderThan" {
            errors.push(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if version_match.is_empty() {
            return errors;
        }
        if self.send_initial_events.is_none() {
            errors.push(forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
        }
        if version_match != "NotOlderThan" {
            errors.push(FieldError::not_supported(&at, version_match, &["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        errors
    }
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Foreground,
    Background,
    Orphan,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// `orphanDependents: false` was given, and so a deletion that takes time is answered with 202.
    pub(crate) answers_accepted: bool,
}

impl DeleteOptions {
    /// Reads the options of a delete: those of the body, if there is one, else those of the query.
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self, ApiError> {
        let source = match body {
            Some(body) => Source::of_body(body)?,
            None => Source::of_query(query)?,
        };
        source.validate()
    }
}

/// Options as they were given.
#[derive(Default)]
struct Source {
    dry_run: Vec<String>,
    propagation: Option<String>,
    orphan: Option<bool>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Source {
    fn of_query(query: &Query) -> Result<Self, ApiError> {
        integer(query, "gracePeriodSeconds")?;
        Ok(Source {
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
            propagation: query.get("propagationPolicy").map(str::to_owned),
            orphan: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
            uid: query.get("preconditions.uid").map(str::to_owned),
            resource_version: query.get("preconditions.resourceVersion").map(str::to_owned),
        })
    }

    fn of_body(body: &Value) -> Result<Self, ApiError> {
        let text = |path: &[&str]| body.at(path).and_then(Value::as_str).map(str::to_owned);
        if let Some(kind) = text(&["kind"]).filter(|kind| kind != "DeleteOptions") {
            let version = text(&["apiVersion"]).unwrap_or_default();
            let message = format!("no kind {kind:?} is registered for version {version:?} as options of a delete");
            return Err(ApiError::bad_request(message));
        }
        let dry_run = body.get("dryRun").and_then(Value::as_array).unwrap_or_default();
        Ok(Source {
            dry_run: dry_run.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect(),
            propagation: text(&["propagationPolicy"]),
            orphan: body.get("orphanDependents").and_then(Value::as_bool),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
        })
    }

    fn validate(self) -> Result<DeleteOptions, ApiError> {
        let mut errors = Vec::new();
        let at_policy = Path::new("propagationPolicy");
        let policy = self.propagation.as_deref();
        if let (Some(policy), Some(_)) = (policy, self.orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&at_policy, policy, detail));
        }
        let propagation = match policy {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&at_policy, other, &supported));
                None
            }
        };
        let dry_run: Vec<&str> = self.dry_run.iter().map(String::as_str).collect();
        errors.extend(check_dry_run(&dry_run));
        refuse("DeleteOptions", &errors)?;
        let of_orphan = self.orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
        Ok(DeleteOptions {
            dry_run: !dry_run.is_empty(),
            propagation: propagation.or(of_orphan),
            uid: self.uid.filter(|uid| !uid.is_empty()),
            resource_version: self.resource_version.filter(|version| !version.is_empty()),
            answers_accepted: self.orphan == Some(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_list(query: &str, expect: Option<&str>) {
        let error = ListOptions::parse(&Query::parse(query)).err();
        let message = error.map(|error| error.message);
        let got = message.as_deref().map(|text| text.trim_start_matches("ListOptions.meta.k8s.io \"\" is invalid: "));
        assert_eq!(got, expect, "{query}");
    }

    #[test]
    fn list_options_that_do_not_go_together_are_refused() {
        const CONTINUED: &str =
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
        const SENT: &str = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
        check_list("limit=5&resourceVersion=0", None);
        check_list("limit=-1", None);
        check_list(
            "resourceVersion=0&resourceVersionMatch=Exact",
            Some(
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
        );
        check_list("sendInitialEvents=true", Some(SENT));
        check_list("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", None);
        check_list("watch=1&continue=x", Some(CONTINUED));
        check_list("watch=1&continue=x&resourceVersion=5", None);
        check_list("watch=0&sendInitialEvents=true", Some(SENT));
    }

    #[test]
    fn options_that_cannot_be_read_are_told_of_first() {
        for (query, why) in [
            ("limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("limit=", "strconv.ParseInt: parsing \"\": invalid syntax"),
            ("limit=x&timeoutSeconds=99999999999999999999", "parsing \"99999999999999999999\": value out of range"),
            ("labelSelector=a%3D%3D%3Db", "unable to parse requirement"),
            ("fieldSelector=nope", "invalid selector"),
        ] {
            let error = ListOptions::parse(&Query::parse(&format!("{query}&sendInitialEvents=true"))).expect_err(query);
            assert!(error.code == 400 && error.message.contains(why), "{query}: {}", error.message);
        }
    }

    #[test]
    fn options_of_a_delete_come_from_the_body_if_there_is_one() {
        let query = Query::parse("propagationPolicy=Orphan&dryRun=All");
        let of_query = DeleteOptions::parse(&query, None).expect("valid");
        assert_eq!((of_query.propagation, of_query.dry_run), (Some(Propagation::Orphan), true));
        let body = allotment_machinery::json!({"kind": "DeleteOptions", "propagationPolicy": "Background"});
        let of_body = DeleteOptions::parse(&query, Some(&body)).expect("valid");
        assert_eq!((of_body.propagation, of_body.dry_run), (Some(Propagation::Background), false));
    }

    #[test]
    fn options_of_a_write_are_validated() {
        let parse = |query: &str| WriteOptions::parse(&Query::parse(query), "CreateOptions");
        assert!(parse("dryRun=All&dryRun=All").expect("valid").dry_run);
        for query in ["dryRun=all", "dryRun=", "fieldValidation=strict", "fieldManager=%07"] {
            assert_eq!(parse(query).expect_err(query).code, 422);
        }
    }
}
