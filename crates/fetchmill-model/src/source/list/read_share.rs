//! The fraction of a list that has been read, which is used to estimate the number of targets.

/// Progress in a list, measured in the unit that suits the list's records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ReadShare {
    /// Bytes of the input, before decompression.
    Bytes(u64),
    /// Fraction of the list, from 0 to 1.
    Part(f64),
}

impl ReadShare {
    /// Returns the fraction of an input of `length` bytes that has been read, from 0 to 1. Returns `None` if the length
    /// is unknown.
    pub(super) fn of(self, length: Option<u64>) -> Option<f64> {
        let part = match self {
            ReadShare::Bytes(read) => read as f64 / length.filter(|length| *length > 0)? as f64,
            ReadShare::Part(part) => part,
        };
        Some(part.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_a_part_of_a_known_length() {
        assert_eq!(ReadShare::Bytes(5).of(Some(20)), Some(0.25));
        assert_eq!(ReadShare::Bytes(50).of(Some(20)), Some(1.0), "it grew");
        assert_eq!([ReadShare::Bytes(5).of(None), ReadShare::Bytes(0).of(Some(0))], [None, None]);
        assert_eq!(ReadShare::Part(0.5).of(None), Some(0.5));
    }
}
