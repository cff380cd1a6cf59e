//! Tests of lookups against servers in this process. The tests control every byte of the answers, and the clock.

mod answers;
mod cached;
mod fake;
mod forged;
mod slots;
mod tries;

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use fake::Fake;

/// Maximum time to wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);
const SLOTS: SlotLimits = SlotLimits { fast: 256, slow: 8192 };

/// The resolver of a thread, and its clock.
#[derive(Clone)]
struct Thread {
    dns: Dns,
    clock: Rc<Cell<Millis>>,
}

impl Thread {
    fn new(setup: DnsSetup, slots: SlotLimits) -> Self {
        let clock = Rc::new(Cell::new(1_000_000));
        Thread { dns: Dns::new(Arc::new(setup), slots, Rc::clone(&clock)), clock }
    }

    /// Creates a resolver that queries these servers in this order.
    fn asking(servers: &[&Fake]) -> Self {
        Thread::new(setup(servers), SLOTS)
    }

    /// Resolves a name without advancing the clock.
    async fn resolve(&self, name: &str) -> Resolution {
        tokio::time::timeout(PATIENCE, self.dns.resolve(name)).await.unwrap()
    }

    /// Resolves a name while the clock advances. Also returns how much time has passed.
    async fn resolve_in_time(&self, name: &str) -> (Resolution, Millis) {
        let started = self.clock.get();
        let answer = self.dns.resolve(name);
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return (answer, self.clock.get() - started),
                () = self.pass(50) => assert!(self.clock.get() < started + 100_000, "no answer"),
            }
        }
    }

    /// Advances the clock tick by tick, pausing after each tick so that answers can arrive.
    async fn pass(&self, millis: Millis) {
        for _ in 0..millis / 50 {
            self.clock.set(self.clock.get() + 50);
            self.dns.tick();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits for this number of answers.
    async fn take(&self, count: usize) -> Vec<(u64, LookUpEnd)> {
        let mut taken = Vec::new();
        while taken.len() < count {
            tokio::time::timeout(PATIENCE, self.dns.answered()).await.unwrap();
            taken.extend(self.dns.take_answered());
        }
        taken
    }
}

/// Settings for looking up only IPv4 addresses, for exactly the given names.
fn setup(servers: &[&Fake]) -> DnsSetup {
    let mut setup = DnsSetup::of("", "", Families::V4);
    setup.upstreams = servers.iter().map(|server| server.address).collect();
    setup
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .unwrap();
    runtime.block_on(test);
}

/// Returns an address at which nothing is listening.
fn closed() -> SocketAddr {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn texts(answer: Resolution) -> Vec<String> {
    answer.unwrap().iter().map(ToString::to_string).collect()
}
