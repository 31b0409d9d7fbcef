//! Names that several parts of the platform must agree on: groups, namespaces, labels, annotations,
//! finalizers. Nothing else spells them out.

/// The group of the kinds around requests, and the prefix of the platform's labels and annotations.
pub const GROUP: &str = "cluster.openmcp.cloud";
/// The stored version of every kind in [`GROUP`].
pub const VERSION: &str = "v1alpha1";
/// [`GROUP`] and [`VERSION`], as `apiVersion` has them.
pub const API_VERSION: &str = "cluster.openmcp.cloud/v1alpha1";
/// The group of the ProviderConfigs that the built-in provider `local` reads.
pub const LOCAL_GROUP: &str = "local.cluster.openmcp.cloud";
/// The group of the ProviderConfigs that the built-in provider `existing` reads.
pub const EXISTING_GROUP: &str = "existing.cluster.openmcp.cloud";
/// The group of the ProviderConfigs that the built-in provider `kind` reads.
pub const KIND_GROUP: &str = "kind.cluster.openmcp.cloud";

/// What the groups of providers end with; the name of the provider comes before it.
pub const SUBGROUP: &str = ".cluster.openmcp.cloud";
/// The groups of the providers that the platform brings.
pub const BUILT_IN_GROUPS: [&str; 3] = [LOCAL_GROUP, EXISTING_GROUP, KIND_GROUP];

/// Whether every write to kinds of that group is judged, whoever writes: it is the platform's own, or of a provider in its
/// process.
pub fn is_judged_group(group: &str) -> bool {
    group == GROUP || BUILT_IN_GROUPS.contains(&group)
}

/// Namespace of Leases and of the Secrets that providers read.
pub const SYSTEM_NAMESPACE: &str = "allot-system";
/// Namespace of everything that is, or can mint, admin access; no role of a tenant reads it.
pub const PLANES_NAMESPACE: &str = "allot-planes";
/// Namespace of shared Clusters whose Purposes name none.
pub const CLUSTERS_NAMESPACE: &str = "allot-clusters";
/// Namespace, inside a Cluster, of the ServiceAccounts of AccessRequests.
pub const ACCESS_NAMESPACE: &str = "allot-access";

/// Every label and annotation with this prefix is the platform's to write, but for [`FORCE_DELETE`].
pub const PLATFORM_PREFIX: &str = "cluster.openmcp.cloud/";

/// Annotation of a ClusterRequest: `namespace/name` of the Cluster that it is, or is about to be, bound
/// to. Written before a Cluster is made for it, so that a crash between the two never makes a second one,
/// and before its Grant, so that a Grant of a Cluster that is gone can be told from a forged one.
pub const CLUSTER_NAME: &str = "cluster.openmcp.cloud/cluster-name";
/// Annotation of a ClusterRequest, beside [`CLUSTER_NAME`]: the same, where that name was made up for a Cluster that is
/// about to be made. A Cluster that was there, and which the request was likely to join, is never made anew.
pub const NEW_CLUSTER_NAME: &str = "cluster.openmcp.cloud/new-cluster-name";
/// Annotation of anything that is being deleted: `"true"` drops the platform's finalizers after a
/// local revocation. The one `cluster.openmcp.cloud/` annotation that users write.
pub const FORCE_DELETE: &str = "cluster.openmcp.cloud/force-delete";
/// Annotation of an AccessRequest: when it was granted (RFC 3339); `spec.ttl` counts from here.
pub const GRANTED_AT: &str = "cluster.openmcp.cloud/granted-at";
/// Annotation of an AccessRequest: UID of the Cluster in which its objects lie or may lie. It is
/// written before the first of them and removed after the last: while it is there, the access is live.
pub const LIVE_IN: &str = "cluster.openmcp.cloud/live-in";
/// Annotation of an AccessRequest, beside [`LIVE_IN`]: `namespace/name` of that Cluster.
pub const LIVE_IN_NAME: &str = "cluster.openmcp.cloud/live-in-name";
/// Annotation of an AccessRequest whose `ttl` ran out: the generation it ran out for.
pub const EXPIRED: &str = "cluster.openmcp.cloud/expired-generation";
/// Annotation of a Cluster: since when nobody has used it (RFC 3339).
pub const IDLE_SINCE: &str = "cluster.openmcp.cloud/idle-since";
/// Annotation of a Cluster that takes nothing new and goes next: since when (RFC 3339).
pub const DRAINING: &str = "cluster.openmcp.cloud/draining";
/// Annotation of a Cluster that was made for no request (`"true"`): a spare, until its first tenant takes room.
pub const SPARE: &str = "cluster.openmcp.cloud/spare";
/// Annotation of a Purpose: `namespace/name` of the spare Cluster that is about to be made for it. Written
/// before the Cluster, so that a lost reply or a second process never makes another one instead.
pub const SPARE_NAME: &str = "cluster.openmcp.cloud/spare-name";

/// Label, inside a Cluster, of everything that belongs to one AccessRequest: its UID.
pub const ACCESS_REQUEST: &str = "cluster.openmcp.cloud/access-request";
/// Label, inside a Cluster that was there before, of what belongs to the Cluster as a whole: its UID.
pub const CLUSTER_UID: &str = "cluster.openmcp.cloud/cluster-uid";
/// Label, inside a shared Cluster, of an object of the whole cluster that is a tenant's though it was there before the tenant's first
/// access: the UID of the ClusterRequest. Whoever operates the Cluster puts it on.
pub const TENANT: &str = "cluster.openmcp.cloud/tenant";
/// Annotation, inside a Cluster, of the policy that keeps tenants to their prefixes: which process wrote it.
pub const PREFIXES_BY: &str = "cluster.openmcp.cloud/prefixes-by";
/// Annotation of a ClusterRequest whose Cluster is gone for good: that Cluster's UID. Written when the Cluster
/// goes by force, so that nothing replaces it unasked even if the Grant goes as well.
pub const LOST_CLUSTER: &str = "cluster.openmcp.cloud/lost-cluster";
/// Label of an AccessRequest that a provider fulfils (`accessBy: Provider`): the ClusterProvider. Written by the
/// platform before it approves, and taken away after the last of what the provider made is gone.
pub const ACCESS_BY: &str = "cluster.openmcp.cloud/access-by";

/// Annotation of an AccessRequest that a provider fulfils: the name of the Secret in its namespace which the provider is to
/// fill. The platform makes that Secret, empty, and lets the provider at this one alone.
pub const ACCESS_SECRET: &str = "cluster.openmcp.cloud/access-secret";

/// Annotation of the Secret of an AccessRequest: a digest of where the Cluster is reached and by what certificate authority it
/// is checked.
pub const ENDPOINT: &str = "cluster.openmcp.cloud/endpoint";
/// Annotation of the Secret of an AccessRequest of type OIDC: the scopes that clients ask for beside `openid`, with blanks
/// between them.
pub const OIDC_SCOPES: &str = "cluster.openmcp.cloud/oidc-scopes";

/// Annotation of the Lease of those who act: the name of the data folder that they share.
pub const HOLDINGS: &str = "cluster.openmcp.cloud/data-folder";
/// Finalizer of a ClusterRequest: access, Grant and room go before it.
pub const REQUEST_FINALIZER: &str = "cluster.openmcp.cloud/request";
/// Finalizer of an AccessRequest: identity and Secret go before it.
pub const ACCESS_FINALIZER: &str = "cluster.openmcp.cloud/access";
/// The platform's finalizer of a Cluster: tenants and live access go before it; a provider holds one
/// of its own.
pub const CLUSTER_FINALIZER: &str = "cluster.openmcp.cloud/cluster";
/// Finalizer of a ClusterProvider: its Clusters go before it.
pub const PROVIDER_FINALIZER: &str = "cluster.openmcp.cloud/provider";

/// Label of the Lease by which a provider of another process says that it lives.
pub const HEARTBEAT: &str = "cluster.openmcp.cloud/heartbeat";
/// Label of a Secret in [`SYSTEM_NAMESPACE`], which operators write: the ClusterProvider that may read it, if one of its
/// ProviderConfigs names it.
pub const READ_BY: &str = "secrets.cluster.openmcp.cloud/read-by";
/// Label of the Secret through which a provider of another process is asked for admin access.
pub const ADMIN_DESK: &str = "cluster.openmcp.cloud/admin-desk";
/// What annotations of the Secret `access-<ClusterProvider>` begin with: the UID of a Cluster follows, and the value is until
/// when (RFC 3339) admin access to it is asked for.
pub const ADMIN_PREFIX: &str = "admin.cluster.openmcp.cloud/";
/// What the finalizers of providers of other processes on Clusters begin with; the ClusterProvider's name follows.
pub const OUTSIDE_FINALIZER_PREFIX: &str = "provider.cluster.openmcp.cloud/";

/// What is called after a ClusterProvider in [`SYSTEM_NAMESPACE`]: its ServiceAccount, its Lease, its Deployment.
pub fn provider_object(provider: &str) -> String {
    format!("provider-{provider}")
}

/// The user name of a ClusterProvider's ServiceAccount.
pub fn provider_user(provider: &str) -> String {
    format!("{PROVIDER_USER_PREFIX}{provider}")
}

/// What user names of ClusterProviders' ServiceAccounts begin with.
pub const PROVIDER_USER_PREFIX: &str = "system:serviceaccount:allot-system:provider-";

/// The Secret in [`PLANES_NAMESPACE`] through which a ClusterProvider is asked for admin access to its Clusters.
pub fn admin_desk(provider: &str) -> String {
    format!("access-{provider}")
}

/// What the finalizers begin with that providers hold on AccessRequests; the name of the ClusterProvider follows.
pub const PROVIDER_ACCESS_FINALIZER: &str = "access.cluster.openmcp.cloud/";

/// The finalizer that a provider puts on an AccessRequest before it makes anything for it, and takes off after
/// the last of that is gone.
pub fn provider_access_finalizer(provider: &str) -> String {
    format!("{PROVIDER_ACCESS_FINALIZER}{provider}")
}

/// Whether a finalizer is the platform's or one of its providers': nobody else puts it on or takes it off.
pub fn is_platform_finalizer(finalizer: &str) -> bool {
    let domain = finalizer.split('/').next().unwrap_or_default();
    domain == GROUP || domain.ends_with(SUBGROUP)
}

/// The ClusterProvider whose ServiceAccount has this user name, if it is one's.
pub fn provider_of_user(username: &str) -> Option<&str> {
    username.strip_prefix(PROVIDER_USER_PREFIX).filter(|name| !name.is_empty())
}

/// Keys of the Secret that an AccessRequest is answered with.
pub mod access_secret {
    /// A whole kubeconfig.
    pub const KUBECONFIG: &str = "kubeconfig";
    /// URL of the API server.
    pub const HOST: &str = "host";
    /// CA bundle of the API server, PEM.
    pub const CA_CRT: &str = "ca.crt";
    /// Bearer token.
    pub const TOKEN: &str = "token";
    /// URL of the OpenID Connect issuer, in place of a token.
    pub const ISSUER: &str = "issuer";
    /// Name by which the issuer knows the cluster, beside [`ISSUER`].
    pub const CLIENT_ID: &str = "clientID";
    /// `exp` of the token, RFC 3339.
    pub const EXPIRATION: &str = "expirationTimestamp";
}
