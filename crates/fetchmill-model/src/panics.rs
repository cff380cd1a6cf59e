//! Handling of panics. The first panic in a job's threads is recorded as one line for the caller that waits for the
//! job. Only the panic hook sees every panic. If a task panics, the event queue drops the panic, and the task's targets
//! would otherwise never get an outcome.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

use crate::error::Error;

/// The first panic in a group of threads. The hook writes it without taking a lock, because the panicking thread may
/// already hold one.
#[derive(Debug, Default)]
pub struct PanicNote {
    message: OnceLock<String>,
}

thread_local! {
    static NOTE: RefCell<Option<Arc<PanicNote>>> = const { RefCell::new(None) };
    /// Whether a library is expected to panic now. Such panics are caught and become errors.
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

impl PanicNote {
    /// Returns the error of a job that has panicked.
    pub fn error(&self) -> Option<Error> {
        self.message.get().map(|message| Error::Internal(message.clone()))
    }

    /// Runs a function on this thread. Panics in the function, in its tasks, and in threads that the function starts
    /// with [`inherited`] are recorded here. Returns `None` after a panic.
    pub fn watch<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> Option<T> {
        install_hook();
        let outer = NOTE.replace(Some(Arc::clone(self)));
        let done = catch_unwind(AssertUnwindSafe(work));
        NOTE.set(outer);
        done.ok()
    }
}

/// Wraps a function for a new thread, so that its panics are recorded in the same place as this thread's panics.
pub fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let note = NOTE.with_borrow(Clone::clone);
    move || {
        NOTE.set(note);
        work()
    }
}

/// Runs code that may panic on damaged input. Returns `None` after a panic. After that, values that the code used can
/// only be dropped.
pub fn expected<T>(work: impl FnOnce() -> T) -> Option<T> {
    install_hook();
    let outer = IS_EXPECTED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_EXPECTED.set(outer);
    done.ok()
}

/// Wraps the existing hook, which continues to print the panics of all other threads.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let printing = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IS_EXPECTED.get() {
                return;
            }
            let is_noted =
                NOTE.with(|note| note.try_borrow().is_ok_and(|note| write(note.as_deref(), panic)));
            if !is_noted || std::env::var_os("RUST_BACKTRACE").is_some() {
                printing(panic);
            }
        }));
    });
}

fn write(note: Option<&PanicNote>, panic: &PanicHookInfo<'_>) -> bool {
    let Some(note) = note else { return false };
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let place = panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
    let why = panic.payload_as_str().unwrap_or("no message");
    // Keep only the first panic, because a later one may be a consequence of it.
    let _ = note.message.set(format!("the thread {thread} has panicked{place}: {why}"));
    true
}

/// Locks a mutex whose holder may have panicked. This is safe, because a panic ends the job anyway and the data has no
/// invariants.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_is_noted_with_its_place() {
        let note = Arc::new(PanicNote::default());
        assert_eq!(note.watch(|| 7), Some(7));
        assert!(note.error().is_none());
        assert_eq!(note.watch(|| -> u8 { panic!("first") }), None);
        assert_eq!(note.watch(|| -> u8 { panic!("second") }), None);
        let error = note.error().expect("noted").to_string();
        assert!(error.contains("first") && error.contains("panics.rs:"), "{error}");
    }

    #[test]
    fn a_panic_of_a_task_is_noted_though_nobody_awaits_it() {
        let note = Arc::new(PanicNote::default());
        let runtime = tokio::runtime::LocalRuntime::new().expect("a runtime");
        let done = note.watch(|| {
            runtime.block_on(async {
                tokio::task::spawn_local(async { panic!("in a task") });
                tokio::task::yield_now().await;
            });
        });
        assert_eq!((done, note.error().is_some()), (Some(()), true));
    }

    #[test]
    fn a_panic_of_a_thread_s_thread_is_noted() {
        let note = Arc::new(PanicNote::default());
        note.watch(|| std::thread::spawn(inherited(|| panic!("below"))).join().is_err());
        assert!(note.error().is_some());
    }

    #[test]
    fn an_expected_panic_is_not_noted() {
        let note = Arc::new(PanicNote::default());
        assert_eq!(note.watch(|| expected(|| -> u8 { panic!("damage") })), Some(None));
        assert!(note.error().is_none());
    }
}
