//! The request of a user for a job. It is read once ([`JobRequest::from_json`]) and never changed.

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

/// Default limit of redirects of a list's targets: enough for `http://host` to `https://www.host/path`, and some more.
const REDIRECTS_OF_LIST: u32 = 5;

options! {
    /// All options of a job. Running code reads the [plan](crate::plan) instead.
    pub struct JobRequest {
        /// Format of stored objects.
        format: Format = Format::Files;
        /// Bytes of a shard. `None` means the default of the format.
        shard_size: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// See [`limits::SEAL_AFTER`].
        #[serde(deserialize_with = "seconds")]
        seal_after: Duration = limits::SEAL_AFTER, Bounds::above_0("seconds");
        /// Kind of the source's listing.
        listing: Listing = Listing::Auto;
        /// The stored part of JSON pages.
        store: Stored = Stored::Objects;
        /// Whether a server's robots.txt is obeyed. The default is yes for a walk over index pages, and no for the
        /// targets of a list.
        robots: Option<bool> = None;
        /// Format of a list. `None` means that the name decides.
        list_format: Option<ListFormat> = None;
        /// Names of a list's objects.
        names: NameScheme = NameScheme::Source;
        /// A leading path that is removed from stored names.
        strip_prefix: Option<String> = None;
        /// Requests in flight to one host. `None` means the engine's default, and 0 means no limit.
        limit_per_host: Option<u32> = None, Bounds::at_least(0.0, "");
        /// Whether targets of a list may have private addresses.
        allow_private: bool = false;
        /// A command that prints a token for requests to one origin.
        bearer_command: Option<String> = None;
        /// Requests that are sent together on a connection.
        pipeline: u32 = 1, Bounds::between(1.0, f64::from(limits::BATCH_REQUESTS_MAX), "");
        /// Bytes between two parts of an object that are requested together. `None` means that each part is requested
        /// alone.
        coalesce: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// Fetching threads. `None` means one for each processor of the affinity mask.
        threads: Option<usize> = None, Bounds::at_least(1.0, "");
        /// Time of a commit window.
        #[serde(deserialize_with = "seconds")]
        commit_window: Duration = limits::COMMIT_WINDOW, Bounds::between(0.001, 3600.0, "seconds");
        /// The event that a commit survives.
        durability: Durability = Durability::Power;
        /// Journal folder. `None` means that it is inside the destination.
        state: Option<PathBuf> = None;
        /// Whether a file gets the time that the server gives, instead of the time when it was fetched.
        server_times: bool = true;
        /// Whether a job stops before its files fill the file system.
        preflight: bool = true;
        /// Files that accompany each object in a shard of tar ([`Sidecars::parse`]).
        sidecar: Vec<String> = Vec::new();
        /// The hash of each body in rows.
        hash: Option<HashAlgorithm> = None;
        /// Whether more than objects is stored: rows of all targets, or in WARC other replies.
        keep_failed: bool = false;
        /// Whether each shard of WARC gets an index.
        cdxj: bool = false;
        /// Columns that the transform may fill.
        transform_columns: Vec<String> = Vec::new();
        /// Maximum number of replies in a batch for the transform.
        transform_batch: usize = limits::TRANSFORM_BATCH, Bounds::at_least(1.0, "");
        /// Failed or absent targets to try again.
        retry_failed: RetryFailed = RetryFailed::Nothing;
        /// Limit of failed targets of the whole job.
        max_failed: Option<MaxFailed> = None;
        /// Whether absent targets do not count as failed.
        allow_absent: bool = false;
        /// Maximum duration of a run.
        #[serde(deserialize_with = "some_seconds")]
        max_duration: Option<Duration> = None, Bounds::above_0("seconds");
        /// Bytes of bodies a second, in total.
        bwlimit: Option<f64> = None, Bounds::above_0("bytes a second");
        /// Maximum bytes of bodies that a run receives before it ends.
        max_bytes: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// Number of targets from the start of the job that a run fetches before it ends.
        first: Option<u64> = None, Bounds::at_least(1.0, "");
        /// Whether a check rechecks temporary failures at its end.
        second_look: bool = false;
        /// See [`limits::GIVE_UP_AFTER`].
        #[serde(deserialize_with = "seconds")]
        give_up_after: Duration = limits::GIVE_UP_AFTER, Bounds::above_0("seconds");
    } and {
        /// Source of the targets.
        source: SourceOptions,
        /// Destination of the objects.
        dest: PathBuf,
        /// Destination in a bucket. `None` means that the destination is a folder.
        upload: Option<UploadDestination>,
        /// Engine that fetches.
        workers: Workers,
        /// Options of requests.
        http: HttpOptions,
        /// Options for reaching buckets, as the user gave them.
        s3: S3Options,
        /// Names in the API of a server.
        api: ApiNames,
        /// Options for reading JSON pages.
        json: JsonPageOptions,
        /// Filters of targets, and options for reading a list.
        list: ListOptions,
        /// Conditions on the listed values of keys.
        bounds: KeyBounds,
        /// Whether every target becomes a row and nothing is stored: a check, or a list that is written out.
        rows: Option<RowsOptions>,
        /// Transform of each reply before it is stored.
        transform: Option<TransformOptions>,
        /// Origin that the user has named, and from which a list was made.
        named_origin: Option<OriginKey>,
        /// Pass of a sync for which this job fetches objects.
        pass: Option<PassOptions>,
        /// Text with which the caller requested the job. The journal keeps it for `resume`.
        command: Option<String>,
        /// Seed of the jitter. `None` means a seed from the clock.
        seed: Option<u64>,
    }
}

impl JobRequest {
    /// Makes a request with the default options.
    pub fn new(source: SourceOptions, dest: PathBuf) -> Self {
        JobRequest { source, dest, ..JobRequest::default() }
    }

    /// Returns the settings of JSON pages, if the source has them.
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

    /// Whether targets are URLs that may lead to any origin: those of a list, or of JSON pages.
    pub(crate) fn leads_anywhere(&self) -> bool {
        match self.source {
            SourceOptions::List(_) | SourceOptions::Iterable => true,
            SourceOptions::Server(_) => self.listing == Listing::Json,
            SourceOptions::S3 { .. } => false,
        }
    }

    /// Whether the targets come from the listing of a server or store, not from a list of URLs.
    pub(crate) fn lists_itself(&self) -> bool {
        matches!(self.source, SourceOptions::Server(_) | SourceOptions::S3 { .. })
    }

    /// Whether the items of JSON pages are stored themselves.
    pub(crate) fn stores_items(&self) -> bool {
        self.store == Stored::Items
    }

    /// Whether targets are only listed, and not requested.
    pub(crate) fn lists_only(&self) -> bool {
        self.stores_items() || self.rows.as_ref().is_some_and(|rows| rows.kind == RowKind::Targets)
    }

    /// Whether names of a list get an extension from the type of their replies.
    pub(super) fn names_have_extension(&self) -> bool {
        let has_template = self.names.template().is_some_and(NameTemplate::has_extension);
        has_template && !self.lists_itself()
    }

    /// Whether the values of columns are stored.
    pub(crate) fn keeps_columns(&self) -> bool {
        match self.format {
            Format::Parquet | Format::Jsonl | Format::Null => true,
            Format::Tar => !self.sidecar.is_empty(),
            Format::Files | Format::Warc => false,
        }
    }

    /// Whether output survives a power cut, and not only a kill.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Power
    }

    /// Returns the parts of replies that the sinks need. A transform sees the body and the facts, even if neither is
    /// stored. Files need the server's time, or the type for their names. A body that will be decoded must be kept
    /// until then, even by `null`.
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

    /// Returns whether targets without an object also have a row.
    pub(crate) fn keeps_all_rows(&self) -> bool {
        self.keep_failed && matches!(self.format, Format::Parquet | Format::Jsonl)
    }

    /// Returns whether WARC also has replies that are not objects.
    pub(crate) fn keeps_replies(&self) -> bool {
        self.keep_failed && self.format == Format::Warc
    }

    /// Returns [`HttpOptions::redirects`]. The default is 5 if targets are URLs of a user, and 0 for a server that
    /// lists its own objects.
    fn redirects_max(&self, listing: Listing) -> u32 {
        let has_urls = self.leads_anywhere() || listing == Listing::Object;
        self.http.redirects.unwrap_or(if has_urls { REDIRECTS_OF_LIST } else { 0 })
    }

    /// Returns the maximum number of consecutive redirects of a listing's page.
    pub(crate) fn redirects_of_pages(&self) -> u32 {
        self.http.redirects.unwrap_or(REDIRECTS_OF_LIST)
    }

    /// Returns the rules for attempts. In a check a refusal is an answer, and every attempt counts.
    pub(crate) fn attempt_rules(&self, listing: Listing) -> Rules {
        let is_check = self.rows.is_some();
        Rules {
            attempts_max: self.http.attempts,
            is_patient: !is_check,
            redirects_max: self.redirects_max(listing),
            allow_eof_bodies: self.http.allow_eof_bodies,
            // A check reads the start of a longer body.
            body_max: if is_check { u64::MAX } else { self.http.max_size },
            has_second_look: self.second_look && is_check,
            // A sync would treat a skipped archived object as unchanged.
            skips_archived: !is_check && self.pass.is_none(),
            retried: self.http.retry_status,
            accepted: self.http.accept,
            ..Rules::default()
        }
    }

    /// Returns the requests of the targets.
    pub(crate) fn requests(&self) -> Result<JobRequests> {
        JobRequests::new(&self.list.request)
    }

    /// Returns the rules that end a run before its job.
    pub(crate) fn stop_rules(&self) -> StopRules {
        StopRules {
            max_failed: self.max_failed,
            counts_absent: !self.allow_absent,
            max_duration: self.max_duration,
            max_bytes: self.max_bytes,
            first: self.first,
        }
    }

    /// Whether received bytes of bodies are counted.
    pub(crate) fn meters_bodies(&self) -> bool {
        self.bwlimit.is_some() || self.max_bytes.is_some()
    }

    /// Returns the addresses that targets may lead to. A list, or JSON pages, may lead only to public addresses unless
    /// the user allows private ones.
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

    /// Returns the origin that gets secrets: the one that the user names, or the only one of the source. The origin of
    /// a bucket is not known here.
    pub(crate) fn secrets_origin(&self) -> Option<OriginKey> {
        self.http.credentials_for.clone().or_else(|| self.source.only_origin(&self.list))
    }

    /// Whether the robots.txt of each host in a list is obeyed.
    pub(crate) fn obeys_robots_of_hosts(&self) -> bool {
        self.robots == Some(true) && self.leads_anywhere()
    }

    /// Returns the requests in flight of a job over many hosts. Each host has its own limit, so no search is needed.
    /// `concurrency` is the requested value, lowered to the limit of this machine.
    pub(crate) fn concurrency_of_hosts(&self, concurrency: Concurrency) -> usize {
        let usual = if self.rows.is_some() { limits::CHECK_CONCURRENCY } else { limits::CONCURRENCY_DEFAULT };
        match concurrency {
            Concurrency::Number(number) => number as usize,
            Concurrency::Auto { most } => usual.min(most) as usize,
        }
    }
}
