//! State that the threads of a verification share: progress, findings, and the stop signal.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender};

use super::finding::{Finding, FindingKind};

/// Maximum number of findings that nobody has taken yet. At this limit, threads that have another finding wait.
pub(super) const FINDINGS_WAITING_MAX: usize = 4096;
/// Interval at which a waiting thread checks for the stop signal.
const STEP: Duration = Duration::from_millis(50);

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct VerifyMonitor {
    is_stopped: AtomicBool,
    bytes_total: AtomicU64,
    bytes: AtomicU64,
    objects: AtomicU64,
    found: [AtomicU64; FindingKind::ALL.len()],
    findings: AtomicU64,
    beyond_repair: AtomicU64,
    to_reader: Sender<Finding>,
}

impl VerifyMonitor {
    pub(super) fn new(to_reader: Sender<Finding>) -> Self {
        VerifyMonitor {
            is_stopped: AtomicBool::new(false),
            bytes_total: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            found: Default::default(),
            findings: AtomicU64::new(0),
            beyond_repair: AtomicU64::new(0),
            to_reader,
        }
    }

    /// Adds to the number of bytes to read.
    pub(super) fn expect(&self, bytes: u64) {
        self.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds to the numbers of bytes and objects read. Called once per batch.
    pub(super) fn advance(&self, bytes: u64, objects: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.objects.fetch_add(objects, Ordering::Relaxed);
    }

    /// Reports a finding. Waits if there are too many.
    pub(super) fn find(&self, finding: Finding) {
        if let Some(count) = self.found.get(finding.what as usize) {
            // A finding about one of the job's own files counts as one.
            count.fetch_add(finding.objects.max(1), Ordering::Relaxed);
        }
        self.findings.fetch_add(1, Ordering::Relaxed);
        self.beyond_repair.fetch_add(u64::from(!finding.is_repairable), Ordering::Relaxed);
        let mut waiting = finding;
        while !self.is_stopped() {
            match self.to_reader.send_timeout(waiting, STEP) {
                Err(SendTimeoutError::Timeout(back)) => waiting = back,
                // Nobody takes findings any more, so counting them is enough.
                Ok(()) | Err(SendTimeoutError::Disconnected(_)) => return,
            }
        }
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Returns the number of objects or files that have this kind of problem.
    pub(super) fn found(&self, what: FindingKind) -> u64 {
        self.found.get(what as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns whether a repair can fix all findings.
    pub(super) fn is_repairable(&self) -> bool {
        self.beyond_repair.load(Ordering::Relaxed) == 0
    }

    /// Returns the progress.
    pub(super) fn progress(&self) -> VerifyProgress {
        VerifyProgress {
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_total: self.bytes_total.load(Ordering::Relaxed),
            objects: self.objects.load(Ordering::Relaxed),
            findings: self.findings.load(Ordering::Relaxed),
        }
    }
}

/// Progress of a verification.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes read so far.
    pub bytes: u64,
    /// Total number of bytes to read.
    pub bytes_total: u64,
    /// Objects verified so far.
    pub objects: u64,
    /// Findings so far.
    pub findings: u64,
}
