//! Checks whether two parts belong to the same object by comparing strong ETags. The check covers the objects whose
//! parts a worker fetched recently.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use fetchmill_model::limits::PART_ETAGS_MAX;

/// ETags of objects. See the [module documentation](self). Memory use: `PART_ETAGS_MAX` slots, allocated with the first
/// part. A new object replaces an older one in the same slot. Objects and ETags are stored as hashes with a secret key,
/// so that servers cannot provoke collisions.
#[derive(Debug, Default)]
pub(super) struct PartEtags {
    keys: RandomState,
    /// Object and ETag of each slot.
    places: RefCell<Vec<(u64, u64)>>,
}

impl PartEtags {
    /// Returns `false` if a part's ETag contradicts the ETag of the previous part of the same URL. A weak or missing
    /// ETag never contradicts another.
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

    /// Discards all ETags, because they might belong to replies for other objects.
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
        assert!(!etags.agrees(b"a", Some(b"\"2\"")), "the first ETag is kept");
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
