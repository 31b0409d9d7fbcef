//! The query of a request: names and values in the order they came, decoded.

/// A decoded query string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Takes a query string apart (WHATWG `application/x-www-form-urlencoded`). A part with a semicolon is left
    /// out, as Go does, since servers differ in whether it separates.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|part| !part.is_empty() && !part.contains(';')).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode_form(name), decode_form(value))
        });
        Query { pairs: pairs.collect() }
    }

    /// The first value of `name`, if it is there.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The first value of `name`; empty where it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of `name`.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// Whether an option is on, as Kubernetes reads it: present and neither `0` nor `false`, in any case.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

fn decode_form(text: &str) -> String {
    decode_percent(&text.replace('+', " "))
}

/// Decodes `%XX`; what is not UTF-8 afterwards is replaced, what is no escape stays as it is.
pub(crate) fn decode_percent(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten().and_then(hex_byte);
        match escaped {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(digit(digits[0])? * 16 + digit(digits[1])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded() {
        let query = Query::parse("a=1&labelSelector=x%3Dy+z&a=2&flag&bad=%zz%4");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.text("labelSelector"), "x=y z");
        assert_eq!(query.text("bad"), "%zz%4");
        assert_eq!(query.get("absent"), None);
        assert!(query.flag("flag") && !query.flag("absent"));
        for (text, on) in [("false", false), ("False", false), ("0", false), ("", true), ("maybe", true)] {
            assert_eq!(Query::parse(&format!("watch={text}")).flag("watch"), on, "{text}");
        }
        assert_eq!(Query::parse("a=1;b=2&c=3"), Query::parse("c=3"), "a semicolon is no separator");
    }
}
