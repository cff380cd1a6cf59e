//! A server that lists its objects. The pages are requested one after another, on a separate connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::LocalRuntime;

use super::hand_over::hand_over;
use super::page_body::{FetchedPage, PageBody};
use super::page_failure::{FailedPage, PageFailure};
use super::page_requester::{PageAnswer, PageRequest, PageRequester};
use super::relisting::Relisting;
use crate::access::tls_errors::distrust;
use crate::attempt::RedirectPolicy;
use crate::control::Control;
use crate::control::stop::Stop;
use crate::event_queues::network_runtime;
use crate::plan::job_origins::ListingServer;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::skips::SkipReason;
use fetchmill_model::outcome::{FailureClass, FailureKind};
use fetchmill_model::planner::origin::{Millis, Observations};
use fetchmill_model::planner::retry::{self, Jitter};
use fetchmill_model::source::list::Filters;
use fetchmill_model::source::{ApiNames, BadPage, ListedPage, OriginUrl, PageCursor};
use fetchmill_model::target::Names;
use fetchmill_model::target::entry::Naming;
use fetchmill_net::certain::RestedConnection;
use fetchmill_net::{PoolSettings, Proxy};

/// Parts of a lister that can be moved to another thread.
pub(crate) struct ServerListerSetup {
    pub(crate) control: Arc<Control>,
    pub(crate) origin: OriginUrl,
    pub(crate) server: ListingServer,
    pub(crate) pool: PoolSettings,
    /// Whether a page has arrived in this run or an earlier one. If so, a failing page indicates an outage, and the
    /// listing waits.
    pub(crate) has_listed: bool,
    /// Filters that select the names to fetch.
    pub(crate) filters: Filters,
    /// Time in milliseconds after which a failing page ends the job.
    pub(crate) give_up_after: Millis,
    /// The first page, if it was already fetched.
    pub(crate) first_page: Option<FetchedPage>,
    /// State for restarting the listing. `None` if the job does not have the names of its targets.
    pub(crate) relisting: Option<Relisting>,
    /// Whether a restarted listing was unfinished when an earlier run ended.
    pub(crate) is_relisting: bool,
    /// Whether the objects are at the same origin. If so, replies to page requests also reveal the state of that
    /// origin.
    pub(crate) is_of_objects: bool,
    /// Maximum number of redirects per page.
    pub(crate) redirects_max: u32,
    /// Folder that stores indexes while they are downloaded.
    pub(crate) folder: Arc<PathBuf>,
}

/// Origins that the redirects of a page can lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageReach {
    /// Only the same origin, for a page that lists objects there.
    SameOrigin,
    /// Any origin, for a page that contains only rules for the server.
    Anywhere,
}

/// Lister of a server. See the [module documentation](self).
pub(super) struct ServerLister {
    pub(super) control: Arc<Control>,
    pub(super) origin: OriginUrl,
    runtime: LocalRuntime,
    requester: PageRequester,
    connection: RestedConnection,
    redirects_max: u32,
    /// Folder that stores indexes while they are downloaded.
    folder: Arc<PathBuf>,
    jitter: Jitter,
    pub(super) has_listed: bool,
    /// Time when the requested page first failed.
    failing_since: Option<Millis>,
    give_up_after: Millis,
    pub(super) filters: Filters,
    pub(super) first_page: Option<FetchedPage>,
    relisting: Option<Relisting>,
    is_relisting: bool,
    /// Set if the listing restarts with the next page.
    restart: Option<Restart>,
    is_of_objects: bool,
}

/// Lists everything after `marker` through the list/get API. Stops early if the job is ending.
pub(super) fn list(setup: ServerListerSetup, names: &ApiNames, marker: Option<String>) -> Result<()> {
    ServerLister::new(setup)?.list_api(names, marker)
}

/// Reason for restarting the listing.
enum Restart {
    /// The marker of an earlier run has expired. Contains the error to report if the restart fails as well.
    Expired(Error),
    /// An earlier run restarted the listing but did not finish it.
    Resumed,
}

/// Point where the listing continues.
pub(super) enum PageFrom {
    /// At this page.
    Here(FetchedPage),
    /// At the start, because the marker has expired.
    Start,
    /// Nowhere, because the job is ending.
    Nowhere,
}

impl ServerLister {
    pub(super) fn new(setup: ServerListerSetup) -> Result<Self> {
        let requester = PageRequester::new(&setup.control, setup.server, setup.pool);
        Ok(ServerLister {
            jitter: Jitter::new(setup.control.clock.now()),
            runtime: network_runtime()?,
            requester,
            connection: RestedConnection::default(),
            control: setup.control,
            origin: setup.origin,
            redirects_max: setup.redirects_max,
            folder: setup.folder,
            has_listed: setup.has_listed,
            failing_since: None,
            give_up_after: setup.give_up_after,
            filters: setup.filters,
            first_page: setup.first_page,
            relisting: setup.relisting,
            is_relisting: setup.is_relisting,
            restart: None,
            is_of_objects: setup.is_of_objects,
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
                Some(page) => page.bytes,
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

    /// Returns the number of consecutive empty pages. Fails if there are too many, because such a listing never ends.
    pub(super) fn count_empty(&self, is_empty: bool, before: u32, path: &str) -> Result<u32> {
        let empty_pages = if is_empty { before + 1 } else { 0 };
        if empty_pages > limits::EMPTY_PAGES_MAX {
            return Err(Error::Listing(format!(
                "the listing never ends: {} pages in a row had no names, and the last one is {}",
                limits::EMPTY_PAGES_MAX,
                self.url(path)
            )));
        }
        Ok(empty_pages)
    }

    /// Returns whether the journal's thread has ended the listing, for example because the listing would never end.
    pub(super) fn is_over(&self) -> bool {
        self.control.is_listing_done.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}{}", self.origin.scheme(), self.origin.authority(), path)
    }

    pub(super) fn unreadable(&self, path: &str, bad: &BadPage) -> Error {
        Error::Listing(format!("the listing {} cannot be read: {bad}", self.url(path)))
    }

    /// Returns whether to start again despite a marker. This is necessary if an earlier run restarted the listing but
    /// did not finish it. The names listed since that restart are unknown.
    pub(super) fn resumes_restart(&mut self) -> bool {
        let resumes = self.is_relisting && self.relisting.is_some();
        if resumes {
            self.restart = Some(Restart::Resumed);
        }
        resumes
    }

    /// Fetches a complete page. If the marker of an earlier run has expired, restarts the listing.
    pub(super) fn fetch_page_from(&mut self, path: &str, is_of_earlier_run: bool) -> Result<PageFrom> {
        let failed = match self.fetch(path, PageReach::SameOrigin)? {
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
            // The first page was refused as well, so an expired marker is not the cause.
            return Err(first);
        }
        if !is_of_earlier_run || !failed.is_of_unknown_marker() {
            return Err(error);
        }
        if self.relisting.is_none() {
            return Err(Error::Listing(format!(
                "{error}; the marker from an earlier run may have expired, and the listing cannot start \
                 over, because this job does not keep the names of all targets; use another destination"
            )));
        }
        self.restart = Some(Restart::Expired(error));
        Ok(PageFrom::Start)
    }

    /// Restarts the listing after its first page has arrived.
    fn begin_again(&mut self) -> Result<()> {
        let (Some(restart), Some(relisting)) = (self.restart.take(), &mut self.relisting) else {
            return Ok(());
        };
        if let Restart::Expired(_) = restart {
            let notice = "the marker from an earlier run has expired, so the listing starts over; fetched \
                          objects are kept";
            self.control.notice(notice);
        }
        relisting.begin(&self.control)
    }

    /// If the listing was restarted, removes the names that the job already knows.
    pub(super) fn without_known(&self, page: ListedPage) -> Result<ListedPage> {
        match &self.relisting {
            Some(relisting) => relisting.without_known(page),
            None => Ok(page),
        }
    }

    pub(super) fn too_large(&self, path: &str) -> Error {
        let reason = "the page is larger than 16 MiB; make the server send smaller pages";
        self.no_listing(path, &PageFailure::new(FailureKind::BodyTooLarge, 200, reason), 1)
    }

    /// Fetches a page and keeps its body. Retries as long as this is useful. Returns `None` if the job is ending.
    pub(super) fn fetch(
        &mut self,
        path: &str,
        reach: PageReach,
    ) -> Result<Option<std::result::Result<FetchedPage, FailedPage>>> {
        self.fetch_as(path, reach, PageBody::kept)
    }

    /// Fetches a page like [`ServerLister::fetch`], from a URL that can lead to an object. Receives only the start of
    /// an object.
    pub(super) fn fetch_if_listing(
        &mut self,
        path: &str,
    ) -> Result<Option<std::result::Result<FetchedPage, FailedPage>>> {
        self.fetch_as(path, PageReach::Anywhere, PageBody::kept_if_listing)
    }

    fn fetch_as(
        &mut self,
        path: &str,
        reach: PageReach,
        body: fn() -> PageBody,
    ) -> Result<Option<std::result::Result<FetchedPage, FailedPage>>> {
        let mut attempts = 0;
        loop {
            let asked = self.ask(path, reach, body(), false)?;
            let failure = match asked.and_then(|(url, body, is_whole)| body.decode(url, is_whole)) {
                Ok(page) => {
                    self.came();
                    return Ok(Some(Ok(page)));
                }
                Err(failure) => failure,
            };
            attempts += 1;
            if !self.wait_after(path, &failure, attempts)? {
                return Ok(None);
            }
            if failure.is_last(attempts, self.has_listed) {
                return Ok(Some(Err(FailedPage { failure, attempts })));
            }
        }
    }

    /// Makes one attempt to fetch an index and returns its URL and body. Fails with an error that ends the job if a
    /// retry is useless.
    pub(super) fn fetch_index(
        &mut self,
        path: &str,
    ) -> Result<std::result::Result<(String, PageBody), PageFailure>> {
        let body = PageBody::index(&self.folder);
        Ok(self.ask(path, PageReach::SameOrigin, body, true)?.map(|(url, body, _)| (url, body)))
    }

    /// Requests a page once. Returns its URL, its body, and whether the body is complete.
    fn ask(
        &mut self,
        path: &str,
        reach: PageReach,
        body: PageBody,
        is_index: bool,
    ) -> Result<std::result::Result<(String, PageBody, bool), PageFailure>> {
        let policy =
            RedirectPolicy { hops_max: self.redirects_max, may_leave_origin: reach == PageReach::Anywhere };
        let request = PageRequest::new(self.url(path), policy);
        let asked = self.requester.ask(&mut self.connection, request, body, is_index);
        let (request, body) = self.runtime.block_on(asked);
        let (url, end) = request.into_end();
        match end {
            PageAnswer::Page(is_whole) => Ok(Ok((url, body, is_whole))),
            PageAnswer::Failed(failure) => Ok(Err(failure)),
            PageAnswer::Error(error) => Err(error),
            PageAnswer::Nothing => {
                Ok(Err(PageFailure::new(FailureKind::TotalTimeout, 0, "the job is ending")))
            }
        }
    }

    pub(super) fn no_listing(&self, path: &str, no_page: &PageFailure, attempts: u32) -> Error {
        if let Some(error) = distrust(self.requester.key(), no_page.kind) {
            return error;
        }
        let url = self.url(path);
        let PageFailure { status, reason, kind, .. } = no_page;
        let hint = match kind {
            FailureKind::Refused | FailureKind::Unreachable | FailureKind::ConnectTimeout => {
                "; check that the server is running and the port is right".into()
            }
            FailureKind::Proxy => self.proxy_hint(),
            FailureKind::NotHttp => "; check that this is an http server and the port is right".into(),
            FailureKind::Tls => format!(
                "; check that this is an https server and the port is right; for a plain http server, write \
                 http://{}",
                self.requester.key().authority()
            ),
            _ if *status == 404 => "; check SOURCE, or set --list-path and --listing".into(),
            _ => no_page.hint.into(),
        };
        Error::Listing(format!(
            "the listing {url} failed ({}): {reason}, attempts: {attempts}{hint}",
            kind.name()
        ))
    }

    /// Returns a hint about the proxy if the server could not be reached through it.
    fn proxy_hint(&self) -> String {
        let Some(proxy) = self.requester.proxy() else { return String::new() };
        let Proxy { host, port, .. } = proxy;
        format!(
            "; requests go through the proxy {host}:{port}; check that it is running and --proxy is right"
        )
    }

    /// Waits for the delay that the failure requires, and until the origin recovers. Returns `false` if the job is
    /// ending.
    pub(super) fn wait_after(&mut self, path: &str, no_page: &PageFailure, attempts: u32) -> Result<bool> {
        self.observe(no_page, attempts);
        if no_page.is_last(attempts, self.has_listed) {
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
                "the listing page {} kept failing until --give-up-after: {}; run the same command again to \
                 resume",
                self.url(path),
                no_page.reason
            )));
        }
        Ok(true)
    }

    /// Records that a page has arrived.
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
}

/// Removes names that the filters exclude.
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
