//! `allot traits`: the traits that have a meaning everywhere.

use serde_json::json;

use crate::cli::{Format, Traits};
use crate::exit::Outcome;
use crate::output;

/// Prints the table of known traits.
pub(crate) fn run(arguments: Traits) -> Outcome {
    let known = allotment_api::traits::KNOWN_TRAITS;
    let rows = known.iter().map(|known| vec![known.name.to_owned(), known.meaning.to_owned()]).collect::<Vec<_>>();
    match arguments.output {
        Some(Format::Json | Format::Yaml) => {
            let list: Vec<_> = rows.iter().map(|row| json!({"trait": row[0], "meaning": row[1]})).collect();
            output::object(&list, arguments.output, "", String::new)
        }
        Some(Format::Name) => output::data(&rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>().join("\n")),
        Some(Format::Wide) | None => output::data(&output::table(&["TRAIT", "MEANING"], &rows)),
    }
}
