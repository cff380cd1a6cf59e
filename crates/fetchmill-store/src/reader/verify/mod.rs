//! Verifies a destination on all processors. Checks the ledger (listed = fetched + absent + failed + skipped, each
//! target exactly once) and all checksums. Reports objects and files that are missing, damaged, duplicated or unknown.
//!
//! A verification changes nothing, and no job can start while it runs. If a repair was requested, it plans damaged
//! objects again.
//!
//! The ledger takes one bit per target (125 MB for a billion targets), and a damaged shard takes two bits per object.
//! Findings are passed on one by one, so they do not accumulate.

mod files;
mod finding;
mod ledger;
mod monitor;
mod repair;
mod run;
mod sample;
mod shards;

pub use finding::{Finding, FindingKind};
pub use ledger::LedgerCounts;
pub use ledger::check_prefix;
pub use monitor::VerifyProgress;
pub use repair::RepairReport;
pub(crate) use repair::tidy;
pub use sample::SampledObject;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use self::monitor::{FINDINGS_WAITING_MAX, VerifyMonitor};
use self::run::VerifyRun;
use self::sample::ObjectSample;
use self::shards::FoundFaults;
use crate::background::Background;
use crate::journal::{JobLocation, JournalSnapshot, must_be_here, must_have_objects, read_status};
use crate::reader::ObjectOrigin;
use crate::reader::bits::Bits;
use crate::sink::Format;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::Tally;

/// Options of a verification.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// The destination.
    pub dest: PathBuf,
    /// Journal folder of the job, if it is separate.
    pub state: Option<PathBuf>,
    /// Number of reading threads. `None` means one per processor.
    pub threads: Option<usize>,
    /// Whether to plan damaged objects again.
    pub repair: bool,
    /// Number of objects to compare with the origin.
    pub sample: usize,
    /// Seed of the random sample.
    pub seed: u64,
    /// Origin to compare with. `None` means the origin of the job.
    pub against: Option<String>,
}

/// Result of a verification.
#[derive(Debug, Clone)]
pub struct VerifyReport {
    /// The parts of the job's identity.
    pub identity: std::collections::BTreeMap<String, String>,
    /// Counts from the journal.
    pub tally: Tally,
    /// Counts found by the verification.
    pub counted: LedgerCounts,
    /// Number of findings of each kind: objects and files that are missing, damaged, duplicated or unknown.
    pub found: [u64; FindingKind::ALL.len()],
    /// Final progress.
    pub progress: VerifyProgress,
    /// Whether the verification was stopped early. If so, it proves nothing.
    pub is_interrupted: bool,
    /// Whether a repair fixed everything.
    pub is_mended: bool,
    /// Result of the repair, if there was one.
    pub repaired: Option<RepairReport>,
    /// Sampled objects.
    pub sample: Vec<SampledObject>,
    /// Origin at which the sampled objects can be requested.
    pub asked: Option<ObjectOrigin>,
    /// Duration of the verification.
    pub elapsed: Duration,
}

/// A running verification.
#[derive(Debug)]
pub struct Verify {
    watch: Arc<VerifyMonitor>,
    findings: Receiver<Finding>,
    running: Background<VerifyReport>,
}

impl Verify {
    /// Locks the destination, so that no job can start, and starts the verification.
    pub fn start(options: VerifyOptions) -> Result<Self> {
        let state = options.state.as_deref();
        let place = if options.repair {
            JobLocation::take(&options.dest, state)
        } else {
            JobLocation::look(&options.dest, state)
        }?;
        let (to_reader, findings) = bounded(FINDINGS_WAITING_MAX);
        let watch = Arc::new(VerifyMonitor::new(to_reader));
        let for_thread = Arc::clone(&watch);
        let running = Background::start("fetchmill-verify", &Arc::default(), move || {
            verify(&place, &options, &for_thread)
        })?;
        Ok(Verify { watch, findings, running })
    }

    /// Waits for up to `timeout` for the verification to end. Returns whether it has ended. The caller must keep taking
    /// findings in the meantime.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.running.wait(timeout)
    }

    /// Takes up to `max` findings.
    pub fn take_findings(&self, max: usize) -> Vec<Finding> {
        self.findings.try_iter().take(max).collect()
    }

    /// Returns the progress. This is cheap.
    pub fn progress(&self) -> VerifyProgress {
        self.watch.progress()
    }

    /// Stops the verification early. A repair that has already started is completed.
    pub fn abort(&self) {
        self.watch.stop();
    }

    /// Returns the report or the error once the verification has ended. Only the first call returns it.
    pub fn report(&self) -> Option<Result<VerifyReport>> {
        self.running.take()
    }
}

impl Drop for Verify {
    /// Ends the verification's threads.
    fn drop(&mut self) {
        self.abort();
        self.running.join();
    }
}

fn verify(place: &JobLocation, options: &VerifyOptions, watch: &VerifyMonitor) -> Result<VerifyReport> {
    let started = Instant::now();
    let identity = read_status(place)?.identity;
    must_have_objects(&identity, &place.dest)?;
    must_be_here(&identity, place)?;
    if options.repair {
        repair::tidy(place)?;
    }
    let snapshot = JournalSnapshot::read(place)?;
    let format = Format::from_name(snapshot.part("format")).ok_or_else(|| {
        Error::Journal(format!("the journal of {} does not name a format", place.dest.display()))
    })?;
    // Check this first, before spending time on reading everything.
    let asked =
        (options.sample > 0).then(|| ObjectOrigin::of(&snapshot, options.against.as_deref())).transpose()?;
    let job = VerifyRun { place, snapshot: &snapshot, format, threads: threads(options), watch };
    let mut sample = ObjectSample::new(options.sample, options.seed);
    let faults = FoundFaults::default();
    let lost = Mutex::new(Bits::new(if options.repair { snapshot.next_sequence } else { 0 })?);
    let counted = job.verify(&mut sample, &faults, &lost)?;
    let lost = lost.into_inner().unwrap_or_else(PoisonError::into_inner);
    let repaired = if options.repair && !watch.is_stopped() {
        Some(repair::repair(&job, &faults, &lost)?)
    } else {
        None
    };
    Ok(VerifyReport {
        tally: snapshot.tally,
        counted,
        found: FindingKind::ALL.map(|what| watch.found(what)),
        progress: watch.progress(),
        is_interrupted: watch.is_stopped(),
        is_mended: watch.is_repairable()
            && !watch.is_stopped()
            && repaired.is_some_and(|repaired| repaired.unnamed + repaired.without_url == 0),
        repaired,
        sample: sample.take(),
        asked,
        elapsed: started.elapsed(),
        identity: snapshot.identity,
    })
}

fn threads(options: &VerifyOptions) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    options.threads.unwrap_or_else(processors).max(1)
}
