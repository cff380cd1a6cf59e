//! Items that a program supplies in a fixed order. An item is identified by its position. To resume, the program must
//! supply all items again.

use xxhash_rust::xxh3::Xxh3Default;

use super::lines::ReadStep;
use super::records::{RecordStep, RecordValues, Records};
use crate::error::Result;
use crate::limits::{LIST_PAGE_BYTES, LIST_PAGE_TARGETS};
use crate::source::ListPosition;
use crate::target::Names;

/// Maximum number of items that are read ahead.
pub const ITEMS_READ_MAX: usize = LIST_PAGE_TARGETS;
/// Name of the column that contains an item's key.
pub(super) const KEY_COLUMN: &str = "name";

/// A source of items.
pub trait Items: Send {
    /// Adds up to `ITEMS_READ_MAX` items. A smaller number means that no more items are available at the moment.
    /// Returns `false` at the end.
    fn read(&mut self, into: &mut ItemBatch) -> Result<bool>;
}

/// Items that were read. Each item is a URL, or a value for a template. It can include a key and, if a plain `GET` is
/// not enough, a request.
#[derive(Debug, Default)]
pub struct ItemBatch {
    urls: Names,
    keys: Names,
    has_key: Vec<bool>,
    /// Requests in the format of [`crate::target::request`]. A plain `GET` is represented by an empty text.
    requests: Names,
}

impl ItemBatch {
    /// Adds an item. `request` has the format of [`crate::target::request`].
    pub fn push(&mut self, url: &[u8], key: Option<&[u8]>, request: Option<&[u8]>) {
        self.requests.push(request.unwrap_or_default());
        self.urls.push(url);
        self.keys.push(key.unwrap_or_default());
        self.has_key.push(key.is_some());
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.has_key.len()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.has_key.is_empty()
    }

    /// Returns whether the batch is full, so that no more items can be added.
    pub fn is_full(&self) -> bool {
        self.len() >= ITEMS_READ_MAX || self.requests.byte_len() >= LIST_PAGE_BYTES
    }

    fn get(&self, position: usize) -> (&[u8], Option<&[u8]>) {
        (self.urls.get(position), self.has_key[position].then(|| self.keys.get(position)))
    }

    fn request(&self, position: usize) -> Option<&[u8]> {
        Some(self.requests.get(position)).filter(|request| !request.is_empty())
    }
}

/// The items as records.
pub(super) struct ItemRecords {
    items: Box<dyn Items>,
    batch: ItemBatch,
    at: usize,
    /// Number of items so far, all of which `digest` covers.
    count: u64,
    digest: Xxh3Default,
    /// Whether the last batch was not full, which means that no more items are available at the moment.
    is_slow: bool,
    is_over: bool,
}

impl ItemRecords {
    pub(super) fn new(items: Box<dyn Items>) -> Self {
        ItemRecords {
            items,
            batch: ItemBatch::default(),
            at: 0,
            count: 0,
            digest: Xxh3Default::new(),
            is_slow: false,
            is_over: false,
        }
    }

    /// Reads another batch after the current batch has ended.
    fn fill(&mut self) -> Result<ReadStep> {
        if self.at < self.batch.len() {
            return Ok(ReadStep::Done);
        }
        if self.is_over {
            return Ok(ReadStep::End);
        }
        if std::mem::take(&mut self.is_slow) {
            return Ok(ReadStep::NothingNow);
        }
        self.batch = ItemBatch::default();
        self.at = 0;
        self.is_over = !self.items.read(&mut self.batch)?;
        self.is_slow = !self.is_over && !self.batch.is_full();
        Ok(match (self.batch.is_empty(), self.is_over) {
            (false, _) => ReadStep::Done,
            (true, true) => ReadStep::End,
            (true, false) => ReadStep::NothingNow,
        })
    }

    /// Counts the next item of the batch. The batch must contain another item.
    fn pass(&mut self) -> usize {
        let position = self.at;
        let (url, key) = self.batch.get(position);
        self.digest.update(&(url.len() as u64).to_le_bytes());
        self.digest.update(url);
        if let Some(key) = key {
            self.digest.update(&[1]);
            self.digest.update(key);
        }
        if let Some(request) = self.batch.request(position) {
            self.digest.update(&[2]);
            self.digest.update(request);
        }
        self.at += 1;
        self.count += 1;
        position
    }
}

impl Records for ItemRecords {
    fn next(&mut self, values: &mut RecordValues) -> Result<RecordStep> {
        values.clear(3);
        match self.fill()? {
            ReadStep::NothingNow => Ok(RecordStep::NothingNow),
            ReadStep::End => Ok(RecordStep::End),
            ReadStep::Done => {
                let position = self.pass();
                let (url, key) = self.batch.get(position);
                values.set(0, url);
                if let Some(key) = key {
                    values.set(1, key);
                }
                if let Some(request) = self.batch.request(position) {
                    values.set(2, request);
                }
                Ok(RecordStep::Record)
            }
        }
    }

    fn place(&self) -> String {
        format!("item {}", self.count)
    }

    fn position(&mut self) -> ListPosition {
        let digest = self.digest.digest();
        ListPosition { offset: self.count, line: self.count, digest, ..ListPosition::default() }
    }

    fn go_to(&mut self, position: ListPosition) -> Result<ReadStep> {
        while self.count < position.offset {
            match self.fill()? {
                ReadStep::Done => drop(self.pass()),
                other => return Ok(other),
            }
            // Return to the caller so that it can check its stop signal.
            if self.at == self.batch.len() && self.count < position.offset {
                return Ok(ReadStep::NothingNow);
            }
        }
        Ok(if self.digest.digest() == position.digest { ReadStep::Done } else { ReadStep::End })
    }

    fn unit(&self) -> &'static str {
        "items"
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ListOptions, ListReader, ListSource, ListStep};
    use super::*;
    use crate::source::PageCursor;
    use crate::target::entry::ListEntry;

    /// Supplies the numbers of a range, up to a maximum number at a time.
    struct Numbers(std::ops::Range<u64>, usize);

    impl Items for Numbers {
        fn read(&mut self, into: &mut ItemBatch) -> Result<bool> {
            for number in self.0.by_ref().take(self.1) {
                let key = (number % 3 == 0).then(|| format!("key {number}"));
                into.push(format!("http://a/{number}").as_bytes(), key.as_deref().map(str::as_bytes), None);
            }
            Ok(!self.0.is_empty())
        }
    }

    fn list(numbers: std::ops::Range<u64>, at_once: usize) -> ListReader {
        let items = Box::new(Numbers(numbers, at_once));
        ListReader::of_items("the iterable", items, &ListOptions::default()).unwrap()
    }

    /// Returns all remaining entries, and the position after each page.
    fn read_all(list: &mut ListReader) -> (Vec<String>, Vec<(usize, ListPosition)>) {
        let (mut entries, mut ends) = (Vec::new(), Vec::new());
        loop {
            match list.next_page().unwrap() {
                ListStep::End => return (entries, ends),
                ListStep::NothingNow => {}
                ListStep::Page(page) => {
                    for entry in page.names.iter() {
                        let entry = ListEntry::read(entry);
                        entries.push(format!("{:?} {:?}", entry.url, entry.key));
                    }
                    let PageCursor::List { position, .. } = page.cursor else { panic!("another cursor") };
                    ends.push((entries.len(), position));
                }
            }
        }
    }

    #[test]
    fn items_come_in_their_order_and_go_on_behind_every_page() {
        for at_once in [1, 7, ITEMS_READ_MAX] {
            let (all, ends) = read_all(&mut list(0..2000, at_once));
            assert_eq!(all.len(), 2000);
            for (count, position) in ends.into_iter().step_by(at_once.min(50)) {
                let mut again = list(0..2000, 100);
                again.resume(position);
                assert_eq!(read_all(&mut again).0, all[count..], "{position:?}");
            }
        }
    }

    #[test]
    fn other_items_and_too_few_are_refused() {
        let (_, ends) = read_all(&mut list(0..2000, 100));
        let (_, position) = ends[2];

        for other in [1..2001, 0..position.offset - 1] {
            let mut again = list(other, 100);
            again.resume(position);
            let error = loop {
                match again.next_page() {
                    Ok(ListStep::NothingNow) => {}
                    Ok(_) => panic!("it went on"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("items differ"), "{error}");
        }
    }

    #[test]
    fn an_item_that_is_no_url_is_told_by_its_number() {
        struct One;
        impl Items for One {
            fn read(&mut self, into: &mut ItemBatch) -> Result<bool> {
                into.push(b"no url", None, None);
                Ok(false)
            }
        }
        let mut list = ListReader::of_items("it", Box::new(One), &ListOptions::default()).unwrap();

        let ListStep::Page(page) = list.next_page().unwrap() else { panic!("no page") };

        let entry = ListEntry::read(page.names.get(0));
        assert_eq!((entry.url, entry.key), (&b""[..], Some(&b"item 1"[..])));
    }
}
