//! Verifies that every assigned sequence number is in exactly one place: a manifest, a failures shard, or the pending
//! targets. Also verifies the counters.
//!
//! All manifests are read once, ordered by shard. If a target has two copies, the copy in the shard with the lower
//! number counts.

use crc32c::crc32c_append;
use std::io::Read as _;

use super::finding::{Finding, FindingKind};
use super::monitor::VerifyMonitor;
use super::sample::ObjectSample;
use super::shards::{FoundFaults, locate};
use crate::journal::{JobLocation, JournalSnapshot, for_each_pending};
use crate::manifest::ManifestRow;
use crate::reader::bits::Bits;
use crate::reader::frames;
use crate::sink::ShardFolder;
use crate::sink::failures::FailureRows;
use fetchmill_model::error::Result;
use fetchmill_model::limits::MIB;
use fetchmill_model::outcome::{ShardEnd, ShardNumber};

/// Counts from the verification, for comparison with the tally.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Targets with a stored object.
    pub fetched: u64,
    /// Total size of these objects in bytes.
    pub bytes: u64,
    /// Absent targets in the failures shards.
    pub absent: u64,
    /// Failed targets in the failures shards.
    pub failed: u64,
    /// Targets in the failures shards that a transform dropped. Targets that a filter excluded have no sequence number.
    pub skipped: u64,
    /// Targets without an outcome.
    pub pending: u64,
}

/// See the [module documentation](self).
pub(super) struct Ledger<'l> {
    snapshot: &'l JournalSnapshot,
    watch: &'l VerifyMonitor,
    seen: Bits,
    pub(super) counted: LedgerCounts,
}

impl<'l> Ledger<'l> {
    pub(super) fn new(snapshot: &'l JournalSnapshot, watch: &'l VerifyMonitor) -> Result<Self> {
        Ok(Ledger {
            snapshot,
            watch,
            seen: Bits::new(snapshot.next_sequence)?,
            counted: LedgerCounts::default(),
        })
    }

    /// Claims the target of a stored object. Returns whether this is the target's first object.
    pub(super) fn claim_row(&mut self, row: &ManifestRow<'_>) -> SequenceClaim {
        match self.seen.set(row.sequence) {
            Some(true) => {
                self.counted.fetched += 1;
                self.counted.bytes = self.counted.bytes.saturating_add(row.length);
                SequenceClaim::First
            }
            Some(false) => SequenceClaim::Another,
            None => SequenceClaim::NoTarget,
        }
    }

    /// Reads the sealed shards by number, and then the open ones.
    pub(super) fn read_shards(
        &mut self,
        shard_folder: &ShardFolder,
        faults: &FoundFaults,
        sample: &mut ObjectSample,
    ) -> Result<()> {
        let (snapshot, watch) = (self.snapshot, self.watch);
        for shard in &snapshot.shards {
            let (_, path) = locate(shard_folder, shard);
            frames::for_each_frame(&path, None, &|| watch.is_stopped(), &mut |frame| {
                for (position, row) in frame.iter().enumerate() {
                    let number = frame.first_row() + position as u64;
                    match self.claim_row(&row) {
                        SequenceClaim::First => sample.offer(&row, Some((shard.number, number))),
                        claim => {
                            faults.double(shard, number)?;
                            self.tell_doubled(&row, claim, Some(shard.number));
                        }
                    }
                }
                Ok(())
            })?;
        }
        for open in &snapshot.open_shards {
            let path = shard_folder.open_path().join(&open.manifest.path);
            frames::for_each_frame(&path, Some(open.manifest.end), &|| watch.is_stopped(), &mut |frame| {
                for row in frame.iter() {
                    let claim = self.claim_row(&row);
                    self.tell_doubled(&row, claim, None);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn tell_doubled(&self, row: &ManifestRow<'_>, claim: SequenceClaim, shard: Option<ShardNumber>) {
        let detail = match claim {
            SequenceClaim::First => return,
            SequenceClaim::Another => "the object is also in an earlier shard",
            SequenceClaim::NoTarget => "no target has this number",
        };
        let mut finding = Finding::object(FindingKind::Doubled, row.name, row.sequence, detail);
        finding.shard = shard;
        // An open shard is kept or dropped as a whole, so a single object in it cannot be repaired.
        finding.is_repairable = shard.is_some();
        self.watch.find(finding);
    }

    /// Reads the targets that failed, were absent or were dropped.
    pub(super) fn read_failures(&mut self, place: &JobLocation) {
        let folder = place.failures_path();
        for shard in &self.snapshot.failures {
            let file = format!(".fetchmill/failures/{}", shard.path);
            if let Err(why) = check_prefix(&folder.join(&shard.path), shard) {
                self.watch.find(Finding::file(FindingKind::Damaged, &file, why).beyond_repair());
            }
            let rows = match FailureRows::open(&folder, shard) {
                Ok(rows) => rows,
                Err(error) => {
                    self.watch.find(
                        Finding::file(FindingKind::Damaged, &file, frames::one_cause(&error)).beyond_repair(),
                    );
                    continue;
                }
            };
            for row in rows {
                let Ok(row) = row else {
                    // The damage was already reported with the checksum. The rows after it are reported as missing.
                    break;
                };
                if self.seen.set(row.sequence) == Some(true) {
                    match row.outcome.as_str() {
                        _ if row.is_skipped() => self.counted.skipped += 1,
                        "absent" => self.counted.absent += 1,
                        _ => self.counted.failed += 1,
                    }
                } else {
                    let name = row.name_bytes().unwrap_or_default();
                    let detail = format!("it is listed as {}, but also has another outcome", row.outcome);
                    self.watch.find(
                        Finding::object(FindingKind::Doubled, &name, row.sequence, detail).beyond_repair(),
                    );
                }
            }
        }
    }

    /// Reads the targets without an outcome.
    pub(super) fn read_pending(&mut self, place: &JobLocation) -> Result<()> {
        for_each_pending(place, |sequence| {
            if self.seen.set(sequence) == Some(true) {
                self.counted.pending += 1;
            } else {
                let detail = "it is pending, but also has an outcome";
                self.watch.find(Finding::object(FindingKind::Doubled, b"", sequence, detail).beyond_repair());
            }
            Ok(())
        })
    }

    /// Counts the remaining targets as fetched. Used for a format that stores nothing and so has nothing to verify.
    pub(super) fn believe_rest(&mut self) {
        self.counted.fetched = self.snapshot.next_sequence - self.seen.set_count();
        self.counted.bytes = self.snapshot.tally.bytes;
        self.compare_tally();
    }

    /// Reports targets that were not found anywhere, and counters that are wrong.
    pub(super) fn conclude(&mut self) {
        if !self.snapshot.is_synced {
            self.tell_missing();
        }
        self.compare_tally();
    }

    fn tell_missing(&mut self) {
        for (first, count) in self.seen.clear_runs() {
            if self.watch.is_stopped() {
                return;
            }
            let last = first + count - 1;
            let detail = if count == 1 {
                format!("target {first} has no outcome and is not pending; its name is unknown")
            } else {
                format!(
                    "targets {first} to {last} have no outcome and are not pending; their names are unknown"
                )
            };
            let mut finding = Finding::object(FindingKind::Missing, b"", first, detail).beyond_repair();
            finding.objects = count;
            self.watch.find(finding);
        }
    }

    fn compare_tally(&self) {
        let JournalSnapshot { tally, next_sequence, failed_folders, is_synced, .. } = self.snapshot;
        let counted = &self.counted;
        let without_number = tally.skipped.saturating_sub(counted.skipped);
        // The numbers of objects that a sync removed are not reused.
        let given = if *is_synced { counted.fetched } else { *next_sequence };
        let listed = given.saturating_add(without_number).saturating_add(*failed_folders);
        let rows = [
            ("listed", tally.listed, listed),
            ("fetched", tally.fetched, counted.fetched),
            ("bytes", tally.bytes, counted.bytes),
            ("absent", tally.absent, counted.absent),
            ("failed", tally.failed, counted.failed.saturating_add(*failed_folders)),
            ("pending", tally.pending(), counted.pending),
        ];
        for (what, says, is) in rows {
            if says != is {
                let detail = format!("the journal records {says} {what}, but {is} were counted");
                let finding = Finding::file(FindingKind::Damaged, "the journal's counters", detail);
                self.watch.find(finding.beyond_repair());
            }
        }
    }
}

/// Result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceClaim {
    /// This is the target's first object.
    First,
    /// The target already has another object.
    Another,
    /// The target does not exist.
    NoTarget,
}

/// Verifies the checksum of the valid part of a file.
pub fn check_prefix(path: &std::path::Path, end: &ShardEnd) -> std::result::Result<(), String> {
    let mut file = std::fs::File::open(path).map_err(|error| error.to_string())?.take(end.end);
    let mut buffer = vec![0; MIB / 4];
    let (mut length, mut crc32c) = (0_u64, 0);
    loop {
        let count = file.read(&mut buffer).map_err(|error| error.to_string())?;
        if count == 0 {
            break;
        }
        crc32c = crc32c_append(crc32c, buffer.get(..count).unwrap_or_default());
        length += count as u64;
    }
    if length != end.end {
        return Err(format!("it has {length} bytes instead of {}", end.end));
    }
    if crc32c == end.crc32c { Ok(()) } else { Err("its checksum is wrong".into()) }
}
