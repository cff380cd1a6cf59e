//! Replies of a store of S3: what a stream does where they are not as those of any other server.

use super::attempt::Attempt;
use super::fetcher::Fetching;
use super::incoming::Incoming;
use super::queue::Ticket;
use crate::engine::s3::{FAULT_BYTES_MAX, Judgement, Renewal, StoreReply, region_in};
use crate::planner::origin::Millis;
use crate::s3::{BucketName, split_url};

/// So often a request is sent on: to another region, with another clock, with newer credentials.
const CORRECTIONS_MAX: u32 = 3;
/// While credentials are being renewed a request waits so long.
const RENEWAL_WAIT: Millis = 200;

impl Fetching {
    /// Sends a request again when the reply says how; none when the reply is the program's.
    pub(super) fn judge(&self, ticket: &mut Ticket, incoming: &Incoming, status: u16) -> Option<Attempt> {
        let (url, generation) = ticket.store_url.as_ref()?;
        if status < 300 || ticket.forgiven >= CORRECTIONS_MAX {
            return None;
        }
        let start = &incoming.body[..incoming.body.len().min(FAULT_BYTES_MAX)];
        let length = incoming.body.len() as u64;
        let reply = StoreReply { status, start, length, etag: None, region: region_in(&incoming.head) };
        match reply.judge(None) {
            Judgement::AsItIs | Judgement::Failed(_) | Judgement::NoCredentials(_) => return None,
            Judgement::Skewed(now) => {
                self.store.learn_clock(now?);
            }
            Judgement::Region(region) => {
                let bucket = split_url(url).and_then(|(bucket, _)| BucketName::parse(bucket).ok())?;
                self.store.learn_region(&bucket, &region);
            }
            Judgement::Expired => match self.store.renew(*generation) {
                Renewal::Newer => {}
                Renewal::Failed(_) => return None,
                Renewal::Pending => {
                    self.wait(std::mem::take(ticket), RENEWAL_WAIT);
                    return Some(Attempt::Over);
                }
            },
        }
        ticket.forgiven += 1;
        // Where its bucket is may have changed.
        ticket.url.clone_from(url);
        ticket.is_located = false;
        Some(Attempt::Redirected)
    }
}
