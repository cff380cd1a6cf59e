//! The thread beside a worker that has its sink: takes blocks, and at the end of each commit window makes them
//! durable, sends the receipt and waits until that is in the journal. All syncs happen here.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;

use super::control::{Control, Stop};
use super::gathered::Gathered;
use super::recorder::ToJournal;
use super::transform::Transform;
use crate::error::Result;
use crate::limits::{COMMIT_WINDOW_BYTES, COMMIT_WINDOW_OUTCOMES_MAX};
use crate::outcome::{Outcome, Receipt, ShardNumber};
use crate::sink::failures::FailuresShard;
use crate::sink::{Block, Sink};

pub(super) struct Writer {
    pub(super) worker: u32,
    pub(super) control: Arc<Control>,
    pub(super) sink: Box<dyn Sink>,
    pub(super) failures: FailuresShard,
    /// Whether this is a check: every outcome is a row in the failures shard, and the sink gets none.
    pub(super) has_rows: bool,
    pub(super) commit_window: Duration,
    /// Only to wait for a block or the end of a window.
    pub(super) runtime: Runtime,
    pub(super) blocks: Receiver<Block>,
    /// Blocks go back to the worker, which uses their memory again.
    pub(super) empty: tokio::sync::mpsc::UnboundedSender<Block>,
    pub(super) gathered: Gathered,
    /// What fetched replies become before they are stored.
    pub(super) transform: Option<Transform>,
}

/// What has gathered in a window.
#[derive(Default)]
struct Window {
    outcomes: usize,
    bytes: u64,
    since: Option<Instant>,
}

impl Writer {
    /// Works until the worker has gone.
    pub(super) fn run(mut self) -> Result<()> {
        let mut window = Window::default();
        if let Some(transform) = &mut self.transform {
            // What is wrong with the function is told before it is needed.
            transform.start()?;
        }
        while let Some(mut block) = self.next_block(&mut window)? {
            self.transform_and_take(&block, &mut window)?;
            block.clear();
            // The worker may have ended: then nobody needs the memory.
            let _ = self.empty.send(block);
        }
        if self.control.stop() == Stop::Abort {
            return Ok(());
        }
        while self.sink.is_open() || !self.gathered.is_empty() {
            self.commit(&mut window, true)?;
        }
        Ok(())
    }

    /// A block on its way from the worker. What a transform did not come to at the end of a job is left out: it has no
    /// outcome, and is fetched again by the next run.
    fn transform_and_take(&mut self, block: &Block, window: &mut Window) -> Result<()> {
        let Some(mut transform) = self.transform.take() else { return self.take(block, window) };
        transform.run(block, &mut |made| {
            self.take(made, window)?;
            // The function may take longer for a block than a window is.
            let is_over = window.since.is_some_and(|since| since.elapsed() >= self.commit_window);
            if is_over { self.commit(window, false) } else { Ok(()) }
        })?;
        self.transform = Some(transform);
        Ok(())
    }

    fn take(&mut self, block: &Block, window: &mut Window) -> Result<()> {
        window.since.get_or_insert_with(Instant::now);
        window.outcomes += block.entries().len();
        window.bytes += block.entries().iter().map(|entry| entry.body.len()).sum::<u64>();
        self.write(block, window)?;
        if let Some(preflight) = &self.control.preflight
            && let Err(error) = preflight.note(block)
        {
            // What was fetched is made durable all the same.
            self.control.fail(error);
        }
        let is_full = window.outcomes >= COMMIT_WINDOW_OUTCOMES_MAX || window.bytes >= COMMIT_WINDOW_BYTES;
        if is_full || self.sink.is_full() { self.commit(window, false) } else { Ok(()) }
    }

    /// The next block; commits when a window ends before it comes. `None`: there will be none.
    fn next_block(&mut self, window: &mut Window) -> Result<Option<Block>> {
        loop {
            let left = window.since.map(|since| self.commit_window.saturating_sub(since.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                self.commit(window, false)?;
                continue;
            }
            let received = match left {
                None => Ok(self.runtime.block_on(self.blocks.recv())),
                Some(left) => {
                    let blocks = &mut self.blocks;
                    self.runtime.block_on(async { tokio::time::timeout(left, blocks.recv()).await })
                }
            };
            match received {
                Ok(block) if self.control.stop() != Stop::Abort => return Ok(block),
                Ok(_) => return Ok(None),
                Err(_) => {}
            }
        }
    }

    fn write(&mut self, block: &Block, window: &mut Window) -> Result<()> {
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
            written = self.sink.write(block, written)?;
        }
        Ok(())
    }

    fn write_rows(&mut self, block: &Block) -> Result<()> {
        for entry in block.entries() {
            self.failures.add_line(block.line(entry))?;
            self.gathered.add_row(entry.sequence, entry.outcome, entry.body.len());
        }
        Ok(())
    }

    /// Ends a window: bytes durable, receipt, journal, and then what the sink does behind that.
    fn commit(&mut self, window: &mut Window, is_last: bool) -> Result<()> {
        *window = Window::default();
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
        let (acknowledge, acknowledged) = sync_channel(1);
        self.control.journal(ToJournal::Receipt(Box::new(receipt), acknowledge));
        // It ends only with an error, which is known by then and is the one that is shown.
        acknowledged.recv().map_err(|_| super::recorder::ended())
    }
}
