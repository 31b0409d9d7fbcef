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
//!   process that was stopped for a while and goes on where it was.
//!
//! # Caveats
//! A write that was sent before may arrive after the next term began. Every write of the controllers says which
//! state it was decided on, so it changes nothing that has changed since.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, warn};

use super::{Seams, chain, is_conflict};

const MANAGER: &str = "allot-controllers";
/// How long somebody else waits at most who finds the Lease released.
const RELEASED_SECS: i32 = 1;

/// How long a Lease holds; all else follows from it, in the proportions of client-go.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    duration: Duration,
}

impl Pace {
    /// A pace by which a process that died is replaced after `duration` and a few seconds; whole seconds.
    pub fn new(duration: Duration) -> Self {
        Pace { duration }
    }

    /// How long a holder acts after its last renewal: 10 of 15 seconds.
    fn acting(self) -> Duration {
        self.duration * 2 / 3
    }

    /// How often the Lease is looked at, or renewed: every 2 of 15 seconds.
    fn look_every(self) -> Duration {
        self.duration * 2 / 15
    }

    fn seconds(self) -> i32 {
        i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)
    }
}

/// Who would act.
#[derive(Clone)]
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    seams: Seams,
    pace: Pace,
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
    /// Whether the Lease may be taken by somebody who is not its holder.
    fn is_free(&self, now: Instant) -> bool {
        let Some(spec) = &self.spec else { return true };
        let held = spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        !held || now.duration_since(self.since) >= Duration::from_secs(seconds)
    }
}

impl Candidate {
    /// A candidate for the Lease `name` in `namespace`. `identity` must be nobody else's, ever.
    pub fn new(client: Client, namespace: &str, name: &str, identity: String, seams: Seams, pace: Pace) -> Self {
        Candidate { leases: Api::namespaced(client, namespace), name: name.to_owned(), identity, seams, pace }
    }

    /// Waits until the Lease is ours. Errors are logged and tried again.
    pub async fn acquire(&self) -> Term {
        let mut seen: Option<Sight> = None;
        loop {
            let began = Instant::now();
            match self.try_acquire(&mut seen).await {
                Ok(Some(lease)) => return self.term(lease, began),
                Ok(None) => {}
                Err(error) if is_conflict(&error) => debug!(lease = %self.name, "somebody else was faster"),
                Err(error) => warn!(lease = %self.name, error = %chain(&error), "cannot take the Lease, trying again"),
            }
            sleep(self.pace.look_every()).await;
        }
    }

    async fn try_acquire(&self, seen: &mut Option<Sight>) -> Result<Option<Lease>, kube::Error> {
        let there = self.leases.get_opt(&self.name).await?;
        let now = Instant::now();
        let spec = there.as_ref().and_then(|lease| lease.spec.clone());
        let sight = match seen.take() {
            Some(sight) if sight.spec == spec => sight,
            _ => Sight { spec, since: now },
        };
        let sight = seen.insert(sight);
        if !sight.is_free(now) {
            return Ok(None);
        }
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match there {
            None => self.leases.create(&params, &self.taken(None)).await.map(Some),
            Some(lease) => self.leases.replace(&self.name, &params, &self.taken(Some(lease))).await.map(Some),
        }
    }

    /// The Lease as ours: a new one, or the one that is there, in the state that was seen.
    fn taken(&self, before: Option<Lease>) -> Lease {
        let now = MicroTime(self.seams.now());
        let new = before.is_none();
        let mut lease = before.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let transitions = spec.lease_transitions.unwrap_or(0);
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(self.pace.seconds());
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        spec.lease_transitions = Some(if new { 0 } else { transitions.saturating_add(1) });
        lease
    }

    fn term(&self, lease: Lease, began: Instant) -> Term {
        let validity = Validity(Arc::new(Mutex::new(began + self.pace.acting())));
        Term { candidate: self.clone(), lease, validity }
    }
}

/// Until when a term holds.
#[derive(Clone, Debug)]
struct Validity(Arc<Mutex<Instant>>);

impl Validity {
    fn until(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, until: Instant) {
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
        let pace = self.candidate.pace;
        loop {
            sleep(pace.look_every().min(self.validity.until().duration_since(Instant::now()))).await;
            let (until, began) = (self.validity.until(), Instant::now());
            if began >= until {
                return format!("it could not be renewed for {:?}", pace.acting());
            }
            match timeout_at(until, self.renew()).await {
                Ok(Ok(None)) => self.validity.set(began + pace.acting()),
                Ok(Ok(Some(holder))) => {
                    self.validity.set(began);
                    return format!("{holder} holds it");
                }
                Ok(Err(error)) => {
                    warn!(lease = %self.candidate.name, error = %chain(&error), "cannot renew the Lease, trying again");
                }
                Err(_) => return format!("it could not be renewed for {:?}", pace.acting()),
            }
        }
    }

    /// Renews once; gives whoever holds the Lease instead.
    async fn renew(&mut self) -> Result<Option<String>, kube::Error> {
        let Candidate { leases, name, identity, seams, .. } = &self.candidate;
        if let Some(spec) = &mut self.lease.spec {
            spec.renew_time = Some(MicroTime(seams.now()));
        }
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match leases.replace(name, &params, &self.lease).await {
            Ok(lease) => {
                self.lease = lease;
                Ok(None)
            }
            // Somebody changed it, or an own renewal came through although its reply was lost, or it is gone.
            Err(error) if is_conflict(&error) || super::is_gone(&error) => {
                let there = leases.get_opt(name).await?;
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
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (client, validity) = (client.clone(), validity.clone());
            async move {
                if *request.method() != http::Method::GET && Instant::now() >= validity.until() {
                    return Err(kube::Error::Service(Box::new(TermEnded)));
                }
                client.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    /// Gives the Lease back, so that nobody has to wait for its end. Writes end here.
    pub async fn release(self) {
        let Candidate { leases, name, seams, .. } = &self.candidate;
        let until = self.validity.until();
        self.validity.set(Instant::now());
        let mut lease = self.lease;
        let now = MicroTime(seams.now());
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(RELEASED_SECS);
            spec.renew_time = Some(now.clone());
            spec.acquire_time = Some(now);
        }
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        // Whoever cannot be told waits until the Lease ends.
        match timeout_at(until, leases.replace(name, &params, &lease)).await {
            Ok(Err(error)) if !is_conflict(&error) => {
                warn!(lease = %name, error = %chain(&error), "cannot give the Lease back");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(holder: Option<&str>, seconds: i32, since: Instant) -> Sight {
        let spec = LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(seconds),
            ..LeaseSpec::default()
        };
        Sight { spec: Some(spec), since }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_free_once_it_is_released_or_has_not_changed_for_its_time() {
        let since = Instant::now();
        let check = |sight: Sight, after: u64, expect: bool| {
            assert_eq!(sight.is_free(since + Duration::from_secs(after)), expect, "after {after} s");
        };
        check(sight(Some("a"), 15, since), 0, false);
        check(sight(Some("a"), 15, since), 14, false);
        check(sight(Some("a"), 15, since), 15, true);
        check(sight(Some(""), 15, since), 0, true);
        check(sight(None, 15, since), 0, true);
        check(Sight { spec: None, since }, 0, true);
    }

    #[test]
    fn a_holder_stops_before_others_may_begin() {
        for seconds in [3, 15, 60] {
            let pace = Pace::new(Duration::from_secs(seconds));
            assert!(pace.acting() + pace.look_every() < pace.duration, "{pace:?}");
        }
    }
}
