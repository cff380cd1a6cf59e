//! The types that are recognised by their first bytes, in the order in which they are checked. Magic numbers at fixed
//! positions come first, and text comes last.
//!
//! The signatures come from MIME Sniffing (<https://mimesniff.spec.whatwg.org>), sections 6 and 7, and from the
//! specification of each format. If ordinary text can begin with a signature, more bytes are checked.

use super::containers::{
    Brand, ebml_document, has, has_brand, is_adts, is_bmp, is_ico, is_mpeg_audio, is_mpeg_stream, ogg_codec,
    zip_mimetype,
};
use super::markup::Markup;
use super::text::{is_json, is_plain_text};

/// A type of body.
pub(super) struct BodyType {
    /// Names that `--accept` allows. Messages show the first name.
    pub(super) names: &'static [&'static str],
    /// Description for people.
    pub(super) label: &'static str,
    /// First names of other types to which a body of this type also belongs.
    pub(super) is_also: &'static [&'static str],
    /// Returns whether a body that begins with these bytes has the type.
    pub(super) begins: fn(&[u8]) -> bool,
}

const ZIP: &[&str] = &["application/zip"];
const XML: &[&str] = &["application/xml"];
const PLAIN: &[&str] = &["text/plain"];

const fn binary(names: &'static [&'static str], label: &'static str, begins: fn(&[u8]) -> bool) -> BodyType {
    BodyType { names, label, is_also: &[], begins }
}

const fn zipped(names: &'static [&'static str], label: &'static str, begins: fn(&[u8]) -> bool) -> BodyType {
    BodyType { names, label, is_also: ZIP, begins }
}

fn is_riff(start: &[u8], form: &[u8]) -> bool {
    has(start, 0, b"RIFF") && has(start, 8, form)
}

/// All types, at most [`super::accepted::TYPES_MAX`].
pub(super) const TYPES: &[BodyType] = &[
    binary(&["image/jpeg", "image/jpg"], "a JPEG image", |start| has(start, 0, b"\xff\xd8\xff")),
    binary(&["image/png"], "a PNG image", |start| has(start, 0, b"\x89PNG\r\n\x1a\n")),
    binary(&["image/gif"], "a GIF image", |start| has(start, 0, b"GIF87a") || has(start, 0, b"GIF89a")),
    binary(&["image/webp"], "a WebP image", |start| is_riff(start, b"WEBP")),
    binary(&["image/avif"], "an AVIF image", |start| has_brand(start, Brand::Avif)),
    binary(&["image/heic", "image/heif"], "a HEIF image", |start| has_brand(start, Brand::Heif)),
    binary(&["image/tiff"], "a TIFF image", |start| {
        [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"].iter().any(|magic| has(start, 0, *magic))
    }),
    binary(&["image/bmp", "image/x-ms-bmp"], "a BMP image", is_bmp),
    binary(&["image/x-icon", "image/vnd.microsoft.icon"], "an icon", is_ico),
    binary(&["image/jp2", "image/jpx"], "a JPEG 2000 image", |start| {
        has(start, 0, b"\0\0\0\x0cjP  \r\n\x87\n") || has(start, 0, b"\xff\x4f\xff\x51")
    }),
    binary(&["image/jxl"], "a JPEG XL image", |start| {
        has(start, 0, b"\xff\x0a") || has(start, 0, b"\0\0\0\x0cJXL \r\n\x87\n")
    }),
    binary(&["image/jxr"], "a JPEG XR image", |start| has(start, 0, b"II\xbc\x01")),
    binary(&["image/vnd.adobe.photoshop"], "a Photoshop image", |start| has(start, 0, b"8BPS\0")),
    binary(&["image/vnd.djvu"], "a DjVu document", |start| has(start, 0, b"AT&TFORM")),
    binary(&["audio/mpeg", "audio/mp3"], "MP3 audio", is_mpeg_audio),
    binary(&["audio/aac"], "AAC audio", is_adts),
    binary(&["audio/flac"], "FLAC audio", |start| has(start, 0, b"fLaC")),
    binary(&["audio/wav", "audio/x-wav", "audio/wave"], "WAV audio", |start| is_riff(start, b"WAVE")),
    binary(&["audio/ogg"], "Ogg audio", |start| ogg_codec(start).is_some_and(|is_video| !is_video)),
    binary(&["audio/mp4", "audio/x-m4a"], "MP4 audio", |start| has_brand(start, Brand::Audio)),
    binary(&["audio/midi"], "MIDI music", |start| has(start, 0, b"MThd\0\0\0\x06")),
    binary(&["audio/aiff", "audio/x-aiff"], "AIFF audio", |start| {
        has(start, 0, b"FORM") && (has(start, 8, b"AIFF") || has(start, 8, b"AIFC"))
    }),
    binary(&["audio/amr"], "AMR audio", |start| has(start, 0, b"#!AMR")),
    binary(&["video/mp4"], "an MP4 video", |start| has_brand(start, Brand::Video)),
    binary(&["video/quicktime"], "a QuickTime video", |start| {
        has_brand(start, Brand::QuickTime) || has(start, 4, b"moov") || has(start, 4, b"mdat")
    }),
    binary(&["video/3gpp"], "a 3GPP video", |start| has_brand(start, Brand::Mobile)),
    binary(&["video/webm"], "a WebM video", |start| ebml_document(start) == Some(b"webm")),
    binary(&["video/matroska", "video/x-matroska"], "a Matroska video", |start| {
        ebml_document(start) == Some(b"matroska")
    }),
    binary(&["video/ogg"], "an Ogg video", |start| ogg_codec(start) == Some(true)),
    binary(&["video/avi", "video/x-msvideo"], "an AVI video", |start| is_riff(start, b"AVI ")),
    binary(&["video/mpeg"], "an MPEG video", |start| {
        has(start, 0, b"\0\0\x01\xba") || has(start, 0, b"\0\0\x01\xb3")
    }),
    binary(&["video/mp2t"], "an MPEG transport stream", is_mpeg_stream),
    binary(&["video/x-flv"], "a Flash video", |start| has(start, 0, b"FLV\x01")),
    binary(&["video/x-ms-asf", "video/x-ms-wmv"], "an ASF video", |start| {
        has(start, 0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11")
    }),
    binary(&["font/woff2"], "a WOFF2 font", |start| has(start, 0, b"wOF2")),
    binary(&["font/woff"], "a WOFF font", |start| has(start, 0, b"wOFF")),
    binary(&["font/otf"], "an OpenType font", |start| has(start, 0, b"OTTO\0")),
    binary(&["font/ttf"], "a TrueType font", |start| {
        has(start, 0, b"\0\x01\0\0\0") || has(start, 0, b"true\0")
    }),
    binary(&["font/collection"], "a font collection", |start| has(start, 0, b"ttcf\0")),
    zipped(&["application/epub+zip"], "an EPUB book", |start| {
        zip_mimetype(start) == Some(b"application/epub+zip")
    }),
    zipped(&["application/vnd.oasis.opendocument.text"], "an OpenDocument text", |start| {
        zip_mimetype(start) == Some(b"application/vnd.oasis.opendocument.text")
    }),
    zipped(&["application/vnd.oasis.opendocument.spreadsheet"], "an OpenDocument spreadsheet", |start| {
        zip_mimetype(start) == Some(b"application/vnd.oasis.opendocument.spreadsheet")
    }),
    zipped(&["application/vnd.oasis.opendocument.presentation"], "an OpenDocument presentation", |start| {
        zip_mimetype(start) == Some(b"application/vnd.oasis.opendocument.presentation")
    }),
    binary(ZIP, "a ZIP archive", |start| {
        [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"].iter().any(|magic| has(start, 0, *magic))
    }),
    binary(&["application/gzip", "application/x-gzip"], "gzip data", |start| has(start, 0, b"\x1f\x8b\x08")),
    binary(&["application/x-bzip2"], "bzip2 data", |start| {
        has(start, 0, b"BZh") && (has(start, 4, b"1AY&SY") || has(start, 4, b"\x17\x72\x45\x38\x50\x90"))
    }),
    binary(&["application/x-xz"], "xz data", |start| has(start, 0, b"\xfd7zXZ\0")),
    binary(&["application/zstd"], "zstd data", |start| has(start, 0, b"\x28\xb5\x2f\xfd")),
    binary(&["application/x-lz4"], "LZ4 data", |start| has(start, 0, b"\x04\x22\x4d\x18")),
    binary(&["application/x-7z-compressed"], "a 7z archive", |start| has(start, 0, b"7z\xbc\xaf\x27\x1c")),
    binary(&["application/vnd.rar", "application/x-rar-compressed"], "a RAR archive", |start| {
        has(start, 0, b"Rar!\x1a\x07")
    }),
    binary(&["application/x-tar"], "a tar archive", |start| has(start, 257, b"ustar")),
    binary(&["application/postscript"], "PostScript", |start| has(start, 0, b"%!PS")),
    BodyType {
        names: &["application/rtf", "text/rtf"],
        label: "rich text",
        is_also: &[],
        begins: |start| has(start, 0, b"{\\rtf"),
    },
    binary(&["application/x-ole-storage"], "an OLE document (such as .doc or .xls)", |start| {
        has(start, 0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    }),
    binary(&["application/vnd.apache.parquet"], "a Parquet file", |start| has(start, 0, b"PAR1")),
    binary(&["application/vnd.apache.arrow.file"], "an Arrow file", |start| has(start, 0, b"ARROW1\0\0")),
    binary(&["application/avro"], "an Avro file", |start| has(start, 0, b"Obj\x01")),
    binary(&["application/vnd.sqlite3"], "an SQLite database", |start| has(start, 0, b"SQLite format 3\0")),
    binary(&["application/x-hdf5", "application/x-hdf"], "an HDF5 file", |start| {
        has(start, 0, b"\x89HDF\r\n\x1a\n")
    }),
    binary(&["application/x-netcdf"], "a NetCDF file", |start| {
        [b"CDF\x01", b"CDF\x02", b"CDF\x05"].iter().any(|magic| has(start, 0, *magic))
    }),
    binary(&["application/fits", "image/fits"], "a FITS file", |start| has(start, 0, b"SIMPLE  =")),
    binary(&["application/dicom"], "a DICOM file", |start| has(start, 128, b"DICM")),
    binary(&["application/x-npy"], "a NumPy array", |start| has(start, 0, b"\x93NUMPY")),
    binary(&["application/wasm"], "WebAssembly", |start| has(start, 0, b"\0asm")),
    binary(&["application/x-elf"], "an ELF program", |start| has(start, 0, b"\x7fELF")),
    binary(&["application/warc"], "a WARC file", |start| has(start, 0, b"WARC/")),
    BodyType {
        names: &["image/svg+xml"],
        label: "an SVG image",
        is_also: XML,
        begins: |start| Markup::of(start) == Some(Markup::Svg),
    },
    BodyType {
        names: &["application/xhtml+xml"],
        label: "an XHTML page",
        is_also: &["application/xml", "text/html"],
        begins: |start| Markup::of(start) == Some(Markup::Xhtml),
    },
    BodyType {
        names: &["text/html"],
        label: "an HTML page",
        is_also: &[],
        begins: |start| Markup::of(start) == Some(Markup::Html),
    },
    BodyType {
        names: &["application/xml", "text/xml"],
        label: "XML",
        is_also: &[],
        begins: |start| Markup::of(start) == Some(Markup::Xml),
    },
    // PDF readers also accept a header that follows other text. Some programs add such text before the header.
    binary(&["application/pdf"], "a PDF document", |start| {
        memchr::memmem::find(&start[..start.len().min(1024)], b"%PDF-").is_some()
    }),
    BodyType { names: &["application/json", "text/json"], label: "JSON", is_also: PLAIN, begins: is_json },
    BodyType { names: PLAIN, label: "plain text", is_also: &[], begins: is_plain_text },
];
