//! The only module that syncs, renames, truncates or removes files. Sinks, the journal and failures shards use it, so
//! the code of each shows the order: durable bytes, commit record, journal.
//!
//! Every file is opened beneath a folder that was opened once. As a result, an untrusted name cannot lead elsewhere,
//! even if someone plants links below the folder while the job runs.

#![expect(clippy::disallowed_methods, reason = "this is the file that may")]

use std::fs::File;
use std::io::{Read as _, Seek as _, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

use fetchmill_model::error::Error;
use fetchmill_model::limits::MIB;
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::text::file_name::FileName;

use crate::beneath;

/// A result whose error is an operating system error number.
pub type ErrnoResult<T> = std::result::Result<T, Errno>;

/// Opens a folder that the user named.
pub fn open_folder(path: &Path) -> ErrnoResult<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a folder beneath another one.
pub fn open_folder_beneath(folder: BorrowedFd<'_>, path: &[u8]) -> ErrnoResult<OwnedFd> {
    beneath::open_beneath(folder, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)
}

/// Creates a folder beneath another one, including missing parents, and opens it. Fails with `ENOTDIR` or `ELOOP` if
/// something other than a folder is in its place.
pub fn make_folders_beneath(folder: BorrowedFd<'_>, path: &[u8]) -> ErrnoResult<OwnedFd> {
    if let Ok(opened) = open_folder_beneath(folder, path) {
        return Ok(opened);
    }
    let mut parent: Option<OwnedFd> = None;
    for segment in path.split(|byte| *byte == b'/') {
        let above = parent.as_ref().map_or(folder, |fd| fd.as_fd());
        match rustix::fs::mkdirat(above, segment, Mode::from(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        parent = Some(open_folder_beneath(above, segment)?);
    }
    parent.ok_or(Errno::INVAL)
}

/// Creates a file. Fails if the file exists.
pub fn create_new(folder: BorrowedFd<'_>, name: &[u8]) -> ErrnoResult<File> {
    create_new_for(folder, name, Readers::AsUsual)
}

fn create_new_for(folder: BorrowedFd<'_>, name: &[u8], readers: Readers) -> ErrnoResult<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from(if readers == Readers::Owner { 0o600 } else { 0o666 });
    Ok(File::from(rustix::fs::openat(folder, name, flags, mode)?))
}

/// Opens a new, empty file without a name, for reading and writing. The file disappears when its last handle is closed.
pub fn nameless_file(folder: &Path) -> std::io::Result<File> {
    let mode = Mode::from(0o600);
    match rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        // NFS, old overlayfs and most FUSE file systems do not support this flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        opened => return Ok(File::from(opened?)),
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!(".fetchmill-{}-{}", std::process::id(), since.as_nanos());
    let folder = open_folder(folder)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&folder, &name, flags, mode)?);
    remove(folder.as_fd(), name.as_bytes())?;
    Ok(file)
}

/// Makes a job's state file readable only by its owner, creating it if it is missing. This also corrects files that an
/// earlier release left readable by others. Does nothing if modes are not supported or cannot be changed.
pub fn keep_private(path: &Path) -> ErrnoResult<()> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from(0o600))?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if mode.intersects(Mode::from(0o077)) {
        let _ = rustix::fs::fchmod(&file, mode.difference(Mode::from(0o077)));
    }
    Ok(())
}

/// Users who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// All users that the umask allows. Used for output files.
    AsUsual,
    /// Only the owner. Used for a job's state, which may contain signed URLs.
    Owner,
}

/// Creates a shard's file, which must not exist yet, and its folder if necessary. Makes both durable. The parent of the
/// folder must exist, so that no folder is created in a destination that was moved.
pub fn create_in(
    folder: &Path,
    name: &str,
    readers: Readers,
    is_durable: bool,
) -> fetchmill_model::error::Result<File> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::storage("create the folder", folder, error));
        }
        Ok(()) | Err(_) => {}
    }
    let fail = |error| Error::storage("create", folder.join(name), error);
    let opened = open_folder(folder).map_err(fail)?;
    let file = create_new_for(opened.as_fd(), name.as_bytes(), readers).map_err(fail)?;
    if is_durable {
        sync_folder(opened.as_fd()).map_err(fail)?;
        // The folder may be new as well.
        let above = open_folder(&folder.join("..")).map_err(fail)?;
        sync_folder(above.as_fd()).map_err(fail)?;
    }
    Ok(file)
}

/// Creates a file with these bytes. Its modification time is `modified` (seconds since 1970). `None` means the current
/// time.
pub fn create_with(
    folder: BorrowedFd<'_>,
    name: &[u8],
    bytes: &[u8],
    modified: Option<u64>,
) -> ErrnoResult<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::from(0o666))?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(&file, rest) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(seconds) = modified {
        // If the file system cannot store this time, the file keeps the time of writing.
        let _ = rustix::fs::futimens(&file, &modified_at(seconds));
    }
    // With a quota or on a network file system, the error may be reported only on close. Dropping a `std` file would
    // ignore it.
    close(file)
}

/// Sets a file's modification time, in seconds since 1970. If the file system cannot store this time, the file keeps
/// its old one.
pub fn set_modified(folder: BorrowedFd<'_>, name: &[u8], seconds: u64) {
    let _ = rustix::fs::utimensat(folder, name, &modified_at(seconds), AtFlags::SYMLINK_NOFOLLOW);
}

fn modified_at(seconds: u64) -> Timestamps {
    let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let modified = at(i64::try_from(seconds).unwrap_or(i64::MAX), 0);
    Timestamps { last_access: at(0, rustix::fs::UTIME_OMIT), last_modification: modified }
}

/// Closes a file and returns the error, if any.
fn close(file: OwnedFd) -> ErrnoResult<()> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor's only owner has just released it.
    #[expect(unsafe_code, reason = "std does not report errors on close")]
    let result = unsafe { libc::close(file.into_raw_fd()) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Opens a file beneath a folder for reading.
pub fn open_beneath(folder: BorrowedFd<'_>, path: &[u8]) -> ErrnoResult<File> {
    Ok(File::from(beneath::open_beneath(folder, path, OFlags::RDONLY | OFlags::CLOEXEC)?))
}

/// Opens a file beneath a folder for reading. `None` if the name does not exist or is not a regular file.
pub fn open_file_beneath(folder: BorrowedFd<'_>, path: &[u8]) -> ErrnoResult<Option<File>> {
    // Do not block: if someone planted a pipe, opening it would wait forever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match beneath::open_beneath(folder, path, flags) {
        Ok(opened) => {
            let file = File::from(opened);
            let is_file = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file();
            Ok(is_file.then_some(file))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Appends all bytes.
pub fn append(file: &mut File, bytes: &[u8]) -> ErrnoResult<()> {
    file.write_all(bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Returns whether a file still has the length and the checksum that were recorded when it was complete.
pub fn is_whole(path: &Path, end: &ShardEnd) -> std::io::Result<bool> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    if file.metadata()?.len() != end.end {
        return Ok(false);
    }
    let (mut buffer, mut crc32c) = (vec![0; MIB], 0);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(crc32c == end.crc32c),
            Ok(count) => crc32c = crc32c::crc32c_append(crc32c, buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Asks the kernel to start writing part of a file to disk. This is only a hint, so errors are ignored.
pub fn start_writeback(file: &File, start: u64, length: u64) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: the descriptor is open and no memory is passed.
    #[expect(unsafe_code, reason = "no library offers the call")]
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), start as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE)
    };
}

/// Tells the kernel that it may drop the durable part of a file from its cache, starting at `start`. This is only a
/// hint, so errors are ignored.
pub fn forget(file: &File, start: u64) {
    let _ = rustix::fs::fadvise(file, start, None, rustix::fs::Advice::DontNeed);
}

/// A file that is only appended to, with a checksum of its contents. The first append creates the file, readable only
/// by its owner.
#[derive(Debug)]
pub struct AppendedFile {
    folder: PathBuf,
    name: FileName,
    file: Option<File>,
    end: u64,
    crc32c: u32,
    is_durable: bool,
}

impl AppendedFile {
    /// Prepares a new file in a folder. No existing file may have this name.
    pub fn new(folder: &Path, name: FileName, is_durable: bool) -> Self {
        AppendedFile { folder: folder.to_owned(), name, file: None, end: 0, crc32c: 0, is_durable }
    }

    /// Reopens a file from an earlier run and truncates it to `end`.
    pub fn reopened(folder: &Path, file: File, end: &ShardEnd, is_durable: bool) -> Self {
        let ShardEnd { path, end, crc32c } = end.clone();
        AppendedFile { folder: folder.to_owned(), name: path, file: Some(file), end, crc32c, is_durable }
    }

    /// Returns the length of the file.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Appends all bytes.
    pub fn append(&mut self, bytes: &[u8]) -> fetchmill_model::error::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(create_in(&self.folder, &self.name, Readers::Owner, self.is_durable)?),
        };
        append(file, bytes).map_err(|error| Error::storage("write", self.folder.join(&self.name), error))?;
        self.end += bytes.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        Ok(())
    }

    /// Makes the file durable and returns its end. `None` if nothing was appended.
    pub fn sync(&self) -> fetchmill_model::error::Result<Option<ShardEnd>> {
        let Some(file) = &self.file else { return Ok(None) };
        if self.is_durable {
            sync_file(file).map_err(|error| Error::storage("sync", self.folder.join(&self.name), error))?;
        }
        Ok(Some(ShardEnd { path: self.name.clone(), end: self.end, crc32c: self.crc32c }))
    }
}

/// Makes the bytes of a file durable. A failed sync must never be retried: the kernel has already marked the pages
/// clean, so a second sync would succeed without writing them.
pub fn sync_file(file: &File) -> ErrnoResult<()> {
    rustix::fs::fdatasync(file)
}

/// Makes the entries of a folder durable.
pub fn sync_folder(folder: BorrowedFd<'_>) -> ErrnoResult<()> {
    rustix::fs::fsync(folder)
}

/// Makes a folder and its parents on the same file system durable, because any of them may be new. Skips folders that
/// cannot be opened: this process cannot have created them.
pub fn sync_folders_up(folder: &Path) -> std::io::Result<()> {
    let folder = folder.canonicalize()?;
    let device = folder.metadata()?.dev();
    for above in folder.ancestors() {
        let Ok(opened) = File::open(above) else { break };
        if opened.metadata()?.dev() != device {
            break;
        }
        sync_folder(opened.as_fd())?;
    }
    Ok(())
}

/// Makes everything on a folder's file system durable. A single call covers thousands of small files.
pub fn sync_file_system(folder: BorrowedFd<'_>) -> ErrnoResult<()> {
    rustix::fs::syncfs(folder)
}

/// Tests whether a folder is writable, by writing a file without a name. Returns the error, or `None` if writing works.
pub fn find_trouble(folder: &Path) -> Option<Errno> {
    let try_out = || {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, Mode::from(0o600))?;
        let block = [0; 16 * 1024];
        match rustix::io::write(&file, &block)? {
            written if written < block.len() => Err(Errno::NOSPC),
            _ => Ok(()),
        }
    };
    try_out().err().filter(|error| *error != Errno::OPNOTSUPP)
}

/// Free space on a file system at some point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeRoom {
    /// Total number of inodes. 0 if the file system creates inodes on demand.
    pub inodes: u64,
    /// Number of inodes available to this process.
    pub free_inodes: u64,
    /// Total number of blocks. 0 if the file system does not report it.
    pub blocks: u64,
    /// Number of blocks available to this process.
    pub free_blocks: u64,
    /// Block size in bytes.
    pub block: u64,
}

/// Returns the free space of a folder's file system.
pub fn free_room(folder: &Path) -> ErrnoResult<FreeRoom> {
    let found = rustix::fs::statvfs(folder)?;
    Ok(FreeRoom {
        inodes: found.f_files,
        free_inodes: found.f_favail,
        blocks: found.f_blocks,
        free_blocks: found.f_bavail,
        block: found.f_frsize,
    })
}

/// Moves a file to its final name. Fails with `EEXIST`, `ENOTDIR` or `EISDIR` if something is already there.
pub fn rename_new(from: BorrowedFd<'_>, name: &[u8], to: BorrowedFd<'_>, new_name: &[u8]) -> ErrnoResult<()> {
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        // NFS, sshfs, 9p and most FUSE file systems do not support this flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_new(from, name, to, new_name),
        renamed => renamed,
    }
}

/// Moves a file by means of a hard link. If the process is killed, both names may exist. The next run then sees that
/// they are the same file.
fn link_new(from: BorrowedFd<'_>, name: &[u8], to: BorrowedFd<'_>, new_name: &[u8]) -> ErrnoResult<()> {
    match rustix::fs::linkat(from, name, to, new_name, AtFlags::empty()) {
        Ok(()) => {}
        Err(Errno::EXIST) if is_same_file(from, name, to, new_name)? => {}
        // The file system does not support hard links. The lock keeps other runs out, so checking before the rename is
        // enough.
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::MLINK) => {
            return match file_state(to, new_name)? {
                None => rename_over(from, name, to, new_name),
                Some(_) => Err(Errno::EXIST),
            };
        }
        Err(error) => return Err(error),
    }
    rustix::fs::unlinkat(from, name, AtFlags::empty())
}

fn is_same_file(from: BorrowedFd<'_>, name: &[u8], to: BorrowedFd<'_>, new_name: &[u8]) -> ErrnoResult<bool> {
    let one = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let other = rustix::fs::statat(to, new_name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Replaces the contents of a file. If the process is killed, the file may be left empty.
pub fn write_whole(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(bytes)
}

/// Replaces every file in a folder with a copy that has a new inode. A process that still has an old file open can then
/// no longer change the new one. If the process is killed, each file is complete, either old or new.
pub fn detach_files(folder: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let copy = folder.join(".copy");
    for entry in entries.collect::<std::io::Result<Vec<_>>>()? {
        if entry.file_type()?.is_file() && entry.path() != copy {
            std::fs::copy(entry.path(), &copy)?;
            File::open(&copy)?.sync_all()?;
            std::fs::rename(&copy, entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Truncates a file. Returns `false` if the file is shorter than `length`. Does not sync, because the truncation is
/// repeated if a power cut undoes it.
pub fn cut(path: &Path, length: u64) -> std::io::Result<bool> {
    Ok(open_cut(path, length)?.is_some())
}

/// Truncates a file and opens it for appending. `None` if the file is shorter than `length`. Does not follow links, and
/// does not block if the file is a pipe.
pub fn open_cut(path: &Path, length: u64) -> std::io::Result<Option<File>> {
    let file = File::options().append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?.len();
    if found < length {
        return Ok(None);
    }
    if found > length {
        file.set_len(length)?;
    }
    Ok(Some(file))
}

/// Moves a file to its final name, replacing any existing file.
pub fn rename_over(
    from: BorrowedFd<'_>,
    name: &[u8],
    to: BorrowedFd<'_>,
    new_name: &[u8],
) -> ErrnoResult<()> {
    rustix::fs::renameat(from, name, to, new_name)
}

/// Makes a finished file durable and moves it to its final name.
pub fn put_in_place(made: &Path, path: &Path) -> fetchmill_model::error::Result<()> {
    let put = || {
        File::open(made)?.sync_all()?;
        std::fs::rename(made, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    put().map_err(|error| fetchmill_model::error::Error::storage("move a finished file to", path, error))
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// A regular file, with its size and modification time.
    File {
        /// Size in bytes.
        size: u64,
        /// Modification time in nanoseconds since 1970.
        mtime_ns: i64,
    },
    /// A folder.
    Folder,
    /// A link or any other kind of entry.
    Other,
}

/// Returns the state of a name in a folder, without following links.
pub fn file_state(folder: BorrowedFd<'_>, name: &[u8]) -> ErrnoResult<Option<PathState>> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => {}
        rustix::fs::FileType::Directory => return Ok(Some(PathState::Folder)),
        _ => return Ok(Some(PathState::Other)),
    }
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let mtime_ns = stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
    Ok(Some(PathState::File { size: u64::try_from(stat.st_size).unwrap_or(0), mtime_ns }))
}

/// Removes an empty folder beneath another one.
pub fn remove_empty_folder_beneath(folder: BorrowedFd<'_>, path: &[u8]) -> ErrnoResult<()> {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        return rustix::fs::unlinkat(folder, path, AtFlags::REMOVEDIR);
    };
    let above = open_folder_beneath(folder, &path[..slash])?;
    rustix::fs::unlinkat(above, &path[slash + 1..], AtFlags::REMOVEDIR)
}

/// Removes a file. Succeeds if the file does not exist.
pub fn remove(folder: BorrowedFd<'_>, name: &[u8]) -> ErrnoResult<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a file at any depth beneath a folder, without following links. Succeeds if the file does not exist.
pub fn remove_beneath(folder: BorrowedFd<'_>, path: &[u8]) -> ErrnoResult<()> {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else { return remove(folder, path) };
    let (above, leaf) = path.split_at(slash);
    match open_folder_beneath(folder, above) {
        Ok(above) => remove(above.as_fd(), leaf.get(1..).unwrap_or_default()),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a file by its path, which must be trusted. Succeeds if the file does not exist.
pub fn remove_path(path: &Path) -> std::io::Result<()> {
    unless_missing(std::fs::remove_file(path))
}

/// Removes a folder and its contents by its path, which must be trusted. Succeeds if the folder does not exist.
pub fn remove_folder(path: &Path) -> std::io::Result<()> {
    unless_missing(std::fs::remove_dir_all(path))
}

fn unless_missing(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the size of a regular file beneath a folder. `None` if the file does not exist.
pub fn file_size(folder: BorrowedFd<'_>, path: &[u8]) -> ErrnoResult<Option<u64>> {
    match rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(u64::try_from(stat.st_size).unwrap_or(0))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        let root = open_folder(folder.path()).unwrap();

        assert_eq!(make_folders_beneath(root.as_fd(), b"link").unwrap_err(), Errno::LOOP);
        assert!(make_folders_beneath(root.as_fd(), b"link/below").is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_exists_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let root = open_folder(folder.path()).unwrap();
        create_with(root.as_fd(), b"new", b"new", None).unwrap();
        create_with(root.as_fd(), b"old", b"old", None).unwrap();

        assert_eq!(rename_new(root.as_fd(), b"new", root.as_fd(), b"old").unwrap_err(), Errno::EXIST);
        assert_eq!(std::fs::read(folder.path().join("old")).unwrap(), b"old");
    }

    #[test]
    fn a_second_name_replaces_nothing_and_is_finished_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let root = open_folder(folder.path()).unwrap();
        let link = |name: &[u8], new_name: &[u8]| link_new(root.as_fd(), name, root.as_fd(), new_name);
        for name in ["one", "two"] {
            create_with(root.as_fd(), name.as_bytes(), name.as_bytes(), None).unwrap();
        }

        assert_eq!(link(b"one", b"two").unwrap_err(), Errno::EXIST);
        std::fs::hard_link(folder.path().join("one"), folder.path().join("killed")).unwrap();
        link(b"one", b"killed").unwrap();
        link(b"killed", b"new").unwrap();

        assert_eq!(std::fs::read(folder.path().join("two")).unwrap(), b"two");
        assert_eq!(std::fs::read(folder.path().join("new")).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn folders_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = open_folder(folder.path()).unwrap();

        make_folders_beneath(root.as_fd(), b"a/b/c").unwrap();
        make_folders_beneath(root.as_fd(), b"a/b/c").unwrap();

        assert!(folder.path().join("a/b/c").is_dir());
    }
}
