//! Finds entries of a list by their keys without copying these.

/// The places of a list's entries in the order of their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Keyed {
    order: Vec<u32>,
}

impl Keyed {
    /// Of the first `u32::MAX` entries; of equal keys the first one is found.
    pub(super) fn new<T>(list: &[T], key: impl Fn(&T) -> &str) -> Self {
        let mut order: Vec<u32> = (0..u32::try_from(list.len()).unwrap_or(u32::MAX)).collect();
        order.sort_by(|left, right| key(&list[*left as usize]).cmp(key(&list[*right as usize])));
        Keyed { order }
    }

    /// Where `wanted` stands in the list that this was made from.
    pub(super) fn find<T>(&self, list: &[T], key: impl Fn(&T) -> &str, wanted: &str) -> Option<usize> {
        let at = self.order.partition_point(|place| list.get(*place as usize).is_some_and(|entry| key(entry) < wanted));
        let place = *self.order.get(at)? as usize;
        (key(list.get(place)?) == wanted).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_keys_is_found_and_nothing_else() {
        let list = ["c", "a", "b", "a", "c"];
        let keyed = Keyed::new(&list, |text| text);
        let find = |wanted| keyed.find(&list, |text| text, wanted);
        assert_eq!([find("a"), find("b"), find("c")], [Some(1), Some(2), Some(0)]);
        assert_eq!([find(""), find("aa"), find("d")], [None, None, None]);
    }
}
