//! Checks the first bytes of a file to detect that it is not a list. Without this check, each line of such a file would
//! become a meaningless target.

use super::ListFormat;

/// Number of bytes that are searched for NULs.
const HEAD_BYTES: usize = 4096;
/// Minimum number of bytes for each NUL byte in a list. A few NUL bytes are allowed, because a damaged line of text
/// affects only its own target.
const BYTES_PER_NUL: usize = 8;
/// Number of first bytes that are checked. In a binary file, at least one of them is not text.
const KIND_BYTES: usize = 64;
/// Position and text of the magic in a tar archive.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");

/// First bytes of each kind of binary file, with its name and advice.
const BINARY_KINDS: [(&[u8], &str); 16] = [
    (b"PAR1", "Parquet; set --list-format parquet"),
    (b"\xd0\xcf\x11\xe0", "an Excel or Word document; save the sheet as CSV"),
    (b"ARROW1", "an Arrow file; convert it to Parquet"),
    (b"ORC", "an ORC file; convert it to Parquet"),
    (b"Obj\x01", "an Avro file; convert it to Parquet or JSON lines"),
    (b"SQLite format 3\0", "an SQLite database; export a table as CSV"),
    (b"\x89HDF", "an HDF5 file; convert it to Parquet"),
    (b"\x93NUMPY", "a NumPy array; write it as text, one URL per line"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    (b"Rar!", "a rar archive; unpack it"),
    (b"\x04\x22\x4d\x18", "an lz4 archive; decompress it"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"\x7fELF", "a program"),
];

/// First bytes of each kind of text file, with its name and advice.
const TEXT_KINDS: [(&[u8], &str); 5] = [
    (b"<!DOCTYPE", "an HTML or XML page"),
    (b"<!doctype", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<HTML", "an HTML page"),
    (b"<?xml", "XML; to fetch a sitemap, give its URL: fetchmill get https://HOST/sitemap.xml"),
];

/// Returns the kind of a file that begins with `head`, if such a file is not a list. `head` can be shorter than the
/// available input.
pub(super) fn kind_of(head: &[u8], format: ListFormat) -> Option<&'static str> {
    // The header of a CSV can begin with the same letters, as in `ORCID`.
    let is_binary = is_binary(&head[..head.len().min(KIND_BYTES)]);
    let of_binary = BINARY_KINDS.iter().filter(|_| is_binary);
    let found = of_binary.chain(&TEXT_KINDS).find(|(magic, _)| head.starts_with(magic));
    if let Some((_, kind)) = found {
        return Some(kind);
    }
    if head.get(TAR_MAGIC.0..).is_some_and(|head| head.starts_with(TAR_MAGIC.1)) {
        return Some("a tar archive; unpack it and give one of its files");
    }
    let head_of_text = &head[..head.len().min(HEAD_BYTES)];
    if memchr::memchr_iter(0, head_of_text).count() * BYTES_PER_NUL > head_of_text.len() {
        return Some("binary data (it has many NUL bytes)");
    }
    let first = head_of_text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_object = format == ListFormat::Jsonl && head.len() > first.len() && first.trim_ascii() == b"{";
    is_object.then_some(
        "one JSON object, not an array or one value per line; convert it with jq -c '.FIELD[]' FILE",
    )
}

/// Returns whether the bytes include control bytes or invalid UTF-8. The last character can be incomplete.
fn is_binary(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t'..=b'\r');
    let is_utf_8 = std::str::from_utf8(bytes).err().is_none_or(|error| error.error_len().is_none());
    !is_utf_8 || bytes.iter().any(is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_lists() {
        for head in [
            &b""[..],
            b"http://a.test/\n",
            b"url,name\n",
            b"# GIF89a",
            b"<a href",
            b"PAR1,url",
            b"ORCID,url\n",
            b"{}",
        ] {
            assert_eq!(kind_of(head, ListFormat::Jsonl), None, "{head:?}");
        }
        assert_eq!(kind_of(b"[::1]/a", ListFormat::Text), None);
        assert_eq!(kind_of(b"http://a.test/\n\0\nhttp://b.test/", ListFormat::Text), None);
    }

    #[test]
    fn other_files_are_none() {
        let mut tar = vec![b'a'; 257];
        tar.extend_from_slice(b"ustar\x0000");
        assert!(kind_of(&tar, ListFormat::Text).is_some_and(|kind| kind.contains("tar archive")));
        assert!(kind_of(b"a\0b\0", ListFormat::Csv).is_some_and(|kind| kind.contains("NUL")));
        assert!(kind_of(b"{\n  \"a\": 1", ListFormat::Jsonl).is_some_and(|kind| kind.contains("jq -c")));
        assert!(kind_of(b"%PDF-1.7\n%\xe2\xe3", ListFormat::Text).is_some());
    }
}
