//! A source that is itself an object. Its listing consists of one entry and needs no request.

use super::folder::{EntryKind, FolderPages, FolderReadError};
use super::{ListedPage, OriginUrl, PendingFolder};
use crate::error::Error;
use crate::name::url_name::object_name;

/// Returns whether a source can be an object: its path, as typed, does not end with a slash.
pub fn is_object(source: &OriginUrl) -> bool {
    object_name(source.url().path().as_bytes()).is_some()
}

/// Passes the only page of the listing to `each`.
pub fn read_object(
    origin: &OriginUrl,
    folder: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let mut pages = FolderPages::new(folder, each);
    pages.push(origin.text().as_bytes(), EntryKind::Object)?;
    pages.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::entry::ListEntry;

    #[test]
    fn its_listing_has_one_target() {
        let origin = OriginUrl::parse("http://a/b/c%20d").unwrap();
        let mut pages = Vec::new();
        read_object(&origin, &PendingFolder::default(), |page| {
            pages.push(page);
            Ok(())
        })
        .unwrap();

        assert_eq!((pages.len(), pages[0].names.len()), (1, 1));
        let entry = ListEntry::read(pages[0].names.get(0));
        assert_eq!((entry.url, entry.key), (&b"http://a/b/c%20d"[..], Some(&b"c d"[..])));
    }
}
