//! Waits for rate limits.

use std::time::Duration;

use fetchmill_model::planner::pace::Pace;
use fetchmill_net::Deadlines;

/// Reserves a time slot of each rate and waits for all of them. Returns `false` if the watch expires first. `micros` is
/// the clock that all users of the rates share.
pub(crate) async fn keep_pace<'p>(
    paces: impl Iterator<Item = &'p Pace>,
    micros: impl Fn() -> u64,
    watch: &Deadlines,
) -> bool {
    for pace in paces {
        let wait = pace.reserve(micros());
        if wait > 0 {
            watch.rest();
            tokio::select! {
                () = tokio::time::sleep(Duration::from_micros(wait)) => {}
                _ = watch.expired() => return false,
            }
        }
    }
    true
}
