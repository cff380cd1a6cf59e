//! Verifies the ledger and the checksums of a destination in any format, using several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::files;
use super::ledger::{Ledger, LedgerCounts};
use super::monitor::VerifyMonitor;
use super::sample::ObjectSample;
use super::shards::{self, FoundFaults};
use crate::journal::{JobLocation, JournalSnapshot};
use crate::reader::bits::Bits;
use crate::sink::{Format, ShardFolder};
use fetchmill_model::error::{Error, Result};

/// The job that is being verified, and the tools for verifying it.
pub(super) struct VerifyRun<'j> {
    pub(super) place: &'j JobLocation,
    pub(super) snapshot: &'j JournalSnapshot,
    pub(super) format: Format,
    pub(super) threads: usize,
    pub(super) watch: &'j VerifyMonitor,
}

impl VerifyRun<'_> {
    pub(super) fn shard_folder(&self) -> Option<ShardFolder> {
        self.format.extension().map(|extension| ShardFolder::new(&self.place.dest, extension, true))
    }

    pub(super) fn verify(
        &self,
        sample: &mut ObjectSample,
        faults: &FoundFaults,
        lost: &Mutex<Bits>,
    ) -> Result<LedgerCounts> {
        let mut ledger = Ledger::new(self.snapshot, self.watch)?;
        match (self.shard_folder(), self.format) {
            (Some(shard_folder), _) => self.verify_shards(&shard_folder, &mut ledger, sample, faults)?,
            (None, Format::Files) => {
                self.watch.expect(self.snapshot.tally.bytes);
                ledger.read_failures(self.place);
                ledger.read_pending(self.place)?;
                files::check(self.place, self.snapshot, &mut ledger, sample, lost, self.threads, self.watch)?;
                files::find_unknown(self.place, self.snapshot, self.watch)?;
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

    /// Verifies shards on all threads, and the ledger at the same time.
    fn verify_shards(
        &self,
        shard_folder: &ShardFolder,
        ledger: &mut Ledger<'_>,
        sample: &mut ObjectSample,
        faults: &FoundFaults,
    ) -> Result<()> {
        let (snapshot, watch) = (self.snapshot, self.watch);
        watch.expect(snapshot.shards.iter().map(shards::bytes_of).fold(0, u64::saturating_add));
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..self.threads)
                .map(|_| {
                    scope.spawn(|| {
                        while let Some(shard) = snapshot.shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                            shards::check_sealed(self.format, shard_folder, shard, faults, watch)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            let read = self.read_ledger(shard_folder, ledger, sample, faults);
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
        shard_folder: &ShardFolder,
        ledger: &mut Ledger<'_>,
        sample: &mut ObjectSample,
        faults: &FoundFaults,
    ) -> Result<()> {
        for open in &self.snapshot.open_shards {
            shards::check_open(shard_folder, open, faults, self.watch)?;
        }
        shards::check_unfetched(shard_folder, self.snapshot, faults, self.watch)?;
        shards::check_cdxj(shard_folder, self.snapshot, faults, self.watch)?;
        shards::find_unknown(&self.place.dest, self.format, self.snapshot, self.watch)?;
        ledger.read_shards(shard_folder, faults, sample)?;
        ledger.read_failures(self.place);
        ledger.read_pending(self.place)
    }
}
