//! Nodes and the kinds of storage: a row each. Nothing binds or provisions beside either server.

use std::borrow::Cow;

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::kinds::{Kind, PLAIN, merge, mostly, some};
use crate::chance::Chance;

const STATUS: Cow<'static, [&'static str]> = Cow::Borrowed(&["status"]);
const STORAGE: Kind = Kind { area: "storage", ..PLAIN };
const CLUSTER: Kind = Kind { namespaced: false, ..STORAGE };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "persistentvolumes",
        kind: "PersistentVolume",
        subresources: STATUS,
        members: volume,
        change: volume,
        selectable: &["name=a"],
        ..CLUSTER
    },
    Kind {
        plural: "persistentvolumeclaims",
        kind: "PersistentVolumeClaim",
        subresources: STATUS,
        members: claim,
        change: claim,
        selectable: &["name=a"],
        ..STORAGE
    },
    Kind {
        group: "storage.k8s.io",
        plural: "storageclasses",
        kind: "StorageClass",
        members: class,
        change: class,
        ..CLUSTER
    },
    Kind {
        group: "storage.k8s.io",
        plural: "csidrivers",
        kind: "CSIDriver",
        members: driver,
        change: driver,
        ..CLUSTER
    },
    Kind {
        plural: "nodes",
        kind: "Node",
        subresources: STATUS,
        members: node,
        change: node,
        selectable: &["spec.unschedulable=true", "spec.unschedulable!=true"],
        ..CLUSTER
    },
];

const MODES: usize = 2;

fn modes(chance: &mut Chance) -> Value {
    let modes = [
        json!(["ReadWriteOnce"]),
        json!(["ReadWriteMany", "ReadOnlyMany"]),
        json!(["ReadWriteOncePod"]),
        json!(["ReadWriteOncePod", "ReadWriteOnce"]),
        json!(["Odd"]),
        json!([]),
        Value::Null,
    ];
    mostly(chance, 85, MODES, &modes)
}

fn volume(chance: &mut Chance) -> Value {
    let sizes = [
        json!({"storage": "1Gi"}),
        json!({"storage": "2Gi"}),
        json!({"storage": "0"}),
        json!({"storage": "-1"}),
        json!({"cpu": "1"}),
        json!({}),
    ];
    let mut spec = json!({"accessModes": (modes(chance)), "capacity": (mostly(chance, 85, 2, &sizes))});
    let sources = [
        json!({"hostPath": {"path": "/a"}}),
        json!({"nfs": {"server": "s", "path": "/a"}}),
        json!({"csi": {"driver": "example.com", "volumeHandle": "h"}}),
        json!({"hostPath": {"path": "/a/../b", "type": "Odd"}}),
        json!({"hostPath": {"path": ""}}),
        json!({"nfs": {"path": "a"}}),
        json!({"csi": {"driver": "Bad_"}}),
        json!({"local": {"path": "/a"}}),
        json!({"local": {"path": "/a"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}),
        json!({"hostPath": {"path": "/"}, "csi": {"driver": "example.com", "volumeHandle": "h"}}),
        json!({}),
    ];
    merge(&mut spec, mostly(chance, 75, 3, &sources));
    let odd = some(
        chance,
        12,
        &[
            ("persistentVolumeReclaimPolicy", &[json!("Retain"), json!("Delete"), json!("Recycle"), json!("Odd")]),
            ("storageClassName", &[json!("c"), json!("Bad_"), json!("")]),
            ("volumeMode", &[json!("Block"), json!("Filesystem"), json!("Odd")]),
            ("mountOptions", &[json!(["ro"]), json!([])]),
            ("claimRef", &[json!({"namespace": "n", "name": "c"}), json!({})]),
            ("volumeAttributesClassName", &[json!("v"), json!("")]),
        ],
    );
    merge(&mut spec, odd);
    let mut object = json!({"spec": spec});
    status(
        chance,
        &mut object,
        &[json!({"phase": "Bound"}), json!({"phase": "Odd", "message": "m", "reason": "r"}), json!({})],
    );
    object
}

fn claim(chance: &mut Chance) -> Value {
    let sizes = [
        json!({"requests": {"storage": "1Gi"}}),
        json!({"requests": {"storage": "2Gi"}}),
        json!({"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}}),
        json!({"requests": {"storage": "0"}}),
        json!({"requests": {"storage": "-1"}}),
        json!({"requests": {"storage": "0.5"}}),
        json!({"requests": {}}),
        json!({}),
    ];
    let mut spec = json!({"accessModes": (modes(chance)), "resources": (mostly(chance, 85, 3, &sizes))});
    let odd = some(
        chance,
        12,
        &[
            ("storageClassName", &[json!("c"), json!("Bad_"), json!("")]),
            ("volumeMode", &[json!("Block"), json!("Filesystem"), json!("Odd")]),
            ("volumeName", &[json!("v"), json!("")]),
            ("selector", &[json!({"matchLabels": {"a": "b"}}), json!({"matchLabels": {"bad key": "b"}}), json!({})]),
            (
                "dataSource",
                &[
                    json!({"kind": "PersistentVolumeClaim", "name": "a"}),
                    json!({"kind": "VolumeSnapshot", "name": "a", "apiGroup": "snapshot.storage.k8s.io"}),
                    json!({"kind": "Odd", "name": ""}),
                ],
            ),
            (
                "dataSourceRef",
                &[
                    json!({"kind": "PersistentVolumeClaim", "name": "a"}),
                    json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "other"}),
                    json!({"kind": "Odd", "name": "a", "apiGroup": "Bad_"}),
                ],
            ),
            ("volumeAttributesClassName", &[json!("v"), json!("Bad_"), json!("")]),
        ],
    );
    merge(&mut spec, odd);
    let mut object = json!({"spec": spec});
    status(
        chance,
        &mut object,
        &[
            json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}),
            json!({"phase": "Lost", "capacity": {"storage": "-1"}}),
            json!({"conditions": [{"type": "Resizing", "status": "True"}]}),
        ],
    );
    object
}

fn status(chance: &mut Chance, object: &mut Value, statuses: &[Value]) {
    if chance.strikes(20) {
        merge(object, json!({"status": (chance.pick(statuses).clone())}));
    }
}

fn class(chance: &mut Chance) -> Value {
    let provisioners =
        [json!("example.com/p"), json!("example.com/q"), json!("Example.com/P"), json!("bad name"), json!("")];
    let mut class = json!({"provisioner": (mostly(chance, 85, 1, &provisioners))});
    let term = |values: Value| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
    let topologies = [
        json!([(term(json!(["a", "b"])))]),
        json!([(term(json!(["a"]))), (term(json!(["b"])))]),
        json!([(term(json!(["a", "b"]))), (term(json!(["b", "a"])))]),
        json!([{"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]}]),
        json!([{"matchLabelExpressions": [{"key": "bad key", "values": []}]}]),
        json!([{"matchLabelExpressions": [{"key": "a", "values": ["x", "x"]}, {"key": "a", "values": ["y"]}]}]),
        json!([{}]),
        json!([{}, {}]),
        json!([]),
    ];
    let odd = some(
        chance,
        25,
        &[
            ("parameters", &[json!({"a": "b"}), json!({"": "x"}), json!({})]),
            ("reclaimPolicy", &[json!("Retain"), json!("Delete"), json!("Recycle"), json!("")]),
            ("volumeBindingMode", &[json!("WaitForFirstConsumer"), json!("Immediate"), json!("Odd")]),
            ("allowVolumeExpansion", &[json!(true), json!(false)]),
            ("mountOptions", &[json!(["ro"])]),
            ("allowedTopologies", &topologies),
        ],
    );
    merge(&mut class, odd);
    class
}

fn driver(chance: &mut Chance) -> Value {
    let spec = some(
        chance,
        20,
        &[
            ("attachRequired", &[json!(true), json!(false)]),
            ("podInfoOnMount", &[json!(true), json!(false)]),
            ("storageCapacity", &[json!(true)]),
            ("fsGroupPolicy", &[json!("File"), json!("None"), json!("Odd"), json!("")]),
            (
                "volumeLifecycleModes",
                &[json!(["Ephemeral"]), json!(["Persistent", "Ephemeral"]), json!(["Odd"]), json!([])],
            ),
            (
                "tokenRequests",
                &[
                    json!([{"audience": "a"}]),
                    json!([{"audience": "a", "expirationSeconds": 5}]),
                    json!([{"audience": "a"}, {"audience": "a"}]),
                    json!([{}]),
                ],
            ),
            ("requiresRepublish", &[json!(true)]),
            ("seLinuxMount", &[json!(true), json!(false)]),
            ("nodeAllocatableUpdatePeriodSeconds", &[json!(10), json!(9)]),
            ("serviceAccountTokenInSecrets", &[json!(true), json!(false)]),
        ],
    );
    json!({"spec": spec})
}

fn node(chance: &mut Chance) -> Value {
    let spec = some(
        chance,
        20,
        &[
            ("unschedulable", &[json!(true), json!(false)]),
            ("podCIDR", &[json!("10.1.0.0/24"), json!("x"), json!("")]),
            (
                "podCIDRs",
                &[json!(["10.1.0.0/24"]), json!(["10.1.0.0/24", "fd00::/64"]), json!(["10.1.0.1/24"]), json!([])],
            ),
            ("providerID", &[json!("a://b"), json!("a://c")]),
            (
                "taints",
                &[
                    json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]),
                    json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]),
                    json!([{"key": "bad key", "effect": "Odd"}]),
                    json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
                    json!([]),
                ],
            ),
        ],
    );
    let mut node = json!({"spec": spec});
    status(
        chance,
        &mut node,
        &[
            json!({"capacity": {"cpu": "2", "memory": "1Gi"}}),
            json!({"capacity": {"cpu": "-1"}, "allocatable": {"cpu": "1"}}),
            json!({"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}),
            json!({"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": "192.0.2.1"}]}),
            json!({"addresses": [{"type": "Hostname", "address": "h"}]}),
        ],
    );
    node
}
