//! A folder in memory that does what disks do when the power goes: it forgets what was not synced, keeps
//! part of it, or keeps the later part and not the earlier. It can stop at any operation, run out of room,
//! become read-only, break off in a write and fail to sync. For tests and simulations.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::files::{FileWriter, Files};

/// What this disk does wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFaults {
    /// The power goes in the middle of this operation, counted from 1.
    pub cut_at: Option<u64>,
    /// This sync of a file, counted from 1, fails, and what it was to make durable never will be.
    pub fail_sync_at: Option<u64>,
    /// All syncs of files fail so.
    pub fail_syncs: bool,
    /// This write to a file, counted from 1, breaks off half-way with an error.
    pub break_write_at: Option<u64>,
    /// How many more bytes can be written.
    pub room: Option<usize>,
    /// Nothing can be changed, as of a file system that went read-only since it found itself damaged.
    pub read_only: bool,
    /// No file can be made, as where there are too many already.
    pub fail_creates: bool,
    /// Whoever changes anything panics, as by a fault of the engine itself.
    pub panics: bool,
    /// Syncs answer well and do nothing.
    pub sync_lies: bool,
}

/// What reaches the disk at once: small, so that also the frames of tests are torn.
const BLOCK: usize = 32;

/// A simulated folder. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

#[derive(Clone, Debug, Default)]
struct Inner {
    faults: DiskFaults,
    operations: u64,
    writes: u64,
    syncs: u64,
    dead: bool,
    files: BTreeMap<u64, Content>,
    names: BTreeMap<String, u64>,
    /// The names as they were when the folder was last synced.
    durable_names: BTreeMap<String, u64>,
    /// What happened to names since then: which went, which came.
    renames: Vec<Rename>,
    next_file: u64,
}

/// A change of names: one that goes, one that comes.
#[derive(Clone, Debug, Default)]
struct Rename {
    gone: Option<String>,
    come: Option<(String, u64)>,
}

impl Rename {
    fn apply(self, names: &mut BTreeMap<String, u64>) {
        if let Some(name) = self.gone {
            names.remove(&name);
        }
        names.extend(self.come);
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    data: Vec<u8>,
    durable: Vec<u8>,
    /// What a failed sync lost: the cache says it is clean, the disk does not have it.
    lost: Vec<Range<usize>>,
}

impl Content {
    fn sync(&mut self) {
        self.durable = self.data.clone();
        for lost in &self.lost {
            self.durable[lost.clone()].fill(0);
        }
    }

    fn truncate(&mut self, len: usize) {
        self.data.truncate(len);
        self.lost.retain_mut(|lost| {
            lost.end = lost.end.min(len);
            lost.start < lost.end
        });
    }

    /// Writes `bytes` at `at`, which the file may have to become longer for.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[at..end].copy_from_slice(bytes);
    }

    /// What may be found after the power was cut.
    fn survive(&self, dice: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
        if self.data.len() < self.durable.len() {
            return if dice(2) == 0 { self.durable.clone() } else { self.data.clone() };
        }
        // Blocks reach the disk in any order, and what of the file's new length is known by then is open.
        let blocks = self.data.len().div_ceil(BLOCK);
        let changed = |block: usize| self.block(&self.data, block) != self.block(&self.durable, block);
        let fresh: Vec<usize> = (0..blocks).filter(|block| changed(*block)).collect();
        let (way, some) = (dice(5), dice(fresh.len() + 1));
        let mut found = self.durable.clone();
        found.resize(self.data.len(), 0);
        for (index, block) in fresh.iter().enumerate() {
            let written = match way {
                0 => false,
                1 => index < some,
                // An earlier one did not reach it.
                2 => index != some,
                3 => dice(2) == 0,
                _ => true,
            };
            if written {
                let range = block * BLOCK..((block + 1) * BLOCK).min(self.data.len());
                found[range.clone()].copy_from_slice(&self.data[range]);
            }
        }
        let grown = self.data.len() - self.durable.len();
        match dice(3) {
            0 if way == 0 => found.truncate(self.durable.len()),
            1 => found.truncate(self.durable.len() + dice(grown + 1)),
            _ => (),
        }
        found
    }

    /// A block of `bytes`, zeros where they end.
    fn block(&self, bytes: &[u8], block: usize) -> [u8; BLOCK] {
        let mut out = [0; BLOCK];
        let part = &bytes[(block * BLOCK).min(bytes.len())..((block + 1) * BLOCK).min(bytes.len())];
        out[..part.len()].copy_from_slice(part);
        out
    }
}

impl Inner {
    fn power(&self) -> io::Result<()> {
        if self.dead { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    /// Begins an operation that changes something; `Ok(true)`: the power goes in its middle.
    fn step(&mut self) -> io::Result<bool> {
        self.power()?;
        assert!(!self.faults.panics, "planted");
        if self.faults.read_only {
            return Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem));
        }
        self.operations += 1;
        self.dead = self.faults.cut_at == Some(self.operations);
        Ok(self.dead)
    }

    fn rename(&mut self, gone: Option<&str>, come: Option<(&str, u64)>) {
        let rename = Rename { gone: gone.map(str::to_owned), come: come.map(|(name, file)| (name.to_owned(), file)) };
        rename.clone().apply(&mut self.names);
        self.renames.push(rename);
    }

    /// The names that may be found after the power was cut: those that were durable, with the first few
    /// changes, or with some of them in any combination.
    fn surviving_names(&self, dice: &mut impl FnMut(usize) -> usize) -> BTreeMap<String, u64> {
        let mut names = self.durable_names.clone();
        let (any, first) = (dice(2) == 0, dice(self.renames.len() + 1));
        for (index, rename) in self.renames.iter().enumerate() {
            if if any { dice(2) == 0 } else { index < first } {
                rename.clone().apply(&mut names);
            }
        }
        names
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn content(&mut self, file: u64) -> &mut Content {
        self.files.entry(file).or_default()
    }
}

impl Disk {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty folder.
    pub fn new(faults: DiskFaults) -> Self {
        let disk = Disk::default();
        disk.inner().faults = faults;
        disk
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.inner().faults = faults;
    }

    /// How many changing operations there have been.
    pub fn operations(&self) -> u64 {
        self.inner().operations
    }

    /// How many writes to files there have been.
    pub fn writes(&self) -> u64 {
        self.inner().writes
    }

    /// How many syncs of files there have been.
    pub fn syncs(&self) -> u64 {
        self.inner().syncs
    }

    /// The folder after a power cut now, healthy: one of the many that are possible, as `seed` says.
    pub fn after_power_cut(&self, seed: u64) -> Disk {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut dice = move |sides: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as usize) % sides
        };
        let inner = self.inner();
        let names = inner.surviving_names(&mut dice);
        let files = names.values().map(|file| {
            let data = inner.files.get(file).map(|content| content.survive(&mut dice)).unwrap_or_default();
            (*file, Content { durable: data.clone(), data, lost: Vec::new() })
        });
        let files = files.collect();
        let durable_names = names.clone();
        Disk(Arc::new(Mutex::new(Inner {
            files,
            names,
            durable_names,
            next_file: inner.next_file,
            ..Inner::default()
        })))
    }

    /// A healthy copy of it as it is, as if the process had ended and the system gone on.
    pub fn after_exit(&self) -> Disk {
        let inner = self.inner();
        let faults = DiskFaults::default();
        let fresh = Inner { dead: false, operations: 0, writes: 0, syncs: 0, faults, ..inner.clone() };
        Disk(Arc::new(Mutex::new(fresh)))
    }

    /// The bytes of the file `name`.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let inner = self.inner();
        inner.names.get(name).and_then(|file| inner.files.get(file)).map(|content| content.data.clone())
    }

    /// Replaces the bytes of the file `name`, durably.
    pub fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut inner = self.inner();
        let file = match inner.names.get(name) {
            Some(file) => *file,
            None => {
                inner.next_file += 1;
                let file = inner.next_file;
                inner.names.insert(name.to_owned(), file);
                inner.durable_names.insert(name.to_owned(), file);
                file
            }
        };
        *inner.content(file) = Content { durable: bytes.clone(), data: bytes, lost: Vec::new() };
    }
}

#[async_trait]
impl Files for Disk {
    fn blocks(&self) -> bool {
        false
    }

    fn path(&self, name: &str) -> String {
        format!("disk/{name}")
    }

    async fn lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    async fn names(&self) -> io::Result<Vec<String>> {
        tokio::task::yield_now().await;
        let inner = self.inner();
        inner.power()?;
        Ok(inner.names.keys().cloned().collect())
    }

    async fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        tokio::task::yield_now().await;
        let mut inner = self.inner();
        inner.power()?;
        let file = inner.find(name)?;
        let data = &inner.content(file).data;
        let start = (offset as usize).min(data.len());
        Ok(data[start..start.saturating_add(len).min(data.len())].to_vec())
    }

    async fn len(&self, name: &str) -> io::Result<u64> {
        let mut inner = self.inner();
        inner.power()?;
        let file = inner.find(name)?;
        Ok(inner.content(file).data.len() as u64)
    }

    async fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        tokio::task::yield_now().await;
        let mut inner = self.inner();
        let cut = inner.step()?;
        if inner.faults.fail_creates {
            return Err(io::Error::other("no file can be made"));
        }
        inner.next_file += 1;
        let file = inner.next_file;
        inner.rename(None, Some((name, file)));
        if cut {
            return Err(io::Error::other("the power went"));
        }
        Ok(Box::new(DiskFile { disk: self.clone(), file, end: 0 }))
    }

    async fn append(&self, name: &str, end: u64) -> io::Result<Box<dyn FileWriter>> {
        let inner = self.inner();
        inner.power()?;
        Ok(Box::new(DiskFile { disk: self.clone(), file: inner.find(name)?, end: end as usize }))
    }

    async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        tokio::task::yield_now().await;
        let mut inner = self.inner();
        let cut = inner.step()?;
        let file = inner.find(from)?;
        inner.rename(Some(from), Some((to, file)));
        if cut { Err(io::Error::other("the power went")) } else { Ok(()) }
    }

    async fn remove(&self, name: &str) -> io::Result<()> {
        tokio::task::yield_now().await;
        let mut inner = self.inner();
        let cut = inner.step()?;
        inner.find(name)?;
        inner.rename(Some(name), None);
        if cut { Err(io::Error::other("the power went")) } else { Ok(()) }
    }

    async fn sync_folder(&self) -> io::Result<()> {
        tokio::task::yield_now().await;
        let mut inner = self.inner();
        if inner.step()? {
            return Err(io::Error::other("the power went"));
        }
        if !inner.faults.sync_lies {
            inner.durable_names = inner.names.clone();
            inner.renames.clear();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct DiskFile {
    disk: Disk,
    file: u64,
    end: usize,
}

impl DiskFile {
    /// Writes at `at` as far as there is room; how much that was.
    fn put(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let cut = inner.step()?;
        inner.writes += 1;
        let breaks = inner.faults.break_write_at == Some(inner.writes);
        let room = inner.faults.room.unwrap_or(usize::MAX);
        let there = inner.content(self.file).data.len().saturating_sub(at);
        let fits = if cut || breaks { bytes.len() / 2 } else { bytes.len().min(there.saturating_add(room)) };
        if let Some(room) = &mut inner.faults.room {
            *room -= fits.saturating_sub(there);
        }
        inner.content(self.file).write(at, &bytes[..fits]);
        match fits == bytes.len() {
            true => Ok(()),
            false if cut => Err(io::Error::other("the power went")),
            false if breaks => Err(io::Error::other("the disk failed to write")),
            false => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    }
}

#[async_trait]
impl FileWriter for DiskFile {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        tokio::task::yield_now().await;
        self.put(self.end, bytes)?;
        self.end += bytes.len();
        Ok(())
    }

    async fn mark(&mut self, bytes: &[u8]) -> io::Result<()> {
        tokio::task::yield_now().await;
        self.put(self.end, bytes)
    }

    async fn reserve(&mut self, len: u64) -> io::Result<()> {
        tokio::task::yield_now().await;
        let there = self.disk.inner().content(self.file).data.len();
        let wanted = self.end + len as usize;
        self.put(there, &vec![0; wanted.saturating_sub(there)])
    }

    async fn sync(&mut self) -> io::Result<()> {
        // While a disk syncs, others go on.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        let mut inner = self.disk.inner();
        let cut = inner.step()?;
        inner.syncs += 1;
        let fails = inner.faults.fail_syncs || inner.faults.fail_sync_at == Some(inner.syncs);
        let lies = inner.faults.sync_lies;
        let content = inner.content(self.file);
        if fails {
            let (data, durable) = (&content.data, &content.durable);
            let changed = |at: usize| durable.get(at) != data.get(at);
            if let Some(first) = (0..data.len()).find(|at| changed(*at)) {
                content.lost.push(first..data.len());
            }
            return Err(io::Error::other("the disk failed to sync"));
        }
        if cut {
            return Err(io::Error::other("the power went"));
        }
        if !lies {
            content.sync();
        }
        Ok(())
    }

    async fn truncate(&mut self, len: u64) -> io::Result<()> {
        tokio::task::yield_now().await;
        let mut inner = self.disk.inner();
        let cut = inner.step()?;
        inner.content(self.file).truncate(len as usize);
        self.end = len as usize;
        if cut { Err(io::Error::other("the power went")) } else { Ok(()) }
    }
}
