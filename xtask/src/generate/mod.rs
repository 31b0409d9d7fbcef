//! `cargo xtask generate`: files that are made from published sources and committed.
//!
//! Owns which sources and which versions. Reading Go is left to [`go`], the table's form to [`table`].

mod go;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The release of the Kubernetes modules that the tables describe.
const KUBERNETES: &str = "v0.36.3";

/// Where the table of the built-in types is kept, from the root of the workspace.
const TYPES: &str = "crates/apiserver/src/builtin/types/types.txt";

/// Go packages whose types the table holds: module, folder in it, short name in the table.
const PACKAGES: &[(&str, &str, &str)] = &[
    ("k8s.io/apimachinery", "pkg/apis/meta/v1", "meta/v1"),
    ("k8s.io/api", "admissionregistration/v1", "admissionregistration/v1"),
    ("k8s.io/api", "apps/v1", "apps/v1"),
    ("k8s.io/api", "authentication/v1", "authentication/v1"),
    ("k8s.io/api", "authorization/v1", "authorization/v1"),
    ("k8s.io/api", "autoscaling/v1", "autoscaling/v1"),
    ("k8s.io/api", "autoscaling/v2", "autoscaling/v2"),
    ("k8s.io/api", "batch/v1", "batch/v1"),
    ("k8s.io/api", "certificates/v1", "certificates/v1"),
    ("k8s.io/api", "coordination/v1", "coordination/v1"),
    ("k8s.io/api", "core/v1", "core/v1"),
    ("k8s.io/api", "discovery/v1", "discovery/v1"),
    ("k8s.io/api", "events/v1", "events/v1"),
    ("k8s.io/api", "networking/v1", "networking/v1"),
    ("k8s.io/api", "node/v1", "node/v1"),
    ("k8s.io/api", "policy/v1", "policy/v1"),
    ("k8s.io/api", "rbac/v1", "rbac/v1"),
    ("k8s.io/api", "scheduling/v1", "scheduling/v1"),
    ("k8s.io/api", "storage/v1", "storage/v1"),
    ("k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions/v1", "apiextensions/v1"),
    ("k8s.io/kube-aggregator", "pkg/apis/apiregistration/v1", "apiregistration/v1"),
];

/// Makes the table of the built-in types anew, or with `check` says whether the committed one is it.
pub(crate) fn types(check: bool) -> anyhow::Result<()> {
    let mut source = go::Source::default();
    let mut folders = std::collections::BTreeMap::new();
    for (module, folder, short) in PACKAGES {
        if !folders.contains_key(module) {
            folders.insert(*module, download(module)?);
        }
        source.read_package(&folders[module].join(folder), &format!("{module}/{folder}"), short)?;
    }
    let machinery = &folders["k8s.io/apimachinery"];
    source.read_package(&machinery.join("pkg/types"), "k8s.io/apimachinery/pkg/types", "types")?;
    let text = table::render(&source, KUBERNETES)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(TYPES);
    if check {
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        if committed != text {
            bail!("{TYPES} is not what its sources give; run `cargo xtask generate types`");
        }
        return Ok(());
    }
    std::fs::write(&path, text).with_context(|| format!("write {TYPES}"))
}

/// The sources of Kubernetes itself, of the same release.
pub(crate) fn kubernetes_sources() -> anyhow::Result<PathBuf> {
    download_version("k8s.io/kubernetes", &KUBERNETES.replacen("v0.", "v1.", 1))
}

/// The folder of a module's files, fetched if need be.
fn download(module: &str) -> anyhow::Result<PathBuf> {
    download_version(module, KUBERNETES)
}

fn download_version(module: &str, version: &str) -> anyhow::Result<PathBuf> {
    let wanted = format!("{module}@{version}");
    let output = Command::new("go")
        .args(["mod", "download", "-json", &wanted])
        .current_dir(std::env::temp_dir())
        .output()
        .context("run `go mod download`; generating types needs a Go toolchain")?;
    if !output.status.success() {
        bail!("go mod download {wanted}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).context("read the answer of go")?;
    let folder = answer["Dir"].as_str().context("go names no folder")?;
    Ok(PathBuf::from(folder))
}
