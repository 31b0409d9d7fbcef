//! The parts that a document is put together from: its paths, and the schemas that they and each other
//! refer to. It is written a path and a schema at a time, so that only its text is ever in memory whole.

use std::collections::BTreeMap;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::document::{Document, Served, Subject, base};
use super::gnostic::{self, three, two};
use super::names::{self, Form, META};
use super::operations::{self, Of, PathItem};
use super::types::{self, Leaf};
use super::{custom, render};
use crate::builtin::{self, Message};
use crate::registry::{Kind, Published, Version};

/// Where a schema comes from.
enum Source<'a> {
    Message(&'static Message, Vec<Value>),
    Leaf(Leaf),
    List(Served<'a>, String),
    Custom(Served<'a>),
}

/// The paths and schemas of a document, before any is written.
pub(super) struct Parts<'a> {
    form: Form,
    paths: BTreeMap<String, PathItem>,
    schemas: BTreeMap<String, Source<'a>>,
    group_versions: Vec<(String, String)>,
}

impl<'a> Parts<'a> {
    pub(super) fn collect(document: &Document<'a>, form: Form) -> Self {
        let mut group_versions: Vec<(String, String)> =
            document.kinds.iter().map(|(kind, version)| (kind.group.clone(), version.name.clone())).collect();
        group_versions.push((String::new(), "v1".to_owned()));
        group_versions.sort();
        group_versions.dedup();
        let mut parts = Parts { form, paths: BTreeMap::new(), schemas: BTreeMap::new(), group_versions };
        parts.discovery(document);
        for served in &document.kinds {
            parts.kind(*served);
        }
        parts
    }

    fn path(&mut self, item: PathItem) {
        self.paths.insert(item.path.clone(), item);
    }

    fn discovery(&mut self, document: &Document<'_>) {
        match &document.subject {
            Subject::All => {
                self.discovery_of(&Subject::Core);
                self.discovery_of(&Subject::Groups);
                self.discovery_of(&Subject::Version);
                self.discovery_of(&Subject::Issuer);
                self.discovery_of(&Subject::Keys);
                for (kind, version) in document.kinds.iter().filter(|(kind, _)| !kind.custom) {
                    if !kind.group.is_empty() {
                        self.discovery_of(&Subject::Group(kind.group.clone()));
                    }
                    let subject = Subject::GroupVersion { group: kind.group.clone(), version: version.name.clone() };
                    self.discovery_of(&subject);
                }
            }
            Subject::GroupVersion { .. } if document.is_custom() => {}
            subject => self.discovery_of(subject),
        }
    }

    fn discovery_of(&mut self, subject: &Subject) {
        let tag_of = |group: &str, version: &str| names::group_version(group, version);
        let (path, id, tag, text, answer) = match subject {
            Subject::All => return,
            Subject::Core => (
                "/api/".to_owned(),
                "getCoreAPIVersions".to_owned(),
                "core".to_owned(),
                "Which versions the core group has.",
                Some("APIVersions"),
            ),
            Subject::Groups => (
                "/apis/".to_owned(),
                "getAPIVersions".to_owned(),
                "apis".to_owned(),
                "Which groups there are.",
                Some("APIGroupList"),
            ),
            Subject::Group(group) => {
                let name = tag_of(group, "");
                let id = format!("get{}APIGroup", name.id);
                (format!("/apis/{group}/"), id, name.tag, "Which versions the group has.", Some("APIGroup"))
            }
            Subject::GroupVersion { group, version } => {
                let name = tag_of(group, version);
                let id = format!("get{}APIResources", name.id);
                let path = format!("/{}/", base(group, version));
                (path, id, name.tag, "Which resources there are.", Some("APIResourceList"))
            }
            Subject::Version => {
                let answer = self.leaf(Leaf::VersionInfo);
                let text = "Which version the server has.";
                let item = operations::discovery(
                    "/version/",
                    "getCodeVersion",
                    "version",
                    text,
                    Some(answer),
                    Some("application/json"),
                );
                return self.path(item);
            }
            Subject::Issuer => (
                "/.well-known/openid-configuration/".to_owned(),
                "getServiceAccountIssuerOpenIDConfiguration".to_owned(),
                "WellKnown".to_owned(),
                "Who issues tokens of service accounts.",
                None,
            ),
            Subject::Keys => (
                "/openid/v1/jwks/".to_owned(),
                "getServiceAccountIssuerOpenIDKeyset".to_owned(),
                "openid".to_owned(),
                "The keys that tokens of service accounts are signed with.",
                None,
            ),
        };
        let answer = answer.and_then(|name| self.message(&format!("meta/v1.{name}")));
        let media = match subject {
            Subject::Issuer => Some("application/json"),
            Subject::Keys => Some("application/jwk-set+json"),
            _ => None,
        };
        self.path(operations::discovery(&path, &id, &tag, text, answer, media));
    }

    fn kind(&mut self, served: Served<'a>) {
        let (kind, version) = served;
        let object = match version.schema.published() {
            Published::Message(name) => match self.message(name) {
                Some(name) => name,
                None => return,
            },
            Published::Structural(_) | Published::Nothing => {
                let name = names::of_custom(&kind.group, &version.name, &kind.kind);
                self.schemas.insert(name.clone(), Source::Custom(served));
                name
            }
        };
        let stem = object.rsplit_once('.').map_or("", |(stem, _)| stem);
        let list = format!("{stem}.{}", kind.list_kind);
        if version.verbs.contains(&"list") {
            self.schemas.insert(list.clone(), Source::List(served, object.clone()));
            self.message("meta/v1.ListMeta");
        }
        // What every kind refers to.
        for name in ["ObjectMeta", "Status", "DeleteOptions", "Patch"] {
            if kind.connect.is_none() {
                self.message(&format!("meta/v1.{name}"));
            }
        }
        if version.verbs.contains(&"watch") && !kind.custom {
            self.message("meta/v1.WatchEvent");
        }
        if version.subresources.scale.is_some() {
            self.message("autoscaling/v1.Scale");
        }
        for other in version.subresources.others.iter().filter(|other| !other.streams()) {
            let (group, of_version) = other.group_version.unwrap_or((&kind.group, &version.name));
            if let Some(found) = builtin::message_of_kind(&api_version(group, of_version), other.kind) {
                self.message(found.name);
            }
        }
        let of = Of { kind, version, object, list };
        for item in operations::of_kind(&of, &format!("/{}", base(&kind.group, &version.name))) {
            self.path(item);
        }
    }

    /// Adds a message and all that it refers to; answers the name of its schema.
    fn message(&mut self, name: &str) -> Option<String> {
        let message = builtin::message(name)?;
        let of_schema = names::of_message(message.name);
        let mut waiting = vec![message];
        while let Some(message) = waiting.pop() {
            let name = names::of_message(message.name);
            if self.schemas.contains_key(&name) {
                continue;
            }
            let kinds = self.kinds_of(message);
            self.schemas.insert(name, Source::Message(message, kinds));
            let mut leaves = Vec::new();
            types::each_field(message, &mut |field| {
                types::each_named(&field.ty, &mut |found| waiting.push(found), &mut |leaf| leaves.push(leaf));
            });
            for leaf in leaves {
                self.leaf(leaf);
            }
        }
        Some(of_schema)
    }

    fn leaf(&mut self, leaf: Leaf) -> String {
        let name = leaf.name();
        self.schemas.entry(name.clone()).or_insert(Source::Leaf(leaf));
        name
    }

    /// `x-kubernetes-group-version-kind` of a message: options and events are of every group.
    fn kinds_of(&self, message: &Message) -> Vec<Value> {
        let name = message.name.rsplit_once('.').map_or(message.name, |(_, name)| name);
        let one = |group: &str, version: &str| json!({"group": group, "version": version, "kind": name});
        match message.name {
            "meta/v1.DeleteOptions" | "meta/v1.WatchEvent" => {
                self.group_versions.iter().map(|(group, version)| one(group, version)).collect()
            }
            _ if message.is_kind => {
                let (group, version) = names::group_of_message(message.name);
                vec![one(&group, version)]
            }
            _ => Vec::new(),
        }
    }

    fn schema(&self, source: &Source<'_>) -> Value {
        match source {
            Source::Message(message, kinds) => types::of_message(self.form, message, kinds.clone()),
            Source::Leaf(leaf) => leaf.schema(self.form),
            Source::List((kind, version), object) => self.list(kind, version, object),
            Source::Custom((kind, version)) => self.custom(kind, version),
        }
    }

    fn list(&self, kind: &Kind, version: &Version, object: &str) -> Value {
        let mut element = Map::new();
        element.insert("$ref", self.form.reference(object));
        let mut metadata = Map::new();
        metadata.insert("$ref", self.form.reference(&format!("{META}.ListMeta")));
        if let Some(text) = builtin::describe("meta/v1.ListMeta", "") {
            metadata.insert("description", text);
        }
        if !kind.custom && self.form == Form::Three {
            element.insert("default", Map::new());
            metadata.insert("default", Map::new());
        }
        let items = json!({
            "type": "array", "items": (types::wrapped(self.form, element)),
            "description": (builtin::describe("", "items").unwrap_or_default())
        });
        let mut properties = Map::new();
        types::type_meta(&mut properties);
        properties.insert("items", items);
        properties.insert("metadata", types::wrapped(self.form, metadata));
        let mut schema = Map::new();
        schema.insert("type", "object");
        schema.insert("description", format!("A list of objects of kind {}.", kind.kind));
        schema.insert("properties", properties);
        schema.insert("required", vec![Value::from("items")]);
        about(&mut schema, kind, version, &kind.list_kind);
        Value::Object(schema)
    }

    fn custom(&self, kind: &Kind, version: &Version) -> Value {
        let given = match version.schema.published() {
            Published::Structural(given) => given,
            Published::Message(_) | Published::Nothing => Value::Null,
        };
        let mut schema = custom::of_object(self.form, given);
        about(&mut schema, kind, version, &kind.kind);
        Value::Object(schema)
    }
}

/// Says of which kind a schema is, and what its field selectors name.
fn about(schema: &mut Map, kind: &Kind, version: &Version, name: &str) {
    let (group, of_version) = (kind.group.as_str(), version.name.as_str());
    schema
        .insert("x-kubernetes-group-version-kind", vec![json!({"group": group, "version": of_version, "kind": name})]);
    if kind.custom && !version.selectable_fields.is_empty() {
        let fields = version.selectable_fields.iter().map(|path| json!({"fieldPath": (path.as_str())}));
        schema.insert("x-kubernetes-selectable-fields", fields.collect::<Vec<_>>());
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

const SECURITY: &str = "BearerToken";

fn security() -> Value {
    json!({
        "type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer token of a user or service account"
    })
}

impl Parts<'_> {
    async fn members(&self, mut put: impl FnMut(&str, Value), which: Members) {
        let mut since = 0;
        match which {
            Members::Paths => {
                for (name, item) in &self.paths {
                    put(name, render::path_item(self.form, item));
                    breathe(&mut since).await;
                }
            }
            Members::Schemas => {
                for (name, source) in &self.schemas {
                    put(name, self.schema(source));
                    breathe(&mut since).await;
                }
            }
        }
    }

    /// The members of one sort as a JSON object.
    async fn object(&self, out: &mut Vec<u8>, which: Members) {
        out.push(b'{');
        let start = out.len();
        let put = |name: &str, value: Value| {
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(&Value::from(name).to_vec());
            out.push(b':');
            out.extend_from_slice(&value.to_vec());
        };
        self.members(put, which).await;
        out.push(b'}');
    }

    pub(super) async fn json(&self, document: &Document<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let version = match self.form {
            Form::Two => r#""swagger":"2.0""#,
            Form::Three => r#""openapi":"3.0.0""#,
        };
        out.extend_from_slice(format!(r#"{{{version},"info":{},"paths":"#, document.info()).as_bytes());
        self.object(&mut out, Members::Paths).await;
        let rest = match self.form {
            Form::Two => {
                out.extend_from_slice(br#","definitions":"#);
                self.object(&mut out, Members::Schemas).await;
                format!(r#","securityDefinitions":{{"{SECURITY}":{}}},"security":[{{"{SECURITY}":[]}}]}}"#, security())
            }
            Form::Three => {
                out.extend_from_slice(br#","components":{"#);
                if !self.schemas.is_empty() {
                    out.extend_from_slice(br#""schemas":"#);
                    self.object(&mut out, Members::Schemas).await;
                }
                if document.is_custom() {
                    "}}".to_owned()
                } else {
                    let comma = if self.schemas.is_empty() { "" } else { "," };
                    format!(r#"{comma}"securitySchemes":{{"{SECURITY}":{}}}}}}}"#, security())
                }
            }
        };
        out.extend_from_slice(rest.as_bytes());
        out
    }

    /// The members of one sort as entries of a message of names and values.
    async fn entries(&self, number: u32, shape: &gnostic::Shape, which: Members) -> Vec<u8> {
        let mut all = Vec::new();
        let in_choice = self.form == Form::Three && which == Members::Schemas;
        let put = |name: &str, value: Value| {
            let encoded = gnostic::encode(shape, &value);
            let value = if in_choice { wrap(1, &encoded) } else { encoded };
            all.extend_from_slice(&gnostic::entry(number, name, &value));
        };
        self.members(put, which).await;
        all
    }

    pub(super) async fn protobuf(&self, document: &Document<'_>) -> Vec<u8> {
        match self.form {
            Form::Two => {
                let head = json!({
                    "swagger": "2.0", "info": (document.info()), "security": [{ SECURITY: [] }],
                    "securityDefinitions": { SECURITY: (security()) }
                });
                let mut out = gnostic::encode(&two::DOCUMENT, &head);
                gnostic::bytes(8, &self.entries(2, &two::PATH_ITEM, Members::Paths).await, &mut out);
                gnostic::bytes(9, &self.entries(1, &two::SCHEMA, Members::Schemas).await, &mut out);
                out
            }
            Form::Three => {
                let head = json!({"openapi": "3.0.0", "info": (document.info())});
                let mut out = gnostic::encode(&three::DOCUMENT, &head);
                gnostic::bytes(4, &self.entries(1, &three::PATH_ITEM, Members::Paths).await, &mut out);
                let mut components = wrap(1, &self.entries(1, &three::SCHEMA, Members::Schemas).await);
                if !document.is_custom() {
                    let head = json!({"securitySchemes": { SECURITY: (security()) }});
                    components.extend_from_slice(&gnostic::encode(&three::COMPONENTS, &head));
                }
                gnostic::bytes(5, &components, &mut out);
                out
            }
        }
    }
}

/// The two sorts of members that a document has many of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    Paths,
    Schemas,
}

/// How many members are written before others get their turn.
const TURN: u32 = 32;

/// Lets other tasks run now and then: a tenant with many definitions does not hold up the rest.
async fn breathe(since: &mut u32) {
    *since += 1;
    if *since == TURN {
        *since = 0;
        tokio::task::yield_now().await;
    }
}

fn wrap(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 8);
    gnostic::bytes(number, content, &mut out);
    out
}
