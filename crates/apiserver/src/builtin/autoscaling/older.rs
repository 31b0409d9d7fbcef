//! HorizontalPodAutoscalers of version v1, which knows a share of the CPU alone: what else there is lies in
//! annotations, as JSON (`k8s.io/kubernetes/pkg/apis/autoscaling/v1`, conversion.go).
//!
//! Objects are kept as version v2. Hooks see v1; what is right is judged as v2, in whose fields faults are told.

use allotment_machinery::field::FieldError;
use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};
use allotment_machinery::object::metadata_mut;
use jiff::Timestamp;

use super::AUTOSCALER;
use super::annotations::{
    behavior_written, condition_written, current_to_new, current_written, lower, metric_written, metrics_read, renamed,
    source_to_new, source_written,
};
use crate::builtin::rules::Rules;
use crate::builtin::rules::look::{int, items, object, object_at, text};
use crate::builtin::types;
use crate::builtin::types::shape;
use crate::registry::{MetadataChecks, Operation, Strategy};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

const NEW: &str = "autoscaling/v2.HorizontalPodAutoscaler";
const OWN: Rules = Rules::of("autoscaling/v1.HorizontalPodAutoscaler");

/// HorizontalPodAutoscalers of version v1.
#[derive(Debug)]
pub(crate) struct OldAutoscaler;

impl Strategy for OldAutoscaler {
    fn metadata_checks(&self) -> MetadataChecks {
        AUTOSCALER.metadata_checks()
    }

    fn default(&self, scaler: &mut Map) {
        // What v2 fills in shows in v1 too, and what cannot be read is as if it were not there.
        *scaler = to_old(&to_new(scaler));
    }

    fn prepare(&self, operation: Operation<'_>, scaler: &mut Map) {
        OWN.prepare(operation, scaler);
    }

    fn validate(&self, operation: Operation<'_>, scaler: &Map) -> Vec<FieldError> {
        let new = to_new(scaler);
        match operation {
            Operation::Create => AUTOSCALER.validate(Operation::Create, &new),
            Operation::Update { old, subresource } => {
                AUTOSCALER.validate(Operation::Update { old: &to_new(old), subresource }, &new)
            }
        }
    }

    fn cells(&self, scaler: &Map, now: Timestamp) -> Option<Vec<Value>> {
        AUTOSCALER.cells(&to_new(scaler), now)
    }

    fn stores_other_form(&self) -> bool {
        true
    }

    fn to_stored(&self, scaler: &mut Map) {
        *scaler = to_new(scaler);
    }

    fn to_shown(&self, scaler: &mut Map) {
        *scaler = to_old(scaler);
    }
}

/// The same autoscaler as v2, complete.
fn to_new(old: &Map) -> Map {
    let mut new = old.clone();
    let mut taken = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].map(|name| take_annotation(&mut new, name));
    let [metrics, current, conditions, behavior] = &mut taken;
    if let Some(spec) = new.object_mut("spec") {
        let mut all = metrics.take().map(|metrics| metrics_read(&metrics, source_to_new)).unwrap_or_default();
        if let Some(share) = spec.remove("targetCPUUtilizationPercentage").filter(|share| !share.is_null()) {
            let target = json!({"type": "Utilization", "averageUtilization": share});
            all.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        put(spec, "metrics", Some(Value::Array(all)).filter(|all| all.as_array() != Some(&[])));
        put(spec, "behavior", behavior.take().map(|behavior| renamed(&behavior, lower)));
    }
    if let Some(status) = new.object_mut("status") {
        let share = status.remove("currentCPUUtilizationPercentage").filter(|share| !share.is_null());
        let mut all = current.take().map(|current| metrics_read(&current, current_to_new)).unwrap_or_default();
        if let Some(share) = share.filter(|_| all.is_empty()) {
            let current = json!({"averageUtilization": share});
            all.push(json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}));
        }
        put(status, "currentMetrics", Some(Value::Array(all)).filter(|all| all.as_array() != Some(&[])));
        put(status, "conditions", conditions.take().filter(|conditions| conditions.as_array().is_some()));
    }
    if let Some(message) = types::message(NEW) {
        let kind = (new.remove("apiVersion"), new.remove("kind"));
        // What lay in annotations may be of any shape; what fits nowhere is dropped.
        let whole = new.clone();
        if shape::decode_whole(message, &mut new).is_err() {
            new = whole;
            if let Some(spec) = new.object_mut("spec") {
                spec.remove("metrics");
                spec.remove("behavior");
            }
            if let Some(status) = new.object_mut("status") {
                status.remove("currentMetrics");
                status.remove("conditions");
            }
            let _ = shape::decode_whole(message, &mut new);
        }
        types::defaults::apply(message, &mut new);
        put(&mut new, "apiVersion", kind.0);
        put(&mut new, "kind", kind.1);
    }
    new
}

/// The same autoscaler as v1.
fn to_old(new: &Map) -> Map {
    let mut old = new.clone();
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        take_annotation(&mut old, name);
    }
    if let Some(spec) = old.object_mut("spec") {
        spec.remove("behavior");
        spec.remove("metrics");
        put(spec, "targetCPUUtilizationPercentage", share_of_cpu(new, &["spec", "metrics"], "target"));
    }
    if let Some(status) = old.object_mut("status") {
        status.remove("currentMetrics");
        status.remove("conditions");
        status.get_or_insert_with("currentReplicas", || Value::from(0));
        let share = share_of_cpu(new, &["status", "currentMetrics"], "current");
        put(status, "currentCPUUtilizationPercentage", share);
    }
    let (empty, path) = (Map::new(), |name: &str| object(new, name));
    let (spec, status) = (path("spec").unwrap_or(&empty), path("status").unwrap_or(&empty));
    let others: Vec<String> = items(spec, "metrics")
        .filter(|(_, metric)| !is_share_of_cpu(metric, "target"))
        .filter_map(|(_, metric)| metric_written(metric, source_written))
        .collect();
    let current: Vec<String> =
        items(status, "currentMetrics").filter_map(|(_, metric)| metric_written(metric, current_written)).collect();
    let conditions: Vec<String> =
        items(status, "conditions").map(|(_, condition)| condition_written(condition)).collect();
    for (name, list) in [(METRICS, others), (CURRENT_METRICS, current), (CONDITIONS, conditions)] {
        if !list.is_empty() {
            annotate(&mut old, name, format!("[{}]", list.join(",")));
        }
    }
    if let Some(behavior) = object(spec, "behavior") {
        annotate(&mut old, BEHAVIOR, behavior_written(behavior));
    }
    old
}

fn put(map: &mut Map, name: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(map.insert(name, value)),
        None => drop(map.remove(name)),
    }
}

fn take_annotation(scaler: &mut Map, name: &str) -> Option<Value> {
    let metadata = metadata_mut(scaler)?;
    let annotations = metadata.object_mut("annotations")?;
    let text = annotations.remove(name);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    json::parse(text?.as_str()?.as_bytes()).ok()
}

fn annotate(scaler: &mut Map, name: &str, text: String) {
    let annotations =
        metadata_mut(scaler).map(|metadata| metadata.get_or_insert_with("annotations", || Value::Object(Map::new())));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.insert(name, text);
    }
}

fn is_share_of_cpu(metric: &Map, amount: &str) -> bool {
    let resource = object(metric, "resource").filter(|_| text(metric, "type") == "Resource");
    resource.is_some_and(|resource| {
        text(resource, "name") == "cpu"
            && object(resource, amount).and_then(|of| int(of, "averageUtilization")).is_some()
    })
}

/// The share of the CPU that the first metric of it names.
fn share_of_cpu(scaler: &Map, list: &[&str], amount: &str) -> Option<Value> {
    let owner = object_at(scaler, &list[..1])?;
    let mut all = items(owner, list[1]);
    let (_, metric) = all.find(|(_, metric)| is_share_of_cpu(metric, amount))?;
    int(object_at(metric, &["resource", amount])?, "averageUtilization").map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Map {
        json::parse(text.as_bytes()).expect("is JSON").as_object().expect("an object").clone()
    }

    /// As kube-apiserver 1.36 shows an autoscaler of v2 in v1.
    #[test]
    fn what_v1_does_not_know_lies_in_annotations_and_comes_back() {
        let new = parsed(
            r#"{"metadata":{"name":"c","annotations":{"x":"y"}},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},
            "minReplicas":1,"maxReplicas":3,"metrics":[
            {"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}},
            {"type":"External","external":{"metric":{"name":"q","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"Value","value":"3"}}},
            {"type":"Object","object":{"describedObject":{"kind":"Service","name":"s","apiVersion":"v1"},"target":{"type":"AverageValue","averageValue":"7"},"metric":{"name":"o"}}},
            {"type":"ContainerResource","containerResource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":10},"container":"k"}},
            {"type":"Pods","pods":{"metric":{"name":"p"},"target":{"type":"AverageValue","averageValue":"9"}}},
            {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}],
            "behavior":{"scaleDown":{"stabilizationWindowSeconds":60,"selectPolicy":"Max","policies":[{"type":"Percent","value":100,"periodSeconds":15}],"tolerance":"100m"}}},
            "status":{"desiredReplicas":2,"currentReplicas":1,
            "currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"4m","averageUtilization":40}}}],
            "conditions":[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"r","message":"m"}]}}"#,
        );
        let old = to_old(&new);
        assert_eq!(int(object(&old, "spec").expect("a spec"), "targetCPUUtilizationPercentage"), Some(60));
        assert_eq!(int(object(&old, "status").expect("a status"), "currentCPUUtilizationPercentage"), Some(40));
        let annotations = object_at(&old, &["metadata", "annotations"]).expect("annotations");
        assert_eq!(
            text(annotations, METRICS),
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},{"type":"External","external":{"metricName":"q","metricSelector":{"matchLabels":{"a":"b"}},"targetValue":"3"}},{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"o","targetValue":"0","averageValue":"7"}},{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":10,"container":"k"}},{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"9"}}]"#
        );
        assert_eq!(
            text(annotations, CURRENT_METRICS),
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"currentAverageValue":"4m"}}]"#
        );
        assert_eq!(
            text(annotations, CONDITIONS),
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"r","message":"m"}]"#
        );
        assert_eq!(
            text(annotations, BEHAVIOR),
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":"100m"}}"#
        );
        let mut back = to_new(&old);
        // Defaults of v2 are filled in on the way.
        back.object_mut("spec").and_then(|spec| spec.object_mut("behavior")).expect("a behaviour").remove("scaleUp");
        assert_eq!(back, new);
    }

    #[test]
    fn a_new_autoscaler_without_metrics_goes_by_the_cpu() {
        let spec = r#""scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"maxReplicas":3"#;
        let mut scaler = parsed(&format!(
            r#"{{"metadata":{{"name":"a","annotations":{{"{BEHAVIOR}":"nonsense"}}}},"spec":{{{spec}}}}}"#
        ));
        OldAutoscaler.default(&mut scaler);
        OldAutoscaler.prepare(Operation::Create, &mut scaler);
        let expect = parsed(&format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{{spec},"minReplicas":1,"targetCPUUtilizationPercentage":80}},
            "status":{{"currentReplicas":0,"desiredReplicas":0}}}}"#
        ));
        assert_eq!(scaler, expect);
    }

    #[test]
    fn what_is_wrong_is_told_of_in_the_fields_of_v2() {
        let scaler = parsed(
            r#"{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},
            "minReplicas":-1,"targetCPUUtilizationPercentage":-5}}"#,
        );
        let errors: Vec<String> =
            OldAutoscaler.validate(Operation::Create, &scaler).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.minReplicas: Invalid value: -1: must be greater than or equal to 1",
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.metrics[0].resource.target.averageUtilization: Invalid value: -5: must be greater than 0",
            ]
        );
    }
}
