//! The certificates that a process issues for itself: its listener's and the admin's. They hold for
//! `--leaf-lifetime`, and others take their place long before they end, while everything runs: connections that are
//! there stay, those that come see the new one.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use allotment_apiserver::auth::GROUP_MASTERS;
use allotment_apiserver::tls::ServingCertificates;
use allotment_controllers::frame::Seams;
use allotment_pki::{CertificateAuthority, CertificatePair, KeySource as _, Leaf, LeafUsage, RandomKeys, SubjectName};
use jiff::Timestamp;
use tracing::{info, warn};

/// Names by which clients on this machine, and pods by habit, call an API server.
const USUAL_NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// In what part of its lifetime a certificate is replaced: the last third leaves time for what goes wrong.
const LAST_PART: u32 = 3;
/// In what part of its lifetime a renewal that failed is tried again.
const RETRY_PART: u32 = 30;

/// Issues certificates of one platform.
#[derive(Clone)]
pub(super) struct Issuer {
    authority: CertificateAuthority,
    names: Vec<SubjectName>,
    lifetime: Duration,
}

impl Issuer {
    /// Certificates of this authority for a listener with these names beside the usual ones.
    pub(super) fn new(authority: &CertificateAuthority, further: &[SubjectName], lifetime: Duration) -> Self {
        let mut names: Vec<SubjectName> = USUAL_NAMES.into_iter().map(SubjectName::from).collect();
        for name in further {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Issuer { authority: authority.clone(), names, lifetime }
    }

    /// The listener's certificate.
    pub(super) fn serving(&self, now: Timestamp) -> anyhow::Result<CertificatePair> {
        self.issue("allotment", None, LeafUsage::Server, self.names.clone(), now)
    }

    /// The admin's certificate.
    pub(super) fn admin(&self, now: Timestamp) -> anyhow::Result<CertificatePair> {
        self.issue("allotment-admin", Some(GROUP_MASTERS.to_owned()), LeafUsage::Client, Vec::new(), now)
    }

    fn issue(
        &self,
        name: &str,
        organization: Option<String>,
        usage: LeafUsage,
        names: Vec<SubjectName>,
        now: Timestamp,
    ) -> anyhow::Result<CertificatePair> {
        let lifetime_secs = i64::try_from(self.lifetime.as_secs())?;
        let leaf = Leaf { common_name: name.to_owned(), organization, usage, names, lifetime_secs };
        Ok(self.authority.issue(&leaf, RandomKeys.generate()?, now.as_second())?)
    }
}

/// Issues the listener's certificate anew as long as it is served, and with it whatever `with` writes; `begun` is when
/// those of now were issued. What fails is tried again, long before anything ends.
pub(super) async fn renew<F>(
    issuer: Issuer,
    certificates: Arc<ServingCertificates>,
    seams: Seams,
    begun: Timestamp,
    with: impl Fn(Timestamp) -> F,
) where
    F: Future<Output = anyhow::Result<()>>,
{
    let first = issuer.lifetime - issuer.lifetime / LAST_PART;
    let mut due = after(begun, first);
    loop {
        // A long sleep comes in parts, since the clock may be set meanwhile.
        while seams.now() < due {
            tokio::time::sleep(seams.until(due)).await;
        }
        let now = seams.now();
        let renewed = async {
            certificates.set_platform(&issuer.serving(now)?)?;
            with(now).await
        };
        due = match renewed.await {
            Ok(()) => {
                info!("the certificates of the listener and of the admin were issued anew");
                after(now, first)
            }
            Err(error) => {
                warn!(error = %format!("{error:#}"), "certificates cannot be issued anew, trying again");
                after(now, issuer.lifetime / RETRY_PART)
            }
        };
    }
}

fn after(time: Timestamp, span: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(span).ok().and_then(|span| time.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use allotment_machinery::seams::Clock;
    use tokio::time::Instant;

    use super::*;
    use crate::platform::seams;

    /// Tells the time of a paused runtime.
    #[derive(Debug)]
    struct Paused(Instant, Timestamp);

    impl Clock for Paused {
        fn now(&self) -> Timestamp {
            after(self.1, self.0.elapsed())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn certificates_are_replaced_in_the_last_third_and_failures_tried_again() {
        let begun = Timestamp::from_second(1_800_000_000).expect("a time");
        let seams = Seams { clock: Arc::new(Paused(Instant::now(), begun)), ..seams() };
        let key = RandomKeys.generate().expect("a key");
        let authority = CertificateAuthority::new("test", key, begun.as_second(), 86_400).expect("a CA");
        let issuer = Issuer::new(&authority, &["example.com".into()], Duration::from_secs(60));
        let pair = issuer.serving(begun).expect("a certificate");
        assert_eq!(pair.certificate().not_after(), begun.as_second() + 60);
        let certificates = Arc::new(ServingCertificates::new(&pair).expect("it can be served"));
        let times = Arc::new(Mutex::new(Vec::new()));
        let written = times.clone();
        let with = move |now: Timestamp| {
            let mut times = written.lock().expect("nobody panicked");
            times.push(now.as_second() - 1_800_000_000);
            // No room for a file, once.
            let failed = times.len() == 2;
            async move { if failed { anyhow::bail!("no room") } else { Ok(()) } }
        };
        let renewing = renew(issuer, certificates, seams, begun, with);
        assert!(tokio::time::timeout(Duration::from_secs(170), renewing).await.is_err());
        assert_eq!(*times.lock().expect("nobody panicked"), [40, 80, 82, 122, 162]);
    }

    #[test]
    fn a_certificate_is_for_the_usual_names_and_those_asked_for_and_no_name_twice() {
        let key = RandomKeys.generate().expect("a key");
        let authority = CertificateAuthority::new("test", key, 1_800_000_000, 86_400).expect("a CA");
        let further = ["localhost".into(), "example.com".into(), SubjectName::Ip([192, 0, 2, 1].into())];
        let issuer = Issuer::new(&authority, &further, Duration::from_secs(60));
        assert_eq!(issuer.names.len(), USUAL_NAMES.len() + 2);
    }
}
