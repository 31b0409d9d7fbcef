//! The API server's listener.

use std::sync::Arc;

use allotment_apiserver::listener::{self, Limits};
use allotment_apiserver::server::ApiServer;
use allotment_apiserver::service::ApiService;
use allotment_controllers::frame::Tasks;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tracing::{error, warn};

/// File descriptors that are not for connections: the store's files, the listener, the runtime's own.
const RESERVED_DESCRIPTORS: u64 = 128;
/// With fewer connections than these nobody could work.
const FEWEST_CONNECTIONS: u64 = 64;

/// Serves the API on `listener` until `tasks` end.
pub(super) fn serve(tasks: &Tasks, listener: TcpListener, config: Arc<rustls::ServerConfig>, server: &ApiServer) {
    let (service, stop) = (ApiService::new(server.clone()), tasks.stopping());
    let limits = limits();
    tasks.spawn_draining(async move {
        if let Err(error) = listener::serve(listener, Some(config), service, limits, stop).await {
            error!(%error, "the API is served no longer");
        }
    });
}

/// As many connections as there are file descriptors for. A process may have far fewer than it could ask for,
/// for the sake of programs that are older than `poll`; clients must not take those that the store needs.
fn limits() -> Limits {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let (mut limits, descriptors) = (Limits::default(), if raised { maximum } else { current });
    let connections = connections(descriptors, limits.connections);
    if connections < limits.connections {
        warn!(connections, "few file descriptors: fewer connections than usual; raise the limit of open files");
    }
    limits.connections = connections;
    limits
}

/// How many connections so many file descriptors are enough for; `None` is no bound.
fn connections(descriptors: Option<u64>, usual: usize) -> usize {
    let left = descriptors.map(|all| all.saturating_sub(RESERVED_DESCRIPTORS).max(FEWEST_CONNECTIONS));
    left.map_or(usual, |left| usize::try_from(left).unwrap_or(usual).min(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_the_store_its_files() {
        let check = |descriptors, expect| assert_eq!(connections(descriptors, 4096), expect, "{descriptors:?}");
        check(None, 4096);
        check(Some(1_048_576), 4096);
        check(Some(1024), 896);
        check(Some(100), 64);
        check(Some(0), 64);
    }
}
