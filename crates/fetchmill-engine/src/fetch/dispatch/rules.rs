//! What a dispatcher must know of its job, what it hands out, and what it is answered.

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

/// What a dispatcher must know of its job.
pub(crate) struct DispatchRules {
    pub(crate) naming: Naming,
    pub(crate) names: StoredNames,
    /// The only origin, when a server lists its objects itself.
    pub(crate) server: Option<(OriginKey, RequestTemplate)>,
    pub(crate) fields: OriginFields,
    pub(crate) rules: Rules,
    /// Of this dispatcher's requests.
    pub(crate) pace: Option<Pace>,
    /// Of the bodies that it is answered.
    pub(crate) byte_rate: Option<ByteRate>,
}

impl DispatchRules {
    /// For one of so many dispatchers, which share the rate.
    pub(crate) fn new(plan: &JobPlan, dispatchers: usize) -> Result<Self> {
        Ok(DispatchRules {
            naming: plan.naming(),
            names: plan.stored_names(),
            server: plan.server()?,
            fields: plan.fields()?,
            // What a transport gives is the end of the way.
            rules: Rules { redirects_max: 0, ..plan.request.attempt_rules(plan.listing) },
            pace: plan.request.http.rate.map(|rate| Pace::new(rate / dispatchers as f64)),
            byte_rate: plan.request.bwlimit.map(|rate| ByteRate::new(rate / dispatchers as f64)),
        })
    }
}

/// How large the bodies were that have come.
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

    /// None before the first one.
    pub(super) fn mean(&self) -> Option<usize> {
        self.bytes.checked_div(self.count).map(|mean| mean as usize)
    }
}

/// A target that is to be handed out again: it never left this dispatcher, so what was spent on it is known.
pub(super) struct CorrectedTarget {
    pub(super) target: CurrentTarget,
    pub(super) not_before: Millis,
    /// Newer credentials are waited for.
    pub(super) is_renewing: bool,
}

/// A target as it is handed out.
#[derive(Debug, Clone)]
pub struct DispatchedTarget {
    /// Which target.
    pub sequence: Sequence,
    /// What it is called.
    pub name: Box<[u8]>,
    /// Where it is asked for.
    pub url: Box<str>,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// What a worker answers for a target.
#[derive(Debug, Clone, Copy)]
pub enum WorkerAnswer<'a> {
    /// A reply that came to its end.
    Replied {
        /// For which target.
        sequence: Sequence,
        /// Its status.
        status: u16,
        /// Its body.
        body: &'a [u8],
        /// Whether its length was told, and that is what came.
        is_verified: bool,
        /// The fields that matter.
        fields: AnswerFields<'a>,
    },
    /// No complete reply.
    Broken {
        /// For which target.
        sequence: Sequence,
        /// Why.
        kind: FailureKind,
        /// What a person should know besides; UTF-8.
        detail: Option<&'a str>,
    },
}

/// Fields of a reply, as far as they were there.
#[derive(Debug, Default, Clone, Copy)]
pub struct AnswerFields<'a> {
    /// Content-Type.
    pub content_type: Option<&'a str>,
    /// `ETag`.
    pub etag: Option<&'a str>,
    /// Last-Modified.
    pub last_modified: Option<&'a str>,
    /// Retry-After.
    pub retry_after: Option<&'a str>,
    /// Date: the clock of who answers.
    pub date: Option<&'a str>,
    /// Content-Encoding.
    pub content_encoding: Option<&'a str>,
    /// `x-amz-bucket-region`, of a store of S3.
    pub bucket_region: Option<&'a str>,
    /// Location.
    pub location: Option<&'a str>,
    /// WWW-Authenticate.
    pub challenge: Option<&'a str>,
    /// What a store says of the bytes, lines of a head; none if the body may be another form of them.
    pub checksums: Option<&'a str>,
}
