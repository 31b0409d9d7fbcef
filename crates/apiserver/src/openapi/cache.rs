//! Documents that have been written, compressed, shared by all tenants whose documents are equal.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::document::{Document, Encoding};

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

#[derive(Debug, Default)]
struct Kept {
    documents: BTreeMap<Key, (Written, u64)>,
    size: usize,
    /// Those that are being written.
    gates: BTreeMap<Key, Weak<Gate>>,
    /// Counts uses, so that what was used longest ago goes first.
    clock: u64,
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
        if let Some(found) = self.lock().find(&key) {
            return found;
        }
        // Nobody waits for the documents of others.
        let gate = self.lock().gate(&key);
        let _writing = gate.lock().await;
        if let Some(found) = self.lock().find(&key) {
            return found;
        }
        let written = Written::new(&document.write(encoding).await);
        self.lock().keep(key, written.clone());
        written
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn find(&mut self, key: &Key) -> Option<Written> {
        self.clock += 1;
        let (written, used) = self.documents.get_mut(key)?;
        *used = self.clock;
        Some(written.clone())
    }

    fn gate(&mut self, key: &Key) -> Arc<Gate> {
        self.gates.retain(|_, gate| gate.strong_count() > 0);
        if let Some(gate) = self.gates.get(key).and_then(Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(Gate::default());
        self.gates.insert(key.clone(), Arc::downgrade(&gate));
        gate
    }

    fn keep(&mut self, key: Key, written: Written) {
        self.clock += 1;
        self.size += written.gzip.len();
        if let Some((old, _)) = self.documents.insert(key, (written, self.clock)) {
            self.size -= old.gzip.len();
        }
        while self.size > CAPACITY {
            let oldest = self.documents.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            let Some((gone, _)) = oldest.and_then(|key| self.documents.remove(&key)) else { return };
            self.size -= gone.gzip.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: u32) -> Key {
        (name.to_string(), Encoding::Json)
    }

    #[test]
    fn documents_come_back_as_they_were() {
        let text = b"{\"a\":1}".repeat(1000);
        let written = Written::new(&text);
        assert!(written.gzip.len() < text.len() / 10);
        assert_eq!(written.plain(), text);
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let document = Written { gzip: vec![0; CAPACITY / 3].into(), len: 0 };
        let mut kept = Kept::default();
        for name in 0..3 {
            kept.keep(key(name), document.clone());
        }
        assert!(kept.find(&key(0)).is_some());
        kept.keep(key(3), document);
        assert!(kept.find(&key(1)).is_none());
        assert!([0, 2, 3].iter().all(|name| kept.find(&key(*name)).is_some()));
        assert!(kept.size <= CAPACITY);
    }
}
