//! Files of one volume that get into each other's way (`k8s.io/kubernetes/pkg/api/pod`, warnings).

use allotment_machinery::json::Map;

use crate::builtin::rules::look::{is_given, items, object, text};

/// A file of a volume, and what it is made of where a volume is made of several things.
#[derive(Clone, PartialEq, Eq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => format!("{:?}", self.path),
            source => format!("{:?} ({source})", self.path),
        }
    }

    fn overlaps(&self, other: &File) -> bool {
        let (own, others) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty() && !other.path.is_empty() && (own.starts_with(&others) || others.starts_with(&own))
    }
}

/// What is said of the volumes of a pod.
pub(crate) fn overlaps(spec: &Map) -> Vec<String> {
    let mut warnings = Vec::new();
    for (_, volume) in items(spec, "volumes") {
        let name = text(volume, "name");
        for (kind, called, of) in [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")] {
            if let Some(source) = object(volume, kind) {
                let what = format!("{called} {:?}", text(source, of));
                tell(name, &what, files(source, ""), &mut warnings);
            }
        }
        if let Some(source) = object(volume, "downwardAPI") {
            tell(name, "DownwardAPI", files(source, ""), &mut warnings);
        }
        if let Some(source) = object(volume, "projected") {
            projected(name, source, &mut warnings);
        }
    }
    warnings
}

fn projected(name: &str, source: &Map, warnings: &mut Vec<String>) {
    let mut all = Vec::new();
    for (_, part) in items(source, "sources") {
        if part.iter().all(|(_, value)| value.is_null()) {
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
            continue;
        }
        let called =
            |kind: &str, called: &str| object(part, kind).map(|own| (own, format!("{called} {:?}", text(own, "name"))));
        let with_items = |found: &(&Map, String)| is_given(found.0, "items");
        let found = called("configMap", "ConfigMap")
            .filter(with_items)
            .or_else(|| called("secret", "Secret").filter(with_items))
            .or_else(|| object(part, "downwardAPI").map(|own| (own, "DownwardAPI".to_owned())).filter(with_items));
        if let Some((own, source)) = found {
            all.extend(files(own, &source));
        } else if let Some(token) = object(part, "serviceAccountToken") {
            all.push(File { path: text(token, "path").to_owned(), source: "ServiceAccountToken".to_owned() });
        }
    }
    tell(name, "Projected", all, warnings);
}

fn files(source: &Map, called: &str) -> Vec<File> {
    items(source, "items")
        .map(|(_, item)| File { path: text(item, "path").to_owned(), source: called.to_owned() })
        .collect()
}

/// Tells of each file that meets an earlier one. What ends a path does not count.
fn tell(volume: &str, what: &str, files: Vec<File>, warnings: &mut Vec<String>) {
    let mut earlier: Vec<File> = Vec::new();
    for file in files {
        let file = File { path: file.path.trim_end_matches('/').to_owned(), ..file };
        for other in earlier.iter().filter(|other| file.overlaps(other)) {
            let (file, other) = (file.shown(), other.shown());
            warnings.push(format!("volume {volume:?} ({what}): overlapping paths: {file} with {other}"));
        }
        earlier.push(file);
    }
}
