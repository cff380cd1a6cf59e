//! The regular files below a folder.
//!
//! A name is a path below the folder, with `/` between segments. Names are untrusted, so only the kernel decides what
//! is below the folder. Suspicious names are rejected first (`beneath`). After that, every file is opened with
//! `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`. Only regular files are served, and `O_NONBLOCK` keeps a FIFO from
//! blocking the thread.
//!
//! Files are read on request. Up to [`BUFFERED_MAX`] bytes are read into the buffer of the reply, and larger files are
//! read in pieces.

mod beneath;
mod walk;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use self::beneath::{is_safe, is_shown, open_beneath};
use self::walk::WalkCache;
use crate::content::{Body, Content, ContentError, Page, Stream};
use crate::error::Error;

/// Maximum size in bytes of a file that is read in one piece.
const BUFFERED_MAX: u64 = 256 * 1024;

/// The content of a folder.
#[derive(Debug)]
pub struct Folder {
    root: OwnedFd,
    walks: WalkCache,
    hidden: bool,
}

impl Folder {
    /// Opens a folder. The path to the folder can contain symbolic links, but links below it are not followed. If
    /// `hidden` is set, names that start with a dot are served as well.
    pub fn open(path: &Path, hidden: bool) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|errno| Error::Folder { path: path.to_owned(), source: errno.into() })?;
        Ok(Folder { root, walks: WalkCache::new(hidden), hidden })
    }
}

impl Content for Folder {
    fn list(&self, marker: Option<&str>, limit: usize, page: &mut Page<'_>) -> Result<(), ContentError> {
        self.walks.list(&self.root, marker, limit, page)
    }

    fn get(&self, name: &str, body: &mut Body<'_>) -> Result<(), ContentError> {
        if !is_safe(name) || !name.split('/').all(|segment| is_shown(segment, self.hidden)) {
            return Err(ContentError::NotFound);
        }
        let file = open_beneath(&self.root, name, OFlags::NONBLOCK).map_err(get_error)?;
        let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ContentError::NotFound);
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > BUFFERED_MAX {
            body.stream(size, Box::new(FileStream { file, at: 0 }));
            return Ok(());
        }
        let out = body.sized(size as usize);
        let end = out.len() + size as usize;
        // If the file has shrunk in the meantime, the caller notices that bytes are missing.
        while out.len() < end && append(&file, size - (end - out.len()) as u64, out)? > 0 {}
        out.truncate(end);
        Ok(())
    }

    fn unlisted(&self) -> u64 {
        self.walks.unlisted()
    }
}

/// A large file, which is read in pieces.
struct FileStream {
    file: OwnedFd,
    at: u64,
}

impl Stream for FileStream {
    fn read(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<usize> {
        let start = out.len();
        out.reserve(limit);
        let read = append(&self.file, self.at, out)?.min(limit);
        out.truncate(start + read);
        self.at += read as u64;
        Ok(read)
    }
}

/// Reads into the spare capacity of the vector. The offset is explicit, so that readers do not share a position.
fn append(file: &OwnedFd, offset: u64, out: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        match rustix::io::pread(file, spare_capacity(out), offset) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn get_error(errno: Errno) -> ContentError {
    match errno {
        // LOOP means a symbolic link, XDEV a path that leads out of the folder, and NXIO a socket. Reading never fails
        // with ISDIR.
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO | Errno::NAMETOOLONG => {
            ContentError::NotFound
        }
        Errno::ACCESS | Errno::PERM => ContentError::Forbidden,
        _ => ContentError::Io(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        for name in
            ["", "/", "/etc/passwd", "..", "../a", "a/../b", "a/..", ".", "./a", "a/./b", "a//b", "a/", "a\0"]
        {
            assert!(!is_safe(name), "{name:?}");
        }
    }

    #[test]
    fn names_that_start_with_a_dot_are_hidden() {
        for name in [".env", ".git", ".ssh", "...", "..a", ".fetchmill"] {
            assert!(!is_shown(name, false), "{name}");
        }
        for name in ["a", "a.", "a.b", "%2eenv"] {
            assert!(is_shown(name, false) && is_shown(name, true), "{name}");
        }
        assert!(is_shown(".env", true));
        assert!(!is_shown(".fetchmill", true));
    }

    #[test]
    fn odd_names_are_names() {
        for name in
            ["a", "a/b", ".hidden", "...", "..a", "a..", "a/.../b", " ", "%2e%2e", "\\..\\a", "ü", "\n"]
        {
            assert!(is_safe(name), "{name:?}");
        }
    }
}
