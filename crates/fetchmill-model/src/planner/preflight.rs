//! The preflight check, which finds out in advance whether a job's files fit into the file system.
//!
//! Each file needs an inode and at least one block. By default, an ext4 file system has inodes for a billion files only
//! if its size is about 16 TB. The number of inodes and blocks is known long before the last file is written: the
//! listing states the number of objects, and the first thousand objects indicate their size. The free space is read
//! once when a run begins, and everything that the run stores is subtracted from it. The result therefore does not
//! depend on uncommitted data, and checking a page or a block costs only a few arithmetic operations.
//!
//! A job that would just fit must never be refused, so uncertain amounts count in its favour. Folders in names and
//! folder entries are not counted, and a mean is counted at only nine tenths of its value.

use crate::limits::{PREFLIGHT_SAMPLE_MIN, STAGE_FOLDER_FILES, STAGE_FOLDERS};

/// Maximum block size that is assumed. File systems with larger blocks can compress blocks or share them between files,
/// which their statistics do not show.
const BLOCK_MAX: u64 = 4096;
/// Maximum number of bytes that are counted for the journal. Its write-ahead log is truncated at a thousand pages of 4
/// KiB.
const JOURNAL_BYTES_MAX: u64 = 4 << 20;
/// Journal bytes per object in a small job.
const JOURNAL_BYTES_AN_OBJECT: u64 = 64;
/// Number of inodes for the journal's files and the stage.
const INODES_OF_A_JOB: u64 = 6;
/// Number of inodes for a worker's stage and its failures shard.
const INODES_OF_A_WORKER: u64 = 2;

/// Free space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Free inodes. `None` if the file system creates them on demand, as btrfs does.
    pub inodes: Option<u64>,
    /// Free bytes.
    pub bytes: u64,
    /// Block size, to which file sizes are rounded up.
    pub block: u64,
}

impl Room {
    /// Creates the free space from the statistics of a file system. File systems that report no inodes store small
    /// files inside other structures.
    pub fn new(inodes: (u64, u64), blocks: u64, block: u64) -> Self {
        let (inodes, free) = inodes;
        let is_limited = inodes > 0;
        Room {
            inodes: is_limited.then_some(free),
            bytes: blocks.saturating_mul(block),
            block: if is_limited { block.clamp(1, BLOCK_MAX) } else { 1 },
        }
    }

    /// Returns the space that a file of this size occupies.
    pub fn space(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.block).saturating_mul(self.block)
    }
}

/// Numbers of targets by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SizeSample {
    /// Number of fetched targets.
    pub stored: u64,
    /// Number of absent or failed targets, which take no space.
    pub others: u64,
    /// Space that the fetched targets take, in bytes.
    pub space: u64,
}

impl SizeSample {
    fn count(&self) -> u64 {
        self.stored.saturating_add(self.others)
    }

    fn is_enough(&self) -> bool {
        self.count() >= PREFLIGHT_SAMPLE_MIN
    }
}

/// The work of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of targets without an outcome at the start of the run, as far as known.
    pub targets: u64,
    /// Outcomes of some of the targets of this run.
    pub sample: SizeSample,
    /// Outcomes of targets in earlier runs.
    pub before: SizeSample,
    /// Number of workers. Each worker has a staging folder.
    pub workers: u64,
}

/// The resource that is insufficient, with the needed amount and the free amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Inodes: one for each file, plus those for the stage.
    Inodes {
        /// Minimum number of needed inodes.
        needed: u64,
        /// Number of free inodes at the start of the run.
        free: u64,
    },
    /// Bytes, estimated from the mean size of fetched objects. Until there is a mean, one block per file is assumed.
    Bytes {
        /// Approximate number of needed bytes.
        needed: u64,
        /// Number of free bytes at the start of the run.
        free: u64,
    },
}

/// Returns the insufficient resource. Returns `None` if the job fits, or if this is not known yet.
pub fn find_lack(room: &Room, work: &Work) -> Option<Shortage> {
    let files = work.targets.saturating_sub(work.sample.others);
    if files == 0 {
        return None;
    }
    let folders = stage_folders(files, work.workers);
    find_too_few_inodes(room, files, folders, work.workers)
        .or_else(|| find_too_few_bytes(room, work, folders))
}

/// Returns the number of folders in the workers' stages. The folders are created on demand and stay until the run ends.
fn stage_folders(files: u64, workers: u64) -> u64 {
    workers.saturating_mul(files.div_ceil(STAGE_FOLDER_FILES).min(STAGE_FOLDERS))
}

fn find_too_few_inodes(room: &Room, files: u64, folders: u64, workers: u64) -> Option<Shortage> {
    let free = room.inodes?;
    let reserve = folders + workers.saturating_mul(INODES_OF_A_WORKER) + INODES_OF_A_JOB;
    let needed = files.saturating_add(reserve);
    (needed > free).then_some(Shortage::Inodes { needed, free })
}

fn find_too_few_bytes(room: &Room, work: &Work, folders: u64) -> Option<Shortage> {
    let rest = work.targets.saturating_sub(work.sample.count());
    let (of_rest, is_mean) = space_of_rest(room, work, rest);
    let journal = JOURNAL_BYTES_MAX.min(work.targets.saturating_mul(JOURNAL_BYTES_AN_OBJECT));
    let certain =
        work.sample.space.saturating_add(folders.saturating_mul(room.block)).saturating_add(journal);
    let at_least = if is_mean { of_rest - of_rest / 10 } else { of_rest };
    let free = room.bytes;
    (certain.saturating_add(at_least) > free)
        .then_some(Shortage::Bytes { needed: certain.saturating_add(of_rest), free })
}

/// Returns the space for the remaining targets, and whether it is estimated from a mean. An assumption of one block per
/// file is not an estimate.
fn space_of_rest(room: &Room, work: &Work, rest: u64) -> (u64, bool) {
    match [work.sample, work.before].iter().find(|sample| sample.is_enough()) {
        Some(sample) => {
            let space = u128::from(rest) * u128::from(sample.space) / u128::from(sample.count());
            (u64::try_from(space).unwrap_or(u64::MAX), true)
        }
        None if room.inodes.is_some() => (rest.saturating_mul(room.block), false),
        None => (0, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn room(inodes: u64, bytes: u64) -> Room {
        Room { inodes: Some(inodes), bytes, block: 4096 }
    }

    fn work(targets: u64) -> Work {
        Work { targets, workers: 2, ..Work::default() }
    }

    fn sampled(targets: u64, stored: u64, others: u64, space: u64) -> Work {
        Work { sample: SizeSample { stored, others, space }, ..work(targets) }
    }

    #[test]
    fn inodes_are_counted_with_those_of_the_stage() {
        for (targets, free, needed) in [
            (1_000_000_000, 61_054_976, Some(1_000_000_000 + 2 * 1024 + 10)),
            (1000, 1041, Some(1000 + 2 * 16 + 10)),
            (1000, 1042, None),
            (1, 12, Some(13)),
            (1, 13, None),
            (0, 0, None),
            (u64::MAX, u64::MAX - 1, Some(u64::MAX)),
        ] {
            let found = find_lack(&room(free, u64::MAX), &work(targets));
            assert_eq!(found, needed.map(|needed| Shortage::Inodes { needed, free }), "{targets} {free}");
        }
    }

    #[test]
    fn what_is_absent_takes_no_inode() {
        assert!(find_lack(&room(600, GIB), &sampled(1000, 0, 450, 0)).is_none());
        assert!(find_lack(&room(500, GIB), &sampled(1000, 0, 450, 0)).is_some());
    }

    #[test]
    fn a_file_takes_a_block_before_anything_is_known() {
        let found = find_lack(&room(1 << 40, GIB), &work(1_000_000));

        let needed = 1_000_000 * 4096 + 2 * 1024 * 4096 + (4 << 20);
        assert_eq!(found, Some(Shortage::Bytes { needed, free: GIB }));
        assert!(find_lack(&room(1 << 40, 5 * GIB), &work(1_000_000)).is_none());
    }

    #[test]
    fn the_mean_counts_once_there_are_enough() {
        let of = |stored: u64| sampled(100_000, stored, 0, stored * 100 * 4096);

        assert!(find_lack(&room(1 << 40, GIB), &of(999)).is_none());
        let needed = 100_000 * 100 * 4096 + 2 * 1024 * 4096 + (4 << 20);
        assert_eq!(find_lack(&room(1 << 40, GIB), &of(1000)), Some(Shortage::Bytes { needed, free: GIB }));
        assert!(find_lack(&room(1 << 40, 39 * GIB), &of(1000)).is_none());
    }

    #[test]
    fn a_mean_is_believed_to_nine_tenths_and_what_is_stored_as_a_whole() {
        // 10,000 files of 1 MiB: 9.77 GiB.
        let of = |stored: u64| sampled(10_000, stored, 0, stored << 20);

        assert!(find_lack(&room(1 << 40, 9 * GIB), &of(1000)).is_none());
        assert!(find_lack(&room(1 << 40, 9 * GIB), &of(9000)).is_some());
        assert!(find_lack(&room(1 << 40, 8 * GIB), &of(1000)).is_some());
    }

    #[test]
    fn absent_ones_lower_the_mean() {
        assert!(find_lack(&room(1 << 40, GIB), &sampled(10_000, 100, 900, 100 << 20)).is_none());
        assert!(find_lack(&room(1 << 40, GIB), &sampled(10_000, 1000, 0, 1000 << 20)).is_some());
    }

    #[test]
    fn earlier_runs_tell_the_mean_as_well() {
        let before = SizeSample { stored: 5000, others: 0, space: 5000 << 20 };

        assert!(find_lack(&room(1 << 40, GIB), &Work { before, ..work(10_000) }).is_some());
        assert!(find_lack(&room(1 << 40, GIB), &Work { before, ..work(1000) }).is_none());
    }

    #[test]
    fn a_file_system_without_a_number_of_inodes_has_no_limit_and_no_blocks() {
        let btrfs = Room::new((0, 0), GIB / 4096, 4096);

        assert_eq!(btrfs, Room { inodes: None, bytes: GIB, block: 1 });
        assert_eq!(find_lack(&btrfs, &work(1_000_000_000)), None);
        assert!(find_lack(&btrfs, &sampled(1_000_000_000, 1000, 0, 100_000)).is_some());
    }

    #[test]
    fn files_are_rounded_up_to_blocks() {
        let ext4 = Room::new((100, 50), 10, 4096);

        assert_eq!((ext4.inodes, ext4.bytes), (Some(50), 40_960));
        assert_eq!([0, 1, 4096, 4097].map(|bytes| ext4.space(bytes)), [0, 4096, 4096, 8192]);
        assert_eq!(Room::new((100, 50), 10, 128 << 10).block, 4096);
        assert_eq!(Room::new((100, 50), 10, 0).block, 1);
    }

    proptest! {
        #[test]
        fn no_numbers_overflow(
            inodes in proptest::option::of(any::<u64>()), bytes: u64, block: u64, numbers: [u64; 8]
        ) {
            let room = Room { inodes, bytes, block: block.max(1) };
            let sample = |at: usize| SizeSample { stored: numbers[at], others: numbers[at + 1], space: numbers[at + 2] };
            let work =
                Work { targets: numbers[6], sample: sample(0), before: sample(3), workers: numbers[7] % 4096 };
            match find_lack(&room, &work) {
                Some(Shortage::Inodes { needed, free } | Shortage::Bytes { needed, free }) => prop_assert!(needed > free),
                None => {}
            }
        }
    }
}
