//! Parts of pods that change through subresources of their own: `/ephemeralcontainers` and `/resize`. All else of what
//! is sent there is let be (`k8s.io/kubernetes/pkg/registry/core/pod`, `pkg/apis/core/validation`).

use std::collections::BTreeMap;

use allotment_machinery::field::{FieldError, Path};
use allotment_machinery::json::{Map, Value};

use crate::builtin::rules::Errors;
use crate::builtin::rules::look::{items, items_mut, list, object, object_at, text};

use super::annotations::{self, MIRROR};
use super::change::validate_annotations;
use super::quality;

/// Members of metadata that only the object itself changes.
const KEPT: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
const SIZED: [&str; 2] = ["containers", "initContainers"];
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// Makes of what was sent to `/ephemeralcontainers` the pod before with other containers of that sort.
pub(crate) fn keep_all_but_ephemeral(old: &Map, new: &mut Map) {
    let given = object(new, "spec").and_then(|spec| spec.get("ephemeralContainers")).cloned();
    keep(old, new);
    if let Some(spec) = new.object_mut("spec") {
        match given {
            Some(given) => spec.insert("ephemeralContainers", given),
            None => spec.remove("ephemeralContainers"),
        };
    }
}

/// Makes of what was sent to `/resize` the pod before with other amounts. Where containers have come, gone or moved,
/// it is left as it is: that is for the rules to say.
pub(crate) fn keep_all_but_sizes(old: &Map, new: &mut Map) {
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec").cloned()) else { return };
    if SIZED.iter().any(|name| list(was, name).len() != list(&is, name).len()) {
        return;
    }
    keep(old, new);
    let Some(spec) = new.object_mut("spec") else { return };
    for name in SIZED {
        let sent = list(&is, name);
        let same = items(was, name).zip(sent).all(|((_, was), is)| is.get("name") == was.get("name"));
        if !same {
            if let Some(sent) = is.get(name) {
                spec.insert(name, sent.clone());
            }
            continue;
        }
        for (container, sent) in items_mut(spec, name).zip(sent) {
            for member in ["resources", "resizePolicy"] {
                match sent.get(member) {
                    Some(value) => container.insert(member, value.clone()),
                    None => container.remove(member),
                };
            }
        }
    }
    match is.get("resources") {
        Some(of_pod) => spec.insert("resources", of_pod.clone()),
        None => spec.remove("resources"),
    };
}

fn keep(old: &Map, new: &mut Map) {
    for name in ["spec", "status"] {
        match old.get(name) {
            Some(value) => new.insert(name, value.clone()),
            None => new.remove(name),
        };
    }
    let before = object(old, "metadata").cloned().unwrap_or_default();
    if let Some(metadata) = new.object_mut("metadata") {
        for name in KEPT {
            match before.get(name) {
                Some(value) => metadata.insert(name, value.clone()),
                None => metadata.remove(name),
            };
        }
    }
}

fn mirrors(pod: &Map) -> bool {
    annotations::of(pod).is_some_and(|annotations| annotations.contains_key(MIRROR))
}

/// Containers that were put in stay as they are.
pub(crate) fn validate_ephemeral(old: &Map, new: &Map, errors: &mut Errors) {
    validate_annotations(old, new, errors);
    if mirrors(old) {
        errors.clear();
        let detail = "static pods do not support ephemeral containers";
        return errors.push(FieldError::forbidden(&Path::new(""), detail));
    }
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    let path = Path::new("spec").child("ephemeralContainers");
    let mut named: BTreeMap<&str, &Map> = BTreeMap::new();
    for (_, now) in items(is, "ephemeralContainers") {
        named.entry(text(now, "name")).or_insert(now);
    }
    for (_, before) in items(was, "ephemeralContainers") {
        let name = text(before, "name");
        let detail = match named.get(name) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            // What differs is not shown: it may hold secrets.
            Some(now) if *now != before => format!("existing ephemeral containers {name:?} may not be changed\n"),
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(&path, detail));
    }
}

/// Of what a pod may use cpu and memory change, and stay given where they were.
pub(crate) fn validate_sizes(old: &Map, new: &Map, errors: &mut Errors) {
    if mirrors(old) {
        errors.clear();
        return errors.push(FieldError::forbidden(&Path::new(""), "static pods cannot be resized"));
    }
    let (Some(was), Some(is)) = (object(old, "spec"), object(new, "spec")) else { return };
    if object(was, "os").is_some_and(|os| text(os, "name") == "windows") {
        errors.clear();
        return errors.push(FieldError::forbidden(&Path::new(""), "windows pods cannot be resized"));
    }
    let path = Path::new("spec");
    let class = |pod: &Map| object(pod, "status").map_or("", |status| text(status, "qosClass")).to_owned();
    if class(old) != quality::class(new) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid(&path, class(new).as_str(), detail));
    }
    if !can_be_resized(old) {
        errors.push(FieldError::forbidden(&path, "Pod running on node without support for resize"));
    }
    if !order_stays(was, is, &path, errors) {
        return;
    }
    let before = errors.len();
    for name in ["initContainers", "containers"] {
        for ((index, was), (_, is)) in items(was, name).zip(items(is, name)) {
            amounts_stay(was, is, &path.child(name).index(index).child("resources"), errors);
        }
    }
    let of_pod = (object(was, "resources"), object(is, "resources"));
    if let (Some(_), None) = of_pod {
        errors.push(FieldError::forbidden(&path.child("resources"), "pod-level resources cannot be removed"));
    }
    for name in ["containers", "initContainers"] {
        for ((index, was), (_, is)) in items(was, name).zip(items(is, name)) {
            if unsized_of(was, was) != unsized_of(is, was) {
                errors.push(match name {
                    "containers" => FieldError::forbidden(&path, "only cpu and memory resources are mutable"),
                    _ => FieldError::forbidden(
                        &path.child(name).index(index),
                        "only cpu and memory resources for init or sidecar containers are mutable",
                    ),
                });
            }
        }
    }
    let rest = |spec: &Map| {
        let mut spec = spec.clone();
        SIZED.into_iter().chain(["resources"]).for_each(|name| {
            spec.remove(name);
        });
        spec
    };
    if errors.len() == before && rest(was) != rest(is) {
        errors.push(FieldError::forbidden(&path, "only cpu and memory resources are mutable"));
    }
}

/// Whether the node of the pod's running containers tells what they use. Without one that is not known.
fn can_be_resized(pod: &Map) -> bool {
    let Some(status) = object(pod, "status") else { return true };
    let running = items(status, "containerStatuses").find(|(_, one)| object_at(one, &["state", "running"]).is_some());
    running.is_none_or(|(_, one)| object(one, "resources").is_some())
}

fn order_stays(was: &Map, is: &Map, path: &Path, errors: &mut Errors) -> bool {
    let before = errors.len();
    for name in SIZED {
        let path = path.child(name);
        if list(was, name).len() != list(is, name).len() {
            errors.push(FieldError::forbidden(&path, format!("{name} may not be added or removed on resize")));
            continue;
        }
        for ((index, was), (_, is)) in items(was, name).zip(items(is, name)) {
            if text(was, "name") != text(is, "name") {
                let detail = format!("{name} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(&path.index(index).child("name"), detail));
            }
        }
    }
    errors.len() == before
}

/// What was asked for or limited stays so, with another number.
fn amounts_stay(was: &Map, is: &Map, path: &Path, errors: &mut Errors) {
    let amounts = |container: &Map, kind: &str| object_at(container, &["resources", kind]).cloned().unwrap_or_default();
    for (kind, called) in [("requests", "requests"), ("limits", "limits")] {
        let (was, is) = (amounts(was, kind), amounts(is, kind));
        if was.keys().any(|name| !is.contains_key(name)) {
            let detail = format!("resource {called} cannot be removed");
            errors.push(FieldError::forbidden(&path.child(kind), detail));
        }
    }
}

/// A container with the cpu and memory of `before`.
fn unsized_of(container: &Map, before: &Map) -> Map {
    let mut container = container.clone();
    let mut sizes = Map::new();
    for kind in ["limits", "requests"] {
        let of = |owner: &Map| object_at(owner, &["resources", kind]).cloned().unwrap_or_default();
        let mut amounts = of(&container);
        for name in MUTABLE {
            match of(before).get(name) {
                Some(amount) => amounts.insert(name, amount.clone()),
                None => amounts.remove(name),
            };
        }
        sizes.insert(kind, Value::Object(amounts));
    }
    container.insert("resources", Value::Object(sizes));
    container
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    fn pod(containers: Value) -> Map {
        let pod = json!({"spec": {"containers": containers}, "status": {"qosClass": "Burstable"}});
        pod.as_object().expect("an object").clone()
    }

    #[track_caller]
    fn check(old: Value, new: Value, expect: &[&str]) {
        let (old, mut new) = (pod(old), pod(new));
        keep_all_but_sizes(&old, &mut new);
        let mut errors = Errors::default();
        validate_sizes(&old, &new, &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn of_what_a_pod_uses_cpu_and_memory_change() {
        let of = |cpu: &str| json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
        check(of("1"), of("2"), &[]);
        check(of("1"), json!([{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]), &[]);
        check(
            of("1"),
            json!([{"name": "c", "resources": {}}]),
            &[
                "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
            ],
        );
        check(
            of("1"),
            json!([{"name": "d", "resources": {"requests": {"cpu": "1"}}}]),
            &["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"],
        );
    }

    #[test]
    fn containers_that_were_put_in_stay() {
        let with = |list: Value| json!({"spec": {"ephemeralContainers": list}}).as_object().expect("an object").clone();
        let (old, new) = (with(json!([{"name": "e", "image": "i"}])), with(json!([{"name": "f", "image": "i"}])));
        let mut errors = Errors::default();
        validate_ephemeral(&old, &new, &mut errors);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let expect = "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n";
        assert_eq!(shown, [expect]);
    }
}
