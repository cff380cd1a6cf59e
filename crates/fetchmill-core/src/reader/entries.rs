//! What stood in a page where an object was listed, told by the name that it is stored under.
//!
//! Of a server's listing that is the name. Of a list it is a URL and may be more, and a manifest has none of it: it is
//! known only where the name is the URL, or the URL without the one scheme that the whole list had. A damaged record is
//! not asked: what is wrong with it may be its URL.

use crate::entry::{Naming, Traits};
use crate::journal::{Books, KEYS, TRANSFORM, transform_columns};
use crate::kept::Columns;
use crate::sink::Format;

/// A listed key of which nothing is known but itself: what stands before it ([`crate::listed`]).
const NOTHING_KNOWN: &str = "\0";

/// Whether the targets came from a list, also when they were exported since.
pub(crate) fn are_of_list(books: &Books) -> bool {
    books.part("listing").starts_with("list ")
}

/// What stands before a name in its entry. `None` when nothing tells the entry.
pub(super) fn before_name(books: &Books) -> Option<&'static str> {
    // What was exported is read again by its number.
    if books.part("listing") == KEYS && !is_export(books) {
        return Some(NOTHING_KNOWN);
    }
    if !are_of_list(books) || is_export(books) {
        return Some("");
    }
    // A job of which this was not noted.
    if books.traits == Traits::default() {
        return None;
    }
    // What a function has filled is not of the list.
    let made = transform_columns(books.part(TRANSFORM)).len();
    let has_more = books.traits.key || Columns::of_identity(&books.identity).kept().len() > made;
    match naming_of_list(books) {
        _ if has_more => None,
        Naming::Path => books.traits.scheme(),
        Naming::Url => Some(""),
        Naming::Number | Naming::Whole | Naming::Listed => None,
    }
}

/// Whether a job has written another one's objects again.
pub(super) fn is_export(books: &Books) -> bool {
    books.identity.contains_key("contents")
}

fn naming_of_list(books: &Books) -> Naming {
    match (books.part("names"), books.part("format")) {
        ("seq", _) => Naming::Number,
        (_, format) if format == Format::Files.name() => Naming::Path,
        _ => Naming::Url,
    }
}
