//! The progress of a program: how many items it took from its input, and which of them are unfinished. It is saved so
//! that the program can resume after a kill. A separate thread makes it durable once per commit window.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::request::custom_request::CustomRequest;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::Runs;
use fetchmill_store::journal::{JobLocation, ProgressStore, SavedProgress};

/// State of an input item that was just taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputState {
    /// An earlier run finished the item.
    Done,
    /// An earlier run took the item but did not finish it. The item is fetched again once the input is known to be the
    /// same.
    Missing,
    /// The item is new.
    New,
}

/// Progress of a program over its input. See the [module documentation](self).
#[derive(Debug)]
pub struct StreamProgress {
    /// Progress that the earlier run saved.
    before: SavedProgress,
    pulled: u64,
    digest: u64,
    /// Whether the input differs from the input of the earlier run. If so, this run saves nothing.
    is_refused: bool,
    /// Items that were taken but are not finished.
    missing: BTreeSet<u64>,
    keeper: Arc<ProgressSaver>,
    thread: Option<JoinHandle<()>>,
}

/// State shared with the thread that saves the progress.
#[derive(Debug, Default)]
struct ProgressSaver {
    /// Whether the commit window is over, so that the program must report its progress.
    is_wanted: AtomicBool,
    told: Mutex<SaverState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SaverState {
    saved: Option<SavedProgress>,
    is_ended: bool,
    failed: Option<Error>,
}

impl ProgressSaver {
    fn lock(&self) -> MutexGuard<'_, SaverState> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, progress: &ProgressStore) {
        loop {
            let told = self.lock();
            let waited = self.changed.wait_timeout_while(told, limits::COMMIT_WINDOW, |told| !told.is_ended);
            drop(waited);
            self.is_wanted.store(true, Ordering::Relaxed);
            let waited = self.changed.wait_while(self.lock(), |told| told.saved.is_none() && !told.is_ended);
            let mut told = waited.unwrap_or_else(PoisonError::into_inner);
            let (saved, is_ended) = (told.saved.take(), told.is_ended);
            drop(told);
            let done = saved.map_or(Ok(()), |saved| progress.save(&saved));
            let is_failed = done.is_err();
            self.lock().failed = done.err();
            if is_ended || is_failed {
                self.is_wanted.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

impl StreamProgress {
    /// Opens and locks a state folder. Creates the folder if it is missing.
    pub fn start(folder: &Path) -> Result<Self> {
        let (progress, before) = ProgressStore::open(JobLocation::prepare(folder, None)?)?;
        let keeper = Arc::new(ProgressSaver::default());
        let own = Arc::clone(&keeper);
        let started =
            std::thread::Builder::new().name("fetchmill-state".into()).spawn(move || own.keep(&progress));
        let thread = started.map_err(|error| Error::storage("start a thread in", "this process", error))?;
        Ok(StreamProgress {
            before,
            pulled: 0,
            digest: 0,
            is_refused: false,
            missing: BTreeSet::new(),
            keeper,
            thread: Some(thread),
        })
    }

    /// Returns the number of items that an earlier run took but did not finish.
    pub fn missing_before(&self) -> usize {
        self.before.missing.count() as usize
    }

    /// Returns whether the input has not reached the position of the earlier run yet.
    pub fn is_behind(&self) -> bool {
        self.pulled < self.before.pulled
    }

    /// Records that an item was taken from the input and returns its state.
    pub fn pull(&mut self, url: &str, call: Option<&CustomRequest>) -> Result<InputState> {
        let index = self.pulled;
        self.pulled += 1;
        self.digest = xxh3_64_with_seed(url.as_bytes(), self.digest);
        if let Some(call) = call {
            self.digest = xxh3_64_with_seed(call.method.as_bytes(), self.digest);
            self.digest = xxh3_64_with_seed(call.body.as_deref().unwrap_or_default(), self.digest);
        }
        if self.pulled == self.before.pulled && self.digest != self.before.digest {
            self.is_refused = true;
            return Err(self.differs());
        }
        let known = match index {
            _ if index >= self.before.pulled => InputState::New,
            _ if self.before.missing.contains(index) => InputState::Missing,
            _ => InputState::Done,
        };
        if known != InputState::Done {
            self.missing.insert(index);
        }
        Ok(known)
    }

    /// Records the end of the input. Fails if the earlier run took more items.
    pub fn end_of_input(&self) -> Result<()> {
        if self.is_behind() { Err(self.differs()) } else { Ok(()) }
    }

    fn differs(&self) -> Error {
        Error::Usage(format!(
            "the iterable differs from that of the earlier run, at or before item {}; pass the same items \
             in the same order, or use another state folder",
            self.before.pulled
        ))
    }

    /// Records that the program has finished an item.
    pub fn done(&mut self, index: u64) {
        self.missing.remove(&index);
    }

    /// Reports the progress if the commit window is over. Fails if the last save failed.
    pub fn tell(&mut self) -> Result<()> {
        if !self.keeper.is_wanted.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.keeper.is_wanted.store(false, Ordering::Relaxed);
        let mut told = self.keeper.lock();
        if let Some(error) = told.failed.take() {
            return Err(error);
        }
        told.saved = self.saved();
        self.keeper.changed.notify_one();
        Ok(())
    }

    /// Returns the progress to save. Returns `None` until the input reaches the position of the earlier run, because
    /// the old record stays valid until then. Also returns `None` if the input differs.
    fn saved(&self) -> Option<SavedProgress> {
        let mut missing: Vec<u64> = self.missing.iter().copied().collect();
        let missing = Runs::from_unsorted(&mut missing);
        (!self.is_behind() && !self.is_refused).then_some(SavedProgress {
            pulled: self.pulled,
            digest: self.digest,
            missing,
        })
    }

    /// Makes everything durable and unlocks the folder.
    pub fn end(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        {
            let mut told = self.keeper.lock();
            told.saved = self.saved();
            told.is_ended = true;
            self.keeper.changed.notify_one();
        }
        let joined = thread.join();
        let failed = self.keeper.lock().failed.take();
        match (joined, failed) {
            (Err(_), _) => Err(Error::Internal("the thread that saves the state has panicked".into())),
            (_, Some(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for StreamProgress {
    fn drop(&mut self) {
        // Call `end` first to see errors.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull_all(advance: &mut StreamProgress, urls: &[&str]) -> Vec<InputState> {
        urls.iter().map(|url| advance.pull(url, None).unwrap()).collect()
    }

    #[test]
    fn what_was_not_done_with_comes_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = StreamProgress::start(folder.path()).unwrap();
        assert_eq!(pull_all(&mut first, &["a", "b", "c"]), [InputState::New; 3]);
        first.done(0);
        first.done(2);
        first.end().unwrap();

        let mut second = StreamProgress::start(folder.path()).unwrap();

        assert_eq!(second.missing_before(), 1);
        let known = pull_all(&mut second, &["a", "b", "c", "d"]);
        assert_eq!(known, [InputState::Done, InputState::Missing, InputState::Done, InputState::New]);
    }

    #[test]
    fn another_input_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = StreamProgress::start(folder.path()).unwrap();
        pull_all(&mut first, &["a", "b"]);
        first.end().unwrap();

        let mut second = StreamProgress::start(folder.path()).unwrap();

        assert_eq!(pull_all(&mut second, &["b"]), [InputState::Missing]);
        assert!(second.end_of_input().is_err());
        assert!(
            second.pull("a", None).unwrap_err().to_string().contains("differs from that of the earlier run")
        );
        second.end().unwrap();
        let mut third = StreamProgress::start(folder.path()).unwrap();
        assert_eq!(pull_all(&mut third, &["a", "b"]), [InputState::Missing; 2]);
    }

    #[test]
    fn a_run_that_ends_early_keeps_what_was_known() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = StreamProgress::start(folder.path()).unwrap();
        pull_all(&mut first, &["a", "b"]);
        first.done(0);
        first.end().unwrap();
        let mut second = StreamProgress::start(folder.path()).unwrap();
        pull_all(&mut second, &["a"]);
        second.end().unwrap();

        let mut third = StreamProgress::start(folder.path()).unwrap();

        assert_eq!(pull_all(&mut third, &["a", "b"]), [InputState::Done, InputState::Missing]);
    }
}
