//! What a listing leaves out, by reason, with some names of each.

use crate::limits::{SKIPPED_NAME_BYTES_MAX, SKIPPED_NAMES_PAGE};

/// Why an entry of a listing is no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
}

impl SkipReason {
    /// All of them.
    pub const ALL: [SkipReason; 6] = [
        SkipReason::Filter,
        SkipReason::OtherOrigin,
        SkipReason::OtherPath,
        SkipReason::Robots,
        SkipReason::FolderMarker,
        SkipReason::NoObject,
    ];

    /// As reports and the journal have it.
    pub fn name(self) -> &'static str {
        match self {
            SkipReason::Filter => "filter",
            SkipReason::OtherOrigin => "other-origin",
            SkipReason::OtherPath => "other-path",
            SkipReason::Robots => "robots",
            SkipReason::FolderMarker => "folder-marker",
            SkipReason::NoObject => "no-object",
        }
    }
}

/// How many entries were left out, and some of their names: a page has at most a few of each reason. Most pages have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skips(Option<Box<CountedSkips>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct CountedSkips {
    counts: [u64; SkipReason::ALL.len()],
    names: Vec<(SkipReason, Vec<u8>)>,
}

impl Skips {
    /// Counts one. Of the first ones of a page the names are kept, cut where they are long.
    pub fn add(&mut self, reason: SkipReason, name: &[u8]) {
        let CountedSkips { counts, names } = &mut **self.0.get_or_insert_default();
        let count = &mut counts[reason as usize];
        *count += 1;
        if *count <= SKIPPED_NAMES_PAGE {
            names.push((reason, name[..name.len().min(SKIPPED_NAME_BYTES_MAX)].to_vec()));
        }
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
