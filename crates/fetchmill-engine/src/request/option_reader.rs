//! Reads options from JSON. This module also provides the option tables for the Python binding, which therefore needs
//! no copy of them.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::http_options::HttpOptions;
use super::job_request::JobRequest;
use super::rows_options::RowsOptions;
use super::source_options::{Listing, SourceOptions};
use super::storing_options::{PassOptions, TransformOptions};
use super::stream_options::StreamOptions;
use super::workers::Workers;
use crate::access::s3::S3Options;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::options::{OptionRow, OptionValues, Options, read, take};
use fetchmill_model::origin::{OriginKey, is_open};
use fetchmill_model::row::RowKind;
use fetchmill_model::s3::{KeyBounds, UploadDestination, parse_source};
use fetchmill_model::source::json::JsonPageOptions;
use fetchmill_model::source::list::{ListOptions, RequestOptions};
use fetchmill_model::source::{ApiNames, OriginUrl};
use fetchmill_store::results::{ResultsFormat, TableFormat};

/// Subject of a job, which is passed along with its options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobSubject {
    source: String,
    source_kind: SourceKind,
    dest: PathBuf,
    rows: Option<Rows>,
    transform: Option<TransformOptions>,
    pass: Option<PassOptions>,
    named_origin: Option<String>,
    command: Option<String>,
    /// Whether the program's engine fetches in this process. `processes` is the number of separate processes in which
    /// the engine fetches. If neither is set, the native engine fetches.
    #[serde(default)]
    dispatcher: bool,
    processes: Option<usize>,
}

/// Kind of `source`.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SourceKind {
    Server,
    S3,
    List,
    Iterable,
}

/// Settings of a job that writes rows: a check, or a list that is written out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    #[serde(default)]
    kind: RowKind,
    results: Option<PathBuf>,
    /// Format of the rows. `None` takes it from the extension of the results file.
    format: Option<TableFormat>,
    /// Whether the program receives the rows.
    #[serde(default)]
    is_given: bool,
    /// Whether the program receives the rows as manifest lines.
    #[serde(default)]
    is_manifest: bool,
}

impl Rows {
    fn into_options(self) -> Result<RowsOptions> {
        let Rows { kind, results, format, is_given, is_manifest } = self;
        let format = match &results {
            None => ResultsFormat::default(),
            Some(path) => ResultsFormat::of(&path.to_string_lossy(), format).ok_or_else(|| {
                Error::Usage(format!(
                    "{}: the file name does not give the format of the results; use .parquet, .csv or .jsonl \
                     (the last two also with .gz or .zst), or give --format",
                    path.display()
                ))
            })?,
        };
        Ok(RowsOptions { kind, is_given, is_manifest, results, format })
    }
}

impl JobSubject {
    fn source(&self, listing: Listing) -> Result<SourceOptions> {
        Ok(match self.source_kind {
            SourceKind::Server if listing == Listing::Json => {
                SourceOptions::Server(OriginUrl::parse_page(&self.source)?)
            }
            SourceKind::Server => SourceOptions::Server(OriginUrl::parse(&self.source)?),
            SourceKind::S3 => {
                let (bucket, prefix) = parse_source(&self.source)?;
                SourceOptions::S3 { bucket, prefix }
            }
            SourceKind::List => SourceOptions::List((self.source != "-").then(|| (&self.source).into())),
            SourceKind::Iterable => SourceOptions::Iterable,
        })
    }

    fn workers(&self) -> Workers {
        match (self.processes, self.dispatcher) {
            (Some(count), _) => Workers::Processes(count),
            (None, true) => Workers::Dispatcher,
            (None, false) => Workers::Native,
        }
    }
}

/// Defaults of a check that differ from those of a job. A check fetches from many hosts at a time and makes one attempt
/// per target. It reads only the start of each body, and accepts bodies however they end.
fn check_defaults() -> OptionValues {
    [
        ("format", "null".into()),
        ("concurrency", limits::CHECK_CONCURRENCY.into()),
        ("attempts", 1.into()),
        ("timeout", limits::CHECK_TIMEOUT.as_secs_f64().into()),
        ("max_size", limits::CHECK_BODY_BYTES.into()),
        ("allow_eof_bodies", true.into()),
    ]
    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

impl JobRequest {
    /// Parses a JSON object that contains the options and the subject of the job. Checks each option by itself.
    /// [`JobRequest::check`] checks combinations.
    pub fn from_json(text: &str) -> Result<Self> {
        let mut given: OptionValues = read_text(text)?;
        give_defaults(&mut given);
        let table: JobRequest = take(&mut given)?;
        let http: HttpOptions = take(&mut given)?;
        let (s3, api, json) = (take(&mut given)?, take(&mut given)?, take(&mut given)?);
        let list: ListOptions = take(&mut given)?;
        let request: RequestOptions = take(&mut given)?;
        let bounds = take(&mut given)?;
        let subject: JobSubject = read(Value::Object(given))?;
        let source = subject.source(table.listing)?;
        let workers = subject.workers();
        let upload = UploadDestination::of(&subject.dest)?;
        let rows = subject.rows.map(Rows::into_options).transpose()?;
        let named_origin = subject.named_origin.as_deref().and_then(OriginKey::of_url).map(|(key, _)| key);
        // The name template also affects how a list is read.
        let list = ListOptions { name_template: table.names.template().cloned(), ..list };
        let (http, request) = divide_headers((http, request), (&source, &list), rows.is_some());
        Ok(JobRequest {
            source,
            dest: subject.dest,
            upload,
            workers,
            http,
            s3,
            api,
            json,
            list: ListOptions { request, ..list },
            bounds,
            rows,
            transform: subject.transform,
            named_origin,
            pass: subject.pass,
            command: subject.command,
            ..table
        })
    }
}

/// Adds the defaults that apply only to jobs that write rows.
fn give_defaults(given: &mut OptionValues) {
    let kind = given.get("rows").map(|rows| rows.get("kind").and_then(Value::as_str));
    match kind {
        Some(Some("targets")) => given.extend([("format".to_owned(), "null".into())]),
        Some(_) => {
            for (name, value) in check_defaults() {
                given.entry(name).or_insert(value);
            }
        }
        None => {}
    }
}

/// Separates header fields that differ between targets from fields that are the same for all targets. Sets the origin
/// that receives the differing fields if they might be secret.
fn divide_headers(
    (mut http, mut request): (HttpOptions, RequestOptions),
    (source, list): (&SourceOptions, &ListOptions),
    has_rows: bool,
) -> (HttpOptions, RequestOptions) {
    let is_list = matches!(source, SourceOptions::List(_) | SourceOptions::Iterable);
    // A check or list sends the same fields for all targets, so braces have no special meaning.
    if is_list && !has_rows {
        request.take_row_headers(&mut http.headers, is_open);
    }
    let secrets_origin = http.credentials_for.clone().or_else(|| source.only_origin(list));
    request.headers_for = secrets_origin.map(|key| key.text().to_owned());
    (http, request)
}

impl StreamOptions {
    /// Parses a JSON object that contains the specified options.
    pub fn from_json(text: &str) -> Result<Self> {
        let mut given: OptionValues = read_text(text)?;
        let options = StreamOptions { http: take(&mut given)?, s3: take(&mut given)? };
        match given.keys().next() {
            None => Ok(options),
            Some(name) => Err(Error::Usage(format!("a stream does not have the option {name}"))),
        }
    }
}

fn read_text(text: &str) -> Result<OptionValues> {
    serde_json::from_str(text).map_err(|error| Error::Usage(format!("the options: {error}")))
}

/// Returns the option tables of jobs, checks and streams.
pub fn option_tables() -> [(&'static str, Vec<OptionRow>); 3] {
    let common = [HttpOptions::rows(), S3Options::rows()].concat();
    let own = [
        JobRequest::rows(),
        ApiNames::rows(),
        JsonPageOptions::rows(),
        ListOptions::rows(),
        RequestOptions::rows(),
        KeyBounds::rows(),
    ]
    .concat();
    let job = [own, common.clone()].concat();
    let (mut check, mut stream) = (job.clone(), common);
    let others = check_defaults();
    for row in &mut check {
        if let Some(default) = others.get(row.name) {
            row.default = default.clone();
        }
    }
    for row in &mut stream {
        match row.name {
            "concurrency" => row.bound(StreamOptions::CONCURRENCY),
            "redirects" => row.default = StreamOptions::REDIRECTS.into(),
            _ => {}
        }
    }
    [("job", job), ("check", check), ("stream", stream)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(options: &str) -> Result<JobRequest> {
        JobRequest::from_json(&format!(
            r#"{{"source": "-", "source_kind": "list", "dest": "out", {options}}}"#
        ))
    }

    #[test]
    fn what_no_option_is_called_is_refused() {
        assert!(job(r#""concurrency": 5"#).is_ok());
        let refused = job(r#""limits": 5"#).unwrap_err().to_string();
        assert!(refused.starts_with("unknown field `limits`"), "{refused}");
        assert!(StreamOptions::from_json(r#"{"limits": 5}"#).is_err());
        assert!(StreamOptions::from_json(r#"{"format": "tar"}"#).is_err());
    }

    #[test]
    fn what_is_left_out_has_the_default_of_its_table() {
        for (name, rows) in option_tables() {
            let mut names: Vec<_> = rows.iter().map(|row| row.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), rows.len(), "{name}: this option is in two groups");
        }
        let check = job(r#""rows": {}"#).unwrap();
        assert_eq!(
            (check.http.concurrency.most(), check.http.attempts),
            (limits::CHECK_CONCURRENCY as usize, 1)
        );
        assert_eq!(check.http.timeouts().attempt, Some(limits::CHECK_TIMEOUT));
        assert_eq!(job(r#""rows": {}, "concurrency": 7"#).unwrap().http.concurrency.most(), 7);
        assert_eq!(
            job(r#""rows": {"kind": "targets"}"#).unwrap().http.concurrency.most(),
            limits::AUTO_CONCURRENCY_MAX as usize
        );
    }

    #[test]
    fn a_number_out_of_bounds_is_refused_by_name_bound_and_unit() {
        for (given, message) in [
            (r#""concurrency": 0"#, "--concurrency must be at least 1, not 0"),
            (r#""connect_timeout": 0"#, "--connect-timeout must be above 0 seconds, not 0"),
            (r#""commit_window": 4000"#, "--commit-window must be between 0.001 and 3600 seconds, not 4000"),
            (r#""redirects": 21"#, "--redirects must be between 0 and 20, not 21"),
            (r#""rate": -1"#, "--rate must be above 0 requests a second, not -1"),
        ] {
            assert_eq!(job(given).unwrap().check().unwrap_err().to_string(), message);
        }
    }
}
