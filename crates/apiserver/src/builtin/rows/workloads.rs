//! The rows of what charts and manifests carry: workloads, networks, quotas, storage. Nothing runs here, so
//! they are inert: defaulted, validated, stored.

use std::sync::Arc;

use allotment_store::Resource;

use super::{Row, row, ruled, scaled, status};
use crate::builtin::apps;
use crate::builtin::autoscaling;
use crate::builtin::autoscaling::older::OldAutoscaler;
use crate::builtin::batch;
use crate::builtin::core::endpoints;
use crate::builtin::core::node;
use crate::builtin::core::pod;
use crate::builtin::core::quota;
use crate::builtin::core::service;
use crate::builtin::networking;
use crate::builtin::policy;
use crate::builtin::storage;
use crate::endpoints::pods::{Binding, Eviction, Stream};
use crate::registry::{Connect, Subresource, Subresources};

const ALL: &[&str] = &["all"];
const AUTOSCALERS: &str = "horizontalpodautoscalers";

pub(super) fn rows() -> Vec<Row> {
    [core(), apps(), batch(), networking(), others()].into_iter().flatten().collect()
}

/// What pods have beside their status.
fn of_pods() -> Subresources {
    const OF_OBJECT: &[&str] = &["get", "patch", "update"];
    const THROUGH: &[&str] = &["create", "get"];
    let part = |name, kind, verbs, connect| Subresource { name, group_version: None, kind, verbs, connect };
    let stream = |stream: Stream| -> Option<Arc<dyn Connect>> { Some(Arc::new(stream)) };
    let eviction = Subresource {
        group_version: Some(("policy", "v1")),
        ..part("eviction", "Eviction", &["create"], Some(Arc::new(Eviction)))
    };
    Subresources {
        others: vec![
            part("attach", "PodAttachOptions", THROUGH, stream(Stream::Container)),
            part("binding", "Binding", &["create"], Some(Arc::new(Binding))),
            part("ephemeralcontainers", "Pod", OF_OBJECT, None),
            eviction,
            part("exec", "PodExecOptions", THROUGH, stream(Stream::Container)),
            part("log", "Pod", &["get"], stream(Stream::Log)),
            part("portforward", "PodPortForwardOptions", THROUGH, stream(Stream::PortForward)),
            part("proxy", "PodProxyOptions", &["create", "delete", "get", "patch", "update"], stream(Stream::Proxy)),
            part("resize", "Pod", OF_OBJECT, None),
        ],
        ..status()
    }
}

fn core() -> Vec<Row> {
    vec![
        Row {
            short_names: &["svc"],
            categories: ALL,
            subresources: status(),
            selectable: &["spec.clusterIP", "spec.type"],
            ..ruled("", "services", service::SERVICE)
        },
        Row {
            short_names: &["ep"],
            deprecated: Some(endpoints::DEPRECATED),
            ..ruled("", "endpoints", endpoints::ENDPOINTS)
        },
        Row {
            short_names: &["po"],
            categories: ALL,
            subresources: of_pods(),
            selectable: pod::FIELDS,
            ..ruled("", "pods", pod::POD)
        },
        ruled("", "podtemplates", pod::POD_TEMPLATE),
        Row {
            namespaced: false,
            short_names: &["no"],
            subresources: status(),
            selectable: node::FIELDS,
            ..ruled("", "nodes", node::NODE)
        },
        Row {
            short_names: &["rc"],
            categories: ALL,
            subresources: scaled(),
            selectable: &["status.replicas"],
            ..ruled("", "replicationcontrollers", apps::REPLICATION_CONTROLLER)
        },
        Row { short_names: &["limits"], ..ruled("", "limitranges", quota::LIMIT_RANGE) },
        Row { short_names: &["quota"], subresources: status(), ..ruled("", "resourcequotas", quota::RESOURCE_QUOTA) },
        Row {
            namespaced: false,
            short_names: &["pv"],
            subresources: status(),
            ..ruled("", "persistentvolumes", storage::PERSISTENT_VOLUME)
        },
        Row {
            short_names: &["pvc"],
            subresources: status(),
            ..ruled("", "persistentvolumeclaims", storage::PERSISTENT_VOLUME_CLAIM)
        },
    ]
}

fn apps() -> Vec<Row> {
    let workload = |short: &'static [&'static str], subresources: Subresources, row: Row| Row {
        short_names: short,
        categories: ALL,
        subresources,
        ..row
    };
    vec![
        workload(&["deploy"], scaled(), ruled("apps", "deployments", apps::DEPLOYMENT)),
        workload(&["sts"], scaled(), ruled("apps", "statefulsets", apps::STATEFUL_SET)),
        workload(&["ds"], status(), ruled("apps", "daemonsets", apps::DAEMON_SET)),
        workload(&["rs"], scaled(), ruled("apps", "replicasets", apps::REPLICA_SET)),
        ruled("apps", "controllerrevisions", apps::CONTROLLER_REVISION),
    ]
}

fn batch() -> Vec<Row> {
    vec![
        Row {
            categories: ALL,
            subresources: status(),
            selectable: &["status.successful"],
            ..ruled("batch", "jobs", batch::JOB)
        },
        Row {
            short_names: &["cj"],
            categories: ALL,
            subresources: status(),
            ..ruled("batch", "cronjobs", batch::CRON_JOB)
        },
    ]
}

fn networking() -> Vec<Row> {
    let group = "networking.k8s.io";
    vec![
        Row { short_names: &["ing"], subresources: status(), ..ruled(group, "ingresses", networking::INGRESS) },
        Row { namespaced: false, ..ruled(group, "ingressclasses", networking::INGRESS_CLASS) },
        Row { short_names: &["netpol"], ..ruled(group, "networkpolicies", networking::NETWORK_POLICY) },
        ruled("discovery.k8s.io", "endpointslices", endpoints::ENDPOINT_SLICE),
    ]
}

fn others() -> Vec<Row> {
    vec![
        Row {
            short_names: &["pdb"],
            subresources: status(),
            ..ruled("policy", "poddisruptionbudgets", policy::POD_DISRUPTION_BUDGET)
        },
        Row {
            short_names: &["hpa"],
            categories: ALL,
            subresources: status(),
            version: "v2",
            ..ruled("autoscaling", AUTOSCALERS, autoscaling::AUTOSCALER)
        },
        Row {
            short_names: &["hpa"],
            categories: ALL,
            subresources: status(),
            stored_as: Some(Resource::new(AUTOSCALERS, "autoscaling")),
            ..row("autoscaling", "autoscaling/v1.HorizontalPodAutoscaler", AUTOSCALERS, OldAutoscaler)
        },
        Row {
            namespaced: false,
            short_names: &["pc"],
            ..ruled("scheduling.k8s.io", "priorityclasses", policy::PRIORITY_CLASS)
        },
        Row {
            namespaced: false,
            short_names: &["sc"],
            ..ruled("storage.k8s.io", "storageclasses", storage::STORAGE_CLASS)
        },
        Row { namespaced: false, ..ruled("storage.k8s.io", "csidrivers", storage::CSI_DRIVER) },
        Row { namespaced: false, ..ruled("node.k8s.io", "runtimeclasses", policy::RUNTIME_CLASS) },
    ]
}
