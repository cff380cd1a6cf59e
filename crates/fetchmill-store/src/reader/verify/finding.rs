//! Findings: individual problems in a destination.

use fetchmill_model::outcome::ShardNumber;
use fetchmill_model::target::Sequence;

/// Kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// Missing, although it should exist.
    Missing,
    /// Contents differ from what was written.
    Damaged,
    /// Stored more than once.
    Doubled,
    /// Not recorded by any job.
    Unknown,
}

impl FindingKind {
    /// All kinds.
    pub const ALL: [FindingKind; 4] =
        [FindingKind::Missing, FindingKind::Damaged, FindingKind::Doubled, FindingKind::Unknown];

    /// Returns the name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Missing => "missing",
            FindingKind::Damaged => "damaged",
            FindingKind::Doubled => "doubled",
            FindingKind::Unknown => "unknown",
        }
    }
}

/// An individual problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the problem.
    pub what: FindingKind,
    /// Name of the object, or path of a file below the destination. Empty if unknown.
    pub name: Box<[u8]>,
    /// Sequence number of the target. If there are several, this is the first one.
    pub sequence: Option<Sequence>,
    /// Shard with the problem.
    pub shard: Option<ShardNumber>,
    /// Number of affected objects. 0 if the problem concerns one of the job's own files.
    pub objects: u64,
    /// One-line description.
    pub detail: String,
    /// Whether a repair can fix the problem.
    pub is_repairable: bool,
}

impl Finding {
    /// Creates a finding about an object.
    pub(super) fn object(
        what: FindingKind,
        name: &[u8],
        sequence: Sequence,
        detail: impl Into<String>,
    ) -> Self {
        Finding {
            what,
            name: name.into(),
            sequence: Some(sequence),
            shard: None,
            objects: 1,
            detail: detail.into(),
            is_repairable: true,
        }
    }

    /// Creates a finding about one of the job's own files, or about the journal.
    pub(super) fn file(what: FindingKind, path: &str, detail: impl Into<String>) -> Self {
        let name = path.as_bytes().into();
        Finding {
            what,
            name,
            sequence: None,
            shard: None,
            objects: 0,
            detail: detail.into(),
            is_repairable: true,
        }
    }

    /// Marks the problem as impossible to repair.
    pub(super) fn beyond_repair(mut self) -> Self {
        self.is_repairable = false;
        self
    }

    /// Sets the shard with the problem.
    pub(super) fn in_shard(mut self, number: ShardNumber) -> Self {
        self.shard = Some(number);
        self
    }
}
