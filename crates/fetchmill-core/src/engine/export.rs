//! Writes what a job has stored again, in another format: a job of its own, so `ls`, `verify` and resuming work on it
//! as on any other.
//!
//! Objects are read in an order that stays the same, and their sequence numbers are that order. So what a journal says
//! of them is enough to go on: what is pending is read again, what is behind the last page is added. One thread reads,
//! encodes and commits: what it writes is bound by the disk.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::gathered::Gathered;
use super::job::{Report, Snapshot};
use super::recovery;
use crate::entry::{Naming, behind_scheme};
use crate::error::{Error, Result};
use crate::journal::{Books, Identity, Journal, Place, TRANSFORM, must_be_here, must_have_objects};
use crate::kept::{COLUMNS_PART, Columns};
use crate::limits::{self, BODY_MEMORY_BYTES_MAX, COMMIT_WINDOW_BYTES, COMMIT_WINDOW_OUTCOMES_MAX};
use crate::name;
use crate::object::Object;
use crate::outcome::{FailureKind, KindCounts, Outcome, Tally};
use crate::reader::{EXPORT_OF, are_of_list, for_each_object, warc_origin};
use crate::sink::failures::FailuresShard;
use crate::sink::{Block, Described, FetchedBody, Format, Sink, SinkSetup, Stage};
use crate::source::{Cursor, ListedPage};
use crate::target::{Names, Sequence};

const GO: u8 = 0;
const STOP: u8 = 1;
const ABORT: u8 = 2;

/// What is written again, and how.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The destination of the job that is read.
    pub from: PathBuf,
    /// Its journal's folder, when it was given one.
    pub from_state: Option<PathBuf>,
    /// Where objects go.
    pub dest: PathBuf,
    /// Where the journal goes, when not there.
    pub state: Option<PathBuf>,
    /// How objects are stored.
    pub format: Format,
    /// Bytes of a shard; none: what the format takes.
    pub shard_size: Option<u64>,
    /// Whether a power cut is survived, or only a kill.
    pub is_durable: bool,
}

impl ExportOptions {
    fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::Usage(message));
        if self.format == Format::Null {
            return refuse("an export needs a format that keeps objects, not null".into());
        }
        if self.shard_size == Some(0) {
            return refuse("--shard-size must be at least 1 byte".into());
        }
        let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
        if real(&self.from).is_some_and(|from| real(&self.dest) == Some(from)) {
            return refuse(format!("{} cannot be exported into itself", self.from.display()));
        }
        Ok(())
    }

    /// The same objects in the same order in the same format are the same job.
    fn identity(&self, books: &Books) -> Identity {
        let contents = format!("{:?}{:?}{:?}", books.shards, books.manifests, books.tally);
        let digest = xxhash_rust::xxh3::xxh3_64(contents.as_bytes());
        let parts = [
            ("source", format!("{EXPORT_OF}{}", books.part("source"))),
            ("listing", books.part("listing").to_owned()),
            ("contents", format!("{} {} {digest:016x}", books.part("format"), books.tally.fetched)),
            ("format", self.format.name().to_owned()),
        ];
        let columns = self.columns(books).to_text();
        let transform = Some(books.part(TRANSFORM)).filter(|part| !part.is_empty());
        Identity::new(
            parts
                .into_iter()
                .chain(columns.map(|columns| (COLUMNS_PART, columns)))
                .chain(transform.map(|part| (TRANSFORM, part.to_owned()))),
        )
    }

    /// What the format keeps of the columns that the objects have.
    fn columns(&self, books: &Books) -> Columns {
        self.format.columns(&Columns::of_identity(&books.identity))
    }

    fn setup(&self, place: &Place, books: &Books) -> Result<SinkSetup> {
        Ok(SinkSetup {
            format: self.format,
            dest: place.dest.clone(),
            manifests: place.manifests_path(),
            is_durable: self.is_durable,
            shard_bytes: self.shard_size.unwrap_or_else(|| self.format.shard_bytes()),
            seal_after: limits::SEAL_AFTER,
            workers: 1,
            columns: self.columns(books),
            origin: Some(warc_origin(&books.identity)?),
            settle_before_rename: None,
            depot: None,
        })
    }
}

/// An export that runs.
#[derive(Debug)]
pub struct Export {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicU8,
    /// Objects that are to be written.
    total: u64,
    before: Tally,
    kinds_before: KindCounts,
    /// What this run has written, durable or not.
    written: Mutex<(Tally, KindCounts)>,
    started: Instant,
    ended: Mutex<Option<Result<Report>>>,
    has_ended: Condvar,
}

impl Export {
    /// Opens both destinations, finishes what an earlier run left half done, and starts.
    pub fn start(options: &ExportOptions) -> Result<Self> {
        options.check()?;
        let from = Place::look(&options.from, options.from_state.as_deref())?;
        let books = Books::read(&from)?;
        refuse_unfit(&from, &books)?;
        let place = Place::prepare(&options.dest, options.state.as_deref())?;
        let mut journal = Journal::open(&place, &options.identity(&books), options.is_durable)?;
        let setup = options.setup(&place, &books)?;
        recovery::recover(&place, &mut journal, &setup, Naming::Whole)?;
        let shared = Arc::new(Shared {
            stop: AtomicU8::new(GO),
            total: books.tally.fetched,
            before: journal.tally(),
            kinds_before: journal.kinds()?,
            written: Mutex::default(),
            started: Instant::now(),
            ended: Mutex::new(None),
            has_ended: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        let copy = Copy { from, books, place, journal, setup, shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new()
            .name("fetchmill-export".into())
            .spawn(move || {
                let ended = copy.run();
                *for_thread.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
                for_thread.has_ended.notify_all();
            })
            .map_err(|error| Error::storage("start a thread of", "this process", error))?;
        Ok(Export { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Waits for the end; whether it has come.
    pub fn wait(&self, timeout: Duration) -> bool {
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.has_ended.wait_timeout_while(ended, timeout, |ended| ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }

    /// Makes what is written durable and ends; the same export can be resumed.
    pub fn stop(&self) {
        self.shared.stop.fetch_max(STOP, Ordering::Relaxed);
    }

    /// Ends without making anything durable; the same export can be resumed.
    pub fn abort(&self) {
        self.shared.stop.fetch_max(ABORT, Ordering::Relaxed);
    }

    /// The report or error of one that has ended; it can be taken once.
    pub fn report(&self) -> Option<Result<Report>> {
        self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How it stands. Cheap.
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.shared;
        let (written, mut kinds) = shared.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kinds.add_all(&shared.kinds_before);
        let has_ended = shared.ended.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let before = shared.before;
        Snapshot {
            tally: Tally {
                listed: shared.total,
                fetched: before.fetched + written.fetched,
                failed: before.failed + written.failed,
                bytes: before.bytes + written.bytes,
                ..Tally::default()
            },
            settled_before: before.settled(),
            in_flight: 0,
            waiting: 0,
            is_listing_done: true,
            kinds,
            phase: match (has_ended, shared.stop()) {
                (true, _) => "done",
                (_, GO) => "fetching",
                _ => "draining",
            },
            elapsed: shared.started.elapsed(),
            is_resumed: before.listed > 0,
        }
    }
}

impl Drop for Export {
    /// No thread outlives it.
    fn drop(&mut self) {
        self.abort();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn stop(&self) -> u8 {
        self.stop.load(Ordering::Relaxed)
    }
}

fn refuse_unfit(from: &Place, books: &Books) -> Result<()> {
    must_have_objects(&books.identity, &from.dest)?;
    must_be_here(&books.identity)?;
    let dest = from.dest.display();
    if books.part("format") == Format::Null.name() {
        return Err(Error::Usage(format!("{dest} holds no objects: its format is null")));
    }
    if !books.open_shards.is_empty() {
        return Err(Error::Usage(format!(
            "the job of {dest} was killed: run the same `fetchmill get` again, then export"
        )));
    }
    Ok(())
}

/// What the thread has.
struct Copy {
    from: Place,
    books: Books,
    place: Place,
    journal: Journal,
    setup: SinkSetup,
    shared: Arc<Shared>,
}

impl Copy {
    fn run(mut self) -> Result<Report> {
        if self.journal.get("finished_at")?.is_some() {
            return self.report(true);
        }
        let pending = self.pending()?;
        let from = pending.first().map_or(self.journal.next_sequence(), |(first, _)| *first);
        let stage = Arc::new(Stage::open(&self.place.stage_path().join("0"))?);
        let sink = self.setup.open(0, &stage, recovery::sealed_shards(&self.journal)?)?;
        let failures = FailuresShard::new(
            &self.place.failures_path(),
            recovery::shard_name("export", 0),
            self.setup.is_durable,
        );
        let mut writer = Writer {
            listed_before: self.journal.next_sequence(),
            journal: &mut self.journal,
            sink,
            stage,
            failures,
            names_are_paths: self.setup.format.properties().names_are_paths,
            is_of_list: are_of_list(&self.books),
            block: Block::default(),
            names: Names::default(),
            gathered: Gathered::default(),
            window: Window::default(),
            shared: &self.shared,
        };
        for_each_object(&self.from, &self.books, from, &mut |sequence, object| {
            if is_settled(&pending, writer.listed_before, sequence) {
                return Ok(if self.shared.stop() == GO {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                });
            }
            writer.take(sequence, object)
        })?;
        if self.shared.stop() == ABORT {
            return self.report(false);
        }
        writer.finish()?;
        if self.shared.stop() == GO {
            self.conclude()?;
        }
        recovery::remove_stage(&self.place.stage_path())?;
        self.report(false)
    }

    /// Every object is written.
    fn conclude(&mut self) -> Result<()> {
        let tally = self.journal.tally();
        if tally.pending() > 0 || tally.listed != self.books.tally.fetched {
            return Err(Error::Journal(format!(
                "{} objects were read of {}, its journal counts {}; look with `fetchmill verify`",
                tally.listed,
                self.from.dest.display(),
                self.books.tally.fetched
            )));
        }
        self.journal.begin()?;
        self.journal.end_listing()?;
        self.journal.finish()?;
        self.journal.commit()
    }

    /// Targets of earlier runs that are not settled, as runs: those of one Parquet shard at most.
    fn pending(&self) -> Result<Vec<(Sequence, u64)>> {
        let mut runs = Vec::new();
        let mut from = 0;
        while let Some((first, _, ranges)) = self.journal.next_live_page(from)? {
            runs.extend(ranges.iter().map(|range| (first + range.start as u64, range.len() as u64)));
            from = first + 1;
        }
        Ok(runs)
    }

    fn report(&self, was_finished: bool) -> Result<Report> {
        Ok(Report {
            tally: self.journal.tally(),
            kinds: self.journal.kinds()?,
            elapsed: self.shared.started.elapsed(),
            attempts: 0,
            listed_at: self.journal.get("listed_at")?,
            was_finished,
            is_interrupted: !was_finished && self.shared.stop() != GO,
            is_resumed: self.shared.before.listed > 0,
            summary: None,
            notices: Vec::new(),
        })
    }
}

/// Whether an earlier run has settled it.
fn is_settled(pending: &[(Sequence, u64)], listed: Sequence, sequence: Sequence) -> bool {
    if sequence >= listed {
        return false;
    }
    let behind = pending.partition_point(|(first, _)| *first <= sequence);
    let run = behind.checked_sub(1).and_then(|at| pending.get(at));
    run.is_none_or(|(first, length)| sequence - first >= *length)
}

/// What has gathered in a window.
#[derive(Default)]
struct Window {
    outcomes: usize,
    bytes: u64,
    since: Option<Instant>,
}

/// Blocks, pages and receipts of one export.
struct Writer<'w> {
    journal: &'w mut Journal,
    /// Targets below this stand in pages of earlier runs.
    listed_before: Sequence,
    sink: Box<dyn Sink>,
    stage: Arc<Stage>,
    failures: FailuresShard,
    names_are_paths: bool,
    is_of_list: bool,
    block: Block,
    /// Those of the block that are in no page yet.
    names: Names,
    /// Outcomes of this window that are not fetched.
    gathered: Gathered,
    window: Window,
    shared: &'w Shared,
}

impl Writer<'_> {
    fn take(&mut self, sequence: Sequence, object: &Object<'_>) -> Result<ControlFlow<()>> {
        self.window.since.get_or_insert_with(Instant::now);
        self.window.outcomes += 1;
        self.window.bytes += object.body.len() as u64;
        if sequence >= self.listed_before {
            self.names.push(self.name_of(object));
        }
        self.push(sequence, object)?;
        if !self.block.is_full() {
            return Ok(ControlFlow::Continue(()));
        }
        self.write_block()?;
        match self.shared.stop() {
            GO => {}
            _ => return Ok(ControlFlow::Break(())),
        }
        let Window { outcomes, bytes, since } = self.window;
        let is_over = outcomes >= COMMIT_WINDOW_OUTCOMES_MAX
            || bytes >= COMMIT_WINDOW_BYTES
            || since.is_some_and(|since| since.elapsed() >= limits::COMMIT_WINDOW);
        if is_over || self.sink.is_full() {
            self.commit(false)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What it is stored as: a URL without its scheme where names are paths, as `files` does with lists.
    fn name_of<'o>(&self, object: &Object<'o>) -> &'o [u8] {
        let is_url = || [&b"http://"[..], b"https://"].iter().any(|scheme| object.name.starts_with(scheme));
        if self.names_are_paths && self.is_of_list && is_url() {
            behind_scheme(object.name)
        } else {
            object.name
        }
    }

    fn push(&mut self, sequence: Sequence, object: &Object<'_>) -> Result<()> {
        let name = self.name_of(object);
        let is_path = || {
            let is_folder = !self.is_of_list && name::is_folder(name);
            !is_folder && name::to_path(name, &mut Vec::new()).is_ok()
        };
        if self.names_are_paths && !is_path() {
            let outcome = Outcome::Failed(FailureKind::Name);
            let target = Described { url: object.facts.url, ..Described::named(name) };
            self.block.push_other(sequence, outcome, 0, 0, &target);
            return Ok(());
        }
        let body = if object.body.len() > BODY_MEMORY_BYTES_MAX {
            self.stage.write(sequence, object.body)?;
            FetchedBody::Spilled(object.body.len() as u64)
        } else {
            FetchedBody::Bytes(object.body)
        };
        self.block.push_fetched(sequence, 1, name, body, &object.facts);
        Ok(())
    }

    /// The page goes into the transaction that the next receipt ends.
    fn write_block(&mut self) -> Result<()> {
        if !self.names.is_empty() {
            let names = std::mem::take(&mut self.names);
            let next = self.journal.next_sequence() + names.len() as u64;
            let cursor = Cursor::Marker { from: None, next: Some(next.to_string()) };
            self.journal.add_page(&ListedPage { names, skipped: 0, total: None, cursor })?;
        }
        let mut block = std::mem::take(&mut self.block);
        let mut stored = 0;
        let mut written = Tally::default();
        for entry in block.entries() {
            if entry.outcome == Outcome::Fetched {
                written.fetched += 1;
                written.bytes += entry.body.len();
                continue;
            }
            self.failures.add(&block, entry)?;
            self.settle_other(entry.sequence, FailureKind::Name);
        }
        while stored < block.entries().len() {
            if self.sink.is_full() {
                self.commit(false)?;
            }
            stored = self.sink.write(&block, stored)?;
        }
        block.clear();
        self.block = block;
        let mut shown = self.shared.written.lock().unwrap_or_else(PoisonError::into_inner);
        shown.0.fetched += written.fetched;
        shown.0.bytes += written.bytes;
        Ok(())
    }

    fn settle_other(&mut self, sequence: Sequence, kind: FailureKind) {
        self.gathered.add(sequence, Outcome::Failed(kind));
        let mut shown = self.shared.written.lock().unwrap_or_else(PoisonError::into_inner);
        shown.0.failed += 1;
        shown.1.add(kind, 1);
    }

    fn finish(&mut self) -> Result<()> {
        self.write_block()?;
        while self.sink.is_open() || !self.gathered.is_empty() {
            self.commit(true)?;
        }
        self.journal.commit()
    }

    /// Ends a window: bytes durable, receipt, journal, and then what the sink does behind that.
    fn commit(&mut self, is_last: bool) -> Result<()> {
        self.window = Window::default();
        let failures = if self.gathered.is_empty() { None } else { self.failures.checkpoint()? };
        let durable = self.sink.checkpoint(is_last)?;
        let receipt = self.gathered.receipt(0, durable, failures);
        let number = receipt.map_or(Ok(None), |receipt| self.journal.settle(&receipt))?;
        self.journal.commit()?;
        for refused in self.sink.committed(number)? {
            self.failures.add_refused(&refused)?;
            self.settle_other(refused.sequence, refused.kind);
            let mut shown = self.shared.written.lock().unwrap_or_else(PoisonError::into_inner);
            shown.0.fetched = shown.0.fetched.saturating_sub(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_or_new_is_written() {
        let pending = [(2, 3), (9, 1)];
        let written: Vec<_> = (0..14).filter(|sequence| !is_settled(&pending, 12, *sequence)).collect();

        assert_eq!(written, [2, 3, 4, 9, 12, 13]);
    }
}
