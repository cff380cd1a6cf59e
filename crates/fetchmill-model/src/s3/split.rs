//! Splits the key space so that several connections can list different parts of it.
//!
//! Keys are read as fractions, character by character, as in an arithmetic coder. Digits and letters have wide
//! intervals, and other ASCII characters have narrow ones. All other Unicode characters share the last interval. A
//! string near the middle of two fractions is written with as few characters as possible.

/// Interval of all keys. Each character uses up some of its bits. The rarer the character, the more bits it uses.
const WHOLE: u128 = 1 << 120;
/// An interval narrower than this is not divided further.
const WIDTH_MIN: u128 = 1 << 32;
/// Code points from this one upwards share one interval.
const BEYOND: u32 = 0x7f;
const BEYOND_WEIGHT: u32 = 8;
/// Number of the code points that share this interval.
const BEYOND_COUNT: u128 = 0x11_0000 - BEYOND as u128;
/// Start of each ASCII character's interval, followed by the start of the interval shared by all other characters, and
/// by the end.
const STARTS: [u32; BEYOND as usize + 2] = starts();

/// Returns a UTF-8 string that begins with the prefix and lies between `after` and `until` (exclusive), near the middle
/// of this range. If `until` is `None`, the range ends with the last possible key below the prefix. Returns `None` if
/// the range is empty or too narrow.
pub fn between(after: &[u8], until: Option<&[u8]>, prefix: &[u8]) -> Option<Vec<u8>> {
    let after = after.max(prefix);
    let until = until.filter(|until| until.starts_with(prefix) || *until < prefix);
    let is_inside = |middle: &[u8]| {
        middle > after
            && until.is_none_or(|until| middle < until)
            && middle.starts_with(prefix)
            && std::str::from_utf8(middle).is_ok()
    };
    if !after.starts_with(prefix) || until.is_some_and(|until| until <= after) {
        return None;
    }
    let common = common_text(after, until.unwrap_or(prefix));
    let low = position(text_of(&after[common..]));
    let high = until.map_or(WHOLE, |until| position(text_of(&until[common..])));
    middle(&after[..common], low, high, &is_inside)
}

/// Returns the shortest string in the middle half of the interval between two fractions. If there is no such string,
/// returns one outside the middle half.
fn middle(common: &[u8], low: u128, high: u128, is_inside: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let room = high.checked_sub(low)?;
    let target = low + room / 2;
    let mut text = common.to_vec();
    let (mut start, mut width) = (0, WHOLE);
    let mut found = None;
    while width >= WIDTH_MIN {
        // If a character replaces a forbidden one, the interval of the replacement may start after the target.
        let character = character_at(target.saturating_sub(start), width);
        (start, width) = interval(character, start, width);
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        if is_inside(&text) {
            found = Some(text.clone());
            if start >= low + room / 4 {
                break;
            }
        }
    }
    found
}

/// Returns the length of the common prefix of two strings in bytes, rounded down to a whole character.
fn common_text(one: &[u8], other: &[u8]) -> usize {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    // All continuation bytes of a character have the form 10xxxxxx.
    (0..=same)
        .rev()
        .find(|at| [one, other].iter().all(|text| text.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80)))
        .unwrap_or(0)
}

/// Returns the part before the first invalid UTF-8 sequence.
fn text_of(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// Returns a string as a fraction of [`WHOLE`], as precisely as possible.
fn position(text: &str) -> u128 {
    let (mut start, mut width) = (0, WHOLE);
    for character in text.chars() {
        if width < WIDTH_MIN {
            break;
        }
        (start, width) = interval(character, start, width);
    }
    start
}

/// Returns the part of an interval that belongs to a character.
fn interval(character: char, start: u128, width: u128) -> (u128, u128) {
    let unit = width / u128::from(STARTS[BEYOND as usize + 1]);
    let code = u32::from(character);
    let index = code.min(BEYOND) as usize;
    let from = unit * u128::from(STARTS[index]);
    if code < BEYOND {
        return (start + from, unit * u128::from(STARTS[index + 1] - STARTS[index]));
    }
    let each = unit * u128::from(BEYOND_WEIGHT) / BEYOND_COUNT;
    (start + from + each * u128::from(code - BEYOND), each)
}

/// Returns the character whose interval contains an offset. Control characters are never returned.
fn character_at(offset: u128, width: u128) -> char {
    let unit = width / u128::from(STARTS[BEYOND as usize + 1]);
    let index = STARTS.partition_point(|start| unit * u128::from(*start) <= offset) - 1;
    if index < BEYOND as usize {
        return char::from(index as u8).max(' ');
    }
    let each = unit * u128::from(BEYOND_WEIGHT) / BEYOND_COUNT;
    let beyond = (offset - unit * u128::from(STARTS[BEYOND as usize])) / each;
    // The last character's interval includes the rounding remainder. Surrogates are not characters.
    let code = BEYOND + beyond.min(BEYOND_COUNT - 1) as u32;
    char::from_u32(code).unwrap_or('\u{d7ff}')
}

/// Returns the relative width of a character's interval, which reflects how often the character occurs in keys.
const fn weight(byte: u8) -> u32 {
    match byte {
        b'0'..=b'9' => 6,
        b'a'..=b'f' => 4,
        b'g'..=b'z' => 3,
        b'A'..=b'Z' | b'-' | b'.' | b'/' | b'_' => 2,
        _ => 1,
    }
}

const fn starts() -> [u32; BEYOND as usize + 2] {
    let mut starts = [0; BEYOND as usize + 2];
    let mut at = 0;
    while at < BEYOND as usize {
        starts[at + 1] = starts[at] + weight(at as u8);
        at += 1;
    }
    starts[BEYOND as usize + 1] = starts[BEYOND as usize] + BEYOND_WEIGHT;
    starts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(after: &str, until: Option<&str>, prefix: &str) -> Option<String> {
        between(after.as_bytes(), until.map(str::as_bytes), prefix.as_bytes())
            .map(|middle| String::from_utf8(middle).unwrap())
    }

    #[test]
    fn nothing_is_between_neighbours() {
        for (after, until, prefix) in [
            ("a", Some("a"), ""),
            ("b", Some("a"), ""),
            ("a", Some("a\0"), ""),
            ("a", Some("a\u{1}"), ""),
            ("b", None, "a"),
            ("", Some("a"), "b"),
            ("", Some("b"), "b"),
        ] {
            assert_eq!(text(after, until, prefix), None, "{after:?} {until:?} {prefix:?}");
        }
    }

    #[test]
    fn a_division_is_short_and_printable() {
        for (after, until, prefix) in [
            ("", None, ""),
            ("", None, "data/"),
            ("data/2026/11/20/part-00001", None, "data/"),
            ("a", Some("b"), ""),
            ("a0", Some("a9"), ""),
            ("k/ffff", Some("z"), ""),
            ("", Some("k/"), ""),
        ] {
            let middle = text(after, until, prefix).unwrap();
            assert!(middle.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{middle:?}");
            assert!(middle.len() <= prefix.len().max(2) + 3, "{middle:?}");
        }
    }

    /// Divides the largest piece repeatedly. Returns the number of keys in the largest piece at the end.
    fn largest_piece(keys: &[String], prefix: &str, pieces: usize) -> usize {
        let mut bounds = vec![String::new()];
        let count = |bounds: &[String], at: usize| {
            let until = bounds.get(at + 1);
            keys.iter().filter(|key| **key > bounds[at] && until.is_none_or(|until| *key <= until)).count()
        };
        for _ in 1..pieces {
            let at = (0..bounds.len()).max_by_key(|at| count(&bounds, *at)).unwrap();
            let until = bounds.get(at + 1).cloned();
            let Some(middle) = text(&bounds[at], until.as_deref(), prefix) else { break };
            bounds.insert(at + 1, middle);
        }
        (0..bounds.len()).map(|at| count(&bounds, at)).max().unwrap()
    }

    #[test]
    fn a_few_divisions_divide_what_keys_are() {
        type Shape<'s> = (&'s str, &'s str, &'s dyn Fn(u64) -> String);
        let scattered = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shapes: [Shape<'_>; 5] = [
            ("hex", "objects/", &|index| format!("objects/{:016x}", scattered(index))),
            ("digits", "", &|index| format!("{:09}", index * 1000)),
            ("numbers", "run/", &|index| format!("run/part-{index:06}.bin")),
            ("days", "logs/2026/", &|index| {
                format!(
                    "logs/2026/{:02}/{:02}/{:08x}",
                    index % 12 + 1,
                    index % 28 + 1,
                    scattered(index) >> 32
                )
            }),
            ("Japanese", "", &|index| {
                format!("{}{index}", char::from_u32(0x3040 + (index % 1000) as u32 * 8).unwrap())
            }),
        ];
        for (shape, prefix, key) in shapes {
            let keys: Vec<_> = (0..1000).map(key).collect();
            let largest = largest_piece(&keys, prefix, 64);
            assert!(largest <= 250, "{shape}: {largest}");
        }
    }

    #[test]
    fn a_start_that_all_keys_share_costs_a_few_divisions_a_character() {
        let keys: Vec<_> = (0..1000).map(|index| format!("logs/2026/{index:03}")).collect();

        assert!(largest_piece(&keys, "", 10 * 8 + 16) <= 500);
    }

    /// Returns strings that often share a prefix.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[a-c0-2/]{0,6}".prop_map(String::into_bytes),
            "[ab\u{e9}\u{ea}\u{10000}\u{10ffff}\u{7f}\u{0}~]{0,4}".prop_map(String::into_bytes),
            ".{0,40}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..8),
        ]
    }

    proptest! {
        #[test]
        fn a_division_is_between(after in any_key(), until in prop::option::of(any_key()), prefix in prop_oneof![Just(vec![]), any_key()]) {
            if let Some(middle) = between(&after, until.as_deref(), &prefix) {
                prop_assert!(middle > after);
                prop_assert!(until.is_none_or(|until| middle < until));
                prop_assert!(middle.starts_with(&prefix));
                prop_assert!(String::from_utf8(middle).is_ok());
            }
        }

        #[test]
        fn something_is_between_texts_that_differ_by_a_letter(start in "[a-z0-9/]{0,8}", end in "[a-z0-9/]{0,8}", letter in "[a-y]") {
            let next = char::from(letter.as_bytes()[0] + 1);

            let middle = text(&format!("{start}{letter}{end}"), Some(&format!("{start}{next}")), "");
            prop_assert!(middle.is_some());
        }
    }
}
