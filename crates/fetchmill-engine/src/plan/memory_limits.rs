//! The memory of the process: the address space that it needs, and the freed memory that the C library keeps.

#[cfg(target_env = "gnu")]
use std::thread::available_parallelism;

use rustix::process::{Resource, getrlimit};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::MIB;

/// Address space that a job needs in addition to that of its workers. In total, a job took up to 715 MiB with one worker
/// and up to 1,175 MiB with eight.
const ADDRESS_BYTES: u64 = 640 * MIB as u64;
/// Address space of a worker, which contains the stacks and arenas of its threads.
const ADDRESS_BYTES_A_WORKER: u64 = 80 * MIB as u64;
/// Number of workers above which the arenas of glibc keep more memory than the budget allows.
#[cfg(target_env = "gnu")]
const WORKERS_UNBOUNDED: usize = 4;
/// Minimum number of arenas: one for the main thread, and one for all other threads.
#[cfg(target_env = "gnu")]
const ARENAS_MIN: usize = 2;
/// Size above which freed blocks are returned to the kernel.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: libc::c_int = 4 * MIB as libc::c_int;

/// Fails if the address space is limited (`ulimit -v`) to less than the job needs. A failed allocation would abort the
/// process.
pub(crate) fn check_address_space(workers: usize) -> Result<()> {
    let needed = ADDRESS_BYTES + ADDRESS_BYTES_A_WORKER * workers as u64;
    match getrlimit(Resource::As).current {
        Some(allowed) if allowed < needed => Err(Error::Usage(format!(
            "only {} MiB of address space are allowed, but --threads {workers} needs {} MiB; raise the \
             limit (ulimit -v), or use fewer threads",
            allowed / MIB as u64,
            needed / MIB as u64
        ))),
        _ => Ok(()),
    }
}

/// Limits the freed memory that glibc keeps.
///
/// An arena keeps the memory that its threads have freed. By default, there are eight arenas per processor, and each
/// job starts new threads. After 16 jobs in one process, one more job took 90 MiB more than the first. With one arena
/// per processor, it takes 7 MiB more.
///
/// When larger blocks are freed, glibc raises its thresholds, and then keeps blocks of that size. With rising
/// thresholds, eight workers with bodies of one megabyte took 267 MiB. With fixed thresholds, they took 205 MiB.
#[cfg(target_env = "gnu")]
pub(crate) fn bound_kept_memory(workers: usize) {
    let arenas = available_parallelism().map_or(ARENAS_MIN, |count| count.get().max(ARENAS_MIN));
    #[expect(unsafe_code, reason = "the allocator belongs to the C library")]
    // SAFETY: these calls only set numbers, which later allocations read.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, libc::c_int::try_from(arenas).unwrap_or(libc::c_int::MAX));
        if workers > WORKERS_UNBOUNDED {
            libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES_MAX);
        }
    }
}

/// Does nothing, because musl's allocator has no such thresholds.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn bound_kept_memory(_workers: usize) {}
