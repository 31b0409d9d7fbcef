//! Programs built from Go modules: kube-apiserver, kube-controller-manager, etcd and etcdctl, whose exact
//! sources are pinned by the module files in `tests/kube`. Built once for each content of these files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::{output, root, run, say};

/// A module in `tests/kube` and what is built from it.
struct Module {
    folder: &'static str,
    /// The Go module whose version the programs carry.
    versioned: &'static str,
    /// Programs and their packages.
    programs: &'static [(&'static str, &'static str)],
}

const MODULES: &[Module] = &[
    Module {
        folder: "etcd",
        versioned: "go.etcd.io/etcd/server/v3",
        programs: &[("etcd", "go.etcd.io/etcd/server/v3"), ("etcdctl", "go.etcd.io/etcd/etcdctl/v3")],
    },
    Module {
        folder: "kube",
        versioned: "k8s.io/kubernetes",
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        ],
    },
];

/// Builds what is missing or of other sources into `dir`, and gives `dir`.
pub(super) fn build(dir: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for module in MODULES {
        module.build(dir)?;
    }
    Ok(dir.to_owned())
}

impl Module {
    fn build(&self, dir: &Path) -> Result<()> {
        let sources = root().join("tests/kube").join(self.folder);
        let read = |name: &str| {
            let path = sources.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let wanted = read("go.mod")? + &read("go.sum")?;
        let stamp = dir.join(format!("{}.sources", self.folder));
        let all_there = self.programs.iter().all(|(name, _)| dir.join(name).is_file());
        if all_there && std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Ok(());
        }
        let version = output(self.go(&sources).args(["list", "-m", "-f", "{{.Version}}", self.versioned]))?;
        let version = version.trim();
        for (name, package) in self.programs {
            say(&format!("building {name} {version} from its Go modules; the first time takes minutes"));
            let out = dir.join(name);
            let flags = format!("-ldflags={}", linker_flags(version));
            run(self.go(&sources).args(["build", "-trimpath", "-mod=readonly", &flags, "-o"]).arg(&out).arg(package))?;
        }
        std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
    }

    fn go(&self, sources: &Path) -> Command {
        let mut command = Command::new("go");
        // A workspace file further up, or flags of the user's own, would choose other sources.
        command.current_dir(sources).env("GOWORK", "off").env("GOFLAGS", "");
        command
    }
}

/// Without these Kubernetes' programs say that they are of version 0.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let at = "k8s.io/component-base/version";
    format!("-s -w -X {at}.gitVersion={version} -X {at}.gitMajor={major} -X {at}.gitMinor={minor}")
}
