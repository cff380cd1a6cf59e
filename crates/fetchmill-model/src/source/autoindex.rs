//! Folder listings of web servers in the format of nginx's `autoindex_format json`.
//!
//! Names are bytes: nginx copies a file's name into the JSON unchanged, even if it is not UTF-8.

use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::folder::{EntryKind, FileFacts, FolderPages, FolderReadError};
use super::{BadPage, ListedPage, PendingFolder};
use crate::error::Error;
use crate::outcome::skips::SkipReason;
use crate::target::source_metadata::ListedTime;
use crate::text::dates::parse_http_date;

/// Reads the listing of a folder from the position in `folder`, and passes its pages to `each`. The last page ends the
/// listing.
pub fn read_folder(
    reader: impl Read,
    folder: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<(), Error>,
) -> Result<(), FolderReadError> {
    let mut pages = FolderPages::new(folder, each);
    let mut failed = None;
    let mut json = serde_json::Deserializer::from_reader(reader);
    let entries = EntriesSeed { pages: &mut pages, failed: &mut failed };
    let read = entries.deserialize(&mut json).and_then(|()| json.end());
    if let Some(error) = failed {
        return Err(error);
    }
    match read {
        Ok(()) => pages.finish(),
        Err(error) if error.is_io() => Err(FolderReadError::Io(error.into())),
        Err(error) => Err(FolderReadError::Page(BadPage(format!("not a JSON listing: {error}")))),
    }
}

/// An entry as nginx writes it.
#[derive(Deserialize)]
struct IndexEntry {
    name: RawName,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    size: EntryValue,
    #[serde(default)]
    mtime: EntryValue,
}

impl IndexEntry {
    fn facts(&self) -> FileFacts {
        FileFacts {
            size: if let EntryValue::Number(size) = self.size { Some(size) } else { None },
            modified: if let EntryValue::Time(time) = self.mtime { Some(time) } else { None },
        }
    }
}

/// A value that is ignored if it does not have the expected type.
#[derive(Debug, Default, Clone, Copy)]
enum EntryValue {
    #[default]
    Nothing,
    Number(u64),
    /// A time in the format of an HTTP date, which is always in GMT.
    Time(ListedTime),
}

impl<'de> Deserialize<'de> for EntryValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryValueVisitor)
    }
}

struct EntryValueVisitor;

impl<'de> Visitor<'de> for EntryValueVisitor {
    type Value = EntryValue;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_u64<E>(self, number: u64) -> Result<EntryValue, E> {
        Ok(EntryValue::Number(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<EntryValue, E> {
        Ok(EntryValue::Nothing)
    }

    fn visit_f64<E>(self, _: f64) -> Result<EntryValue, E> {
        Ok(EntryValue::Nothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<EntryValue, E> {
        Ok(EntryValue::Nothing)
    }

    fn visit_str<E>(self, text: &str) -> Result<EntryValue, E> {
        let seconds = parse_http_date(text.as_bytes());
        Ok(seconds.map_or(EntryValue::Nothing, |seconds| EntryValue::Time(ListedTime::exact(seconds))))
    }

    fn visit_unit<E>(self) -> Result<EntryValue, E> {
        Ok(EntryValue::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<EntryValue, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| EntryValue::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EntryValue, A::Error> {
        IgnoredAny.visit_map(map).map(|_| EntryValue::Nothing)
    }
}

struct RawName(Vec<u8>);

impl<'de> Deserialize<'de> for RawName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // `deserialize_bytes` returns bytes that are not UTF-8 unchanged.
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

struct EntriesSeed<'p, 'f, E> {
    pages: &'p mut FolderPages<'f, E>,
    /// Reason why reading stopped, unless the reason was invalid JSON.
    failed: &'p mut Option<FolderReadError>,
}

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
        while let Some(entry) = seq.next_element::<IndexEntry>()? {
            let kind = match entry.kind.as_str() {
                "file" => EntryKind::File(entry.facts()),
                "directory" => EntryKind::Folder,
                _ => EntryKind::LeftOut(SkipReason::NoObject),
            };
            if let Err(error) = self.pages.push(&entry.name.0, kind) {
                *self.failed = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FOLDER_DEPTH_MAX;
    use crate::source::PageCursor;
    use crate::target::source_metadata::SizedName;

    fn read(body: &[u8], folder: &PendingFolder) -> Result<Vec<ListedPage>, FolderReadError> {
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

        let pages = read(body, &PendingFolder { path: b"top".to_vec(), ..PendingFolder::default() }).unwrap();

        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0].names.iter().collect::<Vec<_>>(), [b"\0\0top/\xff\""]);
        assert_eq!(pages[0].skipped.total(), 1);
        let PageCursor::Folder { found, refused, is_last, .. } = &pages[0].cursor else { panic!() };
        assert_eq!(found.iter().collect::<Vec<_>>(), [b"top/d"]);
        assert_eq!(refused.iter().collect::<Vec<_>>(), [b"top/.."]);
        assert!(is_last);
    }

    #[test]
    fn a_file_has_its_size_where_the_listing_tells_it() {
        let sizes = ["7", "0", "-1", "1.5", "1e99", "\"7\"", "null", "true", "[1, [2]]", "{\"a\": {}}"];
        let entries = sizes.map(|size| format!(r#"{{"name":"f","type":"file","size":{size}}}"#));

        let pages = read(format!("[{}]", entries.join(",")).as_bytes(), &PendingFolder::default()).unwrap();

        let known: Vec<_> = pages[0].names.iter().map(SizedName::read).collect();
        assert!(known.iter().all(|sized| sized.name == b"f"));
        let sizes: Vec<_> = known.iter().map(|sized| sized.size).collect();
        assert_eq!(sizes, [Some(7), Some(0), None, None, None, None, None, None, None, None]);
    }

    #[test]
    fn a_file_has_its_time_where_the_listing_tells_it() {
        let times =
            ["\"Fri, 20 Nov 2026 21:08:00 GMT\"", "\"20-Nov-2026 21:08\"", "\"\"", "17", "null", "[{}]"];
        let entries = times.map(|time| format!(r#"{{"name":"f","type":"file","mtime":{time},"size":1}}"#));

        let pages = read(format!("[{}]", entries.join(",")).as_bytes(), &PendingFolder::default()).unwrap();

        let known: Vec<_> = pages[0].names.iter().map(SizedName::read).collect();
        assert!(known.iter().all(|file| (file.name, file.size) == (&b"f"[..], Some(1))));
        let times: Vec<_> = known.iter().map(|file| file.modified).collect();
        assert_eq!(times, [Some(ListedTime::exact(1_795_208_880)), None, None, None, None, None]);
    }

    #[test]
    fn a_folder_is_cut_and_read_again_from_where_it_was() {
        let body = listing(2500);
        let pages = read(&body, &PendingFolder::default()).unwrap();
        assert_eq!(pages.iter().map(|page| page.names.len()).collect::<Vec<_>>(), [1000, 1000, 500]);
        let PageCursor::Folder { read: done, digest, .. } = pages[1].cursor else { panic!() };

        let rest = read(&body, &PendingFolder { read: done, digest, ..PendingFolder::default() }).unwrap();

        assert_eq!(rest, pages[2..]);
    }

    #[test]
    fn a_folder_that_changed_is_told() {
        let folder = PendingFolder { read: 10, digest: 1, ..PendingFolder::default() };

        for count in [5, 10, 20] {
            let Err(FolderReadError::Page(error)) = read(&listing(count), &folder) else { panic!() };
            assert!(error.to_string().contains("changed"), "{error}");
        }
    }

    #[test]
    fn a_loop_of_links_ends() {
        let path = ["x"; FOLDER_DEPTH_MAX].join("/").into_bytes();

        let pages = read(
            br#"[{"name":"x","type":"directory"}]"#,
            &PendingFolder { path, ..PendingFolder::default() },
        )
        .unwrap();

        let PageCursor::Folder { found, refused, .. } = &pages[0].cursor else { panic!() };
        assert!(found.is_empty());
        assert_eq!(refused.len(), 1);
    }

    #[test]
    fn what_is_no_listing_is_told() {
        for body in ["<html>", "{}", "[1]", r#"[{"name":1}]"#, r#"[{"name":"a","type":"file"}"#, "[] x"] {
            assert!(
                matches!(read(body.as_bytes(), &PendingFolder::default()), Err(FolderReadError::Page(_))),
                "{body}"
            );
        }
    }
}
