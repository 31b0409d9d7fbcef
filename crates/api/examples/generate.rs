//! Writes the files that are made from this crate: the CustomResourceDefinitions under `deploy/crds`
//! and `docs/traits.md`. Run it from the root of the repository.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("deploy/crds");
    std::fs::create_dir_all(&folder)?;
    for (file, text) in allotment_api::crds_yaml() {
        std::fs::write(folder.join(file), text)?;
    }
    std::fs::create_dir_all(root.join("docs"))?;
    std::fs::write(root.join("docs/traits.md"), allotment_api::traits::known_traits_markdown())
}
