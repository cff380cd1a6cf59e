//! Applies an engine's answers to the targets that it was given.

use std::time::Duration;

use super::dispatcher::Dispatcher;
use super::rules::WorkerAnswer;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;

impl Dispatcher {
    /// Records the engine's answers, one per target that was handed out. Blocks while the sink cannot keep up.
    pub fn report<'a>(&mut self, answers: impl IntoIterator<Item = WorkerAnswer<'a>>) -> Result<()> {
        let mut count = 0;
        for answer in answers {
            count += 1;
            self.take_answer(answer)?;
            if self.block_sender.block.is_full() {
                self.send_block(true);
            }
        }
        self.rate.note(count);
        self.send_block(false);
        // Report now if other workers might be waiting for the freed slots, or if the end of the job waits for the last
        // answers. Observations of the origin are reported as often as a native worker reports them.
        if self.held.is_empty()
            || !self.done.retries.is_empty()
            || self.done.observed.probes > 0
            || self.told_at.elapsed() >= limits::TICK
        {
            self.turn(0, Duration::ZERO)?;
        }
        Ok(())
    }

    fn take_answer(&mut self, answer: WorkerAnswer<'_>) -> Result<()> {
        let (WorkerAnswer::Replied { sequence, .. } | WorkerAnswer::Broken { sequence, .. }) = answer;
        self.done.attempts += 1;
        let Some(target) = self.held.remove(&sequence) else {
            return Err(Error::Usage(format!("target {sequence} has an answer but is not being fetched")));
        };
        if let Some(rate) = &self.rules.byte_rate {
            let came = if let WorkerAnswer::Replied { body, .. } = answer { body.len() } else { 0 };
            rate.correct(target.reserved, came);
        }
        match answer {
            WorkerAnswer::Broken { kind, detail, .. } => self.broken(target, kind, detail),
            WorkerAnswer::Replied { status, body, is_verified, fields, .. } => {
                self.done.received += body.len() as u64;
                self.mean_body.add(body.len());
                self.replied(target, status, body, is_verified, fields)?;
            }
        }
        self.done.observed.probes += u32::from(self.control.plan.is_probe(sequence));
        Ok(())
    }
}
