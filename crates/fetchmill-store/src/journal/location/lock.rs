//! The lock on a job's folder, and the mark of the run that holds the lock.
//!
//! Some file systems grant every lock. For this reason, a run also writes a mark into the lock file. Before it changes
//! the folder as a whole, it checks that its mark is still there. In addition, each journal transaction checks a number
//! ([`crate::journal::database::fence`]). A run removes its mark when it ends. A run that finds a mark checks whether
//! the process that wrote it is alive.
//!
//! A killed process takes a few milliseconds to end: it frees its memory and its locks, and its parent must reap it. If
//! the same command is run again, it waits until the killed process has ended.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::durable;
use fetchmill_model::error::{Error, Result};

/// Time that a killed process is given to end.
const ENDING: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);
/// Maximum number of bytes of a mark to read. Real marks are shorter.
const MARK_BYTES_MAX: u64 = 4096;

/// The lock on a job's folder. It is released when dropped.
#[derive(Debug)]
pub struct JobLock {
    file: File,
    path: PathBuf,
    /// Mark of this run. `None` if the lock is shared with other readers.
    mark: Option<String>,
    is_contested: bool,
}

impl JobLock {
    /// Locks a state folder for the job of a destination, and writes the mark.
    pub(in crate::journal) fn take(state: &Path, dest: &Path) -> Result<Self> {
        let path = lock_path(state);
        let mut options = File::options();
        let opened = options.create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = opened.map_err(|error| Error::storage("open", &path, error))?;
        lock(&file, FlockOperation::NonBlockingLockExclusive, &path, dest)?;
        let own = Mark::of_this_process(inode_of(&file));
        let before = mark_in(&file, own.inode);
        if before.as_ref().is_some_and(|before| before.is_visible_to(&own) && before.is_alive()) {
            return Err(busy(dest, "although its file system granted the lock"));
        }
        let is_contested = before.is_some_and(|before| !before.is_visible_to(&own));
        let mark = own.to_string();
        durable::write_whole(&mut file, mark.as_bytes())
            .map_err(|error| Error::storage("write", &path, error))?;
        Ok(JobLock { file, path, mark: Some(mark), is_contested })
    }

    /// Takes a shared lock for reading. `None` if there is no lock file because no run has created one.
    pub(in crate::journal) fn share(state: &Path, dest: &Path) -> Result<Option<Self>> {
        let path = lock_path(state);
        let Ok(file) = File::open(&path) else { return Ok(None) };
        lock(&file, FlockOperation::NonBlockingLockShared, &path, dest)?;
        Ok(Some(JobLock { file, path, mark: None, is_contested: false }))
    }

    /// Returns whether another process has locked a state folder.
    pub(in crate::journal) fn is_taken(state: &Path) -> bool {
        File::open(lock_path(state)).is_ok_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
        })
    }

    /// Returns whether a run on another machine has left its mark. This machine cannot tell whether that run is alive.
    pub fn is_contested(&self) -> bool {
        self.is_contested
    }

    /// Fails with exit code 9 if another run has replaced the mark.
    pub fn must_be_ours(&self) -> Result<()> {
        let Some(mark) = &self.mark else { return Ok(()) };
        // Reopen the file: on a network file system, this is the only way to see what other machines have written. A
        // missing file means that the folder was moved, which is checked elsewhere.
        match std::fs::read(&self.path) {
            Ok(found) if found != mark.as_bytes() => Err(taken_over(&self.path)),
            _ => Ok(()),
        }
    }

    /// Returns whether the locked file still contains this run's mark, even if the file was moved.
    fn has_mark(&self) -> bool {
        self.mark.is_some() && self.mark == read_mark(&self.file)
    }
}

impl Drop for JobLock {
    fn drop(&mut self) {
        if self.has_mark() {
            // If this fails, the mark remains but belongs to a dead process.
            let _ = durable::write_whole(&mut self.file, b"");
        }
    }
}

/// Returns the error for a run whose folder was taken over by another run.
pub(in crate::journal) fn taken_over(path: &Path) -> Error {
    Error::Busy(format!(
        "{}: another run has taken over this job, although it was locked (this file system grants every \
         lock); start only one run at a time",
        path.display()
    ))
}

/// The process that holds a lock. Written as words separated by spaces.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    /// Boot id of the running kernel.
    boot: String,
    /// PID namespace of the process.
    namespace: String,
    process: u32,
    /// Start time of the process in kernel ticks.
    started: u64,
    /// Nanoseconds since 1970 UTC. They distinguish successive locks of the same process.
    moment: u128,
    /// Inode number of the lock file.
    inode: u64,
}

impl Mark {
    fn of_this_process(inode: u64) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let word = |text: &str| {
            if text.is_empty() { "-".to_owned() } else { text.replace(char::is_whitespace, "_") }
        };
        Mark {
            boot: word(boot.trim()),
            namespace: word(&namespace.to_string_lossy()),
            process: std::process::id(),
            started: Process::find(std::process::id()).map(|process| process.started).unwrap_or_default(),
            moment: since.as_nanos(),
            inode,
        }
    }

    /// Returns whether the process of `other` could see this process.
    fn is_visible_to(&self, other: &Mark) -> bool {
        (&self.boot, &self.namespace) == (&other.boot, &other.namespace)
    }

    fn is_alive(&self) -> bool {
        self.process_state() == ProcessState::Alive
    }

    fn process_state(&self) -> ProcessState {
        match Process::find(self.process) {
            Some(process) if process.started == self.started && process.is_ending => ProcessState::Ending,
            Some(process) if process.started == self.started => ProcessState::Alive,
            _ => ProcessState::Gone,
        }
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mark { boot, namespace, process, started, moment, inode } = self;
        write!(formatter, "{boot} {namespace} {process} {started} {moment} {inode}")
    }
}

impl std::str::FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let words: Vec<&str> = text.split(' ').collect();
        let [boot, namespace, process, started, moment, inode] = words[..] else { return Err(()) };
        let (process, started) = (process.parse().map_err(drop)?, started.parse().map_err(drop)?);
        let (moment, inode) = (moment.parse().map_err(drop)?, inode.parse().map_err(drop)?);
        Ok(Mark { boot: boot.to_owned(), namespace: namespace.to_owned(), process, started, moment, inode })
    }
}

fn inode_of(file: &File) -> u64 {
    file.metadata().map(|found| found.ino()).unwrap_or_default()
}

/// State of the process that wrote a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    Alive,
    /// The process no longer runs code but may still hold its locks.
    Ending,
    Gone,
}

/// Facts about a process, from `proc_pid_stat(5)`.
struct Process {
    /// Field 22: start time in ticks since boot.
    started: u64,
    /// Whether the process was killed or has exited. It is a zombie (field 3) or is marked as exiting (field 9).
    is_ending: bool,
}

impl Process {
    /// Linux's `PF_EXITING`.
    const EXITING: u64 = 0x4;

    /// Returns `None` if there is no such process.
    fn find(process: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The program name is in parentheses and may contain spaces.
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let flags: u64 = fields.get(6)?.parse().ok()?;
        let is_dead = matches!(*fields.first()?, "Z" | "X");
        let is_ending = is_dead || flags & Self::EXITING != 0;
        Some(Process { started: fields.get(19)?.parse().ok()?, is_ending })
    }
}

fn lock_path(state: &Path) -> PathBuf {
    state.join("lock")
}

fn busy(dest: &Path, although: &str) -> Error {
    let although = if although.is_empty() { String::new() } else { format!(" {although}") };
    Error::Busy(format!(
        "another fetchmill process is working on {}{although}; wait for it or stop it, then run this \
         command again",
        dest.display()
    ))
}

fn lock(file: &File, how: FlockOperation, path: &Path, dest: &Path) -> Result<()> {
    let deadline = Instant::now() + ENDING;
    loop {
        match rustix::fs::flock(file, how) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline && holder_is_ending(file) => {
                std::thread::sleep(STEP);
            }
            Err(Errno::WOULDBLOCK) => return Err(busy(dest, "")),
            Err(error) => return Err(Error::storage("lock", path, error)),
        }
    }
}

/// Returns whether the process that marked a lock file has ended or is about to end.
fn holder_is_ending(file: &File) -> bool {
    let own = Mark::of_this_process(inode_of(file));
    let found = mark_in(file, own.inode);
    found.is_some_and(|mark| mark.is_visible_to(&own) && mark.process_state() == ProcessState::Ending)
}

/// Returns the mark in the lock file with this inode. `None` if the file contains no mark, or a mark that was copied
/// from another file.
fn mark_in(file: &File, inode: u64) -> Option<Mark> {
    read_mark(file)?.parse::<Mark>().ok().filter(|mark| mark.inode == inode)
}

/// Returns the contents of a lock file. `None` if it cannot be read.
fn read_mark(file: &File) -> Option<String> {
    let mut found = vec![0; MARK_BYTES_MAX as usize];
    let read = file.read_at(&mut found, 0).ok()?;
    found.truncate(read);
    String::from_utf8(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_by(mark: impl FnOnce(Mark) -> Mark) -> (tempfile::TempDir, Result<JobLock>) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(lock_path(folder.path())).unwrap();
        let text = mark(Mark::of_this_process(inode_of(&file))).to_string();
        durable::write_whole(&mut file, text.as_bytes()).unwrap();
        let lock = JobLock::take(folder.path(), folder.path());
        (folder, lock)
    }

    #[test]
    fn a_lock_that_another_run_marks_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let lock = JobLock::take(folder.path(), folder.path()).unwrap();
        assert!(lock.must_be_ours().is_ok() && !lock.is_contested());

        std::fs::write(lock_path(folder.path()), "another").unwrap();

        assert!(matches!(lock.must_be_ours(), Err(Error::Busy(_))));
        drop(lock);
        assert_eq!(std::fs::read(lock_path(folder.path())).unwrap(), b"another");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is the user who moves the folder")]
    fn a_run_that_ends_leaves_no_mark_wherever_its_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        std::fs::create_dir(&here).unwrap();
        let lock = JobLock::take(&here, &here).unwrap();
        std::fs::rename(&here, &there).unwrap();

        assert!(lock.must_be_ours().is_ok());
        drop(lock);

        assert_eq!(std::fs::read(lock_path(&there)).unwrap(), b"");
    }

    #[test]
    fn a_mark_says_whether_its_process_is_alive() {
        let own = Mark::of_this_process(7);
        let started = own.started + 1;
        assert_eq!(own.to_string().parse(), Ok(own));

        let (_alive, refused) = left_by(|mark| mark);
        let (_dead, taken) = left_by(|mark| Mark { started, ..mark });
        let (_copied, copied) = left_by(|mark| Mark { inode: 1, ..mark });
        let (_elsewhere, contested) = left_by(|mark| Mark { boot: "another".into(), ..mark });

        assert!(matches!(refused, Err(Error::Busy(_))));
        assert!(!taken.unwrap().is_contested());
        assert!(!copied.unwrap().is_contested());
        assert!(contested.unwrap().is_contested());
    }

    #[test]
    fn a_process_that_was_killed_holds_nothing_before_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = child.id();
        let started = Process::find(process).unwrap().started;
        let (_alive, refused) = left_by(|mark| Mark { process, started, ..mark });
        child.kill().unwrap();
        while !Process::find(process).unwrap().is_ending {
            std::thread::sleep(STEP);
        }

        let (_ended, taken) = left_by(|mark| Mark { process, started, ..mark });

        assert!(matches!(refused, Err(Error::Busy(_))));
        assert!(taken.is_ok());
        child.wait().unwrap();
    }
}
