//! The position at which a listing continues, as a value and as text for clients.

use fetchmill_model::outcome::ShardNumber;

/// Position of the next name, or of the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// The name is in this row of a shard.
    Row(ShardNumber, u64),
    /// The name follows this path below the destination.
    Behind(Vec<u8>),
}

impl Position {
    /// Returns the position as letters, digits and `-`.
    pub fn to_text(&self) -> String {
        match self {
            Position::Row(shard, row) => format!("{shard}-{row}"),
            Position::Behind(path) => {
                let digits = path.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                let digits = digits.filter_map(|nibble| char::from_digit(u32::from(nibble), 16));
                std::iter::once('x').chain(digits).collect()
            }
        }
    }

    /// Parses the output of [`Position::to_text`]. `None` if it is invalid.
    pub fn from_text(text: &str) -> Option<Self> {
        let position = if let Some(digits) = text.strip_prefix('x') {
            let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
            let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
            Position::Behind(pairs.iter().map(byte).collect::<Option<_>>()?)
        } else {
            let (shard, row) = text.split_once('-')?;
            Position::Row(shard.parse().ok()?, row.parse().ok()?)
        };
        (position.to_text() == text).then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back_from_their_text() {
        for position in
            [Position::Row(0, 0), Position::Row(12, 1 << 20), Position::Behind(b"a/\xff\n".to_vec())]
        {
            assert_eq!(Position::from_text(&position.to_text()), Some(position));
        }
    }

    #[test]
    fn other_texts_are_no_positions() {
        for text in
            ["", "1", "-", "1-", "01-1", "+1-1", "1-1-1", "x6", "x6A", "xg0", "1-99999999999999999999"]
        {
            assert_eq!(Position::from_text(text), None, "{text}");
        }
    }
}
