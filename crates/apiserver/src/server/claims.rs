//! The cluster addresses and node ports of one tenant's Services: each is had once.
//!
//! ## Flow
//! A write of a Service that needs something lists all Services in the store, chooses what none of them has
//! and no running write holds, and holds it until the write has been answered. Listing, choosing and holding
//! happen under one lock; the write itself does not, so that writes still share a sync of the disk.
//!
//! ## Guarantees
//! Nothing is recorded but the Services themselves, so nothing can disagree with them: a crash at any point
//! leaves each address with the Service that was written, and a Service that is deleted gives its addresses
//! back in the same write. Two writes in one process never hold the same claim, and a write that was answered is
//! in every later list.
//!
//! ## Assumptions
//! One process writes the Services of a tenant, as one process has the store open. Several would each choose
//! from the same list; see the decision on addresses of Services.
//!
//! ## Caveats
//! A write whose reply was lost may still come to be. What it holds is kept, at most [`MAX_DOUBTFUL`] claims.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use allotment_machinery::json::{self, Map, Value};
use allotment_store::{ListQuery, Resource, Revision, Scope};

use super::{Context, TenantState};
use crate::builtin::{self, Claim, Refusal, Stock};
use crate::status::ApiError;

/// How many claims of writes with an unknown outcome are kept. A range has ten times as many.
const MAX_DOUBTFUL: usize = 256;

/// What is had, and what running writes hold.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    index: tokio::sync::Mutex<Index>,
    held: Mutex<Holding>,
}

type Name = (Arc<str>, Arc<str>);

/// What the Services of the last list have; it only spares reading those again that have not changed.
#[derive(Debug, Default)]
struct Index {
    services: BTreeMap<Name, (Revision, BTreeSet<Claim>)>,
    owners: BTreeMap<Claim, BTreeSet<Name>>,
}

#[derive(Debug, Default)]
struct Holding {
    held: BTreeSet<Claim>,
    doubtful: VecDeque<Claim>,
}

/// What a running write holds; given back when dropped.
#[derive(Debug)]
#[must_use = "what is held is given back at once otherwise"]
pub(crate) struct Held {
    tenant: Arc<TenantState>,
    claims: Vec<Claim>,
}

impl Held {
    /// Keeps what is held, since nobody knows whether the write came to be.
    pub(crate) fn keep(mut self) {
        let mut holding = self.tenant.claims.holding();
        for claim in self.claims.drain(..) {
            holding.doubtful.push_back(claim);
            if holding.doubtful.len() > MAX_DOUBTFUL
                && let Some(oldest) = holding.doubtful.pop_front()
            {
                holding.held.remove(&oldest);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut holding = self.tenant.claims.holding();
        for claim in &self.claims {
            holding.held.remove(claim);
        }
    }
}

impl Index {
    fn forget(&mut self, name: &Name) {
        for claim in self.services.remove(name).map(|(_, claims)| claims).unwrap_or_default() {
            if let Some(owners) = self.owners.get_mut(&claim) {
                owners.remove(name);
                if owners.is_empty() {
                    self.owners.remove(&claim);
                }
            }
        }
    }

    async fn refresh(&mut self, cx: &Context) -> Result<(), ApiError> {
        let resource = Resource::new("services", "");
        let scope = Scope { tenant: cx.tenant.tenant.clone(), resource, namespace: None };
        let query = ListQuery { scope, at: None, after: None, limit: 0 };
        let page = cx.server.store().list(query).await.map_err(|error| crate::endpoints::api_error(&error))?;
        let mut gone: BTreeSet<Name> = self.services.keys().cloned().collect();
        for entry in page.entries {
            let name = (Arc::clone(&entry.namespace), Arc::clone(&entry.name));
            gone.remove(&name);
            if self.services.get(&name).is_some_and(|(revision, _)| *revision == entry.revision) {
                continue;
            }
            self.forget(&name);
            let Ok(Value::Object(service)) = json::parse(&entry.body()) else { continue };
            let claims = builtin::claims(&service);
            for claim in &claims {
                self.owners.entry(*claim).or_default().insert(name.clone());
            }
            self.services.insert(name, (entry.revision, claims));
        }
        gone.iter().for_each(|name| self.forget(name));
        Ok(())
    }
}

impl Claims {
    fn holding(&self) -> std::sync::MutexGuard<'_, Holding> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a Service what it needs and holds it; `name` is that of the Service, `old` its state before.
    pub(crate) async fn allocate(
        cx: &Context,
        (namespace, name): (&str, &str),
        old: Option<&Map>,
        service: &mut Map,
    ) -> Result<Held, Outcome> {
        let tenant = Arc::clone(&cx.tenant);
        let mut index = tenant.claims.index.lock().await;
        index.refresh(cx).await.map_err(Outcome::Failed)?;
        let own: Name = (Arc::from(namespace), Arc::from(name));
        let mut holding = tenant.claims.holding();
        let is_taken = |claim: Claim| {
            let others = index.owners.get(&claim).is_some_and(|owners| owners.iter().any(|owner| *owner != own));
            others || holding.held.contains(&claim)
        };
        let below = |most: u32| {
            let mut bytes = [0; 4];
            cx.server.entropy().fill(&mut bytes);
            u32::from_be_bytes(bytes) % most.max(1)
        };
        let before = old.map(builtin::claims).unwrap_or_default();
        builtin::allocate(old, service, &Stock { is_taken: &is_taken, below: &below }).map_err(Outcome::Refused)?;
        let claims: Vec<Claim> = builtin::claims(service).difference(&before).copied().collect();
        holding.held.extend(claims.iter().copied());
        drop(holding);
        drop(index);
        Ok(Held { tenant, claims })
    }
}

/// Why nothing was given.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The Service asks for what it cannot have.
    Refused(Refusal),
    /// The store did not answer.
    Failed(ApiError),
}
