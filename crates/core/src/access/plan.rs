//! What is observed of an AccessRequest and its Cluster, and what is to be done next.

use std::collections::BTreeSet;
use std::fmt;

use allotment_api::reasons::AccessReason;
use allotment_api::requests::{AccessRequest, AccessType, OidcIssuer};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::write::{ObjectKey, Write};

/// What is known when an AccessRequest is decided.
#[derive(Clone, Debug)]
pub struct AccessObserved<'a> {
    /// The AccessRequest as it is stored.
    pub request: &'a AccessRequest,
    /// What lies in the Cluster.
    pub inside: Inside<'a>,
    /// The Secret of the AccessRequest, if it is there: the one that its status names where a provider answers, else
    /// the one that says so itself.
    pub secret: Option<&'a SecretFacts>,
    /// When this process last found the inside as it should be; `None` if it never looked.
    pub looked: Option<Looked>,
    /// The time now.
    pub now: Timestamp,
    /// How long tokens are asked for, in seconds.
    pub token_lifetime_secs: i64,
}

/// A look at the inside of a Cluster that found it as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The generation of the AccessRequest that it was compared with. A process that lags behind may have
    /// made the inside what an older one asked for: it looks again once it knows the newer one.
    pub generation: Option<i64>,
    /// When.
    pub at: Timestamp,
}

/// What is known of the inside of the Cluster.
#[derive(Clone, Copy, Debug)]
pub enum Inside<'a> {
    /// Not read in this pass.
    NotRead,
    /// Its provider gave no admin access, or the Cluster did not answer; why, for people, where something new is known of it.
    Unreachable(Option<&'a str>),
    /// The Cluster is shared, and it is not known that it keeps its tenants to their prefixes, for this reason: nobody gets
    /// rights there.
    Unguarded(AccessReason, &'a str),
    /// The Cluster does not exist any more.
    Gone,
    /// Read.
    Read(&'a InsideState),
}

/// The objects of one AccessRequest inside a Cluster, and namespaces there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InsideState {
    /// Every ServiceAccount, Role, RoleBinding, ClusterRole and ClusterRoleBinding with the label
    /// `cluster.openmcp.cloud/access-request: <uid>`, whole, with `apiVersion` and `kind`.
    pub objects: Vec<Value>,
    /// Which of the namespaces asked for exist.
    pub namespaces: BTreeSet<String>,
    /// A digest of where the Cluster is reached now, and by what certificate authority it is checked.
    pub endpoint: String,
    /// Whether names of the whole Cluster begin with the tenant's prefix, as far as it was looked for.
    pub prefix: PrefixSeen,
}

/// Whether names of a Cluster's own objects begin with a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrefixSeen {
    /// Not looked for in this pass.
    #[default]
    NotLooked,
    /// None does.
    Free,
    /// One does that is not the tenant's: its kind.
    Borne(String),
}

/// What is known of the Secret that answers an AccessRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFacts {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Whether the AccessRequest owns it, by UID.
    pub owned: bool,
    /// Whether its type is `Opaque`: nobody else, such as the token controller, puts anything into it.
    pub opaque: bool,
    /// UID of the Cluster that it is for: its annotation `cluster.openmcp.cloud/live-in`.
    pub cluster_uid: String,
    /// What it holds all parts of, and nothing of the other type; `None` if neither is so.
    pub holds: Option<AccessType>,
    /// What it says where the Cluster is reached, as [`InsideState::endpoint`].
    pub endpoint: String,
    /// What its kubeconfig says or does beside what the other parts say. It counts where somebody else wrote it.
    pub fault: Option<String>,
    /// The issuer that it names, and its client ID there.
    pub issuer: Option<(String, String)>,
    /// The scopes that it has clients ask for beside `openid`.
    pub extra_scopes: Vec<String>,
    /// UID of the ServiceAccount of its token.
    pub service_account_uid: String,
    /// `iat` of its token.
    pub issued_at: Timestamp,
    /// `exp` of its token.
    pub expires_at: Timestamp,
}

/// A Cluster, by name and by what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetCluster {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
}

/// One write inside a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Delete the object; absent is done.
    Delete {
        /// Its `apiVersion`.
        api_version: String,
        /// Its kind.
        kind: String,
        /// Its namespace and name.
        key: ObjectKey,
        /// Precondition.
        uid: String,
    },
    /// Apply this configuration by force; it carries the UID and the resourceVersion that were observed.
    Apply(Value),
    /// Create the object; one that exists already (a namespace) is done.
    Create(Value),
}

/// What may be left in a Cluster that could not be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The Cluster.
    pub cluster: TargetCluster,
    /// What it is.
    pub what: Left,
    /// When its last token ends, where known.
    pub not_after: Option<Timestamp>,
}

/// What is left of an AccessRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// A ServiceAccount; roles and bindings have its name.
    ServiceAccount(ObjectKey),
    /// Roles and bindings of that name, for a user of an issuer.
    Bindings(String),
    /// What the ClusterProvider of that name made.
    OfProvider(String),
}

impl fmt::Display for LeftBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftBehind { cluster, what, not_after } = self;
        match what {
            Left::ServiceAccount(account) => write!(f, "ServiceAccount {account}, its roles and bindings")?,
            Left::Bindings(name) => write!(f, "roles and bindings named {name}")?,
            Left::OfProvider(provider) => write!(f, "what ClusterProvider {provider:?} made for the AccessRequest")?,
        }
        write!(f, " may remain in Cluster {}", cluster.key)?;
        match (not_after, what) {
            (Some(end), _) => write!(f, ", its last token until {end}")?,
            (None, Left::Bindings(_)) => {}
            (None, Left::ServiceAccount(_) | Left::OfProvider(_)) => f.write_str(", its token until it expires")?,
        }
        match what {
            Left::OfProvider(_) => f.write_str("; it is the provider's to remove when it answers again"),
            Left::ServiceAccount(_) | Left::Bindings(_) => {
                f.write_str("; they are removed when the Cluster can be reached")
            }
        }
    }
}

/// The next thing to do for one AccessRequest.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessPlan {
    /// Nothing to do, until an input changes or, where given, until then.
    Done {
        /// When to decide again though nothing changed.
        again: Option<Timestamp>,
    },
    /// Read the inside of the Cluster, with admin access, and decide again with it.
    Observe {
        /// The Cluster.
        cluster: TargetCluster,
        /// Which namespaces to look for.
        namespaces: BTreeSet<String>,
    },
    /// Look whether names of the Cluster's own objects begin with that prefix that nobody said are the tenant's, and decide again
    /// with it.
    LookForNames {
        /// The Cluster.
        cluster: TargetCluster,
        /// The prefix.
        prefix: String,
        /// UID of the tenant's ClusterRequest, with which [`allotment_api::names::TENANT`] says that an object is its own.
        tenant: String,
    },
    /// Note, before anything is made inside, in which Cluster the access lives.
    Record(Write),
    /// Change the inside of the Cluster, in the order given; stop at the first failure and decide again.
    Change {
        /// The Cluster.
        cluster: TargetCluster,
        /// What takes rights away: done first, whatever is in the way of the rest.
        takes: Vec<Change>,
        /// What may give rights: done after that, and on a shared Cluster only while its tenants are kept to their
        /// prefixes.
        gives: Vec<Change>,
    },
    /// Mint a token by TokenRequest and put it into the Secret, made or replaced; then decide again.
    Mint {
        /// The Cluster.
        cluster: TargetCluster,
        /// Namespace and name of the ServiceAccount inside.
        service_account: ObjectKey,
        /// Seconds asked for.
        lifetime_secs: i64,
        /// Name of the Secret in the AccessRequest's namespace.
        secret: String,
    },
    /// Name the issuer in the Secret, made or replaced; then decide again.
    Describe {
        /// The Cluster.
        cluster: TargetCluster,
        /// The issuer that it trusts.
        issuer: OidcIssuer,
        /// Name of the Secret in the AccessRequest's namespace.
        secret: String,
    },
    /// Make an empty Secret of type `Opaque`, owned by the AccessRequest, for its provider to fill; then decide again.
    MakeSecret {
        /// The Cluster.
        cluster: TargetCluster,
        /// Name of the Secret in the AccessRequest's namespace.
        secret: String,
    },
    /// Let the provider write the Secret that was made for it, then tell it. Each of the rights is applied whole.
    Approve {
        /// A Role and its RoleBinding in the AccessRequest's namespace, owned by it; they go by their names before the
        /// Secret does ([`crate::access::secret_rights`]).
        rights: Vec<Value>,
        /// The write.
        write: Write,
    },
    /// Delete the Secret.
    DeleteSecret {
        /// Namespace and name.
        key: ObjectKey,
        /// Precondition.
        uid: String,
    },
    /// List the identity in the Cluster's `status.leftovers` and in an event, then go on: the write
    /// forgets where the access lives.
    LeaveBehind {
        /// What is left where.
        left: LeftBehind,
        /// The write to the AccessRequest.
        write: Write,
    },
    /// Note that nothing lives inside any more.
    Forget(Write),
    /// Let an AccessRequest go that is being deleted.
    RemoveFinalizer(Write),
    /// Say in the status what was decided.
    WriteStatus(Write),
}
