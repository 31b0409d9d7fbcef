//! Files of one volume that get into each other's way (`k8s.io/kubernetes/pkg/api/pod`, warnings).

use std::collections::{BTreeMap, BTreeSet};

use allotment_machinery::json::Map;

use crate::builtin::rules::look::{is_given, items, object, text};
use crate::registry::Warnings;

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
}

/// What is said of the volumes of a pod.
pub(crate) fn overlaps(spec: &Map) -> Warnings {
    let mut warnings = Warnings::default();
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

fn projected(name: &str, source: &Map, warnings: &mut Warnings) {
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
fn tell(volume: &str, what: &str, files: Vec<File>, warnings: &mut Warnings) {
    let ended = |file: File| File { path: file.path.trim_end_matches('/').to_owned(), ..file };
    let files: Vec<File> = files.into_iter().map(ended).collect();
    let mut tree = Tree::of(files.iter().map(|file| file.path.as_str()));
    for (place, file) in files.iter().enumerate() {
        if warnings.is_full() {
            return;
        }
        warnings.extend(tree.add(place, &file.path).into_iter().map(|other| {
            let (file, other) = (file.shown(), files[other].shown());
            format!("volume {volume:?} ({what}): overlapping paths: {file} with {other}")
        }));
    }
}

/// Paths and the nearest of them that each lies in. A path has no more of them above it than it has parts, so that
/// all of this is bounded by the length of all paths and by what there is to tell.
struct Tree {
    /// Each path, with a slash at its end, and its place in `nodes`.
    by_path: BTreeMap<String, usize>,
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    above: Option<usize>,
    /// Files that have this path, of those that were added.
    here: Vec<usize>,
    /// Files further below, of those that were added.
    below: Vec<usize>,
}

impl Tree {
    /// Of paths that are going to be added.
    fn of<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        let paths: BTreeSet<String> = paths.filter(|path| !path.is_empty()).map(|path| format!("{path}/")).collect();
        let mut nodes: Vec<Node> = Vec::with_capacity(paths.len());
        // What lies in a path follows it in this order, so that those that the last one lies in are a stack.
        let mut stack: Vec<(usize, &str)> = Vec::new();
        for (place, path) in paths.iter().enumerate() {
            while stack.pop_if(|(_, above)| !path.starts_with(*above)).is_some() {}
            nodes.push(Node { above: stack.last().map(|(above, _)| *above), ..Node::default() });
            stack.push((place, path));
        }
        Tree { by_path: paths.into_iter().enumerate().map(|(place, path)| (path, place)).collect(), nodes }
    }

    /// Adds a file; those before it that it meets, the first ones first.
    fn add(&mut self, file: usize, path: &str) -> Vec<usize> {
        let Some(own) = self.by_path.get(&format!("{path}/")).copied() else { return Vec::new() };
        let mut met = self.nodes[own].below.clone();
        met.extend(&self.nodes[own].here);
        self.nodes[own].here.push(file);
        let mut next = self.nodes[own].above;
        while let Some(above) = next {
            let node = &mut self.nodes[above];
            met.extend(&node.here);
            node.below.push(file);
            next = node.above;
        }
        met.sort_unstable();
        met
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overlap(one: &str, other: &str) -> bool {
        let (own, others) = (format!("{one}/"), format!("{other}/"));
        !one.is_empty() && !other.is_empty() && (own.starts_with(&others) || others.starts_with(&own))
    }

    proptest! {
        #[test]
        fn files_meet_those_before_them_that_lie_in_them_or_around_them(
            paths in proptest::collection::vec("(a|b|a-|)(/(a|b)){0,3}", 0..12)
        ) {
            let mut tree = Tree::of(paths.iter().map(String::as_str));
            for (place, path) in paths.iter().enumerate() {
                let expect: Vec<usize> = (0..place).filter(|other| overlap(path, &paths[*other])).collect();
                prop_assert_eq!(tree.add(place, path), expect, "{} of {:?}", place, paths);
            }
        }
    }
}
