//! Which of the listed keys are fetched.

use crate::options::{Bounds, options};
use crate::skips::SkipReason;
use crate::source::list::Filters;
use crate::source_metadata::ListedKey;

options! {
    /// What a listing must say of a key; `None` for no bound.
    #[derive(Copy, PartialEq, Eq)]
    pub struct KeyBounds {
        /// Bytes at least.
        size_from: Option<u64> = None, Bounds::at_least(0.0, "bytes");
        /// Fewer bytes than this.
        size_to: Option<u64> = None, Bounds::at_least(0.0, "bytes");
        /// Written then or later, seconds since 1970 UTC.
        modified_from: Option<u64> = None;
        /// Written before this.
        modified_to: Option<u64> = None;
    }
}

impl KeyBounds {
    /// As it stands in the identity of a job; none without bounds.
    pub fn text(&self) -> Option<String> {
        let bounds = [
            ("size from", self.size_from),
            ("size to", self.size_to),
            ("modified from", self.modified_from),
            ("modified to", self.modified_to),
        ];
        let texts: Vec<_> =
            bounds.iter().filter_map(|(name, bound)| bound.map(|bound| format!("{name} {bound}"))).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    fn allow(&self, listed: &ListedKey<'_>) -> bool {
        let size = listed.size.unwrap_or(0);
        self.size_from.is_none_or(|from| size >= from)
            && self.size_to.is_none_or(|to| size < to)
            && self.modified_from.is_none_or(|from| listed.modified >= from)
            && self.modified_to.is_none_or(|to| listed.modified < to)
    }
}

/// See the module.
#[derive(Debug, Default, Clone)]
pub struct Selection {
    /// By the key.
    pub filters: Filters,
    /// By what the listing says of it.
    pub bounds: KeyBounds,
}

impl Selection {
    /// Why a key is no target; none: it is one. Folder markers are none: they have no bytes, and a name that no file can
    /// have.
    pub fn reason_to_skip(&self, listed: &ListedKey<'_>) -> Option<SkipReason> {
        if listed.key.ends_with(b"/") && listed.size == Some(0) {
            return Some(SkipReason::FolderMarker);
        }
        let is_taken = self.bounds.allow(listed) && self.filters.allows(listed.key);
        (!is_taken).then_some(SkipReason::Filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(key: &str, size: u64, modified: u64) -> ListedKey<'_> {
        ListedKey { key: key.as_bytes(), size: Some(size), etag: b"", modified }
    }

    #[test]
    fn bounds_hold_from_and_end_before() {
        let bounds = KeyBounds {
            size_from: Some(10),
            size_to: Some(20),
            modified_from: Some(5),
            modified_to: Some(6),
        };
        let selection = Selection { bounds, ..Selection::default() };

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
    fn a_folder_marker_is_no_target() {
        let selection = Selection::default();

        assert_eq!(selection.reason_to_skip(&listed("a/", 0, 0)), Some(SkipReason::FolderMarker));
        assert_eq!(selection.reason_to_skip(&listed("a/", 1, 0)), None);
        assert_eq!(selection.reason_to_skip(&listed("a", 0, 0)), None);
    }
}
