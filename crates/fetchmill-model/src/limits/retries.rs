//! Bounds of retries: attempts, waits, and the time after which a job without success ends.

use std::time::Duration;

/// Maximum number of attempts per target: the first one and four retries.
pub const ATTEMPTS_MAX: u32 = 5;
/// Time after the first throttling status during which attempts that end with such a status do not count.
pub const THROTTLE_FREE: Duration = Duration::from_secs(600);
/// Maximum number of waiting targets that the planner holds. Further targets stay in the journal.
pub const WAITING_HELD_MAX: usize = 100_000;
/// Base of the backoff. The wait is a random fraction of base x 2^attempt, up to the cap (full jitter).
pub const BACKOFF_BASE: Duration = Duration::from_millis(50);
/// Cap of the backoff.
pub const BACKOFF_CAP: Duration = Duration::from_secs(20);
/// Base of the backoff after status 429 or 503.
pub const THROTTLE_BASE: Duration = Duration::from_secs(1);
/// Cap of the backoff after status 429 or 503.
pub const THROTTLE_CAP: Duration = Duration::from_secs(60);
/// Longest `Retry-After` that is obeyed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Maximum number of retry tokens of an origin.
pub const RETRY_TOKENS_MAX: u32 = 500;
/// Tokens that a target's first transient failure costs.
pub const RETRY_COST_TRANSIENT: u32 = 14;
/// Tokens that a throttling status costs while no request succeeds.
pub const RETRY_COST_THROTTLE: u32 = 5;
/// Tokens that a success returns. With the costs above, an origin keeps its tokens if up to half of its replies fail
/// (`docs/internals/decisions/0002`, `0025`).
pub const RETRY_REFUND: u32 = 14;
/// If a target fails again, its origin's health is checked, unless the origin was seen to be healthy within this time.
pub const HEALTHY_FOR: Duration = Duration::from_millis(100);
/// An origin that refuses all requests for this time counts as down if the refusals use up all tokens.
pub const REFUSED_ONLY: Duration = Duration::from_secs(1);
/// An origin that refuses all requests with a `Retry-After` for this time counts as down if the refusals use up all
/// tokens.
pub const ASKED_TO_WAIT_ONLY: Duration = Duration::from_millis(300);
/// An origin that refuses all requests for this time counts as down, even if it has refused only a few requests.
pub const REFUSED_ONLY_BY_FEW: Duration = Duration::from_secs(5);
/// Maximum number of origins for which a stream paces its requests. It paces them if the origin refuses some requests.
/// Each origin takes about 4 KiB, which covers four seconds of replies in slots of 50 ms. Requests to further origins
/// are not paced.
pub const STREAM_THROTTLED_MAX: usize = 4096;
/// If an origin has refused all requests for this time, it is not paced. The calling program receives the refusals.
pub const STREAM_REFUSED_ONLY: Duration = Duration::from_secs(2);
/// Time for which a pace is kept after the last refusal.
pub const STREAM_THROTTLED_FOR: Duration = Duration::from_secs(60);
/// Minimum pace in requests/s, regardless of how many requests are refused.
pub const PACE_MIN: f64 = 1.0;
/// Length of the burst that a paced origin may receive after a quiet time: a few timer ticks. It is short so that the
/// origin does not refuse these requests.
pub const PACE_BURST: Duration = Duration::from_millis(20);
/// First rest of an origin that is down. Each further rest is twice as long as the rest before it.
pub const REST_BASE: Duration = Duration::from_secs(1);
/// Longest rest of an origin or of a host.
pub const REST_CAP: Duration = Duration::from_secs(120);
/// Rest of an origin that serves earlier objects again, but no new targets.
pub const PARTLY_HEALTHY_REST: Duration = Duration::from_secs(5);
/// First rest of a host in a multi-host job. It is longer than [`REST_BASE`] because the job can fetch from other hosts
/// in the meantime. Another reason is that a host counts as dead after a few consecutive rests.
pub const HOST_REST_BASE: Duration = Duration::from_secs(5);
/// Time without any success after which the job ends (exit code 5).
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(900);

/// A run that resumes a job within this time reuses the pace of an origin that throttled.
pub const PACE_KEPT: Duration = Duration::from_secs(900);

/// A job that has had no success stops after this number of consecutive 401 or 403 replies with the same status.
pub const REFUSED_TARGETS_MAX: u64 = 200;
/// Timeout of the request that checks whether the server refuses all requests.
pub const ACCESS_CHECK: Duration = Duration::from_secs(30);
