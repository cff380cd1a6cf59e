//! Options of a server as JSON, and their validation.
//!
//! An unknown field is an error. Otherwise, a test could pass because a misspelt fault never happens.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::error::Error;
use crate::hash;
use crate::synthetic::SYNTHETIC_COUNT_MAX;

const THREADS_MAX: usize = 256;
const PAGE_SIZE_MAX: usize = 1_000_000;
const SYNTHETIC_SIZE_MAX: usize = 1 << 40;
/// Maximum number of seconds, which is one day. A larger number must be a mistake.
const SECONDS_MAX: f64 = 86_400.0;

/// All options. Every field except `content` has a default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Content to serve. `Server::start_with` ignores it.
    pub content: Option<ContentOptions>,
    /// Address or host name to listen on. Default: 127.0.0.1.
    pub host: String,
    /// Port to listen on. 0 (the default) picks any free port.
    pub port: u16,
    /// Number of threads that serve. Default: 1.
    pub threads: usize,
    /// Number of names per page. Default: 1000.
    pub page_size: usize,
    /// Shortest and longest random delay of each `/get`, in seconds.
    pub delay: Option<[f64; 2]>,
    /// Whether to draw `delay` in whole seconds. If so, both ends of the range are possible.
    pub delay_steps: bool,
    /// Share of `/get` requests that wait for `slow_delay` instead of `delay`, from 0 to 1.
    pub slow_rate: f64,
    /// Shortest and longest delay of these requests, in seconds. Default: 2.
    pub slow_delay: [f64; 2],
    /// Shortest and longest random delay of each `/list`, in seconds.
    pub list_delay: Option<[f64; 2]>,
    /// Whether to serve HTTPS, with a certificate for `localhost` and the loopback addresses.
    pub tls: bool,
    /// Certificate to use for HTTPS instead of a generated one, for a name that points to this server.
    pub certificate: Option<CertificateFiles>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Scripted faults. The first rule that matches a request applies.
    pub faults: Vec<Rule>,
    /// Whether to serve files and folders whose names start with a dot. Default: no. A job's state is never served.
    pub hidden: bool,
    /// Host names that a server on loopback accepts in addition to this machine's own. `*` accepts all.
    pub allow_hosts: Vec<String>,
    /// Maximum number of seconds for a client to send its next request, or to read some bytes of a reply. Default: 60.
    pub client_timeout: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            content: None,
            host: "127.0.0.1".to_owned(),
            port: 0,
            threads: 1,
            page_size: 1000,
            delay: None,
            delay_steps: false,
            slow_rate: 0.0,
            slow_delay: [2.0, 2.0],
            list_delay: None,
            tls: false,
            certificate: None,
            seed: 0,
            faults: Vec::new(),
            hidden: false,
            allow_hosts: Vec::new(),
            client_timeout: 60.0,
        }
    }
}

/// Content to serve.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum ContentOptions {
    /// The files below a folder.
    Folder(PathBuf),
    /// Computed objects.
    Synthetic {
        /// Number of objects.
        count: u64,
        /// Size of each object in bytes.
        size: usize,
    },
}

/// PEM files with a certificate and its key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The server's certificate, followed by the chain to its authority.
    pub chain: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
}

/// A scripted fault: its action, and the requests that it affects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Action.
    pub action: ActionName,
    /// Share of affected names, from 0 to 1. Each name is affected either always or never. For `stray`, the share of
    /// affected connections.
    #[serde(default = "one")]
    pub rate: f64,
    /// Maximum number of hits per name, starting with the first request. For `stray`, the maximum number of
    /// connections.
    pub times: Option<u32>,
    /// A name, or a prefix followed by `*`. For `/list`, it is compared with the marker, which is empty for the first
    /// page.
    #[serde(rename = "match")]
    pub pattern: Option<String>,
    /// Requests that the rule applies to. Default: `get`, unless the action makes sense only for `list`.
    pub on: Option<RuleScope>,
    /// For `status`: the status to send.
    pub status: Option<u16>,
    /// For `status`: `Retry-After` in seconds, or a range for it.
    pub retry_after: Option<RetryAfter>,
    /// For `status`: affects only requests above this rate per second, regardless of their names.
    pub above: Option<f64>,
    /// For `reset`, `truncate`, `stall` and `trickle`: number of bytes of the reply to send first, including its head.
    pub after_bytes: Option<u64>,
    /// For `wrong-length`: difference between the announced and the actual length.
    pub delta: Option<i64>,
    /// For `stall`, `trickle` and `unsolicited`: seconds. For `stray`: maximum delay in seconds. Default: 0.05.
    pub seconds: Option<f64>,
    /// For `stray`: the stray reply follows one of the first `requests` replies on its connection. Default: 100.
    pub requests: Option<u32>,
    /// For `repeat-marker`: number of pages in the cycle.
    pub period: Option<u32>,
}

const fn one() -> f64 {
    1.0
}

/// Action of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionName {
    /// Answers with a different status.
    Status,
    /// Resets the connection, before or within the reply.
    Reset,
    /// Announces the whole body, and closes the connection in the middle of the body.
    Truncate,
    /// Announces a length that differs from the length of the body.
    WrongLength,
    /// Stops sending, and closes the connection later.
    Stall,
    /// Sends byte by byte.
    Trickle,
    /// Makes the listing repeat in a cycle.
    RepeatMarker,
    /// Sends an unsolicited second reply.
    Unsolicited,
    /// Announces that the connection closes after the reply, and closes it.
    Close,
    /// Sends the body in chunks.
    Chunked,
    /// Sends no length, and closes the connection at the end of the body.
    Eof,
    /// Sends an unsolicited reply some time after a real one, while the connection continues.
    Stray,
}

/// Requests that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// `/get`.
    Get,
    /// `/list`.
    List,
    /// Both.
    Any,
}

/// Seconds for `Retry-After`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "retry_after must be seconds or [min, max]")]
pub enum RetryAfter {
    /// Always the same number.
    Seconds(u64),
    /// A random integer in this range.
    Range([u64; 2]),
}

impl Options {
    /// Checks those values that no other module checks.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return refuse(format!("threads must be 1 to {THREADS_MAX}, not {}", self.threads));
        }
        if !(1..=PAGE_SIZE_MAX).contains(&self.page_size) {
            return refuse(format!("page_size must be 1 to {PAGE_SIZE_MAX}, not {}", self.page_size));
        }
        if let Some(ContentOptions::Synthetic { count, size }) = self.content {
            if count > SYNTHETIC_COUNT_MAX {
                return refuse(format!("synthetic.count must be at most {SYNTHETIC_COUNT_MAX}, not {count}"));
            }
            if size > SYNTHETIC_SIZE_MAX {
                return refuse(format!("synthetic.size must be at most {SYNTHETIC_SIZE_MAX}, not {size}"));
            }
        }
        if !(0.0..=1.0).contains(&self.slow_rate) {
            return refuse(format!("slow_rate must be 0 to 1, not {}", self.slow_rate));
        }
        Ok(())
    }
}

/// Returns the time limit for clients.
pub(crate) fn client_timeout(given: f64) -> Result<Duration, Error> {
    match seconds("client_timeout", given)? {
        Duration::ZERO => refuse("client_timeout must be more than 0 seconds".to_owned()),
        time => Ok(time),
    }
}

/// Returns an option error.
pub(crate) fn refuse<T>(message: String) -> Result<T, Error> {
    Err(Error::Option(message))
}

/// Converts seconds to a duration. Fails if the number is unreasonable.
pub(crate) fn seconds(what: &str, seconds: f64) -> Result<Duration, Error> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        refuse(format!("{what} must be 0 to {SECONDS_MAX} seconds, not {seconds}"))
    }
}

/// A random delay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delay {
    min: Duration,
    /// Difference between the longest and the shortest delay.
    span: Duration,
    steps: bool,
}

impl Delay {
    pub(crate) fn new(what: &str, range: Option<[f64; 2]>, steps: bool) -> Result<Option<Self>, Error> {
        let Some([min, max]) = range else { return Ok(None) };
        let (shortest, longest) = (seconds(what, min)?, seconds(what, max)?);
        let Some(span) = longest.checked_sub(shortest) else {
            return refuse(format!("{what} must be [min, max], not [{min}, {max}]"));
        };
        if steps && (min.fract() != 0.0 || max.fract() != 0.0) {
            return refuse(format!("with delay_steps, {what} must be whole seconds, not [{min}, {max}]"));
        }
        Ok(Some(Delay { min: shortest, span, steps }))
    }

    /// Returns the delay selected by a random word.
    pub(crate) fn pick(self, random: u64) -> Duration {
        self.min
            + if self.steps {
                Duration::from_secs(hash::below(random, self.span.as_secs() + 1))
            } else {
                self.span.mul_f64(hash::unit(random))
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_options() {
        let options: Options = serde_json::from_str(
            r#"{"content": {"synthetic": {"count": 5, "size": 100}}, "delay": [0, 1.5],
                "faults": [{"action": "wrong-length", "delta": -1, "match": "a*", "on": "any"},
                           {"action": "status", "status": 503, "retry_after": [1, 5]}]}"#,
        )
        .expect("valid");

        assert!(matches!(options.content, Some(ContentOptions::Synthetic { count: 5, size: 100 })));
        assert_eq!(options.page_size, 1000);
        assert_eq!(options.faults[0].on, Some(RuleScope::Any));
        assert!(matches!(options.faults[1].retry_after, Some(RetryAfter::Range([1, 5]))));
    }

    #[test]
    fn unknown_fields_are_errors() {
        for json in [
            r#"{"contents": {}}"#,
            r#"{"faults": [{"action": "explode"}]}"#,
            r#"{"faults": [{"action": "close", "time": 1}]}"#,
        ] {
            assert!(serde_json::from_str::<Options>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn values_are_checked() {
        let wrong = Options { threads: 0, ..Options::default() };
        assert_eq!(wrong.check().expect_err("wrong").to_string(), "threads must be 1 to 256, not 0");

        for range in [[1.0, 0.0], [-1.0, 0.0], [0.0, f64::INFINITY], [f64::NAN, 1.0]] {
            assert!(Delay::new("delay", Some(range), false).is_err(), "{range:?}");
        }
        assert!(Delay::new("delay", Some([0.0, 0.5]), true).is_err());
    }

    #[test]
    fn steps_reach_both_ends() {
        let delay = Delay::new("delay", Some([0.0, 5.0]), true).expect("valid").expect("given");

        assert_eq!(delay.pick(0), Duration::ZERO);
        assert_eq!(delay.pick(u64::MAX), Duration::from_secs(5));
    }
}
