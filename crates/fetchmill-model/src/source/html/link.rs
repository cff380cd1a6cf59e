//! The meaning of a link on an index page. The link can lead to an entry of the folder, to another view of the folder,
//! or elsewhere.
//!
//! # Rules
//! - A link is resolved as in a browser, but as raw bytes. The server's character encoding is unknown, and a request
//!   with the same bytes gets the same file.
//! - Only a link directly into the folder is an entry. Other links are not followed.
//! - A name is the percent-decoded segment of the path. It never contains a slash.

use crate::source::{OriginUrl, percent};

/// The meaning of a link. See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IndexLink {
    /// A file in the folder.
    File(Vec<u8>),
    /// A subfolder of the folder.
    Folder(Vec<u8>),
    /// The folder itself, for example in another sort order, or a parent folder. Every index contains such links.
    Own,
    /// A link to another origin.
    OtherOrigin,
    /// A link to anything else.
    Outside,
}

/// The links below the folder that count as entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkReach {
    /// Only links directly into the folder.
    Direct,
    /// All links below the folder. The names of deeper entries contain slashes.
    Below,
}

/// The folder whose page is being read.
#[derive(Debug)]
pub(super) struct IndexPlace {
    scheme: String,
    authority: String,
    /// Decoded segments of the folder's path. No segment is empty.
    segments: Vec<Vec<u8>>,
    /// Folder against which relative links are resolved.
    base: Vec<Vec<u8>>,
    reach: LinkReach,
}

impl IndexPlace {
    /// Creates the folder. `folder` is the path relative to the source, without leading or trailing slashes.
    pub(super) fn new(origin: &OriginUrl, folder: &[u8]) -> Self {
        // If the path cannot be decoded, only relative links are entries.
        let base = percent::decode(origin.path().as_bytes()).unwrap_or_else(|| origin.path().into());
        let segments = base.split(|byte| *byte == b'/').chain(folder.split(|byte| *byte == b'/'));
        let segments: Vec<_> = segments.filter(|segment| !segment.is_empty()).map(<[u8]>::to_vec).collect();
        IndexPlace {
            scheme: origin.scheme().to_owned(),
            authority: origin.authority().to_ascii_lowercase(),
            base: segments.clone(),
            segments,
            reach: LinkReach::Direct,
        }
    }

    /// Treats all links below the folder as entries. `url` is the URL of the folder's page. Returns `None` if the URL
    /// is not below the folder.
    pub(super) fn all_below(mut self, url: &[u8]) -> Option<Self> {
        self.reach = LinkReach::Below;
        let is_at_origin = self.set_base(url).is_some();
        (is_at_origin && self.base.starts_with(&self.segments)).then_some(self)
    }

    /// Resolves relative links against `href`, as `<base href>` requires. Returns `None` if `href` leads to another
    /// origin or is not a path.
    pub(super) fn set_base(&mut self, href: &[u8]) -> Option<()> {
        let href = url_of(href);
        let (path, _) = split_query(&href);
        let (mut segments, is_folder) = self.segments_of(self.local_path(path).ok()?)?;
        if !is_folder {
            segments.pop();
        }
        self.base = segments;
        Some(())
    }

    /// Returns the meaning of a link on the page. `href` contains no entities.
    pub(super) fn read(&self, href: &[u8]) -> IndexLink {
        let href = url_of(href);
        let (path, query) = split_query(&href);
        let meant = self.local_path(path).map_or_else(|elsewhere| elsewhere, |path| self.resolve(path));
        match meant {
            // A link with a query leads to a view of an entry, not to the entry itself.
            IndexLink::File(_) | IndexLink::Folder(_) if query.is_some() => IndexLink::Outside,
            meant => meant,
        }
    }

    /// Removes the scheme and the host from a link if they are the folder's own. Otherwise returns the meaning of the
    /// link.
    fn local_path<'a>(&self, link: &'a [u8]) -> Result<&'a [u8], IndexLink> {
        let scheme = scheme_of(link);
        let after_scheme = scheme.map_or(link, |scheme| &link[scheme.len() + 1..]);
        let rest = match (scheme, after_scheme.strip_prefix(b"//")) {
            (None, None) => return Ok(link),
            (Some(_), None) => return Err(IndexLink::Outside),
            (Some(scheme), Some(_)) if !scheme.eq_ignore_ascii_case(self.scheme.as_bytes()) => {
                return Err(IndexLink::OtherOrigin);
            }
            (_, Some(rest)) => rest,
        };
        let (authority, path) = rest.split_at(memchr::memchr(b'/', rest).unwrap_or(rest.len()));
        let is_own = authority.eq_ignore_ascii_case(self.authority.as_bytes());
        if is_own { Ok(if path.is_empty() { b"/" } else { path }) } else { Err(IndexLink::OtherOrigin) }
    }

    fn resolve(&self, path: &[u8]) -> IndexLink {
        match self.segments_of(path) {
            Some((segments, is_folder)) => self.relate(&segments, is_folder),
            None => IndexLink::Outside,
        }
    }

    /// Resolves a path. Returns its segments and whether it is a folder, or `None` if a segment cannot be a name.
    fn segments_of(&self, path: &[u8]) -> Option<(Vec<Vec<u8>>, bool)> {
        let mut segments: Vec<Vec<u8>> = if path.starts_with(b"/") { Vec::new() } else { self.base.clone() };
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let mut is_folder = true;
        let count = 1 + memchr::memchr_iter(b'/', path).count();
        for (position, segment) in path.split(|byte| *byte == b'/').enumerate() {
            let is_last = position + 1 == count;
            let segment = percent::decode(segment)?;
            is_folder = true;
            match segment.as_slice() {
                b"" if is_last => {}
                b"." => {}
                b".." => drop(segments.pop()),
                name if name.is_empty() || name.contains(&b'/') || name.contains(&0) => return None,
                _ => {
                    is_folder = !is_last;
                    segments.push(segment);
                }
            }
        }
        Some((segments, is_folder))
    }

    fn relate(&self, segments: &[Vec<u8>], is_folder: bool) -> IndexLink {
        if is_folder && self.segments.starts_with(segments) {
            return IndexLink::Own;
        }
        let below = segments.strip_prefix(self.segments.as_slice()).unwrap_or_default();
        match below.len() {
            0 => IndexLink::Outside,
            2.. if self.reach == LinkReach::Direct => IndexLink::Outside,
            _ if is_folder => IndexLink::Folder(below.join(&b'/')),
            _ => IndexLink::File(below.join(&b'/')),
        }
    }
}

/// Reads an `href` as a browser does, without the fragment.
fn url_of(href: &[u8]) -> Vec<u8> {
    // All URL parsers remove these characters.
    let href: Vec<u8> = href.iter().copied().filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r')).collect();
    let href = href.trim_ascii();
    href[..memchr::memchr(b'#', href).unwrap_or(href.len())].to_vec()
}

/// Splits a link into the part before its query and the query.
fn split_query(href: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', href) {
        Some(at) => (&href[..at], Some(&href[at..])),
        None => (href, None),
    }
}

/// Returns the text before the first colon if it is a scheme.
fn scheme_of(link: &[u8]) -> Option<&[u8]> {
    let scheme = &link[..memchr::memchr(b':', link)?];
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(folder: &str, href: &[u8]) -> IndexLink {
        IndexPlace::new(&OriginUrl::parse("http://A.test:81/top%20x").unwrap(), folder.as_bytes()).read(href)
    }

    fn file(name: &[u8]) -> IndexLink {
        IndexLink::File(name.to_vec())
    }

    fn folder(name: &[u8]) -> IndexLink {
        IndexLink::Folder(name.to_vec())
    }

    #[test]
    fn entries_lie_directly_in_the_folder() {
        for (href, meant) in [
            (&b"x"[..], file(b"x")),
            (b"x/", folder(b"x")),
            (b" ./a:b\n", file(b"a:b")),
            (b"a%20b%23%3f%25%ff", file(b"a b#?%\xff")),
            (b"caf\xe9", file(b"caf\xe9")),
            (b"%252e%252e", file(b"%2e%2e")),
            (b"back\\slash", file(b"back\\slash")),
            (b"%5c..%5cx", file(b"\\..\\x")),
            (b"x#part", file(b"x")),
            (b"/top%20x/in/y", file(b"y")),
            (b"/top x/in/y/", folder(b"y")),
            (b"http://a.test:81/top%20x/in/y", file(b"y")),
            (b"//A.TEST:81/top%20x/in/y/", folder(b"y")),
            (b"z/../y", file(b"y")),
            (b"../in/y", file(b"y")),
        ] {
            assert_eq!(read("in", href), meant, "{}", String::from_utf8_lossy(href));
        }
    }

    #[test]
    fn views_of_the_folder_and_folders_above_are_its_own() {
        for href in
            ["", "#", "?C=N;O=D", "./", ".", "?", "../", "..", "/", "/top%20x/", "/top%20x/in/", "%2e%2E/"]
        {
            assert_eq!(read("in", href.as_bytes()), IndexLink::Own, "{href}");
        }
        // A browser would not leave the origin, either.
        assert_eq!(read("in", b"../../../"), IndexLink::Own);
        assert_eq!(read("in", b"/top%20x/in/?C=M&O=A"), IndexLink::Own);
    }

    #[test]
    fn all_else_is_outside() {
        for href in [
            "/etc/passwd",
            "../x",
            "../../x/",
            "x/y",
            "x//",
            "/top%20x//in/y",
            "a%2fb",
            "%2e%2e%2fx",
            "a%00",
            "bad%zz",
            "%",
            "x?y",
            "x/?C=N",
            "http:/top%20x/in/y",
            "javascript:alert(1)",
            "mailto:x@y",
            "data:text/html,x",
        ] {
            assert_eq!(read("in", href.as_bytes()), IndexLink::Outside, "{href}");
        }
        for href in [
            "//b.test/top%20x/in/y",
            "http://a.test/top%20x/in/y",
            "https://a.test:81/top%20x/in/y",
            "http://u@a.test:81/top%20x/in/y",
        ] {
            assert_eq!(read("in", href.as_bytes()), IndexLink::OtherOrigin, "{href}");
        }
    }

    #[test]
    fn the_top_of_an_origin_has_entries_too() {
        let place = IndexPlace::new(&OriginUrl::parse("http://a").unwrap(), b"");

        assert_eq!(place.read(b"x"), file(b"x"));
        assert_eq!(place.read(b"/x/"), folder(b"x"));
        assert_eq!(place.read(b"../"), IndexLink::Own);
    }

    fn read_below(url: &str, base: &[u8], href: &[u8]) -> IndexLink {
        let origin = OriginUrl::parse("http://A.test:81/top").unwrap();
        let mut place = IndexPlace::new(&origin, b"in").all_below(url.as_bytes()).unwrap();
        if !base.is_empty() {
            place.set_base(base).unwrap();
        }
        place.read(href)
    }

    #[test]
    fn all_links_below_the_folder_are_entries_if_wanted() {
        let url = "http://a.test:81/top/in/";
        for (href, meant) in [
            (&b"a/b%20c/d"[..], file(b"a/b c/d")),
            (b"a/b/", folder(b"a/b")),
            (b"/top/in/a/../b/c", file(b"b/c")),
            (b"a//b", IndexLink::Outside),
            (b"a/%2e%2e/%2E./x", IndexLink::Outside),
            (b"a%2fb", IndexLink::Outside),
            (b"a/b?x", IndexLink::Outside),
            (b"a/b/?x", IndexLink::Outside),
            (b"/top/in", IndexLink::Outside),
            (b"/top/inner/x", IndexLink::Outside),
            (b"../x", IndexLink::Outside),
            (b"..", IndexLink::Own),
            (b"?sort=name", IndexLink::Own),
            (b"//b.test/top/in/x", IndexLink::OtherOrigin),
        ] {
            assert_eq!(read_below(url, b"", href), meant, "{}", String::from_utf8_lossy(href));
        }
    }

    #[test]
    fn links_are_relative_to_where_the_page_came_from_or_to_its_base() {
        let url = "http://a.test:81/top/in/v1/index.html?x#y";
        for (base, href, meant) in [
            (&b""[..], &b"x"[..], file(b"v1/x")),
            (b"", b"../x", file(b"x")),
            (b"../v2/", b"x", file(b"v2/x")),
            (b"/top/in/v3/index.html?q", b"x/", folder(b"v3/x")),
            (b"http://A.TEST:81", b"top/in/x", file(b"x")),
            (b"/", b"x", IndexLink::Outside),
        ] {
            assert_eq!(read_below(url, base, href), meant, "{}", String::from_utf8_lossy(base));
        }
    }

    #[test]
    fn a_page_from_elsewhere_has_no_links_below_the_folder() {
        let origin = OriginUrl::parse("http://a.test:81/top").unwrap();
        for url in ["http://a.test:81/top/", "http://b.test:81/top/in/", "http://a.test:81/top/in2/", "x:"] {
            assert!(IndexPlace::new(&origin, b"in").all_below(url.as_bytes()).is_none(), "{url}");
        }
        let mut place = IndexPlace::new(&origin, b"in");
        for href in ["http://b.test/", "//a.test/", "mailto:x", "a%zz/", "x//y/"] {
            assert!(place.set_base(href.as_bytes()).is_none(), "{href}");
        }
    }
}
