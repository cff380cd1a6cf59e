//! Formats numbers without an allocation per number.

/// Number of digits of the largest `u64`.
const DIGITS_MAX: usize = 20;

/// Appends a number in decimal.
pub(super) fn write_decimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; DIGITS_MAX];
    let mut rest = number;
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Parses the output of [`write_decimal`]. Returns `None` for any other text.
pub(super) fn parse_decimal(text: &[u8]) -> Option<u64> {
    let is_plain = text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || !text.starts_with(b"0"));
    if !is_plain {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 9, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
            assert_eq!(parse_decimal(&out), Some(number));
        }
    }

    #[test]
    fn only_plain_numbers_are_read() {
        for text in ["", "+1", "-1", "01", "00", " 1", "1 ", "18446744073709551616", "1e3"] {
            assert_eq!(parse_decimal(text.as_bytes()), None, "{text}");
        }
    }
}
