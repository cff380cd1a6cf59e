//! The current behaviour of a store: its clock, its credentials and its faults. A change creates a new value.
//! Countdowns continue unless the change sets them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::options::{BehaviourOptions, CredentialOptions};
use crate::error::Error;
use crate::options::refuse;

/// Size of a burst above the rate, in seconds of requests at this rate.
const BURST: f64 = 0.05;

/// An access key and its secret key, which are used for signing.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) token: Option<String>,
    expires: Option<Instant>,
}

impl Credential {
    pub(crate) fn new(options: CredentialOptions) -> Result<Self, Error> {
        let expires = match options.expires_in {
            None => None,
            Some(seconds) => match Duration::try_from_secs_f64(seconds) {
                Ok(time) => Instant::now().checked_add(time),
                Err(_) => return refuse(format!("expires_in must be at least 0 seconds, not {seconds}")),
            },
        };
        let CredentialOptions { access_key, secret_key, token, .. } = options;
        Ok(Credential { access_key, secret_key, token, expires })
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| Instant::now() >= expires)
    }
}

/// Counts that change with requests.
#[derive(Debug, Clone, Default)]
struct FaultCounts {
    rate: Arc<Mutex<Option<RateLimit>>>,
    failures_left: Arc<AtomicU64>,
    drops_left: Arc<AtomicU64>,
    errors_given: Arc<Mutex<HashMap<String, u32>>>,
    damage_done: Arc<Mutex<HashMap<String, u32>>>,
}

/// Current behaviour of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreBehaviour {
    pub(crate) options: BehaviourOptions,
    values: Map<String, Value>,
    pub(crate) credentials: Vec<Credential>,
    /// Bodies that a GET request returns instead of the listed objects.
    pub(crate) changed: HashMap<String, Bytes>,
    progress: FaultCounts,
}

impl StoreBehaviour {
    /// Returns this behaviour with some values changed.
    pub(crate) fn with(&self, change: &Map<String, Value>) -> Result<StoreBehaviour, Error> {
        let mut values = self.values.clone();
        values.extend(change.clone());
        let options: BehaviourOptions = serde_json::from_value(Value::Object(values.clone()))
            .map_err(|error| Error::Option(format!("invalid store behaviour: {error}")))?;
        options.check()?;
        let mut progress = self.progress.clone();
        for name in change.keys() {
            match name.as_str() {
                "slow_down_above" => {
                    progress.rate = Arc::new(Mutex::new(options.slow_down_above.map(RateLimit::new)));
                }
                "fail_uploads" => progress.failures_left = Arc::new(AtomicU64::new(options.fail_uploads)),
                "drop_uploads" => progress.drops_left = Arc::new(AtomicU64::new(options.drop_uploads)),
                "damage" => progress.damage_done = Arc::default(),
                "errors_with_200" => progress.errors_given = Arc::default(),
                _ => {}
            }
        }
        Ok(StoreBehaviour {
            options,
            values,
            credentials: self.credentials.clone(),
            changed: self.changed.clone(),
            progress,
        })
    }

    /// Adds a pair of keys, replacing any pair that has the same access key.
    pub(crate) fn add_credential(&mut self, credential: Credential) {
        self.credentials.retain(|other| other.access_key != credential.access_key);
        self.credentials.push(credential);
    }

    /// Returns whether a request exceeds the rate.
    pub(crate) fn is_too_fast(&self) -> bool {
        if self.options.slow_down_above.is_none() {
            return false;
        }
        let mut rate = self.progress.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.as_mut().is_some_and(|rate| !rate.take(Instant::now()))
    }

    /// Returns whether this upload must fail.
    pub(crate) fn fails_upload(&self) -> bool {
        take_one(&self.progress.failures_left)
    }

    /// Returns whether this upload must be dropped.
    pub(crate) fn drops_upload(&self) -> bool {
        take_one(&self.progress.drops_left)
    }

    /// Returns the error to send for this key in a reply with status 200.
    pub(crate) fn error_with_200(&self, key: &str) -> Option<&str> {
        let error = self.options.errors_with_200.get(key)?;
        let is_given = error.times.is_none_or(|times| count_up(&self.progress.errors_given, key, times));
        is_given.then_some(&error.code)
    }

    /// Returns whether the body of this reply must contain a wrong byte.
    pub(crate) fn damages(&self, key: &str) -> bool {
        let times = self.options.damage.get(key);
        times.is_some_and(|times| count_up(&self.progress.damage_done, key, *times))
    }
}

/// Counts an event for this key, up to `times` times. Returns whether the event was counted.
fn count_up(counts: &Mutex<HashMap<String, u32>>, key: &str, times: u32) -> bool {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    let count = counts.entry(key.to_owned()).or_default();
    let is_due = *count < times;
    *count += u32::from(is_due);
    is_due
}

fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// A token bucket.
#[derive(Debug)]
struct RateLimit {
    per_second: f64,
    tokens: f64,
    last: Instant,
}

impl RateLimit {
    fn new(rate: f64) -> Self {
        RateLimit { per_second: rate, tokens: (rate * BURST).max(1.0), last: Instant::now() }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.last).as_secs_f64();
        self.last = self.last.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min((self.per_second * BURST).max(1.0));
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(behaviour: &StoreBehaviour, json: &str) -> StoreBehaviour {
        behaviour.with(&serde_json::from_str(json).expect("JSON")).expect("valid")
    }

    #[test]
    fn a_rate_takes_its_burst_and_then_what_time_brings() {
        let mut rate = RateLimit::new(100.0);
        let start = rate.last;
        let taken = |rate: &mut RateLimit, at| (0..100).filter(|_| rate.take(start + at)).count();

        assert_eq!(taken(&mut rate, Duration::ZERO), 5);
        assert_eq!(taken(&mut rate, Duration::from_millis(35)), 3);
        assert_eq!(taken(&mut rate, Duration::from_secs(9)), 5);
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let behaviour = changed(&StoreBehaviour::default(), r#"{"fail_uploads": 2, "list_latency": 0.5}"#);
        assert!(behaviour.fails_upload());

        let behaviour = changed(&behaviour, r#"{"repeat_token": true}"#);

        assert!(behaviour.options.repeat_token);
        assert!((behaviour.options.list_latency - 0.5).abs() < 1e-9);
        assert!(behaviour.fails_upload());
        assert!(!behaviour.fails_upload());
        assert!(changed(&behaviour, r#"{"fail_uploads": 1}"#).fails_upload());
    }

    #[test]
    fn an_error_is_given_so_many_times() {
        let json = r#"{"errors_with_200": {"a": {"code": "X", "times": 2}, "b": {"code": "Y"}}}"#;
        let behaviour = changed(&StoreBehaviour::default(), json);

        assert_eq!([0; 3].map(|_| behaviour.error_with_200("a")), [Some("X"), Some("X"), None]);
        assert_eq!([0; 3].map(|_| behaviour.error_with_200("b")), [Some("Y"); 3]);
    }

    #[test]
    fn wrong_values_are_refused() {
        for json in [r#"{"max_skew": -1}"#, r#"{"slow_down_above": 0}"#, r#"{"unknown": 1}"#] {
            let change = serde_json::from_str(json).expect("JSON");
            assert!(StoreBehaviour::default().with(&change).is_err(), "{json}");
        }
    }
}
