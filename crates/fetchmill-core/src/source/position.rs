//! Where the reading of a list goes on.

/// How far a list was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListPosition {
    /// Entries so far: targets, and those that a filter left out.
    pub entries: u64,
    /// Bytes so far, decompressed, up to a line's start; for Parquet rows.
    pub offset: u64,
    /// Lines so far.
    pub line: u64,
    /// A digest of all of that.
    pub digest: u64,
}

impl ListPosition {
    /// For the journal.
    pub fn to_text(&self) -> String {
        format!("{} {} {} {:016x}", self.entries, self.offset, self.line, self.digest)
    }

    /// The reverse of [`ListPosition::to_text`]; `None` for what is none.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut number = || parts.next()?.parse().ok();
        let (entries, offset, line) = (number()?, number()?, number()?);
        let digest = u64::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some(ListPosition { entries, offset, line, digest })
    }
}
