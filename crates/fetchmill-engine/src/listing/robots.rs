//! Applies a server's robots.txt to a walk over index pages.

use super::page_body::FetchedPage;
use super::page_failure::PageFailure;
use super::server::{PageReach, ServerLister};
use crate::control::Control;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::outcome::skips::{SkipReason, Skips};
use fetchmill_model::source::folder::folder_path;
use fetchmill_model::source::robots::{PRODUCT_TOKEN, Robots};
use fetchmill_model::source::{ListedPage, PageCursor, percent};
use fetchmill_model::target::Names;
use fetchmill_model::target::source_metadata::SizedName;

const PATH: &str = "/robots.txt";

/// Filter that removes and counts the names that robots.txt forbids.
#[derive(Default)]
pub(super) struct RobotsFilter {
    robots: Robots,
    /// URL of the robots.txt.
    url: String,
    /// Decoded prefix that all names have.
    base: Vec<u8>,
    left_out: u64,
}

impl RobotsFilter {
    /// Fetches the server's robots.txt. Returns `None` if the job is ending.
    pub(super) fn fetch(lister: &mut ServerLister) -> Result<Option<Self>> {
        let url = lister.url(PATH);
        let robots = match lister.fetch(PATH, PageReach::Anywhere)? {
            None => return Ok(None),
            Some(Ok(FetchedPage { bytes, .. })) => Robots::parse(&bytes, PRODUCT_TOKEN),
            // There is no robots.txt, or it is not public (RFC 9309, 2.3.1.3).
            Some(Err(failed)) if failed.is_refusal() && failed.failure.status >= 400 => Robots::default(),
            Some(Err(failed)) => {
                let PageFailure { reason, kind, .. } = failed.failure;
                return Err(Error::Listing(format!(
                    "cannot fetch {url} ({}): {reason}, attempts: {}; without it, the forbidden paths are \
                     unknown; try again later, or ignore robots.txt with --no-robots",
                    kind.name(),
                    failed.attempts
                )));
            }
        };
        let top = folder_path(&lister.origin, b"");
        let base = percent::decode(top.as_bytes()).unwrap_or_else(|| top.clone().into_bytes());
        if !robots.allows(&base) {
            return Err(Error::Listing(format!(
                "{url} forbids {top}; ask the operator of the server, or ignore robots.txt with --no-robots"
            )));
        }
        Ok(Some(RobotsFilter { robots, url, base, left_out: 0 }))
    }

    /// Removes forbidden names from a page and counts them as skipped.
    pub(super) fn allowed(&mut self, mut page: ListedPage) -> ListedPage {
        if self.robots.is_empty() {
            return page;
        }
        let before = page.skipped.total();
        page.names = self.keep(&page.names, b"", &mut page.skipped);
        if let PageCursor::Folder { found, .. } = &mut page.cursor {
            *found = self.keep(found, b"/", &mut page.skipped);
        }
        self.left_out += page.skipped.total() - before;
        page
    }

    fn keep(&self, names: &Names, behind: &[u8], skipped: &mut Skips) -> Names {
        let mut kept = Names::default();
        for entry in names.iter() {
            // Folder paths have no prefix. None of them starts with NUL, because such paths were rejected earlier.
            let name = SizedName::read(entry).name;
            if self.robots.allows(&[&self.base, name, behind].concat()) {
                kept.push(entry);
            } else {
                skipped.add(SkipReason::Robots, name);
            }
        }
        kept
    }

    /// Notifies the user how many names were removed.
    pub(super) fn notice_to(&self, control: &Control) {
        if self.left_out > 0 {
            control.notice(&format!(
                "{} forbids {} of the listed files and folders, which were skipped; \
                 --no-robots includes them",
                self.url, self.left_out
            ));
        }
    }
}
