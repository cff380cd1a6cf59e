//! Proves a destination: the ledger (listed = fetched + absent + failed + skipped, each target exactly once) and every
//! checksum, on all processors, and tells what is missing, damaged, doubled or unknown. It changes nothing, and it
//! keeps jobs out while it reads; with a repair, what is damaged is planned again.
//!
//! Memory: a bit a target for the ledger, 125 MB at a billion; a shard that is damaged has two bits for each of its
//! objects. Findings are handed over one by one: no list of them grows.

mod files;
mod finding;
mod ledger;
mod repair;
mod sample;
mod shards;
mod watch;

pub use finding::{Finding, What};
pub use ledger::Counted;
pub use repair::Repaired;
pub use sample::Sampled;
pub use watch::Progress;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use self::ledger::Ledger;
use self::sample::Sample;
use self::shards::Faults;
use self::watch::{FINDINGS_WAITING_MAX, Watch};
use crate::error::{Error, Result};
use crate::journal::{Books, Place, must_be_here, must_have_objects, read_status};
use crate::outcome::Tally;
use crate::reader::Asked;
use crate::reader::bits::Bits;
use crate::sink::{Format, Shelf};

/// What is to be proved.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// The destination.
    pub dest: PathBuf,
    /// Its journal's folder, when the job was given one.
    pub state: Option<PathBuf>,
    /// Threads that read; none: one for each processor.
    pub threads: Option<usize>,
    /// Whether what is damaged is planned again.
    pub repair: bool,
    /// Objects to draw for a comparison with the origin.
    pub sample: usize,
    /// With which seed.
    pub seed: u64,
    /// The origin, when it is not the job's own.
    pub against: Option<String>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct VerifyReport {
    /// The parts of the job's identity.
    pub identity: std::collections::BTreeMap<String, String>,
    /// What the journal says.
    pub tally: Tally,
    /// What was counted.
    pub counted: Counted,
    /// Objects and files of the job that are missing, damaged, doubled and unknown.
    pub found: [u64; What::ALL.len()],
    /// How far it came.
    pub progress: Progress,
    /// Whether it was ended before its end: then it proves nothing.
    pub is_interrupted: bool,
    /// Whether a repair has mended all that was found.
    pub is_mended: bool,
    /// What a repair did.
    pub repaired: Option<Repaired>,
    /// Objects that were drawn.
    pub sample: Vec<Sampled>,
    /// Where they are to be asked for.
    pub asked: Option<Asked>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A verification that runs.
#[derive(Debug)]
pub struct Verify {
    shared: Arc<Shared>,
    findings: Receiver<Finding>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    watch: Watch,
    ended: Mutex<Option<Result<VerifyReport>>>,
    has_ended: Condvar,
}

impl Verify {
    /// Keeps jobs out of the destination, and starts.
    pub fn start(options: VerifyOptions) -> Result<Self> {
        let state = options.state.as_deref();
        let place = if options.repair {
            Place::take(&options.dest, state)
        } else {
            Place::look(&options.dest, state)
        }?;
        let (to_reader, findings) = bounded(FINDINGS_WAITING_MAX);
        let shared = Arc::new(Shared {
            watch: Watch::new(to_reader),
            ended: Mutex::new(None),
            has_ended: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fetchmill-verify".into())
            .spawn(move || {
                let ended = verify(&place, &options, &for_thread.watch);
                drop(place);
                *for_thread.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                for_thread.has_ended.notify_all();
            })
            .map_err(|error| Error::storage("start a thread of", "this process", error))?;
        Ok(Verify { shared, findings, thread: Mutex::new(Some(thread)) })
    }

    /// Waits for the end; whether it has come. Findings must be taken meanwhile.
    pub fn wait(&self, timeout: Duration) -> bool {
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.has_ended.wait_timeout_while(ended, timeout, |ended| ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }

    /// Findings that nobody has taken yet, so many at most.
    pub fn take_findings(&self, max: usize) -> Vec<Finding> {
        self.findings.try_iter().take(max).collect()
    }

    /// How far it is. Cheap.
    pub fn progress(&self) -> Progress {
        self.shared.watch.progress()
    }

    /// Ends it early. What a repair has begun is finished.
    pub fn abort(&self) {
        self.shared.watch.stop();
    }

    /// The report or error of one that has ended; it can be taken once.
    pub fn report(&self) -> Option<Result<VerifyReport>> {
        self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Verify {
    /// No thread outlives it.
    fn drop(&mut self) {
        self.abort();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

fn verify(place: &Place, options: &VerifyOptions, watch: &Watch) -> Result<VerifyReport> {
    let started = Instant::now();
    let identity = read_status(place)?.identity;
    must_have_objects(&identity, &place.dest)?;
    must_be_here(&identity)?;
    if options.repair {
        repair::tidy(place)?;
    }
    let books = Books::read(place)?;
    let format = Format::from_name(books.part("format"))
        .ok_or_else(|| Error::Journal(format!("the journal of {} names no format", place.dest.display())))?;
    // Before everything is read for nothing.
    let asked = (options.sample > 0).then(|| Asked::of(&books, options.against.as_deref())).transpose()?;
    let job = Job { place, books: &books, format, threads: threads(options), watch };
    let mut sample = Sample::new(options.sample, options.seed);
    let faults = Faults::default();
    let lost = Mutex::new(Bits::new(if options.repair { books.next_sequence } else { 0 })?);
    let counted = job.prove(&mut sample, &faults, &lost)?;
    let lost = lost.into_inner().unwrap_or_else(PoisonError::into_inner);
    let repaired = if options.repair && !watch.is_stopped() {
        Some(repair::repair(&job, &faults, &lost)?)
    } else {
        None
    };
    Ok(VerifyReport {
        tally: books.tally,
        counted,
        found: What::ALL.map(|what| watch.found(what)),
        progress: watch.progress(),
        is_interrupted: watch.is_stopped(),
        is_mended: watch.is_mendable()
            && !watch.is_stopped()
            && repaired.is_some_and(|repaired| repaired.unnamed + repaired.without_url == 0),
        repaired,
        sample: sample.take(),
        asked,
        elapsed: started.elapsed(),
        identity: books.identity,
    })
}

fn threads(options: &VerifyOptions) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    options.threads.unwrap_or_else(processors).max(1)
}

/// What is proved, and with what.
struct Job<'j> {
    place: &'j Place,
    books: &'j Books,
    format: Format,
    threads: usize,
    watch: &'j Watch,
}

impl Job<'_> {
    fn shelf(&self) -> Option<Shelf> {
        self.format.extension().map(|extension| Shelf::new(&self.place.dest, extension, true))
    }

    fn prove(&self, sample: &mut Sample, faults: &Faults, lost: &Mutex<Bits>) -> Result<Counted> {
        let mut ledger = Ledger::new(self.books, self.watch)?;
        match (self.shelf(), self.format) {
            (Some(shelf), _) => self.prove_shards(&shelf, &mut ledger, sample, faults)?,
            (None, Format::Files) => {
                self.watch.expect(self.books.tally.bytes);
                ledger.read_failures(self.place);
                ledger.read_pending(self.place)?;
                files::check(self.place, self.books, &mut ledger, sample, lost, self.threads, self.watch)?;
                files::find_unknown(self.place, self.books, self.watch)?;
            }
            (None, _) => {
                ledger.read_failures(self.place);
                ledger.read_pending(self.place)?;
                ledger.believe_rest();
                return Ok(ledger.counted);
            }
        }
        if !self.watch.is_stopped() {
            ledger.conclude();
        }
        Ok(ledger.counted)
    }

    /// Shards one by one on all threads, and the ledger beside them.
    fn prove_shards(
        &self,
        shelf: &Shelf,
        ledger: &mut Ledger<'_>,
        sample: &mut Sample,
        faults: &Faults,
    ) -> Result<()> {
        let (books, watch) = (self.books, self.watch);
        watch.expect(books.shards.iter().map(shards::bytes_of).fold(0, u64::saturating_add));
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..self.threads)
                .map(|_| {
                    scope.spawn(|| {
                        while let Some(shard) = books.shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                            shards::check_sealed(self.format, shelf, shard, faults, watch)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            let read = self.read_ledger(shelf, ledger, sample, faults);
            if read.is_err() {
                watch.stop();
            }
            for reader in readers {
                reader
                    .join()
                    .map_err(|_| Error::Internal("a thread that reads shards has panicked".into()))??;
            }
            read
        })
    }

    fn read_ledger(
        &self,
        shelf: &Shelf,
        ledger: &mut Ledger<'_>,
        sample: &mut Sample,
        faults: &Faults,
    ) -> Result<()> {
        for open in &self.books.open_shards {
            shards::check_open(shelf, open, faults, self.watch)?;
        }
        shards::find_unknown(&self.place.dest, self.format, &self.books.shards, self.watch)?;
        ledger.read_shards(shelf, faults, sample)?;
        ledger.read_failures(self.place);
        ledger.read_pending(self.place)
    }
}
