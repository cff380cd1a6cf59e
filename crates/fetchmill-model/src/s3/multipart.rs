//! Multipart uploads: the queries of their requests, and the documents of the store. It does no I/O.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::START_UPLOAD_QUERY;
use crate::name::encode_whole;

/// Returns the query that lists uploads that were begun, but neither completed nor aborted.
pub fn uploads_query(prefix: &str) -> String {
    let mut encoded = Vec::new();
    encode_whole(prefix.as_bytes(), &mut encoded);
    // Encoded text is ASCII.
    format!("prefix={}&{START_UPLOAD_QUERY}", String::from_utf8_lossy(&encoded))
}

/// Returns the document that completes an upload: the ETags of its parts, in order.
pub fn complete_document(etags: &[String]) -> String {
    let mut document = "<CompleteMultipartUpload>".to_owned();
    for (index, etag) in etags.iter().enumerate() {
        let (number, etag) = (index + 1, quick_xml::escape::escape(etag.as_str()));
        let _ =
            write!(document, "<Part><PartNumber>{number}</PartNumber><ETag>&quot;{etag}&quot;</ETag></Part>");
    }
    document.push_str("</CompleteMultipartUpload>");
    document
}

/// Calls `each` with the name and the text of every element that has text. Returns `false` if the document is not XML,
/// or was cut.
fn for_each_text(document: &[u8], mut each: impl FnMut(&str, &str)) -> bool {
    let document = String::from_utf8_lossy(document);
    let mut reader = Reader::from_str(&document);
    let mut name = String::new();
    let mut text = String::new();
    let mut depth = 0_u64;
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                depth += 1;
                start.local_name().as_ref().clone_into(&mut name);
                text.clear();
            }
            Ok(Event::Text(piece)) => text.push_str(&piece),
            Ok(Event::GeneralRef(reference)) => {
                let raw = format!("&{};", &*reference);
                text.push_str(&quick_xml::escape::unescape(&raw).unwrap_or_default());
            }
            Ok(Event::End(end)) => {
                if end.local_name().as_ref() == name {
                    each(&name, &text);
                }
                name.clear();
                depth = depth.saturating_sub(1);
            }
            Ok(Event::Eof) => return depth == 0,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

/// Returns the text of the first element with this name.
fn text_of(document: &[u8], wanted: &str) -> Option<String> {
    let mut found = None;
    for_each_text(document, |name, text| {
        if name == wanted && found.is_none() {
            found = Some(text.to_owned());
        }
    });
    found
}

/// Returns the id of the upload that was begun.
pub fn upload_id(document: &[u8]) -> Option<String> {
    text_of(document, "UploadId").filter(|id| !id.is_empty())
}

/// Returns the uploads of a key in a list of uploads. `None` if the document is not such a list.
pub fn uploads_of(document: &[u8], key: &str) -> Option<Vec<String>> {
    let uploads = all_uploads(document)?.into_iter().filter(|(of, _)| of == key);
    Some(uploads.map(|(_, id)| id).collect())
}

/// Returns the keys and ids of all uploads in a list of uploads. `None` if the document is not such a list.
pub fn all_uploads(document: &[u8]) -> Option<Vec<(String, String)>> {
    let mut uploads = Vec::new();
    // Stores give the two in either order.
    let (mut its_key, mut its_id) = (None, None);
    let is_xml = for_each_text(document, |name, text| {
        match name {
            "Key" => its_key = Some(text.to_owned()),
            "UploadId" => its_id = Some(text.to_owned()),
            _ => return,
        }
        if let (Some(key), Some(id)) = (&its_key, &its_id) {
            uploads.push((key.clone(), id.clone()));
            (its_key, its_id) = (None, None);
        }
    });
    (is_xml && memchr::memmem::find(document, b"ListMultipartUploadsResult").is_some()).then_some(uploads)
}

/// Returns whether the reply to the last request of an upload confirms the object. An error may come with status 200.
pub fn is_completed(document: &[u8]) -> bool {
    memchr::memmem::find(document, b"CompleteMultipartUploadResult").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_in_canonical_form() {
        assert_eq!(uploads_query("a b/é"), "prefix=a%20b%2F%C3%A9&uploads=");
    }

    #[test]
    fn only_the_uploads_of_the_key_are_found() {
        let document = b"<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"x\"><Bucket>b</Bucket>
            <Prefix>a&amp;b</Prefix><Upload><Key>a&amp;b</Key><UploadId>one</UploadId></Upload>
            <Upload><Key>a&amp;bc</Key><UploadId>two</UploadId></Upload>
            <Upload><UploadId>three</UploadId><Key>a&#38;b</Key></Upload></ListMultipartUploadsResult>";

        assert_eq!(uploads_of(document, "a&b"), Some(vec!["one".to_owned(), "three".to_owned()]));
        assert_eq!(uploads_of(b"<Error><Code>AccessDenied</Code></Error>", "a"), None);
        assert_eq!(uploads_of(b"<ListMultipartUploadsResult><Key>", "a"), None);
    }

    #[test]
    fn an_upload_is_begun_and_completed() {
        let begun = b"<InitiateMultipartUploadResult><Key>k</Key><UploadId>x&lt;y</UploadId></InitiateMultipartUploadResult>";

        assert_eq!(upload_id(begun).as_deref(), Some("x<y"));
        assert_eq!(upload_id(b"<html>"), None);
        assert_eq!(
            complete_document(&["a".to_owned(), "b<".to_owned()]),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag></Part>\
             <Part><PartNumber>2</PartNumber><ETag>&quot;b&lt;&quot;</ETag></Part></CompleteMultipartUpload>"
        );
        assert!(is_completed(
            b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
        ));
        assert!(!is_completed(b"<Error><Code>InternalError</Code></Error>"));
    }
}
