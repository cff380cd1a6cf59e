//! The location of a job: its destination, its state folder, and the lock that keeps concurrent runs out.

pub(super) mod lock;
mod state_folder;

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use self::lock::JobLock;
use self::state_folder::{beside, refuse_links, refuse_links_below, refuse_others};
use crate::durable;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::STATE_FOLDER;
use fetchmill_model::s3::UploadDestination;

/// File systems on which locks or shared memory do not work across machines, by their Linux `statfs` magic numbers.
const NETWORK_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x0102_1997, "9p"),
];

/// The location of a job.
#[derive(Debug)]
pub struct JobLocation {
    /// Destination of the objects.
    pub dest: PathBuf,
    /// State folder of the job.
    pub state: PathBuf,
    /// Whether the job writes a single file. If so, everything else is in the state folder.
    is_one_file: bool,
    lock: Option<JobLock>,
    /// File system identity of the folder in which the job was started.
    folder: Option<FolderId>,
}

/// Identity of a folder. It does not depend on the folder's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FolderId {
    device: u64,
    inode: u64,
}

impl FolderId {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(FolderId { device: found.dev(), inode: found.ino() })
    }
}

impl JobLocation {
    /// Creates missing folders, rejects a folder that does not belong to a job, and takes the lock.
    pub fn prepare(dest: &Path, state: Option<&Path>) -> Result<Self> {
        let is_named = state.is_some();
        let state = state_folder::find(dest, state)?;
        refuse_synced(dest, "only a sync may change the folder")?;
        if is_named {
            refuse_others(&state)?;
        }
        if !state.join("job.sqlite").exists() {
            refuse_foreign(dest)?;
        }
        make_folder(dest, 0o777)?;
        let hidden = dest.join(STATE_FOLDER);
        make_folder(&hidden, 0o700)?;
        make_folder(&state, 0o700)?;
        refuse_network(&state)?;
        if state != hidden {
            state_folder::claim(&hidden, &state)?;
        }
        let mut place =
            JobLocation { dest: dest.to_owned(), state, is_one_file: false, lock: None, folder: None };
        place.lock = Some(JobLock::take(&place.state, &place.dest)?);
        place.folder = FolderId::of(place.kept_folder());
        Ok(place)
    }

    /// Fails if the state folder that the user named contains the job of another destination.
    pub fn refuse_state_of_other(dest: &Path, state: Option<&Path>) -> Result<()> {
        let Some(state) = state.filter(|state| state.join("job.sqlite").exists()) else { return Ok(()) };
        if state_folder::is_of(&dest.join(STATE_FOLDER), state) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{} holds the job of another destination, not of {}; choose another folder for --state",
            state.display(),
            dest.display()
        )))
    }

    /// Prepares a job that writes a single file. Its state folder is `state`, or a folder next to the file.
    pub fn prepare_file(file: &Path, state: Option<&Path>) -> Result<Self> {
        let state = state.map_or_else(|| beside(file), Path::to_owned);
        refuse_links_below(&state)?;
        refuse_others(&state)?;
        make_folder(&state, 0o700)?;
        refuse_network(&state)?;
        let mut place =
            JobLocation { dest: file.to_owned(), state, is_one_file: true, lock: None, folder: None };
        place.lock = Some(JobLock::take(&place.state, &place.dest)?);
        place.folder = FolderId::of(place.kept_folder());
        Ok(place)
    }

    /// Prepares a job that uploads its shards to a bucket. Until the upload, the shards are in the state folder, which
    /// is `state` or a folder in the working directory.
    pub fn prepare_bucket(upload: &UploadDestination, state: Option<&Path>) -> Result<Self> {
        let state = state.map_or_else(|| upload.state_folder(), Path::to_owned);
        let dest = UploadDestination::shards_folder(&state);
        refuse_links_below(&state)?;
        refuse_others(&state)?;
        if !state.join("job.sqlite").exists() {
            refuse_foreign(&dest)?;
        }
        make_folder(&state, 0o700)?;
        refuse_network(&state)?;
        make_folder(&dest.join(STATE_FOLDER), 0o700)?;
        let mut place = JobLocation { dest, state, is_one_file: false, lock: None, folder: None };
        place.lock = Some(JobLock::take(&place.state, &place.dest)?);
        place.folder = FolderId::of(place.kept_folder());
        Ok(place)
    }

    /// Prepares a folder that a sync maintains, with its state folder. Returns the lock. If `accepts_foreign` is set,
    /// the folder may contain files that neither a job nor a sync wrote.
    pub fn prepare_synced(dest: &Path, state: &Path, accepts_foreign: bool) -> Result<JobLock> {
        // The base does not exist until the first pass has ended.
        refuse_links(&dest.join(STATE_FOLDER))?;
        let is_ours = ["base.sqlite", "pass.json"].iter().any(|name| state.join(name).exists());
        if !is_ours && !accepts_foreign && !dest.join(STATE_FOLDER).join("job.sqlite").exists() {
            refuse_foreign(dest)?;
        }
        make_folder(dest, 0o777)?;
        make_folder(&dest.join(STATE_FOLDER), 0o700)?;
        make_folder(state, 0o700)?;
        refuse_network(state)?;
        durable::sync_folders_up(state).map_err(|error| Error::storage("sync", state, error))?;
        JobLock::take(state, dest)
    }

    /// Returns whether a job that writes this file already has a journal.
    pub fn has_journal(file: &Path, state: Option<&Path>) -> bool {
        state.map_or_else(|| beside(file), Path::to_owned).join("job.sqlite").exists()
    }

    /// Makes the folders of the job durable. Without this, a power cut could remove the journal.
    pub fn sync(&self) -> Result<()> {
        let hidden = self.dest.join(STATE_FOLDER);
        let hidden = (!self.is_one_file).then_some(&hidden);
        for folder in hidden.into_iter().chain([&self.state]) {
            durable::sync_folders_up(folder).map_err(|error| Error::storage("sync", folder, error))?;
        }
        Ok(())
    }

    /// Finds an existing job for reading.
    pub fn find(dest: &Path, state: Option<&Path>) -> Result<Self> {
        if let Some(upload) = UploadDestination::of(dest)? {
            return Self::find_bucket(&upload, state);
        }
        let state = state_folder::find(dest, state)?;
        if state.join("job.sqlite").exists() {
            let is_one_file = !dest.is_dir();
            Ok(JobLocation { dest: dest.to_owned(), state, is_one_file, lock: None, folder: None })
        } else {
            refuse_synced(dest, "the folder has no job, and its objects (if any) are plain files")?;
            let dest = dest.display();
            Err(Error::Usage(format!(
                "{dest} holds no fetchmill job; specify a folder written by `fetchmill get`"
            )))
        }
    }

    fn find_bucket(upload: &UploadDestination, state: Option<&Path>) -> Result<Self> {
        let state = state.map_or_else(|| upload.state_folder(), Path::to_owned);
        if state.join("job.sqlite").exists() {
            refuse_links_below(&state)?;
            return Ok(JobLocation {
                dest: UploadDestination::shards_folder(&state),
                state,
                is_one_file: false,
                lock: None,
                folder: None,
            });
        }
        Err(Error::Usage(format!(
            "no job found in {} that writes to {}; run this command in the folder where the job was \
             started, or give the job's journal folder with --state DIR",
            state.display(),
            upload.text()
        )))
    }

    /// Finds an existing job that no process is working on. While the result exists, no process can start to work on
    /// the job.
    pub fn look(dest: &Path, state: Option<&Path>) -> Result<Self> {
        let mut place = Self::find(dest, state)?;
        // If the lock file is missing, no process has worked on the job yet, or none can because the folder is not
        // writable.
        place.lock = JobLock::share(&place.state, &place.dest)?;
        Ok(place)
    }

    /// Finds and locks an existing job in order to change it.
    pub fn take(dest: &Path, state: Option<&Path>) -> Result<Self> {
        refuse_synced(dest, "only a sync may change the folder")?;
        let mut place = Self::find(dest, state)?;
        place.lock = Some(JobLock::take(&place.state, &place.dest)?);
        Ok(place)
    }

    /// Takes the journal of a folder that a sync maintains or takes over from a job.
    pub fn take_for_sync(dest: &Path) -> Result<Self> {
        let state = dest.join(STATE_FOLDER);
        refuse_links(&state)?;
        let mut place =
            JobLocation { dest: dest.to_owned(), state, is_one_file: false, lock: None, folder: None };
        place.lock = Some(JobLock::take(&place.state, &place.dest)?);
        Ok(place)
    }

    /// Returns whether the journal is in the destination itself. If so, the shards are in the destination as well, even
    /// if a job uploaded them to a bucket and a user copied them back.
    pub fn has_own_journal(&self) -> bool {
        self.state == self.dest.join(STATE_FOLDER)
    }

    /// Returns the folder that must not be moved while the job runs.
    fn kept_folder(&self) -> &Path {
        if self.is_one_file { &self.state } else { &self.dest }
    }

    /// Fails if the job's folder was moved. Otherwise, open files would stay in the moved folder while new files would
    /// be created elsewhere.
    pub fn must_be_in_place(&self) -> Result<()> {
        let path = self.kept_folder();
        if self.folder.is_none() || FolderId::of(path) == self.folder {
            return Ok(());
        }
        Err(Error::Moved(format!(
            "{} was moved or replaced while the job was running; to resume, move the folder back, or run \
             the same command with its new path (committed objects are in the moved folder)",
            path.display()
        )))
    }

    /// Returns the path of the journal.
    pub fn journal_path(&self) -> PathBuf {
        self.state.join("job.sqlite")
    }

    /// Returns the folder for uncommitted objects. It is on the same file system as the destination, even if the state
    /// is not.
    pub fn stage_path(&self) -> PathBuf {
        if self.is_one_file { self.state.join("stage") } else { self.dest.join(STATE_FOLDER).join("stage") }
    }

    /// Returns the folder with the manifests of the `files` format.
    pub fn manifests_path(&self) -> PathBuf {
        self.state.join("manifests")
    }

    /// Returns the folder with the failures shards.
    pub fn failures_path(&self) -> PathBuf {
        self.state.join("failures")
    }

    /// Returns whether a run on another machine may still write to the job's files.
    pub fn is_contested(&self) -> bool {
        self.lock.as_ref().is_some_and(JobLock::is_contested)
    }

    /// Fails with exit code 9 if another run has taken over the job.
    pub fn must_be_ours(&self) -> Result<()> {
        self.lock.as_ref().map_or(Ok(()), JobLock::must_be_ours)
    }

    /// Returns whether another process holds the lock.
    pub fn is_running(&self) -> bool {
        self.lock.is_none() && JobLock::is_taken(&self.state)
    }
}

/// Rejects a folder that a sync maintains. Such a folder does not count as a job, because its contents change with
/// every pass.
fn refuse_synced(dest: &Path, why: &str) -> Result<()> {
    let folder = dest.join(STATE_FOLDER).join("sync");
    if !["base.sqlite", "pass.json"].iter().any(|name| folder.join(name).exists()) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} is the destination of `fetchmill sync`: {why}; `fetchmill status` shows the last pass",
        dest.display()
    )))
}

fn refuse_foreign(dest: &Path) -> Result<()> {
    let shown = dest.display();
    match std::fs::read_dir(dest) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(Error::Usage(format!("{shown} is not a folder; choose a new or empty folder as destination")))
        }
        Err(error) => Err(Error::storage("read", dest, error)),
        Ok(mut entries) => {
            let foreign =
                entries.find_map(|entry| entry.ok().filter(|entry| entry.file_name() != STATE_FOLDER));
            match foreign {
                None => Ok(()),
                Some(entry) => Err(Error::Usage(format!(
                    "{shown} is not empty and holds no fetchmill job (it contains {}); choose a new or \
                     empty destination",
                    entry.file_name().display()
                ))),
            }
        }
    }
}

fn make_folder(path: &Path, mode: u32) -> Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path).map_err(|error| match error.kind() {
        // Missing parent folders were created too, so the error can only mean that the file system does not allow new
        // folders, like /proc.
        std::io::ErrorKind::NotFound => Error::Usage(format!(
            "cannot create the folder {}: its file system does not support folders; choose a folder \
             elsewhere",
            path.display()
        )),
        _ => Error::storage("create the folder", path, error),
    })
}

fn refuse_network(state: &Path) -> Result<()> {
    let Ok(found) = rustix::fs::statfs(state) else {
        return Ok(());
    };
    match NETWORK_FILE_SYSTEMS.iter().find(|(magic, _)| *magic == found.f_type) {
        None => Ok(()),
        Some((_, name)) => Err(Error::Usage(format!(
            "{} is on a network file system ({name}), where file locks are not reliable; keep the job's \
             state on a local disk with --state DIR",
            state.display()
        ))),
    }
}
