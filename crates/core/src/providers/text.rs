//! Texts of others, such as servers and providers, as they are shown to people.

/// The text on one line, without control characters and those that change the direction of what stands around them, of so many
/// bytes at most.
pub fn one_line(text: &str, most_bytes: usize) -> String {
    let shown = |c: char| match c {
        _ if c.is_control() || c.is_whitespace() => Some(' '),
        // Unicode's marks, embeddings, overrides and isolates (UAX 9), which show a text otherwise than it is.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        _ => Some(c),
    };
    let line: String = text.chars().filter_map(shown).collect();
    let line = line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut end = line.len().min(most_bytes);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_is_one_plain_line_of_bounded_length() {
        for (text, most, expect) in [
            ("a  b\r\nc\t", 80, "a b c"),
            ("\u{1b}[31mred\u{7}", 80, "[31mred"),
            ("x\u{202e}y\u{2066}z", 80, "xyz"),
            ("\u{e9}\u{e9}\u{e9}", 5, "\u{e9}\u{e9}"),
            ("", 0, ""),
        ] {
            assert_eq!(one_line(text, most), expect);
        }
    }
}
