//! A job as the user requested it. [`JobRequest::from_json`] parses it once, and it never changes.

use std::path::PathBuf;
use std::time::Duration;

use super::custom_request::JobRequests;
use super::http_options::{Concurrency, HttpOptions};
use super::name_scheme::NameScheme;
use super::retry_failed::RetryFailed;
use super::rows_options::RowsOptions;
use super::source_options::{Listing, SourceOptions};
use super::stop_rules::{MaxFailed, StopRules};
use super::storing_options::{Durability, HashAlgorithm, PassOptions, TransformOptions};
use super::workers::Workers;
use crate::access::s3::S3Options;
use fetchmill_model::error::Result;
use fetchmill_model::limits;
use fetchmill_model::options::{Bounds, options, seconds, some_seconds};
use fetchmill_model::origin::OriginKey;
use fetchmill_model::row::RowKind;
use fetchmill_model::s3::{KeyBounds, UploadDestination};
use fetchmill_model::source::ApiNames;
use fetchmill_model::source::json::{JsonPageOptions, JsonPages, Stored};
use fetchmill_model::source::list::{ListFormat, ListOptions, NameTemplate};
use fetchmill_model::verdict::Rules;
use fetchmill_net::AddressPolicy;
use fetchmill_store::sink::{Format, Properties, StoredParts};

/// Default maximum number of redirects for targets of a list. It leaves room beyond the usual redirects from
/// `http://host` to `https://www.host/path`.
const REDIRECTS_OF_LIST: u32 = 5;

options! {
    /// All options of a job. Code that runs the job reads the [plan](crate::plan) instead.
    pub struct JobRequest {
        /// Format of stored objects.
        format: Format = Format::Files;
        /// Shard size in bytes. `None` selects the default of the format.
        shard_size: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// Age at which a shard is sealed. See [`limits::SEAL_AFTER`].
        #[serde(deserialize_with = "seconds")]
        seal_after: Duration = limits::SEAL_AFTER, Bounds::above_0("seconds");
        /// Kind of the source's listing.
        listing: Listing = Listing::Auto;
        /// Part of JSON pages that is stored.
        store: Stored = Stored::Objects;
        /// Whether to obey robots.txt. By default, a walk over index pages obeys it, and the targets of a list do not.
        robots: Option<bool> = None;
        /// Format of a list. `None` detects it from the file name.
        list_format: Option<ListFormat> = None;
        /// Naming scheme for the objects of a list.
        names: NameScheme = NameScheme::Source;
        /// Path prefix that is removed from stored names.
        strip_prefix: Option<String> = None;
        /// Maximum number of requests in flight per host. `None` selects the engine's default, and 0 means no limit.
        limit_per_host: Option<u32> = None, Bounds::at_least(0.0, "");
        /// Whether targets of a list can have private addresses.
        allow_private: bool = false;
        /// Command that prints a bearer token for one origin.
        bearer_command: Option<String> = None;
        /// Number of requests that are sent together on one connection.
        pipeline: u32 = 1, Bounds::between(1.0, f64::from(limits::BATCH_REQUESTS_MAX), "");
        /// Maximum gap in bytes between two parts of an object that one request fetches. `None` fetches each part
        /// separately.
        coalesce: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// Number of fetching threads. `None` starts one per processor in the affinity mask.
        threads: Option<usize> = None, Bounds::at_least(1.0, "");
        /// Duration of a commit window.
        #[serde(deserialize_with = "seconds")]
        commit_window: Duration = limits::COMMIT_WINDOW, Bounds::between(0.001, 3600.0, "seconds");
        /// Kind of crash that committed data must survive.
        durability: Durability = Durability::Power;
        /// Journal folder. `None` puts it inside the destination.
        state: Option<PathBuf> = None;
        /// Whether the modification time of a file is the time that the server reports, rather than the time of the
        /// fetch.
        server_times: bool = true;
        /// Whether the job stops before its files fill the file system.
        preflight: bool = true;
        /// Additional files stored with each object in a tar shard ([`Sidecars::parse`]).
        sidecar: Vec<String> = Vec::new();
        /// Algorithm for the hash of the body in rows.
        hash: Option<HashAlgorithm> = None;
        /// Whether to store more than the objects: rows for all targets, or other replies in WARC.
        keep_failed: bool = false;
        /// Whether each WARC shard gets an index. With `None`, an existing job continues as it was started, and a new
        /// job has indexes if its destination is a folder.
        cdxj: Option<bool> = None;
        /// Columns that the transform can fill.
        transform_columns: Vec<String> = Vec::new();
        /// Maximum number of replies in a batch for the transform.
        transform_batch: usize = limits::TRANSFORM_BATCH, Bounds::at_least(1.0, "");
        /// Whether to remove an existing job and its files first.
        restart: bool = false;
        /// Failed or absent targets to fetch again.
        retry_failed: RetryFailed = RetryFailed::Nothing;
        /// Maximum number of failed targets in the whole job.
        max_failed: Option<MaxFailed> = None;
        /// Whether absent targets do not count as failed.
        allow_absent: bool = false;
        /// Maximum duration of a run.
        #[serde(deserialize_with = "some_seconds")]
        max_duration: Option<Duration> = None, Bounds::above_0("seconds");
        /// Maximum number of body bytes per second, in total.
        bwlimit: Option<f64> = None, Bounds::above_0("bytes a second");
        /// Number of received body bytes after which the run stops.
        max_bytes: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// Number of targets, counted from the start of the job, after which the run stops.
        first: Option<u64> = None, Bounds::at_least(1.0, "");
        /// Whether a check retries temporary failures at its end.
        second_look: bool = false;
        /// Time after which an outage ends the job. See [`limits::GIVE_UP_AFTER`].
        #[serde(deserialize_with = "seconds")]
        give_up_after: Duration = limits::GIVE_UP_AFTER, Bounds::above_0("seconds");
    } and {
        /// Source of the targets.
        source: SourceOptions,
        /// Destination of the objects.
        dest: PathBuf,
        /// Destination in a bucket. `None` if the destination is a folder.
        upload: Option<UploadDestination>,
        /// Kind of engine that fetches.
        workers: Workers,
        /// Options of requests.
        http: HttpOptions,
        /// S3 options, as the user specified them.
        s3: S3Options,
        /// Names of the paths and fields in a server's API.
        api: ApiNames,
        /// Options for reading JSON pages.
        json: JsonPageOptions,
        /// Filters for targets, and options for reading a list.
        list: ListOptions,
        /// Conditions on the values that are listed for a key.
        bounds: KeyBounds,
        /// Options for rows, if every target becomes a row and no object is stored. This is the case for checks and for
        /// lists that are written out.
        rows: Option<RowsOptions>,
        /// Transform that is applied to each reply before it is stored.
        transform: Option<TransformOptions>,
        /// Origin that the user named, if the list was built from that origin.
        named_origin: Option<OriginKey>,
        /// Pass of a sync for which this job fetches objects.
        pass: Option<PassOptions>,
        /// Command line or call that started the job. The journal keeps it for `resume`.
        command: Option<String>,
        /// Seed for the jitter of retries. `None` takes it from the clock.
        seed: Option<u64>,
    }
}

impl JobRequest {
    /// Creates a request with default options.
    pub fn new(source: SourceOptions, dest: PathBuf) -> Self {
        JobRequest { source, dest, ..JobRequest::default() }
    }

    /// Returns the JSON page settings, if the source consists of JSON pages.
    pub(crate) fn json_pages(&self) -> Option<Result<JsonPages>> {
        match &self.source {
            SourceOptions::Server(url) if self.listing == Listing::Json => {
                let pages = JsonPages::new(url, &self.json, &self.api);
                let item_max = self.stores_items().then_some(self.http.max_size);
                Some(pages.map(|pages| match item_max {
                    Some(item_max) => pages.storing_items(item_max),
                    None => pages,
                }))
            }
            _ => None,
        }
    }

    /// Returns whether targets are URLs at any origin, as in lists and JSON pages.
    pub(crate) fn leads_anywhere(&self) -> bool {
        match self.source {
            SourceOptions::List(_) | SourceOptions::Iterable => true,
            SourceOptions::Server(_) => self.listing == Listing::Json,
            SourceOptions::S3 { .. } => false,
        }
    }

    /// Returns whether a server or store lists the targets. If not, they come from a list of URLs.
    pub(crate) fn lists_itself(&self) -> bool {
        matches!(self.source, SourceOptions::Server(_) | SourceOptions::S3 { .. })
    }

    /// Returns whether the items of JSON pages are stored as objects themselves.
    pub(crate) fn stores_items(&self) -> bool {
        self.store == Stored::Items
    }

    /// Returns whether targets are listed but not requested.
    pub(crate) fn lists_only(&self) -> bool {
        self.stores_items() || self.rows.as_ref().is_some_and(|rows| rows.kind == RowKind::Targets)
    }

    /// Returns whether stored names get an extension that matches the content type.
    pub(super) fn names_have_extension(&self) -> bool {
        let has_template = self.names.template().is_some_and(NameTemplate::has_extension);
        has_template && !self.lists_itself()
    }

    /// Returns whether column values are stored.
    pub(crate) fn keeps_columns(&self) -> bool {
        match self.format {
            Format::Parquet | Format::Jsonl | Format::Null => true,
            Format::Tar => !self.sidecar.is_empty(),
            Format::Files | Format::Warc => false,
        }
    }

    /// Returns whether the output survives a power cut. If not, it survives only a kill.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Power
    }

    /// Returns which parts of a reply the sinks need. A transform sees the body and the facts, even if neither is
    /// stored. The `files` format needs the time that the server reports. It also needs the content type if the name
    /// depends on that type. If a body must be decoded, even `null` keeps the body until then.
    pub(crate) fn properties(&self) -> Properties {
        let properties = self.format.properties();
        let files_need_facts = self.server_times || self.names_have_extension();
        let needed = if self.transform.is_some()
            || self.pass.is_some()
            || self.format == Format::Files && files_need_facts
        {
            StoredParts::Facts
        } else if self.http.compressed {
            StoredParts::Bodies
        } else {
            StoredParts::Outcomes
        };
        let needed = if self.keeps_replies() { StoredParts::Replies } else { needed };
        Properties { keeps: properties.keeps.max(needed), ..properties }
    }

    /// Returns whether rows are written for targets without an object.
    pub(crate) fn keeps_all_rows(&self) -> bool {
        self.keep_failed && matches!(self.format, Format::Parquet | Format::Jsonl)
    }

    /// Returns whether WARC stores replies that are not objects.
    pub(crate) fn keeps_replies(&self) -> bool {
        self.keep_failed && self.format == Format::Warc
    }

    /// Returns [`HttpOptions::redirects`]. The default is 5 for URLs from a user, and 0 for a server that lists its own
    /// objects.
    fn redirects_max(&self, listing: Listing) -> u32 {
        let has_urls = self.leads_anywhere() || listing == Listing::Object;
        self.http.redirects.unwrap_or(if has_urls { REDIRECTS_OF_LIST } else { 0 })
    }

    /// Returns the maximum number of consecutive redirects for a listing page.
    pub(crate) fn redirects_of_pages(&self) -> u32 {
        self.http.redirects.unwrap_or(REDIRECTS_OF_LIST)
    }

    /// Returns the rules for attempts. In a check, a refusal is an answer, and every attempt counts.
    pub(crate) fn attempt_rules(&self, listing: Listing) -> Rules {
        let is_check = self.rows.is_some();
        Rules {
            attempts_max: self.http.attempts,
            is_patient: !is_check,
            redirects_max: self.redirects_max(listing),
            allow_eof_bodies: self.http.allow_eof_bodies,
            // A check reads only the start of a long body.
            body_max: if is_check { u64::MAX } else { self.http.max_size },
            has_second_look: self.second_look && is_check,
            // A sync must not skip an archived object, because it would then treat the object as unchanged.
            skips_archived: !is_check && self.pass.is_none(),
            retried: self.http.retry_status,
            accepted: self.http.accept,
            ..Rules::default()
        }
    }

    /// Returns the requests for the targets.
    pub(crate) fn requests(&self) -> Result<JobRequests> {
        JobRequests::new(&self.list.request)
    }

    /// Returns the rules that can stop a run before the job is finished.
    pub(crate) fn stop_rules(&self) -> StopRules {
        StopRules {
            max_failed: self.max_failed,
            counts_absent: !self.allow_absent,
            max_duration: self.max_duration,
            max_bytes: self.max_bytes,
            first: self.first,
        }
    }

    /// Returns whether the job counts received body bytes.
    pub(crate) fn meters_bodies(&self) -> bool {
        self.bwlimit.is_some() || self.max_bytes.is_some()
    }

    /// Returns the addresses that targets can resolve to. Lists and JSON pages are restricted to public addresses
    /// unless the user allows private ones.
    pub(crate) fn reach(&self) -> AddressPolicy {
        let is_trusted = match self.source {
            SourceOptions::List(_) => self.allow_private,
            SourceOptions::Server(_) if self.leads_anywhere() => self.allow_private,
            SourceOptions::Server(_) | SourceOptions::S3 { .. } | SourceOptions::Iterable => {
                !self.http.public_only
            }
        };
        if is_trusted { AddressPolicy::Anywhere } else { AddressPolicy::PublicOnly }
    }

    /// Returns the origin that receives secrets: the origin that the user named, or the only origin of the source. The
    /// origin of a bucket is not known yet.
    pub(crate) fn secrets_origin(&self) -> Option<OriginKey> {
        self.http.credentials_for.clone().or_else(|| self.source.only_origin(&self.list))
    }

    /// Returns whether the robots.txt of each host in a list is obeyed.
    pub(crate) fn obeys_robots_of_hosts(&self) -> bool {
        self.robots == Some(true) && self.leads_anywhere()
    }

    /// Returns the maximum number of requests in flight for a job with many hosts. Each host has its own limit, so no
    /// search is needed. `concurrency` is the requested value, capped by the limit of this machine.
    pub(crate) fn concurrency_of_hosts(&self, concurrency: Concurrency) -> usize {
        let usual = if self.rows.is_some() { limits::CHECK_CONCURRENCY } else { limits::CONCURRENCY_DEFAULT };
        match concurrency {
            Concurrency::Number(number) => number as usize,
            Concurrency::Auto { most } => usual.min(most) as usize,
        }
    }
}
