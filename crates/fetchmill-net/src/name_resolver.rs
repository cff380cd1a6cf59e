//! Name resolution for a thread, either by querying name servers directly or with the system's lookup.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use super::dns::{Dns, DnsSetup, LookUpEnd, LookUpKind, LookUpStart, SlotLimits};
use super::{Millis, Resolver};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

/// Settings shared by all threads.
#[derive(Debug, Clone)]
pub enum NameResolverSetup {
    /// The system's lookup (`getaddrinfo`). It also finds names that are configured only on this machine, but each
    /// lookup occupies a thread.
    System(Resolver),
    /// fetchmill's own lookup.
    Own(Arc<DnsSetup>, SlotLimits),
}

impl NameResolverSetup {
    /// Creates the setup from the user's options: the system's lookup, the given name servers, or the configured ones.
    /// All `threads` threads share the slots.
    pub fn new(is_system: bool, servers: &[SocketAddr], threads: usize) -> Self {
        if is_system {
            return NameResolverSetup::System(Resolver::new());
        }
        let mut setup = DnsSetup::from_system();
        if !servers.is_empty() {
            setup = setup.with_upstreams(servers.to_vec());
        }
        NameResolverSetup::Own(Arc::new(setup), SlotLimits::of(threads))
    }
}

/// A thread's resolver.
#[derive(Debug)]
pub enum NameResolver {
    /// See [`NameResolverSetup::System`].
    System(SystemResolver),
    /// See [`NameResolverSetup::Own`].
    Own(Dns),
}

/// The system's lookup, with tokens for callers that request many names at a time.
#[derive(Debug)]
pub struct SystemResolver {
    resolver: Resolver,
    shared: Rc<SystemResolverState>,
}

#[derive(Debug, Default)]
struct SystemResolverState {
    asked: Cell<usize>,
    answered: RefCell<Vec<(u64, LookUpEnd)>>,
    news: Notify,
}

impl NameResolver {
    /// Creates a resolver with an empty cache. The thread's tick sets `clock`.
    pub fn new(setup: &NameResolverSetup, clock: &Rc<Cell<Millis>>) -> Self {
        match setup {
            NameResolverSetup::System(resolver) => {
                NameResolver::System(SystemResolver { resolver: resolver.clone(), shared: Rc::default() })
            }
            NameResolverSetup::Own(setup, slots) => {
                NameResolver::Own(Dns::new(Arc::clone(setup), *slots, Rc::clone(clock)))
            }
        }
    }

    /// Requests the lookup of a name. The answer is returned with the token. See [`Dns::ask`].
    pub fn ask(&self, name: &str, token: u64, how: LookUpKind) -> LookUpStart {
        match self {
            NameResolver::System(system) => system.ask(name, token),
            NameResolver::Own(dns) => dns.ask(name, token, how),
        }
    }

    /// See [`Dns::take_answered`].
    pub fn take_answered(&self) -> Vec<(u64, LookUpEnd)> {
        match self {
            NameResolver::System(system) => system.shared.answered.take(),
            NameResolver::Own(dns) => dns.take_answered(),
        }
    }

    /// See [`Dns::answered`].
    pub async fn answered(&self) {
        match self {
            NameResolver::System(system) => system.shared.news.notified().await,
            NameResolver::Own(dns) => dns.answered().await,
        }
    }

    /// Returns whether a slow name would be deferred.
    pub fn is_slow_full(&self) -> bool {
        matches!(self, NameResolver::Own(dns) if dns.is_slow_full())
    }

    /// See [`Dns::tick`].
    pub fn tick(&self) {
        if let NameResolver::Own(dns) = self {
            dns.tick();
        }
    }

    /// Returns up to eight addresses of a host. A failure is always of a DNS kind.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Arc<[SocketAddr]>, FailureKind> {
        match self {
            NameResolver::System(system) => system.resolver.resolve(host, port).await,
            NameResolver::Own(dns) => {
                let found = dns.resolve(host).await?;
                Ok(found.iter().map(|address| SocketAddr::new(*address, port)).collect())
            }
        }
    }
}

impl SystemResolver {
    fn ask(&self, name: &str, token: u64) -> LookUpStart {
        if self.shared.asked.get() >= limits::DNS_FAST_MAX {
            return LookUpStart::Full;
        }
        self.shared.asked.set(self.shared.asked.get() + 1);
        let (shared, resolver, name) = (Rc::clone(&self.shared), self.resolver.clone(), name.to_owned());
        tokio::task::spawn_local(async move {
            let found = resolver.resolve(&name, 0).await;
            let answer = found.map(|found| found.iter().map(SocketAddr::ip).collect());
            shared.asked.set(shared.asked.get() - 1);
            shared.answered.borrow_mut().push((token, LookUpEnd::Answer(answer)));
            shared.news.notify_one();
        });
        LookUpStart::Started
    }
}
