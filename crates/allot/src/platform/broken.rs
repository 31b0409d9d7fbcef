//! What has to end the process: a part that panicked, and that nothing in it can begin anew (docs/adr/0021-panics.md).

use std::time::Duration;

use allotment_apiserver::server::ApiServer;
use allotment_controllers::frame::Tasks;
use allotment_store::Embedded;

use crate::exit::{Code, Failure};

/// How long everything else may take to end; what is stuck ends with the process.
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
pub(crate) fn failure(why: &str) -> Failure {
    let message = format!(
        "{why}: a fault of the program, told above and worth a report; it ends, since the rest cannot go on without. \
         Nothing that was acknowledged is lost; start it again"
    );
    Failure::new(Code::Broken, message)
}

/// Ends what is left, as far as it can.
pub(crate) async fn end(stop: impl Future<Output = ()>) {
    if tokio::time::timeout(END_LIMIT, stop).await.is_err() {
        tracing::error!("not everything ended within {} s", END_LIMIT.as_secs());
    }
}

#[cfg(test)]
mod tests {
    use allotment_controllers::frame::Alarm;

    use super::super::{Options, Platform};
    use super::*;

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
        let failure = failure(&alarm.rung().await);
        assert_eq!(failure.code as u8, 15);
        assert!(failure.error.to_string().contains("broken.rs"), "{}", failure.error);
        end(platform.stop()).await;
        // The folder is free again, and the API of a store whose writer is gone does not go on.
        let alarm = Alarm::default();
        let again = Platform::start(options(), alarm.clone()).await.map_err(|failure| failure.error).expect("starts");
        again.store.close().await;
        assert!(alarm.rung().await.contains("store"));
        end(again.stop()).await;
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
