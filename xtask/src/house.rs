//! House rules that no lint knows: headers, sizes, words that do not belong into the repository.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run::{output, root, say};

/// A file longer than this is a question; the answer stands in [`LONG_FILES`].
const LONGEST_FILE: usize = 600;

/// Files that may be longer, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Files that are data or generated.
const NOT_CODE: &[&str] = &["tests/golden/", "Cargo.lock", "LICENSE", "deploy/crds/"];

/// Text that never stands in the repository, each with its reason.
const NEVER: &[(&str, &str)] = &[
    ("/work/", "a path of one machine"),
    ("/root/", "a path of one machine"),
    ("../shared", "the project stands alone"),
    ("crates.io/", "a package registry's host"),
    ("registry.npmjs", "a package registry's host"),
    ("proxy.golang", "a package registry's host"),
    ("pypi.org", "a package registry's host"),
    ("tokio::sync::watch", "it wakes in an order that no seed decides: use sync::Notify"),
    ("#[allow(", "use #[expect(…, reason = …)]"),
    ("todo!(", "finish it, or write it into docs/dev/open.md"),
    ("unimplemented!(", "finish it, or write it into docs/dev/open.md"),
];

/// Fails with a line for each breach.
pub(crate) fn check() -> Result<()> {
    let files = output(std::process::Command::new("git").current_dir(root()).args(["ls-files"]))?;
    let mut wrong = Vec::new();
    for file in files.lines().filter(|file| !NOT_CODE.iter().any(|prefix| file.starts_with(prefix))) {
        check_file(file, &mut wrong)?;
    }
    if !wrong.is_empty() {
        bail!("house rules broken:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn check_file(file: &str, wrong: &mut Vec<String>) -> Result<()> {
    let path = root().join(file);
    if !path.is_file() || file == "xtask/src/house.rs" {
        return Ok(());
    }
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {file}"))?;
    let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
    for (number, line) in text.lines().enumerate() {
        for (word, why) in NEVER.iter().filter(|(word, _)| line.contains(word)) {
            wrong.push(format!("{file}:{}: {word}: {why}", number + 1));
        }
    }
    if Path::new(file).extension().is_some_and(|extension| extension == "rs") {
        if !text.starts_with("//!") {
            wrong.push(format!("{file}: begins without //! that says what it owns"));
        }
        for (number, _) in unordered_selects(&text) {
            wrong.push(format!("{file}:{number}: tokio::select! without `biased;`: its dice are not the seed's"));
        }
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            match LONG_FILES.iter().find(|(long, _)| *long == file) {
                Some((_, why)) => say(&format!("{file} has {lines} lines: {why}")),
                None => {
                    wrong.push(format!("{file}: {lines} lines, more than {LONGEST_FILE}: is it one room, or several?"))
                }
            }
        }
    }
    Ok(())
}

/// Uses of `tokio::select!` that pick a branch by chance, which no simulation can repeat.
fn unordered_selects(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let follows = move |number: usize| lines.get(number).is_none_or(|next| next.trim() != "biased;");
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(move |(number, line)| line.contains("select! {") && follows(*number))
}
