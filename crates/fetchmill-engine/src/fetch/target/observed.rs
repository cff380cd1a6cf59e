//! Observations made during the attempts at a target, for its row in a check.

use std::net::SocketAddr;

use fetchmill_model::http1::{Framing, Head, Version};
use fetchmill_model::object::Micros;
use fetchmill_model::target::extra_columns::write_extra;
use fetchmill_net::{Connection, Phases};

/// Observations of an attempt so far. The memory is reused.
#[derive(Debug, Default)]
pub(crate) struct ObservedReply {
    /// Start of the attempt. 0 before it starts.
    pub(crate) started_at: Micros,
    /// Status of the reply. 0 before its head arrives.
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
    pub(crate) content_type: Vec<u8>,
    pub(crate) body_bytes: u64,
    pub(crate) version: Option<Version>,
    /// Address of the last connection or connection attempt.
    pub(crate) address: Option<SocketAddr>,
    /// Durations of the phases, summed over all redirects.
    pub(crate) phases: Phases,
    /// URLs that redirects led to, [as kept values](write_extra).
    pub(crate) hops: Vec<u8>,
}

impl ObservedReply {
    /// Discards all observations.
    pub(crate) fn clear(&mut self) {
        self.started_at = 0;
        self.address = None;
        self.phases = Phases::default();
        self.hops.clear();
        self.forget_reply();
    }

    /// Adds this connection's times to those of earlier connections.
    pub(crate) fn connection(&mut self, connection: &Connection) {
        let phases = connection.phases();
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = sum.map_or(more, |sum| Some(sum + more.unwrap_or(0)));
        };
        // The lookup time is counted by the code that requests the address.
        add(&mut self.phases.connect, phases.connect);
        add(&mut self.phases.tls, phases.tls);
        add(&mut self.phases.first_byte, phases.first_byte);
        self.phases.started = self.phases.started.or(phases.started);
        self.address = connection.address();
        self.version = connection.version();
    }

    /// Records a redirect to this URL.
    pub(crate) fn hop(&mut self, url: &str) {
        write_extra(std::iter::once(Some(url.as_bytes())), &mut self.hops);
    }

    /// Discards the reply, because the attempt continues with another URL or connection.
    pub(crate) fn forget_reply(&mut self) {
        self.status = 0;
        self.content_length = None;
        self.content_type.clear();
        self.body_bytes = 0;
    }

    /// Records a received head.
    pub(crate) fn head(&mut self, head: &Head, bytes: &[u8]) {
        self.forget_reply();
        self.status = head.status;
        if let Framing::Length(length) = head.framing {
            self.content_length = Some(length);
        }
        if let Some(span) = head.kept.content_type {
            self.content_type.extend_from_slice(span.in_head(bytes));
        }
    }

    /// Records `length` received body bytes.
    pub(crate) fn piece(&mut self, length: usize) {
        self.body_bytes += length as u64;
    }

    /// Takes the reply that was observed during an exchange.
    pub(crate) fn take_reply(&mut self, other: &mut ObservedReply) {
        self.status = other.status;
        self.content_length = other.content_length;
        std::mem::swap(&mut self.content_type, &mut other.content_type);
        self.body_bytes = other.body_bytes;
    }
}
