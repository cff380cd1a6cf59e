//! API items as jsonl. Each item is one line, unchanged.

use std::io::{self, Write};

use super::{Encoder, FileBody};
use fetchmill_model::object::{Object, StoredObject};

/// Writes each item as a line. Items must not contain line endings.
#[derive(Debug, Default, Clone, Copy)]
pub struct ItemEncoder;

impl Encoder for ItemEncoder {
    fn start(&mut self, _: &mut Vec<u8>) {}

    fn encode(&mut self, object: &Object<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(object.body);
        out.push(b'\n');
    }

    fn encode_file(&mut self, _: &Object<'_>, body: &FileBody, out: &mut dyn Write) -> io::Result<()> {
        body.for_each(|piece| out.write_all(piece))?;
        out.write_all(b"\n")
    }

    fn finish(&mut self, _: &mut Vec<u8>) {}
}

/// Returns the item in a record, under the name that its manifest gives it. `None` if the record is an object. An
/// object's line also contains its name and other fields, so only an item has the same length as its record without the
/// line ending.
pub fn item_of(record: &[u8], name: &[u8], length: u64) -> Option<StoredObject> {
    let item = record.strip_suffix(b"\n").filter(|item| item.len() as u64 == length)?;
    Some(StoredObject { name: name.to_vec(), body: item.to_vec(), ..StoredObject::default() })
}
