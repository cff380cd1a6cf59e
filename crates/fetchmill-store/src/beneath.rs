//! Opens paths strictly beneath a folder. Links are not followed, so paths cannot lead outside the folder.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Opens a path beneath a folder.
pub(crate) fn open_beneath(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat2(folder, path, flags, Mode::empty(), BENEATH) {
        // `openat2` does not exist before Linux 5.6 or in emulators. In old container runtimes, a seccomp filter makes
        // it fail with `EPERM`.
        Err(Errno::NOSYS | Errno::PERM) => walk(folder, path, flags),
        opened => opened,
    }
}

/// Opens a path without `openat2`. Opens one segment after another, each beneath the previous one.
fn walk(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.first().is_none_or(|byte| *byte == b'/') {
        return Err(if path.is_empty() { Errno::NOENT } else { Errno::XDEV });
    }
    let mut above: Option<OwnedFd> = None;
    let mut segments = path.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        if segment == b".." {
            return Err(Errno::XDEV);
        }
        let flags = if segments.peek().is_some() {
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
        } else {
            flags
        };
        // A path that ends with a slash names a folder.
        let segment = if segment.is_empty() { b".".as_slice() } else { segment };
        let at = above.as_ref().map_or(folder, |opened| opened.as_fd());
        let opened = rustix::fs::openat(at, segment, flags | OFlags::NOFOLLOW, Mode::empty());
        above = Some(opened.map_err(|error| if is_link(at, segment) { Errno::LOOP } else { error })?);
    }
    above.ok_or(Errno::NOENT)
}

/// Returns whether a name is a link. Opening a link as a folder fails with `ENOTDIR`, whereas `openat2` fails with
/// `ELOOP`.
fn is_link(folder: BorrowedFd<'_>, name: &[u8]) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_symlink())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Opens a path in both ways and checks that the results agree.
    fn open_both(folder: &OwnedFd, path: &str, flags: OFlags) -> Result<(), Errno> {
        let fast = rustix::fs::openat2(folder, path, flags, Mode::empty(), BENEATH).map(drop);
        let walked = walk(folder.as_fd(), path.as_bytes(), flags).map(drop);
        assert_eq!(fast, walked, "{path}");
        walked
    }

    #[test]
    fn a_walk_opens_what_openat2_opens() {
        let outside = tempfile::tempdir().expect("a folder");
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("a/b")).expect("folders");
        fs::write(at("a/b/file"), "text").expect("a file");
        fs::write(outside.path().join("secret"), "text").expect("a file");
        symlink(outside.path(), at("a/out")).expect("a link");
        symlink(outside.path().join("secret"), at("a/b/leak")).expect("a link");
        symlink("file", at("a/b/alias")).expect("a link");
        let folder =
            rustix::fs::open(root.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opens");

        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        assert_eq!(open_both(&folder, "a/b/file", read), Ok(()));
        assert_eq!(open_both(&folder, "a/b", read | OFlags::DIRECTORY), Ok(()));
        assert_eq!(open_both(&folder, ".", read | OFlags::DIRECTORY), Ok(()));
        for path in [
            "a/out",
            "a/out/secret",
            "a/b/leak",
            "a/b/alias",
            "a/b/file/",
            "a/none",
            "a/b/file/x",
            "",
            "/etc",
        ] {
            assert!(open_both(&folder, path, read).is_err(), "{path}");
        }
        assert!(open_both(&folder, "../x", read).is_err());
        assert_eq!(walk(folder.as_fd(), b"a/..", read).map(drop), Err(Errno::XDEV));
        assert_eq!(walk(folder.as_fd(), b"a/b/leak", read).map(drop), Err(Errno::LOOP));
    }
}
