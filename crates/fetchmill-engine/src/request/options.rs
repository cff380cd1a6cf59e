//! What a user asks for, and what follows from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::custom_request::JobRequests;
use super::http_options::{Concurrency, HttpOptions};
use super::retry_failed::RetryFailed;
use super::stop_rules::{MaxFailed, StopRules};
use crate::access::s3::{Access, S3Options};
use crate::event_queues::processors;
use fetchmill_model::content_encoding::ACCEPTED_ENCODINGS;
use fetchmill_model::entry::{Naming, behind_scheme};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::extra_columns::{ColumnType, ExtraColumns, TypesByName, column_types};
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::limits;
use fetchmill_model::options::{Bounds, options, seconds, some_seconds, words};
use fetchmill_model::origin::{OriginFields, OriginKey, is_open};
use fetchmill_model::planner::concurrency::ConcurrencyBounds;
use fetchmill_model::planner::hosts::HostRules;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::row::RowKind;
use fetchmill_model::s3::{BucketName, KeyBounds, UploadDestination};
use fetchmill_model::source::json::{JsonPageOptions, JsonPages};
use fetchmill_model::source::list::{ListFormat, ListOptions, NameTemplate};
use fetchmill_model::source::sitemap::is_sitemap;
use fetchmill_model::source::{ApiNames, OriginUrl};
use fetchmill_model::stored_name::StoredNames;
use fetchmill_model::target::Sequence;
use fetchmill_model::verdict::Rules;
use fetchmill_net::{AddressPolicy, PoolSettings};
use fetchmill_store::journal::{
    FOLDERS, INDEX_PAGES, JobLocation, JobRules, SITEMAPS, folder_listing, has_text_columns,
};
use fetchmill_store::pack::{SampleKeys, Sidecars, WarcOrigin};
use fetchmill_store::results::{self, ResultsFormat, refuse_foreign};
use fetchmill_store::sink::{
    Format, HashColumn, Properties, SinkSetup, StoredParts, UnfetchedSetup, Validators,
};

/// Redirects of a list's targets unless `--redirects` says otherwise: what it takes from `http://host` to
/// `https://www.host/path`, and some more.
const REDIRECTS_OF_LIST: u32 = 5;

/// How a server lists its objects.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listing {
    /// As what the server answers tells it; the list/get API until then.
    #[default]
    Auto,
    /// The list/get API.
    Api,
    /// Folders, as nginx's `autoindex_format json` lists them.
    Autoindex,
    /// Folders, as index pages list them.
    Html,
    /// A sitemap, and those that it leads to.
    Sitemap,
    /// Pages of JSON of any API.
    Json,
}

impl Listing {
    /// What stands for it in the identity of a job, when that is a word.
    pub(crate) fn of_folders(self) -> Option<&'static str> {
        match self {
            Listing::Auto | Listing::Api | Listing::Json => None,
            Listing::Autoindex => Some(FOLDERS),
            Listing::Html => Some(INDEX_PAGES),
            Listing::Sitemap => Some(SITEMAPS),
        }
    }
}

/// What objects of a list are called.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NameScheme {
    /// As their source calls them.
    #[default]
    Source,
    /// By their sequence numbers.
    Seq,
    /// By a template.
    Template(NameTemplate),
}

impl NameScheme {
    const SOURCE: &str = "source";
    const SEQ: &str = "seq";

    pub(crate) fn text(&self) -> &str {
        match self {
            NameScheme::Source => Self::SOURCE,
            NameScheme::Seq => Self::SEQ,
            NameScheme::Template(template) => template.text(),
        }
    }

    pub(crate) fn template(&self) -> Option<&NameTemplate> {
        if let NameScheme::Template(template) = self { Some(template) } else { None }
    }
}

impl TryFrom<String> for NameScheme {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.as_str() {
            Self::SOURCE => Ok(NameScheme::Source),
            Self::SEQ => Ok(NameScheme::Seq),
            template => NameTemplate::parse(template).map(NameScheme::Template),
        }
    }
}

impl From<NameScheme> for String {
    fn from(names: NameScheme) -> Self {
        names.text().to_owned()
    }
}

/// What a commit survives.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A power cut.
    #[default]
    Power,
    /// The death of the process.
    Process,
}

/// Of which hash of each body rows have a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashAlgorithm {
    /// The column is [`HashColumn::NAME`].
    Sha256,
}

words!(Listing, NameScheme, Durability, HashAlgorithm);

/// Where targets come from.
#[derive(Debug, Default, Clone)]
pub enum SourceOptions {
    /// A server that lists its objects itself, at this place.
    Server(OriginUrl),
    /// A bucket of S3 or a compatible store.
    S3 {
        /// Which bucket.
        bucket: BucketName,
        /// What its keys begin with, as it is written behind the bucket.
        prefix: String,
    },
    /// A list of URLs in a file; none: on standard input.
    List(Option<PathBuf>),
    /// URLs that a program gives one after the other; the job is given their [`Items`](fetchmill_model::source::list::Items).
    #[default]
    Iterable,
}

/// Who fetches.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Threads of this crate, with its own transport.
    #[default]
    Native,
    /// An engine of the program in this process: it takes [`crate::Job::take_dispatcher`].
    Dispatcher,
    /// So many processes of the program's engine ([`crate::join_job`], [`crate::Job::attach`]).
    Processes(usize),
}

impl RowsOptions {
    /// As it stands in the journal: another file is another check.
    pub(crate) fn text(&self) -> String {
        match &self.results {
            Some(path) => format!("{} ({})", file_name(path), self.format.text()),
            None => "none".to_owned(),
        }
    }
}

impl SourceOptions {
    /// As it stands in reports and in the journal.
    pub fn text(&self) -> String {
        match self {
            SourceOptions::Server(url) => url.text(),
            SourceOptions::S3 { bucket, prefix } => format!("s3://{}/{prefix}", bucket.text()),
            SourceOptions::List(Some(path)) => file_name(path),
            SourceOptions::List(None) => "standard input".to_owned(),
            SourceOptions::Iterable => "an iterable".to_owned(),
        }
    }
}

/// What a check, or a list that is written out, does with its rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsOptions {
    /// What they are about.
    pub kind: RowKind,
    /// Whether they are given to the program that starts the job ([`crate::Job::take_rows`]), and not kept.
    pub is_given: bool,
    /// The file that they go into; none: they are only counted.
    pub results: Option<PathBuf>,
    /// How it is written.
    pub format: ResultsFormat,
}

/// A function that is given the fetched replies before they are stored. It runs in processes: one for each worker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformOptions {
    /// The command of such a process, which speaks over its standard input (`engine::transform`).
    pub command: Vec<String>,
    /// What it is sent first: it tells the process what the function is.
    pub setup: Vec<u8>,
}

/// What a job that fetches for a pass of a sync must know of the destination, which gets its shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassOptions {
    /// Its sequence numbers go on from here.
    pub first_sequence: Sequence,
    /// Whether the rows there have URLs.
    pub has_url: bool,
}

options! {
    /// Everything about a job.
    pub struct JobOptions {
        /// How objects are stored.
        format: Format = Format::Files;
        /// Bytes of a shard; none: what the format takes.
        shard_size: Option<u64> = None, Bounds::at_least(1.0, "bytes");
        /// See [`limits::SEAL_AFTER`].
        #[serde(deserialize_with = "seconds")]
        seal_after: Duration = limits::SEAL_AFTER, Bounds::above_0("seconds");
        /// How the source is listed.
        listing: Listing = Listing::Auto;
        /// Whether a server's robots.txt is heeded where its index pages are walked.
        robots: bool = true;
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
        /// Whether replies may be encoded, and are stored decoded.
        compressed: bool = false;
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
        /// What objects have besides the standard columns: of a list, their URLs and what `--keep-columns` names.
        columns: ExtraColumns,
        /// Those of the job, which may have begun with an older release.
        rules: JobRules,
        /// Who fetches.
        workers: Workers,
        /// How requests are made.
        http: HttpOptions,
        /// How buckets are reached.
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
        /// Of the jitter; none: from the clock.
        seed: Option<u64>,
    }
}

impl JobOptions {
    /// With the defaults.
    pub fn new(source: SourceOptions, dest: PathBuf) -> Self {
        JobOptions { source, dest, ..JobOptions::default() }
    }

    /// Fills in what the environment and the profile say of stores.
    pub(crate) fn resolve_s3(&mut self) -> Result<()> {
        self.s3.resolve()?;
        if matches!(self.source, SourceOptions::Server(_)) && self.upload.is_none() {
            // It has nothing to do with a store.
            self.s3.ca_bundle = None;
        }
        Ok(())
    }

    /// The source, when it is pages of JSON.
    pub(crate) fn json_pages(&self) -> Option<Result<JsonPages>> {
        match &self.source {
            SourceOptions::Server(url) if self.listing == Listing::Json => {
                Some(JsonPages::new(url, &self.json, &self.api))
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

    /// Whether the values of columns go anywhere.
    pub(crate) fn keeps_columns(&self) -> bool {
        match self.format {
            Format::Parquet | Format::Jsonl | Format::Null => true,
            Format::Tar => !self.sidecar.is_empty(),
            Format::Files | Format::Warc => false,
        }
    }

    /// What stands beside objects.
    pub(crate) fn sidecars(&self) -> Result<Sidecars> {
        let keys = if self.rules == JobRules::FIRST { SampleKeys::FirstDot } else { SampleKeys::OwnKey };
        let sidecars = Sidecars::parse(&self.sidecar, &self.columns, self.naming() == Naming::Url)?;
        Ok(sidecars.with_keys(keys))
    }

    /// The columns that objects are stored with, so that they are read again.
    pub(crate) fn stored_columns(&self) -> ExtraColumns {
        let has_all = self.format == Format::Tar && self.sidecar.iter().any(|text| text == Sidecars::JSON);
        let columns = if has_all { self.columns.clone() } else { self.format.columns(&self.columns) };
        columns.with_encodings(self.format == Format::Parquet && self.rules.have_encodings())
    }

    /// Settles what objects have besides the standard columns: what is kept of a list, what the transform may fill, the
    /// hash, what became of targets. Of pages of JSON URLs alone are kept.
    pub(crate) fn settle_columns(&mut self, kept: Option<Vec<(String, ColumnType)>>) -> Result<()> {
        let has_url = self.pass.is_none_or(|pass| pass.has_url);
        let mut types = TypesByName::new();
        if let Some(kept) = kept.or_else(|| self.leads_anywhere().then(Vec::new)).filter(|_| has_url) {
            self.columns = ExtraColumns::of_list(kept.iter().map(|(name, _)| name.clone()))?;
            types.extend(kept);
        }
        if self.transform.is_some() {
            self.columns = std::mem::take(&mut self.columns).with_transformed(&self.transform_columns)?;
        }
        types.extend(self.told_types()?);
        self.columns = std::mem::take(&mut self.columns).with_types(&types);
        if self.hash.is_some() {
            if !matches!(self.format, Format::Parquet | Format::Jsonl) {
                return Err(Error::Usage("--hash needs --format parquet or jsonl".into()));
            }
            self.columns = std::mem::take(&mut self.columns).with_hash(HashColumn::NAME)?;
        }
        if self.all_rows {
            self.columns = std::mem::take(&mut self.columns).with_outcomes()?;
        }
        Ok(())
    }

    /// What `--column-types` says, of columns that there are.
    fn told_types(&self) -> Result<TypesByName> {
        let told = column_types(&self.list.column_types)?;
        match told.keys().find(|name| !self.columns.kept().contains(name)) {
            Some(name) => Err(Error::Usage(format!(
                "--column-types: no column {name} is kept; name it in --keep-columns or --transform-columns, too"
            ))),
            None => Ok(told),
        }
    }

    /// A job that has begun goes on with the rules that it began with.
    pub(crate) fn settle_rules(&mut self) -> Result<()> {
        match JobLocation::find(&self.dest, self.state.as_deref()) {
            Ok(place) => {
                self.rules = JobRules::of(&place)?;
                self.list.has_first_rules = self.rules == JobRules::FIRST;
            }
            // There is no job yet, or the destination is refused later, with what to do.
            Err(Error::Usage(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A job that began when all values were text goes on with text.
    pub(crate) fn settle_types(&mut self, place: &JobLocation) -> Result<()> {
        if self.columns.types_to_text().is_some()
            && self.list.column_types.is_empty()
            && has_text_columns(place)?
        {
            self.columns = std::mem::take(&mut self.columns).with_types(&TypesByName::new());
        }
        Ok(())
    }

    /// The types of some of its columns.
    pub(crate) fn types_of(&self, names: &[String]) -> Vec<ColumnType> {
        let types: BTreeMap<_, _> = self.columns.typed().collect();
        names.iter().map(|name| types.get(name.as_str()).copied().unwrap_or_default()).collect()
    }

    /// The columns of a list with the types that the job has.
    pub(crate) fn kept_of_list(&self, kept: &[(String, ColumnType)]) -> Vec<(String, ColumnType)> {
        let of_job = self.columns.typed().take(kept.len());
        of_job.map(|(name, kind)| (name.to_owned(), kind)).collect()
    }

    /// Decides how a server lists where that need not be asked: options of the API say it, the name of a sitemap, and
    /// the journal of a job that walks folders. A job goes on as it began, whatever its server has become.
    pub(crate) fn settle_listing(&mut self, place: &JobLocation) -> Result<()> {
        if !self.is_listing_unknown() {
            return Ok(());
        }
        if self.api != ApiNames::default() {
            self.listing = Listing::Api;
            return Ok(());
        }
        if let SourceOptions::Server(url) = &self.source
            && is_sitemap(url)
        {
            self.listing = Listing::Sitemap;
            return Ok(());
        }
        let known = folder_listing(place)?;
        let kinds = [Listing::Autoindex, Listing::Html, Listing::Sitemap];
        let found = kinds.into_iter().find(|kind| known.is_some() && kind.of_folders() == known.as_deref());
        self.listing = found.unwrap_or(self.listing);
        Ok(())
    }

    /// Whether it must be found out how the server lists.
    pub(crate) fn is_listing_unknown(&self) -> bool {
        matches!(self.source, SourceOptions::Server(_)) && self.listing == Listing::Auto
    }

    /// Whether a power cut is survived, or only a kill.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Power
    }

    /// What an engine must know of the sinks: a function sees the body and the facts, also where none is stored, and files
    /// need a time of them, or their type for their names. What is decoded must be kept until then, also by `null`.
    pub(crate) fn properties(&self) -> Properties {
        let properties = self.format.properties();
        let files_need_facts = self.server_times || self.naming() == Naming::Extension;
        let needed = if self.transform.is_some()
            || self.pass.is_some()
            || self.format == Format::Files && files_need_facts
        {
            StoredParts::Facts
        } else if self.compressed {
            StoredParts::Bodies
        } else {
            StoredParts::Outcomes
        };
        let needed = if self.warc_all { StoredParts::Replies } else { needed };
        Properties { keeps: properties.keeps.max(needed), ..properties }
    }

    /// Whether targets are only listed, and not asked for.
    pub(crate) fn lists_only(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.kind == RowKind::Targets)
    }

    /// Whether targets come from who has them, not from a list of somebody else.
    pub(crate) fn lists_itself(&self) -> bool {
        matches!(self.source, SourceOptions::Server(_) | SourceOptions::S3 { .. })
    }

    /// See [`HttpOptions::redirects`]: 5 where targets are URLs, 0 for a server that lists its own objects.
    pub(crate) fn redirects_max(&self) -> u32 {
        let default = if self.leads_anywhere() { REDIRECTS_OF_LIST } else { 0 };
        self.http.redirects.unwrap_or(default)
    }

    /// What holds for attempts. To a check a refusal is an answer: every attempt counts.
    pub(crate) fn rules(&self) -> Rules {
        let is_check = self.rows.is_some();
        Rules {
            attempts_max: self.http.attempts,
            is_patient: !is_check,
            redirects_max: self.redirects_max(),
            allow_eof_bodies: self.http.allow_eof_bodies,
            // Of a longer one a check reads the start.
            body_max: if is_check { u64::MAX } else { self.http.max_size },
            has_second_look: self.second_look && is_check,
            ..Rules::default()
        }
    }

    /// What targets are asked with.
    pub(crate) fn requests(&self) -> Result<JobRequests> {
        JobRequests::new(&self.list.request)
    }

    /// The origin that gets what may be a secret.
    pub(crate) fn fields_origin(&self) -> Option<OriginKey> {
        self.http.credentials_for.clone().or_else(|| self.server_key())
    }

    /// A list is read with the template of its names.
    pub(crate) fn settle_names(&mut self) {
        self.list.name_template = self.names.template().cloned();
    }

    /// Which header fields are made for each target, and where they may go.
    pub(crate) fn divide_headers(&mut self) {
        let is_list = matches!(self.source, SourceOptions::List(_) | SourceOptions::Iterable);
        // A check, or a list, makes the same of all: there braces are braces.
        if is_list && self.rows.is_none() {
            self.list.request.take_row_headers(&mut self.http.headers, is_open);
        }
        self.list.request.headers_for = self.fields_origin().map(|key| key.text().to_owned());
    }

    /// What ends a run before the end of its job.
    pub(crate) fn stop_rules(&self) -> StopRules {
        StopRules {
            max_failed: self.max_failed,
            counts_absent: !self.allow_absent,
            max_duration: self.max_duration,
            max_bytes: self.max_bytes,
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

    /// Workers that have a sink each.
    pub(crate) fn worker_count(&self) -> usize {
        match self.workers {
            _ if self.lists_only() => 1,
            Workers::Native => self.threads.unwrap_or(1).min(self.concurrency_of_hosts()),
            Workers::Dispatcher => 1,
            Workers::Processes(count) => count.max(1),
        }
    }

    /// Requests in flight of a job over many hosts, where each has a bound of its own: nothing has to be found out.
    pub(crate) fn concurrency_of_hosts(&self) -> usize {
        let usual = if self.rows.is_some() { limits::CHECK_CONCURRENCY } else { limits::CONCURRENCY_DEFAULT };
        match self.http.concurrency {
            Concurrency::Number(number) => number as usize,
            Concurrency::Auto { most } => usual.min(most) as usize,
        }
    }

    /// Within what the number is looked for that a job with one origin needs; none: it was given.
    pub(crate) fn concurrency_bounds(&self, workers: usize) -> Option<ConcurrencyBounds> {
        let Concurrency::Auto { most } = self.http.concurrency else { return None };
        let most = most as usize;
        if matches!(self.workers, Workers::Processes(_)) && most <= workers {
            // Each process makes one request at a time: it begins with one for each processor.
            return Some(ConcurrencyBounds { first: processors(), least: 1, most });
        }
        Some(ConcurrencyBounds { first: limits::AUTO_CONCURRENCY_FIRST as usize, least: workers, most })
    }

    /// What holds for each host of a job over many.
    pub(crate) fn host_rules(&self, workers: usize) -> HostRules {
        let rate = self.http.rate_per_host.unwrap_or(limits::HOST_RATE);
        HostRules {
            connections: self.limit_per_host.unwrap_or(limits::HOST_CONNECTIONS),
            rate: (rate > 0.0).then_some(rate),
            probes: self.http.attempts - 1,
            dead_for: limits::HOST_DEAD_FOR.as_millis() as Millis,
            held_max: limits::HOSTS_HELD_MAX / workers,
            places: self.concurrency_of_hosts() / workers,
        }
    }

    /// What all connections have in common.
    pub(crate) fn pool_settings(&self, store: &Arc<Access>) -> Result<PoolSettings> {
        let threads = self.threads.unwrap_or(1);
        // The user has named it, so that it may be on a private address, whatever its pages lead to.
        let lists_urls = self.leads_anywhere() && self.lists_itself();
        let named = self.named_origin.clone().or_else(|| self.server_key().filter(|_| lists_urls));
        let named = named.filter(|_| !self.http.public_only);
        let settings = self.http.pool_settings(store, self.fields()?, (self.reach(), named), threads);
        Ok(match self.rows {
            // What is not read of a body in a check may be as long as it likes.
            Some(_) => PoolSettings { max_body: u64::MAX, times_phases: true, ..settings },
            None => settings,
        })
    }

    /// What requests say, and to whom.
    pub(crate) fn fields(&self) -> Result<OriginFields> {
        self.http.fields(self.server_key())
    }

    /// Who gets the tokens of `--bearer-command`: whoever gets secrets.
    pub(crate) fn token_origin(&self) -> Option<OriginKey> {
        self.bearer_command.as_ref()?;
        self.http.credentials_for.clone().or_else(|| self.server_key())
    }

    /// The origin of a server that lists its objects, or that all URLs of a list have.
    pub(crate) fn server_key(&self) -> Option<OriginKey> {
        match &self.source {
            SourceOptions::Server(url) => OriginKey::of_url(&url.text()).map(|(key, _)| key),
            SourceOptions::S3 { bucket, .. } => self.s3.place(bucket).ok().map(|place| place.key),
            // The template says that no target leads elsewhere.
            SourceOptions::List(_) | SourceOptions::Iterable => {
                let origin = self.list.fixed_origin()?;
                OriginKey::of_url(&format!("{origin}/")).map(|(key, _)| key)
            }
        }
    }

    /// How targets are named.
    pub fn naming(&self) -> Naming {
        match (&self.source, self.format) {
            (SourceOptions::Server(_), _) => match self.listing {
                Listing::Auto | Listing::Api => Naming::Whole,
                Listing::Autoindex | Listing::Html => Naming::Sized,
                Listing::Sitemap | Listing::Json if self.format == Format::Files => Naming::Path,
                Listing::Sitemap | Listing::Json => Naming::Url,
            },
            (SourceOptions::S3 { .. }, _) => Naming::Listed,
            _ if self.names == NameScheme::Seq => Naming::Number,
            _ if self.names.template().is_some_and(NameTemplate::has_extension) => Naming::Extension,
            (_, Format::Files) => Naming::Path,
            _ => Naming::Url,
        }
    }

    /// How names become those that objects are stored under.
    pub fn stored_names(&self) -> StoredNames {
        let prefix = self.strip_prefix.as_deref().map(|prefix| {
            let slash = if prefix.ends_with('/') { "" } else { "/" };
            let prefix = format!("{prefix}{slash}").into_bytes();
            // A prefix with a scheme means the same in all formats.
            let is_path = self.naming() == Naming::Path;
            Arc::from(if is_path { behind_scheme(&prefix) } else { &prefix })
        });
        StoredNames { has_extension: self.naming() == Naming::Extension, strip_prefix: prefix }
    }

    /// The same of requests for objects.
    pub(crate) fn object_fields(&self) -> Result<OriginFields> {
        let fields = self.fields()?;
        Ok(if self.compressed { fields.accepting(ACCEPTED_ENCODINGS) } else { fields })
    }

    /// The only origin of a job whose server lists its objects, and how its pages are asked for there.
    pub(crate) fn server(&self) -> Result<Option<(OriginKey, RequestTemplate)>> {
        self.server_with(&self.fields()?)
    }

    /// The same, as a target is asked for there.
    pub(crate) fn object_server(&self) -> Result<Option<(OriginKey, RequestTemplate)>> {
        self.server_with(&self.object_fields()?)
    }

    fn server_with(&self, fields: &OriginFields) -> Result<Option<(OriginKey, RequestTemplate)>> {
        let (key, prefix, behind) = match &self.source {
            SourceOptions::Server(url) => {
                let (before, behind) = match self.listing {
                    Listing::Auto | Listing::Api => self.api.around_name()?,
                    Listing::Autoindex | Listing::Html | Listing::Sitemap | Listing::Json => ("/", ""),
                };
                let Some((key, _)) = OriginKey::of_url(&url.text()) else {
                    return Err(Error::Internal(format!("{} has no origin", url.text())));
                };
                (key, format!("{}{before}", url.path()), behind)
            }
            SourceOptions::S3 { bucket, .. } => {
                let place = self.s3.place(bucket)?;
                (place.key, place.prefix, "")
            }
            SourceOptions::List(_) | SourceOptions::Iterable => return Ok(None),
        };
        let fields = fields.of(&key);
        let template = match self.http.proxy_of(&key).filter(|_| !key.is_tls()) {
            None => RequestTemplate::new(key.authority(), &prefix, behind, &fields)?,
            Some(proxy) => {
                let authorization = proxy.authorization.as_deref();
                RequestTemplate::for_proxy(key.authority(), &prefix, behind, &fields, authorization)?
            }
        };
        Ok(Some((key, template)))
    }

    /// How WARC tells where objects came from.
    fn warc_origin(&self) -> Result<WarcOrigin> {
        match self.server()?.filter(|_| !self.naming().has_url()) {
            Some((key, template)) => {
                Ok(WarcOrigin { template, uri_start: key.text().to_owned(), names_are_urls: false })
            }
            None => WarcOrigin::of_list(&self.fields()?.open()),
        }
    }

    /// What the sinks of so many workers have in common.
    pub(crate) fn sink_setup(&self, place: &JobLocation, workers: usize) -> Result<SinkSetup> {
        Ok(SinkSetup {
            format: self.format,
            dest: place.dest.clone(),
            manifests: place.manifests_path(),
            is_durable: self.is_durable(),
            shard_bytes: self.shard_size.unwrap_or_else(|| self.format.shard_bytes()),
            seal_after: self.seal_after,
            server_times: self.server_times,
            workers,
            columns: self.stored_columns(),
            sidecars: self.sidecars()?,
            is_hashed: self.hash.is_some(),
            validators: match self.pass {
                Some(_) => Validators::InManifests,
                None => Validators::InRecords,
            },
            unfetched: UnfetchedSetup {
                // What a pass of a sync could not fetch is told by the sync.
                tells_failures: self.pass.is_none(),
                keeps_replies: self.warc_all,
                is_indexed: self.cdxj,
            },
            origin: Some(self.warc_origin()?),
            upload_queue: None,
        })
    }

    /// Where the job lives.
    pub(crate) fn prepare_place(&self) -> Result<JobLocation> {
        let state = self.state.as_deref();
        if let Some(upload) = &self.upload {
            return JobLocation::prepare_bucket(upload, state);
        }
        match &self.rows {
            Some(rows) => {
                if let Some(results) = &rows.results {
                    refuse_foreign(results, JobLocation::has_journal(results, state))?;
                }
                JobLocation::prepare_file(&self.dest, state)
            }
            None => JobLocation::prepare(&self.dest, state),
        }
    }

    /// Where the rows go, when that is a file.
    pub(crate) fn results(&self) -> Option<results::ResultsTarget<'_>> {
        let rows = self.rows.as_ref()?;
        Some(results::ResultsTarget {
            path: rows.results.as_deref()?,
            rows: rows.kind,
            format: rows.format,
            kept: &self.columns,
            is_durable: self.is_durable(),
        })
    }
}

/// A list is known by its file's name and what is in it: it may be moved with its job.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
