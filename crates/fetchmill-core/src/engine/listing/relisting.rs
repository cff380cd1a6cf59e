//! A listing that begins again at its start, since the marker of an earlier run has expired: its pages are without the names
//! that the job knows.

use std::sync::Arc;

use crate::engine::control::Control;
use crate::engine::journal_link::JournalRequest;
use crate::entry::Naming;
use crate::error::Result;
use crate::journal::JobLocation;
use crate::reader::KnownNames;
use crate::source::ListedPage;
use crate::stored_name::StoredNames;
use crate::target::Names;

/// See the module.
pub(in crate::engine) struct Relisting {
    pub(in crate::engine) place: Arc<JobLocation>,
    pub(in crate::engine) naming: Naming,
    pub(in crate::engine) names: StoredNames,
    /// Whether the listing has begun again, in this run or before.
    pub(in crate::engine) is_begun: bool,
    /// Gathered when the first page needs them.
    pub(in crate::engine) known: Option<KnownNames>,
}

impl Relisting {
    /// The listing begins again.
    pub(super) fn begin(&mut self, control: &Control, why: &str) {
        control.journal.send(JournalRequest::RestartListing);
        control.notice(&format!("the marker of an earlier run has expired ({why}): the listing begins again, what is fetched stays"));
        self.is_begun = true;
    }

    /// A page without the names that the job knows.
    pub(super) fn without_known(&mut self, mut page: ListedPage) -> Result<ListedPage> {
        if !self.is_begun {
            return Ok(page);
        }
        let known = match &mut self.known {
            Some(known) => known,
            None => self.known.insert(KnownNames::gather(&self.place, self.naming, &self.names)?),
        };
        let (mut names, mut out) = (Names::default(), Vec::new());
        for entry in page.names.iter() {
            let listed = self.naming.name_of(0, entry, &mut out);
            if !known.contains(listed)? && !known.contains(&self.names.stored(entry, listed, None))? {
                names.push(entry);
            }
        }
        page.names = names;
        Ok(page)
    }
}
