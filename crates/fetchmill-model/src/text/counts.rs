//! Formats numbers for people.

/// Formats a number with commas: `1,234,567`.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_a_group() {
        let texts = [0, 999, 1000, 1_234_567].map(with_commas);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
