//! What it costs to make and change a private profile, and a Shoot on it, over a CloudProfile of 500 machine types and 400 versions of
//! images, on a landscape in this process: `cargo run --release -p allotment-landscape --example admissions`.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allotment_api::catalog::{CloudProfile, PrivateCloudProfile, Shoot};
use allotment_apiserver::auth::{GROUP_AUTHENTICATED, UserInfo};
use allotment_controllers::Settings;
use allotment_controllers::frame::{Seams, Tasks};
use allotment_controllers::providers::kind::NoPrograms;
use allotment_landscape::{Config, Landscape, client_of};
use allotment_machinery::seams::{Clock, Entropy};
use allotment_pki::{CertificateAuthority, KeySource as _, RandomKeys};
use allotment_store::{HistoryLimits, Memory, Tenant};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// How many of each are made.
const COUNT: u32 = 300;
/// How often the CloudProfile is changed.
const CHANGES: u32 = 10;
const NOW: i64 = 1_767_225_600;

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(NOW).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::SeqCst).to_le_bytes();
        buffer.iter_mut().zip(next.iter().cycle()).for_each(|(byte, next)| *byte = *next);
    }
}

fn central() -> Value {
    let types =
        |number| json!({"name": format!("type-{number}"), "cpu": "4", "gpu": "0", "memory": "16Gi", "usable": true});
    let version = |number| {
        json!({"version": format!("1.{number}.0"), "expirationDate": "2027-01-01T00:00:00Z", "architectures": ["amd64"],
            "cri": [{"name": "containerd"}]})
    };
    let image =
        |number| json!({"name": format!("image-{number}"), "versions": (0..40).map(version).collect::<Vec<_>>()});
    json!({"metadata": {"name": "central"}, "spec": {"type": "local", "kubernetes": {"versions": [{"version": "1.31.0"}]},
        "machineTypes": (0..500).map(types).collect::<Vec<_>>(), "machineImages": (0..10).map(image).collect::<Vec<_>>(),
        "regions": [{"name": "here"}]}})
}

fn private(number: u32) -> Value {
    json!({"metadata": {"name": format!("p{number}")}, "spec": {"parent": "central",
        "machineTypes": [{"name": "own", "cpu": "4", "gpu": "0", "memory": "16Gi"}],
        "machineImages": [{"name": "image-0", "versions": [{"version": "1.0.0", "expirationDate": "2028-01-01T00:00:00Z"}]}]}})
}

fn shoot(number: u32) -> Value {
    json!({"metadata": {"name": format!("s{number}")}, "spec": {"region": "here", "kubernetes": {"version": "1.31.0"},
        "cloudProfile": {"kind": "PrivateCloudProfile", "name": format!("p{number}")}, "provider": {"type": "local", "workers":
            [{"name": "w", "machine": {"type": "own", "image": {"name": "image-0", "version": "1.0.0"}}}]}}})
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let seams = Seams { clock: Arc::new(Stopped), entropy: Arc::<Counter>::default() };
    let config = Config {
        store: Arc::new(Memory::new(0, HistoryLimits::default())),
        seams: seams.clone(),
        keys: Arc::new(RandomKeys),
        authority: CertificateAuthority::new("example", RandomKeys.generate()?, NOW, 1 << 28)?,
        service_account_key: RandomKeys.generate()?,
        created: seams.now(),
        url: "https://127.0.0.1:1".to_owned(),
        programs: Arc::new(NoPrograms),
    };
    let landscape = Landscape::serve(config).await?;
    landscape.ensure().await?;
    let tasks = Tasks::default();
    let settings = Settings {
        access_token_lifetime: Duration::from_secs(3600),
        provisioning_deadline: Duration::from_secs(3600),
        without_catalog: false,
    };
    let controllers = landscape.start_controllers(&tasks, landscape.client(), &settings);
    controllers.synced().await;

    // Somebody whom roles allow everything, and who is not the platform.
    let binding = json!({"metadata": {"name": "alice"}, "subjects": [{"kind": "User", "name": "alice",
        "apiGroup": "rbac.authorization.k8s.io"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole", "name": "cluster-admin"}});
    let params = PostParams::default();
    let bindings = Api::<ClusterRoleBinding>::all(landscape.client().clone());
    bindings.create(&params, &serde_json::from_value(binding)?).await?;
    let groups = vec![GROUP_AUTHENTICATED.to_owned()];
    let alice = UserInfo { name: "alice".to_owned(), groups, ..UserInfo::default() };
    let client = client_of(landscape.server(), &Tenant::platform(), alice);
    let profile: CloudProfile = typed("CloudProfile", central())?;
    Api::all(client.clone()).create(&params, &profile).await?;

    let profiles = Api::<PrivateCloudProfile>::namespaced(client.clone(), "default");
    let begin = Instant::now();
    for number in 0..COUNT {
        profiles.create(&params, &typed("PrivateCloudProfile", private(number))?).await?;
    }
    println!("a private profile, with the reply of 110 KB read: {:?}", begin.elapsed() / COUNT);
    let begin = Instant::now();
    for number in 0..COUNT {
        let change = json!({"spec": {"machineTypes": [{"name": "own", "cpu": "4", "gpu": "0", "memory": format!("{}Gi", 17 + number)}]}});
        profiles.patch_metadata("p0", &PatchParams::default(), &Patch::Merge(change)).await?;
    }
    println!("a change of it: {:?}", begin.elapsed() / COUNT);
    let central = Api::<CloudProfile>::all(client.clone());
    let begin = Instant::now();
    for number in 0..CHANGES {
        let change = json!({"spec": {"regions": [{"name": "here"}, {"name": format!("there-{number}")}]}});
        central.patch_metadata("central", &PatchParams::default(), &Patch::Merge(change)).await?;
    }
    println!("a change of the CloudProfile: {:?}", begin.elapsed() / CHANGES);
    // Its children are rendered anew meanwhile.
    while !controllers.is_idle() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let shoots = Api::<Shoot>::namespaced(client, "default");
    let begin = Instant::now();
    for number in 0..COUNT {
        shoots.create(&params, &typed("Shoot", shoot(number))?).await?;
    }
    println!("a Shoot on it: {:?}", begin.elapsed() / COUNT);
    tasks.stop().await;
    landscape.server().stop().await;
    Ok(())
}

fn typed<K: serde::de::DeserializeOwned>(kind: &str, mut object: Value) -> Result<K, serde_json::Error> {
    object["apiVersion"] = json!("core.gardener.cloud/v1beta1");
    object["kind"] = json!(kind);
    serde_json::from_value(object)
}
