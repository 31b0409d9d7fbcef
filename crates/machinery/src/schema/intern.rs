//! Sharing of schemas by content: tenants that have the same definition hold one schema.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::node::Schema;

/// Schemas in use, by hash of their content. Holds none alive.
#[derive(Debug, Default)]
pub struct Interner {
    known: Mutex<BTreeMap<u64, Vec<Weak<Schema>>>>,
}

impl Interner {
    /// An interner that knows no schema.
    pub fn new() -> Self {
        Interner::default()
    }

    /// The schema that equals `schema` and is in use already, or else `schema`, known from now on.
    /// Equal hashes do not make schemas equal: contents are compared.
    pub fn intern(&self, schema: Schema) -> Arc<Schema> {
        let mut hasher = DefaultHasher::new();
        schema.hash(&mut hasher);
        let hash = hasher.finish();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same_hash = known.entry(hash).or_default();
        if let Some(found) = same_hash.iter().filter_map(Weak::upgrade).find(|found| **found == schema) {
            return found;
        }
        let made = Arc::new(schema);
        same_hash.push(Arc::downgrade(&made));
        known.retain(|_, schemas| {
            schemas.retain(|schema| schema.strong_count() > 0);
            !schemas.is_empty()
        });
        made
    }

    /// How many different schemas are in use.
    pub fn len(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().flatten().filter(|schema| schema.strong_count() > 0).count()
    }

    /// Whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Shape;

    #[test]
    fn equal_schemas_are_one_and_unused_ones_are_forgotten() {
        let interner = Interner::new();
        let one = interner.intern(Schema::map(Schema::of(Shape::String)));
        let same = interner.intern(Schema::map(Schema::of(Shape::String)));
        let other = interner.intern(Schema::map(Schema::of(Shape::Integer)));
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &other));
        assert_eq!(interner.len(), 2);
        drop((one, same, other));
        assert!(interner.is_empty());
    }
}
