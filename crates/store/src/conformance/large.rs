//! Bodies of all lengths and kinds: an engine may hold them as it likes, and nobody sees it.

use super::{begin, body, create, delete, everything, key, next, put, scope};
use crate::body::PACK_FROM;
use crate::{Entry, Expect, ListQuery, Revision, Store, WatchScope, Write};

/// As large as the API server takes them.
const LARGEST: usize = 3 << 19;

/// Text that no packing makes smaller, the same for the same `seed`.
pub fn noise(len: usize, seed: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = seed;
    let letter = |_| {
        // Knuth's MMIX generator, of which the upper bits are good.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..len).map(letter).collect()
}

/// The stored form of [`body`] at `revision`.
pub(super) fn stored(data: &str, revision: Revision) -> String {
    format!(
        r#"{{"metadata":{{"annotations":{{"resourceVersion":"1","z":"1"}},"resourceVersion":"{revision}","uid":"u"}},"data":"{data}"}}"#
    )
}

/// Texts of all lengths and kinds: whether and how they are packed is the engine's affair, and nobody sees it.
fn large_texts() -> Vec<String> {
    let around = PACK_FROM - body("").bytes.len();
    let lengths = [around - 1, around, around + 1, 100_000, LARGEST];
    let kinds = |len: usize| {
        let half = noise(len / 2, 2);
        ["x".repeat(len), noise(len, 1), format!("{half}{half}")]
    };
    lengths.into_iter().flat_map(kinds).collect()
}

/// Whether an entry has the form that its write made, however it is asked for.
#[track_caller]
fn assert_stored(entry: &Entry, data: &str) {
    let about = format!("{} bytes, {:.20}…", data.len(), data);
    let wanted = stored(data, entry.revision);
    assert!(**entry.body() == *wanted.as_bytes(), "{about}: the form is another one");
    assert_eq!(entry.body_len(), wanted.len(), "{about}");
    let later = Revision(entry.revision.0 * 1000);
    assert!(*entry.body_at(later) == *stored(data, later).as_bytes(), "{about}: later it would be another one");
    assert!(entry.body()[entry.splice()..].starts_with(b"\"resourceVersion\""), "{about}");
    assert!(entry.has_uid("u") && !entry.has_uid("v"), "{about}");
}

/// Objects of all lengths are as they were written, in every reply and every event.
pub(super) async fn large_bodies(store: &dyn Store) {
    begin(store, "t").await;
    begin(store, "ballast").await;
    for index in 0..8 {
        // As long as these are there, the history of the others is kept.
        create(store, key("ballast", "a", &index.to_string()), &noise(LARGEST, index)).await;
    }
    for (index, data) in large_texts().into_iter().enumerate() {
        let key = key("t", "a", &index.to_string());
        let from = store.revision().await.expect("answers");
        let mut watch = store.watch(WatchScope::All, from).await.expect("watches");
        let made = store.commit(put(key.clone(), Expect::Absent, &data)).await.expect("creates");
        assert_stored(&made.entry.expect("a put gives its entry"), &data);
        assert_stored(&store.get(&key).await.expect("answers").expect("is there"), &data);
        let small = store.commit(put(key.clone(), Expect::Revision(made.revision), "small")).await.expect("updates");
        let again = store.commit(put(key.clone(), Expect::Revision(small.revision), &data)).await.expect("updates");
        let gone = delete(store, key.clone(), again.revision).await;
        assert_stored(&gone.entry.expect("a delete gives the last state"), &data);
        let past = ListQuery { at: Some(again.revision), ..everything(scope("t", None)) };
        assert_stored(&store.list(past).await.expect("lists").entries[0], &data);
        for (now, before) in [(&*data, None), ("small", Some(&*data)), (&*data, Some("small")), (&*data, Some(&*data))]
        {
            let event = next(&mut watch).await.expect("goes on");
            assert_stored(&event.entry, now);
            assert_eq!(event.previous.is_some(), before.is_some());
            event.previous.iter().zip(before).for_each(|(previous, before)| assert_stored(previous, before));
        }
        let made = create(store, key.clone(), "small").await;
        let last = Write::Delete { key, expect: made, last: Some(body(&data)) };
        assert_stored(&store.commit(last).await.expect("deletes").entry.expect("the last state"), &data);
    }
}
