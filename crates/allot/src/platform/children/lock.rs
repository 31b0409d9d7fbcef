//! The file that is locked while a provider runs, so that no other process runs it beside: who may have it, and how it is
//! taken away. Where it lies is the business of `credentials`.
//!
//! # Guarantees
//! One holder at a time, whoever takes the file away and makes it again: what is held is the file that lies there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Takes the lock, and makes its file where there is none; nothing while somebody else has it. It is held until the file is
/// dropped.
///
/// # Errors
/// The file cannot be made, or its file system knows no locks.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = File::create(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // One that was taken away since it was opened keeps nobody off: who comes next makes another.
        if lies_at(&file, path)? {
            return Ok(Some(file));
        }
    }
}

/// Takes the file away that is held, and lets go of it.
///
/// # Errors
/// It cannot be taken away; it stays, and does no harm.
pub(super) fn remove(held: File, path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    drop(held);
    Ok(())
}

fn lies_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_whoever_held_what_was_taken_away_holds_nothing() {
        let path = std::env::temp_dir().join(format!("allot-lock-{}", std::process::id()));
        let first = try_lock(&path).unwrap().expect("it is free");
        assert!(try_lock(&path).unwrap().is_none(), "it is held");
        let waits = File::open(&path).unwrap();
        remove(first, &path).unwrap();
        // Who had opened it gets the lock of a file that lies nowhere any more.
        waits.try_lock().unwrap();
        assert!(!lies_at(&waits, &path).unwrap());
        let next = try_lock(&path).unwrap().expect("it was let go of");
        assert!(!lies_at(&waits, &path).unwrap() && lies_at(&next, &path).unwrap());
        remove(next, &path).unwrap();
        assert!(!path.exists());
    }
}
