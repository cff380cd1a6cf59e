//! The plan of a job: its request, and everything that follows from it, from the environment, the list, this machine, and
//! the journal of a job that has begun. It never changes: the rest of the engine reads it.

use std::sync::Arc;

use super::descriptors::MachineShare;
use crate::access::s3::S3Settings;
use crate::request::job_request::JobRequest;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_store::journal::{JobLocation, JobRules};

/// See the module. [Planning](super::planning) makes it.
#[derive(Debug, Clone)]
pub(crate) struct JobPlan {
    /// The request. Where a field below has the same name as one of it, that field holds.
    pub(crate) request: JobRequest,
    /// Destination, state folder and lock.
    pub(crate) place: Arc<JobLocation>,
    /// Rules of the job, which may have begun with an older release.
    pub(crate) rules: JobRules,
    /// How stores are reached: the request, completed by the environment and the profile.
    pub(crate) s3: S3Settings,
    /// Columns of objects besides the standard ones: of a list, their URLs and what `--keep-columns` names.
    pub(crate) columns: ExtraColumns,
    /// How the source is listed; `Auto` until the server was asked.
    pub(crate) listing: Listing,
    /// Threads and requests in flight.
    pub(crate) machine: MachineShare,
}

impl JobPlan {
    /// Returns the plan with the region that the store has told of its bucket.
    pub(crate) fn in_region(&self, region: String) -> Self {
        JobPlan { s3: self.s3.in_region(Some(region)), ..self.clone() }
    }

    /// Returns the plan with the kind of listing that the server has.
    pub(crate) fn listed_as(&self, listing: Listing) -> Self {
        JobPlan { listing, ..self.clone() }
    }

    /// Returns the plan with the columns that the items have.
    pub(crate) fn with_columns(&self, columns: ExtraColumns) -> Self {
        JobPlan { columns, ..self.clone() }
    }

    /// Whether the server must be asked how it lists.
    pub(crate) fn is_listing_unknown(&self) -> bool {
        matches!(self.request.source, SourceOptions::Server(_)) && self.listing == Listing::Auto
    }

    /// How targets are named.
    pub(crate) fn naming(&self) -> Naming {
        self.rules.naming(self.request.naming(self.listing))
    }

    /// How names become those that objects are stored under.
    pub(crate) fn stored_names(&self) -> StoredNames {
        self.request.stored_names(self.naming())
    }
}
