//! A server that lists its objects: asked for page after page on a connection of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::LocalRuntime;

use super::hand_over::hand_over;
use super::relisting::Relisting;
use crate::access::bearer::BearerTokens;
use crate::access::renewal::Renewal;
use crate::access::tls_errors::distrust;
use crate::control::Control;
use crate::control::stop::Stop;
use crate::event_queues::network_runtime;
use crate::plan::job_origins::ListingServer;
use fetchmill_model::content_encoding::{ContentEncoding, DecodeError};
use fetchmill_model::entry::Naming;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::{BodySink, Head, field_values};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::{FailureClass, FailureKind, Outcome};
use fetchmill_model::planner::origin::{Millis, Observations};
use fetchmill_model::planner::retry::{self, Jitter};
use fetchmill_model::source::list::Filters;
use fetchmill_model::source::{ApiNames, BadPage, ListedPage, OriginUrl, PageCursor, SkipReason};
use fetchmill_model::target::Names;
use fetchmill_model::verdict::{AttemptState, BrokenFacts, ReplyFacts, Rules, Verdict};
use fetchmill_net::certain::RestedConnection;
use fetchmill_net::{
    AddressPolicy, BrokenExchange, ConnectFailure, Deadlines, OriginConnections, Pool, PoolSettings, Proxy,
    RequestTarget, Timeouts,
};

/// What a lister is made of, on whatever thread.
pub(crate) struct ServerListerSetup {
    pub(crate) control: Arc<Control>,
    pub(crate) origin: OriginUrl,
    pub(crate) server: ListingServer,
    pub(crate) pool: PoolSettings,
    /// Whether any page has come, in this run or before: from then on a failure is an outage and is waited for.
    pub(crate) has_listed: bool,
    /// Which names are fetched.
    pub(crate) filters: Filters,
    /// A page that fails for longer ends the job.
    pub(crate) give_up_after: Millis,
    /// The first page of all, when it is there already.
    pub(crate) first_page: Option<Vec<u8>>,
    /// How the listing begins again; none where nobody knows which names the job has.
    pub(crate) relisting: Option<Relisting>,
    /// Whether it had begun again when an earlier run ended.
    pub(crate) is_relisting: bool,
    /// Whether its objects are at the same origin: then what the listing sees of it says something of them.
    pub(crate) is_of_objects: bool,
}

/// What a server says of a marker that it does not know, or not any more. Other refusals say something of who asks.
const UNKNOWN_MARKER: [u16; 5] = [400, 403, 404, 410, 422];

/// See the module.
pub(super) struct ServerLister {
    pub(super) control: Arc<Control>,
    pub(super) origin: OriginUrl,
    key: OriginKey,
    timeouts: Timeouts,
    runtime: LocalRuntime,
    pool: Pool,
    /// As of its last tick.
    clock: Rc<Cell<Millis>>,
    rested: RestedConnection,
    /// The server.
    known: Rc<OriginConnections>,
    jitter: Jitter,
    pub(super) has_listed: bool,
    /// Since when the page that is asked for fails.
    failing_since: Option<Millis>,
    give_up_after: Millis,
    pub(super) filters: Filters,
    pub(super) first_page: Option<Vec<u8>>,
    relisting: Option<Relisting>,
    is_relisting: bool,
    /// The listing begins again with the next page.
    restart: Option<Restart>,
    is_of_objects: bool,
    /// What the server is shown of who asks, if a command prints it, and which of these it was the last time.
    tokens: Option<Arc<BearerTokens>>,
    token_generation: u64,
}

/// Lists everything over the list/get API, behind a marker, or until the job is to end.
pub(super) fn list(setup: ServerListerSetup, names: &ApiNames, marker: Option<String>) -> Result<()> {
    ServerLister::new(setup)?.list_api(names, marker)
}

/// Why a page did not come.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct PageFailure {
    pub(super) kind: FailureKind,
    /// Of the reply; 0 when there was none.
    pub(super) status: u16,
    pub(super) reason: String,
    /// What the server asked for.
    retry_after: Option<Millis>,
}

/// The last failure of a page, and how often it was asked for.
pub(super) struct FailedPage {
    pub(super) failure: PageFailure,
    pub(super) attempts: u32,
}

impl FailedPage {
    /// Whether the server has answered that there is nothing of the kind: it is well, and will say the same again.
    pub(super) fn is_refusal(&self) -> bool {
        let PageFailure { kind, status, .. } = self.failure;
        kind.class() == FailureClass::Final && (300..500).contains(&status)
    }

    /// Whether the marker that leads to the page may not be known any more.
    fn is_of_unknown_marker(&self) -> bool {
        self.is_refusal() && UNKNOWN_MARKER.contains(&self.failure.status)
    }
}

/// The bytes of a page.
pub(super) struct FetchedPage {
    /// The reply's head, as it was sent.
    pub(super) head: Vec<u8>,
    pub(super) bytes: Vec<u8>,
    /// Whether these are all; else it is larger than a page that is kept may be.
    pub(super) is_whole: bool,
}

/// Why a listing begins again.
enum Restart {
    /// The marker of an earlier run has expired; what to tell if the start fails as well.
    Expired(Error),
    /// An earlier run has begun it again, and has not finished it.
    Resumed,
}

/// Where a listing goes on.
pub(super) enum PageFrom {
    /// With this page.
    Here(FetchedPage),
    /// At its start: the marker that led here has expired.
    Start,
    /// The job is to end.
    Nowhere,
}

impl PageFailure {
    pub(super) fn new(kind: FailureKind, status: u16, reason: impl Into<String>) -> Self {
        PageFailure { kind, status, reason: reason.into(), retry_after: None }
    }

    fn of(broken: &BrokenExchange) -> Self {
        PageFailure::new(broken.kind, 0, broken.reason)
    }
}

impl ServerLister {
    pub(super) fn new(setup: ServerListerSetup) -> Result<Self> {
        let ServerListerSetup {
            control,
            origin,
            server,
            pool,
            has_listed,
            filters,
            give_up_after,
            first_page,
            relisting,
            is_relisting,
            is_of_objects,
        } = setup;
        let now = control.clock.now();
        // Its bytes are moved one piece after the other, which HTTP/1.1 is enough for.
        let tls = Arc::new(pool.tls.without_http2());
        let idle_max = limits::RESTING_PAGES_MAX;
        let settings = PoolSettings { max_body: u64::MAX, connections: 1 + idle_max, idle_max, tls, ..pool };
        let timeouts = page_timeouts(settings.timeouts);
        let clock = Rc::new(Cell::new(now));
        let pool = Pool::new(settings, Rc::clone(&clock));
        let key = server.key.clone();
        let known = pool.add(server.key, server.template, server.addresses);
        Ok(ServerLister {
            jitter: Jitter::new(now),
            tokens: control.tokens.clone().filter(|tokens| tokens.is_for(&key)),
            token_generation: 0,
            control,
            origin,
            key,
            timeouts,
            runtime: network_runtime()?,
            pool,
            clock,
            rested: RestedConnection::default(),
            known,
            has_listed,
            failing_since: None,
            give_up_after,
            filters,
            first_page,
            relisting,
            is_relisting,
            restart: None,
            is_of_objects,
        })
    }

    fn list_api(&mut self, names: &ApiNames, mut marker: Option<String>) -> Result<()> {
        let mut empty_pages = 0;
        if self.resumes_restart() {
            marker = None;
        }
        let mut is_of_earlier_run = marker.is_some();
        while self.control.wait_for_room() && !self.is_over() {
            let path = names.page_path(&self.origin, marker.as_deref())?;
            let body = match self.first_page.take() {
                Some(body) => body,
                None => match self.fetch_page_from(&path, is_of_earlier_run)? {
                    PageFrom::Here(page) => page.bytes,
                    PageFrom::Start => {
                        (marker, is_of_earlier_run) = (None, false);
                        continue;
                    }
                    PageFrom::Nowhere => return Ok(()),
                },
            };
            is_of_earlier_run = false;
            let page =
                names.read_page(&body, marker.take()).map_err(|error| self.unreadable(&path, &error))?;
            let PageCursor::Marker { next, .. } = &page.cursor else {
                return Ok(());
            };
            marker.clone_from(next);
            empty_pages = self.count_empty(page.names.is_empty(), empty_pages, &path)?;
            self.has_listed = true;
            let page = self.without_known(allowed(page, &self.filters, Naming::Whole))?;
            hand_over(&self.control, page);
            if marker.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// How many pages have brought nothing, one after the other: a listing of these alone has no end.
    pub(super) fn count_empty(&self, is_empty: bool, before: u32, path: &str) -> Result<u32> {
        let empty_pages = if is_empty { before + 1 } else { 0 };
        if empty_pages > limits::EMPTY_PAGES_MAX {
            return Err(Error::Listing(format!(
                "the listing never ends: {} pages one after the other brought no name, the last is {}",
                limits::EMPTY_PAGES_MAX,
                self.url(path)
            )));
        }
        Ok(empty_pages)
    }

    /// The journal's thread may have found that the listing never ends.
    pub(super) fn is_over(&self) -> bool {
        self.control.is_listing_done.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}{}", self.origin.scheme(), self.origin.authority(), path)
    }

    pub(super) fn unreadable(&self, path: &str, bad: &BadPage) -> Error {
        Error::Listing(format!("the listing {} cannot be read: {bad}", self.url(path)))
    }

    /// Whether the listing begins at its start although it has a marker: it had begun again when an earlier run ended, and
    /// which names have come since is not known.
    pub(super) fn resumes_restart(&mut self) -> bool {
        let resumes = self.is_relisting && self.relisting.is_some();
        if resumes {
            self.restart = Some(Restart::Resumed);
        }
        resumes
    }

    /// Fetches a page as a whole. Where the marker of an earlier run has expired, the listing begins again.
    pub(super) fn fetch_page_from(&mut self, path: &str, is_of_earlier_run: bool) -> Result<PageFrom> {
        let failed = match self.fetch(path)? {
            None => return Ok(PageFrom::Nowhere),
            Some(Ok(page @ FetchedPage { is_whole: true, .. })) => {
                self.begin_again()?;
                return Ok(PageFrom::Here(page));
            }
            Some(Ok(_)) => return Err(self.too_large(path)),
            Some(Err(failed)) => failed,
        };
        let error = self.no_listing(path, &failed.failure, failed.attempts);
        if let Some(Restart::Expired(first)) = self.restart.take() {
            // The start is refused as well, so the marker is as good as before.
            return Err(first);
        }
        if !is_of_earlier_run || !failed.is_of_unknown_marker() {
            return Err(error);
        }
        if self.relisting.is_none() {
            return Err(Error::Listing(format!(
                "{error}; the marker of an earlier run may have expired, and this job does not keep the names of all targets: \
                 take another destination"
            )));
        }
        self.restart = Some(Restart::Expired(error));
        Ok(PageFrom::Start)
    }

    /// The first page of a listing that begins again has come.
    fn begin_again(&mut self) -> Result<()> {
        let (Some(restart), Some(relisting)) = (self.restart.take(), &mut self.relisting) else {
            return Ok(());
        };
        if let Restart::Expired(_) = restart {
            let notice = "the marker of an earlier run has expired: the listing begins again, and what is fetched stays";
            self.control.notice(notice);
        }
        relisting.begin(&self.control)
    }

    /// A page without what the job knows already, where the listing has begun again.
    pub(super) fn without_known(&self, page: ListedPage) -> Result<ListedPage> {
        match &self.relisting {
            Some(relisting) => relisting.without_known(page),
            None => Ok(page),
        }
    }

    pub(super) fn too_large(&self, path: &str) -> Error {
        let reason = "the page is larger than 16 MiB; let the server give smaller pages";
        self.no_listing(path, &PageFailure::new(FailureKind::BodyTooLarge, 200, reason), 1)
    }

    /// Fetches a page, as often as it takes or makes sense; `None` when the job is to end.
    pub(super) fn fetch(
        &mut self,
        path: &str,
    ) -> Result<Option<std::result::Result<FetchedPage, FailedPage>>> {
        let mut attempts = 0;
        loop {
            let mut body = PageBody::default();
            let failure = match self.start(path).and_then(|()| self.receive_page(&mut body)) {
                Ok(is_whole) => match body.decode(is_whole) {
                    Ok(is_whole) => {
                        self.came();
                        return Ok(Some(Ok(FetchedPage { head: body.head, bytes: body.bytes, is_whole })));
                    }
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            attempts += 1;
            if !self.wait_after(path, &failure, attempts)? {
                return Ok(None);
            }
            if self.is_final(&failure, attempts) {
                return Ok(Some(Err(FailedPage { failure, attempts })));
            }
        }
    }

    fn is_final(&self, no_page: &PageFailure, attempts: u32) -> bool {
        let attempts_max = if self.has_listed { u32::MAX } else { limits::FIRST_PAGE_ATTEMPTS_MAX };
        is_last(no_page.kind, attempts, attempts_max)
    }

    pub(super) fn no_listing(&self, path: &str, no_page: &PageFailure, attempts: u32) -> Error {
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
    pub(super) fn wait_after(&mut self, path: &str, no_page: &PageFailure, attempts: u32) -> Result<bool> {
        self.rested.close();
        if no_page.kind == FailureKind::Credentials {
            return self.await_token();
        }
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
                || self.has_listed && self.is_of_objects && control.plan.is_closed(control.clock.now()))
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

    /// The token was refused: waits for a newer one; `false` when the job is to end.
    fn await_token(&self) -> Result<bool> {
        let Some(tokens) = &self.tokens else { return Ok(true) };
        loop {
            match tokens.renew(self.token_generation) {
                Renewal::Newer => return Ok(true),
                Renewal::Failed(why) => return Err(Error::Temporary(why)),
                Renewal::Pending if self.control.stop.get() != Stop::No => return Ok(false),
                Renewal::Pending => std::thread::sleep(limits::TICK),
            }
        }
    }

    /// A page has come.
    pub(super) fn came(&mut self) {
        if self.failing_since.take().is_some() {
            self.control.note_page(None);
        }
        self.tell(Observations { successes: 1, ..Observations::default() });
    }

    fn observe(&self, no_page: &PageFailure, attempts: u32) {
        let mut observed = Observations::default();
        observed.note_failure(no_page.kind, attempts - 1, no_page.retry_after);
        if no_page.kind.class() != FailureClass::Final {
            self.tell(observed);
        }
    }

    fn tell(&self, observed: Observations) {
        if self.is_of_objects {
            self.control.observe_listing(observed);
        }
    }

    /// Sends a request and awaits the reply's head; a connection that the server has closed is forgiven. Each page comes
    /// on a connection that is fresh or has rested: a reply that nobody asked for would be taken for the page.
    pub(super) fn start(&mut self, path: &str) -> std::result::Result<(), PageFailure> {
        self.pool.tick(self.control.clock.now());
        self.rested.renew(&self.pool, &self.known);
        // Read ahead as fast as it can be, a listing needs more connections than once its pages come one by one.
        self.pool.sweep(1, limits::SURPLUS_CONNECTION_IDLE);
        let was_used = self.rested.connection.is_open();
        let started = self.try_start(path);
        match started {
            Err(broken) if is_forgiven(&broken, was_used) => {
                self.rested.close();
                self.try_start(path).map_err(|broken| PageFailure::of(&broken))
            }
            Err(broken) => Err(PageFailure::of(&broken)),
            Ok(()) => Ok(()),
        }
    }

    fn try_start(&mut self, path: &str) -> std::result::Result<(), BrokenExchange> {
        if !self.rested.connection.is_open() {
            self.connect()?;
        }
        self.token_generation = self.tokens.as_ref().map_or(0, |tokens| tokens.generation());
        let mut request = Vec::new();
        self.known.write(RequestTarget::Path(path), &mut request);
        let open = self.rested.connection.connection();
        open.map_or_else(|| Err(BrokenExchange::unconnected()), |open| open.send(&request))
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
        let connection = &mut self.rested.connection;
        let opened = self.runtime.block_on(async {
            tokio::select! {
                opened = self.pool.open_when_able(connection, &watch, AddressPolicy::Anywhere) => opened,
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

    /// Receives a page, up to the largest that is kept; whether that is all of it.
    fn receive_page(&mut self, body: &mut PageBody) -> std::result::Result<bool, PageFailure> {
        loop {
            let is_over = self.receive_some(body)?;
            if body.bytes.len() > limits::PAGE_BYTES_MAX {
                self.rested.close();
                return Ok(false);
            }
            if is_over {
                return Ok(true);
            }
            if body.started.is_some_and(|started| started.elapsed() >= self.timeouts.total) {
                return Err(PageFailure::new(FailureKind::TotalTimeout, 200, "the page takes too long"));
            }
        }
    }

    /// Receives the next bytes of a page; whether they were the last.
    pub(super) fn receive_some(&mut self, body: &mut PageBody) -> std::result::Result<bool, PageFailure> {
        let clock = Rc::new(Cell::new(self.control.clock.now()));
        let watch = Deadlines::new(clock, self.timeouts);
        let scratch = RefCell::new(std::mem::take(&mut body.scratch));
        scratch.borrow_mut().resize(limits::READ_BYTES, 0);
        let Some(connection) = self.rested.connection.connection() else {
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
        if let Some(head) = connection.head() {
            if let Some(tokens) = &self.tokens {
                tokens.note_reply(head.status, self.token_generation);
            }
            if let Some(no_page) = refused(head, self.tokens.is_some(), control.clock.now()) {
                return Err(no_page);
            }
        }
        let Some(replied) = replied else { return Ok(false) };
        if fetchmill_net::is_verified(&replied.head) {
            self.rested.keep_after(&replied);
        } else {
            // A page without a length may have been cut: what is missing would never be fetched. JSON that ends is
            // whole, as is HTML; what does not end is noticed by the parser.
            self.rested.close();
        }
        Ok(true)
    }
}

/// Whether another attempt follows at once, on a fresh connection.
fn is_forgiven(broken: &BrokenExchange, was_used: bool) -> bool {
    let BrokenExchange { kind, is_unanswered, .. } = *broken;
    let facts = BrokenFacts { kind, was_used, is_unanswered, is_shared: false };
    matches!(AttemptState::default().after_broken(facts, &Rules::default(), 0), Verdict::Again)
}

/// Whether no other attempt follows when a page has failed so often.
pub(super) fn is_last(kind: FailureKind, attempts: u32, attempts_max: u32) -> bool {
    let rules = Rules { attempts_max, ..Rules::default() };
    let mut state = AttemptState { attempts: attempts.saturating_sub(1), ..AttemptState::default() };
    !matches!(state.after_failure(kind, &rules, 0), Verdict::Retry(_))
}

/// A page without the names that are left out.
pub(super) fn allowed(mut page: ListedPage, filters: &Filters, naming: Naming) -> ListedPage {
    if filters.is_empty() {
        return page;
    }
    let mut names = Names::default();
    let mut number = Vec::new();
    for entry in page.names.iter() {
        let name = naming.name_of(0, entry, &mut number);
        if filters.allows(name) {
            names.push(entry);
        } else {
            page.skipped.add(SkipReason::Filter, name);
        }
    }
    page.names = names;
    page
}

/// Why a reply with this head is no page; `None` when it is one.
fn refused(head: &Head, shows_token: bool, now: Millis) -> Option<PageFailure> {
    // A page without a length is whole when its parser says so.
    let facts = ReplyFacts { status: head.status, is_verified: true, shows_token, ..ReplyFacts::default() };
    let kind = match AttemptState::default().after_reply(&facts, &Rules::default(), now) {
        Verdict::Store => return None,
        Verdict::Retry(kind) | Verdict::Settle(Outcome::Failed(kind), _) => kind,
        Verdict::Correct(_) => FailureKind::Credentials,
        _ => FailureKind::Status,
    };
    let asked = head.retry_after.map(|retry_after| retry_after.wait(now / 1000).saturating_mul(1000));
    let no_page = PageFailure::new(kind, head.status, format!("status {}", head.status));
    Some(PageFailure { retry_after: asked, ..no_page })
}

/// A page's bytes as they come.
#[derive(Default)]
pub(super) struct PageBody {
    head: Vec<u8>,
    pub(super) bytes: Vec<u8>,
    scratch: Vec<u8>,
    /// When the page was waited for first.
    started: Option<Instant>,
}

/// Whether this is an encoding that is not decoded, or several of them.
fn is_other_encoding(name: &[u8]) -> bool {
    let known = [&b"deflate"[..], b"compress", b"x-compress"];
    name.contains(&b',') || known.iter().any(|known| name.eq_ignore_ascii_case(known))
}

impl PageBody {
    /// How a server has encoded it, though nobody asked for that.
    pub(super) fn encoding(&self) -> std::result::Result<Option<ContentEncoding>, PageFailure> {
        let values = field_values(&self.head, "content-encoding");
        ContentEncoding::of_fields(values.into_iter()).or_else(|name| {
            if !is_other_encoding(&name) {
                // Such as utf-8: it means nothing, and the page is what it is.
                return Ok(None);
            }
            let reason = format!("Content-Encoding says {}, which nobody asked for", for_display(&name));
            Err(PageFailure::new(FailureKind::BadEncoding, 200, reason))
        })
    }

    /// Decodes what has come, up to the largest page that is kept; whether that is all of it.
    fn decode(&mut self, is_whole: bool) -> std::result::Result<bool, PageFailure> {
        let Some(encoding) = self.encoding()? else { return Ok(is_whole) };
        let encoded = std::mem::take(&mut self.bytes);
        let decoded = encoding.decode(encoded.as_slice(), limits::PAGE_BYTES_MAX as u64, |piece| {
            self.bytes.extend_from_slice(piece);
            true
        });
        match decoded {
            Ok(()) => Ok(is_whole),
            Err(DecodeError::TooLong) => Ok(false),
            Err(_) if !is_whole => Ok(false),
            Err(DecodeError::Malformed(problem)) => {
                Err(PageFailure::new(FailureKind::BadEncoding, 200, problem))
            }
            Err(DecodeError::Storage(error)) => {
                Err(PageFailure::new(FailureKind::BadEncoding, 200, error.to_string()))
            }
        }
    }
}

impl BodySink for PageBody {
    fn head(&mut self, _head: &Head, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// The time that a page may take, from what a target may take.
fn page_timeouts(timeouts: Timeouts) -> Timeouts {
    Timeouts { total: limits::PAGE_TIMEOUT.max(timeouts.total), attempt: None, ..timeouts }
}
