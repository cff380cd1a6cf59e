//! Multipart uploads: the queries of their requests, and the documents with which the store replies. This module does
//! no I/O.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::START_UPLOAD_QUERY;
use crate::name::encode_whole;

/// An upload that was started but neither completed nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenUpload {
    /// Key of the future object.
    pub key: String,
    /// ID of the upload.
    pub id: String,
}

/// A page of open uploads.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UploadsPage {
    /// The uploads, in the order of their keys.
    pub uploads: Vec<OpenUpload>,
    /// Last upload on this page, after which the next page starts. `None` on the last page.
    pub next: Option<OpenUpload>,
}

/// Returns the query that lists open uploads. `after` is the last upload of the previous page.
pub fn uploads_query(prefix: &str, after: Option<&OpenUpload>) -> String {
    let mut query = String::new();
    let mut add = |name: &str, value: &str| {
        let mut encoded = Vec::new();
        encode_whole(value.as_bytes(), &mut encoded);
        // Encoded text is ASCII.
        let _ = write!(query, "{name}={}&", String::from_utf8_lossy(&encoded));
    };
    // The signature requires the parameters in this order.
    if let Some(after) = after {
        add("key-marker", &after.key);
    }
    add("prefix", prefix);
    if let Some(after) = after.filter(|after| !after.id.is_empty()) {
        add("upload-id-marker", &after.id);
    }
    query.push_str(START_UPLOAD_QUERY);
    query
}

/// Returns the document that completes an upload, with the ETags of its parts in order.
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

/// Calls `each` with the name and the text of every element that contains text. Returns `false` if the document is not
/// XML or was truncated.
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

/// Returns the ID of the upload that the store has started.
pub fn upload_id(document: &[u8]) -> Option<String> {
    text_of(document, "UploadId").filter(|id| !id.is_empty())
}

/// Reads a page of open uploads. Returns `None` if the document is not a page of uploads.
pub fn uploads_page(document: &[u8]) -> Option<UploadsPage> {
    let mut uploads = Vec::new();
    // Stores send the key and the ID in either order.
    let (mut its_key, mut its_id) = (None, None);
    let (mut next_key, mut next_id, mut is_truncated) = (None, String::new(), false);
    let is_xml = for_each_text(document, |name, text| {
        match name {
            "Key" => its_key = Some(text.to_owned()),
            "UploadId" => its_id = Some(text.to_owned()),
            "NextKeyMarker" => next_key = Some(text.to_owned()),
            "NextUploadIdMarker" => text.clone_into(&mut next_id),
            "IsTruncated" => is_truncated = text.trim() == "true",
            _ => return,
        }
        if let (Some(key), Some(id)) = (&its_key, &its_id) {
            uploads.push(OpenUpload { key: key.clone(), id: id.clone() });
            (its_key, its_id) = (None, None);
        }
    });
    let next = next_key.filter(|_| is_truncated).map(|key| OpenUpload { key, id: next_id });
    let is_page = is_xml && memchr::memmem::find(document, b"ListMultipartUploadsResult").is_some();
    is_page.then_some(UploadsPage { uploads, next })
}

/// Returns whether the reply to the last request of an upload confirms the object. A reply with status 200 can also
/// contain an error.
pub fn is_completed(document: &[u8]) -> bool {
    memchr::memmem::find(document, b"CompleteMultipartUploadResult").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_upload(key: &str, id: &str) -> OpenUpload {
        OpenUpload { key: key.to_owned(), id: id.to_owned() }
    }

    #[test]
    fn queries_are_in_canonical_form() {
        assert_eq!(uploads_query("a b/é", None), "prefix=a%20b%2F%C3%A9&uploads=");
        assert_eq!(
            uploads_query("a", Some(&open_upload("a/b c", "x+1"))),
            "key-marker=a%2Fb%20c&prefix=a&upload-id-marker=x%2B1&uploads="
        );
    }

    #[test]
    fn a_page_of_uploads_names_the_next_page() {
        let page = |more: &str| {
            format!(
                "<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"x\"><Bucket>b</Bucket>
                <Prefix>a&amp;b</Prefix>{more}<Upload><Key>a&amp;b</Key><UploadId>one</UploadId></Upload>
                <Upload><UploadId>two</UploadId><Key>a&#38;bc</Key></Upload></ListMultipartUploadsResult>"
            )
        };
        let markers = "<NextKeyMarker>a&amp;bc</NextKeyMarker><NextUploadIdMarker>two</NextUploadIdMarker>";
        let uploads = vec![open_upload("a&b", "one"), open_upload("a&bc", "two")];

        let last = UploadsPage { uploads: uploads.clone(), next: None };
        assert_eq!(uploads_page(page("").as_bytes()).as_ref(), Some(&last));
        assert_eq!(
            uploads_page(page(&format!("<IsTruncated>false</IsTruncated>{markers}")).as_bytes()),
            Some(last)
        );
        assert_eq!(
            uploads_page(page(&format!("{markers}<IsTruncated>true</IsTruncated>")).as_bytes()),
            Some(UploadsPage { uploads, next: Some(open_upload("a&bc", "two")) })
        );
        assert_eq!(uploads_page(b"<Error><Code>AccessDenied</Code></Error>"), None);
        assert_eq!(uploads_page(b"<ListMultipartUploadsResult><Key>"), None);
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
