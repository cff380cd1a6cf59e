//! Access to files below the folder, and to no others.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens a path below the folder for reading, without following any symbolic link.
pub(super) fn open_beneath(root: &OwnedFd, path: &str, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | more;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
}

/// The folder of a job's state.
const STATE: &str = ".fetchmill";

/// Returns whether a segment of a name is served. The state of a job never is.
pub(super) fn is_shown(segment: &str, hidden: bool) -> bool {
    !segment.starts_with('.') || (hidden && segment != STATE)
}

/// Returns whether a name is possible here: no NUL, and no segment that is empty, `.` or `..`. Encoded slashes are
/// already decoded.
pub(super) fn is_safe(name: &str) -> bool {
    !name.as_bytes().contains(&0) && name.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}
