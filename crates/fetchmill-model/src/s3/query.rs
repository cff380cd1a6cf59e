//! Queries in canonical form: sorted by name, each name with `=`, all but unreserved characters encoded. They are sent
//! as they are signed.

use crate::name::encode_whole;

/// Starts an upload in parts.
pub const START_UPLOAD_QUERY: &str = "uploads=";

/// Asks for a page of ListObjectsV2: the keys with a prefix, behind `start_after`; or those that a page without keys
/// led to by its `token`.
pub fn list_query(prefix: &[u8], start_after: Option<&[u8]>, token: Option<&str>, max_keys: u32) -> String {
    let mut query = Vec::new();
    if let Some(token) = token {
        query.extend_from_slice(b"continuation-token=");
        encode_whole(token.as_bytes(), &mut query);
        query.push(b'&');
    }
    query.extend_from_slice(format!("encoding-type=url&list-type=2&max-keys={max_keys}&prefix=").as_bytes());
    encode_whole(prefix, &mut query);
    if let Some(start_after) = start_after {
        query.extend_from_slice(b"&start-after=");
        encode_whole(start_after, &mut query);
    }
    text(query)
}

/// A part of an upload; parts are numbered from 1.
pub fn part_query(number: u32, upload_id: &str) -> String {
    format!("partNumber={number}&{}", upload_query(upload_id))
}

/// An upload itself, to complete it or to give it up.
pub fn upload_query(upload_id: &str) -> String {
    let mut query = b"uploadId=".to_vec();
    encode_whole(upload_id.as_bytes(), &mut query);
    text(query)
}

fn text(query: Vec<u8>) -> String {
    // What is encoded is ASCII.
    String::from_utf8(query).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_query_is_in_canonical_form() {
        assert_eq!(list_query(b"", None, None, 1000), "encoding-type=url&list-type=2&max-keys=1000&prefix=");
        assert_eq!(
            list_query("a b/+%~\u{e9}/../".as_bytes(), Some(b"a b/&=\xff\0"), None, 1),
            "encoding-type=url&list-type=2&max-keys=1&prefix=a%20b%2F%2B%25~%C3%A9%2F..%2F&start-after=a%20b%2F%26%3D%FF%00"
        );
    }

    #[test]
    fn an_upload_is_named_by_its_id() {
        assert_eq!(upload_query("a+/b==_.-"), "uploadId=a%2B%2Fb%3D%3D_.-");
        assert_eq!(part_query(10_000, "x"), "partNumber=10000&uploadId=x");
    }
}
