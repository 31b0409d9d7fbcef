//! Which executables may run. Whoever may create ClusterProviders names a path, so the path must lead to what the owner
//! of this machine put into the folder of providers, and what nobody else can change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The executable that `package` names, a path relative to `dir` or an absolute one, after links are resolved. `dir` is
/// resolved already.
///
/// # Errors
/// It may not run; says why and what to do.
pub(super) fn resolve(dir: &Path, package: &str) -> Result<PathBuf, String> {
    let named = dir.join(package);
    let wrong = |why: String| Err(format!("\"{package}\" may not run: {why}"));
    let path = match named.canonicalize() {
        Ok(path) => path,
        Err(error) => return wrong(format!("{}: {error}", named.display())),
    };
    if !path.starts_with(dir) {
        return wrong(format!("{} does not lie below --provider-dir {}", path.display(), dir.display()));
    }
    let own = rustix::process::geteuid().as_raw();
    let look = |path: &Path| path.symlink_metadata().map_err(|error| format!("{}: {error}", path.display()));
    let found = look(&path)?;
    if !found.is_file() {
        return wrong(format!("{} is no file", path.display()));
    }
    if found.mode() & 0o111 == 0 {
        return wrong(format!("{0} is not executable; chmod +x {0}", path.display()));
    }
    // Whoever may write into a folder may put another file in its place.
    let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(dir));
    for path in std::iter::once(path.as_path()).chain(folders) {
        if let Some(why) = others_may_change(path, &look(path)?, own) {
            return wrong(why);
        }
    }
    Ok(path)
}

fn others_may_change(path: &Path, found: &Metadata, own: u32) -> Option<String> {
    if found.uid() != own && found.uid() != 0 {
        let owner = found.uid();
        return Some(format!("{} belongs to user {owner}, not to the server's ({own}) or root", path.display()));
    }
    (found.mode() & 0o022 != 0).then(|| format!("others may write {0}; chmod go-w {0}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_lies_in_the_folder_and_nobody_else_can_change_may_run() {
        let root = std::env::temp_dir().join(format!("allot-admit-{}", std::process::id()));
        let dir = root.join("providers");
        fs::create_dir_all(dir.join("sub")).unwrap();
        let dir = dir.canonicalize().unwrap();
        for folder in [&dir, &dir.join("sub")] {
            set(folder, 0o755);
        }
        let (plain, inner, outer) = (dir.join("plain"), dir.join("sub/inner"), root.join("outer"));
        for path in [&plain, &inner, &outer] {
            fs::write(path, "#!/bin/sh\n").unwrap();
            set(path, 0o755);
        }
        symlink("plain", dir.join("link")).unwrap();
        symlink("../outer", dir.join("escape")).unwrap();
        fs::write(dir.join("data"), "").unwrap();
        set(&dir.join("data"), 0o644);
        let absolute = |path: &Path| path.to_str().unwrap().to_owned();
        let check = |package: &str, expect: Result<&Path, &str>| match (resolve(&dir, package), expect) {
            (Ok(path), Ok(wanted)) => assert_eq!(path, wanted, "{package}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{package}: {why}"),
            (found, _) => panic!("{package}: {found:?}"),
        };
        check("plain", Ok(&plain));
        check("./sub/../sub/inner", Ok(&inner));
        check(&absolute(&inner), Ok(&inner));
        check("link", Ok(&plain));
        check("escape", Err("does not lie below"));
        check("../outer", Err("does not lie below"));
        check(&absolute(&outer), Err("does not lie below"));
        check("/bin/sh", Err("does not lie below"));
        check("sub", Err("is no file"));
        check(".", Err("is no file"));
        check("data", Err("chmod +x"));
        check("absent", Err("No such file"));
        set(&plain, 0o775);
        check("plain", Err("chmod go-w"));
        set(&plain, 0o757);
        check("link", Err("chmod go-w"));
        set(&plain, 0o755);
        set(&dir.join("sub"), 0o777);
        check("sub/inner", Err("chmod go-w"));
        check("plain", Ok(&plain));
        set(&dir, 0o777);
        check("plain", Err("chmod go-w"));
        fs::remove_dir_all(&root).unwrap();
    }
}
