//! The file that a kubeconfig lies in: which of several names it has, its lock, and how it is replaced. What stands in it is
//! the business of `merge`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::platform::write_private;

/// A lock that is held is tried again after this, so often: for a second.
const LOCK_AGAIN: Duration = Duration::from_millis(20);
const LOCK_TRIES: usize = 50;
/// How many links behind each other are followed, as systems do.
const MOST_LINKS: usize = 40;

/// Without those that are named before: profiles of shells put the same file in again and again.
pub(super) fn distinct(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let place = |path: &PathBuf| fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or(path.clone());
    paths.into_iter().filter(|path| known.insert(place(path))).collect()
}

/// Where a link leads in the end, also if nothing is there yet.
fn behind(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// What stands in a file; nothing where there is none.
pub(super) fn text_of(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read the kubeconfig {}", path.display())),
    }
}

/// Replaces the file under kubectl's lock, if it says what it said; says whether it did. A link to it stays one.
///
/// # Errors
/// It is locked, or cannot be read or written.
pub(super) fn replace(named: &Path, before: Option<&str>, text: &str) -> anyhow::Result<bool> {
    let path = behind(named);
    // kubectl locks by the name that it was given, whoever names the file itself by that.
    let mut locks = Vec::new();
    for path in [named, &path] {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        if locks.is_empty() || path != named {
            locks.push(Lock::take(path)?);
        }
    }
    if text_of(&path)?.as_deref() != before {
        return Ok(false);
    }
    write_private(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

/// The file that kubectl keeps others off a kubeconfig by.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> anyhow::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        // It is held for some milliseconds, but by who died over it.
        for _ in 0..LOCK_TRIES {
            match fs::OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Lock(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::thread::sleep(LOCK_AGAIN),
                Err(error) => return Err(error).with_context(|| format!("cannot make {}", lock.display())),
            }
        }
        bail!(
            "{} is being changed by another command, or one died over it; try again, or remove {}",
            path.display(),
            lock.display()
        )
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Who comes next is told its name.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder that goes with this.
    pub(crate) struct Place(pub(crate) PathBuf);

    impl Place {
        pub(crate) fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("allot-merge-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Place(folder)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_link_stays_one_and_is_locked_by_its_own_name_as_kubectl_does() {
        let place = Place::new("link");
        let (link, far) = (place.0.join("config"), place.0.join("dotfiles/kubeconfig"));
        std::os::unix::fs::symlink("dotfiles/kubeconfig", &link).unwrap();
        let is_link = || fs::symlink_metadata(&link).unwrap().is_symlink();
        // It leads nowhere yet.
        assert!(replace(&link, None, "one").unwrap());
        assert_eq!((text_of(&far).unwrap().as_deref(), is_link()), (Some("one"), true));
        for lock in ["config.lock", "dotfiles/kubeconfig.lock"] {
            let lock = place.0.join(lock);
            fs::write(&lock, "").unwrap();
            let refused = replace(&link, Some("one"), "two").unwrap_err();
            assert!(refused.to_string().contains("changed by another command"), "{refused:#}");
            assert_eq!(text_of(&far).unwrap().as_deref(), Some("one"));
            fs::remove_file(&lock).unwrap();
        }
        assert!(!replace(&link, Some("another"), "two").unwrap(), "it is not as it was");
        assert!(replace(&link, Some("one"), "two").unwrap());
        assert_eq!((text_of(&far).unwrap().as_deref(), is_link()), (Some("two"), true));
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 2, "a lock is left");
    }

    #[test]
    fn who_comes_while_others_write_waits_its_turn_and_no_line_is_lost() {
        let place = Place::new("turns");
        let path = place.0.join("config");
        let add = |line: &str| loop {
            let before = text_of(&path).unwrap();
            let after = format!("{}{line}\n", before.as_deref().unwrap_or_default());
            if replace(&path, before.as_deref(), &after).unwrap() {
                break;
            }
        };
        let lines: Vec<String> = (0..8).map(|number| format!("line {number}")).collect();
        std::thread::scope(|scope| {
            for line in &lines {
                scope.spawn(|| add(line));
            }
        });
        let text = text_of(&path).unwrap().unwrap();
        let mut found: Vec<&str> = text.lines().collect();
        found.sort_unstable();
        assert_eq!(found, lines);
    }

    #[test]
    fn a_file_that_is_named_twice_is_one() {
        let place = Place::new("twice");
        let path = |name: &str| place.0.join(name);
        fs::write(path("a"), "").unwrap();
        std::os::unix::fs::symlink("a", path("link")).unwrap();
        let twice = [path("a"), path("none"), path("."), path("link"), path("./a"), path("none")].to_vec();
        assert_eq!(distinct(twice), [path("a"), path("none"), path(".")]);
    }
}
