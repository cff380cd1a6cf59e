//! The XML that S3 writes, and the few elements that it reads.

use super::uri;

/// Start of every document.
pub(crate) const DECLARATION: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// Appends the start of a document that is not an error, including its root element.
pub(crate) fn root(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(DECLARATION);
    out.extend_from_slice(b"<");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b" xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
}

/// Appends `<name>`.
pub(crate) fn open(name: &str, out: &mut Vec<u8>) {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

/// Appends `</name>`.
pub(crate) fn close(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

/// Appends an element with text.
pub(crate) fn element(name: &str, text: impl AsRef<[u8]>, out: &mut Vec<u8>) {
    open(name, out);
    escape(text.as_ref(), out);
    close(name, out);
}

/// Appends an element that contains a key. The key is encoded if the client requested this.
pub(crate) fn key(name: &str, key: &[u8], encoded: bool, out: &mut Vec<u8>) {
    open(name, out);
    if encoded {
        uri::encode_key(key, out);
    } else {
        escape(key, out);
    }
    close(name, out);
}

/// Appends text. As in S3, control characters become references, even those that XML 1.0 cannot express.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    if !text.iter().any(|byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | 0..0x20)) {
        out.extend_from_slice(text);
        return;
    }
    for &byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            0..0x20 => out.extend_from_slice(format!("&#x{byte:x};").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// Returns the numbers and `ETag`s of the parts in a request that completes an upload. `None` if the body is not such a
/// document.
pub(crate) fn parts(body: &[u8]) -> Option<Vec<(u32, String)>> {
    let text = std::str::from_utf8(body).ok()?;
    let inner = between(text, "<CompleteMultipartUpload", "</CompleteMultipartUpload>")?.0;
    let mut rest = inner;
    let mut parts = Vec::new();
    while let Some((part, after)) = between(rest, "<Part>", "</Part>") {
        let number = between(part, "<PartNumber>", "</PartNumber>")?.0.trim().parse().ok()?;
        let etag =
            between(part, "<ETag>", "</ETag>")?.0.trim().replace("&quot;", "\"").replace("&#34;", "\"");
        parts.push((number, etag.trim_matches('"').to_owned()));
        rest = after;
    }
    Some(parts)
}

/// Returns the text between two markers, and the text after the second marker.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(start)?.1.split_once(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(fill: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        fill(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            made(|out| element("A", "a<b>&\"c\" \u{1}\nü", out)),
            "<A>a&lt;b&gt;&amp;&quot;c&quot; &#x1;&#xa;ü</A>"
        );
    }

    #[test]
    fn a_key_is_encoded_or_escaped() {
        assert_eq!(made(|out| key("Key", b"a b/<", true, out)), "<Key>a+b/%3C</Key>");
        assert_eq!(made(|out| key("Key", b"a b/<", false, out)), "<Key>a b/&lt;</Key>");
    }

    #[test]
    fn parts_are_read_in_any_order_of_their_elements() {
        let body = br#"<?xml version="1.0"?><CompleteMultipartUpload xmlns="x">
            <Part><ETag>"ab"</ETag><PartNumber>1</PartNumber></Part>
            <Part><PartNumber>2</PartNumber><ETag>&quot;cd&quot;</ETag></Part></CompleteMultipartUpload>"#;

        assert_eq!(parts(body), Some(vec![(1, "ab".to_owned()), (2, "cd".to_owned())]));
        assert_eq!(parts(b"<CompleteMultipartUpload></CompleteMultipartUpload>"), Some(Vec::new()));
        for other in [
            &b"<Delete/>"[..],
            b"",
            b"\xff",
            b"<CompleteMultipartUpload><Part></Part></CompleteMultipartUpload>",
        ] {
            assert_eq!(parts(other), None);
        }
    }
}
