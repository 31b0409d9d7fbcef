//! Where things lie on this machine: the data folder of a user and the files in it.

use std::env;
use std::path::{Path, PathBuf};

/// `allot` below the user's data folder: `$XDG_DATA_HOME`, or what the system has for it.
pub(crate) fn default_data_dir() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_DATA_HOME").or_else(|| {
        let home = env::home_dir()?;
        Some(if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else {
            home.join(".local/share")
        })
    })?;
    Some(base.join("allot"))
}

/// The admin's kubeconfig in a data folder.
pub(crate) fn kubeconfig(data_dir: &Path) -> PathBuf {
    data_dir.join("kubeconfig")
}
