//! `allot version`.

use serde_json::json;

use crate::cli::{Format, Version};
use crate::exit::Outcome;
use crate::output;

/// Prints the version of this program.
pub(crate) fn run(arguments: Version) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    let value =
        json!({"program": "allot", "version": version, "os": std::env::consts::OS, "arch": std::env::consts::ARCH});
    let wide = arguments.output == Some(Format::Wide);
    output::object(&value, arguments.output, version, || {
        if wide {
            format!("allot {version} ({}/{})", std::env::consts::OS, std::env::consts::ARCH)
        } else {
            format!("allot {version}")
        }
    })
}
