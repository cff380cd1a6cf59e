//! Checks whether a key splits the listing of a bucket cleanly in two.
//!
//! A store on top of a file system might walk it folder by folder. In that order, `a/1` comes before `a-b`, although
//! `-` is less than `/`. A page or range that starts after a key contains only greater keys. The page or range before
//! it ends at the first greater key. A lesser key that is listed after that greater key is in neither of them, and
//! nothing shows that it is missing.
//!
//! This can happen only if a folder and another name share a prefix, and the next byte of the other name is less than
//! `/`. The check covers each byte of a key where this is possible. It requests the prefix before that byte and looks
//! for a folder and another name. If it finds both, it checks which of them comes first.

use std::cell::RefCell;
use std::collections::HashSet;

use super::pages::{BucketPageAnswer, BucketPages, ListedKeys};
use fetchmill_model::error::Result;
use fetchmill_model::s3::{Disorder, ListQuery, ListedKey};
use fetchmill_net::certain::RestedConnection;

/// Maximum number of prefixes that are known to be in order. They use 4 MiB if keys have 1,024 bytes. When the limit is
/// reached, all of them are discarded.
const KNOWN_MAX: usize = 4096;
/// The prefix itself, its folder, and the smallest of the other names. A store on a file system lists these names
/// first.
const NAMES_ASKED: u32 = 3;

/// Result of checking a key.
pub(super) enum Border {
    /// All greater keys appear to come after the key.
    Ordered,
    /// Some greater keys come before the key.
    Disordered(Disorder),
    /// The job is ending.
    Over,
}

/// Order check. See the [module documentation](self).
#[derive(Default)]
pub(super) struct OrderCheck {
    known: RefCell<HashSet<Vec<u8>>>,
}

impl OrderCheck {
    /// Checks a key. The empty key precedes all others.
    pub(super) async fn check(
        &self,
        pages: &BucketPages,
        connection: &mut RestedConnection,
        key: &[u8],
    ) -> Result<Border> {
        for stem in stems(key, pages.prefix.len()) {
            if self.known.borrow().contains(stem) {
                continue;
            }
            match check_stem(pages, connection, stem).await? {
                Border::Ordered => self.note(stem),
                other => return Ok(other),
            }
        }
        Ok(Border::Ordered)
    }

    fn note(&self, stem: &[u8]) {
        let mut known = self.known.borrow_mut();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(stem.to_vec());
    }
}

/// Returns the prefixes of a key that are longer than the job's prefix and are followed by `/` or a lesser byte.
fn stems(key: &[u8], prefix_len: usize) -> impl Iterator<Item = &[u8]> {
    (prefix_len..key.len()).filter(|at| key[*at] <= b'/').map(|at| &key[..at])
}

async fn check_stem(pages: &BucketPages, connection: &mut RestedConnection, stem: &[u8]) -> Result<Border> {
    let names = ListQuery { prefix: stem, by_folder: true, max_keys: NAMES_ASKED, ..ListQuery::default() };
    let page = match pages.ask(connection, &names).await? {
        BucketPageAnswer::Page(page) => page,
        BucketPageAnswer::Refused(error) => return Err(error),
        BucketPageAnswer::Over => return Ok(Border::Over),
    };
    let Some(lesser) = lesser_name(&page, stem) else { return Ok(Border::Ordered) };
    let keys = ListQuery { prefix: stem, max_keys: 2, ..ListQuery::default() };
    let page = match pages.ask(connection, &keys).await? {
        BucketPageAnswer::Page(page) => page,
        BucketPageAnswer::Refused(error) => return Err(error),
        BucketPageAnswer::Over => return Ok(Border::Over),
    };
    if let Some(disorder) = page.end.disorder {
        return Ok(Border::Disordered(disorder));
    }
    let first = page.keys.iter().map(|entry| ListedKey::read(entry).key).find(|key| *key != stem);
    Ok(match first {
        Some(first) if first.get(stem.len()) == Some(&b'/') => {
            Border::Disordered(Disorder { key: lesser, after: first.to_vec() })
        }
        _ => Border::Ordered,
    })
}

/// Returns a name that continues the prefix with a byte less than `/`.
fn lesser_name(page: &ListedKeys, stem: &[u8]) -> Option<Vec<u8>> {
    let keys = page.keys.iter().map(|entry| ListedKey::read(entry).key);
    let mut names = keys.chain(page.end.folders.iter().map(Vec::as_slice));
    names.find(|name| name.get(stem.len()).is_some_and(|byte| *byte < b'/')).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_end_before_bytes_up_to_the_slash() {
        let of = |key: &'static str, prefix: &str| stems(key.as_bytes(), prefix.len()).collect::<Vec<_>>();

        assert_eq!(of("a/b-c.d", ""), [&b"a"[..], b"a/b", b"a/b-c"]);
        assert_eq!(of("a/b-c.d", "a/"), [&b"a/b"[..], b"a/b-c"]);
        assert_eq!(of("/a", ""), [&b""[..]]);
        assert_eq!(of("abc0:~", ""), [&b""[..]; 0]);
        assert_eq!(of("", "a/"), [&b""[..]; 0]);
    }
}
