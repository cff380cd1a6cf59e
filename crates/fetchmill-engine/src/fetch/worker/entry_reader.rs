//! Reads the URL of a target from its entry.

use std::cell::RefCell;

use crate::access::s3::BucketResolver;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::stored_name::StoredNames;

/// Buckets that entries can refer to, and a buffer for reading entries.
pub(super) struct EntryReader {
    buckets: BucketResolver,
    path: RefCell<Vec<u8>>,
}

impl EntryReader {
    pub(super) fn new(buckets: BucketResolver) -> Self {
        EntryReader { buckets, path: RefCell::default() }
    }

    /// Determines a target's name and URL. If objects are stored under paths (`names`), checks that the name is a valid
    /// path.
    pub(super) fn read(
        &self,
        target: &mut CurrentTarget,
        naming: Naming,
        names: Option<&StoredNames>,
    ) -> Result<(), FailureKind> {
        target.read_entry(naming, names, &mut self.path.borrow_mut(), Some(&self.buckets))
    }
}
