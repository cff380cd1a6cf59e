//! The URLs at which listed targets can be requested later, and the known properties of these targets.

use std::borrow::Cow;

use crate::plan::job_plan::JobPlan;
use crate::request::source_options::SourceOptions;
use fetchmill_model::error::Result;
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::name;
use fetchmill_model::row::ListRow;
use fetchmill_model::source::list::normalise;
use fetchmill_model::target::entry::{ListEntry, Naming};
use fetchmill_model::target::extra_columns::extra_values;
use fetchmill_model::target::source_metadata::{ListedKey, ListedTime, SizedName};

/// Locations of a job's targets.
pub(crate) enum TargetUrls {
    /// On a server that lists its objects: origin and request template.
    Server(String, RequestTemplate, Naming),
    /// In a bucket: prefix of the keys.
    Bucket(String),
    /// At the URLs in the list.
    List,
}

impl TargetUrls {
    pub(crate) fn of(plan: &JobPlan) -> Result<Self> {
        if let SourceOptions::S3 { bucket, .. } = &plan.request.source {
            return Ok(TargetUrls::Bucket(format!("s3://{}/", bucket.text())));
        }
        Ok(match plan.server()?.filter(|_| !plan.naming().has_url()) {
            Some((key, template)) => TargetUrls::Server(key.text().to_owned(), template, plan.naming()),
            None => TargetUrls::List,
        })
    }

    /// Returns the row for a target's entry.
    pub(super) fn row_of<'a>(&self, entry: &'a [u8]) -> ListRow<'a> {
        match self {
            TargetUrls::Server(origin, template, naming) => {
                let listed = match naming {
                    Naming::Sized => SizedName::read(entry),
                    _ => SizedName { name: entry, ..SizedName::default() },
                };
                let mut url = origin.clone().into_bytes();
                template.write_target(listed.name, &mut url);
                let url = String::from_utf8(url).ok();
                let url = url.filter(|url| !listed.name.is_empty() && serves_url(url)).map(Cow::Owned);
                ListRow {
                    name: Some(name::to_text(listed.name)),
                    url,
                    size: listed.size,
                    last_modified: listed.modified.and_then(ListedTime::utc),
                    ..ListRow::default()
                }
            }
            TargetUrls::Bucket(before) => {
                let ListedKey { key, size, etag, modified } = ListedKey::read(entry);
                let mut url = before.clone().into_bytes();
                name::encode(key, &mut url);
                ListRow {
                    name: Some(name::to_text(key)),
                    url: String::from_utf8(url).ok().filter(|url| serves_url(url)).map(Cow::Owned),
                    size,
                    etag: text_of(etag).filter(|etag| !etag.is_empty()),
                    last_modified: (modified > 0).then_some(modified),
                    kept: Vec::new(),
                }
            }
            TargetUrls::List => {
                let read = ListEntry::read(entry);
                let ListEntry { url, key, expected, .. } = read;
                let url = text_of(url).filter(|url| !url.is_empty());
                let kept = read.kept_values().unwrap_or_default();
                ListRow {
                    name: key.map(name::to_text),
                    url,
                    size: expected.size,
                    etag: expected.etag.and_then(text_of),
                    last_modified: expected.modified.and_then(ListedTime::utc),
                    kept: extra_values(kept).map(|value| value.and_then(text_of)).collect(),
                }
            }
        }
    }
}

/// Returns whether a list that contains this URL would request the URL unchanged. A server that lists its objects
/// receives names with `..` unchanged. In a list, such a URL would be normalised to a different one.
fn serves_url(url: &str) -> bool {
    normalise(url).is_ok_and(|normal| normal == url)
}

fn text_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::target::entry::ExpectedObject;

    fn server() -> TargetUrls {
        let template = RequestTemplate::new("a:81", "/get/", "", &[]).unwrap();
        TargetUrls::Server("http://a:81".to_owned(), template, Naming::Whole)
    }

    #[test]
    fn a_servers_name_has_the_url_that_it_is_asked_for() {
        for (name, url) in [
            (&b"a/b c"[..], Some("http://a:81/get/a/b%20c")),
            (b"a//b/", Some("http://a:81/get/a//b/")),
            (b"?#%", Some("http://a:81/get/%3F%23%25")),
            // For these names, a list would store a different name or request a different object.
            (b"", None),
            (b"a/../b", None),
            (b".", None),
        ] {
            let row = server().row_of(name);
            assert_eq!((row.name.as_deref(), row.url.as_deref()), (str::from_utf8(name).ok(), url));
        }
    }

    #[test]
    fn a_name_that_is_not_utf_8_has_its_text_and_its_url() {
        let row = server().row_of(b"caf\xe9");

        assert_eq!(row.name.as_deref(), Some("%bytes:caf%E9"));
        assert_eq!(row.url.as_deref(), Some("http://a:81/get/caf%E9"));
    }

    #[test]
    fn a_key_has_its_url_and_what_the_listing_says() {
        let mut entry = Vec::new();
        let key = "a b/../?\u{e9}".as_bytes();
        ListedKey { key, size: Some(7), etag: b"0f-2", modified: 9 }.write(&mut entry);

        let row = TargetUrls::Bucket("s3://abc/".to_owned()).row_of(&entry);

        assert_eq!(row.name.as_deref(), Some("a b/../?\u{e9}"));
        assert_eq!(row.url.as_deref(), Some("s3://abc/a%20b/%2E%2E/%3F%C3%A9"));
        assert_eq!((row.size, row.etag.as_deref(), row.last_modified), (Some(7), Some("0f-2"), Some(9)));
    }

    #[test]
    fn a_line_of_a_list_is_what_it_says() {
        let mut entry = Vec::new();
        let modified = Some(ListedTime::exact(9));
        let expected = ExpectedObject { size: Some(3), etag: Some(b"e"), modified };
        ListEntry { url: b"http://a/", key: Some(b"k"), kept: Some(b"\x02x\0"), expected, request: None }
            .write(&mut entry);

        let row = TargetUrls::List.row_of(&entry);

        let known = (row.name.as_deref(), row.url.as_deref(), row.size, row.etag.as_deref());
        assert_eq!(known, (Some("k"), Some("http://a/"), Some(3), Some("e")));
        assert_eq!(row.last_modified, Some(9));
        assert_eq!(row.kept, [Some("x".into()), None]);
    }

    #[test]
    fn a_line_without_url_is_a_row_without_url() {
        let mut entry = Vec::new();
        ListEntry { key: Some(b"line 3"), kept: Some(b"it is empty"), ..ListEntry::default() }
            .write(&mut entry);

        let row = TargetUrls::List.row_of(&entry);

        assert_eq!(row, ListRow { name: Some("line 3".into()), ..ListRow::default() });
    }
}
