//! How a thread finds addresses: by asking name servers itself, or as all programs of this machine do.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use super::dns::{Asked, Dns, DnsSetup, How, Lanes, Looked};
use super::{Millis, Resolver};
use crate::limits;
use crate::outcome::FailureKind;

/// What all threads have in common.
#[derive(Debug, Clone)]
pub enum NameSetup {
    /// The system's look-up (`getaddrinfo`): it knows what only this machine knows, and takes a thread for each name.
    System(Resolver),
    /// Our own look-up.
    Own(Arc<DnsSetup>, Lanes),
}

impl NameSetup {
    /// As a user says: by the system, by these name servers, or by those of the system's configuration. So many threads
    /// share the places of names that are looked up.
    pub fn new(is_system: bool, servers: &[SocketAddr], threads: usize) -> Self {
        if is_system {
            return NameSetup::System(Resolver::new());
        }
        let mut setup = DnsSetup::from_system();
        if !servers.is_empty() {
            setup = setup.with_upstreams(servers.to_vec());
        }
        NameSetup::Own(Arc::new(setup), Lanes::of(threads))
    }
}

/// See the module; one thread's.
#[derive(Debug)]
pub enum Names {
    /// See [`NameSetup::System`].
    System(SystemNames),
    /// See [`NameSetup::Own`].
    Own(Dns),
}

/// The system's look-up for who asks for many names at once.
#[derive(Debug)]
pub struct SystemNames {
    resolver: Resolver,
    shared: Rc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Cell<usize>,
    answered: RefCell<Vec<(u64, Looked)>>,
    news: Notify,
}

impl Names {
    /// Without any name known. `clock` is what the thread's tick sets.
    pub fn new(setup: &NameSetup, clock: &Rc<Cell<Millis>>) -> Self {
        match setup {
            NameSetup::System(resolver) => {
                Names::System(SystemNames { resolver: resolver.clone(), shared: Rc::default() })
            }
            NameSetup::Own(setup, lanes) => Names::Own(Dns::new(Arc::clone(setup), *lanes, Rc::clone(clock))),
        }
    }

    /// Asks for a name; the token comes back with the answer, see [`Dns::ask`].
    pub fn ask(&self, name: &str, token: u64, how: How) -> Asked {
        match self {
            Names::System(system) => system.ask(name, token),
            Names::Own(dns) => dns.ask(name, token, how),
        }
    }

    /// See [`Dns::take_answered`].
    pub fn take_answered(&self) -> Vec<(u64, Looked)> {
        match self {
            Names::System(system) => system.shared.answered.take(),
            Names::Own(dns) => dns.take_answered(),
        }
    }

    /// See [`Dns::answered`].
    pub async fn answered(&self) {
        match self {
            Names::System(system) => system.shared.news.notified().await,
            Names::Own(dns) => dns.answered().await,
        }
    }

    /// Whether a name that is slow would be given up.
    pub fn is_slow_full(&self) -> bool {
        matches!(self, Names::Own(dns) if dns.is_slow_full())
    }

    /// See [`Dns::tick`].
    pub fn tick(&self) {
        if let Names::Own(dns) = self {
            dns.tick();
        }
    }

    /// The addresses of a host, at most eight; it fails with a kind of DNS.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Arc<[SocketAddr]>, FailureKind> {
        match self {
            Names::System(system) => system.resolver.resolve(host, port).await,
            Names::Own(dns) => {
                let found = dns.resolve(host).await?;
                Ok(found.iter().map(|address| SocketAddr::new(*address, port)).collect())
            }
        }
    }
}

impl SystemNames {
    fn ask(&self, name: &str, token: u64) -> Asked {
        if self.shared.asked.get() >= limits::DNS_FAST_MAX {
            return Asked::Full;
        }
        self.shared.asked.set(self.shared.asked.get() + 1);
        let (shared, resolver, name) = (Rc::clone(&self.shared), self.resolver.clone(), name.to_owned());
        tokio::task::spawn_local(async move {
            let found = resolver.resolve(&name, 0).await;
            let answer = found.map(|found| found.iter().map(SocketAddr::ip).collect());
            shared.asked.set(shared.asked.get() - 1);
            shared.answered.borrow_mut().push((token, Looked::Answer(answer)));
            shared.news.notify_one();
        });
        Asked::Started
    }
}
