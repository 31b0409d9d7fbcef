//! Which documents there are, what each is called, and which kinds it tells of. What it says of them is
//! left to [`super::parts`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use allotment_machinery::json;
use allotment_machinery::json::Value;
use allotment_pki::token_digest;

use super::names::Form;
use super::parts::Parts;
use crate::builtin;
use crate::registry::{Kind, Registry, Version};

/// Changed whenever documents are written in another way: part of every digest, since clients keep a
/// document for as long as its digest stays the same.
const WRITTEN_AS: &str = "2";

/// How a document is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// A kind in one of its versions.
pub(super) type Served<'a> = (&'a Kind, &'a Version);

/// What a document is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Everything, in the old form.
    All,
    /// `/api`
    Core,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    GroupVersion {
        /// Empty for the core group.
        group: String,
        version: String,
    },
    /// `/version`
    Version,
    /// `/.well-known/openid-configuration`
    Issuer,
    /// `/openid/v1/jwks`
    Keys,
}

/// A document that there is, with the kinds that it tells of.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) subject: Subject,
    /// What `/version` answers, without a leading `v`.
    pub(super) version: &'a str,
    pub(super) kinds: Vec<Served<'a>>,
}

/// The documents of the new form, by their path below `/openapi/v3`.
pub(super) fn documents<'a>(registry: &'a Registry, version: &'a str) -> BTreeMap<String, Document<'a>> {
    let mut all = BTreeMap::new();
    let fixed = [
        ("api", Subject::Core),
        ("apis", Subject::Groups),
        ("version", Subject::Version),
        (".well-known/openid-configuration", Subject::Issuer),
        ("openid/v1/jwks", Subject::Keys),
    ];
    for (path, subject) in fixed {
        all.insert(path.to_owned(), Document { subject, version, kinds: Vec::new() });
    }
    for kind in registry.kinds() {
        if !kind.group.is_empty() && !kind.custom {
            let subject = Subject::Group(kind.group.clone());
            all.insert(format!("apis/{}", kind.group), Document { subject, version, kinds: Vec::new() });
        }
        for of_kind in kind.versions.iter().filter(|version| version.served) {
            let (group, name) = (kind.group.clone(), of_kind.name.clone());
            let path = base(&group, &name);
            let subject = Subject::GroupVersion { group, version: name };
            let document = all.entry(path).or_insert_with(|| Document { subject, version, kinds: Vec::new() });
            document.kinds.push((kind.as_ref(), of_kind));
        }
    }
    all
}

/// The one document of the old form.
pub(super) fn everything<'a>(registry: &'a Registry, version: &'a str) -> Document<'a> {
    let served = |kind: &'a Kind| {
        let versions = kind.versions.iter().filter(|version| version.served);
        versions.map(move |version| (kind, version))
    };
    let kinds = registry.kinds().flat_map(|kind| served(kind)).collect();
    Document { subject: Subject::All, version, kinds }
}

/// The path of a group and version, without a leading slash.
pub(super) fn base(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Names the type table and its descriptions.
static TABLES: LazyLock<String> = LazyLock::new(|| {
    let digest = |text: &str| hexadecimal(&token_digest(text.as_bytes()));
    digest(builtin::table()) + &digest(builtin::descriptions())
});

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02X}");
        out
    })
}

impl Document<'_> {
    /// Names the content: what goes into it, not the text that comes out, so that an index costs no
    /// document. Equal for all tenants whose documents are equal.
    pub(super) fn digest(&self) -> String {
        let mut text = format!("{WRITTEN_AS} {} {} {:?}\n", *TABLES, self.version, self.subject);
        for (kind, version) in &self.kinds {
            let _ = writeln!(
                text,
                "{} {} {} {} {} {} {} {} {:?} {:?} {} {:?} {}",
                kind.group,
                kind.kind,
                kind.list_kind,
                kind.plural,
                kind.namespaced,
                kind.custom,
                kind.strategy.delete_answers_object(),
                version.name,
                version.verbs,
                version.subresources.others.iter().map(|other| (other.name, other.verbs)).collect::<Vec<_>>(),
                version.subresources.status,
                (version.subresources.scale.is_some(), &version.selectable_fields),
                version.schema.published_name(),
            );
        }
        hexadecimal(&token_digest(text.as_bytes()))
    }

    /// The text of the document.
    pub(super) async fn write(&self, encoding: Encoding) -> Vec<u8> {
        let form = if self.subject == Subject::All { Form::Two } else { Form::Three };
        let parts = Parts::collect(self, form);
        match encoding {
            Encoding::Json => parts.json(self).await,
            Encoding::Protobuf => parts.protobuf(self).await,
        }
    }

    /// Only definitions are told of.
    pub(super) fn is_custom(&self) -> bool {
        !self.kinds.is_empty() && self.kinds.iter().all(|(kind, _)| kind.custom)
    }

    pub(super) fn info(&self) -> Value {
        if self.is_custom() && self.subject != Subject::All {
            return json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
        }
        // Major and minor version, as kube-apiserver says it.
        let version: Vec<&str> = self.version.splitn(3, '.').take(2).collect();
        json!({"title": "Kubernetes", "version": (version.join("."))})
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use allotment_machinery::json::{Map, parse};
    use allotment_machinery::object::Encoded;
    use allotment_machinery::schema::Interner;
    use allotment_store::{Entry, Key, Resource, Revision, Tenant};

    use super::*;
    use crate::builtin::{kinds, message_of_kind};
    use crate::crd::kind_from_definition;

    const SAMPLE: &str = r#"{"metadata":{"generation":1},"spec":{"group":"example.org","scope":"Namespaced",
        "names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
        "versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.a"}],
        "subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
        "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["a"],
        "properties":{"a":{"type":"string","nullable":true},"b":{"x-kubernetes-int-or-string":true},
        "c":{"type":"object","x-kubernetes-embedded-resource":true,
        "x-kubernetes-preserve-unknown-fields":true},"d":{"type":"integer","default":1}}}}}}}]}}"#;

    fn sample() -> Registry {
        let Ok(Value::Object(definition)) = parse(SAMPLE.as_bytes()) else { panic!("the sample is an object") };
        let (tenant, resource) =
            (Tenant::platform(), Resource::new("customresourcedefinitions", "apiextensions.k8s.io"));
        let key = Key { tenant, resource, namespace: "".into(), name: "things.example.org".into() };
        let body = Encoded { bytes: SAMPLE.into(), splice: "{\"metadata\":{".len() };
        let stored = Arc::new(Entry::of(key, Revision(1), body));
        let custom = kind_from_definition(&definition, Some(&stored), &Interner::new()).expect("the sample is right");
        let builtin = kinds().into_iter().filter(|kind| matches!(kind.plural.as_str(), "configmaps" | "roles"));
        Registry::new(builtin).with_custom([Arc::new(custom)])
    }

    fn without_descriptions(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let kept = map.into_iter().filter(|(name, _)| name != "description");
                Value::Object(kept.map(|(name, value)| (name, without_descriptions(value))).collect::<Map>())
            }
            Value::Array(items) => Value::Array(items.into_iter().map(without_descriptions).collect()),
            other => other,
        }
    }

    /// Clients keep a document for as long as its digest is the same, and the digest does not come from
    /// the text: whoever changes how documents are written has to change [`WRITTEN_AS`].
    #[tokio::test]
    async fn documents_are_written_as_the_digest_says() {
        let registry = sample();
        let mut all = documents(&registry, "1.36.0");
        all.insert("v2".to_owned(), everything(&registry, "1.36.0"));
        let mut texts = Vec::new();
        for document in all.values() {
            let text = document.write(Encoding::Json).await;
            texts.push(without_descriptions(parse(&text).expect("JSON")).to_string());
        }
        let found = (WRITTEN_AS, hexadecimal(&token_digest(texts.join("\n").as_bytes())[..8]));
        let expect = ("2", "416E6D514B46A8A2".to_owned());
        assert_eq!(found, expect, "raise WRITTEN_AS, then write both down here");
    }

    #[test]
    fn every_served_kind_and_each_of_its_fields_is_described() {
        for kind in kinds() {
            for version in &kind.versions {
                let message = message_of_kind(&version.api_version(&kind.group), &kind.kind).expect("has a type");
                for field in std::iter::once("").chain(message.fields.iter().map(|field| field.name)) {
                    assert!(
                        builtin::describe(message.name, field).is_some(),
                        "{} has no text for '{field}'",
                        message.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_digest_changes_with_everything_that_a_document_tells() {
        let digest = |registry: &Registry, version: &str| everything(registry, version).digest();
        let registry = sample();
        let same = digest(&registry, "1.36.0");
        assert_eq!(digest(&sample(), "1.36.0"), same);
        assert_ne!(digest(&registry, "1.36.1"), same);
        assert_ne!(digest(&registry.with_custom([]), "1.36.0"), same);
        let documents = documents(&registry, "1.36.0");
        let digests: std::collections::BTreeSet<String> = documents.values().map(Document::digest).collect();
        assert_eq!(digests.len(), documents.len());
    }
}
