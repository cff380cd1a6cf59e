//! The requests that the thread has not begun, those that wait to be made again, and the one that a task is at.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::batch::RequestBatch;
use super::reply_collector::ReplyCollector;
use crate::attempt::Location;
use crate::request::custom_request::{CustomRequest, RedirectEffects};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::verdict::AttemptState;

/// When an attempt was where, in microseconds of the thread's clock.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct AttemptTimes {
    pub(super) started: u64,
    pub(super) connect: u64,
    /// When the first bytes of the reply came; none when all of it came at once.
    pub(super) first_byte: Option<u64>,
    /// When the reply was complete.
    pub(super) ended: Option<u64>,
}

/// The request of a task. Its memory is used for one after the other.
#[derive(Default)]
pub(super) struct TaskRequest {
    pub(super) collector: Option<Rc<ReplyCollector>>,
    pub(super) slot: u32,
    /// Its place in the input.
    pub(super) index: u64,
    pub(super) at: Location,
    pub(super) call: Option<Arc<CustomRequest>>,
    /// What redirects have made of it.
    pub(super) effects: RedirectEffects,
    /// What was spent on it.
    pub(super) state: AttemptState,
    /// Its URL is in its normal form.
    pub(super) is_located: bool,
    /// The `s3://` URL that it was given, and what was known of stores when it was signed.
    pub(super) store_url: Option<(String, u64)>,
    /// Microseconds of the thread's clock.
    pub(super) submitted: u64,
    /// Its last attempt.
    pub(super) attempt: AttemptTimes,
}

impl TaskRequest {
    fn start(
        &mut self,
        collector: &Rc<ReplyCollector>,
        requests: &RequestBatch,
        position: usize,
        submitted: u64,
    ) -> bool {
        let Some((requested, url)) = requests.get(position) else { return false };
        if !self.collector.as_ref().is_some_and(|own| Rc::ptr_eq(own, collector)) {
            self.collector = Some(Rc::clone(collector));
        }
        (self.slot, self.index) = (requested.slot, requested.index);
        self.at.clear();
        self.at.url.push_str(url);
        self.call.clone_from(&requested.call);
        (self.effects, self.is_located) = (RedirectEffects::default(), false);
        self.state = AttemptState::default();
        self.store_url = None;
        self.submitted = submitted;
        true
    }

    /// The method as it is now.
    pub(super) fn method(&self) -> &str {
        self.effects.method(self.call.as_deref())
    }

    /// Whether it may be made more than once.
    pub(super) fn is_idempotent(&self) -> bool {
        self.effects.may_repeat(self.call.as_deref())
    }

    /// Whether it is a `GET` or `HEAD`, where it is now.
    pub(super) fn only_reads(&self) -> bool {
        self.effects.only_reads(self.call.as_deref())
    }

    /// Its reply is held until it is certain whose it is.
    pub(super) fn wants_certainty(&self) -> bool {
        self.collector.as_ref().is_some_and(|collector| collector.shared.is_certain)
    }

    /// All that its program has waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.collector.as_ref().is_some_and(|collector| collector.shared.wants(self.slot))
    }

    /// The program has given its stream up.
    pub(super) fn is_dropped(&self) -> bool {
        self.collector.as_ref().is_none_or(|collector| collector.shared.is_closed())
    }
}

/// A batch, and how far it is taken.
struct QueuedBatch {
    collector: Rc<ReplyCollector>,
    requests: RequestBatch,
    submitted: u64,
    next: usize,
}

#[derive(Default)]
pub(super) struct RequestQueue {
    batches: VecDeque<QueuedBatch>,
    count: usize,
    /// Those to be made again, by time and a number that tells them apart.
    waiting: BTreeMap<(Millis, u64), TaskRequest>,
    waited: u64,
}

impl RequestQueue {
    pub(super) fn push(&mut self, collector: Rc<ReplyCollector>, requests: RequestBatch, submitted: u64) {
        self.count += requests.len();
        self.batches.push_back(QueuedBatch { collector, requests, submitted, next: 0 });
    }

    /// It is made again at this time.
    pub(super) fn wait(&mut self, request: TaskRequest, until: Millis) {
        self.waited += 1;
        self.waiting.insert((until, self.waited), request);
    }

    /// Takes the next request. A batch that is used up is given to `used`.
    pub(super) fn take(
        &mut self,
        request: &mut TaskRequest,
        now: Millis,
        used: impl Fn(RequestBatch),
    ) -> bool {
        if let Some(due) = self.waiting.first_entry().filter(|entry| entry.key().0 <= now) {
            *request = due.remove();
            return true;
        }
        // A batch may be used up by what was wanted.
        while let Some(batch) = self.batches.front_mut() {
            let is_taken = request.start(&batch.collector, &batch.requests, batch.next, batch.submitted);
            batch.next += 1;
            if batch.next < batch.requests.len() {
                self.count -= usize::from(is_taken);
                return is_taken;
            }
            if let Some(batch) = self.batches.pop_front() {
                used(batch.requests);
            }
            if is_taken {
                self.count -= 1;
                return true;
            }
        }
        false
    }

    /// Takes the one request that everything else waits for, if it is among these.
    pub(super) fn take_wanted(&mut self, request: &mut TaskRequest, now: Millis) -> bool {
        let due = self.waiting.range(..=(now, u64::MAX)).find(|(_, request)| request.is_wanted());
        if let Some(key) = due.map(|(key, _)| *key) {
            return self.waiting.remove(&key).map(|due| *request = due).is_some();
        }
        // What is wanted is the first of its stream.
        for batch in &mut self.batches {
            let next = batch.requests.get(batch.next).map(|(requested, _)| requested.slot);
            if next.is_some_and(|slot| batch.collector.shared.wants(slot)) {
                batch.next += 1;
                self.count -= 1;
                return request.start(&batch.collector, &batch.requests, batch.next - 1, batch.submitted);
            }
        }
        false
    }

    /// Forgets what belongs to streams that were given up.
    pub(super) fn forget_dropped(&mut self) {
        self.batches.retain(|batch| {
            let is_dropped = batch.collector.shared.is_closed();
            self.count -= if is_dropped { batch.requests.len() - batch.next } else { 0 };
            !is_dropped
        });
        self.waiting.retain(|_, request| !request.is_dropped());
    }

    /// How many can be begun at a time.
    pub(super) fn ready(&self, now: Millis) -> usize {
        self.count + self.waiting.range(..=(now, u64::MAX)).count()
    }

    /// Whether there is nothing to begin, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.waiting.is_empty()
    }
}
