//! What has to end the process: a part that panicked, and that nothing in it can begin anew (docs/adr/0021-panics.md).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use allotment_apiserver::server::ApiServer;
use allotment_controllers::frame::{Alarm, Tasks};
use allotment_store::Embedded;
use futures::FutureExt as _;

use crate::exit::{Code, Failure, Outcome};

/// How long everything else may take to end.
pub(super) const END_LIMIT: Duration = Duration::from_secs(10);

/// Rings the alarm of `tasks` once the server cannot go on, or the store writes no longer.
pub(super) fn listen(tasks: &Tasks, server: &ApiServer, store: &Embedded) {
    let (alarm, server, store) = (tasks.alarm().clone(), server.clone(), store.clone());
    tasks.spawn(async move {
        let why = tokio::select! {
            biased;
            why = server.broken() => why,
            () = store.ended() => "what writes to the store has ended".to_owned(),
        };
        alarm.ring(why);
    });
}

/// What whoever started the program is told.
pub(super) fn failure(why: &str) -> Failure {
    let message = format!(
        "{why}: a fault of the program, told above and worth a report; it ends, since the rest cannot go on without. \
         Nothing that was acknowledged is lost; start it again"
    );
    Failure::new(Code::Broken, message)
}

/// Does what the process is there for. Once `alarm` rings, or where this itself panics, it ends in time and with that, whatever
/// else it met on its way out: what is stuck ends with the process.
pub(crate) async fn within(alarm: &Alarm, run: impl Future<Output = Outcome>) -> Outcome {
    let mut run = std::pin::pin!(AssertUnwindSafe(run).catch_unwind());
    let ended = tokio::select! {
        biased;
        ended = &mut run => Some(ended),
        _ = alarm.rung() => tokio::time::timeout(END_LIMIT, &mut run).await.ok(),
    };
    if ended.is_none() {
        tracing::error!("not everything ended within {} s", END_LIMIT.as_secs());
    }
    match (alarm.why(), ended) {
        (None, Some(Ok(outcome))) => outcome,
        (why, _) => Err(failure(why.unwrap_or("what the process itself does panicked"))),
    }
}

#[cfg(test)]
mod tests {
    use allotment_controllers::frame::Alarm;

    use super::super::{Options, Platform};
    use super::*;

    /// The exit code, and whether the message tells of a fault of the program.
    async fn ends_with(alarm: &Alarm, run: impl Future<Output = Outcome>) -> (u8, bool) {
        let failure = within(alarm, run).await.expect_err("it does not end well");
        (failure.code as u8, failure.error.to_string().contains("a fault of the program"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_broke_is_what_the_process_ends_with_and_in_time() {
        let alarm = Alarm::default();
        assert!(within(&alarm, async { Ok(()) }).await.is_ok());
        let refused = async { Err(Failure::new(Code::FolderInUse, "planted")) };
        assert_eq!(ends_with(&alarm, refused).await, (10, false));
        assert_eq!(ends_with(&alarm, async { panic!("planted") }).await, (15, true));
        // Whatever else goes wrong follows from that, also an end that does not come.
        let follows = async {
            alarm.ring("planted");
            Err(Failure::new(Code::Failed, "the API does not answer"))
        };
        assert_eq!(ends_with(&alarm, follows).await, (15, true));
        let begun = tokio::time::Instant::now();
        assert_eq!(ends_with(&alarm, std::future::pending()).await, (15, true));
        assert_eq!(begun.elapsed(), END_LIMIT);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_platform_of_which_a_task_panics_ends_in_order_and_says_so() {
        // Installed once for the whole process; another test may have been faster.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = std::env::temp_dir().join(format!("allot-broken-{}", std::process::id()));
        let options = || Options {
            data_dir: folder.join("data"),
            listen: Some(([127, 0, 0, 1], 0).into()),
            access_token_lifetime: Duration::from_secs(3600),
            provisioning_deadline: Duration::from_secs(60),
            leaf_lifetime: Duration::from_secs(3600),
            kubeconfig: None,
            provider_dir: None,
            environment: "test".to_owned(),
        };
        let alarm = Alarm::default();
        let platform =
            Platform::start(options(), alarm.clone()).await.map_err(|failure| failure.error).expect("starts");
        assert_eq!(alarm.why(), None);
        platform.tasks.spawn(async { panic!("planted") });
        let serves = async {
            alarm.rung().await;
            platform.stop().await;
            Ok(())
        };
        assert_eq!(ends_with(&alarm, serves).await, (15, true));
        // The folder is free again, and the API of a store whose writer is gone does not go on.
        let alarm = Alarm::default();
        let again = Platform::start(options(), alarm.clone()).await.map_err(|failure| failure.error).expect("starts");
        again.store.close().await;
        assert!(alarm.rung().await.contains("store"));
        again.stop().await;
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
