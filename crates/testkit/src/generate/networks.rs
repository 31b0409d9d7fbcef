//! The kinds of networks and storage that charts carry: a row each.

use std::borrow::Cow;

use allotment_machinery::json;
use allotment_machinery::json::Value;

use super::kinds::{Kind, PLAIN, merge, mostly, some};
use crate::chance::Chance;

const STATUS: Cow<'static, [&'static str]> = Cow::Borrowed(&["status"]);
const NETWORK: Kind = Kind { area: "networks", ..PLAIN };
const NETWORKING: Kind = Kind { group: "networking.k8s.io", ..NETWORK };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "services",
        kind: "Service",
        subresources: STATUS,
        members: service,
        change: service,
        selectable: &["spec.clusterIP=None", "spec.clusterIP!=None", "spec.type=ClusterIP", "spec.type=ExternalName"],
        ..NETWORK
    },
    Kind {
        group: "discovery.k8s.io",
        plural: "endpointslices",
        kind: "EndpointSlice",
        members: slice,
        change: slice,
        ..NETWORK
    },
    Kind {
        plural: "ingresses",
        kind: "Ingress",
        subresources: STATUS,
        members: ingress,
        change: ingress,
        ..NETWORKING
    },
    Kind { plural: "networkpolicies", kind: "NetworkPolicy", members: policy, change: policy, ..NETWORKING },
    Kind {
        plural: "ingressclasses",
        kind: "IngressClass",
        namespaced: false,
        members: ingress_class,
        change: ingress_class,
        ..NETWORKING
    },
    Kind { plural: "endpoints", kind: "Endpoints", members: endpoints, change: endpoints, ..NETWORK },
];

fn service(chance: &mut Chance) -> Value {
    let ports = [
        json!([{"port": 80}]),
        json!([{"name": "a", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}]),
        json!([{"name": "b", "port": 443, "targetPort": "https"}, {"name": "a", "port": 80, "targetPort": 8080}]),
        json!([{"port": 80, "appProtocol": "kubernetes.io/h2c"}]),
        json!([{"port": 80}, {"port": 81}]),
        json!([{"name": "a", "port": 80}, {"name": "a", "port": 81}]),
        json!([{"port": 0, "protocol": "Odd"}]),
        json!([{"port": 80, "targetPort": "Bad_Name"}]),
        json!([{"port": 80, "nodePort": 3}]),
        json!([{"port": 80, "appProtocol": ""}]),
        json!([{"name": "a", "port": 80, "nodePort": 3}, {"name": "b", "port": 80, "nodePort": 3}]),
        json!([]),
    ];
    let mut spec = json!({"ports": (mostly(chance, 80, 4, &ports))});
    let odd = some(
        chance,
        15,
        &[
            (
                "type",
                &[json!("ClusterIP"), json!("NodePort"), json!("LoadBalancer"), json!("ExternalName"), json!("Odd")],
            ),
            ("clusterIP", &[json!("None"), json!("None"), json!(""), json!("x"), json!("1.2.3.4"), json!("10.0.0.0")]),
            ("clusterIPs", &[json!(["None"]), json!([]), json!(["1.2.3.4", "x"]), json!(["::ffff:1.2.3.4"])]),
            ("selector", &[json!({"a": "1"}), json!({"bad key": "x"}), json!({})]),
            ("sessionAffinity", &[json!("None"), json!("ClientIP"), json!("Odd")]),
            (
                "sessionAffinityConfig",
                &[json!({"clientIP": {"timeoutSeconds": 5}}), json!({"clientIP": {"timeoutSeconds": 0}})],
            ),
            ("externalName", &[json!("example.com"), json!("Bad_"), json!("")]),
            (
                "externalIPs",
                &[
                    json!(["1.2.3.4"]),
                    json!(["x"]),
                    json!(["127.0.0.1"]),
                    json!(["01.2.3.4", "0.0.0.0"]),
                    json!(["FE00::1"]),
                ],
            ),
            ("externalTrafficPolicy", &[json!("Local"), json!("Cluster"), json!("Odd")]),
            ("internalTrafficPolicy", &[json!("Local"), json!("Cluster"), json!("Odd")]),
            ("loadBalancerIP", &[json!("1.2.3.4"), json!("x")]),
            (
                "loadBalancerSourceRanges",
                &[json!(["10.0.0.0/8"]), json!(["x"]), json!(["10.1.0.0/8"]), json!(["FD00::/8"])],
            ),
            ("loadBalancerClass", &[json!("example.com/own"), json!("bad class")]),
            ("allocateLoadBalancerNodePorts", &[json!(false), json!(true)]),
            (
                "ipFamilyPolicy",
                &[json!("SingleStack"), json!("PreferDualStack"), json!("RequireDualStack"), json!("Odd")],
            ),
            ("ipFamilies", &[json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"]), json!(["Odd"])]),
            ("publishNotReadyAddresses", &[json!(true)]),
            ("healthCheckNodePort", &[json!(0), json!(31234)]),
            ("trafficDistribution", &[json!("PreferClose"), json!("Odd")]),
        ],
    );
    merge(&mut spec, odd);
    let mut object = json!({"spec": spec});
    if chance.strikes(20) {
        let status = [
            json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
            json!({"loadBalancer": {"ingress": [{"ip": "x", "hostname": "1.2.3.4"}]}}),
            json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "Proxy"}, {"ip": "1.2.3.5", "ipMode": "Odd"}]}}),
            json!({"loadBalancer": {"ingress": [{"ipMode": "VIP"}, {"ip": "FE00::1"}]}}),
            json!({"loadBalancer": {"ingress": [{"hostname": "example.com", "ports": [{"port": 80, "protocol": "TCP"}]}]}}),
            json!({"conditions": [{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}),
            json!({"conditions": [{"type": "A", "status": "Odd"}]}),
        ];
        merge(&mut object, json!({"status": (chance.pick(&status).clone())}));
    }
    object
}

/// Annotations that stand for members, or go together with others.
pub(super) fn annotations(kind: &str, chance: &mut Chance) -> Option<Value> {
    let choices = match kind {
        "Ingress" => vec![json!({"kubernetes.io/ingress.class": "c"}), json!({"kubernetes.io/ingress.class": "d"})],
        "Service" => vec![
            json!({"service.kubernetes.io/topology-mode": "auto"}),
            json!({"service.kubernetes.io/topology-mode": "auto", "service.kubernetes.io/topology-aware-hints": "x"}),
            json!({"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, x"}),
            json!({"service.beta.kubernetes.io/load-balancer-source-ranges": " "}),
        ],
        "PersistentVolume" | "PersistentVolumeClaim" => vec![
            json!({"volume.beta.kubernetes.io/storage-class": "c"}),
            json!({"volume.beta.kubernetes.io/storage-class": "d", "volume.beta.kubernetes.io/mount-options": "ro"}),
        ],
        _ => return None,
    };
    chance.strikes(15).then(|| chance.pick(&choices).clone())
}

fn slice(chance: &mut Chance) -> Value {
    let mut slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]});
    let odd = some(
        chance,
        25,
        &[
            ("addressType", &[json!("IPv6"), json!("FQDN"), json!("Odd"), json!("")]),
            (
                "endpoints",
                &[
                    json!([{"addresses": ["10.1.2.3", "10.1.2.4"], "conditions": {"ready": true}, "nodeName": "n", "zone": "z"}]),
                    json!([{"addresses": ["10.1.2.3"], "targetRef": {"kind": "Pod", "name": "p", "namespace": "${ns}"}, "hostname": "h"}]),
                    json!([{"addresses": ["x"]}]),
                    json!([{"addresses": []}]),
                    json!([{"addresses": ["127.0.0.1"], "hostname": "Bad_"}]),
                    json!([{"addresses": ["01.2.3.4", "a.b.", "Bad_.a", "FD00::1", "fd00::1"], "nodeName": ""}]),
                    json!([{"addresses": ["10.1.2.3"], "hints": {"forZones": [{"name": "a"}, {"name": "a"}], "forNodes": [{"name": "Bad_"}]}}]),
                    json!([{"addresses": ["10.1.2.3"], "hints": {"forZones": [{"name": "a"}]}, "deprecatedTopology": {"a": "b"}}]),
                    json!([]),
                    Value::Null,
                ],
            ),
            (
                "ports",
                &[
                    json!([{"name": "a", "port": 80}]),
                    json!([{"name": "", "port": 80, "protocol": "UDP", "appProtocol": "http"}]),
                    json!([{"name": "a", "port": 80}, {"name": "a", "port": 81}]),
                    json!([{"name": "Bad_", "port": 0, "protocol": "Odd"}]),
                    json!([{}]),
                    json!([]),
                ],
            ),
        ],
    );
    merge(&mut slice, odd);
    slice
}

fn ingress(chance: &mut Chance) -> Value {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let path = |path: Value, kind: Value| json!({"path": path, "pathType": kind, "backend": (backend.clone())});
    let paths = [
        path(json!("/"), json!("Prefix")),
        path(json!("/"), json!("Exact")),
        path(json!("x"), json!("ImplementationSpecific")),
        path(json!(""), json!("Prefix")),
        path(json!("/a//b"), json!("Exact")),
        path(json!("/"), json!("Odd")),
        path(json!("/"), Value::Null),
        json!({"path": "/", "pathType": "Prefix", "backend": {}}),
        json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "Bad_", "port": {"name": "Bad_", "number": 1}}}}),
        json!({"path": "/", "pathType": "Prefix", "backend": {"resource": {"kind": "K", "name": "n", "apiGroup": "example.com"}}}),
        json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {}}}}),
    ];
    let path = mostly(chance, 70, 2, &paths);
    let hosts = [json!("example.com"), json!("*.example.com"), json!("1.2.3.4"), json!("Bad_"), json!("")];
    let mut spec = json!({"rules": [{"host": (mostly(chance, 80, 2, &hosts)), "http": {"paths": [path]}}]});
    let odd = some(
        chance,
        15,
        &[
            ("rules", &[json!([]), json!([{}]), json!([{"host": "a.b", "http": {"paths": []}}])]),
            ("defaultBackend", &[backend.clone(), json!({}), json!({"service": {"name": "s"}})]),
            (
                "tls",
                &[json!([{"hosts": ["example.com"], "secretName": "s"}]), json!([{"hosts": ["Bad_"]}]), json!([{}])],
            ),
            ("ingressClassName", &[json!("c"), json!("Bad_"), json!("")]),
        ],
    );
    merge(&mut spec, odd);
    let mut object = json!({"spec": spec});
    if chance.strikes(15) {
        let status = [
            json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
            json!({"loadBalancer": {"ingress": [{"ip": "x", "hostname": "1.2.3.4"}]}}),
        ];
        merge(&mut object, json!({"status": (chance.pick(&status).clone())}));
    }
    object
}

fn policy(chance: &mut Chance) -> Value {
    let mut spec = json!({"podSelector": (chance.pick(&[json!({}), json!({"matchLabels": {"a": "b"}})]).clone())});
    let peers = [
        json!([{"podSelector": {"matchLabels": {"a": "b"}}}]),
        json!([{"namespaceSelector": {}}]),
        json!([{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]),
        json!([{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.1.0.0/16"]}}]),
        json!([{"ipBlock": {"cidr": "x"}}]),
        json!([{"ipBlock": {"cidr": "10.1.0.0/8", "except": ["10.01.0.0/16", "FD00::/8"]}}]),
        json!([{"ipBlock": {"cidr": "FD00::/8", "except": ["fd00:0::/16"]}}]),
        json!([{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]),
        json!([{}]),
    ];
    let ports = [
        json!([{"port": 80}]),
        json!([{"port": "web", "protocol": "UDP"}]),
        json!([{"port": 80, "endPort": 90}]),
        json!([{"port": 80, "endPort": 70}]),
        json!([{"port": "web", "endPort": 70}]),
        json!([{"protocol": "Odd"}]),
        json!([{"port": 0}]),
        json!([{}]),
    ];
    let rule = |chance: &mut Chance, peer: &str| some(chance, 50, &[(peer, &peers), ("ports", &ports)]);
    if chance.strikes(50) {
        merge(&mut spec, json!({"ingress": [(rule(chance, "from"))]}));
    }
    if chance.strikes(30) {
        merge(&mut spec, json!({"egress": [(rule(chance, "to"))]}));
    }
    let odd = some(
        chance,
        15,
        &[
            ("podSelector", &[json!({"matchLabels": {"bad key": "x"}}), Value::Null]),
            (
                "policyTypes",
                &[
                    json!(["Ingress"]),
                    json!(["Ingress", "Egress"]),
                    json!(["Odd"]),
                    json!([]),
                    json!(["Ingress", "Egress", "Ingress"]),
                ],
            ),
        ],
    );
    merge(&mut spec, odd);
    json!({"spec": spec})
}

fn ingress_class(chance: &mut Chance) -> Value {
    let mut spec = json!({"controller": "example.com/c"});
    let odd = some(
        chance,
        20,
        &[
            ("controller", &[json!("example.com/d"), json!("bad"), json!("")]),
            (
                "parameters",
                &[
                    json!({"kind": "K", "name": "n", "apiGroup": "example.com"}),
                    json!({"kind": "K", "name": "n", "scope": "Namespace", "namespace": "x"}),
                    json!({"kind": "K", "name": "n", "scope": "Odd"}),
                    json!({"kind": "K", "name": "n", "namespace": "x"}),
                    json!({}),
                ],
            ),
        ],
    );
    merge(&mut spec, odd);
    json!({"spec": spec})
}

fn endpoints(chance: &mut Chance) -> Value {
    let subsets = [
        json!([{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]),
        json!([{"addresses": [{"ip": "10.1.2.3", "hostname": "h", "nodeName": "n"}], "notReadyAddresses": [{"ip": "10.1.2.4"}], "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}]}]),
        json!([{"addresses": [{"ip": "x"}]}]),
        json!([{"addresses": [{"ip": "01.2.3.4", "nodeName": ""}, {"ip": "FE00::1"}, {"ip": "::"}], "ports": [{"port": 80, "appProtocol": ""}]}]),
        json!([{"ports": [{"port": 80}]}]),
        json!([{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 0, "protocol": "Odd"}]}]),
        json!([{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}, {"port": 81}]}]),
        json!([]),
        Value::Null,
    ];
    json!({"subsets": (mostly(chance, 70, 2, &subsets))})
}
