//! Replies of a store of S3: what a worker does where they are not as those of any other server.

use super::Worker;
use super::body::Incoming;
use super::fetch::Attempt;
use super::queue::Target;
use crate::engine::s3::{Judgement, Renewal, bucket_of, no_credentials};
use crate::error::Error;
use crate::listed::ListedKey;
use crate::outcome::FailureKind;
use crate::planner::hosts::Seen;
use crate::transport::Replied;

/// So often a target is sent on: to another region, with another clock, with newer credentials.
const CORRECTIONS_MAX: u32 = 3;

impl Worker {
    /// What follows from a reply; none when it is as those of any other server.
    pub(super) fn judge(
        &self,
        target: &mut Target,
        body: &mut Incoming,
        replied: &Replied,
    ) -> Option<Attempt> {
        let listed = self.listed(target);
        let judgement = body.store_reply(replied.head.status).judge(listed.as_ref());
        if judgement == Judgement::AsItIs {
            return None;
        }
        body.discard();
        let store = self.control().store();
        Some(match judgement {
            Judgement::AsItIs => return None,
            Judgement::Failed(kind) => self.failed(target, kind, Some(replied)),
            Judgement::Skewed(now) => {
                if let Some(now) = now {
                    store.learn_clock(now);
                }
                self.again(target, replied)
            }
            Judgement::Region(region) => {
                if let Some(bucket) = bucket_of(target, self.setup.naming) {
                    store.learn_region(&bucket, &region);
                    target.is_located = false;
                    target.url.clear();
                }
                match self.again(target, replied) {
                    Attempt::Again => Attempt::Redirected,
                    other => other,
                }
            }
            Judgement::NoCredentials(why) => self.stop(target, no_credentials(&why)),
            Judgement::Expired => match store.renew(target.store_generation) {
                Renewal::Newer => self.again(target, replied),
                Renewal::Failed(why) => self.stop(target, Error::Temporary(why)),
                Renewal::Pending => {
                    // It waits for them, as it would for a host.
                    let now = self.clock.get();
                    self.put_aside(target, now, now);
                    self.leave(target, Seen::Nothing);
                    Attempt::Over
                }
            },
        })
    }

    /// What was listed of an object that is to be fetched as a whole: a check reads the start of it only.
    pub(super) fn listed<'t>(&self, target: &'t Target) -> Option<ListedKey<'t>> {
        if self.has_rows() { None } else { target.listed(self.setup.naming) }
    }

    /// Whether the object of another server is not what a manifest has said of it.
    pub(super) fn is_changed(&self, target: &Target, body: &Incoming, status: u16) -> bool {
        (200..300).contains(&status)
            && self.listed(target).is_some_and(|listed| {
                !body.store_reply(status).is_object(listed.size.unwrap_or_default(), listed.etag)
            })
    }

    /// Once more at once, with what was learned; a few times.
    fn again(&self, target: &mut Target, replied: &Replied) -> Attempt {
        if target.forgiven >= CORRECTIONS_MAX {
            return self.failed(target, FailureKind::Status, Some(replied));
        }
        target.forgiven += 1;
        Attempt::Again
    }

    /// No target will fare better: they stay pending.
    fn stop(&self, target: &mut Target, error: Error) -> Attempt {
        self.control().fail(error);
        self.leave(target, Seen::Nothing);
        Attempt::Over
    }
}
