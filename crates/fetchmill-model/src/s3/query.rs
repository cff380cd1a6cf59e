//! Queries in canonical form: parameters are sorted by name, each name is followed by `=`, and everything except
//! unreserved characters is encoded. Queries are sent exactly as they are signed.

use crate::name::encode_whole;

/// Query that starts a multipart upload.
pub const START_UPLOAD_QUERY: &str = "uploads=";

/// Query for a ListObjectsV2 page.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ListQuery<'a> {
    /// Prefix of the keys.
    pub prefix: &'a [u8],
    /// Key after which the listing starts. If it is empty, the listing starts at the first key.
    pub start_after: &'a [u8],
    /// Token from the previous page, after which this page continues.
    pub token: Option<&'a str>,
    /// Whether keys that contain a `/` after the prefix are grouped into one entry per folder.
    pub by_folder: bool,
    /// Maximum number of entries.
    pub max_keys: u32,
}

impl ListQuery<'_> {
    /// Returns the query in canonical form.
    pub fn text(&self) -> String {
        let mut query = Vec::new();
        if let Some(token) = self.token {
            query.extend_from_slice(b"continuation-token=");
            encode_whole(token.as_bytes(), &mut query);
            query.push(b'&');
        }
        if self.by_folder {
            query.extend_from_slice(b"delimiter=%2F&");
        }
        let max_keys = self.max_keys;
        query.extend_from_slice(
            format!("encoding-type=url&list-type=2&max-keys={max_keys}&prefix=").as_bytes(),
        );
        encode_whole(self.prefix, &mut query);
        if !self.start_after.is_empty() {
            query.extend_from_slice(b"&start-after=");
            encode_whole(self.start_after, &mut query);
        }
        text(query)
    }
}

/// Returns the query for a part of an upload. Parts are numbered from 1.
pub fn part_query(number: u32, upload_id: &str) -> String {
    format!("partNumber={number}&{}", upload_query(upload_id))
}

/// Returns the query for an upload itself, to complete or abort it.
pub fn upload_query(upload_id: &str) -> String {
    let mut query = b"uploadId=".to_vec();
    encode_whole(upload_id.as_bytes(), &mut query);
    text(query)
}

fn text(query: Vec<u8>) -> String {
    // Encoded text is ASCII.
    String::from_utf8(query).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_query_is_in_canonical_form() {
        let whole = ListQuery { max_keys: 1000, ..ListQuery::default() };
        assert_eq!(whole.text(), "encoding-type=url&list-type=2&max-keys=1000&prefix=");
        let inner = ListQuery {
            prefix: "a b/+%~\u{e9}/../".as_bytes(),
            start_after: b"a b/&=\xff\0",
            token: Some("t/+="),
            by_folder: true,
            max_keys: 1,
        };
        assert_eq!(
            inner.text(),
            "continuation-token=t%2F%2B%3D&delimiter=%2F&encoding-type=url&list-type=2&max-keys=1\
             &prefix=a%20b%2F%2B%25~%C3%A9%2F..%2F&start-after=a%20b%2F%26%3D%FF%00"
        );
    }

    #[test]
    fn an_upload_is_named_by_its_id() {
        assert_eq!(upload_query("a+/b==_.-"), "uploadId=a%2B%2Fb%3D%3D_.-");
        assert_eq!(part_query(10_000, "x"), "partNumber=10000&uploadId=x");
    }
}
