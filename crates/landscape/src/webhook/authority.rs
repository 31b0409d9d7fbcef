//! The authority of the webhooks' certificates: one Secret for all replicas, made and renewed by who holds the
//! Lease. What it can issue is believed to judge writes, so it lies where all lies that can mint rights.
//!
//! # Flow
//! A new authority is believed before it is used: it joins the bundle as the `next` one, becomes the
//! current one when the bundle has been in force for a while, and is believed as the `previous` one until it ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use allotment_api::names::PLANES_NAMESPACE;
use allotment_controllers::frame::{Seams, is_conflict};
use allotment_pki::{
    BACKDATE_SECS, Certificate, CertificateAuthority, CertificatePair, KeySource, Leaf, LeafUsage, PkiError,
    SubjectName,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::landscape::LandscapeError;
use crate::manifests::call_failed;

/// The Secret that keeps the authority, in namespace `allot-planes`.
pub const WEBHOOK_AUTHORITY: &str = "webhook-authority";

const CURRENT: &str = "ca";
const NEXT: &str = "next";
const PREVIOUS: &str = "previous";
/// How long an authority holds: a year.
const LIFETIME_SECS: i64 = 365 * 24 * 3600;
/// How long a certificate of a replica holds; it is issued anew after two thirds of that.
const LEAF_LIFETIME_SECS: i64 = 30 * 24 * 3600;
/// How long the next authority has been in the bundle when it is used: replicas and API servers look far more often.
const OVERLAP_SECS: i64 = 3600;

/// What webhooks are served with.
#[derive(Clone)]
pub struct Authority {
    current: CertificateAuthority,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Authority").field("certificate", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Authority {
    /// Tells authorities apart.
    pub fn fingerprint(&self) -> String {
        self.current.certificate().fingerprint()
    }

    /// A serving certificate for these names.
    ///
    /// # Errors
    /// No key or certificate could be made.
    pub fn issue(&self, names: &[SubjectName], keys: &dyn KeySource, now: i64) -> Result<CertificatePair, PkiError> {
        let leaf = Leaf {
            common_name: "allotment-webhooks".to_owned(),
            organization: None,
            usage: LeafUsage::Server,
            names: names.to_vec(),
            lifetime_secs: LEAF_LIFETIME_SECS,
        };
        self.current.issue(&leaf, keys.generate()?, now)
    }
}

/// Whether a certificate has lived two thirds of its time at `now`, in seconds since 1970: it is time for the next one.
pub fn is_due(certificate: &Certificate, now: i64) -> bool {
    let whole = certificate.not_after() - certificate.not_before();
    now >= certificate.not_before() + whole / 3 * 2
}

/// Keeps the Secret.
#[derive(Clone)]
pub(crate) struct Authorities {
    secrets: Api<Secret>,
    keys: Arc<dyn KeySource>,
    seams: Seams,
    manager: &'static str,
}

/// What the Secret holds.
struct Kept {
    current: CertificateAuthority,
    next: Option<CertificateAuthority>,
    previous: Option<Certificate>,
}

impl Authorities {
    pub(crate) fn new(client: Client, keys: Arc<dyn KeySource>, seams: Seams, manager: &'static str) -> Self {
        Authorities { secrets: Api::namespaced(client, PLANES_NAMESPACE), keys, seams, manager }
    }

    /// The authority in use; none if nobody has made one yet.
    pub(crate) async fn read(&self) -> Result<Option<Authority>, LandscapeError> {
        let kept = self.get().await?.and_then(|secret| read(&secret));
        Ok(kept.map(|kept| Authority { current: kept.current }))
    }

    /// Makes the authority, or brings its renewal a step on; gives the bundle to believe, as PEM.
    pub(crate) async fn ensure(&self) -> Result<String, LandscapeError> {
        let there = self.get().await?;
        let now = self.seams.now().as_second();
        let (kept, changed) = match there.as_ref().and_then(read) {
            // What cannot be read is replaced: nothing but the webhooks' certificates hangs on it.
            None => (Kept { current: self.new_authority(now)?, next: None, previous: None }, true),
            Some(kept) => self.renew(kept, now)?,
        };
        if changed {
            self.write(there, &kept).await?;
        }
        Ok(kept.bundle(now))
    }

    fn new_authority(&self, now: i64) -> Result<CertificateAuthority, PkiError> {
        CertificateAuthority::new("allotment-webhooks", self.keys.generate()?, now, LIFETIME_SECS)
    }

    /// The next step of the renewal, if it is time for one.
    fn renew(&self, kept: Kept, now: i64) -> Result<(Kept, bool), PkiError> {
        let Kept { current, next, previous } = kept;
        let ended = |authority: &CertificateAuthority| now >= authority.certificate().not_after();
        if ended(&current) {
            // Nobody believes it any more, so there is nothing to overlap with.
            let next = next.filter(|next| !ended(next)).map_or_else(|| self.new_authority(now), Ok)?;
            return Ok((Kept { current: next, next: None, previous: None }, true));
        }
        match next {
            Some(next) if now >= next.certificate().not_before() + BACKDATE_SECS + OVERLAP_SECS => {
                let previous = Some(current.certificate().clone());
                Ok((Kept { current: next, next: None, previous }, true))
            }
            None if is_due(current.certificate(), now) => {
                let next = Some(self.new_authority(now)?);
                Ok((Kept { current, next, previous }, true))
            }
            next => Ok((Kept { current, next, previous }, false)),
        }
    }

    async fn get(&self) -> Result<Option<Secret>, LandscapeError> {
        let secret = self.secrets.get_opt(WEBHOOK_AUTHORITY).await;
        secret.map_err(|error| call_failed(format!("read Secret {PLANES_NAMESPACE}/{WEBHOOK_AUTHORITY}"), error))
    }

    async fn write(&self, there: Option<Secret>, kept: &Kept) -> Result<(), LandscapeError> {
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let written = match there {
            None => self.secrets.create(&params, &kept.secret(ObjectMeta::default())).await,
            // In the state that was seen: of two who renew only one does.
            Some(there) => self.secrets.replace(WEBHOOK_AUTHORITY, &params, &kept.secret(there.metadata)).await,
        };
        match written {
            Err(error) if is_conflict(&error) => Err(call_failed(
                format!("renew Secret {PLANES_NAMESPACE}/{WEBHOOK_AUTHORITY}, which changed meanwhile"),
                error,
            )),
            written => written
                .map(drop)
                .map_err(|error| call_failed(format!("write Secret {PLANES_NAMESPACE}/{WEBHOOK_AUTHORITY}"), error)),
        }
    }
}

impl Kept {
    fn bundle(&self, now: i64) -> String {
        let others = [self.next.as_ref().map(CertificateAuthority::certificate), self.previous.as_ref()];
        let valid = others.into_iter().flatten().filter(|certificate| now < certificate.not_after());
        let mut bundle = self.current.certificate().to_pem();
        valid.for_each(|certificate| bundle.push_str(&certificate.to_pem()));
        bundle
    }

    fn secret(&self, metadata: ObjectMeta) -> Secret {
        let mut data = BTreeMap::new();
        let mut put = |name: String, text: &str| data.insert(name, ByteString(text.as_bytes().to_vec()));
        for (name, authority) in [(CURRENT, Some(&self.current)), (NEXT, self.next.as_ref())] {
            if let Some(authority) = authority {
                put(format!("{name}.crt"), &authority.pair().certificate_pem());
                put(format!("{name}.key"), &authority.pair().key_pem());
            }
        }
        if let Some(previous) = &self.previous {
            put(format!("{PREVIOUS}.crt"), &previous.to_pem());
        }
        let metadata = ObjectMeta { name: Some(WEBHOOK_AUTHORITY.to_owned()), managed_fields: None, ..metadata };
        Secret { metadata, data: Some(data), type_: Some("Opaque".to_owned()), ..Secret::default() }
    }
}

/// What the Secret holds; none where its current authority cannot be read.
fn read(secret: &Secret) -> Option<Kept> {
    let text = |name: String| {
        let bytes = secret.data.as_ref()?.get(&name)?;
        std::str::from_utf8(&bytes.0).ok()
    };
    let authority =
        |name: &str| CertificateAuthority::from_pem(text(format!("{name}.crt"))?, text(format!("{name}.key"))?).ok();
    let previous = text(format!("{PREVIOUS}.crt")).and_then(|pem| Certificate::from_pem(pem).ok());
    Some(Kept { current: authority(CURRENT)?, next: authority(NEXT), previous })
}

#[cfg(test)]
mod tests {
    use super::*;
    use allotment_machinery::seams::{Clock, Entropy};
    use allotment_pki::RandomKeys;
    use jiff::Timestamp;

    #[derive(Debug)]
    struct At(i64);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.0).expect("a time")
        }
    }

    #[derive(Debug)]
    struct Zeros;

    impl Entropy for Zeros {
        fn fill(&self, out: &mut [u8]) {
            out.fill(0);
        }
    }

    fn authorities() -> Authorities {
        let unused = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody asks"))
        });
        let seams = Seams { clock: Arc::new(At(0)), entropy: Arc::new(Zeros) };
        Authorities::new(Client::new(unused, "default"), Arc::new(RandomKeys), seams, "test")
    }

    #[tokio::test]
    async fn an_authority_that_has_ended_is_replaced_at_once() {
        let authorities = authorities();
        let begin = 1_800_000_000;
        let first = authorities.new_authority(begin).expect("made");
        let late = begin + LIFETIME_SECS + 1;
        let check = |next: Option<CertificateAuthority>, kept_next: bool| {
            let kept = Kept { current: first.clone(), next: next.clone(), previous: None };
            let (kept, changed) = authorities.renew(kept, late).expect("a step");
            let current = kept.current.certificate();
            assert!(changed && current != first.certificate() && late < current.not_after());
            assert_eq!(next.is_some_and(|next| next.certificate() == current), kept_next);
            assert_eq!(kept.bundle(late), current.to_pem(), "nothing else is believed");
        };
        check(None, false);
        check(Some(authorities.new_authority(late - 60).expect("made")), true);
        check(Some(authorities.new_authority(begin - 3600).expect("made")), false);
    }

    #[tokio::test]
    async fn an_authority_is_believed_before_it_is_used_and_until_its_last_certificate_ends() {
        let authorities = authorities();
        let begin = 1_800_000_000;
        let first = authorities.new_authority(begin).expect("made");
        let kept = Kept { current: first.clone(), next: None, previous: None };
        let (kept, changed) = authorities.renew(kept, begin + LIFETIME_SECS / 3).expect("no step");
        assert!(!changed);
        let due = begin + LIFETIME_SECS * 2 / 3 + 1;
        let (kept, changed) = authorities.renew(kept, due).expect("a step");
        assert!(changed && kept.current.certificate() == first.certificate(), "the old one is used on");
        let next = kept.next.clone().expect("the next one is made");
        assert!(kept.bundle(due).contains(&next.certificate().to_pem()), "and believed");
        let (kept, changed) = authorities.renew(kept, due + OVERLAP_SECS - 1).expect("no step");
        assert!(!changed, "not before everybody has heard of it");
        let (kept, changed) = authorities.renew(kept, due + OVERLAP_SECS).expect("a step");
        assert!(changed && kept.current.certificate() == next.certificate() && kept.next.is_none());
        assert!(kept.bundle(due).contains(&first.certificate().to_pem()), "certificates of before are believed");
        assert!(!kept.bundle(begin + LIFETIME_SECS + 1).contains(&first.certificate().to_pem()));

        let again = read(&kept.secret(ObjectMeta::default())).expect("it can be read");
        assert_eq!(again.bundle(due), kept.bundle(due));
    }
}
