//! The conformance suite on every engine.

use std::sync::Arc;
use std::time::Duration;

use crate::embedded::simulated::Disk;
use crate::{Embedded, Faults, HistoryLimits, Memory, Options, conformance};

/// Options with this history, and snapshots all the time; room in the log for some two writes.
pub(super) fn restless(history: HistoryLimits) -> Options {
    let rest_after = std::time::Duration::ZERO;
    Options { history, snapshot_after_bytes: 2000, log_reserve_bytes: 500, rest_after }
}

#[tokio::test]
async fn memory_conforms() {
    conformance::run(async |limits| Memory::new(1, limits)).await;
}

#[tokio::test(start_paused = true)]
async fn memory_conforms_when_it_is_slow() {
    conformance::run(async |limits| {
        let store = Memory::new(2, limits);
        store.set_faults(Faults { delay: Duration::from_micros(300), ..Faults::default() });
        store
    })
    .await;
}

#[tokio::test]
async fn embedded_conforms_on_a_simulated_disk() {
    conformance::run(async |history| {
        Embedded::open_on(Arc::new(Disk::default()), restless(history)).await.expect("opens")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_conforms_on_a_real_folder() {
    let folder = super::folder::Scratch::new("conforms");
    let count = std::sync::atomic::AtomicU32::new(0);
    conformance::run(async |history| {
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Embedded::open(&folder.path().join(count.to_string()), restless(history)).await.expect("opens")
    })
    .await;
}
