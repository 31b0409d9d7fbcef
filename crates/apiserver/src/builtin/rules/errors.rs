//! What is wrong with an object, as far as anybody will read it.

use std::ops::Deref;

use allotment_machinery::field::{FieldError, MAX_ERRORS};

/// The most faults that are kept: what an answer shows, and enough more to say that there are many. A rule about
/// two lists finds as many as their product, and each may show a value of some KiB.
const MAX_KEPT: usize = 10 * MAX_ERRORS;

/// What is wrong with an object, so far: the first faults, and how many there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    kept: Vec<FieldError>,
    found: usize,
}

impl Errors {
    /// Adds a fault, if there is room.
    pub(crate) fn push(&mut self, error: FieldError) {
        self.found += 1;
        if !self.is_full() {
            self.kept.push(error);
        }
    }

    /// How many were found; at least so many, where there was no room for all.
    pub(crate) fn len(&self) -> usize {
        self.found
    }

    /// Whether nothing more is kept, so that nothing more need be looked for.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= MAX_KEPT
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        *self = Errors::default();
    }

    /// Those that were kept.
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.kept
    }
}

impl Deref for Errors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.kept
    }
}

impl Extend<FieldError> for Errors {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        for error in errors {
            self.push(error);
            if self.is_full() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use allotment_machinery::field::Path;

    use super::*;

    #[test]
    fn faults_are_counted_beyond_those_that_are_kept() {
        let fault = |index: usize| FieldError::required(&Path::new("list").index(index), "");
        let (mut errors, mut looked) = (Errors::default(), 0);
        errors.extend((0..usize::MAX).inspect(|_| looked += 1).map(fault));
        assert!(errors.is_full());
        let before = errors.len();
        errors.push(fault(0));
        errors.extend([fault(1)]);
        assert_eq!((errors.len(), errors.iter().count()), (before + 2, MAX_KEPT), "whether there are more is known");
        assert_eq!(errors.into_vec()[0].path, Path::new("list").index(0));
        assert_eq!(looked, MAX_KEPT);
    }
}
