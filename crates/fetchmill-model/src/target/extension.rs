//! The file name extension of an object, which is derived from the reply's `Content-Type` or, failing that, from the
//! URL.
//!
//! The table contains the common types of web objects with their usual extensions. The extension of a type is the first
//! one in its IANA registration (<https://www.iana.org/assignments/media-types>). If the registration names none, or if
//! another one is more common (`jpg`), the extension comes from the table of Apache's httpd (`mime.types`). Types that
//! say nothing about an object, such as `application/octet-stream`, are not in the table.

/// Extension of an object if neither the reply nor the URL indicates one.
const UNKNOWN: &[u8] = b"bin";
/// Maximum length of an extension. A longer text after a dot is probably something else.
const EXTENSION_BYTES_MAX: usize = 8;
/// Maximum length of a type in the table.
const TYPE_BYTES_MAX: usize = 80;

/// The table is sorted by type.
const EXTENSIONS: [(&str, &str); 88] = [
    ("application/atom+xml", "atom"),
    ("application/epub+zip", "epub"),
    ("application/geo+json", "geojson"),
    ("application/gzip", "gz"),
    ("application/java-archive", "jar"),
    ("application/javascript", "js"),
    ("application/json", "json"),
    ("application/jsonl", "jsonl"),
    ("application/ld+json", "jsonld"),
    ("application/msword", "doc"),
    ("application/ogg", "ogx"),
    ("application/pdf", "pdf"),
    ("application/postscript", "ps"),
    ("application/rss+xml", "rss"),
    ("application/rtf", "rtf"),
    ("application/vnd.android.package-archive", "apk"),
    ("application/vnd.apache.arrow.file", "arrow"),
    ("application/vnd.apache.parquet", "parquet"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.ms-powerpoint", "ppt"),
    ("application/vnd.oasis.opendocument.presentation", "odp"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.rar", "rar"),
    ("application/wasm", "wasm"),
    ("application/x-7z-compressed", "7z"),
    ("application/x-bzip2", "bz2"),
    ("application/x-gzip", "gz"),
    ("application/x-javascript", "js"),
    ("application/x-ndjson", "ndjson"),
    ("application/x-rar-compressed", "rar"),
    ("application/x-tar", "tar"),
    ("application/x-xz", "xz"),
    ("application/xhtml+xml", "xhtml"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/zip", "zip"),
    ("application/zstd", "zst"),
    ("audio/aac", "aac"),
    ("audio/flac", "flac"),
    ("audio/midi", "mid"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "opus"),
    ("audio/wav", "wav"),
    ("audio/webm", "weba"),
    ("audio/x-flac", "flac"),
    ("audio/x-wav", "wav"),
    ("font/otf", "otf"),
    ("font/ttf", "ttf"),
    ("font/woff", "woff"),
    ("font/woff2", "woff2"),
    ("image/apng", "apng"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("image/gif", "gif"),
    ("image/heic", "heic"),
    ("image/heif", "heif"),
    ("image/jp2", "jp2"),
    ("image/jpeg", "jpg"),
    ("image/jpg", "jpg"),
    ("image/jxl", "jxl"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tiff"),
    ("image/vnd.microsoft.icon", "ico"),
    ("image/webp", "webp"),
    ("image/x-icon", "ico"),
    ("text/calendar", "ics"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/javascript", "js"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("text/tab-separated-values", "tsv"),
    ("text/vtt", "vtt"),
    ("text/xml", "xml"),
    ("video/mp4", "mp4"),
    ("video/mpeg", "mpeg"),
    ("video/ogg", "ogv"),
    ("video/quicktime", "mov"),
    ("video/webm", "webm"),
    ("video/x-matroska", "mkv"),
];

/// Appends the extension that is derived from a reply and its URL. `content_type` is `None` before the reply has
/// arrived.
pub(crate) fn push_extension(content_type: Option<&[u8]>, url: &[u8], out: &mut Vec<u8>) {
    match content_type.and_then(of_content_type) {
        Some(extension) => out.extend_from_slice(extension.as_bytes()),
        None => out.extend(of_url(url).unwrap_or(UNKNOWN).iter().map(u8::to_ascii_lowercase)),
    }
}

/// Returns the extension for the value of a `Content-Type` field. Parameters and case are ignored.
pub(super) fn of_content_type(field: &[u8]) -> Option<&'static str> {
    let end = memchr::memchr2(b';', b',', field).unwrap_or(field.len());
    let kind = field[..end].trim_ascii();
    let mut lower = [0; TYPE_BYTES_MAX];
    let lower = lower.get_mut(..kind.len())?;
    lower.copy_from_slice(kind);
    lower.make_ascii_lowercase();
    let found = EXTENSIONS.binary_search_by(|(known, _)| known.as_bytes().cmp(lower));
    found.ok().map(|position| EXTENSIONS[position].1)
}

/// Returns the text after the last dot in the path of a URL, if it looks like an extension.
fn of_url(url: &[u8]) -> Option<&[u8]> {
    let end = url.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(url.len());
    let host = memchr::memmem::find(&url[..end], b"://").map_or(0, |scheme| scheme + 3);
    let path = &url[host..end];
    let slash = memchr::memrchr(b'/', path)?;
    let segment = &path[slash + 1..];
    let dot = memchr::memrchr(b'.', segment).filter(|dot| *dot > 0)?;
    let extension = &segment[dot + 1..];
    let is_one = (1..=EXTENSION_BYTES_MAX).contains(&extension.len())
        && extension.iter().all(u8::is_ascii_alphanumeric);
    is_one.then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(content_type: &str, url: &str) -> String {
        let mut out = b"7.".to_vec();
        push_extension(
            (!content_type.is_empty()).then_some(content_type.as_bytes()),
            url.as_bytes(),
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn types_are_found_whatever_their_case_and_parameters() {
        assert!(EXTENSIONS.is_sorted_by(|one, other| one.0 < other.0));
        for (kind, extension) in EXTENSIONS {
            assert!(kind.len() <= TYPE_BYTES_MAX && extension.len() <= EXTENSION_BYTES_MAX, "{kind}");
            assert_eq!(of_content_type(kind.to_uppercase().as_bytes()), Some(extension));
        }
        for field in ["image/jpeg", " Image/JPEG ;q=1", "image/jpeg,text/html", "image/jpeg;"] {
            assert_eq!(told(field, "http://a/b.png"), "7.jpg");
        }
    }

    #[test]
    fn a_type_that_says_nothing_leaves_it_to_the_url() {
        for field in ["", "application/octet-stream", "image", "x/../../y", &"a".repeat(1000)] {
            assert_eq!(told(field, "http://a.test/b/c.PNG?x=.gif#.jpg"), "7.png");
        }
        for url in [
            "http://a.test",
            "http://a.test/",
            "http://a.test/b.c/d",
            "http://a/b.",
            "http://a/.png",
            "http://a/b.%2e%2e",
            "http://a/b.extension",
            "http://a/?b/c.png",
            "s3://bucket.png",
            "",
        ] {
            assert_eq!(told("", url), "7.bin", "{url}");
        }
    }
}
