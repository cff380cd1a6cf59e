//! Sitemaps (<https://www.sitemaps.org/protocol.html>): a `urlset` with the URLs of objects, a `sitemapindex` with the
//! URLs of other sitemaps, or text with one URL per line. The first bytes determine whether a sitemap is plain or gzip,
//! and UTF-8 or UTF-16.
//!
//! A sitemap is read as a stream. URLs at a different origin than the sitemap are skipped, as the protocol requires.
//! Indexes can contain other indexes, up to a depth limit. The journal accepts each sitemap only once, so the listing
//! always ends.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Error as IoError, ErrorKind, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use super::bounded_reader::{BoundedReader, read_error};
use super::folder::{EntryKind, FolderPages, FolderReadError};
use super::list::normalise;
use super::utf16_reader::{Utf16Reader, byte_order};
use super::{BadPage, ListedPage, OriginUrl, PendingFolder, listed_time};
use crate::error::Error;
use crate::limits::{INDEX_ENTRIES_MAX, SITEMAP_INDEX_DEPTH_MAX, URL_BYTES_MAX, XML_DEPTH_MAX};
use crate::name::for_display;
use crate::outcome::skips::SkipReason;
use crate::target::source_metadata::ListedTime;

/// First bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Byte order mark of UTF-8 text.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Upper bound for the length of a time. Any valid time is shorter, even if it is surrounded by white space.
const TIME_BYTES_MAX: usize = 256;

const CUT: &str = "the sitemap is cut off (its last element is not closed)";

/// Returns whether a source is named like a sitemap.
pub fn is_sitemap(origin: &OriginUrl) -> bool {
    let path = origin.path().to_ascii_lowercase().into_bytes();
    path.ends_with(b".xml") || path.ends_with(b".xml.gz")
}

/// Returns the path of a sitemap. In the journal, `sitemap` is empty for the source itself.
pub fn sitemap_path(origin: &OriginUrl, sitemap: &[u8]) -> String {
    if sitemap.is_empty() {
        return format!("/{}", origin.path().trim_start_matches('/'));
    }
    // The path was normalised, so it is ASCII.
    format!("/{}", String::from_utf8_lossy(sitemap))
}

/// Reads a sitemap from the position in `sitemap`, and passes its entries to `each`, page by page. The last page ends
/// the sitemap.
pub fn read_sitemap(
    reader: impl Read,
    origin: &OriginUrl,
    sitemap: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let mut reader = BufReader::new(reader);
    let is_gzip = reader.fill_buf().map_err(read_error)?.starts_with(GZIP);
    if is_gzip {
        read_text(BufReader::new(MultiGzDecoder::new(reader)), origin, sitemap, each)
    } else {
        read_text(reader, origin, sitemap, each)
    }
}

fn read_text(
    mut reader: impl BufRead,
    origin: &OriginUrl,
    sitemap: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let start = reader.fill_buf().map_err(text_error)?;
    if let Some(is_big_endian) = byte_order(start) {
        let mut reader = BufReader::new(Utf16Reader::new(reader, is_big_endian));
        let is_xml = is_xml(reader.fill_buf().map_err(text_error)?);
        return read_form(reader, is_xml, origin, sitemap, each);
    }
    let is_xml = is_xml(start);
    read_form(reader, is_xml, origin, sitemap, each)
}

fn read_form(
    reader: impl Read,
    is_xml: bool,
    origin: &OriginUrl,
    sitemap: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    if is_xml { parse(reader, origin, sitemap, each) } else { read_lines(reader, origin, sitemap, each) }
}

/// Returns whether a text that begins with `start` is XML. Empty text counts as XML.
fn is_xml(start: &[u8]) -> bool {
    let start = start.strip_prefix(UTF8_MARK).unwrap_or(start).trim_ascii_start();
    start.is_empty() || start.starts_with(b"<")
}

/// Reads a text sitemap with one URL per line.
fn read_lines(
    reader: impl Read,
    origin: &OriginUrl,
    sitemap: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let silent = Rc::new(Cell::new(0));
    let mut lines = BufReader::new(BoundedReader::new(reader, Rc::clone(&silent)));
    let mut pages = FolderPages::new(sitemap, each);
    let mut parser = SitemapParser { kind: Some(SitemapKind::Urls), ..SitemapParser::new(origin, sitemap) };
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(text_error)? > 0 {
        silent.set(0);
        let text = line.strip_prefix(UTF8_MARK).unwrap_or(&line).trim_ascii();
        let text = std::str::from_utf8(text).map_err(|_| FolderReadError::Page(not_utf8()))?;
        if let Some((entry, kind)) = parser.take_line(text)? {
            pages.push(&entry, kind)?;
        }
        line.clear();
    }
    pages.finish()
}

fn not_utf8() -> BadPage {
    BadPage("not a sitemap: neither XML nor text in UTF-8 or UTF-16".to_owned())
}

fn text_error(error: IoError) -> FolderReadError {
    xml_error(quick_xml::Error::Io(std::sync::Arc::new(error)))
}

fn parse(
    reader: impl Read,
    origin: &OriginUrl,
    sitemap: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let silent = Rc::new(Cell::new(0));
    let mut xml = Reader::from_reader(BufReader::new(BoundedReader::new(reader, Rc::clone(&silent))));
    let mut pages = FolderPages::new(sitemap, each);
    let mut parser = SitemapParser::new(origin, sitemap);
    let mut buffer = Vec::new();
    loop {
        let event = xml.read_event_into(&mut buffer).map_err(xml_error)?;
        silent.set(0);
        let is_end = matches!(event, Event::Eof);
        if let Some((entry, kind)) = parser.take(event)? {
            pages.push(&entry, kind)?;
        }
        buffer.clear();
        if is_end {
            return pages.finish();
        }
    }
}

/// Converts an error. Invalid XML or gzip means that the page is not a sitemap. All other errors come from the
/// connection.
fn xml_error(error: quick_xml::Error) -> FolderReadError {
    let error = match error {
        quick_xml::Error::Io(error) => error,
        // A tag, a comment or a similar element is not closed.
        quick_xml::Error::Syntax(_) => return FolderReadError::Cut(CUT),
        error => return bad(&format!("not XML: {error}")),
    };
    let error = std::sync::Arc::try_unwrap(error).unwrap_or_else(|shared| copy_of(&shared));
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
            bad(&format!("not a complete gzip file: {error}"))
        }
        _ => read_error(error),
    }
}

fn copy_of(error: &IoError) -> IoError {
    IoError::new(error.kind(), error.to_string())
}

fn bad(why: &str) -> FolderReadError {
    FolderReadError::Page(BadPage(why.to_owned()))
}

/// Contents of a sitemap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SitemapKind {
    /// Objects.
    Urls,
    /// Other sitemaps.
    Index,
}

/// Position of the parser in the document.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum SitemapPlace {
    #[default]
    Elsewhere,
    /// The parser is inside an entry.
    Entry,
    /// The parser is inside the URL of an entry.
    Loc,
    /// The parser is inside the modification time of an entry.
    LastMod,
}

/// The parser of a sitemap. See the module.
#[derive(Default)]
struct SitemapParser {
    /// Prefix of all URLs that are at the origin of the sitemap.
    start: String,
    /// URL of the source. If an index names the source again, no entry is added.
    source: String,
    /// Number of nested indexes that lead to this sitemap.
    indexes_before: u64,
    kind: Option<SitemapKind>,
    depth: usize,
    is_ended: bool,
    place: SitemapPlace,
    text: String,
    /// URL of the current entry. It is set when the element with the URL has ended.
    loc: Option<String>,
    modified: Option<ListedTime>,
    /// Digests of the URLs that have been read so far.
    seen: HashSet<u128>,
}

type Entry = (Vec<u8>, EntryKind);

impl SitemapParser {
    fn new(origin: &OriginUrl, sitemap: &PendingFolder) -> Self {
        SitemapParser {
            start: format!("{}://{}/", origin.scheme(), origin.authority()),
            source: format!("{}://{}{}", origin.scheme(), origin.authority(), sitemap_path(origin, b"")),
            indexes_before: sitemap.depth,
            ..SitemapParser::default()
        }
    }

    /// Handles a line of text. The first line must be a URL, because an error page is not a sitemap.
    fn take_line(&mut self, text: &str) -> Result<Option<Entry>, FolderReadError> {
        if text.is_empty() {
            return Ok(None);
        }
        if self.seen.is_empty() && normalise(text).is_err() {
            let shown = for_display(text.as_bytes());
            return Err(bad(&format!("not a sitemap: neither XML nor a list of URLs, but {shown}")));
        }
        self.loc = Some(text.to_owned());
        self.end_entry()
    }

    /// Handles the next event. Returns the entry that the event completes, if there is one.
    fn take(&mut self, event: Event<'_>) -> Result<Option<Entry>, FolderReadError> {
        match event {
            Event::Start(start) => self.open(start.local_name().as_ref())?,
            Event::Empty(start) => {
                self.open(start.local_name().as_ref())?;
                return self.close();
            }
            Event::End(_) => return self.close(),
            Event::Text(text) => self.add(&text)?,
            Event::CData(text) => self.add(&text)?,
            Event::GeneralRef(reference) => self.add_reference(&reference)?,
            Event::DocType(_) => return Err(bad("it has a document type")),
            Event::Eof if self.is_ended => {}
            Event::Eof => {
                return Err(FolderReadError::Cut("the sitemap is cut off (its last element is not closed)"));
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
        Ok(None)
    }

    fn open(&mut self, element: &str) -> Result<(), FolderReadError> {
        self.depth += 1;
        match (self.depth, element) {
            (XML_DEPTH_MAX.., _) => return Err(bad("it is nested too deeply")),
            (1, "urlset") if !self.is_ended => self.kind = Some(SitemapKind::Urls),
            (1, "sitemapindex") if !self.is_ended && self.indexes_before >= SITEMAP_INDEX_DEPTH_MAX => {
                return Err(bad(&format!(
                    "the sitemap index is nested too deeply (more than {SITEMAP_INDEX_DEPTH_MAX} levels)"
                )));
            }
            (1, "sitemapindex") if !self.is_ended => self.kind = Some(SitemapKind::Index),
            (1, _) => {
                let shown = for_display(element.as_bytes());
                return Err(bad(&format!("not a sitemap; the root element is {shown}")));
            }
            (2, "url") if self.kind == Some(SitemapKind::Urls) => self.place = SitemapPlace::Entry,
            (2, "sitemap") if self.kind == Some(SitemapKind::Index) => self.place = SitemapPlace::Entry,
            (3, "loc") if self.place == SitemapPlace::Entry => self.place = SitemapPlace::Loc,
            (3, "lastmod") if self.place == SitemapPlace::Entry => self.place = SitemapPlace::LastMod,
            _ => {}
        }
        self.text.clear();
        Ok(())
    }

    fn close(&mut self) -> Result<Option<Entry>, FolderReadError> {
        let (depth, place) = (self.depth, self.place);
        self.depth = self.depth.saturating_sub(1);
        self.is_ended = self.depth == 0;
        match (depth, place) {
            (2, _) => {
                self.place = SitemapPlace::Elsewhere;
                self.end_entry()
            }
            (3, SitemapPlace::Loc) => {
                self.place = SitemapPlace::Entry;
                // An entry with two URLs counts as two entries.
                let before = if self.loc.is_some() { self.end_entry()? } else { None };
                self.loc = Some(std::mem::take(&mut self.text));
                Ok(before)
            }
            (3, SitemapPlace::LastMod) => {
                self.place = SitemapPlace::Entry;
                self.modified = listed_time::of_sitemap(&self.text);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn add(&mut self, text: &str) -> Result<(), FolderReadError> {
        match self.place {
            _ if self.depth != 3 => return Ok(()),
            // A text longer than this is not a valid time.
            SitemapPlace::LastMod if self.text.len() > TIME_BYTES_MAX => return Ok(()),
            SitemapPlace::Loc | SitemapPlace::LastMod => {}
            SitemapPlace::Elsewhere | SitemapPlace::Entry => return Ok(()),
        }
        self.text.push_str(text);
        if self.text.len() > 2 * URL_BYTES_MAX && self.place == SitemapPlace::Loc {
            return Err(bad("it has a URL that is longer than 128 KiB"));
        }
        Ok(())
    }

    /// Appends an entity. Only the five predefined XML entities are supported, because all others would have to be
    /// declared.
    fn add_reference(&mut self, reference: &BytesRef<'_>) -> Result<(), FolderReadError> {
        let unknown = || bad("it has an unknown entity");
        if let Some(character) = reference.resolve_char_ref().map_err(|_| unknown())? {
            return self.add(character.encode_utf8(&mut [0; 4]));
        }
        let text = quick_xml::escape::resolve_xml_entity(reference).ok_or_else(unknown)?;
        self.add(text)
    }

    /// Ends an entry. Returns the entry, or `None` if its URL is missing or has occurred before.
    fn end_entry(&mut self) -> Result<Option<Entry>, FolderReadError> {
        let modified = self.modified.take();
        let Some(text) = self.loc.take() else { return Ok(None) };
        let (entry, kind) = match (normalise(&text), self.kind) {
            (Ok(url), Some(SitemapKind::Index)) if *url == *self.source => return Ok(None),
            (Ok(url), Some(kind)) if url.starts_with(&self.start) => match kind {
                SitemapKind::Urls => (url.as_bytes().to_vec(), EntryKind::Url(modified)),
                SitemapKind::Index => (url.as_bytes()[self.start.len()..].to_vec(), EntryKind::Sitemap),
            },
            (Ok(_), _) => (text.as_bytes().to_vec(), EntryKind::LeftOut(SkipReason::OtherOrigin)),
            _ => (text.as_bytes().to_vec(), EntryKind::LeftOut(SkipReason::NoObject)),
        };
        if !self.seen.insert(xxhash_rust::xxh3::xxh3_128(&entry)) {
            return Ok(None);
        }
        if self.seen.len() > INDEX_ENTRIES_MAX {
            return Err(bad(&format!(
                "it has more than {INDEX_ENTRIES_MAX} URLs; split it and create a sitemap index"
            )));
        }
        Ok(Some((entry, kind)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::source::PageCursor;
    use crate::target::entry::ListEntry;

    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

    fn read_as(body: &[u8], path: &str) -> Result<Vec<ListedPage>, FolderReadError> {
        let origin = OriginUrl::parse("http://a.test:81/maps/sitemap.xml").unwrap();
        let sitemap = PendingFolder { path: path.into(), ..PendingFolder::default() };
        let mut pages = Vec::new();
        read_sitemap(body, &origin, &sitemap, |page| {
            pages.push(page);
            Ok(())
        })?;
        Ok(pages)
    }

    /// Returns the URLs, the sitemaps, and the number of skipped links.
    fn read(body: &str) -> (Vec<String>, Vec<String>, u64) {
        let text = |name: &[u8]| String::from_utf8(ListEntry::read(name).url.to_vec()).unwrap();
        let page = read_as(format!("{HEAD}{body}").as_bytes(), "").unwrap().remove(0);
        let PageCursor::Folder { found, refused, is_last: true, .. } = &page.cursor else { panic!() };
        assert!(refused.is_empty());
        (page.names.iter().map(text).collect(), found.iter().map(text).collect(), page.skipped.total())
    }

    fn refusal(body: &[u8], path: &str) -> String {
        match read_as(body, path) {
            Err(FolderReadError::Page(bad)) => bad.to_string(),
            Err(FolderReadError::Cut(why)) => why.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn urls_of_its_own_origin_are_taken_once() {
        let body = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:image=\"x\">\
            <url><loc>\n http://A.test:81/x y?b=1&amp;c=%7e#z </loc><lastmod>2026-01-01</lastmod>\
            <image:image><image:loc>http://a.test:81/image</image:loc></image:image></url>\
            <url><loc><![CDATA[http://a.test:81/caf\u{e9}]]></loc></url><url><loc>http://a.test:81/caf%C3%A9</loc></url>\
            <url><loc>http://a.test/other-port</loc></url><url><loc>https://a.test:81/other-scheme</loc></url>\
            <url><loc>http://b.test/</loc></url><url><loc>javascript:x</loc></url><url><loc/></url><url/>\
            <sitemap><loc>http://a.test:81/no.xml</loc></sitemap><loc>http://a.test:81/no</loc></urlset>";

        let (urls, sitemaps, skipped) = read(body);

        assert_eq!(urls, ["http://a.test:81/x%20y?b=1&c=%7e", "http://a.test:81/caf%C3%A9"]);
        assert_eq!((sitemaps.len(), skipped), (0, 5));
    }

    #[test]
    fn a_url_has_its_time_wherever_that_stands() {
        let body = "<urlset><url><lastmod> 2026-01-01T10:00:00Z</lastmod><loc>http://a.test:81/1</loc></url>\
            <url><loc>http://a.test:81/2</loc><lastmod>2026-01-01T12:00:00+02:00</lastmod></url>\
            <url><loc>http://a.test:81/3</loc><lastmod>yesterday</lastmod></url>\
            <url><loc>http://a.test:81/4</loc><x><lastmod>2026-01-01T10:00:00Z</lastmod></x></url>\
            <url><loc>http://a.test:81/5</loc><loc>http://a.test:81/6</loc><lastmod>2026-01-01T10:00:00Z</lastmod></url>\
            <lastmod>2026-01-01T10:00:00Z</lastmod><url><loc>http://a.test:81/7</loc></url></urlset>";

        let page = read_as(body.as_bytes(), "").unwrap().remove(0);

        let times: Vec<_> = page.names.iter().map(|name| ListEntry::read(name).expected.modified).collect();
        let time = Some(ListedTime::exact(1_767_261_600));
        assert_eq!(times, [time, time, None, None, None, time, None]);
        // This is the format that earlier versions used.
        assert_eq!(page.names.get(2), b"http://a.test:81/3");
    }

    #[test]
    fn an_index_leads_to_sitemaps() {
        let body = "<s:sitemapindex xmlns:s='x'><s:sitemap><s:loc>http://a.test:81/maps/1.xml.gz?v=2</s:loc></s:sitemap>\
            <s:sitemap><s:loc>http://b.test/2.xml</s:loc></s:sitemap></s:sitemapindex>";
        let origin = OriginUrl::parse("http://a.test:81/maps/sitemap.xml").unwrap();

        let (urls, sitemaps, skipped) = read(body);

        assert_eq!((urls.len(), sitemaps, skipped), (0, vec!["maps/1.xml.gz?v=2".to_owned()], 1));
        assert_eq!(sitemap_path(&origin, b"maps/1.xml.gz?v=2"), "/maps/1.xml.gz?v=2");
        assert_eq!(sitemap_path(&origin, b""), "/maps/sitemap.xml");
    }

    #[test]
    fn indexes_lead_to_indexes_up_to_a_depth() {
        let body = b"<sitemapindex><sitemap><loc>http://a.test:81/maps/sitemap.xml</loc></sitemap>\
            <sitemap><loc>http://a.test:81/maps/2.xml</loc></sitemap></sitemapindex>";
        let origin = OriginUrl::parse("http://a.test:81/maps/sitemap.xml").unwrap();
        let found_at = |depth: u64| {
            let sitemap = PendingFolder { path: b"maps/1.xml".into(), depth, ..PendingFolder::default() };
            let mut all = Vec::new();
            read_sitemap(body.as_slice(), &origin, &sitemap, |page| {
                let PageCursor::Folder { found, .. } = page.cursor else { panic!() };
                all.extend(found.iter().map(<[u8]>::to_vec));
                Ok(())
            })?;
            Ok::<_, FolderReadError>(all)
        };

        // The source itself is already known, so it is not returned again.
        assert_eq!(found_at(SITEMAP_INDEX_DEPTH_MAX - 1).unwrap(), [b"maps/2.xml"]);
        let Err(FolderReadError::Page(refused)) = found_at(SITEMAP_INDEX_DEPTH_MAX) else { panic!() };
        assert!(refused.0.contains("more than 5 levels"), "{refused}");
    }

    #[test]
    fn gzip_is_told_by_its_first_bytes() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"<urlset><url><loc>http://a.test:81/x</loc></url></urlset>").unwrap();
        let packed = encoder.finish().unwrap();

        let page = read_as(&packed, "").unwrap().remove(0);

        assert_eq!(page.names.iter().collect::<Vec<_>>(), [b"http://a.test:81/x"]);
        for cut in [packed.len() - 20, packed.len() - 1] {
            assert!(refusal(&packed[..cut], "").contains("not a complete gzip file"), "{cut}");
        }
    }

    #[test]
    fn a_sitemap_may_be_text() {
        let body =
            "\u{feff}http://a.test:81/1\r\n\n  http://a.test:81/2 \nhttp://a.test:81/1\nhttp://b.test/\nno\n";

        let page = read_as(body.as_bytes(), "").unwrap().remove(0);

        let names: Vec<_> = page.names.iter().collect();
        assert_eq!(names, [&b"http://a.test:81/1"[..], b"http://a.test:81/2"]);
        assert_eq!(page.skipped.total(), 2);
        assert!(refusal(b"Not found\nhttp://a.test:81/1\n", "").contains("but Not found"));
        assert!(refusal(b"http://a.test:81/1\n\xff\n", "").contains("UTF-8"));
        assert!(refusal(&vec![b'x'; 1 << 20], "").contains("more than 65536 bytes"));
    }

    #[test]
    fn a_sitemap_may_be_utf16() {
        let body = "<urlset><url><loc>http://a.test:81/caf\u{e9}</loc></url></urlset>";
        for text in [body, "http://a.test:81/caf\u{e9}\n"] {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            let bytes: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
            let page = read_as(&bytes, "").unwrap().remove(0);
            assert_eq!(page.names.iter().collect::<Vec<_>>(), [b"http://a.test:81/caf%C3%A9"], "{text}");
        }
    }

    #[test]
    fn what_is_no_sitemap_is_told() {
        for (body, reason) in [
            ("", "is cut off"),
            ("<urlset><url><loc>http://a.test:81/x</loc></url>", "is cut off"),
            ("<urlset><url><loc>http://a.test:81/x</lo", "is cut off"),
            ("<urlset><url><loc>http://a.test:81/x</url></urlset>", "not XML"),
            ("<html></html>", "not a sitemap; the root element is html"),
            ("<urlset></urlset><urlset></urlset>", "not a sitemap"),
            ("<!DOCTYPE x [<!ENTITY y 'z'>]><urlset></urlset>", "document type"),
            ("<urlset><url><loc>&y;</loc></url></urlset>", "unknown entity"),
        ] {
            assert!(
                refusal(body.as_bytes(), "").contains(reason),
                "{body}: {}",
                refusal(body.as_bytes(), "")
            );
        }
        assert!(refusal(b"<urlset><url><loc>\xff</loc></url></urlset>", "").contains("not XML"));
        assert!(refusal("<a>".repeat(100).as_bytes(), "").contains("not a sitemap"));
        assert!(refusal(format!("<urlset>{}", "<a>".repeat(100)).as_bytes(), "").contains("too deep"));
        let long = format!("<urlset><url><loc>{}", "x".repeat(1 << 20));
        assert!(refusal(long.as_bytes(), "").contains("more than 65536 bytes"));
        let many = format!("<urlset><url><loc>{}", "&amp;".repeat(200_000));
        assert!(refusal(many.as_bytes(), "").contains("longer than 128 KiB"));
    }

    #[test]
    fn a_bomb_is_left() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"<urlset>").unwrap();
        let blank = vec![b' '; 1 << 20];
        (0..600).for_each(|_| encoder.write_all(&[b"<a/>", &blank[..60_000]].concat().repeat(17)).unwrap());

        assert!(refusal(&encoder.finish().unwrap(), "").contains("more than 512 MiB"));
    }

    #[test]
    fn sources_are_sitemaps_by_their_names() {
        for (url, is) in [
            ("http://a/sitemap.xml", true),
            ("http://a/S.XML.GZ", true),
            ("http://a/x.gz", false),
            ("http://a", false),
        ] {
            assert_eq!(is_sitemap(&OriginUrl::parse(url).unwrap()), is, "{url}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_can_be_read(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = read_as(&body, "");
            let _ = read_as(&[b"<urlset><url><loc>", body.as_slice(), b"</loc></url></urlset>"].concat(), "");
        }
    }
}
