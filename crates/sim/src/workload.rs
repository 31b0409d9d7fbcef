//! What people do to the platform, as a seed decides: they ask, change their minds, delete, break things.
//! Calls that fail are given up: whether they were carried out is for the judge to see.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use allotment_api::names::API_VERSION;
use allotment_api::requests::{AccessRequest, Cluster, ClusterRequest, ClusterRequestGrant, Purpose};
use allotment_core::write::ObjectKey;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::judge::FORGED;
use crate::known::Known;
use crate::world::{TOKEN_LIFETIME, World};

const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];
const NAMES: usize = 4;
/// How long a call may take before its caller gives up: it may have been made to a process that died.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than every `idleGrace` of the workload.
pub(crate) const BEYOND_GRACE: Duration = Duration::from_secs(150);
/// Steps of the store within which something that is to be killed is killed.
const FUSE: usize = 60;

/// Namespaces, and Purposes tight enough that requests get into each other's way.
pub(crate) async fn prepare(world: &World) {
    let client = world.admin();
    for name in NAMESPACES {
        create::<Namespace>(Api::all(client.clone()), json!({ "metadata": { "name": name } })).await;
    }
    for (purpose, spec) in [
        ("workload", json!({ "maxTenants": 2, "idleGrace": "2m" })),
        ("mcp", json!({ "idleGrace": "90s" })),
        ("onboarding", json!({ "idleGrace": "1m" })),
        ("platform", json!({ "idleGrace": "1m" })),
    ] {
        patch::<Purpose>(Api::all(client.clone()), purpose, json!({ "spec": spec })).await;
    }
}

/// Does one thing, and waits for a while or not at all.
pub(crate) async fn step(world: &mut World, chance: &mut Chance) {
    act(world, chance).await;
    let wait = match chance.below(10) {
        0..4 => 0,
        4..7 => chance.below(40),
        7..9 => chance.below(1_000),
        _ => chance.below(12_000),
    };
    tokio::time::sleep(Duration::from_millis(wait as u64)).await;
    world.revive().await;
}

async fn act(world: &mut World, chance: &mut Chance) {
    let client = world.admin();
    let place = ObjectKey::new(*chance.pick(&NAMESPACES), format!("r{}", chance.below(NAMES)));
    match chance.below(100) {
        0..30 => request(&client, chance, &place).await,
        30..40 => {
            let key = any(world, chance, |known| keys(&known.requests));
            delete::<ClusterRequest>(&client, &key).await;
        }
        40..56 => access(world, chance, &client).await,
        56..62 => {
            let key = any(world, chance, |known| keys(&known.access));
            delete::<AccessRequest>(&client, &key).await;
        }
        62..66 => {
            let key = any(world, chance, |known| keys(&known.access));
            let spec = json!({ "spec": { "permissions": permissions(chance) } });
            patch::<AccessRequest>(api(&client, &key), &key.name, spec).await;
        }
        66..72 => edit_purpose(&client, chance).await,
        72..74 => toggle_purpose(world, chance, &client).await,
        74..80 => wipe(world, chance, &client).await,
        80..83 => forge(world, chance, &client).await,
        83..85 => {
            let key = any(world, chance, |known| keys(&known.requests));
            let spec = json!({ "spec": { "prefix": prefix(chance), "purposes": purposes(chance) } });
            patch::<ClusterRequest>(api(&client, &key), &key.name, spec).await;
        }
        85..87 => {
            let name = *chance.pick(&NAMESPACES);
            let namespaces = Api::<Namespace>::all(client.clone());
            patient(namespaces.delete(name, &DeleteParams::default())).await;
        }
        87..89 => {
            let key = any(world, chance, |known| keys(&known.clusters));
            delete::<Cluster>(&client, &key).await;
        }
        89..94 => {
            let (steps, which) = (chance.below(FUSE) as u64, chance.below(2));
            world.kill_controllers_after(steps, which);
        }
        94..97 => world.kill_after(chance.below(FUSE) as u64),
        97..99 => tokio::time::sleep(BEYOND_GRACE).await,
        _ => tokio::time::sleep(TOKEN_LIFETIME * 9 / 10).await,
    }
    // Namespaces come back, so that there is always somebody who asks.
    let name = *chance.pick(&NAMESPACES);
    let there = world.judge.findings().known.namespaces.contains_key(&ObjectKey::cluster_wide(name));
    if !there {
        create::<Namespace>(Api::all(client), json!({ "metadata": { "name": name } })).await;
    }
}

/// Deletes all that anybody asked for, spares included, and what was forged.
pub(crate) async fn clean_up(world: &World) {
    let client = world.admin();
    let (requests, access, forged) = {
        let findings = world.judge.findings();
        let known = &findings.known;
        let is_forged =
            |grant: &&ClusterRequestGrant| grant.metadata.uid.as_ref().is_some_and(|uid| known.forged.contains(uid));
        let forged: Vec<ObjectKey> =
            known.grants.values().filter(is_forged).map(|grant| ObjectKey::of(&grant.metadata)).collect();
        (keys(&known.requests), keys(&known.access), forged)
    };
    for purpose in ["mcp", "workload"] {
        patch::<Purpose>(Api::all(client.clone()), purpose, json!({ "spec": { "warm": null } })).await;
    }
    for key in &forged {
        delete::<ClusterRequestGrant>(&client, key).await;
    }
    for key in &requests {
        delete::<ClusterRequest>(&client, key).await;
    }
    for key in &access {
        delete::<AccessRequest>(&client, key).await;
    }
}

/// Takes the status of everything away.
pub(crate) async fn wipe_all(world: &World) {
    let client = world.admin();
    let (requests, grants, access, clusters) = {
        let findings = world.judge.findings();
        let known = &findings.known;
        (keys(&known.requests), keys(&known.grants), keys(&known.access), keys(&known.clusters))
    };
    for key in &requests {
        wipe_one::<ClusterRequest>(&client, key).await;
    }
    for key in &grants {
        wipe_one::<ClusterRequestGrant>(&client, key).await;
    }
    for key in &access {
        wipe_one::<AccessRequest>(&client, key).await;
    }
    for key in &clusters {
        wipe_one::<Cluster>(&client, key).await;
    }
}

fn purposes(chance: &mut Chance) -> Value {
    let others = [json!(["onboarding"]), json!(["platform", "onboarding"]), json!(["nowhere"])];
    match chance.below(10) {
        0..6 => json!(["workload"]),
        6..8 => json!(["mcp"]),
        _ => chance.pick(&others).clone(),
    }
}

fn prefix(chance: &mut Chance) -> Value {
    chance.pick(&[json!(null), json!("foo-"), json!("foo-"), json!("bar-"), json!("ab-")]).clone()
}

async fn request(client: &Client, chance: &mut Chance, key: &ObjectKey) {
    let mut spec = json!({ "purposes": purposes(chance), "prefix": prefix(chance) });
    if chance.strikes(200) {
        spec["kubernetes"] = json!({ "version": chance.pick(&["1.33", "1.3", "1.30", "9.9"]) });
    }
    if chance.strikes(100) {
        spec["dedicated"] = json!(chance.strikes(500));
    }
    let object = json!({
        "apiVersion": API_VERSION, "kind": "ClusterRequest",
        "metadata": { "name": key.name, "namespace": key.namespace }, "spec": spec,
    });
    create::<ClusterRequest>(api(client, key), object).await;
}

fn permissions(chance: &mut Chance) -> Value {
    let rules = [
        json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }]),
        json!([{ "apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list", "create"] }]),
        json!([{ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"] }]),
    ];
    let namespaces = ["foo-app", "bar-app", "default", "elsewhere"];
    let here = json!({ "namespace": chance.pick(&namespaces), "rules": chance.pick(&rules) });
    let everywhere = json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"] }]);
    if chance.strikes(400) { json!([here, { "rules": everywhere }]) } else { json!([here]) }
}

async fn access(world: &World, chance: &mut Chance, client: &Client) {
    let (field, target) = if chance.strikes(850) {
        ("requestRef", any(world, chance, |known| keys(&known.requests)))
    } else {
        ("clusterRef", any(world, chance, |known| keys(&known.clusters)))
    };
    if target.name.is_empty() {
        return;
    }
    let key = ObjectKey::new(target.namespace.clone(), format!("a{}", chance.below(NAMES)));
    let mut spec = json!({ field: { "name": target.name }, "permissions": permissions(chance) });
    if chance.strikes(150) {
        spec["ttl"] = json!("3m");
    }
    let object = json!({
        "apiVersion": API_VERSION, "kind": "AccessRequest",
        "metadata": { "name": key.name, "namespace": key.namespace }, "spec": spec,
    });
    create::<AccessRequest>(api(client, &key), object).await;
}

async fn edit_purpose(client: &Client, chance: &mut Chance) {
    if chance.strikes(250) {
        let (purpose, warm) = (*chance.pick(&["mcp", "workload"]), chance.below(3));
        patch::<Purpose>(Api::all(client.clone()), purpose, json!({ "spec": { "warm": warm } })).await;
        return;
    }
    let spec = match chance.below(3) {
        0 => json!({ "maxTenants": 1 + chance.below(3) }),
        1 => json!({ "maxClusters": chance.below(4) }),
        _ => json!({ "maxClusters": null }),
    };
    patch::<Purpose>(Api::all(client.clone()), "workload", json!({ "spec": spec })).await;
}

async fn toggle_purpose(world: &World, chance: &mut Chance, client: &Client) {
    let name = *chance.pick(&["workload", "onboarding"]);
    let there = world.judge.findings().known.purposes.contains_key(&ObjectKey::cluster_wide(name));
    let purposes = Api::<Purpose>::all(client.clone());
    if there && chance.strikes(400) {
        patient(purposes.delete(name, &DeleteParams::default())).await;
    } else {
        let spec = json!({ "dedicated": false, "maxTenants": 2, "idleGrace": "2m" });
        let object = json!({
            "apiVersion": API_VERSION, "kind": "Purpose", "metadata": { "name": name }, "spec": spec,
        });
        create::<Purpose>(purposes, object).await;
    }
}

async fn wipe(world: &World, chance: &mut Chance, client: &Client) {
    match chance.below(4) {
        0 => wipe_one::<ClusterRequest>(client, &any(world, chance, |known| keys(&known.requests))).await,
        1 => wipe_one::<ClusterRequestGrant>(client, &any(world, chance, |known| keys(&known.grants))).await,
        2 => wipe_one::<AccessRequest>(client, &any(world, chance, |known| keys(&known.access))).await,
        _ => wipe_one::<Cluster>(client, &any(world, chance, |known| keys(&known.clusters))).await,
    }
}

async fn wipe_one<K>(client: &Client, key: &ObjectKey)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    if !key.name.is_empty() {
        wipe_status::<K>(api(client, key), &key.name).await;
    }
}

/// Takes an object's status away.
pub(crate) async fn wipe_status<K>(api: Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let nothing = Patch::Merge(json!({ "status": null }));
    patient(api.patch_status(name, &PatchParams::default(), &nothing)).await;
}

/// A Grant that nobody decided, for a request that has none, of a Cluster that is somebody else's.
async fn forge(world: &World, chance: &mut Chance, client: &Client) {
    let request = any(world, chance, |known| {
        let bare = known.requests.keys().filter(|key| !known.grants.contains_key(*key));
        bare.cloned().collect()
    });
    let cluster = any(world, chance, |known| keys(&known.clusters));
    let uids = {
        let findings = world.judge.findings();
        let known = &findings.known;
        let request_uid = known.requests.get(&request).and_then(|request| request.metadata.uid.clone());
        request_uid.zip(known.clusters.get(&cluster).and_then(|cluster| cluster.metadata.uid.clone()))
    };
    let Some((request_uid, cluster_uid)) = uids else { return };
    let object = json!({
        "apiVersion": API_VERSION, "kind": "ClusterRequestGrant",
        "metadata": { "name": request.name, "namespace": request.namespace, "annotations": { FORGED: "true" } },
        "spec": {
            "clusterRef": { "name": cluster.name, "namespace": cluster.namespace, "uid": cluster_uid },
            "prefix": "evil-", "requestUID": request_uid,
            "resolved": { "purposes": ["workload"], "dedicated": false },
        },
    });
    create::<ClusterRequestGrant>(api(client, &request), object).await;
}

fn keys<T>(objects: &BTreeMap<ObjectKey, T>) -> Vec<ObjectKey> {
    objects.keys().cloned().collect()
}

/// One of these objects; an empty key where there is none.
fn any(world: &World, chance: &mut Chance, of: impl FnOnce(&Known) -> Vec<ObjectKey>) -> ObjectKey {
    let found = of(&world.judge.findings().known);
    if found.is_empty() { ObjectKey::default() } else { chance.pick(&found).clone() }
}

pub(crate) fn api<K>(client: &Client, key: &ObjectKey) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &key.namespace)
}

pub(crate) async fn create<K>(api: Api<K>, object: Value)
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object).expect("the workload writes what the kinds read");
    patient(api.create(&PostParams::default(), &object)).await;
}

pub(crate) async fn patch<K>(api: Api<K>, name: &str, change: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    if !name.is_empty() {
        patient(api.patch(name, &PatchParams::default(), &Patch::Merge(change))).await;
    }
}

/// Deletes an object of a namespace.
pub(crate) async fn delete<K>(client: &Client, key: &ObjectKey)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    if !key.name.is_empty() {
        patient(api::<K>(client, key).delete(&key.name, &DeleteParams::default())).await;
    }
}

/// Deletes an object of the whole cluster.
pub(crate) async fn delete_wide<K>(client: &Client, name: &str)
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
{
    patient(Api::<K>::all(client.clone()).delete(name, &DeleteParams::default())).await;
}

/// Makes a call. One that fails, or takes too long, is given up.
async fn patient<T>(call: impl Future<Output = Result<T, kube::Error>>) {
    let _ = tokio::time::timeout(PATIENCE, call).await;
}
