//! The platform beside an API server of somebody else's: one replica, from its start to its end.
//!
//! # Flow
//! Webhooks are served all the time. What acts lives for a term: from the moment at which the Lease is ours to the one at
//! which it is lost or given back. The store and the listener of logical clusters begin with the first term and outlive one
//! that is lost, until somebody else is seen to hold the Lease. A term in which a task of the controllers panics is given back, and
//! the replica stands by: for a pause it takes no Lease, and all else is as after a term that was lost.
//!
//! # Guarantees
//! The lock of the data folder, not the Lease, decides who serves logical clusters: a store has one process, and who
//! writes to it through a tenant's kubeconfig asks nobody else. So clusters go on while the API server is away; nothing of the
//! platform is decided meanwhile, and what it would have revoked is revoked when it is back.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allotment_api::names::{HOLDINGS, SYSTEM_NAMESPACE};
use allotment_apiserver::tls::{ServingCertificates, server_config};
use allotment_controllers::Settings;
use allotment_controllers::frame::{Acquired, Anew, Candidate, Pace, Tasks, Term, keep};
use allotment_landscape::webhook::WebhookAddress;
use allotment_landscape::{Beside, BesideConfig, LEASE, Planes, PlanesConfig};
use allotment_pki::{RandomKeys, SubjectName};
use allotment_store::Embedded;
use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::certificates::{self, Issuer};
use super::duty::Duty;
use super::programs::MachinePrograms;
use super::webhooks::Webhooks;
use super::{DataFolder, broken, listen, seams, service};
use crate::exit::{Code, Failure};

/// How long a replica waits for the Lease before it says that it stands by.
const STANDS_BY_AFTER: Duration = Duration::from_secs(1);
/// How often to try for a folder or an address that the process before still holds.
const CLAIM_RETRY: Duration = Duration::from_millis(200);
/// How long whoever holds the Lease may take until writes are reviewed; then another replica may try.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);
/// How long clusters of before may take to be served before others are not kept waiting for them, and how often is looked.
const FIRST_TURN_LIMIT: Duration = Duration::from_secs(10);
const FIRST_TURN_LOOK: Duration = Duration::from_millis(5);

/// What a replica is started with.
pub(crate) struct ReplicaOptions {
    /// A client of the API server.
    pub(crate) client: Client,
    /// Where logical clusters are kept.
    pub(crate) data_dir: PathBuf,
    /// Where they are served; unset: where they were last, else the default.
    pub(crate) listen: Option<SocketAddr>,
    /// Where clients reach them, if not there: `https://HOST[:PORT]`.
    pub(crate) url: Option<String>,
    /// Where webhooks are served.
    pub(crate) webhook_listen: SocketAddr,
    /// Where the API server finds them, if not there.
    pub(crate) webhook_address: Option<WebhookAddress>,
    /// How long the Lease holds.
    pub(crate) lease_duration: Duration,
    /// What providers are told that the landscape is called.
    pub(crate) environment: String,
    /// Lifetime of the certificate with which clusters are served.
    pub(crate) leaf_lifetime: Duration,
    /// What controllers are told.
    pub(crate) settings: Settings,
}

/// What a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It acts.
    Leads,
    /// It answers reviews, and acts once nobody else does.
    StandsBy,
}

/// One replica.
pub(crate) struct Replica {
    beside: Arc<Beside>,
    candidate: Candidate,
    folder: PathBuf,
    /// UID of the namespace `kube-system`: which API server's clusters a folder keeps.
    platform: String,
    listen: Option<SocketAddr>,
    url: Option<String>,
    lease_duration: Duration,
    leaf_lifetime: Duration,
    webhooks: Webhooks,
    duty: Duty,
    tasks: Tasks,
    stop: CancellationToken,
}

/// Why a term is over.
enum End {
    Lost(String),
    /// A task of the controllers panicked.
    Broke(String),
    Stopped,
    Failed(Failure),
}

impl Replica {
    /// Begins to serve webhooks. Once `stop` is cancelled the replica is not ready any more.
    pub(crate) async fn start(options: ReplicaOptions, stop: CancellationToken) -> Result<Self, Failure> {
        // Before anything is asked of the server, so that a mistake costs nothing.
        let folder = DataFolder::inspect(&options.data_dir)?;
        folder.check_platform(None)?;
        if options.webhook_address.is_none() {
            check_reachable("--webhook-listen", options.webhook_listen, "--webhook-url or --webhook-service")?;
        }
        if options.url.is_none()
            && let Some(listen) = options.listen
        {
            check_reachable("--listen", listen, "--url")?;
        }
        let listener = TcpListener::bind(options.webhook_listen).await;
        let listener = listener.map_err(|error| {
            let code = if error.kind() == std::io::ErrorKind::AddrInUse { Code::AddressInUse } else { Code::Failed };
            let message = format!("--webhook-listen: cannot listen on {}: {error}", options.webhook_listen);
            Failure::new(code, message)
        })?;
        let address = listener.local_addr().context("cannot tell the webhooks' address")?;
        let found_at = options.webhook_address.unwrap_or_else(|| WebhookAddress::Url(format!("https://{address}")));
        let seams = seams();
        let identity = format!("{}_{}", std::env::var("HOSTNAME").unwrap_or_default(), seams.entropy.uid());
        let names = [found_at.server_name().as_str().into(), SubjectName::Ip(address.ip())];
        let config = BesideConfig {
            client: options.client.clone(),
            seams: seams.clone(),
            keys: Arc::new(RandomKeys),
            address: found_at,
            settings: options.settings,
            environment: options.environment,
            identity,
        };
        let beside = Arc::new(Beside::connect(config).await.map_err(anyhow::Error::from)?);
        let lacking = beside.missing_rights().await.map_err(anyhow::Error::from)?;
        if !lacking.is_empty() {
            return Err(Failure::new(Code::Failed, lacks(beside.user(), &lacking)));
        }
        beside.check_kinds().await.map_err(anyhow::Error::from)?;
        beside.namespaces().await.map_err(anyhow::Error::from)?;
        let system = Api::<Namespace>::all(options.client).get("kube-system").await;
        let platform = system.context("cannot read namespace kube-system, by which API servers are told apart")?;
        let kept = options.data_dir.clone();
        let candidate = beside.candidate(Pace::new(options.lease_duration), Arc::new(move || name_of(&kept)));
        let (tasks, duty) = (Tasks::default(), Duty::default());
        let webhooks = Webhooks::start(&tasks, beside.clone(), listener, names.to_vec(), stop.clone(), duty.clone());
        Ok(Replica {
            beside,
            candidate,
            folder: options.data_dir,
            platform: platform.metadata.uid.unwrap_or_default(),
            listen: options.listen,
            url: options.url,
            lease_duration: options.lease_duration,
            leaf_lifetime: options.leaf_lifetime,
            webhooks,
            duty,
            tasks,
            stop,
        })
    }

    /// Stands by and leads by turns until it is stopped or can do neither; tells what it does once it does it.
    pub(crate) async fn run(self, tell: impl FnMut(Role)) -> Result<(), Failure> {
        let alarm = self.tasks.alarm().clone();
        broken::within(&alarm, self.take_turns(tell)).await
    }

    async fn take_turns(self, mut tell: impl FnMut(Role)) -> Result<(), Failure> {
        let (mut served, mut anew, mut candidate) = (None, Anew::default(), self.candidate.clone());
        let ended = loop {
            let mut term = match self.stand_by(&candidate, &mut served, &mut tell).await {
                Ok(Some(term)) => term,
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            };
            info!("the Lease is held: leading");
            let (tasks, since) = (Tasks::default(), Instant::now());
            let end = self.lead(&mut term, &tasks, &mut served, &mut tell).await;
            if matches!(end, End::Stopped | End::Failed(_)) {
                close(served.take()).await;
            }
            candidate = self.candidate.clone();
            match end {
                End::Lost(why) if served.is_some() => {
                    warn!(%why, "the Lease is lost: nothing is decided any more; clusters are served until another replica acts");
                }
                End::Lost(why) => warn!(%why, "the Lease is lost: nothing is done any more"),
                End::Broke(why) => {
                    // Whoever else can acts meanwhile, and looks in time; until then clusters are served.
                    term.release().await;
                    let wait = anew.after(since.elapsed()).max(self.lease_duration / 5);
                    candidate = self.candidate.not_before(Instant::now() + wait);
                    error!(
                        ?wait,
                        "{why}: a fault of the program, told above and worth a report; the Lease is given back, and left \
                         to others for now"
                    );
                }
                End::Stopped => {
                    term.release().await;
                    break Ok(());
                }
                End::Failed(failure) => {
                    term.release().await;
                    break Err(failure);
                }
            }
        };
        close(served.take()).await;
        self.tasks.stop().await;
        ended
    }

    /// Waits until something broke that serves clusters or reviews.
    async fn broken(&self) -> Failure {
        broken::failure(&self.tasks.alarm().rung().await)
    }

    /// Waits for the Lease; nothing if it is told to stop before, and an error if it must not act, or if nobody can ask it
    /// for reviews. What is still `served` is let go once somebody else acts.
    async fn stand_by(
        &self,
        candidate: &Candidate,
        served: &mut Option<Served>,
        tell: &mut impl FnMut(Role),
    ) -> Result<Option<Term>, Failure> {
        let (tasks, give_up, others) = (Tasks::default(), self.stop.child_token(), CancellationToken::new());
        let acquired = {
            let mut acquired = std::pin::pin!(candidate.acquire(&give_up, &others));
            let knows = CancellationToken::new();
            let observes = keep(
                &tasks,
                |part: Tasks| {
                    let knows = knows.clone();
                    async move {
                        self.beside.stand_by(&part).await;
                        knows.cancel();
                        std::future::pending::<Infallible>().await
                    }
                },
                || self.beside.rest(),
            );
            let tells = async {
                knows.cancelled().await;
                if let Err(failure) = self.webhooks.served().await {
                    return failure;
                }
                tokio::select! {
                    biased;
                    failure = self.webhooks.failed() => return failure,
                    () = others.cancelled() => tell(Role::StandsBy),
                }
                self.webhooks.failed().await
            };
            let mut stands_by = std::pin::pin!(async {
                tokio::time::sleep(STANDS_BY_AFTER).await;
                tokio::select! {
                    biased;
                    failure = tells => failure,
                    never = observes => match never {},
                }
            });
            let mut hands_over = std::pin::pin!(async {
                others.cancelled().await;
                if served.is_some() {
                    info!("another replica acts: its turn to serve the clusters");
                }
                self.duty.set_serves(false);
                close(served.take()).await;
            });
            let mut handed_over = false;
            let ended = loop {
                tokio::select! {
                    biased;
                    acquired = &mut acquired => break Ok(acquired),
                    failure = self.broken() => break Err(failure),
                    failure = &mut stands_by => break Err(failure),
                    () = &mut hands_over, if !handed_over => handed_over = true,
                }
            };
            if others.is_cancelled() && !handed_over {
                hands_over.await;
            }
            match ended {
                Ok(acquired) => Ok(acquired),
                Err(failure) => {
                    // A try that is under way ends first, so that no Lease is left that nobody holds.
                    give_up.cancel();
                    if let Acquired::Term(term) = acquired.await {
                        term.release().await;
                    }
                    Err(failure)
                }
            }
        };
        tasks.stop().await;
        match acquired? {
            Acquired::Term(term) if self.stop.is_cancelled() => {
                term.release().await;
                Ok(None)
            }
            Acquired::Term(term) => Ok(Some(*term)),
            Acquired::Stopped => Ok(None),
            Acquired::Elsewhere { theirs, own } => {
                Err(Failure::new(Code::FolderForeign, other_folder(&self.folder, &theirs, own.as_deref())))
            }
        }
    }

    /// Leads until the term is over, and leaves nothing running but what serves clusters.
    async fn lead(
        &self,
        term: &mut Term,
        tasks: &Tasks,
        served: &mut Option<Served>,
        tell: &mut impl FnMut(Role),
    ) -> End {
        let client = self.beside.guarded(term);
        let end = {
            let leads = async {
                let begun = self.begin(&client, tasks, served).await;
                if let Err(failure) = begun {
                    return failure;
                }
                self.duty.set_leads(true);
                tell(Role::Leads);
                self.beside.keep(&client).await;
                Failure::new(Code::Failed, "what is installed is looked after no longer")
            };
            tokio::select! {
                biased;
                why = term.keep() => End::Lost(why),
                () = self.stop.cancelled() => End::Stopped,
                failure = self.broken() => End::Failed(failure),
                why = tasks.alarm().rung() => End::Broke(why),
                failure = self.webhooks.failed() => End::Failed(failure),
                failure = leads => End::Failed(failure),
            }
        };
        self.duty.set_leads(false);
        tasks.stop().await;
        self.beside.rest();
        end
    }

    /// Installs what is missing, serves logical clusters, runs the controllers; returns when all is ready.
    async fn begin(&self, client: &Client, tasks: &Tasks, served: &mut Option<Served>) -> Result<(), Failure> {
        let install = async {
            self.beside.install_webhooks(client).await.map_err(anyhow::Error::from)?;
            self.webhooks.served().await?;
            self.beside.install(client).await.map_err(anyhow::Error::from)?;
            Ok::<(), Failure>(())
        };
        let install = async {
            let too_long = |_| Failure::new(Code::Failed, install_takes_too_long());
            tokio::time::timeout(INSTALL_LIMIT, install).await.map_err(too_long)?
        };
        let serve = async {
            // What an earlier term left is served still: nobody had the folder since.
            if served.is_none() {
                *served = Some(self.serve(self.claim().await?)?);
            }
            Ok(())
        };
        futures::future::try_join(install, serve).await?;
        let gone = || Failure::new(Code::Failed, "what serves clusters is gone");
        let Served { planes, pending, tasks: serving, .. } = served.as_mut().ok_or_else(gone)?;
        let controllers = self.beside.run_controllers(tasks, client, planes);
        controllers.synced().await;
        // Who connects meanwhile waits; a cluster that is not served yet would seem not to be there, and a request that
        // comes before the first provider is ready would be Denied for a moment.
        let begin = Instant::now();
        while !controllers.first_turns_are_done() {
            if begin.elapsed() >= FIRST_TURN_LIMIT {
                warn!("clusters of before are still being brought up; until they are, their clients are told 404");
                break;
            }
            tokio::time::sleep(FIRST_TURN_LOOK).await;
        }
        if let Some(Pending { listener, certificates, issuer, since }) = pending.take() {
            service::serve(serving, listener, server_config(certificates.clone())?, planes.server());
            // Of admins there is none here: who asks by AccessRequest gets the authority, which stays.
            let renewed = |_| std::future::ready(Ok(()));
            self.duty.set_serves(true);
            serving.spawn(certificates::renew(issuer, certificates, seams(), since, renewed));
        }
        Ok(())
    }

    /// What serves logical clusters from a folder, but for the listener, whose turn comes when they are there.
    fn serve(&self, claimed: Claimed) -> Result<Served, Failure> {
        let Claimed { folder, listener, store } = claimed;
        let address = listener.local_addr().context("cannot tell the address")?;
        if self.url.is_none() {
            check_reachable("the address of before", address, "--url")?;
        }
        let url = self.url.clone().unwrap_or_else(|| format!("https://{address}"));
        let seams = seams();
        let since = seams.now();
        let known = folder.identity()?;
        let identity = known.map_or_else(|| folder.new_identity(&RandomKeys, since.as_second()), Ok)?;
        let name = WebhookAddress::Url(url.clone()).server_name();
        let names = [name.as_str().into(), SubjectName::Ip(address.ip())];
        let issuer = Issuer::new(&identity.authority, &names, self.leaf_lifetime);
        let certificates = Arc::new(ServingCertificates::new(&issuer.serving(since)?)?);
        let config = PlanesConfig {
            store: Arc::new(store.clone()),
            seams,
            keys: Arc::new(RandomKeys),
            root_ca_pem: identity.authority.certificate().to_pem().into(),
            created: identity.created()?,
            url,
            home: identity.authority.certificate().fingerprint(),
            programs: Arc::new(MachinePrograms),
        };
        let planes = Planes::serve(config, None, Vec::new());
        let tasks = Tasks::ringing(self.tasks.alarm().clone());
        broken::listen(&tasks, planes.server(), &store);
        Ok(Served { planes, store, tasks, pending: Some(Pending { listener, certificates, issuer, since }) })
    }

    /// Takes folder and address, which a process before may still hold for a moment. Where a stranger holds them this is
    /// an error in the end: whoever holds the Lease and cannot act keeps others from it.
    async fn claim(&self) -> Result<Claimed, Failure> {
        let (mut told, begin, limit) = (false, Instant::now(), self.lease_duration * 2 + broken::END_LIMIT);
        loop {
            let folder = DataFolder::inspect(&self.folder)?;
            folder.check_platform(Some(&self.platform))?;
            match listen::claim(&folder, self.listen).await {
                Ok((listener, store)) => {
                    folder.set_platform(&self.platform)?;
                    folder.set_address(listener.local_addr().context("cannot tell the address")?)?;
                    return Ok(Claimed { folder, listener, store });
                }
                Err(failure)
                    if matches!(failure.code, Code::FolderInUse | Code::AddressInUse) && begin.elapsed() < limit =>
                {
                    if !std::mem::replace(&mut told, true) {
                        warn!(error = %format!("{:#}", failure.error), "waiting for another process to let go");
                    }
                    tokio::time::sleep(CLAIM_RETRY).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// Nobody reaches an address that means all of a machine's.
fn check_reachable(flag: &str, address: SocketAddr, instead: &str) -> Result<(), Failure> {
    if !address.ip().is_unspecified() {
        return Ok(());
    }
    let why =
        format!("{flag}: {address} means all addresses of this machine, which nobody is told as one; name {instead}");
    Err(Failure::new(Code::Usage, why))
}

fn install_takes_too_long() -> String {
    format!(
        "the API server did not have our kinds reviewed within {} s: it must reach the webhooks (--webhook-listen, \
         --webhook-url, --webhook-service); what it said is in the log",
        INSTALL_LIMIT.as_secs()
    )
}

/// What a term needs to itself.
struct Claimed {
    folder: DataFolder,
    listener: TcpListener,
    store: Embedded,
}

/// What serves logical clusters.
struct Served {
    planes: Planes,
    store: Embedded,
    /// The listener, and what it has accepted.
    tasks: Tasks,
    /// The listener before its turn.
    pending: Option<Pending>,
}

/// A listener that accepts nobody yet, and what it will prove itself with.
struct Pending {
    listener: TcpListener,
    certificates: Arc<ServingCertificates>,
    issuer: Issuer,
    since: jiff::Timestamp,
}

/// Serves clusters no longer, and lets their folder go.
async fn close(served: Option<Served>) {
    let Some(Served { planes, store, tasks, pending }) = served else { return };
    drop(pending);
    // Both at once: the listener waits for running requests, and watches end with the server.
    tokio::join!(tasks.stop(), planes.server().stop());
    store.close().await;
}

/// By what a data folder is known for good; nothing while it is new, or cannot be read.
fn name_of(folder: &Path) -> Option<String> {
    let identity = DataFolder::inspect(folder).ok()?.identity().ok()??;
    Some(identity.authority.certificate().fingerprint())
}

fn other_folder(folder: &Path, theirs: &str, own: Option<&str>) -> String {
    let here = folder.display();
    let what = match own {
        Some(own) => format!("--data-dir {here} keeps the clusters of another life ({own})"),
        None => format!("--data-dir {here} keeps no clusters"),
    };
    format!(
        "{what}, and those of this platform are kept in another folder ({theirs}, by annotation {HOLDINGS} of Lease \
         {SYSTEM_NAMESPACE}/{LEASE}); name that folder. If it is lost for good, take the annotation off: all Clusters whose \
         control planes it kept are then unhealthy until they are deleted"
    )
}

fn lacks(user: &str, lacking: &[String]) -> String {
    format!(
        "{user} may not do on the API server, in all namespaces, what the platform has to: {}; `kubectl apply -f \
         deploy/controllers/rbac.yaml` gives these rights to ServiceAccount {SYSTEM_NAMESPACE}/allot-controllers by a \
         ClusterRoleBinding (a RoleBinding gives them in its namespace only)",
        lacking.join("; ")
    )
}
