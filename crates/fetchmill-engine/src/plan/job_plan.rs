//! The plan of a job. It contains the request, and everything that is derived from the request, the environment, the
//! list, this machine, and the journal of an existing job. It never changes, and the rest of the engine only reads it.

use std::sync::Arc;

use super::descriptors::MachineShare;
use crate::access::s3::S3Settings;
use crate::request::job_request::JobRequest;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_store::journal::{JobLocation, JobRules};
use fetchmill_store::restart::Removed;

/// Plan of a job. See the [module documentation](self). Created by [planning](super::planning).
#[derive(Debug, Clone)]
pub(crate) struct JobPlan {
    /// The user's request. If a field below has the same name as a field of the request, the field below applies.
    pub(crate) request: JobRequest,
    /// Destination, state folder and lock.
    pub(crate) place: Arc<JobLocation>,
    /// Rules of the job, which might have been started by an older release.
    pub(crate) rules: JobRules,
    /// S3 settings of the request, with missing values taken from the environment and the profile.
    pub(crate) s3: S3Settings,
    /// Additional columns of objects. For a list, these are the URLs and the columns of `--keep-columns`.
    pub(crate) columns: ExtraColumns,
    /// Listing type of the source. `Auto` until the type is detected.
    pub(crate) listing: Listing,
    /// Whether each WARC shard gets an index.
    pub(crate) is_indexed: bool,
    /// Files of an earlier job that were removed because this job starts over.
    pub(crate) removed: Option<Removed>,
    /// Number of threads and requests in flight.
    pub(crate) machine: MachineShare,
}

impl JobPlan {
    /// Returns the plan with the region that the store reported.
    pub(crate) fn in_region(&self, region: String) -> Self {
        JobPlan { s3: self.s3.in_region(Some(region)), ..self.clone() }
    }

    /// Returns the plan with this listing type of the server.
    pub(crate) fn listed_as(&self, listing: Listing) -> Self {
        JobPlan { listing, ..self.clone() }
    }

    /// Returns the plan with these columns of the items.
    pub(crate) fn with_columns(&self, columns: ExtraColumns) -> Self {
        JobPlan { columns, ..self.clone() }
    }

    /// Returns whether the listing type must be detected by requests to the server.
    pub(crate) fn is_listing_unknown(&self) -> bool {
        matches!(self.request.source, SourceOptions::Server(_)) && self.listing == Listing::Auto
    }

    /// Returns how the targets are named.
    pub(crate) fn naming(&self) -> Naming {
        self.rules.naming(self.request.naming(self.listing))
    }

    /// Returns the rules from which stored names are derived.
    pub(crate) fn stored_names(&self) -> StoredNames {
        self.request.stored_names(self.naming())
    }
}
