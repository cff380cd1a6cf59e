//! Tests that other readers understand the lines, and that the decoder restores the objects.

use proptest::prelude::*;

use super::*;

fn line(object: &Object<'_>) -> String {
    let mut out = Vec::new();
    let list = ExtraColumns::of_list(["rank".to_owned(), "\"\n".to_owned()]).unwrap();
    let columns = if object.facts.kept.is_some() { list } else { list.without_extra() };
    JsonlEncoder::new(&columns).encode(object, &mut out);
    String::from_utf8(out).unwrap()
}

fn stored(name: &[u8], body: &[u8]) -> StoredObject {
    StoredObject { name: name.to_vec(), body: body.to_vec(), ..StoredObject::default() }
}

#[test]
fn a_line_has_what_is_known() {
    let object = StoredObject {
        status: 200,
        fetched_at: 1_795_208_880_123_456,
        content_type: Some(b"text/plain".to_vec()),
        etag: Some(b"\"x\"".to_vec()),
        last_modified: Some(1_795_208_880),
        ..stored(b"a/b", b"hi\n")
    };
    let crc = crc32c::crc32c(b"hi\n");
    assert_eq!(
        line(&object.as_object(12)),
        format!(
            r#"{{"sequence":12,"name":"a/b","status":200,"content_type":"text/plain","etag":"\"x\"","last_modified":"2026-11-20T21:08:00Z","fetched_at":"2026-11-20T21:08:00.123456Z","crc32c":{crc},"body":"hi\n"}}"#
        ) + "\n"
    );
    assert_eq!(
        line(&stored(b"", b"").as_object(0)),
        "{\"sequence\":0,\"name\":\"\",\"crc32c\":0,\"body\":\"\"}\n"
    );
}

#[test]
fn kept_columns_are_fields_of_one_object() {
    let mut kept = Vec::new();
    write_extra([Some(&b"1\xff\n"[..]), None].into_iter(), &mut kept);
    let url = Some(b"https://a/".to_vec());
    let object = StoredObject { url: url.clone(), kept: Some(kept), ..stored(b"a", b"") };

    let line = line(&object.as_object(1));

    let between = r#""name":"a","url":"https://a/","columns":{"rank":"1\ufffd\n","\"\n":null},"crc32c":0"#;
    assert!(line.contains(&between.replace("\\ufffd", "\u{fffd}")), "{line}");
    let found = JsonlDecoder.decode(line.as_bytes()).unwrap();
    let values: Vec<_> = extra_values(found.kept.as_deref().unwrap()).collect();
    assert_eq!((found.url, values), (url, vec![Some("1\u{fffd}\n".as_bytes()), None]));
}

#[test]
fn where_all_targets_have_rows_each_says_what_became_of_it() {
    let encoder = JsonlEncoder::new(&ExtraColumns::default().with_outcomes().unwrap());
    let object = StoredObject { attempts: 2, status: 200, ..stored(b"a", b"") };
    let mut line = Vec::new();
    encoder.clone().encode(&object.as_object(1), &mut line);
    let target = UnfetchedTarget {
        sequence: 2,
        name: b"b\xff",
        outcome: "failed",
        kind: Some("url"),
        detail: Some("no \"host\""),
        status: 0,
        attempts: 0,
        url: None,
        kept: None,
        replies: None,
    };
    let mut other = Vec::new();
    encoder.encode_unfetched(&target, &mut other);

    let text = String::from_utf8(line.clone()).unwrap();
    assert_eq!(
        text,
        r#"{"sequence":1,"name":"a","status":200,"outcome":"fetched","kind":null,"detail":null,"attempts":2,"crc32c":0,"body":""}"#
            .to_owned()
            + "\n"
    );
    assert_eq!(JsonlDecoder.decode(&line), Ok(object));
    assert_eq!(
        String::from_utf8(other.clone()).unwrap(),
        r#"{"sequence":2,"name":"b","name_hex":"62ff","status":null,"outcome":"failed","kind":"url","detail":"no \"host\"","attempts":0,"crc32c":null,"body":null}"#
            .replace("\"b\"", "\"b\u{fffd}\"")
            + "\n"
    );
    assert!(JsonlDecoder.decode(&other).is_err());
    let with_body = text.replace("fetched\"", "failed\"");
    assert!(JsonlDecoder.decode(with_body.as_bytes()).is_err());
}

#[test]
fn lines_of_failures_have_the_same_fields() {
    let encoder = JsonlEncoder::new(&ExtraColumns::of_list(vec!["rank".into()]).unwrap());
    let mut kept = Vec::new();
    write_extra([Some(&b"1"[..])].into_iter(), &mut kept);
    let absent = UnfetchedTarget {
        sequence: 2,
        name: b"b\n",
        outcome: "absent",
        kind: None,
        detail: None,
        status: 404,
        attempts: 1,
        url: Some(b"http://a/"),
        kept: Some(&kept),
        replies: None,
    };
    let folder = UnfetchedTarget {
        name: b"c/",
        outcome: "failed",
        kind: Some("listing"),
        detail: Some("no page"),
        status: 0,
        url: None,
        kept: None,
        ..absent
    };
    let mut lines = Vec::new();
    encoder.encode_failure(Some(absent.sequence), &absent, &mut lines);
    encoder.encode_failure(None, &folder, &mut lines);

    assert_eq!(
        String::from_utf8(lines).unwrap().lines().collect::<Vec<_>>(),
        [
            r#"{"sequence":2,"name":"b\n","url":"http://a/","status":404,"columns":{"rank":"1"},"outcome":"absent","kind":null,"detail":null,"attempts":1}"#,
            r#"{"sequence":null,"name":"c/","url":null,"status":null,"columns":{"rank":null},"outcome":"failed","kind":"listing","detail":"no page","attempts":1}"#,
        ]
    );
}

#[test]
fn bytes_that_are_no_text_are_told_another_way() {
    let text = line(&stored(b"a\xff", b"\xff\0").as_object(1));
    assert!(text.contains("\"name\":\"a\u{fffd}\",\"name_hex\":\"61ff\","), "{text}");
    assert!(text.ends_with("\"body_base64\":\"/wA=\"}\n"), "{text}");
}

#[test]
fn nothing_in_a_line_ends_it() {
    let all: String =
        (0..=0xff_u8).map(char::from).chain("\u{2027}\u{2028}\u{2029}\u{202a}\u{1f600}".chars()).collect();
    let text = line(&stored(all.as_bytes(), all.as_bytes()).as_object(1));
    let inside = text.strip_suffix('\n').unwrap();
    assert!(!inside.contains(|c: char| c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c)), "{inside}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["name"], all);
    assert_eq!(value["body"], all);
}

#[test]
fn other_lines_are_damage() {
    let good = "{\"sequence\":0,\"name\":\"a\",\"crc32c\":0,\"body\":\"\"}\n";
    assert_eq!(JsonlDecoder.decode(good.as_bytes()), Ok(stored(b"a", b"")));
    for (old, new) in [
        ("}\n", "}"),
        ("}\n", "}\n\n"),
        (",", ",\n"),
        ("\"body\":\"\"", "\"body\":\"\",\"body_base64\":\"\""),
        ("\"body\":\"\"", "\"body_base64\":\"A\""),
        (",\"body\":\"\"", ""),
        ("\"crc32c\":0", "\"crc32c\":1"),
        ("\"crc32c\":0", "\"crc32c\":4294967296"),
        ("\"name\":\"a\"", "\"name\":\"a\",\"name\":\"b\""),
        ("\"name\":\"a\"", "\"name\":\"a\",\"name_hex\":\"62\""),
        ("\"name\":\"a\"", "\"name\":\"a\",\"name_hex\":\"6\""),
        ("\"name\":\"a\"", "\"name_hex\":\"61\""),
        ("\"name\":\"a\"", "\"name\":\"a\",\"etag_hex\":\"61\""),
        ("\"name\":\"a\"", "\"name\":\"a\",\"columns\":{\"rank\":[1]}"),
        ("\"name\":\"a\"", "\"name\":\"a\",\"url_hex\":\"61\""),
        ("\"name\":\"a\"", "\"name\":\"a\",\"fetched_at\":\"yesterday\""),
        ("\"name\":\"a\"", "\"name\":\"a\",\"last_modified\":\"2026-02-30T00:00:00Z\""),
    ] {
        let bad = good.replacen(old, new, 1);
        assert!(JsonlDecoder.decode(bad.as_bytes()).is_err(), "{bad}");
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "[ -~]{0,200}".prop_map(String::into_bytes),
        any::<String>().prop_map(String::into_bytes),
        "[a\"\\\\\n\u{7f}-\u{90}\u{2020}-\u{2030}]{0,100}".prop_map(String::into_bytes),
    ]
}

prop_compose! {
    fn objects()(name in bytes(), body in bytes(), status: u16, content_type in prop::option::of(bytes()),
                 content_encoding in prop::option::of(bytes()), etag in prop::option::of(bytes()),
                 last_modified in prop::option::of(0..=dates::SECONDS_MAX),
                 fetched_at in 0..=dates::SECONDS_MAX * 1_000_000, url in prop::option::of(bytes()),
                 kept in prop::option::of(prop::array::uniform2(prop::option::of(any::<String>())))) -> StoredObject {
        let kept = kept.map(|values| {
            let mut kept = Vec::new();
            write_extra(values.iter().map(|value| value.as_deref().map(str::as_bytes)), &mut kept);
            kept
        });
        let facts = StoredObject { content_type, content_encoding, etag, last_modified, ..StoredObject::default() };
        StoredObject { name, body, status, fetched_at, url, kept, ..facts }
    }
}

proptest! {
    #[test]
    fn any_object_comes_back(object in objects(), sequence: u64) {
        let line = line(&object.as_object(sequence));
        prop_assert_eq!(JsonlDecoder.decode(line.as_bytes()), Ok(object));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(value["sequence"].as_u64(), Some(sequence));
    }

    #[test]
    fn a_line_that_changed_is_no_panic_and_no_other_body(
        object in objects(), position: prop::sample::Index, byte: u8,
    ) {
        let mut line = line(&object.as_object(1)).into_bytes();
        prop_assert!(JsonlDecoder.decode(&line[..line.len() - 1]).is_err());
        let position = position.index(line.len());
        line[position] = byte;
        if let Ok(stored) = JsonlDecoder.decode(&line) {
            prop_assert_eq!(stored.body, object.body);
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(JsonlDecoder.decode(&bytes).is_err());
    }
}
