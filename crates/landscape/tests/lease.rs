//! Terms of office, by an API server in this process and a clock that the tests move: at no moment may two
//! write, whatever is lost on the way.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use allotment_apiserver::auth::{AccessConfig, GROUP_MASTERS, UserInfo};
use allotment_apiserver::builtin;
use allotment_apiserver::registry::Registry;
use allotment_apiserver::server::{ApiServer, ServerConfig, TenantConfig, bootstrap_template};
use allotment_controllers::frame::{Acquired, Candidate, Pace, Seams, Term};
use allotment_landscape::client_of;
use allotment_machinery::seams::{Clock, Entropy};
use allotment_store::{HistoryLimits, Memory, Tenant};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const LEASE: &str = "acts";
const DURATION: Duration = Duration::from_secs(15);
/// Two thirds of that, and two fifteenths: client-go's proportions.
const ACTING: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Wall time that follows tokio's clock, and leads it by as many seconds as machines were suspended.
#[derive(Debug)]
struct Wall {
    start: Instant,
    suspended: AtomicI64,
}

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).expect("a short test");
        let suspended = SignedDuration::from_secs(self.suspended.load(Ordering::SeqCst));
        Timestamp::from_second(1_800_000_000).expect("a time") + elapsed + suspended
    }
}

/// Draws nothing that a test looks at.
#[derive(Debug, Default)]
struct Counter(AtomicI64);

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::SeqCst).to_le_bytes();
        buffer.iter_mut().zip(next.iter().cycle()).for_each(|(byte, next)| *byte = *next);
    }
}

/// What happens to the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// It is carried out, and the reply is lost.
    Unheard,
    /// Nothing comes back, as from a machine that vanished: for one request, or for all from now on.
    Silence,
    SilenceForGood,
}

/// One candidate's way to the server.
#[derive(Clone)]
struct Wire {
    fate: Arc<Mutex<Fate>>,
    client: Client,
}

impl Wire {
    fn new(server: &ApiServer) -> Self {
        let direct = client_of(server, &Tenant::platform(), UserInfo::in_process("system:test", &[GROUP_MASTERS]));
        let fate = Arc::new(Mutex::new(Fate::Answered));
        let next = fate.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (direct, mut next) = (direct.clone(), next.lock().expect("no test panics with it"));
            let fate = *next;
            // A reply that is lost is that of a write.
            if fate == Fate::Silence || (fate == Fate::Unheard && request.method() != http::Method::GET) {
                *next = Fate::Answered;
            }
            async move {
                match fate {
                    Fate::Silence | Fate::SilenceForGood => std::future::pending().await,
                    Fate::Unheard if request.method() != http::Method::GET => {
                        direct.send(request).await?;
                        Err(kube::Error::Service("the connection was closed".into()))
                    }
                    Fate::Answered | Fate::Unheard => direct.send(request).await,
                }
            }
        });
        Wire { fate, client: Client::new(service, "default") }
    }

    fn next(&self, fate: Fate) {
        *self.fate.lock().expect("no test panics with it") = fate;
    }
}

/// A server, and who would act by it.
struct World {
    server: ApiServer,
    wall: Arc<Wall>,
    seams: Seams,
}

impl World {
    async fn new() -> Self {
        let wall = Arc::new(Wall { start: Instant::now(), suspended: AtomicI64::new(0) });
        let seams = Seams { clock: wall.clone(), entropy: Arc::<Counter>::default() };
        let server = ApiServer::start(ServerConfig {
            store: Arc::new(Memory::new(0, HistoryLimits::default())),
            clock: seams.clock.clone(),
            entropy: seams.entropy.clone(),
            builtin: Registry::new(builtin::kinds()),
            admission: Vec::new(),
            readiness: Vec::new(),
        });
        let platform = TenantConfig {
            tenant: Tenant::platform(),
            version: "1.36.0".to_owned(),
            server_url: "https://127.0.0.1:1".to_owned(),
            root_ca_pem: "".into(),
            access: AccessConfig::default(),
            template: Arc::new(bootstrap_template(seams.now())),
        };
        server.ensure_tenant(platform).await.expect("a tenant");
        World { server, wall, seams }
    }

    fn candidate(&self, name: &str) -> (Candidate, Wire) {
        let wire = Wire::new(&self.server);
        let pace = Pace::new(DURATION);
        (Candidate::new(wire.client.clone(), "default", LEASE, name.to_owned(), self.seams.clone(), pace), wire)
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(Wire::new(&self.server).client, "default")
    }

    async fn holder(&self) -> String {
        let lease = self.leases().get(LEASE).await.expect("the Lease");
        lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    }

    /// A client of the term by a wire that nothing is wrong with: what it refuses the term refuses.
    fn guarded(&self, term: &Term) -> Api<ConfigMap> {
        Api::namespaced(term.guard(Wire::new(&self.server).client), "default")
    }
}

async fn acquire(candidate: &Candidate) -> Term {
    let (nobody_stops, others) = (CancellationToken::new(), CancellationToken::new());
    let acquired = timeout(Duration::from_secs(600), candidate.acquire(&nobody_stops, &others)).await;
    match acquired.expect("the Lease within ten minutes") {
        Acquired::Term(term) => *term,
        other => panic!("nobody stops it: {other:?}"),
    }
}

/// Whether the term's client writes; it must read in any case.
async fn writes(maps: &Api<ConfigMap>) -> bool {
    maps.get_opt("there").await.expect("reads go on");
    let mut map = ConfigMap::default();
    map.metadata.name = Some("written".to_owned());
    // A dry run is a write to the term, and leaves the next one its name.
    match maps.create(&PostParams { dry_run: true, ..PostParams::default() }, &map).await {
        Ok(_) => true,
        Err(error) => {
            assert!(
                matches!(&error, kube::Error::Service(why) if why.to_string().contains("held no longer")),
                "{error}"
            );
            false
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_cut_off_writes_nothing_from_before_the_moment_at_which_another_may() {
    let world = World::new().await;
    let ((first, wire), (second, _)) = (world.candidate("first"), world.candidate("second"));
    let mut term = acquire(&first).await;
    let maps = world.guarded(&term);
    let kept = tokio::spawn(async move { (term.keep().await, Instant::now()) });
    let next = tokio::spawn(async move {
        let term = acquire(&second).await;
        (term, Instant::now())
    });
    sleep(Duration::from_secs(60)).await;
    assert!(writes(&maps).await && world.holder().await == "first", "it renews");
    wire.next(Fate::SilenceForGood);
    let cut = Instant::now();
    let mut last_written = cut;
    while !next.is_finished() {
        if writes(&maps).await {
            last_written = Instant::now();
        }
        assert!(cut.elapsed() < DURATION * 3, "nobody takes over");
        sleep(Duration::from_millis(100)).await;
    }
    let (why, ended) = kept.await.expect("no panic");
    let (_term, began) = next.await.expect("no panic");
    assert!(why.contains("could not be renewed"), "{why}");
    let bounds = ACTING - LOOK_EVERY - Duration::from_millis(200)..=ACTING;
    assert!(bounds.contains(&(last_written - cut)), "the last write came {:?} after", last_written - cut);
    assert!(ended - cut <= ACTING, "it is noticed in time");
    assert!(began - last_written >= (DURATION - ACTING) / 2, "the next one waits until nothing more can come");
    assert!(began - cut <= DURATION + LOOK_EVERY * 2, "and not for longer: {:?}", began - cut);
    assert_eq!(world.holder().await, "second");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_reply_is_lost_or_never_comes_costs_nobody_the_term() {
    let world = World::new().await;
    let (first, wire) = world.candidate("first");
    let mut term = acquire(&first).await;
    let maps = world.guarded(&term);
    let kept = tokio::spawn(async move { term.keep().await });
    for fate in [Fate::Unheard, Fate::Silence, Fate::Unheard, Fate::Silence] {
        wire.next(fate);
        for _ in 0..200 {
            sleep(Duration::from_millis(100)).await;
            assert!(writes(&maps).await && !kept.is_finished(), "after {fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_took_the_lease_and_was_not_told_begins_at_once() {
    for fate in [Fate::Unheard, Fate::Silence] {
        let world = World::new().await;
        let (first, wire) = world.candidate("first");
        wire.next(fate);
        let begin = Instant::now();
        let term = acquire(&first).await;
        assert!(begin.elapsed() < DURATION / 2, "{:?} after {fate:?}", begin.elapsed());
        assert!(writes(&world.guarded(&term)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_the_next_look_and_its_term_writes_no_more() {
    let world = World::new().await;
    let ((first, _), (second, _)) = (world.candidate("first"), world.candidate("second"));
    let term = acquire(&first).await;
    let maps = world.guarded(&term);
    let next = tokio::spawn(async move { acquire(&second).await });
    sleep(Duration::from_secs(1)).await;
    assert!(!next.is_finished() && writes(&maps).await);
    term.release().await;
    assert!(!writes(&maps).await);
    let next = timeout(LOOK_EVERY + Duration::from_millis(10), next).await.expect("at the next look");
    assert!(writes(&world.guarded(&next.expect("no panic"))).await);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_took_away_or_deleted_ends_the_term() {
    let world = World::new().await;
    for taken in [true, false] {
        let (first, _) = world.candidate("first");
        let mut term = acquire(&first).await;
        let maps = world.guarded(&term);
        let leases = world.leases();
        if taken {
            let mut lease = leases.get(LEASE).await.expect("the Lease");
            lease.spec.as_mut().expect("its spec").holder_identity = Some("other".to_owned());
            leases.replace(LEASE, &PostParams::default(), &lease).await.expect("taken");
        } else {
            leases.delete(LEASE, &DeleteParams::default()).await.expect("deleted");
        }
        let why = timeout(LOOK_EVERY * 2, term.keep()).await.expect("the next renewal shows it");
        assert_eq!(why, if taken { "other holds it" } else { "nobody holds it" });
        assert!(!writes(&maps).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_suspended_writes_nothing_when_it_wakes_up() {
    let world = World::new().await;
    let (first, _) = world.candidate("first");
    let mut term = acquire(&first).await;
    let maps = world.guarded(&term);
    assert!(writes(&maps).await);
    world.wall.suspended.store(3600, Ordering::SeqCst);
    assert!(!writes(&maps).await, "although its steady clock stood still");
    let why = timeout(LOOK_EVERY * 2, term.keep()).await.expect("it is noticed");
    assert!(why.contains("could not be renewed"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_told_to_stop_while_it_waits_takes_nothing() {
    let world = World::new().await;
    let ((first, _), (second, _)) = (world.candidate("first"), world.candidate("second"));
    let term = acquire(&first).await;
    let stop = CancellationToken::new();
    let waiting = tokio::spawn({
        let stop = stop.clone();
        async move { matches!(second.acquire(&stop, &CancellationToken::new()).await, Acquired::Term(_)) }
    });
    sleep(Duration::from_secs(1)).await;
    stop.cancel();
    assert!(!waiting.await.expect("no panic"), "it gives up");
    term.release().await;
    sleep(DURATION).await;
    assert_eq!(world.holder().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_lease_never_says_that_it_holds_for_less_than_it_does() {
    let world = World::new().await;
    let pace = Pace::new(Duration::from_millis(3900));
    let wire = Wire::new(&world.server);
    let candidate = Candidate::new(wire.client, "default", LEASE, "first".to_owned(), world.seams.clone(), pace);
    let _term = acquire(&candidate).await;
    let lease = world.leases().get(LEASE).await.expect("the Lease");
    assert_eq!(lease.spec.and_then(|spec| spec.lease_duration_seconds), Some(4));
}

/// A candidate with data of that name, which it may get later.
fn holding(candidate: Candidate, data: Option<&str>) -> (Candidate, Arc<Mutex<Option<String>>>) {
    let data = Arc::new(Mutex::new(data.map(str::to_owned)));
    let known = data.clone();
    (candidate.holding(Arc::new(move || known.lock().expect("unharmed").clone())), data)
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_the_lease_with_other_data_than_those_who_acted_before() {
    let world = World::new().await;
    let (first, data) = holding(world.candidate("first").0, None);
    let mut term = acquire(&first).await;
    // The first one ever makes its data once it may act.
    *data.lock().expect("unharmed") = Some("theirs".to_owned());
    let kept = tokio::spawn(async move {
        let lost = timeout(LOOK_EVERY * 3, term.keep()).await;
        assert!(lost.is_err(), "{lost:?}");
        term
    });
    let (other, _) = holding(world.candidate("other").0, Some("others"));
    let (stop, others) = (CancellationToken::new(), CancellationToken::new());
    let refused = timeout(DURATION, other.acquire(&stop, &others)).await.expect("not only when it is free");
    assert!(
        matches!(refused, Acquired::Elsewhere { theirs, own } if theirs == "theirs" && own.as_deref() == Some("others"))
    );

    let (empty, later) = holding(world.candidate("empty").0, None);
    let waits = timeout(LOOK_EVERY * 2, empty.acquire(&stop, &others)).await;
    assert!(waits.is_err() && others.is_cancelled(), "what it lacks it may still be given");
    kept.await.expect("no panic").release().await;
    let refused = empty.acquire(&stop, &others).await;
    assert!(matches!(refused, Acquired::Elsewhere { own: None, .. }), "{refused:?}");
    assert_eq!(world.holder().await, "", "it was not taken for a moment");
    *later.lock().expect("unharmed") = Some("theirs".to_owned());
    let term = acquire(&empty).await;
    assert!(writes(&world.guarded(&term)).await);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_lease_to_others_takes_it_only_later_and_sees_who_takes_it_meanwhile() {
    let world = World::new().await;
    let (first, wait) = (world.candidate("first").0, LOOK_EVERY * 4 + Duration::from_secs(1));
    acquire(&first).await.release().await;
    let begun = Instant::now();
    let term = acquire(&first.not_before(begun + wait)).await;
    assert_eq!((begun.elapsed(), world.holder().await.as_str()), (wait, "first"), "not before, and at once then");
    term.release().await;
    let (stop, others) = (CancellationToken::new(), CancellationToken::new());
    let waits = first.not_before(Instant::now() + wait);
    let meanwhile = async {
        sleep(Duration::from_secs(1)).await;
        assert!(!others.is_cancelled(), "nobody holds it");
        let begun = Instant::now();
        let _second = acquire(&world.candidate("second").0).await;
        others.cancelled().await;
        begun.elapsed()
    };
    tokio::select! {
        biased;
        acquired = waits.acquire(&stop, &others) => panic!("{acquired:?}"),
        took = meanwhile => assert!(took <= LOOK_EVERY, "it is told while it still waits: {took:?}"),
    }
}
