//! Server-side apply: a patch that says all that its sender wants of an object, and owns it.
//!
//! What becomes of the object is decided by [`allotment_machinery::apply`]; what is checked around it, and
//! in which order, follows kube-apiserver's patch handler.

use allotment_machinery::apply::{Applied, Conflicts, Managers, UpdateError, Versions, set_managers, show_kind};
use allotment_machinery::json::{self, Map, Value};
use allotment_machinery::object::{metadata_mut, metadata_str};
use allotment_machinery::schema::normalise_numbers;
use allotment_machinery::yaml;

use super::options::{FieldValidation, WriteOptions};
use super::ownership::{self, KindVersions};
use super::store::{self, about};
use super::update::{ATTEMPTS, MODIFIED, Revision, replace_owned};
use super::{Call, Reply, create, decode, metadata};
use crate::registry::Row;
use crate::status::{ApiError, Cause};

/// An apply, read.
pub(super) struct Configuration {
    /// What is wanted.
    pub(super) object: Map,
    /// What strict decoding complains of.
    complaints: Vec<String>,
    /// What to do about it.
    validation: FieldValidation,
}

impl Configuration {
    /// Reads the body of an apply.
    pub(super) fn read(call: &Call<'_>, validation: FieldValidation) -> Result<Self, ApiError> {
        let undecoded = |why: &dyn std::fmt::Display| ApiError::bad_request(format!("error decoding YAML: {why}"));
        let (value, complaints) = parse(&call.body).map_err(|why| undecoded(&why))?;
        let mut object = match value {
            Value::Object(object) => object,
            Value::Null => Map::new(),
            other => {
                let kind = other.go_kind();
                return Err(undecoded(&format_args!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type \
                     map[string]interface {{}}"
                )));
            }
        };
        normalise_numbers(&mut object);
        Ok(Configuration { object, complaints, validation })
    }

    /// Refuses a configuration of another kind than the endpoint's.
    pub(super) fn check_kind(&self, api_version: &str, kind: &str) -> Result<(), ApiError> {
        let text = |name: &str| self.object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (mut given_version, mut given_kind) = (text("apiVersion"), text("kind"));
        if (given_version, given_kind) == (api_version, kind) {
            return Ok(());
        }
        if given_version.matches('/').count() > 1 {
            (given_version, given_kind) = ("", "");
        }
        Err(ApiError::bad_request(format!("invalid object type: {}", show_kind(given_version, given_kind))))
    }

    /// Who owns what is not for the configuration to say.
    pub(super) fn check_unmanaged(&mut self) -> Result<(), ApiError> {
        match ownership::take_entries(&mut self.object) {
            Some(Value::Array(_)) => Err(ApiError::bad_request("metadata.managedFields must be nil")),
            _ => Ok(()),
        }
    }

    /// Complains of what strict decoding complains of, as the client asked.
    pub(super) fn complain(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if self.complaints.is_empty() {
            return Ok(());
        }
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.complaints.iter().for_each(|text| call.cx.warn(text.as_str())),
            FieldValidation::Strict => {
                let lines: String = self.complaints.iter().map(|text| format!("\n  {text}")).collect();
                return Err(ApiError::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}"
                )));
            }
        }
        Ok(())
    }
}

/// The value in a body, and which keys stand in it more than once.
fn parse(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    // JSON is YAML too, and read faster as what it is; only for duplicate keys are lines wanted.
    if body.first() == Some(&b'{')
        && let Ok(parsed) = json::parse_with_duplicates(body)
        && parsed.duplicates.is_empty()
    {
        return Ok((parsed.value, Vec::new()));
    }
    let text = std::str::from_utf8(body).map_err(|_| "yaml: the text is not UTF-8".to_owned())?;
    let mut documents = yaml::parse_stream(text).map_err(|error| error.to_string())?.into_iter();
    let Some(document) = documents.next() else { return Ok((Value::Null, Vec::new())) };
    Ok((document.value, document.duplicates.iter().map(ToString::to_string).collect()))
}

/// Answers an apply to an object or to a part of it.
pub(super) async fn apply(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let (options, force) = WriteOptions::parse_apply(call.query)?;
    let key = store::named(call)?;
    let mut config = Configuration::read(call, options.field_validation)?;
    let mut checked = false;
    let mut attempts = 0..ATTEMPTS;
    while !attempts.is_empty() {
        let current = store::find(cx, &key).await?;
        if current.is_none() && !cx.info.subresource.is_empty() {
            return Err(ApiError::not_found(about(row, &key.name)));
        }
        if !std::mem::replace(&mut checked, true) {
            config.check_kind(&row.api_version(), &row.kind.kind)?;
            config.check_unmanaged()?;
        }
        let Some(current) = current else {
            let object = applied(call, &config, None, force)?;
            create::check_access(cx).await?;
            match create::store_named(cx, row, object, options.dry_run).await? {
                Some(body) => return Ok(Reply::Object { code: 201, body }),
                // Somebody else has made it in the meantime.
                None => {
                    attempts.next();
                    continue;
                }
            }
        };
        let old = store::object_of(row, &current.body())?;
        let object = applied(call, &config, Some(&old), force)?;
        match replace_owned(cx, row, current, old, object, options, Revision::Patched).await {
            Ok(body) => return Ok(Reply::Object { code: 200, body }),
            Err(raced) => raced.again(&mut attempts)?,
        }
    }
    Err(ApiError::conflict(about(row, &key.name), MODIFIED))
}

/// What applying makes of an object, or of none, with its owners, brought into shape.
fn applied(call: &Call<'_>, config: &Configuration, old: Option<&Map>, force: bool) -> Result<Map, ApiError> {
    let Call { cx, row, .. } = call;
    let empty = ownership::empty_object(row);
    let mut live = old.unwrap_or(&empty).clone();
    let entries = ownership::take_entries(&mut live);
    let managers = Managers::decode(entries.as_ref())
        .map_err(|error| failed(format!("failed to decode managed fields: {error}")))?;
    let (versions, api_version, now) = (KindVersions::new(cx, row), row.api_version(), ownership::now(cx));
    let writer = ownership::writer(cx, &versions as &dyn Versions, &api_version, &now);
    let done = writer.apply(&live, &empty, &config.object, managers, force).map_err(refused)?;
    let Applied { mut object, changed, managers } = done;
    if changed {
        shape(row, &config.object, &mut object)?;
    }
    set_managers(&mut object, &managers);
    config.complain(call)?;
    if old.is_none() {
        check_new(call, &mut object)?;
    }
    create::check_path_namespace(row, &mut object, &cx.info.namespace)?;
    metadata::check_name(&object, &cx.info.name)?;
    Ok(object)
}

/// Brings a merged object into the form of its kind.
fn shape(row: &Row, config: &Map, object: &mut Map) -> Result<(), ApiError> {
    let shaped = if row.kind.custom {
        decode::shape_applied(row, object)
    } else {
        decode::shape(row, object, Vec::new()).map(|_| ())
    };
    row.version().schema.drop_empty(object);
    shaped.map_err(|error| {
        let name = |field: &str| metadata_str(config, field).unwrap_or_default();
        let kind = show_kind(&row.api_version(), &row.kind.kind);
        failed(format!(
            "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert unstructured object to \
             {kind}: {}",
            name("namespace"),
            name("name"),
            error.message
        ))
    })
}

/// What is applied where nothing is makes a new object, which cannot have the UID of an old one, nor its
/// revision.
fn check_new(call: &Call<'_>, object: &mut Map) -> Result<(), ApiError> {
    let name = &call.cx.info.name;
    if let Some(uid) = metadata_str(object, "uid").filter(|uid| !uid.is_empty()) {
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(ApiError::conflict(about(call.row, name), &why));
    }
    if let Some(metadata) = metadata_mut(object) {
        metadata.remove("resourceVersion");
    }
    Ok(())
}

/// 500, as kube-apiserver answers it: its own texts, without a reason.
pub(super) fn failed(message: String) -> ApiError {
    ApiError::new(500, "", message)
}

/// Why an apply was refused, as clients see it.
pub(super) fn refused(error: UpdateError) -> ApiError {
    match error {
        UpdateError::Failed(message) => failed(message),
        UpdateError::Conflicts(conflicts) => conflict(&conflicts),
    }
}

/// 409 with a cause for each field that somebody else owns.
fn conflict(conflicts: &Conflicts) -> ApiError {
    let mut error = ApiError::new(409, "Conflict", conflicts.to_string());
    error.details.get_or_insert_default().causes = conflicts
        .0
        .iter()
        .map(|conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: conflict.message(),
            field: conflict.field(),
        })
        .collect();
    error
}
