//! What the fields of built-in types mean, in a line each, for `kubectl explain` and other readers of the
//! OpenAPI documents. The texts are our own and are kept by hand in `descriptions.txt`; the types are not.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const TEXTS: &str = include_str!("descriptions.txt");

/// Message and field to text. The message is empty for names that mean the same everywhere, the field
/// for what the message itself is.
static DESCRIPTIONS: LazyLock<BTreeMap<(&'static str, &'static str), &'static str>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    let mut message = "";
    for line in TEXTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, text) = line.split_once(' ').unwrap_or((line, ""));
        match name.strip_prefix('=') {
            Some(name) => {
                message = name;
                all.insert((message, ""), text);
            }
            None => {
                all.insert((message, name), text);
            }
        }
    }
    all.retain(|_, text| !text.is_empty());
    all
});

/// What `field` of `message` means, or what `message` is where `field` is empty; `None` where nothing is
/// written about it.
pub(crate) fn describe(message: &str, field: &str) -> Option<&'static str> {
    let own = DESCRIPTIONS.get(&(message, field));
    own.or_else(|| DESCRIPTIONS.get(&("", field)).filter(|_| !field.is_empty())).copied()
}

/// Names the content of all texts.
pub(crate) fn descriptions() -> &'static str {
    TEXTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::types;

    fn has_field(message: &'static types::Message, name: &str) -> bool {
        message.fields.iter().any(|field| match (field.name, &field.ty) {
            (".", types::Type::Message(inner)) => types::message(inner).is_some_and(|inner| has_field(inner, name)),
            (own, _) => own == name,
        })
    }

    #[test]
    fn every_text_is_about_a_message_or_a_field_that_there_is() {
        for (message, field) in DESCRIPTIONS.keys().filter(|(message, _)| !message.is_empty()) {
            let found = types::message(message).unwrap_or_else(|| panic!("there is no {message}"));
            assert!(field.is_empty() || has_field(found, field), "{message} has no {field}");
        }
    }

    #[test]
    fn texts_are_one_sentence_or_two_and_end_as_sentences_do() {
        for ((message, field), text) in DESCRIPTIONS.iter() {
            assert!(text.ends_with('.') && text.len() < 300, "{message}.{field}: {text}");
        }
    }

    #[test]
    fn names_that_mean_the_same_everywhere_are_described_once() {
        assert_eq!(describe("core/v1.ConfigMap", "metadata"), describe("core/v1.Secret", "metadata"));
        assert!(describe("core/v1.ConfigMap", "").is_some());
        assert_eq!(describe("core/v1.ConfigMap", "nope"), None);
        assert_eq!(describe("core/v1.Nope", ""), None);
    }
}
