//! The options of a server, as they come in JSON, and the check of their values.
//!
//! An unknown field is an error: a fault that is misspelt and never happens would let a test pass.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::error::Error;
use crate::hash;
use crate::synthetic::SYNTHETIC_COUNT_MAX;

const THREADS_MAX: usize = 256;
const PAGE_SIZE_MAX: usize = 1_000_000;
const SYNTHETIC_SIZE_MAX: usize = 1 << 40;
/// A day: above it, a number of seconds is a mistake.
const SECONDS_MAX: f64 = 86_400.0;

/// All options. Every field has a default but `content`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// What to serve; not looked at by `Server::start_with`.
    pub content: Option<ContentOptions>,
    /// Address or host name to listen on: 127.0.0.1.
    pub host: String,
    /// Port to listen on; 0, the default, is any that is free.
    pub port: u16,
    /// Threads that serve: 1.
    pub threads: usize,
    /// Names in a page: 1000.
    pub page_size: usize,
    /// Seconds that each `/get` waits: a random number between the two.
    pub delay: Option<[f64; 2]>,
    /// The same in whole seconds, both ends included.
    pub delay_steps: bool,
    /// Share of the `/get` requests that wait `slow_delay` in place of `delay`, 0 to 1.
    pub slow_rate: f64,
    /// Seconds that these wait: 2.
    pub slow_delay: [f64; 2],
    /// Seconds that each `/list` waits.
    pub list_delay: Option<[f64; 2]>,
    /// Serve https, with a certificate for `localhost` and the loopback addresses.
    pub tls: bool,
    /// Serve https with this certificate instead, of a name that leads here.
    pub certificate: Option<CertificateFiles>,
    /// Start of all that is random.
    pub seed: u64,
    /// Scripted faults; the first rule that applies to a request decides.
    pub faults: Vec<Rule>,
    /// Whether files and folders whose name starts with a dot are served: no. The state of a job never is.
    pub hidden: bool,
    /// Hosts that requests may be for besides this machine's own names, when it listens at loopback; `*` for all.
    pub allow_hosts: Vec<String>,
    /// Seconds that a client may take for the next request, or for taking some of a reply: 60.
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

/// What to serve.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum ContentOptions {
    /// The files below a folder.
    Folder(PathBuf),
    /// Computed objects.
    Synthetic {
        /// How many.
        count: u64,
        /// Bytes of each.
        size: usize,
    },
}

/// A certificate with its key, as files in PEM.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The server's own certificate, then those that lead to its authority.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A scripted fault: which requests, and what happens to them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What happens.
    pub action: ActionName,
    /// Share of the names that are hit, 0 to 1. A name is always hit or never. For `stray`, share of the connections.
    #[serde(default = "one")]
    pub rate: f64,
    /// Only the first so many requests of a name are hit; for `stray`, only so many connections.
    pub times: Option<u32>,
    /// A name, or the start of names followed by `*`. For `/list` it is compared with the marker, which is empty
    /// for the first page.
    #[serde(rename = "match")]
    pub pattern: Option<String>,
    /// Which requests; `get` unless the action only makes sense for `list`.
    pub on: Option<RuleScope>,
    /// For `status`: the status.
    pub status: Option<u16>,
    /// For `status`: seconds of `Retry-After`, or a range of them.
    pub retry_after: Option<RetryAfter>,
    /// For `status`: only requests above so many a second are hit, whatever their names.
    pub above: Option<f64>,
    /// For `reset`, `truncate`, `stall` and `trickle`: bytes of the reply, its head included, that are sent before.
    pub after_bytes: Option<u64>,
    /// For `wrong-length`: added to the announced length.
    pub delta: Option<i64>,
    /// For `stall`, `trickle` and `unsolicited`: seconds. For `stray`: it comes at most so many later, 0.05.
    pub seconds: Option<f64>,
    /// For `stray`: it follows the reply to one of the first so many requests of its connection, 100.
    pub requests: Option<u32>,
    /// For `repeat-marker`: pages in the cycle.
    pub period: Option<u32>,
}

const fn one() -> f64 {
    1.0
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionName {
    /// Answers with another status.
    Status,
    /// Resets the connection, before or within the reply.
    Reset,
    /// Announces the whole body and closes in the middle.
    Truncate,
    /// Announces another length than that of the body.
    WrongLength,
    /// Stops sending, and closes later.
    Stall,
    /// Sends byte by byte.
    Trickle,
    /// Lets the listing go round in a circle.
    RepeatMarker,
    /// Sends a second reply that nobody asked for.
    Unsolicited,
    /// Closes after the reply, and says so.
    Close,
    /// Sends the body in chunks.
    Chunked,
    /// Sends no length and ends the body by closing.
    Eof,
    /// Sends a reply that nobody asked for some time after one reply of a connection, while it goes on.
    Stray,
}

/// Which requests a rule is for.
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

/// Seconds of a `Retry-After`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "retry_after must be seconds or [min, max]")]
pub enum RetryAfter {
    /// Always the same.
    Seconds(u64),
    /// A random whole number between the two.
    Range([u64; 2]),
}

impl Options {
    /// Checks the values that no other module checks.
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

/// How long a client may take.
pub(crate) fn client_timeout(given: f64) -> Result<Duration, Error> {
    match seconds("client_timeout", given)? {
        Duration::ZERO => refuse("client_timeout must be more than 0 seconds".to_owned()),
        time => Ok(time),
    }
}

/// An option error.
pub(crate) fn refuse<T>(message: String) -> Result<T, Error> {
    Err(Error::Option(message))
}

/// Seconds as a duration, when they are a sane number.
pub(crate) fn seconds(what: &str, seconds: f64) -> Result<Duration, Error> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        refuse(format!("{what} must be 0 to {SECONDS_MAX} seconds, not {seconds}"))
    }
}

/// A random waiting time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delay {
    min: Duration,
    /// From the shortest to the longest.
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
            return refuse(format!("{what} must be whole seconds with delay_steps, not [{min}, {max}]"));
        }
        Ok(Some(Delay { min: shortest, span, steps }))
    }

    /// The waiting time that a random word stands for.
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
