//! Pods and their templates: valid ones, odd ones, and wrong ones.

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::Maker;
use super::kinds::{merge, some};
use crate::chance::Chance;
use crate::sequence::{Body, Step};

impl Maker {
    /// A request to a part of a pod that is no object: its node, its eviction, what leads to its containers.
    pub(super) fn part_of_pod(&mut self, name: &str, item: &str) {
        let mut query = Vec::new();
        let part =
            self.chance.text(&["binding", "binding", "eviction", "eviction", "log", "exec", "attach", "portforward"]);
        let streams = !matches!(part.as_str(), "binding" | "eviction");
        let (version, uid) = (self.earlier("rv"), self.earlier("uid"));
        let body = match part.as_str() {
            "binding" => {
                let odd = [
                    json!({"metadata": {"name": name}, "target": {"name": "n"}}),
                    json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}),
                    json!({"metadata": {"name": name, "labels": {"l": "1"}, "annotations": {"a": "1"}}, "target": {"name": "m"}}),
                    json!({"metadata": {"name": name, "uid": uid}, "target": {"name": "n"}}),
                    json!({"metadata": {"name": "other"}, "target": {"name": "n"}}),
                    json!({"metadata": {"name": name}, "target": {"kind": "Odd"}}),
                    json!({"target": {}}),
                ];
                self.chance.pick(&odd).clone()
            }
            "eviction" => {
                let odd = [
                    json!({"metadata": {"name": name}}),
                    json!({"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 0}}),
                    json!({"metadata": {"name": name}, "deleteOptions": {"dryRun": ["All"]}}),
                    json!({"metadata": {"name": name}, "deleteOptions": {"preconditions": {"resourceVersion": version}}}),
                    json!({"metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": uid}}}),
                    json!({"metadata": {"name": "other"}}),
                ];
                self.chance.pick(&odd).clone()
            }
            _ => Value::Null,
        };
        if streams && self.chance.strikes(30) {
            query.push(("container".to_owned(), self.chance.text(&["c", "side", "x"])));
        }
        if part == "log" && self.chance.strikes(30) {
            let (name, value) = *self.chance.pick(&[
                ("tailLines", "-1"),
                ("limitBytes", "0"),
                ("sinceSeconds", "0"),
                ("follow", "true"),
            ]);
            query.push((name.to_owned(), value.to_owned()));
        }
        if !streams && self.chance.strikes(10) {
            query.push(("dryRun".to_owned(), "All".to_owned()));
        }
        let (api, kind) = if part == "eviction" { ("policy/v1", "Eviction") } else { ("v1", "Binding") };
        let mut body = body;
        if !streams && self.chance.strikes(90) {
            merge(&mut body, json!({"apiVersion": api, "kind": kind}));
        }
        let reads = part == "log" || streams && self.chance.strikes(50);
        let method = if reads { "GET" } else { "POST" };
        let body = if streams { Body::None } else { Body::Json(body) };
        self.push(Step { method: method.to_owned(), path: format!("{item}/{part}"), query, body, ..Step::default() });
    }
}

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
    let mut spec = json!({"containers": (Value::Array(containers))});
    if chance.strikes(80) {
        merge(&mut spec, json!({"automountServiceAccountToken": false}));
    }
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
    let rare = rare(chance);
    merge(&mut spec, rare);
    if chance.strikes(2) {
        merge(&mut spec, json!({"containers": (chance.pick(&[json!([]), Value::Null, json!([{}])]).clone())}));
    }
    spec
}

/// Members that few pods have.
fn rare(chance: &mut Chance) -> Value {
    some(
        chance,
        3,
        &[
            (
                "volumes",
                &[
                    json!([{"name": "v", "nfs": {"server": "s", "path": "p"}}, {"name": "w", "csi": {"driver": "d_"}}]),
                    json!([{"name": "v", "gitRepo": {"repository": "r", "directory": "../x"}}]),
                    json!([{"name": "v", "rbd": {"monitors": [], "image": "i"}}, {"name": "w", "cephfs": {}}]),
                    json!([{"name": "v", "iscsi": {"targetPortal": "p", "iqn": "iqn.x", "lun": 300}}]),
                    json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0.5"}}}}}}]),
                    json!([{"name": "v", "downwardAPI": {"items": [{"path": "..x", "fieldRef": {"fieldPath": "spec.nodeName"}}, {"path": "r", "resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}]}}]),
                    json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "", "expirationSeconds": 1}}, {}]}}]),
                    json!([{"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p/q"}]}}]),
                    json!([{"name": "v", "image": {"reference": "", "pullPolicy": "Odd"}}]),
                    json!([{"name": "v", "hostPath": {"path": "/x/.."}}, {"name": "w", "fc": {"targetWWNs": ["a"]}}]),
                    json!([{"name": "v", "azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Odd"}}]),
                ],
            ),
            (
                "affinity",
                &[
                    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
                    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "bad key", "operator": "Exists", "values": ["x"]}], "matchFields": [{"key": "metadata.uid", "operator": "Gt", "values": ["1"]}]}]}}}),
                    json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "In", "values": ["bad value!"]}]}}]}}),
                    json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}),
                    json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": {"topologyKey": "zone", "matchLabelKeys": ["app"], "labelSelector": {"matchLabels": {"x": "y"}}, "namespaces": ["Bad_"]}}]}}),
                ],
            ),
            (
                "topologySpreadConstraints",
                &[
                    json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 0}]),
                    json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Odd"}]),
                ],
            ),
            (
                "securityContext",
                &[
                    json!({"sysctls": [{"name": "net.core.x", "value": "1"}, {"name": "Bad", "value": "1"}, {"name": "net.core.x", "value": ""}]}),
                    json!({"windowsOptions": {"runAsUserName": "a*b", "hostProcess": true}}),
                    json!({"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "Odd"}}),
                    json!({"seccompProfile": {"type": "Unconfined", "localhostProfile": "x"}, "supplementalGroupsPolicy": "Odd"}),
                ],
            ),
            ("os", &[json!({"name": "windows"}), json!({"name": "linux"}), json!({"name": "odd"}), json!({})]),
            ("hostUsers", &[json!(false)]),
            ("hostPID", &[json!(true)]),
            ("hostIPC", &[json!(true)]),
            ("overhead", &[json!({"cpu": "1"}), json!({"odd": "1", "memory": "-1"})]),
            ("serviceAccountName", &[json!("missing"), json!("Bad_")]),
            ("priorityClassName", &[json!("missing"), json!("system-cluster-critical"), json!("${r}-a")]),
            ("priority", &[json!(0), json!(5)]),
            ("preemptionPolicy", &[json!("Never"), json!("Odd"), json!("")]),
            ("runtimeClassName", &[json!("Bad_")]),
            ("hostnameOverride", &[json!("a.b"), json!("Bad_")]),
            ("setHostnameAsFQDN", &[json!(true)]),
            ("subdomain", &[json!("s"), json!("Bad_")]),
            ("schedulingGates", &[json!([{"name": "a"}]), json!([{"name": "bad name"}, {"name": "bad name"}])]),
            ("readinessGates", &[json!([{"conditionType": "a"}]), json!([{"conditionType": "bad type"}])]),
            ("resources", &[json!({"limits": {"cpu": "1", "odd": "1"}}), json!({"requests": {"memory": "1Mi"}})]),
            ("resourceClaims", &[json!([{"name": "a"}]), json!([{"name": "a", "resourceClaimName": "b"}])]),
            (
                "ephemeralContainers",
                &[json!([{"name": "e", "image": "i", "targetContainerName": "x", "ports": [{"containerPort": 1}]}])],
            ),
            (
                "initContainers",
                &[
                    json!([{"name": "i", "image": " i", "restartPolicy": "Odd"}]),
                    json!([{"name": "i", "image": "i", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]),
                ],
            ),
            ("dnsConfig", &[json!({"searches": ["a_b.", ".", "Bad "], "options": [{"value": "x"}]})]),
            ("hostAliases", &[json!([{"ip": "::ffff:1.2.3.4", "hostnames": []}, {"ip": "2001:DB8::1"}])]),
            ("imagePullSecrets", &[json!([{"name": "p"}, {"name": "p"}]), json!([])]),
            ("tolerations", &[json!([{"key": "a", "operator": "Lt", "value": "1"}]), json!([])]),
        ],
    )
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
    let rare = rare_in_container(chance);
    merge(&mut container, rare);
    if chance.strikes(2) {
        merge(
            &mut container,
            chance.pick(&[json!({"name": "Bad_"}), json!({"image": ""}), json!({"image": " x"})]).clone(),
        );
    }
    container
}

/// Members that few containers have.
fn rare_in_container(chance: &mut Chance) -> Value {
    some(
        chance,
        2,
        &[
            (
                "env",
                &[
                    json!([{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.odd", "divisor": "1"}}}]),
                    json!([{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}}}]),
                    json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['bad key']"}}}]),
                    json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.host", "apiVersion": "v2"}}}]),
                    json!([{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k", "volumeName": "v", "path": "../p"}}}]),
                    json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}]),
                    json!([{"name": "A=", "valueFrom": {"secretKeyRef": {"name": "Bad_", "key": "bad key"}}}]),
                ],
            ),
            (
                "volumeMounts",
                &[
                    json!([{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]),
                    json!([{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}, {"name": "v", "mountPath": "/v"}]),
                    json!([{"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "/b"}]),
                ],
            ),
            ("volumeDevices", &[json!([{"name": "v", "devicePath": "/../d"}, {"name": "v", "devicePath": "/v"}])]),
            (
                "ports",
                &[
                    json!([{"containerPort": 80, "hostIP": "1.2.3.4"}, {"containerPort": 80}]),
                    json!([{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80, "name": "web"}]),
                ],
            ),
            (
                "lifecycle",
                &[
                    json!({"preStop": {"sleep": {"seconds": 100}}, "stopSignal": "SIGTERM"}),
                    json!({"postStart": {"httpGet": {"port": 80, "httpHeaders": [{"name": "Bad_", "value": ""}]}}}),
                ],
            ),
            ("livenessProbe", &[json!({"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 0})]),
            ("readinessProbe", &[json!({"exec": {"command": []}, "terminationGracePeriodSeconds": 5})]),
            ("restartPolicy", &[json!("Always"), json!("Odd"), json!("Never")]),
            (
                "restartPolicyRules",
                &[
                    json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
                    json!([{"action": "Odd"}]),
                ],
            ),
            ("resizePolicy", &[json!([{"resourceName": "cpu", "restartPolicy": "Odd"}]), json!([{}])]),
            (
                "securityContext",
                &[
                    json!({"windowsOptions": {"gmsaCredentialSpec": "", "hostProcess": false}}),
                    json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
                    json!({"procMount": "Unmasked", "seccompProfile": {"type": "Localhost", "localhostProfile": "/x"}}),
                    json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": " x"}}),
                ],
            ),
            ("resources", &[json!({"limits": {"hugepages-2Mi": "1Mi"}}), json!({"claims": [{"name": "a"}, {}]})]),
            ("image", &[json!(" i"), json!("i ")]),
        ],
    )
}
