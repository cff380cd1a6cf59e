//! The position from which to continue reading a list.

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
    /// Files before the one that the other numbers but `entries` count in, for a list that has many.
    pub file: u64,
}

impl ListPosition {
    /// For the journal.
    pub fn to_text(&self) -> String {
        let text = format!("{} {} {} {:016x}", self.entries, self.offset, self.line, self.digest);
        if self.file == 0 { text } else { format!("{text} {}", self.file) }
    }

    /// The reverse of [`ListPosition::to_text`]; `None` for what is none.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut number = || parts.next()?.parse().ok();
        let (entries, offset, line) = (number()?, number()?, number()?);
        let digest = u64::from_str_radix(parts.next()?, 16).ok()?;
        let file = parts.next().map_or(Some(0), |file| file.parse().ok())?;
        parts.next().is_none().then_some(ListPosition { entries, offset, line, digest, file })
    }
}
