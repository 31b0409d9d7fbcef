//! Reads type declarations out of gofmt'd Go files: structs with their field tags and markers, named
//! types, string constants. Just the part of the language in which the API types are written.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

/// The declarations of several packages, by `short/package.Name`.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Structs and named types.
    pub(crate) types: BTreeMap<String, Declaration>,
    /// Values of the string constants of a type, in the order of the source.
    pub(crate) constants: BTreeMap<String, Vec<(String, String)>>,
    /// Import path to short name.
    packages: BTreeMap<String, String>,
}

/// One declared type.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// The short name of its package.
    pub(crate) package: String,
    /// Markers of its comment, without the plus.
    pub(crate) markers: Vec<String>,
    /// Import aliases of the file it stands in.
    pub(crate) imports: BTreeMap<String, String>,
    /// What it is.
    pub(crate) body: Body,
}

/// What a declared type is.
#[derive(Debug)]
pub(crate) enum Body {
    /// A struct.
    Struct(Vec<Field>),
    /// Another name for this type.
    Named(String),
}

/// A field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    /// The Go type as written.
    pub(crate) go_type: String,
    /// Whether it has no name of its own.
    pub(crate) embedded: bool,
    /// The tags: `json`, `protobuf`, `patchStrategy`, `patchMergeKey`.
    pub(crate) tags: BTreeMap<String, String>,
    /// Markers of its comment, without the plus.
    pub(crate) markers: Vec<String>,
}

impl Source {
    /// Reads all files of a package but tests and generated ones.
    pub(crate) fn read_package(&mut self, folder: &Path, import: &str, short: &str) -> anyhow::Result<()> {
        self.packages.insert(import.to_owned(), short.to_owned());
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .with_context(|| format!("read {}", folder.display()))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".go") && !name.ends_with("_test.go") && !name.contains("generated"))
            .collect();
        files.sort();
        for name in files {
            let text = std::fs::read_to_string(folder.join(&name)).with_context(|| format!("read {name}"))?;
            self.read_file(&text, short);
        }
        Ok(())
    }

    /// The short name of the package behind an import path.
    pub(crate) fn short(&self, import: &str) -> Option<&str> {
        self.packages.get(import).map(String::as_str)
    }

    fn read_file(&mut self, text: &str, short: &str) {
        let mut lines = text.lines();
        let mut imports = BTreeMap::new();
        let mut markers: Vec<String> = Vec::new();
        while let Some(line) = lines.next() {
            let trimmed = line.trim();
            if let Some(marker) = marker(trimmed) {
                markers.push(marker);
            } else if let Some(import) = import(trimmed) {
                imports.insert(import.0, import.1);
            } else if let Some(rest) = line.strip_prefix("type ") {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let body = match rest.trim() {
                    "struct {" => Body::Struct(fields(&mut lines)),
                    "struct{}" => Body::Struct(Vec::new()),
                    named if !named.ends_with(['{', '(']) => Body::Named(named.trim_start_matches("= ").to_owned()),
                    _ => continue,
                };
                let declaration = Declaration {
                    package: short.to_owned(),
                    markers: std::mem::take(&mut markers),
                    imports: imports.clone(),
                    body,
                };
                self.types.insert(format!("{short}.{name}"), declaration);
            } else if let Some((name, of, value)) = constant(trimmed) {
                self.constants.entry(format!("{short}.{of}")).or_default().push((name, value));
            } else if !trimmed.starts_with("//") && !trimmed.is_empty() {
                markers.clear();
            }
        }
    }
}

/// `// +optional` → `optional`
fn marker(line: &str) -> Option<String> {
    let text = line.strip_prefix("//")?.trim().strip_prefix('+')?;
    Some(text.to_owned())
}

/// `metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"` → alias and path.
fn import(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("import ").unwrap_or(line);
    let (alias, rest) = line.split_once('"')?;
    let path = rest.strip_suffix('"')?;
    if !alias.trim().chars().all(|c| c.is_alphanumeric() || c == '_') || !path.contains('/') {
        return None;
    }
    let alias = if alias.trim().is_empty() { path.rsplit('/').next().unwrap_or(path) } else { alias.trim() };
    Some((alias.to_owned(), path.to_owned()))
}

/// `ProtocolTCP Protocol = "TCP"` → name, type, value.
fn constant(line: &str) -> Option<(String, String, String)> {
    let line = line.strip_prefix("const ").unwrap_or(line);
    let (left, right) = line.split_once(" = \"")?;
    let (name, of) = left.split_once(char::is_whitespace)?;
    let value = right.split('"').next()?;
    let of = of.trim();
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    (plain(name) && plain(of)).then(|| (name.to_owned(), of.to_owned(), value.to_owned()))
}

/// The fields of a struct up to its closing brace.
fn fields<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut markers: Vec<String> = Vec::new();
    let mut in_comment = false;
    for line in lines {
        if line == "}" {
            break;
        }
        let trimmed = line.trim();
        if in_comment || trimmed.starts_with("/*") {
            in_comment = !trimmed.ends_with("*/");
            continue;
        }
        if let Some(marker) = marker(trimmed) {
            markers.push(marker);
            continue;
        }
        if trimmed.is_empty() || trimmed.starts_with("//") {
            continue;
        }
        let (declared, tags) = trimmed.split_once('`').unwrap_or((trimmed, ""));
        let mut words = declared.split("//").next().unwrap_or_default().split_whitespace();
        let first = words.next().unwrap_or_default();
        let go_type = words.next();
        fields.push(Field {
            go_type: go_type.unwrap_or(first).to_owned(),
            embedded: go_type.is_none(),
            tags: parse_tags(tags.split('`').next().unwrap_or_default()),
            markers: std::mem::take(&mut markers),
        });
    }
    fields
}

/// `json:"a,omitempty" protobuf:"bytes,1,opt,name=a"` → by name.
fn parse_tags(text: &str) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once(":\"") {
        let Some((value, after)) = after.split_once('"') else { break };
        tags.insert(name.trim().to_owned(), value.to_owned());
        rest = after;
    }
    tags
}
