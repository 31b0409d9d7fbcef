//! `allot controllers`: controllers and admission beside an API server of somebody else's, until Ctrl-C.

use std::time::Duration;

use allotment_controllers::Settings;
use allotment_landscape::webhook::WebhookAddress;
use anyhow::{Context as _, anyhow};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::up::{check_lifetimes, remove_own_pid_file, stop_signal};
use crate::cli::{Controllers, Target};
use crate::client;
use crate::exit::{Code, Failure, Outcome};
use crate::output::note;
use crate::platform::{Replica, ReplicaOptions, Role, check_place, write_private};

/// A shorter Lease would be lost by every hiccup of the API server.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);
/// With a longer one nobody would act for minutes after a process died.
const LONGEST_LEASE: Duration = Duration::from_secs(600);

/// Runs one replica until it is told to stop.
pub(crate) async fn run(target: &Target, arguments: Controllers) -> Outcome {
    check(&arguments)?;
    let pid_file = arguments.pid_file.clone();
    let options = options(client::of_server(target).await?, arguments);
    let (mut stopped, stop) = (std::pin::pin!(stop_signal()?), CancellationToken::new());
    let replica = tokio::select! {
        biased;
        replica = Replica::start(options, stop.clone()) => replica?,
        () = &mut stopped => return Err(Failure::new(Code::Interrupted, "stopped before it was ready")),
    };
    let mut unwritten = None;
    let tell = |role: Role| {
        note(match role {
            Role::Leads => "acting; Ctrl-C stops it",
            Role::StandsBy => "standing by: another replica acts; Ctrl-C stops it",
        });
        if let Some(path) = &pid_file
            && let Err(error) = write_private(path, format!("{}\n", std::process::id()).as_bytes())
        {
            unwritten = Some(anyhow!("cannot write --pid-file {}: {error}", path.display()));
            stop.cancel();
        }
    };
    let ended = {
        let mut running = std::pin::pin!(replica.run(tell));
        tokio::select! {
            biased;
            ended = &mut running => ended,
            () = &mut stopped => {
                note("stopping");
                stop.cancel();
                running.await
            }
        }
    };
    if let Some(path) = &pid_file {
        remove_own_pid_file(path);
    }
    match unwritten {
        Some(error) => Err(error).context("stopped").map_err(Failure::from),
        None => ended,
    }
}

/// What is wrong with the command line, before anything is begun.
fn check(arguments: &Controllers) -> Result<(), Failure> {
    check_lifetimes(arguments.lifetimes)?;
    if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&arguments.lease_duration) {
        return Err(Failure::new(Code::Usage, "--lease-duration must lie between 3s and 10m"));
    }
    if arguments.lease_duration.subsec_nanos() > 0 {
        return Err(Failure::new(Code::Usage, "--lease-duration must be whole seconds: a Lease knows no others"));
    }
    arguments.pid_file.as_ref().map_or(Ok(()), |path| check_place("--pid-file", path))
}

/// What a replica is started with.
fn options(client: Client, arguments: Controllers) -> ReplicaOptions {
    let (service, url) = (arguments.webhook_service, arguments.webhook_url);
    let service = service.map(|service| WebhookAddress::Service {
        namespace: service.namespace,
        name: service.name,
        port: service.port,
    });
    ReplicaOptions {
        client,
        data_dir: arguments.data_dir,
        listen: arguments.listen,
        url: arguments.url,
        webhook_listen: arguments.webhook_listen,
        webhook_address: service.or(url.map(WebhookAddress::Url)),
        lease_duration: arguments.lease_duration,
        environment: arguments.environment,
        leaf_lifetime: arguments.lifetimes.leaf_lifetime,
        settings: Settings {
            access_token_lifetime: arguments.lifetimes.access_token_lifetime,
            provisioning_deadline: arguments.lifetimes.provisioning_deadline,
            without_catalog: arguments.without_catalog,
        },
    }
}
