//! Which paths a kind has and what each operation on them takes and answers, for both forms of OpenAPI.

use super::names::{self, META};
use super::parameters::{
    DELETE, DELETE_COLLECTION, LIST, NAME, NAMESPACE, PATCH, PRETTY, Parameter, RESOURCE_VERSION, WRITE,
};
use crate::registry::{Kind, Version};

/// A path with its operations.
#[derive(Debug)]
pub(super) struct PathItem {
    /// `/api/v1/namespaces/{namespace}/configmaps`
    pub(super) path: String,
    /// What can be done there.
    pub(super) operations: Vec<Operation>,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) enum RequestBody {
    /// An object of this schema.
    Object(String),
    /// Options, which may be left out.
    Options(String),
    /// A patch; strategic merge patch is for built-in kinds alone.
    Patch { strategic: bool },
}

/// Which kind an operation is about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// One operation.
#[derive(Debug)]
pub(super) struct Operation {
    /// `get`, `put`, `post`, `delete`, `patch`
    pub(super) method: &'static str,
    /// `createCoreV1NamespacedConfigMap`
    pub(super) id: String,
    /// What it does.
    pub(super) description: String,
    /// `core_v1`
    pub(super) tag: String,
    /// `x-kubernetes-action` and which kind it is about; absent for discovery.
    pub(super) about: Option<(&'static str, Subject)>,
    /// All that it takes, sorted by name.
    pub(super) parameters: Vec<Parameter>,
    /// What is sent.
    pub(super) body: Option<RequestBody>,
    /// Codes of success and their meaning.
    pub(super) answers: &'static [(u16, &'static str)],
    /// The schema of what is answered; absent where it is text.
    pub(super) answer: Option<String>,
    /// Whether it may be a watch.
    pub(super) watches: bool,
    /// Whether it is about a custom kind.
    pub(super) custom: bool,
    /// What the answer is written in, where that is one thing only.
    pub(super) media: Option<&'static str>,
}

const OK: &[(u16, &str)] = &[(200, "OK")];
const MADE: &[(u16, &str)] = &[(200, "OK"), (201, "Created")];
const MADE_OR_TAKEN: &[(u16, &str)] = &[(200, "OK"), (201, "Created"), (202, "Accepted")];
const TAKEN: &[(u16, &str)] = &[(200, "OK"), (202, "Accepted")];

/// A document of discovery: what is read at `path`.
pub(super) fn discovery(
    path: &str,
    id: &str,
    tag: &str,
    description: &str,
    answer: Option<String>,
    media: Option<&'static str>,
) -> PathItem {
    let operation = Operation {
        method: "get",
        id: id.to_owned(),
        description: description.to_owned(),
        tag: tag.to_owned(),
        about: None,
        parameters: Vec::new(),
        body: None,
        answers: OK,
        media,
        custom: false,
        answer,
        watches: false,
    };
    PathItem { path: path.to_owned(), operations: vec![operation] }
}

/// A kind in one version, with the names of its schemas.
pub(super) struct Of<'a> {
    pub(super) kind: &'a Kind,
    pub(super) version: &'a Version,
    /// The schema of an object.
    pub(super) object: String,
    /// The schema of a list.
    pub(super) list: String,
}

/// Everything about a kind that its operations share.
struct Plan<'a> {
    of: &'a Of<'a>,
    root: String,
    name: names::GroupVersionName,
}

impl Plan<'_> {
    fn verbs(&self, verb: &str) -> bool {
        self.of.version.verbs.contains(&verb)
    }

    /// Whether the media types of watches are told of; kube-apiserver does so for built-in kinds alone.
    fn watches(&self) -> bool {
        self.verbs("watch") && !self.of.kind.custom
    }

    fn subject(&self) -> Subject {
        Subject {
            group: self.of.kind.group.clone(),
            version: self.of.version.name.clone(),
            kind: self.of.kind.kind.clone(),
        }
    }

    /// The parameters of an operation: its own, those of its path, and `pretty`.
    fn parameters(&self, own: &[Parameter], named: bool, in_namespace: bool) -> Vec<Parameter> {
        let mut all = own.to_vec();
        all.push(PRETTY);
        all.extend(named.then_some(NAME));
        all.extend(in_namespace.then_some(NAMESPACE));
        all.sort_by_key(|parameter| parameter.name);
        all
    }

    fn namespaced(&self) -> bool {
        self.of.kind.namespaced
    }

    fn operation(&self, method: &'static str, verb: &str, action: &'static str, rest: &str) -> Operation {
        let in_namespace = if self.namespaced() { "Namespaced" } else { "" };
        let middle = if action == "deletecollection" { "Collection" } else { "" };
        Operation {
            method,
            id: format!("{verb}{}{middle}{in_namespace}{}{rest}", self.name.id, self.of.kind.kind),
            description: String::new(),
            tag: self.name.tag.clone(),
            about: Some((action, self.subject())),
            parameters: Vec::new(),
            body: None,
            answers: OK,
            answer: Some(self.of.object.clone()),
            watches: false,
            media: None,
            custom: self.of.kind.custom,
        }
    }

    /// Get, put and patch of an object or of a subresource of it.
    fn object_operations(&self, sub: &str, schema: &str, about: &Subject, verbs: [bool; 3]) -> Vec<Operation> {
        let rest = names::identifier(sub, true);
        let what = if sub.is_empty() { about.kind.clone() } else { format!("{sub} of one {}", self.of.kind.kind) };
        let one = if sub.is_empty() { "one " } else { "the " };
        let at = |own: &[Parameter]| self.parameters(own, true, self.namespaced());
        let common = |operation: Operation, text: String, action: &'static str| Operation {
            description: text,
            about: Some((action, about.clone())),
            answer: Some(schema.to_owned()),
            ..operation
        };
        let [get, put, patch] = verbs;
        let mut all = Vec::new();
        if get {
            let operation = self.operation("get", "read", "get", &rest);
            let text = format!("Read {one}{what}.");
            // kube-apiserver tells of it for custom kinds alone.
            let own = if self.of.kind.custom { &[RESOURCE_VERSION][..] } else { &[] };
            all.push(Operation { parameters: at(own), ..common(operation, text, "get") });
        }
        if put {
            all.push(Operation {
                parameters: at(WRITE),
                body: Some(RequestBody::Object(schema.to_owned())),
                answers: MADE,
                ..common(self.operation("put", "replace", "put", &rest), format!("Replace {one}{what}."), "put")
            });
        }
        if patch {
            let operation = self.operation("patch", "patch", "patch", &rest);
            all.push(Operation {
                parameters: at(PATCH),
                body: Some(RequestBody::Patch { strategic: !self.of.kind.custom }),
                answers: if self.of.kind.custom { OK } else { MADE },
                ..common(operation, format!("Change parts of {one}{what}."), "patch")
            });
        }
        all
    }

    fn collection(&self) -> Vec<Operation> {
        let kind = &self.of.kind.kind;
        let at = |own: &[Parameter]| self.parameters(own, false, self.namespaced());
        let mut all = Vec::new();
        if self.verbs("list") {
            all.push(Operation {
                description: format!("List or watch objects of kind {kind}."),
                parameters: at(LIST),
                answer: Some(self.of.list.clone()),
                watches: self.watches(),
                ..self.operation("get", "list", "list", "")
            });
        }
        if self.verbs("create") {
            all.push(Operation {
                description: format!("Create one {kind}."),
                parameters: at(WRITE),
                body: Some(RequestBody::Object(self.of.object.clone())),
                answers: MADE_OR_TAKEN,
                ..self.operation("post", "create", "post", "")
            });
        }
        if self.verbs("deletecollection") {
            let options = RequestBody::Options(format!("{META}.DeleteOptions"));
            let custom = self.of.kind.custom;
            all.push(Operation {
                description: format!("Delete objects of kind {kind}."),
                parameters: at(if custom { LIST } else { DELETE_COLLECTION }),
                body: (!custom).then_some(options),
                answer: Some(format!("{META}.Status")),
                ..self.operation("delete", "delete", "deletecollection", "")
            });
        }
        all
    }

    fn object(&self) -> Vec<Operation> {
        let verbs = [self.verbs("get"), self.verbs("update"), self.verbs("patch")];
        let mut all = self.object_operations("", &self.of.object, &self.subject(), verbs);
        if self.verbs("delete") {
            let answers_object = self.of.kind.strategy.delete_answers_object();
            all.push(Operation {
                description: format!("Delete one {}.", self.of.kind.kind),
                parameters: self.parameters(DELETE, true, self.namespaced()),
                body: Some(RequestBody::Options(format!("{META}.DeleteOptions"))),
                answers: TAKEN,
                answer: Some(if answers_object { self.of.object.clone() } else { format!("{META}.Status") }),
                ..self.operation("delete", "delete", "delete", "")
            });
        }
        all
    }

    /// The list of all namespaces.
    fn everywhere(&self) -> Operation {
        let kind = &self.of.kind.kind;
        Operation {
            id: format!("list{}{kind}ForAllNamespaces", self.name.id),
            description: format!("List or watch objects of kind {kind} in all namespaces."),
            parameters: self.parameters(LIST, false, false),
            answer: Some(self.of.list.clone()),
            watches: self.watches(),
            ..self.operation("get", "list", "list", "")
        }
    }

    fn subresources(&self) -> Vec<(&'static str, Vec<Operation>)> {
        let all_verbs = [true, true, true];
        let subresources = &self.of.version.subresources;
        let mut all = Vec::new();
        if subresources.status {
            all.push(("status", self.object_operations("status", &self.of.object, &self.subject(), all_verbs)));
        }
        if subresources.scale.is_some() {
            let about = if self.of.kind.custom {
                self.subject()
            } else {
                Subject { group: "autoscaling".into(), version: "v1".into(), kind: "Scale".into() }
            };
            let schema = names::of_message("autoscaling/v1.Scale");
            all.push(("scale", self.object_operations("scale", &schema, &about, all_verbs)));
        }
        // What leads through to somewhere else takes and answers no objects that a document could describe.
        for other in subresources.others.iter().filter(|other| !other.streams()) {
            let own = (self.of.kind.group.as_str(), self.of.version.name.as_str());
            let (group, version) = other.group_version.unwrap_or(own);
            let about = Subject { group: group.to_owned(), version: version.to_owned(), kind: other.kind.to_owned() };
            let schema = subresource_schema(self.of, other);
            let has = |verb: &str| other.verbs.contains(&verb);
            let mut operations =
                self.object_operations(other.name, &schema, &about, [has("get"), has("update"), has("patch")]);
            if has("create") {
                let rest = names::identifier(other.name, true);
                operations.push(Operation {
                    description: format!("Create the {} of one {}.", other.name, self.of.kind.kind),
                    about: Some(("post", about)),
                    parameters: self.parameters(WRITE, true, self.namespaced()),
                    body: Some(RequestBody::Object(schema.clone())),
                    answers: MADE_OR_TAKEN,
                    answer: Some(schema),
                    ..self.operation("post", "create", "post", &rest)
                });
            }
            all.push((other.name, operations));
        }
        all
    }
}

/// The schema of a subresource that is neither status nor scale.
fn subresource_schema(of: &Of<'_>, other: &crate::registry::Subresource) -> String {
    match other.group_version {
        None if other.kind == of.kind.kind => of.object.clone(),
        None => subresource_message(&of.kind.group, &of.version.name, other.kind),
        Some((group, version)) => subresource_message(group, version, other.kind),
    }
}

fn subresource_message(group: &str, version: &str, kind: &str) -> String {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    crate::builtin::message_of_kind(&api_version, kind)
        .map_or_else(String::new, |message| names::of_message(message.name))
}

/// The paths of a kind in one version, below the path of its group and version (`/apis/apps/v1`).
pub(super) fn of_kind(of: &Of<'_>, base: &str) -> Vec<PathItem> {
    let plural = &of.kind.plural;
    let root = if of.kind.namespaced {
        format!("{base}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{base}/{plural}")
    };
    let plan = Plan { of, root, name: names::group_version(&of.kind.group, &of.version.name) };
    let mut all = Vec::new();
    if of.kind.namespaced && plan.verbs("list") {
        all.push(PathItem { path: format!("{base}/{plural}"), operations: vec![plan.everywhere()] });
    }
    all.push(PathItem { path: plan.root.clone(), operations: plan.collection() });
    all.push(PathItem { path: format!("{}/{{name}}", plan.root), operations: plan.object() });
    let subresources = plan.subresources();
    all.extend(
        subresources
            .into_iter()
            .map(|(name, operations)| PathItem { path: format!("{}/{{name}}/{name}", plan.root), operations }),
    );
    all.retain(|item| !item.operations.is_empty());
    all
}
