//! Random operations against a model that keeps every state there ever was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::suite::restless;
use crate::body::PACK_FROM;
use crate::conformance::{body, nothing, template};
use crate::embedded::simulated::Disk;
use crate::{
    Embedded, Entry, Event, EventKind, Expect, HistoryLimits, Key, ListQuery, Memory, Resource, Revision, Scope, Store,
    StoreError, Template, Tenant, Watch, WatchScope, Write,
};

const TENANTS: [&str; 3] = ["t", "tt", "u"];
const RESOURCES: [&str; 2] = ["configmaps", "namespaces"];
const NAMESPACES: [&str; 3] = ["", "a", "ab"];
const NAMES: [&str; 4] = ["one", "two", "x", "xy"];

/// One step. Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Put { place: Place, right: bool, size: usize },
    Delete { place: Place, right: bool },
    Instantiate { tenant: usize, filled: bool },
    Drop { tenant: usize },
    List { scope: ScopeChoice, back: Option<u64>, limit: usize },
    Watch { scope: ScopeChoice, back: u64 },
    Compact { back: u64 },
    Restart,
}

type Place = (usize, usize, usize, usize);

/// Tenant, resource, namespace; each may be left out from the right.
type ScopeChoice = (Option<usize>, usize, Option<usize>);

fn place() -> impl Strategy<Value = Place> {
    (0..TENANTS.len(), 0..RESOURCES.len(), 0..NAMESPACES.len(), 0..NAMES.len())
}

fn scope() -> impl Strategy<Value = ScopeChoice> {
    (proptest::option::of(0..TENANTS.len()), 0..=RESOURCES.len(), proptest::option::of(0..NAMESPACES.len()))
}

/// Mostly small, some packed, few around where that begins. They fit in the least history that is kept, of which the
/// model knows no bounds in bytes.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![16 => 0..200usize, 3 => PACK_FROM..4 * PACK_FROM, 1 => PACK_FROM - 200..PACK_FROM]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (place(), proptest::bool::weighted(0.85), size())
            .prop_map(|(place, right, size)| Step::Put { place, right, size }),
        6 => (place(), proptest::bool::weighted(0.85)).prop_map(|(place, right)| Step::Delete { place, right }),
        4 => (0..TENANTS.len(), any::<bool>()).prop_map(|(tenant, filled)| Step::Instantiate { tenant, filled }),
        1 => (0..TENANTS.len()).prop_map(|tenant| Step::Drop { tenant }),
        6 => (scope(), proptest::option::of(0..40u64), 0..4usize)
            .prop_map(|(scope, back, limit)| Step::List { scope, back, limit }),
        5 => (scope(), 0..40u64).prop_map(|(scope, back)| Step::Watch { scope, back }),
        1 => (10..40u64).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Restart),
    ]
}

/// (tenant, resource, namespace, name).
type Name = (String, String, String, String);

/// The revision an object bears, and its data.
type Seen = (u64, String);

/// One event, as a watch should show it.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    revision: u64,
    kind: EventKind,
    name: Name,
    seen: Seen,
    previous: Option<Seen>,
}

#[derive(Default)]
struct Model {
    /// The state after each revision, from 0 on.
    states: Vec<BTreeMap<Name, Seen>>,
    events: Vec<Told>,
    /// Whose key spaces are there.
    tenants: BTreeSet<String>,
    dropped: BTreeMap<String, u64>,
    compacted: u64,
    /// The revision that the template's objects bear.
    template: Option<u64>,
    limits: HistoryLimits,
}

impl Model {
    fn new(limits: HistoryLimits) -> Self {
        Model { states: vec![BTreeMap::new()], limits, ..Model::default() }
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn now(&self) -> &BTreeMap<Name, Seen> {
        &self.states[self.states.len() - 1]
    }

    /// Makes the next state by these changes.
    fn change(&mut self, changes: Vec<(Name, Option<Seen>, Seen)>) {
        let mut state = self.now().clone();
        let revision = self.states.len() as u64;
        for (name, new, seen) in changes {
            let previous = match &new {
                Some(new) => state.insert(name.clone(), new.clone()),
                None => state.remove(&name),
            };
            let kind = match (&previous, &new) {
                (None, _) => EventKind::Added,
                (Some(_), Some(_)) => EventKind::Modified,
                (Some(_), None) => EventKind::Deleted,
            };
            self.events.push(Told { revision, kind, name, seen, previous });
        }
        self.states.push(state);
    }

    fn drop_tenant(&mut self, tenant: &str) {
        let mut state = self.now().clone();
        state.retain(|name, _| name.0 != tenant);
        self.states.push(state);
        self.events.retain(|event| event.name.0 != tenant);
        self.tenants.remove(tenant);
        self.dropped.insert(tenant.to_owned(), self.revision());
    }

    /// The least revision of which `scope` can be asked.
    fn oldest(&self, scope: &WatchScope) -> u64 {
        let tenant = match scope {
            WatchScope::All => None,
            WatchScope::Tenant(tenant) => Some(tenant),
            WatchScope::Scope(scope) => Some(&scope.tenant),
        };
        let dropped = tenant.and_then(|tenant| self.dropped.get(tenant.as_str())).copied().unwrap_or(0);
        dropped.max(self.compacted).max(self.revision().saturating_sub(self.limits.events as u64))
    }
}

fn key((tenant, resource, namespace, name): Place) -> Key {
    Key {
        tenant: Tenant::logical(TENANTS[tenant]),
        resource: Resource::new(RESOURCES[resource], ""),
        namespace: NAMESPACES[namespace].into(),
        name: NAMES[name].into(),
    }
}

fn name(tenant: &Tenant, entry: &Entry) -> Name {
    (tenant.as_str().into(), entry.resource.as_str().into(), entry.namespace.to_string(), entry.name.to_string())
}

fn seen(entry: &Entry) -> Seen {
    let text = String::from_utf8_lossy(&entry.body()).into_owned();
    let revision = format!("\"resourceVersion\":\"{}\",\"uid\"", entry.revision);
    assert!(text.contains(&revision), "{text} does not bear {revision}");
    (entry.revision.0, text.rsplit('"').nth(1).unwrap_or_default().to_owned())
}

fn told(event: &Event) -> Told {
    let previous = event.previous.as_ref().map(|entry| seen(entry));
    let name = name(&event.tenant, &event.entry);
    Told { revision: event.revision.0, kind: event.kind, name, seen: seen(&event.entry), previous }
}

fn watch_scope((tenant, resource, namespace): ScopeChoice) -> WatchScope {
    match tenant {
        None => WatchScope::All,
        Some(tenant) if resource == RESOURCES.len() => WatchScope::Tenant(Tenant::logical(TENANTS[tenant])),
        Some(tenant) => WatchScope::Scope(Scope {
            tenant: Tenant::logical(TENANTS[tenant]),
            resource: Resource::new(RESOURCES[resource], ""),
            namespace: namespace.map(|namespace| NAMESPACES[namespace].into()),
        }),
    }
}

fn within(scope: &WatchScope, name: &Name) -> bool {
    match scope {
        WatchScope::All => true,
        WatchScope::Tenant(tenant) => name.0 == tenant.as_str(),
        WatchScope::Scope(scope) => {
            name.0 == scope.tenant.as_str()
                && name.1 == scope.resource.as_str()
                && scope.namespace.as_ref().is_none_or(|namespace| name.2 == **namespace)
        }
    }
}

/// The engines, as far as the model has to tell them apart.
enum Engine {
    Memory(Memory),
    Embedded(Arc<Disk>, Embedded),
}

impl Engine {
    async fn embedded(limits: HistoryLimits) -> Self {
        let disk = Arc::new(Disk::default());
        let store = Self::open(&disk, limits).await;
        Engine::Embedded(disk, store)
    }

    async fn open(disk: &Arc<Disk>, limits: HistoryLimits) -> Embedded {
        Embedded::open_on(disk.clone(), restless(limits)).await.expect("opens")
    }

    fn store(&self) -> &dyn Store {
        match self {
            Engine::Memory(store) => store,
            Engine::Embedded(_, store) => store,
        }
    }

    async fn restart(&mut self, limits: HistoryLimits) -> bool {
        let Engine::Embedded(disk, store) = self else { return false };
        store.close().await;
        *store = Self::open(disk, limits).await;
        true
    }

    fn compact(&self, revision: Revision) {
        match self {
            Engine::Memory(store) => store.compact(revision),
            Engine::Embedded(_, store) => store.compact(revision),
        }
    }
}

/// An engine beside its model.
struct Pair {
    engine: Engine,
    model: Model,
    /// Watches that go on while everything changes.
    watches: Vec<(WatchScope, u64, Box<dyn Watch>)>,
}

impl Pair {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Put { place, right, size } => self.put(key(place), right, size).await,
            Step::Delete { place, right } => self.delete(key(place), right).await,
            Step::Instantiate { tenant, filled } => {
                let template = if filled { template() } else { nothing() };
                self.instantiate(Tenant::logical(TENANTS[tenant]), template).await;
            }
            Step::Drop { tenant } => self.drop_tenant(Tenant::logical(TENANTS[tenant])).await,
            Step::List { scope, back, limit } => self.list(watch_scope(scope), back, limit).await,
            Step::Watch { scope, back } => self.watch(watch_scope(scope), back).await,
            Step::Compact { back } => {
                // Only what is dropped from memory: a snapshot or the log may still have it.
                if matches!(self.engine, Engine::Memory(_)) {
                    let to = self.model.revision().saturating_sub(back);
                    self.engine.compact(Revision(to));
                    self.model.compacted = self.model.compacted.max(to);
                }
            }
            Step::Restart => {
                self.check_watches().await;
                if self.engine.restart(self.model.limits).await {
                    self.watches.clear();
                }
            }
        }
        assert_eq!(self.engine.store().revision().await.expect("answers").0, self.model.revision());
        let tenants = self.engine.store().tenants().await.expect("answers");
        assert!(tenants.iter().map(Tenant::as_str).eq(&self.model.tenants), "{tenants:?}");
    }

    async fn put(&mut self, key: Key, right: bool, size: usize) {
        let place =
            (key.tenant.as_str().into(), key.resource.as_str().into(), key.namespace.to_string(), key.name.to_string());
        let current = self.model.now().get(&place).cloned();
        let expect = match (&current, right) {
            (Some((revision, _)), true) => Expect::Revision(Revision(*revision)),
            (None, true) | (Some(_), false) => Expect::Absent,
            (None, false) => Expect::Revision(Revision(1)),
        };
        let data = "x".repeat(size);
        let there = self.model.tenants.contains(key.tenant.as_str());
        let result = self.engine.store().commit(Write::Put { key, expect, body: body(&data) }).await;
        if !there {
            assert!(matches!(result, Err(StoreError::NoTenant { .. })), "expected no tenant, got {result:?}");
        } else if right {
            let new = (self.model.revision() + 1, data);
            assert_eq!(result.expect("fits").entry.map(|entry| seen(&entry)), Some(new.clone()));
            self.model.change(vec![(place, Some(new.clone()), new)]);
        } else {
            let Err(StoreError::Conflict { current: found }) = result else {
                panic!("expected a conflict, got {result:?}")
            };
            assert_eq!(found.map(|entry| seen(&entry)), current);
        }
    }

    async fn delete(&mut self, key: Key, right: bool) {
        let place =
            (key.tenant.as_str().into(), key.resource.as_str().into(), key.namespace.to_string(), key.name.to_string());
        let current = self.model.now().get(&place).cloned();
        let expect = Revision(current.as_ref().map_or(1, |(revision, _)| *revision) + u64::from(!right));
        let there = self.model.tenants.contains(key.tenant.as_str());
        let result = self.engine.store().commit(Write::Delete { key, expect, last: None }).await;
        match (result, current) {
            (Err(StoreError::NoTenant { .. }), None) => assert!(!there),
            (Ok(outcome), Some((_, data))) if right => {
                let last = (self.model.revision() + 1, data);
                assert_eq!(outcome.entry.map(|entry| seen(&entry)), Some(last.clone()));
                self.model.change(vec![(place, None, last)]);
            }
            (Err(StoreError::Conflict { current: found }), current) => {
                assert!(!right || current.is_none());
                assert_eq!(found.map(|entry| seen(&entry)), current);
            }
            (other, current) => panic!("{other:?}, but there is {current:?}"),
        }
    }

    async fn instantiate(&mut self, tenant: Tenant, template: Arc<Template>) {
        let write = Write::Instantiate { tenant: tenant.clone(), template: template.clone() };
        let outcome = self.engine.store().commit(write).await.expect("instantiates");
        if self.model.tenants.insert(tenant.as_str().to_owned()) {
            let next = self.model.states.len() as u64;
            let revision = if template.entries.is_empty() { 0 } else { *self.model.template.get_or_insert(next) };
            let mut objects = template
                .entries
                .iter()
                .map(|entry| {
                    let name = (
                        tenant.as_str().into(),
                        entry.resource.as_str().into(),
                        entry.namespace.to_string(),
                        entry.name.to_string(),
                    );
                    (name, (revision, entry.name.to_string()))
                })
                .collect::<Vec<(Name, Seen)>>();
            objects.sort();
            self.model.change(objects.into_iter().map(|(name, seen)| (name, Some(seen.clone()), seen)).collect());
        }
        assert_eq!(outcome.revision.0, self.model.revision());
    }

    async fn drop_tenant(&mut self, tenant: Tenant) {
        // Watches of everyone leave out what they have not read by now.
        self.check_watches().await;
        let outcome = self.engine.store().commit(Write::DropTenant { tenant: tenant.clone() }).await.expect("drops");
        if self.model.tenants.contains(tenant.as_str()) {
            self.model.drop_tenant(tenant.as_str());
        }
        assert_eq!(outcome.revision.0, self.model.revision());
    }

    async fn list(&self, scope: WatchScope, back: Option<u64>, limit: usize) {
        let WatchScope::Scope(place) = scope.clone() else { return };
        let at = back.map(|back| self.model.revision().saturating_sub(back));
        let mut query = ListQuery { scope: place, at: at.map(Revision), after: None, limit };
        let state = &self.model.states[at.unwrap_or(self.model.revision()) as usize];
        let expect: Vec<_> = state.iter().filter(|(name, _)| within(&scope, name)).collect();
        let mut found = Vec::new();
        loop {
            let page = match self.engine.store().list(query.clone()).await {
                Ok(page) => page,
                Err(StoreError::Compacted { .. }) if at.is_some_and(|at| at < self.model.oldest(&scope)) => return,
                Err(error) => panic!("{query:?}: {error}"),
            };
            found.extend(page.entries.iter().map(|entry| (name(&query.scope.tenant, entry), seen(entry))));
            assert_eq!(page.remaining, expect.len() - found.len(), "{query:?}");
            assert!(limit == 0 || page.entries.len() <= limit);
            let Some(last) = page.entries.last().filter(|_| page.remaining > 0) else { break };
            query.after = Some((last.namespace.clone(), last.name.clone()));
            query.at = Some(page.revision);
        }
        assert_eq!(found.iter().map(|(name, seen)| (name, seen)).collect::<Vec<_>>(), expect, "{query:?}");
    }

    async fn watch(&mut self, scope: WatchScope, back: u64) {
        let from = self.model.revision().saturating_sub(back);
        match self.engine.store().watch(scope.clone(), Revision(from)).await {
            Ok(watch) => self.watches.push((scope, from, watch)),
            Err(StoreError::Compacted { .. }) => {
                assert!(from < self.model.oldest(&scope), "{scope:?} after {from} is not so old");
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Every watch shows what it should since it was last looked at, and nothing more.
    async fn check_watches(&mut self) {
        let model = &self.model;
        let mut kept = Vec::new();
        for (scope, from, mut watch) in self.watches.drain(..) {
            let wanted = |event: &&Told| event.revision > from && within(&scope, &event.name);
            let mut expect = model.events.iter().filter(wanted);
            let ended = loop {
                match tokio::time::timeout(Duration::ZERO, watch.next()).await {
                    Ok(Ok(event)) => assert_eq!(Some(&told(&event)), expect.next(), "{scope:?} after {from}"),
                    Ok(Err(StoreError::Compacted { .. })) => break true,
                    Ok(Err(error)) => panic!("{error}"),
                    Err(_) => break false,
                }
            };
            if ended {
                assert!(from < model.oldest(&scope), "{scope:?} after {from} ended, but nothing is missing");
                continue;
            }
            assert_eq!(expect.next(), None, "{scope:?} after {from} misses something");
            assert_eq!(watch.progress().0, model.revision());
            kept.push((scope, model.revision(), watch));
        }
        self.watches = kept;
    }
}

async fn compare(engine: Engine, limits: HistoryLimits, steps: Vec<Step>) {
    let mut pair = Pair { engine, model: Model::new(limits), watches: Vec::new() };
    for (count, step) in steps.into_iter().enumerate() {
        pair.step(step).await;
        if count % 7 == 0 {
            pair.check_watches().await;
        }
    }
    pair.check_watches().await;
}

fn run(engine: impl Future<Output = Engine>, limits: HistoryLimits, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("builds");
    runtime.block_on(async { compare(engine.await, limits, steps).await });
}

fn limits() -> impl Strategy<Value = HistoryLimits> {
    let few = HistoryLimits { events: 12, ..HistoryLimits::default() };
    prop_oneof![3 => Just(HistoryLimits::default()), 1 => Just(few)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..160)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn memory_is_like_its_model(limits in limits(), steps in steps()) {
        run(async { Engine::Memory(Memory::new(0, limits)) }, limits, steps);
    }

    #[test]
    fn embedded_is_like_its_model_also_after_restarts(limits in limits(), steps in steps()) {
        run(Engine::embedded(limits), limits, steps);
    }
}
