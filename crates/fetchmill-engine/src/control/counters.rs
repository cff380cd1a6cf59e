//! Counters shown while a job runs. Each thread updates its own counters once per block, and readers add them up.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fetchmill_model::outcome::{FailureKind, KindCounts, Outcome, Tally};

/// Counters of one thread, on separate cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    listed: AtomicU64,
    /// Number of fetched objects. It can decrease, because some name conflicts are detected only after the object was
    /// fetched.
    fetched: AtomicI64,
    absent: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    bytes: AtomicI64,
    received: AtomicU64,
    attempts: AtomicU64,
    in_flight: AtomicU64,
    kinds: [AtomicU64; FailureKind::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            listed: AtomicU64::new(0),
            fetched: AtomicI64::new(0),
            absent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            bytes: AtomicI64::new(0),
            received: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            kinds: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// Counts to be added to a thread's counters.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    pub(crate) tally: Tally,
    /// Body bytes received for fetched objects, before any decoding.
    pub(crate) received: u64,
    pub(crate) attempts: u64,
    pub(crate) kinds: Vec<FailureKind>,
}

impl Delta {
    pub(crate) fn count(&mut self, outcome: Outcome, bytes: u64) {
        self.tally.count(outcome);
        self.tally.bytes += bytes;
        if let Outcome::Failed(kind) = outcome {
            self.kinds.push(kind);
        }
    }
}

impl Delta {
    /// Adds the counts of another delta and resets it.
    pub(crate) fn append(&mut self, other: &mut Delta) {
        self.tally.add(&std::mem::take(&mut other.tally));
        self.received += std::mem::take(&mut other.received);
        self.attempts += std::mem::take(&mut other.attempts);
        self.kinds.append(&mut other.kinds);
    }
}

impl Counters {
    pub(crate) fn listed(&self) -> u64 {
        self.listed.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, delta: &mut Delta) {
        let Delta { tally, received, attempts, kinds } = std::mem::take(delta);
        self.fetched.fetch_add(tally.fetched as i64, Ordering::Relaxed);
        self.absent.fetch_add(tally.absent, Ordering::Relaxed);
        self.failed.fetch_add(tally.failed, Ordering::Relaxed);
        self.bytes.fetch_add(tally.bytes as i64, Ordering::Relaxed);
        self.received.fetch_add(received, Ordering::Relaxed);
        self.attempts.fetch_add(attempts, Ordering::Relaxed);
        for kind in kinds {
            self.kinds[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_listed(&self, listed: u64, skipped: u64) {
        self.listed.fetch_add(listed, Ordering::Relaxed);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
    }

    /// Counts a fetched object as failed, because it could not be moved into place.
    pub(crate) fn refuse(&self, kind: FailureKind) {
        self.fetched.fetch_sub(1, Ordering::Relaxed);
        self.fail(kind);
    }

    /// Counts the effect of a transform, which can change the outcome or the size.
    pub(crate) fn transform(&self, outcome: Outcome, bytes: u64, bytes_before: u64) {
        self.bytes.fetch_add(bytes as i64 - bytes_before as i64, Ordering::Relaxed);
        match outcome {
            Outcome::Failed(kind) => self.refuse(kind),
            Outcome::Skipped(_) => {
                self.fetched.fetch_sub(1, Ordering::Relaxed);
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Fetched | Outcome::Absent => {}
        }
    }

    /// Counts a target that failed without a reply.
    pub(crate) fn fail(&self, kind: FailureKind) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.kinds[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts an outcome that will never be durable.
    pub(crate) fn take_back(&self, outcome: Outcome, bytes: u64) {
        self.bytes.fetch_sub(bytes as i64, Ordering::Relaxed);
        match outcome {
            Outcome::Fetched => _ = self.fetched.fetch_sub(1, Ordering::Relaxed),
            Outcome::Absent => _ = self.absent.fetch_sub(1, Ordering::Relaxed),
            Outcome::Skipped(_) => _ = self.skipped.fetch_sub(1, Ordering::Relaxed),
            Outcome::Failed(kind) => {
                self.failed.fetch_sub(1, Ordering::Relaxed);
                self.kinds[kind as usize].fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn set_in_flight(&self, in_flight: u64) {
        self.in_flight.store(in_flight, Ordering::Relaxed);
    }
}

/// Sum of all counters in this run.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    /// Outcomes in this run.
    pub tally: Tally,
    /// Body bytes received for fetched objects.
    pub received: u64,
    /// Number of requests sent.
    pub attempts: u64,
    /// Number of requests currently in flight.
    pub in_flight: u64,
    /// Failures by kind.
    pub kinds: KindCounts,
}

pub(crate) fn sum<'c>(all: impl Iterator<Item = &'c Counters>) -> Sum {
    let mut sum = Sum::default();
    let (mut fetched, mut bytes) = (0_i64, 0_i64);
    for counters in all {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.tally.listed += read(&counters.listed);
        fetched += counters.fetched.load(Ordering::Relaxed);
        sum.tally.absent += read(&counters.absent);
        sum.tally.failed += read(&counters.failed);
        sum.tally.skipped += read(&counters.skipped);
        bytes += counters.bytes.load(Ordering::Relaxed);
        sum.received += read(&counters.received);
        sum.attempts += read(&counters.attempts);
        sum.in_flight += read(&counters.in_flight);
        for (kind, counter) in FailureKind::ALL.iter().zip(&counters.kinds) {
            match read(counter) {
                0 => {}
                count => sum.kinds.add(*kind, count),
            }
        }
    }
    sum.tally.fetched = fetched.max(0) as u64;
    sum.tally.bytes = bytes.max(0) as u64;
    sum
}
