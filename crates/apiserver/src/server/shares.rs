//! Who is served next: each tenant has its share of the server, and each user its share of the tenant's.
//!
//! # Flow
//! A request that has been read and whose sender is known takes a [`Share`] and holds it until it is answered.
//! Where none is free it waits: tenants take turns, and within each of them its users do, so that a tenant with one
//! request waits for a turn, not for all that another has sent before. What follows an answer, the body of a list or
//! the events of a watch, holds no share; watches are counted by themselves.
//!
//! # Guarantees
//! - One tenant never holds all shares: another one finds some free, or waits for the first that is given back.
//! - What waits is bounded for each user and each tenant, and so is how long it waits; beyond that a request is
//!   refused with 429 and comes again.
//!
//! # Caveats
//! Requests of this process itself take no share: controllers bound their own, and must not wait for those whom they
//! serve. Reading bodies comes before, since a client may take its time for it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allotment_store::Tenant;
use tokio::sync::oneshot;

use crate::rounds::Rounds;
use crate::status::ApiError;

/// The bounds that [`Shares`] keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Requests that are served at once. As many wait for the store's writer at most, so this is also how many
    /// writes of others one has to wait for there.
    pub(super) served: usize,
    /// How many of them may be one tenant's.
    pub(super) of_tenant: usize,
    /// How many of one user's requests to a tenant may wait.
    pub(super) waiting_of_user: usize,
    /// How many requests to one tenant may wait.
    pub(super) waiting_of_tenant: usize,
    /// How long a request may wait. A quarter of what clients give a request, as in kube-apiserver.
    pub(super) wait: Duration,
}

impl Default for Bounds {
    /// Enough at once that groups of writes are large, and few enough to be served within a few milliseconds.
    fn default() -> Self {
        Bounds {
            served: 128,
            of_tenant: 96,
            waiting_of_user: 512,
            waiting_of_tenant: 2048,
            wait: Duration::from_secs(15),
        }
    }
}

/// How many watches a tenant may have open, those of this process apart. Each costs a few KiB, and a little time for
/// each event that it tells of.
pub(super) const WATCHES: usize = 4096;

/// All shares of a server.
#[derive(Clone, Default)]
pub(crate) struct Shares(Arc<Shared>);

#[derive(Default)]
struct Shared {
    bounds: Bounds,
    state: Mutex<State>,
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").field("bounds", &self.0.bounds).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// Shares that are held.
    served: usize,
    /// Tenants of which a request is served or waits.
    tenants: BTreeMap<Tenant, Line>,
    /// Tenants of which a request waits, the next one first.
    ring: VecDeque<Tenant>,
}

/// The requests of one tenant.
#[derive(Default)]
struct Line {
    served: usize,
    /// By user.
    waiting: Rounds<Arc<str>, oneshot::Sender<Share>>,
}

impl Line {
    fn is_full(&self, bounds: &Bounds, user: &Arc<str>) -> bool {
        self.waiting.len() >= bounds.waiting_of_tenant || self.waiting.len_of(user) >= bounds.waiting_of_user
    }
}

/// The right to be served, given back when it is dropped.
pub(crate) struct Share {
    shares: Shares,
    tenant: Tenant,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let next = self.shares.lock().give_back(&self.shares.0.bounds, &self.tenant);
        if let Some((tenant, turn)) = next {
            // Who has gone meanwhile gives it back by that.
            let _ = turn.send(self.shares.share(&tenant));
        }
    }
}

/// What becomes of a request that asks for a share.
enum Asked {
    Served(Share),
    Waits(oneshot::Receiver<Share>),
}

impl Shares {
    /// Shares of making long replies, which takes a core each: half of these, so that the other half is there for
    /// everything else.
    pub(super) fn of_long_replies() -> Self {
        let served = std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1);
        Shares::new(Bounds { served, of_tenant: served, ..Bounds::default() })
    }

    fn new(bounds: Bounds) -> Self {
        Shares(Arc::new(Shared { bounds, state: Mutex::default() }))
    }

    /// Waits until it is the turn of `user`'s request to `tenant`.
    ///
    /// # Errors
    /// 429 where too many wait already, or it takes too long.
    pub(crate) async fn take(&self, tenant: &Tenant, user: &str) -> Result<Share, ApiError> {
        match self.ask(tenant, user)? {
            Asked::Served(share) => Ok(share),
            // In a box, so that those who are served at once carry no timer.
            Asked::Waits(turn) => match Box::pin(tokio::time::timeout(self.0.bounds.wait, turn)).await {
                Ok(Ok(share)) => Ok(share),
                Ok(Err(_)) | Err(_) => Err(too_many()),
            },
        }
    }

    fn ask(&self, tenant: &Tenant, user: &str) -> Result<Asked, ApiError> {
        let bounds = &self.0.bounds;
        let mut state = self.lock();
        if state.serves(bounds, tenant) {
            state.serve(tenant);
            return Ok(Asked::Served(self.share(tenant)));
        }
        let user = Arc::from(user);
        let line = state.tenants.entry(tenant.clone()).or_default();
        let first = line.waiting.len() == 0;
        if line.is_full(bounds, &user) {
            // Those who have gone wait no longer.
            line.waiting.retain(|turn| !turn.is_closed());
        }
        if line.is_full(bounds, &user) {
            return Err(too_many());
        }
        let (turn, mine) = oneshot::channel();
        line.waiting.push(&user, turn);
        if first {
            state.ring.push_back(tenant.clone());
        }
        Ok(Asked::Waits(mine))
    }

    fn share(&self, tenant: &Tenant) -> Share {
        Share { shares: self.clone(), tenant: tenant.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a tenant may be served one request more.
    fn serves(&self, bounds: &Bounds, tenant: &Tenant) -> bool {
        self.served < bounds.served && self.tenants.get(tenant).is_none_or(|line| line.served < bounds.of_tenant)
    }

    fn serve(&mut self, tenant: &Tenant) {
        self.served += 1;
        match self.tenants.get_mut(tenant) {
            Some(line) => line.served += 1,
            None => drop(self.tenants.insert(tenant.clone(), Line { served: 1, ..Line::default() })),
        }
    }

    /// Takes a share back, and tells who gets it. Whoever waits besides has all that one tenant may have.
    fn give_back(&mut self, bounds: &Bounds, tenant: &Tenant) -> Option<(Tenant, oneshot::Sender<Share>)> {
        self.served -= 1;
        if let Some(line) = self.tenants.get_mut(tenant) {
            line.served -= 1;
        }
        self.sweep(tenant);
        self.next(bounds)
    }

    fn sweep(&mut self, tenant: &Tenant) {
        if self.tenants.get(tenant).is_some_and(|line| line.served == 0 && line.waiting.len() == 0) {
            self.tenants.remove(tenant);
        }
    }

    /// Whose turn it is, if anybody may be served who waits; it holds a share from now on.
    fn next(&mut self, bounds: &Bounds) -> Option<(Tenant, oneshot::Sender<Share>)> {
        for _ in 0..self.ring.len() {
            let tenant = self.ring.pop_front()?;
            if !self.serves(bounds, &tenant) {
                self.ring.push_back(tenant);
                continue;
            }
            let line = self.tenants.get_mut(&tenant)?;
            // Those who have gone take no turn.
            let turn = std::iter::from_fn(|| line.waiting.pop()).find(|turn| !turn.is_closed());
            if line.waiting.len() > 0 {
                self.ring.push_back(tenant.clone());
            }
            if let Some(turn) = turn {
                self.serve(&tenant);
                return Some((tenant, turn));
            }
            self.sweep(&tenant);
        }
        None
    }
}

fn too_many() -> ApiError {
    ApiError::too_many_requests("too many requests of yours wait here; try again later")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        served: 4,
        of_tenant: 3,
        waiting_of_user: 1000,
        waiting_of_tenant: 1500,
        wait: Duration::from_secs(15),
    };

    /// What holds shares and what waits for them, each with whose it is: `TENANT/USER`.
    struct World {
        shares: Shares,
        served: Vec<(String, Share)>,
        waiting: Vec<(String, oneshot::Receiver<Share>)>,
    }

    impl World {
        fn new(bounds: Bounds) -> Self {
            World { shares: Shares::new(bounds), served: Vec::new(), waiting: Vec::new() }
        }

        fn ask(&mut self, who: &str) -> Result<(), ApiError> {
            let (id, user) = who.split_once('/').expect("TENANT/USER");
            match self.shares.ask(&Tenant::logical(id), user)? {
                Asked::Served(share) => self.served.push((who.to_owned(), share)),
                Asked::Waits(turn) => self.waiting.push((who.to_owned(), turn)),
            }
            Ok(())
        }

        /// The request at `index` of those that are served is answered; whose turn it is then, if anybody's.
        fn answer(&mut self, index: usize) -> Option<String> {
            drop(self.served.remove(index));
            let turn = |(index, (_, turn)): (usize, &mut (String, oneshot::Receiver<Share>))| {
                turn.try_recv().ok().map(|share| (index, share))
            };
            let (index, share) = self.waiting.iter_mut().enumerate().find_map(turn)?;
            let (who, _) = self.waiting.remove(index);
            self.served.push((who.clone(), share));
            Some(who)
        }

        fn served_of(&self, tenant: &str) -> usize {
            self.served.iter().filter(|(who, _)| who.starts_with(tenant)).count()
        }

        fn is_idle(&self) -> bool {
            let state = self.shares.lock();
            state.served == 0 && state.tenants.is_empty() && state.ring.is_empty()
        }
    }

    #[test]
    fn a_tenant_waits_for_turns_and_not_for_all_that_another_one_has_sent() {
        let mut world = World::new(BOUNDS);
        (0..1000).for_each(|_| world.ask("noisy/a").expect("there is room"));
        assert_eq!(world.served.len(), BOUNDS.of_tenant);
        world.ask("quiet/a").expect("there is room");
        assert_eq!(world.served_of("quiet"), 1, "one tenant leaves room for others");
        world.ask("third/a").expect("there is room");
        world.ask("quiet/a").expect("there is room");
        let turns: Vec<_> = (0..4).map_while(|_| world.answer(0)).collect();
        assert_eq!(turns, ["noisy/a", "third/a", "quiet/a", "noisy/a"]);
    }

    #[test]
    fn users_of_a_tenant_take_turns() {
        let mut world = World::new(BOUNDS);
        (0..1000).for_each(|_| world.ask("one/noisy").expect("there is room"));
        (0..2).for_each(|_| world.ask("one/quiet").expect("there is room"));
        let turns: Vec<_> = (0..5).map_while(|_| world.answer(0)).collect();
        assert_eq!(turns, ["one/noisy", "one/quiet", "one/noisy", "one/quiet", "one/noisy"]);
    }

    #[test]
    fn too_many_that_wait_are_refused_and_told_when_to_come_again() {
        let mut world = World::new(Bounds { waiting_of_user: 2, waiting_of_tenant: 3, ..BOUNDS });
        (0..5).for_each(|_| world.ask("one/a").expect("there is room"));
        let refused = world.ask("one/a").expect_err("two of its requests wait");
        assert_eq!((refused.code, refused.details.map(|details| details.retry_after_seconds)), (429, Some(1)));
        world.ask("one/b").expect("another user's may wait");
        assert_eq!(world.ask("one/c").expect_err("three of the tenant's wait").code, 429);
        world.ask("two/a").expect("another tenant's is served");
        assert_eq!(world.served_of("two"), 1);
    }

    #[test]
    fn who_has_gone_takes_nobody_s_place() {
        let mut world = World::new(Bounds { waiting_of_user: 2, waiting_of_tenant: 2, ..BOUNDS });
        (0..5).for_each(|_| world.ask("one/a").expect("there is room"));
        assert_eq!(world.ask("one/b").expect_err("two of the tenant's wait").code, 429);
        world.waiting.clear();
        (0..2).for_each(|_| world.ask("one/b").expect("those who waited have gone"));
        assert_eq!(world.ask("one/b").expect_err("two of it wait").code, 429);
        assert_eq!(world.answer(0).as_deref(), Some("one/b"), "whose turn it is once");
        world.waiting.clear();
        world.served.clear();
        assert!(world.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_too_long_is_refused() {
        let mut world = World::new(BOUNDS);
        (0..BOUNDS.of_tenant).for_each(|_| world.ask("one/a").expect("there is room"));
        let refused = world.shares.take(&Tenant::logical("one"), "a").await.expect_err("nobody is answered");
        assert_eq!(refused.code, 429);
        world.served.clear();
        assert!(world.is_idle());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn nobody_waits_where_there_is_room_and_nothing_is_left_behind(
            steps in proptest::collection::vec((0..4u8, 0..3u8, 0..2u8, any::<prop::sample::Index>()), 0..200)
        ) {
            let mut world = World::new(BOUNDS);
            for (step, tenant, user, index) in steps {
                match step {
                    0 | 1 => world.ask(&format!("{tenant}/{user}")).expect("there is room"),
                    2 if !world.served.is_empty() => drop(world.answer(index.index(world.served.len()))),
                    // Who waits goes away.
                    3 if !world.waiting.is_empty() => drop(world.waiting.remove(index.index(world.waiting.len()))),
                    _ => {}
                }
                prop_assert!(world.served.len() <= BOUNDS.served);
                for tenant in ["0", "1", "2"] {
                    let served = world.served_of(tenant);
                    prop_assert!(served <= BOUNDS.of_tenant);
                    let waits = world.waiting.iter().any(|(who, _)| who.starts_with(tenant));
                    let has_room = served < BOUNDS.of_tenant && world.served.len() < BOUNDS.served;
                    prop_assert!(!(waits && has_room), "one of {tenant} waits");
                }
            }
            world.waiting.clear();
            world.served.clear();
            prop_assert!(world.is_idle());
        }
    }
}
