//! The kinds that sequences are about: a row each, with what makes a valid object of it.

use std::borrow::Cow;

use allotment_machinery::json;
use allotment_machinery::json::{Map, Value};

use super::{networks, storage, workloads};
use crate::chance::Chance;

/// A kind that both servers serve.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Which sequences it is in.
    pub(super) area: &'static str,
    /// Its group; empty for the core.
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    /// Subresources that take the whole object.
    pub(super) subresources: Cow<'static, [&'static str]>,
    /// An object's members beside its metadata.
    pub(super) members: fn(&mut Chance) -> Value,
    /// Members that patches change, with values.
    pub(super) change: fn(&mut Chance) -> Value,
    /// Field selectors that it may know.
    pub(super) selectable: &'static [&'static str],
}

impl Kind {
    /// `v1` or `GROUP/VERSION`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of its collection.
    pub(super) fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = if self.namespaced { "/namespaces/${ns}" } else { "" };
        format!("{root}/{}{namespace}/{}", self.api_version(), self.plural)
    }
}

const NONE: Cow<'static, [&'static str]> = Cow::Borrowed(&[]);

/// A namespaced kind with nothing of its own.
pub(super) const PLAIN: Kind = Kind {
    area: "core",
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    namespaced: true,
    subresources: NONE,
    members: |_| json!({}),
    change: |_| json!({}),
    selectable: &[],
};

/// All kinds of an area.
pub(super) fn of(area: &str) -> Vec<&'static Kind> {
    let all = [KINDS, workloads::KINDS, networks::KINDS, storage::KINDS];
    all.into_iter().flatten().filter(|kind| kind.area == area).collect()
}

const KINDS: &[Kind] = &[
    Kind { plural: "configmaps", kind: "ConfigMap", members: config_map, change: config_map, ..PLAIN },
    Kind { plural: "secrets", kind: "Secret", members: secret, change: secret, selectable: &["type=Opaque"], ..PLAIN },
    Kind { plural: "serviceaccounts", kind: "ServiceAccount", members: account, change: account, ..PLAIN },
    Kind {
        plural: "namespaces",
        kind: "Namespace",
        namespaced: false,
        subresources: Cow::Borrowed(&["status", "finalize"]),
        members: namespace,
        change: namespace,
        selectable: &["status.phase=Active"],
        ..PLAIN
    },
    Kind { group: "coordination.k8s.io", plural: "leases", kind: "Lease", members: lease, change: lease, ..PLAIN },
    Kind {
        area: "events",
        plural: "events",
        kind: "Event",
        members: core_event,
        change: core_event,
        selectable: &["involvedObject.name=a", "reason=Tried", "type!=Normal", "involvedObject.kind=Pod"],
        ..PLAIN
    },
    Kind {
        area: "events",
        group: "events.k8s.io",
        plural: "events",
        kind: "Event",
        members: new_event,
        change: new_event,
        selectable: &["regarding.name=a", "reason=Tried", "type!=Normal"],
        ..PLAIN
    },
    Kind {
        area: "rbac",
        group: "rbac.authorization.k8s.io",
        plural: "roles",
        kind: "Role",
        members: role,
        change: role,
        ..PLAIN
    },
    Kind {
        area: "rbac",
        group: "rbac.authorization.k8s.io",
        plural: "rolebindings",
        kind: "RoleBinding",
        members: binding,
        change: binding,
        ..PLAIN
    },
    Kind {
        area: "rbac",
        group: "rbac.authorization.k8s.io",
        plural: "clusterroles",
        kind: "ClusterRole",
        namespaced: false,
        members: role,
        change: role,
        ..PLAIN
    },
    Kind {
        area: "rbac",
        group: "rbac.authorization.k8s.io",
        plural: "clusterrolebindings",
        kind: "ClusterRoleBinding",
        namespaced: false,
        members: cluster_binding,
        change: cluster_binding,
        ..PLAIN
    },
];

/// An object of some of `members`, each with one of its values.
pub(super) fn some(chance: &mut Chance, percent: usize, members: &[(&str, &[Value])]) -> Value {
    let mut map = Map::new();
    for (key, values) in members {
        if chance.strikes(percent) {
            map.insert(*key, chance.pick(values).clone());
        }
    }
    Value::Object(map)
}

fn config_map(chance: &mut Chance) -> Value {
    let mut object = some(
        chance,
        50,
        &[
            ("data", &[json!({"k": "1"}), json!({"k": "2", "l": "x"}), json!({}), json!({"k": (Value::Null)})]),
            ("binaryData", &[json!({"b": "AAEC"}), json!({"k": "eA=="}), json!({"b": "not base64"})]),
        ],
    );
    if chance.strikes(10) {
        let odd = some(
            chance,
            50,
            &[
                ("immutable", &[json!(true), json!(false), json!("yes")]),
                ("data", &[json!({"bad key": "1"}), json!({"": ""}), json!({"..": "1"}), json!({"k": 1}), json!([])]),
            ],
        );
        merge(&mut object, odd);
    }
    object
}

fn secret(chance: &mut Chance) -> Value {
    some(
        chance,
        50,
        &[
            (
                "data",
                &[json!({"k": "eA=="}), json!({"l": ""}), json!({"k": "x"}), json!({"tls.crt": "", "tls.key": ""})],
            ),
            ("stringData", &[json!({"k": "plain"}), json!({"bad key": "1"}), json!({})]),
            (
                "type",
                &[
                    json!("Opaque"),
                    json!("example.com/own"),
                    json!("kubernetes.io/tls"),
                    json!("kubernetes.io/basic-auth"),
                    json!("kubernetes.io/dockerconfigjson"),
                    json!(""),
                ],
            ),
            ("immutable", &[json!(true), json!(false)]),
        ],
    )
}

fn account(chance: &mut Chance) -> Value {
    some(
        chance,
        40,
        &[
            ("automountServiceAccountToken", &[json!(true), json!(false)]),
            ("imagePullSecrets", &[json!([{"name": "x"}]), json!([{"name": "x"}, {"name": "y"}]), json!([{}])]),
            ("secrets", &[json!([{"name": "s"}]), json!([{"name": "s", "namespace": "n"}]), json!([])]),
        ],
    )
}

fn namespace(chance: &mut Chance) -> Value {
    some(
        chance,
        20,
        &[
            ("spec", &[json!({}), json!({"finalizers": ["example.com/f"]}), json!({"finalizers": ["bad"]})]),
            ("status", &[json!({"phase": "Terminating"}), json!({"phase": "Odd"}), json!({"conditions": []})]),
        ],
    )
}

fn lease(chance: &mut Chance) -> Value {
    let spec = some(
        chance,
        50,
        &[
            ("holderIdentity", &[json!("me"), json!("")]),
            ("leaseDurationSeconds", &[json!(15), json!(0), json!(-1)]),
            ("leaseTransitions", &[json!(1), json!(-2)]),
            ("renewTime", &[json!("2026-01-02T03:04:05.000000Z"), json!("2026-01-02T03:04:05Z"), json!("soon")]),
            ("acquireTime", &[json!("2026-01-02T03:04:05.123456789+01:00"), Value::Null]),
            ("strategy", &[json!("OldestEmulationVersion"), json!("")]),
            ("preferredHolder", &[json!("you")]),
        ],
    );
    json!({"spec": spec})
}

fn core_event(chance: &mut Chance) -> Value {
    let mut event = json!({
        "involvedObject": {"kind": "ConfigMap", "namespace": "${ns}", "name": "a", "apiVersion": "v1"},
        "reason": "Tried", "message": "it was tried", "type": "Normal", "source": {"component": "live"}
    });
    let odd = some(
        chance,
        20,
        &[
            (
                "involvedObject",
                &[
                    json!({}),
                    json!({"namespace": "other", "name": "a"}),
                    json!({"kind": "Namespace", "name": "x", "namespace": "default"}),
                ],
            ),
            ("type", &[json!("Warning"), json!("Odd")]),
            ("count", &[json!(2), json!(-1)]),
            ("firstTimestamp", &[json!("2026-01-01T00:00:00Z"), Value::Null]),
            ("eventTime", &[json!("2026-01-01T00:00:00.000001Z"), Value::Null]),
            ("reportingComponent", &[json!("example.com/live"), json!("no good/name/at all")]),
            ("reportingInstance", &[json!("one"), json!("")]),
            ("action", &[json!("Try")]),
            ("series", &[json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000001Z"}), json!({})]),
            ("related", &[json!({"kind": "Secret", "name": "s"})]),
        ],
    );
    merge(&mut event, odd);
    event
}

fn new_event(chance: &mut Chance) -> Value {
    let mut event = json!({
        "regarding": {"kind": "ConfigMap", "namespace": "${ns}", "name": "a", "apiVersion": "v1"},
        "reason": "Tried", "note": "it was tried", "type": "Normal", "action": "Try",
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "example.com/live", "reportingInstance": "one"
    });
    let odd = some(
        chance,
        15,
        &[
            ("regarding", &[json!({}), json!({"namespace": "other", "name": "a"})]),
            ("type", &[json!("Warning"), json!("Odd"), json!("")]),
            ("eventTime", &[Value::Null, json!("2026-01-01T00:00:00Z"), json!("2026-01-01T00:00:00.5+02:00")]),
            ("reportingController", &[json!(""), json!("no good/name/at all")]),
            ("reportingInstance", &[json!("")]),
            ("action", &[json!("")]),
            ("reason", &[json!(""), json!("Other")]),
            ("deprecatedCount", &[json!(3)]),
            ("deprecatedSource", &[json!({"component": "x"})]),
            ("deprecatedFirstTimestamp", &[json!("2026-01-01T00:00:00Z")]),
            ("series", &[json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000001Z"}), json!({"count": 1})]),
        ],
    );
    merge(&mut event, odd);
    event
}

fn role(chance: &mut Chance) -> Value {
    let rule = |chance: &mut Chance| {
        let mut rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
        let odd = some(
            chance,
            20,
            &[
                ("apiGroups", &[json!(["*"]), json!([]), json!(["", "apps"])]),
                ("resources", &[json!(["*"]), json!(["secrets", "pods/log"]), json!([])]),
                ("verbs", &[json!(["*"]), json!([]), json!(["list", "watch"]), json!(["bad verb"])]),
                ("resourceNames", &[json!(["a"]), json!([])]),
                ("nonResourceURLs", &[json!(["/healthz"]), json!(["*"])]),
            ],
        );
        merge(&mut rule, odd);
        rule
    };
    let mut object = match chance.below(5) {
        0 => json!({}),
        1 => json!({"rules": []}),
        2 => json!({"rules": (Value::Null)}),
        3 => json!({"rules": [(rule(chance)), (rule(chance))]}),
        _ => json!({"rules": [(rule(chance))]}),
    };
    if chance.strikes(8) {
        let labels = json!({"clusterRoleSelectors": [{"matchLabels": {"aggregate": "${r}"}}]});
        merge(&mut object, json!({"aggregationRule": (labels)}));
    }
    object
}

fn binding(chance: &mut Chance) -> Value {
    let subject = |chance: &mut Chance| {
        chance
            .pick(&[
                json!({"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}),
                json!({"kind": "User", "name": "jane"}),
                json!({"kind": "Group", "name": "team"}),
                json!({"kind": "ServiceAccount", "name": "default", "namespace": "${ns}"}),
                json!({"kind": "ServiceAccount", "name": "default"}),
                json!({"kind": "ServiceAccount", "name": "Bad_Name", "namespace": "x", "apiGroup": "rbac.authorization.k8s.io"}),
                json!({"kind": "Odd", "name": "x"}),
                json!({}),
            ])
            .clone()
    };
    let reference = chance
        .pick(&[
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}),
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}),
            json!({"kind": "Role", "name": "a"}),
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Odd", "name": "a"}),
            json!({"apiGroup": "other", "kind": "Role", "name": ""}),
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bad/name"}),
        ])
        .clone();
    match chance.below(4) {
        0 => json!({"roleRef": reference}),
        1 => json!({"roleRef": reference, "subjects": [(subject(chance)), (subject(chance))]}),
        _ => json!({"roleRef": reference, "subjects": [(subject(chance))]}),
    }
}

fn cluster_binding(chance: &mut Chance) -> Value {
    let mut object = binding(chance);
    if chance.strikes(70) {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
        merge(&mut object, json!({"roleRef": reference}));
    }
    // Whom other sequences ask about is given nothing in the whole cluster.
    for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(subject) = subject.as_object_mut() else { continue };
        if let Some(name) = subject.get("name").and_then(Value::as_str).filter(|name| ["jane", "team"].contains(name)) {
            let own = format!("{name}-${{r}}");
            subject.insert("name", own);
        }
    }
    object
}

/// One of the first `good` values in `percent` of 100 cases, else any.
pub(super) fn mostly(chance: &mut Chance, percent: usize, good: usize, values: &[Value]) -> Value {
    let among = if chance.strikes(percent) { good } else { values.len() };
    chance.pick(&values[..among]).clone()
}

/// Puts the members of `more` over those of `object`.
pub(super) fn merge(object: &mut Value, more: Value) {
    if let (Some(map), Value::Object(more)) = (object.as_object_mut(), more) {
        for (key, value) in more.iter() {
            map.insert(key, value.clone());
        }
    }
}
