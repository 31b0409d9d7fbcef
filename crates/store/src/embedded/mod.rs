//! The durable engine: a log of group commits in a folder, with snapshots that let the log begin anew.
//!
//! What is in memory answers reads; the log makes it come back. Files: `FORMAT` says what the folder is,
//! `lock` keeps a second process out, `log-<revision>` are segments named by their first revision,
//! `snapshot-<revision>` is all there was at that revision. How objects lie in memory is left to
//! [`crate::state`], when what is written to [`writer`].

mod files;
mod folder;
mod frame;
mod record;
mod recover;
mod repair;
mod rescue;
#[cfg(any(test, feature = "conformance"))]
pub(crate) mod simulated;
mod snapshot;
mod writer;

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

pub use files::{FileWriter, Files};
pub use recover::Losses;
pub use repair::Repair;

use crate::cursor::Cursor;
use crate::history::HistoryLimits;
use crate::shared::Shared;
use crate::state::State;
use crate::{
    Entry, Key, ListQuery, Outcome, Page, Resource, Revision, Store, StoreError, Tenant, Watch, WatchScope, Write,
};
use writer::{Command, Writer};

const FORMAT: &str = "FORMAT";
const FORMAT_TMP: &str = "FORMAT.tmp";
const FORMAT_PREFIX: &str = "allotment-store ";
pub(crate) const FORMAT_VERSION: u32 = 2;
const LOCK: &str = "lock";
const SNAPSHOT_TMP: &str = "snapshot.tmp";
const LOG_TMP: &str = "log.tmp";

/// Writes that may wait for the writer. More wait at their callers, who hold connections that are counted.
const QUEUE: usize = 1024;

fn log_name(first: u64) -> String {
    format!("log-{first:020}")
}

fn snapshot_name(revision: u64) -> String {
    format!("snapshot-{revision:020}")
}

fn log_revision(name: &str) -> Option<u64> {
    name.strip_prefix("log-").filter(|digits| digits.len() == 20)?.parse().ok()
}

fn snapshot_revision(name: &str) -> Option<u64> {
    name.strip_prefix("snapshot-").filter(|digits| digits.len() == 20)?.parse().ok()
}

/// Why a folder could not be opened. Each variant is one for the operator to act on.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Others may read what is in it.
    #[error("{path} is open to others (mode {mode:04o}), but may hold keys; mend it with: chmod {wanted:04o} {path}")]
    TooWide {
        /// The folder or the file.
        path: String,
        /// Its permissions.
        mode: u32,
        /// What they should be.
        wanted: u32,
    },
    /// Another process has it open.
    #[error("{path} is in use by another process; stop that one, or choose another folder")]
    Locked {
        /// The folder.
        path: String,
    },
    /// It holds something else.
    #[error("{path} is not empty and holds no store (found {found}); choose another folder")]
    Foreign {
        /// The folder.
        path: String,
        /// A file in it.
        found: String,
    },
    /// A newer version of this program wrote it.
    #[error("{path} has format {found}, and this program knows up to {supported}; use a newer one")]
    Newer {
        /// The folder.
        path: String,
        /// Its format.
        found: u32,
        /// The newest known here.
        supported: u32,
    },
    /// The file that says what the folder is makes no sense.
    #[error("{path} does not say which format the folder has; restore the folder from a backup")]
    Format {
        /// That file.
        path: String,
    },
    /// A file is broken elsewhere than at the end of the log, where a power cut may break it.
    #[error(
        "{file} is damaged at byte {offset}: {reason}; restore the folder from a backup, or see what `allot store repair` can keep"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The operating system says no.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// What it said.
        source: io::Error,
    },
}

/// How to open a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much history is kept, in memory and over restarts.
    pub history: HistoryLimits,
    /// Bytes of log after which a snapshot is written, at least. The log may also grow as long as the last
    /// snapshot, so that each byte is written about twice whatever the size.
    pub snapshot_after_bytes: u64,
    /// Zeros that are written behind the end of the log, for writes to come: a disk makes a file longer much
    /// more slowly than it writes into what is there.
    pub log_reserve_bytes: u64,
    /// After so long without a write the log is brought to rest: sealed, and given room for more. At once is
    /// for tests: under load each group of writes would cost another write.
    pub rest_after: Duration,
}

impl Default for Options {
    /// 16 MiB of log are read in some 50 ms; 1 MiB of room is filled in the time of a few syncs.
    fn default() -> Self {
        Options {
            history: HistoryLimits::default(),
            snapshot_after_bytes: 16 << 20,
            log_reserve_bytes: 1 << 20,
            rest_after: Duration::from_millis(20),
        }
    }
}

/// What a folder holds.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The newest revision.
    pub revision: u64,
    /// How many objects there are, of all tenants.
    pub objects: u64,
    /// How many tenants have objects.
    pub tenants: u64,
    /// After which revision watches can begin.
    pub history_after: u64,
    /// The snapshot that was read, and its bytes.
    pub snapshot: Option<(String, u64)>,
    /// The segments of the log that were read.
    pub segments: Vec<SegmentReport>,
}

/// What one segment of the log holds.
#[derive(Clone, Debug, Default)]
pub struct SegmentReport {
    /// Its file name.
    pub name: String,
    /// Group commits.
    pub frames: u64,
    /// Writes.
    pub records: u64,
    /// Up to which byte it is right.
    pub bytes: u64,
    /// Bytes after that, but for zeros: the torn end of a write that was never acknowledged.
    pub torn: u64,
}

impl Report {
    fn describe(&mut self, state: &State) {
        self.revision = state.revision;
        self.history_after = state.history.floor();
        let tenants = state.tenants();
        self.tenants = tenants.len() as u64;
        let counts = tenants.iter().flat_map(|tenant| state.resources(tenant));
        self.objects = counts.map(|(_, objects)| objects as u64).sum();
    }
}

/// Reads the store in the folder `dir` and says what is there, without changing it.
///
/// # Errors
/// As [`Embedded::open`]; it must not be in use.
pub async fn check(dir: &Path) -> Result<Report, OpenError> {
    let files = existing(dir)?;
    let checked = files.clone();
    run_apart(&files, async move {
        if recover::recognise(&*checked).await?.is_none() {
            return Ok(Report::default());
        }
        lock(&*checked).await?;
        Ok(recover::load(&*checked, HistoryLimits::default()).await?.report)
    })
    .await
}

/// Says what [`repair()`] would do to the store in the folder `dir`, without changing it.
///
/// # Errors
/// As [`Embedded::open`], but for damage, which is what it is about.
pub async fn plan_repair(dir: &Path, restored: bool) -> Result<Repair, OpenError> {
    let files = existing(dir)?;
    let planned = files.clone();
    run_apart(&files, async move {
        lock(&*planned).await?;
        repair::plan(&planned, restored).await
    })
    .await
}

/// Repairs the store in the folder `dir`: the log is cut where it stops being right, of a damaged snapshot what is
/// right is kept, what is lost is put aside in files that nothing reads, and the revision jumps, so that clients
/// see that they have missed something. `restored`: also where nothing is damaged, since the folder comes from a
/// backup and clients may have seen what came after that. Does nothing if there is nothing to do.
///
/// # Errors
/// As [`plan_repair`].
pub async fn repair(dir: &Path, restored: bool) -> Result<Repair, OpenError> {
    let files = existing(dir)?;
    let repaired = files.clone();
    run_apart(&files, async move { repair::apply(&repaired, restored).await }).await
}

/// The folder `dir`, which is there and holds a store.
fn existing(dir: &Path) -> Result<Arc<dyn Files>, OpenError> {
    if !dir.is_dir() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(OpenError::Io { action: "read", path: dir.display().to_string(), source });
    }
    Ok(Arc::new(folder::Folder::open(dir)?))
}

async fn lock(files: &dyn Files) -> Result<(), OpenError> {
    match files.lock().await {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::Locked { path: files.path("") }),
        Err(source) => Err(OpenError::Io { action: "lock", path: files.path(LOCK), source }),
    }
}

/// A durable store in a folder. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    /// Why writes are refused, if they are.
    broken: Arc<OnceLock<Arc<str>>>,
    report: Arc<Report>,
    /// The writer, where it is a task; dropped with the last clone.
    _tasks: Arc<JoinSet<()>>,
}

impl Embedded {
    /// Opens the folder `dir`, which is made if it is absent, and reads it.
    ///
    /// # Errors
    /// Every variant of [`OpenError`]; but for [`OpenError::Io`] the folder is then as it was.
    pub async fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(folder::Folder::open(dir)?), options).await
    }

    /// Opens a store on other files than a folder's.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub async fn open_on(files: Arc<dyn Files>, options: Options) -> Result<Self, OpenError> {
        let opened = files.clone();
        let (writer, state, report) = run_apart(&files, async move { writer::open(opened, options).await }).await?;
        for segment in report.segments.iter().filter(|segment| segment.torn > 0) {
            tracing::warn!(
                file = segment.name,
                offset = segment.bytes,
                bytes = segment.torn,
                "cut the torn end of the log"
            );
        }
        let (commands, queue) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared::new(state));
        let broken = Arc::new(OnceLock::new());
        let mut tasks = JoinSet::new();
        let task = Writer::new(writer, shared.clone(), broken.clone()).run(queue);
        spawn(files.blocks(), &mut tasks, "store-writer", task).map_err(|source| OpenError::Io {
            action: "start a thread for",
            path: files.path(""),
            source,
        })?;
        Ok(Embedded { shared, commands, broken, report: Arc::new(report), _tasks: Arc::new(tasks) })
    }

    /// What was found when it was opened.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Why writes are refused, if they are: the disk is full, read-only, or failed. It names no file.
    pub fn read_only(&self) -> Option<Arc<str>> {
        self.broken.get().cloned()
    }

    /// Forgets all history up to `revision`, or up to the newest, in memory.
    pub fn compact(&self, revision: Revision) {
        self.shared.write().compact(revision.0);
    }

    /// Waits until nothing is written any more, since the writer has ended: it panicked, if [`Embedded::close`] was not called.
    /// What was acknowledged is in the folder.
    pub async fn ended(&self) {
        self.commands.closed().await;
    }

    /// Finishes what was sent and lets the folder go; later writes are refused, reads go on.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.commands.send(Command::Close(done)).await.is_ok() {
            // An error means that the writer is gone, which is as good.
            let _ = closed.await;
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the store is closed".into() }
}

#[async_trait]
impl Store for Embedded {
    async fn commit(&self, write: Write) -> Result<Outcome, StoreError> {
        let (reply, answer) = oneshot::channel();
        let gone = || match self.read_only() {
            Some(reason) => StoreError::ReadOnly { reason },
            None => closed(),
        };
        self.commands.send(Command::Write(write.into(), reply)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(StoreError::Unknown { reason: "the store was closed meanwhile".into() }))
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, StoreError> {
        Ok(self.shared.get(key))
    }

    async fn list(&self, query: ListQuery) -> Result<Page, StoreError> {
        self.shared.list(&query)
    }

    async fn watch(&self, scope: WatchScope, from: Revision) -> Result<Box<dyn Watch>, StoreError> {
        Ok(Box::new(Cursor::new(self.shared.clone(), scope, from)?))
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.shared.revision())
    }

    async fn writable(&self) -> Result<(), StoreError> {
        match self.read_only() {
            Some(reason) => Err(StoreError::ReadOnly { reason }),
            None if self.commands.is_closed() => Err(closed()),
            None => Ok(()),
        }
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        Ok(self.shared.read().tenants())
    }

    async fn resources(&self, tenant: &Tenant) -> Result<Vec<(Resource, usize)>, StoreError> {
        Ok(self.shared.read().resources(tenant))
    }
}

/// Runs a future by itself: on a thread of its own if it blocks, else as a task of the set.
fn spawn(
    blocks: bool,
    tasks: &mut JoinSet<()>,
    name: &str,
    future: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    if blocks {
        // It waits for channels and for time to pass, so it needs no sockets.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(future))?;
    } else {
        tasks.spawn(future);
    }
    Ok(())
}

/// Runs a future that may block, and waits for it.
async fn run_apart<T: Send + 'static>(
    files: &Arc<dyn Files>,
    future: impl Future<Output = Result<T, OpenError>> + Send + 'static,
) -> Result<T, OpenError> {
    if !files.blocks() {
        return future.await;
    }
    let path = files.path("");
    let io = move |source| OpenError::Io { action: "read", path, source };
    let (done, result) = oneshot::channel();
    let mut tasks = JoinSet::new();
    let task = async move {
        // Nobody waits any more if the caller was dropped.
        let _ = done.send(future.await);
    };
    spawn(true, &mut tasks, "store-open", task).map_err(io.clone())?;
    result.await.unwrap_or_else(|_| Err(io(io::Error::other("the thread that reads it ended"))))
}
