//! Pods and their templates: valid ones, odd ones, and wrong ones.
//!
//! They say that they want no token, since its volume has a random name.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::kinds::{merge, some};
use crate::chance::Chance;

/// A selector that fits the templates, or another one.
pub(super) fn selector(chance: &mut Chance) -> Value {
    if chance.strikes(80) {
        return json!({"matchLabels": {"app": "a"}});
    }
    let odd = [
        json!({"matchLabels": {"app": "b"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists"}], "matchLabels": {"app": "a"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "Odd"}]}),
        json!({"matchExpressions": [{"key": "bad key", "operator": "In"}]}),
        json!({"matchLabels": {"bad key": "bad value!"}}),
        json!({}),
        Value::Null,
    ];
    chance.pick(&odd).clone()
}

pub(super) fn template(chance: &mut Chance, restart: &str) -> Value {
    let labels = [json!({"app": "a"}), json!({"app": "a", "x": "y"}), json!({"app": "b"}), json!({"bad key": "1"})];
    let labels = if chance.strikes(85) { labels[0].clone() } else { chance.pick(&labels).clone() };
    json!({"metadata": {"labels": labels}, "spec": (pod_spec(chance, restart))})
}

pub(super) fn pod_spec(chance: &mut Chance, restart: &str) -> Value {
    let mut containers = vec![container(chance, "c")];
    if chance.strikes(15) {
        containers.push(container(chance, "side"));
    }
    let mut spec = json!({"containers": (Value::Array(containers)), "automountServiceAccountToken": false});
    if restart != "Always" {
        merge(&mut spec, json!({"restartPolicy": restart}));
    }
    let usual = some(
        chance,
        8,
        &[
            (
                "volumes",
                &[
                    json!([{"name": "v", "emptyDir": {}}]),
                    json!([{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}}]),
                    json!([{"name": "v", "secret": {"secretName": "s", "defaultMode": 256}}]),
                    json!([{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "p"}}]),
                    json!([{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}, {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}]),
                    json!([{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
                    json!([{"name": "Bad_", "emptyDir": {"sizeLimit": "1Gi"}}]),
                    json!([{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]),
                    json!([{"name": "v"}]),
                    json!([{"name": "v", "hostPath": {"path": "../x", "type": "Odd"}}]),
                ],
            ),
            ("nodeSelector", &[json!({"a": "1"}), json!({"bad key": "x"})]),
            (
                "tolerations",
                &[
                    json!([{"key": "a", "operator": "Exists"}]),
                    json!([{"operator": "Exists"}]),
                    json!([{"key": "a", "operator": "Odd"}]),
                    json!([{"key": "a", "value": "b", "operator": "Exists", "effect": "NoExecute"}]),
                    json!([{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]),
                ],
            ),
            (
                "securityContext",
                &[
                    json!({"runAsUser": 1, "fsGroup": 2}),
                    json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}),
                    json!({"runAsUser": (-1)}),
                    json!({"fsGroupChangePolicy": "Odd", "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}),
                    json!({"supplementalGroups": [1, (-2)]}),
                ],
            ),
            ("imagePullSecrets", &[json!([{"name": "p"}]), json!([{"name": ""}])]),
            ("terminationGracePeriodSeconds", &[json!(0), json!(10), json!(-1)]),
            ("dnsPolicy", &[json!("Default"), json!("None"), json!("Odd")]),
            (
                "dnsConfig",
                &[
                    json!({"nameservers": ["1.1.1.1"], "options": [{"name": "ndots", "value": "2"}]}),
                    json!({"nameservers": ["x"]}),
                ],
            ),
            (
                "hostAliases",
                &[json!([{"ip": "1.2.3.4", "hostnames": ["a.b"]}]), json!([{"ip": "x", "hostnames": ["_"]}])],
            ),
            ("hostNetwork", &[json!(true), json!(false)]),
            ("serviceAccountName", &[json!("default")]),
            ("restartPolicy", &[json!("Never"), json!("OnFailure"), json!("Odd"), json!("")]),
            ("schedulerName", &[json!("own"), json!("")]),
            ("priorityClassName", &[json!("system-node-critical")]),
            ("hostname", &[json!("h"), json!("Bad_")]),
            ("enableServiceLinks", &[json!(false)]),
            ("shareProcessNamespace", &[json!(true)]),
            ("activeDeadlineSeconds", &[json!(5), json!(0)]),
            (
                "initContainers",
                &[
                    json!([{"name": "i", "image": "i"}]),
                    json!([{"name": "c", "image": "i"}]),
                    json!([{"name": "i", "image": "i", "restartPolicy": "Always"}]),
                    json!([{"name": "i", "image": "i", "livenessProbe": {"tcpSocket": {"port": 1}}}]),
                ],
            ),
            (
                "affinity",
                &[
                    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}),
                    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}}),
                    json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "podAffinityTerm": {"topologyKey": ""}}]}}),
                    json!({}),
                ],
            ),
            (
                "topologySpreadConstraints",
                &[
                    json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]),
                    json!([{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Odd"}]),
                ],
            ),
        ],
    );
    merge(&mut spec, usual);
    if chance.strikes(2) {
        merge(&mut spec, json!({"containers": (chance.pick(&[json!([]), Value::Null, json!([{}])]).clone())}));
    }
    spec
}

fn container(chance: &mut Chance, name: &str) -> Value {
    let mut container = json!({"name": name, "image": (chance.text(&["i", "j:1", "k:latest"]))});
    let more = some(
        chance,
        9,
        &[
            (
                "env",
                &[
                    json!([{"name": "A", "value": "1"}]),
                    json!([{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
                    json!([{"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "A"}]),
                    json!([{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.odd"}}}]),
                    json!([{"name": ""}]),
                    json!([{"name": "A", "value": "1", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]),
                ],
            ),
            (
                "envFrom",
                &[
                    json!([{"configMapRef": {"name": "c"}}]),
                    json!([{"prefix": "X_", "secretRef": {"name": "s"}}]),
                    json!([{}]),
                ],
            ),
            (
                "ports",
                &[
                    json!([{"containerPort": 80}]),
                    json!([{"containerPort": 80, "name": "web", "protocol": "TCP"}]),
                    json!([{"containerPort": 0}]),
                    json!([{"containerPort": 70000, "protocol": "Odd"}]),
                    json!([{"containerPort": 80, "name": "Bad_Name", "hostPort": 81}]),
                ],
            ),
            (
                "resources",
                &[
                    json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
                    json!({"limits": {"cpu": 1}, "requests": {"cpu": "500m"}}),
                    json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                    json!({"requests": {"cpu": "-1"}}),
                    json!({"limits": {"odd": "1", "example.com/x": "1.5"}}),
                    json!({"limits": {"memory": "0.5"}}),
                ],
            ),
            ("args", &[json!(["x"]), json!([])]),
            ("command", &[json!(["x", "y"])]),
            (
                "volumeMounts",
                &[
                    json!([{"name": "v", "mountPath": "/v"}]),
                    json!([{"name": "v", "mountPath": "/v", "subPath": "../x"}]),
                    json!([{"name": "v", "mountPath": ""}]),
                ],
            ),
            (
                "livenessProbe",
                &[
                    json!({"httpGet": {"path": "/", "port": 80}}),
                    json!({"tcpSocket": {"port": "web"}, "periodSeconds": 5}),
                    json!({"exec": {"command": ["x"]}, "successThreshold": 2}),
                    json!({"grpc": {"port": 9}}),
                    json!({}),
                    json!({"httpGet": {"port": 0}, "tcpSocket": {"port": 1}}),
                ],
            ),
            ("readinessProbe", &[json!({"httpGet": {"port": "x", "scheme": "HTTPS"}, "timeoutSeconds": (-1)})]),
            ("startupProbe", &[json!({"exec": {"command": ["x"]}, "failureThreshold": 30})]),
            ("lifecycle", &[json!({"preStop": {"exec": {"command": ["x"]}}}), json!({"postStart": {}})]),
            ("imagePullPolicy", &[json!("Always"), json!("Odd"), json!("Never")]),
            (
                "securityContext",
                &[
                    json!({"privileged": true}),
                    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
                    json!({"privileged": true, "allowPrivilegeEscalation": false}),
                    json!({"runAsUser": (-1), "procMount": "Odd"}),
                ],
            ),
            ("terminationMessagePolicy", &[json!("FallbackToLogsOnError"), json!("Odd")]),
            ("workingDir", &[json!("/")]),
            ("stdin", &[json!(true)]),
        ],
    );
    merge(&mut container, more);
    if chance.strikes(2) {
        merge(
            &mut container,
            chance.pick(&[json!({"name": "Bad_"}), json!({"image": ""}), json!({"image": " x"})]).clone(),
        );
    }
    container
}
