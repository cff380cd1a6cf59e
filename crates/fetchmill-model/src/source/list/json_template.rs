//! `--data-json`: JSON with placeholders for column values. In a string, `{name}` is a placeholder and `{{` is a
//! literal brace, as in `--template`. Outside strings, a brace begins a placeholder unless it is followed by a string
//! or by the closing brace.

use serde::de::IgnoredAny;

use super::template::{self, Piece};
use crate::error::{Error, Result};

/// A piece of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JsonPiece {
    Text(String),
    /// The value of a column, either inside a string or as a value of its own.
    Column {
        name: Option<String>,
        is_raw: bool,
        is_inside: bool,
    },
}

/// Replaces a placeholder while the JSON is checked. It is valid both inside a string and as a value of its own.
const SOME_VALUE: &str = "0";

/// Parses the pieces. Fails if the result would not be JSON.
pub(super) fn parse(text: &str) -> Result<Vec<JsonPiece>> {
    let pieces = pieces_of(text)?;
    let example: String = pieces
        .iter()
        .map(|piece| match piece {
            JsonPiece::Text(text) => text.as_str(),
            JsonPiece::Column { .. } => SOME_VALUE,
        })
        .collect();
    is_json(&example).map_err(|error| {
        Error::Usage(format!(
            "--data-json is not JSON: {error}; write {{name}} for the value of a column, or \"{{name}}\" for \
             text"
        ))
    })?;
    Ok(pieces)
}

/// Checks whether a text is JSON.
pub(super) fn is_json(text: &str) -> serde_json::Result<()> {
    serde_json::from_str::<IgnoredAny>(text).map(drop)
}

fn pieces_of(text: &str) -> Result<Vec<JsonPiece>> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(position) = rest.find(['"', '{']) {
        let (before, behind) = rest.split_at(position);
        plain.push_str(before);
        if behind.starts_with('"') {
            let end = end_of_text(behind);
            push_inside(&behind[..end], &mut plain, &mut pieces)?;
            rest = &behind[end..];
            continue;
        }
        let inside = &behind[1..];
        if inside.trim_start().starts_with(['"', '}']) {
            plain.push('{');
            rest = inside;
            continue;
        }
        let end = inside.find('}').ok_or_else(|| template::unpaired("--data-json"))?;
        pieces.push(JsonPiece::Text(std::mem::take(&mut plain)));
        pieces.push(place(template::column(&inside[..end]), false));
        rest = &inside[end + 1..];
    }
    plain.push_str(rest);
    pieces.push(JsonPiece::Text(plain));
    pieces.retain(|piece| *piece != JsonPiece::Text(String::new()));
    Ok(pieces)
}

/// Adds a string and its quotes, after the text in `plain`.
fn push_inside(text: &str, plain: &mut String, pieces: &mut Vec<JsonPiece>) -> Result<()> {
    let inside = template::parse_pieces(text).ok_or_else(|| template::unpaired("a string in --data-json"))?;
    for piece in inside {
        match piece {
            Piece::Text(text) => plain.push_str(&text),
            column @ Piece::Column { .. } => {
                pieces.push(JsonPiece::Text(std::mem::take(plain)));
                pieces.push(place(column, true));
            }
        }
    }
    Ok(())
}

fn place(piece: Piece, is_inside: bool) -> JsonPiece {
    match piece {
        Piece::Text(text) => JsonPiece::Text(text),
        Piece::Column { name, is_raw } => JsonPiece::Column { name, is_raw, is_inside },
    }
}

/// Returns the position after the closing quote of the string that begins here, or the end of the text.
fn end_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    for (position, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return position + 1,
            _ => {}
        }
    }
    text.len()
}

/// Appends a value, escaped for use inside a string.
pub(super) fn push_escaped(out: &mut String, value: &str) {
    // Serialising a string cannot fail.
    let text = serde_json::to_string(value).unwrap_or_default();
    out.push_str(text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default());
}

/// Returns whether a value is a JSON number, true, false or null.
pub(super) fn is_plain(value: &str) -> bool {
    let starts = |byte: &u8| byte.is_ascii_digit() || b"-tfn".contains(byte);
    let is_bare = value.bytes().all(|byte| byte.is_ascii_graphic());
    is_bare && value.as_bytes().first().is_some_and(starts) && is_json(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> JsonPiece {
        JsonPiece::Text(text.into())
    }

    fn column(name: &str, is_inside: bool) -> JsonPiece {
        JsonPiece::Column { name: (!name.is_empty()).then(|| name.into()), is_raw: false, is_inside }
    }

    #[test]
    fn braces_of_objects_are_no_places() {
        assert_eq!(
            parse(r#"{"a": {}, "b": { "c": [ ] } }"#).unwrap(),
            [text(r#"{"a": {}, "b": { "c": [ ] } }"#)]
        );
        assert_eq!(
            parse(r#"[{first name},{b},"{}"]"#).unwrap(),
            [
                text("["),
                column("first name", false),
                text(","),
                column("b", false),
                text(",\""),
                column("", true),
                text("\"]")
            ]
        );
        assert_eq!(
            parse(r#""{{a}} \"{b}\"""#).unwrap(),
            [text(r#""{a} \""#), column("b", true), text(r#"\"""#)]
        );
        assert_eq!(parse(r#"{"{key}": 1}"#).unwrap(), [text("{\""), column("key", true), text("\": 1}")]);
        let raw = JsonPiece::Column { name: Some("a".into()), is_raw: true, is_inside: false };
        assert_eq!(parse("{a!r}").unwrap(), [raw]);
    }

    #[test]
    fn what_would_be_no_json_is_refused() {
        for wrong in
            ["", "{", "a", "{a", "{a}{b}", r#"{"a": "{"}"#, r#"{"a": }"#, "\"{a}", "{{a}}", r#"{"a": 1}}"#]
        {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn plain_values_are_numbers_and_words() {
        for plain in ["0", "-1.5e-3", "1e999", "true", "false", "null", "123456789012345678901234567890"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["", " 1", "1 ", "01", "+1", "NaN", "nil", "True", "\"a\"", "[1]", "{}", "1,2", ".5"] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
