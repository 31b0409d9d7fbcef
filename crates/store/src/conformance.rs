//! What every engine has to do, as one suite that each runs. It speaks to the trait alone.

mod large;

use std::sync::Arc;
use std::time::Duration;

use allotment_machinery::json;
use allotment_machinery::object::Encoded;

use crate::{
    Event, EventKind, Expect, HistoryLimits, Key, ListQuery, Outcome, Page, Resource, Revision, Scope, Store,
    StoreError, Template, TemplateEntry, Tenant, Watch, WatchScope, Write,
};

pub use large::noise;
use large::{large_bodies, stored};

/// How long an event that must come may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A small object that says `data`.
pub fn body(data: &str) -> Encoded {
    let object = json!({"metadata": {"annotations": {"resourceVersion": "1", "z": "1"}, "uid": "u"}, "data": data});
    object.as_object().and_then(Encoded::of).expect("it has a uid")
}

/// The key of a ConfigMap.
pub fn key(tenant: &str, namespace: &str, name: &str) -> Key {
    Key { tenant: Tenant::logical(tenant), resource: configmaps(), namespace: namespace.into(), name: name.into() }
}

fn configmaps() -> Resource {
    Resource::new("configmaps", "")
}

fn scope(tenant: &str, namespace: Option<&str>) -> Scope {
    Scope { tenant: Tenant::logical(tenant), resource: configmaps(), namespace: namespace.map(Arc::from) }
}

fn put(key: Key, expect: Expect, data: &str) -> Write {
    Write::Put { key, expect, body: body(data) }
}

async fn create(store: &dyn Store, key: Key, data: &str) -> Revision {
    store.commit(put(key, Expect::Absent, data)).await.expect("creates").revision
}

async fn delete(store: &dyn Store, key: Key, expect: Revision) -> Outcome {
    store.commit(Write::Delete { key, expect, last: None }).await.expect("deletes")
}

fn everything(scope: Scope) -> ListQuery {
    ListQuery { scope, at: None, after: None, limit: 0 }
}

fn names(page: &Page) -> Vec<String> {
    page.entries.iter().map(|entry| format!("{}/{}", entry.namespace, entry.name)).collect()
}

async fn next(watch: &mut Box<dyn Watch>) -> Result<Arc<Event>, StoreError> {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("an event comes in time")
}

fn shown(event: &Event) -> String {
    format!("{:?} {} {}", event.kind, event.revision, event.entry.name)
}

#[track_caller]
fn assert_compacted<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Compacted { .. })), "expected Compacted, got {result:?}");
}

/// A template without objects.
pub fn nothing() -> Arc<Template> {
    Arc::new(Template { id: "nothing".into(), entries: Vec::new() })
}

/// Begins the empty key space of a tenant.
pub async fn begin(store: &dyn Store, tenant: &str) -> Revision {
    let write = Write::Instantiate { tenant: Tenant::logical(tenant), template: nothing() };
    store.commit(write).await.expect("begins").revision
}

#[track_caller]
fn assert_no_tenant(result: Result<Outcome, StoreError>, wanted: &str) {
    assert!(
        matches!(&result, Err(StoreError::NoTenant { tenant }) if tenant.as_str() == wanted),
        "expected that there is no tenant {wanted}, got {result:?}"
    );
}

/// A template of three objects in two collections.
pub fn template() -> Arc<Template> {
    let entry = |plural: &str, namespace: &str, name: &str| TemplateEntry {
        resource: Resource::new(plural, ""),
        namespace: namespace.into(),
        name: name.into(),
        body: body(name),
    };
    let entries =
        vec![entry("namespaces", "", "default"), entry("configmaps", "b", "two"), entry("configmaps", "a", "one")];
    Arc::new(Template { id: "three".into(), entries })
}

/// Runs all of it, each case on a store of its own that `make` gives.
pub async fn run<S: Store>(make: impl AsyncFn(HistoryLimits) -> S) {
    let limits = HistoryLimits::default();
    compare_and_swap(&make(limits).await).await;
    bodies(&make(limits).await).await;
    large_bodies(&make(limits).await).await;
    lists(&make(limits).await).await;
    pages_in_the_past(&make(limits).await).await;
    watches(&make(limits).await).await;
    watches_of_the_future(&make(limits).await).await;
    dropped_futures(&make(limits).await).await;
    templates(&make(limits).await).await;
    key_spaces(&make(limits).await).await;
    late_writes(make(limits).await).await;
    dropped_tenants(&make(limits).await).await;
    counters(make(limits).await).await;
    bounded_history(&make(HistoryLimits { events: 10, bytes: 1 << 20 }).await).await;
    bounded_bytes(&make(HistoryLimits { events: 1000, bytes: 4096 }).await).await;
    history_follows_the_state(&make(HistoryLimits { events: 1000, bytes: 64 << 20 }).await).await;
}

async fn compare_and_swap(store: &dyn Store) {
    begin(store, "t").await;
    let one = key("t", "a", "one");
    let first = create(store, one.clone(), "1").await;
    let again = store.commit(put(one.clone(), Expect::Absent, "2")).await;
    assert!(matches!(again, Err(StoreError::Conflict { current: Some(current) }) if current.revision == first));
    let absent = store.commit(put(key("t", "a", "two"), Expect::Revision(first), "2")).await;
    assert!(matches!(absent, Err(StoreError::Conflict { current: None })));
    let second = store.commit(put(one.clone(), Expect::Revision(first), "2")).await.expect("updates").revision;
    assert_eq!(second.0, first.0 + 1, "failed writes take no revision");
    let stale = store.commit(put(one.clone(), Expect::Revision(first), "3")).await;
    assert!(matches!(stale, Err(StoreError::Conflict { current: Some(current) }) if current.revision == second));
    let stale = store.commit(Write::Delete { key: one.clone(), expect: first, last: None }).await;
    assert!(matches!(stale, Err(StoreError::Conflict { .. })));
    delete(store, one.clone(), second).await;
    assert!(store.get(&one).await.expect("answers").is_none());
    let gone = store.commit(Write::Delete { key: one.clone(), expect: second, last: None }).await;
    assert!(matches!(gone, Err(StoreError::Conflict { current: None })));
    create(store, one, "4").await;
    assert_eq!(store.revision().await.expect("answers").0, second.0 + 2);
}

async fn bodies(store: &dyn Store) {
    begin(store, "t").await;
    let one = key("t", "a", "one");
    let said = |entry: &crate::Entry| String::from_utf8_lossy(&entry.body()).into_owned();
    let expect = stored;
    let outcome = store.commit(put(one.clone(), Expect::Absent, "x")).await.expect("creates");
    let entry = outcome.entry.expect("a put gives its entry");
    assert_eq!(said(&entry), expect("x", outcome.revision));
    assert_eq!(said(&store.get(&one).await.expect("answers").expect("is there")), said(&entry));
    // The annotation that looks like a resource version stays as it is.
    let gone = delete(store, one.clone(), outcome.revision).await;
    assert_eq!(said(&gone.entry.expect("a delete gives the last state")), expect("x", gone.revision));
    let second = create(store, one.clone(), "y").await;
    let write = Write::Delete { key: one, expect: second, last: Some(body("last")) };
    let gone = store.commit(write).await.expect("deletes");
    assert_eq!(said(&gone.entry.expect("a delete gives the last state")), expect("last", gone.revision));
}

async fn lists(store: &dyn Store) {
    begin(store, "t").await;
    begin(store, "tt").await;
    for (namespace, name) in [("b", "1"), ("a", "2"), ("a", "1"), ("ab", "1"), ("a", "10"), ("", "z")] {
        create(store, key("t", namespace, name), "x").await;
    }
    create(store, key("tt", "a", "other"), "x").await;
    let page = store.list(everything(scope("t", None))).await.expect("lists");
    assert_eq!(names(&page), ["/z", "a/1", "a/10", "a/2", "ab/1", "b/1"]);
    assert_eq!((page.remaining, page.revision), (0, store.revision().await.expect("answers")));
    let page = store.list(everything(scope("t", Some("a")))).await.expect("lists");
    assert_eq!(names(&page), ["a/1", "a/10", "a/2"]);
    let query = ListQuery { limit: 2, after: Some(("a".into(), "1".into())), ..everything(scope("t", None)) };
    let page = store.list(query).await.expect("lists");
    assert_eq!((names(&page), page.remaining), (vec!["a/10".to_owned(), "a/2".to_owned()], 2));
    let query = ListQuery { limit: 1, after: Some(("a".into(), "1".into())), ..everything(scope("t", Some("a"))) };
    let page = store.list(query).await.expect("lists");
    assert_eq!((names(&page), page.remaining), (vec!["a/10".to_owned()], 1));
    let page = store.list(everything(scope("nobody", None))).await.expect("lists");
    assert_eq!((page.entries.len(), page.remaining), (0, 0));
    assert_eq!(store.resources(&Tenant::logical("t")).await.expect("answers"), [(configmaps(), 6)]);
    assert_eq!(store.tenants().await.expect("answers"), [Tenant::logical("t"), Tenant::logical("tt")]);
}

async fn pages_in_the_past(store: &dyn Store) {
    begin(store, "t").await;
    let mut revisions = Vec::new();
    for index in 0..20 {
        revisions.push(create(store, key("t", "a", &format!("{index:02}")), "old").await);
    }
    let begin = ListQuery { limit: 7, ..everything(scope("t", None)) };
    let first = store.list(begin.clone()).await.expect("lists");
    assert_eq!(first.remaining, 13);
    // Everything changes between the pages.
    for (index, revision) in revisions.iter().enumerate() {
        let key = key("t", "a", &format!("{index:02}"));
        if index % 2 == 0 {
            delete(store, key, *revision).await;
        } else {
            store.commit(put(key, Expect::Revision(*revision), "new")).await.expect("updates");
        }
    }
    create(store, key("t", "a", "05x"), "new").await;
    let mut found = names(&first);
    let mut page = first;
    while let Some(last) = page.entries.last().filter(|_| page.remaining > 0) {
        let after = Some((last.namespace.clone(), last.name.clone()));
        page = store.list(ListQuery { at: Some(page.revision), after, ..begin.clone() }).await.expect("lists");
        assert!(page.entries.iter().all(|entry| entry.body().ends_with(b"\"data\":\"old\"}")));
        found.extend(names(&page));
    }
    assert_eq!(found, (0..20).map(|index| format!("a/{index:02}")).collect::<Vec<_>>());
    let now = store.list(everything(scope("t", None))).await.expect("lists");
    assert_eq!(now.entries.len(), 11);
    let before = store.list(ListQuery { at: Some(Revision(0)), ..begin.clone() }).await.expect("lists");
    assert_eq!((before.entries.len(), before.remaining), (0, 0));
    let future = Revision(now.revision.0 + 1);
    let answer = store.list(ListQuery { at: Some(future), ..begin }).await;
    assert!(matches!(answer, Err(StoreError::Future { asked, current }) if asked == future && current == now.revision));
}

async fn watches(store: &dyn Store) {
    begin(store, "t").await;
    begin(store, "tt").await;
    let one = key("t", "a", "one");
    let first = create(store, one.clone(), "1").await;
    let second = store.commit(put(one.clone(), Expect::Revision(first), "2")).await.expect("updates").revision;
    let third = create(store, key("t", "b", "two"), "1").await;
    let fourth = create(store, key("tt", "a", "three"), "1").await;
    let fifth = delete(store, one, second).await.revision;
    let all = [
        format!("Added {first} one"),
        format!("Modified {second} one"),
        format!("Added {third} two"),
        format!("Added {fourth} three"),
        format!("Deleted {fifth} one"),
    ];
    let tenant = Tenant::logical("t");
    for (scope, from, expect) in [
        (WatchScope::All, 0, vec![0, 1, 2, 3, 4]),
        (WatchScope::All, second.0, vec![2, 3, 4]),
        (WatchScope::Tenant(tenant.clone()), 0, vec![0, 1, 2, 4]),
        (WatchScope::Scope(scope("t", None)), first.0, vec![1, 2, 4]),
        (WatchScope::Scope(scope("t", Some("a"))), first.0, vec![1, 4]),
        (WatchScope::Scope(scope("t", Some("b"))), 0, vec![2]),
        (WatchScope::Scope(scope("tt", None)), 0, vec![3]),
    ] {
        let mut watch = store.watch(scope.clone(), Revision(from)).await.expect("watches");
        for index in expect {
            assert_eq!(shown(&next(&mut watch).await.expect("goes on")), all[index], "{scope:?} after {from}");
        }
        let more = tokio::time::timeout(Duration::from_millis(1), watch.next()).await;
        assert!(more.is_err(), "{scope:?} after {from}: {more:?}");
        assert_eq!(watch.progress(), fifth, "an idle watch is up to date");
    }
    let mut watch = store.watch(WatchScope::Tenant(tenant), second).await.expect("watches");
    next(&mut watch).await.expect("goes on");
    let event = next(&mut watch).await.expect("goes on");
    assert_eq!(event.kind, EventKind::Deleted);
    assert_eq!(event.previous.as_ref().map(|entry| entry.revision), Some(second));
    assert_eq!((event.entry.revision, event.tenant.as_str()), (fifth, "t"));
    // Events of others move an idle watch on, too.
    let mut quiet = store.watch(WatchScope::Scope(scope("t", Some("b"))), fifth).await.expect("watches");
    let sixth = create(store, key("tt", "b", "four"), "1").await;
    assert_eq!(quiet.progress(), sixth);
    let seventh = create(store, key("t", "b", "five"), "1").await;
    assert_eq!(quiet.progress().0, seventh.0 - 1, "what was not delivered is no progress");
    assert_eq!(next(&mut quiet).await.expect("goes on").revision, seventh);
}

async fn watches_of_the_future(store: &dyn Store) {
    begin(store, "t").await;
    let first = create(store, key("t", "a", "1"), "x").await;
    let mut watch = store.watch(WatchScope::Scope(scope("t", None)), Revision(first.0 + 2)).await.expect("watches");
    assert!(watch.progress() <= first, "nothing was delivered of what has not happened");
    for name in ["2", "3", "4"] {
        create(store, key("t", "a", name), "x").await;
    }
    assert_eq!(&*next(&mut watch).await.expect("goes on").entry.name, "4");
}

async fn dropped_futures(store: &dyn Store) {
    begin(store, "t").await;
    begin(store, "u").await;
    let mut watch = store.watch(WatchScope::Scope(scope("t", None)), Revision(0)).await.expect("watches");
    for index in 0..50 {
        // A future that is dropped while it waits, and one dropped after what it waited for came.
        let _ = tokio::time::timeout(Duration::ZERO, watch.next()).await.map(|event| event.map(drop));
        create(store, key("u", "a", &index.to_string()), "x").await;
    }
    let mut expect = Vec::new();
    for index in 0..50 {
        let revision = create(store, key("t", "a", &index.to_string()), "x").await;
        expect.push(revision);
    }
    for revision in expect {
        assert_eq!(next(&mut watch).await.expect("goes on").revision, revision);
    }
}

async fn templates(store: &dyn Store) {
    begin(store, "other").await;
    let (left, right) = (Tenant::logical("left"), Tenant::logical("right"));
    let make = |tenant: &Tenant| Write::Instantiate { tenant: tenant.clone(), template: template() };
    let before = create(store, key("other", "a", "x"), "x").await;
    let mut waiting = store.watch(WatchScope::Scope(scope("right", Some("a"))), before).await.expect("watches");
    let first = store.commit(make(&left)).await.expect("instantiates").revision;
    let second = store.commit(make(&right)).await.expect("instantiates").revision;
    assert_eq!((first.0, second.0), (before.0 + 1, before.0 + 2));
    let again = store.commit(make(&right)).await.expect("does nothing");
    assert_eq!(again.revision, store.revision().await.expect("answers"));
    assert_eq!(store.revision().await.expect("answers"), second);

    let (theirs, ours) = (key("left", "a", "one"), key("right", "a", "one"));
    let (theirs, shared) = (store.get(&theirs).await.expect("answers"), store.get(&ours).await.expect("answers"));
    let (theirs, shared) = (theirs.expect("is there"), shared.expect("is there"));
    assert!(Arc::ptr_eq(&theirs, &shared), "tenants of one template share its objects");
    assert_eq!(
        store.resources(&right).await.expect("answers"),
        [(configmaps(), 2), (Resource::new("namespaces", ""), 1)]
    );
    let event = next(&mut waiting).await.expect("goes on");
    assert_eq!(shown(&event), format!("Added {second} one"));
    assert_eq!(event.tenant, right);
    let mut all = store.watch(WatchScope::All, first).await.expect("watches");
    for name in ["one", "two", "default"] {
        assert_eq!(shown(&next(&mut all).await.expect("goes on")), format!("Added {second} {name}"));
    }
    // What comes after the template comes after it in watches, too.
    let from = store.revision().await.expect("answers");
    let third = store.commit(make(&Tenant::logical("late"))).await.expect("instantiates").revision;
    let last = create(store, key("late", "b", "zoe"), "x").await;
    let mut late = store.watch(WatchScope::Scope(scope("late", Some("b"))), from).await.expect("watches");
    for expect in [format!("Added {third} two"), format!("Added {last} zoe")] {
        assert_eq!(shown(&next(&mut late).await.expect("goes on")), expect);
    }
    // What one changes, the other does not see.
    let update = put(ours.clone(), Expect::Revision(shared.revision), "mine");
    store.commit(update).await.expect("updates");
    assert_eq!(
        store.get(&key("left", "a", "one")).await.expect("answers").expect("is there").revision,
        theirs.revision
    );
    let at = |revision| ListQuery { at: Some(revision), ..everything(scope("right", None)) };
    let page = store.list(at(second)).await.expect("lists");
    assert_eq!(names(&page), ["a/one", "b/two"]);
    assert_eq!(page.entries[0].revision, shared.revision);
    assert_eq!(store.list(at(first)).await.expect("lists").entries.len(), 0);
}

/// A key space is there from its beginning to its drop, and only then.
async fn key_spaces(store: &dyn Store) {
    let make = |template| Write::Instantiate { tenant: Tenant::logical("t"), template };
    let tenants = async || store.tenants().await.expect("answers");
    let one = key("t", "a", "one");
    assert_no_tenant(store.commit(put(one.clone(), Expect::Absent, "1")).await, "t");
    assert_no_tenant(store.commit(put(one.clone(), Expect::Revision(Revision(1)), "1")).await, "t");
    let delete_one = Write::Delete { key: one.clone(), expect: Revision(1), last: None };
    assert_no_tenant(store.commit(delete_one.clone()).await, "t");
    let nobody = store.commit(Write::DropTenant { tenant: Tenant::logical("t") }).await.expect("does nothing");
    assert_eq!((nobody.revision, tenants().await), (Revision(0), vec![]), "what was refused takes no revision");
    assert!(store.get(&one).await.expect("answers").is_none());

    assert_eq!(begin(store, "t").await, Revision(1));
    assert_eq!(tenants().await, [Tenant::logical("t")], "it is there without objects");
    let again = store.commit(make(template())).await.expect("does nothing");
    assert_eq!((again.revision, store.resources(&Tenant::logical("t")).await.expect("answers")), (Revision(1), vec![]));
    let made = create(store, one.clone(), "1").await;
    delete(store, one.clone(), made).await;
    assert_eq!(tenants().await, [Tenant::logical("t")], "it is there when all objects are gone");
    let made = create(store, one.clone(), "2").await;

    store.commit(Write::DropTenant { tenant: Tenant::logical("t") }).await.expect("drops");
    let newest = store.revision().await.expect("answers");
    assert_no_tenant(store.commit(put(one.clone(), Expect::Absent, "3")).await, "t");
    assert_no_tenant(store.commit(put(one.clone(), Expect::Revision(made), "3")).await, "t");
    assert_no_tenant(store.commit(delete_one).await, "t");
    assert_eq!((store.revision().await.expect("answers"), tenants().await), (newest, vec![]));

    store.commit(make(template())).await.expect("begins anew");
    assert_eq!(store.get(&key("t", "b", "two")).await.expect("answers").expect("is there").body().into_owned(), {
        let first = store.list(everything(scope("t", Some("b")))).await.expect("lists");
        first.entries[0].body().into_owned()
    });
    create(store, key("t", "a", "three"), "3").await;
}

/// Writers that do not know that their tenant is being dropped: none of them brings it back.
async fn late_writes<S: Store>(store: S) {
    let store = Arc::new(store);
    for round in 0..10 {
        let tenant = format!("t{round}");
        begin(&*store, &tenant).await;
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8 {
            let (store, tenant) = (store.clone(), tenant.clone());
            writers.spawn(async move {
                for count in 0..100_000 {
                    let key = key(&tenant, "a", &format!("{writer}-{count}"));
                    match store.commit(put(key, Expect::Absent, "x")).await {
                        Ok(_) => tokio::task::yield_now().await,
                        Err(StoreError::NoTenant { .. }) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
                panic!("{tenant} was never dropped");
            });
        }
        let first = scope(&tenant, None);
        while store.list(everything(first.clone())).await.expect("lists").entries.len() < 8 {
            tokio::task::yield_now().await;
        }
        let gone = store.commit(Write::DropTenant { tenant: Tenant::logical(&tenant) }).await.expect("drops").revision;
        while let Some(written) = writers.join_next().await {
            written.expect("ends");
        }
        assert_eq!(store.revision().await.expect("answers"), gone, "nothing was written after the drop");
        assert_eq!(store.tenants().await.expect("answers"), []);
    }
}

async fn dropped_tenants(store: &dyn Store) {
    begin(store, "a").await;
    begin(store, "ab").await;
    let tenant = Tenant::logical("a");
    let first = create(store, key("a", "n", "one"), "x").await;
    create(store, key("ab", "n", "one"), "x").await;
    let mut watching = store.watch(WatchScope::Scope(scope("a", None)), first).await.expect("watches");
    let mut whole = store.watch(WatchScope::Tenant(tenant.clone()), first).await.expect("watches");
    let gone = store.commit(Write::DropTenant { tenant: tenant.clone() }).await.expect("drops").revision;
    assert_eq!(gone.0, first.0 + 2);
    assert_compacted(next(&mut watching).await);
    assert_compacted(next(&mut whole).await);
    assert!(store.get(&key("a", "n", "one")).await.expect("answers").is_none());
    assert!(store.get(&key("ab", "n", "one")).await.expect("answers").is_some());
    assert_eq!(store.tenants().await.expect("answers"), [Tenant::logical("ab")]);
    assert_eq!(store.resources(&tenant).await.expect("answers"), []);
    let again = store.commit(Write::DropTenant { tenant: tenant.clone() }).await.map(|outcome| outcome.revision);
    assert!(again.is_ok_and(|revision| revision.0 <= gone.0 + 1));

    let newest = begin(store, "a").await;
    let second = create(store, key("a", "n", "two"), "x").await;
    assert_compacted(store.watch(WatchScope::Scope(scope("a", None)), first).await);
    assert_compacted(store.list(ListQuery { at: Some(first), ..everything(scope("a", None)) }).await);
    let mut fresh = store.watch(WatchScope::Tenant(tenant), newest).await.expect("watches");
    assert_eq!(shown(&next(&mut fresh).await.expect("goes on")), format!("Added {second} two"));
    // Everyone's history leaves out what was dropped.
    let mut all = store.watch(WatchScope::All, Revision(0)).await.expect("watches");
    assert_eq!(next(&mut all).await.expect("goes on").tenant.as_str(), "ab");
    assert_eq!(shown(&next(&mut all).await.expect("goes on")), format!("Added {second} two"));
}

/// Sixteen that each add to one number, by compare-and-swap, while one watches.
async fn counters<S: Store>(store: S) {
    const EACH: u64 = 20;
    let store = Arc::new(store);
    begin(&*store, "t").await;
    let counter = key("t", "a", "counter");
    let first = create(&*store, counter.clone(), "0").await;
    let mut watch = store.watch(WatchScope::Scope(scope("t", None)), first).await.expect("watches");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (store, counter) = (store.clone(), counter.clone());
        tasks.spawn(async move {
            let mut done = 0;
            while done < EACH {
                let current = store.get(&counter).await.expect("answers").expect("is there");
                let text = String::from_utf8_lossy(&current.body()).into_owned();
                let value: u64 = text.rsplit('"').nth(1).and_then(|number| number.parse().ok()).expect("a number");
                let write = put(counter.clone(), Expect::Revision(current.revision), &(value + 1).to_string());
                match store.commit(write).await {
                    Ok(_) => done += 1,
                    Err(StoreError::Conflict { .. }) => (),
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    for index in 1..=16 * EACH {
        let event = next(&mut watch).await.expect("goes on");
        assert_eq!(event.revision.0, first.0 + index);
        assert!(event.entry.body().ends_with(format!("\"{index}\"}}").as_bytes()), "no addition is lost");
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("finishes");
    }
}

async fn bounded_history(store: &dyn Store) {
    begin(store, "t").await;
    let quiet = create(store, key("t", "quiet", "x"), "x").await;
    let mut idle = store.watch(WatchScope::Scope(scope("t", Some("quiet"))), quiet).await.expect("watches");
    let mut behind = store.watch(WatchScope::Scope(scope("t", None)), quiet).await.expect("watches");
    assert!(tokio::time::timeout(Duration::from_millis(1), idle.next()).await.is_err());
    for index in 0..30 {
        create(store, key("t", "busy", &format!("{index:02}")), "x").await;
    }
    assert_compacted(next(&mut behind).await);
    assert_compacted(store.watch(WatchScope::All, quiet).await);
    assert_compacted(store.list(ListQuery { at: Some(quiet), ..everything(scope("t", None)) }).await);
    let newest = store.revision().await.expect("answers");
    let Err(StoreError::Compacted { oldest, .. }) = store.watch(WatchScope::All, quiet).await else {
        panic!("older than the history")
    };
    assert_eq!(oldest.0, newest.0 - 10);
    let page = store.list(ListQuery { at: Some(oldest), ..everything(scope("t", None)) }).await.expect("lists");
    assert_eq!(page.entries.len(), 21);
    store.watch(WatchScope::All, oldest).await.expect("the oldest revision named can be asked for");
    // A watch to which nothing happened has missed nothing.
    let event = create(store, key("t", "quiet", "y"), "x").await;
    assert_eq!(next(&mut idle).await.expect("goes on").revision, event);
}

async fn bounded_bytes(store: &dyn Store) {
    begin(store, "t").await;
    let key = key("t", "a", "x");
    let first = create(store, key.clone(), &"x".repeat(1000)).await;
    for index in 0..5 {
        let write = put(key.clone(), Expect::Revision(Revision(first.0 + index)), &"x".repeat(1000));
        store.commit(write).await.expect("updates");
    }
    assert_compacted(store.watch(WatchScope::All, Revision(first.0 - 1)).await);
    let newest = store.revision().await.expect("answers");
    store.watch(WatchScope::All, Revision(newest.0 - 3)).await.expect("three fit");
}

/// While the state is large its history is kept; once the state is small again, so is the history.
async fn history_follows_the_state(store: &dyn Store) {
    begin(store, "t").await;
    let large = noise(1 << 20, 1);
    let mut written = Vec::new();
    for index in 0..6 {
        written.push(create(store, key("t", "a", &index.to_string()), &large).await);
    }
    let before = Revision(written[0].0 - 1);
    drop(store.watch(WatchScope::All, before).await.expect("six large objects keep their history"));
    for (index, revision) in written.into_iter().enumerate() {
        delete(store, key("t", "a", &index.to_string()), revision).await;
    }
    create(store, key("t", "a", "small"), "x").await;
    assert_compacted(store.watch(WatchScope::All, before).await);
}
