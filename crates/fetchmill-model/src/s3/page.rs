//! ListObjectsV2 pages, with the facts about each key.
//!
//! Pages are parsed strictly: an accepted page is complete, and each entry has exactly one key. The result states
//! whether the keys are in ascending order, because some stores list them in another order. Unknown elements are
//! skipped. Stores that support `encoding-type=url` (AWS, moto) say so in the page. Other stores (versitygw) write keys
//! as XML text, which cannot represent all control characters.
//!
//! # Cost
//!
//! A page is read in one pass. Each key is copied twice, as text and as bytes.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use super::{BucketEntry, ListedKey};
use crate::limits::{MARKER_BYTES_MAX, XML_DEPTH_MAX};
use crate::name;
use crate::source::BadPage;
use crate::text::dates::parse_utc_to_the_second;

/// Contents of a page other than its keys.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PageEnd {
    /// Number of keys.
    pub keys: u64,
    /// Last key. It is the greatest key if the keys are in ascending order.
    pub last_key: Option<Vec<u8>>,
    /// First position at which the keys are not in ascending order. `None` if all keys are in order.
    pub disorder: Option<Disorder>,
    /// Folders on a page that was requested by folder, each with a trailing `/`. At most [`FOLDERS_KEPT`] folders are
    /// kept.
    pub folders: Vec<Vec<u8>>,
    /// Whether more keys follow. If the page does not say so, a token means that more keys follow.
    pub is_truncated: bool,
    /// Continuation token for the next page.
    pub token: Option<String>,
}

/// A key that follows a greater one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disorder {
    /// The key.
    pub key: Vec<u8>,
    /// The key before it, or the `start-after` key of the request.
    pub after: Vec<u8>,
}

/// Maximum number of folders that are kept from a page. No request needs more folders.
const FOLDERS_KEPT: usize = 8;

/// Passes the keys of a page to `each` in the store's order. If the page contains an error, the keys before it have
/// already been passed.
pub fn read_page(body: &[u8], each: &mut dyn FnMut(BucketEntry<'_>)) -> Result<PageEnd, BadPage> {
    let text = std::str::from_utf8(body).map_err(|_| bad("the page is not UTF-8"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut page = PageParser::new(is_url_encoded(text), each);
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().map_err(|error| bad(&format!("the page is not XML: {error}")))? {
            Event::Start(start) => page.open(start.local_name().as_ref())?,
            Event::End(_) => page.close()?,
            Event::Empty(start) => {
                page.open(start.local_name().as_ref())?;
                page.close()?;
            }
            Event::Text(text) => page.add(&text)?,
            Event::CData(text) => page.add(&text)?,
            Event::GeneralRef(reference) => page.add_reference(&reference)?,
            Event::DocType(_) => return Err(bad("the page has a document type")),
            Event::Eof => return page.finish(),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

/// Returns whether keys are percent-encoded. Some stores state this only after the keys, so the whole page is searched
/// first. The search cannot match the text of a key, in which `<` and `>` are escaped.
fn is_url_encoded(text: &str) -> bool {
    const ELEMENT: &[u8] = b"EncodingType>";
    memchr::memmem::find_iter(text.as_bytes(), ELEMENT)
        .any(|at| text[at + ELEMENT.len()..].trim_start().starts_with("url<"))
}

/// Element whose text is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Key,
    Size,
    ETag,
    Modified,
    StorageClass,
    IsTruncated,
    Token,
    Folder,
}

/// Kind of an entry on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageElement {
    Key,
    Folder,
}

/// A key that is being read.
#[derive(Debug, Default)]
struct CurrentKey {
    key: Vec<u8>,
    etag: Vec<u8>,
    storage_class: String,
    size: Option<u64>,
    modified: u64,
    /// Set of the fields found so far, with one bit for each [`Field`].
    known: u8,
}

struct PageParser<'e> {
    is_url_encoded: bool,
    each: &'e mut dyn FnMut(BucketEntry<'_>),
    depth: usize,
    is_ended: bool,
    /// The entry that is being read.
    entry: Option<PageElement>,
    field: Option<Field>,
    text: String,
    current: CurrentKey,
    is_truncated: Option<bool>,
    end: PageEnd,
}

impl<'e> PageParser<'e> {
    fn new(is_url_encoded: bool, each: &'e mut dyn FnMut(BucketEntry<'_>)) -> Self {
        PageParser {
            is_url_encoded,
            each,
            depth: 0,
            is_ended: false,
            entry: None,
            field: None,
            text: String::new(),
            current: CurrentKey::default(),
            is_truncated: None,
            end: PageEnd::default(),
        }
    }

    fn open(&mut self, element: &str) -> Result<(), BadPage> {
        self.depth += 1;
        if self.depth > XML_DEPTH_MAX {
            return Err(bad("the page is nested too deeply"));
        }
        if self.field.is_some() {
            return Err(bad("the page has elements instead of a value"));
        }
        match (self.depth, element) {
            (1, "ListBucketResult") if !self.is_ended => {}
            (1, _) => {
                let shown = name::for_display(element.as_bytes());
                return Err(bad(&format!(
                    "the page is not a list of keys, but has the root element {shown}"
                )));
            }
            (2, "Contents") => {
                self.entry = Some(PageElement::Key);
                self.current.known = 0;
            }
            (2, "CommonPrefixes") => self.entry = Some(PageElement::Folder),
            (2, "IsTruncated") => self.field = Some(Field::IsTruncated),
            (2, "NextContinuationToken") => self.field = Some(Field::Token),
            (3, element) if self.entry == Some(PageElement::Key) => self.field = field_of_key(element),
            (3, "Prefix") if self.entry == Some(PageElement::Folder) => self.field = Some(Field::Folder),
            _ => {}
        }
        self.text.clear();
        Ok(())
    }

    fn add(&mut self, text: &str) -> Result<(), BadPage> {
        if self.field.is_some() {
            self.text.push_str(text);
        } else if self.depth == 0 && !text.trim_ascii().is_empty() {
            return Err(bad("the page has text outside its root element"));
        }
        Ok(())
    }

    /// Appends an entity. Only the five predefined XML entities are supported, because all others would have to be
    /// declared.
    fn add_reference(&mut self, reference: &BytesRef<'_>) -> Result<(), BadPage> {
        let bad_reference = || bad("the page has an unknown entity");
        if let Some(character) = reference.resolve_char_ref().map_err(|_| bad_reference())? {
            return self.add(character.encode_utf8(&mut [0; 4]));
        }
        let text = quick_xml::escape::resolve_xml_entity(reference).ok_or_else(bad_reference)?;
        self.add(text)
    }

    fn close(&mut self) -> Result<(), BadPage> {
        if let Some(field) = self.field.take() {
            self.take(field)?;
        } else if self.depth == 2 && self.entry.take() == Some(PageElement::Key) {
            self.give()?;
        }
        self.depth = self.depth.saturating_sub(1);
        self.is_ended = self.depth == 0;
        Ok(())
    }

    fn take(&mut self, field: Field) -> Result<(), BadPage> {
        let value = self.text.trim_ascii();
        match field {
            Field::IsTruncated => {
                let is_truncated = value.parse().map_err(|_| {
                    bad(&format!(
                        "IsTruncated must be true or false, not {}",
                        name::for_display(value.as_bytes())
                    ))
                })?;
                let other = self.is_truncated.replace(is_truncated);
                return if other.is_some() { Err(twice("IsTruncated")) } else { Ok(()) };
            }
            Field::Token if value.len() > MARKER_BYTES_MAX => {
                return Err(bad(&format!("the page's token is longer than {MARKER_BYTES_MAX} bytes")));
            }
            Field::Token if value.is_empty() => return Ok(()),
            Field::Token => {
                let other = self.end.token.replace(value.to_owned());
                return if other.is_some() { Err(twice("NextContinuationToken")) } else { Ok(()) };
            }
            Field::Folder => return self.keep_folder(),
            Field::Key | Field::Size | Field::ETag | Field::Modified | Field::StorageClass => {}
        }
        let bit = 1 << field as u8;
        if self.current.known & bit != 0 {
            return Err(twice(&format!("{field:?}")));
        }
        self.current.known |= bit;
        self.current.take(field, &self.text, self.is_url_encoded)
    }

    fn keep_folder(&mut self) -> Result<(), BadPage> {
        if self.end.folders.len() < FOLDERS_KEPT {
            let mut folder = Vec::new();
            decode_key(&self.text, self.is_url_encoded, &mut folder)?;
            self.end.folders.push(folder);
        }
        Ok(())
    }

    /// Passes on the current key when its element ends.
    fn give(&mut self) -> Result<(), BadPage> {
        let CurrentKey { key, etag, storage_class, size, modified, known } = &mut self.current;
        let is_known = |field: Field| *known & (1 << field as u8) != 0;
        if !is_known(Field::Key) || key.is_empty() {
            return Err(bad("the page has an object without a key"));
        }
        match &self.end.last_key {
            Some(last) if last == key => return Err(twice(&format!("the key {}", name::for_display(key)))),
            Some(last) if last > key && self.end.disorder.is_none() => {
                self.end.disorder = Some(Disorder { key: key.clone(), after: last.clone() });
            }
            _ => {}
        }
        let etag = if is_known(Field::ETag) { etag.as_slice() } else { b"" };
        let size = size.filter(|_| is_known(Field::Size));
        let modified = if is_known(Field::Modified) { *modified } else { 0 };
        let storage_class = if is_known(Field::StorageClass) { storage_class.as_str() } else { "" };
        (self.each)(BucketEntry { listed: ListedKey { key, size, etag, modified }, storage_class });
        self.end.keys += 1;
        std::mem::swap(self.end.last_key.get_or_insert_default(), key);
        Ok(())
    }

    fn finish(self) -> Result<PageEnd, BadPage> {
        if !self.is_ended {
            return Err(bad("the page is cut off"));
        }
        let is_truncated = self.is_truncated.unwrap_or(self.end.token.is_some());
        Ok(PageEnd { is_truncated, ..self.end })
    }
}

impl CurrentKey {
    fn take(&mut self, field: Field, text: &str, is_url_encoded: bool) -> Result<(), BadPage> {
        let value = text.trim_ascii();
        match field {
            Field::Key => {
                self.key.clear();
                decode_key(text, is_url_encoded, &mut self.key)?;
            }
            Field::Size => self.size = Some(size(value)?),
            Field::ETag => {
                self.etag.clear();
                let inside = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                self.etag.extend_from_slice(inside.unwrap_or(value).as_bytes());
            }
            Field::StorageClass => value.clone_into(&mut self.storage_class),
            Field::Modified => self.modified = parse_utc_to_the_second(value.as_bytes()).unwrap_or(0),
            Field::IsTruncated | Field::Token | Field::Folder => {}
        }
        Ok(())
    }
}

fn field_of_key(element: &str) -> Option<Field> {
    match element {
        "Key" => Some(Field::Key),
        "Size" => Some(Field::Size),
        "ETag" => Some(Field::ETag),
        "LastModified" => Some(Field::Modified),
        "StorageClass" => Some(Field::StorageClass),
        _ => None,
    }
}

fn size(value: &str) -> Result<u64, BadPage> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let size = if is_number { value.parse().ok() } else { None };
    size.ok_or_else(|| {
        bad(&format!("the size of a key is not a number ({})", name::for_display(value.as_bytes())))
    })
}

/// Appends the bytes of a key, decoded if necessary.
fn decode_key(text: &str, is_url_encoded: bool, out: &mut Vec<u8>) -> Result<(), BadPage> {
    if !is_url_encoded {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    decode_url(text.as_bytes(), out).ok_or_else(|| {
        let shown = name::for_display(text.as_bytes());
        bad(&format!("the page claims that keys are url-encoded, but {shown} is not"))
    })
}

/// Appends the decoded text. As with AWS and botocore, `+` stands for a space. Stores that write spaces as `%20` write
/// `+` as `%2B`. Returns `None` if a `%` is not followed by two digits.
fn decode_url(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'%', b'+', rest) {
        out.extend_from_slice(&rest[..at]);
        if rest[at] == b'+' {
            out.push(b' ');
            rest = &rest[at + 1..];
        } else {
            let &[high, low] = rest.get(at + 1..at + 3)? else { return None };
            out.push(digit(high)? << 4 | digit(low)?);
            rest = &rest[at + 3..];
        }
    }
    out.extend_from_slice(rest);
    Some(())
}

fn twice(what: &str) -> BadPage {
    bad(&format!("the page has {what} twice"))
}

fn bad(why: &str) -> BadPage {
    BadPage(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    type Listed = (String, Option<u64>, String, u64);

    fn read(body: &[u8]) -> Result<(Vec<Listed>, PageEnd), String> {
        let mut keys = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let end = read_page(body, &mut |BucketEntry { listed, .. }| {
            keys.push((text(listed.key), listed.size, text(listed.etag), listed.modified));
        });
        end.map(|end| (keys, end)).map_err(|error| error.0)
    }

    /// Returns a page in the form that AWS sends.
    fn page(inner: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             {inner}</ListBucketResult>"
        )
    }

    fn names(body: &str) -> Vec<String> {
        read(body.as_bytes()).unwrap().0.into_iter().map(|key| key.0).collect()
    }

    #[test]
    fn a_page_gives_keys_and_where_it_ends() {
        let body = page(
            "<Name>b</Name><Prefix></Prefix><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys><EncodingType>url</EncodingType>\
             <IsTruncated>true</IsTruncated><NextContinuationToken>1a/b+c=</NextContinuationToken>\
             <Contents><Key>a+b/%C3%A9%2B</Key><LastModified>2026-11-20T21:08:00.000Z</LastModified>\
             <ETag>&quot;900150983cd24fb0d6963f7d28e17f72&quot;</ETag><Size>3</Size><Owner><ID>x</ID></Owner>\
             <StorageClass>STANDARD</StorageClass></Contents>\
             <Contents><Key>b</Key><LastModified>soon</LastModified><ETag>\"e-2\"</ETag><Size> 18446744073709551615 </Size>\
             </Contents><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>",
        );

        let (keys, end) = read(body.as_bytes()).unwrap();

        let first =
            ("a b/\u{e9}+".to_owned(), Some(3), "900150983cd24fb0d6963f7d28e17f72".to_owned(), 1_795_208_880);
        assert_eq!(keys, [first, ("b".to_owned(), Some(u64::MAX), "e-2".to_owned(), 0)]);
        let token = Some("1a/b+c=".to_owned());
        let folders = vec![b"c/".to_vec()];
        let last_key = Some(b"b".to_vec());
        assert_eq!(end, PageEnd { keys: 2, last_key, disorder: None, folders, is_truncated: true, token });
    }

    #[test]
    fn an_empty_page_is_one() {
        for body in
            [page("<IsTruncated>false</IsTruncated>"), page(""), "\u{feff} <ListBucketResult/> ".into()]
        {
            assert_eq!(read(body.as_bytes()).unwrap(), (vec![], PageEnd::default()), "{body}");
        }
    }

    #[test]
    fn keys_are_decoded_only_where_the_page_says_so() {
        let contents = "<Contents><Key> a%20+&lt;&amp;&#10;&#x1;<![CDATA[<]]>\u{e9} </Key></Contents>";

        assert_eq!(names(&page(contents)), [" a%20+<&\n\u{1}<\u{e9} "]);
        assert_eq!(
            names(&page(&format!("{contents}<EncodingType></EncodingType>"))),
            [" a%20+<&\n\u{1}<\u{e9} "]
        );
        // Some stores write the encoding type after the keys.
        assert_eq!(
            names(&page(&format!("{contents}<EncodingType>url</EncodingType>"))),
            [" a  <&\n\u{1}<\u{e9} "]
        );
    }

    #[test]
    fn a_prefix_of_a_name_space_is_passed_over() {
        let body = "<s3:ListBucketResult xmlns:s3='x'><s3:Contents><s3:Key>a%2f</s3:Key></s3:Contents>\
                    <s3:EncodingType>url</s3:EncodingType></s3:ListBucketResult>";

        assert_eq!(names(body), ["a/"]);
    }

    #[test]
    fn what_an_object_lacks_is_not_taken_from_the_one_before() {
        let body = page(
            "<Contents><Key>a</Key><Size>1</Size><ETag>e</ETag><LastModified>2026-11-20T21:08:00Z</LastModified></Contents>\
             <Contents><Key>b</Key></Contents>",
        );

        assert_eq!(read(body.as_bytes()).unwrap().0[1], ("b".to_owned(), None, String::new(), 0));
    }

    #[test]
    fn a_page_without_is_truncated_has_more_if_it_has_a_token() {
        let end = |inner: &str| read(page(inner).as_bytes()).unwrap().1;

        assert!(end("<NextContinuationToken>t</NextContinuationToken>").is_truncated);
        assert!(!end("<NextContinuationToken/>").is_truncated);
        assert!(
            !end("<NextContinuationToken>t</NextContinuationToken><IsTruncated>false</IsTruncated>")
                .is_truncated
        );
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(100), "</a>".repeat(100));
        let keys = |keys: &[&str]| {
            keys.iter()
                .fold(String::new(), |body, key| body + &format!("<Contents><Key>{key}</Key></Contents>"))
        };
        for (body, why) in [
            (String::new(), "cut off"),
            ("no page".into(), "text outside"),
            (
                "<Error><Code>SlowDown</Code></Error>".into(),
                "not a list of keys, but has the root element Error",
            ),
            ("<html><body></html>".into(), "element html"),
            ("{\"keys\": []}".into(), "text outside"),
            (page("").replace("</ListBucketResult>", ""), "cut off"),
            (page("<Contents><Key>a"), "not XML"),
            (page("") + "<ListBucketResult/>", "element ListBucketResult"),
            (page("") + "more", "text outside"),
            (page(&keys(&["a", "a\u{1b}", "a\u{1b}"])), "the key a\\u{1b} twice"),
            (page(&keys(&[""])), "without a key"),
            (page("<Contents><Size>1</Size></Contents>"), "without a key"),
            (page("<Contents><Key>a</Key><Key>b</Key></Contents>"), "Key twice"),
            (page("<Contents><Key>a</Key><Size>1</Size><Size>1</Size></Contents>"), "Size twice"),
            (page("<IsTruncated>true</IsTruncated><IsTruncated>false</IsTruncated>"), "IsTruncated twice"),
            (page("<Contents><Key>a<b/></Key></Contents>"), "instead of a value"),
            (page("<Contents><Key>a</Key><Size>-1</Size></Contents>"), "size of a key is not a number (-1)"),
            (page("<Contents><Key>a</Key><Size></Size></Contents>"), "size of a key is not a number"),
            (page("<Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>"), "size of a key"),
            (page("<IsTruncated>maybe</IsTruncated>"), "IsTruncated must be true or false, not maybe"),
            (page("<EncodingType>url</EncodingType><Contents><Key>a%2</Key></Contents>"), "a%2 is not"),
            (page("<EncodingType>url</EncodingType><Contents><Key>%zz</Key></Contents>"), "%zz is not"),
            (page("<Contents><Key>&bomb;</Key></Contents>"), "entity"),
            (format!("<!DOCTYPE x [<!ENTITY b 'b'>]>{}", page("")), "document type"),
            (page(&deep), "too deeply"),
            (
                page(&format!("<NextContinuationToken>{}</NextContinuationToken>", "t".repeat(70_000))),
                "token",
            ),
        ] {
            let found = read(body.as_bytes()).unwrap_err();
            assert!(found.contains(why), "{body:.200}: {found}");
        }
        assert!(read(b"<ListBucketResult>\xff</ListBucketResult>").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn a_page_says_where_its_keys_do_not_ascend() {
        let keys = ["a", "c", "b", "a/"].map(|key| format!("<Contents><Key>{key}</Key></Contents>")).concat();

        let (listed, end) = read(page(&keys).as_bytes()).unwrap();

        assert_eq!(listed.len(), 4);
        assert_eq!(end.disorder, Some(Disorder { key: b"b".to_vec(), after: b"c".to_vec() }));
        assert_eq!(end.last_key, Some(b"a/".to_vec()));
    }

    #[test]
    fn no_cut_of_a_page_is_a_page() {
        let body =
            page("<EncodingType>url</EncodingType><Contents><Key>a&amp;%20</Key><Size>1</Size></Contents>");

        assert!(read(body.as_bytes()).is_ok());
        for end in 0..body.len() {
            assert!(read(&body.as_bytes()[..end]).is_err(), "{}", &body[..end]);
        }
    }

    /// Encodes a key as a store does with `encoding-type=url`.
    fn encoded(key: &str, space: &str) -> String {
        key.bytes().fold(String::new(), |mut out, byte| {
            match byte {
                b' ' => out.push_str(space),
                b'/' | b'-' | b'_' | b'.' | b'*' => out.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
                _ => write!(out, "%{byte:02X}").unwrap(),
            }
            out
        })
    }

    proptest! {
        #[test]
        fn any_keys_come_back(mut keys in prop::collection::btree_set(".{1,20}", 0..20), space in prop_oneof![Just("+"), Just("%20")]) {
            let mut url = "<EncodingType>url</EncodingType>".to_owned();
            let mut plain = String::new();
            keys.retain(|key| !key.contains(['\0']));
            for key in &keys {
                write!(url, "<Contents><Key>{}</Key></Contents>", encoded(key, space)).unwrap();
                write!(plain, "<Contents><Key>{}</Key></Contents>", quick_xml::escape::escape(key)).unwrap();
            }

            let keys: Vec<_> = keys.into_iter().collect();
            prop_assert_eq!(names(&page(&url)), keys.as_slice());
            prop_assert_eq!(names(&page(&plain)), keys);
        }

        #[test]
        fn any_bytes_are_a_page_or_none(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_page(&body, &mut |_| ());
        }
    }
}
