//! Exports the objects of a job in another format. The result is itself a job, so `ls`, `verify` and resuming work as
//! usual. A shared job is exported range by range.
//!
//! Objects are read in a fixed order, which also determines their sequence numbers. A resumed export therefore needs
//! only the journal: it reads pending objects again, and adds those after the last page. One thread reads, encodes and
//! commits, because the disk is the bottleneck.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::sources::Sources;
use super::Snapshot;
use super::job_state::{Interruption, JobReport};
use super::skipped::SkippedByReason;
use crate::writer::recovery;
use crate::writer::window_outcomes::WindowOutcomes;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::{self, BODY_MEMORY_BYTES_MAX, COMMIT_WINDOW_BYTES, COMMIT_WINDOW_OUTCOMES_MAX};
use fetchmill_model::name::{self, url_name};
use fetchmill_model::object::Object;
use fetchmill_model::outcome::opt_out_rule::OptOutCounts;
use fetchmill_model::outcome::skips::Skips;
use fetchmill_model::outcome::{FailureKind, KindCounts, Outcome, Tally};
use fetchmill_model::source::{ListedPage, PageCursor};
use fetchmill_model::target::entry::{Naming, behind_scheme};
use fetchmill_model::target::extra_columns::{
    COLUMNS_PART, ENCODINGS_IN_COLUMN, ENCODINGS_PART, ExtraColumns, TYPES_PART,
};
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_model::target::{Names, Sequence};
use fetchmill_store::background::Background;
use fetchmill_store::journal::{
    Identity, JobLocation, JobRules, Journal, REQUEST_PART, STRIP_PREFIX, TRANSFORM,
};
use fetchmill_store::pack::Sidecars;
use fetchmill_store::reader::{EXPORT_OF, are_of_list, request_of, warc_origin};
use fetchmill_store::sink::failures::FailuresShard;
use fetchmill_store::sink::{
    Block, EntryDescription, FetchedBody, FileSystemSync, Format, Sink, SinkSetup, Stage, UnfetchedSetup,
    Validators,
};

pub use sources::{ExportSource, RangeCopies};

mod sources;

const GO: u8 = 0;
const STOP: u8 = 1;
const ABORT: u8 = 2;

/// Sources and settings of an export.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Destination of the job to export, or destinations of all ranges of a shared job.
    pub from: Vec<ExportSource>,
    /// Source of that job. `None` takes the source from its journal.
    pub source: Option<String>,
    /// Destination of the exported objects.
    pub dest: PathBuf,
    /// Journal folder. `None` puts it inside the destination.
    pub state: Option<PathBuf>,
    /// Format of the exported objects.
    pub format: Format,
    /// Shard size in bytes. `None` selects the default of the format.
    pub shard_size: Option<u64>,
    /// Whether the output survives a power cut, not only a kill.
    pub is_durable: bool,
}

impl ExportOptions {
    fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::Usage(message));
        if self.format == Format::Null {
            return refuse(
                "cannot export to the format null, which stores no objects; choose another format".into(),
            );
        }
        if self.shard_size == Some(0) {
            return refuse("--shard-size must be at least 1 byte".into());
        }
        let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
        let dest = real(&self.dest);
        match self.from.iter().find(|from| dest.is_some() && real(&from.dest) == dest) {
            Some(_) => refuse(format!("{} cannot be exported into itself", self.dest.display())),
            None => Ok(()),
        }
    }

    /// Returns the identity of the export. Exports of the same objects in the same order and format count as the same
    /// job.
    fn identity(&self, sources: &Sources, rules: JobRules) -> Identity {
        let snapshot = sources.description();
        let source = self.source.as_deref().unwrap_or_else(|| snapshot.part("source"));
        let (objects, digest) = (sources.objects(), sources.digest());
        let parts = [
            ("source", format!("{EXPORT_OF}{source}")),
            ("listing", snapshot.part("listing").to_owned()),
            ("contents", format!("{} {objects} {digest:016x}", snapshot.part("format"))),
            ("format", self.format.name().to_owned()),
        ];
        let stored = self.columns(sources, rules);
        let (columns, types) = (stored.to_text(), stored.types_to_text());
        let encodings = stored.has_encodings().then(|| (ENCODINGS_PART, ENCODINGS_IN_COLUMN.to_owned()));
        let transform = Some(snapshot.part(TRANSFORM)).filter(|part| !part.is_empty());
        let stripped = Some(snapshot.part(STRIP_PREFIX)).filter(|part| !part.is_empty());
        Identity::new(
            parts
                .into_iter()
                .chain(columns.map(|columns| (COLUMNS_PART, columns)))
                .chain(types.map(|types| (TYPES_PART, types)))
                .chain(encodings)
                .chain(request_of(snapshot).map(|request| (REQUEST_PART, request)))
                .chain(transform.map(|part| (TRANSFORM, part.to_owned())))
                .chain(stripped.map(|part| (STRIP_PREFIX, part.to_owned()))),
        )
    }

    /// Returns the columns to keep. An export has rows for objects only.
    fn columns(&self, sources: &Sources, rules: JobRules) -> ExtraColumns {
        let identity = &sources.description().identity;
        let columns = self.format.columns(&ExtraColumns::of_identity(identity).without_outcomes());
        columns.with_encodings(self.format == Format::Parquet && rules.have_encodings())
    }

    fn setup(&self, place: &JobLocation, sources: &Sources, rules: JobRules) -> Result<SinkSetup> {
        Ok(SinkSetup {
            format: self.format,
            dest: place.dest.clone(),
            manifests: place.manifests_path(),
            is_durable: self.is_durable,
            shard_bytes: self.shard_size.unwrap_or_else(|| self.format.shard_bytes()),
            seal_after: limits::SEAL_AFTER,
            server_times: true,
            workers: 1,
            columns: self.columns(sources, rules),
            sidecars: Sidecars::default(),
            // The hash is already a column of the source.
            is_hashed: false,
            validators: Validators::InRecords,
            unfetched: UnfetchedSetup::default(),
            origin: Some(warc_origin(&sources.description().identity)?),
            upload_queue: None,
        })
    }
}

/// A running export.
#[derive(Debug)]
pub struct Export {
    shared: Arc<ExportState>,
    running: Background<JobReport>,
}

#[derive(Debug)]
struct ExportState {
    stop: AtomicU8,
    /// Number of objects to write.
    total: u64,
    before: Tally,
    kinds_before: KindCounts,
    /// Counts of the objects that this run has written, durable or not.
    written: Mutex<(Tally, KindCounts)>,
    started: Instant,
}

impl Export {
    /// Opens all destinations, recovers the unfinished work of an earlier run, and starts the export.
    ///
    /// If the destinations are ranges in a bucket, `copies` copies them to this machine.
    pub fn start(options: &ExportOptions, copies: Option<Box<dyn RangeCopies>>) -> Result<Self> {
        options.check()?;
        let sources = Sources::open(&options.from, copies, options.format)?;
        let place = JobLocation::prepare(&options.dest, options.state.as_deref())?;
        let rules = JobRules::of(&place)?;
        let mut journal = Journal::open(&place, &options.identity(&sources, rules), options.is_durable)?;
        let setup = options.setup(&place, &sources, rules)?;
        recovery::recover(&place, &mut journal, &setup, (Naming::Whole, &StoredNames::default()))?;
        let shared = Arc::new(ExportState {
            stop: AtomicU8::new(GO),
            total: sources.objects(),
            before: journal.tally(),
            kinds_before: journal.kinds()?,
            written: Mutex::default(),
            started: Instant::now(),
        });
        let copy = ExportThread { sources, place, rules, journal, setup, shared: Arc::clone(&shared) };
        let running = Background::start("fetchmill-export", &Arc::default(), move || copy.run())?;
        Ok(Export { shared, running })
    }

    /// Waits up to `timeout` for the export to end. Returns whether it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.running.wait(timeout)
    }

    /// Makes the written objects durable and ends the export. A later run can resume it.
    pub fn stop(&self) {
        self.shared.stop.fetch_max(STOP, Ordering::Relaxed);
    }

    /// Aborts the export without making anything durable. A later run can resume it.
    pub fn abort(&self) {
        self.shared.stop.fetch_max(ABORT, Ordering::Relaxed);
    }

    /// Aborts the export and waits for its thread to end.
    pub fn close(&self) {
        self.abort();
        self.running.join();
    }

    /// Returns the report or the error once the export has ended. Only one call can take it.
    pub fn report(&self) -> Option<Result<JobReport>> {
        self.running.take()
    }

    /// Returns the current state, which is cheap to read.
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.shared;
        let (written, mut kinds) = shared.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kinds.add_all(&shared.kinds_before);
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
            total: None,
            list_share: None,
            list_read: 0,
            list_cut_at: None,
            pages: 0,
            kinds,
            phase: match (self.running.has_ended(), shared.stop()) {
                (true, _) => "done",
                (_, GO) => "fetching",
                _ => "draining",
            },
            elapsed: shared.started.elapsed(),
            stopped_by: None,
            is_resumed: before.listed > 0,
            waits: Vec::new(),
            attempts: 0,
            concurrency: 0,
            tries_concurrency: false,
            pace: None,
            limited_by: None,
            latency: None,
            origins: Vec::new(),
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.close();
    }
}

impl ExportState {
    fn stop(&self) -> u8 {
        self.stop.load(Ordering::Relaxed)
    }
}

/// State of the exporting thread.
struct ExportThread {
    sources: Sources,
    place: JobLocation,
    rules: JobRules,
    journal: Journal,
    setup: SinkSetup,
    shared: Arc<ExportState>,
}

impl ExportThread {
    fn run(mut self) -> Result<JobReport> {
        if self.journal.get("finished_at")?.is_some() {
            return self.report(true);
        }
        self.copy_doubtful()?;
        let pending = self.pending()?;
        let from = pending.first().map_or(self.journal.next_sequence(), |(first, _)| *first);
        let stage = Arc::new(Stage::open(&self.place.stage_path().join("0"))?);
        let sink = self.setup.open(0, &stage, recovery::sealed_shards(&self.journal)?)?;
        let failures = FailuresShard::new(
            &self.place.failures_path(),
            recovery::shard_name("export", 0),
            self.setup.is_durable,
        );
        let mut writer = ExportWriter {
            listed_before: self.journal.next_sequence(),
            journal: &mut self.journal,
            sink,
            stage,
            failures,
            names_are_paths: self.setup.format.properties().names_are_paths,
            is_of_list: are_of_list(self.sources.description()),
            decodes_names: self.rules.decode_names(),
            block: Block::default(),
            names: Names::default(),
            gathered: WindowOutcomes::default(),
            window: ExportWindow::default(),
            shared: &self.shared,
        };
        self.sources.for_each(from, &mut |sequence, object| {
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

    /// Copies the list of doubtful objects.
    fn copy_doubtful(&mut self) -> Result<()> {
        let are_paths =
            self.setup.format.properties().names_are_paths && are_of_list(self.sources.description());
        let (journal, decodes_names) = (&mut self.journal, self.rules.decode_names());
        self.sources.doubtful(&mut |mut found| {
            if are_paths {
                for (_, name) in &mut found {
                    *name = path_of_url(name, decodes_names).into_owned();
                }
            }
            journal.doubt(&found)
        })?;
        self.journal.commit()
    }

    /// Finishes the export after all objects have been written.
    fn conclude(&mut self) -> Result<()> {
        let tally = self.journal.tally();
        let objects = self.sources.objects();
        if tally.pending() > 0 || tally.listed != objects {
            return Err(Error::Journal(format!(
                "{} objects were read, but the job's journal counts {objects}; check the job with \
                 `fetchmill verify`",
                tally.listed,
            )));
        }
        self.journal.begin()?;
        self.journal.end_listing()?;
        self.journal.finish()?;
        self.journal.commit()
    }

    /// Returns the targets that earlier runs left unfinished, as runs of sequence numbers (first, count). They all fit
    /// into one Parquet shard.
    fn pending(&self) -> Result<Vec<(Sequence, u64)>> {
        let mut runs = Vec::new();
        let mut from = 0;
        while let Some((first, _, ranges)) = self.journal.next_live_page(from)? {
            runs.extend(ranges.iter().map(|range| (first + range.start as u64, range.len() as u64)));
            from = first + 1;
        }
        Ok(runs)
    }

    fn report(&self, was_finished: bool) -> Result<JobReport> {
        Ok(JobReport {
            tally: self.journal.tally(),
            kinds: self.journal.kinds()?,
            statuses: self.journal.statuses()?,
            gave_credentials: false,
            doubtful: self.journal.doubtful()?,
            elapsed: self.shared.started.elapsed(),
            attempts: 0,
            listed_at: self.journal.listed_at()?,
            was_finished,
            interruption: (!was_finished && self.shared.stop() != GO).then_some(Interruption::Asked),
            is_tolerated: false,
            is_resumed: self.shared.before.listed > 0,
            limited_by: None,
            summary: None,
            notices: Vec::new(),
            skipped: SkippedByReason::default(),
            opt_outs: OptOutCounts::default(),
            found_nothing: false,
        })
    }
}

/// Returns a URL without its scheme, decoded if `decodes` is set. Returns other names unchanged.
fn path_of_url(name: &[u8], decodes: bool) -> Cow<'_, [u8]> {
    let is_url = [&b"http://"[..], b"https://"].iter().any(|scheme| name.starts_with(scheme));
    match (is_url, decodes) {
        (true, true) => url_name::of_url(behind_scheme(name)),
        (true, false) => Cow::Borrowed(behind_scheme(name)),
        (false, _) => Cow::Borrowed(name),
    }
}

/// Returns whether an earlier run has written this object.
fn is_settled(pending: &[(Sequence, u64)], listed: Sequence, sequence: Sequence) -> bool {
    if sequence >= listed {
        return false;
    }
    let behind = pending.partition_point(|(first, _)| *first <= sequence);
    let run = behind.checked_sub(1).and_then(|at| pending.get(at));
    run.is_none_or(|(first, length)| sequence - first >= *length)
}

/// Contents of the current commit window.
#[derive(Default)]
struct ExportWindow {
    outcomes: usize,
    bytes: u64,
    since: Option<Instant>,
}

/// Writer of an export's blocks, pages and receipts.
struct ExportWriter<'w> {
    journal: &'w mut Journal,
    /// First sequence number after the pages of earlier runs.
    listed_before: Sequence,
    sink: Box<dyn Sink>,
    stage: Arc<Stage>,
    failures: FailuresShard,
    names_are_paths: bool,
    is_of_list: bool,
    decodes_names: bool,
    block: Block,
    /// Names in the block that no page contains yet.
    names: Names,
    /// Outcomes of unsuccessful targets in this window.
    gathered: WindowOutcomes,
    window: ExportWindow,
    shared: &'w ExportState,
}

impl ExportWriter<'_> {
    fn take(&mut self, sequence: Sequence, object: &Object<'_>) -> Result<ControlFlow<()>> {
        self.window.since.get_or_insert_with(Instant::now);
        self.window.outcomes += 1;
        self.window.bytes += object.body.len() as u64;
        if sequence >= self.listed_before {
            self.names.push(&self.name_of(object));
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
        let ExportWindow { outcomes, bytes, since } = self.window;
        let is_over = outcomes >= COMMIT_WINDOW_OUTCOMES_MAX
            || bytes >= COMMIT_WINDOW_BYTES
            || since.is_some_and(|since| since.elapsed() >= limits::COMMIT_WINDOW);
        if is_over || self.sink.is_full() {
            self.commit(false)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the name under which the object is stored. If names are paths, this is the URL without its scheme, as in
    /// the `files` format for lists.
    fn name_of<'o>(&self, object: &Object<'o>) -> Cow<'o, [u8]> {
        if self.names_are_paths && self.is_of_list {
            path_of_url(object.name, self.decodes_names)
        } else {
            Cow::Borrowed(object.name)
        }
    }

    fn push(&mut self, sequence: Sequence, object: &Object<'_>) -> Result<()> {
        let name = &*self.name_of(object);
        let is_path = || {
            let is_folder = !self.is_of_list && name::is_folder(name);
            !is_folder && name::to_path(name, &mut Vec::new()).is_ok()
        };
        if self.names_are_paths && !is_path() {
            let outcome = Outcome::Failed(FailureKind::Name);
            let target = EntryDescription { url: object.facts.url, ..EntryDescription::named(name) };
            self.block.push_other(sequence, outcome, 0, 0, &target);
            return Ok(());
        }
        let body = if object.body.len() > BODY_MEMORY_BYTES_MAX {
            self.stage.write(sequence, object.body, None)?;
            FetchedBody::Spilled(object.body.len() as u64)
        } else {
            FetchedBody::Bytes(object.body)
        };
        self.block.push_fetched(sequence, 1, name, body, &object.facts);
        Ok(())
    }

    /// Writes the block. Its page is part of the transaction that ends with the next receipt.
    fn write_block(&mut self) -> Result<()> {
        if !self.names.is_empty() {
            let names = std::mem::take(&mut self.names);
            let next = self.journal.next_sequence() + names.len() as u64;
            let cursor = PageCursor::Marker { from: None, next: Some(next.to_string()) };
            self.journal.add_page(&ListedPage { names, skipped: Skips::default(), total: None, cursor })?;
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
        self.gathered.add_failed(sequence, kind);
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

    /// Ends a window: makes its bytes durable, commits the record to the journal, and lets the sink finish.
    fn commit(&mut self, is_last: bool) -> Result<()> {
        self.window = ExportWindow::default();
        let failures = if self.gathered.is_empty() { None } else { self.failures.checkpoint()? };
        let mut durable = self.sink.checkpoint(is_last)?;
        durable.sync.take().map_or(Ok(()), FileSystemSync::run)?;
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
