//! Tests that the server serves the files in a folder, and nothing outside the folder.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use fetchmill_server::{Options, Server};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{Client, server};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, body) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::write(path, body).expect("a file");
    }
    folder
}

fn serve(folder: &Path, page_size: usize) -> Server {
    server(&json!({"content": {"folder": folder}, "page_size": page_size}))
}

/// Lists all names. Also returns the markers of the pages.
fn list(client: &mut Client) -> (Vec<String>, Vec<String>) {
    let (mut names, mut markers) = (Vec::new(), Vec::new());
    let mut target = "/list".to_owned();
    loop {
        let page = client.get(&target).json();
        names.extend(
            page["FileNames"]
                .as_array()
                .expect("names")
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned)),
        );
        match page["NextMarker"].as_str() {
            Some(marker) => {
                target = format!("/list?next-marker={marker}");
                markers.push(marker.to_owned());
            }
            None => return (names, markers),
        }
    }
}

#[test]
fn files_are_listed_in_the_order_of_their_paths() {
    let folder = folder(&[
        ("b", ""),
        ("a/z", ""),
        ("a/b/c", ""),
        ("a-", ""),
        (".hidden", ""),
        ("a.", ""),
        ("ü \"", ""),
    ]);
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    let expected = ["a-", "a.", "a/b/c", "a/z", "b", "ü \""];

    for page_size in 1..9 {
        let server = serve(folder.path(), page_size);
        let (names, markers) = list(&mut Client::new(server.address()));

        assert_eq!(names, expected, "page size {page_size}");
        assert_eq!(markers.len(), (expected.len() - 1) / page_size);
    }
}

#[test]
fn a_marker_outlives_the_server_and_its_file() {
    let folder = folder(&[("a/1", ""), ("a/2", ""), ("b/1", ""), ("b/2", ""), ("c", "")]);
    let first = serve(folder.path(), 2);
    let (_, markers) = list(&mut Client::new(first.address()));
    first.stop();
    fs::remove_dir_all(folder.path().join("a")).expect("removed");

    let second = serve(folder.path(), 100);
    let page = Client::new(second.address()).get(&format!("/list?next-marker={}", markers[0])).json();

    assert_eq!(page["FileNames"], json!(["b/1", "b/2", "c"]));
}

#[test]
fn a_page_can_be_asked_for_again() {
    let files: Vec<String> = (0..100).map(|index| format!("{index:03}")).collect();
    let folder = folder(&files.iter().map(|name| (name.as_str(), "")).collect::<Vec<_>>());
    let server = serve(folder.path(), 3);
    let mut client = Client::new(server.address());
    let (_, markers) = list(&mut client);

    for (position, marker) in markers.iter().enumerate() {
        let page = client.get(&format!("/list?next-marker={marker}")).json();
        assert_eq!(page["FileNames"][0], format!("{:03}", (position + 1) * 3));
    }
}

#[test]
fn bodies_are_the_files() {
    let large = "0123456789".repeat(100_000);
    let folder = folder(&[("empty", ""), ("a b/ü?&", "small"), ("large", &large), ("100%", "escaped")]);
    let server = serve(folder.path(), 10);
    let mut client = Client::new(server.address());

    for (target, expected) in [
        ("/get/empty", ""),
        ("/get/a%20b/%C3%BC%3F%26", "small"),
        ("/get/a%20b%2F%C3%BC%3F%26", "small"),
        ("/get/large", large.as_str()),
        ("/get/100%25", "escaped"),
    ] {
        let reply = client.get(target);

        assert_eq!(reply.status, 200, "{target}");
        assert_eq!(reply.field("Content-Type"), Some("application/octet-stream"));
        assert!(reply.text() == expected, "{target}");
    }
    assert!(client.is_usable());
}

#[test]
fn nothing_outside_the_folder_comes_out() {
    let folder = folder(&[("in/a", "a"), ("in/sub/b", "b"), ("secret", "secret")]);
    let inside = folder.path().join("in");
    symlink("../secret", inside.join("link")).expect("a link");
    symlink("a", inside.join("inner-link")).expect("a link");
    symlink("..", inside.join("link-folder")).expect("a link");
    symlink(folder.path().join("secret"), inside.join("absolute")).expect("a link");
    rustix::fs::mknodat(rustix::fs::CWD, inside.join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("a FIFO");
    let server = serve(&inside, 10);
    let mut client = Client::new(server.address());

    for name in [
        "../secret",
        "%2e%2e/secret",
        "%2E%2E%2Fsecret",
        "..%2fsecret",
        "sub/../../secret",
        "sub/../a",
        "./a",
        "sub//b",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "link",
        "inner-link",
        "link-folder/secret",
        "link-folder/in/a",
        "absolute",
        "fifo",
        "sub",
        "sub/",
        "a/",
        "a%00",
        "%252e%252e/secret",
        ".",
        "..",
        "",
    ] {
        let reply = client.get(&format!("/get/{name}"));

        assert_eq!(reply.status, 404, "{name}");
        assert_eq!(reply.text(), "404 Not Found\n", "{name}");
    }
    assert_eq!(list(&mut client).0, ["a", "sub/b"]);
    for marker in ["2e2e2f736563726574", "2f657463", "", "zz"] {
        assert_eq!(client.get(&format!("/list?next-marker={marker}")).status, 400, "{marker}");
    }
}

#[test]
fn names_that_are_not_utf8_are_counted() {
    let folder = folder(&[("a", ""), ("b/c", "")]);
    fs::write(folder.path().join(OsStr::from_bytes(b"\xff")), "").expect("a file");
    fs::write(folder.path().join("b").join(OsStr::from_bytes(b"x\xc3")), "").expect("a file");
    let server = serve(folder.path(), 1);
    let mut client = Client::new(server.address());

    for _ in 0..2 {
        assert_eq!(list(&mut client).0, ["a", "b/c"]);
    }

    assert_eq!(server.stats().unlisted, 2, "each counts once, however often it was listed");
    assert_eq!(client.get("/get/%FF").status, 404);
}

#[test]
fn a_missing_folder_is_an_error() {
    let options: Options =
        serde_json::from_value(json!({"content": {"folder": "/no/such/folder"}})).expect("well-formed");

    let error = Server::start(&options).expect_err("refused");

    assert_eq!(error.to_string(), "cannot serve /no/such/folder: No such file or directory (os error 2)");
}

#[test]
fn the_total_is_told_where_it_is_known() {
    let flat = folder(&[("a", ""), ("b", ""), ("c", "")]);
    let deep = folder(&[("a", ""), ("b/c", "")]);
    for (folder, total) in [(flat, json!(3)), (deep, json!(null))] {
        let server = serve(folder.path(), 2);
        let mut client = Client::new(server.address());

        let first = client.get("/list").json();
        assert_eq!(first["Total"], total);
        let marker = first["NextMarker"].as_str();
        if let Some(marker) = marker {
            assert_eq!(client.get(&format!("/list?next-marker={marker}")).json()["Total"], total);
        }
    }
}
