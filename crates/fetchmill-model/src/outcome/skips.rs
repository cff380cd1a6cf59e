//! Targets that were skipped on purpose, counted by reason. Some of their names are kept for each reason.

use serde::{Deserialize, Serialize};

use crate::limits::{SKIPPED_NAME_BYTES_MAX, SKIPPED_NAMES_PAGE};
use crate::outcome::opt_out_rule::{OptOutCounts, OptOutRule};

/// Reason why a target is skipped. The reason is found in the listing or in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SkipReason {
    /// A filter, a sample or a limit that the user has set excludes the target.
    Filter,
    /// The target's origin differs from the origin of SOURCE.
    OtherOrigin,
    /// The target has the same origin but is not in the folder: it is elsewhere on the server, or it is a view of a
    /// file.
    OtherPath,
    /// robots.txt forbids the target.
    Robots,
    /// The target is a marker for an empty folder in a bucket. Consoles create such markers.
    FolderMarker,
    /// The target is not an object: it is neither a file nor a folder, or it is an old version in a bucket.
    NoObject,
    /// The server answered a conditional request with 304.
    Unchanged,
    /// A transform dropped the reply.
    Dropped,
    /// The reply opts out of machine learning or indexing (`--opt-out`), or the host's robots.txt does (`--robots`).
    OptedOut(OptOutRule),
    /// The store has archived the target and must restore it before it can be read.
    Archived,
    /// The line repeats an earlier line of the list.
    Duplicate,
}

impl SkipReason {
    /// Name of [`SkipReason::OptedOut`], regardless of the rule.
    pub const OPTED_OUT: &str = "opted-out";

    /// All reasons in the order of [`SkipReason::index`]. [`SkipReason::OptedOut`] occurs only once.
    pub const ALL: [SkipReason; 11] = [
        SkipReason::Filter,
        SkipReason::OtherOrigin,
        SkipReason::OtherPath,
        SkipReason::Robots,
        SkipReason::FolderMarker,
        SkipReason::NoObject,
        SkipReason::Unchanged,
        SkipReason::Dropped,
        SkipReason::OptedOut(OptOutRule::Robots),
        SkipReason::Archived,
        SkipReason::Duplicate,
    ];

    /// Returns whether the reason was found in the reply rather than in the listing.
    pub fn is_of_reply(self) -> bool {
        matches!(
            self,
            SkipReason::Unchanged | SkipReason::Dropped | SkipReason::OptedOut(_) | SkipReason::Archived
        )
    }

    /// Returns the name used in reports and the journal.
    pub fn name(self) -> &'static str {
        match self {
            SkipReason::Filter => "filter",
            SkipReason::OtherOrigin => "other-origin",
            SkipReason::OtherPath => "other-path",
            SkipReason::Robots => "robots",
            SkipReason::FolderMarker => "folder-marker",
            SkipReason::NoObject => "no-object",
            SkipReason::Unchanged => "unchanged",
            SkipReason::Dropped => "dropped",
            SkipReason::OptedOut(_) => Self::OPTED_OUT,
            SkipReason::Archived => "archived",
            SkipReason::Duplicate => "duplicate",
        }
    }

    fn index(self) -> usize {
        match self {
            SkipReason::Filter => 0,
            SkipReason::OtherOrigin => 1,
            SkipReason::OtherPath => 2,
            SkipReason::Robots => 3,
            SkipReason::FolderMarker => 4,
            SkipReason::NoObject => 5,
            SkipReason::Unchanged => 6,
            SkipReason::Dropped => 7,
            SkipReason::OptedOut(_) => 8,
            SkipReason::Archived => 9,
            SkipReason::Duplicate => 10,
        }
    }
}

/// Number of skipped targets in a page or a window, and up to [`SKIPPED_NAMES_PAGE`] names for each reason. Most pages
/// skip none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skips(Option<Box<CountedSkips>>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CountedSkips {
    counts: [u64; SkipReason::ALL.len()],
    names: Vec<(SkipReason, Vec<u8>)>,
    opt_outs: OptOutCounts,
}

impl Skips {
    /// Counts a target. The names of the first targets are kept. Long names are truncated.
    pub fn add(&mut self, reason: SkipReason, name: &[u8]) {
        self.add_unnamed(reason);
        let CountedSkips { counts, names, .. } = &mut **self.0.get_or_insert_default();
        if counts[reason.index()] <= SKIPPED_NAMES_PAGE {
            names.push((reason, name[..name.len().min(SKIPPED_NAME_BYTES_MAX)].to_vec()));
        }
    }

    /// Counts a target without a name.
    pub fn add_unnamed(&mut self, reason: SkipReason) {
        let counted = self.0.get_or_insert_default();
        counted.counts[reason.index()] += 1;
        if let SkipReason::OptedOut(rule) = reason {
            counted.opt_outs.add(rule);
        }
    }

    /// Counts a target by its host as well. The target must already be counted as opted out because of the host's
    /// robots.txt.
    pub fn add_host(&mut self, host: &str) {
        self.0.get_or_insert_default().opt_outs.add_host(host, 1);
    }

    /// Returns the targets that opted out, by rule and host.
    pub fn opt_outs(&self) -> Option<&OptOutCounts> {
        self.0.as_ref().map(|counted| &counted.opt_outs)
    }

    /// Returns the total number of skipped targets.
    pub fn total(&self) -> u64 {
        self.0.as_ref().map_or(0, |counted| counted.counts.iter().sum())
    }

    /// Iterates over the reasons that occurred, with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (SkipReason, u64)> {
        let counts = self.0.as_ref().map(|counted| counted.counts).unwrap_or_default();
        SkipReason::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Iterates over the kept names.
    pub fn names(&self) -> impl Iterator<Item = (SkipReason, &[u8])> {
        let names = self.0.iter().flat_map(|counted| &counted.names);
        names.map(|(reason, name)| (*reason, name.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_in_the_order_of_their_indexes() {
        for (index, reason) in SkipReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index, "{reason:?}");
        }
    }

    #[test]
    fn those_that_opted_out_are_counted_by_rule() {
        let mut skips = Skips::default();
        skips.add(SkipReason::OptedOut(OptOutRule::FieldNoAi), b"a");
        skips.add_unnamed(SkipReason::OptedOut(OptOutRule::Robots));
        skips.add_host("http://a.test");
        let counts: Vec<_> = skips.counts().map(|(reason, count)| (reason.name(), count)).collect();
        assert_eq!(counts, [(SkipReason::OPTED_OUT, 2)]);
        let opt_outs = skips.opt_outs().unwrap();
        assert!(opt_outs.rules().eq([(OptOutRule::FieldNoAi, 1), (OptOutRule::Robots, 1)]));
        assert!(opt_outs.hosts().eq([("http://a.test", 1)]));
    }

    #[test]
    fn all_are_counted_and_some_are_named() {
        let mut skips = Skips::default();
        for number in 0..100_u32 {
            skips.add(SkipReason::Filter, &number.to_le_bytes());
        }
        skips.add(SkipReason::Robots, &[b'x'; 10_000]);

        assert_eq!(skips.total(), 101);
        let counts: Vec<_> = skips.counts().collect();
        assert_eq!(counts, [(SkipReason::Filter, 100), (SkipReason::Robots, 1)]);
        assert_eq!(skips.names().count() as u64, SKIPPED_NAMES_PAGE + 1);
        assert_eq!(skips.names().last().unwrap().1.len(), SKIPPED_NAME_BYTES_MAX);
    }
}
