//! The thread beside a worker that has its sink: takes blocks, and at the end of each commit window makes them
//! durable, sends the receipt and waits until that is in the journal. All syncs happen here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, Sender};

use super::block_sender::BlockSender;
use super::body_memory::BodyMemory;
use super::control::Control;
use super::journal_link::JournalRequest;
use super::options::JobOptions;
use super::recovery;
use super::stop::Stop;
use super::telemetry::WriterActivity;
use super::threads::waiting_runtime;
use super::transform::{self, Transform};
use super::window_outcomes::WindowOutcomes;
use crate::error::Result;
use crate::journal::JobLocation;
use crate::limits::{self, COMMIT_WINDOW_BYTES, COMMIT_WINDOW_OUTCOMES_MAX};
use crate::outcome::{Outcome, Receipt, ShardNumber};
use crate::sink::failures::FailuresShard;
use crate::sink::{Block, Properties, ShardSize, Sink, SinkSetup, Stage, StoredParts};

pub(super) struct SinkWriter {
    worker: u32,
    control: Arc<Control>,
    sink: Box<dyn Sink>,
    failures: FailuresShard,
    /// Whether every outcome is a row, and the sink gets none.
    has_rows: bool,
    /// Whether rows are kept, in the failures shard.
    keeps_rows: bool,
    commit_window: Duration,
    /// Only to wait for a block or the end of a window.
    runtime: Runtime,
    blocks: Receiver<Block>,
    /// Blocks go back to the worker, which uses their memory again.
    empty: Sender<Block>,
    body_memory: Arc<BodyMemory>,
    gathered: WindowOutcomes,
    /// What fetched replies become before they are stored.
    transform: Option<Transform>,
}

/// A worker's end of the way to its writer.
pub(super) struct BlockInput {
    pub(super) properties: Properties,
    pub(super) body_memory: Arc<BodyMemory>,
    /// Where bodies go that are too large for memory; none when bodies are not kept.
    pub(super) stage: Option<Arc<Stage>>,
    pub(super) blocks: Sender<Block>,
    pub(super) empty: Receiver<Block>,
}

impl BlockInput {
    /// For a worker whose transport is not ours.
    pub(super) fn into_block_sender(self) -> BlockSender {
        BlockSender::new(self.properties, self.body_memory, self.stage, self.blocks, self.empty)
    }
}

/// The writer of a worker, with its sink, and the way to it. `small`: shards of earlier runs that it may merge.
pub(super) fn open(
    place: &JobLocation,
    options: &JobOptions,
    control: &Arc<Control>,
    setup: &SinkSetup,
    worker: usize,
    small: Vec<ShardSize>,
) -> Result<(SinkWriter, BlockInput)> {
    let (blocks, to_write) =
        tokio::sync::mpsc::channel((limits::BLOCKS_QUEUED_MAX / control.plan.workers()).max(1));
    let (empty, to_fill) = tokio::sync::mpsc::channel(limits::BLOCKS_KEPT);
    let properties = options.properties();
    let body_memory = BodyMemory::of_workers(control.plan.workers());
    let stage = Arc::new(Stage::open(&place.stage_path().join(worker.to_string()))?);
    let writer = SinkWriter {
        worker: worker as u32,
        control: Arc::clone(control),
        sink: setup.open(worker as u32, &stage, small)?,
        failures: FailuresShard::new(
            &place.failures_path(),
            recovery::shard_name("worker", worker as u32),
            options.is_durable(),
        ),
        has_rows: options.rows.is_some(),
        keeps_rows: options.rows.as_ref().is_some_and(|rows| !rows.is_given),
        commit_window: options.commit_window,
        runtime: waiting_runtime()?,
        blocks: to_write,
        empty,
        body_memory: Arc::clone(&body_memory),
        gathered: WindowOutcomes::default(),
        transform: transform::of_worker(options, control, worker, &stage)?,
    };
    let stage = (properties.keeps >= StoredParts::Bodies).then_some(stage);
    Ok((writer, BlockInput { properties, body_memory, stage, blocks, empty: to_fill }))
}

/// What has gathered in a window.
#[derive(Default)]
struct WriterWindow {
    outcomes: usize,
    bytes: u64,
    since: Option<Instant>,
}

impl WriterWindow {
    /// Outcomes of a block from one on are in it: it has begun.
    fn add(&mut self, block: &Block, from: usize) {
        self.since.get_or_insert_with(Instant::now);
        self.outcomes += block.entries().len() - from;
        self.bytes += block.entries()[from..].iter().map(|entry| entry.body.len()).sum::<u64>();
    }
}

impl SinkWriter {
    /// Works until the worker has gone.
    pub(super) fn run(mut self) -> Result<()> {
        let mut window = WriterWindow::default();
        if let Some(transform) = &mut self.transform {
            // What is wrong with the function is told before it is needed.
            transform.start()?;
        }
        while let Some(mut block) = self.next_block(&mut window)? {
            self.transform_and_take(&block, &mut window)?;
            if self.body_memory.release(block.memory()) {
                self.control.plan.wake(self.worker as usize).notify_one();
            }
            block.clear();
            // There may be enough of them, or the worker has ended: then nobody needs the memory.
            let _ = self.empty.try_send(block);
        }
        if self.control.stop.get() == Stop::Abort {
            return Ok(());
        }
        while self.sink.is_open() || !self.gathered.is_empty() {
            self.commit(&mut window, true)?;
        }
        Ok(())
    }

    /// A block on its way from the worker. What a transform did not come to at the end of a job is left out: it has no
    /// outcome, and is fetched again by the next run.
    fn transform_and_take(&mut self, block: &Block, window: &mut WriterWindow) -> Result<()> {
        let Some(mut transform) = self.transform.take() else { return self.take(block, window) };
        self.does(WriterActivity::Transforming);
        transform.run(block, &mut |made| {
            self.take(made, window)?;
            self.does(WriterActivity::Transforming);
            // The function may take longer for a block than a window is.
            let is_over = window.since.is_some_and(|since| since.elapsed() >= self.commit_window);
            if is_over { self.commit(window, false) } else { Ok(()) }
        })?;
        self.transform = Some(transform);
        Ok(())
    }

    /// For who samples the job.
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
            // What was fetched is made durable all the same.
            self.control.stop.fail(error);
        }
        let is_full = window.outcomes >= COMMIT_WINDOW_OUTCOMES_MAX || window.bytes >= COMMIT_WINDOW_BYTES;
        if is_full || self.sink.is_full() { self.commit(window, false) } else { Ok(()) }
    }

    /// The next block; commits when a window ends before it comes. `None`: there will be none.
    fn next_block(&mut self, window: &mut WriterWindow) -> Result<Option<Block>> {
        loop {
            let left = window.since.map(|since| self.commit_window.saturating_sub(since.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                self.commit(window, false)?;
                continue;
            }
            self.does(WriterActivity::Idle);
            let received = match left {
                None => Ok(self.runtime.block_on(self.blocks.recv())),
                Some(left) => {
                    let blocks = &mut self.blocks;
                    self.runtime.block_on(async { tokio::time::timeout(left, blocks.recv()).await })
                }
            };
            match received {
                Ok(block) if self.control.stop.get() != Stop::Abort => return Ok(block),
                Ok(_) => return Ok(None),
                Err(_) => {}
            }
        }
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
            self.gathered.add(entry.sequence, entry.outcome);
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
        }
        Ok(())
    }

    /// Ends a window: bytes durable, receipt, journal, and then what the sink does behind that.
    fn commit(&mut self, window: &mut WriterWindow, is_last: bool) -> Result<()> {
        self.does(WriterActivity::Storing);
        *window = WriterWindow::default();
        let failures = if self.gathered.is_empty() { None } else { self.failures.checkpoint()? };
        let durable = self.sink.checkpoint(is_last)?;
        let number = match self.gathered.receipt(self.worker, durable, failures) {
            None => None,
            Some(receipt) => self.journal(receipt)?,
        };
        for refused in self.sink.committed(number)? {
            self.failures.add_refused(&refused)?;
            self.gathered.add(refused.sequence, Outcome::Failed(refused.kind));
            self.control.counters[self.worker as usize].refuse(refused.kind);
        }
        if !self.gathered.is_empty() || self.sink.has_unsettled() {
            window.since = Some(Instant::now());
        }
        Ok(())
    }

    fn journal(&self, receipt: Receipt) -> Result<Option<ShardNumber>> {
        // It fails only with an error that is known by then, and is the one that is shown.
        self.control.journal.commit(|acknowledge| JournalRequest::Receipt(Box::new(receipt), acknowledge))
    }
}
