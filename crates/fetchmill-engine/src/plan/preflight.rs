//! Stops a job before its files fill the file system. The estimate of the planner
//! ([`fetchmill_model::planner::preflight`]) is checked at the start of a run, for each page, and after each block of
//! outcomes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::job_plan::JobPlan;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::{Outcome, Tally};
use fetchmill_model::planner::preflight::{Room, Shortage, SizeSample, Work, find_lack};
use fetchmill_model::source::{ListedPage, PageCursor};
use fetchmill_model::text::counts::with_commas;
use fetchmill_store::durable::{self, FreeRoom};
use fetchmill_store::journal::Journal;
use fetchmill_store::sink::Block;
use fetchmill_store::sink::Format;

/// Check of the free space. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Preflight {
    room: Room,
    dest: PathBuf,
    /// Field of the listing that contains the number of objects, if any.
    total_field: Option<String>,
    /// Number of targets that were finished before this run.
    settled: u64,
    known: Mutex<PreflightState>,
}

/// Known facts about the size of the job.
#[derive(Debug)]
struct PreflightState {
    targets: TargetCount,
    work: Work,
    /// Total size of the bodies in `work.sample`.
    bytes: u64,
    /// Whether the destination already belongs to this job, so that no other job can use it.
    is_begun: bool,
    is_refused: bool,
}

/// Number of targets, and the source of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetCount {
    /// Total that the listing announces.
    Told(u64),
    /// Number of targets listed so far.
    Listed(u64),
    /// Final number after the end of the listing.
    All(u64),
}

impl TargetCount {
    fn new(listed: u64, total: Option<u64>, is_complete: bool) -> Self {
        match total {
            _ if is_complete => TargetCount::All(listed),
            Some(total) if total > listed => TargetCount::Told(total),
            _ => TargetCount::Listed(listed),
        }
    }

    fn count(self) -> u64 {
        let (TargetCount::Told(count) | TargetCount::Listed(count) | TargetCount::All(count)) = self;
        count
    }
}

/// Returns the number of targets. Folder markers and other skipped names are not counted.
fn listed_targets(tally: Tally) -> u64 {
    tally.listed.saturating_sub(tally.skipped)
}

fn settled_targets(tally: Tally) -> u64 {
    tally.settled().saturating_sub(tally.skipped)
}

impl Preflight {
    /// Checks that the targets listed by earlier runs fit into the free space. Returns `None` if no checks are needed.
    pub(crate) fn open(plan: &JobPlan, journal: &Journal) -> Result<Option<Self>> {
        if plan.request.format != Format::Files || !plan.request.preflight {
            return Ok(None);
        }
        // If the file system does not report its free space, only a failed write shows that it is full.
        let Ok(free) = durable::free_room(&plan.place.dest) else { return Ok(None) };
        let FreeRoom { inodes, free_inodes, free_blocks, block, blocks: _ } = free;
        let room = Room::new((inodes, free_inodes), free_blocks, block);
        let tally = journal.tally();
        let before = SizeSample {
            stored: tally.fetched,
            others: tally.absent.saturating_add(tally.failed),
            space: tally.bytes.max(tally.fetched.saturating_mul(room.block)),
        };
        let workers = plan.machine.threads.min(plan.concurrency_of_hosts()) as u64;
        let is_complete = journal.is_listed()?;
        let preflight = Preflight {
            room,
            dest: plan.place.dest.clone(),
            total_field: match (&plan.request.source, plan.listing) {
                (SourceOptions::Server(_), Listing::Auto | Listing::Api | Listing::Json) => {
                    Some(plan.request.api.total_field.clone())
                }
                _ => None,
            },
            settled: settled_targets(tally),
            known: Mutex::new(PreflightState {
                targets: TargetCount::new(listed_targets(tally), journal.total(), is_complete),
                work: Work { before, workers, ..Work::default() },
                bytes: 0,
                is_begun: journal.is_begun()?,
                is_refused: false,
            }),
        };
        preflight.update(|_| ())?;
        Ok(Some(preflight))
    }

    /// Checks a page before it is recorded in the journal. Once a page is rejected, all later pages are rejected as
    /// well, because the rejected names must be listed again.
    pub(crate) fn admit(&self, page: &ListedPage, tally: Tally, total: Option<u64>) -> Result<()> {
        let listed = listed_targets(tally).saturating_add(page.names.len() as u64);
        let is_complete = matches!(
            &page.cursor,
            PageCursor::Marker { next: None, .. } | PageCursor::Json { next: None, .. }
        );
        let targets = TargetCount::new(listed, page.total.or(total), is_complete);
        self.update(|known| known.targets = targets)?;
        self.known().is_begun = true;
        Ok(())
    }

    /// Updates the estimate after a block.
    pub(crate) fn note(&self, block: &Block) -> Result<()> {
        let mut noted = SizeSample::default();
        let mut bytes = 0;
        for entry in block.entries() {
            if entry.outcome == Outcome::Fetched {
                noted.stored += 1;
                noted.space += self.room.space(entry.body.len());
                bytes += entry.body.len();
            } else {
                noted.others += 1;
            }
        }
        self.update(|known| {
            let sample = &mut known.work.sample;
            sample.stored += noted.stored;
            sample.others += noted.others;
            sample.space += noted.space;
            known.bytes += bytes;
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, PreflightState> {
        // This data remains valid after a panic, and the job is ending anyway.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut PreflightState)) -> Result<()> {
        let mut known = self.known();
        change(&mut known);
        known.work.targets = known.targets.count().saturating_sub(self.settled);
        match find_lack(&self.room, &known.work) {
            None if known.is_refused => Err(Error::Internal("a page arrived after a refused page".into())),
            None => Ok(()),
            Some(lack) => {
                known.is_refused = true;
                Err(Error::NoRoom(self.message(lack, &known)))
            }
        }
    }

    fn message(&self, lack: Shortage, known: &PreflightState) -> String {
        let (needed, free, is_packed) = match lack {
            Shortage::Inodes { needed, free } => {
                (format!("{} inodes", with_commas(needed)), with_commas(free), true)
            }
            Shortage::Bytes { needed, free } => {
                (format!("about {}", bytes_text(needed)), bytes_text(free), known.is_padding(&self.room))
            }
        };
        format!(
            "{} not fit into {}: {needed} needed, {free} free; {}",
            self.files(known),
            self.dest.display(),
            advice(is_packed, known.is_begun, &self.dest)
        )
    }

    /// Returns the start of the message, up to the verb.
    fn files(&self, known: &PreflightState) -> String {
        let more = if self.settled > 0 { " more" } else { "" };
        let source = match (known.targets, &self.total_field) {
            (TargetCount::Told(_), Some(field)) => format!(" (the listing's {field})"),
            (TargetCount::Listed(_), _) => " (listed so far)".to_owned(),
            _ => String::new(),
        };
        let count = known.work.targets;
        let (noun, verb) = if count == 1 { ("file", "does") } else { ("files", "do") };
        format!("{}{more} {noun}{source} {verb}", with_commas(count))
    }
}

impl PreflightState {
    /// Returns whether padding to whole blocks takes most of the space, so that packs would need much less.
    fn is_padding(&self, room: &Room) -> bool {
        let sample = &self.work.sample;
        sample.stored == 0 || self.bytes / sample.stored < room.block / 2
    }
}

/// Returns the advice for the user. If no target has been listed yet, another job can use the destination.
fn advice(is_packed: bool, is_begun: bool, dest: &Path) -> String {
    const PACKED: &str = "--format parquet (few large files, about 130 bytes per 100-byte object)";
    match (is_packed, is_begun) {
        (true, false) => format!("use {PACKED}, another file system, or --no-preflight"),
        (false, false) => "use another file system, or --no-preflight".to_owned(),
        (true, true) => format!(
            "make room and run the same command again to resume, or use {PACKED} with a DEST other than {}, \
             or skip this check with --no-preflight",
            dest.display()
        ),
        (false, true) => {
            "make room and run the same command again to resume, or skip this check with --no-preflight"
                .to_owned()
        }
    }
}

/// Formats a size as `980 B` or `1.5 MiB`, in the same way as `format_bytes` in Python.
pub(super) fn bytes_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if value.fract() == 0.0 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::object::Facts;
    use fetchmill_model::outcome::skips::Skips;
    use fetchmill_model::target::Names;
    use fetchmill_store::sink::FetchedBody;

    fn preflight(inodes: u64, bytes: u64) -> Preflight {
        Preflight {
            room: Room::new((inodes, inodes), bytes / 4096, 4096),
            dest: "out".into(),
            total_field: Some("Total".into()),
            settled: 0,
            known: Mutex::new(PreflightState {
                targets: TargetCount::Listed(0),
                work: Work { workers: 2, ..Work::default() },
                bytes: 0,
                is_begun: false,
                is_refused: false,
            }),
        }
    }

    fn page(count: usize, total: Option<u64>, next: Option<&str>) -> ListedPage {
        let mut names = Names::default();
        (0..count).for_each(|_| names.push(b"n"));
        let cursor = PageCursor::Marker { from: None, next: next.map(Into::into) };
        ListedPage { names, skipped: Skips::default(), total, cursor }
    }

    fn listed(count: u64) -> Tally {
        Tally { listed: count, ..Tally::default() }
    }

    fn block(count: u64, size: u64) -> Block {
        let mut block = Block::default();
        for sequence in 0..count {
            block.push_fetched(sequence, 1, b"n", FetchedBody::Dropped(size), &Facts::default());
        }
        block
    }

    #[test]
    fn a_total_that_does_not_fit_is_refused_with_the_first_page() {
        let refused = preflight(61_054_976, 1 << 50)
            .admit(&page(1000, Some(1_000_000_000), Some("m")), listed(0), None)
            .unwrap_err();

        assert_eq!(refused.exit_code(), 7);
        assert_eq!(
            refused.to_string(),
            "1,000,000,000 files (the listing's Total) do not fit into out: 1,000,002,058 inodes needed, \
             61,054,976 free; use --format parquet (few large files, about 130 bytes per 100-byte object), \
             another file system, or --no-preflight"
        );
    }

    #[test]
    fn pages_are_refused_once_they_are_too_many_and_all_that_follow() {
        let preflight = preflight(1500, 1 << 40);
        preflight.admit(&page(1000, None, Some("1")), listed(0), None).unwrap();

        let refused =
            preflight.admit(&page(1000, None, Some("2")), listed(1000), None).unwrap_err().to_string();
        assert!(refused.starts_with("2,000 files (listed so far) do not fit into out: 2,074 inodes needed"));
        assert!(refused.contains("with a DEST other than out"), "{refused}");
        assert!(preflight.admit(&page(1, None, Some("3")), listed(1000), None).is_err());
    }

    #[test]
    fn the_end_of_a_listing_is_better_than_its_total() {
        let preflight = preflight(1500, 1 << 40);

        preflight.admit(&page(1000, Some(9_000_000), None), listed(0), None).unwrap();
    }

    #[test]
    fn bytes_are_known_from_what_was_fetched() {
        let preflight = preflight(1 << 40, 1 << 30);
        preflight.admit(&page(100, Some(100_000), Some("m")), listed(0), None).unwrap();
        preflight.note(&block(999, 100_000)).unwrap();

        let refused = preflight.note(&block(1, 100_000)).unwrap_err().to_string();

        assert!(refused.contains("about 9.5 GiB needed, 1 GiB free; make room"), "{refused}");
        assert!(!refused.contains("parquet"), "{refused}");
    }

    #[test]
    fn numbers_are_written_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(with_commas(number), text);
        }
        for (bytes, text) in
            [(0, "0 B"), (980, "980 B"), (1536 << 10, "1.5 MiB"), (1 << 30, "1 GiB"), (5 << 40, "5.0 TiB")]
        {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
