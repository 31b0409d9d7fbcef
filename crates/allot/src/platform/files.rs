//! The data folder: who may read it, what lies in it beside the store, and what is wrong with it.
//!
//! `store/` is the store's. `pki/` holds the platform's certificate authority and service-account key,
//! `address` what it listens on, `kubeconfig` the admin's access. A folder of `allot controllers` keeps
//! logical clusters only, and in `platform` of which API server.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use allotment_pki::{BACKDATE_SECS, CertificateAuthority, KeySource, PkiError, PrivateKey};

use crate::exit::{Code, Failure};

const STORE: &str = "store";
/// The store's file that says which format it has; written first.
const STORE_FORMAT: &str = "FORMAT";
const PKI: &str = "pki";
const ADDRESS: &str = "address";
const PLATFORM: &str = "platform";
const PROVIDERS: &str = "providers";
/// Lifetime of the platform's certificate authority: ten years, as kubeadm has it.
const CA_LIFETIME_SECS: i64 = 10 * 365 * 24 * 3600;

/// A data folder.
#[derive(Clone, Debug)]
pub(crate) struct DataFolder {
    root: PathBuf,
}

/// What the platform proves itself with.
pub(crate) struct Identity {
    /// Its certificate authority.
    pub(crate) authority: CertificateAuthority,
    /// What its service-account tokens are signed with.
    pub(crate) service_account_key: PrivateKey,
}

impl Identity {
    /// When it was made: the one moment of a folder's beginning that stays known.
    pub(crate) fn created(&self) -> anyhow::Result<jiff::Timestamp> {
        Ok(jiff::Timestamp::from_second(self.authority.certificate().not_before() + BACKDATE_SECS)?)
    }
}

impl DataFolder {
    /// Looks at the folder without touching it. One that is absent or empty is fine; one that holds
    /// something else is refused.
    pub(crate) fn inspect(root: &Path) -> Result<Self, Failure> {
        let folder = DataFolder { root: root.to_owned() };
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(folder),
            Err(error) => return Err(unusable("read", root, &error)),
        };
        let mut first = None;
        for entry in entries {
            let name = entry.map_err(|error| unusable("read", root, &error))?.file_name();
            if name == STORE && folder.holds_a_store()? {
                return Ok(folder);
            }
            first.get_or_insert(name);
        }
        match first {
            None => Ok(folder),
            Some(found) => Err(Failure::new(
                Code::FolderForeign,
                format!(
                    "data folder {}: it holds {} and is not Allotment's; name another one with --data-dir",
                    root.display(),
                    found.to_string_lossy()
                ),
            )),
        }
    }

    /// Whether what is called `store` is a store, or the empty beginning of one.
    fn holds_a_store(&self) -> Result<bool, Failure> {
        let store = self.store();
        if !store.is_dir() {
            return Ok(false);
        }
        let mut entries = fs::read_dir(&store).map_err(|error| unusable("read", &store, &error))?;
        Ok(entries.next().is_none() || store.join(STORE_FORMAT).exists())
    }

    /// Whether it holds a platform already.
    pub(crate) fn is_new(&self) -> bool {
        !self.store().exists()
    }

    /// Makes it, for this user only.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        make_dir(&self.root).map_err(|error| unusable("make", &self.root, &error))?;
        make_dir(&self.store()).map_err(|error| unusable("make", &self.store(), &error))
    }

    /// Where each provider of another process has a folder of its own; absolute, since they begin elsewhere.
    pub(crate) fn providers(&self) -> io::Result<PathBuf> {
        std::path::absolute(self.root.join(PROVIDERS))
    }

    /// Where the store lies.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.join(STORE)
    }

    /// The folder itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The admin's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        crate::folder::kubeconfig(&self.root)
    }

    /// The address that was served on last. Kubeconfigs name it, so one that cannot be read is an error,
    /// not a reason to take another.
    pub(crate) fn address(&self) -> Result<Option<SocketAddr>, Failure> {
        let path = self.root.join(ADDRESS);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable("read", &path, &error)),
        };
        text.trim().parse().map(Some).map_err(|_| {
            let message = format!("{}: it holds no address; write the former HOST:PORT, or remove it", path.display());
            Failure::new(Code::FolderUnusable, message)
        })
    }

    /// The API server whose logical clusters it keeps: the UID of its namespace `kube-system`. None if the
    /// platform's own API lies here, or nothing yet.
    fn platform(&self) -> Result<Option<String>, Failure> {
        let path = self.root.join(PLATFORM);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable("read", &path, &error)),
        }
    }

    /// Refuses a folder that keeps the clusters of another API server than that one, or a whole platform.
    pub(crate) fn check_platform(&self, uid: Option<&str>) -> Result<(), Failure> {
        let root = self.root.display();
        let message = match (self.platform()?, uid) {
            (Some(there), Some(uid)) if there != uid => format!(
                "data folder {root}: it keeps clusters of another API server (its namespace kube-system has UID {there}, not \
                 {uid}); name another one with --data-dir"
            ),
            (None, _) if self.kubeconfig().exists() => {
                format!("data folder {root}: it is one of `allot up`; name another one with --data-dir")
            }
            _ => return Ok(()),
        };
        Err(Failure::new(Code::FolderForeign, message))
    }

    /// Refuses a folder that keeps the clusters of another API server.
    pub(crate) fn check_own(&self) -> Result<(), Failure> {
        let Some(_) = self.platform()? else { return Ok(()) };
        let root = self.root.display();
        let message = format!("data folder {root}: it is one of `allot controllers`; name another one with --data-dir");
        Err(Failure::new(Code::FolderForeign, message))
    }

    /// Remembers whose clusters it keeps.
    pub(crate) fn set_platform(&self, uid: &str) -> Result<(), Failure> {
        if self.platform()?.is_some() {
            return Ok(());
        }
        let path = self.root.join(PLATFORM);
        write_private(&path, format!("{uid}\n").as_bytes()).map_err(|error| unusable("write", &path, &error))
    }

    /// Remembers the address.
    pub(crate) fn set_address(&self, address: SocketAddr) -> Result<(), Failure> {
        if self.address().is_ok_and(|before| before == Some(address)) {
            return Ok(());
        }
        let path = self.root.join(ADDRESS);
        write_private(&path, format!("{address}\n").as_bytes()).map_err(|error| unusable("write", &path, &error))
    }

    /// Reads the platform's identity, if it has one. Changes nothing, so that it comes before all that does.
    pub(crate) fn identity(&self) -> Result<Option<Identity>, Failure> {
        let dir = self.root.join(PKI);
        let (ca_crt, ca_key, sa_key) = (dir.join("ca.crt"), dir.join("ca.key"), dir.join("sa.key"));
        let broken = |path: &Path| {
            let path = path.display().to_string();
            move |error: PkiError| {
                Failure::new(Code::FolderUnusable, format!("{path}: {error}; restore it from a backup"))
            }
        };
        // The kubeconfig is written once all is ready, so something was signed by what is gone.
        if !ca_crt.exists() && self.kubeconfig().exists() {
            let message = format!(
                "{} is missing, and every kubeconfig and token of before depends on it; restore it from a backup",
                ca_crt.display()
            );
            return Err(Failure::new(Code::FolderUnusable, message));
        }
        if !ca_crt.exists() {
            return Ok(None);
        }
        for path in [&dir, &ca_key, &sa_key] {
            check_private(path)?;
        }
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| unusable("read", path, &error));
        // Read by itself first, so that an error names the file that is broken.
        PrivateKey::from_pem(&read(&ca_key)?).map_err(broken(&ca_key))?;
        let authority = CertificateAuthority::from_pem(&read(&ca_crt)?, &read(&ca_key)?).map_err(broken(&ca_crt))?;
        let service_account_key = PrivateKey::from_pem(&read(&sa_key)?).map_err(broken(&sa_key))?;
        Ok(Some(Identity { authority, service_account_key }))
    }

    /// Makes the platform's identity, keys side by side.
    pub(crate) fn new_identity(&self, keys: &dyn KeySource, now: i64) -> Result<Identity, Failure> {
        let dir = self.root.join(PKI);
        make_dir(&dir).map_err(|error| unusable("make", &dir, &error))?;
        let (ca, service_account) = std::thread::scope(|scope| {
            let other = scope.spawn(|| keys.generate());
            let ca = keys.generate();
            (ca, other.join().unwrap_or_else(|_| keys.generate()))
        });
        let authority = CertificateAuthority::new("allotment", ca?, now, CA_LIFETIME_SECS)?;
        let service_account_key = service_account?;
        // The certificate is written last: where it is, the keys are.
        for (name, text) in [
            ("sa.key", service_account_key.to_pem()),
            ("ca.key", authority.pair().key_pem()),
            ("ca.crt", authority.pair().certificate_pem().into()),
        ] {
            let path = dir.join(name);
            write_private(&path, text.as_bytes()).map_err(|error| unusable("write", &path, &error))?;
        }
        Ok(Identity { authority, service_account_key })
    }
}

fn unusable(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::FolderUnusable, format!("cannot {verb} {}: {error}", path.display()))
}

/// Keys that others can read are no secret any more: who starts has to know.
fn check_private(path: &Path) -> Result<(), Failure> {
    let mode = fs::metadata(path).map_err(|error| unusable("read", path, &error))?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let (path, wanted) = (path.display(), if mode & 0o111 == 0 { "0600" } else { "0700" });
    let message = format!(
        "{path} is open to others (mode {:04o}), but keys lie there; mend it with: chmod {wanted} {path}",
        mode & 0o7777
    );
    Err(Failure::new(Code::FolderUnusable, message))
}

/// Makes a folder for this user only.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 && fs::read_dir(path)?.next().is_none() {
        // An empty folder that somebody made for us; one with content is left to its owner.
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Writes a file that only this user reads, whole or not at all.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(content).and_then(|()| file.sync_data()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_others_can_read_are_refused() {
        let root = std::env::temp_dir().join(format!("allot-private-{}", std::process::id()));
        make_dir(&root).unwrap();
        let key = root.join("ca.key");
        write_private(&key, b"x").unwrap();
        assert!(check_private(&root).is_ok() && check_private(&key).is_ok());
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let message = format!("{:#}", check_private(&key).unwrap_err().error);
        assert!(message.ends_with(&format!("chmod 0600 {}", key.display())), "{message}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_private_file_is_private_and_replaces_what_was_there() {
        let dir = std::env::temp_dir().join(format!("allot-files-{}", std::process::id()));
        make_dir(&dir).unwrap();
        let path = dir.join("f");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "a temporary file was left");
        fs::remove_dir_all(&dir).unwrap();
    }
}
