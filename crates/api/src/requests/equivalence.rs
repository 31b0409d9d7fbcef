//! TraitEquivalence: traits of different names that mean the same.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Traits that mean the same.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.openmcp.cloud",
    version = "v1alpha1",
    kind = "TraitEquivalence",
    plural = "traitequivalences",
    singular = "traitequivalence",
    shortname = "teq",
    category = "openmcp",
    derive = "PartialEq",
    doc = "A TraitEquivalence says that traits of different names mean the same, for providers, Purposes and requests alike.",
    printcolumn(name = "Traits", type_ = "string", json_path = ".spec.traits"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct TraitEquivalenceSpec {
    /// Traits that mean the same; classes that share a trait are one.
    #[schemars(length(min = 2, max = 64))]
    pub traits: Vec<String>,
}
