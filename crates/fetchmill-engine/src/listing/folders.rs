//! A web server's folders: walked one after the other, as the journal knows them.

use std::io::{BufReader, Cursor, Read};
use std::sync::Arc;

use super::hand_over::hand_over;
use super::robots::RobotsFilter;
use super::server::{PageBody, PageFailure, ServerLister, ServerListerSetup, allowed, is_last};
use crate::control::Control;
use crate::control::journal_link::{JournalRequest, ListingRequest};
use crate::control::stop::Stop;
use fetchmill_model::content_encoding::ContentEncoding;
use fetchmill_model::entry::Naming;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::source::folder::{FolderReadError, folder_path};
use fetchmill_model::source::list::Filters;
use fetchmill_model::source::sitemap::{read_sitemap, sitemap_path};
use fetchmill_model::source::{ListedPage, OriginUrl, PageCursor, PendingFolder, autoindex, html};

/// What folders are listed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderFormat {
    /// The JSON of nginx.
    Json,
    /// Index pages.
    Html {
        /// Whether the server's robots.txt is heeded.
        heeds_robots: bool,
    },
    /// Sitemaps: the source, and those that it leads to.
    Sitemap,
}

impl FolderFormat {
    /// What stands in pages.
    fn naming(self) -> Naming {
        if self == FolderFormat::Sitemap { Naming::Url } else { Naming::Sized }
    }

    fn path(self, origin: &OriginUrl, folder: &PendingFolder) -> String {
        match self {
            FolderFormat::Sitemap => sitemap_path(origin, &folder.path),
            _ => folder_path(origin, &folder.path),
        }
    }
}

/// See the module.
struct FolderWalk {
    lister: ServerLister,
    format: FolderFormat,
    robots: RobotsFilter,
}

/// Lists all folders that are not listed yet, or until the job is to end.
pub(super) fn list(setup: ServerListerSetup, format: FolderFormat) -> Result<()> {
    let control = Arc::clone(&setup.control);
    if control.journal.ask(JournalRequest::NextFolder)?.is_none() {
        control.journal.list(ListingRequest::End);
        return Ok(());
    }
    let mut lister = ServerLister::new(setup)?;
    let robots = match format {
        FolderFormat::Html { heeds_robots: true } => match RobotsFilter::fetch(&mut lister)? {
            Some(robots) => robots,
            None => return Ok(()),
        },
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
                Err(FolderReadError::Cut(why)) => PageFailure::new(FailureKind::Truncated, 200, why),
                Err(FolderReadError::Io(error)) => no_page_of(error),
            };
            attempts += 1;
            if control.stop.get() != Stop::No || !self.lister.wait_after(&path, &no_page, attempts)? {
                return Ok(());
            }
            if is_last(no_page.kind, attempts, limits::FIRST_PAGE_ATTEMPTS_MAX) {
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
        let read = if let Some(bytes) = first_page {
            read_as(*format, Cursor::new(bytes), &origin, folder, each)
        } else {
            lister.start(path).map_err(|no_page| FolderReadError::Io(io_error(no_page)))?;
            let mut reader = PageReader { lister, body: PageBody::default(), at: 0, is_over: false };
            let encoding = reader.encoding().map_err(FolderReadError::Io)?;
            match encoding {
                None => read_as(*format, reader, &origin, folder, each),
                Some(encoding) => {
                    let decoder = encoding.reader(BufReader::new(reader)).map_err(FolderReadError::Io)?;
                    // A page that is longer ends within its JSON, or is refused as HTML is.
                    let bounded = BufReader::new(decoder.take(limits::INDEX_BYTES_MAX + 1));
                    read_as(*format, bounded, &origin, folder, each)
                }
            }
        };
        read.map_err(|error| match error {
            FolderReadError::Job(_) if control.stop.get() != Stop::No => {
                FolderReadError::Io(std::io::Error::other("the job is ending"))
            }
            other => other,
        })
    }
}

fn read_as(
    format: FolderFormat,
    reader: impl Read,
    origin: &OriginUrl,
    folder: &PendingFolder,
    each: impl FnMut(ListedPage) -> Result<()>,
) -> std::result::Result<(), FolderReadError> {
    match format {
        FolderFormat::Json => autoindex::read_folder(reader, folder, each),
        FolderFormat::Html { .. } => html::read_folder(reader, origin, folder, each),
        FolderFormat::Sitemap => read_sitemap(reader, origin, folder, each),
    }
}

fn hand_over_folder(control: &Control, filters: &Filters, naming: Naming, page: ListedPage) -> Result<()> {
    if let PageCursor::Folder { refused, .. } = &page.cursor {
        control.listing_counters().add_listed(refused.len() as u64, 0);
        (0..refused.len()).for_each(|_| control.listing_counters().fail(FailureKind::Listing));
    }
    hand_over(control, allowed(page, filters, naming));
    // A folder may be larger than the window.
    if control.wait_for_room() { Ok(()) } else { Err(Error::Internal("the job is ending".into())) }
}

/// It counts as a target that failed.
fn fail_folder(control: &Control, folder: PendingFolder, no_page: PageFailure, attempts: u32) {
    let status = (no_page.status != 0).then_some(no_page.status);
    let detail = no_page.reason;
    control.listing_counters().add_listed(1, 0);
    control.listing_counters().fail(FailureKind::Listing);
    control.journal.list(ListingRequest::FailFolder { path: folder.path, status, attempts, detail });
}

/// Through `Read`, whose errors are the operating system's.
fn io_error(no_page: PageFailure) -> std::io::Error {
    std::io::Error::other(no_page)
}

fn no_page_of(error: std::io::Error) -> PageFailure {
    error.downcast().unwrap_or_else(|error| PageFailure::new(FailureKind::Reset, 0, error.to_string()))
}

/// A folder's listing as a stream, so that its size costs no memory.
struct PageReader<'l> {
    lister: &'l mut ServerLister,
    body: PageBody,
    at: usize,
    is_over: bool,
}

impl PageReader<'_> {
    /// Waits for bytes, unless there are some.
    fn fill(&mut self) -> std::io::Result<()> {
        while self.at == self.body.bytes.len() && !self.is_over {
            self.body.bytes.clear();
            self.at = 0;
            self.is_over = self.lister.receive_some(&mut self.body).map_err(io_error)?;
        }
        Ok(())
    }

    /// How it is encoded: its head comes before its bytes.
    fn encoding(&mut self) -> std::io::Result<Option<ContentEncoding>> {
        self.fill()?;
        self.body.encoding().map_err(io_error)
    }
}

impl Read for PageReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.fill()?;
        let count = buffer.len().min(self.body.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.body.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
