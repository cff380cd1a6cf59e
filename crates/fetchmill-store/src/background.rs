//! Work that runs on its own threads and ends with a result, for which a caller can wait. A panic in one of the threads
//! ends the work.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::panics::PanicNote;

/// A thread that does some work and ends with a result.
#[derive(Debug)]
pub struct Background<T> {
    shared: Arc<BackgroundState<T>>,
    panics: Arc<PanicNote>,
    /// Handle of the thread. `None` once the thread has been joined or abandoned.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Time when a panic was first noticed.
    panicked_at: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct BackgroundState<T> {
    end: Mutex<BackgroundEnd<T>>,
    has_ended: Condvar,
}

/// Whether the work has ended, and its result until a caller takes it.
#[derive(Debug)]
struct BackgroundEnd<T> {
    is_here: bool,
    result: Option<Result<T>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave this simple data inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> BackgroundState<T> {
    /// Records the end of the work. Only the first call has an effect.
    fn end(&self, result: Result<T>) {
        let mut end = lock(&self.end);
        if !end.is_here {
            *end = BackgroundEnd { is_here: true, result: Some(result) };
        }
        self.has_ended.notify_all();
    }
}

impl<T: Send + 'static> Background<T> {
    /// Starts the thread. All threads that do the work record their panics in `panics`.
    pub fn start(
        name: &str,
        panics: &Arc<PanicNote>,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Self> {
        let end = Mutex::new(BackgroundEnd { is_here: false, result: None });
        let shared = Arc::new(BackgroundState { end, has_ended: Condvar::new() });
        let (for_thread, note) = (Arc::clone(&shared), Arc::clone(panics));
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let done = note.watch(work);
            for_thread.end(done.unwrap_or_else(|| Err(panicked(&note))));
        });
        let thread = thread.map_err(|error| Error::storage("start a thread in", "this process", error))?;
        Ok(Background {
            shared,
            panics: Arc::clone(panics),
            thread: Mutex::new(Some(thread)),
            panicked_at: Mutex::default(),
        })
    }

    /// Waits for up to `timeout` for the work to end. Returns whether it has ended. After a panic, the work ends within
    /// `limits::PANIC_END`. Threads that are still waiting for the panicked one are abandoned.
    pub fn wait(&self, timeout: Duration) -> bool {
        let end = lock(&self.shared.end);
        let waited = self.shared.has_ended.wait_timeout_while(end, timeout, |end| !end.is_here);
        let has_ended = waited.unwrap_or_else(PoisonError::into_inner).0.is_here;
        if has_ended {
            if let Some(thread) = lock(&self.thread).take() {
                // The work has ended, so the thread is about to return.
                let _ = thread.join();
            }
        } else if self.is_stuck() {
            lock(&self.thread).take();
            self.shared.end(Err(panicked(&self.panics)));
        }
        self.has_ended()
    }

    /// Returns whether a panic happened so long ago that the work can no longer be expected to end.
    fn is_stuck(&self) -> bool {
        let mut at = lock(&self.panicked_at);
        self.panics.error().is_some() && at.get_or_insert_with(Instant::now).elapsed() >= limits::PANIC_END
    }

    /// Returns whether the work has ended.
    pub fn has_ended(&self) -> bool {
        lock(&self.shared.end).is_here
    }

    /// Returns the result once the work has ended. Only the first call returns it.
    pub fn take(&self) -> Option<Result<T>> {
        lock(&self.shared.end).result.take()
    }

    /// Waits until the work has ended. The caller must have asked it to stop.
    pub fn join(&self) {
        while !self.wait(limits::PANIC_END) {}
    }
}

fn panicked(panics: &PanicNote) -> Error {
    panics.error().unwrap_or_else(|| Error::Internal("a thread has panicked".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_taken_once() {
        let work = Background::start("work", &Arc::default(), || Ok(7)).expect("a thread");
        work.join();
        assert!(matches!(work.take(), Some(Ok(7))));
        assert!(work.take().is_none() && work.has_ended());
    }

    #[test]
    fn a_panic_is_an_error() {
        let work =
            Background::<()>::start("work", &Arc::default(), || panic!("on purpose")).expect("a thread");
        work.join();
        assert!(matches!(work.take(), Some(Err(Error::Internal(why))) if why.contains("on purpose")));
    }

    #[test]
    fn a_thread_that_waits_for_one_that_has_panicked_is_left_behind() {
        let panics = Arc::new(PanicNote::default());
        let note = Arc::clone(&panics);
        let (keeps_it, waits) = std::sync::mpsc::channel::<()>();
        let work = Background::<()>::start("work", &panics, move || {
            note.watch(|| panic!("beside it"));
            let _ = waits.recv();
            Ok(())
        });
        let work = work.expect("a thread");
        let started = Instant::now();
        work.join();
        assert!(started.elapsed() >= limits::PANIC_END);
        assert!(matches!(work.take(), Some(Err(Error::Internal(why))) if why.contains("beside it")));
        drop(keeps_it);
    }
}
