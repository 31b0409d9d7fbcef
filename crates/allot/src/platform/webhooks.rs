//! The webhooks' listener: its certificate, and whether it is served. What comes there is answered by [`reviews`].
//!
//! Whoever reaches it may ask for reviews. They say what the scheduler would decide, and change nothing.

mod reviews;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use allotment_apiserver::listener;
use allotment_apiserver::tls::{ServingCertificates, server_config};
use allotment_controllers::frame::Tasks;
use allotment_landscape::Beside;
use allotment_landscape::webhook::is_due;
use allotment_pki::{CertificatePair, RandomKeys, SubjectName};
use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::reviews::{Reviews, limits};
use super::duty::Duty;
use super::seams;
use crate::exit::{Code, Failure};

/// How often is looked for the authority before there is one, and after.
const FIRST_LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// The webhooks of a replica.
#[derive(Debug)]
pub(super) struct Webhooks {
    served: CancellationToken,
    /// Cancelled once they are not, or not any more; `why` is set before. A panic is told by the alarm of the tasks alone.
    failed: CancellationToken,
    why: Arc<OnceLock<String>>,
}

impl Webhooks {
    /// Serves reviews in `tasks`, from the moment at which there is an authority to issue a certificate. Those that are
    /// being judged when the tasks are stopped are answered. `leaving` says that the process is about to end.
    pub(super) fn start(
        tasks: &Tasks,
        beside: Arc<Beside>,
        listener: TcpListener,
        names: Vec<SubjectName>,
        leaving: CancellationToken,
        duty: Duty,
    ) -> Self {
        let (served, failed, why) =
            (CancellationToken::new(), CancellationToken::new(), Arc::<OnceLock<String>>::default());
        let (within, tell, told, ended) = (tasks.clone(), served.clone(), why.clone(), failed.clone());
        tasks.spawn(async move {
            let Err(error) = run(&within, &beside, listener, names, (leaving, duty), &tell).await;
            told.get_or_init(|| format!("webhooks cannot be served: {error:#}"));
            ended.cancel();
        });
        Webhooks { served, failed, why }
    }

    /// Waits until they are served.
    pub(super) async fn served(&self) -> Result<(), Failure> {
        tokio::select! {
            biased;
            () = self.served.cancelled() => Ok(()),
            failure = self.failed() => Err(failure),
        }
    }

    /// Waits until they are served no longer, and says why.
    pub(super) async fn failed(&self) -> Failure {
        self.failed.cancelled().await;
        Failure::new(Code::Failed, self.why.get().cloned().unwrap_or("webhooks are served no longer".to_owned()))
    }
}

/// Serves reviews; ends where they cannot be served.
async fn run(
    tasks: &Tasks,
    beside: &Arc<Beside>,
    listener: TcpListener,
    names: Vec<SubjectName>,
    (leaving, duty): (CancellationToken, Duty),
    served: &CancellationToken,
) -> anyhow::Result<std::convert::Infallible> {
    let mut own = Own { names, issuer: String::new(), pair: None };
    let certificates = loop {
        match own.renewed(beside).await {
            Ok(Some(pair)) => match ServingCertificates::new(&pair) {
                Ok(certificates) => break Arc::new(certificates),
                Err(error) => warn!(error = %anyhow::Error::from(error), "the webhooks' certificate cannot be used"),
            },
            Ok(None) => {}
            Err(error) => {
                warn!(error = %format!("{error:#}"), "the webhooks' certificate cannot be issued, trying again")
            }
        }
        tokio::time::sleep(FIRST_LOOK_EVERY).await;
    };
    let config = server_config(certificates.clone())?;
    let (reviews, stop) = (Reviews::new(beside.webhook(), leaving, duty), tasks.stopping());
    let (ended, mut end) = tokio::sync::oneshot::channel();
    tasks.spawn_draining(async move {
        // Nobody waits for it any more where the tasks are being stopped.
        let _ = ended.send(listener::serve(listener, Some(config), reviews, limits(), stop).await);
    });
    served.cancel();
    loop {
        tokio::select! {
            biased;
            ended = &mut end => match ended {
                Ok(ended) => {
                    ended.context("the listener cannot be used")?;
                    anyhow::bail!("the listener has ended");
                }
                // It panicked, which the alarm says, or all tasks end.
                Err(_) => std::future::pending().await,
            },
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match own.renewed(beside).await {
            Ok(Some(pair)) => {
                if let Err(error) = certificates.set_platform(&pair) {
                    warn!(error = %anyhow::Error::from(error), "the webhooks' new certificate cannot be used");
                }
            }
            Ok(None) => {}
            Err(error) => warn!(error = %format!("{error:#}"), "the webhooks' certificate cannot be looked after"),
        }
    }
}

/// This replica's certificate.
struct Own {
    names: Vec<SubjectName>,
    /// Fingerprint of the authority that issued it.
    issuer: String,
    pair: Option<CertificatePair>,
}

impl Own {
    /// A new certificate, if there is an authority and it is time for one.
    async fn renewed(&mut self, beside: &Beside) -> anyhow::Result<Option<CertificatePair>> {
        let Some(authority) = beside.authority().await? else { return Ok(None) };
        let now = seams().now().as_second();
        let due = self.pair.as_ref().is_none_or(|pair| is_due(pair.certificate(), now));
        if !due && self.issuer == authority.fingerprint() {
            return Ok(None);
        }
        let pair = authority.issue(&self.names, &RandomKeys, now).context("no certificate can be issued")?;
        self.issuer = authority.fingerprint();
        self.pair = Some(pair.clone());
        Ok(Some(pair))
    }
}
