//! What the outside world gives and a simulation replaces: time and randomness. Only traits stand here;
//! the real ones are made by the binary, the seeded ones by the simulator.

use std::fmt::Debug;

/// Tells the time. Wall clock, never going back within one process.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> jiff::Timestamp;
}

/// Gives random bytes; every name, UID and nonce comes from here. Keys of certificates and tokens do
/// not: they come from the key source of `pki`.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills `out`.
    fn fill(&self, out: &mut [u8]);

    /// A random (version 4) UUID in its usual text form.
    fn uid(&self) -> String {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for half in [byte >> 4, byte & 0x0f] {
                text.push(char::from(b"0123456789abcdef"[usize::from(half)]));
            }
        }
        text
    }

    /// `length` characters of the alphabet that Kubernetes takes for generated names: no vowels, so no
    /// words, and nothing easily mistaken.
    fn suffix(&self, length: usize) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
    }
}
