//! A listing that is restarted because the marker of an earlier run has expired. Targets that the job already contains
//! are removed from its pages.

use std::sync::Arc;

use crate::control::Control;
use crate::control::journal_link::ListingRequest;
use fetchmill_model::error::Result;
use fetchmill_model::source::ListedPage;
use fetchmill_model::target::Names;
use fetchmill_model::target::entry::Naming;
use fetchmill_store::journal::JobLocation;
use fetchmill_store::reader::KnownNames;

/// State of a restarted listing. See the [module documentation](self).
pub(crate) struct Relisting {
    place: Arc<JobLocation>,
    naming: Naming,
    known: Option<KnownNames>,
}

impl Relisting {
    /// Creates the state for a job that stores targets under their listed names.
    pub(crate) fn new(place: Arc<JobLocation>, naming: Naming) -> Self {
        Relisting { place, naming, known: None }
    }

    /// Restarts the listing once its first page has arrived.
    pub(super) fn begin(&mut self, control: &Control) -> Result<()> {
        control.journal.list(ListingRequest::Restart);
        self.gather()
    }

    /// Collects the names of all targets that the journal currently contains.
    pub(super) fn gather(&mut self) -> Result<()> {
        self.known = Some(KnownNames::gather(&self.place, self.naming)?);
        Ok(())
    }

    /// Removes from a page the targets that the job already contains.
    pub(super) fn without_known(&self, mut page: ListedPage) -> Result<ListedPage> {
        let Some(known) = &self.known else { return Ok(page) };
        let (mut names, mut out) = (Names::default(), Vec::new());
        for entry in page.names.iter() {
            if !known.take(self.naming.name_of(0, entry, &mut out))? {
                names.push(entry);
            }
        }
        page.names = names;
        Ok(page)
    }
}
