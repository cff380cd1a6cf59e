//! Replies of a store of S3: what a desk does where they are not as those of any other server.

use std::sync::Arc;

use super::{AnswerFields, Desk};
use crate::engine::s3::{FAULT_BYTES_MAX, Judgement, Renewal, StoreReply, bucket_of, no_credentials};
use crate::engine::worker::queue::Target;
use crate::error::Error;
use crate::planner::hosts::Seen;
use crate::planner::origin::Millis;

/// While credentials are being renewed a target waits so long.
const RENEWAL_WAIT: Millis = 200;

impl Desk {
    /// What a reply means; whether that was all.
    pub(super) fn judge(
        &mut self,
        target: &Target,
        status: u16,
        body: &[u8],
        fields: AnswerFields<'_>,
    ) -> bool {
        let reply = StoreReply {
            status,
            start: &body[..body.len().min(FAULT_BYTES_MAX)],
            length: body.len() as u64,
            etag: fields.etag.map(str::as_bytes),
            region: None,
        };
        let store = Arc::clone(self.control.store());
        let now = self.control.clock.now();
        match reply.judge(target.listed(self.rules.naming).as_ref()) {
            Judgement::AsItIs => return false,
            Judgement::Failed(kind) => {
                self.failed(target, kind, status, None, None);
                return true;
            }
            Judgement::Skewed(server_time) => {
                if let Some(time) = server_time {
                    store.learn_clock(time);
                }
                self.put_aside(target, now);
            }
            Judgement::Region(region) => {
                if let Some(bucket) = bucket_of(target, self.rules.naming) {
                    store.learn_region(&bucket, &region);
                }
                self.put_aside(target, now);
            }
            Judgement::NoCredentials(why) => self.stop_at(target, no_credentials(&why), now),
            Judgement::Expired => match store.renew(target.store_generation) {
                Renewal::Failed(why) => self.stop_at(target, Error::Temporary(why), now),
                Renewal::Newer | Renewal::Pending => self.put_aside(target, now + RENEWAL_WAIT),
            },
        }
        self.hosts.left(target, Seen::Answer, now);
        true
    }

    /// No target will fare better: they stay pending.
    fn stop_at(&mut self, target: &Target, error: Error, now: Millis) {
        self.control.fail(error);
        self.put_aside(target, now);
    }
}
