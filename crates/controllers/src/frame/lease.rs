//! Who of several processes acts: the holder of one Lease (coordination.k8s.io/v1), as client-go's leader
//! election has it.
//!
//! # Flow
//! A [`Candidate`] looks at the Lease until it is free, released, or unchanged for as long as it says it
//! holds; taking it is one compare-and-swap. The [`Term`] that begins is renewed until that fails for too
//! long or somebody else holds the Lease, and is given back at a shutdown.
//!
//! # Guarantees
//! - Clocks of different machines are never compared: how long a Lease has not changed is measured by the one
//!   who looks, and how long a term holds by the holder, from before the renewal was sent. A holder
//!   stops two thirds into the time after which others may take over.
//! - Writes by [`Term::guard`]'s client are refused from that moment on, before anybody has noticed: also in a
//!   process that was stopped for a while and goes on where it was, and on a machine that was suspended, whose
//!   steady clock stood still: the wall clock is asked as well, and whichever says that the term is over is believed.
//! - No request waits for longer than [`Pace::patience`], so that one dead connection costs neither a holder its
//!   term nor everybody else the succession.
//!
//! # Caveats
//! - A write that was sent before may arrive after the next term began. Most writes of the controllers say which state they
//!   were decided on and change nothing that has changed since. The others are: creates, which somebody else's
//!   object of the same name refuses; deletions, which name the UID they mean; applies of definitions, which
//!   are brought up to date when a term begins, and of webhook configurations, which are looked at every minute; and what is written inside logical clusters, which goes to
//!   a store that one process has open.
//! - A wall clock that is set back while the machine is suspended hides the suspension.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allotment_api::names::HOLDINGS;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Seams, Troubles, chain, is_conflict, tell};

const MANAGER: &str = "allot-controllers";
/// How long somebody else waits at most who finds the Lease released.
const RELEASED_SECS: i32 = 1;

/// How long a Lease holds; all else follows from it, in the proportions of client-go.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    duration: Duration,
}

impl Pace {
    /// A pace by which a process that died is replaced after `duration` and a few seconds. A Lease knows
    /// whole seconds; fractions are rounded up.
    pub fn new(duration: Duration) -> Self {
        let fraction = u64::from(duration.subsec_nanos() > 0);
        Pace { duration: Duration::from_secs(duration.as_secs().saturating_add(fraction)) }
    }

    /// How long a holder acts after its last renewal: 10 of 15 seconds.
    fn acting(self) -> Duration {
        self.duration * 2 / 3
    }

    /// How often the Lease is looked at, or renewed: every 2 of 15 seconds.
    fn look_every(self) -> Duration {
        self.duration * 2 / 15
    }

    /// How long one request may take: a holder has time for another one by a new connection.
    fn patience(self) -> Duration {
        self.acting() / 3
    }

    /// Does one request within its time.
    async fn within<T>(self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
        let limit = self.patience();
        match timeout(limit, request).await {
            Ok(answer) => answer,
            Err(_) => Err(kube::Error::Service(Box::new(Unanswered(limit)))),
        }
    }

    fn seconds(self) -> i32 {
        i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)
    }
}

/// A request that the API server did not answer in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
struct Unanswered(Duration);

/// The data that whoever acts needs, by a name that it has for good; nothing while there is none yet.
pub type Holdings = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What became of a candidate.
#[derive(Debug)]
pub enum Acquired {
    /// The Lease is ours.
    Term(Box<Term>),
    /// It was told to stop.
    Stopped,
    /// It has other data than those who acted before, or none, and they had some: it must not act.
    Elsewhere {
        /// The name of the data that is needed.
        theirs: String,
        /// The name of its own.
        own: Option<String>,
    },
}

/// What one look at the Lease gave.
enum Look {
    Taken(Box<Term>),
    Held,
    /// It is free, and left to others for now.
    Left,
    Elsewhere {
        theirs: String,
        own: Option<String>,
    },
}

/// Who would act.
#[derive(Clone)]
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    seams: Seams,
    pace: Pace,
    troubles: Troubles,
    holdings: Holdings,
    /// Until then it looks, and takes nothing.
    not_before: Option<Instant>,
}

impl fmt::Debug for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Candidate");
        shown.field("name", &self.name).field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// What was seen of a Lease, and since when it has been so.
struct Sight {
    spec: Option<LeaseSpec>,
    since: Instant,
}

impl Sight {
    /// Whether `identity` may take the Lease. Whoever took it and was not told has no need to wait for its end.
    fn is_free(&self, identity: &str, now: Instant) -> bool {
        let Some(spec) = &self.spec else { return true };
        let held = spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty() && holder != identity);
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        !held || now.duration_since(self.since) >= Duration::from_secs(seconds)
    }
}

impl Candidate {
    /// A candidate for the Lease `name` in `namespace`. `identity` must be nobody else's, ever.
    pub fn new(client: Client, namespace: &str, name: &str, identity: String, seams: Seams, pace: Pace) -> Self {
        let (leases, name, troubles) = (Api::namespaced(client, namespace), name.to_owned(), Troubles::default());
        Candidate { leases, name, identity, seams, pace, troubles, holdings: Arc::new(|| None), not_before: None }
    }

    /// Says which data it has: the Lease names those of who acts, and nobody with others takes it.
    #[must_use]
    pub fn holding(self, holdings: Holdings) -> Self {
        Candidate { holdings, ..self }
    }

    /// The same, who leaves the Lease to others until then.
    #[must_use]
    pub fn not_before(&self, when: Instant) -> Self {
        Candidate { not_before: Some(when), ..self.clone() }
    }

    /// Waits until the Lease is ours, or gives up once `stop` is cancelled. Errors are logged and tried again. `others` is
    /// cancelled as soon as somebody else is seen to hold it.
    ///
    /// Must not be dropped while it runs: a Lease that was taken meanwhile would be held by nobody.
    pub async fn acquire(&self, stop: &CancellationToken, others: &CancellationToken) -> Acquired {
        let mut seen: Option<Sight> = None;
        loop {
            match self.try_acquire(&mut seen).await {
                Ok(Look::Taken(term)) => return Acquired::Term(term),
                Ok(Look::Elsewhere { theirs, own }) => return Acquired::Elsewhere { theirs, own },
                Ok(Look::Held) => others.cancel(),
                Ok(Look::Left) => {}
                Err(error) if is_conflict(&error) => debug!(lease = %self.name, "somebody else was faster"),
                Err(error) => tell(&self.troubles, "cannot take the Lease, trying again", &error),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Acquired::Stopped,
                () = sleep_until(self.next_look(Instant::now())) => {}
            }
        }
    }

    /// When to look again: at the latest when the time of leaving it to others is over.
    fn next_look(&self, now: Instant) -> Instant {
        let next = now + self.pace.look_every();
        self.not_before.filter(|when| *when > now).map_or(next, |when| next.min(when))
    }

    async fn try_acquire(&self, seen: &mut Option<Sight>) -> Result<Look, kube::Error> {
        let there = self.pace.within(self.leases.get_opt(&self.name)).await?;
        let began = Moment::now(&self.seams);
        let spec = there.as_ref().and_then(|lease| lease.spec.clone());
        let sight = match seen.take() {
            Some(sight) if sight.spec == spec => sight,
            _ => Sight { spec, since: began.steady },
        };
        let sight = seen.insert(sight);
        let free = sight.is_free(&self.identity, began.steady);
        if let Some(theirs) = there.as_ref().and_then(held_with) {
            let own = (self.holdings)();
            // Who has nothing yet may still be given what the holder has.
            if own.as_ref() != Some(theirs) && (free || own.is_some()) {
                return Ok(Look::Elsewhere { theirs: theirs.clone(), own });
            }
        }
        if !free {
            return Ok(Look::Held);
        }
        if self.not_before.is_some_and(|when| began.steady < when) {
            return Ok(Look::Left);
        }
        let params = params();
        let lease = match there {
            None => self.pace.within(self.leases.create(&params, &self.taken(None))).await?,
            Some(lease) => self.pace.within(self.leases.replace(&self.name, &params, &self.taken(Some(lease)))).await?,
        };
        let validity = Validity(Arc::new(Mutex::new(began.after(self.pace.acting()))));
        Ok(Look::Taken(Box::new(Term { candidate: self.clone(), lease, validity })))
    }

    /// The Lease as ours: a new one, or the one that is there, in the state that was seen.
    fn taken(&self, before: Option<Lease>) -> Lease {
        let now = MicroTime(self.seams.now());
        let new = before.is_none();
        let mut lease = before.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        self.note_holdings(&mut lease);
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let transitions = spec.lease_transitions.unwrap_or(0);
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(self.pace.seconds());
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        spec.lease_transitions = Some(if new { 0 } else { transitions.saturating_add(1) });
        lease
    }
}

impl Candidate {
    /// Has the Lease name our data, once there are some.
    fn note_holdings(&self, lease: &mut Lease) {
        if held_with(lease).is_none()
            && let Some(own) = (self.holdings)()
        {
            lease.metadata.annotations.get_or_insert_default().insert(HOLDINGS.to_owned(), own);
        }
    }
}

/// The data of who acts, by the Lease.
fn held_with(lease: &Lease) -> Option<&String> {
    lease.metadata.annotations.as_ref()?.get(HOLDINGS)
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// A moment by both clocks: the steady one, which stands still while a machine is suspended, and the one on the wall, which
/// somebody may set.
#[derive(Clone, Copy, Debug)]
struct Moment {
    steady: Instant,
    wall: jiff::Timestamp,
}

impl Moment {
    fn now(seams: &Seams) -> Self {
        Moment { steady: Instant::now(), wall: seams.now() }
    }

    fn after(self, time: Duration) -> Self {
        let wall = jiff::SignedDuration::try_from(time).ok().and_then(|time| self.wall.checked_add(time).ok());
        Moment { steady: self.steady + time, wall: wall.unwrap_or(jiff::Timestamp::MAX) }
    }

    /// Whether one of the clocks says so.
    fn is_over(self, seams: &Seams) -> bool {
        let now = Moment::now(seams);
        now.steady >= self.steady || now.wall >= self.wall
    }
}

/// Until when a term holds.
#[derive(Clone, Debug)]
struct Validity(Arc<Mutex<Moment>>);

impl Validity {
    fn until(&self) -> Moment {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, until: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// The time for which the Lease is ours.
#[derive(Debug)]
pub struct Term {
    candidate: Candidate,
    lease: Lease,
    validity: Validity,
}

/// A write that came after the term of whoever sent it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the Lease is held no longer, so that nothing is written any more")]
pub struct TermEnded;

impl Term {
    /// Renews the Lease for as long as that is possible; returns why the term is over.
    pub async fn keep(&mut self) -> String {
        let (pace, seams) = (self.candidate.pace, self.candidate.seams.clone());
        loop {
            let left = self.validity.until().steady.saturating_duration_since(Instant::now());
            sleep(pace.look_every().min(left)).await;
            let (until, began) = (self.validity.until(), Moment::now(&seams));
            if until.is_over(&seams) {
                return format!("it could not be renewed for {:?}", pace.acting());
            }
            match timeout_at(until.steady, self.renew()).await {
                Ok(Ok(None)) => self.validity.set(began.after(pace.acting())),
                Ok(Ok(Some(holder))) => {
                    self.validity.set(began);
                    return format!("{holder} holds it");
                }
                Ok(Err(error)) => {
                    tell(&self.candidate.troubles, "cannot renew the Lease, trying again", &error);
                }
                Err(_) => return format!("it could not be renewed for {:?}", pace.acting()),
            }
        }
    }

    /// Renews once; gives whoever holds the Lease instead.
    async fn renew(&mut self) -> Result<Option<String>, kube::Error> {
        self.candidate.note_holdings(&mut self.lease);
        let Candidate { leases, name, identity, seams, pace, .. } = &self.candidate;
        if let Some(spec) = &mut self.lease.spec {
            spec.renew_time = Some(MicroTime(seams.now()));
        }
        match pace.within(leases.replace(name, &params(), &self.lease)).await {
            Ok(lease) => {
                self.lease = lease;
                Ok(None)
            }
            // Somebody changed it, or an own renewal came through although its reply was lost, or it is gone.
            Err(error) if is_conflict(&error) || super::is_gone(&error) => {
                let there = pace.within(leases.get_opt(name)).await?;
                let holder = there.as_ref().and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
                match (there, holder) {
                    (Some(lease), Some(holder)) if holder == *identity => {
                        self.lease = lease;
                        Err(error)
                    }
                    (_, holder) => Ok(Some(holder.filter(|name| !name.is_empty()).unwrap_or("nobody".to_owned()))),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// A client that writes as long as the term holds. Reads go on.
    pub fn guard(&self, client: Client) -> Client {
        let (namespace, validity) = (client.default_namespace().to_owned(), self.validity.clone());
        let seams = self.candidate.seams.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (client, validity, seams) = (client.clone(), validity.clone(), seams.clone());
            async move {
                if *request.method() != http::Method::GET && validity.until().is_over(&seams) {
                    return Err(kube::Error::Service(Box::new(TermEnded)));
                }
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    /// Gives the Lease back, so that nobody has to wait for its end. Writes end here.
    pub async fn release(self) {
        let Candidate { leases, name, seams, pace, .. } = &self.candidate;
        let until = self.validity.until();
        self.validity.set(Moment::now(seams));
        let mut lease = self.lease;
        let now = MicroTime(seams.now());
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(RELEASED_SECS);
            spec.renew_time = Some(now.clone());
            spec.acquire_time = Some(now);
        }
        // Whoever cannot be told waits until the Lease ends.
        match timeout_at(until.steady, pace.within(leases.replace(name, &params(), &lease))).await {
            Ok(Err(error)) if !is_conflict(&error) => {
                warn!(lease = %name, error = %chain(&error), "cannot give the Lease back");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
