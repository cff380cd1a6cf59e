//! A list entry as bytes, in the form in which pages and the journal store it, and the name of its stored object.
//!
//! Manifests contain only names. The [`EntryTraits`] of a job show whether an entry can be derived from its name.
//!
//! Most entries consist only of a URL, and their bytes are the URL. In an entry with more facts, the URL is followed by
//! a NUL, the key, the kept values, and the manifest's facts about the object. No normalised URL contains a NUL. Any
//! bytes can be parsed, because a journal can be damaged.

use std::borrow::Cow;
use std::io::Write;

use crate::name::url_name;
use crate::target::extension::push_extension;
use crate::target::extra_columns::{extra_values, write_extra};
use crate::target::request::TargetRequest;
use crate::target::source_metadata::{ListedKey, ListedTime, SizedName};

/// Separator between the URL and the facts that follow it.
const MORE: u8 = 0;
/// Number of objects in each folder with [`Naming::Number`].
const FOLDER_NUMBERS: u64 = 1000;

/// A line of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListEntry<'a> {
    /// The normalised URL. It is empty for a line without a URL, which is a failed target.
    pub url: &'a [u8],
    /// Name of the object, if the URL is not its name. For a line without a URL, the key identifies the line.
    pub key: Option<&'a [u8]>,
    /// The values of the kept columns ([`crate::target::extra_columns::write_extra`]). For a line without a URL, this
    /// is the reason as text.
    pub kept: Option<&'a [u8]>,
    /// Expected facts about the object.
    pub expected: ExpectedObject<'a>,
    /// The request ([`crate::target::request`]). `None` for a plain `GET`. For a line without a URL, these are the kept
    /// columns.
    pub request: Option<&'a [u8]>,
}

/// Facts that a manifest or a sitemap states about an object that is not fetched yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectedObject<'a> {
    /// Size of the body in bytes.
    pub size: Option<u64>,
    /// ETag without quotes.
    pub etag: Option<&'a [u8]>,
    /// Time of the last modification. The fetched object can be newer.
    pub modified: Option<ListedTime>,
}

impl ExpectedObject<'_> {
    /// Returns whether no fact is known.
    pub fn is_empty(&self) -> bool {
        *self == ExpectedObject::default()
    }
}

impl<'a> ListEntry<'a> {
    /// Appends the entry. The URL must be normalised, so that it contains no NUL.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.url);
        let values = [self.key, self.kept];
        if self.expected.is_empty() && self.request.is_none() {
            if values != [None, None] {
                out.push(MORE);
                write_extra(values.into_iter(), out);
            }
            return;
        }
        let size = self.expected.size.map(|size| size.to_string());
        let expected = [size.as_deref().map(str::as_bytes), self.expected.etag];
        let modified = self.expected.modified.map(|modified| {
            let mut bytes = Vec::new();
            modified.write(&mut bytes);
            bytes
        });
        out.push(MORE);
        let is_asked_otherwise = self.request.is_some();
        let modified = (modified.is_some() || is_asked_otherwise).then_some(modified.as_deref());
        let request = is_asked_otherwise.then_some(self.request);
        write_extra(values.into_iter().chain(expected).chain(modified).chain(request), out);
    }

    /// Reads the output of [`ListEntry::write`]. Other bytes are read as far as possible.
    pub fn read(bytes: &'a [u8]) -> Self {
        let Some(end) = memchr::memchr(MORE, bytes) else {
            return ListEntry { url: bytes, ..ListEntry::default() };
        };
        let mut values = extra_values(&bytes[end + 1..]);
        let mut next = || values.next().flatten();
        let (key, kept, size, etag, modified, request) = (next(), next(), next(), next(), next(), next());
        let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
        let modified = modified.map(|bytes| ListedTime::read(bytes).0);
        ListEntry {
            url: &bytes[..end],
            key,
            kept,
            expected: ExpectedObject { size, etag, modified },
            request,
        }
    }

    /// Returns the values of the kept columns, whether or not the entry has a URL.
    pub fn kept_values(&self) -> Option<&'a [u8]> {
        if self.url.is_empty() { self.request } else { self.kept }
    }

    /// Returns the request, if the entry has a URL.
    pub fn own_request(&self) -> Option<&'a [u8]> {
        self.request.filter(|_| !self.url.is_empty())
    }

    /// Returns the reason why a line has no URL, or `None` if it has one.
    pub fn reason(&self) -> Option<&'a [u8]> {
        if self.url.is_empty() { Some(self.kept.unwrap_or_default()) } else { None }
    }
}

/// Rule for naming a stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// The bytes of the target are its name. Used by the list/get API.
    Whole,
    /// The target is a name with a size and a time ([`SizedName`]). Used for folders on a server.
    Sized,
    /// The target is a listed key ([`crate::s3::ListedKey`]), and the key is the name.
    Listed,
    /// The name is the key of the entry or, if there is no key, its URL. If a part of the object is requested,
    /// `#bytes=FIRST-LAST` is appended.
    Url,
    /// The name is the key of the entry or, if there is no key, `host/path?query` in readable form ([`url_name`]). Used
    /// for files. `#bytes=FIRST-LAST` is appended as in `Url`. The http and https URLs of an object have the same name,
    /// so the second target fails as `name-taken`.
    Path,
    /// The name is the same as with `Path`, but it is percent-encoded as in the URL. Used by jobs of older releases.
    EncodedPath,
    /// The name has the form `000012/000012345` and is made from the sequence number (`--names seq`).
    Number,
    /// The name is the key of the entry followed by an extension (`--names '{id}.{ext}'`). The reply can still change
    /// the extension ([`crate::target::stored_name`]).
    Extension,
    /// The name has the form `12345` and is made from the sequence number. The bytes of the target are the item itself
    /// (`--store items`).
    Item,
}

impl Naming {
    /// Returns the name of a target. The name of a line without a URL is always the key that identifies the line,
    /// because no object is stored.
    pub fn name_of<'a>(self, sequence: u64, entry: &'a [u8], out: &'a mut Vec<u8>) -> &'a [u8] {
        match self {
            Naming::Whole => return entry,
            Naming::Sized => return SizedName::read(entry).name,
            Naming::Listed => return ListedKey::read(entry).key,
            Naming::Url
            | Naming::Path
            | Naming::EncodedPath
            | Naming::Number
            | Naming::Extension
            | Naming::Item => {}
        }
        let read = ListEntry::read(entry);
        match (self, read.key) {
            (_, Some(key)) if read.url.is_empty() => key,
            (Naming::Item, _) => {
                out.clear();
                let _ = write!(out, "{sequence}");
                out
            }
            (Naming::Number, _) => {
                out.clear();
                // Writing to memory cannot fail.
                let _ = write!(out, "{:06}/{sequence:09}", sequence / FOLDER_NUMBERS);
                out
            }
            (Naming::Extension, Some(key)) => {
                out.clear();
                out.extend_from_slice(key);
                push_extension(None, read.url, out);
                out
            }
            (_, Some(key)) => key,
            (_, None) => {
                let name = match self {
                    Naming::Path => url_name::of_url(behind_scheme(read.url)),
                    Naming::EncodedPath => Cow::Borrowed(behind_scheme(read.url)),
                    _ => Cow::Borrowed(read.url),
                };
                // Each part of an object is stored as a separate object. Normalised URLs have no fragment, so no other
                // object can have this name.
                let range = read.request.and_then(TargetRequest::range_of);
                match (name, range) {
                    (Cow::Borrowed(name), None) => return name,
                    (name, _) => {
                        out.clear();
                        out.extend_from_slice(&name);
                    }
                }
                if let Some(range) = range {
                    let _ = write!(out, "#{range}");
                }
                out
            }
        }
    }

    /// Returns whether the targets contain URLs, as the targets of a list do.
    pub fn has_url(self) -> bool {
        !matches!(self, Naming::Whole | Naming::Sized | Naming::Listed | Naming::Item)
    }

    /// Returns the key that gives a target with this URL the name `name`. Returns `None` if the target has this name
    /// without a key.
    pub fn key_of<'n>(self, sequence: u64, url: &[u8], name: &'n [u8]) -> Option<&'n [u8]> {
        match self {
            Naming::Number | Naming::Item => None,
            Naming::Extension => {
                let mut extension = Vec::new();
                push_extension(None, url, &mut extension);
                name.strip_suffix(extension.as_slice())
            }
            _ => {
                let mut without_key = Vec::new();
                self.write_name(sequence, url, &mut without_key);
                (without_key != name).then_some(name)
            }
        }
    }

    /// Replaces the contents of `out` with the name that [`Naming::name_of`] returns.
    pub fn write_name(self, sequence: u64, entry: &[u8], out: &mut Vec<u8>) {
        let mut number = Vec::new();
        let name = self.name_of(sequence, entry, &mut number);
        out.clear();
        out.extend_from_slice(name);
    }

    /// Returns the URL of a target from a list.
    pub fn url_of(self, entry: &[u8]) -> Option<Box<[u8]>> {
        self.has_url().then(|| ListEntry::read(entry).url.into())
    }

    /// Returns the request of a target from a list, if it is not a plain `GET`.
    pub fn request_of(self, entry: &[u8]) -> Option<Box<[u8]>> {
        if self.has_url() { ListEntry::read(entry).own_request().map(Into::into) } else { None }
    }
}

/// Traits of a list's entries. A trait is set if at least one entry has it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is an independent trait")]
pub struct EntryTraits {
    /// The URL begins with `http:`.
    pub http: bool,
    /// The URL begins with `https:`.
    pub https: bool,
    /// The URL begins with `s3:`.
    pub s3: bool,
    /// The entry has a key.
    pub key: bool,
    /// The entry has a request that is not a plain `GET`.
    pub request: bool,
}

impl EntryTraits {
    const WORDS: [&'static str; 5] = ["http", "https", "s3", "key", "request"];

    /// Adds the traits of an entry. A line without a URL has no traits.
    #[must_use]
    pub fn and(self, entry: &[u8]) -> Self {
        let read = ListEntry::read(entry);
        let ListEntry { url, key, .. } = read;
        EntryTraits {
            http: self.http || url.starts_with(b"http:"),
            https: self.https || url.starts_with(b"https:"),
            s3: self.s3 || url.starts_with(b"s3:"),
            key: self.key || (key.is_some() && !url.is_empty()),
            request: self.request || read.own_request().is_some(),
        }
    }

    /// Returns the traits as a text for the journal.
    pub fn to_text(self) -> String {
        let has = [self.http, self.https, self.s3, self.key, self.request];
        let words = Self::WORDS.into_iter().zip(has).filter_map(|(word, has)| has.then_some(word));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Parses the output of [`EntryTraits::to_text`].
    pub fn from_text(text: &str) -> Self {
        let [http, https, s3, key, request] =
            Self::WORDS.map(|word| text.split(' ').any(|found| found == word));
        EntryTraits { http, https, s3, key, request }
    }

    /// Returns the scheme, including `://`, if all URLs have the same scheme.
    pub fn scheme(self) -> Option<&'static str> {
        match (self.http, self.https, self.s3) {
            (true, false, false) => Some("http://"),
            (false, true, false) => Some("https://"),
            (false, false, true) => Some("s3://"),
            _ => None,
        }
    }
}

/// Returns `host[:port]/path?query` of a normalised URL. The port is included only if it is not the scheme's default.
pub fn behind_scheme(url: &[u8]) -> &[u8] {
    memchr::memmem::find(url, b"://").map_or(url, |position| &url[position + 3..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http1::byte_range::ByteRange;

    fn written(entry: ListEntry<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        entry.write(&mut out);
        out
    }

    fn name_of(naming: Naming, entry: ListEntry<'_>) -> String {
        let mut out = b"left over".to_vec();
        let name = naming.name_of(12_345, &written(entry), &mut out).to_vec();
        String::from_utf8(name).unwrap()
    }

    fn of(url: &str) -> ListEntry<'_> {
        ListEntry { url: url.as_bytes(), ..ListEntry::default() }
    }

    #[test]
    fn a_url_alone_is_its_bytes() {
        assert_eq!(written(of("http://a/b")), b"http://a/b");
    }

    #[test]
    fn what_is_expected_costs_nothing_where_nothing_is() {
        let keyed = ListEntry { key: Some(b"k"), ..of("http://a/") };

        // This is the format that earlier versions used.
        assert_eq!(written(keyed), b"http://a/\0\x02k\0");
        let expected = ExpectedObject { size: Some(12), etag: Some(b"e"), modified: None };
        assert_eq!(written(ListEntry { expected, ..keyed }), b"http://a/\0\x02k\0\x0312\x02e");
        let request = Some(&b"r"[..]);
        assert_eq!(written(ListEntry { request, ..keyed }), b"http://a/\0\x02k\0\0\0\0\x02r");
    }

    #[test]
    fn kept_values_come_back_in_their_order() {
        let values = [Some(&b"a"[..]), None, Some(b""), Some(&[7; 300])];
        let mut kept = Vec::new();
        write_extra(values.into_iter(), &mut kept);

        assert_eq!(extra_values(&kept).collect::<Vec<_>>(), values);
    }

    #[test]
    fn an_object_is_called_by_its_key_or_url() {
        let url = of("https://a.test:81/b/?c=d");
        let keyed = ListEntry { key: Some(b"k"), kept: Some(b""), ..url };

        assert_eq!(name_of(Naming::Url, url), "https://a.test:81/b/?c=d");
        assert_eq!(name_of(Naming::Url, keyed), "k");
        assert_eq!(name_of(Naming::Path, url), "a.test:81/b/?c=d");
        assert_eq!(name_of(Naming::Path, keyed), "k");
        let encoded = of("https://a.test/%C3%BC?c=d");
        assert_eq!(name_of(Naming::Url, encoded), "https://a.test/%C3%BC?c=d");
        assert_eq!(name_of(Naming::Path, encoded), "a.test/\u{fc}?c=d");
        assert_eq!(name_of(Naming::EncodedPath, encoded), "a.test/%C3%BC?c=d");
        assert_eq!(name_of(Naming::Number, url), "000012/000012345");
        assert_eq!(name_of(Naming::Number, keyed), "000012/000012345");
    }

    #[test]
    fn an_extension_is_that_of_the_url_before_there_is_a_reply() {
        let keyed = ListEntry { key: Some(b"7."), ..of("https://a.test/b.PNG?c=d.e") };
        let other = ListEntry { url: b"https://a.test/b", ..keyed };

        assert_eq!(name_of(Naming::Extension, keyed), "7.png");
        assert_eq!(name_of(Naming::Extension, other), "7.bin");
        for (naming, entry) in [(Naming::Extension, keyed), (Naming::Extension, other), (Naming::Url, keyed)]
        {
            let name = name_of(naming, entry);
            assert_eq!(naming.key_of(12_345, entry.url, name.as_bytes()), entry.key);
        }
        assert_eq!(Naming::Url.key_of(1, b"https://a/", b"https://a/"), None);
        assert_eq!(Naming::Number.key_of(1, b"https://a/", b"x"), None);
    }

    #[test]
    fn a_part_of_an_object_is_called_by_its_bytes_too() {
        let mut request = Vec::new();
        TargetRequest { range: ByteRange::new(7, 3).ok(), ..TargetRequest::default() }.write(&mut request);
        let part = ListEntry { request: Some(&request), ..of("https://a.test/b?c") };
        let keyed = ListEntry { key: Some(b"k"), ..part };

        assert_eq!(name_of(Naming::Url, part), "https://a.test/b?c#bytes=7-9");
        assert_eq!(name_of(Naming::Path, part), "a.test/b?c#bytes=7-9");
        assert_eq!(name_of(Naming::Number, part), "000012/000012345");
        assert_eq!(name_of(Naming::Url, keyed), "k");
    }

    #[test]
    fn a_line_without_url_is_called_by_its_number() {
        let bad =
            ListEntry { url: b"", key: Some(b"line 17"), kept: Some(b"no host"), ..ListEntry::default() };

        for naming in [Naming::Url, Naming::Path, Naming::EncodedPath, Naming::Number] {
            assert_eq!(name_of(naming, bad), "line 17");
        }
        assert_eq!(bad.reason(), Some(&b"no host"[..]));
        assert_eq!(of("http://a/").reason(), None);
    }

    #[test]
    fn a_line_without_url_keeps_its_columns_and_is_asked_nothing() {
        let (reason, kept) = (Some(&b"no host"[..]), Some(&b"\x02a\0"[..]));
        let bad =
            written(ListEntry { key: Some(b"line 17"), kept: reason, request: kept, ..ListEntry::default() });
        let good = written(ListEntry { kept, request: Some(b"r"), ..of("http://a/") });

        let (read, other) = (ListEntry::read(&bad), ListEntry::read(&good));

        assert_eq!((read.reason(), read.kept_values(), read.own_request()), (reason, kept, None));
        assert_eq!((other.kept_values(), other.own_request()), (kept, Some(&b"r"[..])));
        assert_eq!(EntryTraits::default().and(&bad), EntryTraits::default());
    }

    #[test]
    fn a_name_of_a_listing_is_not_looked_into() {
        let mut out = Vec::new();

        assert_eq!(Naming::Whole.name_of(1, b"http://a/\0\x02k", &mut out), b"http://a/\0\x02k");
    }

    #[test]
    fn traits_are_those_of_all_entries_with_a_url() {
        let bad =
            ListEntry { url: b"", key: Some(b"line 17"), kept: Some(b"no host"), ..ListEntry::default() };
        let keyed = ListEntry { key: Some(b"k"), ..of("https://a/") };
        let plain = EntryTraits::default().and(&written(of("http://a/"))).and(&written(bad));

        let all = plain.and(&written(keyed));

        assert_eq!((plain.to_text().as_str(), plain.scheme()), ("http", Some("http://")));
        assert_eq!((all.to_text().as_str(), all.scheme()), ("http https key", None));
        let s3 = EntryTraits::default().and(&written(of("s3://b/k")));
        assert_eq!((s3.scheme(), s3.and(&written(of("http://a/"))).scheme()), (Some("s3://"), None));
        for traits in [EntryTraits::default(), plain, all, s3] {
            assert_eq!(EntryTraits::from_text(&traits.to_text()), traits);
        }
    }

    #[test]
    fn numbers_may_have_more_digits() {
        let mut out = Vec::new();

        assert_eq!(Naming::Number.name_of(1_234_567_890, b"http://a/", &mut out), b"1234567/1234567890");
    }

    type Bytes = Option<Vec<u8>>;
    type Parts = (Vec<u8>, Bytes, Bytes, Option<u64>, Bytes, Option<u64>, Bytes);

    fn any_parts() -> impl Strategy<Value = Parts> {
        let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
        (
            prop::collection::vec(1..=255_u8, 0..40),
            bytes(),
            bytes(),
            any::<Option<u64>>(),
            bytes(),
            prop::option::of(0..1_u64 << 38),
            bytes(),
        )
    }

    proptest! {
        #[test]
        fn any_entry_comes_back((url, key, kept, size, etag, modified, request) in any_parts()) {
            let modified = modified.map(ListedTime::exact);
            let expected = ExpectedObject { size, etag: etag.as_deref(), modified };
            let (key, kept, request) = (key.as_deref(), kept.as_deref(), request.as_deref());
            let entry = ListEntry { url: &url, key, kept, expected, request };

            let bytes = written(entry);
            prop_assert_eq!(ListEntry::read(&bytes), entry);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..60)) {
            let entry = ListEntry::read(&bytes);
            let count = extra_values(entry.kept.unwrap_or_default()).count();
            prop_assert!(count <= bytes.len());
            let all = [
                Naming::Whole,
                Naming::Sized,
                Naming::Url,
                Naming::Path,
                Naming::EncodedPath,
                Naming::Number,
                Naming::Extension,
            ];
            for naming in all {
                naming.name_of(u64::MAX, &bytes, &mut Vec::new());
            }
        }
    }
}
