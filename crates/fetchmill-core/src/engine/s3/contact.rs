//! The first words with a bucket: one short page of its listing. They tell where the bucket is, how its clock goes, and
//! whether it lets us in, before anything is made; and each thing that is wrong has a line that says what to do.

use std::time::Duration;

use super::{Answer, Ask, Client};
use crate::engine::trust::distrust;
use crate::error::{Error, Result};
use crate::limits;
use crate::outcome::{FailureClass, FailureKind};
use crate::planner::origin::Millis;
use crate::planner::retry::{self, Jitter};
use crate::s3::{BucketName, Fault, Meaning, list_query};
use crate::transport::{Broken, Lane};

/// So often a bucket may send us on: to its region, to its clock.
const CORRECTIONS_MAX: u32 = 4;

/// Talks to a bucket until it answers as it should. What was learned stays in the client's access.
pub(in crate::engine) async fn contact(client: &Client, bucket: &BucketName, prefix: &[u8]) -> Result<()> {
    let mut lane = Lane::default();
    let query = list_query(prefix, None, None, 1);
    let ask = Ask { method: "GET", bucket, key: None, query: &query, fields: &[], body: None };
    let (mut attempts, mut corrections) = (0, 0);
    let mut jitter = Jitter::new(u64::from(std::process::id()));
    loop {
        let answered = client.ask(&mut lane, &ask).await?;
        let (kind, retry_after) = match &answered {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => {
                if corrections < CORRECTIONS_MAX && learn(client, bucket, answer) {
                    corrections += 1;
                    continue;
                }
                (kind_of(answer), answer.retry_after)
            }
            Err(broken) => (broken.kind, None),
        };
        attempts += 1;
        if kind.class() == FailureClass::Final || attempts >= limits::FIRST_PAGE_ATTEMPTS_MAX {
            return Err(refused(client, bucket, &answered, kind, attempts));
        }
        wait(client, retry::delay(kind, attempts, retry_after, jitter.draw())).await;
    }
}

/// Waits, or until the job is to end.
async fn wait(client: &Client, delay: Millis) {
    let until = tokio::time::Instant::now() + Duration::from_millis(delay);
    while tokio::time::Instant::now() < until && !client.is_over() {
        tokio::time::sleep(limits::TICK).await;
    }
}

/// Corrects what an answer shows to be wrong: the region, or our clock. Whether that was something new.
pub(in crate::engine) fn learn(client: &Client, bucket: &BucketName, answer: &Answer) -> bool {
    let fault = Fault::read(&answer.body);
    let meaning = fault.as_ref().map_or(Meaning::Other, |fault| fault.meaning(answer.status));
    let access = client.access();
    match meaning {
        Meaning::Skewed => {
            let said = fault.and_then(|fault| fault.server_time).or(answer.date);
            said.is_some_and(|store| access.learn_clock(store))
        }
        Meaning::WrongRegion | Meaning::Other | Meaning::Denied => {
            let region = answer.region.clone().or_else(|| fault.and_then(|fault| fault.region));
            region.is_some_and(|region| access.learn_region(bucket, &region))
        }
        _ => false,
    }
}

/// What an answer that is no success means for who asked.
pub(in crate::engine) fn kind_of(answer: &Answer) -> FailureKind {
    match Fault::read(&answer.body).map(|fault| fault.meaning(answer.status)) {
        Some(Meaning::Throttled) => FailureKind::Throttled,
        Some(Meaning::Transient) => FailureKind::ServerError,
        _ => FailureKind::of_status(answer.status).err().unwrap_or(FailureKind::Status),
    }
}

/// What is said when a bucket does not answer as it should.
fn refused(
    client: &Client,
    bucket: &BucketName,
    answered: &std::result::Result<Answer, Broken>,
    kind: FailureKind,
    attempts: u32,
) -> Error {
    match answered {
        Ok(answer) => Error::Listing(complaint(client, bucket, answer)),
        Err(broken) => {
            let place = client.access().place(bucket);
            if let Some(error) = place.as_ref().ok().and_then(|place| distrust(&place.key, kind)) {
                return error;
            }
            let origin = place.map_or_else(|_| String::new(), |place| place.key.text().to_owned());
            Error::Listing(format!(
                "{origin} does not answer for the bucket {} ({}): {}, attempts: {attempts}; is the endpoint right \
                 (--endpoint-url), and does the store run?",
                bucket.text(),
                kind.name(),
                broken.reason
            ))
        }
    }
}

/// What a store said instead of a page, and what can be done about it.
pub(in crate::engine) fn complaint(client: &Client, bucket: &BucketName, answer: &Answer) -> String {
    let name = bucket.text();
    let Some(fault) = Fault::read(&answer.body) else {
        return format!(
            "the bucket {name} cannot be listed: the answer has status {} and is no error of S3; is the endpoint right \
             (--endpoint-url)?",
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
