//! What a user asks for, checked in one place.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::desk::HostGate;
use super::s3::{Access, S3Options, SignedOrigins};
use crate::entry::Naming;
use crate::error::{Error, Result};
use crate::http1::RequestTemplate;
use crate::journal::{CHECK, DESTINATION, Identity, KEYS, LIST, Place, TRANSFORM, transform_text};
use crate::kept::{COLUMNS_PART, Columns};
use crate::limits;
use crate::origin::{OriginFields, OriginKey};
use crate::pack::WarcOrigin;
use crate::planner::hosts::HostRules;
use crate::planner::origin::Millis;
use crate::results::{self, ResultsFormat, refuse_foreign};
use crate::row::RowKind;
use crate::s3::{BucketName, KeyBounds, Upload};
use crate::sink::{Format, Keeps, Properties, SinkSetup};
use crate::source::list::{ListFormat, ListOptions};
use crate::source::{ApiNames, OriginUrl};
use crate::transport::{
    NameSetup, Paces, PoolSettings, Proxy, ProxySetup, Reach, Timeouts, TlsOptions, TlsSetup,
};

/// Redirects of a list's targets unless `--redirects` says otherwise: what it takes from `http://host` to
/// `https://www.host/path`, and some more.
const REDIRECTS_OF_LIST: u32 = 5;

/// How a server lists its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// The list/get API.
    Api(ApiNames),
    /// Folders, as nginx's `autoindex_format json` lists them.
    Autoindex,
}

/// Where targets come from.
#[derive(Debug, Clone)]
pub enum SourceOptions {
    /// A server that lists its objects itself.
    Server {
        /// Its place.
        url: OriginUrl,
        /// How it lists.
        listing: Listing,
    },
    /// A bucket of S3 or a compatible store.
    S3 {
        /// Which bucket.
        bucket: BucketName,
        /// What its keys begin with, as it is written behind the bucket.
        prefix: String,
        /// What the listing must say of them.
        bounds: KeyBounds,
    },
    /// A list of URLs in a file, or on standard input.
    List {
        /// The file; none: standard input.
        path: Option<PathBuf>,
        /// What it is; none: as its name says.
        format: Option<ListFormat>,
        /// How it is read.
        options: ListOptions,
    },
    /// URLs that a program gives one after the other; the job is given their [`Items`](crate::source::list::Items).
    Iterable {
        /// How its items become targets.
        options: ListOptions,
    },
}

/// Who fetches.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Threads of this crate, with its own transport.
    #[default]
    Native,
    /// An engine of the program in this process: it takes [`super::Job::take_desk`].
    Desk,
    /// So many processes of the program's engine ([`super::join_job`], [`super::Job::attach`]).
    Processes(usize),
}

impl RowsOptions {
    /// As it stands in the journal: another file is another check.
    fn text(&self) -> String {
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
            SourceOptions::Server { url, .. } => url.text(),
            SourceOptions::S3 { bucket, prefix, .. } => format!("s3://{}/{prefix}", bucket.text()),
            SourceOptions::List { path: Some(path), .. } => file_name(path),
            SourceOptions::List { path: None, .. } => "standard input".to_owned(),
            SourceOptions::Iterable { .. } => "an iterable".to_owned(),
        }
    }
}

/// What a check, or a list that is written out, does with its rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsOptions {
    /// What they are about.
    pub kind: RowKind,
    /// Whether they are given to the program that starts the job ([`super::Job::take_rows`]), and not kept.
    pub is_given: bool,
    /// The file that they go into; none: they are only counted.
    pub results: Option<PathBuf>,
    /// How it is written.
    pub format: ResultsFormat,
    /// Whether what failed for a reason that may pass is looked at once more at the end.
    pub second_look: bool,
}

/// A function that is given the fetched replies before they are stored. It runs in processes: one for each worker.
#[derive(Debug, Clone)]
pub struct TransformOptions {
    /// The command of such a process, which speaks over its standard input (`engine::transform`).
    pub command: Vec<OsString>,
    /// What it is sent first: it tells the process what the function is.
    pub setup: Vec<u8>,
    /// Columns that the function may fill.
    pub columns: Vec<String>,
    /// Replies that the function is given at once.
    pub batch: usize,
}

/// Everything about a job. Times have bounds of their own; `None` takes the default of `limits`.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct JobOptions {
    /// Where targets come from.
    pub source: SourceOptions,
    /// Where objects go.
    pub dest: PathBuf,
    /// The bucket that they go to; none: the destination is a folder.
    pub upload: Option<Upload>,
    /// Where the journal is, when not in the destination.
    pub state: Option<PathBuf>,
    /// How objects are stored.
    pub format: Format,
    /// Bytes of a shard; none: what the format takes.
    pub shard_size: Option<u64>,
    /// See [`limits::SEAL_AFTER`].
    pub seal_after: Duration,
    /// What objects have besides the standard columns: of a list, their URLs and what `--keep-columns` names.
    pub columns: Columns,
    /// Requests in flight.
    pub limit: u32,
    /// Who fetches.
    pub workers: Workers,
    /// Threads that fetch; none: one for each processor of the affinity mask.
    pub threads: Option<usize>,
    /// Time of a commit window.
    pub commit_window: Duration,
    /// Whether a power cut is survived, or only a kill.
    pub is_durable: bool,
    /// Attempts at a target.
    pub attempts: u32,
    /// See [`Timeouts`].
    pub timeouts: Timeouts,
    /// Bytes of a body.
    pub max_size: u64,
    /// Bodies without a length are taken as they come.
    pub allow_eof_bodies: bool,
    /// See [`limits::GIVE_UP_AFTER`].
    pub give_up_after: Duration,
    /// Whether a job whose files would not fit is stopped before they fill the file system.
    pub preflight: bool,
    /// Only targets of a server that match one of these are fetched; a list has its own.
    pub include: Vec<String>,
    /// Targets of a server that match are left out.
    pub exclude: Vec<String>,
    /// Whether objects of a list are stored under their numbers.
    pub names_by_number: bool,
    /// Redirects that are followed one after the other; none: 5 for a list, 0 for a server that lists.
    pub redirects: Option<u32>,
    /// What is added to requests, and to whose.
    pub headers: Vec<(String, String)>,
    /// The origin that gets the headers which may be secrets; none: the source's own.
    pub credentials_for: Option<OriginKey>,
    /// Whom to believe in TLS.
    pub tls: TlsOptions,
    /// What stands between this machine and the origins.
    pub proxy: Option<Proxy>,
    /// Hosts that are reached without it.
    pub no_proxy: Vec<String>,
    /// Requests a second, of the whole job.
    pub rate: Option<f64>,
    /// Requests a second, to each host.
    pub rate_per_host: Option<f64>,
    /// Requests in flight to one host; none: what the engine takes, 0: as many as there are.
    pub limit_per_host: Option<u32>,
    /// Name servers to ask; none: those of the system's configuration.
    pub resolvers: Vec<SocketAddr>,
    /// Whether names are looked up as all programs of this machine do, instead of by asking name servers.
    pub system_resolver: bool,
    /// Whether targets of a list may lead to addresses that are not public.
    pub allow_private: bool,
    /// Whether no target may lead to an address that is not public.
    pub public_only: bool,
    /// How buckets are reached.
    pub s3: S3Options,
    /// Every target becomes a row, and nothing is stored: a check, or a list that is written out.
    pub rows: Option<RowsOptions>,
    /// What is made of each reply before it is stored.
    pub transform: Option<TransformOptions>,
    /// A second pass over what failed or was absent.
    pub retry_failed: bool,
    /// Of the jitter; none: from the clock.
    pub seed: Option<u64>,
    /// See [`crate::sink::FilesSink::settle_before_rename`]: tests only.
    pub settle_before_rename: Option<Duration>,
}

impl JobOptions {
    /// With the defaults.
    pub fn new(source: SourceOptions, dest: PathBuf) -> Self {
        JobOptions {
            source,
            dest,
            upload: None,
            state: None,
            format: Format::Files,
            shard_size: None,
            seal_after: limits::SEAL_AFTER,
            columns: Columns::default(),
            limit: limits::LIMIT_DEFAULT,
            workers: Workers::Native,
            threads: None,
            commit_window: limits::COMMIT_WINDOW,
            is_durable: true,
            attempts: limits::ATTEMPTS_MAX,
            timeouts: Timeouts::default(),
            max_size: limits::BODY_BYTES_MAX,
            allow_eof_bodies: false,
            give_up_after: limits::GIVE_UP_AFTER,
            preflight: true,
            include: Vec::new(),
            exclude: Vec::new(),
            names_by_number: false,
            redirects: None,
            headers: Vec::new(),
            credentials_for: None,
            tls: TlsOptions { http2: true, ..TlsOptions::default() },
            proxy: None,
            no_proxy: Vec::new(),
            rate: None,
            rate_per_host: None,
            limit_per_host: None,
            resolvers: Vec::new(),
            system_resolver: false,
            allow_private: false,
            public_only: false,
            s3: S3Options::default(),
            rows: None,
            transform: None,
            retry_failed: false,
            seed: None,
            settle_before_rename: None,
        }
    }

    /// A check of a list, with its defaults: many hosts at once, one attempt, the start of each body, any end of it.
    pub fn of_check(source: SourceOptions, dest: PathBuf, rows: RowsOptions) -> Self {
        JobOptions {
            format: Format::Null,
            limit: limits::CHECK_LIMIT,
            attempts: 1,
            max_size: limits::CHECK_BODY_BYTES,
            allow_eof_bodies: true,
            rows: Some(rows),
            ..JobOptions::new(source, dest)
        }
    }

    /// A list that is written out, with its defaults: nobody is asked but who lists.
    pub fn of_list(source: SourceOptions, dest: PathBuf, rows: RowsOptions) -> Self {
        JobOptions { format: Format::Null, rows: Some(rows), ..JobOptions::new(source, dest) }
    }

    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        if self.limit == 0 {
            return refuse("--limit must be at least 1");
        }
        self.check_transform()?;
        if !self.columns.kept().is_empty()
            && !matches!(self.format, Format::Parquet | Format::Jsonl | Format::Null)
        {
            return refuse("--keep-columns needs --format parquet or jsonl");
        }
        self.check_rows()?;
        self.check_upload()?;
        self.check_workers()?;
        if self.threads == Some(0) {
            return refuse("--threads must be at least 1");
        }
        if self.attempts == 0 {
            return refuse("--attempts must be at least 1");
        }
        if self.commit_window < Duration::from_millis(1) || self.commit_window > Duration::from_secs(3600) {
            return refuse("--commit-window must be between 0.001 and 3600 seconds");
        }
        if self.shard_size == Some(0) {
            return refuse("--shard-size must be at least 1 byte");
        }
        if self.seal_after.is_zero() {
            return refuse("--seal-after must be above 0 seconds");
        }
        if self.max_size == 0 {
            return refuse("--max-size must be at least 1 byte");
        }
        let Timeouts { connect, head, idle, total, attempt } = self.timeouts;
        if [connect, head, idle, total].iter().chain(&attempt).any(Duration::is_zero) {
            return refuse("a timeout must be above 0 seconds");
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return refuse("--rate must be above 0 requests a second");
        }
        if self.rate_per_host.is_some_and(|rate| !rate.is_finite() || rate < 0.0) {
            return refuse("--rate-per-host must be at least 0 requests a second");
        }
        if self.system_resolver && !self.resolvers.is_empty() {
            return refuse("--resolver is either addresses or system");
        }
        if self.allow_private && self.public_only {
            return refuse("allow_private and public_only contradict each other");
        }
        if self.redirects_max() > limits::REDIRECTS_MAX {
            return refuse("--redirects must be at most 20");
        }
        self.fields()?;
        match &self.source {
            SourceOptions::Server { listing: Listing::Api(names), .. }
                if !names.list_path.starts_with('/') =>
            {
                refuse("--list-path must start with /")
            }
            SourceOptions::Server { listing: Listing::Api(names), .. } => names.around_name().map(drop),
            _ => Ok(()),
        }
    }

    /// What a transform needs.
    fn check_transform(&self) -> Result<()> {
        let Some(transform) = &self.transform else { return Ok(()) };
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        let has_columns = matches!(self.format, Format::Parquet | Format::Jsonl | Format::Null);
        if !transform.columns.is_empty() && !has_columns {
            return refuse("--transform-columns needs --format parquet or jsonl");
        }
        if transform.batch == 0 {
            return refuse("--transform-batch must be at least 1");
        }
        if transform.command.is_empty() {
            return refuse("a transform needs the command of its processes");
        }
        Ok(())
    }

    /// Adds what the transform may fill to what is kept of the list.
    pub(super) fn add_transformed_columns(&mut self) -> Result<()> {
        if let Some(transform) = &self.transform {
            self.columns = std::mem::take(&mut self.columns).with_transformed(&transform.columns)?;
        }
        Ok(())
    }

    /// What an engine must know of the sinks: a function sees the body and the facts, also where none is stored.
    pub(super) fn properties(&self) -> Properties {
        let properties = self.format.properties();
        match self.transform {
            Some(_) => Properties { keeps: Keeps::Facts, ..properties },
            None => properties,
        }
    }

    /// What a job of rows cannot do.
    fn check_rows(&self) -> Result<()> {
        let Some(rows) = &self.rows else { return Ok(()) };
        if self.format != Format::Null || self.retry_failed || self.transform.is_some() {
            return Err(Error::Usage("a check, or a list, stores nothing and has no second pass".into()));
        }
        if rows.kind == RowKind::Answers && self.lists_itself() {
            let url = self.source.text();
            return Err(Error::Usage(format!(
                "{url} is no list: give a file with URLs, or - for standard input"
            )));
        }
        let is_own = |name: &&String| rows.kind.columns().iter().any(|(own, _)| own == name);
        match self.columns.kept().iter().find(is_own) {
            Some(name) => Err(Error::Usage(format!(
                "--keep-columns: results have a column {name:?} of their own; rename that of the list, or leave it out"
            ))),
            None => Ok(()),
        }
    }

    /// Whether targets are only listed, and not asked for.
    pub(super) fn lists_only(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.kind == RowKind::Targets)
    }

    /// Whether targets come from who has them, not from a list of somebody else.
    pub(super) fn lists_itself(&self) -> bool {
        matches!(self.source, SourceOptions::Server { .. } | SourceOptions::S3 { .. })
    }

    /// See [`RowsOptions::second_look`].
    pub(super) fn has_second_look(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.second_look)
    }

    /// See [`JobOptions::redirects`].
    pub(super) fn redirects_max(&self) -> u32 {
        let default = if self.lists_itself() { 0 } else { REDIRECTS_OF_LIST };
        self.redirects.unwrap_or(default)
    }

    /// Where targets may lead: a list that somebody else has made only to public addresses.
    pub(super) fn reach(&self) -> Reach {
        let is_trusted = match self.source {
            SourceOptions::List { .. } => self.allow_private,
            SourceOptions::Server { .. } | SourceOptions::S3 { .. } | SourceOptions::Iterable { .. } => {
                !self.public_only
            }
        };
        if is_trusted { Reach::Anywhere } else { Reach::PublicOnly }
    }

    /// Workers that have a sink each.
    pub(super) fn worker_count(&self) -> usize {
        match self.workers {
            _ if self.lists_only() => 1,
            Workers::Native => self.threads.unwrap_or(1).min(self.limit as usize),
            Workers::Desk => 1,
            Workers::Processes(count) => count.max(1),
        }
    }

    /// What holds for each host of a job over many.
    pub(super) fn host_rules(&self, workers: usize) -> HostRules {
        let rate = self.rate_per_host.unwrap_or(limits::HOST_RATE);
        HostRules {
            connections: self.limit_per_host.unwrap_or(limits::HOST_CONNECTIONS),
            rate: (rate > 0.0).then_some(rate),
            probes: self.attempts - 1,
            dead_for: limits::HOST_DEAD_FOR.as_millis() as Millis,
            held_max: limits::HOSTS_HELD_MAX / workers,
        }
    }

    /// For one of so many desks.
    pub(super) fn host_gate(&self, desks: usize) -> HostGate {
        let many = self.host_rules(desks);
        let only = HostRules {
            connections: self.limit_per_host.unwrap_or(0),
            rate: self.rate_per_host.filter(|rate| *rate > 0.0),
            ..many
        };
        HostGate::new(many, only, desks)
    }

    /// What cannot go into a bucket.
    fn check_upload(&self) -> Result<()> {
        let Some(upload) = &self.upload else { return Ok(()) };
        let refuse = |message: String| Err(Error::Usage(message));
        if self.format.extension().is_none() {
            return refuse(format!(
                "{} is a bucket: it takes shards, so choose --format parquet, tar, warc or jsonl",
                upload.text()
            ));
        }
        if matches!(self.workers, Workers::Processes(_)) {
            return refuse("engines with processes cannot write into a bucket; use --engine native".into());
        }
        if self.shard_size.is_some_and(|bytes| bytes > limits::UPLOAD_SHARD_BYTES_MAX) {
            return refuse("--shard-size must be at most 64 GiB for a bucket".into());
        }
        Ok(())
    }

    /// What an engine of the program cannot do.
    fn check_workers(&self) -> Result<()> {
        if self.workers == Workers::Native {
            return Ok(());
        }
        if self.rows.is_some() || self.format == Format::Warc {
            return Err(Error::Usage("checks and --format warc need --engine native".into()));
        }
        Ok(())
    }

    /// The proxy, and whom it is for.
    pub(super) fn proxy_setup(&self) -> Option<ProxySetup> {
        self.proxy.clone().map(|proxy| ProxySetup { proxy, without: self.no_proxy.clone() })
    }

    /// What all connections have in common.
    pub(super) fn pool_settings(&self, store: &Arc<Access>) -> Result<PoolSettings> {
        Ok(PoolSettings {
            tls: Arc::new(TlsSetup::new(self.tls.clone())),
            names: NameSetup::new(self.system_resolver, &self.resolvers, self.threads.unwrap_or(1)),
            idle_max: 0,
            proxy: self.proxy_setup().map(Arc::new),
            timeouts: self.timeouts,
            // What is not read of a body in a check may be as long as it likes.
            max_body: if self.rows.is_some() { u64::MAX } else { self.max_size },
            connections: 0,
            fields: self.fields()?,
            authority: Some(Arc::new(SignedOrigins(Arc::clone(store)))),
            paces: self.rate_per_host.filter(|rate| *rate > 0.0).map(Paces::new).map(Arc::new),
            reach: self.reach(),
            times_phases: self.rows.is_some(),
        })
    }

    /// What requests say, and to whom.
    pub(super) fn fields(&self) -> Result<OriginFields> {
        OriginFields::new(self.credentials_for.clone().or_else(|| self.server_key()), self.headers.clone())
    }

    /// The origin of a server that lists its objects.
    pub(super) fn server_key(&self) -> Option<OriginKey> {
        match &self.source {
            SourceOptions::Server { url, .. } => OriginKey::of_url(&url.text()).map(|(key, _)| key),
            SourceOptions::S3 { bucket, .. } => self.s3.place(bucket).ok().map(|place| place.key),
            SourceOptions::List { .. } | SourceOptions::Iterable { .. } => None,
        }
    }

    /// How targets are named.
    pub fn naming(&self) -> Naming {
        match (&self.source, self.format) {
            (SourceOptions::Server { .. }, _) => Naming::Whole,
            (SourceOptions::S3 { .. }, _) => Naming::Listed,
            _ if self.names_by_number => Naming::Number,
            (_, Format::Files) => Naming::Path,
            _ => Naming::Url,
        }
    }

    /// The only origin of a job whose server lists its objects, and how a target is asked for there.
    pub(super) fn server(&self) -> Result<Option<(OriginKey, RequestTemplate)>> {
        let (key, prefix, behind) = match &self.source {
            SourceOptions::Server { url, listing } => {
                let (before, behind) = match listing {
                    Listing::Api(names) => names.around_name()?,
                    Listing::Autoindex => ("/", ""),
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
            SourceOptions::List { .. } | SourceOptions::Iterable { .. } => return Ok(None),
        };
        let fields = self.fields()?;
        let fields = fields.of(&key);
        let setup = self.proxy_setup().filter(|setup| setup.is_for(key.host()) && !key.is_tls());
        let template = match setup {
            None => RequestTemplate::new(key.authority(), &prefix, behind, &fields)?,
            Some(setup) => {
                let authorization = setup.proxy.authorization.as_deref();
                RequestTemplate::for_proxy(key.authority(), &prefix, behind, &fields, authorization)?
            }
        };
        Ok(Some((key, template)))
    }

    /// How WARC tells where objects came from.
    fn warc_origin(&self) -> Result<WarcOrigin> {
        match self.server()? {
            Some((key, template)) => {
                Ok(WarcOrigin { template, uri_start: key.text().to_owned(), names_are_urls: false })
            }
            None => WarcOrigin::of_list(&self.fields()?.open()),
        }
    }

    /// What the sinks of so many workers have in common.
    pub(super) fn sink_setup(&self, place: &Place, workers: usize) -> Result<SinkSetup> {
        Ok(SinkSetup {
            format: self.format,
            dest: place.dest.clone(),
            manifests: place.manifests_path(),
            is_durable: self.is_durable,
            shard_bytes: self.shard_size.unwrap_or_else(|| self.format.shard_bytes()),
            seal_after: self.seal_after,
            workers,
            columns: self.format.columns(&self.columns),
            origin: Some(self.warc_origin()?),
            settle_before_rename: self.settle_before_rename,
            depot: None,
        })
    }

    /// Where the job lives.
    pub(super) fn prepare_place(&self) -> Result<Place> {
        let state = self.state.as_deref();
        if let Some(upload) = &self.upload {
            return Place::prepare_bucket(upload, state);
        }
        match &self.rows {
            Some(rows) => {
                if let Some(results) = &rows.results {
                    refuse_foreign(results, Place::has_journal(results, state))?;
                }
                Place::prepare_file(&self.dest, state)
            }
            None => Place::prepare(&self.dest, state),
        }
    }

    /// Where the rows go, when that is a file.
    pub(super) fn results(&self) -> Option<results::Target<'_>> {
        let rows = self.rows.as_ref()?;
        Some(results::Target {
            path: rows.results.as_deref()?,
            rows: rows.kind,
            format: rows.format,
            kept: self.columns.kept(),
            is_durable: self.is_durable,
        })
    }

    /// What makes another run the same job.
    pub fn identity(&self) -> Identity {
        let (listing, names) = match &self.source {
            SourceOptions::Server { listing: Listing::Api(names), .. } => (
                format!(
                    "api {} {} {} {} {}",
                    names.list_path,
                    names.names_field,
                    names.marker_field,
                    names.marker_param,
                    names.get_path
                ),
                None,
            ),
            SourceOptions::Server { listing: Listing::Autoindex, .. } => ("autoindex".to_owned(), None),
            SourceOptions::S3 { .. } => (KEYS.to_owned(), None),
            SourceOptions::List { options, .. } | SourceOptions::Iterable { options } => {
                (format!("list {}", options.text()), self.names_by_number.then(|| "seq".to_owned()))
            }
        };
        let format = match self.rows.as_ref().map(|rows| rows.kind) {
            Some(RowKind::Answers) => CHECK,
            Some(RowKind::Targets) => LIST,
            None => self.format.name(),
        };
        let parts = [("source", self.source.text()), ("listing", listing), ("format", format.to_owned())];
        let kept =
            if self.rows.is_some() { self.columns.clone() } else { self.format.columns(&self.columns) };
        let columns = kept.to_text();
        let columns = columns.map(|columns| (COLUMNS_PART, columns));
        let is_filtered = !self.include.is_empty() || !self.exclude.is_empty();
        let filters = (is_filtered && self.lists_itself())
            .then(|| ("filters", format!("include {:?} exclude {:?}", self.include, self.exclude)));
        let (endpoint, bounds) = match &self.source {
            SourceOptions::S3 { bounds, .. } => (self.s3.endpoint.url.as_ref(), bounds.text()),
            _ => (None, None),
        };
        Identity::new(
            parts
                .into_iter()
                .chain(filters)
                .chain(endpoint.map(|url| ("endpoint", url.text())))
                .chain(bounds.map(|bounds| ("bounds", bounds)))
                .chain(names.map(|names| ("names", names)))
                .chain(columns)
                .chain(self.upload.as_ref().map(|upload| (DESTINATION, upload.text())))
                .chain(self.rows.as_ref().map(|rows| ("results", rows.text())))
                .chain(
                    self.transform.as_ref().map(|transform| (TRANSFORM, transform_text(&transform.columns))),
                ),
        )
    }
}

/// A list is known by its file's name and what is in it: it may be moved with its job.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
