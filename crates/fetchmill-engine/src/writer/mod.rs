//! The writer: a worker's second thread, which owns the sink and receives blocks. At the end of each commit window, it
//! makes them durable, sends the receipt, and waits until the receipt is in the journal. All syncs happen in this
//! thread, unless the sink allows a separate thread to sync while the next window is written ([`SyncThread`]).

mod listing_session;
pub(super) mod recorder;
pub(super) mod recovery;
mod sync_thread;
mod transform;
pub(super) mod upload;
pub(super) mod window_outcomes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, Sender};

use self::sync_thread::SyncThread;
use self::transform::{Transform, TransformProgress};
use self::window_outcomes::WindowOutcomes;
use super::control::Control;
use super::control::block_sender::BlockSender;
use super::control::body_memory::BodyMemory;
use super::control::journal_link::JournalRequest;
use super::control::stop::Stop;
use super::control::telemetry::WriterActivity;
use super::event_queues::waiting_runtime;
use super::plan::job_plan::JobPlan;
use fetchmill_model::error::Result;
use fetchmill_model::limits::{self, COMMIT_WINDOW_BYTES, COMMIT_WINDOW_OUTCOMES_MAX};
use fetchmill_model::outcome::{Outcome, Runs, ShardNumber};
use fetchmill_store::sink::failures::FailuresShard;
use fetchmill_store::sink::{Block, BlockEntry, Properties, ShardSize, Sink, SinkSetup, Stage, StoredParts};

pub(super) struct SinkWriter {
    worker: u32,
    control: Arc<Control>,
    sink: Box<dyn Sink>,
    failures: FailuresShard,
    /// Whether every outcome becomes a row. If so, the sink receives nothing.
    has_rows: bool,
    /// Whether the failures shard keeps the rows.
    keeps_rows: bool,
    /// Whether to compare bodies with each other. This is useful only for the bodies of replies.
    compares_bodies: bool,
    commit_window: Duration,
    /// Runtime used only to wait for a block or for the end of a window.
    runtime: Runtime,
    blocks: Receiver<Block>,
    /// Channel that returns used blocks to the worker, so that their memory is reused.
    empty: Sender<Block>,
    body_memory: Arc<BodyMemory>,
    gathered: WindowOutcomes,
    /// Thread that finishes windows, if the sink allows this. It is started for the first such window.
    sync_thread: Option<SyncThread>,
    /// Transform that is applied to replies before they are stored.
    transform: Option<Transform>,
}

/// Connection of a worker to its writer.
pub(super) struct BlockInput {
    pub(super) properties: Properties,
    pub(super) body_memory: Arc<BodyMemory>,
    /// Stage for bodies that are too large for memory. `None` if bodies are not kept.
    pub(super) stage: Option<Arc<Stage>>,
    pub(super) blocks: Sender<Block>,
    pub(super) empty: Receiver<Block>,
}

impl BlockInput {
    /// Converts this into the block sender of a worker with another transport.
    pub(super) fn into_block_sender(self) -> BlockSender {
        BlockSender::new(self.properties, self.body_memory, self.stage, self.blocks, self.empty)
    }
}

/// Creates a worker's writer with its sink, and the worker's connection to the writer. `small` lists shards of earlier
/// runs that the sink can merge.
pub(super) fn open(
    plan: &JobPlan,
    control: &Arc<Control>,
    setup: &SinkSetup,
    worker: usize,
    small: Vec<ShardSize>,
) -> Result<(SinkWriter, BlockInput)> {
    let (blocks, to_write) =
        tokio::sync::mpsc::channel((limits::BLOCKS_QUEUED_MAX / control.plan.workers()).max(1));
    let (empty, to_fill) = tokio::sync::mpsc::channel(limits::BLOCKS_KEPT);
    let (place, request) = (&plan.place, &plan.request);
    let properties = request.properties();
    let body_memory = BodyMemory::of_workers(control.plan.workers());
    let stage = Arc::new(Stage::open(&place.stage_path().join(worker.to_string()))?);
    let writer = SinkWriter {
        worker: worker as u32,
        control: Arc::clone(control),
        sink: setup.open(worker as u32, &stage, small)?,
        failures: FailuresShard::new(
            &place.failures_path(),
            recovery::shard_name("worker", worker as u32),
            request.is_durable(),
        ),
        has_rows: request.rows.is_some(),
        keeps_rows: request.rows.as_ref().is_some_and(|rows| !rows.is_given),
        compares_bodies: request.rows.is_none() && !request.stores_items(),
        commit_window: request.commit_window,
        runtime: waiting_runtime()?,
        blocks: to_write,
        empty,
        body_memory: Arc::clone(&body_memory),
        gathered: WindowOutcomes::default(),
        sync_thread: None,
        transform: transform::of_worker(plan, control, worker, &stage)?,
    };
    let stage = (properties.keeps >= StoredParts::Bodies).then_some(stage);
    Ok((writer, BlockInput { properties, body_memory, stage, blocks, empty: to_fill }))
}

/// Contents of the current commit window.
#[derive(Default)]
struct WriterWindow {
    outcomes: usize,
    bytes: u64,
    since: Option<Instant>,
}

impl WriterWindow {
    /// Adds the outcomes of a block from index `from`. The first outcome starts the window.
    fn add(&mut self, block: &Block, from: usize) {
        self.since.get_or_insert_with(Instant::now);
        self.outcomes += block.entries().len() - from;
        // The request for an object also stays in memory until its file is in place.
        let of_entry = |entry: &BlockEntry| entry.body.len() + block.rest_bytes(entry);
        self.bytes += block.entries()[from..].iter().map(of_entry).sum::<u64>();
    }
}

impl SinkWriter {
    /// Runs until the worker is gone.
    pub(super) fn run(mut self) -> Result<()> {
        let mut window = WriterWindow::default();
        if let Some(transform) = &mut self.transform {
            // Start the transform early, so that problems are reported before it is needed.
            transform.start()?;
        }
        while let Some(mut block) = self.next_block(&mut window)? {
            if self.compares_bodies {
                self.gathered.compare_bodies(&block);
            }
            self.transform_and_take(&block, &mut window)?;
            if self.body_memory.release(block.memory()) {
                self.control.plan.wake(self.worker as usize).notify_one();
            }
            block.clear();
            // If there are enough empty blocks, or if the worker has ended, this block is dropped.
            let _ = self.empty.try_send(block);
        }
        if self.control.stop.get() == Stop::Abort {
            return Ok(());
        }
        self.wait_for_sync(&mut window)?;
        while self.sink.is_open() || !self.gathered.is_empty() {
            self.commit(&mut window, true)?;
        }
        Ok(())
    }

    /// Transforms and stores a block from the worker. If the job ends before the transform has processed a reply, the
    /// reply's target gets no outcome. The next run then fetches it again.
    fn transform_and_take(&mut self, block: &Block, window: &mut WriterWindow) -> Result<()> {
        let Some(mut transform) = self.transform.take() else { return self.take(block, window) };
        self.does(WriterActivity::Transforming);
        let progress = transform.run(block, &mut |made| {
            self.take(made, window)?;
            self.does(WriterActivity::Transforming);
            // The transform can take longer for a block than a window lasts.
            let is_over = window.since.is_some_and(|since| since.elapsed() >= self.commit_window);
            if is_over && !self.is_syncing(window)? { self.commit(window, false) } else { Ok(()) }
        })?;
        self.transform = Some(transform);
        if progress == TransformProgress::Stopped {
            let mut left: Vec<_> = block.fetched(0).map(|(_, entry)| entry.sequence).collect();
            self.control.journal.send(JournalRequest::Leave(Runs::from_unsorted(&mut left)));
        }
        Ok(())
    }

    /// Publishes the current activity for the job's samples.
    fn does(&self, activity: WriterActivity) {
        self.control.telemetry.workers[self.worker as usize].set_writer(activity);
    }

    fn take(&mut self, block: &Block, window: &mut WriterWindow) -> Result<()> {
        self.does(WriterActivity::Storing);
        window.add(block, 0);
        self.write(block, window)?;
        if let Some(preflight) = &self.control.preflight
            && let Err(error) = preflight.note(block)
        {
            // Objects that were fetched so far still become durable.
            self.control.stop.fail(error);
        }
        let is_full = window.outcomes >= COMMIT_WINDOW_OUTCOMES_MAX || window.bytes >= COMMIT_WINDOW_BYTES;
        if is_full || self.sink.is_full() { self.commit(window, false) } else { Ok(()) }
    }

    /// Returns the next block. If the window ends before the block arrives, commits the window. Returns `None` if no
    /// more blocks follow.
    fn next_block(&mut self, window: &mut WriterWindow) -> Result<Option<Block>> {
        loop {
            let is_syncing = self.is_syncing(window)?;
            let left = window.since.map(|since| self.commit_window.saturating_sub(since.elapsed()));
            // While the previous window is being synced, this window continues until it is full.
            let left = left.filter(|left| !(is_syncing && left.is_zero()));
            if left.is_some_and(|left| left.is_zero()) {
                self.commit(window, false)?;
                continue;
            }
            self.does(WriterActivity::Idle);
            match self.wait(left) {
                Waited::Block(block) if self.control.stop.get() != Stop::Abort => return Ok(block),
                Waited::Block(_) => return Ok(None),
                Waited::Synced(number) => self.committed(window, number?)?,
                Waited::Long => {}
            }
        }
    }

    /// Waits up to `left` for a block or the end of a sync.
    fn wait(&mut self, left: Option<Duration>) -> Waited {
        let SinkWriter { runtime, blocks, sync_thread, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                block = blocks.recv() => Waited::Block(block),
                number = end_of(sync_thread.as_mut()) => Waited::Synced(number),
                () = sleep(left) => Waited::Long,
            }
        })
    }

    fn write(&mut self, block: &Block, window: &mut WriterWindow) -> Result<()> {
        if self.has_rows {
            return self.write_rows(block);
        }
        for entry in block.entries() {
            if entry.outcome == Outcome::Fetched {
                continue;
            }
            self.failures.add(block, entry)?;
            self.gathered.add(entry.sequence, entry.outcome, entry.status, Some(block.name(entry)));
            if let Some(host) = block.forbidding_host(entry) {
                self.gathered.add_forbidding_host(host);
            }
        }
        let mut written = self.sink.write(block, 0)?;
        while written < block.entries().len() {
            self.commit(window, false)?;
            window.add(block, written);
            written = self.sink.write(block, written)?;
        }
        Ok(())
    }

    fn write_rows(&mut self, block: &Block) -> Result<()> {
        for entry in block.entries() {
            if self.keeps_rows {
                self.failures.add_line(block.line(entry))?;
            }
            self.gathered.add_row(entry.sequence, entry.outcome, entry.body.len());
            if let Some(host) = block.forbidding_host(entry) {
                self.gathered.add_forbidding_host(host);
            }
        }
        Ok(())
    }

    /// Returns whether the previous window is still being synced or recorded in the journal. If neither is the case,
    /// finishes that window.
    fn is_syncing(&mut self, window: &mut WriterWindow) -> Result<bool> {
        let Some(thread) = self.sync_thread.as_mut().filter(|thread| thread.is_busy()) else {
            return Ok(false);
        };
        let Some(number) = thread.poll() else { return Ok(true) };
        self.committed(window, number?)?;
        Ok(false)
    }

    /// Waits for the previous window if it is not finished.
    fn wait_for_sync(&mut self, window: &mut WriterWindow) -> Result<()> {
        self.does(WriterActivity::Storing);
        let Some(thread) = self.sync_thread.as_mut().filter(|thread| thread.is_busy()) else { return Ok(()) };
        let number = thread.wait()?;
        self.committed(window, number)
    }

    /// Ends a window: makes its bytes durable, commits the record to the journal, and lets the sink finish. All steps
    /// but the first can happen later, while the next window is written.
    fn commit(&mut self, window: &mut WriterWindow, is_last: bool) -> Result<()> {
        self.wait_for_sync(window)?;
        *window = WriterWindow::default();
        let failures = if self.gathered.is_empty() { None } else { self.failures.checkpoint()? };
        let mut durable = self.sink.checkpoint(is_last)?;
        let sync = durable.sync.take();
        let receipt = self.gathered.receipt(self.worker, durable, failures);
        if let Some(sync) = sync {
            let thread = match self.sync_thread.take() {
                Some(thread) => thread,
                None => SyncThread::start(&self.control)?,
            };
            self.sync_thread.insert(thread).begin(sync, receipt)?;
        } else {
            let number = receipt.map_or(Ok(None), |receipt| self.control.journal.commit_receipt(receipt))?;
            self.committed(window, number)?;
        }
        if is_last { self.wait_for_sync(window) } else { Ok(()) }
    }

    /// Finishes the last checkpoint after its receipt was recorded in the journal.
    fn committed(&mut self, window: &mut WriterWindow, number: Option<ShardNumber>) -> Result<()> {
        for refused in self.sink.committed(number)? {
            self.failures.add_refused(&refused)?;
            self.gathered.add_failed(refused.sequence, refused.kind);
            self.control.counters[self.worker as usize].refuse(refused.kind);
        }
        if !self.gathered.is_empty() || self.sink.has_unsettled() {
            window.since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }
}

/// Event that woke the writer.
enum Waited {
    /// A block, or `None` if the worker has ended.
    Block(Option<Block>),
    /// The previous window was synced. Contains the journal's answer.
    Synced(Result<Option<ShardNumber>>),
    /// The time has run out.
    Long,
}

async fn end_of(thread: Option<&mut SyncThread>) -> Result<Option<ShardNumber>> {
    match thread.filter(|thread| thread.is_busy()) {
        Some(thread) => thread.end().await,
        None => std::future::pending().await,
    }
}

async fn sleep(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}
