//! The name under which a target is stored, if it differs from the listed name. Either the extension is derived from
//! the reply, or a leading path is removed. A failed target keeps its listed name, with which it can be requested
//! again.

use std::borrow::Cow;
use std::sync::Arc;

use crate::target::entry::ListEntry;
use crate::target::extension::{of_content_type, push_extension};

/// A job's rules for converting listed names to stored names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct StoredNames {
    /// Whether names follow [`crate::target::entry::Naming::Extension`], with an extension after the key.
    pub has_extension: bool,
    /// Leading path that is removed from names. It includes the trailing slash.
    pub strip_prefix: Option<Arc<[u8]>>,
}

impl StoredNames {
    /// Returns whether all objects are stored under their listed names.
    pub fn are_listed(&self) -> bool {
        *self == StoredNames::default()
    }

    /// Returns the name under which a target is stored. `content_type` is `None` if there is no reply, or if the reply
    /// does not contain the field.
    pub fn stored<'n>(&self, entry: &[u8], listed: &'n [u8], content_type: Option<&[u8]>) -> Cow<'n, [u8]> {
        if self.has_extension
            && let ListEntry { url, key: Some(key), .. } = ListEntry::read(entry)
            && !url.is_empty()
        {
            let mut name = key.to_vec();
            push_extension(content_type, url, &mut name);
            return Cow::Owned(self.stripped(&name).to_vec());
        }
        Cow::Borrowed(self.stripped(listed))
    }

    /// Returns a name without the leading path. A name that would become empty is returned unchanged.
    pub fn stripped<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        let rest = self.strip_prefix.as_deref().and_then(|prefix| name.strip_prefix(prefix));
        rest.filter(|rest| !rest.is_empty()).unwrap_or(name)
    }
}

/// Replaces the extension of a stored name, which is the text after the last dot, with the extension of a content type.
/// Returns `None` if the name has no dot, or if no extension is known for the type.
pub fn with_extension_of(name: &[u8], content_type: &str) -> Option<Vec<u8>> {
    let extension = of_content_type(content_type.as_bytes())?;
    let dot = memchr::memrchr(b'.', name)?;
    Some([&name[..=dot], extension.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_a_path_and_never_all_of_it() {
        let names = StoredNames { strip_prefix: Some(b"a/b/"[..].into()), ..StoredNames::default() };

        for (listed, stored) in
            [("a/b/c", "c"), ("a/b/c/d", "c/d"), ("a/b/", "a/b/"), ("a/bc", "a/bc"), ("x/a/b/c", "x/a/b/c")]
        {
            assert_eq!(&*names.stored(b"", listed.as_bytes(), None), stored.as_bytes());
        }
    }

    #[test]
    fn an_extension_follows_from_the_reply() {
        let names = StoredNames { has_extension: true, strip_prefix: Some(b"a/"[..].into()) };
        let mut entry = Vec::new();
        ListEntry { url: b"http://h/x.gif", key: Some(b"a/7."), ..ListEntry::default() }.write(&mut entry);

        assert_eq!(&*names.stored(&entry, b"a/7.gif", None), b"7.gif");
        assert_eq!(&*names.stored(&entry, b"a/7.gif", Some(b"image/png")), b"7.png");
    }

    #[test]
    fn an_extension_is_replaced_with_that_of_another_type() {
        assert_eq!(with_extension_of(b"a.b/7.x.gif", "image/webp").as_deref(), Some(&b"a.b/7.x.webp"[..]));
        assert_eq!(with_extension_of(b"7", "image/webp"), None);
        assert_eq!(with_extension_of(b"7.gif", "image/unknown"), None);
    }
}
