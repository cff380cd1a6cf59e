//! A web server's folders as nginx's `autoindex_format json` lists them.
//!
//! Folders are walked deepest first. A folder is cut into pages as it is read, so that its size costs no memory.
//! When the connection breaks in the middle the folder is read again from its start; what is in the journal already
//! is passed over, and a digest proves that it is the same. Names are bytes: nginx puts a file's name into the JSON
//! as it is, UTF-8 or not.

use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};

use super::{BadPage, Cursor, Folder, ListedPage, OriginUrl};
use crate::error::Error;
use crate::limits::{FOLDER_DEPTH_MAX, FOLDER_PAGE_TARGETS};
use crate::target::Names;

/// The path of a folder's listing.
pub fn folder_path(origin: &OriginUrl, folder: &[u8]) -> String {
    let mut path = origin.path().as_bytes().to_vec();
    path.push(b'/');
    if !folder.is_empty() {
        crate::name::encode(folder, &mut path);
        path.push(b'/');
    }
    // Encoded names are ASCII.
    String::from_utf8(path).unwrap_or_default()
}

/// Why a folder was not read to its end.
#[derive(Debug)]
pub enum ReadError {
    /// What came is no listing.
    Page(BadPage),
    /// The connection failed while it was read: it may be read again.
    Io(std::io::Error),
    /// `each` has failed.
    Job(Error),
}

/// Reads a folder's listing from where `folder` says, and gives its pages to `each`; the last one ends it.
pub fn read_folder(
    reader: impl Read,
    folder: &Folder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), ReadError> {
    let mut pages = Pages::new(folder, each);
    let mut json = serde_json::Deserializer::from_reader(reader);
    let read = EntriesSeed(&mut pages).deserialize(&mut json).and_then(|()| json.end());
    if let Some(error) = pages.failed.take() {
        return Err(ReadError::Job(error));
    }
    match read {
        Ok(()) => pages.finish(),
        Err(error) if error.is_io() => Err(ReadError::Io(error.into())),
        Err(error) => Err(ReadError::Page(BadPage(format!("it gives no listing as JSON: {error}")))),
    }
}

struct Pages<'f, E> {
    folder: &'f Folder,
    each: E,
    read: u64,
    digest: u64,
    names: Names,
    found: Names,
    refused: Names,
    skipped: u64,
    failed: Option<Error>,
}

impl<'f, E: FnMut(ListedPage) -> Result<(), Error>> Pages<'f, E> {
    fn new(folder: &'f Folder, each: E) -> Self {
        Pages {
            folder,
            each,
            read: 0,
            digest: 0,
            names: Names::default(),
            found: Names::default(),
            refused: Names::default(),
            skipped: 0,
            failed: None,
        }
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), BadPage> {
        self.read += 1;
        self.digest = xxhash_rust::xxh3::xxh3_64_with_seed(&entry.name.0, self.digest);
        if self.read <= self.folder.read {
            return self.must_be_the_same();
        }
        let path = self.folder.path.as_slice();
        let between: &[u8] = if path.is_empty() { b"" } else { b"/" };
        let parts = [path, between, &entry.name.0];
        match entry.kind.as_str() {
            "file" => self.names.push_parts(&parts),
            "directory" if self.may_enter(&entry.name.0) => self.found.push_parts(&parts),
            "directory" => self.refused.push_parts(&parts),
            _ => self.skipped += 1,
        }
        Ok(())
    }

    fn must_be_the_same(&self) -> Result<(), BadPage> {
        if self.read == self.folder.read && self.digest != self.folder.digest {
            return Err(BadPage("it changed while it was read".into()));
        }
        Ok(())
    }

    fn may_enter(&self, name: &[u8]) -> bool {
        let path = &self.folder.path;
        let depth = if path.is_empty() { 1 } else { 2 + memchr::memchr_iter(b'/', path).count() };
        depth <= FOLDER_DEPTH_MAX
            && !matches!(name, b"" | b"." | b"..")
            && !name.iter().any(|byte| matches!(byte, b'/' | 0))
    }

    fn is_full(&self) -> bool {
        self.names.len() + self.found.len() + self.refused.len() >= FOLDER_PAGE_TARGETS
    }

    fn hand_over(&mut self, is_last: bool) -> Result<(), Error> {
        let cursor = Cursor::Folder {
            path: self.folder.path.clone(),
            found: std::mem::take(&mut self.found),
            refused: std::mem::take(&mut self.refused),
            read: self.read,
            digest: self.digest,
            is_last,
        };
        let names = std::mem::take(&mut self.names);
        let skipped = std::mem::take(&mut self.skipped);
        (self.each)(ListedPage { names, skipped, total: None, cursor })
    }

    fn finish(&mut self) -> Result<(), ReadError> {
        if self.read < self.folder.read {
            return Err(ReadError::Page(BadPage("it changed while it was read".into())));
        }
        self.hand_over(true).map_err(ReadError::Job)
    }
}

/// An entry as nginx writes it; size and time are not looked at.
#[derive(Deserialize)]
struct Entry {
    name: RawName,
    #[serde(rename = "type")]
    kind: String,
}

struct RawName(Vec<u8>);

impl<'de> Deserialize<'de> for RawName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // `bytes` keeps what is not UTF-8 as it is.
        deserializer.deserialize_bytes(RawNameVisitor)
    }
}

struct RawNameVisitor;

impl Visitor<'_> for RawNameVisitor {
    type Value = RawName;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<RawName, E> {
        Ok(RawName(name.to_vec()))
    }

    fn visit_str<E>(self, name: &str) -> Result<RawName, E> {
        Ok(RawName(name.as_bytes().to_vec()))
    }
}

struct EntriesSeed<'p, 'f, E>(&'p mut Pages<'f, E>);

impl<'de, E: FnMut(ListedPage) -> Result<(), Error>> DeserializeSeed<'de> for EntriesSeed<'_, '_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, E: FnMut(ListedPage) -> Result<(), Error>> Visitor<'de> for EntriesSeed<'_, '_, E> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(entry) = seq.next_element::<Entry>()? {
            self.0.entry(&entry).map_err(A::Error::custom)?;
            if self.0.is_full()
                && let Err(error) = self.0.hand_over(false)
            {
                self.0.failed = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8], folder: &Folder) -> Result<Vec<ListedPage>, ReadError> {
        let mut pages = Vec::new();
        read_folder(body, folder, |page| {
            pages.push(page);
            Ok(())
        })?;
        Ok(pages)
    }

    fn listing(count: usize) -> Vec<u8> {
        let entries: Vec<String> =
            (0..count).map(|n| format!(r#"{{"name":"f{n}","type":"file","mtime":"x","size":1}}"#)).collect();
        format!("[{}]", entries.join(",\n")).into_bytes()
    }

    #[test]
    fn entries_become_targets_folders_and_skipped() {
        let body = b"[{\"name\":\"d\",\"type\":\"directory\"},{\"name\":\"\xff\\\"\",\"type\":\"file\"},\
                     {\"name\":\"s\",\"type\":\"other\"},{\"name\":\"..\",\"type\":\"directory\"}]";

        let pages = read(body, &Folder { path: b"top".to_vec(), ..Folder::default() }).unwrap();

        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0].names.iter().collect::<Vec<_>>(), [b"top/\xff\""]);
        assert_eq!(pages[0].skipped, 1);
        let Cursor::Folder { found, refused, is_last, .. } = &pages[0].cursor else { panic!() };
        assert_eq!(found.iter().collect::<Vec<_>>(), [b"top/d"]);
        assert_eq!(refused.iter().collect::<Vec<_>>(), [b"top/.."]);
        assert!(is_last);
    }

    #[test]
    fn a_folder_is_cut_and_read_again_from_where_it_was() {
        let body = listing(2500);
        let pages = read(&body, &Folder::default()).unwrap();
        assert_eq!(pages.iter().map(|page| page.names.len()).collect::<Vec<_>>(), [1000, 1000, 500]);
        let Cursor::Folder { read: done, digest, .. } = pages[1].cursor else { panic!() };

        let rest = read(&body, &Folder { read: done, digest, ..Folder::default() }).unwrap();

        assert_eq!(rest, pages[2..]);
    }

    #[test]
    fn a_folder_that_changed_is_told() {
        let folder = Folder { read: 10, digest: 1, ..Folder::default() };

        for count in [5, 10, 20] {
            let Err(ReadError::Page(error)) = read(&listing(count), &folder) else { panic!() };
            assert!(error.to_string().contains("changed"), "{error}");
        }
    }

    #[test]
    fn a_loop_of_links_ends() {
        let path = ["x"; FOLDER_DEPTH_MAX].join("/").into_bytes();

        let pages =
            read(br#"[{"name":"x","type":"directory"}]"#, &Folder { path, ..Folder::default() }).unwrap();

        let Cursor::Folder { found, refused, .. } = &pages[0].cursor else { panic!() };
        assert!(found.is_empty());
        assert_eq!(refused.len(), 1);
    }

    #[test]
    fn what_is_no_listing_is_told() {
        for body in ["<html>", "{}", "[1]", r#"[{"name":1}]"#, r#"[{"name":"a","type":"file"}"#, "[] x"] {
            assert!(matches!(read(body.as_bytes(), &Folder::default()), Err(ReadError::Page(_))), "{body}");
        }
    }

    #[test]
    fn folders_are_asked_for_with_a_slash_and_encoded() {
        let origin = OriginUrl::parse("http://a/base/").unwrap();

        assert_eq!(folder_path(&origin, b""), "/base/");
        assert_eq!(folder_path(&origin, b"a b/\xff%20"), "/base/a%20b/%FF%2520/");
    }
}
