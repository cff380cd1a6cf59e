//! Settings of a dispatcher, the targets that it hands out, and the answers to those targets.

use crate::fetch::target::CurrentTarget;
use crate::plan::job_plan::JobPlan;
use fetchmill_model::error::Result;
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::origin::{OriginFields, OriginKey};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::planner::pace::{ByteRate, Pace};
use fetchmill_model::target::Sequence;
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_model::verdict::Rules;

/// Settings of a dispatcher, derived from its job.
pub(crate) struct DispatchRules {
    pub(crate) naming: Naming,
    pub(crate) names: StoredNames,
    /// The job's only origin, if the source is a server that lists its own objects.
    pub(crate) server: Option<(OriginKey, RequestTemplate)>,
    pub(crate) fields: OriginFields,
    pub(crate) rules: Rules,
    /// Request rate of this dispatcher.
    pub(crate) pace: Option<Pace>,
    /// Rate limit for body bytes.
    pub(crate) byte_rate: Option<ByteRate>,
}

impl DispatchRules {
    /// Creates the settings of one of `dispatchers` dispatchers, which share the rate limits equally.
    pub(crate) fn new(plan: &JobPlan, dispatchers: usize) -> Result<Self> {
        Ok(DispatchRules {
            naming: plan.naming(),
            names: plan.stored_names(),
            server: plan.server()?,
            fields: plan.fields()?,
            // The transports follow redirects themselves.
            rules: Rules { redirects_max: 0, ..plan.request.attempt_rules(plan.listing) },
            pace: plan.request.http.rate.map(|rate| Pace::new(rate / dispatchers as f64)),
            byte_rate: plan.request.bwlimit.map(|rate| ByteRate::new(rate / dispatchers as f64)),
        })
    }
}

/// Mean size of received bodies.
#[derive(Debug, Default)]
pub(super) struct MeanBody {
    bytes: u64,
    count: u64,
}

impl MeanBody {
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.count += 1;
    }

    /// Returns the mean size, or `None` before the first body.
    pub(super) fn mean(&self) -> Option<usize> {
        self.bytes.checked_div(self.count).map(|mean| mean as usize)
    }
}

/// Target to hand out again. It never left this dispatcher, so the number of its attempts is known.
pub(super) struct CorrectedTarget {
    pub(super) target: CurrentTarget,
    pub(super) not_before: Millis,
    /// Whether the target waits for newer credentials.
    pub(super) is_renewing: bool,
}

/// Target that was handed out to a worker.
#[derive(Debug, Clone)]
pub struct DispatchedTarget {
    /// Sequence number of the target.
    pub sequence: Sequence,
    /// Name of the target.
    pub name: Box<[u8]>,
    /// URL to request.
    pub url: Box<str>,
    /// Number of the attempt, starting at 1.
    pub attempt: u32,
}

/// Answer of a worker for a target.
#[derive(Debug, Clone, Copy)]
pub enum WorkerAnswer<'a> {
    /// A complete reply.
    Replied {
        /// Sequence number of the target.
        sequence: Sequence,
        /// Status of the reply.
        status: u16,
        /// Body of the reply.
        body: &'a [u8],
        /// Whether the reply declared its length and the body has that length.
        is_verified: bool,
        /// Header fields needed to judge the reply.
        fields: AnswerFields<'a>,
    },
    /// A failure without a complete reply.
    Broken {
        /// Sequence number of the target.
        sequence: Sequence,
        /// Kind of the failure.
        kind: FailureKind,
        /// Detail for the user, in UTF-8.
        detail: Option<&'a str>,
    },
}

/// Header fields of a reply. A field is `None` if it is missing from the reply.
#[derive(Debug, Default, Clone, Copy)]
pub struct AnswerFields<'a> {
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `ETag`.
    pub etag: Option<&'a str>,
    /// `Last-Modified`.
    pub last_modified: Option<&'a str>,
    /// `Retry-After`.
    pub retry_after: Option<&'a str>,
    /// `Date`, according to the server's clock.
    pub date: Option<&'a str>,
    /// `Content-Encoding`.
    pub content_encoding: Option<&'a str>,
    /// `x-amz-bucket-region`, from an S3 store.
    pub bucket_region: Option<&'a str>,
    /// `Location`.
    pub location: Option<&'a str>,
    /// `WWW-Authenticate`.
    pub challenge: Option<&'a str>,
    /// Checksum header lines from a store. `None` if the body might differ from the bytes that were sent.
    pub checksums: Option<&'a str>,
}
