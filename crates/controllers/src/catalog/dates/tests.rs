//! A catalog of profiles with dates, its controller, and an API that takes every status, while days pass.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use allotment_api::catalog::{CloudProfile, FINALIZER, KeptProfile, Shoot, Stored};
use allotment_core::catalog::{KeptShoot, Offer};
use allotment_machinery::seams::Clock;
use async_trait::async_trait;
use http::{Request, Response};
use jiff::SignedDuration;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::catalog::Profiles;
use crate::catalog::followed::Followed;
use crate::frame::{Next, Reconcile, ReconcileError, Tasks, still, work};

const PROFILES: i64 = 100;
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// What may pass between a date and the look.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// A clock on the wall that goes as fast as tokio's, and can be set.
#[derive(Debug)]
struct Wall {
    start: Instant,
    set_ahead_secs: AtomicI64,
}

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.start.elapsed()).expect("days");
        let ahead = SignedDuration::from_secs(self.set_ahead_secs.load(Ordering::Relaxed));
        Timestamp::UNIX_EPOCH + passed + ahead
    }
}

/// The controller, and when it looked at which private profile.
struct Counted {
    profiles: Profiles,
    clock: Arc<Wall>,
    looks: Arc<Mutex<BTreeMap<ObjectKey, Vec<Timestamp>>>>,
}

#[async_trait]
impl Reconcile for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ReconcileError> {
        if !key.namespace.is_empty() {
            self.looks.lock().expect("nobody panicked").entry(key.clone()).or_default().push(self.clock.now());
        }
        self.profiles.reconcile(key).await
    }
}

struct Scene {
    world: Arc<CatalogWorld>,
    clock: Arc<Wall>,
    looks: Arc<Mutex<BTreeMap<ObjectKey, Vec<Timestamp>>>>,
}

impl Scene {
    /// A hundred private profiles that are at rest, each with a version of its own that expires at another time of the
    /// next day, and that a Shoot uses so that it stays.
    async fn begin(tasks: &Tasks) -> Scene {
        let clock = Arc::new(Wall { start: Instant::now(), set_ahead_secs: AtomicI64::new(0) });
        let (world, seams) = (Arc::new(CatalogWorld::default()), Seams { clock: clock.clone(), ..still() });
        world.seen(Followed::<Offer>::of(Stored::<CloudProfile>::Read(serde_json::from_value(parent()).expect("one"))));
        for number in 0..PROFILES {
            let private = serde_json::from_value(private(number, date(number))).expect("a profile");
            world.seen(Followed::<KeptProfile>::of(Stored::Read(private)));
            let shoot = serde_json::from_value(shoot(number)).expect("a Shoot");
            world.seen(Followed::<KeptShoot>::of(Stored::<Shoot>::Read(shoot)));
        }
        let looks = Arc::<Mutex<_>>::default();
        let profiles = Profiles::new(Client::new(tower::service_fn(answer), "default"), world.clone(), seams.clone());
        let counted = Counted { profiles, clock: clock.clone(), looks: looks.clone() };
        tasks.spawn(keep_dates(world.clone(), seams));
        tasks.spawn(work(Arc::new(counted), world.queue.clone(), 16));
        let scene = Scene { world, clock, looks };
        tokio::time::sleep(MINUTE).await;
        assert_eq!(scene.looks().len(), usize::try_from(PROFILES).expect("few"));
        scene
    }

    /// The looks since this was asked last.
    fn looks(&self) -> BTreeMap<ObjectKey, Vec<Timestamp>> {
        std::mem::take(&mut *self.looks.lock().expect("nobody panicked"))
    }
}

/// All of a day's dates, hours after its begin.
fn date(number: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(2) + SignedDuration::from_secs(number * 700)
}

fn key(number: i64) -> ObjectKey {
    ObjectKey::new("team", format!("p{number}"))
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "uid": name, "resourceVersion": "1", "generation": 1, "finalizers": [FINALIZER]})
}

fn parent() -> Value {
    json!({"metadata": metadata("central"), "spec": {"type": "local", "kubernetes": {"versions": [{"version": "1.30.1"}]},
        "machineImages": [], "machineTypes": [], "regions": [{"name": "r1"}]}})
}

fn private(number: i64, date: Timestamp) -> Value {
    let mut object = json!({"metadata": metadata(&format!("p{number}")), "spec": {"parent": {"kind": "CloudProfile", "name": "central"},
        "machineImages": [{"name": "own", "versions": [{"version": "1.0.0", "cri": [{"name": "containerd"}],
            "architectures": ["amd64"], "expirationDate": date.to_string()}]}]}});
    object["metadata"]["namespace"] = json!("team");
    object
}

fn shoot(number: i64) -> Value {
    let mut object = json!({"metadata": metadata(&format!("s{number}")), "spec": {
        "cloudProfile": {"kind": "PrivateCloudProfile", "name": format!("p{number}")}, "region": "r1",
        "kubernetes": {"version": "1.30.1"}, "provider": {"type": "local", "workers": [{"name": "w", "minimum": 1,
            "maximum": 1, "machine": {"type": "small", "image": {"name": "own", "version": "1.0.0"}}}]}}});
    object["metadata"]["namespace"] = json!("team");
    object
}

/// An API that takes every status, and answers with metadata of the next version.
async fn answer(request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
    let (parts, body) = request.into_parts();
    let mut object: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    if parts.uri.path().ends_with("/status") {
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
        object["metadata"]["resourceVersion"] = json!((version.unwrap_or(0) + 1).to_string());
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        let namespace = parts.uri.path().contains("/namespaces/team/").then_some("team");
        object["metadata"]["namespace"] = json!(namespace);
    }
    Ok(Response::new(Body::from(object.to_string().into_bytes())))
}

#[tokio::test(start_paused = true)]
async fn a_day_passes_and_each_profile_is_looked_at_once_when_its_date_comes() {
    let tasks = Tasks::default();
    let scene = Scene::begin(&tasks).await;
    tokio::time::sleep(DAY).await;
    let looks = scene.looks();
    for number in 0..PROFILES {
        let (due, at) = (date(number), looks.get(&key(number)).cloned().unwrap_or_default());
        assert!(at.len() == 1 && due <= at[0] && at[0] <= due + SOON, "due {due}, looked at {at:?}");
    }
    assert_eq!(scene.world.dates.earliest(), None);
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_past_dates_is_noticed_and_what_is_not_due_yet_waits() {
    let tasks = Tasks::default();
    let scene = Scene::begin(&tasks).await;
    let past = date(PROFILES / 2) + SignedDuration::from_secs(1);
    let ahead = past.duration_since(scene.clock.now());
    scene.clock.set_ahead_secs.store(ahead.as_secs(), Ordering::Relaxed);
    tokio::time::sleep(15 * MINUTE + Duration::from_secs(1)).await;
    let (looks, now) = (scene.looks(), scene.clock.now());
    for number in 0..PROFILES {
        let times = looks.get(&key(number)).map_or(0, Vec::len);
        assert_eq!(times, usize::from(date(number) <= now), "p{number}, due {}", date(number));
    }
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_date_that_is_set_earlier_wakes_earlier_and_one_that_goes_does_not() {
    let tasks = Tasks::default();
    let scene = Scene::begin(&tasks).await;
    let soon = scene.clock.now() + SignedDuration::from_secs(300);
    let mut changed = private(7, soon);
    (changed["metadata"]["resourceVersion"], changed["metadata"]["generation"]) = (json!("9"), json!(2));
    scene.world.seen(Followed::<KeptProfile>::of(Stored::Read(serde_json::from_value(changed).expect("a profile"))));
    let mut gone = private(0, date(0));
    gone["metadata"]["resourceVersion"] = json!("9");
    let gone = Stored::Read(serde_json::from_value(gone).expect("a profile"));
    scene.world.watched(kube::runtime::watcher::Event::Delete(Followed::<KeptProfile>::of(gone)));
    tokio::time::sleep(MINUTE).await;
    let known = scene.looks();
    assert!(known.contains_key(&key(7)) && known.contains_key(&key(0)), "{known:?}");
    tokio::time::sleep(5 * MINUTE).await;
    let looks = scene.looks();
    assert_eq!(looks.keys().collect::<Vec<_>>(), [&key(7)]);
    assert!(looks[&key(7)].iter().all(|at| soon <= *at && *at <= soon + SOON), "{looks:?}, due {soon}");
    assert_eq!(scene.world.dates.earliest(), Some(date(1)));
    tasks.stop().await;
}
