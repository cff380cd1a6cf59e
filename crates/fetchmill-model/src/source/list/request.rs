//! The requests for a list's targets: `--method`, `--data`, `--data-json` and `--header`, with column values.
//!
//! A value cannot break out of its placeholder. In a form, it is percent-encoded. In JSON, it stays inside its string
//! or is a single plain value. In a header field, it cannot end the line.

use xxhash_rust::xxh3::xxh3_128;

use super::json_template::{self, JsonPiece};
use super::template::{self, Piece};
use crate::error::{Error, Result};
use crate::options::options;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const GET: &str = "GET";
const POST: &str = "POST";

options! {
    /// Options for the requests of a list's targets.
    #[derive(PartialEq, Eq)]
    pub struct RequestOptions {
        /// Method. `None` means `POST` if there is a body, and `GET` otherwise.
        method: Option<String> = None;
        /// Form body, such as `a={column}&b=c`.
        data: Option<String> = None;
        /// JSON body, such as `{"a": "{column}"}`.
        data_json: Option<String> = None;
        /// Whether a request may be repeated regardless of its method.
        idempotent: bool = false;
        /// Column that contains the start of the requested part.
        offset_column: Option<String> = None;
        /// Column that contains the length of the requested part.
        length_column: Option<String> = None;
        /// Column that contains the expected hash of the object.
        hash_column: Option<String> = None;
    } and {
        /// Header fields whose values contain columns.
        headers: Vec<RowHeader>,
        /// Origin that receives those `headers` that may be secrets. It is written like the start of its URLs.
        headers_for: Option<String>,
        /// `Content-Type` of the body, if the user has set it.
        content_type: Option<String>,
    }
}

/// A header field whose value contains columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowHeader {
    /// Name of the field.
    pub name: String,
    /// Value of the field, with placeholders.
    pub value: String,
    /// Whether the field is never a secret, regardless of its value.
    pub is_open: bool,
}

/// How the value of a column is encoded in its placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueEncoding {
    /// The value is unchanged, in a body.
    Raw,
    /// The value is encoded for a form.
    Form,
    /// The value is escaped inside a JSON string.
    JsonText,
    /// The value is itself a JSON value.
    JsonValue,
    /// The value is checked for use in a header field.
    Field,
}

/// A piece of a body or of a header field. `C` is the representation of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestPiece<C> {
    Text(String),
    Column(C, ValueEncoding),
}

/// The pieces of the body and of the header fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestPieces<C> {
    /// A body that contains columns. `None` if each target has the job's body.
    pub(super) body: Option<Vec<RequestPiece<C>>>,
    /// Whether the body must be JSON.
    pub(super) is_json: bool,
    /// Header fields, each with its name, its value, and whether it is never a secret.
    pub(super) fields: Vec<(String, Vec<RequestPiece<C>>, bool)>,
    /// Origin of the header fields that may be secrets. See [`RequestOptions::headers_for`].
    pub(super) headers_for: Option<String>,
    /// Columns with the offset and the length of the requested part.
    pub(super) range: Option<(C, C)>,
    /// Column with the expected hash of the object.
    pub(super) hash: Option<C>,
}

impl<C> RequestPieces<C> {
    /// Returns all columns that the pieces use.
    pub(super) fn columns(&mut self) -> impl Iterator<Item = &mut C> {
        let fields = self.fields.iter_mut().flat_map(|(_, pieces, _)| pieces);
        let pieces = self.body.iter_mut().flatten().chain(fields);
        let columns = pieces.filter_map(|piece| match piece {
            RequestPiece::Column(column, _) => Some(column),
            RequestPiece::Text(_) => None,
        });
        let range = self.range.iter_mut().flat_map(|(offset, length)| [offset, length]);
        columns.chain(range).chain(&mut self.hash)
    }

    /// Returns the same pieces after converting their columns.
    pub(super) fn with_columns<D>(self, mut other: impl FnMut(C) -> D) -> RequestPieces<D> {
        let mut changed = |pieces: Vec<RequestPiece<C>>| -> Vec<RequestPiece<D>> {
            let change = |piece| match piece {
                RequestPiece::Text(text) => RequestPiece::Text(text),
                RequestPiece::Column(column, place) => RequestPiece::Column(other(column), place),
            };
            pieces.into_iter().map(change).collect()
        };
        let body = self.body.map(&mut changed);
        let fields = self.fields.into_iter().map(|(name, pieces, is_open)| (name, changed(pieces), is_open));
        let fields = fields.collect();
        let range = self.range.map(|(offset, length)| (other(offset), other(length)));
        let hash = self.hash.map(other);
        RequestPieces { body, is_json: self.is_json, fields, headers_for: self.headers_for, range, hash }
    }
}

/// Name of a column in a template. `None` for the URL column.
pub(super) type NamedColumn = Option<String>;

impl RequestOptions {
    /// Returns whether any request differs from a plain `GET`.
    pub fn is_custom(&self) -> bool {
        self.is_other() || self.has_range() || self.has_hash()
    }

    /// Returns whether the user has set a method, a body, or header fields with columns.
    pub(super) fn is_other(&self) -> bool {
        !self.is_bare_get() || !self.headers.is_empty()
    }

    /// Returns whether requests are `GET`s without a body.
    pub fn is_bare_get(&self) -> bool {
        self.method() == GET && !self.has_body()
    }

    /// Returns whether each target is a part of an object.
    pub fn has_range(&self) -> bool {
        self.offset_column.is_some() || self.length_column.is_some()
    }

    /// Returns whether each target has an expected hash.
    pub fn has_hash(&self) -> bool {
        self.hash_column.is_some()
    }

    /// Returns the columns that contain the start and the length of a part.
    fn range_columns(&self) -> Result<Option<(&String, &String)>> {
        match (&self.offset_column, &self.length_column) {
            (Some(offset), Some(length)) => Ok(Some((offset, length))),
            (None, None) => Ok(None),
            _ => Err(Error::Usage("--offset-column and --length-column must be given together".into())),
        }
    }

    fn has_body(&self) -> bool {
        self.data.is_some() || self.data_json.is_some()
    }

    /// Returns the method in upper case.
    pub fn method(&self) -> String {
        match &self.method {
            Some(method) => method.to_ascii_uppercase(),
            None if self.has_body() => POST.to_owned(),
            None => GET.to_owned(),
        }
    }

    /// Moves the fields whose values contain columns out of `headers`. `is_open` must return whether a field is never a
    /// secret.
    pub fn take_row_headers(&mut self, headers: &mut Vec<(String, String)>, is_open: impl Fn(&str) -> bool) {
        let content_type = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        self.content_type = content_type.map(|(_, value)| value.clone());
        headers.retain(|(name, value)| {
            let has_places = field_pieces(value).is_some();
            if has_places {
                let (name, value) = (name.clone(), value.clone());
                self.headers.push(RowHeader { is_open: is_open(&name), name, value });
            }
            !has_places
        });
    }

    /// Returns the `Content-Type` field of the body, or `None` if the user has set one or there is no body.
    pub fn body_field(&self) -> Option<(&'static str, &'static str)> {
        let kind = if self.data_json.is_some() { JSON } else { FORM };
        let is_said = self.headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type"));
        (self.has_body() && self.content_type.is_none() && !is_said).then_some(("Content-Type", kind))
    }

    /// Returns the body that all targets share, if the body contains no columns.
    pub fn common_body(&self) -> Result<Option<Vec<u8>>> {
        let pieces = self.body_pieces()?;
        let texts = pieces.into_iter().flatten().map(|piece| match piece {
            RequestPiece::Text(text) => Some(text),
            RequestPiece::Column(..) => None,
        });
        if !self.has_body() {
            return Ok(None);
        }
        Ok(texts.collect::<Option<String>>().map(String::into_bytes))
    }

    /// Returns whether requests differ in more than their URLs.
    pub(super) fn has_columns(&self) -> Result<bool> {
        let has_body_columns = self.has_body() && self.common_body()?.is_none();
        Ok(!self.headers.is_empty() || has_body_columns || self.has_range())
    }

    /// Returns a digest of the requests for the job's identity, because a job with different requests is a different
    /// job. The requests themselves are not part of the identity, because they can contain secrets.
    pub fn identity(&self) -> Option<String> {
        if !self.is_custom() {
            return None;
        }
        let headers: Vec<_> = self.headers.iter().map(|header| (&header.name, &header.value)).collect();
        let said = format!("{:?} {:?} {headers:?}", self.data, self.data_json);
        let digest = xxh3_128(said.as_bytes());
        let range = match (&self.offset_column, &self.length_column) {
            (Some(offset), Some(length)) => format!(" offset {offset:?} length {length:?}"),
            _ => String::new(),
        };
        let hash = match &self.hash_column {
            Some(column) => format!(" hash {column:?}"),
            None => String::new(),
        };
        Some(format!("{} {digest:032x}{range}{hash}", self.method()))
    }

    fn body_pieces(&self) -> Result<Option<Vec<RequestPiece<NamedColumn>>>> {
        match (&self.data, &self.data_json) {
            (Some(_), Some(_)) => {
                Err(Error::Usage("--data and --data-json cannot be combined; leave out one of them".into()))
            }
            (Some(data), None) => form_pieces(data, self.content_type.as_deref()).map(Some),
            (None, Some(data)) => json_template::parse(data).map(|pieces| Some(of_json(pieces))),
            (None, None) => Ok(None),
        }
    }

    /// Returns the pieces that are built for each target. If all requests are the same or are plain `GET`s, there are
    /// no pieces.
    pub(super) fn pieces(&self) -> Result<RequestPieces<NamedColumn>> {
        let body = if self.common_body()?.is_none() { self.body_pieces()? } else { None };
        let fields = self.headers.iter().map(|header| {
            let pieces = field_pieces(&header.value).unwrap_or_default();
            (header.name.clone(), pieces, header.is_open)
        });
        Ok(RequestPieces {
            body,
            is_json: self.data_json.is_some(),
            fields: fields.collect(),
            headers_for: self.headers_for.clone(),
            range: self.range_columns()?.map(|(offset, length)| (Some(offset.clone()), Some(length.clone()))),
            hash: self.hash_column.clone().map(Some),
        })
    }
}

/// Converts pieces so that their values have the encoding `place`. Unescaped values have the encoding `raw`.
fn placed(pieces: Vec<Piece>, place: ValueEncoding, raw: ValueEncoding) -> Vec<RequestPiece<NamedColumn>> {
    let placed = |piece| match piece {
        Piece::Text(text) => RequestPiece::Text(text),
        Piece::Column { name, is_raw } => RequestPiece::Column(name, if is_raw { raw } else { place }),
    };
    pieces.into_iter().map(placed).collect()
}

fn form_pieces(data: &str, content_type: Option<&str>) -> Result<Vec<RequestPiece<NamedColumn>>> {
    let pieces = template::parse_pieces(data).ok_or_else(|| template::unpaired("--data"))?;
    let kind = content_type.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    let is_form = kind.is_none_or(|kind| kind.eq_ignore_ascii_case(FORM));
    let is_encoded = |piece: &Piece| matches!(piece, Piece::Column { is_raw: false, .. });
    if !is_form && pieces.iter().any(is_encoded) {
        return Err(Error::Usage(format!(
            "--data of type {}: the encoding of values is not known for this type; write {{name!r}} for \
             unchanged values, or use --data-json",
            kind.unwrap_or_default()
        )));
    }
    Ok(placed(pieces, ValueEncoding::Form, ValueEncoding::Raw))
}

/// Returns the pieces of a header field's value if it contains columns. Other braces are left unchanged, because a
/// value can be JSON.
fn field_pieces(value: &str) -> Option<Vec<RequestPiece<NamedColumn>>> {
    let pieces = template::parse_pieces(value)?;
    let is_name = |piece: &Piece| match piece {
        Piece::Text(_) => true,
        Piece::Column { name, .. } => name.as_ref().is_none_or(|name| !name.contains(['"', ':', ','])),
    };
    (template::has_columns(&pieces) && pieces.iter().all(is_name))
        // Even an unescaped value must not end its field, because the list may come from anyone.
        .then(|| placed(pieces, ValueEncoding::Field, ValueEncoding::Field))
}

fn of_json(pieces: Vec<JsonPiece>) -> Vec<RequestPiece<NamedColumn>> {
    let placed = |piece| match piece {
        JsonPiece::Text(text) => RequestPiece::Text(text),
        JsonPiece::Column { name, is_raw: true, .. } => RequestPiece::Column(name, ValueEncoding::Raw),
        JsonPiece::Column { name, is_inside: true, .. } => {
            RequestPiece::Column(name, ValueEncoding::JsonText)
        }
        JsonPiece::Column { name, .. } => RequestPiece::Column(name, ValueEncoding::JsonValue),
    };
    pieces.into_iter().map(placed).collect()
}

/// Appends a value in the encoding that its placeholder requires. `value` is `None` if the record does not have the
/// column. The error explains why the value is not allowed in this placeholder.
pub(super) fn push_value(
    out: &mut String,
    place: ValueEncoding,
    value: Option<&str>,
    column: &str,
) -> std::result::Result<(), String> {
    let Some(value) = value else {
        if place == ValueEncoding::JsonValue {
            out.push_str("null");
            return Ok(());
        }
        return Err(format!("it has no column {column}"));
    };
    match place {
        ValueEncoding::Form => template::push_encoded(out, value),
        ValueEncoding::JsonText => json_template::push_escaped(out, value),
        ValueEncoding::JsonValue if json_template::is_plain(value) => out.push_str(value),
        ValueEncoding::JsonValue => {
            return Err(format!(
                "column {column} is not a number, true, false or null; for text, write quotes in \
                 --data-json: \"{{{column}}}\""
            ));
        }
        ValueEncoding::Field if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') => {
            return Err(format!("column {column} has control characters, which no header field can have"));
        }
        ValueEncoding::Raw | ValueEncoding::Field => out.push_str(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, place: ValueEncoding) -> RequestPiece<NamedColumn> {
        RequestPiece::Column((!name.is_empty()).then(|| name.into()), place)
    }

    fn text(text: &str) -> RequestPiece<NamedColumn> {
        RequestPiece::Text(text.into())
    }

    fn json(data: &str) -> RequestOptions {
        RequestOptions { data_json: Some(data.into()), ..RequestOptions::default() }
    }

    fn form(data: &str) -> RequestOptions {
        RequestOptions { data: Some(data.into()), ..RequestOptions::default() }
    }

    #[test]
    fn a_place_says_how_its_value_is_written() {
        let body = |options: RequestOptions| options.pieces().unwrap().body.unwrap();
        assert_eq!(
            body(form("a={}&b={b}&c={c!r}")),
            [
                text("a="),
                column("", ValueEncoding::Form),
                text("&b="),
                column("b", ValueEncoding::Form),
                text("&c="),
                column("c", ValueEncoding::Raw)
            ]
        );
        assert_eq!(
            body(json(r#"{"a": "x{a}", "n": {n}}"#)),
            [
                text(r#"{"a": "x"#),
                column("a", ValueEncoding::JsonText),
                text(r#"", "n": "#),
                column("n", ValueEncoding::JsonValue),
                text("}")
            ]
        );
    }

    #[test]
    fn a_value_stays_in_its_place() {
        for (place, value, written) in [
            (ValueEncoding::Form, "a&b=c d\r\n\u{e4}{", "a%26b%3Dc%20d%0D%0A%C3%A4%7B"),
            (
                ValueEncoding::JsonText,
                "\"}, \"x\": \"\\\r\n\u{1}\u{e4}",
                "\\\"}, \\\"x\\\": \\\"\\\\\\r\\n\\u0001\u{e4}",
            ),
            (ValueEncoding::JsonValue, "-1.5e3", "-1.5e3"),
            (ValueEncoding::JsonValue, "null", "null"),
            (ValueEncoding::Field, "a\tb: \u{e4}", "a\tb: \u{e4}"),
            (ValueEncoding::Raw, "a&b", "a&b"),
        ] {
            let mut out = String::new();
            push_value(&mut out, place, Some(value), "c").unwrap();
            assert_eq!(out, written);
        }
        for (place, value) in [
            (ValueEncoding::JsonValue, "1, \"x\": 2"),
            (ValueEncoding::JsonValue, "[1]"),
            (ValueEncoding::JsonValue, "01"),
            (ValueEncoding::JsonValue, ""),
            (ValueEncoding::Field, "a\r\nX: b"),
            (ValueEncoding::Field, "a\0"),
        ] {
            assert!(push_value(&mut String::new(), place, Some(value), "c").is_err(), "{value}");
        }
        let mut out = String::new();
        push_value(&mut out, ValueEncoding::JsonValue, None, "c").unwrap();
        assert_eq!(out, "null");
        assert!(push_value(&mut out, ValueEncoding::JsonText, None, "c").is_err());
    }

    #[test]
    fn the_method_follows_from_the_body() {
        assert_eq!(RequestOptions::default().method(), "GET");
        assert_eq!(form("a=b").method(), "POST");
        let put = RequestOptions { method: Some("put".into()), ..json("[]") };
        assert_eq!((put.method(), put.common_body().unwrap()), ("PUT".into(), Some(b"[]".to_vec())));
        assert!(!RequestOptions::default().is_custom());
        assert_eq!(json("{}").body_field(), Some(("Content-Type", JSON)));
        let said = RequestOptions { content_type: Some("text/xml".into()), ..form("<a/>") };
        assert_eq!(said.body_field(), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let both = RequestOptions { data: Some("a".into()), ..json("1") };
        let typed = RequestOptions { content_type: Some("text/xml".into()), ..form("<a>{a}</a>") };
        for options in [both, typed, form("{"), form("a}"), json("{"), json("{a}}"), json(r#"{"a": "{"}"#)] {
            assert_eq!(options.pieces().unwrap_err().exit_code(), 2, "{options:?}");
        }
        let raw = RequestOptions { content_type: Some("text/xml".into()), ..form("<a>{a!r}</a>") };
        assert!(raw.pieces().is_ok());
    }

    #[test]
    fn only_fields_with_columns_are_of_a_row() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![
            header("X-Id", "n {id}"),
            header("X-Json", "{\"a\": 1}"),
            header("X-Brace", "{"),
            header("Content-Type", "text/plain"),
        ];
        let mut options = RequestOptions::default();
        options.take_row_headers(&mut headers, |_| false);

        assert_eq!(headers.len(), 3);
        assert_eq!(options.headers.len(), 1);
        assert_eq!(options.content_type.as_deref(), Some("text/plain"));
        let fields = options.pieces().unwrap().fields;
        assert_eq!(fields, [("X-Id".into(), vec![text("n "), column("id", ValueEncoding::Field)], false)]);
        let raw = field_pieces("{id!r}").unwrap();
        assert_eq!(raw, [column("id", ValueEncoding::Field)]);
    }

    #[test]
    fn another_request_is_another_identity() {
        assert_eq!(RequestOptions::default().identity(), None);
        let first = form("a={a}").identity().unwrap();
        assert!(first.starts_with("POST ") && !first.contains("{a}"), "{first}");
        assert_ne!(Some(first), form("b={a}").identity());
    }

    #[test]
    fn a_range_needs_both_columns() {
        let offset = RequestOptions { offset_column: Some("o".into()), ..RequestOptions::default() };
        assert_eq!(offset.pieces().unwrap_err().exit_code(), 2);
        let both = RequestOptions { length_column: Some("l".into()), ..offset };
        let mut pieces = both.pieces().unwrap();
        assert_eq!(pieces.columns().map(|name| name.clone().unwrap()).collect::<Vec<_>>(), ["o", "l"]);
        assert!(both.is_custom() && both.is_bare_get() && both.has_columns().unwrap());
        let other = RequestOptions { length_column: Some("m".into()), ..both.clone() };
        assert_ne!(both.identity(), other.identity());
    }
}
