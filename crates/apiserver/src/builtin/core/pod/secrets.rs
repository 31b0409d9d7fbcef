//! The secrets that a pod refers to, and which of them its account lets it
//! (`k8s.io/kubernetes/plugin/pkg/admission/serviceaccount`).

use std::collections::BTreeSet;

use allotment_machinery::json::Map;
use allotment_machinery::object::metadata_str;

use crate::builtin::rules::look::{items, object, object_at, text};

use super::containers::visit;

/// The names of all secrets that a pod refers to.
pub(crate) fn of_pod(pod: &Map) -> BTreeSet<&str> {
    /// Where sources of volumes keep a reference, and under which name.
    const OF_VOLUMES: [(&[&str], &str); 10] = [
        (&["secret"], "secretName"),
        (&["azureFile"], "secretName"),
        (&["cephfs", "secretRef"], "name"),
        (&["cinder", "secretRef"], "name"),
        (&["flexVolume", "secretRef"], "name"),
        (&["rbd", "secretRef"], "name"),
        (&["scaleIO", "secretRef"], "name"),
        (&["iscsi", "secretRef"], "name"),
        (&["storageos", "secretRef"], "name"),
        (&["csi", "nodePublishSecretRef"], "name"),
    ];
    let Some(spec) = object(pod, "spec") else { return BTreeSet::new() };
    let mut found: BTreeSet<&str> = items(spec, "imagePullSecrets").map(|(_, secret)| text(secret, "name")).collect();
    for (_, container) in visit(spec, &allotment_machinery::field::Path::root()) {
        found.extend(of_container(container).map(|(_, secret)| secret));
    }
    for (_, volume) in items(spec, "volumes") {
        found.extend(OF_VOLUMES.iter().filter_map(|(path, name)| Some(text(object_at(volume, path)?, name))));
        let sources = object(volume, "projected").into_iter().flat_map(|projected| items(projected, "sources"));
        found.extend(sources.filter_map(|(_, source)| Some(text(object(source, "secret")?, "name"))));
    }
    found.remove("");
    found
}

/// The secrets that a container's environment is made of, each with how messages call the place.
fn of_container(container: &Map) -> impl Iterator<Item = (String, &str)> {
    let variables = items(container, "env").filter_map(|(_, variable)| {
        let secret = object_at(variable, &["valueFrom", "secretKeyRef"])?;
        Some((format!("envVar {} referencing", text(variable, "name")), text(secret, "name")))
    });
    let wholes = items(container, "envFrom")
        .filter_map(|(_, source)| Some(("envFrom referencing".to_owned(), text(object(source, "secretRef")?, "name"))));
    variables.chain(wholes)
}

/// Whether a pod refers to no secrets but those that its account lists; if not, why it is refused.
pub(crate) fn check_mountable(account: &Map, pod: &Map) -> Result<(), String> {
    let own = metadata_str(account, "name").unwrap_or_default();
    let listed = |name: &'static str| -> BTreeSet<&str> {
        items(account, name).map(|(_, secret)| text(secret, "name")).collect()
    };
    let mountable = listed("secrets");
    let Some(spec) = object(pod, "spec") else { return Ok(()) };
    let refused = |place: String, secret: &str| {
        Err(format!(
            "{place} secret.secretName=\"{secret}\" is not allowed because service account {own} does not reference that \
             secret"
        ))
    };
    for (_, volume) in items(spec, "volumes") {
        if let Some(secret) = object(volume, "secret").map(|secret| text(secret, "secretName"))
            && !mountable.contains(secret)
        {
            return refused("volume with".to_owned(), secret);
        }
    }
    for (list, called) in [("initContainers", "init container"), ("containers", "container")] {
        for (_, container) in items(spec, list) {
            if let Some((place, secret)) = of_container(container).find(|(_, secret)| !mountable.contains(secret)) {
                return refused(format!("{called} {} with {place}", text(container, "name")), secret);
            }
        }
    }
    let pulls = listed("imagePullSecrets");
    for (index, secret) in items(spec, "imagePullSecrets") {
        let name = text(secret, "name");
        if !pulls.contains(name) {
            return Err(format!(
                "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account {own} does not \
                 reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}
