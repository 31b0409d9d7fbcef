//! Sets of fields, and the algebra over them.
//!
//! A set is a tree of steps in order. That a field belongs to a set and that fields within it do are two
//! things: `spec.ports` may be in it without any port, and a port without the list.

use std::cmp::Ordering;

use super::element::PathElement;
use super::types::TypeRef;

/// A set of fields of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: Vec<Node>,
}

/// A step below which, or at which, there are fields of the set.
///
/// Invariant: `member` or `children` is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    /// Whether the field itself is in the set.
    pub(super) member: bool,
    /// What is in the set of the fields within it.
    pub(super) children: FieldSet,
}

impl FieldSet {
    /// A set without fields.
    pub const fn new() -> Self {
        FieldSet { nodes: Vec::new() }
    }

    /// The set of one field; of none for the path of the whole object, which nobody owns.
    pub fn of_path(path: &[PathElement]) -> Self {
        let mut set = FieldSet::new();
        for (depth, element) in path.iter().enumerate().rev() {
            let member = depth + 1 == path.len();
            set = FieldSet { nodes: vec![Node { element: element.clone(), member, children: set }] };
        }
        set
    }

    /// The set of the members on these dotted paths, as in `metadata.name`.
    pub fn of_members<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        paths.into_iter().fold(FieldSet::new(), |set, path| {
            let steps: Vec<PathElement> = path.split('.').map(PathElement::field).collect();
            set.union(&FieldSet::of_path(&steps))
        })
    }

    /// Whether no field is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Puts a node behind all others or, if it is not the last in order, where it belongs; of nodes with
    /// one element both stay together. Nodes without anything in them are left out.
    pub(super) fn push(&mut self, node: Node) {
        if !node.member && node.children.is_empty() {
            return;
        }
        if self.nodes.last().is_none_or(|last| last.element < node.element) {
            self.nodes.push(node);
            return;
        }
        match self.nodes.binary_search_by(|have| have.element.cmp(&node.element)) {
            Ok(index) => {
                let have = &mut self.nodes[index];
                have.member |= node.member;
                have.children = have.children.union(&node.children);
            }
            Err(index) => self.nodes.insert(index, node),
        }
    }

    pub(super) fn find(&self, element: &PathElement) -> Option<&Node> {
        self.nodes.binary_search_by(|have| have.element.cmp(element)).ok().map(|index| &self.nodes[index])
    }

    /// Whether the field on `path` is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let set = parents.iter().try_fold(self, |set, step| set.find(step).map(|node| &node.children));
        set.and_then(|set| set.find(last)).is_some_and(|node| node.member)
    }

    /// The fields that are in either set.
    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        self.zip(other, |pair| match pair {
            Pair::Left(node) | Pair::Right(node) => nodes.push(node.clone()),
            Pair::Both(left, right) => nodes.push(Node {
                element: left.element.clone(),
                member: left.member || right.member,
                children: left.children.union(&right.children),
            }),
        });
        FieldSet { nodes }
    }

    /// The fields that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::new();
        self.zip(other, |pair| {
            if let Pair::Both(left, right) = pair {
                out.push(Node {
                    element: left.element.clone(),
                    member: left.member && right.member,
                    children: left.children.intersection(&right.children),
                });
            }
        });
        out
    }

    /// The fields of this set that are not in the other one. Fields within a field that is taken out stay.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.without(other, false)
    }

    /// The same, of a set that is not needed any more.
    #[must_use]
    pub(super) fn into_difference(mut self, other: &FieldSet) -> FieldSet {
        if other.is_empty() {
            return self;
        }
        self.nodes.retain_mut(|node| {
            if let Some(taken) = other.find(&node.element) {
                node.member &= !taken.member;
                node.children = std::mem::take(&mut node.children).into_difference(&taken.children);
            }
            node.member || !node.children.is_empty()
        });
        self
    }

    /// The fields of this set that neither are in the other one nor lie within a field that is.
    #[must_use]
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        self.without(other, true)
    }

    fn without(&self, other: &FieldSet, recursive: bool) -> FieldSet {
        if other.is_empty() {
            return self.clone();
        }
        let mut out = FieldSet::new();
        self.zip(other, |pair| match pair {
            Pair::Left(node) => out.push(node.clone()),
            Pair::Right(_) => {}
            Pair::Both(_, right) if recursive && right.member => {}
            Pair::Both(left, right) => out.push(Node {
                element: left.element.clone(),
                member: left.member && !right.member,
                children: left.children.without(&right.children, recursive),
            }),
        });
        out
    }

    /// Walks both sets in order.
    fn zip<'a>(&'a self, other: &'a FieldSet, mut visit: impl FnMut(Pair<'a>)) {
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(left), Some(right)) => left.element.cmp(&right.element),
            };
            let first = if order.is_le() { left.next() } else { None };
            let second = if order.is_ge() { right.next() } else { None };
            match (first, second) {
                (Some(left), Some(right)) => visit(Pair::Both(left, right)),
                (Some(node), None) => visit(Pair::Left(node)),
                (None, Some(node)) => visit(Pair::Right(node)),
                (None, None) => return,
            }
        }
    }

    /// The paths of all fields: at each level those of the level first, then those within each.
    pub fn paths(&self) -> Vec<Vec<&PathElement>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths<'a>(&'a self, prefix: &mut Vec<&'a PathElement>, paths: &mut Vec<Vec<&'a PathElement>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            paths.push(prefix.iter().copied().chain([&node.element]).collect());
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            prefix.push(&node.element);
            node.children.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// The set with every declared member of an object in it that has fields within it. Sets leave those
    /// out as a rule, since an object has them whoever writes to it.
    #[must_use]
    pub(super) fn with_declared_members(&self, ty: TypeRef<'_>) -> FieldSet {
        let atom = ty.resolve();
        let nodes = self.nodes.iter().map(|node| {
            let mut member = node.member;
            let inner = match (&node.element, &atom.map, &atom.list) {
                (PathElement::Field(name), Some(map), _) => {
                    let declared = map.field(name);
                    member |= declared.is_some() && !node.children.is_empty();
                    declared.unwrap_or(map.element())
                }
                (PathElement::Key(_), _, Some(list)) => list.element(),
                _ => TypeRef::nothing(),
            };
            Node { element: node.element.clone(), member, children: node.children.with_declared_members(inner) }
        });
        FieldSet { nodes: nodes.collect() }
    }
}

enum Pair<'a> {
    Left(&'a Node),
    Right(&'a Node),
    Both(&'a Node, &'a Node),
}
