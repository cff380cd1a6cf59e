//! Pages with unfinished targets, stored as one bit per target.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::{Connection, params};

use fetchmill_model::target::Sequence;

/// The state of the targets of a page. A target is cleared when it is finished or waits in the separate table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::journal) struct LivePage {
    settled: Vec<u8>,
    count: usize,
    pending: usize,
}

impl LivePage {
    pub(in crate::journal) fn new(count: usize) -> Self {
        LivePage { settled: vec![0; count.div_ceil(8)], count, pending: count }
    }

    fn from_blob(count: usize, blob: Option<Vec<u8>>) -> Option<Self> {
        let Some(settled) = blob else {
            return Some(Self::new(count));
        };
        let cleared: usize = settled.iter().map(|byte| byte.count_ones() as usize).sum();
        (settled.len() == count.div_ceil(8) && cleared <= count).then(|| LivePage {
            settled,
            count,
            pending: count - cleared,
        })
    }

    pub(in crate::journal) fn count(&self) -> usize {
        self.count
    }

    pub(in crate::journal) fn holds(&self, first: Sequence, sequence: Sequence) -> bool {
        (first..first + self.count as u64).contains(&sequence)
    }

    pub(in crate::journal) fn is_pending(&self, position: usize) -> bool {
        self.settled[position / 8] & (1 << (position % 8)) == 0
    }

    /// Clears a target. Returns `false` if the target was already clear.
    pub(in crate::journal) fn clear(&mut self, position: usize) -> bool {
        let was_pending = self.is_pending(position);
        if was_pending {
            self.settled[position / 8] |= 1 << (position % 8);
            self.pending -= 1;
        }
        was_pending
    }

    pub(in crate::journal) fn is_settled(&self) -> bool {
        self.pending == 0
    }

    /// Returns the positions of unfinished targets.
    pub(in crate::journal) fn pending(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for position in (0..self.count).filter(|position| self.is_pending(*position)) {
            match ranges.last_mut() {
                Some(range) if range.end == position => range.end += 1,
                _ => ranges.push(position..position + 1),
            }
        }
        ranges
    }
}

/// Loads all pages from the database.
pub(in crate::journal) fn load(db: &Connection) -> rusqlite::Result<BTreeMap<Sequence, LivePage>> {
    let mut query = db.prepare("SELECT first, count, settled FROM pages")?;
    let rows = query.query_map([], |row| {
        Ok((
            row.get::<_, i64>(0)? as Sequence,
            row.get::<_, i64>(1)? as usize,
            row.get::<_, Option<Vec<u8>>>(2)?,
        ))
    })?;
    rows.map(|row| {
        let (first, count, settled) = row?;
        let page = LivePage::from_blob(count, settled);
        page.map(|page| (first, page)).ok_or(rusqlite::Error::IntegralValueOutOfRange(2, first as i64))
    })
    .collect()
}

/// Stores a page. Deletes a finished page, because even an empty row would occupy 4 KiB of the file. `SQLite` frees
/// space when rows are deleted, but not when they shrink.
pub(in crate::journal) fn store(db: &Connection, first: Sequence, page: &LivePage) -> rusqlite::Result<()> {
    if page.is_settled() {
        db.prepare_cached("DELETE FROM pages WHERE first = ?")?.execute([first as i64])?;
    } else {
        let mut update = db.prepare_cached("UPDATE pages SET settled = ? WHERE first = ?")?;
        update.execute(params![page.settled, first as i64])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_cleared_once() {
        let mut page = LivePage::new(10);

        assert!(page.clear(3));
        assert!(!page.clear(3));
        assert_eq!(page.pending(), [0..3, 4..10]);
        assert_eq!(LivePage::from_blob(10, Some(page.settled.clone())), Some(page));
        assert_eq!(LivePage::from_blob(10, Some(vec![0xff; 9])), None);
    }
}
