//! Conditions and reasons: every string that a machine may compare, each once.
//!
//! Status fields carry them as text, so that an older reader survives a newer writer's reason; code
//! decides on the enums only.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares an enum whose variants are spelled in the API exactly as in Rust.
macro_rules! spelled {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The text in the API.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant),)+ }
            }

            /// The value with this text.
            pub fn from_text(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

spelled! {
    /// The answer to a ClusterRequest or AccessRequest.
    Verdict {
        /// Bound; stays so.
        Granted,
        /// Not as things are; decided anew when they change.
        Denied,
        /// Waiting for something that the platform expects to happen.
        Pending,
    }
}

spelled! {
    /// Why a ClusterRequest is Granted, Denied or Pending.
    RequestReason {
        /// Granted: bound to a Cluster.
        Success,
        /// Denied: a purpose that does not exist.
        UnknownPurpose,
        /// Denied: a Purpose's `allowedNamespaces` leaves the request's namespace out.
        NamespaceNotAllowed,
        /// Denied: by an equivalence, the request asks for a trait and for its absence.
        ConflictingTraits,
        /// Denied: by an equivalence, an expression can never hold.
        ImpossibleTraits,
        /// Denied: no provider that is ready publishes a profile.
        NoReadyProvider,
        /// Denied: no profile has the traits required.
        NoProfileWithTrait,
        /// Denied: no profile with the traits offers the version.
        VersionNotOffered,
        /// Denied: every version that would match is deprecated.
        OnlyDeprecatedVersions,
        /// Pending: not decided yet.
        Scheduling,
        /// Pending: as many Clusters of a purpose or of every profile that fits as its `maxClusters` allows, none with room.
        MaxClustersReached,
    }
}

impl RequestReason {
    /// The answer that this is a reason for.
    pub const fn verdict(self) -> Verdict {
        match self {
            RequestReason::Success => Verdict::Granted,
            RequestReason::UnknownPurpose
            | RequestReason::NamespaceNotAllowed
            | RequestReason::ConflictingTraits
            | RequestReason::ImpossibleTraits
            | RequestReason::NoReadyProvider
            | RequestReason::NoProfileWithTrait
            | RequestReason::VersionNotOffered
            | RequestReason::OnlyDeprecatedVersions => Verdict::Denied,
            RequestReason::Scheduling | RequestReason::MaxClustersReached => Verdict::Pending,
        }
    }
}

spelled! {
    /// Why a candidate, a profile or a Cluster, does not serve a ClusterRequest.
    FindingReason {
        /// There is no Purpose of this name.
        UnknownPurpose,
        /// The Purpose is not for requests of this namespace.
        NamespaceNotAllowed,
        /// The provider is not ready.
        NoReadyProvider,
        /// A required trait is absent, or one that must be absent is present.
        NoProfileWithTrait,
        /// No version that fits the one asked for.
        VersionNotOffered,
        /// A version fits, but each that does is deprecated.
        OnlyDeprecatedVersions,
        /// The Cluster does not list every purpose asked for.
        PurposesNotCovered,
        /// The Cluster is, or was, somebody's own.
        Dedicated,
        /// Written by hand and not opened to requests by `spec.dedicated`.
        NotOpened,
        /// No room for another tenant.
        Full,
        /// The Cluster takes nothing new and goes soon.
        Draining,
        /// The Cluster is being deleted.
        Deleting,
        /// The Cluster is not healthy, or was not provisioned in time.
        Unhealthy,
        /// Its provider does not publish its profile any more.
        Withdrawn,
        /// As many Clusters list a purpose, or are of the profile, as its `maxClusters` allows.
        MaxClustersReached,
    }
}

spelled! {
    /// Why an AccessRequest is Granted, Denied or Pending.
    AccessReason {
        /// Granted: the Secret is there and works.
        Success,
        /// Denied: another namespace than the target's, and no AccessPolicy there covers every rule.
        NotAllowed,
        /// Denied: a rule exceeds the ceiling of a Purpose of the Cluster.
        ExceedsCeiling,
        /// Denied: the Cluster's profile does not support this type of access.
        AccessTypeNotSupported,
        /// Denied: `spec.ttl` ran out; decided anew when the spec changes.
        Expired,
        /// Pending: no ClusterRequest of that name.
        RequestNotFound,
        /// Pending: the ClusterRequest is not granted.
        RequestNotGranted,
        /// Pending: no Cluster of that name.
        ClusterNotFound,
        /// Pending: the Cluster was never ready.
        ClusterNotReady,
        /// Pending: the Cluster of the Grant is gone.
        ClusterLost,
        /// Pending: a namespace that the permissions name does not exist and may not be made.
        NamespaceNotFound,
        /// Pending: the provider gave no admin access.
        NoAdminAccess,
        /// Pending: the Cluster is shared, and its API server does not keep tenants to their prefixes.
        PrefixNotEnforced,
        /// Pending: the Cluster is shared, and there is no room for another identity that is kept to a prefix.
        PrefixTableFull,
        /// Pending: the Cluster is shared, and the names of its objects cannot be read.
        PrefixNotKnown,
        /// Pending: the Cluster is shared, and objects that are not the tenant's have names with its prefix.
        PrefixTaken,
        /// Pending: the provider makes identities itself, and what was approved is not there yet.
        NotProvided,
    }
}

impl AccessReason {
    /// The answer that this is a reason for.
    pub const fn verdict(self) -> Verdict {
        match self {
            AccessReason::Success => Verdict::Granted,
            AccessReason::NotAllowed
            | AccessReason::ExceedsCeiling
            | AccessReason::AccessTypeNotSupported
            | AccessReason::Expired => Verdict::Denied,
            AccessReason::RequestNotFound
            | AccessReason::RequestNotGranted
            | AccessReason::ClusterNotFound
            | AccessReason::ClusterNotReady
            | AccessReason::ClusterLost
            | AccessReason::NamespaceNotFound
            | AccessReason::NoAdminAccess
            | AccessReason::PrefixNotEnforced
            | AccessReason::PrefixTableFull
            | AccessReason::PrefixNotKnown
            | AccessReason::PrefixTaken
            | AccessReason::NotProvided => Verdict::Pending,
        }
    }
}

spelled! {
    /// Types of conditions.
    ConditionType {
        /// Of every kind: usable now; computed from the others.
        Ready,
        /// Of a ClusterRequest: whether the proposed prefix was given.
        PrefixHonored,
        /// Of a ClusterRequest: the version asked for is deprecated. Only when true.
        VersionDeprecated,
        /// Of a ClusterRequest: a Purpose's requirement lost against the request. Only when true.
        TraitsOverridden,
        /// Of a ClusterProvider: it beats and is set up.
        ProviderReady,
        /// Of a ClusterProvider: whether each of its ProviderConfigs can be used. Only once one could not.
        ConfigsUsable,
        /// Of a Cluster: the provider's word.
        ClusterHealthy,
        /// Of a Cluster: it was healthy once; latched.
        Provisioned,
        /// Of a Cluster: its provider does not publish its profile.
        Withdrawn,
        /// Of a Cluster: it is being deleted while in use.
        DeletionBlocked,
        /// Of an AccessRequest that a provider fulfils: the platform's decision.
        Approved,
        /// Of an AccessRequest that a provider fulfils: the provider's word that what was approved is there.
        Provided,
        /// Of a Purpose: it has as many spare Clusters as its `warm` asks for.
        SparesReady,
        /// Of a PrivateCloudProfile: all of it went into what it is rendered to.
        Rendered,
        /// Of a PrivateCloudProfile: its CloudProfile is there.
        ParentFound,
        /// Of profiles of both kinds: somebody uses it.
        InUse,
        /// Of a CloudProfile: each private profile on it can be rendered whole.
        ChildrenValid,
    }
}

spelled! {
    /// Reasons of condition `Ready` of a ClusterRequest.
    RequestReadyReason {
        /// The Cluster is usable.
        ClusterReady,
        /// The Cluster was never usable yet.
        ClusterCreating,
        /// The Cluster was usable and is not now.
        ClusterUnhealthy,
        /// The Cluster is being deleted once nobody uses it: what is granted goes on, nothing new does.
        ClusterDeleting,
        /// The Cluster is gone; delete and re-create the request to get another.
        ClusterLost,
    }
}

spelled! {
    /// Reasons of condition `PrefixHonored` of a ClusterRequest.
    PrefixReason {
        /// The proposed prefix was given.
        Honored,
        /// Fewer than three characters before the hyphen.
        TooShort,
        /// Another tenant of the Cluster has it.
        Taken,
        /// A former tenant of the Cluster left objects whose names begin with it.
        Quarantined,
        /// A dedicated Cluster has no prefixes.
        Dedicated,
    }
}

impl ConditionType {
    /// Whether the condition of this type is there, with status True.
    pub fn is_true(self, conditions: &[Condition]) -> bool {
        conditions.iter().any(|condition| condition.type_ == self.as_str() && condition.status == "True")
    }
}

spelled! {
    /// Reasons of a Cluster's conditions.
    ClusterConditionReason {
        /// All that the condition says holds.
        AllGood,
        /// The provider has said nothing yet.
        NotReported,
        /// The provider says it is not healthy.
        NotHealthy,
        /// It was healthy at least once.
        WasHealthy,
        /// Its provider publishes its profile.
        Published,
        /// Its provider does not publish its profile.
        ProfileNotPublished,
        /// There is no such ClusterProvider.
        ProviderNotFound,
        /// Tenants or live access keep it from being deleted.
        InUse,
        /// Nobody uses it any more.
        NotInUse,
        /// Nobody deletes it.
        NotDeleting,
        /// Its control plane is not served.
        NotServed,
        /// Its provider does not offer the version it asks for.
        VersionNotOffered,
        /// It is being deleted.
        Deleting,
        /// Its ProviderConfig is gone, or what it refers to is missing or cannot be used.
        ConfigNotUsable,
        /// Its API server does not answer.
        Unreachable,
        /// Its API server does not let the platform in, or not with all rights.
        AccessRefused,
        /// What its ProviderConfig stands for is another Cluster already.
        Taken,
        /// Its ProviderConfig leads to another cluster than before.
        AnotherCluster,
        /// What makes it failed.
        Failed,
    }
}

spelled! {
    /// Reasons of condition `SparesReady` of a Purpose.
    SparesReason {
        /// As many as `warm` asks for.
        AllGood,
        /// Some are being made.
        Making,
        /// No profile of a provider that is ready fits the Purpose.
        NoProfileFits,
        /// As many Clusters list the Purpose as its `maxClusters` allows.
        MaxClustersReached,
        /// Those that are there take nothing, and are too many for others to be made beside them.
        Unhealthy,
        /// The namespace that the Purpose names does not exist.
        NamespaceNotFound,
        /// The Purpose contradicts itself, so that nothing can be made for it alone.
        Contradiction,
    }
}

spelled! {
    /// Reasons of a ClusterProvider's status.
    ProviderReason {
        /// Ready.
        AllGood,
        /// Its heartbeat Lease is too old.
        HeartbeatMissed,
        /// Its package is an OCI image, and the platform does not run on Kubernetes.
        PackageNeedsKubernetes,
        /// Its package is not one that may run here.
        PackageNotAllowed,
        /// Its `init` did not exit with 0.
        InitFailed,
        /// It has not reported yet.
        Starting,
        /// It is being deleted and waits for its Clusters.
        Deleting,
        /// A program that it runs is not there, or does not work.
        ToolNotUsable,
        /// Of condition `ConfigsUsable`: a ProviderConfig, or what it stands for, cannot be used.
        ConfigNotUsable,
    }
}

spelled! {
    /// Reasons of the conditions of CloudProfiles and PrivateCloudProfiles.
    CatalogReason {
        /// All that the condition says holds.
        AllGood,
        /// Of `Rendered`: parent and private profile both have entries and mean them differently; the parent's hold.
        Conflicts,
        /// Of `Rendered` and `ChildrenValid`: entries are wrong under this parent, and left out.
        Invalid,
        /// Of `Rendered`: what it comes to is more than an object may hold, and is not shown.
        TooLarge,
        /// There is no CloudProfile of that name.
        ParentNotFound,
        /// The CloudProfile is being deleted once nobody uses it.
        ParentDeleting,
        /// The parent is said to be of another kind than CloudProfile.
        ParentNotSupported,
        /// The parent is there and cannot be read.
        ParentUnreadable,
        /// The spec cannot be read: nothing follows from it until it is put right.
        Unreadable,
        /// Somebody uses the profile.
        InUse,
        /// Somebody uses the profile, and its deletion waits for that to end.
        DeletionBlocked,
        /// Nobody uses the profile.
        NotInUse,
    }
}

spelled! {
    /// Reasons of the Events that the platform writes.
    EventReason {
        /// What was made inside a Cluster could not be taken away.
        LeftBehind,
        /// An object went by force although somebody used it.
        DeletedByForce,
        /// What the platform depends on was another, and was put right.
        Repaired,
        /// An object in a shared Cluster, which is not the tenant's, has a name with its prefix.
        PrefixTaken,
        /// A ProviderConfig names a Secret that does not say that the provider may read it.
        SecretNotShared,
        /// Versions of a profile expired and were taken out of it.
        VersionsRemoved,
        /// A profile's deletion waits for those who use it.
        DeletionBlocked,
        /// The spec of a profile or a Shoot cannot be read: it is passed over until it is put right.
        Unreadable,
        /// Entries of a private profile are wrong under what its CloudProfile became, and left out.
        Invalid,
    }
}
