//! Targets that are skipped on purpose, by reason, with some names for each reason.

use serde::{Deserialize, Serialize};

use crate::limits::{SKIPPED_NAME_BYTES_MAX, SKIPPED_NAMES_PAGE};
use crate::outcome::opt_out_rule::{OptOutCounts, OptOutRule};

/// Why a target is left out: by its listing, or after its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SkipReason {
    /// A filter, a sample or a bound that the user gave.
    Filter,
    /// It is at another origin than SOURCE.
    OtherOrigin,
    /// It is at the origin, and not in the folder: elsewhere on the server, or a view of a file.
    OtherPath,
    /// robots.txt forbids it.
    Robots,
    /// The marker that a console keeps for an empty folder of a bucket.
    FolderMarker,
    /// It is no object: neither a file nor a folder, or a version of a bucket that is not the current one.
    NoObject,
    /// The server answered a condition with 304.
    Unchanged,
    /// A transform has dropped its reply.
    Dropped,
    /// Its reply reserves it from machine learning or from indexing (`--opt-out`), or its host's robots.txt does (`--robots`).
    OptedOut(OptOutRule),
    /// Its store has it in an archive, and must restore it before it can be read.
    Archived,
    /// Its line repeats an earlier one of its list.
    Duplicate,
}

impl SkipReason {
    /// The name of [`SkipReason::OptedOut`], whatever the rule.
    pub const OPTED_OUT: &str = "opted-out";

    /// All of them in the order of [`SkipReason::index`]; of those with a rule, one.
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

    /// Returns whether the reply is the reason, and not the listing.
    pub fn is_of_reply(self) -> bool {
        matches!(
            self,
            SkipReason::Unchanged | SkipReason::Dropped | SkipReason::OptedOut(_) | SkipReason::Archived
        )
    }

    /// As reports and the journal have it.
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

/// Number of targets that a page or a window skipped, and up to [`SKIPPED_NAMES_PAGE`] names for each reason. Most
/// pages skip none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skips(Option<Box<CountedSkips>>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CountedSkips {
    counts: [u64; SkipReason::ALL.len()],
    names: Vec<(SkipReason, Vec<u8>)>,
    opt_outs: OptOutCounts,
}

impl Skips {
    /// Counts one. Of the first ones the names are kept, cut where they are long.
    pub fn add(&mut self, reason: SkipReason, name: &[u8]) {
        self.add_unnamed(reason);
        let CountedSkips { counts, names, .. } = &mut **self.0.get_or_insert_default();
        if counts[reason.index()] <= SKIPPED_NAMES_PAGE {
            names.push((reason, name[..name.len().min(SKIPPED_NAME_BYTES_MAX)].to_vec()));
        }
    }

    /// Counts one without a name.
    pub fn add_unnamed(&mut self, reason: SkipReason) {
        let counted = self.0.get_or_insert_default();
        counted.counts[reason.index()] += 1;
        if let SkipReason::OptedOut(rule) = reason {
            counted.opt_outs.add(rule);
        }
    }

    /// Counts the host whose robots.txt is the reason of one that was added.
    pub fn add_host(&mut self, host: &str) {
        self.0.get_or_insert_default().opt_outs.add_host(host, 1);
    }

    /// Those that opted out, by rule and host.
    pub fn opt_outs(&self) -> Option<&OptOutCounts> {
        self.0.as_ref().map(|counted| &counted.opt_outs)
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.as_ref().map_or(0, |counted| counted.counts.iter().sum())
    }

    /// Those of a reason that there are some of.
    pub fn counts(&self) -> impl Iterator<Item = (SkipReason, u64)> {
        let counts = self.0.as_ref().map(|counted| counted.counts).unwrap_or_default();
        SkipReason::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Names of some of them.
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
