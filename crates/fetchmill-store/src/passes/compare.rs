//! Decides whether a listed object may differ from the one in the destination. Only this module makes the decision.

use rusqlite::{Row, Rows};

use super::listing::ListedObject;

/// Tolerance for a listed time, in seconds. Listed times have a resolution of one second and may be rounded.
const TIME_SLACK: i64 = 2;
/// Columns read by [`BaseObject::of_row`].
pub(super) const BASE_COLUMNS: &str = "name, url, listed_size, listed_etag, listed_modified, etag, modified, length, \
                                       mtime_ns, checked_at";

/// An object in the destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BaseObject {
    pub(super) name: Vec<u8>,
    pub(super) url: Option<String>,
    pub(super) listed_size: Option<i64>,
    pub(super) listed_etag: Option<String>,
    pub(super) listed_modified: Option<i64>,
    /// `ETag` of the reply, as sent.
    pub(super) etag: Option<Vec<u8>>,
    /// `Last-Modified` of the reply.
    pub(super) modified: Option<i64>,
    pub(super) length: i64,
    pub(super) mtime_ns: Option<i64>,
    /// Start of the pass that last fetched or checked the object, in seconds since 1970 UTC.
    pub(super) checked_at: i64,
}

impl BaseObject {
    pub(super) fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(BaseObject {
            name: row.get(0)?,
            url: row.get(1)?,
            listed_size: row.get(2)?,
            listed_etag: row.get(3)?,
            listed_modified: row.get(4)?,
            etag: row.get(5)?,
            modified: row.get(6)?,
            length: row.get(7)?,
            mtime_ns: row.get(8)?,
            checked_at: row.get(9)?,
        })
    }

    pub(super) fn next_of(rows: &mut Rows<'_>) -> rusqlite::Result<Option<Self>> {
        rows.next()?.map(BaseObject::of_row).transpose()
    }

    /// Returns whether an unchanged modification time proves that the object is unchanged. An object that was written
    /// in the same second in which it was fetched may have been written again within that second. A server that derives
    /// ETags from times and sizes would not notice this either, so no conditional request is sent (RFC 9110, section
    /// 8.8.2.2).
    fn is_settled(&self) -> bool {
        let times = [self.listed_modified, self.modified];
        times.into_iter().flatten().all(|time| time.saturating_add(TIME_SLACK) < self.checked_at)
    }

    /// Returns the `ETag` in the form that listings use. `None` if it is weak, because a weak `ETag` does not identify
    /// the bytes.
    fn known_etag(&self) -> Option<&str> {
        if self.listed_etag.is_some() {
            return self.listed_etag.as_deref();
        }
        let etag = std::str::from_utf8(self.etag.as_deref()?).ok()?;
        etag.strip_prefix('"')?.strip_suffix('"')
    }
}

/// Action for a listed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Do nothing, because the object is the same as in the destination.
    Unchanged,
    /// Fetch the object, because it is new or has changed.
    Fetch,
    /// Send a conditional request, because the listing does not show whether the object has changed.
    Ask,
}

/// Compares a listed object with the object of the same name in the destination.
pub(super) fn compare(listed: &ListedObject, base: &BaseObject) -> Comparison {
    if listed.url != base.url && base.url.is_some() {
        return Comparison::Fetch;
    }
    if listed.size.is_some_and(|size| size != base.listed_size.unwrap_or(base.length)) {
        return Comparison::Fetch;
    }
    if let (Some(now), Some(before)) = (listed.etag.as_deref(), base.known_etag()) {
        return if now == before { Comparison::Unchanged } else { Comparison::Fetch };
    }
    if let (Some(now), Some(before)) = (listed.modified, base.listed_modified.or(base.modified)) {
        if now != before {
            return Comparison::Fetch;
        }
        if listed.size.is_some() && base.is_settled() {
            return Comparison::Unchanged;
        }
    }
    let can_be_asked = (base.etag.is_some() || base.modified.is_some()) && base.is_settled();
    if can_be_asked { Comparison::Ask } else { Comparison::Fetch }
}
