//! JSON pages, and their conversion to targets.

use super::{JsonPage, JsonPageOptions, JsonPages, NextPage, PageReply};
use crate::error::Result;
use crate::source::list::Filters;
use crate::source::{ApiNames, BadPage, OriginUrl, PageCursor};
use crate::target::entry::ListEntry;

const SOURCE: &str = "http://a.test:81/v1/photos?per=2";

fn options(next_page: NextPage) -> JsonPageOptions {
    let has_field = matches!(next_page, NextPage::Marker | NextPage::Url);
    JsonPageOptions {
        items_field: "data.photos".into(),
        url_field: Some("urls.full".into()),
        next_page: Some(next_page),
        next_field: has_field.then(|| "data.next".into()),
        ..JsonPageOptions::default()
    }
}

fn pages(source: &str, options: &JsonPageOptions) -> Result<JsonPages> {
    let api = ApiNames { marker_param: "cursor".into(), ..ApiNames::default() };
    JsonPages::new(&OriginUrl::parse_page(source).unwrap(), options, &api)
}

fn read_from(
    pages: &JsonPages,
    from: Option<&str>,
    body: &str,
    links: &[&[u8]],
) -> Result<std::result::Result<JsonPage, BadPage>> {
    let url = pages.url(from)?;
    let filters = Filters::new(&[], &["*.gif".to_owned()]).unwrap();
    pages.read(PageReply { from, url: &url, body: body.as_bytes(), links }, &filters)
}

fn read(options: &JsonPageOptions, body: &str) -> std::result::Result<JsonPage, BadPage> {
    read_from(&pages(SOURCE, options).unwrap(), None, body, &[]).unwrap()
}

/// Returns the URL, name and size of each target. If a target has no URL, the reason takes its place.
fn targets(page: &JsonPage) -> Vec<(String, Option<String>, Option<u64>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let target = |entry| {
        let entry = ListEntry::read(entry);
        let url = entry.reason().unwrap_or(entry.url);
        (text(url), entry.key.map(text), entry.expected.size)
    };
    page.page.names.iter().map(target).collect()
}

fn next_of(page: &JsonPage) -> Option<&str> {
    let PageCursor::Json { next, .. } = &page.page.cursor else { panic!() };
    next.as_deref()
}

fn refusal(options: &JsonPageOptions, body: &str) -> String {
    read(options, body).unwrap_err().to_string()
}

#[test]
fn items_become_targets_wherever_they_lie() {
    let options = JsonPageOptions {
        name_field: Some("id".into()),
        size_field: Some("urls.size".into()),
        ..options(NextPage::Marker)
    };
    let body = r#"{"meta": [[]], "data": {"next": 7, "photos": [
        {"urls": {"full": "http://B.test/x y?q#f", "size": 12, "thumb": [{}]}, "id": "caf\u00e9"},
        {"id": 5, "urls": {"size": "12", "full": "img/2.jpg"}},
        {"urls": {"full": "//c.test/3"}, "id": null},
        {"urls": {"full": "/4.gif"}, "id": "left out"},
        "?5"
    ]}, "Total": 9}"#;

    let page = read(&options, body).unwrap();

    let named = |url: &str, name: Option<&str>, size| (url.to_owned(), name.map(str::to_owned), size);
    assert_eq!(
        targets(&page),
        [
            named("http://b.test/x%20y?q", Some("café"), Some(12)),
            named("http://a.test:81/v1/img/2.jpg", Some("5"), None),
            named("http://c.test/3", None, None),
            named("http://a.test:81/v1/photos?5", None, None),
        ]
    );
    assert_eq!((page.items, page.page.skipped.total(), page.page.total), (5, 1, Some(9)));
    assert_eq!((next_of(&page), page.is_without_urls, page.has_no_lead), (Some("7"), false, false));
}

#[test]
fn a_page_may_be_an_array_of_strings() {
    let options = JsonPageOptions { items_field: ".".into(), url_field: None, ..options(NextPage::None) };

    let page = read(&options, "\u{feff} [\"a\", \"http://b.test/\"] ").unwrap();

    let urls: Vec<_> = targets(&page).into_iter().map(|(url, ..)| url).collect();
    assert_eq!(urls, ["http://a.test:81/v1/a", "http://b.test/"]);
    assert!(refusal(&options, r#"[{"url": "a"}]"#).contains("--url-field"));
}

#[test]
fn an_item_that_cannot_be_used_is_a_target_that_fails() {
    for (item, reason) in [
        ("5", "it is neither a string nor an object"),
        ("null", "it is neither a string nor an object"),
        ("[[1]]", "it is neither a string nor an object"),
        ("{}", "it has no field urls.full"),
        (r#"{"urls": null}"#, "it has no field urls.full"),
        (r#"{"urls": {"full": null}}"#, "it has no field urls.full"),
        (r#"{"urls": {"full": 5}}"#, "its URL is not a string"),
        (r#"{"urls": {"full": ""}}"#, "its URL is empty"),
        (r#"{"urls": {"full": "\ud800"}}"#, "it has a string that is not valid Unicode"),
        (r#"{"urls": {"full": "a\nb"}}"#, "its URL contains a control character"),
        (r#"{"urls": {"full": "s3://bucket/key"}}"#, "the scheme of its URL is not http or https"),
        (r#"{"urls": {"full": "file:///etc/passwd"}}"#, "the scheme of its URL is not http or https"),
        (r#"{"urls": {"full": "http://"}}"#, "its host is empty"),
    ] {
        let page = read(&options(NextPage::None), &format!(r#"{{"data": {{"photos": [{item}]}}}}"#)).unwrap();

        let (found, place, _) = targets(&page).remove(0);
        assert!(found == reason || item.contains("http://\""), "{item}: {found}");
        assert_eq!(place.as_deref(), Some("item 1 of http://a.test:81/v1/photos?per=2"));
    }
    let twice = r#"{"data": {"photos": [{"urls": {"full": "/a", "full": "/b"}}]}}"#;
    let (reason, ..) = targets(&read(&options(NextPage::None), twice).unwrap()).remove(0);
    assert!(reason.contains("appears twice"), "{reason}");
    let user = r#"{"data": {"photos": [{"urls": {"full": "//u:p@b.test/"}}]}}"#;
    let (reason, ..) = targets(&read(&options(NextPage::None), user).unwrap()).remove(0);
    assert!(reason.contains("user name or password"), "{reason}");
}

#[test]
fn what_is_no_page_is_told() {
    for (body, message) in [
        ("", "EOF"),
        ("<html>", "expected value"),
        ("[]", "an object with the field data"),
        ("{}", "no field data.photos"),
        (r#"{"data": null}"#, "no field data.photos"),
        (r#"{"data": {"photos": null}}"#, "no field data.photos"),
        (r#"{"data": {"photos": {}}}"#, "expected an array of items"),
        (r#"{"data": {"photos": "a"}}"#, "expected an array of items"),
        (r#"{"data": {"photos": []"#, "EOF"),
        (r#"{"data": {"photos": []}} x"#, "trailing"),
        (r#"{"data": {"photos": []}, "data": {}}"#, "twice"),
        (r#"{"data": {"photos": [], "next": {}}}"#, "expected a marker"),
        (r#"{"data": {"photos": [], "next": 1.5}}"#, "expected a marker"),
        (r#"{"data": 5}"#, "an object with the field"),
    ] {
        let found = refusal(&options(NextPage::Marker), body);
        assert!(found.contains(message), "{body}: {found}");
    }
    let long = format!(r#"{{"data": {{"photos": [], "next": "{}"}}}}"#, "x".repeat(70_000));
    assert!(refusal(&options(NextPage::Marker), &long).contains("longer than"));
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let objects = format!("{}1{}", r#"{"data":"#.repeat(100_000), "}".repeat(100_000));
    for body in [deep.clone(), objects, format!(r#"{{"data": {{"photos": {deep}}}}}"#)] {
        // Any result is fine as long as the code does not panic.
        let _ = read(&options(NextPage::Marker), &body);
    }
    let beside =
        format!(r#"{{"x": {deep}, "data": {{"next": null, "photos": [{deep}, {{"urls": {deep}}}]}}}}"#);

    let page = read(&options(NextPage::Marker), &beside).unwrap();

    assert_eq!((page.items, page.is_without_urls), (2, false));
    let too_deep = format!(r#"{{"data": {{"next": {deep}, "photos": []}}}}"#);
    assert!(refusal(&options(NextPage::Marker), &too_deep).contains("marker"));
}

#[test]
fn short_references_do_not_become_a_page_without_bound() {
    let source = format!("http://a.test/{}/", "x".repeat(60_000));
    let options = JsonPageOptions { items_field: ".".into(), ..options(NextPage::None) };
    let body = format!("[{}]", vec!["\"a\""; 300].join(","));

    let found = read_from(&pages(&source, &options).unwrap(), None, &body, &[]).unwrap().unwrap_err();

    assert!(found.to_string().contains("larger than 16 MiB"), "{found}");
}

#[test]
fn each_way_leads_to_the_next_page() {
    let body = |next: &str| format!(r#"{{"data": {{"next": {next}, "photos": ["a", "b", "c.gif"]}}}}"#);
    let link: &[&[u8]] = &[b"</v1/photos?after=2>; rel=next"];
    for (way, next, links, lead, url) in [
        (NextPage::Marker, r#""a b&c""#, &[][..], "a b&c", "http://a.test:81/v1/photos?per=2&cursor=a+b%26c"),
        (
            NextPage::Url,
            r#""?p=2#f""#,
            &[],
            "http://a.test:81/v1/photos?p=2",
            "http://a.test:81/v1/photos?p=2",
        ),
        (
            NextPage::Link,
            "0",
            link,
            "http://a.test:81/v1/photos?after=2",
            "http://a.test:81/v1/photos?after=2",
        ),
        (NextPage::Page, "0", &[], "2", "http://a.test:81/v1/photos?per=2&page=2"),
        (NextPage::Offset, "0", &[], "3", "http://a.test:81/v1/photos?per=2&offset=3"),
    ] {
        let pages = pages(SOURCE, &options(way)).unwrap();
        assert_eq!(pages.url(None).unwrap().as_str(), SOURCE);

        let page = read_from(&pages, None, &body(next), links).unwrap().unwrap();
        assert_eq!(next_of(&page), Some(lead), "{way:?}");
        assert_eq!(pages.url(Some(lead)).unwrap().as_str(), url, "{way:?}");

        let last = r#"{"data": {"next": "", "photos": []}}"#;
        let page = read_from(&pages, Some(lead), last, &[]).unwrap().unwrap();
        assert_eq!((next_of(&page), page.items), (None, 0), "{way:?}");
    }
}

#[test]
fn a_page_that_was_led_to_leads_on() {
    let body = r#"{"data": {"photos": ["a", "b"]}}"#;
    for (way, source, from, next, url) in [
        (NextPage::Page, "http://a.test/?page=0&x=%20", None, "1", "http://a.test/?x=%20&page=1"),
        (NextPage::Page, "http://a.test/", Some("41"), "42", "http://a.test/?page=42"),
        (NextPage::Offset, "http://a.test/?offset=10", None, "12", "http://a.test/?offset=12"),
        (NextPage::Offset, "http://a.test/?offset=10", Some("20"), "22", "http://a.test/?offset=22"),
    ] {
        let pages = pages(source, &options(way)).unwrap();
        let page = read_from(&pages, from, body, &[]).unwrap().unwrap();
        assert_eq!(next_of(&page), Some(next));
        assert_eq!(pages.url(Some(next)).unwrap().as_str(), url);
    }
    let last = u64::MAX.to_string();
    let pages = pages("http://a.test/", &options(NextPage::Page)).unwrap();
    assert!(read_from(&pages, Some(&last), body, &[]).unwrap().is_err());
}

#[test]
fn a_page_does_not_lead_to_another_origin() {
    let pages_by_url = pages(SOURCE, &options(NextPage::Url)).unwrap();
    let body = r#"{"data": {"next": "http://b.test/", "photos": []}}"#;
    assert_eq!(read_from(&pages_by_url, None, body, &[]).unwrap_err().exit_code(), 6);
    assert_eq!(pages_by_url.url(Some("http://b.test/")).unwrap_err().exit_code(), 6);

    let by_link = pages(SOURCE, &options(NextPage::Link)).unwrap();
    let body = r#"{"data": {"photos": []}}"#;
    let away = read_from(&by_link, None, body, &[b"<//b.test/>; rel=next"]);
    assert_eq!(away.unwrap_err().exit_code(), 6);
    let bad = read_from(&by_link, None, body, &[b"/b; rel=next"]).unwrap().unwrap_err();
    assert!(bad.to_string().contains("Link header field"), "{bad}");
}

#[test]
fn a_next_page_keeps_the_tls_of_the_source() {
    for (source, next, url) in [
        ("https://a.test/x", "http://a.test/y?p=2", Some("https://a.test/y?p=2")),
        ("https://a.test:8443/x", "http://a.test:8443/y", Some("https://a.test:8443/y")),
        ("https://a.test:8443/x", "http://a.test/y", Some("https://a.test:8443/y")),
        ("https://a.test/x", "http://a.test:81/y", None),
        ("https://a.test/x", "http://b.test/y", None),
        ("http://a.test/x", "https://a.test/y", None),
    ] {
        let body = format!(r#"{{"data": {{"next": "{next}", "photos": []}}}}"#);
        let page = read_from(&pages(source, &options(NextPage::Url)).unwrap(), None, &body, &[]);
        let found = page.ok().and_then(|page| next_of(&page.unwrap()).map(str::to_owned));
        assert_eq!(found.as_deref(), url, "{source} {next}");
    }
}

#[test]
fn the_last_page_may_say_so_in_many_ways() {
    let by_marker = pages(SOURCE, &options(NextPage::Marker)).unwrap();
    for (next, items, leads_on) in [
        ("null", "", false),
        ("false", "", false),
        (r#""""#, "", false),
        (r#""same""#, "", false),
        (r#""same""#, r#""a""#, true),
        (r#""other""#, "", true),
    ] {
        let body = format!(r#"{{"data": {{"next": {next}, "photos": [{items}]}}}}"#);
        let page = read_from(&by_marker, Some("same"), &body, &[]).unwrap().unwrap();
        assert_eq!(next_of(&page).is_some(), leads_on, "{body}");
    }
    let bad = r#"{"data": {"next": true, "photos": []}}"#;
    assert!(read_from(&by_marker, None, bad, &[]).unwrap().is_err());
}

#[test]
fn what_leads_nowhere_is_noticed() {
    let body = r#"{"data": {"photos": ["a"]}}"#;
    for (way, has_no_lead) in [
        (NextPage::Marker, true),
        (NextPage::Url, true),
        (NextPage::Link, true),
        (NextPage::Page, false),
        (NextPage::None, false),
    ] {
        assert_eq!(read(&options(way), body).unwrap().has_no_lead, has_no_lead, "{way:?}");
    }
    let ended = r#"{"data": {"next": null, "photos": [{"url": "a"}]}}"#;
    let page = read(&options(NextPage::Url), ended).unwrap();
    assert_eq!((page.has_no_lead, page.is_without_urls), (false, true));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let none = options(NextPage::None);
    for (options, message) in [
        (JsonPageOptions { next_page: None, ..none.clone() }, "marker or url"),
        (JsonPageOptions { next_field: None, ..options(NextPage::Marker) }, "--next-field"),
        (JsonPageOptions { next_field: Some("x".into()), ..none.clone() }, "--next-field works only"),
        (JsonPageOptions { items_field: ".".into(), ..options(NextPage::Url) }, "needs --items-field"),
        (JsonPageOptions { items_field: "a..b".into(), ..none.clone() }, "--items-field a..b"),
        (JsonPageOptions { items_field: String::new(), ..none.clone() }, "--items-field"),
        (JsonPageOptions { url_field: Some(".".into()), ..none.clone() }, "--url-field must"),
        (JsonPageOptions { size_field: Some("a.".into()), ..none.clone() }, "--size-field a."),
        (JsonPageOptions { modified_field: Some(".".into()), ..none.clone() }, "--modified-field"),
        (JsonPageOptions { name_field: Some(vec!["a"; 33].join(".")), ..none }, "up to 32"),
    ] {
        let error = pages(SOURCE, &options).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(message), "{error}");
    }
    let error = pages("http://a.test/?page=x", &options(NextPage::Page)).unwrap_err();
    assert!(error.exit_code() == 2 && error.to_string().contains("page of SOURCE"), "{error}");
}
