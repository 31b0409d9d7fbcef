//! How names, label keys and label values have to look, with the texts of
//! `k8s.io/apimachinery/pkg/util/validation` and `pkg/api/validate/content`.
//!
//! Every check returns what is wrong, nothing when all is well, and allocates only in the former case.
//! Which field a text belongs to is said by the callers ([`crate::metadata`], [`crate::selector`]).

/// Longest DNS label, label value and name part of a label key, in bytes.
pub const LABEL_MAX_LENGTH: usize = 63;
/// Longest DNS subdomain, in bytes.
pub const SUBDOMAIN_MAX_LENGTH: usize = 253;
/// How many random characters follow a `generateName`.
pub const GENERATED_SUFFIX_LENGTH: usize = 5;
/// How much of a `generateName` is kept, in bytes, so that the suffix fits a label.
pub const GENERATE_NAME_KEPT: usize = LABEL_MAX_LENGTH - GENERATED_SUFFIX_LENGTH;

const LABEL_TOO_LONG: &str = "must be no more than 63 characters";
const SUBDOMAIN_TOO_LONG: &str = "must be no more than 253 characters";
const NO_DOTS: &str = "must not contain dots";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// The text on subdomains, alone and as part of a label key.
macro_rules! subdomain_text {
    ($prefix:literal) => {
        concat!(
            $prefix,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must ",
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is ",
            r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    };
}

/// The text on names of label keys, for names alone and for keys with too many slashes.
macro_rules! label_key_text {
    ($subject:literal, $end:literal) => {
        concat!(
            $subject,
            " must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric ",
            "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is ",
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            $end
        )
    };
}

const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a text; empty when nothing is.
pub type Faults = Vec<&'static str>;

/// How the names of a kind have to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS-1123 subdomain: most kinds.
    Subdomain,
    /// A DNS-1123 label: namespaces, services.
    Label,
    /// A DNS-1035 label.
    Dns1035Label,
    /// What can be a path segment: RBAC kinds.
    PathSegment,
}

impl NameRule {
    /// What is wrong with `name`.
    pub fn check(self, name: &str) -> Faults {
        match self {
            NameRule::Subdomain => dns1123_subdomain(name),
            NameRule::Label => dns1123_label(name),
            NameRule::Dns1035Label => dns1035_label(name),
            NameRule::PathSegment => path_segment(name),
        }
    }

    /// What is wrong with `generate_name`, to which a suffix will be put. As in Kubernetes, one dash at
    /// its end is no fault.
    pub fn check_generate_name(self, generate_name: &str) -> Faults {
        if self == NameRule::PathSegment {
            return path_segment_prefix(generate_name);
        }
        match generate_name.strip_suffix('-') {
            // Kubernetes drops the character before the dash and puts an `a` there; what is left of a
            // name of two characters is that `a`. A fault in the dropped character shows in the name.
            Some(base) if !base.is_empty() => {
                let cut = base.char_indices().next_back().map_or(0, |(index, _)| index);
                self.check(&[&base[..cut], "a"].concat())
            }
            _ => self.check(generate_name),
        }
    }
}

/// The name that `generate_name` and a random suffix make; cut so that it is a label in length.
pub fn generated(generate_name: &str, suffix: &str) -> String {
    let mut end = generate_name.len().min(GENERATE_NAME_KEPT);
    while !generate_name.is_char_boundary(end) {
        end -= 1;
    }
    [&generate_name[..end], suffix].concat()
}

/// A DNS-1123 label: `my-name`, `123-abc`.
pub fn dns1123_label(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > LABEL_MAX_LENGTH {
        faults.push(LABEL_TOO_LONG);
    }
    if !is_lower_label(value) {
        faults.push(if is_lower_subdomain(value) { NO_DOTS } else { LABEL_TEXT });
    }
    faults
}

/// A DNS-1123 subdomain: `example.com`.
pub fn dns1123_subdomain(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        faults.push(SUBDOMAIN_TOO_LONG);
    }
    if !is_lower_subdomain(value) {
        faults.push(subdomain_text!(""));
    }
    faults
}

/// A DNS-1035 label: as a DNS-1123 label, beginning with a letter.
pub fn dns1035_label(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > LABEL_MAX_LENGTH {
        faults.push(LABEL_TOO_LONG);
    }
    if !(is_lower_label(value) && value.starts_with(|first: char| first.is_ascii_lowercase())) {
        faults.push(DNS1035_TEXT);
    }
    faults
}

/// A name that can stand in a path. Emptiness and length are left to others.
pub fn path_segment(value: &str) -> Faults {
    match value {
        "." => vec!["may not be '.'"],
        ".." => vec!["may not be '..'"],
        _ => path_segment_prefix(value),
    }
}

/// The beginning of a name that can stand in a path.
pub fn path_segment_prefix(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.contains('/') {
        faults.push("may not contain '/'");
    }
    if value.contains('%') {
        faults.push("may not contain '%'");
    }
    faults
}

/// A qualified name, the form of label keys, finalizers and condition types: `name`, `example.com/name`.
pub fn qualified_name(value: &str) -> Faults {
    qualified(value, is_lower_subdomain)
}

/// The key of an annotation: a qualified name in which case does not matter.
pub fn annotation_key(value: &str) -> Faults {
    qualified(value, is_subdomain_in_any_case)
}

fn qualified(value: &str, is_prefix: fn(&str) -> bool) -> Faults {
    let mut faults = Faults::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            faults.push(label_key_text!(
                "a valid label key",
                " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return faults;
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty");
            } else {
                if prefix.len() > SUBDOMAIN_MAX_LENGTH {
                    faults.push("prefix part must be no more than 253 bytes");
                }
                if !is_prefix(prefix) {
                    faults.push(subdomain_text!("prefix part "));
                }
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty");
    } else if name.len() > LABEL_MAX_LENGTH {
        faults.push("name part must be no more than 63 bytes");
    }
    if !is_label_name(name) {
        faults.push(label_key_text!("name part", ""));
    }
    faults
}

/// The value of a label; may be empty.
pub fn label_value(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > LABEL_MAX_LENGTH {
        faults.push("must be no more than 63 bytes");
    }
    if !(value.is_empty() || is_label_name(value)) {
        faults.push(LABEL_VALUE_TEXT);
    }
    faults
}

/// The key of a ConfigMap's or a Secret's data.
pub fn config_map_key(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > SUBDOMAIN_MAX_LENGTH {
        faults.push(SUBDOMAIN_TOO_LONG);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if value.is_empty() || !value.bytes().all(plain) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        );
    }
    // Such keys become file names; those of the directory itself and above must not be among them.
    match value {
        "." => faults.push("must not be '.'"),
        ".." => faults.push("must not be '..'"),
        _ if value.starts_with("..") => faults.push("must not start with '..'"),
        _ => {}
    }
    faults
}

/// `[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?`
fn is_label_name(value: &str) -> bool {
    bounded_by(value, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_lower_label(value: &str) -> bool {
    bounded_by(value, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), |byte| byte == b'-')
}

fn is_lower_subdomain(value: &str) -> bool {
    value.split('.').all(is_lower_label)
}

fn is_subdomain_in_any_case(value: &str) -> bool {
    value.split('.').all(|label| bounded_by(label, |byte| byte.is_ascii_alphanumeric(), |byte| byte == b'-'))
}

/// Whether a text is not empty, begins and ends with a byte that `edge` takes, and holds nothing that
/// neither takes.
fn bounded_by(value: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => {
            edge(*first) && edge(*last) && middle.iter().all(|byte| edge(*byte) || inner(*byte))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: fn(&str) -> Faults, good: &[&str], bad: &[(&str, &[&str])]) {
        for value in good {
            assert_eq!(rule(value), Faults::new(), "{value:?}");
        }
        for (value, beginnings) in bad {
            let faults = rule(value);
            assert_eq!(faults.len(), beginnings.len(), "{value:?}: {faults:?}");
            for (fault, beginning) in faults.iter().zip(*beginnings) {
                assert!(fault.starts_with(beginning), "{value:?}: {fault}");
            }
        }
    }

    #[test]
    fn labels_are_lower_case_and_without_dots() {
        check(
            dns1123_label,
            &["a", "0", "a-b", "123-abc", &"a".repeat(63)],
            &[
                ("", &["a lowercase RFC 1123 label"]),
                ("-a", &["a lowercase RFC 1123 label"]),
                ("a-", &["a lowercase RFC 1123 label"]),
                ("A", &["a lowercase RFC 1123 label"]),
                ("a_b", &["a lowercase RFC 1123 label"]),
                ("ä", &["a lowercase RFC 1123 label"]),
                ("a.b", &["must not contain dots"]),
                ("a..b", &["a lowercase RFC 1123 label"]),
                (&"a".repeat(64), &["must be no more than 63 characters"]),
                (&"A".repeat(64), &["must be no more than 63 characters", "a lowercase RFC 1123 label"]),
            ],
        );
        check(
            dns1035_label,
            &["a", "a1", "a-b"],
            &[("1a", &["a DNS-1035 label"]), ("a.b", &["a DNS-1035 label"]), ("", &["a DNS-1035 label"])],
        );
    }

    #[test]
    fn subdomains_are_labels_joined_by_dots() {
        check(
            dns1123_subdomain,
            &["a", "a.b", "1.2", "a-b.c-d", &"a".repeat(253)],
            &[
                (".a", &["a lowercase RFC 1123 subdomain"]),
                ("a.", &["a lowercase RFC 1123 subdomain"]),
                ("a.-b", &["a lowercase RFC 1123 subdomain"]),
                ("a b", &["a lowercase RFC 1123 subdomain"]),
                ("a\n", &["a lowercase RFC 1123 subdomain"]),
                (&"a".repeat(254), &["must be no more than 253 characters"]),
            ],
        );
    }

    #[test]
    fn the_text_on_subdomains_is_that_of_kubernetes() {
        assert_eq!(
            dns1123_subdomain("BadName"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(
            dns1123_label("Bad_"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(
            qualified_name("bad key"),
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        );
        assert_eq!(
            label_value("bad value!"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }

    #[test]
    fn qualified_names_have_at_most_one_prefix() {
        let long = "a".repeat(64);
        check(
            qualified_name,
            &["a", "A_b.c-d", "example.com/a", "e/1"],
            &[
                ("", &["name part must be non-empty", "name part must consist"]),
                ("/a", &["prefix part must be non-empty"]),
                ("a/", &["name part must be non-empty", "name part must consist"]),
                ("a/b/c", &["a valid label key must consist"]),
                ("Example.com/x", &["prefix part a lowercase"]),
                (&long, &["name part must be no more than 63 bytes"]),
                (&format!("{}/x", "a".repeat(254)), &["prefix part must be no more than 253 bytes"]),
                ("-a", &["name part must consist"]),
            ],
        );
        check(annotation_key, &["Example.COM/x"], &[("t~x", &["name part must consist"])]);
    }

    #[test]
    fn path_segments_take_all_but_what_paths_read() {
        check(
            path_segment,
            &["System:Any_Thing", "...", "a b"],
            &[
                (".", &["may not be '.'"]),
                ("..", &["may not be '..'"]),
                ("a/b", &["may not contain '/'"]),
                ("a/%", &["may not contain '/'", "may not contain '%'"]),
            ],
        );
        assert_eq!(NameRule::PathSegment.check_generate_name("."), Faults::new());
    }

    #[test]
    fn config_keys_are_file_names() {
        check(
            config_map_key,
            &["a", ".a", "A_b-c.d"],
            &[
                ("", &["a valid config key"]),
                ("bad key", &["a valid config key"]),
                (".", &["must not be '.'"]),
                ("..", &["must not be '..'"]),
                ("..a", &["must not start with '..'"]),
            ],
        );
    }

    #[test]
    fn a_generated_name_fits_a_label() {
        assert_eq!(NameRule::Subdomain.check_generate_name("gen-"), Faults::new());
        assert_eq!(NameRule::Label.check_generate_name("a-"), Faults::new());
        assert_eq!(NameRule::Label.check_generate_name("-").len(), 1);
        assert_eq!(NameRule::Subdomain.check_generate_name("Bad_").len(), 1);
        assert_eq!(NameRule::Label.check_generate_name("é-"), Faults::new(), "the name shows it");
        assert_eq!(generated("gen-", "abcde"), "gen-abcde");
        let long = generated(&"a".repeat(100), "bbbbb");
        assert_eq!((long.len(), dns1123_label(&long)), (63, Faults::new()));
        assert_eq!(generated(&"é".repeat(40), "x"), format!("{}x", "é".repeat(29)));
    }
}
