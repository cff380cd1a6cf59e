//! Sorts lines by their bytes, in limited memory. Larger inputs are sorted in parts, which are stored in a file one
//! after another until they are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;

use fetchmill_model::limits::INDEX_PART_READ_BYTES;

/// See the [module documentation](self). Lines do not contain their line endings.
#[derive(Debug)]
pub(super) struct SortedLines {
    bytes_max: usize,
    text: Vec<u8>,
    lines: Vec<Line>,
    /// Length of the prefix that all lines in the text have in common.
    common: usize,
    /// File with the parts.
    file: File,
    /// Start and end of each part.
    parts: Vec<(u64, u64)>,
}

/// A line in the text.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// First bytes after the common prefix. Most comparisons need only these bytes, so the text itself is rarely read.
    key: u64,
    start: usize,
    end: usize,
}

impl Line {
    fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start..self.end]
    }
}

impl SortedLines {
    /// Creates a sorter that keeps about `bytes_max` bytes in memory and all other lines in `file`, which must be
    /// empty.
    pub(super) fn new(file: File, bytes_max: usize) -> Self {
        SortedLines {
            bytes_max,
            text: Vec::new(),
            lines: Vec::new(),
            common: usize::MAX,
            file,
            parts: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, line: &[u8]) -> io::Result<()> {
        let start = self.text.len();
        self.text.extend_from_slice(line);
        self.lines.push(Line { key: 0, start, end: self.text.len() });
        let first = self.lines.first().map_or(line, |first| first.of(&self.text));
        self.common = common(first, line, self.common);
        let held = self.text.len() + self.lines.len() * size_of::<Line>();
        if held < self.bytes_max { Ok(()) } else { self.end_part() }
    }

    fn sort(&mut self) {
        let text = &self.text;
        for line in &mut self.lines {
            line.key = key(&line.of(text)[self.common..]);
        }
        self.lines.sort_unstable_by(|one, other| {
            one.key.cmp(&other.key).then_with(|| one.of(text).cmp(other.of(text)))
        });
    }

    fn end_part(&mut self) -> io::Result<()> {
        self.sort();
        let start = self.parts.last().map_or(0, |(_, end)| *end);
        let mut out = io::BufWriter::new(&self.file);
        for line in &self.lines {
            out.write_all(line.of(&self.text))?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        self.parts.push((start, start + (self.text.len() + self.lines.len()) as u64));
        self.text.clear();
        self.lines.clear();
        self.common = usize::MAX;
        Ok(())
    }

    /// Calls `each` with every line, in order. Stops at the first error of `each`.
    pub(super) fn for_each<E: From<io::Error>>(
        mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.parts.is_empty() {
            self.sort();
            return self.lines.iter().try_for_each(|line| each(line.of(&self.text)));
        }
        if !self.lines.is_empty() {
            self.end_part()?;
        }
        self.text = Vec::new();
        let file = &self.file;
        let mut parts: Vec<_> =
            self.parts.iter().map(|(start, end)| PartReader::new(file, *start, *end)).collect();
        // The next line of each part. Each line reuses the buffer of the previous line in its part.
        let mut next = BinaryHeap::with_capacity(parts.len());
        for (number, part) in parts.iter_mut().enumerate() {
            let mut line = Vec::new();
            if part.read(&mut line)? {
                next.push(Reverse((line, number)));
            }
        }
        while let Some(mut first) = next.peek_mut() {
            let Reverse((line, number)) = &mut *first;
            each(line)?;
            if !parts[*number].read(line)? {
                PeekMut::pop(first);
            }
        }
        Ok(())
    }
}

/// Returns the length of the prefix that two lines have in common, up to `most`.
fn common(one: &[u8], other: &[u8], most: usize) -> usize {
    let length = most.min(one.len()).min(other.len());
    if one[..length] == other[..length] {
        return length;
    }
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns the first eight bytes as a number that sorts in the same way. Missing bytes count as zeros.
fn key(bytes: &[u8]) -> u64 {
    let mut word = [0; size_of::<u64>()];
    let length = bytes.len().min(word.len());
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(word)
}

/// Reads the lines of a part.
struct PartReader<'f>(BufReader<Section<'f>>);

impl<'f> PartReader<'f> {
    fn new(file: &'f File, start: u64, end: u64) -> Self {
        PartReader(BufReader::with_capacity(INDEX_PART_READ_BYTES, Section { file, start, end }))
    }

    /// Replaces `line` with the next line. Returns `false` after the last one.
    fn read(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        if self.0.read_until(b'\n', line)? == 0 {
            return Ok(false);
        }
        if line.pop() == Some(b'\n') { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// A section of a file.
struct Section<'f> {
    file: &'f File,
    start: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let room = bytes.len().min((self.end - self.start) as usize);
        let count = self.file.read_at(&mut bytes[..room], self.start)?;
        self.start += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(lines: &[Vec<u8>], bytes_max: usize) -> (Vec<Vec<u8>>, usize) {
        let mut sorted = SortedLines::new(tempfile::tempfile().unwrap(), bytes_max);
        for line in lines {
            sorted.push(line).unwrap();
        }
        let parts = sorted.parts.len();
        let mut all = Vec::new();
        let each = |line: &[u8]| -> io::Result<()> {
            all.push(line.to_vec());
            Ok(())
        };
        sorted.for_each(each).unwrap();
        (all, parts)
    }

    proptest! {
        #[test]
        fn lines_come_in_their_order(
            lines in prop::collection::vec(prop::collection::vec(b'\x0b'..=255, 0..40), 0..200),
            bytes_max in 1..20_000_usize,
        ) {
            let mut expected = lines.clone();
            expected.sort_unstable();
            prop_assert_eq!(sorted(&lines, bytes_max).0, expected);
        }
    }

    #[test]
    fn what_is_too_much_is_sorted_in_parts() {
        let lines: Vec<Vec<u8>> =
            (0..1000).map(|number| format!("{}", number * 7919 % 1000).into_bytes()).collect();
        let mut expected = lines.clone();
        expected.sort_unstable();
        assert_eq!(sorted(&lines, 1 << 20), (expected.clone(), 0));
        let (all, parts) = sorted(&lines, 1000);
        assert_eq!(all, expected);
        assert!(parts > 10, "{parts}");
    }
}
