//! The lock on a job's folder, and the mark of the run that holds it.
//!
//! Some file systems grant every lock. So a run writes a mark into the lock file, and before it changes the folder as a
//! whole it checks that the mark is still there. Each transaction of a journal checks a number besides
//! ([`crate::journal::database::fence`]). A run that ends removes its mark. One that finds a mark looks whether its process is alive.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::durable;
use fetchmill_model::error::{Error, Result};

/// Longer than any mark.
const MARK_BYTES_MAX: u64 = 4096;

/// See the module. Dropping it gives the lock back.
#[derive(Debug)]
pub struct JobLock {
    file: File,
    path: PathBuf,
    /// None: it is shared with other readers.
    mark: Option<String>,
    is_contested: bool,
}

impl JobLock {
    /// Takes the lock of a state folder for the job of a destination, and marks it.
    pub(in crate::journal) fn take(state: &Path, dest: &Path) -> Result<Self> {
        let path = lock_path(state);
        let mut options = File::options();
        let opened = options.create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = opened.map_err(|error| Error::storage("open", &path, error))?;
        lock(&file, FlockOperation::NonBlockingLockExclusive, &path, dest)?;
        let mut found = String::new();
        // What cannot be read is no mark.
        let _ = (&mut file).take(MARK_BYTES_MAX).read_to_string(&mut found);
        let own = Mark::of_this_process(inode_of(&file));
        // That of another file came with a copy.
        let before = found.parse::<Mark>().ok().filter(|before| before.inode == own.inode);
        if before.as_ref().is_some_and(|before| before.is_visible_to(&own) && before.is_alive()) {
            return Err(busy(dest, "although its file system granted the lock"));
        }
        let is_contested = before.is_some_and(|before| !before.is_visible_to(&own));
        let mark = own.to_string();
        durable::write_whole(&mut file, mark.as_bytes())
            .map_err(|error| Error::storage("write", &path, error))?;
        Ok(JobLock { file, path, mark: Some(mark), is_contested })
    }

    /// Shares the lock with other readers; none where no run has made it.
    pub(in crate::journal) fn share(state: &Path, dest: &Path) -> Result<Option<Self>> {
        let path = lock_path(state);
        let Ok(file) = File::open(&path) else { return Ok(None) };
        lock(&file, FlockOperation::NonBlockingLockShared, &path, dest)?;
        Ok(Some(JobLock { file, path, mark: None, is_contested: false }))
    }

    /// Whether another process holds the lock of a state folder.
    pub(in crate::journal) fn is_taken(state: &Path) -> bool {
        File::open(lock_path(state)).is_ok_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
        })
    }

    /// Whether a run of another machine has left its mark: nobody here knows whether it is alive.
    pub fn is_contested(&self) -> bool {
        self.is_contested
    }

    /// Fails with exit code 9 if another run has marked the lock since.
    pub fn must_be_ours(&self) -> Result<()> {
        let Some(mark) = &self.mark else { return Ok(()) };
        // Opened again: a network file system shows what others have written to who opens a file. Where it is not there any
        // more the folder was moved, which others look for.
        match std::fs::read(&self.path) {
            Ok(found) if found != mark.as_bytes() => Err(taken_over(&self.path)),
            _ => Ok(()),
        }
    }

    /// Whether the file that was locked has its mark, wherever that is now.
    fn has_mark(&self) -> bool {
        let mut found = vec![0; MARK_BYTES_MAX as usize];
        let read = self.file.read_at(&mut found, 0).unwrap_or_default();
        self.mark.as_ref().is_some_and(|mark| found.get(..read) == Some(mark.as_bytes()))
    }
}

impl Drop for JobLock {
    fn drop(&mut self) {
        if self.has_mark() {
            // A mark that stays is that of a process which is not there any more.
            let _ = durable::write_whole(&mut self.file, b"");
        }
    }
}

/// What a run says that has lost its folder to another one.
pub(in crate::journal) fn taken_over(path: &Path) -> Error {
    Error::Busy(format!(
        "{}: another run has taken this job over although its lock was held; this file system grants every lock, so start \
         one run at a time",
        path.display()
    ))
}

/// Which process holds a lock, in words that a space separates.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    /// Of the kernel that runs.
    boot: String,
    /// The namespace of its number.
    namespace: String,
    process: u32,
    /// When it was started, in ticks of that kernel.
    started: u64,
    /// Nanoseconds since 1970 UTC: a process may have one lock after the other.
    moment: u128,
    /// Of the lock file.
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
            started: started_at(std::process::id()).unwrap_or_default(),
            moment: since.as_nanos(),
            inode,
        }
    }

    /// Whether its process would be seen by the other one's.
    fn is_visible_to(&self, other: &Mark) -> bool {
        (&self.boot, &self.namespace) == (&other.boot, &other.namespace)
    }

    fn is_alive(&self) -> bool {
        started_at(self.process) == Some(self.started)
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

/// When a process was started (`proc_pid_stat(5)`, field 22); none if it is not there.
fn started_at(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in brackets, may have spaces.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

fn lock_path(state: &Path) -> PathBuf {
    state.join("lock")
}

fn busy(dest: &Path, although: &str) -> Error {
    let although = if although.is_empty() { String::new() } else { format!(" {although}") };
    Error::Busy(format!(
        "another fetchmill is working on {}{although}; wait for it or stop it, then run this again",
        dest.display()
    ))
}

fn lock(file: &File, how: FlockOperation, path: &Path, dest: &Path) -> Result<()> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(busy(dest, "")),
        Err(error) => Err(Error::storage("lock", path, error)),
    }
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
}
