//! YAML to and from JSON values, as `sigs.k8s.io/yaml` converts them.
//!
//! Plain scalars mean what they mean to go-yaml v2, which kubectl and kube-apiserver read with: YAML 1.1,
//! so that `yes`, `no`, `on`, `off`, `y` and `n` are booleans and `010` is eight. Numbers keep their text
//! where JSON has them (`1.0` stays `1.0`). Times are strings. Merge keys (`<<`) are followed. Concatenated
//! JSON is read too.
//!
//! Bounds: the text, the depth ([`crate::json::MAX_DEPTH`]), and what aliases may make of it.

mod read;
mod resolve;
mod write;

pub use write::{to_string, write};

use crate::json::Value;

/// The longest text that is read, in bytes: far above any manifest, small enough for memory.
pub const MAX_LENGTH: usize = 32 * 1024 * 1024;
/// How many nodes and bytes of text anchors may hold and aliases may add, together. Real manifests alias a
/// few values; what aliases of aliases add grows by powers.
pub const MAX_EXPANSION: usize = 4 * 1024 * 1024;

/// One document of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Which document of the stream, from 1; empty ones are counted.
    pub number: usize,
    /// The line that it begins in, from 1.
    pub line: usize,
    /// What it holds.
    pub value: Value,
    /// Keys that stood in one object more than once; the last one counts.
    pub duplicates: Vec<DuplicateKey>,
}

/// A key that stands in one object for another time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: key {key:?} already set in map")]
pub struct DuplicateKey {
    /// The line of the later key, from 1; 0 where it is not known.
    pub line: usize,
    /// The key.
    pub key: String,
    /// Where, as `spec.containers[0].name`.
    pub path: String,
}

/// Why a text is not YAML that JSON can say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("yaml: line {line}: {problem}")]
pub struct YamlError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// The documents of a stream; those that are empty or `null` are left out.
pub fn parse_stream(text: &str) -> Result<Vec<Document>, YamlError> {
    if text.len() > MAX_LENGTH {
        let problem = format!("the text has {} bytes, and at most {MAX_LENGTH} are read", text.len());
        return Err(YamlError { line: 1, problem });
    }
    match read::json_stream(text) {
        Some(documents) => Ok(documents),
        None => read::yaml_stream(text),
    }
}

/// The one document of a text; `null` where there is none.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    let mut documents = parse_stream(text)?.into_iter();
    let first = documents.next();
    match documents.next() {
        Some(second) => {
            let problem = "there is more than one document".to_owned();
            Err(YamlError { line: second.line, problem })
        }
        None => Ok(first.map(|document| document.value).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
