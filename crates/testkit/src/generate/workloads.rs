//! The kinds that charts carry and that run: a row each. Valid objects, odd ones, and wrong ones.

use std::borrow::Cow;

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::kinds::{Kind, PLAIN, merge, some};
use super::pods::{pod_spec, selector, template};
use crate::chance::Chance;

const STATUS: Cow<'static, [&'static str]> = Cow::Borrowed(&["status"]);
const SCALED: Cow<'static, [&'static str]> = Cow::Borrowed(&["status", "scale", "scale"]);

const WORKLOAD: Kind = Kind { area: "workloads", ..PLAIN };
const APPS: Kind = Kind { group: "apps", subresources: SCALED, ..WORKLOAD };

pub(super) const KINDS: &[Kind] = &[
    Kind { plural: "deployments", kind: "Deployment", members: deployment, change: deployment, ..APPS },
    Kind {
        plural: "replicasets",
        kind: "ReplicaSet",
        members: replica_set,
        change: replica_set,
        selectable: &["status.replicas=0", "status.replicas!=0"],
        ..APPS
    },
    Kind { plural: "statefulsets", kind: "StatefulSet", members: stateful_set, change: stateful_set, ..APPS },
    Kind {
        plural: "daemonsets",
        kind: "DaemonSet",
        subresources: STATUS,
        members: daemon_set,
        change: daemon_set,
        ..APPS
    },
    Kind {
        plural: "controllerrevisions",
        kind: "ControllerRevision",
        subresources: PLAIN.subresources,
        members: revision,
        change: revision,
        ..APPS
    },
    Kind {
        plural: "replicationcontrollers",
        kind: "ReplicationController",
        subresources: SCALED,
        members: replication_controller,
        change: replication_controller,
        selectable: &["status.replicas=0"],
        ..WORKLOAD
    },
    Kind {
        group: "batch",
        plural: "jobs",
        kind: "Job",
        subresources: STATUS,
        members: job,
        change: job,
        selectable: &["status.successful=0", "status.successful!=1"],
        ..WORKLOAD
    },
    Kind {
        group: "batch",
        plural: "cronjobs",
        kind: "CronJob",
        subresources: STATUS,
        members: cron_job,
        change: cron_job,
        ..WORKLOAD
    },
    Kind {
        plural: "pods",
        kind: "Pod",
        subresources: Cow::Borrowed(&["status", "status", "ephemeralcontainers", "resize"]),
        members: pod,
        change: pod,
        selectable: &[
            "spec.nodeName=",
            "spec.restartPolicy=Always",
            "spec.schedulerName!=default-scheduler",
            "spec.serviceAccountName=default",
            "spec.hostNetwork=false",
            "status.phase=Pending",
            "status.phase!=Running,spec.nodeName=n",
            "status.podIP=10.1.2.3",
            "status.nominatedNodeName=",
        ],
        ..WORKLOAD
    },
    Kind {
        plural: "podtemplates",
        kind: "PodTemplate",
        members: |chance| json!({"template": (template(chance, "Always"))}),
        change: |chance| json!({"template": (template(chance, "Always"))}),
        ..WORKLOAD
    },
    Kind {
        group: "policy",
        plural: "poddisruptionbudgets",
        kind: "PodDisruptionBudget",
        subresources: STATUS,
        members: budget,
        change: budget,
        ..WORKLOAD
    },
    Kind {
        group: "autoscaling",
        version: "v2",
        plural: "horizontalpodautoscalers",
        kind: "HorizontalPodAutoscaler",
        subresources: STATUS,
        members: autoscaler,
        change: autoscaler,
        ..WORKLOAD
    },
    Kind {
        area: "quotas",
        plural: "limitranges",
        kind: "LimitRange",
        members: limit_range,
        change: limit_range,
        ..PLAIN
    },
    Kind { area: "quotas", plural: "resourcequotas", kind: "ResourceQuota", members: quota, change: quota, ..PLAIN },
];

fn replicas(chance: &mut Chance) -> Value {
    chance.pick(&[json!(0), json!(1), json!(3), json!(1), json!(3), json!(-1), Value::Null]).clone()
}

/// Counts and conditions, some of which make no sense.
fn status(chance: &mut Chance, names: &[&str]) -> Value {
    let mut status = json!({});
    for name in names {
        if chance.strikes(30) {
            let value = chance.pick(&[json!(0), json!(1), json!(2), json!(2), json!(5), json!(-1)]).clone();
            merge(&mut status, Value::Object([((*name).to_owned(), value)].into_iter().collect()));
        }
    }
    if chance.strikes(30) {
        let conditions = [
            json!([{"type": "A", "status": "True"}]),
            json!([{"type": "Available", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}]),
            json!([]),
        ];
        merge(&mut status, json!({"conditions": (chance.pick(&conditions).clone())}));
    }
    status
}

/// `spec`, and in some cases a status.
fn with_status(chance: &mut Chance, spec: Value, names: &[&str]) -> Value {
    let mut object = json!({"spec": spec});
    if chance.strikes(35) {
        merge(&mut object, json!({"status": (status(chance, names))}));
    }
    object
}

fn deployment(chance: &mut Chance) -> Value {
    let mut spec = json!({"selector": (selector(chance)), "template": (template(chance, "Always"))});
    if chance.strikes(50) {
        merge(&mut spec, json!({"replicas": (replicas(chance))}));
    }
    let odd = some(
        chance,
        15,
        &[
            (
                "strategy",
                &[
                    json!({"type": "Recreate"}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
                    json!({"rollingUpdate": {"maxUnavailable": "20%"}}),
                    json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
                    json!({"type": "Odd"}),
                    json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                    json!({"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "101%"}}),
                    json!({"rollingUpdate": {"maxSurge": (-1)}}),
                ],
            ),
            ("minReadySeconds", &[json!(5), json!(-1), json!(700)]),
            ("progressDeadlineSeconds", &[json!(600), json!(5), json!(0)]),
            ("revisionHistoryLimit", &[json!(0), json!(-1)]),
            ("paused", &[json!(true)]),
        ],
    );
    merge(&mut spec, odd);
    with_status(
        chance,
        spec,
        &["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "observedGeneration"],
    )
}

fn replica_set(chance: &mut Chance) -> Value {
    let mut spec = json!({"selector": (selector(chance)), "template": (template(chance, "Always"))});
    let odd = some(
        chance,
        30,
        &[("replicas", &[json!(0), json!(2), json!(-1)]), ("minReadySeconds", &[json!(1), json!(-1)])],
    );
    merge(&mut spec, odd);
    if chance.strikes(5) {
        merge(&mut spec, json!({"template": (Value::Null)}));
    }
    with_status(chance, spec, &["replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas"])
}

fn replication_controller(chance: &mut Chance) -> Value {
    let selectors = [json!({"app": "a"}), json!({"app": "a"}), json!({"app": "b"}), json!({}), Value::Null];
    let mut spec = json!({"selector": (chance.pick(&selectors).clone()), "template": (template(chance, "Always"))});
    let odd = some(
        chance,
        30,
        &[("replicas", &[json!(0), json!(2), json!(-1)]), ("minReadySeconds", &[json!(1), json!(-1)])],
    );
    merge(&mut spec, odd);
    with_status(chance, spec, &["replicas", "readyReplicas", "availableReplicas"])
}

fn stateful_set(chance: &mut Chance) -> Value {
    let mut spec = json!({
        "selector": (selector(chance)), "template": (template(chance, "Always")), "serviceName": "s"
    });
    let odd = some(
        chance,
        15,
        &[
            ("replicas", &[json!(0), json!(2), json!(-1)]),
            ("serviceName", &[json!(""), json!("Bad_"), json!("t")]),
            ("podManagementPolicy", &[json!("Parallel"), json!("OrderedReady"), json!("Odd")]),
            (
                "updateStrategy",
                &[
                    json!({"type": "OnDelete"}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
                    json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"partition": (-1)}}),
                    json!({"type": "Odd"}),
                ],
            ),
            (
                "volumeClaimTemplates",
                &[
                    json!([{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]),
                    json!([{"metadata": {"name": "d"}, "spec": {}}]),
                ],
            ),
            (
                "persistentVolumeClaimRetentionPolicy",
                &[json!({"whenDeleted": "Delete"}), json!({"whenScaled": "Odd"}), json!({})],
            ),
            ("ordinals", &[json!({"start": 1}), json!({"start": (-1)})]),
            ("revisionHistoryLimit", &[json!(3), json!(-1)]),
            ("minReadySeconds", &[json!(3), json!(-1)]),
        ],
    );
    merge(&mut spec, odd);
    with_status(chance, spec, &["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "collisionCount"])
}

fn daemon_set(chance: &mut Chance) -> Value {
    let mut spec = json!({"selector": (selector(chance)), "template": (template(chance, "Always"))});
    let odd = some(
        chance,
        20,
        &[
            (
                "updateStrategy",
                &[
                    json!({"type": "OnDelete"}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "10%"}}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}),
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}),
                    json!({"type": "Odd"}),
                ],
            ),
            ("minReadySeconds", &[json!(3), json!(-1)]),
            ("revisionHistoryLimit", &[json!(3), json!(-1)]),
        ],
    );
    merge(&mut spec, odd);
    with_status(
        chance,
        spec,
        &["currentNumberScheduled", "numberReady", "desiredNumberScheduled", "numberMisscheduled"],
    )
}

fn revision(chance: &mut Chance) -> Value {
    let data = [json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}), json!({}), Value::Null, json!("x"), json!([1])];
    json!({"revision": (chance.pick(&[json!(1), json!(1), json!(2), json!(-1)]).clone()), "data": (chance.pick(&data).clone())})
}

fn job_spec(chance: &mut Chance) -> Value {
    let mut spec = json!({"template": (template(chance, "Never"))});
    let odd = some(
        chance,
        12,
        &[
            ("parallelism", &[json!(1), json!(2), json!(0), json!(-1)]),
            ("completions", &[json!(1), json!(2), json!(-1)]),
            ("completionMode", &[json!("Indexed"), json!("NonIndexed"), json!("Odd")]),
            ("backoffLimit", &[json!(1), json!(-1)]),
            ("backoffLimitPerIndex", &[json!(1)]),
            ("activeDeadlineSeconds", &[json!(10), json!(-1)]),
            ("ttlSecondsAfterFinished", &[json!(10), json!(-1)]),
            ("suspend", &[json!(true), json!(false)]),
            ("manualSelector", &[json!(true), json!(false)]),
            ("selector", &[json!({"matchLabels": {"app": "a"}}), json!({})]),
            ("podReplacementPolicy", &[json!("Failed"), json!("TerminatingOrFailed"), json!("Odd")]),
            ("managedBy", &[json!("example.com/own"), json!("bad")]),
            ("maxFailedIndexes", &[json!(1), json!(-1)]),
            (
                "podFailurePolicy",
                &[
                    json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]}),
                    json!({"rules": [{"action": "FailIndex", "onExitCodes": {"containerName": "x", "operator": "In", "values": [2, 0, 2]}}]}),
                    json!({"rules": [{"action": "Odd", "onPodConditions": [{"type": "bad type", "status": "Odd"}]}]}),
                    json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}, {"action": "Count"}]}),
                    json!({"rules": [{"onExitCodes": {"operator": "Odd", "values": []}, "onPodConditions": [{"type": "A", "status": "True"}]}]}),
                    json!({"rules": []}),
                ],
            ),
            (
                "successPolicy",
                &[
                    json!({"rules": [{"succeededCount": 1}]}),
                    json!({"rules": [{"succeededIndexes": "0,x", "succeededCount": 9}]}),
                    json!({"rules": [{}]}),
                    json!({"rules": []}),
                ],
            ),
        ],
    );
    merge(&mut spec, odd);
    spec
}

fn job(chance: &mut Chance) -> Value {
    let spec = job_spec(chance);
    let mut job = json!({"spec": spec});
    if chance.strikes(35) {
        let mut status = status(chance, &["active", "succeeded", "failed", "ready"]);
        let more = some(
            chance,
            20,
            &[
                ("startTime", &[json!("2026-01-02T03:04:05Z")]),
                ("completionTime", &[json!("2026-01-02T03:04:06Z"), json!("2026-01-02T03:04:04Z")]),
                (
                    "conditions",
                    &[
                        json!([{"type": "Complete", "status": "True"}]),
                        json!([{"type": "Failed", "status": "True"}, {"type": "FailureTarget", "status": "True"}]),
                    ],
                ),
                ("uncountedTerminatedPods", &[json!({}), json!({"succeeded": ["u"]})]),
            ],
        );
        merge(&mut status, more);
        merge(&mut job, json!({"status": status}));
    }
    job
}

fn cron_job(chance: &mut Chance) -> Value {
    let mut spec =
        json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": (template(chance, "OnFailure"))}}});
    let forever = json!({"spec": {"template": (template(chance, "Always"))}});
    let other = json!({"metadata": {"labels": {"x": "y"}}, "spec": (job_spec(chance))});
    let odd = some(
        chance,
        15,
        &[
            (
                "schedule",
                &[
                    json!("@daily"),
                    json!("0 0 1 1 0"),
                    json!("@every 1h"),
                    json!("odd"),
                    json!(""),
                    json!("61 * * * *"),
                    json!("TZ=Europe/Berlin * * * * *"),
                    json!("0 0 * * MON-FRI"),
                    json!("* * * *"),
                ],
            ),
            ("concurrencyPolicy", &[json!("Forbid"), json!("Replace"), json!("Odd"), json!("")]),
            ("startingDeadlineSeconds", &[json!(5), json!(-1)]),
            ("successfulJobsHistoryLimit", &[json!(0), json!(-1)]),
            ("failedJobsHistoryLimit", &[json!(2), json!(-1)]),
            ("suspend", &[json!(true)]),
            ("timeZone", &[json!("Etc/UTC"), json!("Europe/Berlin"), json!("Local"), json!("Odd/Place"), json!("")]),
            ("jobTemplate", &[forever, other]),
        ],
    );
    merge(&mut spec, odd);
    let mut object = json!({"spec": spec});
    if chance.strikes(20) {
        let status = [
            json!({"lastScheduleTime": "2026-01-02T03:04:05Z"}),
            json!({"active": [{"kind": "Job", "name": "j", "namespace": "${ns}"}]}),
            json!({}),
        ];
        merge(&mut object, json!({"status": (chance.pick(&status).clone())}));
    }
    object
}

fn pod(chance: &mut Chance) -> Value {
    let mut object = json!({"spec": (pod_spec(chance, "Always"))});
    if chance.strikes(8) {
        let put_in = [
            json!([{"name": "e", "image": "i"}]),
            json!([{"name": "e", "image": "j:1"}, {"name": "f", "image": "i"}]),
            json!([{"name": "c", "image": "i", "targetContainerName": "c"}]),
            json!([{"name": "e", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "x"}]}]),
        ];
        let put_in = chance.pick(&put_in).clone();
        if let Some(spec) = object.get_mut("spec") {
            merge(spec, json!({"ephemeralContainers": put_in}));
        }
    }
    if chance.strikes(10) {
        merge(
            &mut object,
            json!({"spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false, "nodeName": "n"}}),
        );
    }
    if chance.strikes(30) {
        let status = [
            json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}),
            json!({"phase": "Running", "podIP": "10.1.2.3"}),
            json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}),
            json!({"podIP": "x"}),
            json!({"containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "x", "state": {"running": {}}}]}),
            json!({"qosClass": "Odd"}),
            json!({}),
        ];
        merge(&mut object, json!({"status": (chance.pick(&status).clone())}));
    }
    object
}

fn budget(chance: &mut Chance) -> Value {
    let mut spec = json!({"selector": (selector(chance))});
    let odd = some(
        chance,
        40,
        &[
            ("minAvailable", &[json!(1), json!("50%"), json!("101%"), json!("x"), json!(-1)]),
            ("maxUnavailable", &[json!(1), json!("50%"), json!(-1)]),
            ("unhealthyPodEvictionPolicy", &[json!("AlwaysAllow"), json!("Odd")]),
        ],
    );
    merge(&mut spec, odd);
    let mut object =
        with_status(chance, spec, &["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"]);
    if chance.strikes(10) {
        merge(&mut object, json!({"spec": (Value::Null)}));
    }
    object
}

fn autoscaler(chance: &mut Chance) -> Value {
    let mut spec =
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": 3});
    let odd = some(
        chance,
        20,
        &[
            (
                "scaleTargetRef",
                &[
                    json!({"kind": "Deployment", "name": "a"}),
                    json!({}),
                    json!({"kind": "Bad/", "name": "x/y", "apiVersion": "a/b/c"}),
                ],
            ),
            ("minReplicas", &[json!(1), json!(0), json!(5), json!(-1)]),
            ("maxReplicas", &[json!(0), json!(-1), json!(5)]),
            (
                "metrics",
                &[
                    json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]),
                    json!([{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]),
                    json!([{"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1k"}}}]),
                    json!([{"type": "Odd"}]),
                    json!([{"type": "Resource"}]),
                    json!([]),
                ],
            ),
            (
                "behavior",
                &[
                    json!({"scaleDown": {"stabilizationWindowSeconds": 60}}),
                    json!({"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}], "selectPolicy": "Min"}}),
                    json!({"scaleUp": {"policies": [], "stabilizationWindowSeconds": 9999}}),
                    json!({}),
                ],
            ),
        ],
    );
    merge(&mut spec, odd);
    with_status(chance, spec, &["currentReplicas", "desiredReplicas", "observedGeneration"])
}

fn limit_range(chance: &mut Chance) -> Value {
    let items = [
        json!({"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}),
        json!({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}),
        json!({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}),
        json!({"type": "Pod", "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"memory": "2"}}),
        json!({"type": "Pod", "default": {"cpu": "1"}}),
        json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
        json!({"type": "PersistentVolumeClaim"}),
        json!({"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "500m"}}),
        json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}}),
        json!({"type": "Odd", "max": {"odd": "1"}}),
        json!({"type": "example.com/own", "max": {"cpu": "1"}}),
        json!({"max": {"cpu": "x"}}),
    ];
    let mut limits = vec![chance.pick(&items).clone()];
    if chance.strikes(30) {
        limits.push(chance.pick(&items).clone());
    }
    json!({"spec": {"limits": (Value::Array(limits))}})
}

/// Only objects of which sequences make none are counted, and none that the quota's own controller finds: it
/// writes when it likes. What a quota does is not compared.
fn quota(chance: &mut Chance) -> Value {
    let mut spec = json!({});
    let odd = some(
        chance,
        50,
        &[
            (
                "hard",
                &[
                    json!({"pods": "1"}),
                    json!({"requests.cpu": "1", "limits.memory": "1Gi"}),
                    json!({"count/widgets.example.com": "2"}),
                    json!({"pods": "0.5"}),
                    json!({"pods": "-1"}),
                    json!({"odd": "1"}),
                    json!({"requests.storage": "x"}),
                    json!({"services.nodeports": 3, "persistentvolumeclaims": "1k"}),
                    json!({}),
                ],
            ),
            (
                "scopes",
                &[
                    json!(["BestEffort"]),
                    json!(["NotTerminating"]),
                    json!(["BestEffort", "NotBestEffort"]),
                    json!(["Odd"]),
                    json!([]),
                ],
            ),
            (
                "scopeSelector",
                &[
                    json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}),
                    json!({"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}]}),
                    json!({"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": ["x"]}]}),
                    json!({"matchExpressions": [{"scopeName": "Odd", "operator": "Odd"}]}),
                ],
            ),
        ],
    );
    merge(&mut spec, odd);
    json!({"spec": spec})
}
