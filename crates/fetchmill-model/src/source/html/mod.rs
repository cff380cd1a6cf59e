//! Folder index pages from Apache, nginx, lighttpd and `python -m http.server`. On request, any other page with links
//! can be read (`links.rs`).
//!
//! A page is read as a stream, link by link. It must identify itself as an index, because a folder's own page
//! (`index.html`) is not a listing. It must be complete, because files missing from a truncated page would go
//! unnoticed. Names are taken from the links because servers shorten the displayed names.

mod link;
mod links;
mod tokens;

use std::collections::HashSet;
use std::io::Read;

use self::link::{IndexLink, IndexPlace};
pub use self::links::{LinkPage, read_links};
use self::tokens::{IndexToken, tokens};
use super::bounded_reader::read_error;
use super::folder::{EntryKind, FileFacts, FolderPages, FolderReadError};
use super::{BadPage, ListedPage, OriginUrl, PendingFolder, listed_time};
use crate::error::Error;
use crate::limits::{INDEX_ENTRIES_MAX, INDEX_HREF_BYTES_MAX};
use crate::name::for_display;
use crate::outcome::skips::SkipReason;

/// Lower-case prefixes of the headings of index pages: one for Apache, nginx and lighttpd, and one for Python.
const INDEX_HEADINGS: [&str; 2] = ["index of", "directory listing for"];

/// Reads the page of a folder from the position in `folder`, and passes the entries to `each`, page by page. The last
/// page ends the listing.
pub fn read_folder(
    reader: impl Read,
    origin: &OriginUrl,
    folder: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let place = IndexPlace::new(origin, &folder.path);
    let mut pages = FolderPages::new(folder, each);
    let mut index = IndexReader::default();
    // The last entry. If its link belongs to an icon, the next link belongs to the name, and the file's size and time
    // follow that link.
    let mut last: Option<(Vec<u8>, EntryKind)> = None;
    for token in tokens(reader) {
        match token.map_err(read_error)? {
            IndexToken::Heading(text) => index.heading(&text),
            IndexToken::Link { href, behind } => {
                index.must_be_index()?;
                let Some((name, kind)) = entry_of(&place, &href, &behind) else { continue };
                if index.seen.is_new(&name, kind)? {
                    if let Some((name, kind)) = last.replace((name, kind)) {
                        pages.push(&name, kind)?;
                    }
                } else if let Some(last) =
                    last.as_mut().filter(|last| last.0 == name && last.1.tells_nothing())
                {
                    last.1 = kind;
                }
            }
            IndexToken::Base(_) => return bad("its <base> makes the links relative to another page"),
            IndexToken::End => index.has_end = true,
        }
    }
    index.must_be_index()?;
    if !index.has_end {
        // This is handled like a broken connection, because the page may be complete the next time.
        return Err(FolderReadError::Cut("the page is cut off: it ends without </html>"));
    }
    if let Some((name, kind)) = last {
        pages.push(&name, kind)?;
    }
    pages.finish()
}

/// Checks whether a page that begins with `page` is an index. If it is not, the error is the page's title.
pub fn is_index(page: &[u8]) -> Result<(), String> {
    let mut index = IndexReader::default();
    // After an error, the tokenizer only repeats this error.
    for token in tokens(page).map_while(Result::ok) {
        if let IndexToken::Heading(text) = token {
            index.heading(&text);
        }
        if index.is_index {
            return Ok(());
        }
    }
    Err(index.title())
}

/// State of a page that is being read.
#[derive(Default)]
struct IndexReader {
    is_index: bool,
    /// The first heading of the page.
    heading: Option<Vec<u8>>,
    has_end: bool,
    /// Entries read so far. A link can occur twice, for example for an icon and for a name.
    seen: SeenEntries,
}

impl IndexReader {
    fn heading(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        self.is_index |= INDEX_HEADINGS.iter().any(|begin| {
            text.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin.as_bytes()))
        });
        self.heading.get_or_insert_with(|| text.to_vec());
    }

    fn title(&self) -> String {
        match &self.heading {
            Some(text) => format!("it is called {:?}", for_display(text)),
            None => "it has no heading".to_owned(),
        }
    }

    fn must_be_index(&self) -> Result<(), FolderReadError> {
        if self.is_index {
            return Ok(());
        }
        Err(FolderReadError::NotIndex(format!(
            "the page is not an index: {}, but index pages begin with \"Index of\" or \"Directory listing \
             for\"",
            self.title()
        )))
    }
}

/// Digests of the entries on a page so far, up to [`INDEX_ENTRIES_MAX`].
#[derive(Default)]
struct SeenEntries(HashSet<u128>);

impl SeenEntries {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the entry has not yet occurred on the page.
    fn is_new(&mut self, name: &[u8], kind: EntryKind) -> Result<bool, FolderReadError> {
        let seed = match kind {
            EntryKind::File(_) => 0,
            EntryKind::Folder => 1,
            _ => 2,
        };
        let is_new = self.0.insert(xxhash_rust::xxh3::xxh3_128_with_seed(name, seed));
        if self.0.len() > INDEX_ENTRIES_MAX {
            return bad(&format!(
                "the page has more than {INDEX_ENTRIES_MAX} links; fetch a list of URLs instead"
            ));
        }
        Ok(is_new)
    }
}

/// Returns the entry for a link, or `None` if the link leads to the folder itself.
fn entry_of(place: &IndexPlace, href: &[u8], behind: &[u8]) -> Option<(Vec<u8>, EntryKind)> {
    if href.len() > INDEX_HREF_BYTES_MAX {
        return Some((href.to_vec(), EntryKind::LeftOut(SkipReason::OtherPath)));
    }
    match place.read(href) {
        IndexLink::Own => None,
        IndexLink::OtherOrigin => Some((href.to_vec(), EntryKind::LeftOut(SkipReason::OtherOrigin))),
        IndexLink::Outside => Some((href.to_vec(), EntryKind::LeftOut(SkipReason::OtherPath))),
        IndexLink::Folder(name) => Some((name, EntryKind::Folder)),
        IndexLink::File(name) => Some((name, EntryKind::File(facts(behind)))),
    }
}

/// Reads a file's time and size from the text after its link, for example `01-Jan-2026 10:00 1234`. Only nginx writes
/// exact sizes. Apache and lighttpd write rounded sizes with a unit.
fn facts(behind: &[u8]) -> FileFacts {
    let mut words = behind.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (Some(day), Some(time)) = (words.next(), words.next()) else { return FileFacts::default() };
    let modified = listed_time::of_index_page(day, time);
    let size = match (words.next(), words.next()) {
        (Some(size), None) if modified.is_some() && is_of_nginx(day, time) => parse_size(size),
        _ => None,
    };
    FileFacts { size, modified }
}

/// Returns whether a date has nginx's format: `01-Jan-2026 10:00`.
fn is_of_nginx(day: &[u8], time: &[u8]) -> bool {
    matches!(day, [_, _, b'-', _, _, _, b'-', ..]) && time.len() == 5
}

fn parse_size(text: &[u8]) -> Option<u64> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

fn bad<T>(why: &str) -> Result<T, FolderReadError> {
    Err(FolderReadError::Page(BadPage(why.to_owned())))
}

#[cfg(test)]
mod tests;
