//! All objects of a destination, in storage order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::object_error::ObjectError;
use super::scan::Scan;
use super::shard::ShardReader;
use super::{Destination, FoundObject, Position, Storage, of_file};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// Number of file names that are looked up at a time.
const NAMES_AT_ONCE: usize = 1000;

/// Iterates over all names and their objects. Ends with an error at the first damaged object.
#[derive(Debug)]
pub struct Objects {
    destination: Arc<Destination>,
    /// Position of the first part that is not open yet. `None` if no part is left.
    next: Option<Position>,
    is_started: bool,
    open: Option<OpenPart>,
}

#[derive(Debug)]
enum OpenPart {
    Shard { index: usize, reader: Arc<ShardReader>, scan: Box<Scan> },
    Files(VecDeque<Vec<u8>>),
}

impl Objects {
    /// Starts the iteration at a position.
    pub fn new(destination: Arc<Destination>, from: Option<Position>) -> Self {
        Objects { destination, next: from, is_started: false, open: None }
    }

    /// Returns the columns that the objects have besides the standard ones.
    pub fn columns(&self) -> &ExtraColumns {
        self.destination.columns()
    }

    fn read(&mut self) -> Result<Option<FoundObject>> {
        loop {
            if let Some(open) = &mut self.open {
                if let Some(found) = open.next(&self.destination)? {
                    return Ok(Some(found));
                }
                self.open = None;
            }
            if self.is_started && self.next.is_none() {
                return Ok(None);
            }
            self.open_next()?;
            if self.open.is_none() && self.next.is_none() {
                return Ok(None);
            }
        }
    }

    /// Opens the next shard, or the next files.
    fn open_next(&mut self) -> Result<()> {
        let from = self.next.take();
        self.is_started = true;
        match &self.destination.stored {
            Storage::Shards(shards) => {
                let (index, row) = shards.place_of(from.as_ref());
                if index < shards.len() {
                    let reader = Arc::clone(shards.reader(index)?);
                    let mut scan = Box::new(reader.scan()?);
                    if row > 0 {
                        scan.skip_to(row);
                    }
                    self.next = Some(Position::Row(reader.number() + 1, 0));
                    self.open = Some(OpenPart::Shard { index, reader, scan });
                }
            }
            Storage::Tree(_) => {
                let page = self.destination.names(from.as_ref(), NAMES_AT_ONCE, false)?;
                self.next = page.next;
                self.open = Some(OpenPart::Files(page.names.into_iter().map(|listed| listed.name).collect()));
            }
        }
        Ok(())
    }
}

impl OpenPart {
    fn next(&mut self, destination: &Destination) -> Result<Option<FoundObject>> {
        match (self, &destination.stored) {
            (OpenPart::Shard { index, reader, scan }, Storage::Shards(shards)) => {
                let hidden = shards.hidden()?;
                for scanned in scan.by_ref() {
                    let scanned = scanned?;
                    if hidden.contains(*index, scanned.row) {
                        continue;
                    }
                    let object = scanned
                        .object
                        .map_err(|lost| reader.error(&lost.name, ObjectError::Damaged(lost.what)))?;
                    let sequence = Some(scanned.sequence);
                    return Ok(Some(FoundObject { sequence, crc32c: scanned.crc32c, object }));
                }
                Ok(None)
            }
            (OpenPart::Files(names), Storage::Tree(tree)) => {
                while let Some(name) = names.pop_front() {
                    // The file may have been removed after it was listed.
                    if let Some(object) = tree.find(&name)? {
                        return Ok(Some(of_file(object)));
                    }
                }
                Ok(None)
            }
            _ => Err(Error::Internal("objects of another destination".into())),
        }
    }
}

impl Iterator for Objects {
    type Item = Result<FoundObject>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            (self.open, self.next, self.is_started) = (None, None, true);
        }
        read.transpose()
    }
}
