//! The worker of a job that writes out its list. Each target becomes a row, and nothing is requested.
//!
//! Rows are sent to the writer in blocks, as in a check. If the program that started the job reads the rows itself, it
//! receives them as chunks of JSON lines, at its own speed. In that case no rows are stored, and the writer only
//! records outcomes. Items of an API are sent to the writer as complete objects.

mod item_rows;
mod target_urls;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender};

use super::target::{CurrentTarget, TargetQueue};
use crate::control::Control;
use crate::control::counters::Delta;
use crate::control::stop::Stop;
use crate::event_queues::waiting_runtime;
use crate::writer::BlockInput;
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::planner::{NextWork, WorkerReport};
use fetchmill_model::row::ListRow;
use fetchmill_store::results::write_manifest_line;
use fetchmill_store::sink::Block;
pub(crate) use item_rows::ItemRows;
pub(crate) use target_urls::TargetUrls;

/// Index of this worker, which is the only one.
const INDEX: usize = 0;

/// Settings of the worker.
pub(crate) struct ListWorkerSetup {
    pub(crate) control: Arc<Control>,
    pub(crate) row_source: RowSource,
    pub(crate) block_input: BlockInput,
    /// Channel for chunks of rows. `None` stores the rows in the job's shards.
    pub(crate) rows_chunks: Option<Sender<Vec<u8>>>,
    /// Whether the program receives its rows as manifest lines.
    pub(crate) is_manifest: bool,
}

/// Source of the rows.
pub(crate) enum RowSource {
    /// Targets as they were listed.
    Targets(TargetUrls),
    /// Items of an API. Each item is a target of its own.
    Items(ItemRows),
}

/// The only worker of such a job. See the [module documentation](self).
struct ListWorker {
    setup: ListWorkerSetup,
    target: CurrentTarget,
    line: Vec<u8>,
    block: Block,
    rows_chunk: Vec<u8>,
    delta: Delta,
}

/// Runs until every target has a row or the job is ending.
pub(crate) fn run(setup: ListWorkerSetup) -> Result<()> {
    let list_worker = ListWorker {
        setup,
        target: CurrentTarget::default(),
        line: Vec::new(),
        block: Block::default(),
        rows_chunk: Vec::new(),
        delta: Delta::default(),
    };
    waiting_runtime()?.block_on(list_worker.drive());
    Ok(())
}

impl ListWorker {
    async fn drive(mut self) {
        let control = Arc::clone(&self.setup.control);
        let mut report = WorkerReport::default();
        while control.stop.get() == Stop::No {
            match control.turn(INDEX, std::mem::take(&mut report), limits::BATCH_TARGETS_MAX) {
                NextWork::Batch(batch) => {
                    let mut queue = TargetQueue::default();
                    queue.set(batch);
                    report.settled = self.write(queue).await;
                }
                NextWork::Wait | NextWork::WaitUntil(_) => {
                    // Finished rows must not wait for later ones.
                    self.send_rows_chunk();
                    self.send_block().await;
                    let _ = tokio::time::timeout(limits::TICK, control.plan.wake(INDEX).notified()).await;
                }
                NextWork::Done => break,
            }
        }
        if control.stop.get() != Stop::Abort {
            self.send_rows_chunk();
            self.send_block().await;
        }
        control.turn(INDEX, report, 0);
    }

    /// Writes the rows of a batch and returns the number of rows. If the job is ending, the remaining targets stay
    /// pending.
    async fn write(&mut self, mut queue: TargetQueue) -> usize {
        let mut settled = 0;
        while queue.take(&mut self.target) {
            self.push_row();
            settled += 1;
            if self.rows_chunk.len() >= limits::ROWS_CHUNK_BYTES && !self.send_rows_chunk() {
                break;
            }
            if self.block.is_full() {
                self.send_block().await;
            }
        }
        settled
    }

    fn push_row(&mut self) {
        let ListWorker { setup, target, line, block, rows_chunk, delta } = self;
        let target_urls = match &mut setup.row_source {
            RowSource::Targets(target_urls) => target_urls,
            RowSource::Items(item_rows) => {
                let outcome = item_rows.push(target.sequence, &target.entry, block);
                return delta.count(outcome, 0);
            }
        };
        line.clear();
        let row: ListRow<'_> = target_urls.row_of(&target.entry);
        if setup.is_manifest {
            write_manifest_line(&row, line);
        } else {
            row.write_line(line);
        }
        let outcome = if row.url.is_some() { Outcome::Fetched } else { Outcome::Failed(FailureKind::Url) };
        delta.count(outcome, 0);
        let kept = if setup.rows_chunks.is_some() {
            if !setup.is_manifest {
                line.push(b'\n');
            }
            rows_chunk.append(line);
            &[]
        } else {
            line.as_slice()
        };
        block.push_row(target.sequence, outcome, 0, 0, 0, kept);
    }

    /// Sends the collected rows to the program, once the program has room. Returns whether the job continues.
    fn send_rows_chunk(&mut self) -> bool {
        let Some(rows_chunks) = &self.setup.rows_chunks else { return true };
        let mut rows_chunk = std::mem::take(&mut self.rows_chunk);
        while !rows_chunk.is_empty() {
            match rows_chunks.send_timeout(rows_chunk, Duration::from_millis(50)) {
                Ok(()) => return true,
                Err(SendTimeoutError::Timeout(again)) if self.setup.control.stop.get() == Stop::No => {
                    rows_chunk = again;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends the block to the writer. Waits while the writer cannot keep up.
    async fn send_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let block_input = &mut self.setup.block_input;
        let fresh = block_input.empty.try_recv().unwrap_or_default();
        let block = std::mem::replace(&mut self.block, fresh);
        self.setup.control.counters[INDEX].add(&mut self.delta);
        // If the writer has ended, the job has ended too.
        let _ = block_input.blocks.send(block).await;
    }
}
