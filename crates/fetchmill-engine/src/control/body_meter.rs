//! Counts received body bytes for `--max-bytes` and `--bwlimit`. Without these options, nothing is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::clock::Clock;
use fetchmill_model::planner::pace::ByteRate;

/// Byte counter that all threads of a job share. See the [module documentation](self). Each chunk of a body costs two
/// atomic additions.
#[derive(Debug)]
pub(crate) struct BodyMeter {
    clock: Clock,
    rate: Option<ByteRate>,
    received: AtomicU64,
}

impl BodyMeter {
    pub(crate) fn new(clock: Clock, rate: Option<f64>) -> Arc<Self> {
        Arc::new(BodyMeter { clock, rate: rate.map(ByteRate::new), received: AtomicU64::new(0) })
    }

    /// Counts body bytes that this process received.
    pub(crate) fn take(&self, bytes: usize) {
        self.count(bytes as u64);
        if let Some(rate) = &self.rate {
            rate.take(bytes, self.clock.micros());
        }
    }

    /// Counts body bytes that a Python engine received. The engine limits its rate itself.
    pub(crate) fn count(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes received in this run.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns how long the rate limit delays the next read, or `None` for no delay.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.rate.as_ref()?.wait(self.clock.micros())
    }
}
