//! Access that is restricted to the files below the folder.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens a path below the folder for reading, without following any symbolic link.
pub(super) fn open_beneath(root: &OwnedFd, path: &str, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | more;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
        // `openat2` does not exist before Linux 5.6 or in emulators. In old container runtimes, a filter makes it fail
        // with `EPERM`.
        Err(Errno::NOSYS | Errno::PERM) => walk(root, path, flags),
        opened => opened,
    }
}

/// Opens a path without `openat2`, one segment after another. Names must be [`is_safe`].
fn walk(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (folders, last) = path.rsplit_once('/').map_or((None, path), |(folders, last)| (Some(folders), last));
    let mut above: Option<OwnedFd> = None;
    for segment in folders.into_iter().flat_map(|folders| folders.split('/')) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        above = Some(rustix::fs::openat(above.as_ref().unwrap_or(root), segment, flags, Mode::empty())?);
    }
    rustix::fs::openat(above.as_ref().unwrap_or(root), last, flags, Mode::empty())
}

/// The folder with the state of a job.
const STATE: &str = ".fetchmill";

/// Returns whether a segment of a name can be served. The state of a job is never served.
pub(super) fn is_shown(segment: &str, hidden: bool) -> bool {
    !segment.starts_with('.') || (hidden && segment != STATE)
}

/// Returns whether a name is acceptable. It must not contain a NUL, or a segment that is empty, `.` or `..`. Encoded
/// slashes have already been decoded.
pub(super) fn is_safe(name: &str) -> bool {
    !name.as_bytes().contains(&0) && name.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}
