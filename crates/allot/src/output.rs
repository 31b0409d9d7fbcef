//! What goes to stdout: data, in the format that was asked for. Everything else goes to stderr.

use std::borrow::Cow;
use std::io::Write;

use allotment_machinery::{json, yaml};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::Value;

use crate::cli::Format;
use crate::exit::Outcome;

/// Writes a line or more to stdout. A reader that has gone away (`| head`) is no error.
pub(crate) fn data(text: &str) -> Outcome {
    Ok(data_while_read(text).map(|_| ())?)
}

/// The same for what goes on: gives whether anybody reads still.
pub(crate) fn data_while_read(text: &str) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    let written =
        out.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

/// Whether anybody may read stdout still, asked without writing: of a pipe whose reader has gone there is an error to
/// be told. Where that cannot be asked, somebody may.
pub(crate) fn is_read() -> bool {
    let out = std::io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut asked, Some(&now)) {
        Ok(_) => !asked[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL),
        Err(_) => true,
    }
}

/// Writes a line or more to stderr, for people. Words of somebody else's do nothing to their terminal.
pub(crate) fn note(text: &str) {
    let text = text.split('\n').map(on_a_line).collect::<Vec<_>>().join("\n");
    // There is nobody left to tell if stderr is gone.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether a character acts on a terminal instead of being shown. All of them have codes of four digits.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Words of somebody else's as they stand on one line of a terminal: what would break the line, move the cursor, colour it or
/// turn the direction of writing is shown by its code.
pub(crate) fn on_a_line(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if acts(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// `value` as JSON. What would act on a terminal stands there by its code, which means the same to whoever reads JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string_pretty(value)?))
}

/// JSON in which what would act on a terminal stands by its code: it can only be within a text.
fn escaped(json: String) -> String {
    let is_plain = |c: char| c == '\n' || !acts(c);
    if json.chars().all(is_plain) {
        return json;
    }
    json.chars().map(|c| if is_plain(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }).collect()
}

/// Lines of such words.
pub(crate) fn lines<'a>(lines: impl IntoIterator<Item = &'a String>) -> String {
    lines.into_iter().map(|line| on_a_line(line)).collect::<Vec<_>>().join("\n")
}

/// `value` as YAML, fields in their order, quoted as kubectl does it.
pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let value = json::parse(&serde_json::to_vec(value)?)?;
    Ok(yaml::to_string(&value))
}

/// `value` as JSON on lines of its own, numbers to the letter.
pub(crate) fn pretty(value: &json::Value) -> String {
    let mut out = Vec::new();
    write_pretty(value, 0, &mut out);
    escaped(String::from_utf8_lossy(&out).into_owned())
}

fn write_pretty(value: &json::Value, depth: usize, out: &mut Vec<u8>) {
    let line = |depth: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', 2 * depth));
    };
    match value {
        json::Value::Object(members) if !members.is_empty() => {
            for (index, (name, member)) in members.iter().enumerate() {
                out.push(if index == 0 { b'{' } else { b',' });
                line(depth + 1, out);
                json::write_string(name, out);
                out.extend(b": ");
                write_pretty(member, depth + 1, out);
            }
            line(depth, out);
            out.push(b'}');
        }
        json::Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                line(depth + 1, out);
                write_pretty(item, depth + 1, out);
            }
            line(depth, out);
            out.push(b']');
        }
        other => json::write_compact(other, out),
    }
}

/// Writes one object as JSON, YAML or name; `wide` and no format write what `line` says.
pub(crate) fn object(
    value: &impl Serialize,
    format: Option<Format>,
    name: &str,
    line: impl FnOnce() -> String,
) -> Outcome {
    match format {
        Some(Format::Json) => data(&json(value)?),
        Some(Format::Yaml) => data(&yaml(&ordered(value)?)?),
        Some(Format::Name) => data(name),
        Some(Format::Wide) | None => data(&line()),
    }
}

/// The value with `apiVersion`, `kind` and `metadata` first, as everyone writes manifests.
pub(crate) fn ordered(value: &impl Serialize) -> anyhow::Result<Value> {
    let value = serde_json::to_value(value)?;
    let Value::Object(mut members) = value else { return Ok(value) };
    let mut sorted = serde_json::Map::new();
    for first in ["apiVersion", "kind", "metadata", "spec"] {
        if let Some(member) = members.remove(first) {
            sorted.insert(first.to_owned(), member);
        }
    }
    sorted.append(&mut members);
    Ok(Value::Object(sorted))
}

/// A number of things: `1 Cluster`, `2 Clusters`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A table with columns as wide as their content, as kubectl prints them.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|text| text.chars().count()).collect();
    let rows: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.iter().map(|cell| on_a_line(cell)).collect()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[&str]| {
        let mut text = String::new();
        for (index, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            if index + 1 == cells.len() {
                text.push_str(cell);
            } else {
                text.push_str(&format!("{cell:<width$}   "));
            }
        }
        text.trim_end().to_owned()
    };
    let mut lines = vec![line(heading)];
    for row in &rows {
        lines.push(line(&row.iter().map(|cell| &**cell).collect::<Vec<_>>()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_somebody_else_s_neither_break_a_line_nor_act_on_a_terminal() {
        let check = |text: &str, expect: &str| assert_eq!(on_a_line(text), expect, "{text:?}");
        check("spec.machineTypes[m5.large]: Größe", "spec.machineTypes[m5.large]: Größe");
        check("a\u{1b}[2J\nb\u{7}", "a\\u{1b}[2J\\nb\\u{7}");
        check("a\u{202e}b\u{9b}", "a\\u{202e}b\\u{9b}");
        assert_eq!(table(&["A"], &[vec!["x\ny".to_owned()]]), "A\nx\\ny");
        assert_eq!(lines(&["a\nb".to_owned(), "c".to_owned()]), "a\\nb\nc");
    }

    #[test]
    fn json_is_printed_as_serde_does_it_but_for_numbers() {
        let text = r#"{"a":[],"b":{},"c":[1,{"d":"\n\""}],"e":null}"#;
        let value = json::parse(text.as_bytes()).expect("JSON");
        let expect: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(pretty(&value), serde_json::to_string_pretty(&expect).expect("JSON"));
        let number = json::parse(b"[1.10,123456789012345678901]").expect("JSON");
        assert_eq!(pretty(&number), "[\n  1.10,\n  123456789012345678901\n]");
    }

    #[test]
    fn json_does_nothing_to_a_terminal_and_means_the_same() {
        let value = serde_json::json!({"a\u{9b}2J": "\u{202e}Größe\u{7f}\u{1b}[2J\n"});
        let text = json(&value).expect("JSON");
        assert_eq!(text, "{\n  \"a\\u009b2J\": \"\\u202eGröße\\u007f\\u001b[2J\\n\"\n}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
        let own = json::parse(text.as_bytes()).expect("JSON");
        assert_eq!(pretty(&own), text);
    }

    #[test]
    fn columns_of_a_table_line_up() {
        let rows = vec![vec!["a".to_owned(), "b".to_owned()], vec!["longer".to_owned(), "c".to_owned()]];
        assert_eq!(table(&["NAME", "X"], &rows), "NAME     X\na        b\nlonger   c");
    }
}
