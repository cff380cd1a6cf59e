//! Whether two parts are of the same object: a worker remembers the strong ETags of those whose parts it has fetched last.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use fetchmill_model::limits::PART_ETAGS_MAX;

/// See the module. Memory: `PART_ETAGS_MAX` places, taken with the first part. An object that comes to a place of another one
/// takes it. Both are remembered by hashes of a secret key, so that no server can choose two of the same.
#[derive(Debug, Default)]
pub(super) struct PartEtags {
    keys: RandomState,
    /// The object, and its ETag.
    places: RefCell<Vec<(u64, u64)>>,
}

impl PartEtags {
    /// Whether nothing speaks against it that a part with this ETag is of the same object as the last one of its URL. A weak
    /// ETag, or none, says nothing.
    pub(super) fn agrees(&self, url: &[u8], etag: Option<&[u8]>) -> bool {
        let Some(etag) = etag.filter(|etag| etag.starts_with(b"\"")) else { return true };
        let (object, tag) = (self.keys.hash_one(url), self.keys.hash_one(etag));
        let mut places = self.places.borrow_mut();
        if places.is_empty() {
            places.resize(PART_ETAGS_MAX, (0, 0));
        }
        let place = &mut places[object as usize % PART_ETAGS_MAX];
        if place.0 != object {
            *place = (object, tag);
        }
        place.1 == tag
    }

    /// What was seen may have belonged to others.
    pub(super) fn forget(&self) {
        self.places.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_strong_etag_of_the_same_object_does_not_agree() {
        let etags = PartEtags::default();

        assert!(etags.agrees(b"a", Some(b"\"1\"")));
        assert!(etags.agrees(b"a", Some(b"\"1\"")));
        assert!(!etags.agrees(b"a", Some(b"\"2\"")));
        assert!(!etags.agrees(b"a", Some(b"\"2\"")), "the first one stays");
        assert!(etags.agrees(b"a", Some(b"W/\"2\"")) && etags.agrees(b"a", None));
        etags.forget();
        assert!(etags.agrees(b"a", Some(b"\"2\"")));
    }

    #[test]
    fn any_number_of_objects_takes_the_same_memory() {
        let etags = PartEtags::default();
        for number in 0..10 * PART_ETAGS_MAX {
            assert!(etags.agrees(&number.to_le_bytes(), Some(b"\"1\"")));
        }
        assert_eq!(etags.places.borrow().len(), PART_ETAGS_MAX);
    }
}
