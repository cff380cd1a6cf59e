//! Converts the text of an item to a single line.

use std::borrow::Cow;

/// Removes the white space that JSON allows between tokens: spaces, tabs and line endings outside strings. Everything
/// else remains unchanged, including numbers and the order of fields. The text must be a single JSON value.
pub(super) fn compact(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut is_in_string, mut is_escaped) = (false, false);
    for character in text.chars() {
        if is_in_string {
            out.push(character);
            is_in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
        } else if !character.is_ascii_whitespace() {
            out.push(character);
            is_in_string = character == '"';
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blanks_outside_of_strings_go() {
        for (text, expected) in [
            (r#"{"a":1.50}"#, r#"{"a":1.50}"#),
            ("{ \"b\" :\r\n\t[1e400 , 2] }", r#"{"b":[1e400,2]}"#),
            (r#"{"a \" b" : " \\" , "c": "\\\" x"}"#, r#"{"a \" b":" \\","c":"\\\" x"}"#),
        ] {
            assert_eq!(compact(text), expected);
        }
    }
}
