//! Tests of records, which the `tar` crate reads, and of decoding.

use std::io::Read as _;

use proptest::prelude::*;

use super::*;
use fetchmill_model::name;
use fetchmill_model::object::Facts;
use fetchmill_model::target::extra_columns::{ExtraColumns, write_extra};

fn object<'a>(name: &'a [u8], body: &'a [u8]) -> Object<'a> {
    Object { sequence: 7, name, body, crc32c: 0, facts: Facts::default() }
}

fn record(object: &Object<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    TarEncoder::new().encode(object, &mut out);
    out
}

/// Returns the path, body, time and kind of each member, as another reader sees them.
fn foreign(shard: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, u64, tar::EntryType)> {
    let mut archive = tar::Archive::new(shard);
    let mut seen = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut body = Vec::new();
        entry.read_to_end(&mut body).unwrap();
        let path = entry.path_bytes().into_owned();
        seen.push((path, body, entry.header().mtime().unwrap(), entry.header().entry_type()));
    }
    seen
}

#[test]
fn a_small_object_takes_two_blocks() {
    assert_eq!(record(&object(b"a/b", &[1; 100])).len(), 1024);
    assert_eq!(record(&object(b"a/b", b"")).len(), 512);
    assert_eq!(record(&object(b"a/b", &[1; 512])).len(), 1024);
    assert_eq!(record(&object(b"a/b", &[1; 513])).len(), 1536);
}

#[test]
fn a_shard_is_a_tar_archive() {
    let mut encoder = TarEncoder::new();
    let mut shard = Vec::new();
    let long = "d/".repeat(200) + "x";
    // A body that looks like a member is not read as one.
    let nested = record(&object(b"inner", b"forged"));
    let names: [&[u8]; 6] = [b"a", b"../x", b"", b"caf\xc3\xa9", b"\xff\n", long.as_bytes()];
    encoder.start(&mut shard);
    for name in names {
        encoder.encode(&object(name, &nested), &mut shard);
    }
    encoder.finish(&mut shard);

    let seen = foreign(&shard);

    let paths: Vec<_> = seen.iter().map(|(path, ..)| String::from_utf8(path.clone()).unwrap()).collect();
    assert_eq!(paths, ["a", "%2E%2E/x", "%empty", "caf\u{e9}", "%FF%0A", &long]);
    assert!(seen.iter().all(|(_, body, _, kind)| *body == nested && *kind == tar::EntryType::Regular));
    assert_eq!(shard[shard.len() - 1024..], [0; 1024]);
}

#[test]
fn names_use_a_pax_header_only_where_they_must() {
    let fits = |name: &str| record(&object(name.as_bytes(), b""))[KIND] == FILE;
    assert!(fits(&"a".repeat(100)));
    assert!(!fits(&"a".repeat(101)));
    assert!(fits(&format!("{}/{}", "p".repeat(155), "a".repeat(100))));
    assert!(fits(&format!("{}/{}", "p".repeat(155), "a")));
    assert!(!fits(&format!("{}/{}", "p".repeat(156), "a".repeat(99))));
    assert!(!fits(&format!("{}/{}", "p".repeat(10), "a".repeat(101))));
    assert!(fits("a/".repeat(127).trim_end_matches('/')));
    assert!(!fits("\u{e9}"));
}

#[test]
fn times_are_kept() {
    let last_modified = Facts { last_modified: Some(5), fetched_at: 9_000_000, ..Facts::default() };
    let fetched = Facts { fetched_at: 9_000_000, ..Facts::default() };
    let late = Facts { last_modified: Some(OCTAL_MAX + 1), ..Facts::default() };
    for (facts, time) in
        [(last_modified, Some(5)), (fetched, Some(9)), (late, Some(OCTAL_MAX + 1)), (Facts::default(), None)]
    {
        let record = record(&Object { facts, ..object(b"a", b"") });
        assert_eq!(TarDecoder.decode(&record).unwrap().last_modified, time);
    }
}

#[test]
fn a_size_that_ustar_cannot_say_is_in_the_pax_header_only() {
    let mut headers = Vec::new();
    let size = OCTAL_MAX + 2;
    let stand_in = StandIn { sequence: 7, extension: "" };
    MemberHeaders::default().write(b"a", stand_in, size, 0, &mut headers);
    let mut archive = tar::Archive::new(&headers[..]);
    assert_eq!(archive.entries().unwrap().next().unwrap().unwrap().size(), size);

    headers.clear();
    MemberHeaders::default().write(b"a", stand_in, OCTAL_MAX, 0, &mut headers);
    assert_eq!(headers.len(), 512);
    assert_eq!(tar::Header::from_byte_slice(&headers).entry_size().unwrap(), OCTAL_MAX);
}

fn with_sidecars(texts: &[&str]) -> TarEncoder {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    TarEncoder::new().with_sidecars(
        Sidecars::parse(&owned(texts), &ExtraColumns::of_list(owned(&["caption", "label"])).unwrap(), false)
            .unwrap(),
    )
}

#[test]
fn sidecars_stand_behind_their_object_and_give_its_columns_back() {
    let mut kept = Vec::new();
    write_extra([Some(&b"a \"caption\"\n\xc3\xa9"[..]), None].into_iter(), &mut kept);
    let facts =
        Facts { url: Some(b"http://a/"), kept: Some(&kept), last_modified: Some(5), ..Facts::default() };
    let long = format!("{}/7.jpg", "d".repeat(300));
    for name in [&b"a/7.jpg"[..], b"7", b"7.json", b"caf\xc3\xa9.jpg", long.as_bytes(), b"", b"../x.y.z"] {
        let mut shard = Vec::new();
        let mut encoder = with_sidecars(&["json", "txt=caption", "cls=label"]);
        encoder.encode(&Object { facts, ..object(name, &[7; 600]) }, &mut shard);
        let record = shard.clone();
        encoder.finish(&mut shard);

        let [object, json, text, label] = &foreign(&shard)[..] else { panic!("four members") };
        assert_eq!(
            (&object.1[..], &text.1[..], &label.1[..]),
            (&[7; 600][..], &kept[1..kept.len() - 1], &b""[..])
        );
        let read: serde_json::Value = serde_json::from_slice(&json.1).unwrap();
        let caption = "a \"caption\"\n\u{e9}";
        assert_eq!(read, serde_json::json!({"url": "http://a/", "caption": caption, "label": null}));
        let stored = TarDecoder.decode(&record).unwrap();
        assert_eq!((&stored.name[..], &stored.body[..]), (name, &[7; 600][..]));
        assert_eq!((stored.url.as_deref(), stored.kept.as_deref()), (facts.url, facts.kept));
    }
}

#[test]
fn another_member_behind_an_object_is_damage() {
    let mut encoder = with_sidecars(&["txt=caption"]);
    let mut whole = Vec::new();
    encoder.encode(&object(b"7.jpg", b"x"), &mut whole);
    for name in [&b"8.txt"[..], b"7", b"7.jpg.txt", b"7.", b"7.TXT", b"x/7.txt", b"7.json"] {
        assert!(
            TarDecoder
                .decode(&[record(&object(b"7.jpg", b"x")), record(&object(name, b"{"))].concat())
                .is_err()
        );
    }
    assert!(TarDecoder.decode(&whole).is_ok());
}

#[test]
fn a_pax_record_counts_its_own_digits() {
    for length in 0..1200 {
        let mut out = Vec::new();
        pax_record(b"path", &vec![b'='; length], &mut out);
        let digits: usize = std::str::from_utf8(&out).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(digits, out.len());
        assert_eq!(PaxHeader::of(&out).ok().unwrap().path.unwrap().len(), length);
    }
}

#[test]
fn what_another_writer_made_is_damage() {
    let mut header = tar::Header::new_ustar();
    header.set_path("a").unwrap();
    header.set_size(0);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_cksum();
    assert!(TarDecoder.decode(header.as_bytes()).is_err());

    let pax = |records: &[u8]| {
        let mut out = Vec::new();
        push_header(PAX, b"", b"x", records.len() as u64, 0, &mut out);
        out.extend_from_slice(records);
        pad(records.len() as u64, &mut out);
        push_header(FILE, b"", b"a", 0, 0, &mut out);
        TarDecoder.decode(&out)
    };
    assert_eq!(pax(b"9 path=b\n").unwrap().name, b"b");
    assert_eq!(
        pax(b"12 path=b\n=\n").map(|object| object.name),
        Err(Damage("the name is not a valid member name"))
    );
    assert_eq!(pax(b"").unwrap().name, b"a");
    for records in [
        &b"8 size=1\n"[..],
        b"11 size=01\n",
        b"8 path=b\n",
        b"10 path=b\n9 path=b\n",
        b"9 size=1\n",
        b"18446744073709551615 path=b\n",
        b"0 path=b\n",
        b"2 path=b\n",
        b"9 path=b\n9 path=b\n",
        b"12 path=../\n",
        b"20 linkpath=/etc/pw\n",
        b"path=b\n",
    ] {
        assert!(pax(records).is_err(), "{}", records.escape_ascii());
    }
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        "[a-z./%\\n=\u{e9}]{0,300}".prop_map(String::into_bytes),
        "([a-z]{1,60}/){0,6}[a-z]{1,120}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn any_object_comes_back(name in names(), body in prop::collection::vec(any::<u8>(), 0..1100),
                             last_modified in prop::option::of(1_u64..1 << 40)) {
        let facts = Facts { last_modified, ..Facts::default() };
        let record = record(&Object { facts, ..object(&name, &body) });
        prop_assert_eq!(record.len() % BLOCK_BYTES, 0);

        let stored = TarDecoder.decode(&record).unwrap();
        prop_assert_eq!(&stored, &StoredObject { name: name.clone(), body: body.clone(), last_modified, ..StoredObject::default() });

        let mut member = Vec::new();
        name::to_member(&name, &mut member);
        let seen = foreign(&record);
        prop_assert_eq!(seen.len(), 1);
        prop_assert_eq!(&seen[0].0, &member);
        prop_assert_eq!(&seen[0].1, &body);
    }

    #[test]
    fn a_record_that_changed_is_no_panic_and_no_other_length(
        name in names(), body in prop::collection::vec(any::<u8>(), 0..600),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = record(&object(&name, &body));
        prop_assert!(TarDecoder.decode(&whole[..cut.index(whole.len())]).is_err());
        prop_assert!(TarDecoder.decode(&[&whole[..], &[0]].concat()).is_err());
        let mut changed = whole.clone();
        for (position, byte) in changes {
            let position = position.index(changed.len());
            changed[position] = byte;
        }
        if let Ok(stored) = TarDecoder.decode(&changed) {
            prop_assert_eq!(stored.body.len(), body.len());
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(TarDecoder.decode(&bytes).is_err());
    }
}
