//! Traits: entries as requests and Purposes write them, and the table of those that are known.
//!
//! An entry is a trait, or an expression over entries; such a schema is recursive, which structural
//! schemas cannot say. So its schema lists the plain fields and keeps the rest, and admission checks
//! the whole.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One demand or wish: a trait, or `or`, `and`, `xor`, `not` over further entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraitEntry {
    /// The trait. What is written.
    #[serde(rename = "trait", default, skip_serializing_if = "Option::is_none")]
    pub trait_: Option<String>,
    /// The trait, under the key that some write; read as `trait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True where at least one of these holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub or: Option<Vec<TraitEntry>>,
    /// True where all of these hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub and: Option<Vec<TraitEntry>>,
    /// True where exactly one of these holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xor: Option<Vec<TraitEntry>>,
    /// True where this does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<TraitEntry>>,
    /// A wish that ranks candidates, not a demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// The absence of the trait is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negated: Option<bool>,
    /// How much a wish counts in ranking, 1 to 100; 1 where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

impl TraitEntry {
    /// The plain entry for one trait.
    pub fn plain(key: impl Into<String>) -> Self {
        TraitEntry { trait_: Some(key.into()), ..TraitEntry::default() }
    }

    /// The trait, under whichever of its two keys it was written.
    pub fn key(&self) -> Option<&str> {
        self.trait_.as_deref().or(self.name.as_deref())
    }

    /// `optional`, false where unset.
    pub fn is_optional(&self) -> bool {
        self.optional.unwrap_or(false)
    }

    /// `negated`, false where unset.
    pub fn is_negated(&self) -> bool {
        self.negated.unwrap_or(false)
    }

    /// Whether this is an operator over further entries.
    pub fn is_expression(&self) -> bool {
        self.or.is_some() || self.and.is_some() || self.xor.is_some() || self.not.is_some()
    }
}

/// Most bytes in the name of a trait.
pub const MAX_TRAIT_BYTES: usize = 253;
/// Most operators on the longest path of an entry: deeper ones are nobody's intention.
pub const MAX_DEPTH: usize = 6;
/// Most leaves of one entry: whether it can hold is decided by trying assignments.
pub const MAX_LEAVES: usize = 32;
/// Most entries in one list of traits.
pub const MAX_ENTRIES: usize = 64;

impl JsonSchema for TraitEntry {
    fn schema_name() -> Cow<'static, str> {
        "TraitEntry".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "A trait, or an expression over traits: exactly one of trait, or, and, xor, not. \
                Expressions (or, and, xor: a list of entries; not: one entry) nest up to 6 deep with up to 32 leaves; \
                they are allowed in ClusterRequests.",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "trait": {
                    "type": "string", "maxLength": 253,
                    "description": "The trait, as profiles publish it, such as infrastructure/vendor/local."
                },
                "name": {
                    "type": "string", "maxLength": 253,
                    "description": "The same as trait; read, never written by the platform."
                },
                "optional": {
                    "type": "boolean",
                    "description": "A wish: it ranks candidates and never leads to a denial. False where unset."
                },
                "negated": {
                    "type": "boolean",
                    "description": "The absence of the trait is meant. False where unset."
                },
                "weight": {
                    "type": "integer", "format": "int32", "minimum": 1, "maximum": 100,
                    "description": "How much a wish counts when candidates are ranked. 1 where unset."
                }
            }
        })
    }
}

/// A trait with a fixed meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownTrait {
    /// Its name; a last segment `<x>` stands for any one.
    pub name: &'static str,
    /// What it says of a cluster.
    pub meaning: &'static str,
}

/// The one table of traits whose meaning is fixed; `docs/traits.md` is made from it.
pub const KNOWN_TRAITS: &[KnownTrait] = &[
    KnownTrait {
        name: "cluster.openmcp.cloud/workerless",
        meaning: "The cluster has no nodes: it serves the API and runs no Pods.",
    },
    KnownTrait { name: "kubernetes.io/apis/compute", meaning: "The cluster runs Pods." },
    KnownTrait {
        name: "infrastructure/vendor/<x>",
        meaning: "Where the cluster runs: a cloud vendor, or `local`, `kind`, `nested`.",
    },
];

/// Whether the meaning of a trait is fixed by [`KNOWN_TRAITS`].
pub fn is_known(name: &str) -> bool {
    KNOWN_TRAITS.iter().any(|known| match known.name.strip_suffix("<x>") {
        Some(prefix) => name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && !rest.contains('/')),
        None => known.name == name,
    })
}

/// `docs/traits.md`: the table of known traits as Markdown.
pub fn known_traits_markdown() -> String {
    let mut out = String::from(
        "# Traits\n\n<!-- Made from the table in crates/api/src/traits.rs by \
         `cargo run -p allotment-api --example generate`; do not edit. -->\n\n\
         A trait is a property of a cluster that a request or a Purpose may ask for. Any string may be one; \
         these have a fixed meaning, so that a property has one name only. Check here before inventing a new one. \
         Two names that came to mean the same are joined by a TraitEquivalence.\n\n| trait | meaning |\n|---|---|\n",
    );
    for known in KNOWN_TRAITS {
        out.push_str(&format!("| `{}` | {} |\n", known.name, known.meaning));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_stands_for_one_segment() {
        for (name, known) in [
            ("cluster.openmcp.cloud/workerless", true),
            ("infrastructure/vendor/local", true),
            ("infrastructure/vendor/", false),
            ("infrastructure/vendor/a/b", false),
            ("foo/bar/baz", false),
        ] {
            assert_eq!(is_known(name), known, "{name}");
        }
    }
}
