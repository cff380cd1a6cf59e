//! What a user asks for, checked in one place.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::http1::RequestTemplate;
use crate::journal::{Identity, Place};
use crate::limits;
use crate::pack::WarcOrigin;
use crate::sink::{Format, SinkSetup};
use crate::source::{ApiNames, OriginUrl};
use crate::transport::Timeouts;

/// How a server lists its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// The list/get API.
    Api(ApiNames),
    /// Folders, as nginx's `autoindex_format json` lists them.
    Autoindex,
}

/// Everything about a job. Times have bounds of their own; `None` takes the default of `limits`.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct JobOptions {
    /// Where targets come from.
    pub source: OriginUrl,
    /// Where objects go.
    pub dest: PathBuf,
    /// Where the journal is, when not in the destination.
    pub state: Option<PathBuf>,
    /// How the server lists.
    pub listing: Listing,
    /// How objects are stored.
    pub format: Format,
    /// Bytes of a shard; none: what the format takes.
    pub shard_size: Option<u64>,
    /// See [`limits::SEAL_AFTER`].
    pub seal_after: Duration,
    /// Requests in flight.
    pub limit: u32,
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
    /// A second pass over what failed or was absent.
    pub retry_failed: bool,
    /// Of the jitter; none: from the clock.
    pub seed: Option<u64>,
    /// See [`crate::sink::FilesSink::settle_before_rename`]: tests only.
    pub settle_before_rename: Option<Duration>,
}

impl JobOptions {
    /// With the defaults.
    pub fn new(source: OriginUrl, dest: PathBuf) -> Self {
        JobOptions {
            source,
            dest,
            state: None,
            listing: Listing::Api(ApiNames::default()),
            format: Format::Files,
            shard_size: None,
            seal_after: limits::SEAL_AFTER,
            limit: limits::LIMIT_DEFAULT,
            threads: None,
            commit_window: limits::COMMIT_WINDOW,
            is_durable: true,
            attempts: limits::ATTEMPTS_MAX,
            timeouts: Timeouts::default(),
            max_size: limits::BODY_BYTES_MAX,
            allow_eof_bodies: false,
            give_up_after: limits::GIVE_UP_AFTER,
            preflight: true,
            retry_failed: false,
            seed: None,
            settle_before_rename: None,
        }
    }

    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        if self.limit == 0 {
            return refuse("--limit must be at least 1");
        }
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
        let Timeouts { connect, head, idle, total } = self.timeouts;
        if [connect, head, idle, total].iter().any(Duration::is_zero) {
            return refuse("a timeout must be above 0 seconds");
        }
        match &self.listing {
            Listing::Api(names) if !names.list_path.starts_with('/') => {
                refuse("--list-path must start with /")
            }
            Listing::Api(names) => names.around_name().map(drop),
            Listing::Autoindex => Ok(()),
        }
    }

    /// How a target is asked for.
    pub(super) fn template(&self) -> Result<RequestTemplate> {
        let source = &self.source;
        let (before, behind) = match &self.listing {
            Listing::Api(names) => names.around_name()?,
            Listing::Autoindex => ("/", ""),
        };
        RequestTemplate::new(&source.authority(), &format!("{}{before}", source.path()), behind, &[])
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
            origin: Some(WarcOrigin {
                template: self.template()?,
                uri_start: format!("http://{}", self.source.authority()),
            }),
            settle_before_rename: self.settle_before_rename,
        })
    }

    /// What makes another run the same job.
    pub fn identity(&self) -> Identity {
        let listing = match &self.listing {
            Listing::Api(names) => format!(
                "api {} {} {} {} {}",
                names.list_path, names.names_field, names.marker_field, names.marker_param, names.get_path
            ),
            Listing::Autoindex => "autoindex".to_owned(),
        };
        Identity::new([
            ("source", self.source.text()),
            ("listing", listing),
            ("format", self.format.name().to_owned()),
        ])
    }
}
