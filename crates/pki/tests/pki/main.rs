//! Keys, certificates, tokens and kubeconfigs through the public interface, and against openssl where it
//! is installed.

mod certificates;
mod kubeconfigs;
mod tokens;

use allotment_pki::{CertificateAuthority, KeySource as _, PrivateKey, RandomKeys};

/// 2026-07-01T00:00:00Z
const NOW: i64 = 1_782_864_000;
const DAY: i64 = 86_400;

fn key() -> PrivateKey {
    RandomKeys.generate().expect("a key")
}

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name, key(), NOW, 3650 * DAY).expect("a CA")
}
