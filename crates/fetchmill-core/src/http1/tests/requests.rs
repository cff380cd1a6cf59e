//! What is sent.

use crate::http1::RequestTemplate;

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
fn the_defaults_can_be_replaced() {
    let text = request(
        &template(&[("user-agent", "me"), ("ACCEPT-ENCODING", "gzip")]),
        b"a",
    );

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

#[test]
fn parts_that_would_change_the_request_are_refused() {
    let ok: (&str, &str, &str, &[(&str, &str)]) = ("h", "/", "", &[]);
    assert!(RequestTemplate::new(ok.0, ok.1, ok.2, ok.3).is_ok());
    let refused: &[(&str, &str, &str, &[(&str, &str)])] = &[
        ("", "/", "", &[]),
        ("h\r\nX: y", "/", "", &[]),
        ("h x", "/", "", &[]),
        ("u@h", "/", "", &[]),
        ("h/x", "/", "", &[]),
        ("h?x", "/", "", &[]),
        ("h\\x", "/", "", &[]),
        ("h\u{e9}", "/", "", &[]),
        ("h", "", "", &[]),
        ("h", "x/", "", &[]),
        ("h", "http://other/", "", &[]),
        ("h", "/ HTTP/1.1\r\nX: y", "", &[]),
        ("h", "/\t", "", &[]),
        ("h", "/#", "", &[]),
        ("h", "/\u{e9}", "", &[]),
        ("h", "/", " ", &[]),
        ("h", "/", "\n", &[]),
        ("h", "/", "", &[("", "y")]),
        ("h", "/", "", &[("X:", "y")]),
        ("h", "/", "", &[("X Y", "y")]),
        ("h", "/", "", &[("X\r\nY", "y")]),
        ("h", "/", "", &[("X", "y\r\nZ: z")]),
        ("h", "/", "", &[("X", "y\n")]),
        ("h", "/", "", &[("X", "\0")]),
        ("h", "/", "", &[("X", "\x7f")]),
        ("h", "/", "", &[("Host", "other")]),
        ("h", "/", "", &[("content-length", "5")]),
        ("h", "/", "", &[("Transfer-Encoding", "chunked")]),
        ("h", "/", "", &[("Connection", "close")]),
        ("h", "/", "", &[("Range", "bytes=0-1")]),
    ];
    for (host, prefix, suffix, fields) in refused {
        let result = RequestTemplate::new(host, prefix, suffix, fields);
        assert!(
            result.is_err_and(|error| error.exit_code() == 2 && !error.to_string().contains(['\r', '\n', '\0'])),
            "{host:?} {prefix:?} {suffix:?} {fields:?}"
        );
    }
}

#[test]
fn secrets_are_not_shown() {
    let secret = "s3cr3t\r";
    let error = RequestTemplate::new("h", "/", "", &[("Authorization", secret)]).expect_err("a CR");

    assert!(!error.to_string().contains("s3cr3t"));
    assert!(!format!("{:?}", template(&[("Authorization", "s3cr3t")])).contains("s3cr3t"));
}
