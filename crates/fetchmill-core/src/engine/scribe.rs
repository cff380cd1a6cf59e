//! The worker of a list that is written out: a target becomes a row as it was listed, and nobody is asked.
//!
//! Rows go to the writer as those of a check do, a block at a time. Or they go to the program that has started the job,
//! as lines of JSON in parcels, while it takes them: then nothing of them is kept, and the writer only settles them.

mod home;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{SendTimeoutError, Sender};

use super::control::{Control, Stop};
use super::counters::Delta;
use super::threads::waiting_runtime;
use super::worker::queue::{Queue, Target};
use super::writer::Inlet;
use crate::error::Result;
use crate::limits;
use crate::outcome::{FailureKind, Outcome};
use crate::planner::{Next, Report};
use crate::row::ListedRow;
use crate::sink::Block;
pub(super) use home::Home;

/// Its number among the workers: it is the only one.
const INDEX: usize = 0;

/// What the worker is made of.
pub(super) struct Setup {
    pub(super) control: Arc<Control>,
    pub(super) home: Home,
    pub(super) inlet: Inlet,
    /// Where parcels of rows go; none: into the shards of the job.
    pub(super) parcels: Option<Sender<Vec<u8>>>,
}

/// See the module.
struct Scribe {
    setup: Setup,
    target: Target,
    line: Vec<u8>,
    block: Block,
    parcel: Vec<u8>,
    delta: Delta,
}

/// Works until every target has its row, or the job is to end.
pub(super) fn run(setup: Setup) -> Result<()> {
    let scribe = Scribe {
        setup,
        target: Target::default(),
        line: Vec::new(),
        block: Block::default(),
        parcel: Vec::new(),
        delta: Delta::default(),
    };
    waiting_runtime()?.block_on(scribe.drive());
    Ok(())
}

impl Scribe {
    async fn drive(mut self) {
        let control = Arc::clone(&self.setup.control);
        let mut report = Report::default();
        while control.stop() == Stop::No {
            match control.turn(INDEX, std::mem::take(&mut report), limits::BATCH_TARGETS_MAX) {
                Next::Batch(batch) => {
                    let mut queue = Queue::default();
                    queue.set(batch);
                    report.settled = self.write(queue).await;
                }
                Next::Wait | Next::WaitUntil(_) => {
                    // Nobody is to wait for a row that is there.
                    self.send_parcel();
                    self.send_block().await;
                    let _ = tokio::time::timeout(limits::TICK, control.wake(INDEX).notified()).await;
                }
                Next::Done => break,
            }
        }
        if control.stop() != Stop::Abort {
            self.send_parcel();
            self.send_block().await;
        }
        control.turn(INDEX, report, 0);
    }

    /// Makes rows of a batch; how many. What is left of it when the job is to end stays pending.
    async fn write(&mut self, mut queue: Queue) -> usize {
        let mut settled = 0;
        while queue.take(&mut self.target) {
            self.push_row();
            settled += 1;
            if self.parcel.len() >= limits::PARCEL_BYTES && !self.send_parcel() {
                break;
            }
            if self.block.is_full() {
                self.send_block().await;
            }
        }
        settled
    }

    fn push_row(&mut self) {
        let Scribe { setup, target, line, block, parcel, delta } = self;
        line.clear();
        let row: ListedRow<'_> = setup.home.row_of(&target.entry);
        row.write_line(line);
        let outcome = if row.url.is_some() { Outcome::Fetched } else { Outcome::Failed(FailureKind::Url) };
        delta.count(outcome, 0);
        let kept = if setup.parcels.is_some() {
            line.push(b'\n');
            parcel.append(line);
            &[]
        } else {
            line.as_slice()
        };
        block.push_row(target.sequence, outcome, 0, 0, 0, kept);
    }

    /// Hands over what there is for the program, as soon as that has room; whether the job goes on.
    fn send_parcel(&mut self) -> bool {
        let Some(parcels) = &self.setup.parcels else { return true };
        let mut parcel = std::mem::take(&mut self.parcel);
        while !parcel.is_empty() {
            match parcels.send_timeout(parcel, Duration::from_millis(50)) {
                Ok(()) => return true,
                Err(SendTimeoutError::Timeout(again)) if self.setup.control.stop() == Stop::No => {
                    parcel = again;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends the block to the writer; waits while that is behind.
    async fn send_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let inlet = &mut self.setup.inlet;
        let fresh = inlet.empty.try_recv().unwrap_or_default();
        let block = std::mem::replace(&mut self.block, fresh);
        self.setup.control.counters[INDEX].add(&mut self.delta);
        // A writer that has ended has ended the job with it.
        let _ = inlet.blocks.send(block).await;
    }
}
