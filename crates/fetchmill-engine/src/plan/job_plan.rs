//! The plan of a job. It contains the request, and everything that is derived from the request, the environment, the
//! list, this machine, and the journal of a job that has begun. The plan never changes, and the rest of the engine
//! reads it.

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
    /// The request. If a field below has the same name as a field of the request, the one below applies.
    pub(crate) request: JobRequest,
    /// Destination, state folder and lock.
    pub(crate) place: Arc<JobLocation>,
    /// Rules of the job, which may have begun with an older release.
    pub(crate) rules: JobRules,
    /// Settings for reaching stores: the request, completed by the environment and the profile.
    pub(crate) s3: S3Settings,
    /// Additional columns of objects: for a list, the URLs and the columns of `--keep-columns`.
    pub(crate) columns: ExtraColumns,
    /// Kind of the source's listing. `Auto` until the server was asked.
    pub(crate) listing: Listing,
    /// Number of threads and requests in flight.
    pub(crate) machine: MachineShare,
}

impl JobPlan {
    /// Returns the plan with the region that the store has reported for its bucket.
    pub(crate) fn in_region(&self, region: String) -> Self {
        JobPlan { s3: self.s3.in_region(Some(region)), ..self.clone() }
    }

    /// Returns the plan with the server's kind of listing.
    pub(crate) fn listed_as(&self, listing: Listing) -> Self {
        JobPlan { listing, ..self.clone() }
    }

    /// Returns the plan with the columns of the items.
    pub(crate) fn with_columns(&self, columns: ExtraColumns) -> Self {
        JobPlan { columns, ..self.clone() }
    }

    /// Whether the server must be asked for the kind of its listing.
    pub(crate) fn is_listing_unknown(&self) -> bool {
        matches!(self.request.source, SourceOptions::Server(_)) && self.listing == Listing::Auto
    }

    /// Returns how targets are named.
    pub(crate) fn naming(&self) -> Naming {
        self.rules.naming(self.request.naming(self.listing))
    }

    /// Returns how the names of stored objects are derived.
    pub(crate) fn stored_names(&self) -> StoredNames {
        self.request.stored_names(self.naming())
    }
}
