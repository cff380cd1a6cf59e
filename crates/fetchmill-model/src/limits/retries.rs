//! Bounds of retries: attempts, waits, and when a job is given up.

use std::time::Duration;

/// Attempts at one target: one and four more.
pub const ATTEMPTS_MAX: u32 = 5;
/// Attempts answered by a throttling status that do not count, for this long after the first.
pub const THROTTLE_FREE: Duration = Duration::from_secs(600);
/// Waiting targets that the planner holds; the rest stay in the journal.
pub const WAITING_HELD_MAX: usize = 100_000;
/// Full jitter: a random part of base x 2^attempt, at most the cap.
pub const BACKOFF_BASE: Duration = Duration::from_millis(50);
/// Cap of the above.
pub const BACKOFF_CAP: Duration = Duration::from_secs(20);
/// Base after 429 or 503.
pub const THROTTLE_BASE: Duration = Duration::from_secs(1);
/// Cap after 429 or 503.
pub const THROTTLE_CAP: Duration = Duration::from_secs(60);
/// Longest `Retry-After` that is followed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Retry tokens of an origin.
pub const RETRY_TOKENS_MAX: u32 = 500;
/// What the first transient failure of a target takes out of them.
pub const RETRY_COST_TRANSIENT: u32 = 14;
/// What a throttling status takes out of them while nothing succeeds.
pub const RETRY_COST_THROTTLE: u32 = 5;
/// What a success puts back: with the costs above, an origin of which up to half the replies fail keeps its tokens
/// (docs/internals/decisions/0002, 0025).
pub const RETRY_REFUND: u32 = 14;
/// A target that fails again is a reason to ask whether its origin is well, unless that was seen to be in this time.
pub const HEALTHY_FOR: Duration = Duration::from_millis(100);
/// Refusals and nothing else for this long are an outage, if they are as many as take all tokens.
pub const REFUSED_ONLY: Duration = Duration::from_secs(1);
/// For this long if they name a time (`Retry-After`).
pub const ASKED_TO_WAIT_ONLY: Duration = Duration::from_millis(300);
/// For this long, however few they are.
pub const REFUSED_ONLY_BY_FEW: Duration = Duration::from_secs(5);
/// Origins that refuse requests of a stream whose pace is kept: some 4 KiB each, with four seconds of replies in slots of
/// 50 ms; others are asked as if they did not.
pub const STREAM_THROTTLED_MAX: usize = 4096;
/// One that has given nothing but refusals for so long has no pace: the program gets them.
pub const STREAM_REFUSED_ONLY: Duration = Duration::from_secs(2);
/// A pace is kept for so long after the last refusal.
pub const STREAM_THROTTLED_FOR: Duration = Duration::from_secs(60);
/// Requests a second that an origin gets at least, however much it refuses.
pub const PACE_MIN: f64 = 1.0;
/// What comes at once after a quiet time when an origin has a pace: a few turns of a timer, so that it is not refused.
pub const PACE_BURST: Duration = Duration::from_millis(20);
/// First rest of an origin that is down. Each rest is twice as long as the one before it.
pub const REST_BASE: Duration = Duration::from_secs(1);
/// Longest rest of an origin or of a host.
pub const REST_CAP: Duration = Duration::from_secs(120);
/// Rest of an origin that serves again what it served before, but no new target.
pub const PARTLY_HEALTHY_REST: Duration = Duration::from_secs(5);
/// First rest of one host of many. Longer than [`REST_BASE`]: other hosts have work meanwhile, and a few rests in a row
/// make a host dead.
pub const HOST_REST_BASE: Duration = Duration::from_secs(5);
/// The job ends (exit 5) after this long without any success.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(900);

/// The pace of an origin that throttled is kept for a run that resumes the job so soon.
pub const PACE_KEPT: Duration = Duration::from_secs(900);

/// Equal answers of 401 or 403 in a row after which a job stops that had no success.
pub const REFUSED_TARGETS_MAX: u64 = 200;
/// How long an answer is waited for that shows whether all is refused.
pub const ACCESS_CHECK: Duration = Duration::from_secs(30);
