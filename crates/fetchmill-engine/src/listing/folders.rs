//! Walks the folders of a web server, one at a time, in the order of the journal.

use std::io::{Cursor, Read};
use std::sync::Arc;

use super::hand_over::hand_over;
use super::page_failure::{PageFailure, TRY_LINKS};
use super::robots::RobotsFilter;
use super::server::{ServerLister, ServerListerSetup, allowed};
use crate::control::Control;
use crate::control::journal_link::{JournalRequest, ListingRequest};
use crate::control::stop::Stop;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::source::folder::{FolderReadError, folder_path};
use fetchmill_model::source::html::LinkPage;
use fetchmill_model::source::list::Filters;
use fetchmill_model::source::one_object::read_object;
use fetchmill_model::source::sitemap::{read_sitemap, sitemap_path};
use fetchmill_model::source::{ListedPage, OriginUrl, PageCursor, PendingFolder, autoindex, html};
use fetchmill_model::target::entry::Naming;

/// Format of folder listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderFormat {
    /// nginx JSON.
    Json,
    /// HTML index pages.
    Html {
        /// Whether to obey the server's robots.txt.
        obeys_robots: bool,
    },
    /// Links on any HTML page.
    Links {
        /// Whether to obey the server's robots.txt.
        obeys_robots: bool,
    },
    /// The source, which is a sitemap, and all sitemaps that it lists.
    Sitemap,
    /// No listing. The source is the only object.
    Object,
}

impl FolderFormat {
    /// Returns the kind of entries in the pages.
    fn naming(self) -> Naming {
        match self {
            FolderFormat::Sitemap | FolderFormat::Object => Naming::Url,
            FolderFormat::Json | FolderFormat::Html { .. } | FolderFormat::Links { .. } => Naming::Sized,
        }
    }

    fn path(self, origin: &OriginUrl, folder: &PendingFolder) -> String {
        match self {
            FolderFormat::Sitemap | FolderFormat::Object => sitemap_path(origin, &folder.path),
            _ => folder_path(origin, &folder.path),
        }
    }
}

/// State of a walk. See the [module documentation](self).
struct FolderWalk {
    lister: ServerLister,
    format: FolderFormat,
    robots: RobotsFilter,
}

/// Lists all folders that have not been listed yet. Stops early if the job is ending.
pub(super) fn list(setup: ServerListerSetup, format: FolderFormat) -> Result<()> {
    let control = Arc::clone(&setup.control);
    if control.journal.ask(JournalRequest::NextFolder)?.is_none() {
        control.journal.list(ListingRequest::End);
        return Ok(());
    }
    let mut lister = ServerLister::new(setup)?;
    let robots = match format {
        FolderFormat::Html { obeys_robots: true } | FolderFormat::Links { obeys_robots: true } => {
            match RobotsFilter::fetch(&mut lister)? {
                Some(robots) => robots,
                None => return Ok(()),
            }
        }
        _ => RobotsFilter::default(),
    };
    let mut walk = FolderWalk { lister, format, robots };
    let listed = walk.list_folders();
    walk.robots.notice_to(&control);
    listed
}

impl FolderWalk {
    fn list_folders(&mut self) -> Result<()> {
        let control = Arc::clone(&self.lister.control);
        let mut attempts = 0;
        while control.wait_for_room() {
            let Some(folder) = control.journal.ask(JournalRequest::NextFolder)? else {
                control.journal.list(ListingRequest::End);
                return Ok(());
            };
            let path = self.format.path(&self.lister.origin, &folder);
            let no_page = match self.read_folder(&path, &folder) {
                Ok(()) => {
                    attempts = 0;
                    self.lister.has_listed = true;
                    self.lister.came();
                    continue;
                }
                Err(FolderReadError::Job(error)) => return Err(error),
                Err(FolderReadError::Page(bad)) => PageFailure::new(FailureKind::Listing, 200, bad.0),
                Err(FolderReadError::NotIndex(why)) => {
                    PageFailure { hint: TRY_LINKS, ..PageFailure::new(FailureKind::Listing, 200, why) }
                }
                Err(FolderReadError::Cut(why)) => PageFailure::new(FailureKind::Truncated, 200, why),
                Err(FolderReadError::Io(error)) => no_page_of(error),
            };
            attempts += 1;
            if control.stop.get() != Stop::No || !self.lister.wait_after(&path, &no_page, attempts)? {
                return Ok(());
            }
            if no_page.is_last(attempts, false) {
                if !self.lister.has_listed {
                    return Err(self.lister.no_listing(&path, &no_page, attempts));
                }
                fail_folder(&control, folder, no_page, attempts);
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
        let FolderWalk { lister, format, robots } = self;
        let control = Arc::clone(&lister.control);
        let (origin, filters) = (lister.origin.clone(), lister.filters.clone());
        let first_page = lister.first_page.take().filter(|_| folder.path.is_empty());
        let naming = format.naming();
        let each = |page| hand_over_folder(&control, &filters, naming, robots.allowed(page));
        let read = if *format == FolderFormat::Object {
            read_object(&origin, folder, each)
        } else {
            let page = match first_page {
                Some(page) => LinkPage {
                    reader: Box::new(Cursor::new(page.bytes)) as _,
                    url: lister.url(path),
                    has_length: true,
                },
                None => fetch_page(lister, path)?,
            };
            read_as(*format, page, &origin, folder, each)
        };
        read.map_err(|error| match error {
            FolderReadError::Job(_) if control.stop.get() != Stop::No => {
                FolderReadError::Io(std::io::Error::other("the job is ending"))
            }
            other => other,
        })
    }
}

fn fetch_page(
    lister: &mut ServerLister,
    path: &str,
) -> std::result::Result<LinkPage<Box<dyn Read>>, FolderReadError> {
    let failed = |failure| FolderReadError::Io(io_error(failure));
    let (url, body) = lister.fetch_index(path).map_err(FolderReadError::Job)?.map_err(failed)?;
    let has_length = body.has_length();
    Ok(LinkPage { reader: body.into_reader().map_err(failed)?, url, has_length })
}

fn read_as(
    format: FolderFormat,
    page: LinkPage<Box<dyn Read>>,
    origin: &OriginUrl,
    folder: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<()>,
) -> std::result::Result<(), FolderReadError> {
    match format {
        FolderFormat::Json => autoindex::read_folder(page.reader, folder, each),
        FolderFormat::Html { .. } => html::read_folder(page.reader, origin, folder, each),
        FolderFormat::Links { .. } => html::read_links(page, origin, folder, each),
        FolderFormat::Sitemap => read_sitemap(page.reader, origin, folder, each),
        FolderFormat::Object => read_object(origin, folder, each),
    }
}

fn hand_over_folder(control: &Control, filters: &Filters, naming: Naming, page: ListedPage) -> Result<()> {
    let page = without_listed(control, allowed(page, filters, naming))?;
    if let PageCursor::Folder { refused, .. } = &page.cursor {
        control.listing_counters().add_listed(refused.len() as u64, 0);
        (0..refused.len()).for_each(|_| control.listing_counters().fail(FailureKind::Listing));
    }
    hand_over(control, page);
    // A single folder can exceed the window.
    if control.wait_for_room() { Ok(()) } else { Err(Error::Internal("the job is ending".into())) }
}

/// Removes names that another folder has already listed, if the format allows this.
fn without_listed(control: &Control, mut page: ListedPage) -> Result<ListedPage> {
    let PageCursor::Folder { refused, names_once: true, .. } = &mut page.cursor else { return Ok(page) };
    for names in [&mut page.names, refused] {
        if !names.is_empty() {
            let listed = std::mem::take(names);
            *names = control.journal.ask(|reply| JournalRequest::KeepUnlisted(listed, reply))?;
        }
    }
    Ok(page)
}

/// Records a failed target for a folder that could not be listed.
fn fail_folder(control: &Control, folder: PendingFolder, no_page: PageFailure, attempts: u32) {
    let status = (no_page.status != 0).then_some(no_page.status);
    let detail = no_page.reason + no_page.hint;
    control.listing_counters().add_listed(1, 0);
    control.listing_counters().fail(FailureKind::Listing);
    control.journal.list(ListingRequest::FailFolder { path: folder.path, status, attempts, detail });
}

/// Wraps a page failure in an I/O error, so that it can pass through `Read`.
fn io_error(no_page: PageFailure) -> std::io::Error {
    std::io::Error::other(no_page)
}

fn no_page_of(error: std::io::Error) -> PageFailure {
    error.downcast().unwrap_or_else(|error| PageFailure::new(FailureKind::Reset, 0, error.to_string()))
}
