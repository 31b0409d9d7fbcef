//! `/scale`: the desired and the present number of something, whatever it is.

use allotment_machinery::apply::{
    FieldSet, Managers, PathElement, ReplicasPaths, SCALE_VERSION, TypeRef, Versions, set_managers,
};
use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::jsonpath::JsonPath;
use allotment_machinery::object::{metadata_mut, metadata_str};
use allotment_machinery::schema::NamedSchema;

use super::apply::{Configuration, refused};
use super::get::check_revision;
use super::options::WriteOptions;
use super::store::{self, about};
use super::update::{ATTEMPTS, Revision, check_uid, replace_owned};
use super::{Call, Reply, decode, metadata, ownership, patch};
use crate::builtin;
use crate::negotiation::BodyMedia;
use crate::registry::{Row, Scale};
use crate::status::ApiError;

/// Answers a request on `/scale`.
pub(super) async fn scale(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Some(scale) = call.row.version().subresources.scale.clone() else { return Err(ApiError::unknown_resource()) };
    match call.cx.info.verb {
        "get" => get(call, &scale).await,
        "update" | "patch" => set(call, &scale).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn get(call: &Call<'_>, scale: &Scale) -> Result<Reply, ApiError> {
    check_revision(call).await?;
    let key = store::named(call)?;
    let entry = store::get(call.cx, call.row, &key).await?;
    let object = store::object_of(call.row, &entry.body())?;
    check_present(scale, &object)?;
    Ok(Reply::Value { code: 200, value: scale_of(scale, &object) })
}

async fn set(call: &Call<'_>, scale: &Scale) -> Result<Reply, ApiError> {
    let Call { cx, row, .. } = call;
    let applies = cx.info.verb == "patch" && patch::is_apply(call);
    let (options, force) = match cx.info.verb {
        "patch" if applies => WriteOptions::parse_apply(call.query)?,
        "patch" => (WriteOptions::parse_patch(call.query)?, false),
        _ => (WriteOptions::parse(call.query, "UpdateOptions")?, false),
    };
    let sent = match cx.info.verb {
        "update" => Some(wanted(call, parsed(call, call.body_media()?)?)?),
        _ => None,
    };
    let key = store::named(call)?;
    let mut change = sent.map(Change::Update);
    let mut attempts = 0..ATTEMPTS;
    while !attempts.is_empty() {
        let current = store::get(cx, row, &key).await?;
        // What is to be applied is read once it is known that there is something to apply it to.
        let change = match &change {
            Some(change) => change,
            None if applies => change.insert(Change::Apply(configuration(call, options)?, force)),
            None => change.insert(Change::Patch),
        };
        let old = store::object_of(row, &current.body())?;
        let object = scaled(call, scale, &old, change)?;
        check_uid(row, &object, &current, options.dry_run)?;
        match replace_owned(cx, row, current, old, object, options, Revision::Patched).await {
            Ok(body) => {
                let value = scale_of(scale, &store::object_of(row, &body)?);
                return Ok(Reply::Value { code: 200, value });
            }
            Err(raced) => raced.again(&mut attempts)?,
        }
    }
    Err(ApiError::conflict(about(row, &key.name), "the object keeps changing; please try again"))
}

/// The body of an apply to a scale.
fn configuration(call: &Call<'_>, options: WriteOptions) -> Result<Configuration, ApiError> {
    let mut config = Configuration::read(call, options.field_validation)?;
    config.check_kind(SCALE_VERSION, "Scale")?;
    config.check_unmanaged()?;
    Ok(config)
}

/// A request to change a scale.
enum Change {
    /// To what it says.
    Update(Wanted),
    /// To what its patch makes of the scale.
    Patch,
    /// To what it says of the scale, by force or not.
    Apply(Configuration, bool),
}

/// What the request makes of an object: another number, and perhaps another owner of it.
fn scaled(call: &Call<'_>, scale: &Scale, old: &Map, change: &Change) -> Result<Map, ApiError> {
    let Call { cx, row, .. } = call;
    let mut object = old.clone();
    let entries = ownership::take_entries(&mut object);
    let managers = Managers::decode(entries.as_ref()).unwrap_or_default();
    let paths = replicas_paths(row);
    let of_scale = paths.to_scale(&managers);
    let mut live = scale_of(scale, &object);
    if let Some(spec) = live.get_mut("spec").and_then(Value::as_object_mut)
        && check_present(scale, &object).is_err()
    {
        spec.insert("replicas", NO_REPLICAS);
    }
    let live = live.as_object().cloned().unwrap_or_default();
    let (versions, now) = (ScaleVersions(builtin::scale_schema()), ownership::now(cx));
    let writer = ownership::writer(cx, &versions, SCALE_VERSION, &now);
    let (wanted, of_scale) = match change {
        Change::Apply(config, force) => {
            let done = writer.apply(&live, &empty_scale(), &config.object, of_scale, *force).map_err(refused)?;
            config.complain(call)?;
            (wanted(call, Value::Object(done.object))?, done.managers)
        }
        Change::Update(_) | Change::Patch => {
            let wanted = match change {
                Change::Update(wanted) => wanted.clone(),
                _ => wanted(call, patched(call, scale, &object)?)?,
            };
            let mut new = live.clone();
            if let Some(spec) = new.object_mut("spec") {
                match wanted.replicas {
                    0 => spec.remove("replicas"),
                    count => spec.insert("replicas", count),
                };
            }
            // Where they cannot be compared, what is known of owners would be wrong from now on.
            let managers = writer.update(&live, &new, of_scale).unwrap_or_default();
            (wanted, managers)
        }
    };
    check_replicas(call, &wanted)?;
    set_replicas(scale, &mut object, &wanted)?;
    // What has just come to contain the number has defaults, which nobody owns.
    row.version().schema.default(&mut object);
    set_managers(&mut object, &paths.to_object(&managers, of_scale, &row.api_version()));
    Ok(object)
}

/// The number in the scale of an object that has none (the smallest `int32`), so that any is a change.
const NO_REPLICAS: i64 = -2_147_483_648;

/// A scale of which nothing is said.
fn empty_scale() -> Map {
    let empty = json!({"kind": "Scale", "apiVersion": SCALE_VERSION, "spec": {}, "status": {"replicas": 0}});
    empty.as_object().cloned().unwrap_or_default()
}

/// Where the versions of the kind keep the number.
fn replicas_paths(row: &Row) -> ReplicasPaths {
    let mut paths = ReplicasPaths::default();
    for version in &row.kind.versions {
        let scale = version.subresources.scale.as_ref();
        let steps =
            scale.map(|scale| scale.spec_replicas.trim_start_matches('.').split('.').map(PathElement::field).collect());
        paths.add(&version.api_version(&row.kind.group), steps);
    }
    paths
}

/// Scales have one version.
struct ScaleVersions(NamedSchema);

impl Versions for ScaleVersions {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'_>> {
        (api_version == SCALE_VERSION).then(|| TypeRef::of(self.0.get()))
    }

    fn convert(&self, _object: &Map, from: &str, to: &str) -> Result<Map, String> {
        Err(format!("scales of {from} are not to be had as {to}"))
    }

    fn reset_fields(&self, _api_version: &str) -> Option<&FieldSet> {
        None
    }
}

/// A custom object that has no number yet has no scale that could be shown.
fn check_present(scale: &Scale, object: &Map) -> Result<(), ApiError> {
    let path = &scale.spec_replicas;
    let whole = Value::Object(object.clone());
    let found = path.parse::<JsonPath>().is_ok_and(|path| path.first(&whole).is_some());
    if found { Ok(()) } else { Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist"))) }
}

fn number_at(path: &str, object: &Value) -> i64 {
    let found = path.parse::<JsonPath>().ok();
    let found = found.as_ref().map(|path| path.find(object)).unwrap_or_default();
    found.first().and_then(|value| value.as_i64()).unwrap_or_default()
}

/// The `Scale` of an object.
fn scale_of(scale: &Scale, object: &Map) -> Value {
    let metadata = object.get("metadata").and_then(Value::as_object);
    let mut of = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.and_then(|metadata| metadata.get(field)) {
            of.insert(field, value.clone());
        }
    }
    let whole = Value::Object(object.clone());
    let mut spec = Map::new();
    let replicas = number_at(&scale.spec_replicas, &whole);
    if replicas != 0 {
        spec.insert("replicas", replicas);
    }
    let mut status = Map::new();
    status.insert("replicas", number_at(&scale.status_replicas, &whole));
    let selector = scale.label_selector.as_deref().and_then(|path| path.parse::<JsonPath>().ok());
    let selector = selector.as_ref().and_then(|path| path.find(&whole).first().and_then(|value| selector_text(value)));
    if let Some(text) = selector.filter(|text| !text.is_empty()) {
        status.insert("selector", text);
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": of, "spec": spec, "status": status})
}

/// A selector as text, be it that already (custom kinds), labels (ReplicationControllers) or a `LabelSelector` (other
/// workloads).
fn selector_text(value: &Value) -> Option<String> {
    let is_labels = |map: &Map| map.iter().all(|(_, value)| value.as_str().is_some());
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(labels) if is_labels(labels) => selector_text(&json!({"matchLabels": (value.clone())})),
        other => allotment_machinery::selector::LabelSelector::from_object(Some(other))
            .ok()
            .map(|selector| selector.to_string()),
    }
}

/// What the request asks for: the number, and the object that it expects.
#[derive(Clone)]
struct Wanted {
    replicas: i64,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// The body of an update or a patch.
fn parsed(call: &Call<'_>, media: BodyMedia) -> Result<Value, ApiError> {
    let body = decode::parse(media, &call.body, call.row);
    body.map(|body| body.value).map_err(|fault| ApiError::bad_request(format!("the body is no Scale: {fault}")))
}

/// What a patch makes of the `Scale` of an object. Patches are JSON, whatever kind of patch they are.
fn patched(call: &Call<'_>, scale: &Scale, object: &Map) -> Result<Value, ApiError> {
    let patch = parsed(call, BodyMedia::Json)?;
    let mut current = scale_of(scale, object);
    if let Some(metadata) = current.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    patch::apply_to_value(call, current, patch)
}

fn wanted(call: &Call<'_>, body: Value) -> Result<Wanted, ApiError> {
    let is_patch = call.cx.info.verb == "patch";
    let Value::Object(mut body) = body else { return Err(ApiError::bad_request("the body is no Scale")) };
    let kind = body.get("kind").and_then(Value::as_str).unwrap_or("Scale");
    if kind != "Scale" {
        return Err(ApiError::bad_request(format!("the body is no Scale but of kind {kind:?}")));
    }
    let version = body.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if !is_patch && !matches!(version, "" | SCALE_VERSION) {
        let message = format!(
            "the API version in the data ({version}) does not match the expected API version ({SCALE_VERSION})"
        );
        return Err(ApiError::bad_request(message));
    }
    if let Some(message) = builtin::message_of_kind("autoscaling/v1", "Scale")
        && let Err(error) = builtin::decode_whole(message, &mut body)
    {
        let why = error.message;
        return Err(match is_patch {
            true => patch::invalid_result(&why),
            false => ApiError::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {why}")),
        });
    }
    metadata::check_name(&body, &call.cx.info.name)?;
    let namespace = metadata_str(&body, "namespace").unwrap_or_default();
    if call.row.kind.namespaced && !namespace.is_empty() && namespace != call.cx.info.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    let replicas = body.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64).unwrap_or_default();
    let text = |field: &str| metadata_str(&body, field).filter(|text| !text.is_empty()).map(str::to_owned);
    // Custom kinds have to be told which version is meant once any is named.
    let resource_version = text("resourceVersion").filter(|version| version != "0" || call.row.kind.custom);
    Ok(Wanted { replicas, resource_version, uid: text("uid") })
}

/// Custom kinds say in their own words what is wrong with the number, wherever it comes from.
fn check_replicas(call: &Call<'_>, wanted: &Wanted) -> Result<(), ApiError> {
    if wanted.replicas >= 0 || call.row.kind.custom {
        return Ok(());
    }
    let at = Path::new("spec").child("replicas");
    let error = FieldError::invalid(&at, wanted.replicas, "must be greater than or equal to 0");
    Err(ApiError::invalid("autoscaling", "Scale", &call.cx.info.name, &[error]))
}

fn set_replicas(scale: &Scale, object: &mut Map, wanted: &Wanted) -> Result<(), ApiError> {
    let path = scale.spec_replicas.parse::<JsonPath>().ok();
    if !path.is_some_and(|path| path.set(object, Value::from(wanted.replicas))) {
        return Err(ApiError::internal("the path of the replicas names no member that can be set"));
    }
    let Some(metadata) = metadata_mut(object) else { return Ok(()) };
    // Without a revision of its own, the request is for whatever is there now.
    if let Some(version) = &wanted.resource_version {
        metadata.insert("resourceVersion", version.as_str());
    }
    if let Some(uid) = &wanted.uid {
        metadata.insert("uid", uid.as_str());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_a_text_labels_or_a_label_selector() {
        for (selector, expect) in [
            (json!("a=b"), "a=b"),
            (json!({"b": "2", "a": "1"}), "a=1,b=2"),
            (json!({"matchLabels": {"a": "1"}}), "a=1"),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), "a"),
            (json!({}), ""),
        ] {
            assert_eq!(selector_text(&selector).as_deref(), Some(expect), "{selector}");
        }
    }
}
