//! The columns of tables, as kube-apiserver's printers define them (`k8s.io/kubernetes/pkg/printers`).

use crate::registry::Column;

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
    may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
    creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
    not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
    represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

const ROLE_REF: &str = "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If \
    the RoleRef cannot be resolved, the Authorizer must return an error.";

const CLUSTER_ROLE_REF: &str = "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be \
    resolved, the Authorizer must return an error.";

fn column(name: &str, priority: i64, description: &str) -> Column {
    Column {
        name: name.to_owned(),
        kind: "string".to_owned(),
        format: String::new(),
        description: description.to_owned(),
        priority,
        json_path: String::new(),
    }
}

fn name(priority: i64) -> Column {
    Column { format: "name".to_owned(), ..column("Name", priority, NAME) }
}

fn age() -> Column {
    column("Age", 0, CREATED)
}

/// What is shown of kinds that have no printer of their own.
pub(super) fn plain() -> Vec<Column> {
    let created = Column {
        kind: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..column("Created At", 0, CREATED)
    };
    vec![Column { json_path: ".metadata.name".to_owned(), ..name(0) }, created]
}

pub(super) fn namespace() -> Vec<Column> {
    vec![name(0), column("Status", 0, "The status of the namespace"), age()]
}

pub(super) fn config_map() -> Vec<Column> {
    let data = "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. \
        Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with \
        the keys in the BinaryData field, this is enforced during validation process.";
    vec![name(0), column("Data", 0, data), age()]
}

pub(super) fn secret() -> Vec<Column> {
    let kind = "Used to facilitate programmatic handling of secret data. More info: \
        https://kubernetes.io/docs/concepts/configuration/secret/#secret-types";
    let data = "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The \
        serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) \
        data value here. Described in https://tools.ietf.org/html/rfc4648#section-4";
    vec![name(0), column("Type", 0, kind), column("Data", 0, data), age()]
}

pub(super) fn service_account() -> Vec<Column> {
    vec![name(0), age()]
}

pub(super) fn event() -> Vec<Column> {
    vec![
        column("Last Seen", 0, "The time at which the most recent occurrence of this event was recorded."),
        column("Type", 0, "Type of this event (Normal, Warning), new types could be added in the future"),
        column(
            "Reason",
            0,
            "This should be a short, machine understandable string that gives the reason for the transition into the \
             object's current status.",
        ),
        column("Object", 0, "The object that this event is about."),
        column(
            "Subobject",
            1,
            "If referring to a piece of an object instead of an entire object, this string should contain a valid \
             JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object \
             reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \
             \"name\" refers to the name of the container that triggered the event) or if no container name is specified \
             \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some \
             well-defined way of referencing a part of an object.",
        ),
        column("Source", 1, "The component reporting this event. Should be a short machine understandable string."),
        column("Message", 0, "A human-readable description of the status of this operation."),
        column(
            "First Seen",
            1,
            "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
        ),
        column("Count", 1, "The number of times this event has occurred."),
        name(1),
    ]
}

pub(super) fn lease() -> Vec<Column> {
    let holder = "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is \
        used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.";
    vec![name(0), column("Holder", 0, holder), age()]
}

/// `kind` is `roleBinding` or `clusterRoleBinding`.
pub(super) fn binding(kind: &str) -> Vec<Column> {
    let role = if kind == "roleBinding" { ROLE_REF } else { CLUSTER_ROLE_REF };
    let mut columns = vec![name(0), column("Role", 0, role), age()];
    columns.extend(["Users", "Groups", "ServiceAccounts"].map(|who| column(who, 1, &format!("{who} in the {kind}"))));
    columns
}

/// The columns that definitions have as any custom resource does.
pub(super) fn definition() -> Vec<Column> {
    plain()
}
