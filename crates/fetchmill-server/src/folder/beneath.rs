//! What is below the folder, and nothing else.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens for reading what lies below the folder, without following any symbolic link.
pub(super) fn open_beneath(root: &OwnedFd, path: &str, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | more;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
}

/// The folder of a job's state.
const STATE: &str = ".fetchmill";

/// Whether a segment of a name is served. The state of a job is nobody's business, whatever else is.
pub(super) fn is_shown(segment: &str, hidden: bool) -> bool {
    !segment.starts_with('.') || (hidden && segment != STATE)
}

/// Whether a name can be one of ours: segments that are not empty, `.` or `..`, without NUL. An encoded slash is a
/// slash by now.
pub(super) fn is_safe(name: &str) -> bool {
    !name.as_bytes().contains(&0) && name.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}
