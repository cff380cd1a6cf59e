//! A server that lists its objects: asked for page after page on a connection of its own.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::{ask_journal, hand_over};
use crate::engine::control::{Control, Stop};
use crate::engine::recorder::ToJournal;
use crate::engine::threads::waiting_runtime;
use crate::engine::trust::distrust;
use crate::engine::worker::Server;
use crate::error::{Error, Result};
use crate::http1::{BodySink, Head, RequestTemplate};
use crate::limits;
use crate::origin::OriginKey;
use crate::outcome::{FailureClass, FailureKind, Outcome};
use crate::planner::origin::{Millis, Observed};
use crate::planner::retry::{self, Jitter};
use crate::source::autoindex::{self, ReadError};
use crate::source::list::Filters;
use crate::source::{ApiNames, Cursor, Folder, ListedPage, OriginUrl};
use crate::target::Names;
use crate::transport::{Broken, ConnectFailure, Lane, Pool, PoolSettings, Reach, Timeouts, Unused, Watch};

/// What a lister is made of, on whatever thread.
pub(in crate::engine) struct Setup {
    pub(in crate::engine) control: Arc<Control>,
    pub(in crate::engine) origin: OriginUrl,
    pub(in crate::engine) server: Server,
    pub(in crate::engine) pool: PoolSettings,
    /// Whether any page has come, in this run or before: from then on a failure is an outage and is waited for.
    pub(in crate::engine) has_listed: bool,
    /// Which names are fetched.
    pub(in crate::engine) filters: Filters,
}

/// See the module.
struct Lister {
    control: Arc<Control>,
    origin: OriginUrl,
    key: OriginKey,
    template: RequestTemplate,
    timeouts: Timeouts,
    runtime: Runtime,
    pool: Pool,
    lane: Lane,
    jitter: Jitter,
    has_listed: bool,
    filters: Filters,
}

/// Lists everything from a place on, or until the job is to end.
pub(super) fn list(setup: Setup, from: &Place) -> Result<()> {
    let mut lister = Lister::new(setup)?;
    match from {
        Place::Api(names, marker) => lister.list_api(names, marker.clone()),
        Place::Autoindex => lister.list_folders(),
    }
}

/// Where a server's listing goes on.
pub(in crate::engine) enum Place {
    /// The list/get API, behind a marker; none for the start.
    Api(ApiNames, Option<String>),
    /// The journal knows the folders.
    Autoindex,
}

/// Why a page did not come.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
struct NoPage {
    kind: FailureKind,
    status: u16,
    reason: String,
    /// What the server asked for.
    retry_after: Option<Millis>,
}

impl NoPage {
    fn new(kind: FailureKind, status: u16, reason: impl Into<String>) -> Self {
        NoPage { kind, status, reason: reason.into(), retry_after: None }
    }

    fn of(broken: &Broken) -> Self {
        NoPage::new(broken.kind, 0, broken.reason)
    }
}

impl Lister {
    fn new(setup: Setup) -> Result<Self> {
        let Setup { control, origin, server, pool, has_listed, filters } = setup;
        let now = control.clock.now();
        // Its clock stands still: a connection is looked at before it is used again.
        // Its bytes are moved one piece after the other, which HTTP/1.1 is enough for.
        let tls = Arc::new(pool.tls.without_http2());
        let settings = PoolSettings { max_body: u64::MAX, connections: 1, tls, ..pool };
        let timeouts = page_timeouts(settings.timeouts);
        let pool = Pool::new(settings, Rc::new(Cell::new(now)));
        let template = server.template.clone();
        let key = server.key.clone();
        let known = pool.add(server.key, server.template, server.addresses);
        let mut lane = Lane::default();
        pool.switch(&mut lane, &known);
        Ok(Lister {
            jitter: Jitter::new(now),
            control,
            origin,
            key,
            template,
            timeouts,
            runtime: waiting_runtime()?,
            pool,
            lane,
            has_listed,
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
            let Cursor::Marker { next, .. } = &page.cursor else {
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
            hand_over(&self.control, allowed(page, &self.filters));
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
                    self.observe(None);
                    return Ok(Some(body.bytes));
                }
                Err(no_page) => no_page,
            };
            attempts += 1;
            if !self.wait_after(&no_page, attempts)? {
                return Ok(None);
            }
            if self.is_final(&no_page, attempts) {
                return Err(self.no_listing(path, &no_page, attempts));
            }
        }
    }

    fn is_final(&self, no_page: &NoPage, attempts: u32) -> bool {
        !no_page.kind.is_retryable() || (!self.has_listed && attempts >= limits::FIRST_PAGE_ATTEMPTS_MAX)
    }

    fn no_listing(&self, path: &str, no_page: &NoPage, attempts: u32) -> Error {
        if let Some(error) = distrust(&self.key, no_page.kind) {
            return error;
        }
        let url = self.url(path);
        let NoPage { status, reason, kind, .. } = no_page;
        let hint = match kind {
            FailureKind::Refused | FailureKind::Unreachable | FailureKind::ConnectTimeout => {
                "; is the server running, and the port right?"
            }
            FailureKind::NotHttp => "; is it an http server, and the port right?",
            FailureKind::Tls => "; is it an https server, and the port right?",
            _ if *status == 404 => {
                "; is the SOURCE right? --list-path and --listing say how the server lists"
            }
            _ => "",
        };
        Error::Listing(format!(
            "the listing {url} failed ({}): {reason}, attempts: {attempts}{hint}",
            kind.name()
        ))
    }

    /// Waits as the failure asks for; `false` when the job is to end.
    fn wait_after(&mut self, no_page: &NoPage, attempts: u32) -> Result<bool> {
        self.lane.close();
        self.observe(Some(no_page));
        if self.is_final(no_page, attempts) {
            return Ok(true);
        }
        let now = self.control.clock.now();
        let delay = retry::delay(no_page.kind, attempts, no_page.retry_after, self.jitter.draw());
        let resting = self.control.planner().resting_until(now).unwrap_or(now);
        let until = resting.max(now + delay);
        while self.control.clock.now() < until {
            if self.control.stop() != Stop::No || self.control.has_failed() {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if self.control.planner().is_given_up(self.control.clock.now()) {
            return Err(Error::Temporary(format!(
                "the server gave no page for too long (--give-up-after): {}; run the same command again to resume",
                no_page.reason
            )));
        }
        Ok(true)
    }

    fn observe(&self, no_page: Option<&NoPage>) {
        let mut observed = Observed::default();
        match no_page.map(|no_page| no_page.kind.class()) {
            None | Some(FailureClass::Final) => observed.successes = 1,
            Some(FailureClass::Transient) => observed.transient = 1,
            Some(FailureClass::Throttle) => observed.throttled = 1,
        }
        let asked = no_page.and_then(|no_page| no_page.retry_after).unwrap_or(0);
        observed.retry_after = asked.min(limits::RETRY_AFTER_MAX.as_millis() as Millis);
        self.control.planner().observe(observed, self.control.clock.now());
    }

    /// Sends a request and awaits the reply's head; a connection that the server has closed is forgiven.
    fn start(&mut self, path: &str) -> std::result::Result<(), NoPage> {
        let was_used = self.lane.is_open();
        let started = self.try_start(path);
        match started {
            Err(broken) if was_used && broken.is_unanswered => {
                self.lane.close();
                self.try_start(path).map_err(|broken| NoPage::of(&broken))
            }
            Err(broken) => Err(NoPage::of(&broken)),
            Ok(()) => Ok(()),
        }
    }

    fn try_start(&mut self, path: &str) -> std::result::Result<(), Broken> {
        if self.lane.look() != Unused::Quiet {
            self.lane.close();
        }
        if !self.lane.is_open() {
            self.connect()?;
        }
        let mut request = Vec::new();
        self.template.write_path(path, &mut request);
        self.lane.connection().map_or_else(|| Err(Broken::unconnected()), |open| open.send(&request))
    }

    fn connect(&mut self) -> std::result::Result<(), Broken> {
        let control = &self.control;
        let watch = Watch::new(Rc::new(Cell::new(control.clock.now())), self.timeouts);
        let is_over = async {
            let mut tick = tokio::time::interval(limits::TICK);
            while control.stop() == Stop::No {
                tick.tick().await;
            }
        };
        let opened = self.runtime.block_on(async {
            tokio::select! {
                opened = self.pool.open(&mut self.lane, &watch, Reach::Anywhere) => opened,
                () = is_over => Err(ConnectFailure::Failed(FailureKind::ConnectTimeout)),
            }
        });
        opened.map_err(|failure| match failure {
            ConnectFailure::Failed(kind) => Broken { kind, ..Broken::unconnected() },
            ConnectFailure::Exhausted(_) => Broken {
                kind: FailureKind::Unreachable,
                reason: "this machine has no descriptor or port left",
                is_unanswered: false,
            },
        })
    }

    fn receive_to_end(&mut self, body: &mut PageBody) -> std::result::Result<(), NoPage> {
        loop {
            let is_over = self.receive_some(body)?;
            if body.bytes.len() > limits::PAGE_BYTES_MAX {
                let reason = "the page is larger than 16 MiB; let the server give smaller pages";
                return Err(NoPage::new(FailureKind::BodyTooLarge, 200, reason));
            }
            if is_over {
                return Ok(());
            }
            if body.started.is_some_and(|started| started.elapsed() >= self.timeouts.total) {
                return Err(NoPage::new(FailureKind::TotalTimeout, 200, "the page takes too long"));
            }
        }
    }

    /// Receives the next bytes of a page; whether they were the last.
    fn receive_some(&mut self, body: &mut PageBody) -> std::result::Result<bool, NoPage> {
        let clock = Rc::new(Cell::new(self.control.clock.now()));
        let watch = Watch::new(clock, self.timeouts);
        let scratch = RefCell::new(std::mem::take(&mut body.scratch));
        scratch.borrow_mut().resize(limits::READ_BYTES, 0);
        let Some(connection) = self.lane.connection() else {
            return Err(NoPage::new(FailureKind::Reset, 0, "the connection is gone"));
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
                        if control.stop() != Stop::No {
                            watch.expire(FailureKind::TotalTimeout);
                        } else if Instant::now() >= due {
                            watch.expire(kind);
                        }
                    }
                }
            }
        });
        body.scratch = scratch.into_inner();
        let replied = received.map_err(|broken| NoPage::of(&broken))?;
        if let Some(no_page) = connection.head().and_then(|head| refused(head, control.clock.now())) {
            return Err(no_page);
        }
        let Some(replied) = replied else { return Ok(false) };
        if !crate::transport::is_verified(&replied.head) {
            // A page without a length may have been cut: what is missing would never be fetched. JSON that ends is
            // whole, and JSON that does not is noticed by the parser.
            self.lane.close();
        } else if replied.surplus != Unused::Quiet || !replied.head.keep_alive {
            self.lane.close();
        }
        Ok(true)
    }

    fn list_folders(&mut self) -> Result<()> {
        let mut attempts = 0;
        while self.control.wait_for_room() {
            let Some(folder) = ask_journal(&self.control, ToJournal::NextFolder)? else {
                self.control.journal(ToJournal::EndListing);
                return Ok(());
            };
            let path = autoindex::folder_path(&self.origin, &folder.path);
            let no_page = match self.read_folder(&path, &folder) {
                Ok(()) => {
                    attempts = 0;
                    self.has_listed = true;
                    self.observe(None);
                    continue;
                }
                Err(ReadError::Job(error)) => return Err(error),
                Err(ReadError::Page(bad)) => NoPage::new(FailureKind::Listing, 200, bad.0),
                Err(ReadError::Io(error)) => no_page_of(error),
            };
            attempts += 1;
            if self.control.stop() != Stop::No || !self.wait_after(&no_page, attempts)? {
                return Ok(());
            }
            if !no_page.kind.is_retryable() || attempts >= limits::FIRST_PAGE_ATTEMPTS_MAX {
                if !self.has_listed {
                    return Err(self.no_listing(&path, &no_page, attempts));
                }
                let status = (no_page.status != 0).then_some(no_page.status);
                let detail = no_page.reason;
                self.control.listing_counters().add_listed(1, 0);
                self.control.listing_counters().fail(FailureKind::Listing);
                self.control.journal(ToJournal::FailFolder { path: folder.path, status, attempts, detail });
                attempts = 0;
            }
        }
        Ok(())
    }

    fn read_folder(&mut self, path: &str, folder: &Folder) -> std::result::Result<(), ReadError> {
        self.start(path).map_err(|no_page| ReadError::Io(io_error(no_page)))?;
        let control = Arc::clone(&self.control);
        let filters = self.filters.clone();
        let reader = PageReader { lister: self, body: PageBody::default(), at: 0, is_over: false };
        autoindex::read_folder(reader, folder, |page| {
            if let Cursor::Folder { refused, .. } = &page.cursor {
                control.listing_counters().add_listed(refused.len() as u64, 0);
                (0..refused.len()).for_each(|_| control.listing_counters().fail(FailureKind::Listing));
            }
            hand_over(&control, allowed(page, &filters));
            // A folder may be larger than the window.
            if control.wait_for_room() { Ok(()) } else { Err(Error::Internal("the job is ending".into())) }
        })
        .map_err(|error| match error {
            ReadError::Job(_) if self.control.stop() != Stop::No => {
                ReadError::Io(std::io::Error::other("the job is ending"))
            }
            other => other,
        })
    }
}

/// A page without the names that are left out.
fn allowed(mut page: ListedPage, filters: &Filters) -> ListedPage {
    if filters.is_empty() {
        return page;
    }
    let mut names = Names::default();
    page.names.iter().filter(|name| filters.allows(name)).for_each(|name| names.push(name));
    page.skipped += (page.names.len() - names.len()) as u64;
    page.names = names;
    page
}

/// What a reply's status means for a page; `None` for 2xx.
fn refused(head: &Head, now: Millis) -> Option<NoPage> {
    let kind = match FailureKind::of_status(head.status) {
        Ok(Outcome::Fetched) => return None,
        Ok(_) => FailureKind::Status,
        Err(kind) => kind,
    };
    let asked = head.retry_after.map(|retry_after| retry_after.wait(now / 1000).saturating_mul(1000));
    let no_page = NoPage::new(kind, head.status, format!("status {}", head.status));
    Some(NoPage { retry_after: asked, ..no_page })
}

/// Through `Read`, whose errors are the operating system's.
fn io_error(no_page: NoPage) -> std::io::Error {
    std::io::Error::other(no_page)
}

fn no_page_of(error: std::io::Error) -> NoPage {
    error.downcast().unwrap_or_else(|error| NoPage::new(FailureKind::Reset, 0, error.to_string()))
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
    lister: &'l mut Lister,
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
