//! The pages of a listing: their names, and the position of the listing.

use rusqlite::params;

use super::{MARKER, folders, listed_digests, ranges};
use crate::journal::database::schema;
use crate::journal::job::live::LivePage;
use crate::journal::job::open_journal::{Journal, LISTED_AT, now_text};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::for_display;
use fetchmill_model::source::{ListPosition, ListedPage, PageCursor};
use fetchmill_model::target::entry::EntryTraits;
use fetchmill_model::target::{Names, Sequence};

/// Key under which the position in a list is stored.
const LIST_POSITION: &str = "list_position";

/// Key that records that the listing was restarted.
const RELISTING: &str = "relisting";

impl Journal {
    /// Adds a page and returns the sequence number of its first target.
    pub fn add_page(&mut self, page: &ListedPage) -> Result<Sequence> {
        self.begin()?;
        self.keep_cursor(&page.cursor, &page.names)?;
        self.keep_total(page.total)?;
        // Entries of a sitemap have traits, but those of a folder listing do not.
        if matches!(
            page.cursor,
            PageCursor::List { .. } | PageCursor::Folder { .. } | PageCursor::Json { .. }
        ) {
            self.keep_traits(&page.names)?;
        }
        let first = self.next_sequence;
        let count = page.names.len();
        if count > 0 {
            let blob = schema::pack(&page.names.to_blob());
            let blob = blob.map_err(|error| Error::Internal(format!("zstd: {error}")))?;
            let mut insert = self
                .check(self.db.prepare_cached("INSERT INTO pages (first, count, names) VALUES (?, ?, ?)"))?;
            self.check(insert.execute(params![first as i64, count as i64, blob]))?;
            drop(insert);
            self.live.insert(first, LivePage::new(count));
        }
        self.next_sequence += count as u64;
        self.note_skips(&page.skipped)?;
        let skipped = page.skipped.total();
        self.tally.listed += count as u64 + skipped;
        self.tally.skipped += skipped;
        Ok(first)
    }

    fn keep_total(&mut self, total: Option<u64>) -> Result<()> {
        if let Some(number) = total.filter(|_| total != self.total) {
            self.set("total", &number.to_string())?;
            self.total = total;
        }
        Ok(())
    }

    fn keep_cursor(&mut self, cursor: &PageCursor, names: &Names) -> Result<()> {
        match cursor {
            PageCursor::Marker { from, next } => {
                if let Some(next) = next
                    && (from.as_ref() == Some(next) || self.has_marker(marker_digest(next))?)
                {
                    return Err(Error::Listing(format!(
                        "the listing never ends: the marker {} was repeated; the server must return a new \
                         marker with each page",
                        for_display(next.as_bytes())
                    )));
                }
                // Record the marker last, because a rejected page must be accepted when it is listed again.
                if let Some(from) = from {
                    self.note_marker(marker_digest(from))?;
                }
                self.keep_next(next.as_deref())
            }
            PageCursor::Json { url, items_digest, next, next_url } => {
                self.keep_page_once(url, *items_digest, next_url.as_deref())?;
                self.keep_next(next.as_deref())
            }
            PageCursor::Folder { path, found, refused, read, digest, is_last, names_once } => {
                if *names_once {
                    self.check(listed_digests::note_names(&self.db, names))?;
                    self.check(listed_digests::note_names(&self.db, refused))?;
                }
                let depth = self.check(folders::depth_below(&self.db, path))?;
                self.check(folders::keep(&self.db, path, (found, depth), (*read, *digest), *is_last))?;
                self.refuse_folders(refused, depth)
            }
            PageCursor::Keys { range, after, is_last } => {
                let is_complete = self.check(ranges::keep(&self.db, *range, after, *is_last))?;
                if is_complete { self.end_listing() } else { Ok(()) }
            }
            PageCursor::List { position, is_last } => {
                self.set(LIST_POSITION, &position.to_text())?;
                if *is_last { self.end_listing() } else { Ok(()) }
            }
        }
    }

    /// Checks a JSON page. The page itself and all its items must be new, and it must lead to a new page.
    fn keep_page_once(&self, url: &str, items_digest: Option<u128>, next_url: Option<&str>) -> Result<()> {
        let endless = |why: &str| {
            let shown = for_display(url.as_bytes());
            Err(Error::Listing(format!("the listing never ends: the page {shown} {why}")))
        };
        if self.has_marker(marker_digest(url))? {
            return endless("was already listed; the server must link to each page only once");
        }
        let digest = items_digest.map(u128::to_le_bytes);
        if let Some(digest) = digest
            && self.has_marker(digest)?
        {
            return endless(
                "repeats the items of an earlier page; check that the server supports the parameter for the \
                 next page",
            );
        }
        // A link to the same page is allowed, because some servers repeat the last marker on the last page.
        if let Some(next_url) = next_url.filter(|next_url| *next_url != url)
            && self.has_marker(marker_digest(next_url))?
        {
            return endless(&format!(
                "leads to {}, which was already listed; the server must link to each page only once",
                for_display(next_url.as_bytes())
            ));
        }
        // Record the digests last, because a rejected page must be accepted when it is listed again.
        for digest in [Some(marker_digest(url)), digest].into_iter().flatten() {
            self.note_marker(digest)?;
        }
        Ok(())
    }

    /// Stores the listing's position.
    fn keep_next(&self, next: Option<&str>) -> Result<()> {
        next.map_or_else(|| self.end_listing(), |next| self.set(MARKER, next))
    }

    fn has_marker(&self, digest: [u8; 16]) -> Result<bool> {
        self.check(listed_digests::has(&self.db, digest))
    }

    fn note_marker(&self, digest: [u8; 16]) -> Result<()> {
        self.check(listed_digests::note(&self.db, digest)).map(drop)
    }

    fn keep_traits(&self, entries: &Names) -> Result<()> {
        let known = self.check(schema::read_traits(&self.db))?;
        let traits = entries.iter().fold(known, EntryTraits::and);
        if traits == known { Ok(()) } else { self.set(schema::TRAITS, &traits.to_text()) }
    }

    /// Returns how far a list has been read. `None` before its first page.
    pub fn list_position(&self) -> Result<Option<ListPosition>> {
        let Some(text) = self.get(LIST_POSITION)? else { return Ok(None) };
        let position = ListPosition::from_text(&text);
        position
            .map(Some)
            .ok_or_else(|| Error::Journal(format!("the journal has an invalid list position: {text}")))
    }

    /// Restarts the listing. Targets that the job already has are left out.
    pub fn restart_listing(&mut self) -> Result<()> {
        self.begin()?;
        self.check(self.db.execute("DELETE FROM markers", []))?;
        self.forget(MARKER)?;
        self.set(RELISTING, "")?;
        // These targets will be counted again. A journal of 0.1.0 does not store the reasons for skipping.
        let skipped = if self.knows_skips()? { self.forget_listing_skips()? } else { self.tally.skipped };
        self.tally.listed -= skipped;
        self.tally.skipped -= skipped;
        Ok(())
    }

    /// Restarts the listing at the first page, following tokens. Targets that the job already has are left out.
    pub fn relist_by_tokens(&mut self) -> Result<()> {
        self.follow_tokens(None)?;
        self.restart_listing()
    }

    /// Returns whether the listing was restarted.
    pub fn is_relisting(&self) -> Result<bool> {
        Ok(self.get(RELISTING)?.is_some())
    }

    /// Records that the listing is complete.
    pub fn end_listing(&self) -> Result<()> {
        if !self.is_listed()? {
            self.set(LISTED_AT, &now_text())?;
        }
        Ok(())
    }
}

fn marker_digest(marker: &str) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(marker.as_bytes()).to_le_bytes()
}
