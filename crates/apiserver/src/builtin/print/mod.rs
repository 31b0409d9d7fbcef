//! Cells that tables of several kinds share: numbers, containers, selectors, lists cut short
//! (`k8s.io/kubernetes/pkg/printers/internalversion`).

pub(super) mod cells;
pub(super) mod columns;

use allotment_machinery::json::{Map, Value};
use allotment_machinery::selector::LabelSelector;

use crate::builtin::rules::look::{items, object, object_at, text};

/// How many of a list are shown.
const SHOWN: usize = 3;

const NONE: &str = "<none>";

/// The number under a path; 0 where there is none.
pub(crate) fn number(map: &Map, path: &[&str]) -> i64 {
    let Some((last, parents)) = path.split_last() else { return 0 };
    object_at(map, parents).and_then(|map| map.get(last)).and_then(Value::as_i64).unwrap_or_default()
}

/// A text, or what stands for none.
pub(crate) fn or_none(value: &str) -> Value {
    Value::from(if value.is_empty() { NONE } else { value })
}

/// `ready/desired`
pub(crate) fn ratio(ready: i64, desired: i64) -> Value {
    Value::from(format!("{ready}/{desired}"))
}

/// The names and the images of the containers of a pod's spec.
pub(crate) fn containers(spec: Option<&Map>) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let containers = spec.into_iter().flat_map(|spec| items(spec, "containers"));
        Value::from(containers.map(|(_, container)| text(container, field)).collect::<Vec<_>>().join(","))
    })
}

/// A selector as text.
pub(crate) fn selector(map: &Map, name: &str) -> Value {
    match LabelSelector::from_object(map.get(name)) {
        Ok(selector) => or_none(&selector.to_string()),
        Err(_) => Value::from("<error>"),
    }
}

/// Labels as text.
pub(crate) fn labels(labels: Option<&Map>) -> Value {
    let pairs = labels
        .into_iter()
        .flat_map(Map::iter)
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    or_none(&pairs.collect::<Vec<_>>().join(","))
}

/// The first of a list, and how many more there are.
pub(crate) fn first_of(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(",");
    match all.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

/// The addresses of a load balancer, sorted.
pub(crate) fn balancer(object_with_status: &Map) -> String {
    let status = object_at(object_with_status, &["status", "loadBalancer"]);
    let addresses = status.into_iter().flat_map(|status| items(status, "ingress")).map(|(_, ingress)| {
        if text(ingress, "ip").is_empty() { text(ingress, "hostname") } else { text(ingress, "ip") }
    });
    let sorted: std::collections::BTreeSet<&str> = addresses.filter(|address| !address.is_empty()).collect();
    sorted.into_iter().collect::<Vec<_>>().join(",")
}

/// An object's name, marked where an annotation makes it the default of its kind.
pub(crate) fn name_or_default(map: &Map, annotation: &str) -> Value {
    let metadata = object(map, "metadata");
    let name = metadata.map(|metadata| text(metadata, "name")).unwrap_or_default();
    let annotations = metadata.and_then(|metadata| object(metadata, "annotations"));
    let is_default = annotations.is_some_and(|annotations| text(annotations, annotation) == "true");
    Value::from(if is_default { format!("{name} (default)") } else { name.to_owned() })
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json;

    use super::*;

    #[test]
    fn long_lists_are_cut_short() {
        let texts = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!([0, 3, 5].map(|count| first_of(&texts(count))), ["", "0,1,2", "0,1,2 + 2 more..."]);
    }

    #[test]
    fn containers_labels_and_selectors_are_joined() {
        let spec = json!({
            "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}], "labels": {"k": "v", "l": "w"},
            "selector": {"matchLabels": {"k": "v"}}, "empty": {}
        });
        let spec = spec.as_object().expect("an object");
        assert_eq!(containers(Some(spec)), [Value::from("a,b"), Value::from("x,y")]);
        assert_eq!(labels(object(spec, "labels")), Value::from("k=v,l=w"));
        assert_eq!(selector(spec, "selector"), Value::from("k=v"));
        assert_eq!(selector(spec, "empty"), Value::from("<none>"));
    }
}
