//! A server that lists its objects: asked for page after page on a connection of its own.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::LocalRuntime;

use super::hand_over::hand_over;
use crate::engine::control::Control;
use crate::engine::job_origins::ListingServer;
use crate::engine::journal_link::JournalRequest;
use crate::engine::stop::Stop;
use crate::engine::threads::network_runtime;
use crate::engine::tls_errors::distrust;
use crate::entry::Naming;
use crate::error::{Error, Result};
use crate::http1::{BodySink, Head, RequestTemplate};
use crate::limits;
use crate::origin::OriginKey;
use crate::outcome::{FailureClass, FailureKind, Outcome};
use crate::planner::origin::{Millis, Observations};
use crate::planner::retry::{self, Jitter};
use crate::source::autoindex::{self, FolderReadError};
use crate::source::list::Filters;
use crate::source::{ApiNames, ListedPage, OriginUrl, PageCursor, PendingFolder};
use crate::target::Names;
use crate::transport::{
    AddressPolicy, BrokenExchange, ConnectFailure, Connection, Deadlines, OriginConnections, Pool,
    PoolSettings, Proxy, Timeouts, UnusedState,
};
use crate::verdict::{AttemptState, BrokenFacts, ReplyFacts, Rules, Verdict};

/// What a lister is made of, on whatever thread.
pub(in crate::engine) struct ServerListerSetup {
    pub(in crate::engine) control: Arc<Control>,
    pub(in crate::engine) origin: OriginUrl,
    pub(in crate::engine) server: ListingServer,
    pub(in crate::engine) pool: PoolSettings,
    /// Whether any page has come, in this run or before: from then on a failure is an outage and is waited for.
    pub(in crate::engine) has_listed: bool,
    /// Which names are fetched.
    pub(in crate::engine) filters: Filters,
    /// A page that fails for longer ends the job.
    pub(in crate::engine) give_up_after: Millis,
}

/// See the module.
struct ServerLister {
    control: Arc<Control>,
    origin: OriginUrl,
    key: OriginKey,
    template: RequestTemplate,
    timeouts: Timeouts,
    runtime: LocalRuntime,
    pool: Pool,
    /// As of its last tick.
    clock: Rc<Cell<Millis>>,
    connection: Connection,
    /// The server.
    known: Rc<OriginConnections>,
    jitter: Jitter,
    has_listed: bool,
    /// Since when the page that is asked for fails.
    failing_since: Option<Millis>,
    give_up_after: Millis,
    filters: Filters,
}

/// Lists everything from a place on, or until the job is to end.
pub(super) fn list(setup: ServerListerSetup, from: &ListingCursor) -> Result<()> {
    let mut lister = ServerLister::new(setup)?;
    match from {
        ListingCursor::Api(names, marker) => lister.list_api(names, marker.clone()),
        ListingCursor::Autoindex => lister.list_folders(),
    }
}

/// Where a server's listing goes on.
pub(in crate::engine) enum ListingCursor {
    /// The list/get API, behind a marker; none for the start.
    Api(ApiNames, Option<String>),
    /// The journal knows the folders.
    Autoindex,
}

/// Why a page did not come.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
struct PageFailure {
    kind: FailureKind,
    status: u16,
    reason: String,
    /// What the server asked for.
    retry_after: Option<Millis>,
}

impl PageFailure {
    fn new(kind: FailureKind, status: u16, reason: impl Into<String>) -> Self {
        PageFailure { kind, status, reason: reason.into(), retry_after: None }
    }

    fn of(broken: &BrokenExchange) -> Self {
        PageFailure::new(broken.kind, 0, broken.reason)
    }
}

impl ServerLister {
    fn new(setup: ServerListerSetup) -> Result<Self> {
        let ServerListerSetup { control, origin, server, pool, has_listed, filters, give_up_after } = setup;
        let now = control.clock.now();
        // Its bytes are moved one piece after the other, which HTTP/1.1 is enough for.
        let tls = Arc::new(pool.tls.without_http2());
        let idle_max = limits::RESTING_PAGES_MAX;
        let settings = PoolSettings { max_body: u64::MAX, connections: 1 + idle_max, idle_max, tls, ..pool };
        let timeouts = page_timeouts(settings.timeouts);
        let clock = Rc::new(Cell::new(now));
        let pool = Pool::new(settings, Rc::clone(&clock));
        let template = server.template.clone();
        let key = server.key.clone();
        let known = pool.add(server.key, server.template, server.addresses);
        Ok(ServerLister {
            jitter: Jitter::new(now),
            control,
            origin,
            key,
            template,
            timeouts,
            runtime: network_runtime()?,
            pool,
            clock,
            connection: Connection::default(),
            known,
            has_listed,
            failing_since: None,
            give_up_after,
            filters,
        })
    }

    fn list_api(&mut self, names: &ApiNames, mut marker: Option<String>) -> Result<()> {
        let mut empty_pages = 0;
        while self.control.wait_for_room() && !self.is_over() {
            let path = names.page_path(&self.origin, marker.as_deref())?;
            let Some(body) = self.fetch_page(&path)? else {
                return Ok(());
            };
            let page = names.read_page(&body, marker.take()).map_err(|error| {
                Error::Listing(format!("the listing {} cannot be read: {error}", self.url(&path)))
            })?;
            let PageCursor::Marker { next, .. } = &page.cursor else {
                return Ok(());
            };
            marker.clone_from(next);
            empty_pages = if page.names.is_empty() { empty_pages + 1 } else { 0 };
            if empty_pages > limits::EMPTY_PAGES_MAX {
                return Err(Error::Listing(format!(
                    "the listing never ends: {} pages one after the other brought no name, the last is {}",
                    limits::EMPTY_PAGES_MAX,
                    self.url(&path)
                )));
            }
            self.has_listed = true;
            hand_over(&self.control, allowed(page, &self.filters, Naming::Whole));
            if marker.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The journal's thread may have found that the listing never ends.
    fn is_over(&self) -> bool {
        self.control.is_listing_done.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn url(&self, path: &str) -> String {
        format!("{}://{}{}", self.origin.scheme(), self.origin.authority(), path)
    }

    /// Fetches a page of the API as a whole; `None` when the job is to end.
    fn fetch_page(&mut self, path: &str) -> Result<Option<Vec<u8>>> {
        let mut attempts = 0;
        loop {
            let mut body = PageBody::default();
            let no_page = match self.start(path).and_then(|()| self.receive_to_end(&mut body)) {
                Ok(()) => {
                    self.came();
                    return Ok(Some(body.bytes));
                }
                Err(no_page) => no_page,
            };
            attempts += 1;
            if !self.wait_after(path, &no_page, attempts)? {
                return Ok(None);
            }
            if self.is_final(&no_page, attempts) {
                return Err(self.no_listing(path, &no_page, attempts));
            }
        }
    }

    fn is_final(&self, no_page: &PageFailure, attempts: u32) -> bool {
        let attempts_max = if self.has_listed { u32::MAX } else { limits::FIRST_PAGE_ATTEMPTS_MAX };
        is_last(no_page.kind, attempts, attempts_max)
    }

    fn no_listing(&self, path: &str, no_page: &PageFailure, attempts: u32) -> Error {
        if let Some(error) = distrust(&self.key, no_page.kind) {
            return error;
        }
        let url = self.url(path);
        let PageFailure { status, reason, kind, .. } = no_page;
        let hint = match kind {
            FailureKind::Refused | FailureKind::Unreachable | FailureKind::ConnectTimeout => {
                "; is the server running, and the port right?".into()
            }
            FailureKind::Proxy => self.proxy_hint(),
            FailureKind::NotHttp => "; is it an http server, and the port right?".into(),
            FailureKind::Tls => format!(
                "; is it an https server, and the port right? If it speaks http, write http://{}",
                self.key.authority()
            ),
            _ if *status == 404 => {
                "; is the SOURCE right? --list-path and --listing say how the server lists".into()
            }
            _ => String::new(),
        };
        Error::Listing(format!(
            "the listing {url} failed ({}): {reason}, attempts: {attempts}{hint}",
            kind.name()
        ))
    }

    /// The server was not even asked.
    fn proxy_hint(&self) -> String {
        let Some(proxy) = self.pool.proxy_of(&self.key) else { return String::new() };
        let Proxy { host, port, .. } = proxy;
        format!("; the way leads through the proxy {host}:{port}: is it running, and --proxy right?")
    }

    /// Waits as the failure asks for, and while the origin is down; `false` when the job is to end.
    fn wait_after(&mut self, path: &str, no_page: &PageFailure, attempts: u32) -> Result<bool> {
        self.connection.close();
        self.observe(no_page, attempts);
        if self.is_final(no_page, attempts) {
            return Ok(true);
        }
        let control = Arc::clone(&self.control);
        let now = control.clock.now();
        let since = *self.failing_since.get_or_insert(now);
        let given_up_at = since + self.give_up_after;
        if self.has_listed {
            control.note_page(Some((&self.url(path), &no_page.reason, since, given_up_at)));
        }
        let delay = retry::delay(no_page.kind, attempts, no_page.retry_after, self.jitter.draw());
        while control.clock.now() <= given_up_at
            && (control.clock.now() < now + delay
                || self.has_listed && control.plan.is_closed(control.clock.now()))
        {
            if control.stop.get() != Stop::No || control.stop.has_failed() {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if control.clock.now() > given_up_at {
            return Err(Error::Temporary(format!(
                "the listing's page {} failed for too long (--give-up-after): {}; run the same command again to resume",
                self.url(path),
                no_page.reason
            )));
        }
        Ok(true)
    }

    /// A page has come.
    fn came(&mut self) {
        if self.failing_since.take().is_some() {
            self.control.note_page(None);
        }
        self.control.observe_listing(Observations { successes: 1, ..Observations::default() });
    }

    fn observe(&self, no_page: &PageFailure, attempts: u32) {
        let mut observed = Observations::default();
        observed.note_failure(no_page.kind, attempts - 1, no_page.retry_after);
        if no_page.kind.class() != FailureClass::Final {
            self.control.observe_listing(observed);
        }
    }

    /// Sends a request and awaits the reply's head; a connection that the server has closed is forgiven. Each page comes
    /// on a connection that is fresh or has rested: a reply that nobody asked for would be taken for the page.
    fn start(&mut self, path: &str) -> std::result::Result<(), PageFailure> {
        self.pool.tick(self.control.clock.now());
        self.pool.switch_to_rested(&mut self.connection, &self.known);
        let was_used = self.connection.is_open();
        let started = self.try_start(path);
        match started {
            Err(broken) if is_forgiven(&broken, was_used) => {
                self.connection.close();
                self.try_start(path).map_err(|broken| PageFailure::of(&broken))
            }
            Err(broken) => Err(PageFailure::of(&broken)),
            Ok(()) => Ok(()),
        }
    }

    fn try_start(&mut self, path: &str) -> std::result::Result<(), BrokenExchange> {
        if !self.connection.is_open() {
            self.connect()?;
        }
        let mut request = Vec::new();
        self.template.write_path(path, &mut request);
        self.connection
            .connection()
            .map_or_else(|| Err(BrokenExchange::unconnected()), |open| open.send(&request))
    }

    fn connect(&mut self) -> std::result::Result<(), BrokenExchange> {
        let control = &self.control;
        self.pool.tick(control.clock.now());
        let watch = Deadlines::new(Rc::clone(&self.clock), self.timeouts);
        let is_over = async {
            let mut tick = tokio::time::interval(limits::TICK);
            while control.stop.get() == Stop::No {
                tick.tick().await;
                self.pool.tick(control.clock.now());
            }
        };
        let opened = self.runtime.block_on(async {
            tokio::select! {
                opened = self.pool.open(&mut self.connection, &watch, AddressPolicy::Anywhere) => opened,
                () = is_over => Err(ConnectFailure::Failed(FailureKind::ConnectTimeout)),
            }
        });
        opened.map_err(|failure| match failure {
            ConnectFailure::Failed(kind) => BrokenExchange { kind, ..BrokenExchange::unconnected() },
            ConnectFailure::Exhausted(_) => BrokenExchange {
                kind: FailureKind::Unreachable,
                reason: "this machine has no descriptor or port left",
                is_unanswered: false,
            },
        })
    }

    fn receive_to_end(&mut self, body: &mut PageBody) -> std::result::Result<(), PageFailure> {
        loop {
            let is_over = self.receive_some(body)?;
            if body.bytes.len() > limits::PAGE_BYTES_MAX {
                let reason = "the page is larger than 16 MiB; let the server give smaller pages";
                return Err(PageFailure::new(FailureKind::BodyTooLarge, 200, reason));
            }
            if is_over {
                return Ok(());
            }
            if body.started.is_some_and(|started| started.elapsed() >= self.timeouts.total) {
                return Err(PageFailure::new(FailureKind::TotalTimeout, 200, "the page takes too long"));
            }
        }
    }

    /// Receives the next bytes of a page; whether they were the last.
    fn receive_some(&mut self, body: &mut PageBody) -> std::result::Result<bool, PageFailure> {
        let clock = Rc::new(Cell::new(self.control.clock.now()));
        let watch = Deadlines::new(clock, self.timeouts);
        let scratch = RefCell::new(std::mem::take(&mut body.scratch));
        scratch.borrow_mut().resize(limits::READ_BYTES, 0);
        let Some(connection) = self.connection.connection() else {
            return Err(PageFailure::new(FailureKind::Reset, 0, "the connection is gone"));
        };
        let control = &self.control;
        // The head is due as a whole, the next bytes of a body from now on; a stop is noticed at each tick.
        let now = Instant::now();
        let started = *body.started.get_or_insert(now);
        let (due, kind) = match connection.head() {
            None => (started + self.timeouts.head, FailureKind::HeadTimeout),
            Some(_) => (now + self.timeouts.idle, FailureKind::IdleTimeout),
        };
        let received = self.runtime.block_on(async {
            let mut tick = tokio::time::interval(limits::TICK);
            let receive = connection.receive_some(body, &scratch, &watch);
            tokio::pin!(receive);
            loop {
                tokio::select! {
                    received = &mut receive => return received,
                    _ = tick.tick() => {
                        if control.stop.get() != Stop::No {
                            watch.expire(FailureKind::TotalTimeout);
                        } else if Instant::now() >= due {
                            watch.expire(kind);
                        }
                    }
                }
            }
        });
        body.scratch = scratch.into_inner();
        let replied = received.map_err(|broken| PageFailure::of(&broken))?;
        if let Some(no_page) = connection.head().and_then(|head| refused(head, control.clock.now())) {
            return Err(no_page);
        }
        let Some(replied) = replied else { return Ok(false) };
        if !crate::transport::is_verified(&replied.head) {
            // A page without a length may have been cut: what is missing would never be fetched. JSON that ends is
            // whole, and JSON that does not is noticed by the parser.
            self.connection.close();
        } else if replied.surplus != UnusedState::Quiet || !replied.head.keep_alive {
            self.connection.close();
        }
        Ok(true)
    }

    fn list_folders(&mut self) -> Result<()> {
        let mut attempts = 0;
        while self.control.wait_for_room() {
            let Some(folder) = self.control.journal.ask(JournalRequest::NextFolder)? else {
                self.control.journal.send(JournalRequest::EndListing);
                return Ok(());
            };
            let path = autoindex::folder_path(&self.origin, &folder.path);
            let no_page = match self.read_folder(&path, &folder) {
                Ok(()) => {
                    attempts = 0;
                    self.has_listed = true;
                    self.came();
                    continue;
                }
                Err(FolderReadError::Job(error)) => return Err(error),
                Err(FolderReadError::Page(bad)) => PageFailure::new(FailureKind::Listing, 200, bad.0),
                Err(FolderReadError::Io(error)) => no_page_of(error),
            };
            attempts += 1;
            if self.control.stop.get() != Stop::No || !self.wait_after(&path, &no_page, attempts)? {
                return Ok(());
            }
            if is_last(no_page.kind, attempts, limits::FIRST_PAGE_ATTEMPTS_MAX) {
                if !self.has_listed {
                    return Err(self.no_listing(&path, &no_page, attempts));
                }
                let status = (no_page.status != 0).then_some(no_page.status);
                let detail = no_page.reason;
                self.control.listing_counters().add_listed(1, 0);
                self.control.listing_counters().fail(FailureKind::Listing);
                self.control.journal.send(JournalRequest::FailFolder {
                    path: folder.path,
                    status,
                    attempts,
                    detail,
                });
                attempts = 0;
            }
        }
        Ok(())
    }

    fn read_folder(
        &mut self,
        path: &str,
        folder: &PendingFolder,
    ) -> std::result::Result<(), FolderReadError> {
        self.start(path).map_err(|no_page| FolderReadError::Io(io_error(no_page)))?;
        let control = Arc::clone(&self.control);
        let filters = self.filters.clone();
        let reader = PageReader { lister: self, body: PageBody::default(), at: 0, is_over: false };
        autoindex::read_folder(reader, folder, |page| {
            if let PageCursor::Folder { refused, .. } = &page.cursor {
                control.listing_counters().add_listed(refused.len() as u64, 0);
                (0..refused.len()).for_each(|_| control.listing_counters().fail(FailureKind::Listing));
            }
            hand_over(&control, allowed(page, &filters, Naming::Sized));
            // A folder may be larger than the window.
            if control.wait_for_room() { Ok(()) } else { Err(Error::Internal("the job is ending".into())) }
        })
        .map_err(|error| match error {
            FolderReadError::Job(_) if self.control.stop.get() != Stop::No => {
                FolderReadError::Io(std::io::Error::other("the job is ending"))
            }
            other => other,
        })
    }
}

/// Whether another attempt follows at once, on a fresh connection.
fn is_forgiven(broken: &BrokenExchange, was_used: bool) -> bool {
    let BrokenExchange { kind, is_unanswered, .. } = *broken;
    let facts = BrokenFacts { kind, was_used, is_unanswered, is_shared: false };
    matches!(AttemptState::default().after_broken(facts, &Rules::default(), 0), Verdict::Again)
}

/// Whether no other attempt follows when a page has failed so often.
fn is_last(kind: FailureKind, attempts: u32, attempts_max: u32) -> bool {
    let rules = Rules { attempts_max, ..Rules::default() };
    let mut state = AttemptState { attempts: attempts.saturating_sub(1), ..AttemptState::default() };
    !matches!(state.after_failure(kind, &rules, 0), Verdict::Retry(_))
}

/// A page without the names that are left out.
fn allowed(mut page: ListedPage, filters: &Filters, naming: Naming) -> ListedPage {
    if filters.is_empty() {
        return page;
    }
    let mut names = Names::default();
    let is_allowed = |entry: &&[u8]| filters.allows(naming.name_of(0, entry, &mut Vec::new()));
    page.names.iter().filter(is_allowed).for_each(|entry| names.push(entry));
    page.skipped += (page.names.len() - names.len()) as u64;
    page.names = names;
    page
}

/// Why a reply with this head is no page; `None` when it is one.
fn refused(head: &Head, now: Millis) -> Option<PageFailure> {
    // A page without a length is whole when its parser says so.
    let facts = ReplyFacts { status: head.status, is_verified: true, ..ReplyFacts::default() };
    let kind = match AttemptState::default().after_reply(&facts, &Rules::default(), now) {
        Verdict::Store => return None,
        Verdict::Retry(kind) | Verdict::Settle(Outcome::Failed(kind), _) => kind,
        _ => FailureKind::Status,
    };
    let asked = head.retry_after.map(|retry_after| retry_after.wait(now / 1000).saturating_mul(1000));
    let no_page = PageFailure::new(kind, head.status, format!("status {}", head.status));
    Some(PageFailure { retry_after: asked, ..no_page })
}

/// Through `Read`, whose errors are the operating system's.
fn io_error(no_page: PageFailure) -> std::io::Error {
    std::io::Error::other(no_page)
}

fn no_page_of(error: std::io::Error) -> PageFailure {
    error.downcast().unwrap_or_else(|error| PageFailure::new(FailureKind::Reset, 0, error.to_string()))
}

/// A page's bytes as they come.
#[derive(Default)]
struct PageBody {
    bytes: Vec<u8>,
    scratch: Vec<u8>,
    /// When the page was waited for first.
    started: Option<Instant>,
}

impl BodySink for PageBody {
    fn piece(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// A folder's listing as a stream, so that its size costs no memory.
struct PageReader<'l> {
    lister: &'l mut ServerLister,
    body: PageBody,
    at: usize,
    is_over: bool,
}

impl Read for PageReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.body.bytes.len() && !self.is_over {
            self.body.bytes.clear();
            self.at = 0;
            self.is_over = self.lister.receive_some(&mut self.body).map_err(io_error)?;
        }
        let count = buffer.len().min(self.body.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.body.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The time that a page may take, from what a target may take.
fn page_timeouts(timeouts: Timeouts) -> Timeouts {
    Timeouts { total: limits::PAGE_TIMEOUT.max(timeouts.total), attempt: None, ..timeouts }
}
