//! Patterns of strings, in the syntax of Go's `regexp` package (RE2).
//!
//! Go's classes `\d`, `\w`, `\s` and the boundary `\b` know ASCII only, and brackets or `&&` within a
//! class are plain characters; the engine below thinks otherwise, so patterns are rewritten. Matching
//! takes time linear in the text. A compiled pattern may be large, so it is made on first use.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Bound on a compiled pattern. Kubernetes' own name patterns need a few dozen kilobytes.
const COMPILED_BYTES: usize = 1 << 20;

/// Bound on the cache of lazily built states, per thread that matches.
const CACHE_BYTES: usize = 256 << 10;

/// How many groups may nest.
const NESTING: u32 = 100;

/// A pattern that compiles, compiled when first used.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: Box<str>,
    compiled: OnceLock<Option<Box<Regex>>>,
}

impl Pattern {
    /// Takes a pattern, if it compiles.
    ///
    /// # Errors
    /// Why it does not, in the words of Go's `regexp` where they are known.
    pub fn new(source: &str) -> Result<Self, String> {
        compile(source)?;
        Ok(Pattern { source: source.into(), compiled: OnceLock::new() })
    }

    /// The pattern as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it occurs in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| compile(&self.source).ok().map(Box::new));
        compiled.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

impl std::hash::Hash for Pattern {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(&from_go(source))
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .nest_limit(NESTING)
        .build()
        .map_err(|error| complaint(source, &error))
}

/// What Go's `regexp` says of the commonest mistakes; the engine's own words otherwise.
fn complaint(source: &str, error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("the pattern needs more than {limit} bytes when compiled: repeat less, or nest fewer repetitions")
        }
        regex::Error::Syntax(text) if text.contains("unclosed group") => {
            format!("error parsing regexp: missing closing ): `{source}`")
        }
        regex::Error::Syntax(text) if text.contains("unopened group") => {
            format!("error parsing regexp: unexpected ): `{source}`")
        }
        regex::Error::Syntax(text) if text.contains("unclosed character class") => {
            let from = source.find('[').unwrap_or(0);
            format!("error parsing regexp: missing closing ]: `{}`", &source[from..])
        }
        regex::Error::Syntax(text) if text.contains("repetition operator missing expression") => {
            let from = source.find(['*', '+', '?']).unwrap_or(0);
            let operator: String = source[from..].chars().take(1).collect();
            format!("error parsing regexp: missing argument to repetition operator: `{operator}`")
        }
        regex::Error::Syntax(text) if text.contains("look-around") => {
            let around = ["(?=", "(?!", "(?<=", "(?<!"].into_iter().find(|around| source.contains(around));
            let shown: String = around.unwrap_or("(?").chars().take(3).collect();
            format!("error parsing regexp: invalid or unsupported Perl syntax: `{shown}`")
        }
        regex::Error::Syntax(text) => {
            let last = text.lines().last().unwrap_or(text);
            format!("error parsing regexp: {}", last.trim_start_matches("error: "))
        }
        other => format!("error parsing regexp: {other}"),
    }
}

/// Rewrites what Go and the engine read differently.
fn from_go(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut characters = source.chars().peekable();
    let mut in_class = false;
    // Right behind `[` or `[^` a `]` is a plain character.
    let mut class_begins = false;
    while let Some(character) = characters.next() {
        let at_begin = std::mem::take(&mut class_begins);
        match character {
            '\\' => match characters.next() {
                Some(escaped) => push_escape(escaped, in_class, &mut characters, &mut out),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                class_begins = true;
                out.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            '[' if characters.peek() == Some(&':') => out.push('['),
            ']' if in_class && at_begin => out.push_str("\\]"),
            ']' if in_class && out.ends_with(':') && out.rfind("[:").is_some_and(|from| from + 2 < out.len()) => {
                out.push(']');
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', character]),
            other => out.push(other),
        }
    }
    out
}

fn push_escape(escaped: char, in_class: bool, rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    match (escaped, in_class) {
        ('d', false) => out.push_str("[0-9]"),
        ('d', true) => out.push_str("0-9"),
        ('D', false) => out.push_str("[^0-9]"),
        ('D', true) => out.push_str("[^0-9]"),
        ('w', false) => out.push_str("[0-9A-Za-z_]"),
        ('w', true) => out.push_str("0-9A-Za-z_"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('s', false) => out.push_str("[\\t\\n\\x0C\\r ]"),
        ('s', true) => out.push_str("\\t\\n\\x0C\\r "),
        ('S', _) => out.push_str("[^\\t\\n\\x0C\\r ]"),
        ('b', false) => out.push_str("(?-u:\\b)"),
        ('B', false) => out.push_str("(?-u:\\B)"),
        ('Q', false) => push_quoted(rest, out),
        (other, _) => out.extend(['\\', other]),
    }
}

/// `\Q…\E`: everything between is plain.
fn push_quoted(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut quoted = String::new();
    while let Some(character) = rest.next() {
        if character == '\\' && rest.next_if_eq(&'E').is_some() {
            break;
        }
        quoted.push(character);
    }
    out.push_str(&regex::escape(&quoted));
}
