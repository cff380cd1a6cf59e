//! The requests of a thread: those that have not started, those to be repeated, and the current one of each task.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::batch::RequestBatch;
use super::reply_collector::ReplyCollector;
use crate::attempt::Location;
use crate::request::custom_request::{CustomRequest, RedirectEffects};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::verdict::AttemptState;

/// Times of an attempt in microseconds, according to the thread's clock.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct AttemptTimes {
    pub(super) started: u64,
    pub(super) connect: u64,
    /// Arrival of the reply's first bytes. `None` if the whole reply arrived in one piece.
    pub(super) first_byte: Option<u64>,
    /// Arrival of the reply's last byte.
    pub(super) ended: Option<u64>,
}

/// Current request of a task. Its memory is reused for the next request.
#[derive(Default)]
pub(super) struct TaskRequest {
    pub(super) collector: Option<Rc<ReplyCollector>>,
    pub(super) slot: u32,
    /// Position of the request in the input.
    pub(super) index: u64,
    pub(super) at: Location,
    pub(super) call: Option<Arc<CustomRequest>>,
    /// Changes that redirects have made to the request.
    pub(super) effects: RedirectEffects,
    /// Attempts at the request, and the time spent on them.
    pub(super) state: AttemptState,
    /// Whether the URL has been normalised.
    pub(super) is_located: bool,
    /// Original `s3://` URL, and the generation of the store's state that the signature is based on.
    pub(super) store_url: Option<(String, u64)>,
    /// Submission time in microseconds, according to the thread's clock.
    pub(super) submitted: u64,
    /// Times of the last attempt.
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

    /// Returns the method after any redirects.
    pub(super) fn method(&self) -> &str {
        self.effects.method(self.call.as_deref())
    }

    /// Returns whether the request can be repeated.
    pub(super) fn is_idempotent(&self) -> bool {
        self.effects.may_repeat(self.call.as_deref())
    }

    /// Returns whether the request, after any redirects, is a `GET` or `HEAD`.
    pub(super) fn only_reads(&self) -> bool {
        self.effects.only_reads(self.call.as_deref())
    }

    /// Returns whether to hold the reply until it is certain to answer the request.
    pub(super) fn wants_certainty(&self) -> bool {
        self.collector.as_ref().is_some_and(|collector| collector.shared.is_certain)
    }

    /// Returns whether the program needs this reply before it can use the later replies that it keeps.
    pub(super) fn is_wanted(&self) -> bool {
        self.collector.as_ref().is_some_and(|collector| collector.shared.wants(self.slot))
    }

    /// Returns whether the program has dropped the stream.
    pub(super) fn is_dropped(&self) -> bool {
        self.collector.as_ref().is_none_or(|collector| collector.shared.is_closed())
    }
}

/// A batch of requests, and the position of its next request.
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
    /// Requests to be repeated, sorted by time and a unique number.
    waiting: BTreeMap<(Millis, u64), TaskRequest>,
    waited: u64,
}

impl RequestQueue {
    pub(super) fn push(&mut self, collector: Rc<ReplyCollector>, requests: RequestBatch, submitted: u64) {
        self.count += requests.len();
        self.batches.push_back(QueuedBatch { collector, requests, submitted, next: 0 });
    }

    /// Schedules a request to be repeated at this time.
    pub(super) fn wait(&mut self, request: TaskRequest, until: Millis) {
        self.waited += 1;
        self.waiting.insert((until, self.waited), request);
    }

    /// Takes the next request. Passes the batch to `used` if this was its last request.
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
        // The last request of a batch might already have been taken as the wanted request.
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

    /// Takes the request that all other replies are waiting for, if it is in this queue.
    pub(super) fn take_wanted(&mut self, request: &mut TaskRequest, now: Millis) -> bool {
        let due = self.waiting.range(..=(now, u64::MAX)).find(|(_, request)| request.is_wanted());
        if let Some(key) = due.map(|(key, _)| *key) {
            return self.waiting.remove(&key).map(|due| *request = due).is_some();
        }
        // The wanted request is the first of its stream.
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

    /// Removes the requests of dropped streams.
    pub(super) fn forget_dropped(&mut self) {
        self.batches.retain(|batch| {
            let is_dropped = batch.collector.shared.is_closed();
            self.count -= if is_dropped { batch.requests.len() - batch.next } else { 0 };
            !is_dropped
        });
        self.waiting.retain(|_, request| !request.is_dropped());
    }

    /// Returns how many requests can start now.
    pub(super) fn ready(&self, now: Millis) -> usize {
        self.count + self.waiting.range(..=(now, u64::MAX)).count()
    }

    /// Returns whether no requests are left, whether ready or waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.waiting.is_empty()
    }
}
