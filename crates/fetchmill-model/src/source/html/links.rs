//! The links below a folder, which are read from any HTML page of that folder.
//!
//! Such a page does not identify itself as an index, and it need not list everything. The text next to a link can be
//! anything, so only the link counts. Several pages can link to the same file, so the journal accepts each name and
//! each folder only once.

use std::io::{BufRead, BufReader, Read};

use super::link::IndexPlace;
use super::tokens::{IndexToken, tokens};
use super::{SeenEntries, bad, entry_of};
use crate::error::Error;
use crate::limits::INDEX_HREF_BYTES_MAX;
use crate::name::for_display;
use crate::source::bounded_reader::read_error;
use crate::source::folder::{FolderPages, FolderReadError};
use crate::source::{ListedPage, OriginUrl, PendingFolder};

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A page that was received.
#[derive(Debug)]
pub struct LinkPage<R> {
    /// Reader of the page's bytes.
    pub reader: R,
    /// URL of the page, after redirects.
    pub url: String,
    /// Whether the reply stated a length. If it did not, a page without `</html>` may have been truncated.
    pub has_length: bool,
}

/// Reads the page of a folder and passes the entries to `each`, page by page. The last page ends the listing.
pub fn read_links(
    page: LinkPage<impl Read>,
    origin: &OriginUrl,
    folder: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let mut links = LinkReader {
        place: place_of(&page.url, origin, folder)?,
        seen: SeenEntries::default(),
        has_base: false,
        has_end: page.has_length,
    };
    let mut reader = BufReader::new(page.reader);
    must_be_html(&mut reader)?;
    let mut pages = FolderPages::of_links(folder, each);
    for token in tokens(reader) {
        match token.map_err(read_error)? {
            IndexToken::Heading(_) | IndexToken::Base(None) => {}
            IndexToken::Base(Some(href)) => links.take_base(&href)?,
            IndexToken::End => links.has_end = true,
            IndexToken::Link { href, .. } => {
                let Some((name, kind)) = entry_of(&links.place, &href, b"") else { continue };
                if links.seen.is_new(&name, kind)? {
                    pages.push(&name, kind)?;
                }
            }
        }
    }
    if !links.has_end {
        return Err(FolderReadError::Cut(
            "the page may be cut off (it has neither a Content-Length nor </html>)",
        ));
    }
    pages.finish()
}

fn place_of(url: &str, origin: &OriginUrl, folder: &PendingFolder) -> Result<IndexPlace, FolderReadError> {
    let place = IndexPlace::new(origin, &folder.path).all_below(url.as_bytes());
    place.map_or_else(
        || {
            let url = for_display(url.as_bytes());
            bad(&format!("redirect to {url}, which is outside this folder; list the new URL instead"))
        },
        Ok,
    )
}

/// Refuses a page that is not HTML. Otherwise a script, an image or a JSON page would look like an empty folder.
fn must_be_html(reader: &mut impl BufRead) -> Result<(), FolderReadError> {
    let start = reader.fill_buf().map_err(read_error)?;
    let start = start.strip_prefix(UTF8_MARK).unwrap_or(start).trim_ascii_start();
    if start.starts_with(b"<") {
        Ok(())
    } else {
        bad("the page is not HTML, because it does not begin with a tag")
    }
}

/// State of a page that is being read.
struct LinkReader {
    place: IndexPlace,
    seen: SeenEntries,
    has_base: bool,
    has_end: bool,
}

impl LinkReader {
    /// Applies a `<base>` element of the page. As in a browser, only the first `<base>` counts.
    fn take_base(&mut self, href: &[u8]) -> Result<(), FolderReadError> {
        if std::mem::replace(&mut self.has_base, true) {
            return Ok(());
        }
        if !self.seen.is_empty() {
            return bad("the page has links before its <base>");
        }
        let is_taken = href.len() <= INDEX_HREF_BYTES_MAX && self.place.set_base(href).is_some();
        if is_taken { Ok(()) } else { bad("the page's <base> is not a URL, or points to another origin") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FOLDER_DEPTH_MAX, INDEX_ENTRIES_MAX};
    use crate::source::PageCursor;
    use crate::target::source_metadata::SizedName;

    fn read_in(
        body: &[u8],
        folder: &PendingFolder,
        has_length: bool,
    ) -> Result<Vec<ListedPage>, FolderReadError> {
        let origin = OriginUrl::parse("http://a/top").unwrap();
        let mut url = crate::source::folder::folder_path(&origin, &folder.path);
        url.insert_str(0, "http://a");
        let mut pages = Vec::new();
        read_links(LinkPage { reader: body, url, has_length }, &origin, folder, |page| {
            pages.push(page);
            Ok(())
        })?;
        Ok(pages)
    }

    /// Returns the names of files, the names of folders, and the number of skipped links.
    fn read(body: &str) -> (Vec<String>, Vec<String>, u64) {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let page = read_in(body.as_bytes(), &PendingFolder::default(), true).unwrap().remove(0);
        let PageCursor::Folder { found, names_once: true, .. } = &page.cursor else { panic!() };
        let files = page.names.iter().map(SizedName::read).map(|file| text(file.name)).collect();
        (files, found.iter().map(text).collect(), page.skipped.total())
    }

    fn refusal(body: &[u8], has_length: bool) -> String {
        match read_in(body, &PendingFolder::default(), has_length) {
            Err(FolderReadError::Page(bad)) => bad.to_string(),
            Err(FolderReadError::Cut(why)) => why.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn any_page_gives_its_links_once() {
        let page = "\u{feff} <!doctype html>\n<h1>Our <a href=/>mirror</a></h1><a href=a><img></a><a href='./a#x'>a</a> \
                    01-Jan-2026 10:00 7<a href=b/c>c</a><a href=d/e/>e</a><a href=/other>o</a><a href=a?v=1>v</a><a href=?s>s</a>";

        assert_eq!(read(page), (vec!["a".into(), "b/c".into()], vec!["d/e".into()], 2));
        let pages = read_in(page.as_bytes(), &PendingFolder::default(), true).unwrap();
        // Text next to a link can mean anything.
        assert_eq!(pages[0].names.get(0), b"\0\0a");
    }

    #[test]
    fn the_first_base_counts() {
        let page = "<base target=x><base href=v1/><base href=v2/><a href=a>a</a>";

        assert_eq!(read(page).0, ["v1/a"]);
        assert!(refusal(b"<a href=a></a><base href=v1/>", true).contains("before its <base>"));
        assert!(refusal(b"<base href=//b/><a href=a></a>", true).contains("another origin"));
        let long = format!("<base href={}>", "x".repeat(INDEX_HREF_BYTES_MAX + 1));
        assert!(refusal(long.as_bytes(), true).contains("not a URL"));
    }

    #[test]
    fn what_is_not_a_whole_page_is_refused() {
        for body in [&b""[..], b"[]", b"\xff\xfe<\0a\0", b"\x89PNG", b"a,b"] {
            assert!(refusal(body, true).contains("not HTML"), "{body:?}");
        }
        assert!(refusal(b"<a href=a>a</a>", false).contains("may be cut off"));
        assert!(read_in(b"<a href=a>a</a></html>", &PendingFolder::default(), false).is_ok());
        let many =
            (0..=INDEX_ENTRIES_MAX).map(|number| format!("<a href={number}>")).collect::<Vec<_>>().concat();
        assert!(refusal(many.as_bytes(), true).contains("more than 1000000 links"));
    }

    #[test]
    fn folders_have_a_bounded_depth() {
        let above = ["x"; FOLDER_DEPTH_MAX - 1].join("/").into_bytes();

        let folder = PendingFolder { path: above, ..PendingFolder::default() };
        let pages = read_in(b"<a href=y/></a><a href=y/z/></a>", &folder, true).unwrap();

        let PageCursor::Folder { found, refused, .. } = &pages[0].cursor else { panic!() };
        assert_eq!((found.len(), refused.len()), (1, 1));
    }

    proptest::proptest! {
        #[test]
        fn names_stay_below_the_folder(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let page = [b"<a href='".as_slice(), &body, b"'></a>"].concat();
            for page in read_in(&page, &PendingFolder::default(), true).unwrap_or_default() {
                for name in page.names.iter() {
                    let name = SizedName::read(name).name;
                    let mut segments = name.split(|byte| *byte == b'/');
                    proptest::prop_assert!(segments.all(|segment| !matches!(segment, b"" | b"." | b"..")));
                }
            }
        }
    }
}
