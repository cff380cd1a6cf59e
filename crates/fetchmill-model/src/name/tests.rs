//! Conversion of names to parts of a request, to paths below a destination and to members of archives, and back.

use proptest::prelude::*;

use super::*;

fn path_of(name: impl AsRef<[u8]>) -> Result<String, NameError> {
    let mut path = b"left over".to_vec();
    to_path(name.as_ref(), &mut path).map(|()| String::from_utf8(path).expect("a path is UTF-8"))
}

fn encoded(name: impl AsRef<[u8]>) -> String {
    let mut out = Vec::new();
    encode(name.as_ref(), &mut out);
    String::from_utf8(out).expect("an encoded name is ASCII")
}

#[test]
fn a_plain_name_is_its_own_path() {
    for name in [
        "a",
        "a/b/c.bin",
        "...",
        "..a",
        "a..",
        ".hidden",
        "-rf",
        "~",
        " ",
        "a b",
        "C:\\x",
        "..\\x",
        "CON",
        "a.",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{ff0e}\u{ff0e}",
        "\u{1f600}/\u{202e}",
        "x/.fetchmill",
        ".fetchmills",
        ".Fetchmill",
        "fetchmill",
    ] {
        assert_eq!(path_of(name).as_deref(), Ok(name));
        assert_eq!(from_path(name.as_bytes()).as_deref(), Some(name.as_bytes()));
    }
}

#[test]
fn what_is_no_plain_text_is_escaped() {
    let cases: &[(&[u8], &str)] = &[
        (b"100%", "100%25"),
        (b"%2e%2e/x", "%252e%252e/x"),
        (b"%2E%2E%2Fx", "%252E%252E%252Fx"),
        (b"a\nb\tc", "a%0Ab%09c"),
        (b"\x1b]0;owned\x07", "%1B]0;owned%07"),
        (b"\x7f", "%7F"),
        (b"\xc2\x80/\xc2\x9f/\xc2\xa0", "%C2%80/%C2%9F/\u{a0}"),
        (b"\xff", "%FF"),
        (b"a\xc3/\xa9", "a%C3/%A9"),
        (b"\xc0\xae\xc0\xae", "%C0%AE%C0%AE"),
        (b"\xc0\xaf", "%C0%AF"),
        (b"\xed\xa0\x80", "%ED%A0%80"),
        (b"\xf4\x90\x80\x80", "%F4%90%80%80"),
        (b"\xe2\x82\xac\xe2\x82", "\u{20ac}%E2%82"),
        (b".fetchmill", "%2Efetchmill"),
        (b".fetchmill/journal", "%2Efetchmill/journal"),
        (b"%2Efetchmill", "%252Efetchmill"),
    ];
    for (name, path) in cases {
        assert_eq!(path_of(name).as_deref(), Ok(*path), "{}", name.escape_ascii());
        assert_eq!(from_path(path.as_bytes()).as_deref(), Some(*name), "{path}");
    }
}

#[test]
fn what_cannot_be_a_path_is_refused() {
    let deep = |segments: usize| vec!["a"; segments].join("/");
    let cases: &[(Vec<u8>, NameError)] = &[
        (b"".to_vec(), NameError::Empty),
        (b"/".to_vec(), NameError::Absolute),
        (b"/a".to_vec(), NameError::Absolute),
        (b"//a".to_vec(), NameError::Absolute),
        (b"a//".to_vec(), NameError::EmptySegment),
        ((deep(NAME_SEGMENTS_MAX) + "/").into_bytes(), NameError::TooDeep),
        (b"a//b".to_vec(), NameError::EmptySegment),
        (b".".to_vec(), NameError::DotSegment),
        (b"..".to_vec(), NameError::DotSegment),
        (b"a/.".to_vec(), NameError::DotSegment),
        (b"a/./b".to_vec(), NameError::DotSegment),
        (b"a\0".to_vec(), NameError::Nul),
        (b"\xff\0".to_vec(), NameError::Nul),
        (deep(NAME_SEGMENTS_MAX + 1).into_bytes(), NameError::TooDeep),
        (vec![b'a'; 256], NameError::SegmentTooLong),
        (vec![b'a'; 1 << 20], NameError::SegmentTooLong),
        (vec![b'%'; 86], NameError::SegmentTooLong),
        ("\u{e9}".repeat(128).into_bytes(), NameError::SegmentTooLong),
        (vec!["a".repeat(255); 17].join("/").into_bytes(), NameError::TooLong),
    ];
    for (name, error) in cases {
        assert_eq!(path_of(name), Err(*error), "{}", for_display(name));
    }
}

#[test]
fn names_up_to_the_bounds_are_kept() {
    let longest = vec!["a".repeat(255); 16].join("/");
    assert_eq!(longest.len(), NAME_PATH_BYTES_MAX);
    for name in [
        vec!["a"; NAME_SEGMENTS_MAX].join("/"),
        "a".repeat(255),
        "%".repeat(85),
        "\u{e9}".repeat(127),
        longest,
    ] {
        assert!(path_of(&name).is_ok(), "{}", for_display(name.as_bytes()));
    }
}

/// Returns more than 200 paths that would lead out of a folder.
#[expect(clippy::too_many_lines, reason = "a list")]
fn traversals() -> Vec<Vec<u8>> {
    let dots: &[&[u8]] = &[
        b"..",
        b".",
        b"...",
        b"....",
        b"%2e%2e",
        b"%2E%2E",
        b".%2e",
        b"%2e.",
        b"%252e%252e",
        b"%c0%ae%c0%ae",
        b"\xc0\xae\xc0\xae",
        b"\xe0\x80\xae\xe0\x80\xae",
        b"\xef\xbc\x8e\xef\xbc\x8e",
        b"..\0",
        b".. ",
        b" ..",
        b"..\t",
        b"..;",
        b"..%00",
        b"%u002e%u002e",
    ];
    let slashes: &[&[u8]] = &[
        b"/",
        b"//",
        b"\\",
        b"/\\",
        b"%2f",
        b"%2F",
        b"%5c",
        b"%252f",
        b"\xc0\xaf",
        b"%c0%af",
        b"\xef\xbc\x8f",
        b"/./",
    ];
    let mut names = Vec::new();
    for dot in dots {
        for slash in slashes {
            names.push([*dot, slash, dot, slash, b"etc/passwd"].concat());
            names.push([b"a", *slash, dot, slash, dot, slash, b"x"].concat());
            names.push([*slash, dot, slash, b"x"].concat());
            names.push([b"a", *slash, dot].concat());
        }
    }
    for name in [
        "/etc/passwd",
        "//etc/passwd",
        "/../x",
        "....//....//x",
        "..././x",
        "C:\\x",
        "C:/x",
        "\\\\srv\\x",
        "//srv/x",
        "\\\\?\\C:\\x",
        "file:///etc/passwd",
        "~/x",
        "~root/x",
        "$HOME/x",
        "a/b/../../../x",
        ".fetchmill/../../x",
    ] {
        names.push(name.into());
    }
    names
}

#[test]
fn a_folders_name_is_a_file_in_it() {
    for (name, path) in [
        ("a/", "a/%index"),
        ("a/b?c=d/", "a/b?c=d/%index"),
        ("%index", "%25index"),
        ("a/%index", "a/%25index"),
        ("a/%index/", "a/%25index/%index"),
        (".fetchmill/", "%2Efetchmill/%index"),
    ] {
        assert_eq!(path_of(name).as_deref(), Ok(path));
        assert_eq!(from_path(path.as_bytes()).as_deref(), Some(name.as_bytes()));
    }
    for path in ["%index", "/%index", "a/%index/", "a/x%index", "%index/a", "a//%index", "a/%index/%index"] {
        assert_eq!(from_path(path.as_bytes()), None, "{path}");
    }
    assert!(is_folder(b"a/") && !is_folder(b"a/b"));
}

#[test]
fn no_spelling_leads_out() {
    let names = traversals();
    assert!(names.len() > 200);
    for name in names {
        assert_beneath(&name);
    }
    for name in ["../x", "a/../x", "a/..", "/../x", "....//../x", "a/b/../../../x", ".fetchmill/../../x"] {
        assert!(path_of(name).is_err(), "{name}");
    }
}

fn assert_beneath(name: &[u8]) {
    let Ok(path) = path_of(name) else {
        return;
    };
    assert!(!path.is_empty() && path.len() <= NAME_PATH_BYTES_MAX);
    assert!(!path.contains(char::is_control), "{path:?}");
    let segments: Vec<_> = path.split('/').collect();
    assert!(segments.len() <= NAME_SEGMENTS_MAX);
    for segment in &segments {
        assert!(!["", ".", ".."].contains(segment), "{path:?}");
        assert!(segment.len() <= NAME_SEGMENT_BYTES_MAX, "{path:?}");
    }
    assert_ne!(segments[0], ".fetchmill");
    assert_eq!(from_path(path.as_bytes()).as_deref(), Some(name), "{path:?}");
}

#[test]
fn only_paths_of_ours_have_a_name() {
    for path in [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "%",
        "%2",
        "a%2",
        "%zz",
        "%61",
        "%2e",
        "%2E%2E",
        "%0a",
        "%2F",
        "a%2Fb",
        "%00",
        "\n",
        "\u{85}",
        ".fetchmill",
        ".fetchmill/x",
        "%C3%A9",
        "x/%2Efetchmill",
    ] {
        assert_eq!(from_path(path.as_bytes()), None, "{path:?}");
    }
    assert_eq!(from_path(b"\xff"), None);
}

#[test]
fn a_name_is_sent_as_it_is() {
    let cases: &[(&[u8], &str)] = &[
        (b"a/b-c_d.e~f", "a/b-c_d.e~f"),
        (b"a b?c#d%2f+&=", "a%20b%3Fc%23d%252f%2B%26%3D"),
        (b"caf\xc3\xa9\xff\0\r\n", "caf%C3%A9%FF%00%0D%0A"),
        (b"", ""),
        (b"//a//", "//a//"),
        (b".", "%2E"),
        (b"..", "%2E%2E"),
        (b"../..", "%2E%2E/%2E%2E"),
        (b"a/./b/../c/", "a/%2E/b/%2E%2E/c/"),
        (b"/.", "/%2E"),
        (b"a/..b/.../.c/d.", "a/..b/.../.c/d."),
        (b"a b/..", "a%20b/%2E%2E"),
    ];
    for (name, expected) in cases {
        assert_eq!(encoded(name), *expected);
    }
}

fn member_of(name: impl AsRef<[u8]>) -> String {
    let mut out = Vec::new();
    to_member(name.as_ref(), &mut out);
    String::from_utf8(out).expect("a member's name is UTF-8")
}

#[test]
fn a_member_can_have_any_name() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "%empty"),
        (b"%empty", "%25empty"),
        (b"a/b c.bin", "a/b c.bin"),
        (b"caf\xc3\xa9/\xff", "caf\u{e9}/%FF"),
        (b"a\0\n%", "a%00%0A%25"),
        (b".", "%2E"),
        (b"..", "%2E%2E"),
        (b"../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd"),
        (b"/etc", "%2Fetc"),
        (b"/../x", "%2F%2E%2E/x"),
        (b"/", "%2F"),
        (b"//", "%2F%2F"),
        (b"//a", "%2F%2Fa"),
        (b"a/", "a%2F"),
        (b"a//", "a/%2F"),
        (b"a//b", "a/%2Fb"),
        (b"a///b/", "a/%2F%2Fb%2F"),
        (b"a/./", "a/%2E%2F"),
        (b".fetchmill/x", "%2Efetchmill/x"),
        (b"x/.fetchmill", "x/.fetchmill"),
    ];
    for (name, member) in cases {
        assert_eq!(member_of(name), *member, "{}", name.escape_ascii());
        assert_eq!(from_member(member.as_bytes()).as_deref(), Some(*name), "{member}");
    }
    for member in ["", "/a", "a/", "a//b", "..", "a/.", "%2e", "%61", "%", "a%2Fb", ".fetchmill", "\n"] {
        assert_eq!(from_member(member.as_bytes()), None, "{member:?}");
    }
}

#[test]
fn a_member_is_called_as_its_path_where_there_is_one() {
    for name in traversals() {
        if let Ok(path) = path_of(&name)
            && !is_folder(&name)
        {
            assert_eq!(member_of(&name), path);
        }
    }
}

#[test]
fn only_digits_are_hexadecimal() {
    assert_eq!(to_hex(b"\x00\xfa"), "00fa");
    assert_eq!(from_hex("00fA"), Some(vec![0, 0xfa]));
    for text in ["0", "+f", "0x", " 1", "\u{e9}"] {
        assert_eq!(from_hex(text), None, "{text}");
    }
}

#[test]
fn a_message_shows_no_control_characters() {
    assert_eq!(for_display("caf\u{e9} 100%".as_bytes()), "caf\u{e9} 100%");
    assert_eq!(for_display(b"\x1b]0;owned\x07\n\xff\xc2\x9b"), "\\u{1b}]0;owned\\u{7}\\u{a}\\xff\\u{9b}");
    assert_eq!(for_display("a\u{202e}b\u{feff}".as_bytes()), "a\\u{202e}b\\u{feff}");
    assert_eq!(for_display(&[b'a'; 200]), "a".repeat(200));
    assert_eq!(for_display(&[b'a'; 201]), "a".repeat(200) + "...");
}

/// Generates bytes, many of which have a special meaning in names.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"./%\\a2E\0\n \xc2\x85".to_vec())];
    prop::collection::vec(byte, 0..40)
}

/// Decodes percent-encoding as a server does.
fn decoded(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hex digits"));
        bytes.extend(&part.as_bytes()[2..]);
    }
    bytes
}

proptest! {
    #[test]
    fn any_name_stays_beneath_and_comes_back(name in any_name()) {
        assert_beneath(&name);
    }

    #[test]
    fn any_path_with_a_name_is_its_path(path in any_name()) {
        if let Some(name) = from_path(&path) {
            prop_assert_eq!(path_of(&name).map(String::into_bytes), Ok(path));
        }
    }

    #[test]
    fn any_name_reaches_the_server(name in any_name()) {
        let text = encoded(&name);
        prop_assert!(text.bytes().all(|byte| SENT_AS_IS[byte as usize] || byte == b'%'));
        prop_assert!(!text.split('/').any(|segment| [".", ".."].contains(&segment)));
        prop_assert_eq!(decode(text.as_bytes()), Some(name.clone()));
        prop_assert_eq!(decoded(&text), name);
    }

    #[test]
    fn any_member_lies_beneath_and_its_name_comes_back(name in any_name()) {
        let member = member_of(&name);
        prop_assert!(!member.contains(char::is_control));
        for segment in member.split('/') {
            prop_assert!(!["", ".", ".."].contains(&segment), "{}", member);
        }
        prop_assert!(member != ".fetchmill" && !member.starts_with(".fetchmill/"));
        prop_assert_eq!(from_member(member.as_bytes()), Some(name));
    }

    #[test]
    fn any_text_with_a_name_is_its_text(text in any_name()) {
        if let Some(name) = from_member(&text) {
            prop_assert_eq!(member_of(&name).into_bytes(), text.clone());
        }
        if let Some(name) = decode(&text) {
            prop_assert_eq!(encoded(&name).into_bytes(), text);
        }
    }

    #[test]
    fn any_name_can_be_shown(name in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = for_display(&name);
        prop_assert!(!text.contains(char::is_control));
        prop_assert!(text.len() <= DISPLAY_BYTES_MAX + 10 + 3);
    }
}
