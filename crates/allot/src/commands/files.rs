//! Reads what users name as files: whole, or not at all.

use std::io::Read;
use std::path::Path;

use allotment_machinery::yaml;
use anyhow::{Context as _, bail};

/// The text of a file, or of stdin where it is called `-`.
///
/// # Errors
/// It cannot be read, or is larger than what is read of YAML. They name it.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    let text = || match path.to_str() {
        Some("-") => whole(std::io::stdin().lock(), yaml::MAX_LENGTH),
        _ => whole(std::fs::File::open(path)?, yaml::MAX_LENGTH),
    };
    text().with_context(|| format!("cannot read {}", shown(path)))
}

fn whole(source: impl Read, most: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    // One more than is read, so that a text which is cut off is told from one that ends.
    source.take(most as u64 + 1).read_to_string(&mut text)?;
    if text.len() > most {
        bail!("it has more than {most} bytes");
    }
    Ok(text)
}

/// A file as messages name it.
pub(super) fn shown(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "stdin".to_owned(),
        _ => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_whole_or_not_at_all() {
        let check = |most: usize, expect: Result<&str, &str>| {
            let read = whole("a: b\n".as_bytes(), most).map_err(|error| error.to_string());
            assert_eq!(read, expect.map(str::to_owned).map_err(str::to_owned), "{most}");
        };
        check(6, Ok("a: b\n"));
        check(5, Ok("a: b\n"));
        check(4, Err("it has more than 4 bytes"));
    }
}
