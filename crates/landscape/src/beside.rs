//! The platform beside an API server that is somebody else's: what is installed there, who decides, and what
//! every replica can answer.
//!
//! # Flow
//! Every replica has the namespaces made, answers reviews, and knows what decisions would be ([`Beside::stand_by`]).
//! The one that holds the Lease installs the rest ([`Beside::install`]): webhooks first, so that nothing of our kinds is ever
//! stored without having been looked at, then definitions, then what a landscape begins with; and runs the
//! controllers ([`Beside::run_controllers`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use allotment_api::catalog::GROUP as CATALOG_GROUP;
use allotment_api::names::{SYSTEM_NAMESPACE, is_judged_group};
use allotment_api::requests::AccessRequest;
use allotment_apiserver::auth::GROUP_MASTERS;
use allotment_controllers::frame::{Candidate, Holdings, Pace, Seams, Tasks, Term, Troubles, advice, chain, tell};
use allotment_controllers::providers::Deployments;
use allotment_controllers::{Controllers, Settings, observe, start};
use allotment_pki::KeySource;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::admission::OurKinds;
use crate::foreign;
use crate::installed;
use crate::landscape::LandscapeError;
use crate::manifests::{Setup, call_failed};
use crate::planes::Planes;
use crate::rights;
use crate::webhook::{Authorities, Authority, Configurations, Webhook, WebhookAddress};

/// The Lease, in namespace `allot-system`.
pub const LEASE: &str = "allot-controllers";
const MANAGER: &str = "allot-controllers";
/// How often what was installed is looked after, if no watch tells of a change before.
const LOOK_AFTER_EVERY: Duration = Duration::from_secs(60);
/// How long to wait for more changes before they are looked at.
const SETTLE: Duration = Duration::from_millis(100);
/// After how many changes, without a minute's rest, that is doubled with each further one, and how often: up to 26 s.
const MANY_CHANGES: u32 = 16;
const MOST_DOUBLED: u32 = 8;
/// How long one try may take, all its requests together.
const TRY_LIMIT: Duration = Duration::from_secs(30);
/// The first and the longest wait before something is tried again that the server did not do.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// What stands beside an API server.
pub struct BesideConfig {
    /// A client of it.
    pub client: Client,
    /// Time, names and UIDs.
    pub seams: Seams,
    /// Where new keys come from.
    pub keys: Arc<dyn KeySource>,
    /// Where it finds the webhooks.
    pub address: WebhookAddress,
    /// What controllers are told.
    pub settings: Settings,
    /// What providers of other processes are told that the landscape is called.
    pub environment: String,
    /// By what this replica is told apart from all others, ever.
    pub identity: String,
}

impl fmt::Debug for BesideConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BesideConfig").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The platform beside an API server.
pub struct Beside {
    client: Client,
    seams: Seams,
    keys: Arc<dyn KeySource>,
    address: WebhookAddress,
    settings: Settings,
    environment: String,
    identity: String,
    troubles: Troubles,
    /// The user name by which the server knows us.
    user: String,
    kinds: Arc<OurKinds>,
}

impl fmt::Debug for Beside {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Beside").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Beside {
    /// Asks the server who we are there.
    ///
    /// # Errors
    /// It does not answer, or does not say who we are.
    pub async fn connect(config: BesideConfig) -> Result<Self, LandscapeError> {
        let BesideConfig { client, seams, keys, address, settings, environment, identity } = config;
        let without_catalog = settings.without_catalog;
        let reviews = Api::<SelfSubjectReview>::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
        let answer = answer.map_err(|error| call_failed("ask the API server who we are".to_owned(), error))?;
        let known = answer.status.and_then(|status| status.user_info).unwrap_or_default();
        let user = known.username.filter(|name| !name.is_empty()).ok_or(LandscapeError::Nobody)?;
        if let Some(why) = shared(&user, &known.groups.unwrap_or_default()) {
            warn!(%user, "{why}; whoever else has this identity is the platform to admission: give it one of its own");
        }
        let kinds = OurKinds::new(&user, seams.clock.clone());
        let kinds = Arc::new(if without_catalog { kinds.without_catalog() } else { kinds });
        kinds.set_client(client.clone());
        let troubles = Troubles::default();
        Ok(Beside { client, seams, keys, address, settings, environment, identity, troubles, user, kinds })
    }

    /// The user name by which the server knows us.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// What we may not do there and have to, in words: `list, watch namespaces`.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn missing_rights(&self) -> Result<Vec<String>, LandscapeError> {
        rights::missing(&self.client, self.settings.without_catalog).await
    }

    /// Makes sure that our kinds are nobody else's there, or are to be left alone as the catalog's can be.
    ///
    /// # Errors
    /// They are somebody else's, or the server does not answer.
    pub async fn check_kinds(&self) -> Result<(), LandscapeError> {
        // What another server serves says nothing while that does not answer.
        within(self.check_registered(&self.client)).await?;
        if self.settings.without_catalog {
            return Ok(());
        }
        foreign::found(&self.client).await?.map_or(Ok(()), |found| Err(LandscapeError::ForeignCatalog { found }))
    }

    /// Makes sure that no other server is to serve our groups there.
    async fn check_registered(&self, client: &Client) -> Result<(), LandscapeError> {
        if let Some(found) = foreign::registered(client, is_judged_group).await? {
            return Err(LandscapeError::Foreign { found });
        }
        if self.settings.without_catalog {
            return Ok(());
        }
        let found = foreign::registered(client, |group| group == CATALOG_GROUP).await?;
        found.map_or(Ok(()), |found| Err(LandscapeError::ForeignCatalog { found }))
    }

    fn setup(&self, client: &Client) -> Setup {
        Setup::new(client.clone(), MANAGER)
            .without_catalog(self.settings.without_catalog)
            .leaving_foreign(self.troubles.clone())
    }

    /// What answers reviews.
    pub fn webhook(&self) -> Webhook {
        Webhook::new(self.kinds.clone())
    }

    /// Makes the platform's namespaces, however long the server takes; without them there is no Lease.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn namespaces(&self) -> Result<(), LandscapeError> {
        let setup = Setup::new(self.client.clone(), MANAGER);
        patiently(|| setup.namespaces()).await
    }

    /// A candidate for the Lease that decides who acts.
    pub fn candidate(&self, pace: Pace, holdings: Holdings) -> Candidate {
        let (client, identity) = (self.client.clone(), self.identity.clone());
        Candidate::new(client, SYSTEM_NAMESPACE, LEASE, identity, self.seams.clone(), pace).holding(holdings)
    }

    /// The authority of the webhooks' certificates, if somebody has made it yet.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub async fn authority(&self) -> Result<Option<Authority>, LandscapeError> {
        self.authorities(self.client.clone()).read().await
    }

    /// Follows everything in `tasks`, so that reviews tell what would be decided; acts on nothing.
    pub async fn stand_by(&self, tasks: &Tasks) {
        let controllers = Arc::new(observe(tasks, &self.client, &self.settings));
        controllers.synced().await;
        self.kinds.set_controllers(controllers);
    }

    /// Knows no longer what would be decided: what followed everything has ended, and will be ever more wrong.
    pub fn rest(&self) {
        self.kinds.clear_controllers();
    }

    /// A client that writes as long as the term holds.
    pub fn guarded(&self, term: &Term) -> Client {
        term.guard(self.client.clone())
    }

    /// Has the webhooks' authority and configurations in order; for who holds the Lease, by its guarded client.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn install_webhooks(&self, client: &Client) -> Result<(), LandscapeError> {
        patiently(|| self.look_after(client)).await
    }

    /// Installs everything else, and returns when writes of our kinds are reviewed; for who holds the Lease, by its
    /// guarded client.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn install(&self, client: &Client) -> Result<(), LandscapeError> {
        let setup = self.setup(client);
        patiently(|| setup.definitions()).await?;
        patiently(|| self.reviewed(client)).await?;
        patiently(|| setup.roles()).await?;
        patiently(|| setup.defaults()).await
    }

    /// Runs the controllers in `tasks`, with `planes` for their clusters; for who holds the Lease, by its guarded
    /// client.
    pub fn run_controllers(&self, tasks: &Tasks, client: &Client, planes: &Planes) -> Arc<Controllers> {
        let images = Deployments::new(client.clone(), self.environment.clone());
        let directory = planes.providers(client.clone()).with_runner(Arc::new(images));
        let controllers = Arc::new(start(tasks, client, directory, &self.seams, &self.settings));
        planes.set_controllers(&controllers);
        let (kinds, known) = (self.kinds.clone(), controllers.clone());
        tasks.spawn(async move {
            // Until then those of before know more.
            known.synced().await;
            kinds.set_controllers(known);
        });
        controllers
    }

    /// Looks after webhooks and definitions until the task is dropped: at once where somebody changes them, and now and then
    /// for what no watch tells of.
    pub async fn keep(&self, client: &Client) {
        let setup = self.setup(client);
        let (mut changes, mut changed) = (installed::changes(client), 0_u32);
        loop {
            tokio::select! {
                biased;
                () = changes.next() => {
                    // Whoever writes it again and again is not fought without a pause.
                    sleep(SETTLE * 2_u32.pow(changed.saturating_sub(MANY_CHANGES).min(MOST_DOUBLED))).await;
                    changed = changed.saturating_add(1);
                }
                () = sleep(LOOK_AFTER_EVERY) => changed = 0,
            }
            if let Err(error) = within(self.look_after(client)).await {
                tell(&self.troubles, "the webhooks cannot be looked after, trying again", &error);
            }
            if let Err(error) = within(setup.definitions()).await {
                tell(&self.troubles, "the definitions cannot be looked after, trying again", &error);
            }
            if let Err(error) = within(self.check_registered(client)).await {
                tell(&self.troubles, "whether the platform's kinds are its own is looked at again in a minute", &error);
            }
        }
    }

    async fn look_after(&self, client: &Client) -> Result<(), LandscapeError> {
        // Before anything is written: what lacks in a landscape of before was deleted.
        let is_made = self.setup(client).is_made().await?;
        let bundle = self.authorities(client.clone()).ensure().await?;
        let (address, user) = (&self.address, self.user.as_str());
        let (seams, term, without_catalog) = (&self.seams, self.identity.as_str(), self.settings.without_catalog);
        let (manager, bundle) = (MANAGER, bundle.as_str());
        Configurations { client, seams, manager, term, address, user, bundle, without_catalog, is_made }.apply().await
    }

    fn authorities(&self, client: Client) -> Authorities {
        Authorities::new(client, self.keys.clone(), self.seams.clone(), MANAGER)
    }

    /// Asks, as a dry run, for something that is stamped first and then refused for its fields: any other answer
    /// says that the server does not ask yet, or not here.
    async fn reviewed(&self, client: &Client) -> Result<(), LandscapeError> {
        let rule = serde_json::json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        let probe = serde_json::json!({"apiVersion": "cluster.openmcp.cloud/v1alpha1", "kind": "AccessRequest",
            "metadata": {"name": "probe"}, "spec": {"permissions": [{"rules": [rule]}]}});
        let kind = "AccessRequest";
        let probe: AccessRequest = serde_json::from_value(probe)
            .map_err(|error| LandscapeError::Manifest { kind, source: Box::new(error) })?;
        let params = PostParams { dry_run: true, field_manager: Some(MANAGER.to_owned()) };
        let waits = |why: String| LandscapeError::Wait { what: "admission by webhook".to_owned(), source: why.into() };
        match Api::<AccessRequest>::namespaced(client.clone(), SYSTEM_NAMESPACE).create(&params, &probe).await {
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
            // It was not stamped. Other refusals are for a lack of rights, and stay.
            Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("admission webhook") => {
                Err(waits(status.message.clone()))
            }
            Err(error) => Err(call_failed("have a write reviewed".to_owned(), error)),
            Ok(_) => Err(waits("the API server does not ask for reviews yet".to_owned())),
        }
    }
}

/// Why an identity is hardly the platform's own: its writes of our kinds are judged by no rule of ownership.
fn shared(user: &str, groups: &[String]) -> Option<&'static str> {
    if groups.iter().any(|group| group == GROUP_MASTERS) {
        return Some("the platform acts as a member of system:masters");
    }
    let own = user.starts_with("system:serviceaccount:") && !user.ends_with(":default");
    (!own).then_some("the platform acts by an identity that is no ServiceAccount of its own")
}

/// Does something until the server does it. What it will never do is an error.
async fn patiently<F>(mut what: impl FnMut() -> F) -> Result<(), LandscapeError>
where
    F: Future<Output = Result<(), LandscapeError>>,
{
    let (mut wait, troubles) = (FIRST_RETRY, Troubles::default());
    loop {
        let error = match within(what()).await {
            Ok(()) => return Ok(()),
            Err(error) if is_passing(&error) => error,
            Err(error) => return Err(error),
        };
        let text = chain(&error);
        // What is in order within a second is nobody's trouble, and what lasts is said once a minute.
        if wait < Duration::from_secs(1) {
            info!(error = %text, "waiting for the API server");
        } else if troubles.again(&text).is_some() {
            warn!(error = %text, "waiting for the API server{}", advice(&error));
        }
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_RETRY);
    }
}

/// One try, which a connection that nobody answers on must not hold up.
async fn within(what: impl Future<Output = Result<(), LandscapeError>>) -> Result<(), LandscapeError> {
    match timeout(TRY_LIMIT, what).await {
        Ok(done) => done,
        Err(error) => {
            Err(LandscapeError::Wait { what: "what the API server was asked for".to_owned(), source: Box::new(error) })
        }
    }
}

/// Whether trying again may help: a kind is not served yet, a webhook not reached yet, a server not there.
fn is_passing(error: &LandscapeError) -> bool {
    match error {
        LandscapeError::Call { source: kube::Error::Api(status), .. } => {
            matches!(status.code, 404 | 409 | 429) || status.code >= 500
        }
        LandscapeError::Call { .. } | LandscapeError::Wait { .. } => true,
        LandscapeError::Serve(_)
        | LandscapeError::Keys(_)
        | LandscapeError::Manifest { .. }
        | LandscapeError::ForeignCatalog { .. }
        | LandscapeError::Foreign { .. }
        | LandscapeError::Nobody => false,
    }
}
