//! Pages as servers write them, and malformed pages.

use super::*;
use crate::source::PageCursor;
use crate::target::source_metadata::{ListedTime, SizedName, TimeResolution};

const NGINX: &[u8] =
    b"<html>\r\n<head><title>Index of /top/</title></head>\r\n<body>\r\n<h1>Index of /top/</h1><hr><pre>\
    <a href=\"../\">../</a>\r\n\
    <a href=\"d%20x/\">d x/</a>                        01-Jan-2026 10:00                   -\r\n\
    <a href=\"a%26b.txt\">a&amp;b.txt</a>              01-Jan-2026 10:00                1234\r\n\
    <a href=\"a%20very%20long%20name\">a very long nam..&gt;</a> 01-Jan-2026 10:00       1K\r\n\
    </pre><hr></body>\r\n</html>\r\n";
const APACHE: &[u8] = b"<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 3.2 Final//EN\">\n<html>\n <head>\n  <title>Index of /top</title>\n \
    </head>\n <body>\n<h1>Index of /top</h1>\n  <table>\n   <tr><th valign=\"top\"><img src=\"/icons/blank.gif\" alt=\"[ICO]\"></th>\
    <th><a href=\"?C=N;O=D\">Name</a></th><th><a href=\"?C=M;O=A\">Last modified</a></th><th><a href=\"?C=S;O=A\">Size</a></th>\
    <th><a href=\"?C=D;O=A\">Description</a></th></tr>\n<tr><td valign=\"top\"><img src=\"/icons/back.gif\" alt=\"[PARENTDIR]\"></td>\
    <td><a href=\"/\">Parent Directory</a></td><td>&nbsp;</td><td align=\"right\">  - </td><td>&nbsp;</td></tr>\n\
    <tr><td valign=\"top\"><a href=\"a%26b.txt\"><img src=\"/icons/text.gif\" alt=\"[TXT]\"></a></td><td><a href=\"a%26b.txt\">a&amp;b.txt</a>\
    </td><td align=\"right\">2026-01-01 10:00  </td><td align=\"right\">1.2K</td><td>&nbsp;</td></tr>\n\
    <tr><td valign=\"top\"><img src=\"/icons/folder.gif\" alt=\"[DIR]\"></td><td><a href=\"d%20x/\">d x/</a></td>\
    <td align=\"right\">2026-01-01 10:00  </td><td align=\"right\">  - </td><td>&nbsp;</td></tr>\n\
    <tr><td><img src=\"/icons/text.gif\"></td><td><a href=\"./http:\">http:</a></td></tr>\n</table>\n\
    <address>Apache/2.4.66 (Debian) Server at 127.0.0.1 Port 80</address>\n</body></html>\n";
const LIGHTTPD: &[u8] = b"<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"UTF-8\">\n<title>Index of /top/</title>\n<style>\na:link { color: blue; }\n\
    </style>\n</head>\n<body>\n<h2>Index of /top/</h2>\n<div class=\"list\">\n<table summary=\"Directory Listing\">\n<tbody>\n\
    <tr class=\"d\"><td class=\"n\"><a href=\"../\">..</a>/</td><td class=\"m\">&nbsp;</td><td class=\"s\">- &nbsp;</td></tr>\n\
    <tr class=\"d\"><td class=\"n\"><a href=\"d%20x/\">d x</a>/</td><td class=\"m\">2026-Jan-01 10:00:00</td><td class=\"s\">- &nbsp;</td></tr>\n\
    <tr><td class=\"n\"><a href=\"a%26b.txt\">a&amp;b.txt</a></td><td class=\"m\">2026-Jan-01 10:00:00</td><td class=\"s\">1.2K</td></tr>\n\
    </tbody></table></div><div class=\"foot\">lighttpd/1.4.79</div>\n<script>\nvar a = '<a href=\"no/\">';\n</script>\n</body>\n</html>\n";
const PYTHON: &[u8] = b"<!DOCTYPE HTML>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Directory listing for /top/</title>\n</head>\n\
    <body>\n<h1>Directory listing for /top/</h1>\n<hr>\n<ul>\n<li><a href=\"a%26b.txt\">a&amp;b.txt</a></li>\n<li><a href=\"d%20x/\">d x/</a></li>\n\
    <li><a href=\"to%20d/\">to d@</a></li>\n</ul>\n<hr>\n</body>\n</html>\n";

fn read_in(body: &[u8], folder: &PendingFolder) -> Result<Vec<ListedPage>, FolderReadError> {
    let mut pages = Vec::new();
    read_folder(body, &OriginUrl::parse("http://a/top").unwrap(), folder, |page| {
        pages.push(page);
        Ok(())
    })?;
    Ok(pages)
}

/// Files with their sizes, the folders, and the number of skipped entries.
type Entries = (Vec<(String, Option<u64>)>, Vec<String>, u64);

fn read(body: &[u8]) -> Result<Entries, FolderReadError> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut entries = Entries::default();
    for page in read_in(body, &PendingFolder::default())? {
        entries.0.extend(page.names.iter().map(SizedName::read).map(|file| (text(file.name), file.size)));
        let PageCursor::Folder { found, .. } = &page.cursor else { panic!() };
        entries.1.extend(found.iter().map(text));
        entries.2 += page.skipped.total();
    }
    Ok(entries)
}

fn refusal(body: &[u8]) -> String {
    match read(body) {
        Err(FolderReadError::Page(bad)) => bad.to_string(),
        Err(FolderReadError::Cut(why)) => why.to_owned(),
        Err(FolderReadError::NotIndex(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn index(links: &str) -> Vec<u8> {
    format!("<html><title>Index of /</title><body>{links}</body></html>").into_bytes()
}

fn files(names: &[&str]) -> Vec<(String, Option<u64>)> {
    names.iter().map(|name| ((*name).to_owned(), None)).collect()
}

#[test]
fn nginx_tells_names_and_exact_sizes() {
    let (files, folders, skipped) = read(NGINX).unwrap();

    assert_eq!(files, [("a&b.txt".to_owned(), Some(1234)), ("a very long name".to_owned(), None)]);
    assert_eq!((folders, skipped), (vec!["d x".to_owned()], 0));
}

#[test]
fn others_tell_names() {
    assert_eq!(read(APACHE).unwrap(), (files(&["a&b.txt", "http:"]), vec!["d x".to_owned()], 0));
    assert_eq!(read(LIGHTTPD).unwrap(), (files(&["a&b.txt"]), vec!["d x".to_owned()], 0));
    let folders = vec!["d x".to_owned(), "to d".to_owned()];
    assert_eq!(read(PYTHON).unwrap(), (files(&["a&b.txt"]), folders, 0));
}

#[test]
fn what_leads_elsewhere_is_counted_once() {
    let page = index(
        "<a href='/'>up</a><a href='?C=N;O=D'>sort</a><a>none</a><a href>none</a>\
         <a href='http://b/top/x'>1</a><a href='../x'>2</a><a href='a%2fb'>3</a><a href='javascript:x()'>4</a>\
         <a href='javascript:x()'>4</a><a href=ok>ok</a><a href=ok/>ok</a><a href='&#111;k'>ok</a>\
         <a HREF=&quot;x&quot; href=no>y</a><!-- <a href=no>--><textarea><a href=no></textarea>",
    );

    assert_eq!(read(&page).unwrap(), (files(&["ok", "\"x\""]), vec!["ok".to_owned()], 4));
}

#[test]
fn bytes_stay_as_they_are() {
    let page = index("<a href='\u{e9}'>x</a>").into_iter().filter(|byte| *byte != 0xc3).collect::<Vec<_>>();

    let pages = read_in(&page, &PendingFolder::default()).unwrap();

    assert_eq!(pages[0].names.iter().collect::<Vec<_>>(), [b"\0\0\xa9"]);
}

#[test]
fn a_page_that_is_no_index_is_told() {
    for (page, reason) in [
        (
            &b"<html><title>Welcome &amp; more</title><a href=x>x</a></html>"[..],
            "it is called \"Welcome & more\"",
        ),
        (b"<html><title>Welcome</title></html>", "it is called \"Welcome\""),
        (b"<a href=x>x</a><title>Index of /</title></html>", "it has no heading"),
        (b"", "it has no heading"),
        (b"[]", "it has no heading"),
        (b"\xff\xfe<\0t\0i\0t\0l\0e\0>\0", "it has no heading"),
        (b"<title>Index of /</title><base href=//b/><a href=x>x</a></html>", "<base>"),
    ] {
        assert!(refusal(page).contains(reason), "{}", refusal(page));
    }
    assert!(is_index(NGINX).is_ok());
    assert!(is_index(&PYTHON[..200]).is_ok());
    assert_eq!(is_index(b"<h1>Shop</h1>").unwrap_err(), "it is called \"Shop\"");
}

#[test]
fn a_page_without_its_end_is_cut() {
    for (page, server) in [(NGINX, "nginx"), (APACHE, "Apache"), (LIGHTTPD, "lighttpd"), (PYTHON, "Python")] {
        let end = memchr::memmem::rfind(page, b"</html>").unwrap();
        for cut in [end, end + 3, end / 2] {
            assert!(matches!(read(&page[..cut]), Err(FolderReadError::Cut(_))), "{server} {cut}");
        }
    }
}

#[test]
fn sizes_are_those_that_are_exact() {
    for (behind, size) in [
        ("   01-Jan-2026 10:00   1234\n", Some(1234)),
        ("01-Jan-2026 10:00 0", Some(0)),
        ("01-Jan-2026 10:00 18446744073709551616", None),
        ("01-Jan-2026 10:00 -", None),
        ("01-Jan-2026 10:00 12K", None),
        ("01-Jan-2026 10:00 1.2", None),
        ("2026-01-01 10:00 1234", None),
        ("1234", None),
        ("01-Jan-2026 10:00 1234 more", None),
        ("", None),
    ] {
        assert_eq!(facts(behind.as_bytes()).size, size, "{behind}");
    }
}

#[test]
fn files_have_the_times_that_their_page_shows() {
    for (page, server, resolution) in [
        (NGINX, "nginx", Some(TimeResolution::Minute)),
        (APACHE, "Apache", Some(TimeResolution::Minute)),
        (LIGHTTPD, "lighttpd", Some(TimeResolution::Second)),
        (PYTHON, "Python", None),
    ] {
        let pages = read_in(page, &PendingFolder::default()).unwrap();
        let first = SizedName::read(pages[0].names.get(0));
        let told =
            resolution.map(|resolution| ListedTime { seconds: 1_767_261_600, has_zone: false, resolution });
        assert_eq!((first.name, first.modified), (&b"a&b.txt"[..], told), "{server}");
    }
}

#[test]
fn what_is_told_stands_behind_the_link_or_in_its_row() {
    let is_timed = |links: &str| {
        let pages = read_in(&index(links), &PendingFolder::default()).unwrap();
        SizedName::read(pages[0].names.get(0)).modified.is_some()
    };
    let told = "01-Jan-2026 10:00 1";

    // If a file has two consecutive links, the link with more information counts.
    assert!(is_timed(&format!("<a href=x>i</a><a href=x>x</a> {told}")));
    assert!(is_timed("<table><tr><td><a href=x>x</a></td><td>01-Jan-2026</td><td>10:00</td></tr>"));
    assert!(is_timed(&format!("<a href=x>x</a> {told} a description")));
    assert!(!is_timed(&format!("<a href=x>i</a><a href=y>y</a><a href=x>x</a> {told}")));
    assert!(!is_timed(&format!("<a href=x>x</a><p>{told}</p>")));
    assert!(!is_timed(&format!("<table><tr><td><a href=x>x</a></td></tr><tr><td>{told}</td></tr></table>")));
    assert!(!is_timed(&format!("<a href=x>x</a> {told} {}", "x".repeat(300))));
}

#[test]
fn a_folder_is_cut_and_read_again_from_where_it_was() {
    let links = (0..2500)
        .map(|number| format!("<a href=f{number}>f</a><a href=f{number}>f</a>"))
        .collect::<Vec<_>>()
        .concat();
    let body = index(&links);
    let pages = read_in(&body, &PendingFolder::default()).unwrap();
    assert_eq!(pages.iter().map(|page| page.names.len()).collect::<Vec<_>>(), [1000, 1000, 500]);
    let PageCursor::Folder { read: done, digest, .. } = pages[0].cursor else { panic!() };

    let rest = read_in(&body, &PendingFolder { read: done, digest, ..PendingFolder::default() }).unwrap();
    let changed = read_in(&body, &PendingFolder { read: done, digest: 1, ..PendingFolder::default() });

    assert_eq!(rest, pages[1..]);
    assert!(matches!(changed, Err(FolderReadError::Page(bad)) if bad.to_string().contains("changed")));
}

#[test]
fn a_loop_of_links_ends() {
    let path = ["x"; crate::limits::FOLDER_DEPTH_MAX].join("/").into_bytes();

    let pages =
        read_in(&index("<a href=x/>x</a>"), &PendingFolder { path, ..PendingFolder::default() }).unwrap();

    let PageCursor::Folder { found, refused, .. } = &pages[0].cursor else { panic!() };
    assert_eq!((found.len(), refused.len()), (0, 1));
}

#[test]
fn what_is_too_large_is_refused() {
    let many =
        (0..=INDEX_ENTRIES_MAX).map(|number| format!("<a href={number}>")).collect::<Vec<_>>().concat();
    assert!(refusal(&index(&many)).contains("more than 1000000 links"));
    let long = "x".repeat(INDEX_HREF_BYTES_MAX + 1);
    assert_eq!(read(&index(&format!("<a href={long}>"))).unwrap(), (vec![], vec![], 1));
    // The tokenizer collects such input until it knows the kind of the token.
    let digits = "0".repeat(1 << 20);
    assert!(refusal(&index(&format!("&#{digits};"))).contains("tag of more than"));
    let word = "a".repeat(1 << 20);
    assert!(refusal(&index(&format!("<textarea></{word}"))).contains("tag of more than"));
    assert!(is_index(format!("&#{digits};<title>Index of</title>").as_bytes()).is_err());
    assert!(refusal(&index(&format!("<{word}>"))).contains("tag of more than"));
    // The tokenizer skips such input as it arrives.
    let page = index(&format!(
        "<b {word}={word}><!--{word}--><!doctype {word}>{word}<a href=x>{word}</a>{word}<script><!--<{word}></script>"
    ));
    assert_eq!(read(&page).unwrap().0, files(&["x"]));
}

#[test]
fn a_page_without_an_end_is_left() {
    let head = b"<title>Index of /</title>".as_slice();
    let endless = head.chain(std::io::repeat(b' '));
    let origin = OriginUrl::parse("http://a/top").unwrap();

    let ended = read_folder(endless, &origin, &PendingFolder::default(), |_| Ok(()));

    assert!(
        matches!(ended, Err(FolderReadError::Page(bad)) if bad.to_string().contains("more than 512 MiB"))
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_can_be_read(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        let _ = (read(&body), is_index(&body));
        let page = [b"<title>Index of</title><a href='".as_slice(), &body, b"'></a></html>"].concat();
        if let Ok((files, folders, _)) = read(&page) {
            for name in files.iter().map(|(name, _)| name).chain(&folders) {
                proptest::prop_assert!(!name.contains('/') && !name.is_empty() && name != "..");
            }
        }
    }
}
