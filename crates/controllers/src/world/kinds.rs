//! The kinds that are mirrored: where each is kept, how decisions see it, and whom it wakes beyond what
//! the snapshot says.

use std::sync::Arc;

use allotment_api::names;
use allotment_api::requests::{
    AccessPolicy, AccessRequest, Cluster, ClusterProvider, ClusterRequest, ClusterRequestGrant, ExistingConfig,
    KindConfig, ProviderConfig, Purpose, TraitEquivalence,
};
use allotment_core::requests::{Object, ObjectKind, same_for_provider};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};

use super::{Queues, State};
use crate::access::AccessSecret;
use crate::frame::{Change, Mirror, ObjectKey};
use crate::providers::{self, AsConfig, Config, ConfigSettings};

/// A kind that the world mirrors.
pub trait Mirrored: Resource + Clone + Sized + Send + Sync + 'static {
    /// What the snapshot calls it; absent if decisions do not read it.
    const KIND: Option<ObjectKind>;

    /// Where objects of this kind are kept.
    fn mirror(state: &mut State) -> &mut Mirror<Self>;

    /// The object as decisions read it.
    fn to_object(object: &Arc<Self>) -> Option<Object>;

    /// Brings indexes up to date.
    fn index(_state: &mut State, _change: &Change<Self>) {}

    /// Wakes whoever has to look, beyond what the snapshot says is due.
    fn wake(_state: &State, _queues: &Queues, _change: &Change<Self>) {}
}

impl Mirrored for ClusterRequest {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Request);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.requests
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Request(object.clone()))
    }
}

impl Mirrored for ClusterRequestGrant {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Grant);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.grants
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Grant(object.clone()))
    }
}

impl Mirrored for Cluster {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Cluster);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.clusters
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Cluster(object.clone()))
    }

    fn index(state: &mut State, change: &Change<Self>) {
        let listed = |cluster: &Cluster| cluster.status.as_ref().is_some_and(|status| !status.leftovers.is_empty());
        let uid = |cluster: &Cluster| cluster.uid().unwrap_or_default();
        match (&change.before, &change.after) {
            (Some(before), Some(after)) if listed(before) && !listed(after) => _ = state.suspects.insert(uid(after)),
            (Some(before), None) => _ = state.suspects.remove(&uid(before)),
            (_, Some(_)) | (None, None) => {}
        }
    }

    fn wake(_state: &State, queues: &Queues, change: &Change<Self>) {
        let states = change.before.as_ref().zip(change.after.as_ref());
        if !states.is_some_and(|(before, after)| same_for_provider(before, after)) {
            queues.planes.add(change.key.clone());
        }
        queues.insides.add(change.key.clone());
        // A ClusterProvider that is being deleted waits for its Clusters.
        if let (Some(before), None) = (&change.before, &change.after) {
            queues.providers.add(ObjectKey::cluster_wide(before.spec.cluster_provider_ref.name.clone()));
        }
    }
}

impl Mirrored for Purpose {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Purpose);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.purposes
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Purpose(object.clone()))
    }
}

impl Mirrored for ClusterProvider {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Provider);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.providers
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Provider(object.clone()))
    }

    fn wake(state: &State, queues: &Queues, change: &Change<Self>) {
        queues.providers.add(change.key.clone());
        let told = |side: &Option<std::sync::Arc<Self>>| {
            side.as_ref().map(|found| {
                let profiles = found.status.iter().flat_map(|status| &status.profiles);
                (found.spec.package.clone(), profiles.map(|profile| profile.name.clone()).collect::<Vec<_>>())
            })
        };
        if told(&change.before) == told(&change.after) {
            return;
        }
        // Whose part of a Cluster it is hangs on the package, and whether it is begun on the profile; both change hardly
        // ever.
        let of_it = |cluster: &Cluster| cluster.spec.cluster_provider_ref.name == change.key.name;
        for (key, _) in state.clusters.iter().filter(|(_, cluster)| of_it(cluster)) {
            queues.planes.add(key.clone());
        }
    }
}

impl Mirrored for ProviderConfig {
    const KIND: Option<ObjectKind> = None;

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.configs
    }

    fn to_object(_object: &Arc<Self>) -> Option<Object> {
        None
    }

    fn wake(state: &State, queues: &Queues, change: &Change<Self>) {
        wake_for_config(state, queues, change);
    }
}

impl Mirrored for ExistingConfig {
    const KIND: Option<ObjectKind> = None;

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.existing_configs
    }

    fn to_object(_object: &Arc<Self>) -> Option<Object> {
        None
    }

    fn wake(state: &State, queues: &Queues, change: &Change<Self>) {
        wake_for_config(state, queues, change);
        queues.configs.add(ObjectKey::new(providers::EXISTING, change.key.name.clone()));
    }
}

impl Mirrored for KindConfig {
    const KIND: Option<ObjectKind> = None;

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.kind_configs
    }

    fn to_object(_object: &Arc<Self>) -> Option<Object> {
        None
    }

    fn wake(state: &State, queues: &Queues, change: &Change<Self>) {
        wake_for_config(state, queues, change);
        queues.configs.add(ObjectKey::new(providers::KIND, change.key.name.clone()));
    }
}

/// A ProviderConfig came, went or changed: its ClusterProvider publishes something else, and what its Clusters are
/// made from may be another thing.
fn wake_for_config<K: AsConfig>(state: &State, queues: &Queues, change: &Change<K>) {
    let settings = |side: &Option<std::sync::Arc<K>>| side.as_ref().and_then(|config| config.as_config());
    let (before, after) = (settings(&change.before), settings(&change.after));
    if before == after {
        return;
    }
    for config in [before, after].into_iter().flatten() {
        queues.providers.add(ObjectKey::cluster_wide(config.provider.clone()));
        wake_clusters(state, queues, &config);
    }
}

/// Has the provider look after the Clusters that come from a ProviderConfig.
pub(super) fn wake_clusters(state: &State, queues: &Queues, config: &Config) {
    for key in state.snapshot.clusters_of_provider(&config.provider) {
        let of_it = |cluster: &std::sync::Arc<Cluster>| cluster.spec.cluster_provider_ref.profile == config.name;
        if config.settings != ConfigSettings::Local && state.clusters.get(key).is_some_and(of_it) {
            queues.planes.add(key.clone());
        }
    }
}

impl Mirrored for TraitEquivalence {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Equivalence);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.equivalences
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Equivalence(object.clone()))
    }
}

impl Mirrored for AccessRequest {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Access);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.access
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Access(object.clone()))
    }

    fn index(state: &mut State, change: &Change<Self>) {
        if let Some((cluster, uid)) = left(change) {
            state.suspect(&cluster, &uid);
        }
    }

    fn wake(_state: &State, queues: &Queues, change: &Change<Self>) {
        if let Some((cluster, _)) = left(change) {
            queues.insides.add(cluster);
        }
    }
}

/// The Cluster in which an AccessRequest lived and does not any more, and its UID. Another process that has
/// not seen it yet may still make something there.
fn left(change: &Change<AccessRequest>) -> Option<(ObjectKey, String)> {
    let lived = lives_in(change.before.as_deref()?)?;
    let lives = change.after.as_deref().and_then(lives_in);
    (lives.as_ref() != Some(&lived)).then_some(lived)
}

/// Where an AccessRequest notes that it lives: a Cluster and its UID.
pub(super) fn lives_in(access: &AccessRequest) -> Option<(ObjectKey, String)> {
    let annotations = access.annotations();
    let cluster = annotations.get(names::LIVE_IN_NAME).and_then(|name| ObjectKey::parse(name))?;
    Some((cluster, annotations.get(names::LIVE_IN)?.clone()))
}

impl Mirrored for AccessPolicy {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Policy);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.policies
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Policy(object.clone()))
    }
}

impl Mirrored for Namespace {
    const KIND: Option<ObjectKind> = Some(ObjectKind::Namespace);

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.namespaces
    }

    fn to_object(object: &Arc<Self>) -> Option<Object> {
        Some(Object::Namespace { name: object.name_any(), labels: object.labels().clone() })
    }
}

impl Mirrored for Lease {
    const KIND: Option<ObjectKind> = None;

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.heartbeats
    }

    fn to_object(_object: &Arc<Self>) -> Option<Object> {
        None
    }

    fn wake(_state: &State, queues: &Queues, change: &Change<Self>) {
        if let Some(provider) = providers::provider_of_lease(&change.key.name) {
            queues.providers.add(ObjectKey::cluster_wide(provider));
        }
    }
}

impl Mirrored for AccessSecret {
    const KIND: Option<ObjectKind> = None;

    fn mirror(state: &mut State) -> &mut Mirror<Self> {
        &mut state.secrets
    }

    fn to_object(_object: &Arc<Self>) -> Option<Object> {
        None
    }

    fn index(state: &mut State, change: &Change<Self>) {
        for (secret, enters) in [(&change.before, false), (&change.after, true)] {
            let Some(secret) = secret else { continue };
            let of_it = state.secrets_of.entry(secret.request()).or_default();
            match enters {
                true => _ = of_it.insert(change.key.clone()),
                false => _ = of_it.remove(&change.key),
            }
            if of_it.is_empty() {
                state.secrets_of.remove(&secret.request());
            }
        }
    }

    fn wake(_state: &State, queues: &Queues, change: &Change<Self>) {
        for secret in [&change.before, &change.after].into_iter().flatten() {
            queues.access.add(secret.request());
        }
    }
}
