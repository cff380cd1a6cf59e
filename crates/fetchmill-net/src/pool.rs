//! A thread's connections, grouped by origin. Tasks own the connections in use, and the pool keeps the unused ones.
//!
//! Nothing here is shared between threads. The pool holds up to `ORIGINS_HELD_MAX` origins, and at most as many
//! connections as there are tasks that may need one.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::connection_kind::{ConnectionCount, ConnectionKind, OwnHttp1, SharedHttp2};
use super::http2::Http2Connection;
use super::origin_connections::{ConnectGuard, OriginConnections};
use super::phases::{ConnectionSetup, since};
use super::proxy::{Proxy, ProxySetup, tunnel};
use super::tls::{TlsOptions, TlsSetup};
use super::{
    AddressPolicy, Alpn, ByteStream, ConnectFailure, Connection, Deadlines, Http1Connection, IdleState,
    Millis, NameResolver, NameResolverSetup, Paces, Timeouts, Tls, connect,
};
use fetchmill_model::cookies::{CookieFile, RequestPlace};
use fetchmill_model::error::Result;
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::limits;
use fetchmill_model::origin::{Authority, OriginFields, OriginKey};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::{MonotonicMicros, SILENCE_MIN};
use fetchmill_model::reply::patience::Patience;
use fetchmill_model::target::TargetList;

/// Settings for all connections of a thread.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// See [`Timeouts`].
    pub timeouts: Timeouts,
    /// Maximum size of a body in bytes.
    pub max_body: u64,
    /// Maximum number of connections. It equals the number of tasks.
    pub connections: usize,
    /// Header fields of every request.
    pub fields: OriginFields,
    /// Signs requests, and selects the origins whose requests are signed. These requests use HTTP/1.1, and each gets
    /// its own signed fields.
    pub authority: Option<Arc<dyn Authority>>,
    /// Rate limits per host, if any.
    pub paces: Option<Arc<Paces>>,
    /// TLS configuration, including the trusted authorities.
    pub tls: Arc<TlsSetup>,
    /// Name lookup settings.
    pub names: NameResolverSetup,
    /// Maximum number of unused connections to keep.
    pub idle_max: usize,
    /// Proxy between this machine and the origins.
    pub proxy: Option<Arc<ProxySetup>>,
    /// Addresses that connections may lead to. They are checked after each lookup, and connections use only the checked
    /// addresses. If a proxy resolves names, the addresses are not checked.
    pub reach: AddressPolicy,
    /// Whether to time the phases of attempts. This costs additional clock reads.
    pub times_phases: bool,
    /// Initial patience with each origin.
    pub patience: Patience,
    /// The user's cookies, with the origins that receive them.
    pub cookies: Option<Arc<CookieFile>>,
}

/// Failure if only public addresses are allowed, but the address is not public.
const PRIVATE: ConnectFailure = ConnectFailure::Failed(FailureKind::PrivateAddress);

/// A thread's connections.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    names: NameResolver,
    clock: Rc<Cell<Millis>>,
    origins: RefCell<HashMap<OriginKey, Rc<OriginConnections>>>,
    /// Origins, in the order in which their connections became unused. Entries may be outdated.
    order: RefCell<VecDeque<Rc<OriginConnections>>>,
    /// Number of unused connections.
    idle: Cell<usize>,
    open: Rc<Cell<usize>>,
    /// See [`Pool::take_connect_time`].
    connect_time: Cell<Option<Duration>>,
    /// See [`Pool::take_doubtful`].
    doubtful: RefCell<Vec<TargetList>>,
    /// TLS setups, at most one per combination of parameters.
    tls: RefCell<HashMap<TlsForm, Tls>>,
}

/// Parameters that distinguish the TLS setups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TlsForm {
    /// See [`OriginConnections::wants_http1`].
    wants_http1: bool,
    /// Whether to present the client certificate. Sessions opened with it are never resumed with other origins.
    shows_certificate: bool,
}

impl Pool {
    /// Creates an empty pool. The thread's tick sets `clock`.
    pub fn new(settings: PoolSettings, clock: Rc<Cell<Millis>>) -> Self {
        Pool {
            names: NameResolver::new(&settings.names, &clock),
            settings,
            clock,
            origins: RefCell::default(),
            order: RefCell::default(),
            idle: Cell::default(),
            open: Rc::default(),
            connect_time: Cell::new(None),
            doubtful: RefCell::default(),
            tls: RefCell::default(),
        }
    }

    /// Advances the clock. Repeats or ends lookups that are due.
    pub fn tick(&self, now: Millis) {
        self.clock.set(now);
        self.names.tick();
    }

    /// Returns the pool's resolver.
    pub fn names(&self) -> &NameResolver {
        &self.names
    }

    /// Returns the number of open connections, both used and unused.
    pub fn open_connections(&self) -> usize {
        self.open.get()
    }

    /// Adds an origin with its own template. If `addresses` is `None`, its host is looked up.
    pub fn add(
        &self,
        key: OriginKey,
        template: RequestTemplate,
        addresses: Option<Arc<[SocketAddr]>>,
    ) -> Rc<OriginConnections> {
        let origin = Rc::new(OriginConnections {
            pace: self.settings.paces.as_ref().map(|paces| paces.of(key.host())),
            template,
            replies: RefCell::default(),
            patience: Rc::new(RefCell::new(self.settings.patience.clone())),
            late_replies: Cell::new(0),
            authorize: self.settings.authority.as_ref().and_then(|authority| authority.of(&key)),
            is_named: self.settings.authority.as_ref().is_some_and(|authority| authority.is_named(&key)),
            signed: RefCell::default(),
            fields: self.settings.fields.clone(),
            file_cookies: self
                .settings
                .cookies
                .as_ref()
                .map_or_else(Vec::new, |file| file.of_origin(&RequestPlace::at(&key, "/"))),
            addresses,
            idle: RefCell::default(),
            protocol: Cell::new(None),
            needs_http1: Cell::new(false),
            shared: RefCell::default(),
            streams: Cell::new(usize::MAX),
            parts: RefCell::default(),
            is_connecting: Cell::new(false),
            connected: Notify::new(),
            key,
        });
        self.origins.borrow_mut().insert(origin.key.clone(), Rc::clone(&origin));
        origin
    }

    /// Returns the origin with this key.
    pub fn origin(&self, key: &OriginKey) -> Result<Rc<OriginConnections>> {
        if let Some(origin) = self.origins.borrow().get(key) {
            return Ok(Rc::clone(origin));
        }
        self.forget_some();
        let fields = self.settings.fields.of(key);
        let template = match self.proxy_of(key).filter(|proxy| proxy.asks_itself(key)) {
            Some(proxy) => {
                RequestTemplate::for_proxy(key.authority(), "/", "", &fields, proxy.authorization())?
            }
            None => RequestTemplate::new(key.authority(), "/", "", &fields)?,
        };
        Ok(self.add(key.clone(), template, None))
    }

    /// Returns the proxy for an origin.
    pub fn proxy_of(&self, key: &OriginKey) -> Option<&Proxy> {
        self.settings.proxy.as_ref()?.proxy_of(key)
    }

    /// Removes unused origins if there is no room for another one.
    fn forget_some(&self) {
        if self.origins.borrow().len() < limits::ORIGINS_HELD_MAX {
            return;
        }
        self.order.borrow_mut().clear();
        let mut origins = self.origins.borrow_mut();
        origins.retain(|_, origin| Rc::strong_count(origin) > 1);
        origins.values().for_each(|origin| origin.idle.borrow_mut().clear());
        self.idle.set(0);
    }

    /// Moves a task to an origin. Keeps the task's old connection for other tasks, and gives the task an unused
    /// connection to the origin if there is one.
    pub fn switch(&self, connection: &mut Connection, origin: &Rc<OriginConnections>) {
        self.put(connection);
        connection.come_to(origin, self.settings.times_phases);
        while !connection.is_open() {
            let Some((link, since)) = origin.idle.borrow_mut().pop_back() else { return };
            self.idle.set(self.idle.get() - 1);
            let age = self.clock.get().saturating_sub(since);
            if age < limits::KEEP_ALIVE_IDLE.as_millis() as Millis && self.is_quiet(&link) {
                connection.take(link, age * 1000);
            }
        }
    }

    /// Moves a task to an origin without giving it a connection, so that the next request opens a new one.
    pub fn switch_to_fresh(&self, connection: &mut Connection, origin: &Rc<OriginConnections>) {
        self.put(connection);
        connection.come_to(origin, self.settings.times_phases);
    }

    /// Moves a task to a connection on which the next reply can only answer the task's next request. This is the
    /// connection that has been silent longest, if it was silent for long enough. Otherwise, the task's next request
    /// opens a new connection. The clock must have just been set.
    pub fn switch_to_rested(&self, connection: &mut Connection, origin: &Rc<OriginConnections>) {
        self.put(connection);
        connection.come_to(origin, self.settings.times_phases);
        while !connection.is_open() {
            let mut idle = origin.idle.borrow_mut();
            let Some((_, since)) = idle.front() else { return };
            let waited = self.clock.get().saturating_sub(*since);
            // The clock was read at the start and at the end of the wait. Each reading may be up to a millisecond
            // early.
            if waited <= SILENCE_MIN / 1000 {
                return;
            }
            let Some((link, _)) = idle.pop_front() else { return };
            drop(idle);
            self.idle.set(self.idle.get() - 1);
            if waited < limits::KEEP_ALIVE_IDLE.as_millis() as Millis && self.is_quiet(&link) {
                connection.take(link, waited * 1000);
            }
        }
    }

    /// Returns whether nothing has arrived on an unused connection. If bytes arrived after its replies became certain,
    /// those replies are doubtful.
    fn is_quiet(&self, link: &ConnectionKind) -> bool {
        let unused = link.look();
        if unused.is_surplus()
            && let ConnectionKind::Http1(own) = link
            && !own.last_certain.borrow().is_empty()
        {
            self.doubtful.borrow_mut().push(own.last_certain.take());
        }
        unused == IdleState::Quiet
    }

    /// Takes the targets of doubtful replies: they were certain, but more bytes arrived on their connection later.
    pub fn take_doubtful(&self) -> Vec<TargetList> {
        self.doubtful.take()
    }

    /// Closes all unused connections, after checking each one for unsolicited bytes.
    pub fn close_idle(&self) {
        while self.close_oldest() {}
    }

    /// Returns how long the last TCP connect took. `None` if there was none since the previous call. Connections to a
    /// proxy do not count.
    pub fn take_connect_time(&self) -> Option<Duration> {
        self.connect_time.take()
    }

    /// Keeps a task's connection for other tasks.
    pub fn put(&self, connection: &mut Connection) {
        let (Some(origin), Some(link)) = (connection.origin.take(), connection.link.take()) else { return };
        origin.idle.borrow_mut().push_back((link, self.clock.get()));
        self.idle.set(self.idle.get() + 1);
        let mut order = self.order.borrow_mut();
        order.push_back(origin);
        if order.len() > 2 * self.settings.connections + 16 {
            leave_out_vain(&mut order);
        }
        drop(order);
        if self.idle.get() > self.settings.idle_max {
            self.close_oldest();
        }
    }

    /// Closes the connection that has been unused for longest. Returns `false` if the pool has no unused connections.
    fn close_oldest(&self) -> bool {
        loop {
            let Some(origin) = self.order.borrow_mut().pop_front() else { return false };
            let oldest = origin.idle.borrow_mut().pop_front();
            if let Some((link, _)) = oldest {
                self.is_quiet(&link);
                self.idle.set(self.idle.get() - 1);
                return true;
            }
        }
    }

    /// See [`OriginReplies::note_fewer`](fetchmill_model::reply::certainty::OriginReplies::note_fewer).
    pub fn note_fewer(&self, before: usize, requests: usize, now: MonotonicMicros) {
        let origins = self.origins.borrow();
        origins.values().for_each(|origin| origin.replies.borrow_mut().note_fewer(before, requests, now));
    }

    /// Closes connections that were unused for too long. While more than `needed` connections are open, the limit is
    /// `surplus`. The most recently used connection is always reused first, so the connections closed here are surplus.
    pub fn sweep(&self, needed: usize, surplus: Duration) {
        let now = self.clock.get();
        let is_old = |since: Millis| {
            let kept = if self.open.get() > needed { surplus } else { limits::KEEP_ALIVE_IDLE };
            now.saturating_sub(since) >= kept.as_millis() as Millis
        };
        loop {
            let Some(origin) = self.order.borrow().front().cloned() else { return };
            let oldest = origin.idle.borrow().front().map(|(_, since)| *since);
            if oldest.is_some_and(|since| !is_old(since)) {
                return;
            }
            // The first entry was obsolete, or its connection is closed now.
            let closed = origin.idle.borrow_mut().pop_front();
            if let Some((link, _)) = closed {
                self.is_quiet(&link);
                self.idle.set(self.idle.get() - 1);
            }
            self.order.borrow_mut().pop_front();
        }
    }

    /// Opens a connection to the task's origin, or takes a share of one. Both the settings and `reach` must allow the
    /// address, because a redirect may be more restricted. If either does not, fails with `private-address`.
    pub async fn open(
        &self,
        connection: &mut Connection,
        watch: &Deadlines,
        reach: AddressPolicy,
    ) -> std::result::Result<(), ConnectFailure> {
        self.open_at(connection, watch, reach, None).await
    }

    /// Opens a connection that a job needs to continue. If this machine is out of descriptors or ports, retries for a
    /// while, because other connections may be closed and free theirs.
    pub async fn open_when_able(
        &self,
        connection: &mut Connection,
        watch: &Deadlines,
        reach: AddressPolicy,
    ) -> std::result::Result<(), ConnectFailure> {
        let until = Instant::now() + limits::EXHAUSTED_WAIT;
        loop {
            match self.open(connection, watch, reach).await {
                Err(ConnectFailure::Exhausted(_)) if Instant::now() < until => {
                    tokio::time::sleep(limits::EXHAUSTED_PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Opens a connection to a host whose addresses are known. Uses these addresses even if they are old, because
    /// another lookup may return different ones.
    pub async fn open_at(
        &self,
        connection: &mut Connection,
        watch: &Deadlines,
        reach: AddressPolicy,
        found: Option<&Arc<[IpAddr]>>,
    ) -> std::result::Result<(), ConnectFailure> {
        let Some(origin) = connection.origin.clone() else {
            return Err(ConnectFailure::Failed(FailureKind::Unreachable));
        };
        // The connection attempt has its own deadline. The watch interrupts it only when the whole job ends.
        watch.rest();
        let settings = &self.settings;
        let own = if origin.is_named { AddressPolicy::Anywhere } else { settings.reach };
        let mut opening =
            ConnectionSetup::new(reach.max(own), watch, settings.timeouts, settings.times_phases);
        opening.found = found.cloned();
        let made = tokio::select! {
            made = self.link(&origin, &mut opening) => made,
            kind = watch.expired() => Err(ConnectFailure::Failed(kind)),
        };
        if made.is_err() {
            watch.not_connected();
        }
        let (link, done) = made.map_or_else(|failure| (None, Err(failure)), |link| (Some(link), Ok(())));
        connection.opened(link, opening.phases);
        done
    }

    async fn link(
        &self,
        origin: &OriginConnections,
        opening: &mut ConnectionSetup<'_>,
    ) -> std::result::Result<ConnectionKind, ConnectFailure> {
        while origin.may_share(self.settings.tls.options.http2) {
            if let Some(link) = origin.share(opening.reach) {
                return Ok(link);
            }
            if !origin.is_connecting.replace(true) {
                let _connecting = ConnectGuard(origin);
                let made = self.connect(origin, opening).await;
                if matches!(made, Err(failure) if failure != PRIVATE) {
                    // Until the origin has been reached, each waiting request opens its own connection. If the requests
                    // kept waiting, they would fail one after another.
                    origin.protocol.set(Some(Alpn::Http1));
                }
                return made;
            }
            origin.connected.notified().await;
        }
        self.connect(origin, opening).await
    }

    async fn connect(
        &self,
        origin: &OriginConnections,
        opening: &mut ConnectionSetup<'_>,
    ) -> std::result::Result<ConnectionKind, ConnectFailure> {
        if self.open.get() >= self.settings.connections {
            self.close_oldest();
        }
        let counted = ConnectionCount::new(&self.open);
        let addresses = self.addresses(origin, opening).await?;
        let behind = self.address_behind_proxy(origin, opening).await?;
        opening.begin();
        let start = opening.now();
        let began = Instant::now();
        let reached = self.reach(origin, &addresses, behind, opening).await;
        opening.phases.connect = since(start);
        let (stream, address) = reached?;
        let is_direct = self.proxy_of(&origin.key).is_none();
        self.connect_time.set(is_direct.then(|| began.elapsed()));
        let http1 = |stream: ByteStream, counted| {
            let connection = Http1Connection::new(stream, self.settings.max_body);
            let connection = connection.timed(self.settings.times_phases);
            Ok(ConnectionKind::Http1(Box::new(OwnHttp1::new(connection, address, counted))))
        };
        if !origin.key.is_tls() {
            return http1(stream.into(), counted);
        }
        let tls = self.tls(origin).map_err(|_| ConnectFailure::Failed(FailureKind::Tls))?;
        let start = opening.now();
        let secured = tls.start(stream, origin.key.host(), opening.patience()).await;
        opening.phases.tls = since(start);
        let (stream, alpn) = secured.map_err(ConnectFailure::Failed)?;
        origin.protocol.set(Some(alpn));
        match alpn {
            Alpn::Http1 => http1(stream.into(), counted),
            Alpn::Http2 => {
                let http2 = Http2Connection::start(stream).await.map_err(ConnectFailure::Failed)?;
                let shared = Rc::new(SharedHttp2 { http2, address, _counted: counted });
                origin.shared.borrow_mut().push(Rc::downgrade(&shared));
                Ok(ConnectionKind::Http2(shared))
            }
        }
    }

    /// Returns the addresses of the proxy or the origin, whichever is connected to. The policy must allow all addresses
    /// of the origin.
    async fn addresses(
        &self,
        origin: &OriginConnections,
        opening: &mut ConnectionSetup<'_>,
    ) -> std::result::Result<Arc<[SocketAddr]>, ConnectFailure> {
        let proxy = self.proxy_of(&origin.key);
        if !opening.reach.allows_host(origin.key.host()) {
            return Err(PRIVATE);
        }
        let (host, port) = match proxy {
            Some(proxy) => (proxy.host.as_str(), proxy.port),
            None => (origin.key.host(), origin.key.port()),
        };
        let addresses = if let Some(addresses) = &origin.addresses {
            Arc::clone(addresses)
        } else if let Some(found) = opening.found.as_ref().filter(|_| proxy.is_none()) {
            found.iter().map(|address| SocketAddr::new(*address, port)).collect()
        } else {
            let start = opening.now().filter(|_| host.parse::<IpAddr>().is_err());
            let found = self.names.resolve(host, port).await;
            opening.phases.dns = since(start);
            found.map_err(|kind| of_way(kind, proxy))?
        };
        if proxy.is_none() && !addresses.iter().all(|address| opening.reach.allows(address.ip())) {
            return Err(PRIVATE);
        }
        Ok(addresses)
    }

    /// Returns the origin's address for the proxy to connect to, if the proxy accepts addresses. All addresses of the
    /// origin must be allowed. Returns `None` if there is no such proxy.
    async fn address_behind_proxy(
        &self,
        origin: &OriginConnections,
        opening: &ConnectionSetup<'_>,
    ) -> std::result::Result<Option<SocketAddr>, ConnectFailure> {
        let key = &origin.key;
        if !self.proxy_of(key).is_some_and(Proxy::takes_addresses) {
            return Ok(None);
        }
        let found = self.names.resolve(key.host(), key.port()).await.map_err(ConnectFailure::Failed)?;
        if !found.iter().all(|address| opening.reach.allows(address.ip())) {
            return Err(PRIVATE);
        }
        // The proxy may not support IPv6, but nearly all proxies support IPv4.
        Ok(found.iter().find(|address| address.is_ipv4()).or(found.first()).copied())
    }

    /// Connects to one of `addresses` and returns the remote address. Through a tunnelling proxy, the connection leads
    /// to the origin, and the returned address is `behind`.
    async fn reach(
        &self,
        origin: &OriginConnections,
        addresses: &[SocketAddr],
        behind: Option<SocketAddr>,
        opening: &ConnectionSetup<'_>,
    ) -> std::result::Result<(TcpStream, Option<SocketAddr>), ConnectFailure> {
        let key = &origin.key;
        let proxy = self.proxy_of(key);
        let connected = connect(addresses, opening.patience()).await;
        let (mut stream, address) = connected.map_err(|failure| match failure {
            ConnectFailure::Failed(kind) => of_way(kind, proxy),
            ConnectFailure::Exhausted(_) => failure,
        })?;
        let Some(proxy) = proxy else { return Ok((stream, Some(address))) };
        if !proxy.asks_itself(key) {
            let host = behind.map_or_else(|| key.host().to_owned(), |address| address.ip().to_string());
            let asked = tunnel(&mut stream, &host, key.port(), proxy, opening.patience()).await;
            asked.map_err(ConnectFailure::Failed)?;
        }
        Ok((stream, behind))
    }

    fn tls(&self, origin: &OriginConnections) -> Result<Tls> {
        let setup = &self.settings.tls;
        let form = TlsForm {
            wants_http1: origin.wants_http1(),
            shows_certificate: setup.shows_certificate_to(&origin.key),
        };
        if let Some(tls) = self.tls.borrow().get(&form) {
            return Ok(tls.clone());
        }
        let options = TlsOptions { http2: setup.options.http2 && !form.wants_http1, ..setup.options.clone() };
        let client = if form.shows_certificate { setup.client()? } else { None };
        let made = Tls::new(setup.roots()?, &options, client)?;
        self.tls.borrow_mut().insert(form, made.clone());
        Ok(made)
    }
}

/// Limits how often an origin appears in the order to the number of its unused connections.
fn leave_out_vain(order: &mut VecDeque<Rc<OriginConnections>>) {
    let mut left: HashMap<*const OriginConnections, usize> = HashMap::new();
    order.retain(|origin| {
        let left = left.entry(Rc::as_ptr(origin)).or_insert_with(|| origin.idle.borrow().len());
        let is_there = *left > 0;
        *left = left.saturating_sub(1);
        is_there
    });
}

/// Converts a failure to connect. An unreachable proxy says nothing about the origin.
fn of_way(kind: FailureKind, proxy: Option<&Proxy>) -> ConnectFailure {
    ConnectFailure::Failed(if proxy.is_some() { FailureKind::Proxy } else { kind })
}
