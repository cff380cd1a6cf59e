//! Requests as they are sent.

use crate::http1::{RequestTemplate, add_cookies};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn template(fields: &[(&str, &str)]) -> RequestTemplate {
    RequestTemplate::new("example.org:8080", "/files/", "?v=1", fields).expect("valid parts")
}

fn request(template: &RequestTemplate, name: &[u8]) -> String {
    let mut out = Vec::new();
    template.write(name, &mut out);
    String::from_utf8(out).expect("requests are ASCII here")
}

#[test]
fn a_request_is_complete() {
    assert_eq!(
        request(&template(&[("Authorization", "Bearer x")]), b"a b/c"),
        format!(
            "GET /files/a%20b/c?v=1 HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: fetchmill/{VERSION}\r\n\
             Accept-Encoding: identity\r\nAuthorization: Bearer x\r\n\r\n"
        )
    );
}

#[test]
fn requests_are_appended() {
    let template = template(&[]);
    let mut out = Vec::new();
    template.write(b"a", &mut out);
    template.write_path("/list?after=b", &mut out);

    let text = String::from_utf8(out).expect("ASCII");
    assert!(text.starts_with("GET /files/a?v=1 HTTP/1.1\r\n"));
    assert!(text.contains("\r\n\r\nGET /list?after=b HTTP/1.1\r\nHost: example.org:8080\r\n"));
    assert!(text.ends_with("\r\n\r\n"));
}

#[test]
fn cookies_go_behind_those_of_the_users_own_field() {
    let added = |fields: &[(&str, &str)]| {
        let template = template(fields);
        let mut out = Vec::new();
        template.write(b"a", &mut out);
        let start = out.len();
        template.write(b"b", &mut out);
        out.extend_from_slice(b"Cookie: of a body");
        add_cookies(&mut out, start, "s=1; t=2");
        let text = String::from_utf8(out).expect("ASCII");
        assert!(!text[..start].contains("s=1") && text.ends_with("\r\n\r\nCookie: of a body"), "{text}");
        text[start..].to_owned()
    };
    assert!(added(&[("X", "y")]).contains("\r\nX: y\r\nCookie: s=1; t=2\r\n\r\n"));
    assert!(added(&[("cookie", "u=0"), ("X", "y")]).contains("\r\ncookie: u=0; s=1; t=2\r\nX: y\r\n\r\n"));
}

#[test]
fn the_defaults_can_be_replaced() {
    let text = request(&template(&[("user-agent", "me"), ("ACCEPT-ENCODING", "gzip")]), b"a");

    assert!(text.ends_with("\r\nuser-agent: me\r\nACCEPT-ENCODING: gzip\r\n\r\n"));
    assert!(!text.contains("fetchmill"));
}

#[test]
fn no_name_leaves_the_path() {
    let template = template(&[]);
    for byte in 0..=255_u8 {
        let text = request(&template, &[b'a', byte, b'z']);
        assert_eq!(text.matches("\r\n").count(), 5, "{byte}");
        let path = text.split(' ').nth(1).expect("a path");
        assert!(path.starts_with("/files/a") && path.ends_with("z?v=1"), "{byte}");
        let name = &path["/files/".len()..path.len() - "?v=1".len()];
        assert!(!name.contains(['?', '#']), "{byte}");
    }
}

#[test]
fn no_path_leaves_its_line() {
    let mut out = Vec::new();
    template(&[]).write_path("x y\r\nEvil: 1\0#\u{e9}", &mut out);

    assert!(out.starts_with(b"GET /x%20y%0D%0AEvil:%201%00%23%C3%A9 HTTP/1.1\r\n"));
}

#[track_caller]
fn assert_refused(host: &str, prefix: &str, suffix: &str, fields: &[(&str, &str)]) {
    let error = RequestTemplate::new(host, prefix, suffix, fields).expect_err("refused");
    assert_eq!(error.exit_code(), 2, "{error}");
    assert!(!error.to_string().contains(char::is_control), "{error:?}");
}

#[test]
fn parts_that_would_change_the_request_are_refused() {
    for host in ["", "h\r\nX: y", "h x", "u@h", "h/x", "h?x", "h#x", "h\\x", "h\u{e9}", "h\0"] {
        assert_refused(host, "/", "", &[]);
    }
    for prefix in ["", "x/", "http://other/", "/ HTTP/1.1\r\nX: y", "/\t", "/#", "/\u{e9}", "/\x7f"] {
        assert_refused("h", prefix, "", &[]);
    }
    for suffix in [" ", "\n", "\r", "#x", "\u{e9}"] {
        assert_refused("h", "/", suffix, &[]);
    }
}

#[test]
fn fields_that_would_change_the_request_are_refused() {
    for name in ["", "X:", "X Y", "X\r\nY", "X\u{e9}"] {
        assert_refused("h", "/", "", &[(name, "y")]);
    }
    for value in ["y\r\nZ: z", "y\n", "y\r", "\0", "\x7f", "\x1b"] {
        assert_refused("h", "/", "", &[("X", value)]);
    }
    for name in
        ["Host", "content-length", "Transfer-Encoding", "CONNECTION", "Range", "TE", "Expect", "Upgrade"]
    {
        assert_refused("h", "/", "", &[(name, "y")]);
    }
}

#[test]
fn secrets_are_not_shown() {
    let secret = "s3cr3t\r";
    let error = RequestTemplate::new("h", "/", "", &[("Authorization", secret)]).expect_err("a CR");

    assert!(!error.to_string().contains("s3cr3t"));
    assert!(!format!("{:?}", template(&[("Authorization", "s3cr3t")])).contains("s3cr3t"));
}

#[test]
fn the_target_is_that_of_the_request() {
    let mut target = Vec::new();
    template(&[]).write_target(b"a b/..", &mut target);

    assert_eq!(target, b"/files/a%20b/%2E%2E?v=1");
    let request = request(&template(&[]), b"a b/..");
    assert_eq!(request.split(' ').nth(1).map(str::as_bytes), Some(&target[..]));
}

#[test]
fn secrets_are_left_out_of_what_is_stored() {
    let secrets = [
        ("Authorization", "Bearer canary"),
        ("Accept", "authorization: kept"),
        ("cookie", "canary"),
        ("PROXY-AUTHORIZATION", "Basic canary"),
        ("x-amz-security-token", "canary"),
        ("X-Whatever", "canary"),
    ];

    let stored = request(&template(&secrets).without_secrets(), b"authorization:x");

    assert_eq!(
        stored,
        format!(
            "GET /files/authorization%3Ax?v=1 HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: \
             fetchmill/{VERSION}\r\nAccept-Encoding: identity\r\nAccept: authorization: kept\r\n\r\n"
        )
    );
}

#[test]
fn a_proxy_is_asked_in_absolute_form() {
    let template =
        RequestTemplate::for_proxy("a.test:81", "/x/", "?v=1", &[("X", "y")], Some("Basic canary"))
            .expect("valid");
    let mut path = Vec::new();
    template.write_path("/list", &mut path);
    let mut target = Vec::new();
    template.write_target(b"b c", &mut target);

    let fields = format!(
        "Host: a.test:81\r\nUser-Agent: fetchmill/{VERSION}\r\nAccept-Encoding: identity\r\nX: y\r\n\
         Proxy-Authorization: Basic canary\r\n\r\n"
    );
    assert_eq!(request(&template, b"b c"), format!("GET http://a.test:81/x/b%20c?v=1 HTTP/1.1\r\n{fields}"));
    assert_eq!(String::from_utf8(path).unwrap(), format!("GET http://a.test:81/list HTTP/1.1\r\n{fields}"));
    assert_eq!(target, b"/x/b%20c?v=1");
    assert!(!request(&template.without_secrets(), b"b").contains("canary"));
    assert!(!format!("{template:?}").contains("canary"));
}
