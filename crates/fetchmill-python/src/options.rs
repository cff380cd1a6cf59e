//! The options of a job, from JSON to the core's.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fetchmill_core::engine::{
    JobOptions, Listing, RowsOptions, S3Options, SourceOptions, TransformOptions, Workers,
};
use fetchmill_core::origin::OriginKey;
use fetchmill_core::results::{ResultsFormat, Table};
use fetchmill_core::row::RowKind;
use fetchmill_core::s3::{Addressing, Endpoint, KeyBounds, Upload, parse_source};
use fetchmill_core::sink::Format;
use fetchmill_core::source::list::{ListFormat, ListOptions};
use fetchmill_core::source::{ApiNames, OriginUrl};
use fetchmill_core::transport::Proxy;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::errors;

/// The options of `fetchmill.GetOptions`; what is missing has the core's default.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    source: String,
    source_kind: SourceKind,
    dest: PathBuf,
    format: Option<String>,
    list_format: Option<String>,
    column: Option<String>,
    template: Option<String>,
    csv_header: Option<String>,
    key_column: Option<String>,
    #[serde(default)]
    keep_columns: Vec<String>,
    names: Option<String>,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    sample: Option<u64>,
    /// Whether a function of the program makes something of what is no URL.
    any_text: Option<bool>,
    /// Who fetches: an engine in this process, or so many processes of one; the native one if neither is given.
    desk: Option<bool>,
    processes: Option<usize>,
    rate: Option<f64>,
    rate_per_host: Option<f64>,
    limit_per_host: Option<u32>,
    endpoint_url: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    no_sign_request: Option<bool>,
    addressing_style: Option<String>,
    size_from: Option<u64>,
    size_to: Option<u64>,
    /// Seconds since 1970 UTC.
    modified_from: Option<u64>,
    modified_to: Option<u64>,
    #[serde(default)]
    resolver: Vec<String>,
    allow_private: Option<bool>,
    public_only: Option<bool>,
    rows: Option<Rows>,
    transform: Option<Transform>,
    redirects: Option<u32>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    credentials_for: Option<String>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    insecure_host: Vec<String>,
    http2: Option<bool>,
    proxy: Option<String>,
    #[serde(default)]
    no_proxy: Vec<String>,
    listing: Option<String>,
    list_path: Option<String>,
    names_field: Option<String>,
    marker_field: Option<String>,
    total_field: Option<String>,
    marker_param: Option<String>,
    get_path: Option<String>,
    shard_size: Option<u64>,
    seal_after: Option<f64>,
    limit: Option<u32>,
    threads: Option<usize>,
    commit_window: Option<f64>,
    durability: Option<String>,
    state: Option<PathBuf>,
    preflight: Option<bool>,
    retry_failed: Option<bool>,
    attempts: Option<u32>,
    connect_timeout: Option<f64>,
    head_timeout: Option<f64>,
    idle_timeout: Option<f64>,
    total_timeout: Option<f64>,
    /// Of a check: for an attempt from the start of its connection.
    attempt_timeout: Option<f64>,
    max_size: Option<u64>,
    allow_eof_bodies: Option<bool>,
    give_up_after: Option<f64>,
}

/// What makes a job a check, or a list that is written out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    #[serde(default)]
    kind: Kind,
    results: Option<PathBuf>,
    format: Option<String>,
    #[serde(default)]
    second_look: bool,
    /// Whether the program takes the rows.
    #[serde(default)]
    is_given: bool,
}

/// What rows are about.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Answers,
    Targets,
}

impl Rows {
    fn into_core(self) -> PyResult<RowsOptions> {
        let table = match self.format.as_deref() {
            None => None,
            Some(name) => Some(Table::from_name(name).ok_or_else(|| {
                errors::usage(&format!("format must be parquet, csv or jsonl, not {name}"))
            })?),
        };
        let format = match &self.results {
            None => ResultsFormat::default(),
            Some(path) => ResultsFormat::of(&path.to_string_lossy(), table).ok_or_else(|| {
                errors::usage(&format!(
                    "the end of {} does not say how results are written: .parquet, .csv or .jsonl, the last two also \
                     with .gz or .zst; or say it with --format",
                    path.display()
                ))
            })?,
        };
        let kind = match self.kind {
            Kind::Answers => RowKind::Answers,
            Kind::Targets => RowKind::Targets,
        };
        let Rows { results, second_look, is_given, .. } = self;
        Ok(RowsOptions { kind, is_given, results, format, second_look })
    }
}

/// What makes of each reply what is stored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transform {
    command: Vec<String>,
    setup: Vec<u8>,
    columns: Vec<String>,
    batch: usize,
}

impl Transform {
    fn into_core(self) -> TransformOptions {
        let Transform { command, setup, columns, batch } = self;
        let command = command.into_iter().map(OsString::from).collect();
        TransformOptions { command, setup, columns, batch }
    }
}

/// What `source` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SourceKind {
    Server,
    S3,
    List,
    Iterable,
}

/// Only for the tests of the crash tests; see `FilesSink::settle_before_rename`.
const BREAK_ORDER: &str = "FETCHMILL_TEST_SETTLE_BEFORE_RENAME_MS";

/// Replaces a default by what was given.
pub(crate) fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// The same for a time.
pub(crate) fn set_seconds(place: &mut Duration, seconds: Option<f64>) -> PyResult<()> {
    if let Some(seconds) = seconds {
        *place = Duration::try_from_secs_f64(seconds)
            .map_err(|_| errors::usage(&format!("{seconds} is no number of seconds")))?;
    }
    Ok(())
}

impl Options {
    pub(crate) fn parse(json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map_err(|error| errors::usage(&format!("the options: {error}")))
    }

    fn source(&self) -> PyResult<SourceOptions> {
        Ok(match self.source_kind {
            SourceKind::Server => {
                let url = OriginUrl::parse(&self.source).map_err(|error| errors::of(&error))?;
                SourceOptions::Server { url, listing: self.listing()? }
            }
            SourceKind::S3 => self.bucket().map_err(|error| errors::of(&error))?,
            SourceKind::List => SourceOptions::List {
                path: (self.source != "-").then(|| PathBuf::from(&self.source)),
                format: self.list_format()?,
                options: self.list_options()?,
            },
            SourceKind::Iterable => SourceOptions::Iterable { options: self.list_options()? },
        })
    }

    fn bucket(&self) -> fetchmill_core::error::Result<SourceOptions> {
        let (bucket, prefix) = parse_source(&self.source)?;
        let bounds = KeyBounds {
            size_from: self.size_from,
            size_to: self.size_to,
            modified_from: self.modified_from,
            modified_to: self.modified_to,
        };
        Ok(SourceOptions::S3 { bucket, prefix, bounds })
    }

    fn list_format(&self) -> PyResult<Option<ListFormat>> {
        let Some(name) = self.list_format.as_deref() else { return Ok(None) };
        let unknown = || errors::usage(&format!("list_format must be one that --help lists, not {name}"));
        ListFormat::from_name(name).map(Some).ok_or_else(unknown)
    }

    fn list_options(&self) -> PyResult<ListOptions> {
        let header = match self.csv_header.as_deref() {
            None | Some("auto") => None,
            Some("yes") => Some(true),
            Some("no") => Some(false),
            Some(other) => {
                return Err(errors::usage(&format!("csv_header must be auto, yes or no, not {other}")));
            }
        };
        Ok(ListOptions {
            column: self.column.clone(),
            template: self.template.clone(),
            header,
            key_column: self.key_column.clone(),
            keep_columns: self.keep_columns.clone(),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            sample: self.sample,
            any_text: self.any_text.unwrap_or_default(),
        })
    }

    fn listing(&self) -> PyResult<Listing> {
        match self.listing.as_deref() {
            None | Some("api") => {
                let mut names = ApiNames::default();
                set(&mut names.list_path, self.list_path.clone());
                set(&mut names.names_field, self.names_field.clone());
                set(&mut names.marker_field, self.marker_field.clone());
                set(&mut names.total_field, self.total_field.clone());
                set(&mut names.marker_param, self.marker_param.clone());
                set(&mut names.get_path, self.get_path.clone());
                Ok(Listing::Api(names))
            }
            Some("autoindex") => Ok(Listing::Autoindex),
            Some(other) => Err(errors::usage(&format!("listing must be api or autoindex, not {other}"))),
        }
    }

    pub(crate) fn into_core(self) -> PyResult<JobOptions> {
        let source = self.source()?;
        let mut options = match self.rows {
            None => JobOptions::new(source, self.dest),
            Some(rows) => match rows.into_core()? {
                rows if rows.kind == RowKind::Targets => JobOptions::of_list(source, self.dest, rows),
                rows => JobOptions::of_check(source, self.dest, rows),
            },
        };
        options.upload = Upload::of(&options.dest).map_err(|error| errors::of(&error))?;
        options.transform = self.transform.map(Transform::into_core);
        (options.system_resolver, options.resolvers) = resolvers(&self.resolver)?;
        options.limit_per_host = self.limit_per_host;
        options.s3 = s3_options(
            self.endpoint_url.as_deref(),
            (self.region, self.profile),
            self.no_sign_request,
            self.addressing_style.as_deref(),
        )?;
        set(&mut options.allow_private, self.allow_private);
        set(&mut options.public_only, self.public_only);
        options.include = self.include;
        options.exclude = self.exclude;
        options.names_by_number = match self.names.as_deref() {
            None | Some("source") => false,
            Some("seq") => true,
            Some(other) => return Err(errors::usage(&format!("names must be source or seq, not {other}"))),
        };
        options.rate = self.rate;
        options.rate_per_host = self.rate_per_host;
        options.redirects = self.redirects;
        options.headers = self.headers;
        options.credentials_for = self.credentials_for.as_deref().map(origin_key).transpose()?;
        options.tls.ca_file = self.ca_file;
        options.tls.insecure_hosts = self.insecure_host;
        set(&mut options.tls.http2, self.http2);
        options.proxy =
            self.proxy.as_deref().map(Proxy::parse).transpose().map_err(|error| errors::of(&error))?;
        options.no_proxy = self.no_proxy;
        if let Some(name) = self.format.as_deref() {
            options.format = Format::from_name(name)
                .ok_or_else(|| errors::usage(&format!("format must be one that --help lists, not {name}")))?;
        }
        options.shard_size = self.shard_size;
        set_seconds(&mut options.seal_after, self.seal_after)?;
        options.is_durable = match self.durability.as_deref() {
            None | Some("power") => true,
            Some("process") => false,
            Some(other) => {
                return Err(errors::usage(&format!("durability must be power or process, not {other}")));
            }
        };
        options.state = self.state;
        options.workers = match (self.processes, self.desk) {
            (Some(count), _) => Workers::Processes(count),
            (None, Some(true)) => Workers::Desk,
            _ => Workers::Native,
        };
        options.threads = self.threads;
        set(&mut options.limit, self.limit);
        set(&mut options.attempts, self.attempts);
        set(&mut options.max_size, self.max_size);
        set(&mut options.preflight, self.preflight);
        set(&mut options.retry_failed, self.retry_failed);
        set(&mut options.allow_eof_bodies, self.allow_eof_bodies);
        set_seconds(&mut options.commit_window, self.commit_window)?;
        set_seconds(&mut options.give_up_after, self.give_up_after)?;
        set_seconds(&mut options.timeouts.connect, self.connect_timeout)?;
        set_seconds(&mut options.timeouts.head, self.head_timeout)?;
        set_seconds(&mut options.timeouts.idle, self.idle_timeout)?;
        set_seconds(&mut options.timeouts.total, self.total_timeout)?;
        if self.attempt_timeout.is_some() {
            set_seconds(options.timeouts.attempt.get_or_insert_default(), self.attempt_timeout)?;
        }
        options.settle_before_rename =
            std::env::var(BREAK_ORDER).ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
        Ok(options)
    }
}

/// How stores of S3 are reached.
pub(crate) fn s3_options(
    endpoint_url: Option<&str>,
    (region, profile): (Option<String>, Option<String>),
    no_sign_request: Option<bool>,
    addressing_style: Option<&str>,
) -> PyResult<S3Options> {
    let url = endpoint_url.map(OriginUrl::parse).transpose().map_err(|error| errors::of(&error))?;
    let style = addressing_style.unwrap_or("auto");
    let addressing = Addressing::from_name(style).ok_or_else(|| {
        errors::usage(&format!("addressing_style must be auto, path or virtual, not {style}"))
    })?;
    let endpoint = Endpoint { url, addressing };
    Ok(S3Options { endpoint, region, profile, no_sign_request: no_sign_request.unwrap_or_default() })
}

/// The port of DNS.
const DNS_PORT: u16 = 53;

/// Whether the system's look-up is meant, and the name servers: `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT`.
pub(crate) fn resolvers(texts: &[String]) -> PyResult<(bool, Vec<SocketAddr>)> {
    if texts == ["system"] {
        return Ok((true, Vec::new()));
    }
    let address = |text: &String| {
        let with_port = || text.parse::<SocketAddr>();
        let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT));
        address.or_else(|_| with_port()).map_err(|_| {
            errors::usage(&format!(
                "resolver must be the address of a name server, ADDRESS[:PORT], or only `system`, not {text}"
            ))
        })
    };
    Ok((false, texts.iter().map(address).collect::<PyResult<_>>()?))
}

/// The origin that a user names; a path behind it is a mistake.
fn origin_key(text: &str) -> PyResult<OriginKey> {
    let url = OriginUrl::parse(text).map_err(|error| errors::of(&error))?;
    match OriginKey::of_url(&url.text()) {
        Some((key, "")) => Ok(key),
        _ => {
            Err(errors::usage(&format!("credentials_for must be an origin, https://HOST[:PORT], not {text}")))
        }
    }
}
