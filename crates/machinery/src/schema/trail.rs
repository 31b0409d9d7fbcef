//! Where a walk through a value is. Steps live on the stack; text is made only when something is told.

use std::fmt;

use crate::field::Path;

/// One step, and those before it.
#[derive(Clone, Copy)]
pub(super) enum Trail<'a> {
    /// The value that the walk began at.
    Start,
    /// The member of an object.
    Member(&'a Trail<'a>, &'a str),
    /// The member of an object whose members have any name, as field paths show it: `[name]`.
    Key(&'a Trail<'a>, &'a str),
    /// The element of a list.
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    /// The path of this place in a value that is at `base`.
    pub(super) fn path(&self, base: &Path) -> Path {
        match self {
            Trail::Start => base.clone(),
            Trail::Member(before, name) => before.path(base).child(name),
            Trail::Key(before, name) => before.path(base).key(name),
            Trail::Index(before, index) => before.path(base).index(*index),
        }
    }
}

/// `spec.list[0].name`; nothing for the start.
impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trail::Start => Ok(()),
            Trail::Member(Trail::Start, name) => f.write_str(name),
            Trail::Member(before, name) => write!(f, "{before}.{name}"),
            Trail::Key(before, name) => write!(f, "{before}[{name}]"),
            Trail::Index(before, index) => write!(f, "{before}[{index}]"),
        }
    }
}
