//! Documents that have been written, compressed, shared by all tenants whose documents are equal.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::document::{Document, Encoding};
use crate::recent::Recent;

/// The most bytes of documents that are kept: about ten times what one tenant without definitions can ask
/// for, so that thousands of tenants with documents of their own cost no more than this.
const CAPACITY: usize = 4 * 1024 * 1024;

/// A document as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// The document, compressed (RFC 1952).
    pub(super) gzip: Bytes,
    /// How long it is when it is not.
    pub(super) len: usize,
}

impl Written {
    fn new(text: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing into memory cannot fail.
        let gzip = encoder.write_all(text).and_then(|()| encoder.finish()).unwrap_or_default();
        Written { gzip: gzip.into(), len: text.len() }
    }

    /// The document, not compressed.
    pub(super) fn plain(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        // It was compressed here; reading from memory cannot fail.
        let _ = GzDecoder::new(&*self.gzip).read_to_end(&mut out);
        out
    }
}

type Key = (String, Encoding);

/// Held while a document is written, so that many who ask for one at once wait for it.
type Gate = tokio::sync::Mutex<()>;

#[derive(Debug)]
struct Kept {
    documents: Recent<Key, Written>,
    /// Those that are being written.
    gates: BTreeMap<Key, Weak<Gate>>,
}

impl Default for Kept {
    fn default() -> Self {
        Kept { documents: Recent::new(CAPACITY), gates: BTreeMap::new() }
    }
}

/// The documents of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    kept: Mutex<Kept>,
}

impl Documents {
    /// The document that `digest` names; written if it is not there.
    pub(super) async fn get(&self, digest: &str, document: &Document<'_>, encoding: Encoding) -> Written {
        let key = (digest.to_owned(), encoding);
        if let Some(found) = self.lock().documents.find(&key) {
            return found;
        }
        // Nobody waits for the documents of others.
        let gate = self.lock().gate(&key);
        let _writing = gate.lock().await;
        if let Some(found) = self.lock().documents.find(&key) {
            return found;
        }
        let written = Written::new(&document.write(encoding).await);
        self.lock().documents.keep(key, written.clone(), written.gzip.len());
        written
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn gate(&mut self, key: &Key) -> Arc<Gate> {
        self.gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(gate) = self.gates.get(key).and_then(Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(Gate::default());
        self.gates.insert(key.clone(), Arc::downgrade(&gate));
        gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_back_as_they_were() {
        let text = b"{\"a\":1}".repeat(1000);
        let written = Written::new(&text);
        assert!(written.gzip.len() < text.len() / 10);
        assert_eq!(written.plain(), text);
    }
}
