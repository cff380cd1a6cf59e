//! Measures the TCP connect time to a server that the job is connected to. The server's kernel answers even if its
//! program is busy. Any excess over the shortest time is therefore caused by a queue in the network. The connection is
//! closed immediately.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use fetchmill_model::limits::{CONNECT_PROBE_EVERY, CONNECT_PROBE_FIRST, CONNECT_PROBE_MAX};

#[derive(Debug)]
struct Connecting {
    socket: Socket,
    since: Instant,
}

/// Prober that runs at most one probe at a time. The longer probes are needed, the less often they run.
#[derive(Debug)]
pub(crate) struct ConnectProbe {
    connecting: Option<Connecting>,
    last: Option<Instant>,
    /// Delay before the next probe.
    pause: Duration,
}

impl Default for ConnectProbe {
    fn default() -> Self {
        ConnectProbe { connecting: None, last: None, pause: CONNECT_PROBE_FIRST }
    }
}

impl ConnectProbe {
    /// Records that no probe is needed now, so that the next one can start promptly.
    pub(crate) fn rest(&mut self) {
        self.pause = CONNECT_PROBE_FIRST;
    }

    /// Starts connecting, unless a probe ran recently. Ignores errors on this machine.
    pub(crate) fn start(&mut self, peer: SocketAddr) {
        if self.connecting.is_some() || self.last.is_some_and(|last| last.elapsed() < self.pause) {
            return;
        }
        self.pause = if self.last.is_some() { (self.pause * 2).min(CONNECT_PROBE_EVERY) } else { self.pause };
        self.last = Some(Instant::now());
        let Ok(socket) = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP)) else {
            return;
        };
        if socket.set_nonblocking(true).is_err() {
            return;
        }
        let since = Instant::now();
        // The connection succeeds or fails in the background.
        let _ = socket.connect(&peer.into());
        self.connecting = Some(Connecting { socket, since });
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.connecting.is_some()
    }

    /// Waits up to `patience` and returns the connect time if the connection succeeds. Times above one second count as
    /// one second.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<Duration> {
        let Connecting { socket, since } = self.connecting.as_ref()?;
        let mut descriptors = [PollFd::new(socket, PollFlags::OUT)];
        let timeout = Timespec::try_from(patience).ok()?;
        let is_over = poll(&mut descriptors, Some(&timeout)).is_ok_and(|ready| ready > 0);
        let took = since.elapsed();
        if !is_over && took < CONNECT_PROBE_MAX {
            return None;
        }
        let is_refused = is_over && !matches!(socket.take_error(), Ok(None));
        self.connecting = None;
        (!is_refused).then_some(took)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    #[test]
    fn connecting_is_timed_and_not_done_all_the_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let mut probe = ConnectProbe::default();
        assert_eq!(probe.wait(PATIENCE), None, "no probe is running");

        probe.start(peer);
        assert!(probe.is_under_way());
        let took = probe.wait(PATIENCE).unwrap();

        assert!(took < CONNECT_PROBE_MAX);
        probe.start(peer);
        assert!(!probe.is_under_way(), "it is too soon");
    }

    #[test]
    fn a_refusal_is_no_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        drop(listener);
        let mut probe = ConnectProbe::default();

        probe.start(peer);

        assert_eq!(probe.wait(PATIENCE), None);
        assert!(!probe.is_under_way());
    }
}
