//! The first contact with a bucket, which requests one short listing page. The page reveals the region, the clock
//! offset and whether access is allowed, before anything is created. For each problem, the error tells the user what to
//! do.

use std::time::Duration;

use super::{BucketAnswer, BucketReply, BucketRequest, Client};
use crate::access::tls_errors::distrust;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::planner::retry::{self, Jitter};
use fetchmill_model::s3::{BucketName, ErrorDocument, ListQuery};
use fetchmill_model::verdict::{AttemptState, RetriedStatuses, Rules, Verdict};
use fetchmill_net::certain::RestedConnection;

/// Requests a page until the bucket answers as expected. The client's `Access` records what the answers reveal about
/// the store.
pub(crate) async fn contact(
    client: &Client,
    bucket: &BucketName,
    prefix: &[u8],
    retried: RetriedStatuses,
) -> Result<()> {
    let mut connection = RestedConnection::default();
    let query = ListQuery { prefix, max_keys: 1, ..ListQuery::default() }.text();
    let ask = BucketRequest { method: "GET", bucket, key: None, query: &query, fields: &[], body: None };
    let rules = Rules { attempts_max: limits::FIRST_PAGE_ATTEMPTS_MAX, retried, ..Rules::default() };
    let mut state = AttemptState::default();
    let mut jitter = Jitter::new(u64::from(std::process::id()));
    loop {
        let (verdict, answered) = client.ask(&mut connection, &ask, &mut state, &rules).await?;
        match (verdict, &answered) {
            (Verdict::Store, Ok(answer)) if answer.status == 200 => return Ok(()),
            (Verdict::Retry(kind), _) => {
                let retry_after = answered.as_ref().ok().and_then(|answer| answer.retry_after);
                wait(client, retry::delay(kind, state.attempts, retry_after, jitter.draw())).await;
            }
            _ => return Err(refused(client, bucket, &answered, state.attempts + 1)),
        }
    }
}

/// Waits for `delay`, unless the job is ending.
async fn wait(client: &Client, delay: Millis) {
    let until = tokio::time::Instant::now() + Duration::from_millis(delay);
    while tokio::time::Instant::now() < until && !client.is_over() {
        tokio::time::sleep(limits::TICK).await;
    }
}

/// Returns the error for a bucket that did not answer as expected.
fn refused(client: &Client, bucket: &BucketName, answered: &BucketAnswer, attempts: u32) -> Error {
    match answered {
        Ok(answer) => Error::Listing(complaint(client, bucket, answer)),
        Err(broken) => {
            let place = client.access().place(bucket);
            if let Some(error) = place.as_ref().ok().and_then(|place| distrust(&place.key, broken.kind)) {
                return error;
            }
            let origin = place.map_or_else(|_| String::new(), |place| place.key.text().to_owned());
            Error::Listing(format!(
                "cannot check the bucket {} at {origin} ({}): {}, attempts: {attempts}; check \
                 --endpoint-url, and that the store is running",
                bucket.text(),
                broken.kind.name(),
                broken.reason
            ))
        }
    }
}

/// Describes a reply that is not a page and says what the user can do.
pub(crate) fn complaint(client: &Client, bucket: &BucketName, answer: &BucketReply) -> String {
    let name = bucket.text();
    let Some(fault) = ErrorDocument::read(&answer.body) else {
        return format!(
            "the bucket {name} cannot be listed (status {}, and the reply is not an S3 error); check \
             --endpoint-url",
            answer.status
        );
    };
    let advice = fault.advice(answer.status, client.access().is_signed(), name);
    let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
    format!(
        "the bucket {name} cannot be listed ({}, status {}): {}{advice}",
        fault.code, answer.status, fault.message
    )
}
