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

/// Redirects of a list's targets unless `--redirects` says otherwise: what it takes from `http://host` to
/// `https://www.host/path`, and some more.
const REDIRECTS_OF_LIST: u32 = 5;

options! {
    /// Everything that a user asks of a job. Everything that runs reads its [plan](crate::plan).
    pub struct JobRequest {
        /// How objects are stored.
        format: Format = Format::Files;
        /// Bytes of a shard; none: what the format takes.
        shard_size: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// See [`limits::SEAL_AFTER`].
        #[serde(deserialize_with = "seconds")]
        seal_after: Duration = limits::SEAL_AFTER, Bounds::above_0("seconds");
        /// How the source is listed.
        listing: Listing = Listing::Auto;
        /// What is stored of pages of JSON.
        store: Stored = Stored::Objects;
        /// Whether a server's robots.txt counts: where its index pages are walked, unless this says no, and for the targets
        /// of a list if this says yes.
        robots: Option<bool> = None;
        /// What a list is; none: as its name says.
        list_format: Option<ListFormat> = None;
        /// What objects of a list are called.
        names: NameScheme = NameScheme::Source;
        /// A leading path that stored names lose.
        strip_prefix: Option<String> = None;
        /// Requests in flight to one host; none: what the engine takes, 0: as many as there are.
        limit_per_host: Option<u32> = None, Bounds::at_least(0.0, "");
        /// Whether targets of a list may lead to addresses that are not public.
        allow_private: bool = false;
        /// A command that prints a token for requests to one origin.
        bearer_command: Option<String> = None;
        /// Requests that are sent at once on a connection.
        pipeline: u32 = 1, Bounds::between(1.0, f64::from(limits::BATCH_REQUESTS_MAX), "");
        /// Bytes between two parts of an object that are asked for together; none: each is asked for by itself.
        coalesce: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// Threads that fetch; none: one for each processor of the affinity mask.
        threads: Option<usize> = None, Bounds::at_least(1.0, "");
        /// Time of a commit window.
        #[serde(deserialize_with = "seconds")]
        commit_window: Duration = limits::COMMIT_WINDOW, Bounds::between(0.001, 3600.0, "seconds");
        /// What a commit survives.
        durability: Durability = Durability::Power;
        /// Where the journal is, when not in the destination.
        state: Option<PathBuf> = None;
        /// Whether a file is as old as the server says, or as its fetching.
        server_times: bool = true;
        /// Whether a job whose files would not fit is stopped before they fill the file system.
        preflight: bool = true;
        /// What stands beside each object in a shard of tar ([`Sidecars::parse`]).
        sidecar: Vec<String> = Vec::new();
        /// Which hash of each body rows have.
        hash: Option<HashAlgorithm> = None;
        /// Whether targets without an object have a row, too.
        all_rows: bool = false;
        /// Whether each shard of WARC gets an index.
        cdxj: bool = false;
        /// Whether WARC has replies that are no objects, too.
        warc_all: bool = false;
        /// Columns that the transform may fill.
        transform_columns: Vec<String> = Vec::new();
        /// Replies that the transform is given at once.
        transform_batch: usize = limits::TRANSFORM_BATCH, Bounds::at_least(1.0, "");
        /// A second pass over what failed or was absent.
        retry_failed: RetryFailed = RetryFailed::Nothing;
        /// How many targets may fail, of the whole job.
        max_failed: Option<MaxFailed> = None;
        /// Whether absent targets are as good as fetched ones: they do not count there.
        allow_absent: bool = false;
        /// Time of a run; it is ended then.
        #[serde(deserialize_with = "some_seconds")]
        max_duration: Option<Duration> = None, Bounds::above_0("seconds");
        /// Bytes of bodies a second, all together.
        bwlimit: Option<f64> = None, Bounds::above_0("bytes a second");
        /// Bytes of bodies that a run receives; it is ended then.
        max_bytes: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// Targets of the job, from its beginning, that a run fetches; it is ended then.
        first: Option<u64> = None, Bounds::at_least(1.0, "");
        /// Whether a check looks once more, at its end, at what failed for a reason that may pass.
        second_look: bool = false;
        /// See [`limits::GIVE_UP_AFTER`].
        #[serde(deserialize_with = "seconds")]
        give_up_after: Duration = limits::GIVE_UP_AFTER, Bounds::above_0("seconds");
    } and {
        /// Where targets come from.
        source: SourceOptions,
        /// Where objects go.
        dest: PathBuf,
        /// The bucket that they go to; none: the destination is a folder.
        upload: Option<UploadDestination>,
        /// Who fetches.
        workers: Workers,
        /// How requests are made.
        http: HttpOptions,
        /// How buckets are reached, as far as the user says.
        s3: S3Options,
        /// What a server calls the parts of its API.
        api: ApiNames,
        /// How pages of JSON are read.
        json: JsonPageOptions,
        /// Which targets are taken, and how a list is read.
        list: ListOptions,
        /// What the listing of a bucket must say of its keys.
        bounds: KeyBounds,
        /// Every target becomes a row, and nothing is stored: a check, or a list that is written out.
        rows: Option<RowsOptions>,
        /// What is made of each reply before it is stored.
        transform: Option<TransformOptions>,
        /// The origin that a list was made from: the user has named it.
        named_origin: Option<OriginKey>,
        /// The pass of a sync that the job fetches for.
        pass: Option<PassOptions>,
        /// How the job was asked for, in the caller's own words: the journal keeps it for `resume`.
        command: Option<String>,
        /// Of the jitter; none: from the clock.
        seed: Option<u64>,
    }
}

impl JobRequest {
    /// With the defaults.
    pub fn new(source: SourceOptions, dest: PathBuf) -> Self {
        JobRequest { source, dest, ..JobRequest::default() }
    }

    /// The source, when it is pages of JSON.
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

    /// Whether targets are URLs that may lead to any origin: those of a list, and of pages of JSON.
    pub(crate) fn leads_anywhere(&self) -> bool {
        match self.source {
            SourceOptions::List(_) | SourceOptions::Iterable => true,
            SourceOptions::Server(_) => self.listing == Listing::Json,
            SourceOptions::S3 { .. } => false,
        }
    }

    /// Whether targets come from who has them, not from a list of somebody else.
    pub(crate) fn lists_itself(&self) -> bool {
        matches!(self.source, SourceOptions::Server(_) | SourceOptions::S3 { .. })
    }

    /// Whether the items of pages are stored themselves.
    pub(crate) fn stores_items(&self) -> bool {
        self.store == Stored::Items
    }

    /// Whether targets are only listed, and not asked for.
    pub(crate) fn lists_only(&self) -> bool {
        self.stores_items() || self.rows.as_ref().is_some_and(|rows| rows.kind == RowKind::Targets)
    }

    /// Whether names of a list end with what their replies are.
    pub(super) fn names_have_extension(&self) -> bool {
        let has_template = self.names.template().is_some_and(NameTemplate::has_extension);
        has_template && !self.lists_itself()
    }

    /// Whether the values of columns go anywhere.
    pub(crate) fn keeps_columns(&self) -> bool {
        match self.format {
            Format::Parquet | Format::Jsonl | Format::Null => true,
            Format::Tar => !self.sidecar.is_empty(),
            Format::Files | Format::Warc => false,
        }
    }

    /// Whether a power cut is survived, or only a kill.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Power
    }

    /// What an engine must know of the sinks: a function sees the body and the facts, also where none is stored, and files
    /// need a time of them, or their type for their names. What is decoded must be kept until then, also by `null`.
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
        let needed = if self.warc_all { StoredParts::Replies } else { needed };
        Properties { keeps: properties.keeps.max(needed), ..properties }
    }

    /// See [`HttpOptions::redirects`]: 5 where targets are URLs of a user, 0 for a server that lists its own objects.
    fn redirects_max(&self, listing: Listing) -> u32 {
        let has_urls = self.leads_anywhere() || listing == Listing::Object;
        self.http.redirects.unwrap_or(if has_urls { REDIRECTS_OF_LIST } else { 0 })
    }

    /// Redirects of a listing's page that are followed one after the other.
    pub(crate) fn redirects_of_pages(&self) -> u32 {
        self.http.redirects.unwrap_or(REDIRECTS_OF_LIST)
    }

    /// What holds for attempts. To a check a refusal is an answer: every attempt counts.
    pub(crate) fn attempt_rules(&self, listing: Listing) -> Rules {
        let is_check = self.rows.is_some();
        Rules {
            attempts_max: self.http.attempts,
            is_patient: !is_check,
            redirects_max: self.redirects_max(listing),
            allow_eof_bodies: self.http.allow_eof_bodies,
            // Of a longer one a check reads the start.
            body_max: if is_check { u64::MAX } else { self.http.max_size },
            has_second_look: self.second_look && is_check,
            // A sync would take it for one that has not changed.
            skips_archived: !is_check && self.pass.is_none(),
            retried: self.http.retry_status,
            accepted: self.http.accept,
            ..Rules::default()
        }
    }

    /// What targets are asked with.
    pub(crate) fn requests(&self) -> Result<JobRequests> {
        JobRequests::new(&self.list.request)
    }

    /// What ends a run before the end of its job.
    pub(crate) fn stop_rules(&self) -> StopRules {
        StopRules {
            max_failed: self.max_failed,
            counts_absent: !self.allow_absent,
            max_duration: self.max_duration,
            max_bytes: self.max_bytes,
            first: self.first,
        }
    }

    /// Whether anybody wants to know how much has come of bodies.
    pub(crate) fn meters_bodies(&self) -> bool {
        self.bwlimit.is_some() || self.max_bytes.is_some()
    }

    /// Where targets may lead: a list that somebody else has made, or pages of JSON, only to public addresses.
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

    /// Returns the origin that gets secrets: the one that the user names, or the only one of the source. That of a bucket
    /// is not known here.
    pub(crate) fn secrets_origin(&self) -> Option<OriginKey> {
        self.http.credentials_for.clone().or_else(|| self.source.only_origin(&self.list))
    }

    /// Whether the robots.txt of each host counts that a target of a list leads to.
    pub(crate) fn obeys_robots_of_hosts(&self) -> bool {
        self.robots == Some(true) && self.leads_anywhere()
    }

    /// Requests in flight of a job over many hosts, where each has a bound of its own: nothing has to be found out.
    /// `concurrency` is what was asked for, or what this machine allows of it.
    pub(crate) fn concurrency_of_hosts(&self, concurrency: Concurrency) -> usize {
        let usual = if self.rows.is_some() { limits::CHECK_CONCURRENCY } else { limits::CONCURRENCY_DEFAULT };
        match concurrency {
            Concurrency::Number(number) => number as usize,
            Concurrency::Auto { most } => usual.min(most) as usize,
        }
    }
}
