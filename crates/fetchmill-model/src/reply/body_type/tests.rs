//! Bodies, and the types that their first bytes indicate.

use super::{AcceptedTypes, BodyStart};
use crate::limits::BODY_START_BYTES;

fn accepted(names: &[&str]) -> AcceptedTypes {
    AcceptedTypes::try_from(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

/// Returns the type that is named when a body is refused.
fn shown(body: &[u8]) -> String {
    let refusal = accepted(&["font/woff"]).refusal(body).unwrap();
    let (came, _) = refusal.rsplit_once(", but --accept allows font/woff").unwrap();
    came.rsplit_once(" (").map_or(came, |(_, name)| name.trim_end_matches(')')).to_owned()
}

#[test]
fn the_first_bytes_show_the_type() {
    let tar = [&[b'n'; 257][..], b"ustar\x0000"].concat();
    let stream: Vec<u8> = (0..400).map(|at| if at % 188 == 0 { 0x47 } else { 0xff }).collect();
    let epub =
        b"PK\x03\x04\x0a\0\0\0\0\0aaaabbbb\x14\0\0\0\x14\0\0\0\x08\0\0\0mimetypeapplication/epub+zipPK";
    for (body, name) in [
        (&b"\xff\xd8\xff\xe0\0\x10JFIF"[..], "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", "image/png"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
        (b"\0\0\0\x1cftypavif\0\0\0\0mif1miaf", "image/avif"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1heic", "image/heic"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avif\0\0\0\0", "image/avif"),
        (b"\0\0\0\x14ftypM4A \0\0\0\0mp42", "audio/mp4"),
        (b"\0\0\0\x14ftypisom\0\0\0\0mp42", "video/mp4"),
        (b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", "image/bmp"),
        (b"BMW makes cars, and this is a text", "text/plain"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"\xff\xf3\x44\xc4", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm", "video/webm"),
        (epub, "application/epub+zip"),
        (b"PK\x03\x04\x14\0", "application/zip"),
        (&tar, "application/x-tar"),
        (&stream, "video/mp2t"),
        (b"\n\xef\xbf\xbdjunk\n%PDF-1.7", "application/pdf"),
        (b"{\\rtf1\\ansi", "application/rtf"),
        (b"<!DOCTYPE html><title>404</title>", "text/html"),
        (b"\xef\xbb\xbf \r\n<!-- a --><!-- b -->\n<HTML lang=en>", "text/html"),
        (b"<!-- a comment that does not end", "text/html"),
        (b"<script>let pdf = '%PDF-1.7'</script>", "text/html"),
        (b"<?xml version='1.0'?><!-- a --><svg:svg xmlns:svg='x'>", "image/svg+xml"),
        (b"<svg/>", "image/svg+xml"),
        (b"<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x'><html>", "application/xhtml+xml"),
        (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "application/xml"),
        (b"<rss version='2.0'>", "application/xml"),
        (b"<3 this is a text", "text/plain"),
        (b"\xef\xbb\xbf {\"a\": 1}", "application/json"),
        (b"[1, 2]", "application/json"),
        (b"{not json}", "text/plain"),
        (b"a,b\n1,2\n", "text/plain"),
        (b"gr\xfc\xdfe", "text/plain"),
        (b"\xff\xfea\0", "text/plain"),
        (b"a\0b", "bytes of an unknown type"),
        (b"", "an empty body"),
    ] {
        assert_eq!(shown(body), name, "{:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn cut_and_hostile_starts_show_something() {
    let magics: [&[u8]; 9] = [
        b"\0\0\0\x08ftypmif1",
        b"\xff\xff\xff\xffftypmif1\0\0\0\0avif",
        b"OggS\0\0aaaaaaaaaaaaaaaaaaaa\xff\x01vorbis",
        b"PK\x03\x04aaaaaaaaaaaaaaaaaa\xff\xff\xff\xffaa\xff\xffmimetype",
        b"\x1a\x45\xdf\xa3\x42\x82",
        b"<!DOCTYPE",
        b"<?xml",
        b"<!--",
        b"\xff\xfb\x90\x64",
    ];
    for magic in magics {
        for end in 0..=magic.len() {
            assert!(!shown(&magic[..end]).is_empty());
        }
    }
}

#[test]
fn a_type_is_accepted_by_each_of_its_names() {
    for (names, body, is_accepted) in [
        (&["image/*"][..], &b"GIF89a"[..], true),
        (&["IMAGE/GIF"], b"GIF89a", true),
        (&["image/png"], b"GIF89a", false),
        (&["image/png", "image/gif"], b"GIF89a", true),
        (&["image/*"], b"<svg>", true),
        (&["text/xml"], b"<svg>", true),
        (&["text/html"], b"<?xml version='1.0'?><html>", true),
        (&["text/plain"], b"<html>", false),
        (&["text/plain"], b"[1] a line of a log", true),
        (&["text/*"], b"<?xml version='1.0'?><a>", true),
        (&["application/zip"], b"PK\x03\x04", true),
        (&["application/epub+zip"], b"PK\x03\x04", false),
        (&["image/*"], b"", false),
    ] {
        assert_eq!(accepted(names).refusal(body).is_none(), is_accepted, "{names:?} {body:?}");
    }
    assert_eq!(AcceptedTypes::default().refusal(b"anything"), None);
}

#[test]
fn a_refusal_says_what_came_and_what_was_wanted() {
    let refusal = accepted(&["image/*", "image/png", "application/pdf"]).refusal(b"<html>").unwrap();
    assert_eq!(refusal, "an HTML page (text/html), but --accept allows image/*, application/pdf");
}

#[test]
fn names_that_bytes_do_not_show_are_refused() {
    for name in
        ["text/csv", "*/*", "*", "image", "", "image/", "font/*x", "model/gltf+json", "text/html; q=1"]
    {
        let refused = AcceptedTypes::try_from(vec!["image/png".to_owned(), name.to_owned()]);
        let problem = refused.unwrap_err().to_string();
        assert!(problem.contains(&format!("{name:?}")) && problem.contains("image/*"), "{problem}");
    }
}

#[test]
fn the_start_of_a_body_is_bounded() {
    let mut start = BodyStart::default();
    start.piece(b"<!--");
    start.piece(&[b' '; 2 * BODY_START_BYTES]);
    start.piece(b"--><svg>");
    assert!(start.refusal(&accepted(&["text/html"])).is_none());

    start.clear();
    start.piece(b"GI");
    start.piece(b"F89a");
    assert!(start.refusal(&accepted(&["image/gif"])).is_none());
}
