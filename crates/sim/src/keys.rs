//! Keys from a fixed set: making them takes time, and what they are decides nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use allotment_pki::{KeySource, PkiError, PrivateKey};

/// Made for tests and used nowhere else.
const PEM: &str = include_str!("keys.pem");
const END: &str = "-----END PRIVATE KEY-----\n";

/// Hands out the keys of the set, one after the other, again and again.
#[derive(Debug, Default)]
pub(crate) struct FixedKeys {
    next: AtomicUsize,
}

fn keys() -> &'static [PrivateKey] {
    static KEYS: OnceLock<Vec<PrivateKey>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let texts = PEM.split_inclusive(END);
        texts.map(|text| PrivateKey::from_pem(text).expect("the keys of the set are whole")).collect()
    })
}

impl KeySource for FixedKeys {
    fn generate(&self) -> Result<PrivateKey, PkiError> {
        let keys = keys();
        Ok(keys[self.next.fetch_add(1, Ordering::Relaxed) % keys.len()].clone())
    }
}
