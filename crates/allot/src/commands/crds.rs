//! `allot crds`: the CustomResourceDefinitions, to be applied to any cluster.

use crate::cli::{Crds, Format};
use crate::exit::Outcome;
use crate::output;

/// Prints all definitions.
pub(crate) fn run(arguments: Crds) -> Outcome {
    let crds = allotment_api::crds();
    match arguments.output {
        Format::Yaml => {
            let documents: Vec<String> = allotment_api::crds_yaml().into_iter().map(|(_, text)| text).collect();
            output::data(&documents.join("---\n"))
        }
        Format::Json => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crds});
            output::data(&output::json(&list)?)
        }
        Format::Name => {
            let name = |crd: &kube::core::ObjectMeta| {
                format!("customresourcedefinition.apiextensions.k8s.io/{}", crd.name.clone().unwrap_or_default())
            };
            output::data(&crds.iter().map(|crd| name(&crd.metadata)).collect::<Vec<_>>().join("\n"))
        }
        Format::Wide => {
            let rows: Vec<Vec<String>> = crds
                .iter()
                .map(|crd| {
                    let versions: Vec<_> = crd.spec.versions.iter().map(|version| version.name.clone()).collect();
                    let short = crd.spec.names.short_names.clone().unwrap_or_default().join(",");
                    vec![
                        crd.spec.names.kind.clone(),
                        crd.spec.group.clone(),
                        versions.join(","),
                        crd.spec.scope.clone(),
                        short,
                    ]
                })
                .collect();
            output::data(&output::table(&["KIND", "GROUP", "VERSIONS", "SCOPE", "SHORTNAMES"], &rows))
        }
    }
}
