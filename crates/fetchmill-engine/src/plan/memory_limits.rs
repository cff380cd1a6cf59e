//! The memory of the process: the required address space, and freed memory that the C library keeps.

use rustix::process::{Resource, getrlimit};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::MIB;

/// Address space of a job without workers, and of each worker, for the stacks and arenas of their threads. A job with
/// one worker took at most 715 MiB, and a job with eight at most 1,175 MiB.
const ADDRESS_BYTES: u64 = 640 * MIB as u64;
const ADDRESS_BYTES_A_WORKER: u64 = 80 * MIB as u64;
/// With more workers than this, the arenas of glibc keep more memory than the budget allows.
#[cfg(target_env = "gnu")]
const WORKERS_UNBOUNDED: usize = 4;
/// Larger blocks go back to the kernel when they are freed.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: libc::c_int = 4 * MIB as libc::c_int;

/// Fails if the address space is limited (`ulimit -v`) below the job's needs. A failed allocation would end the
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

/// Prevents glibc from raising its thresholds when larger blocks are freed. With such growth, eight workers with bodies
/// of a megabyte took 267 MiB. With a fixed threshold, they took 205 MiB.
#[cfg(target_env = "gnu")]
pub(crate) fn bound_kept_memory(workers: usize) {
    if workers > WORKERS_UNBOUNDED {
        #[expect(unsafe_code, reason = "the allocator is that of C")]
        // SAFETY: it sets a number that later allocations look at.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES_MAX);
        }
    }
}

/// Does nothing: the allocator of musl has no such thresholds.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn bound_kept_memory(_workers: usize) {}
