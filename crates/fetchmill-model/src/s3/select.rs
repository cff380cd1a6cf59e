//! Selects which of the listed keys are fetched.

use crate::options::{Bounds, options};
use crate::outcome::skips::SkipReason;
use crate::source::list::Filters;
use crate::target::source_metadata::ListedKey;

const STANDARD: &str = "STANDARD";

/// An object as listed on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketEntry<'a> {
    /// Facts for the journal.
    pub listed: ListedKey<'a>,
    /// Storage class, such as `GLACIER`. Empty if the listing does not state it.
    pub storage_class: &'a str,
}

options! {
    /// Bounds on the size, time and storage class of a listed key. `None` means no bound.
    #[derive(PartialEq, Eq)]
    pub struct KeyBounds {
        /// Minimum size in bytes.
        size_from: Option<u64> = None, Bounds::at_least(0.0, "bytes");
        /// Upper bound of the size in bytes, exclusive.
        size_to: Option<u64> = None, Bounds::at_least(0.0, "bytes");
        /// Earliest time of the last write, in seconds since 1970 UTC.
        modified_from: Option<u64> = None;
        /// Upper bound of the time of the last write, exclusive.
        modified_to: Option<u64> = None;
        /// Storage classes. If empty, any class is accepted.
        storage_class: Vec<String> = Vec::new();
    }
}

impl KeyBounds {
    /// Returns the bounds as a text that becomes part of a job's identity, or `None` if there are no bounds.
    pub fn text(&self) -> Option<String> {
        let bounds = [
            ("size from", self.size_from),
            ("size to", self.size_to),
            ("modified from", self.modified_from),
            ("modified to", self.modified_to),
        ];
        let texts = bounds.iter().filter_map(|(name, bound)| bound.map(|bound| format!("{name} {bound}")));
        let classes = self.storage_class.iter().map(|class| format!("storage class {class}"));
        let texts: Vec<_> = texts.chain(classes).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    fn allow(&self, BucketEntry { listed, storage_class }: &BucketEntry<'_>) -> bool {
        // The class is missing if it is the standard class, or if the store does not have classes.
        let class = if storage_class.is_empty() { STANDARD } else { storage_class };
        let has_class = self.storage_class.is_empty() || self.storage_class.iter().any(|name| name == class);
        let size = listed.size.unwrap_or(0);
        has_class
            && self.size_from.is_none_or(|from| size >= from)
            && self.size_to.is_none_or(|to| size < to)
            && self.modified_from.is_none_or(|from| listed.modified >= from)
            && self.modified_to.is_none_or(|to| listed.modified < to)
    }
}

/// The selection that the user has made. See the module.
#[derive(Debug, Default, Clone)]
pub struct Selection {
    /// Filters that apply to the key.
    pub filters: Filters,
    /// Bounds that apply to the size, time and storage class in the listing.
    pub bounds: KeyBounds,
}

impl Selection {
    /// Returns the reason why a key is not a target, or `None` if it is a target. Folder markers are not targets,
    /// because they have no bytes and cannot be file names.
    pub fn reason_to_skip(&self, object: &BucketEntry<'_>) -> Option<SkipReason> {
        let listed = &object.listed;
        if listed.key.ends_with(b"/") && listed.size == Some(0) {
            return Some(SkipReason::FolderMarker);
        }
        let is_taken = self.bounds.allow(object) && self.filters.allows(listed.key);
        (!is_taken).then_some(SkipReason::Filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(key: &str, size: u64, modified: u64) -> BucketEntry<'_> {
        let listed = ListedKey { key: key.as_bytes(), size: Some(size), etag: b"", modified };
        BucketEntry { listed, storage_class: "" }
    }

    #[test]
    fn bounds_hold_from_and_end_before() {
        let bounds = KeyBounds {
            size_from: Some(10),
            size_to: Some(20),
            modified_from: Some(5),
            modified_to: Some(6),
            ..KeyBounds::default()
        };
        let selection = Selection { bounds: bounds.clone(), ..Selection::default() };

        for (size, modified, is_taken) in
            [(10, 5, true), (19, 5, true), (9, 5, false), (20, 5, false), (10, 4, false), (10, 6, false)]
        {
            assert_eq!(
                selection.reason_to_skip(&listed("k", size, modified)).is_none(),
                is_taken,
                "{size} {modified}"
            );
        }
        assert_eq!(bounds.text().unwrap(), "size from 10, size to 20, modified from 5, modified to 6");
        assert_eq!(KeyBounds::default().text(), None);
    }

    #[test]
    fn a_listing_without_a_class_means_the_usual_one() {
        let bounds =
            KeyBounds { storage_class: vec!["STANDARD".into(), "GLACIER_IR".into()], ..KeyBounds::default() };
        assert_eq!(bounds.text().unwrap(), "storage class STANDARD, storage class GLACIER_IR");
        let selection = Selection { bounds, ..Selection::default() };
        for (storage_class, is_taken) in [("", true), ("GLACIER_IR", true), ("GLACIER", false)] {
            let object = BucketEntry { storage_class, ..listed("k", 1, 1) };
            assert_eq!(selection.reason_to_skip(&object).is_none(), is_taken, "{storage_class}");
        }
    }

    #[test]
    fn a_folder_marker_is_no_target() {
        let selection = Selection::default();

        assert_eq!(selection.reason_to_skip(&listed("a/", 0, 0)), Some(SkipReason::FolderMarker));
        assert_eq!(selection.reason_to_skip(&listed("a/", 1, 0)), None);
        assert_eq!(selection.reason_to_skip(&listed("a", 0, 0)), None);
    }
}
