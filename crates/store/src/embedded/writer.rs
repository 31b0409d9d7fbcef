//! The one that writes: takes all writes that wait, checks them against memory, appends them as one frame,
//! syncs, makes them seen, answers; and meanwhile the next ones gather.
//!
//! A disk that fails is not argued with: what may not be on it is answered as unknown, and from then on
//! writes are refused, because nobody knows what such a disk still keeps (a second fsync may succeed
//! without having written anything).

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::files::{FileWriter, Files};
use super::frame;
use super::record::{put_change, put_template};
use super::recover::{self, Recovered};
use super::snapshot::Image;
use super::{
    FORMAT, FORMAT_PREFIX, FORMAT_TMP, FORMAT_VERSION, OpenError, Options, Report, SNAPSHOT_TMP, lock, log_name,
    snapshot_name, spawn,
};
use crate::history::Change;
use crate::shared::{Order, Pending, Shared};
use crate::state::State;
use crate::{Outcome, StoreError};

/// Bytes after which a frame is closed, so that the first of many large writes need not wait for all.
const FRAME_BYTES: usize = 4 << 20;

/// Writes in one frame at most.
const FRAME_WRITES: usize = 1024;

type Reply = oneshot::Sender<Result<Outcome, StoreError>>;

/// What the writer is asked to do.
pub(super) enum Command {
    Write(Order, Reply),
    Close(oneshot::Sender<()>),
}

/// A folder that is ready to be written on.
#[derive(Debug)]
pub(super) struct Opened {
    files: Arc<dyn Files>,
    options: Options,
    log: Box<dyn FileWriter>,
    name: String,
    len: u64,
    snapshot_len: u64,
    templates: BTreeSet<String>,
}

/// Reads a folder and mends what a power cut left; makes it if it is new.
pub(super) async fn open(files: Arc<dyn Files>, options: Options) -> Result<(Opened, State, Report), OpenError> {
    recover::recognise(&*files).await?;
    lock(&*files).await?;
    // Whoever held the lock until now may just have made the folder.
    let format = recover::recognise(&*files).await?;
    let new = format.is_none();
    if new {
        let made = make(&*files).await;
        made.map_err(|source| OpenError::Io { action: "write to", path: files.path(""), source })?;
    }
    let recovered = recover::load(&*files, options.history).await?;
    let path = files.path(&recovered.log);
    let mended = mend(&*files, &recovered, new).await;
    let (log, len) = mended.map_err(|source| OpenError::Io { action: "mend", path, source })?;
    if format.is_some_and(|format| format < FORMAT_VERSION) {
        let raised = write_format(&*files).await;
        raised.map_err(|source| OpenError::Io { action: "write", path: files.path(FORMAT), source })?;
    }
    let Recovered { state, log: name, snapshot_len, report, .. } = recovered;
    let templates = state.seeds.keys().cloned().collect();
    Ok((Opened { files, options, log, name, len, snapshot_len, templates }, state, report))
}

async fn make(files: &dyn Files) -> io::Result<()> {
    begin_log(files, 1).await?;
    write_format(files).await
}

/// Says that the folder has the present format, which takes in what older ones say.
pub(super) async fn write_format(files: &dyn Files) -> io::Result<()> {
    let mut format = files.create(FORMAT_TMP).await?;
    format.write(format!("{FORMAT_PREFIX}{FORMAT_VERSION}\n").as_bytes()).await?;
    format.sync().await?;
    files.rename(FORMAT_TMP, FORMAT).await?;
    files.sync_folder().await
}

/// Makes a durable segment without records.
pub(super) async fn begin_log(files: &dyn Files, first: u64) -> io::Result<Box<dyn FileWriter>> {
    let mut log = files.create(&log_name(first)).await?;
    log.write(&no_records(first)).await?;
    log.sync().await?;
    files.sync_folder().await?;
    Ok(log)
}

/// A frame without records: what a segment begins with, and its seal.
pub(super) fn no_records(first: u64) -> Vec<u8> {
    let mut frame = frame::begin();
    frame::seal(&mut frame, first, 0);
    frame
}

async fn mend(files: &dyn Files, recovered: &Recovered, new: bool) -> io::Result<(Box<dyn FileWriter>, u64)> {
    // A process that ended between a rename and its sync leaves names that are not durable yet.
    if !new {
        files.sync_folder().await?;
    }
    for name in &recovered.obsolete {
        files.remove(name).await?;
    }
    let mut len = recovered.log_len;
    let mut log = files.append(&recovered.log, len).await?;
    if new {
        return Ok((log, len));
    }
    if recovered.report.segments.last().is_some_and(|segment| segment.torn > 0) {
        log.truncate(len).await?;
    }
    // What was read may be in the cache of a system whose disk does not have it yet.
    log.sync().await?;
    if len == 0 {
        log.write(&no_records(recovered.state.revision + 1)).await?;
        log.sync().await?;
        len = frame::HEADER as u64;
    }
    if !recovered.obsolete.is_empty() {
        files.sync_folder().await?;
    }
    Ok((log, len))
}

/// A group of writes on its way to the disk.
struct Group {
    frame: Vec<u8>,
    first: u64,
    changes: Vec<Change>,
    pending: Pending,
    answers: Vec<(Reply, Result<Outcome, StoreError>)>,
    templates: Vec<String>,
}

/// The writer.
#[derive(Debug)]
pub(super) struct Writer {
    files: Arc<dyn Files>,
    options: Options,
    shared: Arc<Shared>,
    broken: Arc<OnceLock<Arc<str>>>,
    log: Box<dyn FileWriter>,
    name: String,
    len: u64,
    /// Up to which byte the log was filled with zeros.
    reserved: u64,
    /// Whether the log has not been brought to rest since it was last written.
    restless: bool,
    /// Names of the templates whose objects are on disk.
    templates: BTreeSet<String>,
    /// The frame buffer, kept to be used again.
    buffer: Vec<u8>,
    /// Bytes of log that ask for the next snapshot.
    snapshot_at: u64,
    snapshot: Option<oneshot::Receiver<Option<u64>>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Writer {
    pub(super) fn new(opened: Opened, shared: Arc<Shared>, broken: Arc<OnceLock<Arc<str>>>) -> Self {
        let Opened { files, options, log, name, len, snapshot_len, templates } = opened;
        Writer {
            files,
            shared,
            broken,
            log,
            name,
            len,
            reserved: len,
            restless: true,
            templates,
            buffer: Vec::new(),
            snapshot_at: options.snapshot_after_bytes.max(snapshot_len),
            options,
            snapshot: None,
            stop: Arc::default(),
            tasks: JoinSet::new(),
        }
    }

    /// Writes until it is told to close or nobody can ask any more.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        let mut commands = Vec::new();
        let mut closing = Vec::new();
        while closing.is_empty() && self.wait(&mut queue, &mut commands).await > 0 {
            let mut group = self.begin();
            for command in commands.drain(..) {
                match command {
                    Command::Close(done) => closing.push(done),
                    Command::Write(order, reply) => group = self.take(group, order, reply).await,
                }
            }
            self.finish(group).await;
            if self.len >= self.snapshot_at && self.is_idle() {
                self.begin_snapshot().await;
            }
        }
        self.rest(true).await;
        queue.close();
        self.stop.store(true, Ordering::Relaxed);
        if let Some(snapshot) = self.snapshot.take() {
            // Whether it was finished or given up: it uses the folder no more.
            let _ = snapshot.await;
        }
        drop(self);
        drop(queue);
        for done in closing {
            // Whoever closed it may not have waited.
            let _ = done.send(());
        }
    }

    /// Takes all commands that wait, and waits for the first; how many there are, 0 if nobody can ask any more.
    /// Once nothing has come for a while, the log is brought to rest.
    async fn wait(&mut self, queue: &mut mpsc::Receiver<Command>, commands: &mut Vec<Command>) -> usize {
        if self.restless {
            let came = match self.options.rest_after {
                Duration::ZERO if queue.is_empty() => None,
                rest_after => timeout(rest_after, queue.recv_many(commands, FRAME_WRITES)).await.ok(),
            };
            if let Some(came) = came {
                return came;
            }
            self.restless = false;
            self.rest(false).await;
        }
        queue.recv_many(commands, FRAME_WRITES).await
    }

    fn begin(&mut self) -> Group {
        let mut frame = std::mem::take(&mut self.buffer);
        frame.clear();
        frame.resize(frame::HEADER, 0);
        let first = self.shared.revision().0 + 1;
        Group { frame, first, changes: Vec::new(), pending: Pending::new(), answers: Vec::new(), templates: Vec::new() }
    }

    /// Adds a write to the group, which may have to be finished before or after it.
    async fn take(&mut self, mut group: Group, order: Order, reply: Reply) -> Group {
        let wide = order.is_wide();
        if wide && !group.changes.is_empty() {
            self.finish(group).await;
            group = self.begin();
        }
        let revision = group.first + group.changes.len() as u64;
        let answer = match self.shared.prepare(&group.pending, order, revision) {
            Ok(prepared) => {
                prepared.pend(&mut group.pending);
                if let Some(change) = prepared.change {
                    self.add(&mut group, change);
                }
                Ok(prepared.outcome)
            }
            Err(error) => Err(error),
        };
        group.answers.push((reply, answer));
        if (wide && !group.changes.is_empty()) || group.frame.len() >= FRAME_BYTES {
            self.finish(group).await;
            group = self.begin();
        }
        group
    }

    fn add(&self, group: &mut Group, change: Change) {
        if let Change::Instantiated(_, seed) = &change
            && !self.templates.contains(&seed.id)
        {
            put_template(&mut group.frame, seed);
            group.templates.push(seed.id.clone());
        }
        put_change(&mut group.frame, &change);
        group.changes.push(change);
    }

    /// Makes a group durable and seen, then answers. Also those that changed nothing wait until then: they
    /// may have seen what the others of the group did.
    async fn finish(&mut self, mut group: Group) {
        let mut failed = None;
        if !group.changes.is_empty() {
            match self.append(&mut group).await {
                Ok(()) => {
                    self.templates.append(&mut group.templates.into_iter().collect());
                    self.shared.publish(group.changes);
                }
                Err(error) => failed = Some(error),
            }
        }
        self.buffer = group.frame;
        if self.buffer.capacity() > FRAME_BYTES {
            self.buffer = Vec::new();
        }
        for (reply, answer) in group.answers {
            // A caller that is gone does not wait for its answer.
            let _ = reply.send(failed.clone().map_or(answer, Err));
        }
    }

    /// What is done while nobody waits: the log is sealed, and gets room for more. Nothing depends on either,
    /// so that a disk that is full or fails shows itself to the next write. The last rest is durable.
    async fn rest(&mut self, last: bool) {
        if self.broken.get().is_some() {
            return;
        }
        if last {
            // The room that is left is of no use to whoever copies the folder.
            let _ = self.log.truncate(self.len).await;
        }
        let seal = no_records(self.shared.revision().0 + 1);
        if let Err(error) = self.log.mark(&seal).await {
            tracing::debug!(%error, "the log was not sealed");
            return;
        }
        if last {
            // Whether the seal is there after a power cut decides about nothing but how damage is told.
            let _ = self.log.sync().await;
        } else if self.reserved < self.len + self.options.log_reserve_bytes / 4 {
            self.reserve(self.len).await;
        }
    }

    /// Makes room behind the log's end, which is `end`.
    async fn reserve(&mut self, end: u64) {
        // Also where it fails: what there was no room for is not tried again soon.
        self.reserved = end + self.options.log_reserve_bytes;
        if let Err(error) = self.log.reserve(self.options.log_reserve_bytes).await {
            tracing::debug!(%error, "no room was made in the log");
        }
    }

    async fn append(&mut self, group: &mut Group) -> Result<(), StoreError> {
        if let Some(reason) = self.broken.get() {
            return Err(StoreError::ReadOnly { reason: reason.clone() });
        }
        frame::seal(&mut group.frame, group.first, group.changes.len() as u32);
        let end = self.len + group.frame.len() as u64;
        let (failed, whole) = match self.log.write(&group.frame).await {
            Ok(()) => {
                self.restless = true;
                // The file grows anyway; so the syncs to come are cheap.
                if end > self.reserved {
                    self.reserve(end).await;
                }
                (self.log.sync().await, true)
            }
            Err(error) => (Err(error), false),
        };
        let Err(error) = failed else {
            self.len = end;
            return Ok(());
        };
        let action = if whole { "syncing" } else { "writing" };
        let reason = self.fail(&format!("{action} {}", self.files.path(&self.name)), &error);
        // A frame that is certainly cut off again was certainly not written.
        let cut = match self.log.truncate(self.len).await {
            Ok(()) => self.log.sync().await,
            Err(error) => Err(error),
        };
        // Nor was one whose last byte is missing. Where that would lie there are zeros, since a seal is shorter than
        // a frame with records; only one that ends with a zero itself, as an empty text does, may be there all the
        // same.
        let unwritten = !whole && group.frame.last() != Some(&0);
        Err(if cut.is_ok() || unwritten { StoreError::ReadOnly { reason } } else { StoreError::Unknown { reason } })
    }

    /// Refuses all writes from now on, since `action` failed; why, in words for clients. Where it was is for the log
    /// alone: of the server's files its clients need to know nothing.
    fn fail(&self, action: &str, error: &io::Error) -> Arc<str> {
        tracing::error!(action, %error, "the store is read-only until it is opened again");
        let reason = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the disk is full",
            ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
            _ => "the disk failed",
        };
        self.broken.get_or_init(|| Arc::from(reason)).clone()
    }

    /// Whether no snapshot is being written; takes in the result of the last one.
    fn is_idle(&mut self) -> bool {
        let Some(snapshot) = &mut self.snapshot else { return self.broken.get().is_none() };
        match snapshot.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return false,
            Ok(Some(len)) => self.snapshot_at = self.options.snapshot_after_bytes.max(len),
            Ok(None) | Err(oneshot::error::TryRecvError::Closed) => {
                self.snapshot_at = self.len + self.options.snapshot_after_bytes;
            }
        }
        self.snapshot = None;
        self.broken.get().is_none() && self.len >= self.snapshot_at
    }

    /// Goes on in a new segment, and writes all that lies before it as a snapshot beside.
    async fn begin_snapshot(&mut self) {
        let image = Image::of(&self.shared.read());
        match begin_log(&*self.files, image.revision + 1).await {
            Ok(log) => {
                self.log = log;
                self.name = log_name(image.revision + 1);
                self.len = frame::HEADER as u64;
                self.reserved = self.len;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot begin a new segment of the log; the old one grows on");
                self.snapshot_at = self.len + self.options.snapshot_after_bytes;
                // Left behind, it would contradict what the old one goes on to say. It may not even have been made.
                if let Err(error) = self.files.remove(&log_name(image.revision + 1)).await
                    && error.kind() != ErrorKind::NotFound
                {
                    self.fail("removing an unfinished segment", &error);
                }
                return;
            }
        }
        let (done, result) = oneshot::channel();
        let (files, stop) = (self.files.clone(), self.stop.clone());
        let task = async move {
            let written = write_snapshot(&*files, &image, &stop).await;
            drop(image);
            drop(files);
            let len = written.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot write a snapshot; the log is kept instead");
                None
            });
            // A writer that is gone does not need to know.
            let _ = done.send(len);
        };
        match spawn(self.files.blocks(), &mut self.tasks, "store-snapshot", task) {
            Ok(()) => self.snapshot = Some(result),
            Err(error) => tracing::warn!(%error, "cannot start a thread for a snapshot; the log is kept instead"),
        }
    }
}

/// Writes a snapshot, and removes what it stands for only once it is there for good.
async fn write_snapshot(files: &dyn Files, image: &Image, stop: &AtomicBool) -> io::Result<Option<u64>> {
    let Some(len) = image.write(files, SNAPSHOT_TMP, stop).await? else { return Ok(None) };
    let name = snapshot_name(image.revision);
    files.rename(SNAPSHOT_TMP, &name).await?;
    files.sync_folder().await?;
    for old in files.names().await? {
        let stale = super::log_revision(&old).is_some_and(|first| first <= image.revision)
            || super::snapshot_revision(&old).is_some_and(|revision| revision < image.revision);
        if stale {
            files.remove(&old).await?;
        }
    }
    Ok(Some(len))
}
