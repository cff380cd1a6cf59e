//! A list in a zip archive that contains a single file, such as top-1m.csv.zip.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use crate::error::{Error, Result};
use crate::name::for_display;

/// First bytes of a zip archive, and of an empty zip archive.
const MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
/// Maximum number of file names that an error shows if there are several files.
const SHOWN_NAMES: usize = 3;
/// A file that every Office document contains.
const OF_OFFICE: &str = "[Content_Types].xml";

/// Returns whether a file that begins with `head` is a zip archive.
pub fn is_zip(head: &[u8]) -> bool {
    MAGICS.iter().any(|magic| head.starts_with(magic))
}

/// The only file of an archive.
pub struct ZipMember {
    /// Name of the file in the archive.
    pub name: String,
    /// Decompressed size of the file in bytes, as stated by the archive.
    pub length: u64,
    /// Reader of the file's contents. It verifies the checksum at the end.
    pub content: Box<dyn Read + Send>,
}

impl std::fmt::Debug for ZipMember {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ZipMember").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Opens the only file of an archive. `label` names the list in messages.
pub fn open_only_member<F: Read + Seek + Send + 'static>(label: &str, file: F) -> Result<ZipMember> {
    let refuse = |why: String| Error::Usage(format!("the list {label} is a zip archive {why}"));
    let damaged = |error: &dyn std::fmt::Display| refuse(format!("that cannot be read: {error}"));
    let mut archive = ZipArchive::new(file).map_err(|error| damaged(&error))?;
    let names: std::result::Result<Vec<_>, _> = archive.file_names().collect();
    let mut names = names.map_err(|error| damaged(&error))?;
    names.retain(|name| is_content(name));
    names.sort_unstable();
    let name = match &names[..] {
        [] => return Err(refuse("that contains no files".to_owned())),
        [name] => name.clone().into_owned(),
        _ if names.iter().any(|name| name == OF_OFFICE) => {
            return Err(Error::Usage(format!(
                "the list {label} is a workbook or other Office document; save the sheet as CSV"
            )));
        }
        _ => {
            let shown: Vec<_> =
                names.iter().take(SHOWN_NAMES).map(|name| for_display(name.as_bytes())).collect();
            let more = if names.len() > SHOWN_NAMES { ", ..." } else { "" };
            return Err(refuse(format!(
                "of {} files ({}{more}); unpack it and give one of them",
                names.len(),
                shown.join(", ")
            )));
        }
    };
    let index = archive.index_for_name(&name).unwrap_or_default();
    let member = archive.by_index_raw(index).map_err(|error| damaged(&error))?;
    let shown = for_display(name.as_bytes());
    if member.encrypted() {
        return Err(refuse(format!("whose file {shown} is encrypted; unpack it")));
    }
    let method = member.compression();
    let expected = (member.crc32(), member.size());
    let (start, length) = (member.data_start(), member.compressed_size());
    drop(member);
    let start = start.ok_or_else(|| damaged(&"its file has no local header"))?;
    let mut file = archive.into_inner();
    file.seek(SeekFrom::Start(start)).map_err(|error| damaged(&error))?;
    let stored = file.take(length);
    let content: Box<dyn Read + Send> = match method {
        CompressionMethod::Stored => Box::new(Checked::new(stored, expected)),
        CompressionMethod::Deflated => Box::new(Checked::new(DeflateDecoder::new(stored), expected)),
        other => return Err(refuse(format!("whose file {shown} is compressed with {other}; unpack it"))),
    };
    Ok(ZipMember { name, length: expected.1, content })
}

/// Returns whether a name belongs to a content file. Folders and the files that macOS adds are not content files.
fn is_content(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    !file.is_empty() && !name.starts_with("__MACOSX/") && file != ".DS_Store"
}

/// A reader that verifies the checksum and the length when it reaches the end.
struct Checked<R> {
    input: R,
    crc: Crc,
    bytes: u64,
    expected: (u32, u64),
}

impl<R: Read> Checked<R> {
    fn new(input: R, expected: (u32, u64)) -> Self {
        Checked { input, crc: Crc::new(), bytes: 0, expected }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.crc.update(&buffer[..count]);
        self.bytes += count as u64;
        if count == 0 && !buffer.is_empty() && (self.crc.sum(), self.bytes) != self.expected {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum or length is wrong"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::write::SimpleFileOptions;

    use super::*;

    fn archive(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn read(bytes: Vec<u8>) -> std::result::Result<(String, Vec<u8>), String> {
        let mut member = open_only_member("l.zip", Cursor::new(bytes)).map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        member.content.read_to_end(&mut content).map_err(|error| error.to_string())?;
        Ok((member.name, content))
    }

    #[test]
    fn the_only_file_is_read() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let made = archive(&[("a/top.csv", b"1,a.test\n"), ("__MACOSX/a/._top.csv", b"x")], method);
            assert_eq!(read(made), Ok(("a/top.csv".to_owned(), b"1,a.test\n".to_vec())));
        }
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        let several = [("a", &b"1"[..]), ("b", b"2"), ("c", b"3"), ("d", b"4")];
        for (made, message) in [
            (archive(&several, CompressionMethod::Stored), "of 4 files (a, b, c, ...); unpack it"),
            (
                archive(&[(OF_OFFICE, b""), ("xl/x.xml", b"")], CompressionMethod::Stored),
                "save the sheet as CSV",
            ),
            (archive(&[], CompressionMethod::Stored), "that contains no files"),
            (b"PK\x03\x04 and no more".to_vec(), "cannot be read"),
        ] {
            let error = read(made).unwrap_err();
            assert!(error.contains(message) && error.starts_with("the list l.zip is a"), "{error}");
        }
    }

    #[test]
    fn a_damaged_file_is_no_shorter_list() {
        let mut made = archive(&[("a.txt", b"http://a.test/")], CompressionMethod::Stored);
        let place = made.windows(4).position(|bytes| bytes == b"http").unwrap();
        made[place] = b'f';
        assert!(read(made).unwrap_err().contains("checksum"));
    }
}
