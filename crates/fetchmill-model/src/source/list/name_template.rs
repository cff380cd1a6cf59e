//! `--names '{id}.jpg'`: a name built from the values of a row. A value stays within its path segment, so no row can
//! name a file in another folder or a hidden file. A `/` in a value becomes `%2F`, and a `.` at the start of a segment
//! becomes `%2E`.

use std::fmt::Write as _;

use super::template::{self, Piece, has_columns, parse_pieces};
use crate::error::{Error, Result};
use crate::name;

/// Placeholder for the number of a record in its list, counted from 0.
const INDEX: &str = "index";
/// Placeholder for the extension that is derived from the reply.
const EXTENSION: &str = "ext";
/// Minimum number of digits in a record's number.
const INDEX_DIGITS: usize = 9;

/// A name template that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameTemplate {
    text: String,
    pieces: Vec<NamePiece<Option<String>>>,
    /// Whether the extension that is derived from the reply is appended to the names.
    has_extension: bool,
}

/// A piece of a name. `C` is the representation of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamePiece<C> {
    Text(String),
    Column { column: C, is_raw: bool },
    Index,
}

impl NameTemplate {
    /// Parses a template. `{name}` stands for the value of a column, `{}` for the value of the URL column, and
    /// `{name!r}` for an unescaped value.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why: &str| Err(Error::Usage(format!("--names {text} {why}")));
        let Some(mut pieces) = parse_pieces(text) else {
            return refuse("has an unpaired brace; write {{ or }} for a literal brace");
        };
        let is_extension = |piece: &Piece| *piece == template::column(EXTENSION);
        let has_extension = pieces.pop_if(|last| is_extension(last)).is_some();
        if pieces.iter().any(is_extension) {
            return refuse("has {ext} before its end; {ext} must be at the end");
        }
        if !has_columns(&pieces) {
            return refuse(
                "would give all objects the same name; write source, seq, or a template such as {id}.jpg",
            );
        }
        let pieces = pieces.into_iter().map(NamePiece::of).collect();
        let template = NameTemplate { text: text.to_owned(), pieces, has_extension };
        match name::to_path(template.example().as_bytes(), &mut Vec::new()) {
            Ok(()) if !name::is_folder(template.example().as_bytes()) => Ok(template),
            Ok(()) => refuse("makes folder names; remove the slash at its end"),
            Err(why) => refuse(&format!("does not make a valid name: {why}")),
        }
    }

    /// Returns the template as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether names end with the extension that is derived from the reply.
    pub fn has_extension(&self) -> bool {
        self.has_extension
    }

    /// Returns a sample name, in which each value is a single letter.
    fn example(&self) -> String {
        let letter = |piece: &NamePiece<_>| match piece {
            NamePiece::Text(text) => text.clone(),
            NamePiece::Column { .. } | NamePiece::Index => "x".to_owned(),
        };
        let extension = if self.has_extension { "x" } else { "" };
        self.pieces.iter().map(letter).chain([extension.to_owned()]).collect()
    }

    /// Returns the pieces with their columns converted by `position`.
    pub(super) fn with_columns(
        &self,
        mut position: impl FnMut(Option<&str>) -> usize,
    ) -> Vec<NamePiece<usize>> {
        let placed = |piece: &NamePiece<Option<String>>| match piece {
            NamePiece::Text(text) => NamePiece::Text(text.clone()),
            NamePiece::Index => NamePiece::Index,
            NamePiece::Column { column, is_raw } => {
                NamePiece::Column { column: position(column.as_deref()), is_raw: *is_raw }
            }
        };
        self.pieces.iter().map(placed).collect()
    }
}

impl NamePiece<Option<String>> {
    fn of(piece: Piece) -> Self {
        match piece {
            Piece::Text(text) => NamePiece::Text(text),
            Piece::Column { name: Some(name), is_raw: false } if name == INDEX => NamePiece::Index,
            Piece::Column { name, is_raw } => NamePiece::Column { column: name, is_raw },
        }
    }
}

/// Appends a value to a name.
pub(super) fn push_value(name: &mut String, value: &str) {
    let is_hidden = value.starts_with('.') && (name.is_empty() || name.ends_with('/'));
    let rest = if is_hidden { &value[1..] } else { value };
    name.push_str(if is_hidden { "%2E" } else { "" });
    name.extend(
        rest.split('/')
            .enumerate()
            .flat_map(|(position, part)| [if position > 0 { "%2F" } else { "" }, part]),
    );
}

/// Appends the number of a record.
pub(super) fn push_index(name: &mut String, index: u64) {
    // Writing to a string cannot fail.
    let _ = write!(name, "{index:0INDEX_DIGITS$}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_in_its_segment() {
        for (before, value, after) in [
            ("", "a b.jpg", "a b.jpg"),
            ("", "../../etc", "%2E.%2F..%2Fetc"),
            ("x/", ".", "x/%2E"),
            ("x/", ".profile", "x/%2Eprofile"),
            ("x/y", "..", "x/y.."),
            ("", "/", "%2F"),
            ("", "\u{e4}%2F", "\u{e4}%2F"),
        ] {
            let mut name = before.to_owned();
            push_value(&mut name, value);
            assert_eq!(name, after);
        }
    }

    #[test]
    fn a_template_that_makes_no_names_is_refused() {
        for text in [
            "",
            "a",
            "{ext}",
            "{{id}}",
            "{id",
            "id}",
            "/{id}",
            "{id}/",
            "a//{id}",
            "../{id}",
            "{id}/./x",
            "{id}\0",
            "{ext}/{id}",
        ] {
            assert_eq!(NameTemplate::parse(text).unwrap_err().exit_code(), 2, "{text}");
        }
        for text in ["{id}", "{id}.{ext}", "{}", "a/{b}-{c!r}.jpg", "{index}", "{{{id}}}"] {
            assert_eq!(NameTemplate::parse(text).unwrap().text(), text);
        }
    }

    #[test]
    fn a_number_has_digits_that_sort() {
        let mut name = String::new();
        push_index(&mut name, 42);
        push_index(&mut name, 12_345_678_901);
        assert_eq!(name, "00000004212345678901");
    }
}
