//! The quality of service that a pod's requests and limits give it
//! (`k8s.io/kubernetes/pkg/apis/core/v1/helper/qos`).

use std::collections::BTreeMap;

use allotment_machinery::json::Map;
use allotment_machinery::quantity::Quantity;

use crate::builtin::core::resources::{entries, read};
use crate::builtin::rules::look::{items, object};

const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(pod: &Map) -> &'static str {
    let Some(spec) = object(pod, "spec") else { return "BestEffort" };
    let mut sums: BTreeMap<(&str, &str), Quantity> = BTreeMap::new();
    let mut all_limited = true;
    for (_, container) in items(spec, "containers").chain(items(spec, "initContainers")) {
        let wanted = object(container, "resources");
        let mut limited = 0;
        for kind in ["limits", "requests"] {
            for (name, amount) in wanted.into_iter().flat_map(|wanted| entries(wanted, kind)) {
                let Some(amount) = read(amount).filter(|amount| COUNTED.contains(&name) && amount.nanos() > 0) else {
                    continue;
                };
                limited += usize::from(kind == "limits");
                sums.entry((kind, name)).and_modify(|sum| *sum = sum.plus(&amount)).or_insert(amount);
            }
        }
        all_limited &= limited == COUNTED.len();
    }
    let sum = |kind: &'static str, name: &'static str| sums.get(&(kind, name)).copied();
    match () {
        () if sums.is_empty() => "BestEffort",
        () if all_limited && COUNTED.iter().all(|name| sum("limits", name) == sum("requests", name)) => "Guaranteed",
        () => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::json::parse;

    use super::*;

    #[test]
    fn quality_follows_from_requests_and_limits() {
        let class_of = |resources: &str| {
            let pod = format!(r#"{{"spec":{{"containers":[{{"resources":{resources}}}]}}}}"#);
            class(parse(pod.as_bytes()).expect("is JSON").as_object().expect("an object"))
        };
        assert_eq!(class_of("{}"), "BestEffort");
        assert_eq!(class_of(r#"{"requests":{"cpu":"1"}}"#), "Burstable");
        assert_eq!(class_of(r#"{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}"#), "Burstable");
        let both = r#"{"cpu":"1","memory":"1Gi"}"#;
        assert_eq!(class_of(&format!(r#"{{"requests":{both},"limits":{both}}}"#)), "Guaranteed");
        assert_eq!(
            class_of(&format!(r#"{{"requests":{{"cpu":"500m","memory":"1Gi"}},"limits":{both}}}"#)),
            "Burstable"
        );
    }
}
