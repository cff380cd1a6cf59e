//! Targets that a job skipped, by reason, and their effect on its result.

use std::collections::BTreeMap;

use crate::request::job_request::JobRequest;
use crate::request::source_options::SourceOptions;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::skips::SkipReason;
use fetchmill_model::outcome::{FailureKind, KindCounts, Tally};
use fetchmill_model::text::redacted::hide_secrets;
use fetchmill_store::journal::Journal;

/// Reasons for skipping names that do not match `--include`. Folder markers are included, because they are not names of
/// objects.
const NOT_MATCHED: [SkipReason; 2] = [SkipReason::Filter, SkipReason::FolderMarker];

/// Restrictions that the user has set on names. If no name satisfies them, they are probably a mistake.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedNames {
    /// Whether all names must start with a bucket prefix.
    pub(crate) have_prefix: bool,
    /// Whether all names must match `--include`, and no other option excludes names.
    pub(crate) are_included: bool,
}

impl WantedNames {
    /// Returns the restrictions of a job.
    pub(crate) fn of(request: &JobRequest) -> Self {
        let list = &request.list;
        let leaves_others_out =
            !list.exclude.is_empty() || list.sample.is_some() || request.bounds.text().is_some();
        WantedNames {
            have_prefix: matches!(&request.source, SourceOptions::S3 { prefix, .. } if !prefix.is_empty()),
            are_included: !list.include.is_empty() && !leaves_others_out,
        }
    }
}

/// Number of skipped targets by [`SkipReason`]. Jobs started by fetchmill 0.1.0 do not record it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedByReason(BTreeMap<String, u64>);

impl SkippedByReason {
    /// Reads the counts of a job.
    pub(crate) fn read(journal: &Journal) -> Result<Self> {
        Ok(SkippedByReason(journal.skipped()?))
    }

    /// Returns the counts by reason name.
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.0
    }

    /// Returns whether the job unexpectedly found no objects: all listed targets were skipped, the list is empty, or no
    /// name satisfies the user's restrictions.
    pub(crate) fn found_nothing(
        &self,
        tally: Tally,
        of_list: Option<&KindCounts>,
        wanted: WantedNames,
    ) -> bool {
        if of_list.is_some_and(|kinds| tally.listed == kinds.count(FailureKind::Url)) {
            return true;
        }
        if tally.listed == 0 {
            return wanted.have_prefix;
        }
        let is_filtered =
            || self.0.keys().all(|reason| NOT_MATCHED.iter().any(|other| other.name() == reason));
        if wanted.are_included && tally.listed == tally.skipped && !self.0.is_empty() && is_filtered() {
            return true;
        }
        let asked = [SkipReason::Filter, SkipReason::Unchanged, SkipReason::Dropped].map(SkipReason::name);
        tally.listed > 0
            && tally.listed == tally.skipped
            && !self.0.is_empty()
            && !asked.iter().chain([&SkipReason::OPTED_OUT]).any(|reason| self.0.contains_key(*reason))
    }

    /// Returns a notice if there was nothing to do, because that is probably a mistake.
    pub(crate) fn notice_of_nothing(&self, source: &SourceOptions, tally: Tally) -> Option<String> {
        if tally.listed > tally.skipped {
            return None;
        }
        if tally.listed > 0 {
            return self.notice(tally.listed);
        }
        Some(match source {
            SourceOptions::S3 { bucket, prefix } if !prefix.is_empty() => {
                format!(
                    "nothing was listed: the bucket {} has no key that begins with {prefix:?}",
                    bucket.text()
                )
            }
            SourceOptions::S3 { bucket, .. } => {
                format!("nothing was listed: the bucket {} is empty", bucket.text())
            }
            _ => format!("nothing was listed: {} contains no targets", hide_secrets(&source.text())),
        })
    }

    /// Returns a notice if all listed targets were skipped, unless all reasons are ordinary ones.
    fn notice(&self, listed: u64) -> Option<String> {
        let usual = [SkipReason::Unchanged, SkipReason::Dropped];
        if self.0.keys().all(|reason| usual.iter().any(|usual| usual.name() == reason)) {
            return None;
        }
        let parts = self.0.iter().map(|(reason, count)| format!("{count} {}", describe(reason)));
        let hints = self.0.keys().filter_map(|reason| hint(reason));
        let parts = [parts.collect::<Vec<_>>().join(", "), hints.collect::<Vec<_>>().join("; ")];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(format!("nothing was fetched ({listed} listed): {}", parts.join("; ")))
    }
}

fn describe(reason: &str) -> &str {
    match reason {
        "filter" => "excluded by filters",
        "other-origin" => "on other origins",
        "other-path" => "outside SOURCE's folder",
        "robots" => "forbidden by robots.txt",
        "folder-marker" => "folder markers",
        "no-object" => "not objects",
        "opted-out" => "opted out",
        "archived" => "archived",
        "duplicate" => "repeated lines",
        other => other,
    }
}

fn hint(reason: &str) -> Option<&'static str> {
    match reason {
        "other-origin" => Some("use that origin as SOURCE, or fetch a list of URLs"),
        "other-path" => Some("use the folder that the links point to as SOURCE"),
        "robots" => Some("--no-robots fetches them"),
        "archived" => Some("restore the objects from the archive first, then use another destination"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(counts: &[(&str, u64)]) -> SkippedByReason {
        SkippedByReason(counts.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect())
    }

    fn tally(listed: u64, skipped: u64) -> Tally {
        Tally { listed, skipped, ..Tally::default() }
    }

    #[test]
    fn nothing_is_found_when_nobody_asked_for_it() {
        for (counts, tally, expected) in [
            (&[("other-origin", 3)][..], tally(3, 3), true),
            (&[("other-origin", 2), ("folder-marker", 1)], tally(3, 3), true),
            (&[("other-origin", 2), ("filter", 1)], tally(3, 3), false),
            (&[("filter", 3)], tally(3, 3), false),
            (&[("other-origin", 2)], tally(3, 2), false),
            (&[("unchanged", 3)], tally(3, 3), false),
            (&[("opted-out", 3)], tally(3, 3), false),
            (&[("archived", 3)], tally(3, 3), true),
            (&[], tally(3, 3), false),
            (&[], tally(0, 0), false),
        ] {
            assert_eq!(
                skipped(counts).found_nothing(tally, None, WantedNames::default()),
                expected,
                "{counts:?}"
            );
        }
    }

    #[test]
    fn names_that_nothing_has_are_nothing() {
        let prefix = WantedNames { have_prefix: true, are_included: false };
        let included = WantedNames { have_prefix: false, are_included: true };
        for (wanted, counts, tally, expected) in [
            (prefix, &[][..], tally(0, 0), true),
            (prefix, &[("filter", 3)], tally(3, 3), false),
            (included, &[], tally(0, 0), false),
            (included, &[("filter", 2), ("folder-marker", 1)], tally(3, 3), true),
            (included, &[("filter", 2)], tally(3, 2), false),
            (included, &[("filter", 2), ("unchanged", 1)], tally(3, 3), false),
        ] {
            assert_eq!(skipped(counts).found_nothing(tally, None, wanted), expected, "{wanted:?} {counts:?}");
        }
    }

    #[test]
    fn a_list_without_a_target_is_nothing() {
        let mut kinds = KindCounts::default();
        let nothing = |listed, kinds: &KindCounts| {
            skipped(&[]).found_nothing(tally(listed, 0), Some(kinds), WantedNames::default())
        };
        assert!(nothing(0, &kinds));
        assert!(!nothing(2, &kinds));
        kinds.add(FailureKind::Url, 2);
        assert!(nothing(2, &kinds));
        assert!(!nothing(3, &kinds));
    }

    #[test]
    fn the_notice_has_the_reasons() {
        let three = skipped(&[("other-origin", 2), ("robots", 1)]);
        assert_eq!(
            three.notice(3).as_deref(),
            Some(
                "nothing was fetched (3 listed): 2 on other origins, 1 forbidden by robots.txt; use that \
                 origin as SOURCE, or fetch a list of URLs; --no-robots fetches them"
            )
        );
        assert_eq!(skipped(&[("unchanged", 3)]).notice(3), None);
        assert_eq!(skipped(&[]).notice(3), None);
    }
}
