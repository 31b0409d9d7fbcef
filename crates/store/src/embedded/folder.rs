//! The real folder: only its owner may look into it, only one process may have it open.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::files::{FileWriter, Files};
use super::{LOCK, OpenError};

/// A folder on disk. Its calls block.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock: Mutex<Option<File>>,
}

impl Folder {
    /// The folder `path`, made if it is absent. Refused if others than its owner may read it or a file
    /// in it: keys may lie in the objects.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let io = |action| move |source| OpenError::Io { action, path: path.display().to_string(), source };
        if !path.try_exists().map_err(io("look at"))? {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("make"))?;
        }
        check_mode(path, 0o700)?;
        for entry in path.read_dir().map_err(io("list"))? {
            let entry = entry.map_err(io("list"))?;
            if entry.file_type().map_err(io("look at"))?.is_file() {
                check_mode(&entry.path(), 0o600)?;
            }
        }
        Ok(Folder { path: path.to_owned(), lock: Mutex::new(None) })
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.mode(0o600);
        options
    }
}

fn check_mode(path: &Path, wanted: u32) -> Result<(), OpenError> {
    let shown = path.display().to_string();
    let mode = match path.metadata() {
        Ok(metadata) => metadata.mode() & 0o777,
        Err(source) => return Err(OpenError::Io { action: "look at", path: shown, source }),
    };
    if mode & 0o077 == 0 { Ok(()) } else { Err(OpenError::TooWide { path: shown, mode, wanted }) }
}

#[async_trait]
impl Files for Folder {
    fn blocks(&self) -> bool {
        true
    }

    fn path(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    async fn lock(&self) -> io::Result<bool> {
        let file = Self::options().write(true).create(true).truncate(false).open(self.path.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => {
                *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    async fn names(&self) -> io::Result<Vec<String>> {
        let names = self.path.read_dir()?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    async fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path.join(name))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::with_capacity(len);
        file.take(len as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    async fn len(&self, name: &str) -> io::Result<u64> {
        Ok(self.path.join(name).metadata()?.len())
    }

    async fn create(&self, name: &str) -> io::Result<Box<dyn FileWriter>> {
        let file = Self::options().write(true).create(true).truncate(true).open(self.path.join(name))?;
        Ok(Box::new(DiskFile { file, end: 0, len: 0 }))
    }

    async fn append(&self, name: &str, end: u64) -> io::Result<Box<dyn FileWriter>> {
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
        let len = file.metadata()?.len();
        Ok(Box::new(DiskFile { file, end, len }))
    }

    async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    async fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    async fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Zeros are written so many at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[derive(Debug)]
struct DiskFile {
    file: File,
    /// Where the next write goes.
    end: u64,
    /// How long the file is at least.
    len: u64,
}

#[async_trait]
impl FileWriter for DiskFile {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.mark(bytes).await?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    async fn mark(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.len = self.len.max(self.end + bytes.len() as u64);
        Ok(())
    }

    async fn reserve(&mut self, len: u64) -> io::Result<()> {
        while self.len < self.end + len {
            let zeros = (self.end + len - self.len).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..zeros as usize], self.len)?;
            self.len += zeros;
        }
        Ok(())
    }

    async fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    async fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        (self.end, self.len) = (len, len);
        Ok(())
    }
}
