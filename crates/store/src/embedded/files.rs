//! What the durable engine needs of a folder, as traits; the real folder stands in [`super::folder`].
//!
//! A simulated folder forgets what was not synced, so that tests see what a power cut does.

use std::fmt::Debug;
use std::io;

use async_trait::async_trait;

/// A flat folder of files.
#[async_trait]
pub trait Files: Debug + Send + Sync + 'static {
    /// Whether calls block their thread; the engine then gives them threads of its own. Otherwise they
    /// are plain futures, and everything runs as tasks of the runtime that it was opened in.
    fn blocks(&self) -> bool;

    /// How messages name the file `name`.
    fn path(&self, name: &str) -> String;

    /// Keeps other processes out until this value is dropped; `false` if one is in. It makes a file
    /// `lock` for that.
    async fn lock(&self) -> io::Result<bool>;

    /// The names of all files.
    async fn names(&self) -> io::Result<Vec<String>>;

    /// Bytes of the file `name` from `offset` on: `len` of them, less only at the end of the file.
    async fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>>;

    /// How long the file `name` is.
    async fn len(&self, name: &str) -> io::Result<u64>;

    /// Makes an empty file `name`, or empties it.
    async fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>>;

    /// Opens the file `name` to write behind its first `end` bytes, which are there.
    async fn append(&self, name: &str, end: u64) -> io::Result<Box<dyn FileWriter>>;

    /// Renames a file, over another if there is one.
    async fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    async fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals durable.
    async fn sync_folder(&self) -> io::Result<()>;
}

/// A file that is written at its end, behind which there may be room for more already.
#[async_trait]
pub trait FileWriter: Debug + Send {
    /// Appends all of `bytes`. An error may leave a part of them, but never all: the last byte is then as it was
    /// before, so that what ends with another byte can be told not to have been written.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes `bytes` behind the end, which stays where it is: the next write replaces them.
    async fn mark(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Fills the file with zeros up to `len` bytes behind its end. What is written there later does not make
    /// the file longer, so that syncing it is a write of its bytes alone.
    async fn reserve(&mut self, len: u64) -> io::Result<()>;

    /// Makes what was written durable.
    async fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to `len` bytes, which is its end from then on.
    async fn truncate(&mut self, len: u64) -> io::Result<()>;
}
