//! A JSON object: a vector sorted by key.
//!
//! Objects of the API have few members and are read far more often than changed; a sorted vector costs
//! one allocation, iterates in canonical order and compares without hashing.

use super::Value;

/// The members of a JSON object, sorted by key, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Map {
    members: Vec<(String, Value)>,
}

impl Map {
    /// An object without members.
    pub const fn new() -> Self {
        Map { members: Vec::new() }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.members.binary_search_by(|(have, _)| have.as_str().cmp(key))
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).ok().map(|index| &self.members[index].1)
    }

    /// The member `key`, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.find(key).ok().map(|index| &mut self.members[index].1)
    }

    /// Whether there is a member `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }

    /// Sets `key`; returns what was there.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.find(&key) {
            Ok(index) => Some(std::mem::replace(&mut self.members[index].1, value)),
            Err(index) => {
                self.members.insert(index, (key, value));
                None
            }
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.find(key).ok().map(|index| self.members.remove(index).1)
    }

    /// The member `key`; `make` supplies it where it is absent.
    pub fn get_or_insert_with(&mut self, key: &str, make: impl FnOnce() -> Value) -> &mut Value {
        let index = match self.find(key) {
            Ok(index) => index,
            Err(index) => {
                self.members.insert(index, (key.to_owned(), make()));
                index
            }
        };
        &mut self.members[index].1
    }

    /// The object under `key`, made where it is absent; `None` where something else is there.
    pub fn object_mut(&mut self, key: &str) -> Option<&mut Map> {
        self.get_or_insert_with(key, || Value::Object(Map::new())).as_object_mut()
    }

    /// The members in order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Value)> + ExactSizeIterator {
        self.members.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The members in order of their keys, to change.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut Value)> + ExactSizeIterator {
        self.members.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.members.iter().map(|(key, _)| key.as_str())
    }

    /// Keeps the members for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.members.retain_mut(|(key, value)| keep(key, value));
    }

    /// Makes an object of members in any order; of equal keys the last wins. `duplicate` is told of each
    /// key that came before.
    pub(super) fn from_unsorted(mut members: Vec<(String, Value)>, mut duplicate: impl FnMut(&str)) -> Self {
        members.shrink_to_fit();
        if !members.is_sorted_by(|left, right| left.0 < right.0) {
            members.sort_by(|left, right| left.0.cmp(&right.0));
            members.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    duplicate(&later.0);
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
        Map { members }
    }
}

impl FromIterator<(String, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Self {
        Map::from_unsorted(members.into_iter().collect(), |_| ())
    }
}

impl IntoIterator for Map {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}
